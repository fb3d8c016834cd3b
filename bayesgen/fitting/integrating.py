"""Latents that a method integrates out of the posterior in closed form: which ones, proven on the data."""

from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from bayesgen.describe import quote_some
from bayesgen.errors import FitError, ModelError
from bayesgen.generative import GenerativeProgram
from bayesgen.posteriors import ConjugatePosterior, ParameterArrays, ProcessPosterior, closed_posterior
from bayesgen.program import (
    MOST_MISFIT,
    PRIOR_STARTS,
    ClosedProgram,
    IntegratedDensity,
    LogPriorKind,
    ProgramDensity,
    dispersed_starts,
)
from bayesgen.runtime import placed
from bayesgen.solvers import maximize

from .fit import Fit
from .joint import JointMethod
from .problem import ProgramProblem

MOST_WORK = 2e6  # multiplications of an evaluation, above which no latents are integrated out unless they are named
INTEGRATED = "integrated_out"  # attribute of a fit: the latents that are integrated out
POINTS = 3  # at which forms are compared with the density


def names_of(method: str, integrate_out: Any) -> Literal[False] | tuple[str, ...] | None:
    """What is to be integrated out: None, False or names, as a tuple.

    Raises:
        ModelError: anything else.
    """
    if integrate_out is None:
        return None
    if integrate_out is False:
        return False
    names = (integrate_out,) if isinstance(integrate_out, str) else integrate_out
    if not isinstance(names, list | tuple) or not names or not all(isinstance(name, str) for name in names):
        raise ModelError(
            f"{method}: integrate_out= is None, False, or names of latents, got {integrate_out!r}. None integrates out "
            "what has a closed form given the other latents."
        )
    return tuple(names)


def integrated_density(
    problem: ProgramProblem, integrate_out: Literal[False] | tuple[str, ...] | None, method: str, is_hard: bool = False
) -> IntegratedDensity | None:
    """The log density of the latents that are left, in unconstrained coordinates; None where all are to be sampled.

    Args:
        problem: training problem.
        integrate_out: see `NUTS`.
        method: its name, for messages.
        is_hard: whether sampling all latents has failed.

    Raises:
        FitError: latents, given by name, that have no closed form given the others.
    """
    if integrate_out is False or (integrate_out is None and not _may_be_partial(problem)):
        return None
    program, elimination = problem.program, problem.program.elimination
    if integrate_out is not None:
        for name in integrate_out:
            if name not in elimination.names:
                raise FitError(f"{method} cannot integrate out {name!r}: {_why_open(program, name)}.")
        elimination = elimination.only((*integrate_out, *(site.name for site in program.structure.finite)))
    density = ProgramDensity(program, problem.log_likelihoods, LogPriorKind.SITES)
    integrated = IntegratedDensity(density, elimination)
    if integrate_out is None and not (_is_quick(integrated) or (is_hard and _is_affordable(integrated))):
        return None
    if integrate_out is None and not _has_forms(integrated):
        return None
    _check_forms(integrated, method)
    return integrated


def fit_of_learned_prior(method: JointMethod, problem: ProgramProblem) -> Fit:
    """The fit at the maximum of evidence times prior density of the latents that have no closed form (type II).

    Its posterior is that of the others, in closed form, given these.

    Raises:
        FitError: a program without latents of either kind; data given which there is no closed form, or no maximum.
    """
    program, stated = problem.program, f"{type(method).__name__}(integrate_out=True)"
    log_density = ProgramDensity(program, problem.log_likelihoods, LogPriorKind.PARAMETERS)
    density = IntegratedDensity(log_density, program.elimination)
    if not density.elimination.names:
        raise FitError(f"{stated} has nothing to integrate out: {_why_open(program, program.latents[0])}. Use MAP().")
    if not density.dimension:
        raise FitError(f"{stated} has nothing to learn: all latents have a closed form. Use Exact().")
    _check_forms(density, stated)
    with jax.enable_x64(True), placed(density.cost):
        starts = dispersed_starts(program, problem.seed, max(PRIOR_STARTS, method.climbs()))
        optimum = maximize(density, starts[:, density.coordinates], method.climbs())
        optimum.check(density, "evidence times prior density")
        rest = {name: np.asarray(value) for name, value in density.constrain(jnp.asarray(optimum.vector)).items()}
    attributes = {INTEGRATED: density.elimination.names} | problem.about_products
    return problem.result(method, _posterior_given(problem, density, rest), attributes)


def _posterior_given(problem: ProgramProblem, density: IntegratedDensity, rest: ParameterArrays) -> ProcessPosterior:
    """The posterior of the latents that are integrated out given the others: of families where these are of columns."""
    schema, statistics = problem.data.scaled_schema, problem.data.statistics
    model = problem.data.model.with_hyperparameters(rest)
    if model is not None:
        prior = model.conjugate(schema)
        return ConjugatePosterior(problem.data.model, schema, prior.update(statistics), prior, statistics, rest)
    return closed_posterior(ClosedProgram(problem.program, density.elimination, density.density.terms, dict(rest)))


def _check_forms(density: IntegratedDensity, method: str) -> None:
    """Refuse to integrate latents out which have no closed form given the others and the data."""
    if not _has_forms(density):
        raise FitError(
            f"{method} cannot integrate out {quote_some(density.elimination.names)}: given the other latents and these "
            "data, their posterior has no closed form. Missing cells or labels may be why; or a latent has one only "
            "where others are integrated out before it."
        )


def _may_be_partial(problem: ProgramProblem) -> bool:
    """Whether some latents may have a closed form given others."""
    is_closed = problem.conjugate is not None and problem.conjugate.is_number
    return not is_closed and not problem.samples_rows and problem.data.statistics.unlabelled is None


def _is_quick(density: IntegratedDensity) -> bool:
    """Whether sampling what is left takes less time than sampling all latents, whose coordinates are whitened.

    Jointly normal latents are sampled in less time, and what is left is little where it pays.
    """
    is_costly = density.loops_over_rows or density.elimination.num_normals > 0
    return not is_costly and 0 < density.dimension < density.density.dimension / 2


def _is_affordable(density: IntegratedDensity) -> bool:
    """Whether sampling what is left takes no more than some seconds."""
    return 0 < density.dimension < density.density.dimension and density.cost < MOST_WORK


def _why_open(program: GenerativeProgram, name: str) -> str:
    """Why a latent has no closed form given the others."""
    if name not in program.latents:
        return f"the latents are {quote_some(program.latents)}"
    reason = program.closed_form.set_index("latent")["reason"].loc[[name]].iloc[0]
    return f"it has no closed form given the other latents ({reason})"


def _has_forms(density: IntegratedDensity) -> bool:
    """Whether the log density has the forms of the elimination, at a few values of all latents."""
    with jax.enable_x64(True):
        points = dispersed_starts(density.density.program, 0, POINTS)[-POINTS:]
        return all(density.misfit(density.density.constrain(point)) <= MOST_MISFIT for point in points)
