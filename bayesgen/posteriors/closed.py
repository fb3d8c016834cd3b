"""`ClosedPosterior`: the exact posterior of a program whose latents are integrated out, in closed form."""

import jax
import numpy as np

from bayesgen.data import Rows
from bayesgen.generative import GenerativeProgram
from bayesgen.program import Arrays, ClosedProgram
from bayesgen.records import by_content
from bayesgen.typing import Float, PRNGKeyArray

from .base import At, ParameterArrays, ParameterSummaries, ProcessPosterior, chains_joined, numbers_or_draws


@by_content
class ClosedPosterior(ProcessPosterior):
    """The exact posterior of the latents of a program, in closed form; where others are points, given these.

    Attributes:
        closed: the program, and its stages of latents.
    """

    closed: ClosedProgram
    conjugate = None

    @property
    def program(self) -> GenerativeProgram:  # type: ignore[override]
        program = self.closed.program
        assert isinstance(program, GenerativeProgram)
        return program

    @property
    def log_evidence(self) -> float | None:  # type: ignore[override]
        return None if self.closed.rest else float(self.closed.solution.log_integral)

    @property
    def parameters(self) -> ParameterArrays:
        """Posterior means."""
        return self.mean

    @property
    def mean(self) -> ParameterArrays:
        return self._in_order(self.closed.solution.mean)

    @property
    def mode(self) -> ParameterArrays:
        return self._in_order(self.closed.mode)

    def _in_order(self, values: Arrays) -> ParameterArrays:
        """The latents of the program, in its order."""
        values = {**self.closed.rest, **values}
        return self.program.parameters_of({name: np.asarray(values[name]) for name in self.program.latents})

    def _log_joint(self, rows: Rows, at: At) -> Float[np.ndarray, "n K"]:
        return self.closed.log_joint(rows) if at == "predictive" else super()._log_joint(rows, at)

    def is_compiled(self, at: At) -> bool:
        return at != "predictive"

    def _draws(self, num_draws: int, key: PRNGKeyArray) -> ParameterArrays:
        """Independent draws, as one chain."""
        return self.closed.sample((1, num_draws), key)

    def parameter_draws(self, num_draws: int, key: PRNGKeyArray) -> ParameterArrays:
        """Independent draws, as four chains."""
        return self.program.parameters_of(self.closed.sample((4, num_draws), key))

    def numbers(self, prob: float) -> ParameterSummaries:
        """In closed form; where a marginal has none, of 2,000 draws."""
        ends = {"lower": (1 - prob) / 2, "upper": (1 + prob) / 2}
        columns = {"mean": self.mean, "sd": self._in_order(self._deviations)}
        columns |= {end: self._in_order(self.closed.quantile(share)) for end, share in ends.items()}
        return numbers_or_draws(columns, lambda: chains_joined(self.parameter_draws(500, jax.random.key(0))), prob)

    @property
    def _deviations(self) -> Arrays:
        given = {name: 0.0 * np.asarray(value) for name, value in self.closed.rest.items()}
        return {**given, **{name: np.sqrt(variance) for name, variance in self.closed.solution.variance.items()}}
