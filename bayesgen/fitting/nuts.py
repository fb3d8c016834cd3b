"""`NUTS`: draws from the posterior by the No-U-Turn sampler, on summaries."""

import dataclasses
import functools
import math
import numbers
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from bayesgen.errors import FitError, ModelError
from bayesgen.generative import GenerativeProgram
from bayesgen.log_density import LogDensity
from bayesgen.posteriors import (
    Draws,
    ParameterArrays,
    convergence_problems,
    entry_names,
    warn_of_convergence,
    warn_of_switching,
)
from bayesgen.program import (
    Elimination,
    IntegratedDensity,
    LogPriorKind,
    ProgramDensity,
    WithRowLatents,
    dispersed_starts,
    row_digests,
    saturated_sites,
)
from bayesgen.records import fill, stacked
from bayesgen.runtime import TABLE_CELLS, as_key, beyond_memory, placed
from bayesgen.solvers import (
    ChainDraws,
    Chains,
    Settings,
    constrained,
    laplace,
    sample,
    sample_together,
)
from bayesgen.statistics import PatternMoments
from bayesgen.typing import Float, Seed

from .components import with_invariant_diagnostics
from .em import interior_point
from .export import axes, class_axes
from .fit import Fit
from .integrating import INTEGRATED, integrated_density, names_of
from .problem import Method, ProgramProblem
from .starts import free_parameters

TOGETHER = "vectorized with those of other data sets"
MOST_TOGETHER = 40_000  # numbers in the map that whitens a density, of which each of those side by side has its own
MANY_DIVERGING = 0.01  # of draws: where a posterior ends, there are more, unless next to nothing of it lies beyond
FALL_AT_MEAN = "fall_at_mean"  # attribute of a fit whose density is lower at the mean of draws than at any draw
LITTLE_WORK = 1e5  # multiplications of an evaluation up to which smaller steps in all latents take longer
MOST_PATTERNS = 2000  # of missing cells in a class: with 20 columns, some minutes of sampling


@dataclasses.dataclass(frozen=True)
class Target:
    """What chains draw from.

    Attributes:
        density: log density.
        program: in whose coordinates it is.
        start: a process near its mode, if one is known.
    """

    density: LogDensity
    program: GenerativeProgram
    start: ParameterArrays | None = None

    def starts(self, seed: Seed) -> Float[np.ndarray, "starts D"]:
        """Starts of the search for the mode: a process near it, or dispersed points."""
        if self.start is not None:
            return free_parameters(self.program, self.start)[None]
        points = dispersed_starts(self.program, seed)
        return points[:, self.density.coordinates] if isinstance(self.density, IntegratedDensity) else points

    @property
    def integrated(self) -> tuple[str, ...]:
        """The latents that are integrated out."""
        return self.density.elimination.names if isinstance(self.density, IntegratedDensity) else ()

    def completed(
        self, values: Mapping[str, np.ndarray], stats: Mapping[str, np.ndarray], shape: tuple[int, int], seed: Seed
    ) -> tuple[Mapping[str, np.ndarray], Mapping[str, np.ndarray]]:
        """Draws with those of latents that are integrated out, and statistics with the log densities of all."""
        if not isinstance(self.density, IntegratedDensity):
            return values, stats
        values, log_densities = self.density.draws(values, shape, seed)
        return values, {**stats, "potential_energy": -log_densities}


@dataclasses.dataclass(frozen=True)
class NUTS(Settings, Method):
    """Draws from P(Q | T) by the No-U-Turn sampler, for any program.

    The sampler sees the data through sufficient statistics, so its cost does not depend on the number of rows. It
    starts at the mode in unconstrained coordinates, and rescales the coordinates by the inverse Hessian at the mode
    (whitening), so that a short warm-up for the step size is enough. If some draws diverge, it integrates latents out,
    where that takes little (see `integrate_out`), or samples again with smaller steps, for a `target_accept_prob` of
    0.95. If whitening fails (several modes, an indefinite Hessian, or
    heavy tails in which chains diverge or wander), it adapts the coordinates to the draws of a longer warm-up, by
    windows as Stan does, but of all chains together. `fit.attributes` holds the path that was taken, and its target.

    A continuous latent of each row that is normal given all else, as an effect about a mean with normal noise, is
    integrated out in closed form, and drawn exactly given each draw of the others. Other latents of rows are sampled
    with the others, in adapted coordinates. Where some draws diverge, as in a funnel, a latent with one coordinate is
    integrated out by quadrature instead; not if errors of the quadrature (of densities with kinks, say) vary by more
    than 0.02 among draws.

    Args:
        num_warmup: warm-up steps a chain; None for 150 where the posterior is whitened, 400 where it is not.
        num_samples: draws a chain.
        num_chains: chains, run as one vectorised program.
        target_accept_prob: target of the step-size adaptation, in (0, 1).
        precondition: False for adaptation without a search for the mode.
        integrate_out: names of latents that are integrated out in closed form given the others. These alone are then
            sampled, and those integrated out are drawn exactly given each draw; if all latents are named, draws are
            independent. None for tables of probabilities, rates and variances with a closed form given few others; and
            for all that have one, jointly normal effects too, where draws of all latents diverge, as in a funnel;
            nothing of a program that is closed as a whole. False for none. `fit.attributes["integrated_out"]` names
            them.

    Source: Hoffman and Gelman (2014), The No-U-Turn sampler, algorithm 6; iterative form of Phan et al. (2019).
    """

    precondition: bool = True
    integrate_out: Any = None
    keeps_statistics = False

    def __post_init__(self) -> None:
        self.check_counts(num_samples=self.num_samples, num_chains=self.num_chains)
        if self.num_warmup is not None:
            self.check_counts(num_warmup=self.num_warmup)
        target = self.target_accept_prob
        if not isinstance(target, numbers.Real) or not 0 < target < 1:
            raise ModelError(f"NUTS: target_accept_prob must be a number in (0, 1), got {target!r}.")
        fill(self, integrate_out=names_of("NUTS", self.integrate_out))

    def refusal(self, problem: ProgramProblem) -> str | None:
        """Nothing to sample; too many patterns of missing cells in jointly normal rows: every step evaluates each."""
        if problem.nothing_to_learn:
            return problem.nothing_to_learn
        for name, summary in problem.data.statistics.summaries.items():
            if not isinstance(summary, PatternMoments):
                continue
            # a step holds a few arrays of all covariances for each chain
            most = min(MOST_PATTERNS, TABLE_CELLS // 4 // max(1, summary.mean.shape[-1] ** 2))
            if summary.num_groups > most:
                return (
                    f"NUTS() samples at most {most:,} groups of jointly normal rows that lack the same cells, and "
                    f"those of {name!r} are {summary.num_groups:,}: each takes a Cholesky factor at every step of "
                    "every chain. Use MAP(), or give each column a variance of its own (covariance='diag', NaiveBayes)."
                )
        needed = self.bytes_kept(problem) if problem.samples_rows else 0.0
        draws = f"The draws of the latents of {problem.data.statistics.total_weight:,.0f} rows"
        refusal = beyond_memory(draws, needed)
        return refusal and (
            f"{refusal} Lower num_samples or num_chains, or integrate the latents of the rows out in the program."
        )

    def solve(self, problem: ProgramProblem) -> Fit:
        problem.warn_of_constant_columns()
        problem.warn_of_unnamed_classes()
        target = self.target(problem)
        if target.density.dimension == 0:
            return self._fit_of_chains(problem, target, {}, {}, {"path": "independent draws"})
        starts = functools.partial(target.starts, problem.seed)
        marginal = functools.cache(lambda: integrated_density(problem, self.integrate_out, "NUTS", is_hard=True))

        def yields() -> bool:
            return not target.integrated and (easier := marginal()) is not None and easier.cost < LITTLE_WORK

        if isinstance(target.density, WithRowLatents):
            chains = self._chains_with_rows(target.density, starts, problem)
            digests = {"row_digests": row_digests(target.density.rows)}
        else:
            chains, digests = self._first_chains(target.density, starts, problem.seed, problem.progress, yields), {}
        if chains.stats["diverging"].any() and not target.integrated and (easier := marginal()) is not None:
            target = Target(easier, problem.program)
            starts = functools.partial(target.starts, problem.seed)
            chains = self.chains(easier, starts, problem.seed, problem.progress)
        attributes = chain_attributes(chains) | problem.about_products | digests
        return self._fit_of_chains(problem, target, chains.values, chains.stats, attributes, chains.warnings)

    def _chains_with_rows(self, density: WithRowLatents, starts: Callable[[], Any], problem: ProgramProblem) -> Chains:
        """Draws with the latents of rows: integrated out where these are normal, or where chains of all diverge."""
        with jax.enable_x64(True):
            normal = density.with_normal_rows(starts()) if self.precondition else None
        drawn = None if normal is None else self._rows_integrated(normal, starts, problem)
        if drawn is not None:
            return drawn
        # a mode of the latents of rows says little of how far they and the others reach
        chains = self.chains(density, None, problem.seed, problem.progress)
        if chains.stats["diverging"].any():
            drawn = self._rows_integrated(density, starts, problem)
        return drawn or dataclasses.replace(chains, path="adapted: with the latents of rows")

    def _rows_integrated(
        self, density: WithRowLatents, starts: Callable[[], Any], problem: ProgramProblem
    ) -> Chains | None:
        """Draws of the marginal density, and of the latents of rows given each; None where integrals are not good."""
        if density.marginal is None:
            return None
        chains = self.chains(density.marginal, starts, problem.seed, problem.progress)
        # beyond values of the others given which those of rows are normal, the density of normal ones is NaN
        if density.program.structure.has_normal_rows and chains.stats["diverging"].mean() > MANY_DIVERGING:
            return None
        with jax.enable_x64(True), placed(density.cost):
            drawn = density.draws_of_rows(chains.values, problem.seed)
        if drawn is None:
            return None
        path = f"{chains.path}; latents of rows integrated out"
        return dataclasses.replace(chains, values={**chains.values, **drawn}, path=path)

    def target(self, problem: ProgramProblem) -> Target:
        """The log density that is sampled first.

        Raises:
            FitError: a program without continuous latent sites; latents that are to be integrated out and cannot be.
        """
        integrated = integrated_density(problem, self.integrate_out, "NUTS")
        if integrated is not None:
            return Target(integrated, problem.program)
        program, start, conjugate = problem.program, _start(problem), problem.conjugate
        statistics, near = problem.data.statistics, start
        # chains of a mixture swap names of components less easily in coordinates about one allotment of names
        if conjugate is not None and (start is None or not np.any(statistics.class_weights)):
            near = conjugate.moment_estimates(statistics)
        adapted_program = program if near is None else program.reparametrised(near)
        density: LogDensity
        if problem.samples_rows:
            density = WithRowLatents.of(adapted_program, statistics)
        else:
            density = ProgramDensity(adapted_program, problem.log_likelihoods, LogPriorKind.SITES)
        if density.dimension == 0:
            raise FitError("NUTS has nothing to sample: the model has no continuous latent site. Use Exact().")
        return Target(density, adapted_program, start)

    def bytes_kept(self, problem: ProgramProblem) -> float:
        latents: float = sum(math.prod(shape) for _, shape in problem.program.structure.latents)
        if problem.samples_rows:
            latents += problem.data.statistics.total_weight * problem.program.structure.num_free_local
        return 2 * 8 * self.num_chains * self.num_samples * latents  # latents and parameters

    def solvers(self, problems: Sequence[ProgramProblem]) -> Sequence[Callable[[], Fit]]:
        """Chains of all problems are run side by side, where their densities are of one structure."""
        alone = super().solvers(problems)
        if len(problems) < 2 or not self.precondition:
            return alone
        with jax.enable_x64(True):
            try:
                targets = [self.target(problem) for problem in problems]
                samples = self._sampled_together(targets, problems)
            except FitError:  # of some problem, which says so where it is solved
                return alone
        together = zip(problems, targets, samples, alone, strict=True)
        return [
            solve if sample is None else functools.partial(self._fit_of_sample, problem, target, *sample)
            for problem, target, sample, solve in together
        ]

    def _sampled_together(
        self, targets: Sequence[Target], problems: Sequence[ProgramProblem]
    ) -> Sequence[ChainDraws | None]:
        """The unconstrained draws of each problem and their statistics; None where a problem is to be solved alone."""
        densities = [target.density for target in targets]
        alone, first = [None] * len(problems), densities[0]
        if not _are_alike(densities) or first.loops_over_rows or first.dimension == 0:
            return alone
        prepared = laplace(first, targets[0].starts(problems[0].seed))
        if prepared.reason is not None or sum(map(np.size, prepared.density.whitening.factors)) > MOST_TOGETHER:
            return alone
        keys = [as_key(problem.seed) for problem in problems]
        with placed(len(problems) * self.num_chains * (first.dimension**2 + first.cost)):
            return sample_together(stacked(densities), prepared.density.whitening, keys, self)

    def _fit_of_sample(
        self,
        problem: ProgramProblem,
        target: Target,
        draws: Float[np.ndarray, "chains draws D"],
        stats: Mapping[str, np.ndarray],
    ) -> Fit:
        problem.warn_of_constant_columns()
        with jax.enable_x64(True):
            sites = constrained(target.density, draws)
        path = {"path": "whitened", "target_accept_prob": self.target_accept_prob, "chain_method": TOGETHER}
        return self._fit_of_chains(problem, target, sites, stats, path | problem.about_products)

    def _fit_of_chains(
        self,
        problem: ProgramProblem,
        target: Target,
        values: Mapping[str, np.ndarray],
        stats: Mapping[str, np.ndarray],
        attributes: dict[str, Any],
        problems: Sequence[str] = (),
    ) -> Fit:
        """The fit by draws of a target, with those of latents that it integrates out."""
        with jax.enable_x64(True), placed(target.density.cost):
            values, stats = target.completed(values, stats, (self.num_chains, self.num_samples), problem.seed)
        integrated = {INTEGRATED: target.integrated} if target.integrated else {}
        return fit_of_draws(self, problem, target.program, dict(values), stats, attributes | integrated, problems)

    def chains(
        self,
        density: LogDensity,
        find_starts: Callable[[], Float[np.ndarray, "starts D"]] | None,
        seed: Seed,
        progress: bool | None,
    ) -> Chains:
        """Draws from any log density, warnings aside.

        Args:
            density: log density.
            find_starts: starts of the search for its mode; None for adaptation without one.
            seed: integer or JAX key.
            progress: whether to show progress; None means in a terminal.
        """
        return self._first_chains(density, find_starts, seed, progress)

    def _first_chains(
        self,
        density: LogDensity,
        find_starts: Callable[[], Float[np.ndarray, "starts D"]] | None,
        seed: Seed,
        progress: bool | None,
        yields: Callable[[], bool] | None = None,
    ) -> Chains:
        """`chains`, but those that diverge where the density `yields` to another one: see `sample`."""
        with jax.enable_x64(True), placed(self.num_chains * (density.dimension**2 + density.cost)):
            return sample(density, self, find_starts if self.precondition else None, as_key(seed), progress, yields)


def _are_alike(densities: Sequence[LogDensity]) -> bool:
    """Whether densities are of one structure, with arrays of the same shapes."""
    forms = ((jax.tree.structure(density), jax.tree.map(np.shape, jax.tree.leaves(density))) for density in densities)
    return len({(structure, tuple(shapes)) for structure, shapes in forms}) == 1


def chain_attributes(chains: Chains) -> dict[str, Any]:
    """How the draws were made, for the attributes of a fit."""
    return {
        "path": chains.path,
        "target_accept_prob": chains.target,
        "chain_method": "vectorized",
    }


def _start(problem: ProgramProblem) -> ParameterArrays | None:
    """A process near the mode, from the closed-form posterior or by EM; None where there is neither."""
    conjugate = problem.conjugate
    if conjugate is None or not conjugate.is_number:
        return None
    statistics = problem.data.statistics
    return conjugate.posterior_center(statistics) if statistics.is_complete else interior_point(problem, conjugate)


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
    if not sites.keys() >= set(program.latents):
        sites = _with_finite(problem, program, sites)
    values = program.parameters_of(sites)
    problem_sites = sites if program is problem.program else problem.program.latents_of(values)
    latents = {name: problem_sites[name] for name in problem.program.latents}
    num_chains, num_draws = next(iter(latents.values())).shape[:2]
    stats = {"diverging": np.zeros((num_chains, num_draws), bool), **stats}
    draws = Draws(problem.program, latents, values, stats)
    seed = problem.seed if isinstance(problem.seed, int) else repr(problem.seed)
    fit = problem.result(method, draws, {**attributes, "seed": seed})
    assert isinstance(fit.posterior, Draws)
    draws = fit.posterior
    unlabelled = problem.data.statistics.unlabelled
    if unlabelled is not None and not problem.has_labels:
        draws = with_invariant_diagnostics(draws, class_axes(fit), unlabelled, problem.seed)
        fit = dataclasses.replace(fit, posterior=draws)
    saturated = [] if problem.conjugate else saturated_sites(problem.program.latent_supports, latents)
    # the axes of a program of one's own would have to be found, by functions that are compiled for it
    names = entry_names(*axes(fit)) if problem.conjugate and draws.is_identified else entry_names({}, {})
    remedy = STATES_HAVE_NO_NAMES if problem.program.hides_states else None
    # given the others, those integrated out are independent draws
    integrated = attributes.get(INTEGRATED, ())
    sampled = {name: value for name, value in draws.diagnosed.items() if name not in integrated}
    entries = None if integrated and sampled else draws.entries
    disagreements = convergence_problems(sampled or draws.diagnosed, stats, names, remedy, entries)
    warn_of_convergence([*problems, *saturated, *disagreements], type(method).__name__)
    if not draws.is_identified:
        warn_of_switching()
        return fit
    fall = (
        0.0
        if problem.samples_rows or problem.is_enumerable
        else fall_at_mean(problem, program, draws.mean, sites, stats)
    )
    return dataclasses.replace(fit, attributes=fit.attributes | {FALL_AT_MEAN: fall}) if fall > 0 else fit


def _with_finite(problem: ProgramProblem, program: GenerativeProgram, sites: ParameterArrays) -> ParameterArrays:
    """Draws of all sites, the discrete latents drawn given the others."""
    density = ProgramDensity(program, problem.log_likelihoods, LogPriorKind.SITES)
    shape = next(iter(sites.values())).shape[:2]
    with jax.enable_x64(True), placed(density.cost):
        return IntegratedDensity(density, Elimination((density.enumeration,))).draws(sites, shape, problem.seed)[0]


def fall_at_mean(
    problem: ProgramProblem,
    program: GenerativeProgram,
    mean: ParameterArrays,
    sites: ParameterArrays,
    stats: Mapping[str, np.ndarray],
) -> float:
    """How far the log density at the mean of draws lies below that at the lowest draw; negative where it is above.

    In D dimensions a log-concave density has at its mean at least exp(-D) of its maximum (Fradelizi 1997), and a draw
    about exp(-D/2) or less: a mean below all draws lies between several modes, or in the bend of a curved ridge.

    Args:
        problem, program, stats: as in `fit_of_draws`.
        mean: of the parameters.
        sites: latent site of the program -> (chain, draw, ...).
    """
    density = ProgramDensity(program, problem.log_likelihoods, LogPriorKind.SITES)
    lowest = np.unravel_index(np.argmax(stats["potential_energy"]), stats["potential_energy"].shape)
    with jax.enable_x64(True):
        points = mean, program.parameters_of({name: value[lowest] for name, value in sites.items()})
        at_mean, at_lowest = (density.by_numpy(free_parameters(program, point)) for point in points)
    return at_lowest - at_mean
