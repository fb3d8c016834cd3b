"""`NaiveBayesRegression`: columns independent given a continuous response."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpyro.distributions as dist

from bayesgen.data import Rows, Schema, Table, response_of_rows
from bayesgen.describe import quote_some
from bayesgen.errors import DataError
from bayesgen.families import Family, LinearNormalInverseGamma, NormalInverseGamma, Scale
from bayesgen.predictives import NormalPredictive
from bayesgen.program import ClosedAnswer, ClosedResponse, ConcreteModel, Response
from bayesgen.statistics import (
    Cells,
    check_rows,
)
from bayesgen.typing import Array, Bool, Float

from .blocks import BlockModel, column_name
from .closed_response import (
    RESPONSE,
    Regression,
    check_prior,
    refuse_sparse,
    refuse_unseen,
    regression_schema,
)

COLUMNS = "real"


@dataclasses.dataclass(frozen=True)
class NaiveBayesRegression(Regression):
    """Regression by naive Bayes: given the response y, the columns are independent, each about a line in y.

    Generative story, with c the training mean of y::

        y_variance           ~ InverseGamma(shape, scale)
        y_mean               ~ Normal(m, y_variance / kappa)
        y                    ~ Normal(y_mean, y_variance)
        real_variance[j]     ~ InverseGamma(shape, scale[j])
        real_coefficients[j] ~ Normal(0, real_variance[j] / precision)
        value of j at c      ~ Normal(m[j], real_variance[j] / kappa)
        real[j]              ~ Normal(value of j at c + (y - c) real_coefficients[j], real_variance[j])

    At one process, p(y | x, Q) is normal, in closed form; the one-step answer p(y | x, T) is proportional to a product
    of Student-t densities whose scales depend on y, and is normalised by quadrature. Cells of columns may be missing,
    in training and in new rows, and are marginalised. Training rows without y are refused.

    Args:
        prior: a `LinearNormalInverseGamma` with one feature, y, for the columns; None for its defaults with kappa=0.01.
        response_prior: a `NormalInverseGamma` for y; None for its defaults.

    The blocks, and sites, are called `y` and `real`; `real_coefficients` has a last axis of length 1, the slope in y.

    >>> import bayesgen as bg
    >>> X, y = [[1.0, 9.1], [2.0, 8.2], [3.0, None], [4.0, 5.8], [5.0, 5.1]], [1.1, 1.9, 3.2, 3.9, 5.1]
    >>> fit = bg.fit(bg.NaiveBayesRegression(), X, y, method=bg.MAP())
    >>> bg.predict(fit, [[2.5, 7.5], [None, 7.5]], rule=bg.PlugIn()).mean.round(1).tolist()
    [2.6, 2.7]
    """

    prior: LinearNormalInverseGamma | None = None
    response_prior: NormalInverseGamma | None = None

    def __post_init__(self) -> None:
        check_prior(self, self.prior, LinearNormalInverseGamma)
        check_prior(self, self.response_prior, NormalInverseGamma, "response_prior")

    def infer_schema(self, table: Table, y: np.ndarray | None, declared: Schema) -> Schema:
        refuse_sparse(type(self).__name__, table)
        return regression_schema(self, table, declared)

    def concrete(self, schema: Schema) -> ConcreteModel:
        assert schema.response is not None
        lines = self.prior or LinearNormalInverseGamma(kappa=0.01)
        response = self.response_prior or NormalInverseGamma()
        return ColumnsOfResponse(
            ((RESPONSE, response, (schema.response.name,)), (COLUMNS, lines, tuple(schema.columns or ())))
        )


@dataclasses.dataclass(frozen=True)
class ColumnsOfResponse(BlockModel):
    """A normal response, and columns that are linear in it."""

    blocks: tuple[tuple[str, Family, tuple[str, ...]], ...]
    class_prior = None

    @property
    def response(self) -> Response:
        return Response(RESPONSE, is_parent=True)

    @property
    def feature_sources(self) -> Mapping[str, str]:
        return {COLUMNS: RESPONSE}

    @property
    def closed_response(self) -> "NaiveResponse":
        return NaiveResponse()

    def infer_schema(self, table: Table, y: np.ndarray | None, declared: Schema) -> Schema:
        return NaiveBayesRegression().infer_schema(table, y, declared)

    def read_rows(self, schema: Schema, table: Table) -> Rows:
        """The response, NaN in new rows, and the columns."""
        refuse_sparse(NaiveBayesRegression.__name__, table)
        assert schema.response is not None
        cells, mask = schema.encode_cells(table, schema.columns or ())
        observed: dict[str, Bool[Array, "n ..."]] = {} if mask is None else {COLUMNS: mask}
        y = response_of_rows(table, schema.response.name)
        missing = np.isnan(y)
        if table.labels is None:
            observed[RESPONSE] = ~missing
        elif missing.any():
            raise DataError(
                f"{schema.response.name} is missing in {int(missing.sum())} rows, the first at row "
                f"{int(np.argmax(missing))}, and the distribution of the columns depends on it. Drop these rows, or "
                "use JointGaussianRegression(), which learns from them by MLE(), MAP() and NUTS()."
            )
        return Rows({RESPONSE: y, COLUMNS: cells}, observed)

    def check_rows(self, schema: Schema, attributes: Mapping[str, Cells]) -> None:
        check_rows(attributes[COLUMNS], schema.variance, functools.partial(column_name, schema.columns or ()))

    def with_scale(self, schema: Schema, summaries: Mapping[str, Any]) -> Schema:
        """Fill in means and variances of response and columns; known ones stay."""
        schema = super().with_scale(schema, summaries)
        columns = schema.columns or ()
        self._check_intercepts(schema, np.broadcast_to(np.asarray(summaries[COLUMNS].count)[0], len(columns)))
        return schema

    def _check_intercepts(self, schema: Schema, counts: Float[np.ndarray, " D"]) -> None:
        """Refuse a column without observed cells whose intercept has a flat prior: its posterior is improper."""
        columns, family = schema.columns or (), dict((name, family) for name, family, _ in self.blocks)[COLUMNS]
        lines = family.resolve(self._scale(schema, COLUMNS, family, columns))
        assert isinstance(lines, LinearNormalInverseGamma)
        if not lines.intercept or isinstance(lines.kappa, dist.Distribution):
            return
        unknown = np.flatnonzero((lines.kappa == 0) & (counts == 0))
        if unknown.size:
            raise DataError(
                f"Every cell of {quote_some(columns[place] for place in unknown.tolist())} is missing, and the prior "
                "of its intercept is flat (kappa=0), so nothing is known of its values. Drop it, or give "
                "LinearNormalInverseGamma(kappa=0.01)."
            )

    def _scale(self, schema: Schema, name: str, family: Family, columns: Sequence[str]) -> Scale:
        response = schema.response
        if response is None or response.variance is None or schema.mean is None or schema.variance is None:
            refuse_unseen(name)
        if name == RESPONSE:
            return Scale(mean=np.asarray(response.mean), variance=np.asarray(response.variance))
        return Scale(
            num_columns=len(columns),
            mean=schema.mean,
            variance=schema.variance,
            feature_mean=np.array([response.mean]),
            feature_variance=np.array([response.variance]),
        )


@dataclasses.dataclass(frozen=True)
class NaiveResponse(ClosedResponse):
    """A normal response, given columns that are independent given it."""

    is_predictive = False

    def at(self, parameters: Mapping[str, np.ndarray], rows: Rows) -> ClosedAnswer:
        """Normal, with the sum of the precisions: that of y, and b^2 / s^2 of each column with slope b and std s."""
        mean, variance = (np.asarray(parameters[f"{RESPONSE}_{name}"])[..., None] for name in ("mean", "variance"))
        coefficients, noise = (np.asarray(parameters[f"{COLUMNS}_{name}"]) for name in ("coefficients", "variance"))
        intercept = np.asarray(parameters.get(f"{COLUMNS}_intercept", 0.0))  # without one, lines go through zero
        slopes = coefficients[..., 0]
        expected = intercept + slopes * mean  # of the columns at the mean of y
        center = expected.reshape(-1, expected.shape[-1]).mean(0)
        cells, mask = np.asarray(rows.values[COLUMNS], np.float64), rows.observed.get(COLUMNS)
        observed = np.ones(cells.shape) if mask is None else np.asarray(mask, np.float64)
        shifts = np.where(observed > 0, cells - center, 0.0)
        weights = slopes / noise
        precision = 1 / variance + (weights * slopes) @ observed.T
        slope = weights @ shifts.T + (weights * (center - expected)) @ observed.T
        return NormalPredictive(mean + slope / precision, 1 / np.sqrt(precision)), None

    def predictive(self, families: Mapping[str, Family], rows: Rows) -> None:
        """None: a product of Student-t densities has no closed form."""
