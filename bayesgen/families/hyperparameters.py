"""Hyperparameters: numbers, arrays, None or NumPyro distributions; their checks and their shapes."""

from typing import TYPE_CHECKING, Any, TypeAlias

import jax
import numpy as np
import numpyro.distributions as dist
from numpy.typing import ArrayLike

from bayesgen.errors import ModelError
from bayesgen.typing import ArrayOrNumber, Float

from .naming import Scale
from .pooling import Pooling

if TYPE_CHECKING:
    # a hyperparameter as users state it, for constructors, which check it themselves
    Stated: TypeAlias = ArrayLike | dist.Distribution | None
    # closed forms are reached by way of `Family.require_numbers`, so what they see is this
    Hyperparameter: TypeAlias = Float[ArrayOrNumber, "..."]
    TableShape: TypeAlias = tuple[int, ...]
else:
    Stated = Any
    Hyperparameter = Float[ArrayOrNumber, "..."] | dist.Distribution | None
    TableShape = tuple[int, ...] | None


# of constructors, where fields have other names
ARGUMENTS = {"location": "mean", "transition_concentration": "concentration", "initial_concentration": "initial"}


def check_positive(family: str, **values: Any) -> None:
    """Refuse hyperparameters that are not positive and finite, by name. None, distributions and tracers pass."""
    for name, value in values.items():
        if value is None or isinstance(value, dist.Distribution | jax.core.Tracer):
            continue
        array = np.asarray(value, np.float64)
        if not (np.isfinite(array) & (array > 0)).all():
            raise ModelError(f"{family}: the hyperparameter {name} must be positive and finite, got {value!r}.")


def as_number(value: Any) -> Any:
    """A hyperparameter as a float64 array; None, distributions and tracers pass."""
    if value is None or isinstance(value, dist.Distribution | jax.Array):
        return value
    return np.asarray(value, np.float64)


def broadcast(family: str, table: tuple[int, ...], /, **values: Any) -> dict[str, Any]:
    """Broadcast hyperparameters, under the names of the fields, to the shape of a table; distributions pass.

    Raises:
        ModelError: the first that has another shape, by name.
    """
    found = {}
    for name, value in values.items():
        try:
            found[name] = np.broadcast_to(value, table) if isinstance(value, np.ndarray) else value
        except ValueError:
            raise ModelError(
                f"{family}: the hyperparameter {ARGUMENTS.get(name, name)} has shape {value.shape}, and {table} is "
                "wanted: classes where there are any, then columns (y is one where it is modelled together with "
                "them), then axes of its own. Give a number, or an array that broadcasts to that shape."
            ) from None
    return found


def num_columns_of(family: str, **values: Any) -> int | None:
    """The columns of a family used alone, as its hyperparameters have them; None where all are single numbers.

    Raises:
        ModelError: where they have unlike ones, with all shapes.
    """
    shapes = {ARGUMENTS.get(name, name): np.shape(value) for name, value in values.items()}
    try:
        columns = np.broadcast_shapes(*shapes.values())
    except ValueError:
        told = ", ".join(f"{name} {shape}" for name, shape in shapes.items() if shape)
        raise ModelError(
            f"{family}: the hyperparameters have shapes that do not go together: {told}. Give each as a number, or an "
            "array with one entry for each column."
        ) from None
    return columns[-1] if columns else None


def check_classes(family: str, pooling: Pooling, means: tuple[int, ...], table: tuple[int, ...] | None) -> None:
    """Refuse statistics with axes before that of the classes, where classes share a variance: it sums over the first.

    Args:
        family: for the message.
        pooling: what is shared.
        means: shape of the statistics' means.
        table: that of the family's parameters; None where it is not resolved.

    Raises:
        ModelError: with both shapes.
    """
    if pooling.tied and table is not None and len(means) != len(table):
        raise ModelError(
            f"{family}: tied=True shares a variance over the classes of one data set, whose means have the shape "
            f"{table}, and these statistics have the shape {means}. Take data sets one by one, or by jax.vmap."
        )


def check_pooling(family: str, pooling: Pooling, scale: Scale) -> None:
    """Refuse to share a variance over an axis that is not there: that of classes, alone; that of columns."""
    if pooling.tied and scale.num_classes is None:
        raise ModelError(f"{family}: tied=True shares over classes, and used alone the family has none.")
    if pooling.spherical and scale.num_columns is None:
        raise ModelError(
            f"{family}: spherical=True shares over columns, and there is no column axis. Give rows (n, D), or an "
            "array (D,) for a hyperparameter."
        )
