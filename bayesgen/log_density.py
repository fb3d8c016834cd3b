"""`LogDensity`: what solvers maximise and sample from."""

import abc
from collections.abc import Mapping
from typing import Any

import numpy as np

from bayesgen.typing import Array, Float, Int


class LogDensity(abc.ABC):
    """Log density of an unconstrained vector, traceable by JAX. Its numbers are leaves of a pytree, its form is static.

    Solvers take nothing else: the posterior of a program, its likelihood, its density over the parameters, the marginal
    of a concept learner and a density in whitened coordinates all are such. What solvers compile is compiled once for
    each form, whatever the numbers.
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
        """What the vector stands for, by name."""

    def name_of(self, index: int) -> str:
        """What a coordinate belongs to, for messages."""
        return str(index)

    @property
    def blocks(self) -> tuple[Int[np.ndarray, "_ _"], ...]:
        """A guess at coordinates that curve together, each coordinate in one block: blocks of one size to an array."""
        return (np.arange(self.dimension)[:, None],)

    @property
    def cost(self) -> float:
        """Multiplications of one evaluation, roughly: what decides where it is computed."""
        return float(self.dimension)

    @property
    def loops_over_rows(self) -> bool:
        """Whether it loops over rows of data, so that what is compiled is worth optimising in full."""
        return False

    @property
    def has_symmetries(self) -> bool:
        """Whether it may be the same at points that mirror each other, such as those of a mixture with its components
        swapped: chains may be at any of them."""
        return False

    @property
    def owner(self) -> Any:
        """The object as long as which compiled functions are kept; None where they are shared by all of this form."""
        return None
