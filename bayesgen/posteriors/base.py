"""`Posterior`, the result of training by any method, and `ProcessPosterior`, that of one program."""

import abc
import dataclasses
import functools
import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal, Self

import numpy as np

from bayesgen.data import Rows
from bayesgen.errors import PredictionError
from bayesgen.generative import GenerativeProgram
from bayesgen.program import ClosedAnswer, ClosedResponse, Conjugate, Densities, program_table
from bayesgen.runtime import THREAD_CELLS, all_in_threads, even_chunks
from bayesgen.typing import Array, Float, PRNGKeyArray


def closed_table(densities: Densities, rows: Rows) -> Float[np.ndarray, "n K"]:
    """log p(x_i, y = k) in closed form: log class probabilities plus log densities of the blocks. NumPy alone."""
    log_class_probs, _ = densities
    out = np.empty((len(log_class_probs), rows.num_rows)).T  # class by class, as `normalize` reads and writes it

    def fill(part: slice) -> None:
        out[part] = chunk_table(densities, rows, part)

    all_in_threads(fill, even_chunks(rows.num_rows, THREAD_CELLS / numbers_per_row(rows, len(log_class_probs))))
    return out


def numbers_per_row(rows: Rows, num_classes: int) -> float:
    """Classes x cells of a row, of the largest site; sparse cells need no table of rows x classes x columns."""
    return max(
        num_classes + values.nnz / max(rows.num_rows, 1)
        if hasattr(values, "tocsr")
        else float(num_classes * max(math.prod(values.shape[1:]), 1))
        for values in rows.values.values()
    )


def chunk_table(densities: Densities, rows: Rows, part: slice | None = None) -> Float[Array, "n K"]:
    """The table of some successive rows, or of all, made in this thread."""
    table, chunk = densities[0], rows if part is None else rows.take(part)
    doubles = {name: v if hasattr(v, "tocsr") else v.astype(np.float64, copy=False) for name, v in chunk.values.items()}
    precise = dataclasses.replace(chunk, values=doubles)
    with np.errstate(divide="ignore", over="ignore"):
        for name, density in densities[1]:
            table = table + density.log_prob_of(chunk if density.keeps_integers else precise, name)
    return table


At = Literal["mean", "mode", "predictive"]
Ability = At | Literal["draws"]
ParameterArrays = dict[str, np.ndarray]

ParameterSummaries = dict[str, ParameterArrays]
"""Column of a table ("mean", "sd", "lower", "upper", "r_hat", "ess_bulk", ...) -> parameter -> array."""


def chains_joined(draws: ParameterArrays) -> ParameterArrays:
    """The draws of all chains, (chain, draw, ...), along one axis: chains one after another."""
    return {name: value.reshape(-1, *value.shape[2:]) for name, value in draws.items()}


def numbers_of_draws(draws: Mapping[str, np.ndarray], prob: float) -> ParameterSummaries:
    """Mean, standard deviation and central interval of draws along the first axis."""
    ends = {"lower": (1 - prob) / 2, "upper": (1 + prob) / 2}
    numbers = {"mean": {k: v.mean(0) for k, v in draws.items()}, "sd": {k: v.std(0, ddof=1) for k, v in draws.items()}}
    return numbers | {end: {k: np.quantile(v, share, 0) for k, v in draws.items()} for end, share in ends.items()}


def numbers_or_draws(
    columns: ParameterSummaries, draws: Callable[[], Mapping[str, np.ndarray]], prob: float
) -> ParameterSummaries:
    """Summaries in closed form; where they have no number or are not finite, by independent draws."""
    names = columns["mean"]
    if all(np.isfinite(column.get(name, np.nan)).all() for column in columns.values() for name in names):
        return columns
    sampled, filled = numbers_of_draws(draws(), prob), ParameterSummaries()
    for label, column in columns.items():
        values = {name: column.get(name, np.nan) for name in names}
        filled[label] = {k: np.where(np.isnan(v), sampled[label][k], v) for k, v in values.items()}
    return filled


class Posterior(abc.ABC):
    """The posterior over processes given training data.

    Attributes:
        log_evidence: log p(X, y) of the training data; None where it is not known.
        sample_stats: name -> (chain, draw), the sampler's statistics; None without a sampler.
        is_point: whether it is a point estimate.
        is_identified: whether all draws have their classes, or components, in one order.
        described: a summary in one line; None where the parameters say all.
    """

    log_evidence: float | None = None
    sample_stats: Mapping[str, np.ndarray] | None = None
    is_point: ClassVar[bool] = False
    is_identified: ClassVar[bool] = True
    described: ClassVar[str | None] = None

    @property
    def refusals(self) -> Mapping[str, str]:
        """The abilities that it lacks, and the remedy for each."""
        return {}

    @property
    def is_sampled(self) -> bool:
        """Whether it holds draws from Markov chains, and can make no others."""
        return self.sample_stats is not None

    @property
    @abc.abstractmethod
    def parameters(self) -> ParameterArrays:
        """name -> the point, the posterior mean, or draws (chain, draw, ...)."""

    def log_joint(self, rows: Rows, at: At = "mean") -> Float[np.ndarray, "n K"]:
        """log p(x_i, y = k) of rows, at a point or with the parameters integrated out.

        Raises:
            PredictionError: a mode or predictive that this kind of posterior lacks.
        """
        self.require(at)
        return self._log_joint(rows, at)

    def draws(self, num_draws: int, key: PRNGKeyArray) -> ParameterArrays:
        """Draws of the latents, (chain, draw, ...): `num_draws`, or all draws of Markov chains.

        Raises:
            PredictionError: a posterior without draws.
        """
        self.require("draws")
        return self._draws(num_draws, key)

    def can(self, ability: Ability) -> bool:
        """Whether it has this ability; every posterior has a point, "mean"."""
        return ability not in self.refusals

    def require(self, ability: Ability) -> None:
        """Refuse an ability that this posterior lacks.

        Raises:
            PredictionError: with the remedy.
        """
        if not self.can(ability):
            raise PredictionError(self.refusals[ability])

    def is_compiled(self, at: At) -> bool:
        """Whether `log_joint` of few rows is compiled for their number, where the model has no blocks of columns."""
        return True

    def densities(self, conjugate: Conjugate) -> list[Densities]:
        """Densities of rows by blocks, one or several, whose mixture with equal weights is the predictive.

        Args:
            conjugate: the model's blocks, whose families make densities of parameters.

        Raises:
            PredictionError: a posterior whose processes have no such blocks.
        """
        raise PredictionError("This fit has no density of rows by blocks of columns.")

    @abc.abstractmethod
    def _log_joint(self, rows: Rows, at: At) -> Float[np.ndarray, "n K"]: ...

    def _draws(self, num_draws: int, key: PRNGKeyArray) -> ParameterArrays:
        raise NotImplementedError


class ProcessPosterior(Posterior):
    """The posterior over the parameters of one program.

    Attributes:
        program: the bound program; None where closed forms do not need it.
        conjugate: blocks with closed forms; None where the program has to be run.
        is_weighted: whether parameters are values of discrete latents, with a weight for each.
    """

    is_weighted: ClassVar[bool] = False

    program: GenerativeProgram | None
    conjugate: Conjugate | None

    @property
    @abc.abstractmethod
    def mean(self) -> ParameterArrays:
        """The mean of each parameter."""

    @property
    def mode(self) -> ParameterArrays:
        """The joint mode of the parameters, if it has one."""
        raise NotImplementedError

    @abc.abstractmethod
    def parameter_draws(self, num_draws: int, key: PRNGKeyArray) -> ParameterArrays:
        """Draws of the parameters, (chain, draw, ...): 4 x `num_draws`, or all of Markov chains; of a point one."""

    def with_values(self, values: ParameterArrays) -> Self:
        """The posterior with further parameters, (chain, draw, ...), as `parameter_draws` gives them."""
        raise NotImplementedError

    @abc.abstractmethod
    def numbers(self, prob: float) -> ParameterSummaries:
        """Each parameter in numbers, with central intervals of this probability; of a point its value."""

    def predictive_of_response(self, closed: ClosedResponse, rows: Rows, at: At) -> ClosedAnswer | None:
        """p(y | x) of a response in closed form, or None; at a point or with the parameters integrated out.

        Args:
            closed: the model's closed form.
            rows: rows without their response.
            at: as `log_joint` takes it.

        Raises:
            PredictionError: a mode or predictive that this kind of posterior does not have.
        """
        self.require(at)
        return closed.at(self.mode if at == "mode" else self.mean, rows)

    def densities_at(self, at: At) -> Densities:
        """The densities of rows by blocks at a point, or with the parameters integrated out. Traceable."""
        assert self.conjugate is not None
        return self.conjugate.densities_at(self.mode) if at == "mode" else self._densities_at_mean

    def __getstate__(self) -> dict[str, Any]:
        """Densities are made again: they hold functions, which are not pickled."""
        return {name: value for name, value in vars(self).items() if name != "_densities_at_mean"}

    @functools.cached_property
    def _densities_at_mean(self) -> Densities:
        assert self.conjugate is not None
        return self.conjugate.densities_at(self.mean)

    def _log_joint(self, rows: Rows, at: At) -> Float[np.ndarray, "n K"]:
        if self.conjugate is not None:
            return closed_table(self.densities_at(at), rows)
        parameters = self.mode if at == "mode" else self.mean
        assert self.program is not None
        return program_table(self.program.for_prediction, self.program.latents_of(parameters), rows)
