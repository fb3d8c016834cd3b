"""The forms in which programs state conjugate families: priors of sites, and the likelihood that they enter."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from bayesgen.statistics import Likelihood
from bayesgen.typing import Array

from .base import Family, ParameterTables
from .hyperparameters import Pooling

Tables = Mapping[str, Array]


@dataclasses.dataclass(frozen=True)
class Form:
    """One form of a family in a program. A latent site is a parameter of the family.

    Attributes:
        family: the family.
        has_likelihood: whether a likelihood of an attribute is that of the family.
        priors: parameter -> the likelihood whose distributions are the priors of its site.
        parameters: parameters of the likelihood -> those of the family, each with an entry for each class and column.
        prior: (parameter -> the arguments of its prior, the family's parameters, how tables of variances are shared)
            -> the family. Arguments are tables with an entry for each class and column.
        pooled: the parameter that classes or columns may share where the others are not shared; None if no one may.
        is_vector: whether events of the likelihood are vectors, whose entries are the columns.
    """

    family: type[Family]
    has_likelihood: Callable[[Likelihood], bool]
    priors: Mapping[str, Likelihood]
    parameters: Callable[[Tables], ParameterTables]
    prior: Callable[[Mapping[str, Tables], Tables, Pooling], Any]
    pooled: str | None = None
    is_vector: bool = False


FORMS: list[Form] = []
"""All forms, in the order in which they were registered."""


def register_form(form: Form) -> None:
    """Teach the recognition of programs a form of a family."""
    FORMS.append(form)
