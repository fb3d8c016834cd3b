"""Hidden Markov models: NUTS with states summed out against plain NumPyro, and gradients of the forward algorithm.

The peer is the model as one writes it in NumPyro: `lax.scan` over logs, differentiated, the states summed out in a
factor, the whole run jitted once, in double precision as ours, with the warm-up that other peers here have.
"""

import concurrent.futures
import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from arviz_stats.base import array_stats
from numpyro.distributions.transforms import OrderedTransform
from numpyro.infer import MCMC, NUTS

import bayesgen as bg
from bayesgen.sequences import hidden_chains
from bayesgen.sequences.hidden_chains import forward_backward, forward_backward_in_logs

from .measure import REPEATS, Faster, Higher, Row, compilations, duel, rounds, seconds

NUM_STATES, NUM_DRAWS, NUM_CHAINS, NUM_WARMUP = 3, 1000, 4, 300
MOVES = np.array([[0.90, 0.07, 0.03], [0.10, 0.85, 0.05], [0.05, 0.10, 0.85]])
MEANS = np.array([-2.0, 0.0, 3.0])
TOO_FAR = 5.0  # standard errors between posterior means
ASSOCIATIVE = [(2, 500), (2, 2_000), (2, 20_000), (3, 2_000), (3, 20_000), (5, 2_000)]  # states, steps of one sequence
CASES = [(2, 2_000, 1), (3, 10, 1_000), (3, 100, 100), (3, 2_000, 1), (5, 2_000, 1), (10, 2_000, 1), (20, 2_000, 1)]


def measures(quick):
    """All comparisons; `quick` takes a quarter of the steps."""
    num_steps, repeats = (500, 2) if quick else (2_000, 3)
    for threads, steps in ((False, 500), (True, num_steps)):  # two minutes a run, were the first of 2,000 steps
        yield functools.partial(against_numpyro, steps, threads, repeats)
    for case in CASES[3:4] if quick else [*CASES, (3, 20_000, 1)]:
        yield functools.partial(against_autodiff, *case)
    for case in ASSOCIATIVE[3:4] if quick else ASSOCIATIVE:
        yield functools.partial(against_associative, *case)
    yield functools.partial(against_logs, NUM_STATES, num_steps, 2)


# --- NUTS -------------------------------------------------------------------------------------------------------------


def signal(num_steps, seed=0):
    """Steps of a chain of three states, whose normal emissions overlap."""
    rng = np.random.default_rng(seed)
    states = [0]
    for _ in range(num_steps - 1):
        states.append(rng.choice(NUM_STATES, p=MOVES[states[-1]]))
    return rng.normal(MEANS[states], 1.0)


def latents():
    """Priors; means in order, so that there is one mode."""
    ones = jnp.ones(NUM_STATES)
    ordered = dist.TransformedDistribution(dist.Normal(0, 3).expand([NUM_STATES]).to_event(1), OrderedTransform())
    return (
        numpyro.sample("initial", dist.Dirichlet(ones)),
        numpyro.sample("transition", dist.Dirichlet(ones).expand([NUM_STATES]).to_event(1)),
        numpyro.sample("mean", ordered),
        numpyro.sample("scale", dist.Gamma(2.0, 2.0).expand([NUM_STATES]).to_event(1)),
    )


def our_program(num_steps):
    """The generative program of rows of so many steps."""

    def program(n):
        initial, transition, mean, scale = latents()
        with numpyro.plate("rows", n):
            numpyro.sample("x", bg.HiddenMarkov(initial, transition, dist.Normal(mean, scale), num_steps))

    return bg.GenerativeProgram(program, label=None)


def their_program(steps):
    """The same in plain NumPyro."""
    initial, transition, mean, scale = latents()
    emissions, moves = dist.Normal(mean, scale).log_prob(steps[:, None]), jnp.log(transition)

    def move(logs, emission):
        return jax.nn.logsumexp(logs[:, None] + moves, 0) + emission, None

    last, _ = jax.lax.scan(move, jnp.log(initial) + emissions[0], emissions[1:])
    numpyro.factor("steps", jax.nn.logsumexp(last))


@dataclasses.dataclass(frozen=True, eq=False)
class Run:
    """Draws (chain, draw, ...) of all latents, and the seconds that they took."""

    draws: dict
    seconds: float

    @functools.cached_property
    def flat(self):
        """(chain, draw, latent)."""
        arrays = [np.asarray(self.draws[name]) for name in ("initial", "transition", "mean", "scale")]
        return np.concatenate([array.reshape(*array.shape[:2], -1) for array in arrays], axis=2)

    @functools.cached_property
    def sizes(self):
        """Bulk effective sample sizes."""
        return array_stats.ess(self.flat, chain_axis=0, draw_axis=1, method="bulk")

    @property
    def rate(self):
        """The smallest a second."""
        return float(self.sizes.min()) / self.seconds


def ours(program, steps, seed):
    """A fit from rows to draws."""
    fits, method = [], bg.NUTS(num_samples=NUM_DRAWS, num_chains=NUM_CHAINS)
    took = seconds(lambda: fits.append(bg.fit(program, {"x": steps[None]}, method=method, seed=seed, progress=False)))
    return Run(fits[0].parameters, took)


def their_runner(steps, threads):
    """Seed -> run, compiled here."""

    def chains(key):
        mcmc = MCMC(
            NUTS(their_program),
            num_warmup=NUM_WARMUP,
            num_samples=NUM_DRAWS,
            num_chains=1 if threads else NUM_CHAINS,
            chain_method="vectorized",
            progress_bar=False,
        )
        mcmc.run(key, steps)
        return mcmc.get_samples(group_by_chain=True)

    with jax.enable_x64(True):
        compiled = jax.jit(chains).lower(jax.random.key(0)).compile()

    def one(key):
        with jax.enable_x64(True):
            return jax.block_until_ready(compiled(key))

    def run(seed):
        with jax.enable_x64(True):
            key, draws = jax.random.key(seed), []
            keys = jax.random.split(key, NUM_CHAINS) if threads else [key]
        with concurrent.futures.ThreadPoolExecutor() as pool:
            took = seconds(lambda: draws.extend(pool.map(one, keys)))
        return Run(jax.tree.map(lambda *parts: np.concatenate(parts), *draws), took)

    return run


def against_numpyro(num_steps, threads, repeats):
    """Ours and plain NumPyro in turn, warm."""
    steps, program = signal(num_steps), our_program(num_steps)
    runners = []
    first = seconds(lambda: ours(program, steps, 99)), seconds(lambda: runners.append(their_runner(steps, threads)))
    with compilations() as compiled:
        pairs = rounds(lambda seed: (ours(program, steps, seed), runners[0](seed)), repeats)
    difference = max(_difference(*pair) for pair in pairs)
    notes = [f"our first call, {first[0]:.0f} s, and the peer's compilation, {first[1]:.0f} s, not counted"]
    notes += [f"WARNING: {len(compiled)} compilations in warm runs"] if compiled else []
    notes += [f"WARNING: posterior means differ by {difference:.1f} standard errors"] if difference > TOO_FAR else []
    rates = [tuple(run.rate for run in pair) for pair in pairs]
    how = "a chain a thread" if threads else "chains vectorised"
    work = f"smallest bulk ESS/s, hidden chain of {NUM_STATES} normal states, T={num_steps:,}, 4 x 1,000 draws, warm"
    peer = f"plain NumPyro, lax.scan in a factor, jitted once, {how}"
    return Row(work, Higher(3.0), *zip(*rates, strict=True), "ESS/s", peer, "; ".join(notes))


def _difference(one, other):
    """Of the posterior means, in standard errors."""
    errors = [run.flat.var(axis=(0, 1)) / run.sizes for run in (one, other)]
    shift = one.flat.mean((0, 1)) - other.flat.mean((0, 1))
    return float(np.abs(shift / np.sqrt(sum(errors))).max())


# --- gradients --------------------------------------------------------------------------------------------------------


def tables(num_states, num_steps, num_sequences):
    """Log tables of sequences of one chain."""
    rng = np.random.default_rng(0)
    moves = 0.3 * rng.dirichlet(np.ones(num_states), num_states) + 0.7 * np.eye(num_states)
    initial = rng.dirichlet(np.ones(num_states))
    return np.log(initial), np.log(moves), rng.normal(0, 3, (num_sequences, num_steps, num_states))


@jax.jit
def our_gradients(chains):
    """Of the log density of all sequences, for each of several chains of a sampler."""

    def total(initial, transition, emissions):
        return hidden_chains.log_density(initial, transition, emissions).sum()

    return jax.vmap(jax.value_and_grad(total, (0, 1, 2)))(*chains)


@jax.jit
def their_gradients(chains):
    """By differentiating a loop over logs."""

    def total(initial, transition, emissions):
        def move(logs, emission):
            return jax.nn.logsumexp(logs[:, :, None] + transition, 1) + emission, None

        last, _ = jax.lax.scan(move, initial + emissions[:, 0], jnp.swapaxes(emissions, 0, 1)[1:])
        return jax.nn.logsumexp(last, -1).sum()

    return jax.vmap(jax.value_and_grad(total, (0, 1, 2)))(*chains)


@jax.jit
def associative_gradients(chains):
    """By differentiating an associative scan: products of transfer matrices, which need not be taken in order."""

    def combine(one, other):
        product = one[0] @ other[0]
        size = product.max((-2, -1))
        return product / size[..., None, None], one[1] + other[1] + jnp.log(size)

    def total(initial, transition, emissions):
        peaks = emissions.max(-1)
        densities = jnp.exp(emissions - peaks[..., None])[0]
        matrices = jnp.exp(transition) * densities[:, None]
        matrices = matrices.at[0].set(jnp.broadcast_to(jnp.exp(initial) * densities[0], transition.shape))
        products, logs = jax.lax.associative_scan(combine, (matrices, jnp.zeros(len(matrices))))
        return jnp.log(products[-1, 0].sum()) + logs[-1] + peaks.sum()

    return jax.vmap(jax.value_and_grad(total, (0, 1, 2)))(*chains)


def against_associative(num_states, num_steps):
    """Where would an associative scan pay? One sequence, two chains of a sampler."""
    with jax.enable_x64(True):
        chains = jax.tree.map(lambda array: jnp.stack([array] * 2), tables(num_states, num_steps, 1))
        np.testing.assert_allclose(our_gradients(chains)[0], associative_gradients(chains)[0], rtol=1e-9)
        return duel(
            f"log density with gradient, S={num_states}, T={num_steps:,}, 1 sequence, 2 chains",
            Faster(),
            lambda: jax.block_until_ready(our_gradients(chains)),
            lambda: jax.block_until_ready(associative_gradients(chains)),
            "value_and_grad of lax.associative_scan",
            repeats=4 * REPEATS,
        )


def against_autodiff(num_states, num_steps, num_sequences):
    """Log densities with gradients, for two chains of a sampler at once, as NUTS asks for them."""
    with jax.enable_x64(True):
        chains = jax.tree.map(lambda array: jnp.stack([array] * 2), tables(num_states, num_steps, num_sequences))
        work = f"log density with gradient, S={num_states}, T={num_steps:,}, {num_sequences:,} sequences, 2 chains"
        return duel(
            work,
            Faster(),
            lambda: jax.block_until_ready(our_gradients(chains)),
            lambda: jax.block_until_ready(their_gradients(chains)),
            "value_and_grad of lax.scan in logs",
            repeats=4 * REPEATS,
        )


def against_logs(num_states, num_steps, num_chains):
    """The form in probabilities against the form in logs that stands behind it."""
    with jax.enable_x64(True):
        initial, moves, emissions = tables(num_states, num_steps, num_chains)
        arrays = (
            jnp.asarray(initial)[:, None], jnp.asarray(moves)[:, :, None], jnp.moveaxis(jnp.asarray(emissions), 0, -1),
            None,
        )  # fmt: skip
        in_logs = jax.jit(forward_backward_in_logs)
        return duel(
            f"expected counts, S={num_states}, T={num_steps:,}, {num_chains} chains",
            Faster(1.5),
            lambda: jax.block_until_ready(forward_backward(*arrays)),
            lambda: jax.block_until_ready(in_logs(*arrays)),
            "our own form in logs",
            repeats=4 * REPEATS,
        )
