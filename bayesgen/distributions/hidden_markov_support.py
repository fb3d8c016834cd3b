"""The sequences that hidden Markov models of numbers can take: steps that the emissions of some state can make."""

from typing import Any

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jax import lax
from numpyro.distributions import constraints

from bayesgen.typing import Array, Bool, Float, Shaped


class StepsOfStates(constraints.Constraint):
    """Sequences of numbers, or of arrays of them, of which each is not seen or in the support of some state."""

    is_discrete = False  # as NaN is none of what counts can be

    def __init__(self, step: constraints.Constraint, num_states: int, whole_axes: int) -> None:
        self.step, self.num_states, self.whole_axes = step, num_states, whole_axes

    @property
    def event_dim(self) -> int:
        """That of a step, and the axis of steps."""
        return self.step.event_dim + 1

    def __call__(self, x: Shaped[Array, "..."]) -> Bool[Array, "..."]:
        """Whether each is such a sequence."""
        steps = jnp.moveaxis(jnp.asarray(x), -self.event_dim, 0)
        if not len(steps):
            return jnp.ones(steps.shape[1 : steps.ndim - self.step.event_dim], bool)
        steps = jnp.repeat(jnp.expand_dims(steps, -self.event_dim), self.num_states, -self.event_dim)
        seen = ~jnp.isnan(steps)
        possible = self.step(jnp.where(seen, steps, self.step.feasible_like(steps))).any(-1)
        whole = tuple(range(-self.whole_axes, 0))
        is_in_part = seen.any(whole) & ~seen.all(whole)
        return (possible & ~is_in_part.any(tuple(range(steps.ndim - self.event_dim, is_in_part.ndim)))).all(0)

    def feasible_like(self, prototype: Shaped[Array, "..."]) -> Float[Array, "..."]:
        """Sequences of which nothing is seen."""
        return jnp.full(jnp.shape(prototype), jnp.nan)

    def __repr__(self) -> str:
        return f"sequences of steps from {self.step}"

    def tree_flatten(self) -> Any:
        """The support of a step."""
        return (self.step,), (("step",), {"num_states": self.num_states, "whole_axes": self.whole_axes})

    def eq(self, other: object, static: bool = False) -> Any:
        """Whether it is the same set of sequences."""
        if not isinstance(other, StepsOfStates) or self.tree_flatten()[1] != other.tree_flatten()[1]:
            return False
        return self.step.eq(other.step, static)


@dist.biject_to.register(StepsOfStates)
def _to_steps(support: StepsOfStates) -> dist.transforms.Transform:
    """From numbers to steps without constraints; counts, which no such map gives, are taken for positive numbers."""
    step = of_first_state(support.step, support.step.event_dim)
    return dist.biject_to(constraints.positive if step.is_discrete else step)


def depends_on_state(support: constraints.Constraint, step_axes: int) -> bool:
    """Whether the support of emissions has bounds, or the like, with an axis for the states."""
    return any(jnp.ndim(bound) > step_axes for bound in jax.tree.leaves(support))


def of_first_state(support: constraints.Constraint, step_axes: int) -> constraints.Constraint:
    """The support of the emissions of one state, for sequences of steps: the axis of states is 1 long."""
    if not depends_on_state(support, step_axes):
        return support

    def first(bound: Shaped[Array, "..."]) -> Shaped[Array, "..."]:
        axis = jnp.ndim(bound) - 1 - step_axes
        return bound if axis < 0 else lax.slice_in_dim(jnp.asarray(bound), 0, 1, axis=axis)

    return jax.tree.map(first, support)
