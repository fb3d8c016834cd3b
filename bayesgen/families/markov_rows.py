"""Densities of chains whose probabilities are integrated out: what follows a context twice in a row counts twice."""

import numpy as np
import scipy.sparse
import scipy.special

from bayesgen.distributions import Contexts, UrnChain, as_codes
from bayesgen.errors import PredictionError
from bayesgen.records import record, static
from bayesgen.runtime import chunks
from bayesgen.statistics import Cells, RowDensity, namespace, sum_log_rising_of_cells
from bayesgen.typing import Array, Bool, Float, Int

MOST_COMPLETIONS = 1 << 16  # of one sequence that lacks steps
CHUNK_STEPS = 1 << 18  # of sequences that are looked at together


@record
class DirichletMarkovRows(RowDensity):
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
