"""`IntegratedDensity`: the log density of some of a program's latents, the others integrated out in closed form."""

import functools
import math
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np

from bayesgen.log_density import DerivedDensity
from bayesgen.records import copied, record, static
from bayesgen.runtime import OwnedJit, SizedJit
from bayesgen.typing import Array, Float, Int, Seed

from .density import DensityAtSites, ProgramDensity
from .elimination import Elimination
from .evaluation import unconstrain
from .random_numbers import FromKey, drawn_by_chunks
from .structure import Arrays, by_name


@record
class IntegratedDensity(DerivedDensity):
    """The log density of the latents that an elimination leaves: those that it has are integrated out.

    The vector holds their unconstrained values, site after site, as that of `ProgramDensity` does.

    Attributes:
        density: of all latents.
        elimination: what integrates some of them out.
    """

    density: ProgramDensity
    elimination: Elimination = static()

    def __call__(self, vector: Float[Array, " D"]) -> Float[Array, ""]:
        """The log of the integral over the other latents."""
        return _log_integral(self, vector)

    @property
    def latents(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """(latent, shape of its unconstrained value) of those that are left."""
        integrated = self.elimination.names
        return tuple(latent for latent in self.density.program.structure.latents if latent[0] not in integrated)

    @functools.cached_property
    def coordinates(self) -> Int[np.ndarray, " D"]:
        """Which coordinates of all latents are left."""
        positions = self.density.positions
        return np.concatenate([np.arange(0), *(positions[name].ravel() for name, _ in self.latents)])

    @property
    def dimension(self) -> int:
        return len(self.coordinates)

    def constrain(self, vector: Float[Array, " D"]) -> dict[str, Array]:
        """The latents that are left, by name."""
        values = self.density.constrain(jnp.zeros(self.density.dimension).at[self.coordinates].set(vector))
        return {name: values[name] for name, _ in self.latents}

    def name_of(self, index: int) -> str:
        """The latent site of a coordinate."""
        return self.density.name_of(self.coordinates[index])

    @property
    def cost(self) -> float:
        number = self.elimination.num_normals
        return self.density.cost * (1 + number) + number**3

    def misfit(self, latents: Arrays) -> float:
        """The largest relative error of the forms of the elimination, at values of the continuous latents, and at all
        values of discrete ones. Inside float64."""
        return float(_misfit.by_numpy(self, latents))

    def draws(
        self, latents: Mapping[str, Float[np.ndarray, "chain draw ..."]], shape: tuple[int, int], seed: Seed
    ) -> tuple[dict[str, Float[np.ndarray, "chain draw ..."]], Float[np.ndarray, "chain draw"]]:
        """Latents and deterministic sites at draws of the latents that are left, and log densities of all latents.

        The latents that are integrated out are drawn from their distribution given the others. Inside float64.

        Args:
            latents: draws of those that are left.
            shape: numbers of chains and draws.
            seed: integer or JAX key.
        """
        left = {name: latents[name] for name, _ in self.latents}
        numbers = self.density.dimension + self.elimination.num_normals**2
        return drawn_by_chunks(_draws, self, left, shape, seed, numbers)


@OwnedJit
def _log_integral(density: IntegratedDensity, vector: Float[Array, " D"]) -> Float[Array, ""]:
    free = by_name(density.latents, vector)
    return density.elimination.log_integral(DensityAtSites(density.density, tuple(free)), free)


@OwnedJit
def _misfit(density: IntegratedDensity, latents: Arrays) -> Float[Array, ""]:
    program, log_density = density.density.program, density.density.at_sites
    continuous = {name: latents[name] for name in program.continuous_latents}
    inner = density.elimination.only(continuous)
    if not program.structure.finite:
        return inner.misfit(log_density, continuous)
    misfit = density.density.enumeration.over_values(lambda values: inner.misfit(log_density, {**continuous, **values}))
    return misfit.max()


@functools.partial(SizedJit, few=5e5, some=math.inf)
def _draws(
    density: IntegratedDensity, latents: Arrays, keys: Array
) -> tuple[dict[str, Float[Array, "draws ..."]], Float[Array, " draws"]]:
    program = density.density.program

    def draw(left: Arrays, key: Array) -> tuple[dict[str, Array], Float[Array, ""]]:
        typed_key = jax.random.wrap_key_data(jnp.asarray(key))
        values = {**left, **density.elimination.sample(DensityAtSites(density.density), left, FromKey(typed_key))}
        free = unconstrain(program, values)
        vector = jnp.concatenate([jnp.ravel(free[name]) for name in program.continuous_latents])
        at_values = copied(density.density, given={site.name: values[site.name] for site in program.structure.finite})
        return {**at_values.constrain(vector), **values}, at_values(vector)

    return jax.vmap(draw)(latents, keys)
