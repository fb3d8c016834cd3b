"""The log densities of a program given data, as functions of an unconstrained vector of its latents."""

import math
from typing import Any

import numpy as np

from bayesgen.log_density import LogDensity
from bayesgen.records import record, static
from bayesgen.runtime import OwnedJit
from bayesgen.statistics import SufficientStatistics
from bayesgen.typing import Array, Float, Int

from .density import density_work, parameter_log_density, unconstrained_log_density
from .evaluation import evaluate_classes, unconstrain
from .generative import GenerativeProgram
from .structure import Structure


class LatentsDensity(LogDensity):
    """A log density of a program's latents. The vector holds their unconstrained values, site after site.

    Attributes:
        program: the bound program.
    """

    program: GenerativeProgram

    @property
    def dimension(self) -> int:
        """Number of unconstrained values of all latents."""
        return sum(math.prod(shape) for _, shape in self.program.structure.latents)

    def constrain(self, vector: Float[Array, " D"]) -> dict[str, Array]:
        """Latents and deterministic sites by name."""
        return _constrain(self.program, vector)

    def name_of(self, index: int) -> str:
        """The latent site that a coordinate belongs to."""
        for name, shape in self.program.structure.latents:
            index -= math.prod(shape)
            if index < 0:
                return name
        raise IndexError(index)

    @property
    def blocks(self) -> tuple[Int[np.ndarray, "_ _"], ...]:
        """A block for each class, of the entries of sites whose first axis is the class; other entries one by one."""
        num_classes, start = self.program.num_classes, 0
        by_class, others = [], []
        for _, shape in self.program.structure.latents:
            entries = np.arange(start, start + math.prod(shape))
            start += len(entries)
            if shape and shape[0] == num_classes and num_classes > 1:
                by_class.append(entries.reshape(num_classes, -1))
            else:
                others.append(entries)
        classes = (np.concatenate(by_class, axis=1),) if by_class else ()
        return (*classes, np.concatenate(others)[:, None]) if others else classes

    @property
    def owner(self) -> Any:
        """The program's."""
        return self.program.owner


class ProgramDensity(LatentsDensity):
    """A log density of a program's latents given the statistics of data.

    Attributes:
        program: the bound program.
        statistics: the data.
        hard: whether rows without labels count by their most probable class alone.
    """

    statistics: SufficientStatistics
    hard: bool = False

    @property
    def cost(self) -> float:
        """One multiplication for each number of the data, and class where these are rows."""
        return density_work(self.program, self.statistics)

    @property
    def loops_over_rows(self) -> bool:
        """Whether some sites have no sufficient statistic, or some rows no label."""
        return self.statistics.rows is not None or self.statistics.unlabelled is not None

    @property
    def has_symmetries(self) -> bool:
        """Whether no row has a label, so that classes may be swapped, or a site hides states that may be."""
        if any(statistic.has_symmetries for _, statistic in self.program.plan.compressed):
            return True
        return self.statistics.unlabelled is not None and not np.any(self.statistics.class_weights)


@record
class PosteriorDensity(ProgramDensity):
    """Log density of the unconstrained latents given the data, Jacobian included: what NUTS samples from."""

    program: GenerativeProgram
    statistics: SufficientStatistics

    def __call__(self, vector: Float[Array, " D"]) -> Float[Array, ""]:
        """Log joint density of latents and data."""
        return _posterior_log_density(self.program, vector, self.statistics)


@record
class ParameterDensity(ProgramDensity):
    """Log density of the parameters given the data, in the coordinates that are reported: what MAP maximises."""

    program: GenerativeProgram
    statistics: SufficientStatistics
    hard: bool = static(default=False)

    def __call__(self, vector: Float[Array, " D"]) -> Float[Array, ""]:
        """Log joint density of parameters and data."""
        free = unravel(self.program.structure, vector)
        return parameter_log_density(self.program, free, self.statistics, hard=self.hard)


@record
class LikelihoodDensity(ProgramDensity):
    """Log-likelihood of the data as a function of the unconstrained latents: what MLE maximises."""

    program: GenerativeProgram
    statistics: SufficientStatistics
    hard: bool = static(default=False)

    def __call__(self, vector: Float[Array, " D"]) -> Float[Array, ""]:
        """Log-likelihood."""
        free = unravel(self.program.structure, vector)
        return parameter_log_density(self.program, free, self.statistics, prior=False, hard=self.hard)


@OwnedJit  # compiled here, so that samplers which call it several times trace it once
def _posterior_log_density(
    program: GenerativeProgram, vector: Float[Array, " D"], statistics: SufficientStatistics
) -> Float[Array, ""]:
    return unconstrained_log_density(program, unravel(program.structure, vector), statistics)


@OwnedJit
def _constrain(program: GenerativeProgram, vector: Float[Array, " D"]) -> dict[str, Array]:
    evaluation = evaluate_classes(program, unravel(program.structure, vector), unconstrained=True)
    return {**evaluation.deterministics, **evaluation.latents}


def unravel(structure: Structure, vector: Float[Array, " D"]) -> dict[str, Array]:
    """Unconstrained values by site, from the vector that holds them one after another."""
    values, start = {}, 0
    for name, shape in structure.latents:
        size = math.prod(shape)
        values[name] = vector[start : start + size].reshape(shape)
        start += size
    return values


def free_vector(program: GenerativeProgram, latents: dict[str, Array]) -> Float[np.ndarray, " D"]:
    """The unconstrained vector of latents. Inside float64."""
    free = _unconstrain(program, latents)
    return np.concatenate([np.ravel(free[name]) for name in program.latents])


_unconstrain = OwnedJit(unconstrain)
