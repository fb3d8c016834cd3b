"""What draws of a mixture are judged by while the names of its components mean nothing."""

import numpy as np
import scipy.special

from bayesgen.data import Rows
from bayesgen.errors import LabelSwitchingWarning, warn
from bayesgen.records import by_content
from bayesgen.typing import Float, Int

NUM_PAIRS = 8  # of rows, of which it is asked whether they belong together


@by_content
class UnnamedComponents:
    """Components that are exchangeable, so that draws may swap them.

    Attributes:
        rows: some of the training rows, by which components are told apart.
        invariants: name -> (chain, draw, ...): what does not depend on the names of the components.
    """

    rows: Rows
    invariants: dict[str, np.ndarray]


def warn_of_switching() -> None:
    """Say that the names of components mean nothing yet."""
    warn(
        "The components of this mixture are exchangeable, and draws may swap their names: means, R-hat and plots of "
        "its parameters, and responsibilities, mean nothing before fit.relabel(). Densities of rows do.",
        LabelSwitchingWarning,
    )


def invariants(
    log_joint: Float[np.ndarray, "all_draws n K"],
    weights: Float[np.ndarray, " n"],
    pairs: Int[np.ndarray, "pairs 2"],
    num_chains: int,
) -> dict[str, Float[np.ndarray, "chains draws ..."]]:
    """What draws say whatever their components are called.

    Args:
        log_joint: log p(x_i, component k | Q_s), chains one after another.
        weights: of the rows.
        pairs: positions of two rows each.
        num_chains: number of chains.

    Returns:
        "log density of rows"; "rows in one component", the probability of each pair to come from one, given Q;
        "shares of components", expected numbers of rows, the largest first.
    """
    log_marginal = scipy.special.logsumexp(log_joint, axis=2)
    responsibilities = np.exp(log_joint - log_marginal[..., None])
    one, other = responsibilities[:, pairs[:, 0]], responsibilities[:, pairs[:, 1]]
    by_draw = {
        "log density of rows": log_marginal @ weights,
        "rows in one component": (one * other).sum(axis=2),
        "shares of components": -np.sort(-np.einsum("snk,n->sk", responsibilities, weights / weights.sum()), axis=1),
    }
    shape = (num_chains, len(log_joint) // num_chains)
    return {name: value.reshape(*shape, *value.shape[1:]) for name, value in by_draw.items()}


def some_pairs(num_rows: int, rng: np.random.Generator) -> Int[np.ndarray, "pairs 2"]:
    """Positions of a few pairs of different rows; none where there is one row alone."""
    if num_rows < 2:
        return np.empty((0, 2), np.int64)
    return np.stack([rng.choice(num_rows, 2, replace=False) for _ in range(NUM_PAIRS)])
