"""What a fit holds, whatever it is: the tables of log-joints, draws and export that prediction asks for."""

import abc
import dataclasses
from typing import Any

import numpy as np

from bayesgen.models import Conjugate
from bayesgen.program import GenerativeProgram, program_table

from .closed import closed_table


@dataclasses.dataclass(frozen=True)
class Exported:
    """The parameters of a state as ArviZ takes them.

    Attributes:
        groups: group -> name -> array (chain, draw, ...).
        sampling: how the draws came about: "chains", "independent" or "none".
    """

    groups: dict[str, dict[str, Any]]
    sampling: str


class State(abc.ABC):
    """The result of training, as far as prediction needs it.

    Tables are log p(x_i, y = k | Q), (n, K), of rows as the model reads them. `log_evidence` is log p(X, y) of the
    training data, where it is known.
    """

    log_evidence: float | None = None

    @property
    @abc.abstractmethod
    def parameters(self) -> dict[str, np.ndarray]:
        """name -> the point, the posterior mean, or draws (chain, draw, ...)."""

    @abc.abstractmethod
    def at_mean(self, attributes, covariates) -> np.ndarray:
        """The table at the mean of the parameters."""

    @abc.abstractmethod
    def at_mode(self, attributes, covariates) -> np.ndarray:
        """The table at the mode of the parameters."""

    @abc.abstractmethod
    def predictive(self, attributes, covariates) -> np.ndarray:
        """The table with the parameters integrated out, exactly."""

    @abc.abstractmethod
    def draws(self, num_draws, key) -> dict[str, np.ndarray]:
        """Draws of the latents, (chain, draw, ...)."""


class ProgramState(State):
    """What was learned of the parameters of one program: its tables at a point are those of one process.

    Attributes:
        program: the bound program.
        conjugate: blocks that give the tables in closed form; None where the program has to be run.
    """

    program: GenerativeProgram
    conjugate: Conjugate | None

    @property
    @abc.abstractmethod
    def mean(self) -> dict[str, np.ndarray]:
        """The mean of each parameter."""

    @property
    @abc.abstractmethod
    def mode(self) -> dict[str, np.ndarray]:
        """The joint mode of the parameters."""

    @abc.abstractmethod
    def exported(self, num_draws, key) -> Exported:
        """What ArviZ is given."""

    def at_mean(self, attributes, covariates):
        """The table at the mean."""
        return self._table_at(self.mean, attributes, covariates)

    def at_mode(self, attributes, covariates):
        """The table at the mode."""
        return self._table_at(self.mode, attributes, covariates)

    def _table_at(self, parameters, attributes, covariates):
        if self.conjugate is not None:
            return closed_table(self.conjugate.densities_at(parameters), attributes)
        return program_table(self.program, self.program.latents_of(parameters), attributes, covariates)
