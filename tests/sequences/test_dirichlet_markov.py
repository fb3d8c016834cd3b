"""`DirichletMarkov` alone: on strings and lists, on sequences that lack steps, and what it refuses."""

import itertools

import jax
import numpy as np
import numpyro.distributions as dist
import pytest
import scipy.special
from batches import log_prob_of
from numpyro.handlers import substitute, trace

import bayesgen as bg
from bayesgen.data import CodedSequences
from bayesgen.errors import BayesgenError, DataError, FitError, ModelError, PredictionError
from bayesgen.families import Scale
from bayesgen.sequences import dirichlet_markov as densities

close = np.testing.assert_allclose
WORDS = ["anna", "bob", "", "nana", "b"]


def chain_rule(words, order, concentration, alphabet, end=""):
    """Log evidence, symbol by symbol: each urn gives what was put into it, and all that it holds."""
    seen, total = {}, 0.0
    for word in words:
        for place, symbol in enumerate(word + end):
            urn = seen.setdefault(word[max(0, place - order) : place] if place >= order else ("^", word[:place]), [])
            alpha = concentration * len(alphabet + end)
            total += np.log((urn.count(symbol) + concentration) / (len(urn) + alpha))
            urn.append(symbol)
    return total


@pytest.mark.parametrize("order", [0, 1, 2, 3])
@pytest.mark.parametrize("end", ["", "$"])
def test_the_evidence_of_strings_is_that_of_the_chain_rule(order, end):
    family = bg.DirichletMarkov(order, 0.7, end=bool(end))
    close(family.log_evidence(WORDS), chain_rule(WORDS, order, 0.7, "abno", end), rtol=1e-12)
    posterior = family.update(WORDS)
    more = chain_rule([*WORDS, "bana"], order, 0.7, "abno", end) - chain_rule(WORDS, order, 0.7, "abno", end)
    close(posterior.log_evidence(["bana"]), more, rtol=1e-10)
    predictive = posterior.predictive() if end else posterior.predictive(4)
    codes = ["abno".index(symbol) for symbol in "bana"] + [4] * bool(end)
    with jax.enable_x64(True):
        close(log_prob_of(predictive, np.array(codes)), more, rtol=1e-10)
    assert posterior.symbols == ("a", "b", "n", "o") and posterior.contexts.num_before == 4


def test_lists_of_any_symbols_and_declared_alphabets():
    by_lists = bg.DirichletMarkov(1, symbols=["up", "down", "level"]).update([["up", "up"], ["down"]])
    by_codes = bg.DirichletMarkov(1, np.ones(3)).update([[0, 0], [1]])
    by_array = bg.DirichletMarkov(1, np.ones(3)).update(np.array([[0, 0], [1, -1]]))
    for name, value in by_lists.mean().items():
        close(by_codes.mean()[name], value)
        close(by_array.mean()[name], value)
    assert by_codes.symbols == (0, 1, 2)
    with pytest.raises(DataError, match="sideways"):
        by_lists.update([["up", "sideways"]])


def test_draws_of_the_predictive_have_the_frequencies_of_the_evidences():
    posterior = bg.DirichletMarkov(1, 0.8, end=True).update(["ab", "b", "aab"])
    with jax.enable_x64(True):
        predictive = posterior.predictive(3)
        draws = np.asarray(jax.jit(lambda key: predictive.sample(key, (20_000,)))(jax.random.key(0)))
        assert np.asarray(predictive.support(draws)).all()
        every, counts = np.unique(draws, axis=0, return_counts=True)
        probabilities = np.exp(np.asarray(log_prob_of(predictive, every)))
        close(counts / 20_000, probabilities, atol=4.5 * 0.5 / np.sqrt(20_000))
        close(probabilities.sum(), 1.0, atol=1e-3)


def test_contexts_that_do_not_occur_leave_every_symbol_as_probable():
    family = bg.DirichletMarkov(2, symbols="ab").resolve(bg.families.Scale(num_categories=2))
    summary = family.summarize(["aab", "a"])
    point, mode = family.maximum_likelihood(summary), family.update(summary).mode()
    for name in point:
        close(point[name], mode[name])
    close(point["initial"], [[1, 0], [1, 0], [0.5, 0.5]])  # at the start, after a, after b
    close(point["transition"], [[0, 1], [0.5, 0.5], [0.5, 0.5], [0.5, 0.5]])
    with pytest.raises(FitError, match="no symbol was counted"):
        family.maximum_likelihood(family.summarize([""]))
    with pytest.raises(FitError, match="flat"):
        family.mode()
    with pytest.raises(FitError, match="unbounded"):
        bg.DirichletMarkov(1, 0.9).update(["aab"]).mode()


@pytest.mark.parametrize(("order", "end"), [(0, False), (1, False), (2, True)])
def test_rows_that_lack_steps_are_sums_over_their_completions(order, end):
    posterior = bg.DirichletMarkov(order, 0.7, end=end).update(WORDS).with_class_axis()
    density, rng = posterior.row_predictive(), np.random.default_rng(0)
    size, last = 4 + end, 4 if end else None
    values = rng.integers(0, 4, (9, 6))
    values[:, 5] = [4 if end and row % 2 else -1 for row in range(9)]
    values[3], values[4] = -1, [1, -1, -1, -1, -1, -1]
    observed = (rng.random(values.shape) < 0.7) | (values < 0)
    values[5], observed[5] = -1, False  # missing altogether
    for row in range(9):
        is_known = observed[row] | (values[row] == -1)
        options = [[code] if known else range(size) for code, known in zip(values[row], is_known, strict=True)]
        every = np.array(list(itertools.product(*options)))
        allowed = ~((every[:, :-1] == last) & (every[:, 1:] >= 0)).any(1)
        expected = scipy.special.logsumexp(density.log_prob(every[allowed]), axis=0)
        close(density.log_prob(values[row : row + 1], observed[row : row + 1])[0], expected, rtol=1e-11)
    close(density.log_prob(values, observed)[5], 0.0)
    with jax.enable_x64(True):
        whole = observed.all(1)
        traced = jax.jit(lambda d, rows: d.log_prob(rows))(density, jax.numpy.asarray(values[whole]))
    close(traced, density.log_prob(values[whole]), rtol=1e-11)


def test_too_many_completions_are_refused_with_the_remedy(monkeypatch):
    density = bg.DirichletMarkov(1).update(WORDS).with_class_axis().row_predictive()
    values, observed = np.zeros((1, 9), int), np.arange(9)[None] < 3
    assert np.isfinite(density.log_prob(values, observed | (np.arange(9) > 6))).all()
    monkeypatch.setattr(densities, "MOST_COMPLETIONS", 4**5)
    with pytest.raises(PredictionError, match=r"lacks 6 of its steps.*PlugIn\(\)"):
        density.log_prob(values, observed)


def test_missing_steps_have_no_closed_form():
    family = bg.DirichletMarkov(1, symbols="ab")
    rows = [["a", None, "b"], ["b"]]
    for verb in (family.update, family.log_evidence):
        with pytest.raises(ModelError, match=r"steps of its sequences are missing.*MAP"):
            verb(rows)
    whole = family.update(["ab", None])
    close(whole.mean()["transition"], family.update(["ab"]).mean()["transition"])


def test_bad_arguments_are_refused():
    for order in (-1, True):
        with pytest.raises(ModelError, match="order must be a whole number"):
            bg.DirichletMarkov(order)
    with pytest.raises(ModelError, match="another one"):
        bg.DirichletMarkov(1, symbols="aba")
    for symbols, match in (([(1, [2])], "have to be hashable"), ("", "there are no symbols")):
        with pytest.raises(ModelError, match=match):
            bg.DirichletMarkov(1, symbols=symbols)
    for max_length in (-3, 0):
        with pytest.raises(ModelError, match="max_length must be a whole number"):
            bg.DirichletMarkov(1, end=True, max_length=max_length)
    with pytest.raises(ModelError, match="cannot know the alphabet"):
        bg.DirichletMarkov(1).mean()
    with pytest.raises(ModelError, match=r"order 9 over 27 symbols.*Take a lower order"):
        bg.DirichletMarkov(9, symbols=[*range(27)]).update([[1, 2]])
    with pytest.raises(ModelError, match=r"shape \(5, 4\)"):
        bg.DirichletMarkov(2, np.ones((5, 4))).update(WORDS)
    with pytest.raises(ModelError, match=r"symbols \('a', 'b', 'n', 'o'\), and the table is one of 3"):
        bg.DirichletMarkov(1, np.ones(3)).update(WORDS)
    with pytest.raises(DataError, match="-1 at row 1, step 0"):
        bg.DirichletMarkov(1, np.ones(3)).update(np.array([[0, 1], [-1, 2]]))
    with pytest.raises(ModelError, match=r"does not tell which of them is the end.*CodedSequences"):
        bg.DirichletMarkov(1, end=True).update(np.array([[0, 1, 2], [1, 2, -1]]))


def test_codes_with_ends_and_lists_of_the_same_sequences_are_counted_alike():
    codes = np.array([[0, 1, 2], [1, 2, -1], [0, 0, 2]])
    known = bg.DirichletMarkov(1, np.ones(3), end=True)
    stated = bg.DirichletMarkov(1, end=True, symbols=(0, 1))
    expected = stated.update([[0, 1], [1], [0, 0]]).concentration
    close(known.update(codes).concentration, expected)
    close(known.update(codes).update(codes).concentration, 2 * expected - 1)
    close(stated.update(CodedSequences(codes)).concentration, expected)
    close(stated.update(np.array([[0, 1], [1, -1], [0, 0]])).concentration, expected)  # symbols, all of which end


def test_a_concentration_for_each_context():
    concentration = np.array([[1.0, 2.0], [3.0, 0.5], [0.2, 0.4]])  # at the start, after a, after b
    mean = bg.DirichletMarkov(1, concentration, symbols="ab").update(["ab", "bb"]).mean()
    close(mean["initial"], [2 / 5, 3 / 5])
    close(mean["transition"], [[3 / 4.5, 1.5 / 4.5], [0.2 / 1.6, 1.4 / 1.6]])


@pytest.mark.parametrize("shape", [(), (3,), (13, 1), (2, 1, 1), (2, 13, 3)])
def test_arrays_and_hyperpriors_broadcast_alike(shape):
    scale = Scale(2, 1, 3)
    table = 0.5 + np.random.default_rng(0).random(shape)
    given = bg.DirichletMarkov(2, table).resolve(scale)
    np.testing.assert_array_equal(given.concentration, np.broadcast_to(table, (2, 13, 3)))
    drawn = bg.DirichletMarkov(2, dist.Delta(table)).resolve(scale).replace(concentration=table)
    probs = {"word_initial": np.full((2, 4, 3), 1 / 3), "word_transition": np.full((2, 9, 3), 1 / 3)}
    models = [substitute(family.sample_sites, probs) for family in (given, drawn)]
    sites = [trace(model).get_trace("word") for model in models]
    for name in probs:
        priors = [site[name]["fn"] for site in sites]
        assert priors[0].event_dim == priors[1].event_dim
        np.testing.assert_array_equal(*(prior.base_dist.concentration for prior in priors))


@pytest.mark.parametrize("shape", [(2,), (2, 1), (3, 1, 1), (12, 3)])
def test_arrays_and_hyperpriors_of_other_shapes_are_refused_alike(shape):
    for concentration in (np.ones(shape), dist.Gamma(2.0, 1.0).expand(shape)):
        with pytest.raises(BayesgenError, match="concentration has"):
            bg.DirichletMarkov(2, concentration).resolve(Scale(2, 1, 3))
