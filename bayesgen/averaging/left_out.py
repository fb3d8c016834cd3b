"""Weights of structures, and their log scores of held-out rows, by cross-validation with the prior kept."""

import numpy as np
import scipy.optimize
import scipy.special

from bayesgen.data import Rows, read_table, response_values
from bayesgen.errors import DataError, FitError
from bayesgen.fitting import Fit, encoded_rows, summaries_of_rows, without_moments
from bayesgen.prediction import BMA, LogScores, PlugIn, Rule, scores_by, scores_without
from bayesgen.runtime import as_key, generator
from bayesgen.typing import Data, Float, Int, Seed, Values

from .comparable import data_sums, scale_sums


def posterior_weights(
    log_evidences: Float[np.ndarray, " M"], prior: Float[np.ndarray, " M"]
) -> tuple[Float[np.ndarray, " M"], float]:
    """Posterior probabilities of structures, and the log evidence of their mixture.

    Args:
        log_evidences: log p(X, y | structure).
        prior: prior probabilities.

    Raises:
        FitError: data that are impossible under every structure of positive prior probability.

    Source: Hoeting et al. (1999), Bayesian model averaging, eq. 2.
    """
    with np.errstate(divide="ignore"):
        scores = log_evidences + np.log(prior)
    total = scipy.special.logsumexp(scores)
    if not np.isfinite(total):
        raise FitError("Every member with a prior weight gives the data probability zero: none is better than others.")
    return np.exp(scores - total), float(total)


def pseudo_bma_weights(log_scores: Float[np.ndarray, "n M"]) -> Float[np.ndarray, " M"]:
    """Weights proportional to the exponential of the summed log scores of held-out rows.

    Source: Yao et al. (2018), Using stacking to average Bayesian predictive distributions, section 3.4.

    Raises:
        FitError: each member gives some row probability zero.
    """
    totals = log_scores.sum(0)
    if not np.isfinite(totals.max()):
        rows = np.argmax(np.isneginf(log_scores), axis=0).tolist()
        raise FitError(
            f"Every member gives the class of some row probability zero (members in order: rows {rows}), so no score "
            "compares them."
        )
    return scipy.special.softmax(totals)


def stacking_weights(log_scores: Float[np.ndarray, "n M"]) -> Float[np.ndarray, " M"]:
    """The weights of the mixture of class probabilities with the highest mean log score on held-out rows.

    Maximises mean_i log sum_m w_m exp(log_scores[i, m]) over the simplex: a concave problem, solved by sequential
    quadratic programming, and by Newton steps at the end. The score is within the largest gradient less 1 of its
    maximum, about 1e-9.

    Args:
        log_scores: log probability of each row's class under each member.

    Raises:
        FitError: a row whose class has probability zero under every member.

    Source: Yao et al. (2018), eq. 5.
    """
    best = log_scores.max(1, keepdims=True)
    if not np.isfinite(best).all():
        row = int(np.argmin(np.isfinite(best)))
        raise FitError(f"Every member gives the class of row {row} probability zero, so there is nothing to stack.")
    likelihoods = np.exp(log_scores - best)  # relative to the best member of each row
    num_members = likelihoods.shape[1]

    def mixtures(weights: Float[np.ndarray, " M"]) -> Float[np.ndarray, " n"]:
        return np.maximum(likelihoods @ weights, 1e-300)

    optimum = scipy.optimize.minimize(
        lambda weights: -np.log(mixtures(weights)).mean(),
        np.full(num_members, 1 / num_members),
        jac=lambda weights: -(likelihoods / mixtures(weights)[:, None]).mean(0),
        bounds=[(0, 1)] * num_members,
        constraints={"type": "eq", "fun": lambda weights: weights.sum() - 1, "jac": np.ones_like},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    weights = np.where(optimum.x < 1e-9, 0.0, optimum.x)
    return _polished(likelihoods, weights / weights.sum())


def _polished(likelihoods: Float[np.ndarray, "n M"], weights: Float[np.ndarray, " M"]) -> Float[np.ndarray, " M"]:
    """The weights after Newton steps on the members that have some, which others join where the score rises by them."""

    def score(weights: Float[np.ndarray, " M"]) -> float:
        return float(np.log(np.maximum(likelihoods @ weights, 1e-300)).mean())

    for _ in range(100):
        ratios = likelihoods / np.maximum(likelihoods @ weights, 1e-300)[:, None]
        slopes = ratios.mean(0) - 1
        if slopes.max() < 1e-10:
            break
        chosen = np.flatnonzero((weights > 0) | (slopes == slopes.max()))
        curvature = ratios[:, chosen].T @ ratios[:, chosen] / len(ratios)
        # the maximum of the quadratic approximation where the weights go on summing to one
        bordered = np.block([[curvature, np.ones((len(chosen), 1))], [np.ones((1, len(chosen))), np.zeros((1, 1))]])
        step = np.zeros_like(weights)
        step[chosen] = np.linalg.lstsq(bordered, np.append(slopes[chosen], 0.0))[0][:-1]
        falls = step < 0
        length = min(1.0, (weights[falls] / -step[falls]).min(initial=1.0))
        moved = np.maximum(weights + length * step, 0.0)
        moved[falls & (weights + length * step < 1e-15)] = 0.0
        moved /= moved.sum()
        while score(moved) < score(weights) and np.abs(moved - weights).max() > 1e-15:
            moved = (moved + weights) / 2
        weights = moved
    return weights


def held_out_scores(fit: Fit, X: Data, y: Values | None) -> LogScores:
    """Log scores of rows that the fit has not seen."""
    return scores_by(fit, _rule_of(fit), _scored_rows(fit, X, y))


def cross_validated_scores(fit: Fit, X: Data, y: Values | None, folds: Int[np.ndarray, " n"]) -> LogScores:
    """Log scores of rows, each predicted from the other folds.

    Args:
        fit: a fit of these rows; its prior is kept, including hyperparameters from the scale of columns.
        X, y: its training rows.
        folds: the fold of each row.
    """
    rows = _scored_rows(fit, X, y)
    if y is not None:
        check_trained_on(fit, rows, "all of weight 1, or with folds=None rows that no member has seen")
    return scores_without(fit, _rule_of(fit), rows, folds)


def _rule_of(fit: Fit) -> Rule:
    """The rule that averages over processes where there are several."""
    return PlugIn() if fit.posterior.is_point else BMA()


def _scored_rows(fit: Fit, X: Data, y: Values | None) -> Rows:
    """The rows with their labels, of which none may be missing where some are given."""
    table = read_table(X, y)
    if table.labels is not None and fit.concrete.response is None:
        fit.schema.encode_labels(table.labels)
    elif table.labels is not None:
        missing = np.isnan(response_values(table.labels))
        if missing.any():
            raise DataError(
                f"y is missing in {int(missing.sum())} rows, the first is row {int(np.argmax(missing))}, and weights "
                "are learned from the members' predictions of it. Leave these rows out."
            )
    return encoded_rows(fit.concrete, fit.schema, table)


def check_trained_on(fit: Fit, rows: Rows, wanted: str) -> None:
    """Refuse rows other than the training rows of the fit, by sums over them, and say which are wanted."""
    if fit.summaries is None:
        data = summaries_of_rows(fit.concrete, without_moments(fit.schema), rows)
        shown = scale_sums(data.scaled_schema, data.total_weight)
        trained = scale_sums(fit.schema, fit.attributes["total_weight"])
    else:
        shown = data_sums(fit, fit.concrete.summarize(fit.schema, rows))
        trained = data_sums(fit, fit.summaries.statistics)
    for name, sums in shown.items():
        if name in trained and sums.differs(trained[name]):
            raise DataError(
                f"X= and y= are not the rows of the training: the {name} differ. Give the training rows, {wanted}."
            )


def assign_folds(X: Data, num_folds: object, seed: Seed) -> Int[np.ndarray, " n"]:
    """A fold for each row, of equal sizes and in random order."""
    num_rows = read_table(X).num_rows
    if not isinstance(num_folds, int | np.integer) or not 2 <= num_folds <= num_rows:
        raise DataError(f"folds must be from 2 to {num_rows}, the number of rows, or None; got {num_folds}.")
    return generator(as_key(seed)).permutation(np.arange(num_rows) % num_folds)
