"""Whether summaries were made for a model: whether two models are the same, part by part."""

import functools

import jax
import numpy as np

from bayesgen.data import PositionalNames
from bayesgen.errors import DataError
from bayesgen.families import Family
from bayesgen.models import GenerativeClassifier, StructureAverage
from bayesgen.program import GenerativeProgram

from .data import Summaries, check_model


def check_made_for(model, summaries: Summaries):
    """Refuse summaries that were made for another model, which fitting would silently take in place of this one.

    Raises:
        DataError: naming both models.
    """
    check_model(model)
    made_for = summaries.model
    of_program = isinstance(made_for, GenerativeProgram)  # its schema has no kinds to choose blocks by
    concrete = model if of_program else model.concrete(summaries.schema)
    if not same_model(made_for, concrete):
        raise DataError(
            f"These summaries were made for {_shown(made_for)}, and the model to fit is {_shown(model)}. Summarise "
            "the data with the model to fit."
        )


@functools.singledispatch
def same_model(one, other) -> bool:
    """Whether two concrete models are the same: the same blocks of columns, families and numbers."""
    return one == other


@same_model.register
def _(one: GenerativeClassifier, other):
    return isinstance(other, GenerativeClassifier) and _layout(one) == _layout(other) and _same_priors(one, other)


@same_model.register
def _(one: StructureAverage, other):
    return (
        isinstance(other, StructureAverage)
        and one.dependence_prior == other.dependence_prior
        and same_model(one.classifier, other.classifier)
    )


@same_model.register
def _(one: GenerativeProgram, other):
    """Programs are compared by their function: what it does cannot be told otherwise."""
    return isinstance(other, GenerativeProgram) and _statement(one) == _statement(other)


def _shown(model):
    if not isinstance(model, GenerativeProgram):
        return repr(model)
    return f"the program {getattr(model.function, '__qualname__', model.function)!r}"


def _statement(program):
    return program.function, program.label, program.classes


def _layout(classifier):
    """(name, columns) of each block; names by position are left as they are, because there may be very many."""
    return [
        (name, columns if isinstance(columns, PositionalNames) else list(columns))
        for name, _, columns in classifier.blocks
    ]


def _same_priors(one, other):
    leaves, structures = zip(*(jax.tree.flatten(_priors(each)) for each in (one, other)), strict=True)
    return structures[0] == structures[1] and all(map(np.array_equal, *leaves))


def _priors(classifier):
    prior = classifier.class_prior
    prior = prior if isinstance(prior, Family) else np.asarray(prior)
    return prior, tuple(family for _, family, _ in classifier.blocks)
