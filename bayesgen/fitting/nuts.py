"""`NUTS`: draws from the posterior by the No-U-Turn sampler, on summaries."""

import dataclasses
import numbers

import jax
import numpy as np

from bayesgen.errors import FitError, ModelError
from bayesgen.posteriors import Draws, entry_names, problems, quick_rhat, warn_of
from bayesgen.program import density_work, dispersed_starts, saturated_sites
from bayesgen.runtime import Pool, as_key, bar, carrying, placed
from bayesgen.solvers import (
    SEVERAL_MODES,
    as_arrays,
    constrain_draws,
    expected,
    flatten,
    identity,
    laplace,
    lowered,
    num_free,
    posterior_density,
    sample_adapted,
    sample_whitened,
    surface_by_steps,
    surface_of,
)

from .export import axes
from .method import Method

WARMUP_WHITENED, WARMUP_ADAPTED = 150, 1000
# Where some draws diverge, smaller steps in the same coordinates cure it, and masses that are adapted do not (two
# normal classes on 12 rows, against quadrature); where as many as these do, the coordinates are wrong
CAREFUL = 0.95  # the target of the acceptance probability of smaller steps
HOPELESS, MANY_DIVERGING = 0.2, 0.02  # shares of diverging draws: no smaller steps are tried; they have not helped
DISAGREEMENT = 1.05  # R-hat of whitened coordinates, which chains of a few hundred effective draws do not reach
LONG_TRAJECTORY = 63  # mean leapfrog steps a draw above which whitening is judged to have failed


@dataclasses.dataclass(frozen=True)
class NUTS(Method):
    """Draws from P(Q | T) by the No-U-Turn sampler, for any program.

    The sampler sees the data through sufficient statistics, so its cost does not depend on the number of rows. It
    starts at the mode in unconstrained coordinates and samples in coordinates whitened by the inverse Hessian there,
    so a short warm-up for the step size is enough. Where some draws diverge, it samples again with smaller steps, to a
    `target_accept_prob` of 0.95; where that approximation is not usable (several modes, an indefinite Hessian, heavy
    tails that make chains diverge or wander), it falls back to ordinary adaptation. Which path was taken, and with
    which target, is in `fit.attributes`.

    Args:
        num_warmup: warm-up steps a chain; None for 150 where the posterior is whitened, 1000 where it is not.
        num_samples: draws a chain.
        num_chains: chains, run as one vectorised program.
        target_accept_prob: target of the step-size adaptation, in (0, 1).
        precondition: False for plain adaptation of NumPyro.

    Source: Hoffman and Gelman (2014), The No-U-Turn sampler, algorithm 6; iterative form of Phan et al. (2019).
    """

    num_warmup: int | None = None
    num_samples: int = 1000
    num_chains: int = 4
    target_accept_prob: float = 0.8
    precondition: bool = True

    def __post_init__(self):
        self.check_counts(num_samples=self.num_samples, num_chains=self.num_chains)
        if self.num_warmup is not None:
            self.check_counts(num_warmup=self.num_warmup)
        target = self.target_accept_prob
        if not isinstance(target, numbers.Real) or not 0 < target < 1:
            raise ModelError(f"NUTS: target_accept_prob must be a number in (0, 1), got {target!r}.")

    def solve(self, problem):
        """Sample."""
        problem.warn_of_constant_columns()
        program, evidence = problem.program, problem.evidence
        if num_free(program.structure) == 0:
            raise FitError(
                "NUTS has nothing to sample: the program has no continuous latent site. Use Exact(), or, for a program "
                "of one's own, program.log_joint({}, X)."
            )
        work = self.num_chains * (num_free(program.structure) ** 2 + density_work(program, evidence))
        with jax.enable_x64(True), placed(work):
            key = as_key(problem.seed)
            whitening, path = self._coordinates(problem)
            target = self.target_accept_prob
            result = self._run(problem, whitening, key, path, target)
            if path == "whitened" and target < CAREFUL and 0 < result[1]["diverging"].mean() < HOPELESS:
                target = CAREFUL
                result = self._run(problem, whitening, key, path, target)
            if path == "whitened" and (reason := self._unusable(*result)):
                path, target = f"adapted: {reason} in whitened coordinates", self.target_accept_prob
                result = self._run(problem, whitening, key, path, target)
            latents, deterministics = constrain_draws(program, whitening, result[0])
        stats = as_arrays(result[1])
        latents, deterministics = as_arrays(latents), as_arrays(deterministics)
        values = program.parameters_of({**deterministics, **latents})
        attributes = {"path": path, "target_accept_prob": target, "chain_method": "vectorized"}
        fit = problem.result(self, Draws(program, latents, values, stats), attributes=attributes)
        noted = [path.removeprefix("adapted: ")] if path.endswith(SEVERAL_MODES) else []
        noted += [] if problem.conjugate else saturated_sites(program, latents)
        # the axes of a program of one's own would have to be found, by functions that are compiled for it
        names = entry_names(*axes(fit)) if problem.conjugate else entry_names({}, {})
        warn_of(noted + problems(values, stats, names))
        return fit

    def _coordinates(self, problem):
        program = problem.program
        if not self.precondition:
            return identity(program), "adapted: precondition=False"
        likely = expected(program)
        if likely is None:
            surface = surface_of(posterior_density, program, problem.evidence)
            return laplace(program, surface, self._starts(problem))
        density = (program, problem.evidence, likely)
        with Pool(1) as pool:  # compiles the sampler while there is else to do
            for one in lowered(density, self.num_chains):
                pool.submit(carrying(one.compile))
            starts = self._starts(problem)
            draws = np.zeros((self.num_chains, self.num_samples, num_free(program.structure)))
            constrain_draws.lower(program, likely, draws).compile()
        return laplace(program, surface_by_steps(density, self.num_chains), starts)

    def _starts(self, problem):
        """Where to look for the mode: near the closed-form posterior mean where there is one."""
        conjugate = problem.conjugate
        if conjugate is None or not conjugate.is_closed:
            return dispersed_starts(problem.program, problem.seed)
        return [closed_form_start(problem)]

    def _run(self, problem, whitening, key, path, target):
        density = (problem.program, problem.evidence, whitening)
        whitened = path == "whitened"
        num_warmup = self.num_warmup or (WARMUP_WHITENED if whitened else WARMUP_ADAPTED)
        own = {"patience": LONG_TRAJECTORY} if whitened else {"dense_mass": self.precondition}
        with bar("sampling", num_warmup + self.num_samples, problem.progress) as advanced:
            return (sample_whitened if whitened else sample_adapted)(
                density,
                key,
                num_warmup=num_warmup,
                num_samples=self.num_samples,
                num_chains=self.num_chains,
                target=target,
                advanced=advanced,
                **own,
            )

    def _unusable(self, draws, stats):
        """Why whitened draws should not be trusted, or None."""
        if stats["diverging"].mean() > MANY_DIVERGING:
            return "chains diverged"
        if stats["num_steps"].mean() > LONG_TRAJECTORY:
            return "trajectories were long"
        if self.num_chains > 1 and self.num_samples >= 100 and quick_rhat(draws) > DISAGREEMENT:
            return "chains disagreed"
        return None


def closed_form_start(problem):
    """The posterior mean of the conjugate blocks, in unconstrained coordinates."""
    posterior = problem.conjugate.update(problem.data.evidence)
    latents = problem.program.latents_of(posterior.mean())
    return flatten(problem.program, {name: latents[name] for name in problem.program.latents})
