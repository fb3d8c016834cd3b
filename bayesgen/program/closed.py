"""`ClosedProgram`: a program whose latents are all integrated out in closed form, given none or some others."""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special
from jax.scipy.special import logsumexp

from bayesgen.data import Rows
from bayesgen.describe import quote_some
from bayesgen.errors import FitError
from bayesgen.records import copied, record, static
from bayesgen.runtime import (
    CACHED_CELLS,
    OwnedJit,
    Traced,
    as_key,
    beyond_memory,
    generator,
    in_float64,
    over_chunks,
    padded_size,
)
from bayesgen.statistics import SufficientStatistics
from bayesgen.typing import Array, Float, Int, Seed

from .cross_products import likelihood_terms
from .density import FAST_TO_COMPILE, DensityAtSites, LogLikelihood, LogPriorKind, ProgramDensity
from .elimination import Elimination, LogDensityOfValues, Solution, StageDistribution
from .enumeration import Enumeration
from .evaluation import evaluate_classes
from .joint import log_joint_of
from .random_numbers import ByGenerator, FromKey
from .structure import Arrays, Program
from .tables import Tables

MOST_MISFIT = 1e-8  # relative, of a form that holds
MOST_SHIFT = 1e-6
PROOFS = 2  # values at which forms are compared with the density
DRAWS = 256  # that are made together
NUMPY_COST = 3e6  # multiplications of a density from which on it is compiled
ROWS, NUMPY_ROWS = 64, 50_000  # at once; times classes, from which on their integrals are compiled
NUMPY_CELLS = 1 << 20  # of a table of rows by classes and values, from which on it is compiled


@record
class ClosedProgram:
    """A program whose latents are integrated out by stages: its prior, or its posterior given data.

    Attributes:
        program: the bound program.
        elimination: the stages.
        terms: log-likelihoods of the data, if any.
        rest: the values of the other latents.
    """

    program: Program
    elimination: Elimination = static()
    terms: tuple[LogLikelihood, ...] = ()
    rest: dict[str, Array] = dataclasses.field(default_factory=dict)
    is_closed: ClassVar[bool] = True
    blocks: ClassVar[tuple[()]] = ()

    def families(self) -> tuple[()]:
        """None: see `Conjugate`, whose prior and posterior are families."""
        return ()

    def incomplete(self, statistics: SufficientStatistics) -> tuple[()]:
        """None: whether the posterior of rows that lack cells is closed, `solution` proves."""
        return ()

    @property
    def owner(self) -> Any:
        return self.program.owner

    @property
    def density(self) -> ProgramDensity:
        """The log density of the latents and of the data."""
        return ProgramDensity(self.program, self.terms, LogPriorKind.SITES)

    @in_float64
    def update(self, statistics: SufficientStatistics) -> "ClosedProgram":
        """The posterior given the data."""
        return copied(self, terms=likelihood_terms(self.program, statistics))

    @property
    def finite(self) -> Enumeration | None:
        """The last stage, where it enumerates discrete latents."""
        last = self.elimination.stages[-1] if self.elimination.stages else None
        return last if isinstance(last, Enumeration) else None

    @property
    def is_enumerated(self) -> bool:
        """Whether all latents are discrete, so that data of any form have a closed form."""
        return not self.program.structure.latents

    def given(self, values: Arrays) -> "ClosedProgram":
        """The program with values of the latents of the last stage."""
        return copied(self, elimination=Elimination(self.elimination.stages[:-1]), rest={**self.rest, **values})

    @functools.cached_property
    @in_float64
    def solution(self) -> Solution:
        """The distributions of the latents; given each joint value of discrete ones, (J, ...), where there are any.

        Raises:
            FitError: latents that do not have the form of their stage given these data, or an improper posterior; more
                numbers than half of the memory.
        """
        if self.finite is not None:
            _check_memory(self.program.structure.num_finite, self.elimination)
        solve, rng = _solution if self.density.cost > NUMPY_COST else _solution.by_numpy, np.random.default_rng(0)
        has_forms = len(self.elimination.stages) > (self.finite is not None)
        for _ in range(PROOFS if has_forms else 1):
            numbers = {name: rng.normal(size=shape) for name, shape in self.elimination.shapes.items()}
            solution = jax.tree.map(np.asarray, solve(self, numbers))
            if not np.any(np.isfinite(solution.log_integral)) and self.finite is not None:
                raise FitError(
                    f"These data are impossible at every value of {quote_some(self.finite.names)}: add a value that "
                    "makes them possible, or let rows be noisy."
                )
            if not np.all((solution.misfit <= MOST_MISFIT) & (solution.shift <= MOST_SHIFT)):
                raise FitError(
                    f"Given these data the posterior of the latents {quote_some(self.elimination.names)} has no closed "
                    "form: it is improper, or its form is another one than that for complete rows, as where cells are "
                    "missing. Use NUTS()."
                )
        return solution

    @functools.cached_property
    @in_float64
    def mode(self) -> dict[str, np.ndarray]:
        """The joint mode in the coordinates of the sites.

        Raises:
            FitError: a density that is unbounded, or has several maxima.
        """
        mode = _mode.by_numpy(self)
        for name, value in mode.items():
            if np.isnan(value).any():
                raise FitError(
                    f"There is no mode: the posterior density is unbounded, or has several maxima, at the latent "
                    f"{name!r}. Average instead (BMA), or plug in the posterior mean (PlugIn(at='mean'))."
                )
        return mode

    @in_float64
    def quantile(self, prob: float) -> dict[str, np.ndarray]:
        """Quantiles of entries; NaN without a closed form, as of latents whose distribution is given others."""
        last, others = self.solution.conditionals[:1], self.solution.conditionals[1:]
        quantiles = {name: value for conditional in last for name, value in conditional.quantile(prob).items()}
        inner = {name: np.nan * value for conditional in others for name, value in conditional.mean().items()}
        return {name: np.asarray(value) for name, value in (quantiles | inner).items()}

    @property
    def log_weights(self) -> Float[np.ndarray, " J"]:
        """Log posterior probability of each joint value of the discrete latents."""
        return self.solution.log_integral - scipy.special.logsumexp(self.solution.log_integral)

    @in_float64
    def sample(self, shape: tuple[int, int], seed: Seed) -> dict[str, np.ndarray]:
        """Independent draws of the latents."""
        rng, num_draws = generator(as_key(seed)), math.prod(shape)
        if self.finite is None:
            of_last = self.solution.conditionals[0].sample(ByGenerator(rng, num_draws))
        else:
            of_last = self.finite.at(rng.choice(len(self.log_weights), num_draws, p=np.exp(self.log_weights)))
        draws = {name: np.asarray(draw) for name, draw in of_last.items()}
        if len(self.elimination.stages) > 1:
            keys = np.asarray(jax.random.key_data(jax.random.split(jax.random.key(rng.integers(2**31)), num_draws)))
            given_last = functools.partial(_draws.by_numpy, self)
            draws = over_chunks(lambda part: given_last(*part), (draws, keys), num_draws, DRAWS, least=DRAWS)
        draws |= {name: np.broadcast_to(value, (num_draws, *np.shape(value))) for name, value in self.rest.items()}
        return {name: draws[name].reshape(*shape, *draws[name].shape[1:]) for name in self.program.latents}

    @in_float64
    def log_joint(self, rows: Rows) -> Float[np.ndarray, "n K"]:
        """log p(x_i, y = k | data) of rows, the latents integrated out."""
        unlabelled = dataclasses.replace(rows, labels=None, weights=None)
        log_integral, conditionals, possible = self.solution.log_integral, self.solution.conditionals, None
        is_table = not conditionals
        if self.finite is not None:  # values of weight zero make nothing possible
            possible = np.argsort(-log_integral)[: padded_size(np.isfinite(log_integral).sum().item())]
            log_integral, conditionals = jax.tree.map(lambda leaf: leaf[possible], (log_integral, conditionals))
        num_cases = self.program.num_classes * np.size(log_integral)
        size = padded_size(max(ROWS, CACHED_CELLS // num_cases)) if is_table else ROWS
        is_compiled = rows.num_rows * num_cases > (NUMPY_CELLS if is_table else NUMPY_ROWS)
        log_joint = _log_joint if is_compiled else _log_joint.by_numpy
        conditional = conditionals[0] if len(conditionals) == 1 else None
        function = functools.partial(log_joint, self, possible, log_integral, conditional)
        return over_chunks(function, unlabelled, rows.num_rows, size, least=ROWS)


def _check_memory(num_values: int, elimination: Elimination) -> None:
    """Refuse posteriors at so many values of discrete latents that take more than half of the memory."""
    numbers = sum(math.prod(shape) for shape in elimination.shapes.values()) ** 2
    refusal = beyond_memory(f"The posteriors at {num_values:,} values of discrete latents", 8.0 * num_values * numbers)
    if refusal:
        raise FitError(f"{refusal} Let these latents have fewer values, or sum some of them out in the program.")


@OwnedJit
def _solution(closed: ClosedProgram, numbers: Arrays) -> Solution:
    if closed.finite is not None:
        return closed.finite.over_values(lambda values: _solution(closed.given(values), numbers))
    return closed.elimination.solution(_log_density(closed), closed.rest, numbers)


@OwnedJit
def _draws(closed: ClosedProgram, of_last: Arrays, keys: Array) -> Arrays:
    """Draws of all latents, from those of the last stage."""
    log_density = _log_density(closed)

    def draw(of_last: Arrays, key: Array) -> Arrays:
        random = FromKey(jax.random.wrap_key_data(jnp.asarray(key)))
        return closed.elimination.sample(log_density, closed.rest, random, of_last)

    return jax.vmap(draw)(of_last, keys)


@OwnedJit
def _mode(closed: ClosedProgram) -> Arrays:
    return closed.elimination.mode(_log_density(closed), closed.rest)


@functools.partial(OwnedJit, compiler_options=FAST_TO_COMPILE)
def _log_joint(
    closed: ClosedProgram,
    possible: Int[Array, " J"] | None,
    log_integral: Float[Array, "*J"],
    conditional: StageDistribution | None,
    rows: Rows,
) -> Float[Array, "n K"]:
    """log p(x_i, y = k | data), from the log evidence and, if there is one stage, the distribution of its latents."""
    if closed.finite is None:
        return _log_joint_given(closed, rows, log_integral, conditional)

    def given(values: Arrays, *known: Any) -> Float[Array, "n K"]:
        return _log_joint_given(closed.given(values), rows, *known)

    log_weights = log_integral - logsumexp(log_integral)
    tables = closed.finite.over_values(given, log_integral, conditional, index=possible)
    return logsumexp(log_weights[:, None, None] + tables, axis=0)


def _log_joint_given(
    closed: ClosedProgram, rows: Rows, log_integral: Float[Array, ""], conditional: StageDistribution | None
) -> Float[Array, "n K"]:
    program, elimination, rest, stages = closed.program, closed.elimination, closed.rest, closed.elimination.stages
    if not stages:
        return log_joint_of(program, evaluate_classes(program, rest, rows.covariates), rows)
    log_density = _log_density(closed)

    def log_probs(row: Rows) -> Float[Array, " K"]:
        single = jax.tree.map(lambda leaf: leaf[None], row)
        by_class = _inline(
            closed,
            lambda values: log_joint_of(program, evaluate_classes(program, values, single.covariates), single)[0],
        )

        def log_mean(code: Array) -> Float[Array, ""]:
            if conditional is not None:  # it takes less time than the density of the data
                return stages[0].log_mean(lambda values: by_class(values)[code], conditional, rest)
            log_product = elimination.log_integral(lambda values: log_density(values) + by_class(values)[code], rest)
            return log_product - log_integral

        return jax.vmap(log_mean)(jnp.arange(program.num_classes))

    return jax.vmap(log_probs)(rows)


def _log_density(closed: ClosedProgram) -> LogDensityOfValues:
    if any(isinstance(stage, Tables) for stage in closed.elimination.stages[:1]):  # which take priors apart
        return DensityAtSites(closed.density)
    return _inline(closed, closed.density.at_sites)


def _inline(closed: ClosedProgram, function: Callable[[Arrays], Array]) -> Callable[[Arrays], Array]:
    """A function of all latents as one of those that are integrated out, without calls: its derivatives are traced."""
    types = dict.fromkeys([site.name for site in closed.program.structure.finite], int)
    values = {name: jax.ShapeDtypeStruct(jnp.shape(v), jnp.result_type(v)) for name, v in closed.rest.items()}
    values |= {
        name: jax.ShapeDtypeStruct(shape, jnp.result_type(types.get(name, float)))
        for name, shape in closed.elimination.shapes.items()
    }
    return Traced(jax.make_jaxpr(function)(values), 0).inline
