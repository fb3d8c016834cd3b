"""Log densities of labels given attributes: what discriminative training maximises.

A row with label y tells log p(y | x, Q) = log p(x, y | Q) - log sum_k p(x, k | Q), computed from the table of
log-joints as -log(1 + sum over the other classes of p(x, k | Q) / p(x, y | Q)): that keeps its digits however sure a
process is of the label, and what it tells of the parameters with them.
"""

import functools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp

from bayesgen.data import Rows
from bayesgen.records import record, static
from bayesgen.runtime import OwnedJit
from bayesgen.statistics import SufficientStatistics
from bayesgen.typing import Array, Float

from .density import density_work, log_likelihood, parameter_log_prior
from .evaluation import Evaluation, evaluate_classes
from .generative import GenerativeProgram
from .joint import log_joint_of
from .log_densities import LatentsDensity, unravel
from .starts import FAST_TO_COMPILE

CHUNK_CELLS = 1 << 18  # of rows x classes x columns: they stay in the cache, and gradients hold one chunk's alone
NOTHING = -1e30  # a logarithm of zero that has a slope, which is zero
ROWS_AT_ONCE = 64  # whose slopes are computed together


class DensityByRow(LatentsDensity):
    """A log density that looks at every row.

    Attributes:
        program: the bound program, with classes.
        rows: the rows with weights, padded by rows of weight zero.
    """

    rows: Rows

    @property
    def cost(self) -> float:
        """One multiplication for each cell and class."""
        return rows_work(self.program, self.rows)

    @property
    def loops_over_rows(self) -> bool:
        """Yes."""
        return True


@record
class ConditionalDensity(DensityByRow):
    """Log density of the labels of rows given their attributes, with or without the prior of the parameters.

    Attributes:
        program: the bound program, with classes.
        rows: the labelled rows with weights, padded by rows of weight zero.
        prior: whether the log prior density is added, in the coordinates that are reported.
    """

    program: GenerativeProgram
    rows: Rows
    prior: bool = static(default=False)

    def __call__(self, vector: Float[Array, " D"]) -> Float[Array, ""]:
        """sum_i w_i log p(y_i | x_i, Q), and log p(Q)."""
        evaluation = evaluation_at(self.program, vector, self.rows)
        total = log_likelihood_of_labels(self.program, evaluation, self.rows)
        return total + parameter_log_prior(self.program, evaluation) if self.prior else total


@record
class AttributesDensity(DensityByRow):
    """Log density of the attributes of rows, their labels summed out.

    Attributes:
        program: the bound program.
        rows: the rows with weights, padded by rows of weight zero.
    """

    program: GenerativeProgram
    rows: Rows

    def __call__(self, vector: Float[Array, " D"]) -> Float[Array, ""]:
        """sum_i w_i log p(x_i | Q)."""
        return log_likelihood_of_attributes(self.program, evaluation_at(self.program, vector, self.rows), self.rows)


def rows_work(program: GenerativeProgram, rows: Rows) -> float:
    """Multiplications of one evaluation, roughly: one for each cell of the rows, and class."""
    return float(program.num_classes * sum(np.size(leaf) for leaf in jax.tree.leaves(rows)))


def evaluation_at(program: GenerativeProgram, vector: Float[Array, " D"], rows: Rows) -> Evaluation:
    """The program run at its classes, at unconstrained latents."""
    return evaluate_classes(program, unravel(program.structure, vector), rows.covariates, unconstrained=True)


def log_likelihood_of_labels(program: GenerativeProgram, evaluation: Evaluation, rows: Rows) -> Float[Array, ""]:
    """sum_i w_i log p(y_i | x_i) at an evaluated program."""

    def of_chunk(chunk: Rows) -> Float[Array, " n"]:
        return -jax.nn.softplus(logsumexp(log_odds_of_others(program, evaluation, chunk), axis=1))

    return weighted_sum(of_chunk, rows, program.num_classes)


def log_likelihood_of_attributes(program: GenerativeProgram, evaluation: Evaluation, rows: Rows) -> Float[Array, ""]:
    """sum_i w_i log p(x_i) at an evaluated program, whatever the labels."""

    def of_chunk(chunk: Rows) -> Float[Array, " n"]:
        return logsumexp(log_joint_of(program, evaluation, chunk), axis=1)

    return weighted_sum(of_chunk, rows, program.num_classes)


def log_odds_of_others(program: GenerativeProgram, evaluation: Evaluation, rows: Rows) -> Float[Array, "n K"]:
    """log p(x, k) - log p(x, y) of each class k but the row's label y, or of none."""
    table = log_joint_of(program, evaluation, rows)
    of_labels = jnp.take_along_axis(table, rows.codes[:, None], axis=1)
    log_odds = table - of_labels
    is_out = (rows.codes[:, None] == jnp.arange(program.num_classes)) | jnp.isneginf(log_odds)
    return jnp.where(is_out, NOTHING, log_odds)


def weighted_sum(of_chunk: Callable[[Rows], Float[Array, " n"]], rows: Rows, num_classes: int) -> Float[Array, ""]:
    """Sum over rows of weight times what a function gives, chunk by chunk; slopes compute each chunk again."""
    numbers_per_row = num_classes * max(math.prod(np.shape(values)[1:]) for values in rows.values.values())
    most = 1 << max(CHUNK_CELLS // max(numbers_per_row, 1), 1).bit_length() - 1
    size = math.gcd(rows.num_rows, most) if rows.num_rows > most else rows.num_rows
    chunks = jax.tree.map(lambda leaf: jnp.reshape(leaf, (-1, size, *jnp.shape(leaf)[1:])), rows)

    @jax.checkpoint
    def add(total: Float[Array, ""], chunk: Rows) -> tuple[Float[Array, ""], None]:
        weights = chunk.frequencies
        return total + jnp.where(weights > 0, weights * of_chunk(chunk), 0.0).sum(), None

    return jax.lax.scan(add, jnp.zeros(()), chunks)[0]


@functools.partial(OwnedJit, compiler_options=FAST_TO_COMPILE)
def slopes_of_log_odds(program: GenerativeProgram, vector: Float[Array, " D"], rows: Rows) -> Float[Array, "n K D"]:
    """Derivatives by the vector of log p(x, k) - log p(x, y), for each row and class k; zero for the label y.

    Directions in which all of them vanish leave p(y | x) as it is.
    """

    def of_row(row: Rows) -> Float[Array, "K D"]:
        one_row = jax.tree.map(lambda leaf: leaf[None], row)
        return jax.jacrev(lambda point: _against_labels(program, point, one_row)[0])(vector)

    return jax.lax.map(of_row, rows, batch_size=ROWS_AT_ONCE)


@functools.partial(OwnedJit, compiler_options=FAST_TO_COMPILE)
def slope_along(
    program: GenerativeProgram, vector: Float[Array, " D"], direction: Float[Array, " D"], rows: Rows
) -> Float[Array, "n K"]:
    """The same along one direction."""
    return jax.jvp(lambda point: _against_labels(program, point, rows), (vector,), (direction,))[1]


def _against_labels(program: GenerativeProgram, vector: Float[Array, " D"], rows: Rows) -> Float[Array, "n K"]:
    """log p(x, k) - log p(x, y) of rows with label y."""
    table = log_joint_of(program, evaluation_at(program, vector, rows), rows)
    return table - jnp.take_along_axis(table, rows.codes[:, None], axis=1)


@record
class ResponseDensity(LatentsDensity):
    """Log density of a continuous label given the attributes, with or without the prior of the parameters.

    Attributes:
        program: the bound program.
        statistics: of the rows.
        without: of the same rows without their label.
        prior: whether the log prior density is added, in the coordinates that are reported.
    """

    program: GenerativeProgram
    statistics: SufficientStatistics
    without: SufficientStatistics
    prior: bool = static(default=False)

    def __call__(self, vector: Float[Array, " D"]) -> Float[Array, ""]:
        """log p(x, y | Q) - log p(x | Q), and log p(Q)."""
        free = unravel(self.program.structure, vector)
        evaluation = evaluate_classes(self.program, free, self.statistics.covariates, unconstrained=True)
        of_both, of_attributes = (
            log_likelihood(self.program, evaluation, statistics) for statistics in (self.statistics, self.without)
        )
        total = of_both - of_attributes
        return total + parameter_log_prior(self.program, evaluation) if self.prior else total

    @property
    def cost(self) -> float:
        """Of both densities."""
        return density_work(self.program, self.statistics) + density_work(self.program, self.without)

    @property
    def loops_over_rows(self) -> bool:
        """Whether some sites have no sufficient statistic."""
        return self.statistics.rows is not None
