"""The likelihood of hidden Markov models: densities, expected counts, and states at each time step."""

import dataclasses

import jax
import jax.numpy as jnp

from bayesgen.data import PADDING
from bayesgen.statistics import (
    CategoricalLikelihood,
    LatentLikelihood,
    Likelihood,
    Parameters,
    StatesLikelihood,
    namespace,
)
from bayesgen.typing import Array, Bool, Float, Int, Real, Shaped

from .hidden_chains import expected_counts, log_density, most_probable_paths

EMISSION = "emission_"  # prefix of the names of the emissions' parameters


@dataclasses.dataclass(frozen=True)
class HiddenMarkovLikelihood(LatentLikelihood, StatesLikelihood):
    """Hidden Markov models whose emissions have a likelihood. Rows are retained, and their states marginalised.

    Parameters: `log_initial` (K, S), `log_transition` (K, S, S), and those of the emissions with the axes (K, S) first,
    with the prefix `emission_`. Cells of a time step may be missing where the emissions' likelihood allows it.

    Attributes:
        emission: the likelihood of the emissions.
    """

    emission: Likelihood

    @property
    def takes_squares(self) -> bool:  # type: ignore[override]
        return self.emission.takes_squares

    @property
    def has_symmetries(self) -> bool:
        """Always: states may be renumbered."""
        return True

    def log_probs(
        self,
        parameters: Parameters,
        values: Real[Array, "m T ..."],
        observed: Bool[Array, "m T ..."] | None,
        classes: Int[Array, " m"],
    ) -> Float[Array, " m"]:
        """Log density of each row under its class. See `LatentLikelihood.log_probs`.

        Emissions have tables of densities under all classes; the recursion runs once, for the class of the row.
        """
        steps, mask = self._steps(values, observed)
        logs = self.log_emissions(parameters, values, observed)
        tables = parameters["log_initial"], parameters["log_transition"]
        if len(tables[0]) == 1:
            chosen, (initial, transition) = logs[:, :, 0], (table[0] for table in tables)
        else:
            chosen = jnp.take_along_axis(logs, classes[:, None, None, None], 2)[:, :, 0]
            initial, transition = (table[classes] for table in tables)
        lengths = None if mask is None else num_observed_steps(mask, steps.ndim - 2)
        return log_density(initial, transition, chosen, lengths)

    def log_emissions(
        self, parameters: Parameters, values: Real[Array, "m T ..."], observed: Bool[Array, "m T ..."] | None
    ) -> Float[Array, "m T K S"]:
        """Log density of each time step in each state under each class; 0 where it is missing."""
        num_classes, num_states = parameters["log_initial"].shape
        state_parameters = {
            name.removeprefix(EMISSION): value.reshape(num_classes * num_states, *value.shape[2:])
            for name, value in parameters.items()
            if name.startswith(EMISSION)
        }
        steps, mask = self._steps(values, observed)
        shape = (*steps.shape[:2], num_classes, num_states)
        flat = steps.reshape(-1, *steps.shape[2:])
        flat_mask = None if mask is None else mask.reshape(flat.shape)
        logs = self.emission.density(state_parameters).log_prob(flat, flat_mask).reshape(shape)
        if mask is None:
            return logs
        return jnp.where(jnp.asarray(mask).any(tuple(range(2, mask.ndim)))[..., None, None], logs, 0.0)

    def numbers_per_row(self, parameters: Parameters, values: Real[Array, "m T ..."]) -> float:
        """Densities of time steps in all states of all classes, and the tables of both passes."""
        num_classes, num_states = parameters["log_initial"].shape
        return float(values.shape[1] * num_states * (num_classes + 3) + num_states**2)

    def smoothed(
        self, parameters: Parameters, values: Shaped[Array, "n T ..."], observed: Bool[Array, "n T ..."] | None
    ) -> Float[Array, "n K T S"]:
        return expected_counts(*self._tables(parameters, values, observed)).states

    def most_probable_paths(
        self,
        parameters: Parameters,
        values: Shaped[Array, "n T ..."],
        observed: Bool[Array, "n T ..."] | None,
        lengths: Int[Array, " n"],
    ) -> Int[Array, "n K T"]:
        return most_probable_paths(*self._tables(parameters, values, observed), lengths[:, None])[0]

    def in_order(self, parameters: Parameters, order: Int[Array, " S"]) -> dict[str, Array]:
        moved = {name: jnp.take(value, order, 1) for name, value in parameters.items()}
        return {**moved, "log_transition": jnp.take(moved["log_transition"], order, 2)}

    def _steps(
        self, values: Real[Array, "m T ..."], observed: Bool[Array, "m T ..."] | None
    ) -> tuple[Array, Bool[Array, "m T ..."] | None]:
        """Time steps with possible values in missing cells, and a mask of the observed ones; None where all are."""
        mask = None if observed is None else jnp.asarray(observed)
        if isinstance(self.emission, CategoricalLikelihood) and values.ndim == 2:
            codes = jnp.asarray(values).astype(int)
            return steps_of_symbols(codes, jnp.ones(codes.shape, bool) if mask is None else mask)
        return jnp.asarray(values), mask

    def _tables(
        self, parameters: Parameters, values: Real[Array, "m T ..."], observed: Bool[Array, "m T ..."] | None
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Log probabilities of initial states and transitions, and of the time steps of each row under each class."""
        logs = jnp.moveaxis(self.log_emissions(parameters, values, observed), 1, 2)
        return jnp.asarray(parameters["log_initial"]), jnp.asarray(parameters["log_transition"]), logs


def steps_of_symbols(
    codes: Real[Array, "*batch T"], observed: Bool[Array, "*batch T"]
) -> tuple[Real[Array, "*batch T"], Bool[Array, "*batch T"]]:
    """Codes with symbols in place of padding, and a mask of the observed ones before the first padding."""
    xp = namespace(codes, observed)
    is_observed = observed & (xp.cumsum((codes == PADDING) & observed, -1) == 0)
    return xp.where(is_observed, codes, 0), is_observed


def num_observed_steps(observed: Bool[Array, "..."], step_axes: int) -> Int[Array, "*batch"]:
    """The number of time steps up to the last with an observed cell; later ones have factor 1."""
    xp, mask = namespace(observed), observed.any(tuple(range(observed.ndim - step_axes, observed.ndim)))
    return xp.where(mask, xp.arange(1, mask.shape[-1] + 1), 0).max(-1, initial=0)
