"""Training a `StructureAverage`: the posterior over all subsets of columns, by one product over columns."""

import dataclasses
import functools

import numpy as np

from bayesgen.errors import FitError
from bayesgen.models import StructureAverage
from bayesgen.posteriors import StructurePosterior

from .exact import Exact, closed_prior
from .method import train


@functools.singledispatch
def average_structures(method, problem):
    """Train a `StructureAverage`: only `Exact` can."""
    raise FitError(
        f"structure='average' is averaged exactly, over every subset of columns: {type(method).__name__}() cannot. Use "
        "Exact(), or structure='full'."
    )


@train.register
def _(model: StructureAverage, method, problem):
    return average_structures(method, problem)


@average_structures.register
def _(method: Exact, problem):
    prior = closed_prior(problem)
    problem.warn_of_constant_columns()
    model, evidence = problem.data.model, problem.data.evidence
    shared = model.shared(prior)
    pooled = {name: summary.pooled() for name, summary in evidence.summaries.items()}
    by_class, at_once = _terms(prior, evidence.summaries), _terms(shared, pooled)
    with np.errstate(divide="ignore"):
        log_prior, log_other = np.log(model.dependence_prior), np.log1p(-model.dependence_prior)
    odds = {name: (log_prior + by_class[name]) - (log_other + at_once[name]) for name in by_class}
    classes = dataclasses.replace(prior, blocks=())
    labels, log_evidence = classes.update(evidence), classes.log_evidence(evidence)
    log_evidence += sum(np.logaddexp(log_prior + by_class[name], log_other + at_once[name]).sum() for name in by_class)
    dependent = _update(prior, evidence.summaries, labels.class_prior)
    alike = _update(shared, pooled, labels.class_prior)
    state = StructurePosterior(problem.program, dependent, alike, odds, float(log_evidence))
    return problem.result(method, state, summaries=problem.data)


def _terms(conjugate, summaries):
    """block -> log evidence of each column, (D,), classes summed; of the whole block if it is joint."""
    return {
        block.name: _by_column(block, block.family.log_evidence_terms(summaries[block.name]))
        for block in conjugate.blocks
    }


def _by_column(block, terms):
    return terms.sum() if block.family.joint else terms.reshape(-1, len(block.columns)).sum(0)


def _update(conjugate, summaries, class_prior):
    families = [block.family.update(summaries[block.name]) for block in conjugate.blocks]
    return conjugate.replace_families(class_prior, families)
