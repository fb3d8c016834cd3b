"""Dirichlet-Markov: sequences of symbols, each of which depends on the k symbols before it."""

import dataclasses
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Self

import numpy as np
import numpyro.distributions as dist
import scipy.sparse
import scipy.special

from bayesgen.data import CodedSequences, Kind, Schema, SequenceOf, as_weights, read_table
from bayesgen.errors import ModelError, PredictionError, as_list, check_flag, check_integer
from bayesgen.families import (
    ANONYMOUS,
    DirichletFamily,
    IncompleteFamily,
    Names,
    ParameterTables,
    Scale,
    Stated,
    Traits,
    check_counted,
    check_unique,
    default_family,
    shares,
    shown,
)
from bayesgen.records import fill, record, static
from bayesgen.runtime import CACHED_CELLS, chunks
from bayesgen.statistics import Cells, RowDensity, Summary, Sums, check_symbols, namespace, sum_log_rising_of_cells
from bayesgen.typing import Array, ArrayOrNumber, Bool, Category, Float, Int, Real, Values

from .contexts import Contexts, integer_codes
from .markov_chain import MarkovChain, UrnChain
from .markov_likelihood import CountsAndRows, MarkovLikelihood

COLUMN = "data"


def symbols_of(data: Values, size: int | None, end: bool) -> tuple[Hashable, ...] | None:
    """The alphabet of data: its symbols, sorted; None where data are codes 0, 1, ... of a known number of symbols.

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
    symbols = tuple(_schema(data, None).categories[COLUMN])
    if size is None or len(symbols) == size:
        return symbols
    if set(symbols) <= set(range(size)):
        return tuple(range(size))
    raise ModelError(
        f"The sequences have the symbols {symbols!r}, and the table is one of {size}. State symbols=... in its order."
    )


def _schema(data: Values, symbols: Sequence[Hashable] | None, end: bool = False) -> Schema:
    categories = {} if symbols is None else {COLUMN: tuple(symbols)}
    declared = Schema(kinds={COLUMN: SequenceOf(end=end)}, categories=categories)
    return declared.resolve(read_table({COLUMN: data}), None)


MOST_COMPLETIONS = 1 << 16  # of one sequence with missing time steps


@record
class DirichletMarkovDensity(RowDensity):
    """Markov chains with Dirichlet probabilities, integrated out: a Polya urn for each context.

    Missing time steps are marginalised by adding up all completions.

    Attributes:
        concentration: of the contexts of each class.
        contexts: of the chain.
    """

    concentration: Float[Array, "K contexts r"]
    contexts: Contexts = static()

    def log_prob(self, values: Cells, observed: Bool[Array, "n T"] | None = None) -> Float[Array, "n K"]:
        if observed is None:
            return self._complete_log_prob(values)
        rows, mask = np.asarray(values).astype(np.int64), np.asarray(observed)
        is_needed = mask.all(-1) | self.contexts.is_informative(rows, mask)  # the others have factor 1
        num_missing = np.where(is_needed, (~mask).sum(-1), -1)
        total, num_symbols = np.zeros((len(rows), len(self.concentration))), self.contexts.num_symbols
        for number in np.unique(num_missing[num_missing >= 0]).tolist():
            if num_symbols**number > MOST_COMPLETIONS:
                raise PredictionError(
                    f"A sequence lacks {number} of its steps, each of which may be any of {num_symbols} symbols: the "
                    f"exact predictive adds up at most {MOST_COMPLETIONS} completions. Use PlugIn(), or NUTS() and "
                    "BMA(), which sum missing steps out one after another, or mark the sequence as missing altogether."
                )
            row_numbers = np.flatnonzero(num_missing == number)
            size = CACHED_CELLS // max(num_symbols**number * rows.shape[1], 1)
            for part in chunks(len(row_numbers), max(size, 1)):
                total[row_numbers[part]] = self._marginalised(rows[row_numbers[part]], mask[row_numbers[part]], number)
        return total

    def _marginalised(
        self, rows: Int[np.ndarray, "n T"], observed: Bool[np.ndarray, "n T"], number: int
    ) -> Float[np.ndarray, "n K"]:
        """Log probabilities of rows with this number of missing time steps, by adding up all completions."""
        if number == 0:
            return np.asarray(self._complete_log_prob(rows))
        num_symbols, (num_rows, num_steps) = self.contexts.num_symbols, rows.shape
        options = np.indices((num_symbols,) * number).reshape(number, -1).T
        completed = np.repeat(rows[:, None], len(options), 1)
        lacking = np.nonzero(~observed)[1].reshape(num_rows, 1, number)
        np.put_along_axis(completed, lacking, options[None], -1)
        logs = np.asarray(self._complete_log_prob(completed.reshape(-1, num_steps))).reshape(num_rows, len(options), -1)
        if self.contexts.end is not None:
            is_followed = (completed[..., :-1] == self.contexts.end) & (completed[..., 1:] >= 0)
            logs = np.where(is_followed.any(-1)[..., None], -np.inf, logs)
        return scipy.special.logsumexp(logs, axis=1)

    def _complete_log_prob(self, values: Cells) -> Float[Array, "n K"]:
        """Log probabilities of complete rows."""
        if namespace(self.concentration, values) is not np:
            contexts = self.contexts
            chain = UrnChain(self.concentration, contexts.order, end=contexts.end, validate_args=False)
            return chain.log_prob(values[:, None])
        codes, inside = integer_codes(values)
        alpha = np.asarray(self.concentration)
        total = np.zeros((len(codes), len(alpha)))
        for part in chunks(len(codes), max(CACHED_CELLS // max(codes.shape[1], 1), 1)):
            drawn = self.contexts.counts_by_row(codes[part], inside[part])
            shape, entry_contexts = (drawn.shape[0], self.contexts.size), drawn.indices // self.contexts.num_symbols
            urns = scipy.sparse.csr_array((drawn.data.copy(), entry_contexts, drawn.indptr.copy()), shape=shape)
            for counts, starts in ((drawn, alpha.reshape(len(alpha), -1)), (urns, alpha.sum(-1))):
                counts.sum_duplicates()
                sums = sum_log_rising_of_cells(counts, starts, np.log(starts), by_factorials=False)
                total[part] += sums if counts is drawn else -sums
        return total


LONGEST_SIMULATED = 100  # of simulated sequences that have not ended


@record
class DirichletMarkov(IncompleteFamily, DirichletFamily):
    """Sequences of symbols as Markov chains of order k, with a Dirichlet prior on what follows each context.

    Generative story, given the row's length T::

        initial[c], transition[c] ~ Dirichlet(concentration)    for each context c of fewer than k symbols, and of k
        x                         ~ MarkovChain(initial, transition, T)

    A row is a sequence: a string, or a list of symbols. The sufficient statistics are counts of how often each symbol
    follows each context. Evidences are those of whole sequences, so orders may be compared, and averaged over, by
    evidence. The predictive of a sequence is a Polya urn: each symbol that follows a context adds to its counts.

    Args:
        order: k; 0 for symbols that do not depend on each other.
        concentration: pseudo-counts, > 0; a scalar means equal ones. An array broadcasts to (contexts, r), or
            (classes, contexts, r): r symbols, the end last where there is one; contexts are those of fewer than k
            symbols first, the empty one, those of one symbol, and so on, and then those of k symbols, the latest
            symbol varying fastest. The end is in no context. A NumPyro distribution is a hyperprior, whose draws
            broadcast alike: one for each class has the shape (classes, 1, 1).
        end: whether the end of a sequence is drawn like one more symbol, so that lengths depend on the class. Else
            densities and evidence condition on lengths.
        symbols: the alphabet of a family used alone; in a model the schema has it. None takes the symbols of the first
            data, sorted, or the codes 0..r-1 where the concentration is an array.
        max_length: where simulated sequences that have not ended are cut. Only where `end` is true.

    `MLE()` and `MAP()` give all symbols the same probability after a context that no row of a class has (and that has,
    for `MAP`, concentrations of 1), because the likelihood does not depend on it. With missing time steps they learn by
    EM, `NUTS()` marginalises these steps, and `Exact()` refuses, because counts are not known. The exact predictive of
    a row with missing time steps adds up all its completions, and refuses more than 65,536 of them.

    Raises:
        ModelError: an order that is not a whole number from 0; a table of contexts that is too large; no symbols or
            repeated ones; an `end` that is not true or false; a `max_length` that is not a whole number from 1.

    Source: MacKay and Peto (1995), A hierarchical Dirichlet language model, section 2.

    >>> posterior = DirichletMarkov(1).update(["anna", "hanna", "nan"])
    >>> posterior.symbols
    ('a', 'h', 'n')
    >>> posterior.mean()["transition"].round(2).tolist()  # after a, h and n
    [[0.17, 0.17, 0.67], [0.5, 0.25, 0.25], [0.5, 0.12, 0.38]]
    """

    concentration: Any
    order: int = static()
    end: bool = static()
    symbols: tuple[Hashable, ...] | None = static()
    max_length: int = static()
    kind = SequenceOf()
    why_no_closed_form = (
        "steps of its sequences are missing, so that what there is to count is not known. Use MLE(), MAP() or NUTS(), "
        "leave those rows out, or mark these sequences as missing altogether."
    )

    def __init__(
        self,
        order: int = 1,
        concentration: Stated = 1.0,
        *,
        end: bool = False,
        symbols: Sequence[Hashable] | None = None,
        max_length: int = LONGEST_SIMULATED,
    ) -> None:
        check_integer("DirichletMarkov: order", order, 0)
        super().__init__(concentration)
        check_flag("DirichletMarkov: end", end)
        if symbols is not None and not isinstance(symbols, str):
            symbols = as_list("DirichletMarkov: symbols", symbols, "symbols", ModelError)
        alphabet = None if symbols is None else tuple(symbols)
        check_symbols("DirichletMarkov", alphabet)
        check_integer("DirichletMarkov: max_length", max_length, 1)
        fill(self, order=int(order), end=bool(end), symbols=alphabet, max_length=max_length)

    def __repr__(self) -> str:
        stated = [f"{self.order}", f"concentration={shown(self.concentration)}", f"end={self.end}"]
        stated += [] if self.symbols is None else [f"symbols={self.symbols!r}"]
        return f"DirichletMarkov({', '.join(stated)})"

    def kind_of_column(self, index: int) -> Kind:
        """Sequences of symbols, with an end or without."""
        return SequenceOf(end=self.end)

    # --- the table of contexts ------------------------------------------------------------------------------------

    @property
    def num_values(self) -> int | None:
        """r, where the concentration has an entry for each symbol; None where one entry is for all of them."""
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
        """The contexts for this number of symbols, the last of which is the end, if there is one."""
        contexts = Contexts(self.order, num_symbols, num_symbols - 1 if self.end else None)
        contexts.check_size(type(self).__name__)
        return contexts

    @property
    def likelihood(self) -> MarkovLikelihood:
        return MarkovLikelihood(self.contexts)

    def _split(self, table: Float[ArrayOrNumber, "... contexts r"]) -> ParameterTables:
        """Rows of the start, and the others."""
        num_starts = self.contexts.num_starts
        parts = {"transition": table[..., num_starts:, :]}
        if self.order == 0:
            return parts
        return {"initial": table[..., 0, :] if self.order == 1 else table[..., :num_starts, :]} | parts

    def _joined(self, parameters: Mapping[str, Array]) -> Float[Array, "... contexts r"]:
        """The inverse of `_split`."""
        transition = parameters["transition"]
        if self.order == 0:
            return transition
        initial = parameters["initial"][..., None, :] if self.order == 1 else parameters["initial"]
        return namespace(transition).concatenate([initial, transition], -2)

    def resolve(self, scale: Scale) -> Self:
        """Broadcast to (K, contexts, r)."""
        if (scale.num_columns or 1) > 1:
            raise ModelError(
                f"DirichletMarkov models one column of sequences, and its block has {scale.num_columns}. Put each "
                "into a block of its own, as NaiveBayes does, or model them together by DirichletHiddenMarkov."
            )
        length = scale.num_categories
        if length is None:
            length = self._known_length()
        elif self.symbols is not None and len(self.symbols) + self.end != length:
            raise ModelError(
                f"DirichletMarkov: {len(self.symbols)} symbols are stated, and its column has {length - self.end}. "
                "Declare the alphabet of a column once, by Schema(categories={column: symbols})."
            )
        class_shape = scale.batch_shape[: scale.num_classes is not None]
        return self._resolved((*class_shape, self._contexts(length).size), length)

    # --- closed forms ---------------------------------------------------------------------------------------------

    def _table(self, verb: str) -> Float[Array, "... contexts r"]:
        return self.closed(verb).concentration

    def _log_evidence(self, summary: Any) -> Float[ArrayOrNumber, "..."]:
        """Term by term: of each context."""
        return super()._log_evidence(dataclasses.replace(summary, log_base=np.zeros(())))

    def mode(self, names: Names = ANONYMOUS) -> ParameterTables:
        """(alpha - 1) / sum(alpha - 1), where every alpha >= 1; equal probabilities where all of a row are 1."""
        weights = self._table("mode") - 1
        check_unique(names, "transition", weights.reshape(*weights.shape[:-2], -1))
        return self._split(shares(weights, 1 / weights.shape[-1]))

    def maximum_likelihood(self, summary: Sums, names: Names = ANONYMOUS) -> ParameterTables:
        """Relative frequencies; equal probabilities after a context that does not occur."""
        counts = summary.totals[0]
        check_counted(names, counts.sum((-2, -1)) == 0, "no symbol was counted")
        return self._split(shares(counts, 1 / counts.shape[-1]))

    # --- missing time steps: EM -----------------------------------------------------------------------------------

    def initial_summary(self, summary: CountsAndRows, rng: np.random.Generator | None = None) -> Summary:
        """Expected counts at the posterior means given the complete rows."""
        return self.e_step(summary, self.update(summary.counts).mean())[1]

    def e_step(self, summary: CountsAndRows, parameters: Mapping[str, Array]) -> tuple[float, Summary]:
        """Expected counts, missing time steps included."""
        return self.likelihood.e_step(self.likelihood_parameters(parameters), summary)

    # --- used alone -----------------------------------------------------------------------------------------------

    def _prepared(self, data: Any, weights: Array | None, verb: str) -> tuple[Self, Summary]:
        if self.hierarchical:
            self.require_numbers(verb)
        family = self
        if not isinstance(data, Summary) and self.symbols is None:
            num_values = None if self.batch_shape is None else self.batch_shape[-1]
            num_values = self.num_values if num_values is None else num_values
            size = None if num_values is None else num_values - self.end
            family = self.replace(symbols=symbols_of(data, size, self.end))
        return super(DirichletMarkov, family)._prepared(data, weights, verb)

    def summarize(self, values: Values, weights: Array | None = None) -> Summary:
        """Summarise sequences: strings, lists of symbols, or a padded array of codes.

        Raises:
            DataError: cells that are not sequences of the family's symbols.
        """
        size = self.contexts.num_symbols - self.end
        symbols = self.symbols if self.symbols is not None else symbols_of(values, size, self.end)
        cells = CodedSequences(values) if symbols is None else values
        schema = _schema(cells, range(size) if symbols is None else symbols, self.end)
        codes, observed = schema.encode_cells(read_table({COLUMN: cells}), [COLUMN])
        weights = as_weights(weights, len(codes), "weights")
        return self.likelihood.summarize(codes, np.zeros(len(codes), np.int64), 1, weights, observed).select_class(0)

    def scale_of(self, summary: Any) -> Scale:
        return Scale(num_categories=summary.totals[0].shape[-1])

    def predictive(self, length: int | Int[Array, "..."] | None = None) -> dist.Distribution:
        """The distribution of a new sequence of this length: a Polya urn for each context."""
        family = self.closed("predictive")
        longest = self.max_length if self.end and length is None else None
        end, symbols = self.contexts.end, None if self.end else self.symbols  # the end is no symbol of the user's
        return UrnChain(family.concentration, self.order, length, end, max_length=longest, symbols=symbols)

    def _implied_scale(self) -> Scale:
        return Scale()

    # --- in a model -----------------------------------------------------------------------------------------------

    @property
    def traits(self) -> Traits:  # type: ignore[override]
        """The lengths of sequences, where they do not end by themselves, are a covariate."""
        return Traits(covariate=None if self.end else "length", completed=True)

    def site_distribution(
        self, parameters: Mapping[str, Array], labels: Int[Array, "*n"], length: Real[Array, "*n"] | None = None
    ) -> dist.Distribution:
        """Chains of these lengths, a covariate of the program, or until they end."""
        return MarkovChain(
            parameters.get("initial"),
            parameters["transition"],
            length,
            self.contexts.end,
            order=self.order,
            max_length=self.max_length if self.end else None,
            which=labels,
        )

    def row_predictive(self) -> RowDensity:
        return DirichletMarkovDensity(self.concentration, self.contexts)

    def parameter_axes(self) -> dict[str, tuple[str, ...]]:
        """initial: (class, symbol), from order 2 on (class, start, symbol); transition: (class, context, symbol)."""
        axes: dict[str, tuple[str, ...]] = {"transition": ("class", "context", "symbol")}
        if self.order == 0:
            return axes
        return {"initial": ("class", "symbol") if self.order == 1 else ("class", "start", "symbol")} | axes

    def axis_names(self, schema: Schema, columns: Sequence[str]) -> dict[str, Sequence[Category]]:
        """Symbols, "$" for the end; contexts as they are written, those of the start after "^"."""
        symbols = [str(symbol) for symbol in schema.categories[columns[0]]] + ["$"] * self.end
        contexts = self._contexts(len(symbols))
        names = contexts.names(symbols)
        starts, full = names[: contexts.num_starts], names[contexts.num_starts :]
        return {"symbol": symbols, "start": starts, "context": full}


default_family.register(SequenceOf, lambda kind, is_sparse: DirichletMarkov(end=kind.end) if kind.of_symbols else None)
