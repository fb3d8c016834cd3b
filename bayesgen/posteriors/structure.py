"""The exact posterior over all subsets of columns that depend on the class, and over the parameters of each."""

import dataclasses
import functools

import numpy as np
import scipy.special

from bayesgen.models import Conjugate
from bayesgen.program import GenerativeProgram
from bayesgen.runtime import generator

from .base import Exported, ProgramState, collect, sample
from .closed import closed_table, predictive_densities
from .mixed_columns import mixed_predictive, per_column


@dataclasses.dataclass(frozen=True)
class StructurePosterior(ProgramState):
    """The posterior over structures and processes.

    A posteriori, too, the columns are independent: the posterior is a product over columns of mixtures of two.

    Attributes:
        program: the bound program of the structure in which every column depends on the class.
        conjugate: the posterior of its blocks.
        shared: the posterior of the blocks if no column depends on the class (K = 1).
        log_odds: block -> log odds that a column depends on the class, (D,); a number for a block modelled jointly.
        log_evidence: log p(X, y), structures and parameters summed out.
    """

    program: GenerativeProgram
    conjugate: Conjugate
    shared: Conjugate
    log_odds: dict[str, np.ndarray]
    log_evidence: float

    @property
    def dependence(self) -> dict[str, np.ndarray]:
        """block -> posterior probability that a column depends on the class, (D,); a number for a joint block."""
        return {name: scipy.special.expit(value) for name, value in self.log_odds.items()}

    @functools.cached_property
    def parameters(self):
        """Posterior means in the best structure, and `{block}_dependence`."""
        return self.mean | _named(self.dependence)

    @functools.cached_property
    def mean(self):
        """Posterior means in the best structure."""
        return self._in_best(lambda family, names: family.mean())

    @functools.cached_property
    def mode(self):
        """The joint mode in the best structure."""
        return self._in_best(lambda family, names: family.mode(names))

    def _in_best(self, of_family):
        """The parameters of the most probable structure (a column of equal odds depends on the class)."""
        best = {name: value >= 0 for name, value in self.log_odds.items()}
        return self._in_structure(best, collect(self.conjugate, of_family), collect(self.shared, of_family))

    def _in_structure(self, structure, dependent, shared):
        """Choose each column's parameters. Structures may have leading axes, as the parameters then have."""
        chosen = {name: value for name, value in dependent.items() if name.startswith("class_")}
        for block in self.conjugate.blocks:
            for name, axes in block.family.parameter_axes().items():
                key = f"{block.name}_{name}"
                where = _like(structure[block.name], axes, block.family.joint)
                one, other = dependent[key], shared[key]
                chosen[key] = np.where(where, one, np.broadcast_to(other, one.shape))
        return chosen

    @functools.cached_property
    def _predictive(self):
        log_class_probs, _ = predictive_densities(dataclasses.replace(self.conjugate, blocks=()))
        blocks = []
        for one, other in zip(self.conjugate.blocks, self.shared.blocks, strict=True):
            odds = self.log_odds[one.name]
            logs = scipy.special.log_expit(odds), scipy.special.log_expit(-odds)
            blocks.append((one.name, *mixed_predictive(one.family, other.family, *logs)))
        return log_class_probs, blocks

    def predictive(self, attributes, covariates):
        """Structures and parameters integrated out, in closed form."""
        return closed_table(self._predictive, attributes)

    def draws(self, num_draws, key):
        """Independent draws of structures and processes, as one chain."""
        return self.program.latents_of(self._sample((1, num_draws), generator(key))[0])

    def exported(self, num_draws, key):
        """Independent draws, as four chains, with `{block}_dependence`: 1 where a column depends on the class."""
        values, structure = self._sample((4, num_draws), generator(key))
        numbers = {name: where.astype(np.int8) for name, where in structure.items()}
        axes = {block.name: {"dependence": _axes(block)} for block in self.conjugate.blocks}
        return Exported({"posterior": values | _named(numbers)}, "independent", axes)

    def _sample(self, shape, rng):
        """Draws of the parameters, and of the structures: block -> booleans."""
        dependent, shared = (sample(each, shape, rng) for each in (self.conjugate, self.shared))
        structure = {name: rng.random((*shape, *np.shape(p))) < p for name, p in self.dependence.items()}
        return self._in_structure(structure, dependent, shared), structure


def _axes(block) -> tuple[str, ...]:
    return () if block.family.joint else ("feature",)


def _named(dependence):
    return {f"{name}_dependence": value for name, value in dependence.items()}


def _like(structure, axes, joint):
    """Shape the choice for columns, or for a joint block, like a parameter with these axes."""
    return structure.reshape(structure.shape + (1,) * len(axes)) if joint else per_column(structure, axes)
