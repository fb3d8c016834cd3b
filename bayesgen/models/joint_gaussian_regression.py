"""`JointGaussianRegression`: columns and response jointly normal."""

import dataclasses

import numpy as np

from bayesgen.data import Schema, Table
from bayesgen.errors import DataError
from bayesgen.families import NormalInverseWishart
from bayesgen.program import ConcreteModel, Response

from .blocks import BlockModel
from .closed_response import JointNormalResponse, Regression, check_prior, regression_schema

JOINT_BLOCK = "joint"


@dataclasses.dataclass(frozen=True)
class JointGaussianRegression(Regression):
    """Regression with a generative model of everything: the columns x and the response y are jointly normal.

    Generative story::

        covariance ~ InverseWishart(df, scale)
        mean       ~ Normal(m, covariance / kappa)
        (x, y)     ~ Normal(mean, covariance)

    so that p(y | x, Q) is normal, with the regression of y on x as its mean. Without missing cells, all methods but
    `NUTS` have closed forms. The MLE predicts like least squares. The one-step answer of `Exact()`, p(y | x, T), is a
    Student-t distribution whose scale grows with the distance of x from the training rows. Missing cells of new rows
    are marginalised, because x is modelled too. In training rows, cells and y may be missing for `MLE`, `MAP` and
    `NUTS`.

    Args:
        prior: a `NormalInverseWishart` over the columns and then y; None for its defaults, in the units of the data.

    The model has one block, with the site `joint`: the columns of X, then y.

    Source: Murphy, Machine Learning: A Probabilistic Perspective, section 4.3.1 (conditioning); Ding (2016), On the
    conditional distribution of the multivariate t distribution, section 2.

    >>> import bayesgen as bg
    >>> X, y = [[1.0], [2.0], [3.0], [4.0], [5.0]], [1.1, 1.9, 3.2, 3.9, 5.1]
    >>> fit = bg.fit(bg.JointGaussianRegression(), X, y, method=bg.Exact())
    >>> answer = bg.predict(fit, [[2.5], [None]], rule=bg.BMA())
    >>> answer.mean.round(2).tolist(), answer.interval(0.9).round(1).tolist()
    ([2.62, 3.04], [[1.3, 3.9], [0.5, 5.5]])
    """

    prior: NormalInverseWishart | None = None

    def __post_init__(self) -> None:
        check_prior(self, self.prior, NormalInverseWishart)

    @property
    def exact_takes_missing(self) -> bool:
        return False

    def infer_schema(self, table: Table, y: np.ndarray | None, declared: Schema) -> Schema:
        """The columns are real, and the response is called y."""
        schema = regression_schema(self, table, declared)
        assert schema.response is not None
        if schema.response.name in (schema.columns or ()):
            raise DataError(
                f"X has a column {schema.response.name!r}, which is the name of the response in the joint "
                "distribution. Rename the column, or leave it out if it is the response itself."
            )
        return schema

    def concrete(self, schema: Schema) -> ConcreteModel:
        assert schema.response is not None
        columns = (*(schema.columns or ()), schema.response.name)
        return JointColumns(((JOINT_BLOCK, self.prior or NormalInverseWishart(), columns),))


@dataclasses.dataclass(frozen=True)
class JointColumns(BlockModel):
    """A block of jointly normal columns, of which the last is the response."""

    blocks: tuple[tuple[str, NormalInverseWishart, tuple[str, ...]], ...]
    class_prior = None

    @property
    def response(self) -> Response:
        name, _, columns = self.blocks[0]
        return Response(name, len(columns) - 1)

    @property
    def closed_response(self) -> JointNormalResponse:
        return JointNormalResponse(self.response)
