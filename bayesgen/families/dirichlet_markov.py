"""Dirichlet-Markov: sequences of symbols, each of which depends on the k symbols before it."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Self

import numpy as np
import numpyro
import numpyro.distributions as dist
import scipy.sparse
import scipy.special

from bayesgen.data import Kind, Schema, SequenceOf, as_weights
from bayesgen.distributions import Contexts, CountsAndRows, MarkovChain, UrnChain, as_codes, is_whole
from bayesgen.errors import ModelError, PredictionError
from bayesgen.records import fill, record, static
from bayesgen.runtime import chunks
from bayesgen.statistics import Cells, RowDensity, Summary, namespace, sum_log_rising_of_cells
from bayesgen.typing import Array, Bool, Float, Int, Real

from .base import Parameters, shown
from .hyperparameters import Scale, Stated, broadcast
from .markov_prior import MarkovPrior, codes_of, symbols_of

# Densities of chains whose probabilities are integrated out: what follows a context twice in a row counts twice.

MOST_COMPLETIONS = 1 << 16  # of one sequence that lacks steps
CHUNK_STEPS = 1 << 18  # of sequences that are looked at together


@record
class DirichletMarkovDensity(RowDensity):
    """Chains with Dirichlet rows. Missing steps are summed out, completion by completion.

    Attributes:
        concentration: those of the contexts of each class.
        contexts: of the chain.
    """

    concentration: Float[Array, "K contexts r"]
    contexts: Contexts = static()

    def log_prob(self, values: Cells, observed: Bool[Array, "n T"] | None = None) -> Float[Array, "n K"]:
        """Log probability of each row under each class.

        Raises:
            PredictionError: a row that may be completed in more than MOST_COMPLETIONS ways.
        """
        if observed is None:
            return self._of_whole(values)
        rows, seen = np.asarray(values).astype(np.int64), np.asarray(observed)
        is_telling = seen.all(-1) | self.contexts.is_telling(rows, seen)  # the others have factor 1
        num_missing = np.where(is_telling, (~seen).sum(-1), -1)
        total = np.zeros((len(rows), len(self.concentration)))
        for number in np.unique(num_missing[num_missing >= 0]).tolist():
            self._check_number(number)
            places = np.flatnonzero(num_missing == number)
            size = CHUNK_STEPS // max(self.contexts.num_symbols**number * rows.shape[1], 1)
            for part in chunks(len(places), max(size, 1)):
                total[places[part]] = self._of_incomplete(rows[places[part]], seen[places[part]], number)
        return total

    def _check_number(self, number: int) -> None:
        num_symbols = self.contexts.num_symbols
        if num_symbols**number > MOST_COMPLETIONS:
            raise PredictionError(
                f"A sequence lacks {number} of its steps, each of which may be any of {num_symbols} symbols: the exact "
                f"predictive adds up at most {MOST_COMPLETIONS} completions. Use PlugIn(), or NUTS() and BMA(), which "
                "sum missing steps out one after another, or mark the sequence as missing altogether."
            )

    def _of_incomplete(
        self, rows: Int[np.ndarray, "n T"], seen: Bool[np.ndarray, "n T"], number: int
    ) -> Float[np.ndarray, "n K"]:
        """Of rows that lack so many steps: sums over what these may be."""
        if number == 0:
            return np.asarray(self._of_whole(rows))
        num_symbols, (num_rows, num_steps) = self.contexts.num_symbols, rows.shape
        options = np.indices((num_symbols,) * number).reshape(number, -1).T
        completed = np.repeat(rows[:, None], len(options), 1)
        lacking = np.nonzero(~seen)[1].reshape(num_rows, 1, number)
        np.put_along_axis(completed, lacking, options[None], -1)
        logs = np.asarray(self._of_whole(completed.reshape(-1, num_steps))).reshape(num_rows, len(options), -1)
        if self.contexts.end is not None:
            is_followed = (completed[..., :-1] == self.contexts.end) & (completed[..., 1:] >= 0)
            logs = np.where(is_followed.any(-1)[..., None], -np.inf, logs)
        return scipy.special.logsumexp(logs, axis=1)

    def _of_whole(self, values: Cells) -> Float[Array, "n K"]:
        """Of rows whose steps are all there."""
        if namespace(self.concentration, values) is not np:
            contexts = self.contexts
            chain = UrnChain(self.concentration, contexts.order, end=contexts.end, validate_args=False)
            return chain.log_prob(values[:, None])
        codes, inside = as_codes(values)
        alpha = np.asarray(self.concentration)
        total = np.zeros((len(codes), len(alpha)))
        for part in chunks(len(codes), max(CHUNK_STEPS // max(codes.shape[1], 1), 1)):
            drawn = self.contexts.counts_by_row(codes[part], inside[part])
            shape, places = (drawn.shape[0], self.contexts.size), drawn.indices // self.contexts.num_symbols
            urns = scipy.sparse.csr_array((drawn.data.copy(), places, drawn.indptr.copy()), shape=shape)
            for counts, starts in ((drawn, alpha.reshape(len(alpha), -1)), (urns, alpha.sum(-1))):
                counts.sum_duplicates()
                sums = sum_log_rising_of_cells(counts, starts, by_factorials=False)
                total[part] += sums if counts is drawn else -sums
        return total


MAX_LENGTH = 100  # of simulated sequences that would end by themselves


@record
class DirichletMarkov(MarkovPrior):
    """Sequences of symbols as Markov chains of order k, with a Dirichlet prior on what follows each context.

    Generative story, given the row's length T::

        initial[c], transition[c] ~ Dirichlet(concentration)    for each context c of fewer than k symbols, and of k
        x                         ~ MarkovChain(initial, transition, T)

    A row is a sequence: a string, or a list of symbols. Its statistic is the counts of k-grams: how often each symbol
    follows each context. The posterior, the evidence and the predictive are those of whole sequences, so orders may
    be compared, and averaged over, by evidence. In the predictive of one sequence its repeated k-grams count, as the
    parameters are the same throughout.

    Args:
        order: k; 0 for symbols that do not depend on each other.
        concentration: pseudo-counts, > 0; a scalar stands for equal ones. An array broadcasts to (contexts, r), or
            (classes, contexts, r): r symbols, the end last where there is one; contexts are those of fewer than k
            symbols first, the empty one, those of one symbol, and so on, and then those of k symbols, the latest
            symbol varying fastest. The end is in no context. A NumPyro distribution is a hyperprior, whose draws
            broadcast alike: one for each class has the shape (classes, 1, 1).
        end: whether a sequence ends because its end was drawn, as one more symbol: its length then tells of its
            class. Else densities and evidence condition on lengths.
        symbols: the alphabet, of a family used alone; in a model the schema has it. None: of a family used alone, the
            symbols that are seen first, sorted; or the codes 0..r-1 where the concentration is an array.
        max_length: where simulated sequences that have not ended are cut. Only where `end` is true.

    `MLE()` and `MAP()` give every symbol the same probability after a context that no row of a class has (and that
    has, for `MAP`, concentrations of 1): the likelihood is the same whatever it is. Where steps are missing, they
    learn by EM, `NUTS()` sums the missing steps out, and `Exact()` refuses: counts are then not known. The exact
    predictive of a row that lacks steps adds up its completions, if they are no more than 65,536; beyond it refuses.

    Raises:
        ModelError: an order that is no whole number from 0; a table of contexts that is too large; no symbols, or
            some that are the same; an `end` that is not true or false; a `max_length` that is no whole number.

    Source: MacKay and Peto (1995), A hierarchical Dirichlet language model, section 2.

    >>> posterior = DirichletMarkov(1).update(["anna", "hanna", "nan"])
    >>> posterior.symbols
    ('a', 'h', 'n')
    >>> posterior.mean()["transition"].round(2).tolist()  # after a, h and n
    [[0.17, 0.17, 0.67], [0.5, 0.25, 0.25], [0.5, 0.12, 0.38]]
    """

    max_length: int = static()
    kind = "sequence"

    def __init__(
        self,
        order: int = 1,
        concentration: Stated = 1.0,
        *,
        end: bool = False,
        symbols: Sequence[Hashable] | None = None,
        max_length: int = MAX_LENGTH,
    ) -> None:
        super().__init__(order, concentration, end=end, symbols=symbols)
        if not is_whole(max_length) or max_length < 1:
            raise ModelError(f"DirichletMarkov: max_length must be a whole number from 1 on, got {max_length!r}.")
        fill(self, max_length=max_length)

    def __repr__(self) -> str:
        stated = [f"{self.order}", f"concentration={shown(self.concentration)}", f"end={self.end}"]
        stated += [] if self.symbols is None else [f"symbols={self.symbols!r}"]
        return f"DirichletMarkov({', '.join(stated)})"

    def kind_of_column(self, index: int) -> Kind:
        """Sequences of symbols, with an end or without."""
        return SequenceOf(end=self.end)

    # --- the table of contexts ------------------------------------------------------------------------------------

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
        of_classes = scale.batch_shape[: scale.num_classes is not None]
        table = (*of_classes, self._contexts(length).size, length)
        if isinstance(self.concentration, dist.Distribution):  # whose draws are arrays like others
            broadcast("DirichletMarkov", table, concentration=np.empty(self.concentration.shape()))
        return self._resolved(table[:-1], length)

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

    def summarize(self, values: Any, weights: Array | None = None) -> Summary:
        """Summarise sequences: strings, lists of symbols, or a padded array of codes."""
        size = self.contexts.num_symbols - self.end
        symbols = self.symbols if self.symbols is not None else symbols_of(values, size, self.end)
        codes, observed = codes_of(values, symbols, size, self.end)
        weights = as_weights(weights, len(codes), "weights")
        return self.likelihood.summarize(codes, np.zeros(len(codes), np.int64), 1, weights, observed).of_class(0)

    def scale_of(self, summary: Any) -> Scale:
        """The number of symbols is the length of the totals."""
        whole = summary.counts if isinstance(summary, CountsAndRows) else summary
        return Scale(num_categories=whole.totals[0].shape[-1])

    def predictive(self, length: int | Int[Array, "..."] | None = None) -> dist.Distribution:
        """The distribution of one new sequence of this length, its repeated k-grams being drawn from the same rows."""
        family = self.closed("predictive")
        longest = self.max_length if self.end and length is None else None
        end, symbols = self.contexts.end, None if self.end else self.symbols  # the end is no symbol of the user's
        return UrnChain(family.concentration, self.order, length, end, max_length=longest, symbols=symbols)

    def _implied_scale(self) -> Scale:
        return Scale()

    # --- in a model -----------------------------------------------------------------------------------------------

    @property
    def covariate(self) -> str | None:  # type: ignore[override]
        """The lengths of sequences, where they do not end by themselves."""
        return None if self.end else "length"

    def sample_sites(self, name: str) -> Parameters:
        """Sample `{name}_initial`, unless the order is 0, and `{name}_transition`."""
        table = namespace(self.concentration).broadcast_to(self.concentration, self.batch_shape)
        return {
            parameter: numpyro.sample(f"{name}_{parameter}", dist.Dirichlet(alpha).to_event(alpha.ndim - 1))
            for parameter, alpha in self._split(table).items()
        }

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
        """The exact predictive of whole sequences."""
        return DirichletMarkovDensity(self.concentration, self.contexts)

    def parameter_axes(self) -> dict[str, tuple[str, ...]]:
        """initial: (class, symbol), from order 2 on (class, start, symbol); transition: (class, context, symbol)."""
        axes: dict[str, tuple[str, ...]] = {"transition": ("class", "context", "symbol")}
        if self.order == 0:
            return axes
        return {"initial": ("class", "symbol") if self.order == 1 else ("class", "start", "symbol")} | axes

    def axis_names(self, schema: Schema, columns: Sequence[str]) -> dict[str, Sequence[Any]]:
        """Symbols, "$" for the end; contexts as they are written, those of the start after "^"."""
        symbols = [str(symbol) for symbol in schema.categories[columns[0]]] + ["$"] * self.end
        contexts = self._contexts(len(symbols))
        names = contexts.names(symbols)
        starts, whole = names[: contexts.num_starts], names[contexts.num_starts :]
        return {"symbol": symbols, "start": starts, "context": whole}
