"""`AverageResponseFit`: an average of fits with a continuous label."""

from typing import Any, Literal

import numpy as np
import scipy.special

from bayesgen.data import read_table
from bayesgen.errors import PredictionError
from bayesgen.posteriors import At
from bayesgen.prediction import BMA, ContinuousPrediction, PlugIn, Rule, answer
from bayesgen.predictives import MixturePredictive
from bayesgen.records import by_content
from bayesgen.typing import Float, Int

from .fit import AverageFit


@by_content
class AverageResponseFit(AverageFit):
    """An average of fits with a continuous label.

    By `PlugIn()` it predicts as the best member does, by `BMA()` with the mixture of what the members say: each weighs
    by its weight and, where it models x, by p(x), so that p(y | x) = sum_m weight_m p_m(x, y) / sum_m weight_m p_m(x).
    Weights that were learned on rows left out are those of p_m(y | x) itself.
    """

    def log_joint(
        self, X: Any, at: At | Literal["draws"] = "mean", rows: Int[np.ndarray, " m"] | None = None
    ) -> Float[np.ndarray, "*draws n K"]:
        """Refused: members may model other columns."""
        raise PredictionError(
            "An average of fits with a continuous label has no table of log-joints. Ask for "
            "predict(fit, X, rule=BMA()), its log_density(y) and log_marginal, or ask one member, fit.members[i]."
        )


@answer.register
def _(fit: AverageResponseFit, rule: Rule, X: Any) -> ContinuousPrediction:
    table = read_table(X, least_rows=0)
    if isinstance(rule, PlugIn):
        best: ContinuousPrediction = answer(fit.best, rule, table)
        return best
    if not isinstance(rule, BMA):
        raise PredictionError(fit.posterior.refusals["draws"])
    counting = np.flatnonzero(fit.weights > 0)
    answers: list[ContinuousPrediction] = [answer(fit.members[index], rule, table) for index in counting]
    with np.errstate(divide="ignore"):
        log_weights = np.log(fit.weights[counting])[:, None] + np.zeros((1, table.num_rows))
    marginals = [one.log_marginal for one in answers if one.log_marginal is not None]
    log_marginal: Float[np.ndarray, " n"] | None = None
    if len(marginals) == len(answers) and fit.posterior.mixes == "joint":
        log_weights = log_weights + np.stack(marginals)
        log_marginal = scipy.special.logsumexp(log_weights, axis=0)
        log_weights = log_weights - log_marginal
    predictive = MixturePredictive(log_weights, tuple(one.outcomes for one in answers))
    return ContinuousPrediction(predictive, log_marginal, device=answers[0].device, index=table.index)
