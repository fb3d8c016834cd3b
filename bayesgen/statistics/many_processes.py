"""Densities of jointly normal rows with missing cells under many processes: what averages over draws take."""

import jax
import jax.numpy as jnp

from bayesgen.typing import Array, Bool, Float

from .arrays import inverse_lower, log_diagonal
from .normal import LOG_2PI


def marginal_log_probs(
    loc: Float[Array, "B D"],
    scale_tril: Float[Array, "B D D"],
    rows: Float[Array, "n D"],
    observed: Bool[Array, "n D"],
) -> Float[Array, "n B"]:
    """Log densities of what is there of each row under each of many normal distributions. Not differentiable.

    The columns that are missing are eliminated from the precisions, one after another, for all distributions at once:
    what is left is the inverse of the covariance of the others, and the pivots are the ratio of determinants. Few are
    missing of most rows, so that this takes less time than a Cholesky factor for each row and distribution.
    """
    inverse = inverse_lower(scale_tril)
    precision = jnp.moveaxis(jnp.swapaxes(inverse, -1, -2) @ inverse, 0, -1)  # distributions last: neighbours in memory
    constant = -log_diagonal(inverse)
    means = loc.T

    def of_row(row_and_mask: tuple[Float[Array, " D"], Bool[Array, " D"]]) -> Float[Array, " B"]:
        row, mask = row_and_mask
        places, num_missing = jnp.argsort(mask), (~mask).sum()  # those that are missing come first

        def eliminated(
            index: Array, state: tuple[Float[Array, "D D B"], Float[Array, " B"]]
        ) -> tuple[Float[Array, "D D B"], Float[Array, " B"]]:
            left, half_log_det = state
            column = left[places[index]]
            pivot = column[places[index]]
            return left - column[:, None] * (column / pivot)[None], half_log_det + 0.5 * jnp.log(pivot)

        left, half_log_det = jax.lax.fori_loop(0, num_missing, eliminated, (precision, constant))
        residuals = jnp.where(mask[:, None], row[:, None] - means, 0.0)
        squares = jnp.einsum("ib,ijb,jb->b", residuals, left, residuals)
        return -0.5 * (squares + LOG_2PI * mask.sum()) - half_log_det

    return jax.lax.map(of_row, (jnp.where(observed, rows, 0.0), jnp.asarray(observed)))
