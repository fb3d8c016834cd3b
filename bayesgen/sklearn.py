"""Models as estimators of scikit-learn, for its pipelines, searches and cross-validation.

Text and categorical columns come in data frames; arrays hold numbers. `estimator.fit_` is the `Fit` behind one.
"""

import abc
import dataclasses
from collections.abc import Sequence
from typing import Any, Self, cast

import numpy as np
import pandas as pd
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassifierMixin, ClusterMixin, DensityMixin, RegressorMixin
from sklearn.utils import Tags, check_random_state, column_or_1d
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from bayesgen.averaging import AverageFit, AverageModel
from bayesgen.data import Schema, category_array
from bayesgen.errors import DataError, ModelError, PredictionError
from bayesgen.families import Family
from bayesgen.fitting import MAP, MLE, NUTS, Exact, Fit, Method, Summaries, fit, summarize
from bayesgen.models import GaussianDiscriminant, JointGaussianRegression, LinearRegression, Mixture, NaiveBayes
from bayesgen.posteriors import Point
from bayesgen.prediction import BMA, ClassPrediction, ContinuousPrediction, PlugIn, Rule, named_classes, predict
from bayesgen.program import Recipe
from bayesgen.typing import Category, Data, Float, Int, Shaped, Values

__all__ = [
    "BayesGenClassifier",
    "BayesGenRegressor",
    "GaussianDiscriminantClassifier",
    "MixtureModel",
    "NaiveBayesClassifier",
]

METHODS: dict[str, type[Method]] = {"mle": MLE, "map": MAP, "exact": Exact, "nuts": NUTS}
SPARSE = ("csr", "csc")  # formats of matrices of counts, which are read as they are
RULES: dict[str, type[Rule]] = {"plugin": PlugIn, "bma": BMA}


def _by_name(argument: str, value: Any, kind: type, classes: dict[str, type]) -> Any:
    """A method or rule that is given as such, or by its name."""
    if isinstance(value, kind):
        return value
    if not isinstance(value, str) or value not in classes:
        raise ModelError(f"{argument} must be one of {[*classes]}, or such an object of bayesgen; got {value!r}.")
    return classes[value]()


def _keeps_statistics(estimator: "_Estimator") -> bool:
    """Whether fits by the method of an estimator can be updated; others have no `partial_fit`."""
    method = estimator.method
    return bool(getattr(METHODS.get(method, Method) if isinstance(method, str) else method, "keeps_statistics", True))


def _members(model: Any) -> tuple[Any, ...]:
    """The models of which statistics are gathered: the model itself, or the members of an average.

    Raises:
        ModelError: an average whose weights are learned on rows, of which none are gathered.
    """
    if not isinstance(model, AverageModel):
        return (model,)
    if model.weighting.needs_rows:
        raise ModelError(
            "The weights of this average are learned on rows left out of all rows, and partial_fit keeps none. Fit on "
            "all rows at once, estimator.fit(X, y), or average by weights='evidence'."
        )
    return model.members


def _complete(y: Shaped[np.ndarray, " n"]) -> Shaped[np.ndarray, " n"]:
    """Labels or numbers of all rows.

    Raises:
        DataError: a row without one.
    """
    if (missing := np.asarray(pd.isna(y))).any():
        raise DataError(
            f"Input y contains NaN, first in row {int(np.argmax(missing))}: leave such rows out, or fit the model "
            "itself by bayesgen.fit, which takes rows without labels."
        )
    return y


class _Estimator(BaseEstimator, abc.ABC):
    """An estimator whose fits are those of a model, by a method, and whose predictions are those of a rule."""

    _latest: Any
    _gathered: list[Any]

    def __init__(self, *, method: Any, rule: Any, random_state: Any, schema: Schema | None) -> None:
        self.method = method
        self.rule = rule
        self.random_state = random_state
        self.schema = schema

    @abc.abstractmethod
    def _model(self) -> Recipe:
        """The model of the parameters."""

    def _seed(self) -> int:
        return int(check_random_state(self.random_state).randint(2**31))

    @property
    def fit_(self) -> Any:
        """The fit behind the estimator: that of all rows so far, found when it is first asked for."""
        if self._latest is None:
            model = self._model()
            fits = [self._trained(*pair) for pair in zip(_members(model), self._gathered, strict=True)]
            self._latest = model.weighting.mix(fits, None, None) if isinstance(model, AverageModel) else fits[0]
        return self._latest

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_latest")

    def _fit(self, X: Data, y: Values | None, sample_weight: Values | None, schema: Schema | None) -> None:
        """Train on checked rows."""
        self._stated_rule()
        weights = self._weights(X, sample_weight)
        self._latest = self._trained(self._model(), X, y, schema=schema, sample_weight=weights)
        fits = self._latest.members if isinstance(self._latest, AverageFit) else (self._latest,)
        self._gathered = [fit.summaries if isinstance(fit, Fit) else None for fit in fits]

    def _trained(self, model: Recipe, X: Data | Summaries | None, y: Values | None = None, **options: Any) -> Any:
        method = _by_name("method", self.method, Method, METHODS)
        return fit(model, X, y, method=method, seed=self._seed(), progress=False, **options)

    def _partial_fit(self, X: Data, y: Values, sample_weight: Values | None, schema: Schema | None) -> None:
        """Gather the statistics of more checked rows, of which a fit is made when it is asked for."""
        weights, members = self._weights(X, sample_weight), _members(self._model())
        if not self.__sklearn_is_fitted__():
            self._gathered = [summarize(m, X, y, schema=schema, sample_weight=weights) for m in members]
            self._latest = None
        elif None in self._gathered:
            self._latest = self.fit_.update(X, y, sample_weight=weights)  # which is refused where it has to be
        else:
            parts = zip(members, self._gathered, strict=True)
            self._gathered = [part + summarize(m, X, y, schema=part.schema, sample_weight=weights) for m, part in parts]
            self._latest = None

    @staticmethod
    def _weights(X: Data, sample_weight: Values | None) -> Float[np.ndarray, " n"] | None:
        return None if sample_weight is None else _check_sample_weight(sample_weight, X, dtype=np.float64)

    def _checked(self, X: Any, y: Any = "no_validation", *, reset: bool, **options: Any) -> Any:
        """Rows, and y where it is given, with the errors of scikit-learn; frames with named columns stay frames."""
        if hasattr(X, "columns"):
            checked = validate_data(self, X, y, reset=reset, skip_check_array=True)
            if hasattr(self, "feature_names_in_"):
                return checked
        rows = validate_data(
            self,
            X,
            y,
            reset=reset,
            ensure_all_finite="allow-nan" if self.__sklearn_tags__().input_tags.allow_nan else True,
            accept_sparse=SPARSE,
            **options,
        )
        if not reset and hasattr(self, "feature_names_in_") and not issparse(rows):
            return pd.DataFrame(rows, columns=self.feature_names_in_)
        return rows

    def _answer(self, X: Any) -> Any:
        """The prediction of rows."""
        check_is_fitted(self)
        rows, rule = self._checked(X, reset=False), self._stated_rule()
        default = PlugIn() if isinstance(getattr(self.fit_, "posterior", None), Point) else BMA()
        return predict(self.fit_, rows, rule=default if rule is None else rule)

    def _stated_rule(self) -> Rule | None:
        return None if self.rule is None else _by_name("rule", self.rule, Rule, RULES)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        method = METHODS.get(self.method, Method) if isinstance(self.method, str) else type(self.method)
        tags.input_tags.allow_nan = not issubclass(method, Exact) or self._model().exact_takes_missing
        return tags


class _WithDensity(_Estimator):
    """An estimator that has a density of rows."""

    def score_samples(self, X: Data) -> Float[np.ndarray, " n"]:
        """Log densities of rows, log p(x)."""
        answer: ClassPrediction = self._answer(X)
        return answer.log_marginal


class _Classifier(ClassifierMixin, _WithDensity):
    """A classifier by a model with classes."""

    classes_: Shaped[np.ndarray, " K"]

    def fit(self, X: Data, y: Values, sample_weight: Values | None = None) -> Self:
        """Train on rows (n, D) and their classes (n,), with nonnegative frequency weights."""
        rows, labels = self._rows_with_labels(X, y, reset=True)
        declared = self._declared_classes
        self.classes_ = np.unique(labels) if declared is None else declared
        self._fit(rows, labels, sample_weight, self._with_classes())
        return self

    @available_if(_keeps_statistics)
    def partial_fit(
        self, X: Data, y: Values, classes: Values | None = None, sample_weight: Values | None = None
    ) -> Self:
        """Train on more rows; the first call, or the schema, names all classes.

        The fit is that of all rows together. Categories and bins that the schema does not declare are those of the
        first rows.
        """
        is_first = not self.__sklearn_is_fitted__()
        rows, labels = self._rows_with_labels(X, y, reset=is_first)
        named = None if classes is None else np.unique(np.asarray(classes))
        if is_first:
            declared = self._declared_classes
            all_classes = named if declared is None else declared
            if all_classes is None:
                raise ModelError("classes must be passed on the first call to partial_fit.")
            self.classes_ = all_classes
        if named is not None and set(named.tolist()) != set(self.classes_.tolist()):
            raise DataError(
                "classes differ from those of the schema or of the first call to partial_fit: leave them out."
            )
        self._partial_fit(rows, labels, sample_weight, self._with_classes())
        return self

    def _with_classes(self) -> Schema:
        """The declarations with these classes, which keep their type."""
        return dataclasses.replace(self.schema or Schema(), classes=cast(Sequence[Category], self.classes_))

    @property
    def _declared_classes(self) -> Shaped[np.ndarray, " K"] | None:
        """The classes that the schema declares, in its order."""
        declared = None if self.schema is None else self.schema.classes
        return None if declared is None else category_array(declared)

    def _rows_with_labels(self, X: Data, y: Values, reset: bool) -> tuple[Any, Shaped[np.ndarray, " n"]]:
        rows, labels = self._checked(X, y, reset=reset)
        labels = _complete(column_or_1d(labels, warn=True))
        check_classification_targets(labels)
        return rows, labels

    def predict(self, X: Data) -> Shaped[np.ndarray, " n"]:
        """The most probable class of each row.

        Raises:
            PredictionError: rows that are impossible under every class, as a probability of zero may make them.
        """
        answer: ClassPrediction = self._answer(X)
        codes = named_classes(answer.log_probabilities)
        if (codes < 0).any():
            raise PredictionError(
                f"Row {int(np.argmax(codes < 0))}, and {int((codes < 0).sum()) - 1} more, are impossible under every "
                "class, as some probabilities were estimated as zero. Use method='exact', whose probabilities are "
                "positive, or a prior that keeps them positive."
            )
        return self.classes_[codes]

    def predict_proba(self, X: Data) -> Float[np.ndarray, "n K"]:
        """Probabilities of the classes, in the order of `classes_`."""
        answer: ClassPrediction = self._answer(X)
        return answer.probabilities

    def predict_log_proba(self, X: Data) -> Float[np.ndarray, "n K"]:
        """Log probabilities of the classes."""
        answer: ClassPrediction = self._answer(X)
        return answer.log_probabilities


class BayesGenClassifier(_Classifier):
    """A classifier by any model or program with classes.

    Args:
        model: the model; None for `NaiveBayes()`.
        method: "mle", "map", "exact" or "nuts", or a method such as `NUTS(num_samples=500)`.
        rule: "plugin" or "bma", or a rule such as `PlugIn(at="mode")`; None for the one-step answer, "bma", where the
            method gives a posterior to average over, and "plugin" where it gives a point.
        random_state: of samplers and searches: an integer, a `numpy.random.RandomState`, or None.
        schema: declarations for the columns of a frame. `Schema(unknown="missing")` takes text that training rows did
            not have as missing, as folds of a cross-validation may need; so do categorical columns.

    Attributes:
        fit_: the `Fit` behind the estimator.
        classes_: the classes, sorted; those of the schema, in its order, where it declares them.
        n_features_in_, feature_names_in_: as in scikit-learn.

    >>> from sklearn.datasets import load_iris
    >>> from sklearn.model_selection import cross_val_score
    >>> X, y = load_iris(return_X_y=True)
    >>> cross_val_score(BayesGenClassifier(), X, y).mean().round(2).tolist()
    0.95
    """

    def __init__(
        self,
        model: Recipe | None = None,
        *,
        method: Any = "exact",
        rule: Any = None,
        random_state: Any = 0,
        schema: Schema | None = None,
    ) -> None:
        self.model = model
        super().__init__(method=method, rule=rule, random_state=random_state, schema=schema)

    def _model(self) -> Recipe:
        return NaiveBayes() if self.model is None else self.model


class NaiveBayesClassifier(_Classifier):
    """A classifier by `NaiveBayes`; see `BayesGenClassifier`.

    Args:
        families: as `NaiveBayes` takes them.
        structure: "full", or "average" over all subsets of columns that depend on the class.
        method, rule, random_state, schema: as `BayesGenClassifier` takes them.
    """

    def __init__(
        self,
        families: Family | dict[str, Family] | None = None,
        structure: str = "full",
        *,
        method: Any = "exact",
        rule: Any = None,
        random_state: Any = 0,
        schema: Schema | None = None,
    ) -> None:
        self.families = families
        self.structure = structure
        super().__init__(method=method, rule=rule, random_state=random_state, schema=schema)

    def _model(self) -> Recipe:
        return NaiveBayes(self.families, structure=self.structure)


class GaussianDiscriminantClassifier(_Classifier):
    """A classifier by `GaussianDiscriminant`; see `BayesGenClassifier`.

    Args:
        covariance: "full", "tied", "diag", "spherical", "tied-diag" or "tied-spherical".
        method, rule, random_state, schema: as `BayesGenClassifier` takes them.
    """

    def __init__(
        self,
        covariance: str = "full",
        *,
        method: Any = "exact",
        rule: Any = None,
        random_state: Any = 0,
        schema: Schema | None = None,
    ) -> None:
        self.covariance = covariance
        super().__init__(method=method, rule=rule, random_state=random_state, schema=schema)

    def _model(self) -> Recipe:
        return GaussianDiscriminant(self.covariance)


class BayesGenRegressor(RegressorMixin, _Estimator):
    """A regressor by any model or program with a continuous label, or a count.

    Args:
        model: the model; None for `JointGaussianRegression()`, which by "map" takes training rows with missing cells.
        method, rule, random_state, schema: as `BayesGenClassifier` takes them.

    Attributes:
        fit_: the `Fit` behind the estimator.
        n_features_in_, feature_names_in_: as in scikit-learn.

    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> means, deviations = BayesGenRegressor().fit(X, y).predict(X[:2], return_std=True)
    >>> means.round().tolist(), deviations.round().tolist()
    ([205.0, 69.0], [53.0, 54.0])
    """

    def __init__(
        self,
        model: Recipe | None = None,
        *,
        method: Any = "exact",
        rule: Any = None,
        random_state: Any = 0,
        schema: Schema | None = None,
    ) -> None:
        self.model = model
        super().__init__(method=method, rule=rule, random_state=random_state, schema=schema)

    def _model(self) -> Recipe:
        return JointGaussianRegression() if self.model is None else self.model

    def fit(self, X: Data, y: Values, sample_weight: Values | None = None) -> Self:
        """Train on rows (n, D) and their numbers (n,), with nonnegative frequency weights."""
        self._fit(*self._rows_with_numbers(X, y, reset=True), sample_weight, self.schema)
        return self

    @available_if(_keeps_statistics)
    def partial_fit(self, X: Data, y: Values, sample_weight: Values | None = None) -> Self:
        """Train on more rows: the fit is that of all rows together."""
        reset = not self.__sklearn_is_fitted__()
        self._partial_fit(*self._rows_with_numbers(X, y, reset=reset), sample_weight, self.schema)
        return self

    def _rows_with_numbers(self, X: Data, y: Values, reset: bool) -> tuple[Any, Shaped[np.ndarray, " n"]]:
        rows, numbers = self._checked(X, y, reset=reset, y_numeric=True)
        return rows, _complete(column_or_1d(numbers, warn=True))

    def predict(self, X: Data, return_std: bool = False) -> Any:
        """Means of p(y | x), and its standard deviations where asked for."""
        answer: ContinuousPrediction = self._answer(X)
        return (answer.mean, answer.std) if return_std else answer.mean

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan &= not isinstance(self.model, LinearRegression)  # for which x is given
        return tags


class MixtureModel(ClusterMixin, DensityMixin, _WithDensity):
    """Clusters and densities by a mixture of any model with classes.

    Args:
        model: the model of which the components are classes; None for `GaussianDiscriminant()`.
        num_components: number of components.
        method, rule, random_state, schema: as `BayesGenClassifier` takes them; mixtures have no "exact", which
            is the default of the other estimators.

    Attributes:
        fit_: the `Fit` behind the estimator.
        order_: the components of `fit_` from the most to the least probable, by which they are numbered here.
        labels_: the most probable component of each training row.
        n_features_in_, feature_names_in_: as in scikit-learn.

    >>> X = [[0.9], [1.0], [1.1], [1.2], [7.0], [7.1], [7.3], [7.4]]
    >>> labels = MixtureModel(num_components=2).fit_predict(X)
    >>> sorted([labels[:4].tolist(), labels[4:].tolist()])
    [[0, 0, 0, 0], [1, 1, 1, 1]]
    """

    def __init__(
        self,
        model: Recipe | None = None,
        num_components: int = 2,
        *,
        method: Any = "map",
        rule: Any = None,
        random_state: Any = 0,
        schema: Schema | None = None,
    ) -> None:
        self.model = model
        self.num_components = num_components
        super().__init__(method=method, rule=rule, random_state=random_state, schema=schema)

    def _model(self) -> Recipe:
        return Mixture(GaussianDiscriminant() if self.model is None else self.model, self.num_components)

    def fit(self, X: Data, y: None = None, sample_weight: Values | None = None) -> Self:
        """Train on rows (n, D), with nonnegative frequency weights; y is ignored."""
        self._fit(self._checked(X, reset=True), None, sample_weight, self.schema)
        if not self.fit_.posterior.is_identified:
            self._latest = self.fit_.relabel()
        weights = self.fit_.parameters["class_probs"]
        self.order_ = np.argsort(-weights.reshape(-1, weights.shape[-1]).mean(axis=0), kind="stable")
        self.labels_ = self.predict(X)
        return self

    def predict(self, X: Data) -> Int[np.ndarray, " n"]:
        """The most probable component of each row; -1 where every component is impossible."""
        answer: ClassPrediction = self._answer(X)
        return named_classes(answer.log_probabilities[:, self.order_])

    def predict_proba(self, X: Data) -> Float[np.ndarray, "n K"]:
        """Responsibilities: probabilities of the components."""
        answer: ClassPrediction = self._answer(X)
        return answer.probabilities[:, self.order_]

    def score(self, X: Data, y: None = None) -> float:
        """The mean log density of rows."""
        return float(self.score_samples(X).mean())
