"""Random numbers of which draws are made: by JAX inside compiled functions, by NumPy where nothing is compiled."""

import abc
import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bayesgen.families import sample_log_gamma
from bayesgen.runtime import CACHED_CELLS, SizedJit, as_key, generator, mostly_in_threads, over_chunks, padded_size
from bayesgen.typing import Array, Float, PRNGKeyArray, Seed, Shaped


class RandomNumbers(abc.ABC):
    """Independent random numbers, of which draws are made."""

    @abc.abstractmethod
    def normal(self, shape: tuple[int, ...]) -> Array:
        """Standard normal numbers."""

    @abc.abstractmethod
    def log_gamma(self, shape: Float[Array, "*entries"]) -> Array:
        """Logarithms of gamma variables with these shape parameters and rate 1."""


@dataclasses.dataclass
class FromKey(RandomNumbers):
    """Those of one draw, by a JAX key. Traceable."""

    key: PRNGKeyArray

    def normal(self, shape: tuple[int, ...]) -> Array:
        return jax.random.normal(self.next_key(), shape)

    def log_gamma(self, shape: Float[Array, "*entries"]) -> Array:
        return log_gamma_draws(self.next_key(), shape)

    def next_key(self) -> PRNGKeyArray:
        """A key that is used once."""
        self.key, key = jax.random.split(self.key)
        return key


@dataclasses.dataclass(frozen=True)
class ByGenerator(RandomNumbers):
    """Those of several draws, along a first axis, by NumPy, for which nothing is compiled."""

    rng: np.random.Generator
    num_draws: int

    def normal(self, shape: tuple[int, ...]) -> Array:
        return self.rng.normal(size=(self.num_draws, *shape))

    def log_gamma(self, shape: Float[Array, "*entries"]) -> Array:
        return sample_log_gamma(self.rng, np.asarray(shape), (self.num_draws, *np.shape(shape)))


def log_gamma_draws(key: PRNGKeyArray, shape: Float[Array, "*entries"]) -> Float[Array, "*entries"]:
    """Logarithms of independent draws from gamma distributions of these shapes and rate 1; NaN where one is negative.

    All entries are proposed together until each is accepted: `jax.random.loggamma`, which takes them one after another,
    takes 2.5 times the time.

    Source: Marsaglia and Tsang (2000), A simple method for generating gamma variables.
    """
    center = jnp.where(shape < 1, shape + 1, shape) - 1 / 3

    def propose(state: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        key, accepted, logs = state
        key, normal_key, uniform_key = jax.random.split(key, 3)
        noise = jax.random.normal(normal_key, shape.shape)
        cube = (1 + noise / jnp.sqrt(9 * center)) ** 3
        log_cube = jnp.log(jnp.where(cube > 0, cube, 1.0))
        bound = 0.5 * noise**2 + center * (1 - cube + log_cube)
        is_new = ~accepted & (cube > 0) & (jnp.log(jax.random.uniform(uniform_key, shape.shape)) < bound)
        return key, accepted | is_new, jnp.where(is_new, jnp.log(center) + log_cube, logs)

    key, power_key = jax.random.split(key)
    start = key, ~(shape > 0), jnp.full(shape.shape, jnp.nan)
    _, _, logs = jax.lax.while_loop(lambda state: ~state[1].all(), propose, start)
    powers = jnp.log1p(-jax.random.uniform(power_key, shape.shape)) / shape
    return logs + jnp.where(shape < 1, powers, 0.0)


def drawn_by_chunks(
    draw: SizedJit,
    density: Any,
    latents: Mapping[str, Shaped[np.ndarray, "chain draw ..."]],
    shape: tuple[int, int],
    seed: Seed,
    numbers_per_draw: int,
) -> Any:
    """`draw(density, latents, keys)` of all draws, each of which has a key of its own; chunk by chunk, in threads.

    Latents and results have axes of chains and draws of this shape first; those of `draw` one axis for both.
    """
    num_draws = math.prod(shape)
    keys = generator(as_key(seed)).integers(0, 1 << 32, (num_draws, 2), np.uint32)
    size = min(num_draws, padded_size(max(1, CACHED_CELLS // numbers_per_draw)))
    compiled = draw.for_size(num_draws * numbers_per_draw)
    draws = {name: np.reshape(value, (num_draws, *value.shape[2:])) for name, value in latents.items()}, keys
    results = over_chunks(
        lambda part: compiled(density, *part), draws, num_draws, size, least=size, each=mostly_in_threads
    )
    return jax.tree.map(lambda array: array.reshape(*shape, *array.shape[1:]), results)
