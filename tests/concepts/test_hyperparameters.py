"""Hyperparameters with the hypotheses summed out: NUTS and MAP against quadrature on grids of plain enumerations."""

import jax
import numpy as np
import numpyro.distributions as dist
import pytest
import scipy.stats
from arviz_stats.base import array_stats
from oracles import concepts as by_loops

import bayesgen as bg
from bayesgen.concepts.examples import read_examples
from bayesgen.concepts.hypothesis_classes import ClassIndex

close = np.testing.assert_allclose
NODES, WEIGHTS = np.polynomial.legendre.leggauss(30)


def grid(low, high):
    """Nodes and weights of quadrature over an interval."""
    return low + (high - low) * (NODES + 1) / 2, WEIGHTS * (high - low) / 2


def joint(rule_weights, scales, noises, examples):
    """p(h, examples) of every hypothesis at corresponding hyperparameters, (n, H), by enumeration."""
    space = by_loops.tenenbaum(0.5, 10.0)
    sizes = np.array([len(members) for _, members, _ in space])
    held = np.array([[number in members for number in examples] for _, members, _ in space]).sum(1)
    rule = np.arange(len(space)) < 34
    rows = []
    for rule_weight, scale, noise in np.broadcast(rule_weights, scales, noises):
        lengths = np.where(rule, 0.0, sizes * np.exp(-sizes / scale))
        prior = np.where(rule, rule_weight / 34, (1 - rule_weight) * lengths / lengths.sum())
        inside, outside = (1 - noise) / sizes + noise / 100, noise / 100
        rows.append(prior * inside**held * outside ** (len(examples) - held))
    return np.array(rows)


def check(draws, nodes, density, limit=4.0):
    """Moments of draws against those of a density on nodes, in Monte Carlo standard errors."""
    density = density / density.sum()
    for power in (1, 2):
        values = draws**power
        error = values.std() / np.sqrt(array_stats.ess(values, chain_axis=0, draw_axis=1, method="mean"))
        assert abs(values.mean() - (density * nodes**power).sum()) < limit * error


def names_of(fit):
    return list(fit.model.space.names)


# --- NUTS ------------------------------------------------------------------------------------------------------


@pytest.mark.slow  # two hyperparameters are sampled in every run
def test_one_hyperparameter_against_quadrature():
    learner = bg.ConceptLearner(bg.number_game("tenenbaum", rule_weight=dist.Beta(2, 1)))
    fit = bg.fit(learner, [16, 8, 2, 64], method=bg.NUTS(), seed=3)
    nodes, weights = grid(0, 1)
    tables = joint(nodes, 10.0, 0.0, [16, 8, 2, 64])
    density = weights * scipy.stats.beta(2, 1).pdf(nodes)
    check(fit.parameters["rule_weight"], nodes, density * tables.sum(1))
    posterior = density @ tables / (density @ tables).sum()
    space = by_loops.tenenbaum(0.5, 10.0)
    order = [names_of(fit).index(name) for name, _, _ in space]
    close(fit.weights[order], posterior, atol=2e-3)
    assert fit.log_evidence is None and fit.ties == ("powers of 2",)


@pytest.fixture(scope="module")
def three():
    """Three sets that share noise and rule weight, and their quadrature on a grid of both."""
    sets = [[16, 8, 2, 64], [16, 23, 19, 20], [60]]
    learner = bg.ConceptLearner(bg.number_game("tenenbaum", rule_weight=dist.Beta(2, 1)), noise=dist.Beta(1, 9))
    fit = bg.fit(learner, sets, method=bg.NUTS(num_samples=500), seed=1)
    (shares, one), (noises, two) = grid(0, 1), grid(0, 0.6)
    shares, noises = (each.ravel() for each in np.meshgrid(shares, noises))
    weights = np.outer(two, one).ravel() * scipy.stats.beta(2, 1).pdf(shares) * scipy.stats.beta(1, 9).pdf(noises)
    tables = [joint(shares, 10.0, noises, examples) for examples in sets]
    density = weights * np.prod([table.sum(1) for table in tables], axis=0)
    return fit, shares, noises, density / density.sum(), tables


def test_two_hyperparameters_of_three_sets_against_quadrature(three):
    fit, shares, noises, density, _ = three
    check(fit.parameters["rule_weight"], shares, density)
    check(fit.parameters["noise"], noises, density)


def test_predictions_of_every_set_average_over_the_hyperparameters(three):
    fit, _, noises, density, tables = three
    answer = bg.predict(fit, range(1, 101), rule=bg.BMA())
    space = by_loops.tenenbaum(0.5, 10.0)
    inside = np.array([[number in members for number in range(1, 101)] for _, members, _ in space])
    assert answer.membership.shape == (3, 100)
    for index, table in enumerate(tables):
        posterior = table / table.sum(1, keepdims=True)
        close(answer.membership[index], density @ posterior @ inside, atol=0.01)
        drawn = (density * (1 - noises)) @ posterior / inside.sum(1)
        close(answer.next_example[index], drawn @ inside + density @ noises / 100, atol=0.003)
        close(answer.next_example[index].sum(), 1.0, rtol=1e-10)
        close(bg.predict(fit[index], [16, 60], rule=bg.BMA()).membership, answer.membership[index, [15, 59]])


def test_the_two_step_answer_takes_the_most_probable_hypothesis_and_the_mean_noise(three):
    fit, *_ = three
    answer = bg.predict(fit[0], range(1, 101), rule=bg.PlugIn())
    noise = fit.parameters["noise"].mean()
    expected = np.full(100, noise / 100)
    expected[[1, 3, 7, 15, 31, 63]] += (1 - noise) / 6
    close(answer.next_example, expected)
    assert np.flatnonzero(answer.membership).tolist() == [1, 3, 7, 15, 31, 63]


def test_the_hyperparameters_are_exported_with_chains(three):
    fit, *_ = three
    tree = fit.to_datatree()
    assert tree["posterior"]["noise"].dims == ("chain", "draw")
    close(tree["posterior"]["rule_weight"].values, fit.parameters["rule_weight"])
    assert fit.sample_stats["diverging"].shape == fit.parameters["noise"].shape
    assert fit[0].hypotheses.prior.sum() == pytest.approx(1.0)


@pytest.mark.filterwarnings("ignore::bayesgen.errors.ConvergenceWarning")  # short chains will do
def test_updating_samples_again(three):
    model, method = three[0].model, bg.NUTS(num_warmup=100, num_samples=50)
    fit = bg.fit(model, [[16, 8, 2, 64], [16, 23, 19, 20], [60]], method=method, seed=1)
    fewer = bg.fit(model, [[16, 8], [16, 23], [60]], method=method, seed=1)
    again = fewer.update([[2, 64], [19, 20], []])
    close(again.parameters["noise"], fit.parameters["noise"])
    close(again[2].weights, fit[2].weights)


def test_many_examples_do_not_underflow(three):
    fit = bg.fit(three[0].model, [[16] * 400, [60], [2]], method=three[0].method)
    assert fit[0].ties == ("16 to 16",)
    assert fit.parameters["noise"].mean() < 0.01


# --- the probability of sets of examples ------------------------------------------------------------------------


def log_evidence(learner, sets):
    """The function of the hyperparameters that is sampled, in double precision."""
    classes = ClassIndex.of(learner, read_examples(learner.space, sets).sets).classes
    return jax.jit(lambda **values: classes.log_evidence({**learner.hyperparameters, **values}))


IMPOSSIBLE = [[2, 4, 6, 8, 2, 4, 6, 8], [2, 4, 6, 8, 1, 3, 5, 7], [1, 3, 5], [1, 3, 4]]


@pytest.fixture(scope="module")
def impossible(parity):
    """A learner of which only noise explains some sets, and their log evidence with its slope in the noise."""
    learner = bg.ConceptLearner(parity, noise=dist.Uniform(0, 1))
    own = log_evidence(learner, IMPOSSIBLE)
    return learner, jax.jit(jax.value_and_grad(lambda noise: own(noise=noise)))


@pytest.mark.parametrize("noise", [0.3, 1e-75, 1e-80, 1e-150, 1e-300])
def test_no_set_underflows_beside_another(impossible, noise):
    learner, density = impossible
    exact = bg.fit(learner.at(noise=noise), IMPOSSIBLE, method=bg.Exact()).log_evidence
    with jax.enable_x64(True):
        value, slope = density(noise)
    close(value, exact, rtol=1e-12)
    if noise < 0.1:
        close(float(slope) * noise, 5.0)  # the least numbers of examples that only noise explains: 4 and 1


def test_priors_that_differ_beyond_all_numbers_do_not_underflow():
    learner = bg.ConceptLearner(bg.rectangles(5, 3, scale=dist.Gamma(2, 2)))
    sets = [[(1, 1)], [(5, 3)], [(1, 1), (2, 1)], [(1, 1), (5, 3)], [(2, 2), (2, 2)]]
    own = log_evidence(learner, sets)
    density = jax.jit(jax.value_and_grad(lambda scale: own(scale=scale)))
    for scale in (1e-2, 1e-5):
        exact = bg.fit(learner.at(scale=scale), sets, method=bg.Exact()).log_evidence
        with jax.enable_x64(True):
            value, slope = density(scale)
        close(value, exact, rtol=1e-12)
        close(slope, 15 / scale**2, rtol=1e-6)  # 1 and 14 points more than one


def test_impossible_sets_have_no_probability_and_padded_ones_do_not_count(parity):
    learner = bg.ConceptLearner(parity, noise=dist.Uniform(0, 1))
    with jax.enable_x64(True):
        assert log_evidence(learner, [[2, 4], [2, 3]])(noise=0.0) == -np.inf
        for sets in ([[2, 4], [1]], [[2, 4], [3, 5], [1, 1], [7]]):
            exact = bg.fit(learner.at(noise=0.0), sets, method=bg.Exact()).log_evidence
            close(log_evidence(learner, sets)(noise=0.0), exact, rtol=1e-12)


def test_first_and_second_derivatives_against_differences(parity):
    """Forwards, backwards, forwards twice, and forwards after backwards."""
    learner = bg.ConceptLearner(parity, noise=dist.Uniform(0, 1))
    own = log_evidence(learner, IMPOSSIBLE)

    @jax.jit
    def derivatives(noise):
        def forwards(function):
            return lambda at: jax.jvp(function, (at,), (1.0,))[1]

        density = lambda at: own(noise=at)  # noqa: E731
        first, second = forwards(density), forwards(forwards(density))
        backwards = jax.grad(density)
        return density(noise), first(noise), backwards(noise), second(noise), forwards(backwards)(noise)

    with jax.enable_x64(True):
        step = 1e-4
        below, (value, *found), above = (np.array(derivatives(noise)) for noise in (0.2 - step, 0.2, 0.2 + step))
    first, second = (above[0] - below[0]) / (2 * step), (above[0] - 2 * value + below[0]) / step**2
    close(found, [first, first, second, second], rtol=1e-5)


def test_the_average_over_draws_where_sets_underflow_beside_others(parity):
    learner = bg.ConceptLearner(parity, noise=dist.Uniform(0, 1))
    table, noises = (
        ClassIndex.of(learner, read_examples(learner.space, IMPOSSIBLE).sets),
        np.array([0.4, 1e-80, 1e-200]),
    )
    posterior, noisy = table.average({"noise": noises})
    for index, examples in enumerate(IMPOSSIBLE):
        each = [bg.fit(learner.at(noise=noise), examples, method=bg.Exact()).weights for noise in noises]
        found = np.exp(parity.structure.base) * table.by_hypothesis(index, posterior)
        close(found, np.mean(each, axis=0), rtol=1e-9, atol=1e-300)
        found = np.exp(parity.structure.base) * table.by_hypothesis(index, noisy)
        close(found, noises @ each / 3, rtol=1e-9, atol=1e-300)


# --- MAP -------------------------------------------------------------------------------------------------------


def test_the_mode_on_the_boundary_is_reported():
    learner = bg.ConceptLearner(bg.number_game("tenenbaum", rule_weight=dist.Beta(1, 1)))
    with pytest.warns(bg.BayesgenWarning, match=r"boundary: rule_weight = 1\."):
        rules = bg.fit(learner, [16, 8, 2, 64], method=bg.MAP())
    assert rules.boundary == {"rule_weight": 1.0} and rules.parameters["rule_weight"] == 1.0
    assert rules.ties == ("powers of 2",)
    with pytest.warns(bg.BayesgenWarning, match=r"boundary: rule_weight = 0\."):
        intervals = bg.fit(learner, [16, 23, 19, 20], method=bg.MAP())
    assert intervals.ties == ("16 to 23",)
    assert bg.predict(intervals, [18, 24], rule=bg.PlugIn()).membership.tolist() == [1, 0]


def test_a_mode_in_the_interior_is_that_of_a_grid():
    prior = {"rule_weight": dist.Beta(3, 2), "scale": dist.Gamma(4, 0.4)}
    learner = bg.ConceptLearner(bg.number_game("tenenbaum", **prior), noise=dist.Beta(2, 9))
    fit = bg.fit(learner, [16, 23, 19, 20], method=bg.MAP())
    assert fit.boundary == {}

    def density(rule_weight, scale, noise):
        priors = scipy.stats.beta(3, 2).pdf(rule_weight) * scipy.stats.gamma(4, scale=2.5).pdf(scale)
        return priors * scipy.stats.beta(2, 9).pdf(noise) * joint(rule_weight, scale, noise, [16, 23, 19, 20]).sum()

    found = [float(fit.parameters[name]) for name in ("rule_weight", "scale", "noise")]
    best = density(*found)
    for index, step in enumerate((1e-3, 1e-2, 1e-3)):
        for sign in (-1, 1):
            moved = [value + sign * step * (index == other) for other, value in enumerate(found)]
            assert density(*moved) < best
    assert fit.ties == bg.fit(fit.point, [16, 23, 19, 20], method=bg.MAP()).ties


@pytest.mark.parametrize("sampling", ["strong", pytest.param("weak", marks=pytest.mark.slow)])
def test_noise_alone_in_a_space_without_hyperparameters_with_negative_examples(sampling):
    space, noises = bg.number_game("murphy"), np.linspace(0.001, 0.999, 999)
    examples, labels = [16, 8, 10, 12, 64], [True, True, True, False, True]
    fit = bg.fit(bg.ConceptLearner(space, sampling, dist.Beta(2, 5)), examples, labels, method=bg.MAP())
    fixed = [bg.ConceptLearner(space, sampling, float(noise)) for noise in noises]
    logs = [bg.fit(each, examples, labels, method=bg.Exact()).log_evidence for each in fixed]
    best = noises[np.argmax(logs + scipy.stats.beta(2, 5).logpdf(noises))]
    assert abs(fit.parameters["noise"] - best) <= 0.001 and fit.boundary == {}


@pytest.fixture(scope="module")
def parity():
    return bg.HypothesisSpace.of({"even": lambda x: x % 2 == 0, "odd": lambda x: x % 2 == 1}, range(1, 11))


@pytest.mark.parametrize("first, second", [(1.0, 5e5), (1.0, 1e6), (0.5, 1e6)])
def test_a_mode_beside_a_bound_where_the_examples_are_impossible_is_no_mode_on_it(parity, first, second):
    fit = bg.fit(bg.ConceptLearner(parity, noise=dist.Beta(first, second)), [2, 4, 6, 3], method=bg.MAP())
    assert fit.boundary == {}
    # one example is noise: the density is noise^first (1 - noise)^(second - 1), but for 3 factors 1 - noise / 2
    close(fit.parameters["noise"], first / second, rtol=1e-3)


def test_an_unbounded_density_has_no_mode():
    learner = bg.ConceptLearner(bg.number_game("tenenbaum"), noise=dist.Beta(0.5, 1.0))
    with pytest.raises(bg.FitError, match="unbounded where noise is 0"):
        bg.fit(learner, [16], method=bg.MAP())


# --- what is refused -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [bg.Exact(), bg.MLE()])
def test_enumeration_refuses_distributions_by_name(method):
    space = bg.number_game("tenenbaum", rule_weight=dist.Beta(2, 1), scale=dist.Gamma(4, 0.4))
    with pytest.raises(bg.FitError, match=r"rule_weight, scale.*NUTS\(\).*MAP\(\)"):
        bg.fit(bg.ConceptLearner(space), [16], method=method)


def test_bad_hyperparameters_of_learners():
    space = bg.number_game("murphy")
    with pytest.raises(bg.ModelError, match="noise must be between 0 and 1: the support"):
        bg.ConceptLearner(space, noise=dist.HalfNormal(1.0))
    taken = bg.HypothesisSpace("a", [[True]], [1], lambda sizes, noise: -noise * sizes, noise=1.0)
    with pytest.raises(bg.ModelError, match="'noise': that name is taken"):
        bg.ConceptLearner(taken)
    one = bg.HypothesisSpace("a", [[True]], [1], lambda sizes, rate: -rate * sizes, rate=1.0)
    other = bg.HypothesisSpace("b", [[True]], [1], lambda sizes, rate: -rate * sizes, rate=2.0)
    with pytest.raises(bg.ModelError, match="'rate' is given twice"):
        bg.HypothesisSpace.union([(1, one), (1, other)])
