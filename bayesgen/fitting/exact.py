"""`Exact`: the conjugate posterior in closed form."""

import dataclasses

import numpy as np

from ..errors import FitError
from ..statistics import Sums
from .method import Method
from .state import Posterior


@dataclasses.dataclass(frozen=True)
class Exact(Method):
    """The exact posterior over processes, P(Q | T), by conjugate updating, with its log evidence.

    Only for built-in models whose hyperparameters are numbers; other programs are sampled by `NUTS()`.
    """

    def solve(self, problem):
        """Update every family."""
        prior = closed_prior(problem)
        problem.warn_of_constant_columns()
        evidence = problem.data.evidence
        posterior, log_evidence = update(prior, evidence)
        state = Posterior(problem.program, posterior)
        return problem.result(self, state, log_evidence=log_evidence, summaries=problem.data)


def closed_prior(problem):
    """The conjugate blocks, all of whose hyperparameters are numbers."""
    prior = problem.conjugate
    if prior is None:
        raise FitError(
            "Exact() needs conjugate families, and a program of one's own does not say which it has. Use NUTS(), "
            "or state the model as a GenerativeClassifier."
        )
    for name, family in prior.families():
        if family.hierarchical:
            raise FitError(
                f"Exact() has no closed form for block {name!r}: its hyperparameter "
                f"{', '.join(family.hierarchical)} is a distribution. Use NUTS() or MAP()."
            )
    return prior


def update(prior, evidence):
    """The posterior of a conjugate model and the log evidence of the data."""
    labels = Sums(evidence.class_counts.sum(), (evidence.class_counts,), np.zeros(()))
    log_evidence = prior.class_prior.log_evidence(labels)
    families = []
    for block in prior.blocks:
        summary = evidence.summaries[block.name]
        log_evidence += block.family.log_evidence(summary)
        families.append(block.family.update(summary))
    return prior.replace_families(prior.class_prior.update(labels), families), log_evidence
