"""Hidden states of a fit: at one process and averaged over draws, against sums over all paths."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest
import scipy.special
import scipy.stats

import bayesgen as bg
from bayesgen.fitting import prepare
from bayesgen.posteriors import Draws, Point
from bayesgen.prediction import hidden_states
from bayesgen.program import ratio_of_batches
from bayesgen.sequences import HiddenMarkovLikelihood
from bayesgen.statistics import CategoricalLikelihood

NUM_STATES, NUM_SYMBOLS, NUM_CLASSES, NUM_STEPS = 3, 5, 2, 4
close = np.testing.assert_allclose


def symbols(n):
    """Symbols of one hidden chain."""
    initial = numpyro.sample("initial", dist.Dirichlet(np.ones(NUM_STATES)))
    transition = numpyro.sample("transition", dist.Dirichlet(np.ones((NUM_STATES, NUM_STATES))).to_event(1))
    probs = numpyro.sample("probs", dist.Dirichlet(np.ones((NUM_STATES, NUM_SYMBOLS))).to_event(1))
    with numpyro.plate("rows", n):
        numpyro.sample("x", bg.HiddenMarkov(initial, transition, dist.Categorical(probs), NUM_STEPS))


def signals(n):
    """Numbers of a hidden chain for each class."""
    shares = numpyro.sample("shares", dist.Dirichlet(np.ones(NUM_CLASSES)))
    transition = numpyro.sample(
        "transition", dist.Dirichlet(np.ones((NUM_CLASSES, NUM_STATES, NUM_STATES))).to_event(2)
    )
    mean = numpyro.sample("mean", dist.Normal(0, 3).expand([NUM_CLASSES, NUM_STATES]).to_event(2))
    with numpyro.plate("rows", n):
        y = numpyro.sample("y", dist.Categorical(shares))
        initial = np.full(NUM_STATES, 1 / NUM_STATES)
        numpyro.sample("x", bg.HiddenMarkov(initial, transition[y], dist.Normal(mean[y], 0.8), NUM_STEPS))


WORDS = [[0, 4, 4, 1], [2], [], [3, None, 0], [1, 1, 2, 2], [None, None, 4]]
PADDED = np.array(
    [[*map(float, (np.nan if s is None else s for s in word)), *[-1.0] * (4 - len(word))] for word in WORDS]
)
NUMBERS = np.array(
    [[0.1, -2.0, 3.0, 3.1], [1.0, np.nan, 0.5, -4.0], [2.0, 2.2, np.nan, np.nan], [-1.0, 0.3, 2.5, np.nan]]
)


def enumerated(initial, transition, log_emissions):
    """Smoothed probabilities, the best path and p(x), by the sum over all paths."""
    num_steps = len(log_emissions)
    joint = {}
    for path in itertools.product(range(NUM_STATES), repeat=num_steps):
        probability = 1.0
        for step, state in enumerate(path):
            probability *= initial[state] if step == 0 else transition[path[step - 1], state]
            probability *= np.exp(log_emissions[step][state])
        joint[path] = probability
    total = sum(joint.values())
    smoothed = np.zeros((num_steps, NUM_STATES))
    for path, probability in joint.items():
        smoothed[np.arange(num_steps), list(path)] += probability / total
    return smoothed, np.asarray(max(joint, key=joint.get)), total


def emissions_of_word(probs, word):
    return [np.zeros(NUM_STATES) if symbol is None else np.log(probs[:, symbol]) for symbol in word]


def emissions_of_numbers(mean, row):
    return [np.zeros(NUM_STATES) if np.isnan(x) else scipy.stats.norm.logpdf(x, mean, 0.8) for x in row]


def with_draws(fit, num_chains=2, num_draws=12, seed=0):
    """The fit with draws around its point in place of it."""
    rng = np.random.default_rng(seed)
    shape = (num_chains, num_draws)
    latents = {}
    for name, value in fit.parameters.items():
        if name == "mean":
            latents[name] = value + 0.3 * rng.standard_normal((*shape, *value.shape))
        else:
            gammas = rng.standard_gamma(np.broadcast_to(20 * value + 1, (*shape, *value.shape)))
            latents[name] = gammas / gammas.sum(-1, keepdims=True)
    stats = {"potential_energy": rng.standard_normal(shape), "diverging": np.zeros(shape, bool)}
    return dataclasses.replace(fit, posterior=Draws(fit.program, latents, latents, stats))


def flat(draws):
    return {name: value.reshape(-1, *value.shape[2:]) for name, value in draws.posterior.latents.items()}


def at_point(function, X, y=None, *, seed, **program_arguments):
    """A fit that holds a process of the prior, without a search."""
    program = bg.GenerativeProgram(function, **program_arguments)
    rng = np.random.default_rng(seed)
    shapes = {"initial": (NUM_STATES,), "probs": (NUM_STATES, NUM_SYMBOLS), "shares": (NUM_CLASSES,)}
    by_class = (NUM_CLASSES,) if program.classes else ()
    shapes["transition"] = (*by_class, NUM_STATES, NUM_STATES)
    values = {name: rng.dirichlet(np.ones(shape[-1]), shape[:-1]) for name, shape in shapes.items()}
    values["mean"] = np.array([[-3.0, 0.0, 3.0], [4.0, 1.0, -2.0]])
    point = Point(program, {name: values[name] for name in program.latents})
    return prepare(program, X, y).result(bg.MAP(), point)


@pytest.fixture(scope="module")
def words():
    return at_point(symbols, {"x": [[0, 1, 0, 1]]}, seed=0, label=None)


@pytest.fixture(scope="module")
def numbers():
    return at_point(
        signals, {"x": NUMBERS}, ["calm", "wild", "calm", "wild"], seed=1, label="y", classes=["calm", "wild"]
    )


def test_plug_in_smooths_and_finds_the_best_path_as_the_sum_over_paths_does(words):
    found = words.states({"x": PADDED}, rule=bg.PlugIn())
    initial, transition, probs = (words.parameters[name] for name in ("initial", "transition", "probs"))
    assert found.probabilities.shape == (len(WORDS), NUM_STEPS, NUM_STATES)
    assert found.lengths.tolist() == [len(word) for word in WORDS]
    for row, word in enumerate(WORDS):
        smoothed, path, total = enumerated(initial, transition, emissions_of_word(probs, word))
        close(found.probabilities[row, : len(word)], smoothed, atol=1e-12)
        assert found.paths[row, : len(word)].tolist() == path.tolist()
        assert np.isnan(found.probabilities[row, len(word) :]).all() and (found.paths[row, len(word) :] == -1).all()
        assert found.log_marginal[row] == pytest.approx(np.log(total))


def test_each_class_has_states_of_its_own(numbers):
    found = numbers.states({"x": NUMBERS}, rule=bg.PlugIn())
    assert found.probabilities.shape == (len(NUMBERS), NUM_CLASSES, NUM_STEPS, NUM_STATES)
    assert found.classes.tolist() == ["calm", "wild"]
    for k in range(NUM_CLASSES):
        transition, mean = numbers.parameters["transition"][k], numbers.parameters["mean"][k]
        for row, x in enumerate(NUMBERS):
            smoothed, path, _ = enumerated(np.full(NUM_STATES, 1 / 3), transition, emissions_of_numbers(mean, x))
            close(found.probabilities[row, k], smoothed, atol=1e-12)
            assert found.paths[row, k].tolist() == path.tolist()
    close(found.log_marginal, bg.predict(numbers, {"x": NUMBERS}, rule=bg.PlugIn()).log_marginal)


def test_the_best_path_ends_where_its_sequence_does(numbers):
    """Going on over steps past the end, a maximum would prefer states that last; over missing steps it has to go on."""
    lasting = np.array([[0.4, 0.3, 0.3], [0.3, 0.4, 0.3], [0.01, 0.01, 0.98]])
    values = {
        **numbers.parameters,
        "transition": np.stack([lasting, lasting]),
        "mean": np.tile([0.0, 2.0, 1.1], (2, 1)),
    }
    fit = dataclasses.replace(numbers, posterior=dataclasses.replace(numbers.posterior, values=values))
    rows = [[0.2], [0.2, None, None], [1.9, 0.1], [0.1, 1.8, 0.3, 2.2]]
    cells = np.empty(len(rows), object)
    cells[:] = rows
    found = fit.states({"x": cells}, rule=bg.PlugIn())
    for row, x in enumerate(rows):
        emissions = emissions_of_numbers(values["mean"][0], [np.nan if step is None else step for step in x])
        smoothed, path, _ = enumerated(np.full(NUM_STATES, 1 / 3), lasting, emissions)
        assert found.paths[row, 0].tolist() == [*path, *[-1] * (NUM_STEPS - len(x))]
        close(found.probabilities[row, 0, : len(x)], smoothed, atol=1e-12)


def averaged_by_hand(draws, row, k, weighs):
    """The average over draws of the states of one row under one class, and its Monte Carlo error."""
    tables, weights = [], []
    for shares, transition, mean in zip(*(flat(draws)[name] for name in ("shares", "transition", "mean")), strict=True):
        smoothed, _, total = enumerated(np.full(NUM_STATES, 1 / 3), transition[k], emissions_of_numbers(mean[k], row))
        tables.append(smoothed)
        weights.append(shares[k] * total if weighs else 1.0)
    weights = np.asarray(weights) / np.sum(weights)
    terms = weights[:, None, None] * np.asarray(tables)
    return terms.sum(0), ratio_of_batches(terms, weights[:, None, None])[1]


@pytest.mark.parametrize(("rule", "weighs"), [(bg.BMA(), True), (bg.ConditionalAverage(), False)])
@pytest.mark.filterwarnings("ignore::bayesgen.ConvergenceWarning")  # few draws
def test_draws_are_averaged_each_by_what_it_makes_of_the_row(numbers, rule, weighs):
    draws = with_draws(numbers)
    found = draws.states({"x": NUMBERS}, rule=rule)
    assert found.paths is None and found.reordered == 0.0
    for row, x in enumerate(NUMBERS):
        for k in range(NUM_CLASSES):
            expected, error = averaged_by_hand(draws, x, k, weighs)
            close(found.probabilities[row, k], expected, atol=1e-10)
            if not weighs:  # by BMA, few effective draws raise the error
                close(found.standard_error[row, k], error, rtol=1e-6, atol=1e-10)
    close(found.log_marginal, bg.predict(draws, {"x": NUMBERS}, rule=rule).log_marginal)


def in_other_orders(draws, rng):
    """The draws with the states of some of them called by other names: the same processes."""
    latents = {name: value.copy() for name, value in draws.posterior.latents.items()}
    for place in np.ndindex(*latents["shares"].shape[:2]):
        if rng.random() < 0.5:
            for k in range(NUM_CLASSES):
                order = rng.permutation(NUM_STATES)
                latents["transition"][place][k] = latents["transition"][place][k][np.ix_(order, order)]
                latents["mean"][place][k] = latents["mean"][place][k][order]
    return dataclasses.replace(draws, posterior=dataclasses.replace(draws.posterior, latents=latents, values=latents))


@pytest.mark.filterwarnings("ignore::bayesgen.ConvergenceWarning")
def test_states_of_draws_are_put_in_one_order(numbers):
    draws = with_draws(numbers, seed=1)
    draws.posterior.sample_stats["potential_energy"][0, 0] = -9.0
    shuffled = in_other_orders(draws, np.random.default_rng(1))
    for name in ("transition", "mean"):  # those of the draw of highest density have the names
        shuffled.posterior.latents[name][0, 0] = draws.posterior.latents[name][0, 0]
    expected = draws.states({"x": NUMBERS}, rule=bg.BMA())
    found = shuffled.states({"x": NUMBERS}, rule=bg.BMA())
    assert expected.reordered == 0.0 and 0.2 < found.reordered < 0.8
    close(found.probabilities, expected.probabilities, atol=1e-12)
    with pytest.warns(bg.LabelSwitchingWarning, match="another order"):
        shuffled.states({"x": NUMBERS}, rule=bg.PlugIn())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::bayesgen.ConvergenceWarning", "ignore::bayesgen.LabelSwitchingWarning")
def test_states_of_draws_are_told_apart_on_few_steps_however_long_sequences_are(monkeypatch):
    model = bg.NaiveBayes({"word": bg.DirichletHiddenMarkov(2, bg.DirichletCategorical())}, class_prior=None)
    words = {"word": np.array(["abab", "ba"], object)}
    fit = bg.fit(model, words, method=bg.NUTS(num_warmup=10, num_samples=10, num_chains=1))
    shapes, plain = [], hidden_states.log_states_of_draws

    def noted(program, latents, made, site, places):
        shapes.append(made.values[site].shape)
        return plain(program, latents, made, site, places)

    monkeypatch.setattr(hidden_states, "log_states_of_draws", noted)
    found = fit.states({"word": np.array(["ab" * 1000], object)}, rule=bg.PlugIn())
    assert found.probabilities.shape == (1, 2000, 2)
    assert shapes == [(hidden_states.MATCHED_ROWS // hidden_states.SIMULATED_STEPS, hidden_states.SIMULATED_STEPS)]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::bayesgen.ConvergenceWarning")
def test_the_order_of_states_does_not_hang_on_the_rows_that_are_asked_for():
    words = {"word": np.array(["abbb", "aab", "ba", "bbab"], object)}
    family = bg.DirichletHiddenMarkov(2, bg.DirichletCategorical(1.5), 1.3)
    fit = bg.fit(bg.NaiveBayes({"word": family}, class_prior=None), words, method=bg.MAP(num_starts=1))
    draws = with_draws(fit)
    alone, beside = (
        draws.states({"word": np.array(cells, object)}, rule=bg.BMA()) for cells in (["a"], ["a", "ab" * 30])
    )
    assert 0 < alone.reordered == beside.reordered
    close(alone.probabilities[0, :1], beside.probabilities[0, :1], rtol=1e-9)


def left_right(n):
    """A chain that begins in state 0 and goes on: states have names."""
    probs = numpyro.sample("probs", dist.Dirichlet(np.ones((NUM_STATES, NUM_SYMBOLS))).to_event(1))
    stay = numpyro.sample("stay", dist.Beta(1, 1).expand([NUM_STATES - 1]).to_event(1))
    transition = jnp.diag(jnp.append(stay, 1.0)) + jnp.diag(1 - stay, 1)
    with numpyro.plate("rows", n):
        numpyro.sample("x", bg.HiddenMarkov(np.eye(NUM_STATES)[0], transition, dist.Categorical(probs), NUM_STEPS))


def uneven(n):
    """A chain whose states have the same form, and other priors of what they emit."""
    transition = numpyro.sample("transition", dist.Dirichlet(np.ones((NUM_STATES, NUM_STATES))).to_event(1))
    mean = numpyro.sample("mean", dist.Normal(np.arange(NUM_STATES), 3.0).to_event(1))
    with numpyro.plate("rows", n):
        initial = np.full(NUM_STATES, 1 / NUM_STATES)
        numpyro.sample("x", bg.HiddenMarkov(initial, transition, dist.Normal(mean, 0.8), NUM_STEPS))


def simplices(rng, *shape):
    return rng.dirichlet(np.ones(shape[-1]), shape[:-1])


def prior_draws(function, X, num_draws=24):
    """A fit whose draws, in two chains, are those of the prior."""
    program, rng = bg.GenerativeProgram(function, label=None), np.random.default_rng(0)
    shape = (2, num_draws // 2)
    priors = {
        "probs": lambda: simplices(rng, *shape, NUM_STATES, NUM_SYMBOLS),
        "stay": lambda: rng.random((*shape, NUM_STATES - 1)),
        "transition": lambda: simplices(rng, *shape, NUM_STATES, NUM_STATES),
        "mean": lambda: rng.normal(np.arange(NUM_STATES), 3.0, (*shape, NUM_STATES)),
    }
    latents = {name: priors[name]() for name in program.latents}
    stats = {"potential_energy": rng.standard_normal(shape), "diverging": np.zeros(shape, bool)}
    fit = prepare(program, X).result(bg.MAP(), Point(program, {name: v[0, 0] for name, v in latents.items()}))
    return dataclasses.replace(fit, posterior=Draws(program, latents, latents, stats))


@pytest.mark.parametrize(
    "function", [left_right, *(pytest.param(other, marks=pytest.mark.slow) for other in (symbols, uneven))]
)
def test_no_latent_of_a_hidden_chain_has_a_closed_form(function):
    assert bg.GenerativeProgram(function, label=None).elimination.names == ()


@pytest.mark.filterwarnings("ignore::bayesgen.ConvergenceWarning")
def test_states_that_have_names_keep_them():
    found = prior_draws(left_right, {"x": PADDED}).states({"x": PADDED[:2]}, rule=bg.ConditionalAverage())
    assert found.reordered == 0.0
    close(found.probabilities[:, 0], np.broadcast_to(np.eye(NUM_STATES)[0], (2, NUM_STATES)), atol=1e-12)


@pytest.mark.slow  # states that only some of which may come first are in every run
@pytest.mark.filterwarnings("ignore::bayesgen.ConvergenceWarning")
def test_states_that_have_priors_of_their_own_keep_their_names():
    draws = prior_draws(uneven, {"x": NUMBERS})
    assert draws.states({"x": NUMBERS}, rule=bg.ConditionalAverage()).reordered == 0.0
    draws.states({"x": NUMBERS}, rule=bg.PlugIn())  # and warns of nothing


def test_most_probable_states_and_the_frame(words):
    found = words.states({"x": PADDED}, rule=bg.PlugIn())
    assert (found.most_probable[2] == -1).all() and (
        found.most_probable[1] == [*found.most_probable[1, :1], -1, -1, -1]
    ).all()
    assert (found.most_probable[0] == found.probabilities[0].argmax(-1)).all()
    frame = found.to_frame()
    assert list(frame.columns) == ["row", "step", "state", "probability"]
    assert len(frame) == NUM_STATES * sum(map(len, WORDS))
    line = frame[(frame.row == 3) & (frame.step == 2) & (frame.state == 1)]
    assert line.probability.item() == found.probabilities[3, 2, 1]
    close(frame.groupby(["row", "step"]).probability.sum(), 1.0)
    assert "6 sequences, 3 states" in repr(found)


def test_the_frame_names_rows_by_the_index_of_x(words):
    index = list("qbbacz")
    by_name = words.states(pd.DataFrame({"x": WORDS}, index), rule=bg.PlugIn()).to_frame()
    by_place = words.states({"x": PADDED}, rule=bg.PlugIn()).to_frame()
    assert by_name.row.tolist() == [index[row] for row in by_place.row]
    pd.testing.assert_frame_equal(by_name.drop(columns="row"), by_place.drop(columns="row"))


def test_the_frame_has_a_column_of_classes(numbers):
    found = numbers.states({"x": NUMBERS}, rule=bg.PlugIn())
    frame = found.to_frame()
    line = frame[(frame.row == 1) & (frame["class"] == "wild") & (frame.step == 3) & (frame.state == 2)]
    assert line.probability.item() == found.probabilities[1, 1, 3, 2]
    assert len(frame) == found.probabilities.size


def test_impossible_sequences_have_no_states_and_are_counted(words):
    never = np.array([[0.25, 0.25, 0.25, 0.25, 0.0]] * NUM_STATES)
    without = dataclasses.replace(words.posterior, values={**words.parameters, "probs": never})
    with pytest.warns(bg.ImpossibleRowsWarning, match="2 of 6 sequences are impossible"):
        found = dataclasses.replace(words, posterior=without).states({"x": PADDED}, rule=bg.PlugIn())
    has_it = [4 in word for word in WORDS]
    assert np.isnan(found.probabilities[has_it]).all() and (found.paths[has_it] == -1).all()
    assert np.isneginf(found.log_marginal).tolist() == has_it
    assert not np.isnan(found.probabilities[1, 0]).any()
    likelihood = HiddenMarkovLikelihood(CategoricalLikelihood(NUM_SYMBOLS))
    tables = {name: words.parameters[name] for name in ("initial", "transition")} | {"probs": never}
    with np.errstate(divide="ignore"):
        initial, transition, probs = (np.log(table)[None] for table in tables.values())
    parameters = {"log_initial": initial, "log_transition": transition, "emission_log_probs": probs}
    with jax.enable_x64(True):
        smoothed = np.asarray(jax.jit(likelihood.smoothed)(parameters, np.array([[0, 4], [0, 1]]), None))
    assert (smoothed[0] == 0).all()
    close(smoothed[1].sum(-1), 1.0, rtol=1e-12)


@pytest.mark.filterwarnings("ignore::bayesgen.ImpossibleRowsWarning", "ignore::bayesgen.ConvergenceWarning")
def test_draws_that_make_a_sequence_impossible_have_no_states_to_average():
    draws = prior_draws(left_right, {"x": PADDED})
    probs = draws.posterior.latents["probs"].copy()
    probs[0, 3] = [[0.25, 0.25, 0.25, 0.25, 0.0]] * NUM_STATES
    posterior = dataclasses.replace(draws.posterior, latents={**draws.posterior.latents, "probs": probs})
    draws = dataclasses.replace(draws, posterior=posterior)
    alike, weighed = (draws.states({"x": PADDED[:2]}, rule=rule) for rule in (bg.ConditionalAverage(), bg.BMA()))
    assert np.isnan(alike.probabilities[0]).all() and not np.isnan(weighed.probabilities[0]).any()
    close(alike.probabilities[1, 0].sum(), 1.0, rtol=1e-9)


@pytest.mark.slow
def test_columns_have_the_states_of_their_block_and_their_own_lengths():
    levels = [[0.1, -0.2, 5.1, 4.9], [5.0, None, 0.2], [4.9, np.nan]]
    model = bg.GenerativeClassifier([("level", bg.DirichletHiddenMarkov(2), ["level"])], class_prior=None)
    fit = bg.fit(model, {"level": levels}, method=bg.MAP(num_starts=1))
    found = fit.states({"level": levels}, rule=bg.PlugIn())
    assert found.lengths.tolist() == [4, 3, 2] and found.paths[0].tolist() == [0, 0, 1, 1]
    assert found.paths[2, 1] >= 0 and (found.paths[2, 2:] == -1).all()
    made = fit.simulate(3, level_length=[2, 4, 1])
    assert fit.states(made, rule=bg.PlugIn()).lengths.tolist() == [2, 4, 1]


def test_no_sequences_and_no_steps_have_no_states(words, numbers):
    assert numbers.states({"x": []}, rule=bg.PlugIn()).probabilities.shape[0] == 0
    for nothing in (np.zeros((0, 4), int), []):
        assert words.states({"x": nothing}, rule=bg.PlugIn()).probabilities.shape == (0, 1, NUM_STATES)
    empty = np.full((len(WORDS), NUM_STEPS), -1)  # as many as are asked for elsewhere, which compiles nothing
    assert words.states({"x": empty}, rule=bg.PlugIn()).lengths.tolist() == [0] * len(WORDS)


def test_what_tells_nothing_of_states_is_refused(words):
    with pytest.raises(bg.PredictionError, match="point estimate"):
        words.states({"x": PADDED}, rule=bg.BMA())
    for rule in ("BMA", bg.BMA):
        with pytest.raises(bg.PredictionError, match=r"rule= is .* and must be an object"):
            words.states({"x": PADDED}, rule=rule)
    with pytest.raises(bg.ModelError, match=r"'z' has no hidden states.*'x'"):
        words.states({"x": PADDED}, rule=bg.PlugIn(), site="z")
    coins = bg.fit(bg.NaiveBayes(), [[True], [False], [True]], [0, 1, 1], method=bg.Exact())
    with pytest.raises(bg.ModelError, match="NaiveBayes has no hidden states"):
        coins.states([[True]], rule=bg.PlugIn())
    average = bg.average([coins, coins])
    with pytest.raises(bg.PredictionError, match="states of their own"):
        average.states([[True]], rule=bg.PlugIn())


def test_time_steps_that_states_are_matched_by_are_of_the_rows_of_each_class():
    lengths, labels = np.array([3, 1, 4, 2, 4]), np.array([0, 1, 1, 0, 1])
    inside = np.arange(4) < lengths[:, None]
    rows, steps = hidden_states._time_steps_by_class(inside, labels, 3)
    assert rows.shape == steps.shape == (3, hidden_states.MATCHED_ROWS)
    of_columns = np.stack([inside, np.ones_like(inside)], axis=2)  # a step of two columns is inside where both are
    np.testing.assert_array_equal(hidden_states._time_steps_by_class(of_columns, labels, 3), [rows, steps])
    for k, expected in enumerate([labels == 0, labels == 1, labels >= 0]):  # no row is of the last class
        at = np.zeros_like(inside)
        at[rows[k], steps[k]] = True
        np.testing.assert_array_equal(at, inside & expected[:, None])
