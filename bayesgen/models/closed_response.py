"""p(y | x) of a regression in closed form; the schema and the refusals of regressions."""

import abc
import dataclasses
from collections.abc import Mapping
from typing import NoReturn

import numpy as np

from bayesgen.data import COUNT, REAL, ResponseColumn, Rows, Schema, Table, refuse_classes_of_response
from bayesgen.describe import quote_some
from bayesgen.errors import DataError, ModelError
from bayesgen.families import Family, MultivariateStudentTDensity, joint_student_t
from bayesgen.labels import NumberLabel
from bayesgen.predictives import NormalPredictive, StudentTPredictive
from bayesgen.program import ClosedAnswer, ClosedResponse, Recipe, Response
from bayesgen.statistics import LOG_2PI, LastGivenRest, last_given_rest
from bayesgen.typing import Float

RESPONSE = "y"  # site, and block, of a response of its own
NUMBERS = (REAL, COUNT)


def regression_schema(model: Recipe, table: Table, declared: Schema) -> Schema:
    """The schema of a regression on columns of numbers.

    Raises:
        DataError: declared classes; columns that are no numbers, by name.
    """
    name = type(model).__name__
    refuse_classes_of_response(name, declared.classes)
    schema = declared.resolve(table)
    columns = schema.columns or ()
    kinds_of = {column: schema.kind_of(column) for column in columns}
    wrong = [column for column, kind in kinds_of.items() if kind.modelled_as not in NUMBERS]
    if wrong:
        kinds = ", ".join(sorted({kinds_of[column].name for column in wrong}))
        raise DataError(
            f"{name} takes real columns, and {quote_some(wrong)} are {kinds}. Turn them into numbers: "
            "LinearRegression(basis=...) with an encoder does so (OneHotEncoder, in a ColumnTransformer), or convert "
            "them, declare Schema(kinds={...: 'real'}), or leave them out."
        )
    if COUNT in kinds_of.values():
        schema = dataclasses.replace(schema, kinds={c: REAL if k == COUNT else k for c, k in kinds_of.items()})
    return dataclasses.replace(schema, response=schema.response or ResponseColumn())


def refuse_sparse(name: str, table: Table) -> None:
    """Refuse a sparse table, where a model takes every cell."""
    if table.sparse:
        raise DataError(f"X is sparse, and {name}() takes every cell of its columns. Give X.toarray().")


def refuse_missing_everywhere(response: str) -> NoReturn:
    """Refuse training rows without any response."""
    raise DataError(
        f"{response} is missing in every row, so that nothing is learned of it. Give it for some rows, or fit a "
        "model without a label to X alone."
    )


def refuse_unseen(block: str) -> NoReturn:
    """Refuse to resolve default hyperparameters of a block without training rows."""
    raise ModelError(
        f"Block {block!r}: default hyperparameters come from the training columns, which this schema has not seen. "
        "Bind with the schema of a fit (fit.schema), or give numbers."
    )


class Regression(Recipe[NumberLabel], abc.ABC):
    """A model whose label is a number."""

    def with_components(self, num_components: int) -> NoReturn:
        raise ModelError(
            f"A Mixture needs classes to be its components, and {type(self).__name__} has none: its label is "
            "continuous. Give it a classifier, such as GaussianDiscriminant()."
        )


def check_prior(model: Recipe, prior: Family | None, family: type[Family], argument: str = "prior") -> None:
    """Refuse a prior of another family than the model has."""
    if prior is not None and not isinstance(prior, family):
        raise ModelError(f"{type(model).__name__} takes a {family.__name__} as {argument}, got {type(prior).__name__}.")


@dataclasses.dataclass(frozen=True)
class JointNormalResponse(ClosedResponse):
    """The last column of a block of jointly normal columns, given the other observed ones.

    Attributes:
        response: the column.
    """

    response: Response

    def at(self, parameters: Mapping[str, np.ndarray], rows: Rows) -> ClosedAnswer:
        """Normal: the regression of y on x. Of draws, log p(x) is left to their programs."""
        mean, covariance = (np.asarray(parameters[f"{self.response.site}_{name}"]) for name in ("mean", "covariance"))
        if mean.ndim > 1:
            conditional = self._given_rest(mean, covariance, rows)
            return NormalPredictive(conditional.loc, conditional.scale), None
        conditional = self._given_rest(mean[None], covariance[None], rows, with_squares=True)
        assert conditional.squares is not None
        log_marginals = -0.5 * (conditional.squares + LOG_2PI * conditional.num_observed) - conditional.half_log_det
        return NormalPredictive(conditional.loc[0], conditional.scale[0]), log_marginals

    def predictive(self, families: Mapping[str, Family], rows: Rows) -> ClosedAnswer:
        """Student-t, with one more degree of freedom for each observed column of x, and a scale that grows with x.

        Source: Ding (2016), On the conditional distribution of the multivariate t distribution, section 2.
        """
        density = families[self.response.site].with_class_axis().row_predictive()
        assert isinstance(density, MultivariateStudentTDensity)
        center, factor = (np.asarray(array)[:, 0] for array in (density.ellipsoids.loc, density.ellipsoids.scale_tril))
        conditional = self._given_rest(center, factor @ np.swapaxes(factor, -1, -2), rows, with_squares=True)
        assert conditional.squares is not None
        df = float(np.asarray(density.df)[0]) + conditional.num_observed
        spread = np.sqrt((float(np.asarray(density.df)[0]) + conditional.squares[0]) / df)
        of_rows = conditional.squares.T, conditional.half_log_det.T, conditional.num_observed[:, None]
        log_marginals = np.asarray(joint_student_t(np.asarray(density.df), *of_rows)).T
        scales = conditional.scale[0] * spread
        return StudentTPredictive(np.broadcast_to(df, scales.shape), conditional.loc[0], scales), log_marginals

    def _given_rest(
        self,
        loc: Float[np.ndarray, "S P"],
        matrix: Float[np.ndarray, "S P P"],
        rows: Rows,
        *,
        with_squares: bool = False,
    ) -> LastGivenRest:
        cells = np.asarray(rows.values[self.response.site], np.float64)[:, :-1]
        mask = rows.observed.get(self.response.site)
        observed = None if mask is None else np.asarray(mask)[:, :-1]
        return last_given_rest(loc, matrix, cells, observed, with_squares=with_squares)
