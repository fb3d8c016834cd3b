"""Draws of a mixture with exchangeable components: diagnostics that do not depend on their order, and relabelling."""

import dataclasses
from typing import TypeVar

import jax
import numpy as np

from bayesgen.data import Rows
from bayesgen.errors import FitError
from bayesgen.posteriors import (
    MATCHED_ROWS,
    Draws,
    ExchangeableComponents,
    chains_joined,
    convergence_problems,
    entry_names,
    label_invariants,
    matching_orders,
    random_pairs,
    reordered,
    warn_of_convergence,
)
from bayesgen.program import log_density_of_sites, log_joint_draws
from bayesgen.runtime import EQUAL_DENSITIES, TABLE_CELLS, as_key, generator
from bayesgen.typing import Int, Seed

from .export import axes, class_axes
from .trained import TrainedProgram

Relabelled = TypeVar("Relabelled", bound=TrainedProgram)


def with_invariant_diagnostics(draws: Draws, axis_by_name: dict[str, int], rows: Rows, seed: Seed) -> Draws:
    """Draws with diagnostics that do not depend on the order of components, where these are exchangeable.

    Args:
        draws: of a mixture.
        axis_by_name: parameter -> its axis of the components, among those of one draw.
        rows: the training rows.
        seed: chooses the rows by which components are matched.
    """
    if draws.program.num_classes < 2:
        return draws
    rng = generator(as_key(seed))
    some = _some_rows(rows, draws, rng)
    if not _is_exchangeable(draws, axis_by_name, some):
        return draws
    pairs = random_pairs(some.num_rows, rng)
    table = log_joint_draws(draws.program, chains_joined(draws.latents), some)
    invariants = label_invariants(table, np.asarray(some.frequencies), pairs, len(draws.sample_stats["diverging"]))
    return dataclasses.replace(draws, components=ExchangeableComponents(some, invariants))


def relabel(self: Relabelled) -> Relabelled:
    """The fit of a mixture by `NUTS()` with the components of all its draws in one order.

    Components are exchangeable, so their order may differ between draws. They are matched by their responsibilities
    for training rows, first to those of the draw of highest density. Then means, R-hat and plots of parameters, and
    responsibilities averaged over draws, are meaningful. Warns if chains still disagree.

    Raises:
        FitError: anything but draws of a mixture with exchangeable components.

    Source: Stephens (2000), Dealing with label switching in mixture models, section 4.
    """
    draws = self.posterior
    if not isinstance(draws, Draws) or draws.components is None:
        raise FitError(NOTHING_TO_RELABEL)
    rows, energies = draws.components.rows, draws.sample_stats["potential_energy"]
    table = log_joint_draws(draws.program, chains_joined(draws.latents), rows)
    orders = matching_orders(table, np.asarray(rows.frequencies), int(energies.argmin())).reshape(*energies.shape, -1)
    draws = dataclasses.replace(_ordered(draws, class_axes(self), orders), components=None)
    warn_of_convergence(convergence_problems(draws.values, draws.sample_stats, entry_names(*axes(self))))
    moved = int((orders != np.arange(orders.shape[-1])).any(axis=-1).sum())
    return dataclasses.replace(self, posterior=draws, attributes=self.attributes | {"relabelled_draws": moved})


NOTHING_TO_RELABEL = (
    "There is nothing to relabel: only draws by NUTS() of a mixture whose components are exchangeable may swap them. "
    "Points have one order, and so have classes with labels, components with priors of their own, and draws that have "
    "been relabelled."
)


def _is_exchangeable(draws: Draws, axis_by_name: dict[str, int], rows: Rows) -> bool:
    """Whether a process with permuted components has the same density and the same prior density.

    Swapping the first two components and rotating all of them generate every permutation.
    """
    num_components = draws.program.num_classes
    last = jax.tree.map(lambda value: value[-1:, -1:], (draws.latents, draws.values))
    last_draw = dataclasses.replace(draws, latents=last[0], values=last[1])
    table, density = log_joint_draws(draws.program, chains_joined(last_draw.latents), rows), _log_prior(last_draw)
    swapped, moved = np.arange(num_components), np.roll(np.arange(num_components), 1)
    swapped[:2] = [1, 0]
    for order in (swapped, moved):
        permuted = _ordered(last_draw, axis_by_name, order[None, None])
        permuted_table = log_joint_draws(draws.program, chains_joined(permuted.latents), rows)
        if not np.allclose(permuted_table, table[..., order], EQUAL_DENSITIES, EQUAL_DENSITIES) or not np.isclose(
            _log_prior(permuted), density, EQUAL_DENSITIES, EQUAL_DENSITIES
        ):
            return False
    return True


def _ordered(draws: Draws, axis_by_name: dict[str, int], orders: Int[np.ndarray, "chains draws K"]) -> Draws:
    """The draws with the components of each in its order."""
    values = {
        name: reordered(value, orders, axis_by_name[name]) if name in axis_by_name else value
        for name, value in draws.values.items()
    }
    latents = draws.program.latents_of(values)
    return dataclasses.replace(draws, values=values, latents={name: latents[name] for name in draws.latents})


def _log_prior(draw: Draws) -> float:
    """The log prior density of a single draw, in the coordinates of its sites."""
    latents = {name: value[0, 0] for name, value in draw.latents.items()}
    with jax.enable_x64(True):
        return float(log_density_of_sites(draw.program, latents))


def _some_rows(rows: Rows, draws: Draws, rng: np.random.Generator) -> Rows:
    """A random subset of the rows of positive weight, as many as matching components needs."""
    counting = np.flatnonzero(np.asarray(rows.frequencies))
    num_draws = draws.sample_stats["diverging"].size
    most = min(MATCHED_ROWS, max(1, 2 * TABLE_CELLS // (num_draws * draws.program.num_classes)))
    chosen = counting if len(counting) <= most else np.sort(rng.choice(counting, most, replace=False))
    return dataclasses.replace(rows.take(chosen), labels=None, weights=np.asarray(rows.frequencies)[chosen])
