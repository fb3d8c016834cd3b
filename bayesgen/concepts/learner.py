"""`ConceptLearner`: learning which concept of a finite space generates the examples."""

import dataclasses
import functools
from typing import Any

import numpy as np
import scipy.special

from ..errors import DataError, FitError, ModelError
from ..fitting import MAP, MLE, Exact
from ..fitting.method import prepare, train
from .space import HypothesisSpace

SAMPLING = {"strong": lambda sizes, domain: sizes, "weak": lambda sizes, domain: np.full(len(sizes), domain)}


@dataclasses.dataclass(frozen=True, eq=False)
class ConceptLearner:
    """A concept from a finite space, learned from its examples.

    Generative story::

        hypothesis ~ Categorical(space.prior)
        example    ~ Uniform(members of the hypothesis), with probability 1 - noise; else Uniform(domain)

    Args:
        space: the hypotheses.
        sampling: "strong": examples are drawn from the concept, so small concepts explain them better; "weak": drawn
            from the domain and found to be members, which tells nothing of size.
        noise: probability that an example is any member of the domain, at least 0 and below 1.

    Source: Murphy, Machine Learning: A Probabilistic Perspective, section 3.2.

    >>> import bayesgen as bg
    >>> fit = bg.fit(ConceptLearner(bg.number_game("murphy")), [16, 8, 2, 64], method=bg.Exact())
    >>> fit.hypotheses["hypothesis"][0]
    'powers of 2'
    """

    space: HypothesisSpace
    sampling: str = "strong"
    noise: float = 0.0

    def __post_init__(self):
        if self.sampling not in SAMPLING:
            raise ModelError(f"sampling must be one of {list(SAMPLING)}, got {self.sampling!r}.")
        if not 0 <= self.noise < 1:
            raise ModelError(f"noise must be at least 0 and below 1, got {self.noise!r}.")

    def log_likelihood(self, counts):
        """(H,) log probability of examples, counted by member of the domain, (D,)."""
        space = self.space
        inside = (1 - self.noise) / SAMPLING[self.sampling](space.sizes, len(space.domain))
        outside = self.noise / len(space.domain)
        held = space.extensions @ counts
        return scipy.special.xlogy(held, inside + outside) + scipy.special.xlogy(counts.sum() - held, outside)


@dataclasses.dataclass(frozen=True, eq=False)
class Examples:
    """Examples, counted by member of the domain.

    Attributes:
        model: the learner.
        counts: (D,).
    """

    model: ConceptLearner
    counts: np.ndarray


@dataclasses.dataclass(frozen=True, eq=False)
class ConceptFit:
    """What was learned of a concept.

    Attributes:
        model: the learner.
        method: the training method.
        counts: (D,) the examples, counted by member of the domain.
        log_weights: (H,) log posterior probabilities; of a point fit, 0 for the hypothesis chosen and -inf else.
        ties: names of the hypotheses that are equally good as the best; the first of them is the one chosen.
        log_evidence: log probability of the examples, for `Exact`; else None.
    """

    model: ConceptLearner
    method: Any
    counts: np.ndarray
    log_weights: np.ndarray
    ties: tuple[str, ...]
    log_evidence: float | None = None

    @property
    def weights(self) -> np.ndarray:
        """(H,) posterior probabilities."""
        return np.exp(self.log_weights)

    @property
    def hypotheses(self):
        """A pandas frame of hypotheses, sizes, priors and posterior weights, the most probable first."""
        import pandas as pd

        space = self.model.space
        columns = {"hypothesis": space.names, "size": space.sizes, "prior": space.prior, "weight": self.weights}
        return pd.DataFrame(columns).sort_values("weight", ascending=False, kind="stable", ignore_index=True)

    def update(self, more):
        """The fit of these examples and more."""
        data = prepare(self.model, more)
        return learn(self.method, self.model, self.counts + data.counts)


@prepare.register
def _(model: ConceptLearner, X, y=None, *, schema=None, sample_weight=None):
    if y is not None or schema is not None or sample_weight is not None:
        raise DataError("A concept learner takes examples alone: no y, schema or sample_weight.")
    places = model.space.positions(X)
    return Examples(model, np.bincount(places, minlength=len(model.space.domain)).astype(np.float64))


@train.register
def _(model: ConceptLearner, method, problem):
    return learn(method, model, problem.data.counts)


@functools.singledispatch
def learn(method, model, counts):
    """Train by a method: all but those registered refuse."""
    raise FitError(f"A concept learner has nothing continuous for {type(method).__name__}() to sample. Use Exact().")


@learn.register
def _(method: Exact, model, counts):
    joint = np.log(model.space.prior) + _consistent(model, counts)
    total = float(scipy.special.logsumexp(joint))
    return ConceptFit(model, method, counts, joint - total, _ties(model, joint), total)


@learn.register
def _(method: MAP, model, counts):
    return _point(method, model, counts, np.log(model.space.prior) + _consistent(model, counts))


@learn.register
def _(method: MLE, model, counts):
    return _point(method, model, counts, _consistent(model, counts))


def _point(method, model, counts, scores):
    logs = np.full(len(scores), -np.inf)
    ties = _ties(model, scores)
    logs[model.space.names.index(ties[0])] = 0.0
    return ConceptFit(model, method, counts, logs, ties)


def _ties(model, scores):
    """Names of the best hypotheses, equal up to rounding."""
    best = np.flatnonzero(scores >= scores.max() - 1e-10)
    return tuple(model.space.names[index] for index in best)


def _consistent(model, counts):
    """The log-likelihoods, at least one of which is finite."""
    logs = model.log_likelihood(counts)
    if not np.isfinite(logs).any():
        examples = [model.space.domain[index] for index in np.flatnonzero(counts)]
        raise FitError(f"No hypothesis holds all of the examples {examples}. Add one that does, or give noise above 0.")
    return logs
