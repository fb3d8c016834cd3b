"""NumPyro programs of families: one function for classifiers, and one for blocks without classes."""

from collections.abc import Mapping
from typing import Self

import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from numpyro.distributions.transforms import Transform

from bayesgen.families import Family, OpenFamily
from bayesgen.program import PytreeFunction
from bayesgen.records import content_hash, copied, record, static
from bayesgen.typing import Array, Int

LABEL, PLATE = "y", "instances"


def covariate_name(block: str, covariate: str) -> str:
    """Name of the covariate of a block's likelihood: multinomial totals, or features of a linear model."""
    return f"{block}_{covariate.removesuffix('_count')}"


class FamiliesFunction(PytreeFunction):
    """A program function of families, whose hyperparameters are leaves of a pytree and so arguments of compiled code.

    Attributes:
        families: the blocks' resolved families.
        names: the blocks' names.
    """

    families: tuple[Family, ...]
    names: tuple[str, ...]

    @property
    def covariates(self) -> tuple[str, ...]:
        """Names of the blocks' covariates."""
        pairs = zip(self.names, self.families, strict=True)
        return tuple(covariate_name(name, family.covariate) for name, family in pairs if family.covariate)

    @property
    def coordinates(self) -> dict[str, tuple[str, Transform]]:
        return {
            f"{name}_{site}": (f"{name}_{parameter}", transform)
            for name, family in zip(self.names, self.families, strict=True)
            for site, (parameter, transform) in family.coordinates.items()
        }

    def reparametrised(self, parameters: Mapping[str, Array]) -> Self:
        """Each family in its coordinates near a process."""
        families = []
        for name, family in zip(self.names, self.families, strict=True):
            keys = {parameter: f"{name}_{parameter}" for parameter in family.parameter_axes()}
            of_block = {parameter: parameters[key] for parameter, key in keys.items() if key in parameters}
            families.append(family.reparametrised(of_block) if isinstance(family, OpenFamily) else family)
        is_same = all(one is other for one, other in zip(families, self.families, strict=True))
        return self if is_same else copied(self, families=tuple(families))

    def _parameters(self) -> dict[str, dict[str, Array]]:
        """Sample the parameters of each block."""
        pairs = zip(self.names, self.families, strict=True)
        return {name: family.sampled_hyperparameters(name).sample_sites(name) for name, family in pairs}

    def _attributes(
        self, parameters: Mapping[str, Mapping[str, Array]], labels: Int[Array, " n"], covariates: Mapping[str, Array]
    ) -> None:
        """Sample the attributes, given parameters with the classes first."""
        for name, family in zip(self.names, self.families, strict=True):
            given = {family.covariate: covariates[covariate_name(name, family.covariate)]} if family.covariate else {}
            numpyro.sample(name, family.site_distribution(parameters[name], labels, **given))


@record
class ClassifierFunction(FamiliesFunction):
    """class_probs ~ class prior; each block's parameters ~ its family; y ~ class_probs; each block ~ family given y.

    Attributes:
        class_prior: resolved family.
    """

    class_prior: Family
    families: tuple[Family, ...]
    names: tuple[str, ...] = static()

    __hash__ = content_hash

    def __call__(self, n: int, **covariates: Array) -> None:
        class_probs = self.class_prior.sampled_hyperparameters("class").sample_sites("class")["probs"]
        parameters = self._parameters()
        with numpyro.plate(PLATE, n):
            labels = numpyro.sample(LABEL, dist.Categorical(probs=class_probs))
            self._attributes(parameters, labels, covariates)


@record
class BlocksFunction(FamiliesFunction):
    """Each block's parameters ~ its family, without classes; each block ~ its family's likelihood."""

    families: tuple[Family, ...]
    names: tuple[str, ...] = static()

    __hash__ = content_hash

    def __call__(self, n: int, **covariates: Array) -> None:
        """Generate n instances, all of one class."""
        tables = {
            name: {parameter: value[None] for parameter, value in of_block.items()}
            for name, of_block in self._parameters().items()
        }
        with numpyro.plate(PLATE, n):
            self._attributes(tables, jnp.zeros(1, int), covariates)
