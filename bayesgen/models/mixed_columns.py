"""Densities of rows that mix two densities column by column, or a whole block at once."""

import dataclasses
from typing import Any

import numpy as np

from bayesgen.statistics import RowDensity


@dataclasses.dataclass(frozen=True)
class MixedColumns(RowDensity):
    """Columns that are independent given the class, each of which mixes two densities.

    Parameters: `log_first` and `log_second` (D,), the logs of the columns' weights; `first` and `second`, the
    parameters of the densities, arrays (K, D) and (1, D).
    """

    density: RowDensity

    def row_log_prob(self, parameters, values):
        """Log density of rows, (n, K): the sum over columns of the logs of the mixtures."""
        total: Any = 0.0
        by_column = values.tocsc() if hasattr(values, "tocsc") else values
        for column in range(values.shape[1]):
            own = by_column[:, [column]]
            own = own.toarray() if hasattr(own, "toarray") else own
            parts = [
                parameters[f"log_{name}"][column] + self._of_column(parameters[name], column, own)
                for name in ("first", "second")
            ]
            total = total + np.logaddexp(*parts)
        return total

    def _of_column(self, parameters, column, values):
        own = {name: value[:, column : column + 1] for name, value in parameters.items()}
        return self.density.row_log_prob(own, values)


@dataclasses.dataclass(frozen=True)
class MixedBlock(RowDensity):
    """A block that mixes two densities as a whole. Parameters as in `MixedColumns`, `log_first` a number."""

    density: RowDensity

    def row_log_prob(self, parameters, values):
        """Log density of rows, (n, K)."""
        parts = [
            parameters[f"log_{name}"] + self.density.row_log_prob(parameters[name], values)
            for name in ("first", "second")
        ]
        return np.logaddexp(*parts)


def mixed_predictive(first, second, log_first, log_second):
    """The density of one row whose parameters follow one family's posterior or another's.

    Where a family's parameters are probabilities, so are the mixture's, and mix likewise: then it costs what one
    density costs.

    Args:
        first, second: families of one type, of K classes and of one.
        log_first, log_second: logs of their weights, (D,), or numbers for a joint block.
    """
    (density, parameters), (_, others) = first.row_predictive(), second.row_predictive()
    if first.is_linear:
        (axes,) = first.parameter_axes().values()
        weight, other_weight = per_column(log_first, axes), per_column(log_second, axes)
        return density, {
            name: np.logaddexp(weight + logs, other_weight + others[name]) for name, logs in parameters.items()
        }
    rows = MixedBlock(density) if first.joint else MixedColumns(density)
    return rows, {"log_first": log_first, "log_second": log_second, "first": parameters, "second": others}


def per_column(weights, axes):
    """Shape weights (..., D) of columns, or one for a block, like a parameter with these axes."""
    weights = np.asarray(weights)
    if "feature" not in axes or weights.ndim == 0:
        return weights
    class_axis = axes.index("feature")
    trailing = len(axes) - class_axis - 1
    leading = weights.shape[:-1] + (1,) * class_axis
    return weights.reshape(*leading, weights.shape[-1], *(1,) * trailing)
