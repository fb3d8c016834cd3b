"""What a family is told of its columns: their scale, for its defaults, and their names, for its messages."""

import dataclasses
from collections.abc import Hashable, Sequence
from typing import NoReturn

import numpy as np

from bayesgen.errors import FitError
from bayesgen.typing import Array, ArrayOrNumber, Bool, Float


@dataclasses.dataclass(frozen=True)
class Scale:
    """What a family needs to know of a block of columns to fill in its hyperparameters.

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
    return np.where(variance > 0, variance, 1.0)


def default_common_variance(variance: Float[ArrayOrNumber, "*D"]) -> Float[ArrayOrNumber, "*#D"]:
    """The variance that default priors shared by columns take: the mean over columns that vary; 1 where none does.

    A column that does not vary says nothing of the units of the others, so it adds nothing.
    """
    varies = variance > 0
    number = varies.sum(-1, keepdims=True)
    total = np.where(varies, variance, 0.0).sum(-1, keepdims=True)
    return np.where(number > 0, total / np.maximum(number, 1), 1.0)


@dataclasses.dataclass(frozen=True)
class Advice:
    """What messages recommend where the likelihood has no maximum.

    Attributes:
        averaging: a method that averages, which needs no maximum, and has an answer for the data.
        without_class: what to do about a class of which nothing is there.
    """

    averaging: str = "Exact()"
    without_class: str = "leave that class out"


@dataclasses.dataclass(frozen=True)
class Names:
    """The names by which messages speak of a block, its classes and its columns.

    Where there are no classes, `classes` is None; it is empty where a table has the axis of one class even so. After
    that of classes, tables have an axis of hidden states where `has_states` says so.
    """

    block: str = "data"
    classes: Sequence[Hashable] | None = None
    columns: Sequence[str] | None = None
    has_states: bool = False
    advice: Advice = dataclasses.field(default=Advice(), repr=False)

    @property
    def averaging(self) -> str:
        """The method that averages, and needs no maximum, for messages: where states are hidden, draws do."""
        return "NUTS()" if self.has_states else self.advice.averaging

    @property
    def with_prior(self) -> str:
        """The methods to which the prior says what data leave open, for messages."""
        return " or ".join(dict.fromkeys(["MAP()", self.averaging]))

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


def check_cells_of(names: Names, count: Float[ArrayOrNumber, "..."]) -> None:
    """Refuse to maximise the likelihood of a table of parameters for some of which no cell counts.

    Raises:
        FitError: naming the first place.
    """
    is_empty = np.asarray(count) == 0
    if is_empty.any():
        raise FitError(
            f"Block {names.block!r}: no cell is there at {names.where(is_empty)}, so maximum likelihood has no "
            f"estimate. Use {names.averaging}, or {names.advice.without_class}."
        )


def refuse_mode(names: Names, bad: Bool[ArrayOrNumber, "..."], why: str, remedy: str) -> NoReturn:
    """Raise the error of a mode that is unbounded or not unique."""
    raise FitError(f"Block {names.block!r} has no unique posterior mode at {names.where(bad)}: {why} {remedy}")
