"""The conjugate prior over structures: which columns depend on the class, and the parameters of each."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.special

from bayesgen.records import record
from bayesgen.statistics import SufficientStatistics
from bayesgen.typing import Array, Float

from .conjugate import Conjugate, Densities


@record
class ConjugateStructures(Conjugate):
    """A prior over structures and processes, or a posterior: the columns are independent mixtures of two.

    Generative story::

        dependence[d] ~ Bernoulli(logits=log_odds[d]), for each column d; one for a block that is modelled jointly
        parameters[d] ~ the column's family in `blocks` if dependence[d], else that in `shared`

    It is closed under updating: data make the odds that a column depends on the class larger by the ratio of its two
    evidences. `blocks` are those of the structure in which every column depends on the class.

    Attributes:
        shared: the blocks if no column depends on the class (K = 1).
        log_odds: block -> log odds that a column depends on the class, (D,) or a number for all; a number for a block
            modelled jointly.

    Source: Dash and Cooper (2002), Exact model averaging with naive Bayesian classifiers.
    """

    shared: Conjugate
    log_odds: dict[str, np.ndarray]

    @property
    def dependence(self) -> dict[str, np.ndarray]:
        """block -> probability that a column depends on the class, (D,); a number for a joint block."""
        return {name: scipy.special.expit(odds) for name, odds in self.log_odds.items()}

    def update(self, evidence: SufficientStatistics) -> "ConjugateStructures":
        """The posterior over structures and parameters."""
        pooled = _pooled(evidence)
        by_class, at_once = _log_evidences(self, evidence), _log_evidences(self.shared, pooled)
        log_odds = {name: odds + by_class[name] - at_once[name] for name, odds in self.log_odds.items()}
        return dataclasses.replace(super().update(evidence), shared=self.shared.update(pooled), log_odds=log_odds)

    def log_evidence(self, evidence: SufficientStatistics) -> float:
        """log p(X, y), structures and parameters summed out."""
        by_class, at_once = _log_evidences(self, evidence), _log_evidences(self.shared, _pooled(evidence))
        total = dataclasses.replace(self.shared, blocks=()).log_evidence(evidence)
        for name, odds in self.log_odds.items():
            dependent = scipy.special.log_expit(odds) + by_class[name]
            total += np.logaddexp(dependent, scipy.special.log_expit(-odds) + at_once[name]).sum()
        return float(total)

    @property
    def axes(self) -> dict[str, tuple[str, ...]]:
        """{block}_{parameter} -> names of its axes, `{block}_dependence` among them."""
        columns = {block.name: () if block.family.joint else (self.prefix(block) + "feature",) for block in self.blocks}
        return {**super().axes, **{f"{name}_dependence": names for name, names in columns.items()}}

    def mean(self) -> dict[str, np.ndarray]:
        """Means in the most probable structure, and `{block}_dependence`."""
        return self._in_best(super().mean(), self.shared.mean()) | _named(self.dependence)

    def mode(self) -> dict[str, np.ndarray]:
        """The joint mode in the most probable structure."""
        return self._in_best(super().mode(), self.shared.mode())

    def sample(self, shape: tuple[int, ...], rng: np.random.Generator) -> dict[str, np.ndarray]:
        """Independent draws of structures and parameters; `{block}_dependence` is 1 where a column depends."""
        dependent, shared = super().sample(shape, rng), self.shared.sample(shape, rng)
        structure = {name: rng.random((*shape, *np.shape(p))) < p for name, p in self.dependence.items()}
        numbers = {name: depends.astype(np.int8) for name, depends in structure.items()}
        return self._in_structure(structure, dependent, shared) | _named(numbers)

    def predictive_densities(self) -> Densities:
        """Structures and parameters integrated out."""
        log_class_probs, _ = dataclasses.replace(self.shared, blocks=()).predictive_densities()
        blocks = []
        for block, shared in zip(self.blocks, self.shared.blocks, strict=True):
            odds = self.log_odds[block.name]
            logs = scipy.special.log_expit(odds), scipy.special.log_expit(-odds)
            density = block.family.row_predictive()
            blocks.append((block.name, density.mixed(shared.family.row_predictive(), *logs)))
        return log_class_probs, blocks

    def _in_best(self, dependent: Mapping[str, Any], shared: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """The parameters of the most probable structure (a column of equal odds depends on the class)."""
        best = {name: odds >= 0 for name, odds in self.log_odds.items()}
        return self._in_structure(best, dependent, shared)

    def _in_structure(
        self, structure: Mapping[str, Any], dependent: Mapping[str, Any], shared: Mapping[str, Any]
    ) -> dict[str, np.ndarray]:
        """Choose each column's parameters. Structures may have leading axes, as the parameters then have."""
        chosen = {name: value for name, value in dependent.items() if name.startswith("class_")}
        for block in self.blocks:
            for parameter, axes in block.family.parameter_axes().items():
                name = f"{block.name}_{parameter}"
                depends = _like(structure[block.name], axes, block.family.joint)
                chosen[name] = np.where(depends, dependent[name], np.broadcast_to(shared[name], dependent[name].shape))
        return chosen


def _pooled(statistics: SufficientStatistics) -> SufficientStatistics:
    """The data, the classes of whose rows are forgotten but for their counts."""
    summaries = {name: summary.pooled() for name, summary in statistics.summaries.items()}
    return dataclasses.replace(statistics, summaries=summaries)


def _log_evidences(conjugate: Conjugate, statistics: SufficientStatistics) -> dict[str, np.ndarray]:
    """block -> log evidence of each column, (D,), classes summed; of the whole block if it is joint."""
    terms: dict[str, np.ndarray] = {}
    for block in conjugate.blocks:
        of_block = np.asarray(block.family.log_evidence_terms(statistics.summaries[block.name]))
        joint = block.family.joint
        terms[block.name] = of_block.sum() if joint else of_block.reshape(-1, len(block.columns)).sum(0)
    return terms


def _named(dependence: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {f"{name}_dependence": value for name, value in dependence.items()}


def _per_column(weights: Float[Array, "..."], axes: tuple[str, ...]) -> Float[np.ndarray, "..."]:
    """Shape weights (..., D) of columns, or one for a block, like a parameter with these axes."""
    weights = np.asarray(weights)
    if "feature" not in axes or weights.ndim == 0:
        return weights
    class_axis = axes.index("feature")
    trailing = len(axes) - class_axis - 1
    leading = weights.shape[:-1] + (1,) * class_axis
    return weights.reshape(*leading, weights.shape[-1], *(1,) * trailing)


def _like(structure: np.ndarray, axes: tuple[str, ...], joint: bool) -> np.ndarray:
    """Shape the choice for columns, or for a joint block, like a parameter with these axes."""
    return structure.reshape(structure.shape + (1,) * len(axes)) if joint else _per_column(structure, axes)
