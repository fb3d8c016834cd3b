"""The fit of a problem by draws from its posterior, whatever method made them."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bayesgen.posteriors import (
    Draws,
    ParameterArrays,
    convergence_problems,
    entry_names,
    warn_of_convergence,
    warn_of_switching,
)
from bayesgen.program import GenerativeProgram, saturated_sites

from .components import unnamed
from .export import axes, class_axes
from .fit import Fit
from .problem import Method, ProgramProblem

STATES_HAVE_NO_NAMES = (
    "hidden states have no names of their own, and where chains number them in other ways, predictions do not depend "
    "on that and fit.states(X) puts them in one order; else raise num_warmup and num_samples"
)


def fit_of_draws(
    method: Method,
    problem: ProgramProblem,
    program: GenerativeProgram,
    sites: ParameterArrays,
    stats: Mapping[str, np.ndarray],
    attributes: dict[str, Any],
    problems: Sequence[str] = (),
) -> Fit:
    """The fit of a problem by draws; warns where they do not agree, lie on a bound or swap names of components.

    Args:
        method: that made the draws.
        problem: training problem.
        program: whose sites were drawn: that of the problem, or one with the same process in other coordinates.
        sites: latent site of it -> (chain, draw, ...). Independent draws are chains, too.
        stats: name -> (chain, draw), statistics of the sampler; "potential_energy", minus the log density of each draw
            up to a constant, is one of them.
        attributes: of the fit.
        problems: sentences about the draws that the method knows of, for the warning.
    """
    values = program.parameters_of(sites)
    of_problem = sites if program is problem.program else problem.program.latents_of(values)
    latents = {name: of_problem[name] for name in problem.program.latents}
    num_chains, num_draws = next(iter(latents.values())).shape[:2]
    stats = {"diverging": np.zeros((num_chains, num_draws), bool), **stats}
    draws = Draws(problem.program, latents, values, stats)
    fit = problem.result(method, draws, attributes)
    unlabelled = problem.data.statistics.unlabelled
    if unlabelled is not None and not problem.has_labels:
        draws = unnamed(draws, class_axes(fit), unlabelled, problem.seed)
        fit = dataclasses.replace(fit, posterior=draws)
    saturated = [] if problem.conjugate else saturated_sites(problem.program.latent_supports, latents)
    # the axes of a program of one's own would have to be found, by functions that are compiled for it
    names = entry_names(*axes(fit)) if problem.conjugate and draws.is_identified else entry_names({}, {})
    hides_states = any(likelihood.has_symmetries for _, likelihood in problem.program.plan.compressed)
    remedy = STATES_HAVE_NO_NAMES if hides_states else None
    disagreements = convergence_problems(draws.diagnosed, stats, names, remedy)
    warn_of_convergence([*problems, *saturated, *disagreements], type(method).__name__)
    if not draws.is_identified:
        warn_of_switching()
    return fit
