"""`HiddenMarkov`, sequences with a chain of hidden states; its likelihood, and states at each time step."""

import dataclasses
import functools
from collections.abc import Hashable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jax import lax
from numpyro.distributions import constraints
from numpyro.distributions.util import validate_sample

from bayesgen.data import PADDING
from bayesgen.errors import ModelError
from bayesgen.runtime import compiled
from bayesgen.statistics import (
    CategoricalLikelihood,
    LatentLikelihood,
    Length,
    Likelihood,
    Parameters,
    SequenceDistribution,
    StatesLikelihood,
    event_axes,
    innermost,
    log_prob_of_cells,
    namespace,
    precise,
    read_conditional,
    register,
    sequences,
)
from bayesgen.typing import Array, Bool, Float, Int, PRNGKeyArray, Real, Shaped

from .hidden_chains import expected_counts, log_density, most_probable_paths
from .markov_chain import MarkovChain
from .semirings import safe_log


class StepsOfStates(constraints.Constraint):
    """Sequences of numbers or arrays, each missing or in the support of the emissions of some state."""

    is_discrete = False  # because missing counts are NaN

    def __init__(self, step: constraints.Constraint, num_states: int, event_axes: int) -> None:
        self.step, self.num_states, self.event_axes = step, num_states, event_axes

    @property
    def event_dim(self) -> int:
        return self.step.event_dim + 1

    def __call__(self, x: Shaped[Array, "..."]) -> Bool[Array, "..."]:
        xp = namespace(x, *jax.tree.leaves(self.step))
        steps = xp.moveaxis(xp.asarray(x), -self.event_dim, 0)
        if not len(steps):
            return xp.ones(steps.shape[1 : steps.ndim - self.step.event_dim], bool)
        steps = xp.repeat(xp.expand_dims(steps, -self.event_dim), self.num_states, -self.event_dim)
        seen = ~xp.isnan(steps)
        possible = self.step(xp.where(seen, steps, xp.asarray(self.step.feasible_like(steps)))).any(-1)
        axes = tuple(range(-self.event_axes, 0))
        is_in_part = seen.any(axes) & ~seen.all(axes)
        return (possible & ~is_in_part.any(tuple(range(steps.ndim - self.event_dim, is_in_part.ndim)))).all(0)

    def feasible_like(self, prototype: Shaped[Array, "..."]) -> Float[Array, "..."]:
        return jnp.full(jnp.shape(prototype), jnp.nan)

    def __repr__(self) -> str:
        return f"sequences of steps from {self.step}"

    def tree_flatten(self) -> Any:
        return (self.step,), (("step",), {"num_states": self.num_states, "event_axes": self.event_axes})

    def eq(self, other: object, static: bool = False) -> Any:
        if not isinstance(other, StepsOfStates) or self.tree_flatten()[1] != other.tree_flatten()[1]:
            return False
        return self.step.eq(other.step, static)


@dist.biject_to.register(StepsOfStates)
def _to_steps(support: StepsOfStates) -> dist.transforms.Transform:
    """The transform to the support of a time step; for counts, which have none, to positive numbers."""
    step = first_state_support(support.step, support.step.event_dim)
    return dist.biject_to(constraints.positive if step.is_discrete else step)


def depends_on_state(support: constraints.Constraint, step_axes: int) -> bool:
    """Whether parameters of the support of emissions, such as bounds, have an axis for the states."""
    return any(jnp.ndim(bound) > step_axes for bound in jax.tree.leaves(support))


def first_state_support(support: constraints.Constraint, step_axes: int) -> constraints.Constraint:
    """The support of the emissions of the first state, with an axis of length 1 for the states."""
    if not depends_on_state(support, step_axes):
        return support

    def first(bound: Shaped[Array, "..."]) -> Shaped[Array, "..."]:
        axis = jnp.ndim(bound) - 1 - step_axes
        return bound if axis < 0 else lax.slice_in_dim(jnp.asarray(bound), 0, 1, axis=axis)

    return jax.tree.map(first, support)


CATEGORICALS = dist.CategoricalProbs | dist.CategoricalLogits


class HiddenMarkov(SequenceDistribution):
    """A hidden Markov model, x = (x_1, ..., x_T), its states marginalised.

        z_1 ~ initial,  z_t ~ transition[z_(t-1)],  x_t ~ emissions[z_t]

    The forward algorithm computes log densities; their gradients, the expected states, cost one backward pass (Rabiner
    1989, Proceedings of the IEEE 77, section III). Where the emissions are `Categorical`, time steps are symbols: whole
    numbers, PADDING past the end. Otherwise time steps are numbers or arrays, NaN where they are missing or past the
    end; such time steps contribute the factor 1.

    Args:
        initial: (..., S), probabilities of the first state.
        transition: (..., S, S), probabilities of the next state, row by row for the state before.
        emissions: any NumPyro distribution whose last batch axis is that of the states, (..., S), such as
            `Normal(loc, scale)` with `loc` of the shape (S,), or `MultivariateNormal` with means (S, D).
        length: number of time steps of samples, or an array of them; see `SequenceDistribution`.
        max_length: number of time steps T of the array.
        symbols: the symbols of the codes, where the emissions are `Categorical`.

    Raises:
        ModelError: emissions that are not a distribution of one time step, or have no axis for the states; shapes with
            different numbers of states; symbols for time steps that are numbers, or not one for each code.

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
        self.initial, self.transition, self.emissions = precise(initial), precise(transition), emissions
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
        return self.initial.shape[-1]

    @property
    def step_support(self) -> constraints.Constraint:
        return first_state_support(self.emissions.support, len(self.event_shape) - 1)

    @property
    def whole_step_axes(self) -> int:
        return event_axes(self.emissions)

    @constraints.dependent_property
    def support(self) -> Any:
        """Sequences of time steps that are in the support of some state."""
        if self.of_symbols:
            leaf: Any = innermost(self.emissions)
            return sequences(leaf.probs.shape[-1])
        return StepsOfStates(self.emissions.support, self.num_states, self.whole_step_axes)

    @validate_sample
    @compiled
    def log_prob(self, value: Shaped[Array, "..."]) -> Float[Array, "..."]:
        value = jnp.asarray(value)
        return self.log_prob_of_cells(value, jnp.ones(value.shape, bool) if self.of_symbols else ~jnp.isnan(value))

    @compiled
    def log_prob_of_cells(self, value: Shaped[Array, "..."], observed: Bool[Array, "..."]) -> Float[Array, "..."]:
        step_axes = len(self.event_shape) - 1
        shape = lax.broadcast_shapes(self.batch_shape, value.shape[: value.ndim - step_axes - 1])
        if not value.shape[value.ndim - step_axes - 1]:
            return jnp.zeros(shape)
        if self.of_symbols:
            value, observed = steps_of_symbols(value, observed)
        lengths = num_observed_steps(observed, step_axes)
        missing_axes = max(len(self.batch_shape) + len(self.event_shape) - value.ndim, 0)

        def by_step(array: Shaped[Array, "..."]) -> jax.Array:
            """Time steps first, and an axis for the states after the batch axes."""
            array = jnp.reshape(array, (1,) * missing_axes + array.shape)
            array = jnp.expand_dims(jnp.moveaxis(array, array.ndim - step_axes - 1, 0), -1 - step_axes)
            states = array.ndim - step_axes - 1
            return jnp.broadcast_to(array, (*array.shape[:states], self.num_states, *array.shape[states + 1 :]))

        steps, seen = by_step(value), by_step(observed)
        steps = jnp.where(seen, steps, self.emissions.support.feasible_like(steps))
        logs = self._log_emissions(steps, seen, step_axes)
        logs = jnp.where(seen.any(tuple(range(seen.ndim - step_axes, seen.ndim))), logs, 0.0)
        total = log_density(safe_log(self.initial), safe_log(self.transition), jnp.moveaxis(logs, 0, -2), lengths)
        return jnp.broadcast_to(total, shape)

    def _log_emissions(
        self, steps: Shaped[jax.Array, "..."], seen: Bool[jax.Array, "..."], step_axes: int
    ) -> Float[jax.Array, "..."]:
        """Log density of time steps in each state; -inf outside the support of the state."""
        support = self.emissions.support
        if isinstance(innermost(self.emissions), CATEGORICALS):
            steps = steps.astype(int)
        if not depends_on_state(support, step_axes):
            return jnp.asarray(log_prob_of_cells(self.emissions, steps, seen))
        is_possible = support(steps)
        is_whole = jnp.expand_dims(is_possible, tuple(range(-step_axes, 0)))
        logs = log_prob_of_cells(self.emissions, jnp.where(is_whole, steps, support.feasible_like(steps)), seen)
        return jnp.where(is_possible, logs, -jnp.inf)

    @functools.partial(compiled, static_argnames="sample_shape")
    def sample(self, key: PRNGKeyArray | None, sample_shape: tuple[int, ...] = ()) -> Shaped[Array, "..."]:
        assert key is not None
        num_steps, batch, step_axes = self.steps_to_sample, self.batch_shape, len(self.event_shape) - 1
        state_key, step_key = jax.random.split(key)
        initial = jnp.broadcast_to(self.initial, (*batch, self.num_states))
        chain = MarkovChain(initial, self.transition, num_steps, order=1, validate_args=False)
        states = chain.sample(state_key, sample_shape)
        emissions = self.emissions.expand((*batch, self.num_states))
        steps = emissions.sample(step_key, (*sample_shape, num_steps))
        steps = jnp.moveaxis(steps, len(sample_shape), len(sample_shape) + len(batch))
        chosen = jnp.take_along_axis(steps, jnp.expand_dims(states, tuple(range(-1 - step_axes, 0))), -1 - step_axes)
        chosen = jnp.squeeze(chosen, -1 - step_axes)
        return self.cut(chosen if self.of_symbols else chosen.astype(float))


def _are_symbols(emissions: dist.Distribution) -> bool:
    """Whether a time step is one symbol."""
    return isinstance(innermost(emissions), CATEGORICALS) and not emissions.event_shape


def _check_emissions(emissions: dist.Distribution, symbols: Sequence[Hashable] | None) -> None:
    """Refuse emissions that are not distributions of a time step, and symbols that do not fit the codes."""
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
    """Refuse shapes with different numbers of states."""
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


def _emission_parameters(distribution: HiddenMarkov) -> dict[str, jax.Array]:
    """Those of the emissions' likelihood, the states after the batch axes of the emissions."""
    conditional = read_conditional(distribution.emissions, -1)
    assert conditional is not None
    last = len(distribution.emissions.batch_shape) - 1
    return {EMISSION + name: jnp.moveaxis(array, 0, last) for name, array in conditional.parameters.items()}


def _likelihood(distribution: HiddenMarkov) -> HiddenMarkovLikelihood | None:
    """The likelihood, where the emissions have one that tells densities of rows."""
    conditional = read_conditional(distribution.emissions, -1)
    if conditional is None or conditional.mask is not None or conditional.likelihood.has_row_parameters:
        return None
    return HiddenMarkovLikelihood(conditional.likelihood) if conditional.likelihood.summarizes else None


def _parameters(distribution: HiddenMarkov) -> dict[str, Array]:
    tables = {"log_initial": safe_log(distribution.initial), "log_transition": safe_log(distribution.transition)}
    return {**tables, **_emission_parameters(distribution)}


def _event_dims(distribution: HiddenMarkov) -> dict[str, int]:
    """Of the parameters of emissions all axes that are not those of a batch."""
    batch = len(distribution.emissions.batch_shape) - 1
    emission_dims = {name: array.ndim - batch for name, array in _emission_parameters(distribution).items()}
    return {"log_initial": 1, "log_transition": 2, **emission_dims}


register(HiddenMarkov, _likelihood, _parameters, event_dims=_event_dims)
