"""What a fit holds: a point, a conjugate posterior, or draws."""

import abc
import dataclasses
import functools
from typing import Any

import jax
import numpy as np

from ..errors import PredictionError
from ..models import Conjugate
from ..program import GenerativeProgram
from . import closed, rowwise


class State(abc.ABC):
    """The result of training, as far as prediction needs it."""

    @property
    @abc.abstractmethod
    def parameters(self) -> dict[str, np.ndarray]:
        """name -> the point, the posterior mean, or draws (chain, draw, ...)."""

    @abc.abstractmethod
    def log_joint(self, attributes, covariates, at) -> np.ndarray:
        """log p(x_i, y = k | Q), (n, K), with Q at "mean", "mode", or integrated out ("predictive")."""

    @abc.abstractmethod
    def draws(self, num_draws, key) -> dict[str, np.ndarray]:
        """Draws of the latents, (chain, draw, ...)."""


@dataclasses.dataclass(frozen=True)
class Point(State):
    """One process.

    Attributes:
        program: the bound program.
        values: parameters by name.
        conjugate: the model's blocks, where it has any.
    """

    program: GenerativeProgram
    values: dict[str, np.ndarray]
    conjugate: Conjugate | None = None

    @property
    def parameters(self):
        """The point."""
        return self.values

    def log_joint(self, attributes, covariates, at):
        """At the point, whatever the point is called."""
        if at == "predictive":
            raise PredictionError(
                "BMA averages over a posterior, and this is a point estimate (MLE or MAP). Fit with Exact() or NUTS(), "
                "or predict with PlugIn()."
            )
        return log_joint_at(self.program, self.conjugate, self.values, attributes, covariates)

    def draws(self, num_draws, key):
        """A point has none."""
        raise PredictionError(
            "This is a point estimate (MLE or MAP), which has no draws to average over. Fit with Exact() or NUTS(), or "
            "predict with PlugIn()."
        )


@dataclasses.dataclass(frozen=True)
class Posterior(State):
    """The exact posterior over processes, in closed form.

    Attributes:
        program: the bound program.
        conjugate: the posterior: updated families.
    """

    program: GenerativeProgram
    conjugate: Conjugate

    @functools.cached_property
    def parameters(self):
        """Posterior means."""
        return collect(self.conjugate, lambda family, names: family.mean())

    @functools.cached_property
    def _predictive(self):
        return closed.predictive_densities(self.conjugate)

    def log_joint(self, attributes, covariates, at):
        """At the posterior mean or mode, or with the parameters integrated out."""
        if at == "predictive":
            return closed.log_joint(self._predictive, attributes)
        values = self.parameters if at == "mean" else collect(self.conjugate, lambda family, names: family.mode(names))
        return log_joint_at(self.program, self.conjugate, values, attributes, covariates)

    def draws(self, num_draws, key):
        """Independent draws, as one chain."""
        keys = iter(jax.random.split(key, len(self.conjugate.blocks) + 1))
        values = collect(self.conjugate, lambda family, names: family.sample(next(keys), (1, num_draws)))
        return self.program.latents_of(values)


@dataclasses.dataclass(frozen=True)
class Draws(State):
    """Draws from the posterior by Markov chains.

    Attributes:
        program: the bound program.
        latents: site -> (chain, draw, ...).
        values: parameter -> (chain, draw, ...), covariances in place of Cholesky factors.
        sample_stats: name -> (chain, draw), what the sampler recorded.
    """

    program: GenerativeProgram
    latents: dict[str, np.ndarray]
    values: dict[str, np.ndarray]
    sample_stats: dict[str, Any]

    @property
    def parameters(self):
        """The draws."""
        return self.values

    def log_joint(self, attributes, covariates, at):
        """At the mean of the draws of the parameters."""
        if at == "mode":
            raise PredictionError(
                "Draws do not tell the posterior mode. Use PlugIn(at='mean'), or fit with MAP() and use PlugIn()."
            )
        if at == "predictive":
            raise PredictionError("Draws have no closed-form predictive; use rule=BMA(), which averages over them.")
        means = {name: value.mean((0, 1)) for name, value in self.values.items()}
        return log_joint_at(self.program, None, means, attributes, covariates)

    def draws(self, num_draws, key):
        """All draws (`num_draws` is for posteriors that can make as many as one likes)."""
        return self.latents


def collect(conjugate, of_family):
    """Merge dicts of parameters of the class prior and of the blocks: {block}_{parameter} -> value."""
    values = {f"class_{k}": v for k, v in of_family(conjugate.class_prior, conjugate.class_names).items()}
    for block in conjugate.blocks:
        own = of_family(block.family, conjugate.names(block))
        values |= {f"{block.name}_{name}": value for name, value in own.items()}
    return values


def log_joint_at(program, conjugate, parameters, attributes, covariates):
    """The table at one process: in closed form where there are blocks, else by running the program."""
    if conjugate is not None:
        return closed.log_joint(closed.densities_at(conjugate, parameters), attributes)
    return rowwise.log_joint(program, program.latents_of(parameters), attributes, covariates)
