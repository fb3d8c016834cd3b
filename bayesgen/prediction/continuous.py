"""`ContinuousPrediction`: the distribution of a continuous label of new rows."""

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from bayesgen.describe import described, shortened
from bayesgen.errors import PredictionError
from bayesgen.predictives import PredictiveDistribution, joined_predictives
from bayesgen.records import by_content
from bayesgen.runtime import as_key, generator
from bayesgen.typing import Float, Seed, Shaped

if TYPE_CHECKING:
    import pandas as pd

FRAME_INTERVAL = 0.9


@by_content
class ContinuousPrediction:
    """The distribution of the continuous label y of n new rows.

    Attributes:
        outcomes: p(y | x) of each row.
        log_marginal: log p(x) by the rule; None where x is given and not modelled.
        standard_error: Monte Carlo standard error of each mean; None where it is exact.
        pareto_k: tail index of the weights of draws; see `ClassPrediction`. None where there are no weights.
        device: "cpu" or "gpu", where it was computed.
        index: the index of X if it is a pandas frame, which `to_frame` keeps; else None.

    >>> import bayesgen as bg
    >>> X, y = [[1.0], [2.0], [3.0], [4.0]], [2.1, 3.9, 6.2, 7.9]
    >>> fit = bg.fit(bg.JointGaussianRegression(), X, y, method=bg.Exact())
    >>> answer = bg.predict(fit, [[2.5], [3.5]], rule=bg.BMA())
    >>> answer.mean.round(1).tolist(), answer.quantile([0.25, 0.75]).shape, answer.draws(3).shape
    ([5.0, 6.6], (2, 2), (3, 2))
    """

    outcomes: PredictiveDistribution
    log_marginal: Float[np.ndarray, " n"] | None = None
    standard_error: Float[np.ndarray, " n"] | None = None
    pareto_k: Float[np.ndarray, " n"] | None = None
    device: str = "cpu"
    index: "pd.Index | None" = None

    def __len__(self) -> int:
        return self.outcomes.num_rows

    def __repr__(self) -> str:
        values, errors = self.mean, self.standard_error
        lines: dict[str, str | None] = {}
        if len(self):
            lines = {
                "means": f"{values.min():,.6g} to {values.max():,.6g}",
                "standard deviations": f"{self.std.min():,.6g} to {self.std.max():,.6g}",
                "standard error of the means": None if errors is None else f"at most {errors.max():.2g}",
                "next": "answer.mean, answer.interval(0.9), answer.log_density(y), answer.to_frame()",
            }
        return described(f"ContinuousPrediction of {len(self)} rows", lines)

    @functools.cached_property
    def mean(self) -> Float[np.ndarray, " n"]:
        """Means of p(y | x); NaN where there is none."""
        return np.asarray(self.outcomes.mean)

    @functools.cached_property
    def std(self) -> Float[np.ndarray, " n"]:
        """Standard deviations; infinite where there is none."""
        return np.asarray(self.outcomes.std)

    def quantile(self, q: ArrayLike) -> Float[np.ndarray, "n ..."]:
        """Quantiles of each row.

        Args:
            q: a probability in (0, 1), or (m,) of them.

        Returns:
            (n,), or (n, m).
        """
        probabilities = np.asarray(q, np.float64)
        if probabilities.ndim > 1 or not ((probabilities > 0) & (probabilities < 1)).all():
            raise PredictionError(f"quantile takes a probability between 0 and 1, or a list of them; got {q!r}.")
        if probabilities.ndim == 0:
            return np.asarray(self.outcomes.quantile(float(probabilities)))
        columns = [self.outcomes.quantile(float(probability)) for probability in probabilities]
        return np.stack(columns, -1) if columns else np.zeros((len(self), 0))

    def interval(self, prob: float = FRAME_INTERVAL) -> Float[np.ndarray, "n 2"]:
        """Central intervals of this probability, with equal probabilities below and above."""
        if not isinstance(prob, float | np.floating) or not 0 < prob < 1:
            raise PredictionError(f"interval takes a probability between 0 and 1, got {prob!r}.")
        return self.quantile([(1 - prob) / 2, (1 + prob) / 2])

    def cdf(self, y: ArrayLike) -> Float[np.ndarray, "... n"]:
        """P(y_i <= y | x_i): at a number, at one value a row (n,), or at several (m, n)."""
        return np.asarray(self.outcomes.cdf(self._values(y)))

    def log_density(self, y: ArrayLike) -> Float[np.ndarray, "... n"]:
        """log p(y | x_i): at a number, at one value a row (n,), or at several (m, n)."""
        return np.asarray(self.outcomes.log_density(self._values(y)))

    def crps(self, y: ArrayLike) -> Float[np.ndarray, " n"]:
        """The continuous ranked probability score of the observed y, in its units: the smaller the better.

        ∫ (F(u) − 1[u ≥ y])² du, a proper score (Gneiting & Raftery 2007, eq. 20), to a relative error of about 1e-8: at
        a number, or at one value a row (n,). It is infinite where y is, and NaN where y is.
        """
        values = self._values(y)
        if values.ndim > 1:
            raise PredictionError(f"crps takes a number, or one for each row; y has shape {values.shape}.")
        values = np.broadcast_to(values, (len(self),))
        is_finite = np.isfinite(values)
        scores = np.asarray(self.outcomes.crps(np.where(is_finite, values, 0.0)))
        return scores + np.where(is_finite, 0.0, np.abs(values))

    def draws(self, n: int, *, seed: Seed = 0) -> Float[np.ndarray, "draws n"]:
        """n draws of y for each row, independent of each other."""
        if not isinstance(n, int | np.integer) or isinstance(n, bool) or n < 1:
            raise PredictionError(f"draws takes a whole number of at least 1, got {n!r}.")
        return np.asarray(self.outcomes.draws(generator(as_key(seed)), int(n)))

    def to_frame(self) -> "pd.DataFrame":
        """A pandas frame: mean, standard deviation, median and the 90% interval of each row. It has the index of X."""
        import pandas as pd

        low, median, high = self.quantile([(1 - FRAME_INTERVAL) / 2, 0.5, (1 + FRAME_INTERVAL) / 2]).T
        columns = {"mean": self.mean, "std": self.std, "median": median, "lower": low, "upper": high}
        return pd.DataFrame(columns, index=self.index)

    def _values(self, y: ArrayLike) -> Float[np.ndarray, "..."]:
        values = _as_numbers(y)
        if values.ndim and values.shape[-1] != len(self):
            raise PredictionError(
                f"y has shape {values.shape}, and {len(self)} rows were predicted: give one number for each row, a "
                "number for all, or (m, n) for m values of each row."
            )
        return values


def _as_numbers(y: ArrayLike) -> Float[np.ndarray, "..."]:
    """Values of y as numbers; NaN is kept."""
    try:
        values = np.asarray(y)
        if values.dtype.kind in "iuf" or (values.dtype.kind == "O" and not _has_text(values)):
            return values.astype(np.float64)
    except (TypeError, ValueError):  # ragged lists, and objects that are not numbers
        pass
    raise PredictionError(
        f"y must be a number, one for each row, or (m, n) for m values of each row; got {shortened(repr(y))}."
    )


def _has_text(values: Shaped[np.ndarray, "..."]) -> bool:
    """Whether some objects are texts or truth values, which would be read as numbers."""
    return any(isinstance(value, str | bytes | bool | np.bool_) for value in values.ravel())


def joined_continuous_predictions(answers: Sequence[ContinuousPrediction]) -> ContinuousPrediction:
    """The prediction of all rows from those of successive chunks."""
    if len(answers) == 1:
        return answers[0]

    def join(name: str) -> Float[np.ndarray, " n"] | None:
        parts = [getattr(answer, name) for answer in answers]
        return None if parts[0] is None else np.concatenate(parts)

    return ContinuousPrediction(
        joined_predictives([answer.outcomes for answer in answers]),
        join("log_marginal"),
        join("standard_error"),
        join("pareto_k"),
        answers[0].device,
    )
