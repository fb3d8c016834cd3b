"""Missing cells in the rows of a program: which may be missing, and possible values in their place."""

from collections.abc import Collection

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from bayesgen.data import Rows
from bayesgen.errors import DataError
from bayesgen.statistics import SequenceDistribution, innermost
from bayesgen.typing import Array, Bool, Shaped

from .structure import Program, Site


def check_missing(program: Program, rows: Rows, predicted: Collection[str | None] = ()) -> None:
    """Refuse missing cells that cannot be marginalised.

    These are parts of events without marginals, time steps of one of several sequences in a row, and attributes that
    another one depends on.

    Args:
        program: the program.
        rows: the data.
        predicted: attributes to be predicted, which may be missing.

    Raises:
        DataError: naming the attribute or both, and the first such row.
    """
    for name, observed in rows.observed.items():
        site = program.structure.attribute[name]
        _check_events(name, site, observed)
        if site.steps is not None and site.steps.are_several and name in dict(program.plan.compressed):
            _check_steps(name, observed)
    if not rows.observed:
        return
    for name, parents in program.plan.dependences:
        for parent in parents:
            if parent not in predicted:
                _check_parent(rows, name, parent)


def _check_events(name: str, site: Site, observed: Bool[Array, "n ..."]) -> None:
    """Refuse events of which a part is missing."""
    axes = tuple(range(-site.event_axes, 0))
    if not axes:
        return
    parts = np.asarray(observed.any(axes) & ~observed.all(axes))
    if parts.any():
        raise DataError(
            f"Attribute {name!r} has events of which a part is missing, the first in row {_first_row(parts)}, and a "
            "part of such an event has no density of its own. Drop these rows, or let all of the event be missing."
        )


def _check_steps(name: str, observed: Bool[Array, "n ..."]) -> None:
    """Refuse missing time steps of a compressed site with several sequences a row."""
    wrong = np.asarray(~_by_row(observed).all(1))
    if wrong.any():
        raise DataError(
            f"Attribute {name!r} has several sequences a row, and steps of them are missing, the first in row "
            f"{_first_row(wrong)}. Sample each of them at a site of its own, or drop these rows."
        )


def _check_parent(rows: Rows, name: str, parent: str) -> None:
    """Refuse rows in which `name` is observed, and the attribute `parent` that it depends on is missing."""
    if parent not in rows.observed:
        return
    is_unknown = ~_by_row(rows.observed[parent]).all(1)
    is_needed = _by_row(rows.observed[name]).any(1) if name in rows.observed else np.ones(rows.num_rows, bool)
    wrong = np.asarray(is_unknown & is_needed)
    if wrong.any():
        raise DataError(
            f"Attribute {parent!r} is missing in {int(wrong.sum())} rows, the first is row {_first_row(wrong)}, and "
            f"the program makes {name!r} from it, whose probability is then not known. Drop these rows, or impute "
            f"{parent!r}; where {name!r} is missing too, both are left out."
        )


def _by_row(observed: Bool[Array, "n ..."]) -> Bool[np.ndarray, "n m"]:
    return np.asarray(observed).reshape(len(observed), -1)


def _first_row(rows: Bool[np.ndarray, "n ..."]) -> int:
    return int(np.argmax(_by_row(rows).any(1)))


def with_possible_values(
    distribution: dist.Distribution, values: Shaped[Array, "..."], observed: Bool[Array, "..."]
) -> Shaped[Array, "..."]:
    """The values of a site, missing ones replaced by some value in its support."""
    if isinstance(innermost(distribution), SequenceDistribution):
        return values  # the mask alone says which time steps are missing
    return jnp.where(observed, values, distribution.support.feasible_like(values))
