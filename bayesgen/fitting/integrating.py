"""Latents that a method integrates out of the posterior in closed form: which ones, proven on the data."""

from typing import Any, Literal

import jax

from bayesgen.describe import quote_some
from bayesgen.errors import FitError, ModelError
from bayesgen.generative import GenerativeProgram
from bayesgen.program import IntegratedDensity, LogPriorKind, ProgramDensity, dispersed_starts

from .problem import ProgramProblem

MOST_WORK = 2e6  # multiplications of an evaluation, above which no latents are integrated out unless they are named
PROVEN = 1e-8  # relative error of a form that holds
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
    density = ProgramDensity(program, problem.log_likelihoods, LogPriorKind.SITES)
    if integrate_out is not None:
        for name in integrate_out:
            if name not in elimination.names:
                raise FitError(f"{method} cannot integrate out {name!r}: {_why_open(program, name)}.")
        elimination = elimination.only((*integrate_out, *(site.name for site in program.structure.finite)))
    integrated = IntegratedDensity(density, elimination)
    if integrate_out is None and not (_is_quick(integrated) or (is_hard and _is_affordable(integrated))):
        return None
    if _has_forms(integrated):
        return integrated
    if integrate_out is None:
        return None
    raise FitError(
        f"{method} cannot integrate out {quote_some(elimination.names)}: given the other latents and these data, their "
        "posterior has no closed form. Missing cells or labels may be why; or a latent has one only where others of "
        f"{quote_some(program.elimination.names)} are integrated out before it."
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
    return (
        0 < density.dimension < density.density.dimension
        and density.cost + density.elimination.num_normals**3 < MOST_WORK
    )


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
        return all(density.misfit(density.density.constrain(point)) < PROVEN for point in points)
