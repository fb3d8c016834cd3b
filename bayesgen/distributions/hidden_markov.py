"""`HiddenMarkov`: sequences made by a Markov chain of hidden states, whose densities sum the states out."""

from collections.abc import Hashable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jax import lax
from numpyro.distributions import constraints
from numpyro.distributions.util import validate_sample

from bayesgen.errors import ModelError
from bayesgen.statistics import read_conditional, register
from bayesgen.typing import Array, Bool, Float, PRNGKeyArray, Shaped

from .cells import innermost, log_prob_of_cells, whole_axes
from .hidden_chains import log_density, sample_paths
from .hidden_markov_statistic import EMISSION, HiddenMarkovStatistic, num_steps_seen, steps_of_symbols
from .hidden_markov_support import StepsOfStates, depends_on_state, of_first_state
from .sequences import Length, SequenceDistribution, sequences

CATEGORICAL = dist.CategoricalProbs | dist.CategoricalLogits


class HiddenMarkov(SequenceDistribution):
    """A hidden Markov model, x = (x_1, ..., x_T), its states summed out.

        z_1 ~ initial,  z_t ~ transition[z_(t-1)],  x_t ~ emissions[z_t]

    Log densities are those of the forward algorithm, and their gradients, which cost one pass backward, hold the
    expected states (Rabiner 1989, Proceedings of the IEEE 77, section III). Steps are symbols where the emissions are
    `Categorical`: whole numbers, PADDING past the end. Else they are numbers, or arrays of them, and NaN stands for
    what was not seen, and for steps past the end: a step that nobody saw says nothing of the states.

    Args:
        initial: (..., S), probabilities of the first state.
        transition: (..., S, S), probabilities of the next state, row by row for the state before.
        emissions: any NumPyro distribution whose last batch axis is that of the states, (..., S), such as
            `Normal(loc, scale)` with `loc` of the shape (S,), or `MultivariateNormal` with means (S, D).
        length: number of steps of samples, or an array of them; see `SequenceDistribution`.
        max_length: number of steps T of the array.
        symbols: the symbols that codes stand for, where the emissions are `Categorical`.

    Raises:
        ModelError: emissions that are no distribution of one step, or have no axis for the states; shapes that tell of
            different numbers of states; symbols where steps are none, or not one for each code.

    >>> import numpyro.distributions as dist
    >>> weather = HiddenMarkov(
    ...     jnp.array([0.5, 0.5]), jnp.array([[0.9, 0.1], [0.2, 0.8]]), dist.Normal(jnp.array([0.0, 3.0]), 1.0), 4
    ... )
    >>> weather.sample(jax.random.key(0)).shape
    (4,)
    >>> print(f"{weather.log_prob(jnp.array([0.2, -0.5, 2.9, 3.1])):.3f}")
    -7.128
    """

    arg_constraints = {"initial": constraints.simplex, "transition": constraints.simplex}  # noqa: RUF012 - NumPyro's
    pytree_data_fields = ("initial", "transition", "emissions")

    def __init__(
        self,
        initial: Float[Array, "... S"],
        transition: Float[Array, "... S S"],
        emissions: dist.Distribution,
        length: Length = None,
        *,
        max_length: int | None = None,
        symbols: Sequence[Hashable] | None = None,
        validate_args: bool | None = None,
    ) -> None:
        _check_emissions(emissions, symbols)
        self.initial, self.transition, self.emissions = jnp.asarray(initial), jnp.asarray(transition), emissions
        _check_states(self.initial, self.transition, emissions)
        batch = (self.initial.shape[:-1], self.transition.shape[:-2], emissions.batch_shape[:-1])
        super().__init__(
            lax.broadcast_shapes(*batch),
            length,
            max_length=max_length,
            step_shape=emissions.event_shape,
            of_symbols=_are_symbols(emissions),
            symbols=symbols,
            validate_args=validate_args,
        )

    @property
    def num_states(self) -> int:
        """S."""
        return self.initial.shape[-1]

    @property
    def step_support(self) -> constraints.Constraint:
        """What the emissions of the first state may be."""
        return of_first_state(self.emissions.support, len(self.event_shape) - 1)

    @property
    def whole_step_axes(self) -> int:
        """As many as of events of the emissions."""
        return whole_axes(self.emissions)

    @constraints.dependent_property
    def support(self) -> Any:
        """Sequences of steps that the emissions of some state can take."""
        if self.of_symbols:
            leaf: Any = innermost(self.emissions)
            return sequences(leaf.probs.shape[-1])
        return StepsOfStates(self.emissions.support, self.num_states, self.whole_step_axes)

    @validate_sample
    def log_prob(self, value: Shaped[Array, "..."]) -> Float[Array, "..."]:
        """Log density of sequences, states summed out."""
        value = jnp.asarray(value)
        return self.log_prob_of_cells(value, jnp.ones(value.shape, bool) if self.of_symbols else ~jnp.isnan(value))

    def log_prob_of_cells(self, value: Shaped[Array, "..."], observed: Bool[Array, "..."]) -> Float[Array, "..."]:
        """Log density of the steps, or of the cells of steps, that are there. See `SequenceDistribution`."""
        step_axes = len(self.event_shape) - 1
        shape = lax.broadcast_shapes(self.batch_shape, value.shape[: value.ndim - step_axes - 1])
        if not value.shape[value.ndim - step_axes - 1]:
            return jnp.zeros(shape)
        if self.of_symbols:
            value, observed = steps_of_symbols(value, observed)
        lengths = num_steps_seen(observed, step_axes)
        missing_axes = max(len(self.batch_shape) + len(self.event_shape) - value.ndim, 0)

        def by_step(array: Shaped[Array, "..."]) -> jax.Array:
            """The steps first, and an axis for the states after those of batches."""
            array = jnp.reshape(array, (1,) * missing_axes + array.shape)
            array = jnp.expand_dims(jnp.moveaxis(array, array.ndim - step_axes - 1, 0), -1 - step_axes)
            states = array.ndim - step_axes - 1
            return jnp.broadcast_to(array, (*array.shape[:states], self.num_states, *array.shape[states + 1 :]))

        steps, seen = by_step(value), by_step(observed)
        steps = jnp.where(seen, steps, self.emissions.support.feasible_like(steps))
        logs = self._log_emissions(steps, seen, step_axes)
        logs = jnp.where(seen.any(tuple(range(seen.ndim - step_axes, seen.ndim))), logs, 0.0)
        total = log_density(_log(self.initial), _log(self.transition), jnp.moveaxis(logs, 0, -2), lengths)
        return jnp.broadcast_to(total, shape)

    def _log_emissions(
        self, steps: Shaped[jax.Array, "..."], seen: Bool[jax.Array, "..."], step_axes: int
    ) -> Float[jax.Array, "..."]:
        """Log density of steps in each state: -inf where a state cannot make what others can."""
        support = self.emissions.support
        if isinstance(innermost(self.emissions), CATEGORICAL):
            steps = steps.astype(int)
        if not depends_on_state(support, step_axes):
            return jnp.asarray(log_prob_of_cells(self.emissions, steps, seen))
        is_possible = support(steps)
        is_whole = jnp.expand_dims(is_possible, tuple(range(-step_axes, 0)))
        logs = log_prob_of_cells(self.emissions, jnp.where(is_whole, steps, support.feasible_like(steps)), seen)
        return jnp.where(is_possible, logs, -jnp.inf)

    def sample(self, key: PRNGKeyArray | None, sample_shape: tuple[int, ...] = ()) -> Shaped[Array, "..."]:
        """Independent sequences."""
        assert key is not None
        num_steps, batch, step_axes = self.steps_to_sample, self.batch_shape, len(self.event_shape) - 1
        of_states, of_steps = jax.random.split(key)
        initial = jnp.broadcast_to(self.initial, (*batch, self.num_states))
        states = sample_paths(of_states, initial, self.transition, num_steps, sample_shape)
        emissions = self.emissions.expand((*batch, self.num_states))
        steps = emissions.sample(of_steps, (*sample_shape, num_steps))
        steps = jnp.moveaxis(steps, len(sample_shape), len(sample_shape) + len(batch))
        chosen = jnp.take_along_axis(steps, jnp.expand_dims(states, tuple(range(-1 - step_axes, 0))), -1 - step_axes)
        chosen = jnp.squeeze(chosen, -1 - step_axes)
        return self.cut(chosen if self.of_symbols else chosen.astype(float))


def _are_symbols(emissions: dist.Distribution) -> bool:
    """Whether a step is one symbol."""
    return isinstance(innermost(emissions), CATEGORICAL) and not emissions.event_shape


def _check_emissions(emissions: dist.Distribution, symbols: Sequence[Hashable] | None) -> None:
    """Refuse what makes no steps, and symbols that do not stand for the codes of steps."""
    if not isinstance(emissions, dist.Distribution):
        raise ModelError(
            f"HiddenMarkov: emissions are a NumPyro distribution with an axis for the states, got {emissions!r}."
        )
    if isinstance(innermost(emissions), SequenceDistribution):
        raise ModelError(
            f"HiddenMarkov: emissions make one step at a time, and {type(innermost(emissions)).__name__} makes whole "
            "sequences. Give the distribution of a step."
        )
    if symbols is None:
        return
    if not _are_symbols(emissions):
        raise ModelError(
            f"HiddenMarkov: symbols are for emissions that are Categorical, got {type(innermost(emissions)).__name__}."
            " Leave symbols out."
        )
    leaf: Any = innermost(emissions)
    if len(symbols) != leaf.probs.shape[-1]:
        raise ModelError(
            f"HiddenMarkov: {len(symbols)} symbols, and emissions have {leaf.probs.shape[-1]}. Give one for each."
        )


def _check_states(initial: Float[Array, "..."], transition: Float[Array, "..."], emissions: dist.Distribution) -> None:
    """Refuse shapes that are not those of one number of states."""
    if not emissions.batch_shape:
        raise ModelError(
            "HiddenMarkov: the last batch axis of emissions is that of the states, and emissions have none: give "
            "their parameters one entry for each state, or use emissions.expand([number of states])."
        )
    ends = (initial.shape[-1:], transition.shape[-2:], emissions.batch_shape[-1:])
    axes = tuple(map(len, ends))
    if {size for end in ends for size in end} != {emissions.batch_shape[-1]} or axes != (1, 2, 1):
        raise ModelError(
            f"HiddenMarkov: initial of the shape {initial.shape}, transition {transition.shape} and emissions of the "
            f"batch shape {emissions.batch_shape} do not tell of one number of states S: their last axes must be (S,), "
            "(S, S) and (S,)."
        )


def _log(probabilities: Float[jax.Array, "..."]) -> Float[jax.Array, "..."]:
    """Logarithms, -inf of 0, where gradients are 0."""
    is_zero = probabilities <= 0
    return jnp.where(is_zero, -jnp.inf, jnp.log(jnp.where(is_zero, 1.0, probabilities)))


def _emission_parameters(distribution: HiddenMarkov) -> dict[str, jax.Array]:
    """Those of the emissions' statistic, the states after the batch axes of the emissions."""
    conditional = read_conditional(distribution.emissions, -1)
    assert conditional is not None
    last = len(distribution.emissions.batch_shape) - 1
    return {EMISSION + name: jnp.moveaxis(array, 0, last) for name, array in conditional.parameters.items()}


def _statistic(distribution: HiddenMarkov) -> HiddenMarkovStatistic | None:
    """The statistic, where the emissions have one that tells densities of rows."""
    conditional = read_conditional(distribution.emissions, -1)
    if conditional is None or conditional.mask is not None or conditional.statistic.uses_inert:
        return None
    return HiddenMarkovStatistic(conditional.statistic) if conditional.statistic.summarizes else None


def _parameters(distribution: HiddenMarkov) -> dict[str, jax.Array]:
    tables = {"log_initial": _log(distribution.initial), "log_transition": _log(distribution.transition)}
    return {**tables, **_emission_parameters(distribution)}


def _event_dims(distribution: HiddenMarkov) -> dict[str, int]:
    """Of the parameters of emissions all axes that are not those of a batch."""
    batch = len(distribution.emissions.batch_shape) - 1
    of_emissions = {name: array.ndim - batch for name, array in _emission_parameters(distribution).items()}
    return {"log_initial": 1, "log_transition": 2, **of_emissions}


register(HiddenMarkov, _statistic, _parameters, event_dims=_event_dims)
