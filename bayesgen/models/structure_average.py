"""`StructureAverage`: a classifier that does not know which of its columns depend on the class."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
import scipy.special

from bayesgen.data import Rows, Schema, Table
from bayesgen.errors import FitError, ModelError
from bayesgen.families import Family
from bayesgen.program import ConcreteModel, GenerativeProgram, Recipe
from bayesgen.statistics import Cells, Statistic

from .classifier import GenerativeClassifier
from .conjugate import Block, Conjugate
from .conjugate_structures import ConjugateStructures

ALL_CLASSES = "all classes"


@dataclasses.dataclass(frozen=True)
class StructureAverage(ConcreteModel):
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
        """The blocks of the classifier."""
        return self.classifier.blocks

    def infer_schema(self, table: Table, y: Any, declared: Schema) -> Schema:
        """See `GenerativeClassifier`."""
        return self.classifier.infer_schema(table, y, declared)

    def read(self, schema: Schema, table: Table) -> Rows:
        """See `GenerativeClassifier`."""
        return self.classifier.read(schema, table)

    def check_rows(self, schema: Schema, attributes: Mapping[str, Cells]) -> None:
        """See `GenerativeClassifier`."""
        self.classifier.check_rows(schema, attributes)

    def statistics(self, schema: Schema) -> dict[str, Statistic]:
        """See `GenerativeClassifier`."""
        return self.classifier.statistics(schema)

    def with_scale(self, schema: Schema, summaries: Mapping[str, Any]) -> Schema:
        """See `GenerativeClassifier`."""
        return self.classifier.with_scale(schema, summaries)

    def with_components(self, num_components: int) -> Recipe:
        """See `Recipe.with_components`."""
        raise ModelError(
            "A Mixture of structure='average' is not supported: which columns depend on a component that nobody has "
            "seen is not summed out. Use structure='full'."
        )

    def conjugate(self, schema: Schema) -> ConjugateStructures:
        """The prior over structures and the parameters of each."""
        dependent = self.classifier.conjugate(schema)
        log_odds = np.asarray(scipy.special.logit(self.dependence_prior))
        return ConjugateStructures(
            **{field.name: getattr(dependent, field.name) for field in dataclasses.fields(dependent) if field.init},
            shared=self.shared(dependent),
            log_odds={block.name: log_odds for block in dependent.blocks},
        )

    def check_searchable(self, method: str) -> None:
        """Refuse every method but `Exact`: the processes of all structures are not those of one program."""
        raise FitError(
            f"structure='average' is averaged exactly, over every subset of columns: {method}() cannot. Use Exact(), "
            "or structure='full'."
        )

    def check_classes_apart(self, schema: Schema) -> None:
        """Refuse: whether a column depends on the class is a question to the rows of all classes."""
        raise FitError(
            "structure='average' asks the rows of all classes which columns depend on the class, so a new class would "
            "change what is known of the others. Fit all rows anew with all classes, or use structure='full'."
        )

    def shared(self, conjugate: Conjugate) -> Conjugate:
        """The blocks where no column depends on the class: one set of parameters with the prior of each class.

        Raises:
            ModelError: a prior that differs between the classes.
        """
        blocks = tuple(dataclasses.replace(block, family=_of_all_classes(block)) for block in conjugate.blocks)
        return dataclasses.replace(conjugate, blocks=blocks, classes=(ALL_CLASSES,))

    def bind(self, schema: Schema) -> GenerativeProgram:
        """The program where every column depends on the class."""
        return self.classifier.bind(schema)


def _of_all_classes(block: Block) -> Family:
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
