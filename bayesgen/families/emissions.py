"""What hidden states may emit: which families, and their distributions by state."""

from collections.abc import Mapping

import jax.numpy as jnp
import numpyro.distributions as dist

from bayesgen.errors import ModelError
from bayesgen.typing import Array, Int

from .base import Family

STEPS = ("categorical", "real", "count", "binary")  # that emissions may be, by the kind of their family


def check_emissions(emissions: object) -> None:
    """Refuse what no hidden state can emit.

    Raises:
        ModelError: saying what can be emitted.
    """
    if not isinstance(emissions, Family):
        raise ModelError(f"DirichletHiddenMarkov: emissions must be a family, got {emissions!r}.")
    shared = emissions.kind in STEPS and any(axes[:1] != ("class",) for axes in emissions.parameter_axes().values())
    if emissions.kind not in STEPS or emissions.covariate is not None or shared:
        raise ModelError(
            f"DirichletHiddenMarkov: no hidden state emits by {emissions!r}. Emissions are columns that depend on the "
            "state alone, with parameters of their own in each: NormalInverseGamma(), NormalInverseWishart(), "
            "GammaPoisson(), BetaBernoulli() or DirichletCategorical(); not tied=True."
        )


def emitted(emissions: Family, parameters: Mapping[str, Array], labels: Int[Array, "*n"]) -> dist.Distribution:
    """The distributions of a step, those of the states of a row along the last axis of batches.

    Args:
        emissions: the resolved family.
        parameters: with the axes (K, S) first.
        labels: of the rows.
    """
    num_states = next(iter(parameters.values())).shape[1]
    codes = jnp.asarray(labels)[..., None] * num_states + jnp.arange(num_states)
    of_states = {name: jnp.reshape(value, (-1, *value.shape[2:])) for name, value in parameters.items()}
    if emissions.kind == "categorical":  # steps of one column of symbols have no axis of columns
        return dist.Categorical(probs=of_states["probs"][codes][..., 0, :])
    return emissions.likelihood(of_states, codes)
