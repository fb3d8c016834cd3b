"""Whether the classes of a classifier are learned apart, so that another one can be learned from its rows alone."""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from bayesgen.errors import FitError
from bayesgen.families import Family

from .conjugate import Conjugate

ClassPrior: TypeAlias = Family | Sequence[float]
"""A family over the codes of the classes, or K fixed probabilities."""


def check_classes_apart(
    class_prior: ClassPrior, blocks: Sequence[tuple[str, Family, Sequence[str]]], resolved: Conjugate
) -> None:
    """Refuse a classifier in which the rows of one class tell of others, or whose prior says nothing of a new one.

    Args:
        class_prior, blocks: as the user gave them.
        resolved: what the model made of them.

    Raises:
        FitError: naming the block, what the classes share, and the remedy.
    """
    if not isinstance(class_prior, Family):
        raise FitError(
            f"The class probabilities are fixed, {list(class_prior)}, and leave none for another class. Fit all rows "
            "anew with the probabilities of all classes, or with class_prior=DirichletCategorical()."
        )
    assert resolved.class_prior is not None
    _check_prior("The class prior", class_prior, resolved.class_prior)
    for (name, family, _), block in zip(blocks, resolved.blocks, strict=True):
        _check_prior(f"Block {name!r}", family, block.family)
        shared = [parameter for parameter, axes in block.family.parameter_axes().items() if "class" not in axes]
        if shared:
            raise FitError(
                f"Block {name!r}: all classes share one {' and '.join(shared)}, which rows of a new class would change "
                "for the others too. Fit all rows anew with all classes, or use a family that is not tied."
            )


def _check_prior(owner: str, stated: Family, resolved: Family) -> None:
    """Refuse a prior that says of each class what it says of no other, or lets a draw speak for all of them.

    Its tables have the class as first axis; what is given for all classes has fewer axes, or one of length 1.
    """
    if stated.hierarchical:
        raise FitError(
            f"{owner}: the hyperparameter {stated.argument_names(stated.hierarchical)} is a distribution, which the "
            "rows of all classes tell of. Fit all rows anew with all classes, or give a number."
        )
    by_class = [
        name
        for name, value in stated.hyperparameters.items()
        if np.ndim(value) and np.ndim(value) == np.ndim(resolved.hyperparameters[name]) and np.shape(value)[0] > 1
    ]
    if by_class:
        raise FitError(
            f"{owner}: the hyperparameter {stated.argument_names(by_class)} is given class by class, and so not for "
            "another one. Fit all rows anew with those of all classes, or give one for all."
        )
