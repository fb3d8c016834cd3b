"""`StructureAverage`: a classifier that does not know which of its columns depend on the class."""

import dataclasses
from collections.abc import Mapping, Sequence

import jax
import numpy as np
import scipy.special

from bayesgen.data import Schema
from bayesgen.errors import FitError, ModelError
from bayesgen.families import Family
from bayesgen.program import Recipe, WrappedModel
from bayesgen.records import record
from bayesgen.statistics import SufficientStatistics
from bayesgen.typing import Shaped

from .classifier import GenerativeClassifier
from .conjugate import Block, Conjugate, Densities


@record
class ConjugateStructures(Conjugate):
    """A prior over structures and processes, or a posterior: the columns are independent mixtures of two.

    Generative story::

        dependence[d] ~ Bernoulli(logits=log_odds[d]), for each column d; one for a block that is modelled jointly
        parameters[d] ~ the column's family in `blocks` if dependence[d], else that in `shared`

    It is closed under updating: the posterior odds that a column depends on the class are the prior odds times the
    ratio of its two evidences. `blocks` are those of the structure in which every column depends on the class.

    Attributes:
        shared: the blocks if no column depends on the class (K = 1).
        log_odds: block -> log odds that a column depends on the class, (D,); a number for a block modelled jointly.

    Source: Dash and Cooper (2002), Exact model averaging with naive Bayesian classifiers.
    """

    is_one_structure = False
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
        """log p(X, y), structures and parameters marginalised."""
        by_class, at_once = _log_evidences(self, evidence), _log_evidences(self.shared, _pooled(evidence))
        total = dataclasses.replace(self.shared, blocks=()).log_evidence(evidence)
        for name, odds in self.log_odds.items():
            dependent = scipy.special.log_expit(odds) + by_class[name]
            total += np.logaddexp(dependent, scipy.special.log_expit(-odds) + at_once[name]).sum()
        return float(total)

    @property
    def axes(self) -> dict[str, tuple[str, ...]]:
        """{block}_{parameter} -> names of its axes, `{block}_dependence` among them."""
        columns = {
            block.name: () if block.family.traits.joint else (self.prefix(block) + "feature",) for block in self.blocks
        }
        return {**super().axes, **{f"{name}_dependence": names for name, names in columns.items()}}

    def mean(self) -> dict[str, np.ndarray]:
        """Means in the most probable structure, and `{block}_dependence`."""
        return self._in_best(super().mean(), self.shared.mean()) | _named(self.dependence)

    def variance(self) -> dict[str, np.ndarray]:
        """Empty: variances over all structures have no closed form."""
        return {}

    def quantile(self, prob: float) -> dict[str, np.ndarray]:
        return {}

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

    def _in_best(self, dependent: Mapping[str, np.ndarray], shared: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The parameters of the most probable structure (a column of equal odds depends on the class)."""
        best = {name: odds >= 0 for name, odds in self.log_odds.items()}
        return self._in_structure(best, dependent, shared)

    def _in_structure(
        self, structure: Mapping[str, np.ndarray], dependent: Mapping[str, np.ndarray], shared: Mapping[str, np.ndarray]
    ) -> dict[str, np.ndarray]:
        """Choose each column's parameters. Structures may have leading axes, as the parameters then have."""
        chosen = {name: value for name, value in dependent.items() if name.startswith("class_")}
        for block in self.blocks:
            for parameter, axes in block.family.parameter_axes().items():
                name = f"{block.name}_{parameter}"
                depends = _like(structure[block.name], axes, block.family.traits.joint)
                chosen[name] = np.where(depends, dependent[name], np.broadcast_to(shared[name], dependent[name].shape))
        return chosen


def _pooled(statistics: SufficientStatistics) -> SufficientStatistics:
    """The data with the summaries pooled over classes; class counts are kept."""
    summaries = {name: summary.pooled() for name, summary in statistics.summaries.items()}
    return dataclasses.replace(statistics, summaries=summaries)


def _log_evidences(conjugate: Conjugate, statistics: SufficientStatistics) -> dict[str, np.ndarray]:
    """block -> log evidence of each column, (D,), classes summed; of the whole block if it is joint."""
    terms: dict[str, np.ndarray] = {}
    for block in conjugate.blocks:
        table = np.asarray(block.family.log_evidence_terms(statistics.summaries[block.name]))
        joint = block.family.traits.joint
        terms[block.name] = table.sum() if joint else table.reshape(-1, len(block.columns)).sum(0)
    return terms


def _named(dependence: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {f"{name}_dependence": value for name, value in dependence.items()}


def _like(structure: Shaped[np.ndarray, "..."], axes: tuple[str, ...], joint: bool) -> Shaped[np.ndarray, "..."]:
    """Shape choices like a parameter with these axes: (..., D) for columns, (...) for a block modelled jointly.

    A parameter without an axis of columns is that of the only column of its block.
    """
    leading = structure.shape if joint else structure.shape[:-1]
    sizes = [structure.shape[-1] if axis == "feature" and not joint else 1 for axis in axes]
    return structure.reshape(*leading, *sizes)


ALL_CLASSES = "all classes"


@dataclasses.dataclass(frozen=True)
class StructureAverage(WrappedModel):
    """A generative classifier in which each column depends on the class or does not.

    Generative story::

        class_probs   ~ class_prior
        dependence[d] ~ Bernoulli(dependence_prior), for each column d; one for a block that is modelled jointly
        parameters[d] ~ the column's family: for each class if dependence[d], else once for all classes
        y             ~ Categorical(class_probs)
        column d      ~ the family's likelihood with the parameters of class y

    Args:
        classifier: the classifier in which every column depends on the class. Its program is that of this structure.
        dependence_prior: prior probability of dependence, from 0 to 1.

    `NaiveBayes(structure="average")` makes one. `Exact()` averages over all structures; other methods refuse.

    Source: Dash and Cooper (2002), Exact model averaging with naive Bayesian classifiers.
    """

    classifier: GenerativeClassifier
    dependence_prior: float = 0.5

    @property
    def blocks(self) -> Sequence[tuple[str, Family, Sequence[str]]]:
        return self.classifier.blocks

    @property
    def wrapped(self) -> GenerativeClassifier:
        return self.classifier

    def with_components(self, num_components: int) -> Recipe:
        raise ModelError(
            "A Mixture of structure='average' is not supported: with unknown components, the average over all subsets "
            "of columns has no closed form. Use structure='full'."
        )

    def conjugate(self, schema: Schema) -> ConjugateStructures:
        """The prior over structures and the parameters of each."""
        dependent = self.classifier.conjugate(schema)
        odds = scipy.special.logit(self.dependence_prior)
        return ConjugateStructures(
            **{field.name: getattr(dependent, field.name) for field in dataclasses.fields(dependent) if field.init},
            shared=self.shared(dependent),
            log_odds={b.name: np.full(() if b.family.traits.joint else len(b.columns), odds) for b in dependent.blocks},
        )

    @property
    def form_to_search(self) -> str:
        return "structure='full'"

    def check_searchable(self, method: str) -> None:
        """Refuse every method but `Exact`: the processes of all structures are not those of one program."""
        raise FitError(
            f"structure='average' is averaged exactly, over every subset of columns: {method}() cannot. Use "
            f"{self.form_to_search}, or Exact() for rows that all have a label."
        )

    def check_class_can_be_added(self, schema: Schema) -> None:
        raise FitError(
            "structure='average' learns from the rows of all classes which columns depend on the class, so a new class "
            "would change the posterior of the others. Fit all rows anew with all classes, or use structure='full'."
        )

    def shared(self, conjugate: Conjugate) -> Conjugate:
        """The blocks of the structure in which no column depends on the class.

        Raises:
            ModelError: a prior that differs between the classes.
        """
        blocks = tuple(dataclasses.replace(block, family=_family_of_all_classes(block)) for block in conjugate.blocks)
        return dataclasses.replace(conjugate, blocks=blocks, classes=(ALL_CLASSES,))


def _family_of_all_classes(block: Block) -> Family:
    family = block.family
    if family.hierarchical:  # only closed forms use this, and they refuse such a family by name
        return family
    for name, value in family.hyperparameters.items():
        if not np.array_equal(value, np.broadcast_to(value[:1], value.shape)):
            raise ModelError(
                f"Block {block.name!r}: the hyperparameter {name} differs between the classes, so columns that do not "
                "depend on the class have no prior. Give one for all classes."
            )
    one_class = jax.tree.map(lambda value: value[:1], family)
    return one_class.replace(batch_shape=(1, *family.batch_shape[1:]))
