"""`GenerativeClassifier`: a class prior and blocks of columns, each with a conjugate family."""

import dataclasses
import operator
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpyro

from bayesgen.data import PositionalNames, Schema
from bayesgen.errors import ModelError, as_list
from bayesgen.families import (
    DirichletCategorical,
    Family,
    IncompleteFamily,
    LinearNormalInverseGamma,
    hyperparameter_site,
    with_sampled_hyperparameters,
)
from bayesgen.labels import OptionalLabel
from bayesgen.records import fill
from bayesgen.typing import Array

from .blocks import BlockModel, ClassPrior, check_class_can_be_added
from .function import LABEL, covariate_name


@dataclasses.dataclass(frozen=True)
class GenerativeClassifier(BlockModel[OptionalLabel]):
    """A generative classifier: instances are made by choosing a class, then each block of columns given the class.

    Generative story::

        class_probs            ~ class_prior
        {block}_{parameter}[k] ~ the block's family, for each class k
        y                      ~ Categorical(class_probs)
        {block}                ~ the family's likelihood with the parameters of class y

    Args:
        blocks: (name, family, columns) for each block; columns are names of columns of one kind; categorical columns of
            a block have the same number of values. A block of sequences of symbols has one column. In a block of
            `DirichletHiddenMarkov`, the sequences of a row have the same length in all columns.
        class_prior: a `DirichletCategorical`, or K fixed probabilities; None for rows without classes: the model is
            fitted without y, and `predict` gives the densities of rows.

    `NaiveBayes` and `GaussianDiscriminant` choose the blocks by the kinds of the columns.

    >>> import bayesgen as bg
    >>> model = GenerativeClassifier([("size", bg.NormalInverseWishart(), ["height", "weight"])])
    >>> data = {"height": [1.6, 1.7, 1.8, 1.9], "weight": [60.0, 61.0, 83.0, 92.0]}
    >>> fit = bg.fit(model, data, ["a", "a", "b", "b"], method=bg.Exact())
    >>> bg.predict(fit, {"height": [1.85], "weight": [85.0]}, rule=bg.BMA()).labels.tolist()
    ['b']
    """

    blocks: Sequence[tuple[str, Family, Sequence[str]]]
    class_prior: ClassPrior | None = dataclasses.field(default_factory=DirichletCategorical)

    def __post_init__(self) -> None:
        listed: Any = self.blocks
        if not isinstance(listed, tuple | list):
            listed = as_list("blocks", listed, "(name, family, columns)", ModelError)
        if not all(isinstance(block, tuple | list) and len(block) == 3 for block in listed):
            raise ModelError(f"blocks must be a list of (name, family, columns), got {self.blocks!r}.")
        blocks = tuple(  # names by position, which may be very many, are not copied to a tuple
            (name, family, columns if isinstance(columns, PositionalNames) else tuple(columns))
            for name, family, columns in listed
        )
        fill(self, class_prior=as_class_prior(self.class_prior), blocks=blocks)
        names = list(map(operator.itemgetter(0), blocks))
        if len(set(names)) < len(names) or not names:
            raise ModelError(f"The blocks need distinct names, at least one; got {names}.")
        reserved = {LABEL, "class", "class_probs", "instances"} & set(names)
        if reserved:
            raise ModelError(f"A block cannot be called {min(reserved)!r}: that name is taken.")
        _check_columns_once(self.blocks)
        for name, family, _ in self.blocks:
            if isinstance(family, LinearNormalInverseGamma):
                raise ModelError(
                    f"Block {name!r}: the columns of {type(family).__name__} depend on features, which a classifier "
                    "does not have. It is the prior of LinearRegression() and NaiveBayesRegression()."
                )
            clashing = _sites(name, family).intersection(names)
            if clashing:
                raise ModelError(
                    f"A block cannot be called {min(clashing)!r}: that is the name of a parameter of block {name!r}. "
                    "Give it another one."
                )

    @property
    def exact_takes_missing(self) -> bool:
        return not any(isinstance(family, IncompleteFamily) for _, family, _ in self.blocks)

    def __hash__(self) -> int:
        """By content, but for the names of columns, which may be very many."""
        return hash((self.class_prior, tuple((name, family, len(columns)) for name, family, columns in self.blocks)))

    def check_class_can_be_added(self, schema: Schema) -> None:
        if self.class_prior is None:
            super().check_class_can_be_added(schema)
            return
        check_class_can_be_added(self.class_prior, self.blocks, self.conjugate(schema))

    def with_hyperparameters(self, values: Mapping[str, Array]) -> "GenerativeClassifier":
        with numpyro.handlers.substitute(data=dict(values)):
            blocks = [
                (name, with_sampled_hyperparameters(family, name), columns) for name, family, columns in self.blocks
            ]
            prior = self.class_prior
            if isinstance(prior, Family):
                prior = with_sampled_hyperparameters(prior, "class")
        return dataclasses.replace(self, blocks=blocks, class_prior=prior)


def as_class_prior(prior: Any) -> ClassPrior | None:
    """A class prior in comparable form: a family, fixed probabilities as a tuple, or None."""
    if prior is None or isinstance(prior, Family):
        return prior
    probs = np.asarray(prior).tolist()
    return tuple(probs) if isinstance(probs, list) else probs


def _check_columns_once(blocks: Sequence[tuple[str, Family, Sequence[str]]]) -> None:
    """Refuse a column that is named twice, in two blocks or in one: its cells would count twice."""
    if len(blocks) == 1 and isinstance(blocks[0][2], PositionalNames):
        return  # names by position are distinct, and may be very many
    seen: dict[str, str] = {}
    for name, _, columns in blocks:
        for column in columns:
            if column in seen:
                where = (
                    f"twice in block {name!r}" if seen[column] == name else f"in blocks {seen[column]!r} and {name!r}"
                )
                raise ModelError(f"Column {column!r} is {where}, so its cells would count twice. Name it once.")
            seen[column] = name


def _sites(name: str, family: Family) -> set[str]:
    """Names of the sites of a block besides the attribute: parameters, hyperparameters and the covariate."""
    sites = {f"{name}_{parameter}" for parameter in (*family.parameter_axes(), *family.coordinates)}
    sites |= {hyperparameter_site(family, name, hyperparameter) for hyperparameter in family.hierarchical}
    return sites | ({covariate_name(name, family.traits.covariate)} if family.traits.covariate else set())
