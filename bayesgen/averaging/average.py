"""The verb `average`: several structures as one fit, or as one model."""

from collections.abc import Iterable, Mapping
from typing import Any

from bayesgen.data import Schema
from bayesgen.errors import FitError
from bayesgen.fitting import MLE, Exact, Fit, fit
from bayesgen.program import Model, Recipe
from bayesgen.typing import Seed

from .fit import AverageFit
from .model import AverageModel
from .weighting import ByEvidence, PseudoBMA, Stacking, Weighting


def average(
    members: Iterable[Fit | Model],
    prior: Any = None,
    weights: str = "evidence",
    *,
    X: Any = None,
    y: Any = None,
    schema: Schema | None = None,
    folds: int | None = 10,
    seed: Seed = 0,
) -> AverageFit | AverageModel:
    """Average structurally different models of the same data.

    Generative story::

        structure ~ Categorical(prior)
        process   ~ the structure's own prior
        X, y      ~ process

    An average of fits is a fit like any other: `PlugIn()` uses the best structure, `BMA()` averages over structures and
    their parameters in one go. An average of models is a model, which `fit` and `compare` take.

    Args:
        members: `Exact` fits of the same rows; or models. With X and y these are fitted to them by `Exact()`. Mixtures,
            and fits of them by any method, are averaged by "stacking" or "pseudo-bma". `ProbabilisticPCA` of several
            numbers of factors, and fits of them by any method, may be averaged by approximate evidences: see `weights`.
        prior: (M,) nonnegative prior weights of the structures, normalised here; None for equal ones.
        weights: "evidence": posterior probabilities of the structures, from the log evidences, by which `BMA()` mixes
            the joints p(x, y). "stacking": the mixture with the best log score on rows left out; "pseudo-bma":
            proportional to the exponential of each member's log score there. By these two `BMA()` mixes class
            probabilities, so members may model different events (Bernoulli and multinomial), and the answer's
            `log_marginal` is zero: there is no p(x). Of rows without labels (mixtures, programs with label=None) they
            score and mix the densities: `BMA()` gives them, as `log_marginal`, and no class probabilities. Where all
            members have an approximation of their evidence alone (`fit.approximate_log_evidence`), "evidence" weighs by
            that, and the fit says so: its `log_evidence` is None, and `approximate_log_evidence` is that of all. The
            two are never mixed in one average.
        X, y: the training rows, for models, and for rows left out. No y where rows have no labels.
        schema: what is known of the columns, for models.
        folds: number of folds of the rows left out, as many as rows for leave-one-out, priors kept; None where X and y
            are rows that no member has seen.
        seed: integer or JAX key, of the folds.

    Returns:
        A `Fit` with `.members`, `.weights` and `.log_evidence`, that of all structures together (None for weights that
        are not probabilities); or, for models without X and y, an `AverageModel`.

    Raises:
        FitError: evidences that are not comparable (other rows, labels, kinds of columns), or that do not exist;
            arguments that would not be used.
        DataError: X and y other than the fits' training rows, where rows of these are left out.

    Source: Hoeting et al. (1999), Bayesian model averaging; Yao et al. (2018), Using stacking to average Bayesian
    predictive distributions.

    >>> import bayesgen as bg
    >>> X, y = [[1.0, 1.1], [2.0, 2.3], [3.0, 2.9], [7.0, 1.0], [8.0, 2.1], [9.0, 2.8]], list("aaabbb")
    >>> model = bg.average([bg.GaussianDiscriminant("full"), bg.GaussianDiscriminant("diag")])
    >>> both = bg.fit(model, X, y, method=bg.Exact())
    >>> both.weights.round(3).tolist()
    [0.531, 0.469]
    >>> bg.predict(both, [[5.0, 4.0]], rule=bg.BMA()).labels.tolist()
    ['a']
    """
    listed = _listed(members)
    weighting = _weighting(weights, prior, folds, seed)
    has_rows, are_fits = X is not None or y is not None, [isinstance(member, Fit) for member in listed]
    if schema is not None and (all(are_fits) or not has_rows):
        raise FitError("schema= is for models that are fitted here, with X= and y=. Drop it, or give it to fit.")
    if not has_rows and not any(are_fits):
        return AverageModel(listed, weighting)
    if has_rows and all(are_fits) and not weighting.needs_rows:
        raise FitError("Fits are weighed by the evidence of their own training rows: drop X= and y=.")
    return weighting.mix([_as_fit(member, X, y, schema, weighting) for member in listed], X, y)


def _listed(members: Iterable[Fit | Model]) -> tuple[Any, ...]:
    """The members as a tuple, all of them fits or models."""
    if isinstance(members, Mapping | str) or not isinstance(members, Iterable):
        raise FitError(f"members must be a list of fits or models, got {type(members).__name__}.")
    listed = tuple(members)
    if not listed:
        raise FitError("There is nothing to average. Give at least one fit or model.")
    for index, member in enumerate(listed):
        if not isinstance(member, Fit | Recipe | AverageModel):
            raise FitError(f"Member {index} is neither a fit nor a model: {member!r}.")
    return listed


def _weighting(name: str, prior: Any, folds: int | None, seed: Seed) -> Weighting:
    """What the user's word stands for."""
    kinds = {"stacking": Stacking, "pseudo-bma": PseudoBMA}
    known = ["evidence", *kinds]
    if not isinstance(name, str) or name not in known:
        raise FitError(f"weights must be one of {known}, got {name!r}.")
    if name == "evidence":
        return ByEvidence(prior)
    if prior is not None:
        raise FitError(f"weights={name!r} takes no prior: only evidence turns a prior into a posterior.")
    return kinds[name](folds, seed)


def _as_fit(member: Fit | Model, X: Any, y: Any, schema: Schema | None, weighting: Weighting) -> Fit:
    if isinstance(member, Fit):
        return member
    is_approximate = isinstance(member, Recipe) and member.approximates_evidence
    if X is None or (y is None and not is_approximate):
        raise FitError(f"{type(member).__name__} is a model, not a fit: give X= and y= to fit it to.")
    weighting.check_models([member])
    return fit(member, X, y, method=MLE() if is_approximate else Exact(), schema=schema)
