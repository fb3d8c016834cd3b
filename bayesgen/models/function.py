"""NumPyro programs of families: blocks of columns, with classes or without."""

import operator
from collections.abc import Mapping
from typing import Self

import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from numpyro.distributions.transforms import Transform

from bayesgen.families import Family, with_sampled_hyperparameters
from bayesgen.program import PytreeFunction
from bayesgen.records import content_hash, copied, record, static
from bayesgen.typing import Array

LABEL, PLATE = "y", "instances"


def covariate_name(block: str, covariate: str) -> str:
    """Name of the covariate of a block's likelihood: multinomial totals, or features of a linear model."""
    return f"{block}_{covariate.removesuffix('_count')}"


@record
class BlocksFunction(PytreeFunction):
    """Each block's parameters ~ its family; label ~ class prior, where there are classes; each block ~ family given it.

    Hyperparameters of families are leaves of a pytree, and so arguments of compiled code.

    Attributes:
        class_prior: resolved family; None without classes.
        families: the blocks' resolved families.
        names: the blocks' names.
        feature_sources: (block, site or covariate of the features that its columns depend on); attributes come first.
    """

    class_prior: Family | None
    families: tuple[Family, ...]
    names: tuple[str, ...] = static()
    feature_sources: tuple[tuple[str, str], ...] = static(default=())

    __hash__ = content_hash

    @property
    def _sources(self) -> dict[str, str]:
        """Block -> the site or covariate that its distribution takes besides the label."""
        pairs = zip(self.names, self.families, strict=True)
        named = {
            name: covariate_name(name, family.traits.covariate) for name, family in pairs if family.traits.covariate
        }
        return named | dict(self.feature_sources)

    @property
    def covariates(self) -> tuple[str, ...]:
        """Names of the blocks' covariates."""
        return tuple(source for source in self._sources.values() if source not in self.names)

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
            values = {parameter: parameters[key] for parameter, key in keys.items() if key in parameters}
            families.append(family.reparametrised(values) if values else family)
        is_same = all(map(operator.is_, families, self.families))
        return self if is_same else copied(self, families=tuple(families))

    def __call__(self, n: int, **covariates: Array) -> None:
        prior, pairs = self.class_prior, list(zip(self.names, self.families, strict=True))
        class_probs = prior and with_sampled_hyperparameters(prior, "class").sample_sites("class")["probs"]
        tables = {name: with_sampled_hyperparameters(family, name).sample_sites(name) for name, family in pairs}
        if prior is None:  # distributions of rows take parameters with a class axis
            tables = {name: {key: value[None] for key, value in table.items()} for name, table in tables.items()}
        sources, values = self._sources, dict(covariates)
        with numpyro.plate(PLATE, n):
            labels = jnp.zeros(1, int) if prior is None else numpyro.sample(LABEL, dist.Categorical(probs=class_probs))
            for name, family in pairs:
                covariate = {family.traits.covariate: values[sources[name]]} if family.traits.covariate else {}
                values[name] = numpyro.sample(name, family.site_distribution(tables[name], labels, **covariate))
