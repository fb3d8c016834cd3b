"""`LinearRegression`: the response given the columns, linear in features of them."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bayesgen.data import (
    Basis,
    ResponseColumn,
    Rows,
    Schema,
    Table,
    fingerprint,
    fitted_basis,
    refuse_classes_of_response,
    refuse_missing_cells,
    response_of_rows,
    transformer_input,
)
from bayesgen.errors import ModelError
from bayesgen.families import Family, LinearNormalInverseGamma, Scale
from bayesgen.predictives import NormalPredictive, StudentTPredictive
from bayesgen.program import ClosedAnswer, ClosedResponse, ConcreteModel, Response, SummedBlock
from bayesgen.statistics import (
    Cells,
    Moments,
    check_magnitudes,
    check_rows,
)
from bayesgen.typing import Float

from .blocks import BlockModel
from .closed_response import (
    RESPONSE,
    Regression,
    check_prior,
    refuse_missing_everywhere,
    refuse_sparse,
    refuse_unseen,
    regression_schema,
)

FEATURES = f"{RESPONSE}_features"
GIVEN = (
    "The model has no distribution for X, which is given. Drop these rows, begin the basis with an imputer "
    "(LinearRegression(basis=make_pipeline(SimpleImputer(), ...))), or use JointGaussianRegression() or "
    "NaiveBayesRegression(), which take missing cells."
)


@dataclasses.dataclass(frozen=True)
class LinearRegression(Regression):
    """Regression on a line, or by basis functions on a curve or surface, with Gaussian noise in y.

    Generative story, given the features f(x) of the row, whose means in training are c::

        variance     ~ InverseGamma(shape, scale)
        coefficients ~ Normal(0, variance * inverse(precision))
        value at c   ~ flat
        y            ~ Normal(value at c + (f(x) - c) @ coefficients, variance)

    The MLE is least squares. The model does not describe x: the `log_marginal` of its answers is None, and X may have
    no missing cells. The evidence is log p(y | X), so that bases can be compared by it. Training rows whose y is
    missing are ignored.

    Args:
        basis: any scikit-learn transformer that computes the features of a row from this row alone (PolynomialFeatures,
            SplineTransformer, a pipeline, a ColumnTransformer with encoders for columns of other kinds, ...); None for
            the columns themselves. A copy is fitted once, without weights, to the training X, or to its first chunk.
            The schema of the fit keeps it. A feature that is 1 in every training row, such as the bias of
            PolynomialFeatures, is taken as the intercept and left out.
        prior: a `LinearNormalInverseGamma`; None for its defaults, which are weak, in the units of the data: the prior
            of the coefficients weighs a hundredth of a row.
        intercept: whether the mean of y has an intercept; without one, it is 0 where all features are 0.

    Parameters are `y_intercept`, the mean of y where all features are 0, `y_coefficients` by the names of the features,
    and `y_variance`.

    Source: Bishop, Pattern Recognition and Machine Learning, sections 3.1 and 3.3.

    >>> import bayesgen as bg
    >>> from sklearn.preprocessing import PolynomialFeatures
    >>> X = [[0.0], [1.0], [2.0], [3.0], [4.0], [5.0], [6.0], [7.0]]
    >>> y = [0.1, 0.9, 4.2, 8.8, 16.1, 24.9, 36.2, 48.8]
    >>> model = bg.LinearRegression(PolynomialFeatures(2))
    >>> fit = bg.fit(model, X, y, method=bg.Exact())
    >>> bg.predict(fit, [[8.0]], rule=bg.BMA()).mean.round(1).tolist()
    [63.7]
    >>> line = bg.fit(bg.LinearRegression(), X, y, method=bg.Exact())
    >>> bool(fit.log_evidence > line.log_evidence)
    True
    """

    basis: Any = dataclasses.field(default=None, compare=False)
    prior: LinearNormalInverseGamma | None = None
    intercept: bool = True
    stated: str = dataclasses.field(default="", init=False, repr=False)

    def __post_init__(self) -> None:
        if self.basis is not None:
            object.__setattr__(self, "stated", _fingerprint(self.basis))
        prior = self.prior
        check_prior(self, prior, LinearNormalInverseGamma)
        if prior is not None and prior.intercept != self.intercept:
            raise ModelError(
                f"LinearRegression(intercept={self.intercept}) has a prior with intercept={prior.intercept}: state "
                "the same of both."
            )

    def infer_schema(self, table: Table, y: np.ndarray | None, declared: Schema) -> Schema:
        """The columns, and the basis fitted to them."""
        if self.basis is None:
            refuse_sparse(type(self).__name__, table)
            schema = regression_schema(self, table, declared)
        else:
            refuse_classes_of_response(type(self).__name__, declared.classes)
            schema = declared.resolve(table)
        response = schema.response or ResponseColumn()
        if response.basis is None:
            basis = Basis(tuple(schema.columns or ()))
            if self.basis is not None:
                rows = _input(schema, table)
                basis = fitted_basis(self.basis, rows, table.num_rows, intercept=self.intercept)
            response = dataclasses.replace(response, basis=basis)
        return dataclasses.replace(schema, response=response)

    def concrete(self, schema: Schema) -> ConcreteModel:
        basis = _basis(schema)
        if basis.stated != self.stated:
            raise ModelError(
                f"The schema has the features of another basis than {self!r}: {basis.transformer!r}. Fit with a "
                "schema that has none, or with the same basis."
            )
        family = self.prior or LinearNormalInverseGamma(intercept=self.intercept)
        return FeatureRegression(((RESPONSE, family, basis.names),))


@dataclasses.dataclass(frozen=True)
class FeatureRegression(BlockModel):
    """A response that is linear in given features."""

    blocks: tuple[tuple[str, LinearNormalInverseGamma, tuple[str, ...]], ...]
    class_prior = None

    @property
    def response(self) -> Response:
        return Response(RESPONSE)

    @property
    def feature_sources(self) -> Mapping[str, str]:
        return {RESPONSE: FEATURES}

    @property
    def closed_response(self) -> "LinearResponse":
        return LinearResponse()

    def infer_schema(self, table: Table, y: np.ndarray | None, declared: Schema) -> Schema:
        if declared.response is None or declared.response.basis is None:
            raise ModelError("The features of a regression are found by LinearRegression(...): fit that.")
        return declared.resolve(table)

    def read_rows(self, schema: Schema, table: Table) -> Rows:
        """The response, NaN where it is missing, as attribute, and the features as covariate."""
        features = _features(schema, table)
        check_rows(features, None, functools.partial(_feature_name, self.blocks[0][2]))
        assert schema.response is not None
        y = response_of_rows(table, schema.response.name)
        observed = ~np.isnan(y)
        return Rows({RESPONSE: y}, {} if observed.all() and len(y) else {RESPONSE: observed}, {FEATURES: features})

    def summed_blocks(self, schema: Schema) -> Sequence[SummedBlock] | None:
        if _basis(schema).transformer is not None:
            return None
        return [(RESPONSE, self.statistics(schema)[RESPONSE], (*(schema.columns or ()), None))]

    def check_rows(self, schema: Schema, attributes: Mapping[str, Cells]) -> None:
        """Nothing: `read` checks the features, and new rows have no response."""

    def with_scale(self, schema: Schema, summaries: Mapping[str, Any]) -> Schema:
        """Fill in means and variances of features and response; known ones stay."""
        basis, response, summary = _basis(schema), schema.response, summaries[RESPONSE]
        assert response is not None and isinstance(summary, Moments)
        names = (*basis.names, response.name)
        check_magnitudes(summary, functools.partial(_feature_name, names))
        count, (_, family, _) = float(np.ravel(summary.count)[0]), self.blocks[0]
        mean, variance = np.asarray(summary.mean)[0], np.diagonal(summary.scatter[0]) / max(count, 1e-300)
        if not count and (basis.mean is None or response.mean is None or not family.is_proper):
            refuse_missing_everywhere(response.name)
        if basis.mean is None:
            basis = dataclasses.replace(basis, mean=mean[:-1], variance=variance[:-1])
        if response.mean is None:
            response = dataclasses.replace(response, mean=float(mean[-1]), variance=float(variance[-1]))
        return dataclasses.replace(schema, response=dataclasses.replace(response, basis=basis))

    def _scale(self, schema: Schema, name: str, family: Family, columns: Sequence[str]) -> Scale:
        basis, response = _basis(schema), schema.response
        if response is None or basis.mean is None or basis.variance is None or response.variance is None:
            refuse_unseen(name)
        return Scale(
            mean=np.asarray(response.mean),
            variance=np.asarray(response.variance),
            feature_mean=basis.mean,
            feature_variance=basis.variance,
        )


@dataclasses.dataclass(frozen=True)
class LinearResponse(ClosedResponse):
    """A response that is linear in given features."""

    def at(self, parameters: Mapping[str, np.ndarray], rows: Rows) -> ClosedAnswer:
        coefficients, variance = (np.asarray(parameters[f"{RESPONSE}_{name}"]) for name in ("coefficients", "variance"))
        intercept = np.asarray(parameters.get(f"{RESPONSE}_intercept", 0.0))
        loc = coefficients @ np.asarray(rows.covariates[FEATURES], np.float64).T + intercept[..., None]
        return NormalPredictive(loc, np.broadcast_to(np.sqrt(variance)[..., None], loc.shape)), None

    def predictive(self, families: Mapping[str, Family], rows: Rows) -> ClosedAnswer:
        """Student-t, whose scale grows with the distance of the features from those of training."""
        family = families[RESPONSE]
        assert isinstance(family, LinearNormalInverseGamma)
        features = np.asarray(rows.covariates[FEATURES], np.float64)
        df, loc, scale = map(np.asarray, family.predictive_parameters(features))
        return StudentTPredictive(np.broadcast_to(df, loc.shape), loc, scale), None


def _fingerprint(basis: Any) -> str:
    """A fingerprint of the basis.

    Raises:
        ModelError: a basis that is no transformer.
    """
    from sklearn.base import clone

    if isinstance(basis, type) or not (hasattr(basis, "fit") and hasattr(basis, "transform")):
        raise ModelError(
            f"basis= takes a scikit-learn transformer, such as PolynomialFeatures(2), got {basis!r}. Wrap a function "
            "of your own in FunctionTransformer(function)."
        )
    return fingerprint(clone(basis))


def _basis(schema: Schema) -> Basis:
    assert schema.response is not None and schema.response.basis is not None
    return schema.response.basis


def _features(schema: Schema, table: Table) -> Float[np.ndarray, "n F"]:
    """The features of rows: the real columns, or their transforms by the basis."""
    basis = _basis(schema)
    if basis.transformer is not None:
        return basis.features(_input(schema, table), table.num_rows)
    columns = schema.columns or ()
    features, observed = schema.encode_cells(table, columns)
    if observed is not None:
        refuse_missing_cells(observed, columns, GIVEN)
    return np.asarray(features)


def _input(schema: Schema, table: Table) -> Any:
    columns = tuple(schema.columns or ())
    return transformer_input(table, tuple(schema.names_in(table, columns)), columns if schema.named else None)


def _feature_name(names: Sequence[str], place: tuple[int, ...]) -> str:
    return f"The feature {names[place[0]]!r}"
