"""Dirichlet priors on the first state of a hidden chain and on its transitions, and their algebra."""

import dataclasses
from collections.abc import Mapping
from typing import Self

import numpy as np
import numpyro.distributions as dist

from bayesgen.errors import FitError, ModelError
from bayesgen.runtime import generator
from bayesgen.typing import Array, Float

from .base import Key, Parameters
from .dirichlet_categorical import DirichletCategorical
from .hidden_counts import HiddenCounts
from .hyperparameters import Stated, as_number
from .naming import Names, refuse_mode

WHAT = {"initial": "first states", "transition": "transitions"}


@dataclasses.dataclass(frozen=True)
class ChainPrior:
    """Concentrations of the probabilities of first states and of transitions. Classes lead, where there are any."""

    initial: Float[Array, "*K S"]
    transition: Float[Array, "*K S S"]

    def updated(self, counts: HiddenCounts) -> Self:
        """Given the states."""
        return dataclasses.replace(
            self, initial=self.initial + counts.initial, transition=self.transition + counts.transition
        )

    def mean(self) -> Parameters:
        """Normalised concentrations."""
        return {name: prior.mean()["probs"] for name, prior in self._families.items()}

    def variance(self) -> Parameters:
        """p (1 - p) / (total + 1)."""
        return {name: prior.variance()["probs"] for name, prior in self._families.items()}

    def mode(self, names: Names) -> Parameters:
        """(alpha - 1) / sum(alpha - 1); a `FitError` where it is unbounded or not unique."""
        modes: Parameters = {}
        for name, prior in self._families.items():
            above = np.asarray(prior.concentration) - 1
            bad = (above < 0).any(-1) | (above.sum(-1) <= 0)
            if bad.any():
                why = (
                    f"probabilities of {WHAT[name]} are unbounded with a concentration below 1."
                    if (above < 0).any()
                    else f"no {WHAT[name]} were seen, and with a concentration of 1 all probabilities are as good."
                )
                size = above.shape[-1]
                remedy = (
                    f"Give concentrations above 1, DirichletHiddenMarkov({size}, concentration=2.0, initial=2.0), or "
                    "fewer states."
                )
                refuse_mode(_of_chain(names, name), bad, why, remedy)
            modes[name] = above / above.sum(-1, keepdims=True)
        return modes

    def sample(self, key: Key, shape: tuple[int, ...]) -> Parameters:
        """Independent draws."""
        rng = generator(key)
        return {name: prior.sample(rng, shape)["probs"] for name, prior in self._families.items()}

    def log_density(self, parameters: Mapping[str, Array]) -> float:
        """Of given probabilities."""
        return sum(prior._log_prior({"probs": parameters[name]}) for name, prior in self._families.items())

    @property
    def _families(self) -> dict[str, DirichletCategorical]:
        pairs = {"initial": self.initial, "transition": self.transition}
        return {name: DirichletCategorical(value).replace(batch_shape=value.shape) for name, value in pairs.items()}


def check_shape(name: str, concentration: Stated, shape: tuple[int, ...]) -> None:
    """Refuse a concentration that is neither a number nor broadcasts to a table of the states, after classes if any.

    Raises:
        ModelError: with both shapes.
    """
    if isinstance(concentration, dist.Distribution):
        return
    stated = np.shape(as_number(concentration))
    states = stated[-len(shape) :]
    if any(size not in (1, wanted) for size, wanted in zip(reversed(states), reversed(shape), strict=False)):
        raise ModelError(
            f"DirichletHiddenMarkov: the hyperparameter {name} has shape {stated}, and for {shape[-1]} states it is a "
            f"number, or an array of shape {shape}."
        )


def relative_frequencies(counts: HiddenCounts, names: Names) -> Parameters:
    """Of first states and of transitions; a `FitError` where nothing was counted."""
    found: Parameters = {}
    for name, of_chain in {"initial": counts.initial, "transition": counts.transition}.items():
        table = np.asarray(of_chain)
        total = table.sum(-1, keepdims=True)
        if (total == 0).any():
            raise FitError(
                f"Block {names.block!r}: no {WHAT[name]} at {_of_chain(names, name).where(total[..., 0] == 0)}, so "
                "maximum likelihood has no estimate. Use MAP() with a concentration above 1, fewer states, or leave "
                "that class out."
            )
        found[name] = table / total
    return found


def _of_chain(names: Names, parameter: str) -> Names:
    """Names of a table of the chain: of transitions, rows are the states before."""
    return dataclasses.replace(names, has_states=parameter == "transition")
