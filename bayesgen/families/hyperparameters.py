"""How families model columns: hyperparameters, their checks and shapes, shared variances, scales and names."""

import dataclasses
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import jax
import numpy as np
import numpyro.distributions as dist
from numpy.typing import ArrayLike

from bayesgen.errors import FitError, ModelError, as_numbers, check_flag
from bayesgen.statistics import any_known, namespace
from bayesgen.typing import Array, ArrayOrNumber, Bool, Float


@dataclasses.dataclass(frozen=True)
class Traits:
    """How a family models columns.

    Attributes:
        joint: whether the columns of a block are modelled jointly.
        scaled: whether the default hyperparameters need the training columns' means and variances.
        features: whether summaries hold features beside each column, along a last axis.
        covariate: name of the argument of `site_distribution` that the program takes besides the label, if any.
        sparse: whether columns may come as a scipy.sparse matrix.
        missing: whether some cells of a row may be missing, the others still having a density.
        completed: whether the predictive of a row with missing cells adds up their values, which is not traceable.
    """

    joint: bool = False
    scaled: bool = False
    features: bool = False
    covariate: str | None = None
    sparse: bool = False
    missing: bool = True
    completed: bool = False

    @property
    def row_shapes(self) -> dict[int, str]:
        """Number of axes -> the shape, in words, of rows that the family takes where it is used alone."""
        if self.features:
            return {2: "(n, F + 1), features and then y"}
        return {2: "(n, D)"} if self.joint else {1: "(n,)", 2: "(n, D)"}


@dataclasses.dataclass(frozen=True)
class Pooling:
    """Sharing of a table (..., K, D) of variances, by summing over the axes that share.

    Attributes:
        tied: one variance (or covariance) for all classes. Needs a class axis.
        spherical: one variance for all columns. Needs a column axis.
    """

    tied: bool = False
    spherical: bool = False

    def __post_init__(self) -> None:
        check_flag("tied", self.tied)
        check_flag("spherical", self.spherical)

    @property
    def axes(self) -> tuple[int, ...]:
        """The axes that share, counted from the end."""
        return (-2,) * self.tied + (-1,) * self.spherical

    def pool(self, table: Float[ArrayOrNumber, "..."]) -> Float[ArrayOrNumber, "..."]:
        """Sum over the axes that share, keeping them with length 1."""
        return table.sum(self.axes, keepdims=True) if self.axes else table

    def shape(self, batch_shape: tuple[int, ...]) -> tuple[int, ...]:
        """Shape of the shared table, with length 1 where an axis is shared."""
        shape = list(batch_shape)
        for axis in self.axes:
            shape[axis] = 1
        return tuple(shape)

    def members(self, batch_shape: tuple[int, ...]) -> int:
        """How many cells of the table share each entry."""
        return int(np.prod([batch_shape[axis] for axis in self.axes], dtype=int))

    def squeeze(self, table: Float[ArrayOrNumber, "..."]) -> Float[ArrayOrNumber, "..."]:
        """Drop the shared axes."""
        return table.squeeze(self.axes) if self.axes else table

    def expand(self, table: Float[ArrayOrNumber, "..."]) -> Float[ArrayOrNumber, "..."]:
        """Put the shared axes back, with length 1. Works on NumPy and JAX arrays."""
        if self.tied and self.spherical:
            return table[..., None, None]
        if self.tied:
            return table[..., None, :]
        return table[..., None] if self.spherical else table


@dataclasses.dataclass(frozen=True)
class Scale:
    """Shapes and moments of a block of columns, from which a family resolves its default hyperparameters.

    Attributes:
        num_classes: K, or None where a family is used alone.
        num_columns: D, or None for data without a column axis.
        num_categories: r, for categorical columns.
        edges, tails: those of the bins, for binned columns.
        num_states: S, where the columns are emissions of hidden states.
        mean, variance: those of the training columns (denominator N), where a family asks for them. A column that does
            not vary has the variance 0 where it is constant, and NaN or 0 where no cell of it is observed.
        feature_mean, feature_variance: those of the features that the columns depend on, where there are any.
    """

    num_classes: int | None = None
    num_columns: int | None = None
    num_categories: int | None = None
    mean: Float[ArrayOrNumber, "*D"] | None = None
    variance: Float[ArrayOrNumber, "*D"] | None = None
    feature_mean: Float[Array, "*#D F"] | None = None
    feature_variance: Float[Array, "*#D F"] | None = None
    edges: Float[np.ndarray, "D edges"] | None = None
    tails: Float[np.ndarray, "D 2"] | None = None
    num_states: int | None = None

    @property
    def num_features(self) -> int:
        """How many features columns depend on."""
        return 0 if self.feature_mean is None else self.feature_mean.shape[-1]

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """(K, D), without the axes that are absent; (K, S, D) where the columns are emissions of hidden states."""
        sizes = (self.num_classes, self.num_states, self.num_columns)
        return tuple(size for size in sizes if size is not None)


def default_variances(variance: Float[ArrayOrNumber, "*D"]) -> Float[ArrayOrNumber, "*D"]:
    """The variances that default priors of single columns take: 1 for a column that does not vary."""
    return namespace(variance).where(variance > 0, variance, 1.0)


def default_common_variance(variance: Float[ArrayOrNumber, "*D"]) -> Float[ArrayOrNumber, "*#D"]:
    """The variance that default priors shared by columns take: the mean over columns that vary; 1 where none does.

    A column that does not vary has no information on the units of the others.
    """
    xp, varies = namespace(variance), variance > 0
    number = varies.sum(-1, keepdims=True)
    total = xp.where(varies, variance, 0.0).sum(-1, keepdims=True)
    return xp.where(number > 0, total / xp.maximum(number, 1), 1.0)


@dataclasses.dataclass(frozen=True)
class Names:
    """The names of a block, its classes and its columns, and remedies, for messages.

    `classes` is None where tables have no axis of classes, and empty where they have the axis of one unnamed class.
    With `has_states`, an axis of hidden states follows that of the classes.

    Attributes:
        averaging: a method that averages over the posterior, and so needs no maximum of the likelihood.
        without_class: what to do about a class without observed data.
    """

    block: str = "data"
    classes: Sequence[Hashable] | None = None
    columns: Sequence[str] | None = None
    has_states: bool = False
    averaging: str = dataclasses.field(default="Exact()", repr=False)
    without_class: str = dataclasses.field(default="leave that class out", repr=False)

    @property
    def with_prior(self) -> str:
        """The methods that use the prior, for messages."""
        return f"MAP() or {self.averaging}"

    def class_name(self, index: tuple[int, ...]) -> str:
        """Name the class of an index tuple, or the data where there are no classes."""
        return f"class {self.classes[index[0]]!r}" if self.classes and index else "the data"

    def column_name(self, index: int) -> str:
        """Name a column."""
        return f"column {index if self.columns is None else self.columns[index]!r}"

    def where(self, bad: Bool[ArrayOrNumber, "..."]) -> str:
        """Say at which class and column a boolean array (K, D, ...), (K,), (D, ...) or () is first true.

        Where there are hidden states, their axis follows that of the classes.
        """
        index = tuple(int(i) for i in np.argwhere(bad)[0]) if np.ndim(bad) else ()
        words = []
        if self.classes is not None and index:
            words += [self.class_name(index)] if self.classes else []
            index = index[1:]
        if self.has_states and index:
            words, index = [*words, f"state {index[0]}"], index[1:]
        if index:
            words.append(self.column_name(index[0]))
        return ", ".join(words) or "the data"


ANONYMOUS = Names()


def check_counted(
    names: Names, is_empty: Bool[ArrayOrNumber, "..."], problem: str = "no cell is observed", remedy: str = ""
) -> None:
    """Refuse to maximise the likelihood of a table of parameters for some of which nothing counts.

    Args:
        names: for messages.
        is_empty: where nothing counts.
        problem: what is not there, for messages.
        remedy: what to use instead; by default a method that averages.

    Raises:
        FitError: naming the first place.
    """
    if any_known(is_empty):
        raise FitError(
            f"Block {names.block!r}: {problem} at {names.where(is_empty)}, so maximum likelihood has no estimate. Use "
            f"{remedy or names.averaging}, or {names.without_class}."
        )


def check_mode(names: Names, bad: Bool[ArrayOrNumber, "..."], why: str, remedy: str) -> None:
    """Refuse a mode that is unbounded or not unique.

    Raises:
        FitError: naming the first place.
    """
    if any_known(bad):
        raise FitError(f"Block {names.block!r} has no unique posterior mode at {names.where(bad)}: {why} {remedy}")


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


def argument_names(fields: Sequence[str]) -> str:
    """Hyperparameters under the names of the constructor's arguments."""
    return ", ".join(ARGUMENTS.get(name, name) for name in fields)


def check_positive(family: str, **values: Stated) -> None:
    """Refuse hyperparameters that are not positive and finite, by name. None, distributions and tracers pass."""
    for name, value in values.items():
        if value is None or isinstance(value, dist.Distribution | jax.core.Tracer):
            continue
        array = as_number(value, f"{family}: the hyperparameter {name}")
        if not (np.isfinite(array) & (array > 0)).all():
            raise ModelError(f"{family}: the hyperparameter {name} must be positive and finite, got {value!r}.")


def as_number(value: Any, name: str = "A hyperparameter") -> Any:
    """A hyperparameter as a float64 array; None, distributions and tracers pass."""
    if value is None or isinstance(value, dist.Distribution | jax.Array):
        return value
    return np.asarray(value, np.float64) if isinstance(value, float) else as_numbers(name, value)


def shown(value: object) -> str:
    """A hyperparameter in short: numbers as such, also where an array holds one alone, other arrays by shape."""
    if isinstance(value, np.ndarray | jax.Array):
        is_number = value.ndim == 0 or (
            isinstance(value, np.ndarray) and value.size > 0 and (value == value.flat[0]).all()
        )
        return f"{np.ravel(value)[0]:g}" if is_number else f"<array {value.shape}>"
    return type(value).__name__ if isinstance(value, dist.Distribution) else repr(value)


def broadcast(family: str, table: tuple[int, ...], /, **values: Any) -> dict[str, Any]:
    """Broadcast hyperparameters, under the names of the fields, to the shape of a table.

    Distributions stay as they are: what is drawn of them broadcasts to the table in the same way.

    Raises:
        ModelError: the first that has another shape, by name.
    """
    tables = {}
    for name, value in values.items():
        shape = value.shape() if isinstance(value, dist.Distribution) else np.shape(value)
        if not broadcasts_to(shape, table):
            raise ModelError(
                f"{family}: the hyperparameter {ARGUMENTS.get(name, name)} has shape {shape}, and {table} is "
                "wanted: classes where there are any, then columns (y is one where it is modelled together with "
                "them), then axes of its own. Give a number, or an array that broadcasts to that shape."
            )
        is_open = value is None or isinstance(value, dist.Distribution)
        tables[name] = value if is_open else namespace(value).broadcast_to(value, table)
    return tables


def broadcasts_to(shape: tuple[int, ...], table: tuple[int, ...]) -> bool:
    """Whether an array broadcasts to a table, axes being matched from the last one."""
    sizes = zip(reversed(shape), reversed(table), strict=False)
    return len(shape) <= len(table) and all(size in (1, table_size) for size, table_size in sizes)


def num_columns_of(family: str, **values: Any) -> int | None:
    """The columns of a family used alone, as its hyperparameters have them; None where all are single numbers.

    Raises:
        ModelError: where they have unlike ones, with all shapes.
    """
    shapes = {ARGUMENTS.get(name, name): np.shape(value) for name, value in values.items()}
    try:
        columns = np.broadcast_shapes(*shapes.values())
    except ValueError:
        listed = ", ".join(f"{name} {shape}" for name, shape in shapes.items() if shape)
        raise ModelError(
            f"{family}: the hyperparameters have shapes that do not go together: {listed}. Give each as a number, or "
            "an array with one entry for each column."
        ) from None
    return columns[-1] if columns else None


def check_pooling(family: str, pooling: Pooling, scale: Scale) -> None:
    """Refuse to share a variance over an axis of classes or columns that the parameters do not have."""
    if pooling.tied and scale.num_classes is None:
        raise ModelError(f"{family}: tied=True shares over classes, and used alone the family has none.")
    if pooling.spherical and scale.num_columns is None:
        raise ModelError(
            f"{family}: spherical=True shares over columns, and there is no column axis. Give rows (n, D), or an "
            "array (D,) for a hyperparameter."
        )
