"""`GaussianDiscriminant`: real columns jointly normal given the class."""

import dataclasses
import functools

import numpy as np

from bayesgen.data import Schema, Table
from bayesgen.errors import ModelError
from bayesgen.families import DirichletCategorical, Family, NormalInverseGamma, NormalInverseWishart
from bayesgen.labels import ClassLabel
from bayesgen.program import ConcreteModel, Recipe
from bayesgen.records import fill

from .classifier import ClassPrior, as_class_prior
from .naive_bayes import NaiveBayes

# the user's name of a covariance -> its family
COVARIANCES: dict[str, NormalInverseWishart | NormalInverseGamma] = {
    "full": NormalInverseWishart(),
    "tied": NormalInverseWishart(tied=True),
    "diag": NormalInverseGamma(),
    "spherical": NormalInverseGamma(spherical=True),
    "tied-diag": NormalInverseGamma(tied=True),
    "tied-spherical": NormalInverseGamma(tied=True, spherical=True),
}


@dataclasses.dataclass(frozen=True)
class GaussianDiscriminant(Recipe[ClassLabel]):
    """Gaussian discriminant analysis: given the class, the real columns are jointly normal.

    Generative story::

        class_probs   ~ class_prior
        covariance[k] ~ inverse Wishart, or a diagonal of inverse gamma variances; one for all classes if tied
        mean[k]       ~ Normal(m, covariance[k] / kappa)
        y             ~ Categorical(class_probs)
        real          ~ Normal(mean[y], covariance[y])

    Args:
        covariance: "full" (quadratic discriminant analysis), "tied" (linear), "diag" (one variance for each class and
            column), "spherical" (one for each class), "tied-diag" (one for each column) or "tied-spherical" (a single
            one; with equal class probabilities, the nearest mean decides the class).
        prior: `NormalInverseWishart` (full, tied) or `NormalInverseGamma` (the others) with hyperparameters of one's
            own; None for the defaults.
        class_prior: a `DirichletCategorical`, or K fixed probabilities.

    Columns of other kinds are modelled as in `NaiveBayes`. The real columns are one block, whose site is `real`.

    Source: Murphy, Machine Learning: A Probabilistic Perspective, sections 4.2 and 4.6.3.

    >>> import bayesgen as bg
    >>> X = [[1.0, 2.0], [2.0, 1.0], [8.0, 9.0], [9.0, 8.0]]
    >>> fit = bg.fit(bg.GaussianDiscriminant("tied"), X, ["low", "low", "high", "high"], method=bg.MAP())
    >>> bg.predict(fit, [[1.5, 1.0]], rule=bg.PlugIn()).labels.tolist()
    ['low']
    """

    covariance: str = "full"
    prior: Family | None = None
    class_prior: ClassPrior = dataclasses.field(default_factory=DirichletCategorical)

    def __post_init__(self) -> None:
        class_prior = as_class_prior(self.class_prior)
        if class_prior is None:
            raise ModelError(
                "GaussianDiscriminant tells classes apart, and class_prior=None is for rows without any. Write "
                "GenerativeClassifier([('real', NormalInverseWishart(), [...])], class_prior=None)."
            )
        fill(self, class_prior=class_prior)
        if not isinstance(self.covariance, str) or self.covariance not in COVARIANCES:
            raise ModelError(f"covariance must be one of {list(COVARIANCES)}, got {self.covariance!r}.")
        expected = type(COVARIANCES[self.covariance])
        if self.prior is not None and not isinstance(self.prior, expected):
            raise ModelError(
                f"covariance={self.covariance!r} takes a {expected.__name__} as prior, got {type(self.prior).__name__}."
            )

    @property
    def exact_takes_missing(self) -> bool:
        return self._blocks.exact_takes_missing

    @functools.cached_property
    def _blocks(self) -> NaiveBayes:
        """The same model by its blocks: the family of the real columns is pooled as the covariance says."""
        default = COVARIANCES[self.covariance]
        family = default if self.prior is None else self.prior.replace(pooling=default.pooling)
        return NaiveBayes({"real": family}, self.class_prior)

    def infer_schema(self, table: Table, y: np.ndarray | None, declared: Schema) -> Schema:
        return self._blocks.infer_schema(table, y, declared)

    def concrete(self, schema: Schema) -> ConcreteModel:
        """The `GenerativeClassifier` with the real columns in one block."""
        return self._blocks.concrete(schema)
