"""The verb `average`: several structures as one fit."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import FitError
from ..fitting import Exact, Fit, fit
from . import weights as weighting
from .comparable import check_comparable
from .left_out import assign_folds, cross_validated_scores, held_out_scores
from .mixture import AverageFit, mixture_fit


@dataclasses.dataclass(frozen=True)
class Averaging:
    """How an average came about: the `method` of its fit.

    Attributes:
        weights: "evidence", "stacking" or "pseudo-bma".
        folds: the number of folds of the latter two.
    """

    weights: str
    folds: int | None = None


def average(
    members: Sequence[Any], prior=None, weights="evidence", *, X=None, y=None, schema=None, folds=10, seed=0
) -> AverageFit:
    """Average fits of structurally different models of the same data.

    Generative story::

        structure ~ Categorical(prior)
        process   ~ the structure's own prior
        X, y      ~ process

    The result is a fit like any other: `PlugIn()` uses the best structure, `BMA()` averages over structures and their
    parameters in one go.

    Args:
        members: `Exact` fits of the same rows, or models, which are then fitted by `Exact()` to X and y.
        prior: (M,) nonnegative prior weights of the structures, normalised here; None for equal ones.
        weights: "evidence": posterior probabilities of the structures, from the log evidences, by which `BMA()` mixes
            the joints p(x, y). "stacking": the mixture with the best log score on rows left out; "pseudo-bma":
            proportional to the exponential of each member's log score there. By these two `BMA()` mixes class
            probabilities, so members may model different events (Bernoulli and multinomial), and the answer's
            `log_marginal` is zero: there is no p(x).
        X, y: the training rows, for models, and for rows left out.
        schema: what is known of the columns, for models.
        folds: number of folds of the rows left out, as many as rows for leave-one-out, priors kept; None where X and y
            are rows that no member has seen.
        seed: seed of the folds.

    Returns:
        A `Fit` with `.members`, `.weights` and `.log_evidence`, that of all structures together (None for weights that
        are not probabilities).

    Raises:
        FitError: evidences that are not comparable (other rows, labels, kinds of columns), or that do not exist.

    Source: Hoeting et al. (1999), Bayesian model averaging; Yao et al. (2018), Using stacking to average Bayesian
    predictive distributions.

    >>> import bayesgen as bg
    >>> X, y = [[1.0, 1.1], [2.0, 2.3], [3.0, 2.9], [7.0, 1.0], [8.0, 2.1], [9.0, 2.8]], list("aaabbb")
    >>> both = bg.average([bg.GaussianDiscriminant("full"), bg.GaussianDiscriminant("diag")], X=X, y=y)
    >>> both.weights.round(3).tolist()
    [0.531, 0.469]
    >>> bg.predict(both, [[5.0, 4.0]], rule=bg.BMA()).labels.tolist()
    ['a']
    """
    if weights not in STRATEGIES:
        raise FitError(f"weights must be one of {list(STRATEGIES)}, got {weights!r}.")
    fits = [_as_fit(member, X, y, schema, weights, folds) for member in members]
    if not fits:
        raise FitError("There is nothing to average. Give at least one fit or model.")
    return STRATEGIES[weights](fits, prior, X, y, folds, seed)


def _as_fit(member, X, y, schema, weights, folds):
    if isinstance(member, Fit):
        return member
    if X is None or y is None:
        raise FitError(f"{type(member).__name__} is a model, not a fit: give X= and y= to fit it to.")
    if weights != "evidence" and folds is None:
        raise FitError("folds=None takes X and y as rows that no member has seen: give fits, not models.")
    return fit(member, X, y, method=Exact(), schema=schema)


def _by_evidence(fits, prior, X, y, folds, seed):
    check_comparable(fits)
    evidences = [each.log_evidence for each in fits]
    shares, total = weighting.posterior_weights(evidences, _normalized(prior, len(fits)))
    return mixture_fit(fits, shares, evidences, Averaging("evidence"), conditional=False, log_evidence=total)


def _by_left_out(name, weights_of):
    def strategy(fits, prior, X, y, folds, seed):
        if prior is not None:
            raise FitError(f"weights={name!r} takes no prior: only evidence turns a prior into a posterior.")
        log_scores = _left_out_scores(fits, X, y, folds, seed)
        shares, scores = weights_of(log_scores), log_scores.sum(0)
        return mixture_fit(fits, shares, scores, Averaging(name, folds), conditional=True, log_evidence=None)

    return strategy


STRATEGIES = {
    "evidence": _by_evidence,
    "stacking": _by_left_out("stacking", weighting.stacking_weights),
    "pseudo-bma": _by_left_out("pseudo-bma", weighting.pseudo_bma_weights),
}


def _left_out_scores(fits, X, y, folds, seed):
    """(n, M) log probability of each row's class by each member that has not seen the row."""
    if X is None or y is None:
        raise FitError("These weights are learned on class probabilities of rows left out: give X= and y=.")
    for index, each in enumerate(fits):
        if each.summaries is None:
            raise FitError(f"Member {index} was fitted with {each.method!r}; only Exact() fits can be left-out scored.")
        if each.schema.classes != fits[0].schema.classes:
            raise FitError(f"Members 0 and {index} have different classes, so their probabilities do not mix.")
    if folds is None:
        return np.stack([held_out_scores(each, X, y) for each in fits], axis=1)
    places = assign_folds(X, folds, seed)
    return np.stack([cross_validated_scores(each, X, y, places) for each in fits], axis=1)


def _normalized(prior, size):
    if prior is None:
        return np.full(size, 1 / size)
    values = np.asarray(prior, np.float64)
    if values.shape != (size,) or not np.isfinite(values).all() or (values < 0).any() or not values.sum() > 0:
        raise FitError(f"prior must hold {size} nonnegative numbers, one for each member, not all zero; got {prior!r}.")
    return values / values.sum()
