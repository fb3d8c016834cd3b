"""`ClosedProgram`: a program whose latents are all integrated out in closed form, given none or some others."""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from bayesgen.data import Rows
from bayesgen.describe import quote_some
from bayesgen.errors import FitError
from bayesgen.records import copied, record, static
from bayesgen.runtime import OwnedJit, Traced, as_key, generator, in_float64, over_chunks
from bayesgen.statistics import SufficientStatistics
from bayesgen.typing import Array, Float, Seed

from .cross_products import likelihood_terms
from .density import FAST_TO_COMPILE, LogLikelihood, LogPriorKind, ProgramDensity
from .elimination import Conditional, Elimination, LogDensityOfValues, Solution, Values
from .evaluation import evaluate_classes
from .joint import log_joint_of
from .random_numbers import ByGenerator, FromKey
from .structure import Arrays, Program

MOST_MISFIT, MOST_SHIFT = 1e-8, 1e-6
PROOFS = 2  # values at which forms are compared with the density
DRAWS = 256  # that are made together
NUMPY_COST = 3e6  # multiplications of a density from which on it is compiled
ROWS, NUMPY_ROWS = 64, 50_000  # at once; times classes, from which on their integrals are compiled


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

    @functools.cached_property
    @in_float64
    def solution(self) -> Solution:
        """The distributions of the latents.

        Raises:
            FitError: latents that do not have the form of their stage given these data, or an improper posterior.
        """
        solve, rng = _solution if self.density.cost > NUMPY_COST else _solution.by_numpy, np.random.default_rng(0)
        for _ in range(PROOFS):
            numbers = {name: rng.normal(size=shape) for name, shape in self.elimination.shapes.items()}
            solution = jax.tree.map(np.asarray, solve(self, numbers))
            if not (solution.misfit <= MOST_MISFIT and solution.shift <= MOST_SHIFT):
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
        last, *others = self.solution.conditionals
        quantiles = {name: np.asarray(value) for name, value in last.quantile(prob).items()}
        inner = {name: np.nan * value for conditional in others for name, value in conditional.mean().items()}
        return quantiles | {name: np.asarray(value) for name, value in inner.items()}

    @in_float64
    def sample(self, shape: tuple[int, int], seed: Seed) -> dict[str, np.ndarray]:
        """Independent draws of the latents."""
        rng, num_draws = generator(as_key(seed)), math.prod(shape)
        last, *inner = self.solution.conditionals
        draws = {name: np.asarray(draw) for name, draw in last.sample(ByGenerator(rng, num_draws)).items()}
        if inner:
            keys = np.asarray(jax.random.key_data(jax.random.split(jax.random.key(rng.integers(2**31)), num_draws)))
            given_last = functools.partial(_draws.by_numpy, self)
            draws = over_chunks(lambda part: given_last(*part), (draws, keys), num_draws, DRAWS, least=DRAWS)
        draws |= {name: np.broadcast_to(value, (num_draws, *np.shape(value))) for name, value in self.rest.items()}
        return {name: draws[name].reshape(*shape, *draws[name].shape[1:]) for name in self.program.latents}

    @in_float64
    def log_joint(self, rows: Rows) -> Float[np.ndarray, "n K"]:
        """log p(x_i, y = k | data) of rows, the latents integrated out."""
        unlabelled = dataclasses.replace(rows, labels=None, weights=None)
        are_many = rows.num_rows * self.program.num_classes > NUMPY_ROWS
        solution = self.solution
        known = solution.log_integral, (None if len(solution.conditionals) > 1 else solution.conditionals[0])
        function = functools.partial(_log_joint if are_many else _log_joint.by_numpy, self, *known)
        return over_chunks(function, unlabelled, rows.num_rows, ROWS, least=ROWS)


@OwnedJit
def _solution(closed: ClosedProgram, numbers: Values) -> Solution:
    return closed.elimination.solution(_log_density(closed), closed.rest, numbers)


@OwnedJit
def _draws(closed: ClosedProgram, of_last: Values, keys: Array) -> Values:
    """Draws of all latents, from those of the last stage."""
    log_density = _log_density(closed)

    def draw(of_last: Values, key: Array) -> Values:
        random = FromKey(jax.random.wrap_key_data(jnp.asarray(key)))
        return closed.elimination.sample(log_density, closed.rest, random, of_last)

    return jax.vmap(draw)(of_last, keys)


@OwnedJit
def _mode(closed: ClosedProgram) -> Values:
    return closed.elimination.mode(_log_density(closed), closed.rest)


@functools.partial(OwnedJit, compiler_options=FAST_TO_COMPILE)
def _log_joint(
    closed: ClosedProgram, log_integral: Float[Array, ""], conditional: Conditional | None, rows: Rows
) -> Float[Array, "n K"]:
    """log p(x_i, y = k | data), from the log evidence and, if there is one stage, the distribution of its latents."""
    program, elimination, rest = closed.program, closed.elimination, closed.rest
    if conditional is None:
        log_density = _log_density(closed)
    else:  # it takes less time than the density of the data
        log_density, log_integral = conditional.log_prob, jnp.zeros(())

    def log_probs(row: Rows) -> Float[Array, " K"]:
        single = jax.tree.map(lambda leaf: leaf[None], row)
        by_class = _inline(closed, lambda values: _log_joint_of_row(program, values, single))

        def log_integral_with(code: Array) -> Float[Array, ""]:
            return elimination.log_integral(lambda values: log_density(values) + by_class(values)[code], rest)

        return jax.vmap(log_integral_with)(jnp.arange(program.num_classes)) - log_integral

    return jax.vmap(log_probs)(rows)


def _log_joint_of_row(program: Program, latents: Arrays, single: Rows) -> Float[Array, " K"]:
    return log_joint_of(program, evaluate_classes(program, latents, single.covariates), single)[0]


def _log_density(closed: ClosedProgram) -> LogDensityOfValues:
    return _inline(closed, closed.density.at_sites)


def _inline(closed: ClosedProgram, function: Callable[[Arrays], Array]) -> Callable[[Arrays], Array]:
    """A function of all latents as one of those that are integrated out, without calls: its derivatives are traced."""
    real = jnp.result_type(float)
    values = {name: jax.ShapeDtypeStruct(shape, real) for name, shape in closed.elimination.shapes.items()}
    return Traced(jax.make_jaxpr(lambda values: function({**closed.rest, **values}))(values), 0).inline
