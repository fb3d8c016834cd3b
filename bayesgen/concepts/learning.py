"""Training concept learners: enumeration, its best hypothesis, and hyperparameters with the hypotheses summed out."""

import functools

import numpy as np
import scipy.special

from bayesgen.errors import BayesgenWarning, FitError, warn
from bayesgen.fitting import MAP, MLE, NUTS, Exact, train
from bayesgen.posteriors import Point

from .fit import Belief, ConceptFit
from .learner import ConceptLearner
from .likelihood import Tally, log_likelihood
from .marginal import problem_of
from .mode import find_mode
from .table import Table

TIE = 1e-10  # log scores that differ by less are equal but for rounding


@train.register
def _(model: ConceptLearner, method, problem):
    _refuse_contradictions(problem.data)
    return learn(method, model, problem)


@functools.singledispatch
def learn(method, learner, problem) -> ConceptFit:
    """Train by a method: those that are not registered refuse."""
    raise FitError(
        f"A concept learner is not trained by {type(method).__name__}(). Use Exact(), NUTS(), MAP() or MLE()."
    )


@learn.register
def _(method: Exact, learner, problem):
    _refuse_unknown(method, learner)
    return _fit(method, problem, [_posterior(learner, each) for each in problem.data.sets])


@learn.register
def _(method: MLE, learner, problem):
    _refuse_unknown(method, learner)
    return _fit(method, problem, [_best(log_likelihoods(learner, each), learner.noise) for each in problem.data.sets])


@learn.register
def _(method: MAP, learner, problem):
    shared = _shared_mode(method, learner, problem) if learner.unknown else None
    point = learner if shared is None else learner.at_mode({name: float(v) for name, v in shared.parameters.items()})
    beliefs = [_best(log_joints(point, each), point.noise) for each in problem.data.sets]
    return _fit(method, problem, beliefs, shared)


@learn.register
def _(method: NUTS, learner, problem):
    if not learner.unknown:
        raise FitError(
            "NUTS() has nothing continuous to sample: all hyperparameters of this learner are numbers. Use Exact(), "
            "which enumerates the hypotheses."
        )
    table = Table.of(learner, problem.data.sets)
    shared = method.solve(problem_of(table, problem.seed, problem.progress))
    posterior, noisy = table.average({name: draws.ravel() for name, draws in shared.parameters.items()})
    share = np.divide(noisy, posterior, out=np.zeros_like(noisy), where=posterior > 0)
    beliefs = [_averaged(table, index, posterior, share) for index in range(len(table.sets))]
    return _fit(method, problem, beliefs, shared)


def log_likelihoods(learner, examples):
    """(H,) log probabilities of examples."""
    space = learner.space
    return log_likelihood(Tally.of(space, examples), learner.noise, learner.sampling, len(space.domain))


def log_joints(learner, examples):
    """(H,) log probabilities of hypothesis and examples."""
    with np.errstate(divide="ignore"):
        return learner.space.log_prior({}) + log_likelihoods(learner, examples)


def _posterior(learner, examples):
    joint = log_joints(learner, examples)
    total = float(scipy.special.logsumexp(joint))
    return Belief(joint - total, learner.noise, _ties(joint), total)


def _best(scores, noise):
    ties = _ties(scores)
    return Belief(np.where(np.arange(len(scores)) == ties[0], 0.0, -np.inf), noise, ties)


def _ties(scores):
    return np.flatnonzero(scores >= scores.max() - TIE)


def _averaged(table, index, posterior, share):
    """The belief that averages over draws, from probabilities of cells by unit of mass and their shares of noise."""
    with np.errstate(divide="ignore"):
        log_weights = table.learner.space.structure.base + np.log(table.of_hypotheses(index, posterior))
    return Belief(log_weights, table.of_hypotheses(index, share), _ties(log_weights))


def _refuse_contradictions(data):
    """Refuse sets of examples that no hypothesis explains."""
    for index, examples in enumerate(data.sets):
        if not data.model.is_noisy and Tally.of(data.model.space, examples).strays.all():
            which, what = f"Set {index}: no" if data.several else "No", examples.describe(data.model.space)
            raise FitError(f"{which} hypothesis holds {what}. Add one that does, or give noise above 0.")


def _refuse_unknown(method, learner):
    if learner.unknown:
        raise FitError(
            f"{type(method).__name__}() takes hyperparameters that are numbers, and {', '.join(learner.unknown)} "
            "follows a distribution. Use NUTS(), which samples it, or MAP()."
        )


def _shared_mode(method, learner, problem):
    """The mode of the hyperparameters, as a fit; one on the boundary is reported."""
    own = problem_of(Table.of(learner, problem.data.sets), problem.seed, problem.progress)
    values, boundary = find_mode(own, learner.unknown, method.num_starts)
    if boundary:
        ends = ", ".join(f"{name} = {bound:g}" for name, bound in boundary.items())
        warn(
            f"The mode of the hyperparameters is on the boundary: {ends}. NUTS() averages over them instead.",
            BayesgenWarning,
        )
    point = Point(own.program, {name: np.asarray(value) for name, value in values.items()})
    return own.result(method, point, attributes={"boundary": boundary})


def _fit(method, problem, beliefs, shared=None):
    return ConceptFit(problem.model, method, problem.data, tuple(beliefs), shared, problem.seed)
