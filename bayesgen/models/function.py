"""The NumPyro program of a classifier: one function for all of them, built from families."""

import jax
import numpyro
import numpyro.distributions as dist

from bayesgen.program import PytreeFunction

LABEL, PLATE = "y", "instances"


def covariate_name(block):
    """Name of the covariate that a block's likelihood takes: the total of a multinomial row."""
    return f"{block}_total"


class ClassifierFunction(PytreeFunction):
    """class_probs ~ class prior; each block's parameters ~ its family; y ~ class_probs; each block ~ family given y.

    Its hyperparameters are the leaves of a pytree, so that compiled functions take them as arguments.
    """

    def __init__(self, class_prior, blocks):
        """`class_prior` is a resolved family, `blocks` a tuple of (name, resolved family)."""
        self.class_prior, self.blocks = class_prior, tuple(blocks)
        self.covariates = tuple(covariate_name(name) for name, family in self.blocks if family.covariate)

    def __call__(self, n, **covariates):
        """Generate n instances."""
        class_probs = self.class_prior.sampled_hyperparameters("class").sample_sites("class")["probs"]
        parameters = {name: family.sampled_hyperparameters(name).sample_sites(name) for name, family in self.blocks}
        with numpyro.plate(PLATE, n):
            labels = numpyro.sample(LABEL, dist.Categorical(probs=class_probs))
            for name, family in self.blocks:
                given = {family.covariate: covariates[covariate_name(name)]} if family.covariate else {}
                numpyro.sample(name, family.likelihood(parameters[name], labels, **given))


def _flatten(function):
    names = tuple(name for name, _ in function.blocks)
    return (function.class_prior, tuple(family for _, family in function.blocks)), names


def _unflatten(names, children):
    class_prior, families = children
    return ClassifierFunction(class_prior, zip(names, families, strict=True))


jax.tree_util.register_pytree_node(ClassifierFunction, _flatten, _unflatten)
