"""The exact posterior over all subsets of columns that depend on the class, by one product over columns."""

import dataclasses
import functools

import jax
import numpy as np
import scipy.special

from ..errors import FitError
from ..models import Conjugate, StructureAverage
from ..program import GenerativeProgram
from . import closed
from .columns import mixed_predictive, per_column
from .exact import Exact, closed_prior, update
from .method import train
from .state import State, collect, log_joint_at


@dataclasses.dataclass(frozen=True)
class StructurePosterior(State):
    """The posterior over structures and processes.

    A posteriori, too, the columns are independent: the posterior is a product over columns of mixtures of two.

    Attributes:
        program: the bound program of the structure in which every column depends on the class.
        dependent: the posterior of its blocks.
        shared: the posterior of the blocks if no column depends on the class (K = 1).
        log_odds: block -> log odds that a column depends on the class, (D,); a number for a block modelled jointly.
    """

    program: GenerativeProgram
    dependent: Conjugate
    shared: Conjugate
    log_odds: dict[str, np.ndarray]

    @property
    def dependence(self) -> dict[str, np.ndarray]:
        """block -> posterior probability that a column depends on the class, (D,); a number for a joint block."""
        return {name: scipy.special.expit(value) for name, value in self.log_odds.items()}

    @functools.cached_property
    def parameters(self):
        """Posterior means in the best structure, and `{block}_dependence`."""
        means = self._in_structure(
            self._best, self._collect(self.dependent, "mean"), self._collect(self.shared, "mean")
        )
        return means | {f"{name}_dependence": value for name, value in self.dependence.items()}

    @property
    def _best(self):
        """The most probable structure: block -> whether a column depends on the class (equal odds: it does)."""
        return {name: value >= 0 for name, value in self.log_odds.items()}

    def _collect(self, conjugate, what):
        return collect(conjugate, lambda family, names: getattr(family, what)())

    def _in_structure(self, structure, dependent, shared):
        """Choose each column's parameters. Structures may have leading axes, as the parameters then have."""
        chosen = {name: value for name, value in dependent.items() if name.startswith("class_")}
        for block in self.dependent.blocks:
            for name, axes in block.family.parameter_axes().items():
                key = f"{block.name}_{name}"
                where = _like(structure[block.name], axes, block.family.joint)
                one, other = dependent[key], shared[key]
                chosen[key] = np.where(where, one, np.broadcast_to(other, one.shape))
        return chosen

    def log_joint(self, attributes, covariates, at):
        """At the best structure's posterior mean or mode, or with structures and parameters integrated out."""
        if at == "predictive":
            return closed.log_joint(self._predictive, attributes)
        values = self.parameters if at == "mean" else self._mode
        return log_joint_at(self.program, self.dependent, values, attributes, covariates)

    @functools.cached_property
    def _mode(self):
        modes = [collect(each, lambda family, names: family.mode(names)) for each in (self.dependent, self.shared)]
        return self._in_structure(self._best, *modes)

    @functools.cached_property
    def _predictive(self):
        log_class_probs, _ = closed.predictive_densities(dataclasses.replace(self.dependent, blocks=()))
        blocks = []
        for one, other in zip(self.dependent.blocks, self.shared.blocks, strict=True):
            odds = self.log_odds[one.name]
            logs = scipy.special.log_expit(odds), scipy.special.log_expit(-odds)
            blocks.append((one.name, *mixed_predictive(one.family, other.family, *logs)))
        return log_class_probs, blocks

    def draws(self, num_draws, key):
        """Independent draws of structures and processes, as one chain."""
        first, second, third = jax.random.split(key, 3)
        dependent, shared = (_draw(each, num_draws, k) for each, k in ((self.dependent, first), (self.shared, second)))
        keys = jax.random.split(third, len(self.log_odds))
        structure = {
            name: np.asarray(jax.random.uniform(k, (1, num_draws, *np.shape(value)))) < value
            for k, (name, value) in zip(keys, self.dependence.items(), strict=True)
        }
        return self.program.latents_of(self._in_structure(structure, dependent, shared))


def _draw(conjugate, num_draws, key):
    keys = iter(jax.random.split(key, len(conjugate.blocks) + 1))
    return collect(conjugate, lambda family, names: family.sample(next(keys), (1, num_draws)))


def _like(structure, axes, joint):
    """Shape the choice for columns, or for a joint block, like a parameter with these axes."""
    return structure.reshape(structure.shape + (1,) * len(axes)) if joint else per_column(structure, axes)


@functools.singledispatch
def average_structures(method, problem):
    """Train a `StructureAverage`: only `Exact` can."""
    raise FitError(
        f"structure='average' is averaged exactly, over every subset of columns: {type(method).__name__}() cannot. Use "
        "Exact(), or structure='full'."
    )


@train.register
def _(model: StructureAverage, method, problem):
    return average_structures(method, problem)


@average_structures.register
def _(method: Exact, problem):
    prior = closed_prior(problem)
    problem.warn_of_constant_columns()
    model, evidence = problem.data.model, problem.data.evidence
    shared = model.shared(prior)
    pooled = {name: summary.pooled() for name, summary in evidence.summaries.items()}
    by_class, at_once = _terms(prior, evidence.summaries), _terms(shared, pooled)
    log_prior, log_other = _logs_of(model.dependence_prior)
    odds = {name: (log_prior + by_class[name]) - (log_other + at_once[name]) for name in by_class}
    dependent, _ = update(prior, evidence)
    state = StructurePosterior(problem.program, dependent, _update(shared, pooled, dependent.class_prior), odds)
    log_evidence = _class_evidence(prior, evidence) + sum(
        np.logaddexp(log_prior + by_class[name], log_other + at_once[name]).sum() for name in by_class
    )
    return problem.result(method, state, log_evidence=float(log_evidence), summaries=problem.data)


def _terms(conjugate, summaries):
    """block -> log evidence of each column, (D,), classes summed; of the whole block if it is joint."""
    return {
        block.name: _by_column(block, block.family.log_evidence_terms(summaries[block.name]))
        for block in conjugate.blocks
    }


def _by_column(block, terms):
    return terms.sum() if block.family.joint else terms.reshape(-1, len(block.columns)).sum(0)


def _update(conjugate, summaries, class_prior):
    families = [block.family.update(summaries[block.name]) for block in conjugate.blocks]
    return conjugate.replace_families(class_prior, families)


def _class_evidence(prior, evidence):
    return update(dataclasses.replace(prior, blocks=()), evidence)[1]


def _logs_of(probability):
    with np.errstate(divide="ignore"):
        return np.log(probability), np.log1p(-probability)
