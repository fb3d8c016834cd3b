"""NUTS on a log density in whitened coordinates, compiled once for each structure of densities."""

import concurrent.futures
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bayesgen.log_density import LogDensity
from bayesgen.runtime import LIGHT_OPTIMISATION, TABLE_CELLS, OwnedJit, Pool, devices_in_use, num_cores
from bayesgen.typing import Array, Bool, Float, Int, Shaped

from .curvature import AffineMap, Whitened
from .trajectory import GRADIENT, POSITION, TREE, Step, Trajectory, begin, extend, no_checkpoints

# multiplications of an evaluation that loops over rows, times coordinates, as trajectories are longer where there are
# more: a thousand rows of a mixture, up to which optimising takes more time than the draws of some fits
MOST_QUICK_WORK = 1.5e4
DRAWS_A_CALL, LEAPFROGS_A_CALL = 256, 2048  # of a chain, in one call of the compiled function, at most


class StepNumbers(NamedTuple):
    """Random numbers for one call, by NumPy: JAX's would take a tenth of the time of compiling.

    Attributes:
        momenta: (chains, draws, D), normal.
        directions: (chains, draws), 31 random bits, more than a tree has doublings.
        log_uniforms: (steps, chains, 2), logs of uniform numbers.
    """

    momenta: Float[Array, "chains draws D"]
    directions: Int[Array, "chains draws"]
    log_uniforms: Float[Array, "steps chains 2"]


class Chain(NamedTuple):
    """One chain between two leapfrog steps.

    Attributes:
        trajectory: the trajectory that is being built.
        step_size: of the integrator.
        averages: (4,), of dual averaging: mean log step size, mean error, number of draws, log of the first guess.
        num_draws: draws made in this call.
    """

    trajectory: Trajectory
    step_size: Float[Array, "*chains"]
    averages: Float[Array, "*chains 4"]
    num_draws: Int[Array, "*chains"]


def start(
    dimension: int, random: np.random.Generator, size: int, positions: Float[np.ndarray, "size D"] | None = None
) -> Chain:
    """Chains at these positions, or else at dispersed points near the mode, by NumPy, without compiling.

    Their potential is infinite, so that the first step is always accepted and no gradient at the starting points has to
    be compiled.
    """
    momenta, zeros = random.normal(size=(size, dimension)), np.zeros((size, dimension))
    positions = 0.5 * random.normal(size=(size, dimension)) if positions is None else positions
    point = np.stack([positions, momenta, zeros], axis=1)
    ends = np.stack([point, point], axis=1)
    directions = _directions(random, size)
    zero, infinite = np.zeros(size, np.int32), np.full(size, np.inf)
    guess = np.full(size, 1.4 * dimension**-0.25)  # the optimum for a normal density
    trajectory = Trajectory(
        ends=ends,
        proposals=ends[:, :, [POSITION, GRADIENT]],
        potentials=np.stack([infinite, infinite], axis=1),
        log_weights=np.zeros((size, 2)),
        momentum_sums=np.stack([momenta, zeros], axis=1),
        checkpoints=no_checkpoints(zeros),
        directions=directions,
        energy=infinite,
        accept_sum=np.zeros(size),
        num_steps=zero,
    )
    averages = np.stack([0 * guess, 0 * guess, 0 * guess, np.log(10 * guess)], axis=1)
    return Chain(trajectory, guess, averages, zero)


def draw_numbers(
    random: np.random.Generator, size: int, dimension: int, most_steps: int = LEAPFROGS_A_CALL
) -> StepNumbers:
    """`StepNumbers` for the draws of one call, and one more draw that is begun in it."""
    most_draws = min(DRAWS_A_CALL, max(most_steps // 4, 16))  # draws of fewer steps are rare
    most = int(np.clip(4 * TABLE_CELLS // (size * dimension), 16, most_draws)) + 1
    log_uniforms = np.log1p(-random.random((most_steps, size, 2)))
    return StepNumbers(random.normal(size=(size, most, dimension)), _directions(random, (size, most)), log_uniforms)


def _directions(random: np.random.Generator, shape: int | tuple[int, ...]) -> Int[np.ndarray, "..."]:
    return random.integers(0, 2**31, shape, np.int32)


STATISTICS = {
    "num_steps": np.int64,
    "accept_prob": np.float64,
    "diverging": np.bool_,
    "energy": np.float64,
    "potential_energy": np.float64,
    "step_size": np.float64,
}


def named_statistics(stats: Float[np.ndarray, "*draws statistics"]) -> dict[str, Shaped[np.ndarray, "*draws"]]:
    """The statistics of the sampler by name, each of its dtype."""
    return {name: stats[..., index].astype(kind) for index, (name, kind) in enumerate(STATISTICS.items())}


ChainDraws = tuple[np.ndarray, dict[str, np.ndarray]]
FIRST_DRAWS = DRAWS_A_CALL  # of each chain, after which coordinates are judged


def sample_chains(
    density: LogDensity,
    key: Any,
    *,
    windows: Sequence[int] = (),
    num_warmup: int,
    num_samples: int,
    num_chains: int,
    target: float,
    fails: Callable[[Mapping[str, np.ndarray], bool], bool] | None = None,
    advanced: Callable[[float], None],
) -> tuple[LogDensity, ChainDraws]:
    """Draw by NUTS; a warm-up finds the step size, one for all chains.

    Args:
        density: log density, in coordinates in which it is nearly standard normal, or whitened anew by windows.
        key: JAX key.
        windows: numbers of warm-up draws after each of which the draws of all chains give new coordinates, as in Stan,
            whose chains adapt alone. Only of a `Whitened` density.
        num_warmup: warm-up draws after the windows.
        target: target acceptance probability of the step size.
        fails: the statistics of the warm-up after the windows, or of the first draws after it, and whether it is these
            -> whether there is no more sampling; None for sampling in any case.
        advanced: called with the number of new draws of each chain.

    Returns:
        The density in the coordinates of the draws, and (draws (chain, draw, dimension), statistics name ->
        (chain, draw)); the last that were made where they fail.
    """
    sizes = groups(num_chains)
    for size in sorted(set(sizes)):
        _compile(density, size)  # here, as NumPyro programs may not be traced in threads
    random = np.random.default_rng(np.asarray(jax.random.key_data(key))).spawn(len(sizes))
    share = 1 / len(sizes)

    with Pool(min(len(sizes), num_cores())) as pool:

        def tell(amount: float) -> None:
            if pool.was_interrupted:
                raise concurrent.futures.CancelledError
            advanced(share * amount)

        def run_all(num_draws: int, adapt: bool, is_part: bool = False) -> ChainDraws:
            work = functools.partial(_run, density, num_draws, target, adapt, is_part, tell)
            parts = pool.results(work, chains, random)
            chains[:] = [part[0] for part in parts]
            draws, stats = (np.concatenate([part[index] for part in parts]) for index in (1, 2))
            return draws, named_statistics(stats)

        chains = [start(density.dimension, *group) for group in zip(random, sizes, strict=True)]
        for size in windows:
            draws, _ = run_all(size, True)
            assert isinstance(density, Whitened)
            density, last = _rewhitened(density, draws)
            positions = np.split(last, np.cumsum(sizes)[:-1])
            chains = [start(density.dimension, *group) for group in zip(random, sizes, positions, strict=True)]
        samples, first = [run_all(num_warmup, True)], min(FIRST_DRAWS if fails else num_samples, num_samples)
        if not (fails and fails(samples[0][1], False)):
            step_size = np.exp(np.mean([np.asarray(chain.averages)[:, 0].mean() for chain in chains]))
            chains = [at_step_size(chain, step_size) for chain in chains]
            samples = [run_all(first, False, is_part=num_samples > first)]
            if num_samples > first and not (fails and fails(samples[0][1], True)):
                samples.append(run_all(num_samples - first, False))
    return density, jax.tree.map(lambda *parts: np.concatenate(parts, axis=1), *samples)


def _rewhitened(
    density: Whitened, draws: Float[np.ndarray, "chains draws D"]
) -> tuple[Whitened, Float[np.ndarray, "chains D"]]:
    """The density in coordinates in which draws are uncorrelated and of variance one, and the last of each chain there.

    Factors are of the form that those of the density have, so that nothing is compiled.
    """
    flat, (factor, *_) = draws.reshape(-1, draws.shape[2]), density.whitening.factors
    number, dimension = flat.shape
    center, variances = flat.mean(0), flat.var(0) + 1e-10  # a chain may not have moved yet
    if factor.shape[1] == 1:  # scales of coordinates
        roots = np.sqrt(variances)[:, None, None]
        last = (draws[:, -1] - center) / roots[:, 0, 0]
    else:
        prior = 5 + dimension  # in draws: that coordinates are not correlated
        covariance = number * np.atleast_2d(np.cov(flat.T, ddof=0)) + prior * np.diag(variances)
        roots = np.linalg.cholesky(covariance / (number + prior))[None]
        last = np.linalg.solve(roots[0], (draws[:, -1] - center).T).T
    whitening = AffineMap(np.asarray(density.whitening(center)), (np.asarray(factor) @ roots,))
    return Whitened(density.density, whitening), last


def at_step_size(chains: Chain, step_size: float) -> Chain:
    """The chains with one step size."""
    return chains._replace(step_size=np.full(len(chains.step_size), step_size))


def _compile(density: LogDensity, size: int) -> None:
    """Compile the function that moves so many chains, by a call that asks for no draw."""
    chains = start(density.dimension, np.random.default_rng(0), size)
    numbers = draw_numbers(np.random.default_rng(0), size, density.dimension)
    arguments = density, chains, numbers, np.zeros(size, np.int32), 0.5, False, LEAPFROGS_A_CALL
    advance_of(density)(*arguments)


def is_cpu() -> bool:
    """Whether JAX runs on the processor here."""
    return devices_in_use()[0].platform == "cpu"


def groups(num_chains: int) -> list[int]:
    """Sizes of groups of chains that are vectorised: all chains on a GPU, else few, to use all cores.

    At least two chains in at most 32 groups, whatever the number of cores, so that draws are the same everywhere.
    """
    size = max(2, -(-num_chains // 32)) if is_cpu() else num_chains
    return [min(size, num_chains - first) for first in range(0, num_chains, size)]


def _run(
    density: LogDensity,
    num_draws: int,
    target: float,
    adapt: bool,
    is_part: bool,
    advanced: Callable[[float], None],
    chains: Chain,
    random: np.random.Generator,
) -> tuple[Chain, np.ndarray, np.ndarray]:
    """Make `num_draws` draws with each chain: (chains, draws, statistics).

    Where they are a part, no numbers are drawn ahead: further draws are those that would have been made at once.
    """
    size = len(chains.step_size)
    parts: list[list[Any]] = [[] for _ in range(size)]
    left = np.full(size, num_draws, np.int32)
    numbers = draw_numbers(random, size, density.dimension)
    while left.any():
        chains, draws, stats = advance_of(density)(density, chains, numbers, left, target, adapt, LEAPFROGS_A_CALL)
        if not is_part:
            numbers = draw_numbers(random, size, density.dimension)  # while a GPU is at work
        num_made = np.asarray(chains.num_draws)
        draws, stats = np.asarray(draws), np.asarray(stats)
        for index, count in enumerate(num_made):
            parts[index].append((draws[index, :count], stats[index, :count]))
        advanced(int(left.max() - (left - num_made).max()))
        left = left - num_made
        if is_part and left.any():
            numbers = draw_numbers(random, size, density.dimension)
    draws, stats = (np.stack([np.concatenate([part[i] for part in chain]) for chain in parts]) for i in (0, 1))
    return chains, draws, stats


def _advance(
    density: LogDensity,
    chains: Chain,
    numbers: StepNumbers,
    num_wanted: Int[Array, " chains"],
    target: Any,
    adapt: Any,
    most_steps: Any,
) -> tuple[Chain, Float[Array, "chains draws D"], Float[Array, "chains draws statistics"]]:
    """Take leapfrog steps until every chain has its wanted draws, or the limits of one call are reached.

    Args:
        density: log density.
        chains: `Chain`, its arrays with the chains as first axis.
        numbers: `StepNumbers`.
        num_wanted: draws wanted of each chain.
        target: acceptance probability.
        adapt: whether the step size is adapted.
        most_steps: leapfrog steps of one call.

    Returns:
        (chains, draws (chain, draw, dimension), statistics (chain, draw, ...)), of which the first
        `num_draws` are draws.
    """
    leap = jax.vmap(functools.partial(_leap, density))
    return _advanced(leap, chains, numbers, num_wanted, adapt, target, most_steps)


def _advance_sets(
    densities: LogDensity,
    chains: Chain,
    numbers: StepNumbers,
    num_wanted: Int[Array, "S chains"],
    adapts: Bool[Array, " S"],
    target: Any,
    most_steps: Any,
) -> tuple[Chain, Float[Array, "S chains draws D"], Float[Array, "S chains draws statistics"]]:
    """`_advance` for the chains of several densities: an axis of these first, in all arguments and results."""
    numbers = numbers._replace(log_uniforms=jnp.moveaxis(numbers.log_uniforms, 0, 1))

    def leap_set(density: LogDensity, *chain_arguments: Any) -> Any:
        return jax.vmap(functools.partial(_leap, density))(*chain_arguments)

    leap = functools.partial(jax.vmap(leap_set), densities)
    return _advanced(leap, chains, numbers, num_wanted, adapts[:, None], target, most_steps)


def _leap(density: LogDensity, trajectory: Trajectory, step_size: Array, uniforms: Array) -> tuple[Trajectory, Step]:
    """One leapfrog step of one chain."""
    return extend(jax.value_and_grad(lambda z: -density(z)), trajectory, step_size, uniforms)


def _advanced(
    leap: Callable[[Trajectory, Array, Array], tuple[Trajectory, Step]],
    chains: Chain,
    numbers: StepNumbers,
    num_wanted: Int[Array, "..."],
    adapt: Any,
    target: Any,
    most_steps: Any,
) -> tuple[Chain, Array, Array]:
    """Chains moved together, until each has its wanted draws, or the limits of one call are reached.

    Steps are taken until some chain has a draw, and draws are dealt with then: XLA's overhead of an operation is most
    of the time of a step in few dimensions. A chain with its wanted draws does not change.
    """
    momenta, directions, log_uniforms = numbers
    *shape, most, dimension = momenta.shape
    num_wanted, adapt = jnp.minimum(num_wanted, most - 1), jnp.broadcast_to(adapt, shape)

    def over_chains(function: Callable[..., Any]) -> Callable[..., Any]:
        for _ in shape:
            function = jax.vmap(function)
        return function

    write = over_chains(functools.partial(jax.lax.dynamic_update_index_in_dim, axis=0))
    finished = over_chains(functools.partial(_finished, target))

    def body(state: Any) -> Any:
        index, chains, rows = state
        moves = chains.num_draws < num_wanted

        def step(state: Any) -> Any:
            index, trajectories, _ = state
            following, (done, diverging) = leap(trajectories, chains.step_size, log_uniforms[index])
            # the checkpoints of a chain that does not move are read by none
            still = trajectories._replace(checkpoints=following.checkpoints)
            return index + 1, over_chains(_where)(moves, following, still), Step(done & moves, diverging)

        def goes_on(state: Any) -> Any:
            return (state[0] < most_steps) & ~state[2].done.any()

        none = Step(*2 * [jnp.zeros(shape, bool)])
        index, built, last = jax.lax.while_loop(goes_on, step, (index, chains.trajectory, none))
        at = chains.num_draws  # overwritten until the draw is done
        chains, row = finished(chains._replace(trajectory=built), last, adapt, momenta, directions)
        return index, chains, write(rows, row, at)

    def unfinished(state: Any) -> Any:
        return (state[0] < most_steps) & (state[1].num_draws < num_wanted).any()

    chains = chains._replace(num_draws=jnp.zeros_like(chains.num_draws))
    rows = jnp.zeros((*shape, most, dimension + len(STATISTICS)))
    _, chains, rows = jax.lax.while_loop(unfinished, body, (0, chains, rows))
    return chains, rows[..., :dimension], rows[..., dimension:]


advance_sets = OwnedJit(_advance_sets, compiler_options=LIGHT_OPTIMISATION)
advance, _advance_rows = OwnedJit(_advance, compiler_options=LIGHT_OPTIMISATION), OwnedJit(_advance)


def advance_of(density: LogDensity) -> OwnedJit:
    """The compiled function for a density, fully optimised if it loops over many rows: a fifth faster, in 1 s more."""
    return _advance_rows if density.loops_over_rows and density.cost * density.dimension > MOST_QUICK_WORK else advance


def _finished(
    target: Any,
    chain: Chain,
    step: Step,
    adapt: Bool[Array, ""],
    momenta: Float[Array, "draws D"],
    directions: Int[Array, " draws"],
) -> tuple[Chain, Float[Array, " D+statistics"]]:
    """The chain after a step, at the start of its next trajectory if that completed a draw; the draw and statistics."""
    built = chain.trajectory
    draw, gradient = built.proposals[TREE]
    potential = built.potentials[TREE]
    accept = built.accept_sum / built.num_steps
    stats = (built.num_steps, accept, step.diverging, built.energy, potential, chain.step_size)
    row = jnp.concatenate([draw, jnp.stack([jnp.asarray(statistic, draw.dtype) for statistic in stats])])

    after = chain.num_draws
    fresh = begin(draw, potential, gradient, momenta[after], directions[after], built.checkpoints)
    adapts = step.done & adapt
    averages = jnp.where(adapts, dual_average(chain.averages, target - accept), chain.averages)
    following = Chain(
        trajectory=_where(step.done, fresh, built),
        step_size=jnp.where(adapts, _step_size(averages), chain.step_size),
        averages=averages,
        num_draws=chain.num_draws + step.done,
    )
    return following, row


def dual_average(averages: Float[Array, " 4"], error: Float[Array, ""]) -> Float[Array, " 4"]:
    """One update of the dual averaging of Hoffman and Gelman (2014, eq. 6), with their constants."""
    mean_log_step, mean_error, count, guess = averages
    count = count + 1
    mean_error = mean_error + (error - mean_error) / (count + 10.0)
    log_step = guess - jnp.sqrt(count) / 0.05 * mean_error
    mean_log_step = mean_log_step + (log_step - mean_log_step) * count**-0.75
    return jnp.stack([mean_log_step, mean_error, count, guess])


def _step_size(averages: Float[Array, " 4"]) -> Float[Array, ""]:
    _, mean_error, count, guess = averages
    return jnp.exp(guess - jnp.sqrt(count) / 0.05 * mean_error)


def _where(condition: Bool[Array, ""], first: Any, second: Any) -> Any:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), first, second)
