"""Models of Markov chains: the evidence by the chain rule, EM and its averages by enumeration, and orders from data."""

import itertools

import numpy as np
import pytest
import scipy.special

import bayesgen as bg
from bayesgen.sequences import Contexts

close = np.testing.assert_allclose
TRANSITION = {
    "north": [[0.1, 0.6, 0.3], [0.7, 0.2, 0.1], [0.2, 0.2, 0.6]],
    "south": [[0.5, 0.1, 0.4], [0.1, 0.3, 0.6], [0.6, 0.3, 0.1]],
}


def words(labels, seed=0, length=6):
    """Words of order 1, some of them short."""
    rng, found = np.random.default_rng(seed), []
    for label in labels:
        codes = [int(rng.integers(3))]
        while len(codes) < rng.integers(2, 2 * length):
            codes.append(int(rng.choice(3, p=TRANSITION[label][codes[-1]])))
        found.append("".join("abc"[code] for code in codes))
    return found


def model(order=1, concentration=1.0, **options):
    return bg.NaiveBayes({"word": bg.DirichletMarkov(order, concentration)}, **options)


@pytest.fixture(scope="module")
def data():
    y = np.repeat(["north", "south"], 40)
    return {"word": words(y)}, y


def log_evidence(texts, order, symbols="abc"):
    """The urns of each context, symbol by symbol."""
    urns, total = {}, 0.0
    for text in texts:
        for place, symbol in enumerate(text):
            urn = urns.setdefault((min(place, order), text[max(0, place - order) : place]), dict.fromkeys(symbols, 1))
            total += np.log(urn[symbol] / sum(urn.values()))
            urn[symbol] += 1
    return total


def test_averages_over_orders_weigh_by_the_evidence_of_the_chain_rule_and_find_the_order(data):
    X, y = data
    fit = bg.fit(bg.average([model(order) for order in range(4)]), X, y, method=bg.Exact())
    texts = np.asarray(X["word"])
    evidences = [sum(log_evidence(texts[y == k].tolist(), order) for k in set(y)) for order in range(4)]
    close(fit.weights, scipy.special.softmax(evidences), rtol=1e-8, atol=1e-12)
    assert np.argmax(fit.weights) == 1 and fit.weights[1] > 0.9
    assert bg.predict(fit, X, rule=bg.BMA()).probabilities.shape == (80, 2)


def test_symbols_are_counted_by_the_texts_before_them():
    for order in (0, 1, 2):
        fit = bg.fit(model(order, class_prior=None), {"word": ["aabb", "ba"]}, method=bg.Exact())
        counts = fit.summaries.statistics.summaries["word"].totals[0][0]
        for name, row in zip(Contexts(order, 2).names("ab"), counts, strict=True):
            before = [text[:i][-order:] if order else "" for text in ("^aabb", "^ba") for i in range(1, len(text))]
            after = [symbol for text in ("aabb", "ba") for symbol in text]
            close(row, [sum((c == name) & (s == x) for c, s in zip(before, after, strict=True)) for x in "ab"])


def test_orders_whose_data_differ_are_not_averaged():
    fits = [
        bg.fit(model(order, class_prior=None), {"word": texts}, method=bg.Exact())
        for order, texts in ((1, ["aabb", "ba"]), (2, ["ba", "aabb"]), (2, ["aabb", "ba", "ab"]))
    ]
    assert bg.average(fits[:2]).weights.shape == (2,)
    with pytest.raises(bg.BayesgenError, match="rows by class differ"):
        bg.average(fits[1:])


def test_the_average_over_parameters_is_better_than_the_plug_in_where_rows_are_few(data):
    X, y = data
    X_new, y_new = {"word": words(np.repeat(["north", "south"], 150), 5)}, np.repeat(["north", "south"], 150)
    few = np.r_[:8, 40:48]
    comparison = bg.compare(
        model(2),
        {"word": [X["word"][row] for row in few]},
        y[few],
        X_new,
        y_new,
        methods=[(bg.Exact(), bg.PlugIn()), (bg.Exact(), bg.BMA())],
    ).table
    assert comparison["log_score"].is_monotonic_increasing
    assert comparison["accuracy"].iloc[-1] > 0.65


@pytest.fixture(scope="module")
def holed(data):
    """Words as lists, a fifth of whose symbols are missing."""
    X, y = data
    rng = np.random.default_rng(7)
    return {"word": [[s if rng.random() < 0.8 else None for s in text] for text in X["word"][::4]]}, y[::4]


def likelihood(fit, X, y):
    """The log-likelihood of words, by sums over their completions."""
    total, classes = 0.0, fit.classes.tolist()
    for word, label in zip(X["word"], y, strict=True):
        k = classes.index(label)
        initial, transition = (fit.parameters[f"word_{name}"][k] for name in ("initial", "transition"))
        options = [["abc".index(symbol)] if symbol else range(3) for symbol in word]
        every = [
            initial[codes[0]] * np.prod([transition[pair] for pair in itertools.pairwise(codes)])
            for codes in itertools.product(*options)
        ]
        total += np.log(np.sum(every)) + np.log(fit.parameters["class_probs"][k])
    return total


def test_words_that_lack_letters_are_learned_by_em_at_the_maximum_of_their_likelihood(holed):
    X, y = holed
    fit = bg.fit(model(concentration=1.5), X, y, method=bg.MLE())
    assert fit.attributes["converged"]
    close(fit.attributes["objective"], likelihood(fit, X, y), rtol=1e-9)
    rng = np.random.default_rng(0)
    for _ in range(6):  # no direction leads up
        moved = {}
        for name, value in fit.parameters.items():
            other = rng.dirichlet(np.ones(value.shape[-1]), value.shape[:-1])
            moved[name] = 0.999 * value + 0.001 * other
        elsewhere = type("Fit", (), {"parameters": moved, "classes": fit.classes})
        assert likelihood(elsewhere, X, y) < fit.attributes["objective"]
    map_fit = bg.fit(model(concentration=1.0), X, y, method=bg.MAP())
    for name, value in map_fit.parameters.items():
        close(value, fit.parameters[name], atol=2e-4, err_msg=name)
    with pytest.raises(bg.FitError, match=r"block 'word': steps of its sequences are missing.*MAP\(\)"):
        bg.fit(model(), X, y, method=bg.Exact())


def test_words_that_lack_letters_are_predicted_by_sums_over_completions(data, holed):
    fit = bg.fit(model(2), *data, method=bg.Exact())
    X = {"word": holed[0]["word"][:5]}
    for rule, at in ((bg.BMA(), "predictive"), (bg.PlugIn(), "mean")):
        expected = []
        for word in X["word"]:
            options = [[symbol] if symbol else "abc" for symbol in word]
            every = {"word": ["".join(letters) for letters in itertools.product(*options)]}
            joint = fit.log_joint(every, at=at)
            prior = np.log(fit.parameters["class_probs"])
            expected.append(scipy.special.logsumexp(joint - prior, axis=0) + prior)
        close(bg.predict(fit, X, rule=rule).log_marginal, scipy.special.logsumexp(expected, axis=1), rtol=1e-9)


def test_components_are_found_without_labels_and_some_labels_help(data):
    y = np.repeat(["north", "south"], 40)
    X = {"word": words(y, 3, length=20)}
    fit = bg.fit(bg.Mixture(model(concentration=1.2), 2), X, method=bg.MAP())
    found = bg.predict(fit, X, rule=bg.PlugIn()).probabilities.argmax(1)
    assert max((found == (y == "south")).mean(), (found != (y == "south")).mean()) > 0.9
    some = np.where(np.arange(80) % 8 == 0, y, None)
    semi = bg.fit(model(concentration=1.2), X, some, method=bg.MAP())
    assert (bg.predict(semi, X, rule=bg.PlugIn()).labels == y).mean() > 0.9


def test_a_class_is_added_and_rows_without_classes_have_densities(data):
    X, y = data
    fit = bg.fit(model(2), X, y, method=bg.Exact())
    east = {"word": ["aaaa", "aaba", "aa"]}
    grown = fit.add_class("east", east)
    whole = bg.fit(model(2), {"word": [*X["word"], *east["word"]]}, [*y, *["east"] * 3], method=bg.Exact())
    assert grown.classes.tolist() == whole.classes.tolist()
    close(grown.log_joint(X, at="predictive"), whole.log_joint(X, at="predictive"), rtol=1e-10)
    alone = bg.fit(model(1, class_prior=None), X, method=bg.Exact())
    close(alone.log_evidence, log_evidence(X["word"], 1), rtol=1e-12)
    added = log_evidence([*X["word"], "abca"], 1) - alone.log_evidence
    close(bg.predict(alone, {"word": ["abca"]}, rule=bg.BMA()).log_marginal, [added], rtol=1e-9)


def test_axes_are_named_by_symbols_and_contexts(data):
    fit = bg.fit(bg.NaiveBayes({"word": bg.DirichletMarkov(2, end=True)}), *data, method=bg.Exact())
    posterior = fit.to_datatree()["posterior"]
    assert posterior["word_initial"].dims == ("chain", "draw", "class", "start", "symbol")
    assert posterior["start"].values.tolist() == ["^", "^a", "^b", "^c"]
    assert posterior["symbol"].values.tolist() == ["a", "b", "c", "$"]
    assert posterior["context"].values.tolist()[:4] == ["aa", "ab", "ac", "ba"]
