"""`Mixture`: a model whose labels are all missing, so that its classes are components."""

import dataclasses

import numpy as np

from bayesgen.data import Schema, Table
from bayesgen.errors import DataError, ModelError, check_integer
from bayesgen.labels import ClassLabel
from bayesgen.program import ConcreteModel, Recipe, WrappedModel
from bayesgen.records import fill
from bayesgen.typing import Int, Values


@dataclasses.dataclass(frozen=True)
class Mixture(Recipe[ClassLabel]):
    """A mixture: rows without labels, each from one of several components, which are the classes of a model.

    Generative story, as in the model, but the labels are not observed::

        class_probs   ~ the model's class prior: the weights of the components
        parameters[k] ~ the model's families, for each component k
        y             ~ Categorical(class_probs), not observed
        attributes    ~ the model's likelihood with the parameters of component y

    so that p(x) = sum_k class_probs[k] p(x | parameters[k]). A mixture of `GaussianDiscriminant` is a mixture of
    Gaussians, with any form of the covariance. A mixture of `NaiveBayes` with categorical columns is latent class
    analysis; multinomial columns, and columns of several kinds, are mixed likewise.

    Args:
        model: any model with classes; a `GenerativeProgram` needs as many classes as there are components.
        num_components: number of components; 1 is a single density, for comparisons.

    It is fitted without y, by `MLE()` and `MAP()` (expectation maximisation from several starts) or `NUTS()`. The
    classes of the fit are the components 0, 1, ..., and its parameters have the model's names with the components
    first. `predict` gives responsibilities, and the density of each row as `log_marginal`. Components with equal priors
    are exchangeable: their names mean nothing, and draws may swap them, until `fit.relabel()` puts them in one order.

    k-means is `MLE(assignment="hard")` of a mixture of `GaussianDiscriminant("tied-spherical")` with equal and fixed
    class probabilities. Where some rows have labels, fit the model itself to the rows and these labels, without a
    mixture.

    Raises:
        ModelError: a model without classes, or with another number of classes; a model whose classes cannot be
            components.

    Source: McLachlan and Peel (2000), Finite Mixture Models, chapters 1 and 2.

    >>> import bayesgen as bg
    >>> X = [[0.9], [1.0], [1.1], [1.2], [7.0], [7.1], [7.3], [7.4]]
    >>> fit = bg.fit(bg.Mixture(bg.GaussianDiscriminant("diag"), 2), X, method=bg.MAP())
    >>> sorted(fit.parameters["real_mean"][:, 0].round(2).tolist())
    [1.06, 7.19]
    >>> answer = bg.predict(fit, [[1.0], [7.0], [1.3]], rule=bg.PlugIn())
    >>> bool(answer.labels[0] == answer.labels[2] != answer.labels[1])
    True
    """

    model: Recipe
    num_components: int

    def __post_init__(self) -> None:
        number = self.num_components
        check_integer("Mixture: num_components", number, 1)
        if not isinstance(self.model, Recipe):
            raise ModelError(f"A Mixture is made of a model or a GenerativeProgram, got {self.model!r}.")
        fill(self, num_components=int(number), model=self.model.with_components(int(number)))

    @property
    def components(self) -> tuple[int, ...]:
        """The names of the components, which are the classes."""
        return tuple(range(self.num_components))

    def infer_schema(self, table: Table, y: np.ndarray | None, declared: Schema) -> Schema:
        """The schema of the model, with the components as classes.

        Raises:
            DataError: labels, or declared classes.
        """
        refuse_labels(y)
        if declared.classes not in (None, self.components):
            raise DataError(
                f"The classes of a Mixture are its components 0 to {self.num_components - 1}: leave "
                "Schema(classes=...) out."
            )
        return self.model.infer_schema(table, None, dataclasses.replace(declared, classes=self.components))

    def with_components(self, num_components: int) -> Recipe:
        raise ModelError("The components of a mixture cannot be mixtures: give Mixture the model itself.")

    def concrete(self, schema: Schema) -> ConcreteModel:
        """The mixture of the model with its choices made for the columns of this schema."""
        return ConcreteMixture(self.model.concrete(schema), self.num_components)  # refuses what only now is known


@dataclasses.dataclass(frozen=True)
class ConcreteMixture(Mixture, WrappedModel):
    """A mixture of a concrete model, which does all but read labels."""

    model: ConcreteModel
    class_axis = "component"

    @property
    def wrapped(self) -> ConcreteModel:
        return self.model

    @property
    def has_labels(self) -> bool:
        return False

    def concrete(self, schema: Schema) -> ConcreteModel:
        return self

    def label_codes(self, schema: Schema, table: Table) -> Int[np.ndarray, " n"]:
        refuse_labels(table.labels)
        return np.full(table.num_rows, -1)


def refuse_labels(y: Values | None) -> None:
    """Refuse labels.

    Raises:
        DataError: saying what takes them.
    """
    if y is not None:
        raise DataError(
            "A Mixture takes no y: the labels of its components are unknown. Where some labels are known, fit the "
            "model itself, with None or NaN where a label is missing."
        )
