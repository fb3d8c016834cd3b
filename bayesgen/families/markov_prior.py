"""The algebra of Dirichlet priors on what follows each context of a chain."""

import abc
import dataclasses
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Self

import numpy as np

from bayesgen.data import CodedSequences, Schema, SequenceOf, read_table
from bayesgen.distributions import Contexts, CountsAndRows, MarkovLikelihood, check_symbols, is_whole
from bayesgen.errors import FitError, ModelError
from bayesgen.records import fill, record, static
from bayesgen.statistics import Summary, Sums
from bayesgen.typing import Array, ArrayOrNumber, Bool, Float, Int

from .base import Key, Parameters
from .dirichlet import DirichletFamily
from .hyperparameters import ANONYMOUS, Names, Scale, Stated, refuse_mode

# Sequences that a family used alone is given, without a schema that knows their alphabet.

COLUMN = "data"


def symbols_of(data: Any, size: int | None, end: bool) -> tuple[Hashable, ...] | None:
    """The alphabet of data: the symbols seen, sorted; None where data are codes 0, 1, ... of a known number of symbols.

    Args:
        data: sequences.
        size: how many symbols a table has, without the end, where that is known.
        end: whether sequences have an end, which arrays of codes hold as one more code.

    Raises:
        ModelError: another number of symbols than that of the table; an array which may hold an end, or not.
    """
    is_array = isinstance(data, np.ndarray) and data.ndim == 2 and data.dtype.kind in "iuf"
    if is_array and size is not None:
        return None
    if is_array and end:
        raise ModelError(
            "An array of numbers does not tell which of them is the end, and whether all of its rows end. Give lists "
            "of symbols, all of which end; or state symbols=..., of which bayesgen.data.CodedSequences(array) has "
            "the codes, and then that of the end."
        )
    seen = tuple(_schema(data, None).categories[COLUMN])
    if size is None or len(seen) == size:
        return seen
    if set(seen) <= set(range(size)):
        return tuple(range(size))
    raise ModelError(
        f"The sequences have the symbols {seen!r}, and the table is one of {size}. State symbols=... in its order."
    )


def codes_of(
    data: Any, symbols: Sequence[Hashable] | None, size: int, end: bool
) -> tuple[Int[np.ndarray, "n T"], Bool[np.ndarray, "n T"] | None]:
    """The padded codes of sequences, and which steps are there; None where all are.

    Args:
        data: sequences.
        symbols: their alphabet; None where data are codes.
        size: how many symbols there are, without the end.
        end: whether sequences have an end.

    Raises:
        DataError: what is no sequence of these symbols.
    """
    cells = CodedSequences(data) if symbols is None else data
    schema = _schema(cells, range(size) if symbols is None else symbols, end)
    return schema.encode_cells(read_table({COLUMN: cells}), [COLUMN])


def _schema(data: Any, symbols: Sequence[Hashable] | None, end: bool = False) -> Schema:
    categories = {} if symbols is None else {COLUMN: tuple(symbols)}
    declared = Schema(kinds={COLUMN: SequenceOf(end=end)}, categories=categories)
    return declared.resolve(read_table({COLUMN: data}), None)


@record
class MarkovPrior(DirichletFamily, abc.ABC):
    """Concentrations (..., contexts, r), those of the start first. Abstract: see `DirichletMarkov`."""

    concentration: Any
    order: int = static()
    end: bool = static()
    symbols: tuple[Hashable, ...] | None = static()
    why_open = (
        "steps of its sequences are missing, so that what there is to count is not known. Use MLE(), MAP() or NUTS(), "
        "leave those rows out, or mark these sequences as missing altogether."
    )

    def __init__(
        self, order: int, concentration: Stated, *, end: bool = False, symbols: Sequence[Hashable] | None = None
    ) -> None:
        name = type(self).__name__
        if not is_whole(order) or order < 0:
            raise ModelError(f"{name}: the order must be a whole number from 0 on, got {order!r}.")
        super().__init__(concentration)
        if not isinstance(end, bool | np.bool_):
            raise ModelError(f"{name}: end says whether sequences have one: True or False, and got {end!r}.")
        alphabet = None if symbols is None else tuple(symbols)
        check_symbols(name, alphabet)
        fill(self, order=int(order), end=bool(end), symbols=alphabet)

    # --- the table of contexts ------------------------------------------------------------------------------------

    @property
    def num_values(self) -> int | None:
        """r, where the concentration has an entry for each symbol. One entry stands for all of them."""
        length = super().num_values
        return None if length == 1 and self.batch_shape is None else length

    def _known_length(self) -> int:
        """r, of a family used alone."""
        if self.symbols is not None:
            return len(self.symbols) + self.end
        self.require_numbers("a family used alone")
        if self.num_values is None:
            raise ModelError(
                "DirichletMarkov used alone cannot know the alphabet: give symbols, or concentration as an array with "
                "one entry for each symbol, or update with data first."
            )
        return self.num_values

    @property
    def contexts(self) -> Contexts:
        """The contexts, whose order is that of the rows of the table."""
        return self._contexts(self._known_length() if self.batch_shape is None else self.batch_shape[-1])

    def _contexts(self, num_symbols: int) -> Contexts:
        """The contexts of so many symbols, of which the end is the last, where there is one."""
        contexts = Contexts(self.order, num_symbols, num_symbols - 1 if self.end else None)
        contexts.check_size(type(self).__name__)
        return contexts

    @property
    def likelihood(self) -> MarkovLikelihood:
        """Counts of what follows each context."""
        return MarkovLikelihood(self.contexts)

    def _split(self, table: Float[ArrayOrNumber, "... contexts r"]) -> Parameters:
        """Rows of the start, and the others."""
        num_starts = self.contexts.num_starts
        parts = {"transition": table[..., num_starts:, :]}
        if self.order == 0:
            return parts
        return {"initial": table[..., 0, :] if self.order == 1 else table[..., :num_starts, :]} | parts

    def _joined(self, parameters: Mapping[str, Array]) -> Float[np.ndarray, "... contexts r"]:
        """The inverse of `_split`."""
        if self.order == 0:
            return np.asarray(parameters["transition"])
        initial = np.asarray(parameters["initial"])
        initial = initial[..., None, :] if self.order == 1 else initial
        return np.concatenate([initial, parameters["transition"]], -2)

    # --- closed forms ---------------------------------------------------------------------------------------------

    def _require_vector(self, verb: str) -> None:
        """Refuse what `require_numbers` does, and a table whose size is not known."""
        self.require_numbers(verb)
        self._table()

    def _table(self) -> Float[np.ndarray, "... contexts r"]:
        return self.concentration if self.batch_shape is not None else self.resolve(Scale()).concentration

    def _updated(self, summary: Any) -> Self:
        if not summary.is_complete:
            raise FitError(f"DirichletMarkov: the posterior has no closed form, because {self.why_open}")
        return super()._updated(summary)

    def _log_evidence(self, summary: Any) -> Float[ArrayOrNumber, "..."]:
        """Term by term: of each context."""
        if not summary.is_complete:
            raise FitError(f"DirichletMarkov: the evidence has no closed form, because {self.why_open}")
        return super()._log_evidence(dataclasses.replace(summary, log_base=np.zeros(())))

    def mean(self) -> Parameters:
        """Normalised concentrations."""
        self._require_vector("mean")
        table = self._table()
        return self._split(table / table.sum(-1, keepdims=True))

    def mode(self, names: Names = ANONYMOUS) -> Parameters:
        """(alpha - 1) / sum(alpha - 1), where every alpha >= 1; equal probabilities where all of a row are 1."""
        self._require_vector("mode")
        above = self._table() - 1
        total = above.sum(-1, keepdims=True)
        is_bad = (above < 0).any((-2, -1)) | (total <= 0).all((-2, -1))
        if is_bad.any():
            refuse_mode(
                names,
                is_bad,
                "a Dirichlet with a concentration below 1 is unbounded, with all of them 1 it is flat.",
                f"Give a concentration above 1, or use {names.averaging}.",
            )
        return self._split(_shares(above))

    def variance(self) -> Parameters:
        """p (1 - p) / (total + 1)."""
        self._require_vector("variance")
        total = self._table().sum(-1, keepdims=True)
        probs = self._table() / total
        return self._split(probs * (1 - probs) / (total + 1))

    def maximum_likelihood(self, summary: Sums, names: Names = ANONYMOUS) -> Parameters:
        """Relative frequencies; equal probabilities after a context that does not occur."""
        counts = summary.totals[0]
        is_empty = counts.sum((-2, -1)) == 0
        if is_empty.any():
            raise FitError(
                f"Block {names.block!r}: no symbol was counted at {names.where(is_empty)}, so maximum likelihood has "
                f"no estimate. Use {names.averaging}, or {names.advice.without_class}."
            )
        return self._split(_shares(counts))

    def sample(self, key: Key, shape: tuple[int, ...] = ()) -> Parameters:
        """Independent draws of the rows."""
        self._require_vector("sample")
        family = self if self.batch_shape is not None else self.resolve(Scale())
        return self._split(super(MarkovPrior, family).sample(key, shape)["probs"])

    def _log_prior(self, parameters: Mapping[str, Array]) -> float:
        return super()._log_prior({"probs": self._joined(parameters)})

    # --- rows that lack steps -------------------------------------------------------------------------------------

    def has_closed_form(self, summary: Summary) -> bool:
        """Not where steps are missing."""
        return summary.is_complete

    def initial_summary(self, summary: Summary, rng: np.random.Generator | None = None) -> Summary:
        """Counts that the prior and the whole rows lead to expect of the others."""
        if not isinstance(summary, CountsAndRows):
            return summary
        return self.e_step(summary, self.update(summary.counts).mean())

    def e_step(self, summary: Summary, parameters: Mapping[str, Array]) -> Summary:
        """Expected counts, of the missing steps too."""
        return self.e_step_with_log_likelihood(summary, parameters)[1]

    def e_step_with_log_likelihood(self, summary: Summary, parameters: Mapping[str, Array]) -> tuple[float, Summary]:
        """The log-likelihood, and `completed`. See `Family.expectation`."""
        assert isinstance(summary, Sums | CountsAndRows)
        return self.likelihood.e_step(self.likelihood_parameters(parameters), summary)

    def likelihood_parameters(self, parameters: Mapping[str, Array]) -> Parameters:
        """Log probabilities by context."""
        with np.errstate(divide="ignore"):
            return {"log_probs": np.log(self._joined(parameters))}


def _shares(counts: Float[Array, "... r"]) -> Float[Array, "... r"]:
    """Counts relative to their sums; equal shares where all are 0."""
    total = counts.sum(-1, keepdims=True)
    return np.where(total > 0, counts / np.where(total > 0, total, 1.0), 1 / counts.shape[-1])
