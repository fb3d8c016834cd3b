"""`LogDensity`: what solvers maximise and sample from."""

import abc
from collections.abc import Mapping

import numpy as np

from bayesgen.typing import Array, Float, Int


class LogDensity(abc.ABC):
    """Log density of an unconstrained vector, traceable by JAX: a pytree with numbers as leaves and static structure.

    Solvers take nothing else: the posterior of a program, its likelihood, the density of its parameters, the marginal
    of a concept learner, a density in whitened coordinates. Solvers compile once for each structure, whatever the
    numbers.
    """

    @property
    @abc.abstractmethod
    def dimension(self) -> int:
        """Length D of the vector."""

    @abc.abstractmethod
    def __call__(self, vector: Float[Array, " D"]) -> Float[Array, ""]:
        """Log density at a vector, up to a constant."""

    @abc.abstractmethod
    def constrain(self, vector: Float[Array, " D"]) -> Mapping[str, Array]:
        """Name -> value of the constrained parameters at the vector."""

    def name_of(self, index: int) -> str:
        """Name of a coordinate in messages."""
        return str(index)

    def why_not_finite(self, vector: Float[Array, " D"]) -> str:
        """A clause for messages: the part that is not finite at a vector, or has no finite slope; empty if unknown."""
        return ""

    @property
    def blocks(self) -> tuple[Int[np.ndarray, "_ _"], ...]:
        """A guess at the blocks of a block-diagonal Hessian: their coordinates, an array for each size of block."""
        return (np.arange(self.dimension)[:, None],)

    @property
    def cost(self) -> float:
        """Rough number of multiplications of one evaluation, by which a device is chosen."""
        return float(self.dimension)

    @property
    def loops_over_rows(self) -> bool:
        """Whether it loops over rows of data, so that an evaluation takes long where they are many."""
        return False

    @property
    def has_symmetries(self) -> bool:
        """Whether it may be invariant under symmetries, such as swapped components of a mixture."""
        return False

    @property
    def owner(self) -> object:
        """The object whose lifetime compiled functions have; None where all of this structure share them."""
        return None


class DerivedDensity(LogDensity):
    """A log density that is made of another one, of which it has all but its vector."""

    density: LogDensity

    @property
    def cost(self) -> float:
        return self.density.cost

    @property
    def loops_over_rows(self) -> bool:
        return self.density.loops_over_rows

    @property
    def has_symmetries(self) -> bool:
        return self.density.has_symmetries

    @property
    def owner(self) -> object:
        return self.density.owner
