"""The conjugate blocks of a model: what the closed forms of fitting and predicting work on."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from bayesgen.families import Family, Names
from bayesgen.statistics import Sums


@dataclasses.dataclass(frozen=True)
class Block:
    """Columns that one family models.

    Attributes:
        name: the attribute site's name.
        family: resolved family; its table of parameters has the classes as first axis.
        columns: names of the columns.
    """

    name: str
    family: Family
    columns: Sequence[str]


@dataclasses.dataclass(frozen=True)
class Conjugate:
    """A class prior and blocks, all resolved: a prior over processes, or a posterior.

    Attributes:
        class_prior: family over the K class probabilities.
        blocks: the blocks, independent given the class.
        classes: the labels.
    """

    class_prior: Family
    blocks: tuple[Block, ...]
    classes: tuple

    @property
    def is_closed(self):
        """Whether every hyperparameter is a number, so that the closed forms apply."""
        return not any(family.hierarchical for _, family in self.families())

    def families(self):
        """(name, family) of the class prior and of each block."""
        return [("class", self.class_prior), *((block.name, block.family) for block in self.blocks)]

    def names(self, block):
        """Names for messages about a block."""
        return Names(block.name, self.classes, block.columns)

    @property
    def class_names(self):
        """Names for messages about the class prior."""
        return Names("class", None, [f"probability of {label!r}" for label in self.classes])

    def update(self, evidence):
        """The posterior, given class counts and summaries (`program.density.Evidence`)."""
        families = [block.family.update(evidence.summaries[block.name]) for block in self.blocks]
        return self.replace_families(self.class_prior.update(_labels(evidence)), families)

    def log_evidence(self, evidence) -> float:
        """log p(X, y), all parameters integrated out."""
        blocks = [block.family.log_evidence(evidence.summaries[block.name]) for block in self.blocks]
        return float(self.class_prior.log_evidence(_labels(evidence)) + sum(blocks))

    def replace_families(self, class_prior, families):
        """The same blocks with other families."""
        blocks = tuple(
            dataclasses.replace(block, family=family) for block, family in zip(self.blocks, families, strict=True)
        )
        return dataclasses.replace(self, class_prior=class_prior, blocks=blocks)


def _labels(evidence):
    """The class counts as a summary of the labels."""
    return Sums(evidence.class_counts.sum(), (evidence.class_counts,), np.zeros(()))
