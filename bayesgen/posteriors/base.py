"""`Posterior`: what training gives, whatever the method, and what it can be asked for."""

import abc
import dataclasses
import math
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np

from bayesgen.data import Rows
from bayesgen.errors import PredictionError
from bayesgen.models import ClosedResponse, Conjugate, Densities
from bayesgen.predictives import PredictiveDistribution
from bayesgen.program import GenerativeProgram, program_table
from bayesgen.runtime import all_in_threads, even_chunks
from bayesgen.typing import Float, PRNGKeyArray

# Tables of log-joints in closed form, for models with conjugate blocks: NumPy only, chunked over rows.

CHUNK_CELLS = 1 << 20  # of rows x classes x columns: what threads do not wait for each other with


def closed_table(densities: Densities, rows: Rows) -> Float[np.ndarray, "n K"]:
    """log p(x_i, y = k): log class probabilities, and the log densities of the blocks given the class."""
    log_class_probs, _ = densities
    out = np.empty((rows.num_rows, len(log_class_probs)))

    def fill(part: slice) -> None:
        out[part] = chunk_table(densities, rows, part)

    all_in_threads(fill, even_chunks(rows.num_rows, CHUNK_CELLS / numbers_per_row(rows, len(log_class_probs))))
    return out


def numbers_per_row(rows: Rows, num_classes: int) -> float:
    """How many numbers are made of a row at once, of the site where they are most."""
    return float(max(_numbers_per_row(values, num_classes) for values in rows.values.values()))


def chunk_table(densities: Densities, rows: Rows, part: slice) -> Float[np.ndarray, "n K"]:
    """The table of some successive rows, made in this thread."""
    table, blocks = densities
    chunk = rows.take(part)
    precise = dataclasses.replace(chunk, values={name: _precise(values) for name, values in chunk.values.items()})
    with np.errstate(divide="ignore", over="ignore"):
        for name, density in blocks:
            table = table + density.log_prob_of(chunk if density.takes_codes else precise, name)
    return table


def _numbers_per_row(values: Any, num_classes: int) -> int | float:
    if hasattr(values, "tocsr"):  # no table of rows, classes and columns is made of them
        return num_classes + values.nnz / max(values.shape[0], 1)
    return num_classes * max(math.prod(values.shape[1:]), 1)


def _precise(values: Any) -> Any:
    """Values in double precision where they are dense."""
    return values if hasattr(values, "tocsr") else values.astype(np.float64, copy=False)


At = Literal["mean", "mode", "predictive"]
Parameters = dict[str, np.ndarray]
ARVIZ_NAMES = {"num_steps": "n_steps", "accept_prob": "acceptance_rate"}


def chains_joined(draws: Parameters) -> Parameters:
    """The draws of all chains, (chain, draw, ...), along one axis: chains one after another."""
    return {name: value.reshape(-1, *value.shape[2:]) for name, value in draws.items()}


@dataclasses.dataclass(frozen=True)
class Exported:
    """The parameters of a posterior as ArviZ takes them.

    Attributes:
        groups: group -> name -> array (chain, draw, ...).
        sampling: how the draws came about: "chains", "independent" or "none".
    """

    groups: dict[str, dict[str, Any]]
    sampling: str

    @classmethod
    def of_point(cls, values: Mapping[str, Any]) -> "Exported":
        """A point, as one draw."""
        point = {name: np.asarray(value)[None, None] for name, value in values.items()}
        return cls({"point_estimate": point}, "none")

    @classmethod
    def of_chains(cls, values: Mapping[str, Any], stats: Mapping[str, np.ndarray]) -> "Exported":
        """Chains, and what the sampler recorded under ArviZ's names."""
        renamed = {ARVIZ_NAMES.get(name, name): value for name, value in stats.items()}
        renamed["lp"] = -renamed.pop("potential_energy")  # the log density, up to a constant
        return cls({"posterior": dict(values), "sample_stats": renamed}, "chains")


class Posterior(abc.ABC):
    """What was learned of the processes that may have made the data.

    What it can do is said by `has_mode`, `has_predictive` and `has_draws`, to be asked before. A kind of posterior that
    lacks one of them says in `refusals` what a user is to do instead.

    Attributes:
        log_evidence: log p(X, y) of the training data; None where it is not known.
        sample_stats: name -> (chain, draw), what a sampler recorded; None where there was none.
    """

    log_evidence: float | None = None
    sample_stats: Mapping[str, np.ndarray] | None = None

    has_mode: ClassVar[bool] = True
    has_predictive: ClassVar[bool] = True
    has_draws: ClassVar[bool] = True
    refusals: ClassVar[Mapping[str, str]] = {}
    is_sampled: ClassVar[bool] = False
    """Whether it holds draws from Markov chains, and no others can be had."""

    @property
    def is_point(self) -> bool:
        """Whether it is one process only, so that there is nothing to average over."""
        return not (self.has_predictive or self.has_draws)

    @property
    def has_order(self) -> bool:
        """Whether all its draws have their classes, or components, in one order."""
        return True

    @property
    def described(self) -> str | None:
        """What there is to say of it in one line, for people; None where its parameters say all."""
        return None

    @property
    @abc.abstractmethod
    def parameters(self) -> Parameters:
        """name -> the point, the posterior mean, or draws (chain, draw, ...)."""

    def log_joint(self, rows: Rows, at: At = "mean") -> Float[np.ndarray, "n K"]:
        """log p(x_i, y = k) of rows as the model reads them, at a point or with the parameters integrated out.

        Raises:
            PredictionError: a mode or predictive that this kind of posterior does not have.
        """
        self.require(at)
        return self._log_joint(rows, at)

    def draws(self, num_draws: int, key: PRNGKeyArray) -> Parameters:
        """Draws of the latents, (chain, draw, ...): so many, or all there are where they come from chains.

        Raises:
            PredictionError: a posterior without draws.
        """
        self.require("draws")
        return self._draws(num_draws, key)

    def require(self, ability: At | Literal["draws"]) -> None:
        """Refuse what this posterior cannot do.

        Raises:
            PredictionError: saying what to do instead.
        """
        abilities = {"mode": self.has_mode, "predictive": self.has_predictive, "draws": self.has_draws}
        if not abilities.get(ability, True):
            raise PredictionError(self.refusals[ability])

    def densities(self, conjugate: Conjugate) -> list[Densities]:
        """Densities of rows by blocks, whose equal mixture is the predictive: one, or one for each of some draws.

        Args:
            conjugate: the model's blocks; their families say how parameters are read, whatever their prior.

        Raises:
            PredictionError: a posterior whose processes have no such blocks.
        """
        raise PredictionError("This fit has no density of rows by blocks of columns.")

    @abc.abstractmethod
    def _log_joint(self, rows: Rows, at: At) -> Float[np.ndarray, "n K"]: ...

    def _draws(self, num_draws: int, key: PRNGKeyArray) -> Parameters:
        raise NotImplementedError


class ProcessPosterior(Posterior):
    """What was learned of the parameters of one program, whose tables at a point are those of one process.

    Attributes:
        program: the bound program; None where closed forms have no need of it.
        conjugate: blocks that give the tables in closed form; None where the program has to be run.
    """

    program: GenerativeProgram | None
    conjugate: Conjugate | None

    @property
    @abc.abstractmethod
    def mean(self) -> Parameters:
        """The mean of each parameter."""

    @property
    def mode(self) -> Parameters:
        """The joint mode of the parameters, where there is one."""
        raise NotImplementedError

    @abc.abstractmethod
    def exported(self, num_draws: int, key: PRNGKeyArray) -> Exported:
        """What ArviZ is given."""

    def predictive_of_response(self, closed: ClosedResponse, rows: Rows, at: At) -> PredictiveDistribution | None:
        """p(y | x) of a response in closed form, at a point or with the parameters integrated out; None without one.

        Args:
            closed: the model's closed form.
            rows: rows that lack their response.
            at: as `log_joint` takes it.

        Raises:
            PredictionError: a mode or predictive that this kind of posterior does not have.
        """
        self.require(at)
        return self._predictive_of_response(closed, rows, at)

    def _predictive_of_response(self, closed: ClosedResponse, rows: Rows, at: At) -> PredictiveDistribution | None:
        return closed.at(self.mode if at == "mode" else self.mean, rows)

    def _log_joint(self, rows: Rows, at: At) -> Float[np.ndarray, "n K"]:
        parameters = self.mode if at == "mode" else self.mean
        if self.conjugate is not None:
            return closed_table(self.conjugate.densities_at(parameters), rows)
        assert self.program is not None
        return program_table(self.program, self.program.latents_of(parameters), rows)
