"""Learning hyperparameters with the hypotheses summed out: by NUTS, and at the mode.

For the samplers of `bayesgen.fitting` this is a program without rows: its latent sites are the hyperparameters, and the
probability of the examples, a function of the cells of a `Table`, is one factor.
"""

import dataclasses
from typing import Any

import jax
import numpy as np
import numpyro

from bayesgen.data import Schema
from bayesgen.fitting import ProgramProblem, Summaries
from bayesgen.program import Evidence, GenerativeProgram, Plan, PytreeFunction, Structure

from .cells import Cells, Setting
from .hyperparameters import sample_values


@dataclasses.dataclass(frozen=True)
class Marginal(PytreeFunction):
    """hyperparameters ~ their priors; examples ~ the sum over hypotheses.

    Attributes:
        hyperparameters: numbers or distributions by name.
        cells: the cells of the examples.
        setting: the rest of the learner.
    """

    hyperparameters: dict[str, Any]
    cells: Cells
    setting: Setting

    def __call__(self, n, **covariates):
        """Sample the hyperparameters and weigh them by the examples."""
        values = sample_values(self.hyperparameters)
        numpyro.factor("examples", self.cells.log_evidence(self.setting, values))


jax.tree_util.register_dataclass(Marginal, data_fields=["hyperparameters", "cells"], meta_fields=["setting"])


def problem_of(table, seed, progress):
    """The training problem of a learner's hyperparameters, as methods take it."""
    learner = table.learner
    latents = tuple((name, ()) for name in learner.unknown)
    structure = Structure("sets", -1, None, attributes=(), latents=latents, deterministics=(), covariates=())
    function = Marginal(learner.hyperparameters, table.cells, Setting.of(learner))
    program = GenerativeProgram(function, label=None).replace(structure=structure, plan=Plan(()))
    return ProgramProblem(program, Summaries(program, Schema(), Evidence(np.zeros(1), {}, {})), seed, progress)
