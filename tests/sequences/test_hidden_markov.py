"""Hidden Markov models as distributions: densities by enumeration of paths, samples, shapes, supports, statistics."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import scipy.stats
from numpyro import handlers
from numpyro.infer import Predictive
from scipy.special import logsumexp

from bayesgen.errors import ModelError
from bayesgen.sequences import HiddenMarkov, HiddenMarkovLikelihood, MarkovChain
from bayesgen.statistics import read_conditional


@pytest.fixture(autouse=True)
def _double():
    with jax.enable_x64(True):
        yield


def tables(num_states, batch=(), seed=0):
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.ones(num_states), batch), rng.dirichlet(np.ones(num_states), (*batch, num_states))


def over_paths(initial, transition, of_steps):
    """Log density of one sequence: the sum over all paths of their probability and of the densities (T, S) of steps."""
    num_steps, num_states = of_steps.shape
    terms = []
    for path in itertools.product(range(num_states), repeat=num_steps):
        term = sum(of_steps[step, state] for step, state in enumerate(path))
        term += sum(np.log(transition[before, after]) for before, after in itertools.pairwise(path))
        terms.append(term + (np.log(initial[path[0]]) if path else 0.0))
    return logsumexp(terms)


LOC, SCALE = np.array([-1.0, 0.5, 3.0]), np.array([0.7, 1.1, 0.4])
RATE = np.array([0.5, 2.0, 9.0])
MEANS = np.random.default_rng(1).normal(0, 2, (3, 2))
FACTORS = np.linalg.cholesky(np.array([np.eye(2) * 0.5 + 0.3, np.eye(2), [[2.0, -0.8], [-0.8, 1.0]]]))
PROBS = np.random.default_rng(2).dirichlet(np.ones(4), 3)
NUMBERS = np.array([0.3, -1.2, 2.9, 3.3])
PAIRS = np.array([[0.3, 1.0], [-1.2, 0.0], [2.9, -2.0], [0.1, 0.2]])
COVARIANCES = FACTORS @ FACTORS.swapaxes(1, 2)


@functools.cache
def cases():
    """Emissions, four steps, and the log densities of these in three states by SciPy."""
    return {
        "normal": (dist.Normal(LOC, SCALE), NUMBERS, scipy.stats.norm.logpdf(NUMBERS[:, None], LOC, SCALE)),
        "poisson": (dist.Poisson(RATE), np.array([0, 3, 8, 1]), scipy.stats.poisson.logpmf([[0], [3], [8], [1]], RATE)),
        "categorical": (dist.Categorical(PROBS), np.array([3, 0, 2, 2]), np.log(PROBS.T[[3, 0, 2, 2]])),
        "joint normal": (
            dist.MultivariateNormal(MEANS, scale_tril=FACTORS),
            PAIRS,
            np.array(
                [
                    [scipy.stats.multivariate_normal.logpdf(pair, *of) for of in zip(MEANS, COVARIANCES, strict=True)]
                    for pair in PAIRS
                ]
            ),
        ),
        "columns": (
            dist.Normal(MEANS, 1.3).to_event(1),
            PAIRS,
            scipy.stats.norm.logpdf(PAIRS[:, None], MEANS, 1.3).sum(-1),
        ),
        "student": (dist.StudentT(4.0, LOC, 1.0), NUMBERS, scipy.stats.t.logpdf(NUMBERS[:, None], 4.0, LOC)),
        "masked": (
            dist.Normal(LOC, SCALE).mask(np.array([True, False, True])),
            NUMBERS,
            scipy.stats.norm.logpdf(NUMBERS[:, None], LOC, SCALE) * [1, 0, 1],
        ),
        "expanded": (
            dist.Normal(0.5, 2.0).expand([3]),
            NUMBERS,
            np.repeat(scipy.stats.norm.logpdf(NUMBERS, 0.5, 2.0)[:, None], 3, 1),
        ),
    }


def often(*names, slow=()):
    """Cases of every run, and those of long ones."""
    return pytest.mark.parametrize("name", [*names, *(pytest.param(name, marks=pytest.mark.slow) for name in slow)])


@jax.jit
def log_prob_of_rows(density, rows, observed):
    """The densities of rows, compiled as a whole."""
    return density.log_prob(rows, observed)


@often("categorical", slow=("joint normal", "masked", "normal", "poisson", "columns", "student", "expanded"))
def test_log_densities_are_sums_over_all_paths_whatever_the_emissions(name):
    emissions, steps, of_steps = cases()[name]
    initial, transition = tables(3)
    model = HiddenMarkov(initial, transition, emissions, 4, validate_args=True)
    expected = over_paths(initial, transition, of_steps)
    np.testing.assert_allclose(model.log_prob(steps), expected, rtol=1e-10)
    conditional = read_conditional(model, -1) if name != "masked" else None
    if name in ("student", "masked"):
        assert conditional is None
    else:
        read = read_conditional(model.expand([1]), -1)
        assert isinstance(read.likelihood, HiddenMarkovLikelihood)
        found = log_prob_of_rows(read.likelihood.density(read.parameters), np.stack([steps, steps[::-1]]), None)
        np.testing.assert_allclose(found[0, 0], expected, rtol=1e-10)
        np.testing.assert_allclose(found[1, 0], over_paths(initial, transition, of_steps[::-1]), rtol=1e-10)


@often("columns", slow=("normal", "joint normal", "student"))
def test_steps_that_are_not_seen_have_factor_one_and_values_may_have_any_number_of_steps(name):
    emissions, steps, of_steps = cases()[name]
    initial, transition = tables(3)
    model = HiddenMarkov(initial, transition, emissions, 4)
    gaps = steps.astype(float).copy()
    gaps[[1, 2]] = np.nan
    of_gaps = np.where(np.isin(np.arange(4), [1, 2])[:, None], 0.0, of_steps)
    expected = over_paths(initial, transition, of_gaps)
    np.testing.assert_allclose(model.log_prob(gaps), expected, rtol=1e-10)
    longer = np.concatenate([gaps, np.full((3, *gaps.shape[1:]), np.nan)])
    np.testing.assert_allclose(model.log_prob(longer), expected, rtol=1e-10)
    assert model.log_prob(np.full((2, *gaps.shape[1:]), np.nan)) == model.log_prob(gaps[:0]) == 0
    gradient = jax.grad(lambda mean: HiddenMarkov(initial, transition, dist.Normal(mean, 1.0)).log_prob(NUMBERS))(LOC)
    assert np.isfinite(gradient).all()


def test_joint_normal_steps_may_be_seen_in_part():
    emissions, pairs, _ = cases()["joint normal"]
    initial, transition = tables(3)
    partly = pairs.copy()
    partly[0, 1] = partly[2, 0] = partly[3] = np.nan
    variances = np.diagonal(COVARIANCES, axis1=1, axis2=2)
    of_steps = cases()["joint normal"][2].copy()
    of_steps[0] = scipy.stats.norm.logpdf(pairs[0, 0], MEANS[:, 0], np.sqrt(variances[:, 0]))
    of_steps[2] = scipy.stats.norm.logpdf(pairs[2, 1], MEANS[:, 1], np.sqrt(variances[:, 1]))
    of_steps[3] = 0
    model, expected = HiddenMarkov(initial, transition, emissions), over_paths(initial, transition, of_steps)
    np.testing.assert_allclose(model.log_prob(partly), expected, rtol=1e-10)
    read = read_conditional(model.expand([1]), -1)
    rows = np.where(np.isnan(partly), 7.0, partly)[None]
    table = log_prob_of_rows(read.likelihood.density(read.parameters), rows, ~np.isnan(partly)[None])
    np.testing.assert_allclose(table, [[expected]], rtol=1e-10)


@pytest.mark.slow
def test_symbols_end_where_padding_begins_and_may_be_missing_before():
    initial, transition = tables(3)
    model, table = HiddenMarkov(initial, transition, dist.Categorical(PROBS), 4), np.log(PROBS.T)
    for codes, length in (([2, 0, -1, -1], 2), ([-1, -1], 0), ([3, 3, 3], 3)):
        expected = over_paths(initial, transition, table[codes[:length]])
        np.testing.assert_allclose(model.log_prob(np.array(codes)), expected, rtol=1e-10, atol=1e-15)
    missing = np.array([[2, 0, 1, -1]]), np.array([[True, False, True, True]])
    expected = over_paths(initial, transition, table[[2, 0, 1]] * [[1], [0], [1]])
    np.testing.assert_allclose(model.log_prob_of_cells(*map(jnp.asarray, missing)), [expected], rtol=1e-10)
    read = read_conditional(model.expand([1]), -1)
    np.testing.assert_allclose(read.likelihood.density(read.parameters).log_prob(*missing), [[expected]], rtol=1e-10)


def test_batches_of_parameters_and_of_values_broadcast():
    initial, transition = tables(3, (2,), seed=3)
    emissions = dist.Normal(np.stack([LOC, LOC + 1]), 0.8)
    model = HiddenMarkov(initial, transition, emissions, np.array([[4], [2], [0]]))
    assert model.batch_shape == (3, 2) and model.event_shape == (4,)
    values = np.random.default_rng(4).normal(size=(5, 1, 2, 4))
    table = np.asarray(model.log_prob(values))
    assert table.shape == (5, 3, 2)
    for row, of_class in np.ndindex(5, 2):
        one = HiddenMarkov(initial[of_class], transition[of_class], dist.Normal(LOC + of_class, 0.8))
        np.testing.assert_allclose(table[row, :, of_class], one.log_prob(values[row, 0, of_class]), rtol=1e-12)
    of_one = np.asarray(model.log_prob(values[0, 0, 0]))
    np.testing.assert_allclose(of_one[0], [table[0, 0, 0], of_one[0, 1]])


@pytest.mark.slow
def test_samples_have_the_lengths_and_the_probabilities_of_the_density():
    """All sequences of two symbols and three steps, and their frequencies."""
    initial, transition = tables(2, seed=5)
    model = HiddenMarkov(initial, transition, dist.Categorical(np.array([[0.9, 0.1], [0.3, 0.7]])), np.array([3, 2]))
    draws = np.asarray(model.sample(jax.random.key(0), (40_000,)))
    assert draws.shape == (40_000, 2, 3) and draws.dtype.kind == "i"
    assert (draws[:, 1, 2] == -1).all() and (draws[:, 0] >= 0).all()
    for index, length in enumerate((3, 2)):
        words = np.array(list(itertools.product(range(2), repeat=length)))
        padded = np.pad(words, ((0, 0), (0, 3 - length)), constant_values=-1)
        probabilities = np.exp(model.log_prob(padded[:, None])[:, 0])
        codes = draws[:, index, :length] @ 2 ** np.arange(length)[::-1]
        share = np.bincount(codes, minlength=2**length) / len(draws)
        np.testing.assert_allclose(share, probabilities, atol=4 * 0.5 / 200)
        np.testing.assert_allclose(probabilities.sum(), 1, rtol=1e-12)


@pytest.mark.slow
def test_samples_of_vectors_by_class_are_moments_of_their_states():
    initial, transition = np.array([1.0, 0.0]), np.array([[0.0, 1.0], [1.0, 0.0]])
    means = np.array([[[0.0, 1.0], [5.0, 6.0]], [[-3.0, 0.0], [2.0, 9.0]], [[1.0, 1.0], [7.0, 7.0]]])
    model = HiddenMarkov(initial, transition, dist.Normal(means, 0.1).to_event(1), 3)
    draws = np.asarray(model.sample(jax.random.key(1), (400,)))
    assert draws.shape == (400, 3, 3, 2)
    np.testing.assert_allclose(draws.mean(0), means[:, [0, 1, 0]], atol=0.03)
    ragged = HiddenMarkov(initial, transition, dist.Poisson(np.array([1.0, 9.0])), np.array([2, 0])).sample(
        jax.random.key(2)
    )
    np.testing.assert_array_equal(np.isnan(ragged), [[False, False], [True, True]])


def test_supports_hold_what_the_emissions_of_some_state_can_make():
    initial, transition = tables(2)
    counts = HiddenMarkov(initial, transition, dist.Poisson(np.array([1.0, 2.0])), 3).support
    rows = np.array([[1.0, np.nan, 2.0], [0.0, -1.0, 2.0], [1.0, 0.5, 1.0]])
    assert counts(rows).tolist() == [True, False, False]
    assert not counts.is_discrete and counts.event_dim == 1
    bounded = HiddenMarkov(initial, transition, dist.Uniform(np.array([0.0, 2.0]), np.array([1.0, 4.0])), 3).support
    assert bounded(np.array([[0.5, 3.0, 3.9], [0.5, 1.5, 3.0]])).tolist() == [True, False]
    shares = HiddenMarkov(initial, transition, dist.Dirichlet(np.ones((2, 3))), 2).support
    rows = np.array([[[0.2, 0.3, 0.5], [np.nan] * 3], [[0.2, 0.3, 0.5], [np.nan, 0.5, 0.5]]])
    assert shares(rows).tolist() == [True, False] and shares.event_dim == 2
    symbols = HiddenMarkov(initial, transition, dist.Categorical(np.full((2, 3), 1 / 3)), 3).support
    assert symbols(np.array([[0, 2, -1], [0, 3, -1], [-1, 0, 0]])).tolist() == [True, False, False]


def test_states_of_which_some_cannot_make_a_step_have_no_part_in_it():
    initial, transition = tables(2)
    low, high, steps = np.array([0.0, 1.0]), np.array([2.0, 3.0]), np.array([0.5, 1.5, 2.5, np.nan])
    model = HiddenMarkov(initial, transition, dist.Uniform(low, high), 4)
    of_steps = np.array([[0.5, 0.0], [0.5, 0.5], [0.0, 0.5], [1.0, 1.0]])
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(model.log_prob(steps), over_paths(initial, transition, np.log(of_steps)), rtol=1e-12)
    pairs = HiddenMarkov(initial, transition, dist.Uniform(low[:, None], high[:, None]).expand([2, 2]).to_event(1), 4)
    both = np.stack([steps, np.where(np.isnan(steps), np.nan, 1.5)], -1)
    np.testing.assert_allclose(pairs.log_prob(both), model.log_prob(steps) + 3 * np.log(0.5), rtol=1e-12)


def test_steps_of_several_symbols_are_numbers_that_have_densities():
    initial, transition = tables(2)
    probs = np.random.default_rng(3).dirichlet(np.ones(4), (2, 3))
    model = HiddenMarkov(initial, transition, dist.Categorical(probs).to_event(1), 2)
    steps = model.sample(jax.random.key(0))
    of_steps = np.log([[probs[state, range(3), step].prod() for state in range(2)] for step in steps.astype(int)])
    np.testing.assert_allclose(model.log_prob(steps), over_paths(initial, transition, of_steps), rtol=1e-12)


def test_it_is_a_pytree_that_maps_and_compiles():
    initial, transition = tables(3, (4,), seed=6)
    values = np.random.default_rng(7).normal(size=(4, 5))
    model = HiddenMarkov(initial, transition, dist.Normal(np.tile(LOC, (4, 1)), 1.0), 5)
    again = jax.tree.unflatten(jax.tree.structure(model), jax.tree.leaves(model))
    table = jax.jit(lambda model, values: model.log_prob(values))(again, values)
    np.testing.assert_allclose(table, model.log_prob(values), rtol=1e-12)

    def of_one(initial, transition, loc, row):
        return HiddenMarkov(initial, transition, dist.Normal(loc, 1.0)).log_prob(row)

    mapped = jax.jit(jax.vmap(of_one))(initial, transition, np.tile(LOC, (4, 1)), values)
    np.testing.assert_allclose(mapped, table, rtol=1e-12)


def test_numpyro_draws_and_conditions_programs_with_it():
    initial, transition = tables(2, (3,), seed=8)

    def program():
        with numpyro.plate("rows", 6):
            y = numpyro.sample("y", dist.Categorical(np.full(3, 1 / 3)))
            loc = jnp.stack([y.astype(float), y + 5.0], -1)
            numpyro.sample(
                "x", HiddenMarkov(jnp.asarray(initial)[y], jnp.asarray(transition)[y], dist.Normal(loc, 1.0), 7)
            )

    def log_prob(x):
        site = handlers.trace(handlers.condition(handlers.seed(program, 0), {"x": x})).get_trace()["x"]
        return site["fn"].log_prob(site["value"])

    draws = np.asarray(jax.jit(Predictive(program, num_samples=2))(jax.random.key(0))["x"])
    assert draws.shape == (2, 6, 7)
    assert np.isfinite(jax.jit(log_prob)(draws[0])).all()


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (((3,), (3, 3), ()), "emissions have none"),
        (((3,), (3, 2), (3,)), "do not tell"),
        (((2,), (3, 3), (3,)), "do not"),
        (((), (3, 3), (3,)), "do not"),
    ],
)
def test_shapes_of_no_number_of_states_are_refused(shapes, message):
    initial, transition, emissions = (np.ones(shape) for shape in shapes)
    with pytest.raises(ModelError, match=message):
        HiddenMarkov(initial, transition, dist.Normal(emissions, 1.0), 4)


@pytest.mark.parametrize(
    ("emissions", "symbols", "message"),
    [
        (np.ones((3, 2)), None, "NumPyro distribution"),
        (MarkovChain(np.ones((3, 2)) / 2, np.ones((3, 2, 2)) / 2, 4), None, "MarkovChain makes whole sequences"),
        (dist.Categorical(PROBS), "ab", "2 symbols, and emissions have 4"),
        (dist.Normal(LOC, SCALE), "ab", "got Normal"),
    ],
)
def test_emissions_that_make_no_steps_and_symbols_of_no_codes_are_refused(emissions, symbols, message):
    with pytest.raises(ModelError, match=message):
        HiddenMarkov(*tables(3), emissions, 4, symbols=symbols)


def test_long_sequences_are_products_of_predictions_one_step_ahead():
    """log p(x_1..x_T) is the sum of log p(x_t | x_1..x_(t-1)), by filtering in plain NumPy."""
    initial, transition = tables(3, seed=9)
    model = HiddenMarkov(initial, transition, dist.Normal(LOC, SCALE), 3_000)
    rng = np.random.default_rng(3)
    values = rng.normal(rng.choice(LOC, 3_000), 0.4)
    total, state = 0.0, initial
    for value in values:
        joint = state * scipy.stats.norm.pdf(value, LOC, SCALE)
        total += np.log(joint.sum())
        state = joint / joint.sum() @ transition
    np.testing.assert_allclose(model.log_prob(values), total, rtol=1e-11)


@pytest.mark.slow
def test_probabilities_of_zero_are_minus_infinity_and_leave_gradients_numbers():
    def log_prob(probs, loc):
        transition = jnp.stack([jnp.stack([1 - probs, probs]), jnp.array([0.0, 1.0])])
        model = HiddenMarkov(jnp.array([1.0, 0.0]), transition, dist.Categorical(probs=loc))
        return model.log_prob(jnp.array([0, 1, 0]))

    impossible = jnp.array([[1.0, 0.0], [0.0, 1.0]])
    value, gradient = jax.value_and_grad(log_prob, (0, 1))(0.3, impossible)
    assert value == -jnp.inf and all(np.isfinite(leaf).all() for leaf in gradient)
    value, gradient = jax.value_and_grad(log_prob)(0.0, jnp.array([[0.5, 0.5], [0.2, 0.8]]))
    np.testing.assert_allclose(value, 3 * np.log(0.5))
    assert np.isfinite(gradient)
