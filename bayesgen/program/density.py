"""`ProgramDensity`: log densities of a program's latents given data, of which all training methods are made."""

import abc
import dataclasses
import enum
import functools
import math
from collections.abc import Sequence
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax.scipy.special import logsumexp

from bayesgen.data import Rows
from bayesgen.log_density import LogDensity
from bayesgen.records import copied, record, static
from bayesgen.runtime import CACHED_CELLS, FAST_TO_COMPILE, LEAST_ROWS, LOG_OF_ZERO, OwnedJit, simplified
from bayesgen.statistics import SufficientStatistics
from bayesgen.typing import Array, Float, Int

from .elimination import EMPTY
from .enumeration import Enumeration, WeightedValues
from .evaluation import Evaluation, base_of, evaluate, evaluate_classes, unconstrain
from .joint import log_class_probs, log_joint_of
from .marginal import class_table
from .structure import Arrays, Program, by_name


class LogLikelihood(abc.ABC):
    """A log-likelihood of data, one term of a `ProgramDensity`."""

    @property
    @abc.abstractmethod
    def covariates(self) -> Arrays:
        """Covariates of some rows."""

    @abc.abstractmethod
    def log_prob(self, program: Program, evaluation: Evaluation) -> Float[Array, ""]:
        """The log-likelihood at an evaluated program (run at the K classes)."""

    @abc.abstractmethod
    def cost(self, program: Program) -> float:
        """Rough number of multiplications of one evaluation."""

    @property
    def row_sets(self) -> tuple[Rows, ...]:
        """The rows that are looked at one by one: at sites without sufficient statistics, or without a label."""
        return ()

    def has_symmetries(self, program: Program) -> bool:
        """Whether classes or hidden states may be swapped."""
        return False


@record
class StatisticsTerm(LogLikelihood):
    """Log-likelihood of the attributes and labels of rows, by their statistics.

    Missing labels are marginalised.

    Attributes:
        statistics: the data.
        hard: whether rows without labels count by their most probable class alone.
        sign: -1 where it is subtracted.
        excluded_sites: sites without statistics that other terms stand for, in rows with labels.
    """

    statistics: SufficientStatistics
    hard: bool = static(default=False)
    sign: int = static(default=1)
    excluded_sites: tuple[str, ...] = static(default=())

    @property
    def covariates(self) -> Arrays:
        return self.statistics.covariates

    def log_prob(self, program: Program, evaluation: Evaluation) -> Float[Array, ""]:
        weights, rows = self.statistics.class_weights, self.statistics.unlabelled
        total = jnp.where(weights > 0, weights * log_class_probs(program, evaluation), 0.0).sum()
        for name, _ in program.plan.compressed:
            part = evaluation.compressed(name).log_likelihood(self.statistics.summaries[name])
            scale = evaluation.scale(name)
            total += part if scale is None else scale * part
        if self.statistics.rows is not None:
            total += _labelled_log_prob(program, evaluation.latents, self.statistics.rows, self.excluded_sites)
        if rows is not None:
            table = log_joint_of(program, evaluation, rows)
            total += _weighted_sum(rows, table.max(1) if self.hard else logsumexp(table, axis=1))
        return self.sign * total

    def cost(self, program: Program) -> float:
        """One multiplication for each number of the data, times K for rows."""
        cells, rows = map(_numbers, (self.statistics.summaries, (self.statistics.rows, self.statistics.unlabelled)))
        return float(cells + program.num_cases * rows)

    @property
    def row_sets(self) -> tuple[Rows, ...]:
        return tuple(rows for rows in (self.statistics.rows, self.statistics.unlabelled) if rows is not None)

    def has_symmetries(self, program: Program) -> bool:
        """Whether classes may be swapped, because no row has a label, or the hidden states of a site."""
        if program.hides_states:
            return True
        return self.statistics.unlabelled is not None and not np.any(self.statistics.class_weights)


def _numbers(data: Any) -> int:
    return sum(np.size(leaf) for leaf in jax.tree.leaves(data))


def _labelled_log_prob(
    program: Program, latents: Arrays, rows: Rows, excluded_sites: tuple[str, ...]
) -> Float[Array, ""]:
    """Log-likelihood of the sites without statistics, but for those excluded, in rows with labels."""
    names, label_log_probs = tuple(name for name in program.plan.rowwise if name not in excluded_sites), jnp.zeros(())
    if program.label in names and not program.local:  # of the labels alone, in one run for all rows
        names = tuple(name for name in names if name != program.label)
        evaluation = evaluate(program, latents, rows.codes, rows.values, rows.covariates, observed=rows.observed)
        label_log_probs = jnp.asarray(evaluation.label_log_probs)
    if not names:
        return _weighted_sum(rows, label_log_probs)
    attribute_table = class_table(program, latents, rows, names)
    return _weighted_sum(
        rows, label_log_probs + jnp.take_along_axis(attribute_table, rows.codes[:, None], axis=1)[:, 0]
    )


def _weighted_sum(rows: Rows, row_values: Float[Array, " n"]) -> Float[Array, ""]:
    """The sum over rows with their weights; rows of weight zero count for nothing, be they infinite."""
    weights = rows.frequencies
    return jnp.where(weights > 0, weights * row_values, 0.0).sum()


@record
class RowsTerm(LogLikelihood):
    """Log-likelihood of the attributes of rows, labels marginalised, or of the labels given the attributes.

    log p(y | x, Q) is computed as -log(1 + sum over the other classes k of p(x, k | Q) / p(x, y | Q)), which keeps the
    digits of the value and its gradient where p(y | x, Q) is near 1.

    Attributes:
        rows: the rows with weights, padded by rows of weight zero.
        given_attributes: whether it is that of the labels, which all rows have, given the attributes.
    """

    rows: Rows
    given_attributes: bool = static(default=False)

    @property
    def covariates(self) -> Arrays:
        return self.rows.covariates

    def log_prob(self, program: Program, evaluation: Evaluation) -> Float[Array, ""]:
        """The sum over rows, chunk by chunk; the backward pass computes each chunk again."""
        rows = self.rows
        cells = (math.prod(np.shape(values)[1:]) for values in rows.values.values())
        numbers_per_row = program.num_cases * max(cells, default=1)
        most = 1 << max(CACHED_CELLS // max(numbers_per_row, 1), 1).bit_length() - 1
        size = math.gcd(rows.num_rows, most) if rows.num_rows > most else rows.num_rows
        chunks = jax.tree.map(lambda leaf: jnp.reshape(leaf, (-1, size, *jnp.shape(leaf)[1:])), rows)

        @jax.checkpoint
        def add(total: Float[Array, ""], chunk: Rows) -> tuple[Float[Array, ""], None]:
            return total + _weighted_sum(chunk, self._by_row(program, evaluation, chunk)), None

        return jax.lax.scan(add, jnp.zeros(()), chunks)[0]

    def _by_row(self, program: Program, evaluation: Evaluation, rows: Rows) -> Float[Array, " n"]:
        if not self.given_attributes:
            return logsumexp(log_joint_of(program, evaluation, rows), axis=1)
        log_odds = _against_labels(program, evaluation, rows)
        is_out = (rows.codes[:, None] == jnp.arange(program.num_classes)) | jnp.isneginf(log_odds)
        return -jax.nn.softplus(logsumexp(jnp.where(is_out, LOG_OF_ZERO, log_odds), axis=1))

    @property
    def row_sets(self) -> tuple[Rows, ...]:
        return (self.rows,)

    def cost(self, program: Program) -> float:
        """One multiplication for each cell and class."""
        return float(program.num_cases * _numbers(self.rows))


class LogPriorKind(enum.Enum):
    """The log prior density that is added to log-likelihoods."""

    NONE = enum.auto()
    SITES = enum.auto()
    """Of the unconstrained latents, Jacobian included: what NUTS samples from."""
    PARAMETERS = enum.auto()
    """Of the parameters (covariances, not Cholesky factors): its maximum is the joint mode that MAP reports."""


@record
class ProgramDensity(LogDensity):
    """A log density of a program's latents. The vector holds their unconstrained values, site after site.

    Discrete latents are summed out, unless they are given.

    Attributes:
        program: the bound program.
        terms: log-likelihoods of data.
        prior: the log prior density that is added to their sum.
        given: discrete latent -> its value, of all of them or of none.
    """

    program: Program
    terms: tuple[LogLikelihood, ...]
    prior: LogPriorKind = static(default=LogPriorKind.NONE)
    given: dict[str, Array] = dataclasses.field(default_factory=dict)

    def __call__(self, vector: Float[Array, " D"]) -> Float[Array, ""]:
        """The sum of the terms and the log prior density."""
        return _log_density(self, vector)

    def by_numpy(self, vector: Float[np.ndarray, " D"]) -> float:
        """The log density at one of a few vectors, for which nothing is compiled. Inside float64."""
        return float(_log_density.by_numpy(self, vector))

    def at_sites(
        self, latents: Arrays, unconstrained: Sequence[str] = (), without_priors: Sequence[str] = ()
    ) -> Float[Array, ""]:
        """The log density at values of the sites, some of them unconstrained, without the priors of some. Traceable.

        Log-Jacobians are of the unconstrained values alone.
        """
        return _log_density_at_sites(
            self, latents, unconstrained=tuple(unconstrained), without_priors=tuple(without_priors)
        )

    @property
    def enumeration(self) -> Enumeration:
        """What sums the discrete latents out."""
        return Enumeration(self.program.structure.finite, self._cost_at_value)

    def with_terms(self, *terms: LogLikelihood) -> Self:
        """The same density of other data."""
        return copied(self, terms=terms)

    @property
    def dimension(self) -> int:
        return sum(math.prod(shape) for _, shape in self.program.structure.latents)

    def constrain(self, vector: Float[Array, " D"]) -> dict[str, Array]:
        """Latents and deterministic sites by name."""
        evaluate = _constrain if isinstance(vector, jax.core.Tracer) else _constrain.by_numpy
        return evaluate(self.program, vector, self.given)

    def name_of(self, index: int) -> str:
        """The latent site of a coordinate."""
        return next(name for name, positions in self.positions.items() if index in positions)

    @property
    def positions(self) -> dict[str, Int[np.ndarray, "..."]]:
        """Latent -> the coordinates of its entries."""
        positions = by_name(self.program.structure.latents, np.arange(self.dimension))
        return {name: np.asarray(entries) for name, entries in positions.items()}

    def why_not_finite(self, vector: Float[Array, " D"]) -> str:
        """The first latent whose prior is not finite, or the first row and site, with the value of each."""
        log_priors, latents = _log_priors.by_numpy(self.program, np.asarray(vector), self.given)
        for name, log_prior in log_priors.items():
            if not np.isfinite(log_prior):
                value = np.array2string(np.asarray(latents.get(name, np.nan)), precision=4, threshold=8)
                return f"latent {name!r} has the log density {float(log_prior):g} at {value}"
        row_sets = [] if self.program.local else [rows for term in self.terms for rows in term.row_sets]
        return next(filter(None, (_first_not_finite(self, vector, rows) for rows in row_sets)), "")

    @property
    def blocks(self) -> tuple[Int[np.ndarray, "_ _"], ...]:
        """One block a class, of the entries of sites whose first axis is the class; other entries are blocks of one."""
        num_classes, positions = self.program.num_classes, self.positions.values()
        by_class = [p.reshape(num_classes, -1) for p in positions if p.shape[:1] == (num_classes,) and num_classes > 1]
        other_entries = [p.ravel() for p in positions if p.shape[:1] != (num_classes,) or num_classes < 2]
        classes = (np.concatenate(by_class, axis=1),) if by_class else ()
        return (*classes, np.concatenate(other_entries)[:, None]) if other_entries else classes

    @property
    def cost(self) -> float:
        return self._cost_at_value * (1 if self.given else self.program.structure.num_finite)

    @property
    def _cost_at_value(self) -> float:
        return sum(term.cost(self.program) for term in self.terms)

    @property
    def loops_over_rows(self) -> bool:
        return any(term.row_sets for term in self.terms)

    @property
    def has_symmetries(self) -> bool:
        return any(term.has_symmetries(self.program) for term in self.terms)

    @property
    def owner(self) -> Any:
        return self.program.owner


@dataclasses.dataclass(frozen=True)
class DensityAtSites:
    """The log density of a program at values of its sites, and the priors that are a part of it.

    Attributes:
        density: the log density.
        unconstrained: latents that are given by unconstrained values.
    """

    density: ProgramDensity
    unconstrained: tuple[str, ...] = ()

    def __call__(self, values: Arrays, without_priors: Sequence[str] = ()) -> Float[Array, ""]:
        return self.density.at_sites(values, self.unconstrained, without_priors)

    def priors(self, values: Arrays) -> dict[str, dist.Distribution]:
        """Latent -> its prior given others, of those whose prior counts as it is."""
        sites = _evaluated_at_sites(self.density, values, self.unconstrained).latent_sites
        priors = {name: base_of(message["fn"]) for name, message in sites.items() if message["scale"] is None}
        return {} if self.density.prior is LogPriorKind.NONE else priors


def _first_not_finite(density: ProgramDensity, vector: Float[Array, " D"], rows: Rows) -> str:
    """The first site and row whose log probability, or its slope by a latent, is not finite; empty if there is none."""
    weights = np.asarray(rows.frequencies)
    for index, direction in enumerate(np.eye(len(vector))):
        log_probs, slopes = _slopes_by_row(density.program, np.asarray(vector), direction, rows)
        for name, by_row in log_probs.items():
            broken = np.flatnonzero((weights > 0) & ~(np.isfinite(by_row) & np.isfinite(slopes[name])))
            if len(broken):
                row = int(broken[0])
                value = np.asarray(rows.values[name])[row].tolist() if name in rows.values else int(rows.codes[row])
                shown = f"{name!r} is {value} in row {row}, with the log probability {float(by_row[row]):g}"
                by_latent = f", whose slope by {density.name_of(index)!r} is not finite"
                return shown + (by_latent if np.isfinite(by_row[row]) else "")
    return ""


@OwnedJit
def _log_priors(program: Program, vector: Float[Array, " D"], given: Arrays) -> tuple[Arrays, Arrays]:
    evaluation = _at(program, vector, {}, given)
    return evaluation.log_priors, evaluation.latents


@functools.partial(OwnedJit, compiler_options=FAST_TO_COMPILE)
def _slopes_by_row(
    program: Program, vector: Float[Array, " D"], direction: Float[Array, " D"], rows: Rows
) -> tuple[dict[str, Float[Array, " n"]], dict[str, Float[Array, " n"]]]:
    """Log probabilities of rows by site without statistic, and their derivatives along a direction."""

    def by_site(vector: Float[Array, " D"]) -> dict[str, Float[Array, " n"]]:
        free, at_rows = program.continuous_latents, (jnp.maximum(rows.codes, 0), rows.values, rows.covariates)
        latents = _with_values(program, vector, {})
        evaluation = evaluate(program, latents, *at_rows, unconstrained=free, observed=rows.observed)
        return evaluation.row_log_probs(program.plan.rowwise)

    return jax.jvp(by_site, (vector,), (direction,))


@OwnedJit  # so that solvers, which call it several times, trace it once
@simplified
def _log_density(density: ProgramDensity, vector: Float[Array, " D"]) -> Float[Array, ""]:
    program, free = density.program, {**by_name(density.program.structure.latents, vector), **density.given}
    names = program.continuous_latents
    if density.given or not program.structure.finite:
        return density.at_sites(free, names)
    return density.enumeration.conditional(lambda values: density.at_sites(values, names), free).log_integral


def _evaluated_at_sites(density: ProgramDensity, latents: Arrays, unconstrained: Sequence[str]) -> Evaluation:
    covariates = density.terms[0].covariates if density.terms else {}
    return evaluate_classes(density.program, latents, covariates, unconstrained=unconstrained)


@functools.partial(OwnedJit, static_argnames=("unconstrained", "without_priors"))
def _log_density_at_sites(
    density: ProgramDensity, latents: Arrays, *, unconstrained: Sequence[str], without_priors: Sequence[str]
) -> Float[Array, ""]:
    program, evaluation = density.program, _evaluated_at_sites(density, latents, unconstrained)
    total = sum((term.log_prob(program, evaluation) for term in density.terms), start=jnp.zeros(()))
    log_priors = [log_prior for name, log_prior in evaluation.log_priors.items() if name not in without_priors]
    log_prior = sum(log_priors, start=jnp.zeros(()))
    if density.prior is LogPriorKind.SITES:
        return total + log_prior + evaluation.log_jacobian
    if density.prior is LogPriorKind.PARAMETERS:
        free = {name: evaluation.latents[name] for name in unconstrained}
        log_prior -= program.log_coordinate_jacobian(free)
        # nearer to a pole the prior of a program of one's own is unbounded, and its likelihood, computed from values,
        # constant
        return total + jnp.where(evaluation.at_pole, -jnp.inf, log_prior)
    return total


@OwnedJit
def weighted_values(density: ProgramDensity) -> WeightedValues:
    """The distribution of the discrete latents of a program that has no others."""
    return density.enumeration.conditional(density.at_sites, {})


def _at(program: Program, vector: Float[Array, " D"], covariates: Arrays, given: Arrays = EMPTY) -> Evaluation:
    """The program run at its classes, at an unconstrained vector."""
    latents = _with_values(program, vector, given)
    return evaluate_classes(program, latents, covariates, unconstrained=program.continuous_latents)


def _with_values(program: Program, vector: Float[Array, " D"], given: Arrays) -> dict[str, Array]:
    """Unconstrained latents by name, and discrete ones, at their first value where none are given."""
    first = {name: values[0] for name, values in program.structure.finite_values.items()}
    return {**first, **given, **by_name(program.structure.latents, vector)}


@OwnedJit
@simplified
def _constrain(program: Program, vector: Float[Array, " D"], given: Arrays) -> dict[str, Array]:
    evaluation, excluded = _at(program, vector, {}, given), program.row_statistics
    deterministics = {n: v for n, v in evaluation.deterministics.items() if n not in excluded}
    return deterministics | {n: evaluation.latents[n] for n in (*program.continuous_latents, *given)}


def free_vector(program: Program, latents: dict[str, Array]) -> Float[np.ndarray, " D"]:
    """The unconstrained vector of latents. Inside float64."""
    free = _unconstrain.by_numpy(program, latents)
    return np.concatenate([np.ravel(free[name]) for name in program.continuous_latents])


_unconstrain = OwnedJit(unconstrain)


@OwnedJit
def log_density_of_sites(
    program: Program, latents: Arrays, statistics: SufficientStatistics | None = None
) -> Float[Array, ""]:
    """Log joint density of constrained latents and of data, if any, in the coordinates of the program's sites."""
    terms = () if statistics is None else (StatisticsTerm(statistics),)
    return ProgramDensity(program, terms, LogPriorKind.SITES).at_sites(latents)


@functools.partial(OwnedJit, compiler_options=FAST_TO_COMPILE)
def slopes_of_log_odds(program: Program, vector: Float[Array, " D"], rows: Rows) -> Float[Array, "n K D"]:
    """Jacobian of log p(x, k) - log p(x, y) for each row and class k; zero for the label y.

    Along directions in its null space p(y | x) does not change.
    """

    def row_jacobian(row: Rows) -> Float[Array, "K D"]:
        one_row = jax.tree.map(lambda leaf: leaf[None], row)
        return jax.jacrev(lambda point: _log_odds(program, point, one_row)[0])(vector)

    return jax.lax.map(row_jacobian, rows, batch_size=LEAST_ROWS)


@functools.partial(OwnedJit, compiler_options=FAST_TO_COMPILE)
def slope_along(
    program: Program, vector: Float[Array, " D"], direction: Float[Array, " D"], rows: Rows
) -> Float[Array, "n K"]:
    """The directional derivatives of log p(x, k) - log p(x, y) along one direction."""
    return jax.jvp(lambda point: _log_odds(program, point, rows), (vector,), (direction,))[1]


def _log_odds(program: Program, vector: Float[Array, " D"], rows: Rows) -> Float[Array, "n K"]:
    return _against_labels(program, _at(program, vector, rows.covariates), rows)


def _against_labels(program: Program, evaluation: Evaluation, rows: Rows) -> Float[Array, "n K"]:
    """log p(x, k) - log p(x, y) of rows with label y."""
    table = log_joint_of(program, evaluation, rows)
    return table - jnp.take_along_axis(table, rows.codes[:, None], axis=1)
