"""Draws from a log density: by NUTS in whitened coordinates, or else in coordinates adapted to its draws.

Draws in whitened coordinates are judged. Where some draws diverge, smaller steps in the same coordinates
help, and adapted ones do not (two normal classes on 12 rows, against quadrature); where many diverge, the coordinates
are wrong.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

import numpy as np

from bayesgen.errors import FitError
from bayesgen.log_density import LogDensity
from bayesgen.runtime import bar
from bayesgen.statistics import split_rhats

from .curvature import AffineMap, Whitened, constrained
from .maximize import search
from .quasi_newton import Vector, evaluator_of
from .sampler import ChainDraws, sample_chains

MOST_DENSE = 100  # dimensions up to which coordinates are adapted to correlations
NUM_ADAPTED = 400  # warm-up draws of four chains that adapt together
CAREFUL = 0.95  # target acceptance probability of smaller steps
LONG_TRAJECTORY = 63  # mean leapfrog steps a draw, above which whitening has failed
MOST_DIVERGING = 0.02  # share of draws


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of a sampler.

    Attributes:
        num_warmup: warm-up steps a chain; None for the default of the attempt.
        num_samples: draws a chain.
        num_chains: number of chains.
        target_accept_prob: target of the step-size adaptation, in (0, 1).
    """

    num_warmup: int | None = None
    num_samples: int = 1000
    num_chains: int = 4
    target_accept_prob: float = 0.8


@dataclasses.dataclass(frozen=True)
class Preparation:
    """Coordinates in which a density is to be sampled.

    Attributes:
        density: log density in them.
        reason: why they are not whitened; None where they are.
        num_modes: number of modes that were found.
    """

    density: Whitened
    reason: str | None = None
    num_modes: int = 1


@dataclasses.dataclass(frozen=True)
class Chains:
    """Draws from a density by Markov chains.

    Attributes:
        values: constrained draws, name -> (chain, draw, ...).
        stats: the sampler's statistics, name -> (chain, draw).
        density: log density, in the coordinates in which they were made.
        path: how they were made, for reports.
        target: target acceptance probability of the step size.
        warnings: warnings that do not depend on the draws.
    """

    values: dict[str, np.ndarray]
    stats: dict[str, np.ndarray]
    density: Whitened
    path: str
    target: float
    warnings: list[str]


def sample(
    density: LogDensity,
    settings: Settings,
    find_starts: Callable[[], Iterable[Vector]] | None,
    key: Any,
    progress: bool | None,
) -> Chains:
    """Draws in coordinates whitened at the mode, or adapted ones where those cannot be trusted. Inside float64.

    Args:
        density: log density.
        settings: of the sampler.
        find_starts: starts of the mode search; None for plain adaptation.
        key: JAX key, the same for every attempt.
        progress: whether to show progress; None for in a terminal only.

    Raises:
        FitError: where the density is not finite at any start.
    """
    if find_starts is None:
        prepared = Preparation(_shifted(density, np.zeros(density.dimension)), "precondition=False")
    else:
        with bar(f"finding the mode of {density.dimension:,} numbers", 1, progress):
            prepared = laplace(density, find_starts())
    reason = prepared.reason

    def drawn(coordinates: Whitened, num_warmup: int, target: float, **options: Any) -> tuple[Whitened, ChainDraws]:
        total = sum(options.get("windows", ())) + num_warmup + settings.num_samples
        with bar(f"sampling {density.dimension:,} numbers", total, progress) as advanced:
            adapted, draws = sample_chains(
                coordinates,
                key,
                num_warmup=num_warmup,
                num_samples=settings.num_samples,
                num_chains=settings.num_chains,
                target=target,
                advanced=advanced,
                **options,
            )
        return cast(Whitened, adapted), draws

    def chains(coordinates: Whitened, sampled: ChainDraws, path: str, target: float) -> Chains:
        warnings = [prepared.reason] if prepared.num_modes > 1 and prepared.reason else []
        return Chains(constrained(coordinates, sampled[0]), sampled[1], coordinates, path, target, warnings)

    for target in (settings.target_accept_prob, CAREFUL) if reason is None else ():
        fails = functools.partial(_fails, target < CAREFUL)
        coordinates, sampled = drawn(prepared.density, settings.num_warmup or 150, target, fails=fails)
        failure = failure_of(*sampled, density.has_symmetries)
        share, steps = (sampled[1][name].mean() for name in ("diverging", "num_steps"))
        if failure is None and (share == 0 or target >= CAREFUL):
            return chains(coordinates, sampled, "whitened", target)
        reason = f"{failure or 'some draws diverged'} in whitened coordinates"
        # smaller steps do not help if more diverge, or twice as many would be too many
        if not 0 < share < 0.2 or steps > LONG_TRAJECTORY / 2 or target >= CAREFUL:
            break
    num_warmup = settings.num_warmup or NUM_ADAPTED
    windows = [size for share in (1, 2, 4, 6) if (size := share * num_warmup // 16) >= 10]
    adapting = _adapting(prepared.density)
    coordinates, sampled = drawn(adapting, num_warmup - sum(windows), settings.target_accept_prob, windows=windows)
    if not np.isfinite(sampled[1]["potential_energy"]).all():
        raise FitError("The density is not finite where chains start: check the priors, factors and the data's scale.")
    return chains(coordinates, sampled, f"adapted: {reason}", settings.target_accept_prob)


def _fails(is_bold: bool, stats: Mapping[str, np.ndarray], is_warm: bool) -> bool:
    """Whether coordinates have failed by the first draws; one that diverges is enough, if steps may be smaller."""
    diverge = stats["diverging"].any() if is_bold else stats["diverging"].mean() > MOST_DIVERGING
    return bool((is_warm and diverge) or stats["num_steps"].mean() > LONG_TRAJECTORY)


def _adapting(density: Whitened) -> Whitened:
    """The density in coordinates that can be adapted, from which adaptation starts: one block, or none."""
    whitening, dimension = density.whitening, density.dimension
    if whitening.factors[0].shape[1] != dimension:
        widths = whitening.widths[:, None, None]
        factors = widths if dimension > MOST_DENSE else np.diag(whitening.widths)[None]
        whitening = AffineMap(whitening.center, (factors,))
    return Whitened(density.density, whitening)


def failure_of(draws: np.ndarray, stats: dict[str, np.ndarray], has_symmetries: bool) -> str | None:
    """Why draws in whitened coordinates are not to be trusted, or None."""
    if stats["diverging"].mean() > MOST_DIVERGING:
        return "chains diverged"
    if stats["num_steps"].mean() > LONG_TRAJECTORY:
        return "trajectories were long"
    num_chains, num_samples = draws.shape[:2]
    # chains may be at mirrored points, of which only the density can be compared
    compared = stats["potential_energy"][..., None] if has_symmetries else draws
    # R-hat is lower if the chains agree, also of a few hundred effective draws
    if (
        num_chains > 1
        and num_samples >= 100
        and np.fmax.reduce(split_rhats(np.moveaxis(compared, 2, 0)), initial=1.0) > 1.05
    ):
        return "chains disagreed"
    return None


def laplace(density: LogDensity, starts: Iterable[Vector]) -> Preparation:
    """Coordinates whitened by the Laplace approximation at the mode, or others where it is not usable.

    Raises:
        FitError: where the density is not finite at any start.
    """
    optimum = search(evaluator_of(density), starts, density.has_symmetries)
    centred = _shifted(density, optimum.vector)
    if optimum.num_modes > 1:
        reason = f"{optimum.num_modes} modes were found, and chains need not visit all of them in their proportions"
        return Preparation(centred, reason, optimum.num_modes)
    if optimum.converged:
        assert optimum.curvature is not None
        return Preparation(Whitened(density, AffineMap.at_peak(optimum.vector, optimum.curvature)))
    if np.abs(optimum.gradient).max(initial=0.0) > 1e-3 * max(1.0, abs(optimum.value)):  # the climb has not converged
        origin = _shifted(density, np.zeros(density.dimension))
        return Preparation(origin, "no mode was found in the unconstrained space")
    return Preparation(centred, "the Hessian at the mode is not positive definite")


def _shifted(density: LogDensity, center: Vector) -> Whitened:
    return Whitened(density, AffineMap.shift(center))
