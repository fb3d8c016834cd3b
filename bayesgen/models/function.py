"""The NumPyro program of a classifier: one function for all of them, built from families."""

import numpyro
import numpyro.distributions as dist

from bayesgen.families import Family
from bayesgen.program import PytreeFunction
from bayesgen.records import content_hash, record, static
from bayesgen.typing import Array

LABEL, PLATE = "y", "instances"


def covariate_name(block: str) -> str:
    """Name of the covariate that a block's likelihood takes: the total of a multinomial row."""
    return f"{block}_total"


@record
class ClassifierFunction(PytreeFunction):
    """class_probs ~ class prior; each block's parameters ~ its family; y ~ class_probs; each block ~ family given y.

    Its hyperparameters are the leaves of a pytree, so that compiled functions take them as arguments.

    Attributes:
        class_prior: resolved family.
        families: the blocks' resolved families.
        names: the blocks' names.
    """

    class_prior: Family
    families: tuple[Family, ...]
    names: tuple[str, ...] = static()

    __hash__ = content_hash

    @property
    def covariates(self) -> tuple[str, ...]:
        """Names of the blocks' covariates."""
        pairs = zip(self.names, self.families, strict=True)
        return tuple(covariate_name(name) for name, family in pairs if family.covariate)

    def __call__(self, n: int, **covariates: Array) -> None:
        """Generate n instances."""
        class_probs = self.class_prior.sampled_hyperparameters("class").sample_sites("class")["probs"]
        blocks = list(zip(self.names, self.families, strict=True))
        parameters = {name: family.sampled_hyperparameters(name).sample_sites(name) for name, family in blocks}
        with numpyro.plate(PLATE, n):
            labels = numpyro.sample(LABEL, dist.Categorical(probs=class_probs))
            for name, family in blocks:
                given = {family.covariate: covariates[covariate_name(name)]} if family.covariate else {}
                numpyro.sample(name, family.likelihood(parameters[name], labels, **given))
