"""Classifiers and models without classes of columns of sequences, from the table to the answer."""

import itertools

import numpy as np
import pandas as pd
import pytest
import scipy.special

import bayesgen as bg

close = np.testing.assert_allclose
ALPHABET = "abc"
SCHEMA = bg.Schema(kinds={"word": "sequence"})
WORDS = ["cab", "", "abba", "a", "ccab", "bb", "acac", "b", "cc", "abcabca", "", "baa", "c"]
LABELS = np.array(list("xyxxyxyyxxyyx"))
SIZES = np.linspace(-1, 2, len(WORDS)) ** 2
NEW = ["abc", "", "ccca", "b"]


def take(X, places):
    return {name: [cells[i] for i in places] for name, cells in X.items()}


def k_grams(words, order):
    """context (as the symbols themselves) -> counts of the symbols that follow it."""
    table = {}
    for word in words:
        for place, symbol in enumerate(word):
            counts = table.setdefault(word[max(0, place - order) : place], np.zeros(3))
            counts[ALPHABET.index(symbol)] += 1
    return table


def log_evidence(words, order, concentration):
    """log p(words) with a symmetric Dirichlet prior on what follows each context: one Polya urn each."""
    total = 0.0
    for counts in k_grams(words, order).values():
        urn = np.full(3, concentration) + counts
        total += scipy.special.gammaln(urn).sum() - scipy.special.gammaln(urn.sum())
        total += scipy.special.gammaln(3 * concentration) - 3 * scipy.special.gammaln(concentration)
    return total


def of_labels(labels):
    counts = np.array([np.sum(labels == label) for label in "xy"])
    return scipy.special.gammaln(counts + 1).sum() - scipy.special.gammaln(counts.sum() + 2)


def naive_bayes(order=1, concentration=1.0, **options):
    return bg.NaiveBayes({"word": bg.DirichletMarkov(order, concentration, **options)})


@pytest.fixture(scope="module")
def exact():
    """A fit of words and a number."""
    return bg.fit(bg.NaiveBayes(), {"word": WORDS, "size": SIZES}, LABELS, method=bg.Exact(), schema=SCHEMA)


def test_a_column_of_sequences_is_a_block_of_its_own_name(exact):
    assert sorted(exact.parameters) == ["class_probs", "real_mean", "real_variance", "word_initial", "word_transition"]
    assert exact.prior["word"].order == 1 and exact.parameters["word_transition"].shape == (2, 3, 3)
    assert exact.parameters_of("word").keys() == {"initial", "transition"}
    two = bg.fit(
        bg.NaiveBayes(),
        {"word": WORDS, "real": WORDS[::-1]},
        LABELS,
        method=bg.MAP(),
        schema=bg.Schema(kinds={"word": "sequence", "real": bg.SequenceOf(end=True)}),
    )
    assert two.parameters["real_transition"].shape == (2, 3, 4)


@pytest.mark.parametrize("order", [0, 1, 2])
def test_the_evidence_is_that_of_an_urn_for_each_context(order):
    fit = bg.fit(naive_bayes(order, 0.7), {"word": WORDS}, LABELS, method=bg.Exact())
    words = {label: [word for word, of in zip(WORDS, LABELS, strict=True) if of == label] for label in "xy"}
    close(fit.log_evidence, of_labels(LABELS) + sum(log_evidence(words[k], order, 0.7) for k in "xy"), rtol=1e-12)
    table = fit.log_joint({"word": NEW}, at="predictive")
    for row, word in enumerate(NEW):
        for index, label in enumerate("xy"):
            ratio = log_evidence([*words[label], word], order, 0.7) - log_evidence(words[label], order, 0.7)
            close(table[row, index], np.log((np.sum(label == LABELS) + 1) / (len(LABELS) + 2)) + ratio, rtol=1e-9)


def test_what_is_simulated_goes_back_in(exact):
    rows = exact.simulate(5, seed=2, word_length=[3, 7, 0, 2, 1])
    assert rows.keys() == {"word", "word_length", "real", "y"}
    assert (rows["word"] >= 0).sum(1).tolist() == [3, 7, 0, 2, 1]
    words = ["".join(ALPHABET[code] for code in row if code >= 0) for row in rows["word"]]
    close(exact.log_joint(rows), exact.log_joint({"word": words, "size": rows["real"][:, 0]}), rtol=1e-12)
    assert bg.predict(exact, rows, rule=bg.BMA()).labels.shape == (5,)
    with pytest.raises(bg.DataError, match=r"simulate\(n, word_length=\.\.\.\)"):
        exact.simulate(3)
    with pytest.raises(bg.DataError, match=r"'word_length' has the shape \(2,\), and 3 rows need one value each"):
        exact.simulate(3, word_length=[1, 2])
    made = exact.simulate(5, word_length=7)["word"]
    assert made.shape == (5, 7) and [len(word) for word in exact.schema.decode("word", made)] == [7] * 5


def test_sequences_that_end_are_simulated_without_lengths():
    model = bg.NaiveBayes({"word": bg.DirichletMarkov(end=True, max_length=12)}, class_prior=None)
    fit = bg.fit(model, {"word": WORDS}, method=bg.Exact())
    assert fit.schema.kinds["word"] == bg.SequenceOf(end=True) and fit.parameters["word_transition"].shape == (3, 4)
    rows = fit.simulate(20, seed=1)
    assert rows.keys() == {"word"} and rows["word"].shape == (20, 12)
    ended = [3 in row for row in rows["word"].tolist()]
    words = ["".join(ALPHABET[code] for code in row if 0 <= code < 3) for row in rows["word"]]
    close(fit.log_joint(rows)[ended], fit.log_joint({"word": words})[ended], rtol=1e-12)
    assert sum(ended) > 10


@pytest.mark.parametrize("symbols", [(1, 2, 3), (2, 1, 0), (-1, 0, 1)])
@pytest.mark.parametrize("has_classes", [False, True])
def test_simulated_rows_of_numbers_that_are_symbols_go_back_in(symbols, has_classes):
    family = bg.DirichletMarkov(end=True, max_length=4)
    model = bg.NaiveBayes(family) if has_classes else bg.NaiveBayes(family, class_prior=None)
    schema = bg.Schema(categories={"w": symbols}, kinds={"w": "sequence"})
    lists = [[symbols[ALPHABET.index(letter)] for letter in word] for word in WORDS]
    y = LABELS if has_classes else None
    fit = bg.fit(model, {"w": lists}, y, method=bg.Exact(), schema=schema)
    rows = fit.simulate(30, seed=1)
    ended = (rows["w"] == 3).any(1)
    words = [[symbols[code] for code in row if 0 <= code < 3] for row in rows["w"].tolist()]
    expected = fit.log_joint({"w": words})
    assert 0 < ended.sum() < 30
    close(fit.log_joint(rows)[ended], expected[ended], rtol=1e-12)
    assert (fit.log_joint(rows)[~ended] > expected[~ended]).all()  # a prefix is more probable than the word
    labels = rows.get("y")
    one = fit.update({"w": rows["w"][ended]}, None if labels is None else labels[ended])
    two = fit.update({"w": [words[row] for row in np.flatnonzero(ended)]}, None if labels is None else labels[ended])
    close(one.log_evidence, two.log_evidence, rtol=1e-12)


@pytest.mark.parametrize("model", [bg.NaiveBayes(), bg.NaiveBayes(class_prior=None)], ids=["classes", "none"])
def test_chunks_updates_and_weights_are_all_rows_at_once(model):
    X, y = {"word": WORDS, "size": SIZES}, LABELS if model.class_prior else None
    schema = bg.Schema(kinds={"word": "sequence"}, categories={"word": list(ALPHABET)})
    parts = [[0, 1, 3], list(range(4, 13)), [2]]  # of other lengths

    def rows(places):
        return (take(X, places),) if y is None else (take(X, places), y[places])

    whole = bg.fit(model, X, y, method=bg.Exact(), schema=schema)
    parted = bg.fit(model, (rows(part) for part in parts), method=bg.Exact(), schema=whole.schema)
    grown = bg.fit(model, *rows(parts[0] + parts[1]), method=bg.Exact(), schema=whole.schema).update(*rows(parts[2]))
    for fit in (parted, grown):
        close(fit.log_evidence, whole.log_evidence, rtol=1e-10)
    twice = np.where(np.arange(13) == 9, 2.0, 1.0) * (np.arange(13) != 0)
    weighted = bg.fit(model, X, y, method=bg.Exact(), schema=whole.schema, sample_weight=twice)
    places = [*range(1, 13), 9]
    repeated = bg.fit(model, *rows(places), method=bg.Exact(), schema=whole.schema)
    close(weighted.log_evidence, repeated.log_evidence, rtol=1e-10)


def test_rows_without_labels_may_have_sequences_of_any_length():
    y = LABELS.astype(object)
    y[[1, 4, 9, 12]] = None
    schema = bg.Schema(kinds={"word": "sequence"}, categories={"word": list(ALPHABET)}, classes=["x", "y"])
    model, method = naive_bayes(), bg.MAP()
    whole = bg.fit(model, {"word": WORDS}, y, method=method, schema=schema)
    chunks = (({"word": WORDS[part]}, y[part]) for part in (slice(0, 2), slice(2, 5), slice(5, 13)))
    parted = bg.fit(model, chunks, method=method, schema=schema)
    for name, value in whole.parameters.items():
        close(parted.parameters[name], value, rtol=1e-4, atol=1e-6)


def test_orders_are_averaged_by_their_evidence():
    fits = [bg.fit(naive_bayes(order), {"word": WORDS}, LABELS, method=bg.Exact()) for order in (0, 1, 2, 3)]
    average = bg.average(fits)
    evidences = np.array([fit.log_evidence for fit in fits])
    close(average.weights, scipy.special.softmax(evidences), rtol=1e-9)
    tables = np.stack([fit.log_joint({"word": NEW}, at="predictive") for fit in fits])
    expected = scipy.special.logsumexp(tables + np.log(average.weights)[:, None, None], axis=0)
    close(average.log_joint({"word": NEW}, at="predictive"), expected, rtol=1e-9)
    answer = bg.predict(average, {"word": NEW}, rule=bg.BMA())
    close(answer.log_probabilities, expected - scipy.special.logsumexp(expected, axis=1, keepdims=True), rtol=1e-9)


def test_orders_of_other_data_are_not_averaged():
    fit = bg.fit(naive_bayes(1), {"word": WORDS}, LABELS, method=bg.Exact())
    others = {
        "modelled with the ends of its sequences": (naive_bayes(2, end=True), WORDS, None),
        "the columns' order or their categories differ": (naive_bayes(2), WORDS, list("abcd")),
    }
    for match, (model, words, alphabet) in others.items():
        schema = bg.Schema(categories={"word": alphabet}) if alphabet else None
        other = bg.fit(model, {"word": words}, LABELS, method=bg.Exact(), schema=schema)
        with pytest.raises(bg.FitError, match=match):
            bg.average([fit, other])


@pytest.mark.slow
def test_a_missing_sequence_tells_nothing_however_long_the_others_are():
    model = bg.NaiveBayes(bg.DirichletGrammar({"S": ["S S", "a", "b"]}), class_prior=None)
    words = ["ab", "abbab"]
    fits = [bg.fit(model, {"w": [*words, *more]}, method=bg.MLE()) for more in ([], [None] * 3)]
    close(*(fit.posterior.mean["w_S"] for fit in fits), rtol=1e-9)
    found = fits[0].log_joint({"w": [None, [None, None], "abbab"]})
    assert found[0] == 0
    close(found[1], fits[0].log_joint({"w": [[None, None]]})[0], rtol=1e-12)
    close(np.exp(found[1]), np.exp(fits[0].log_joint({"w": ["aa", "ab", "ba", "bb"]})).sum(0), rtol=1e-12)


def test_missing_steps_are_summed_out_and_missing_sequences_tell_nothing(exact):
    rows = {"word": [["a", None, "c"], None, "ab"], "size": [0.5, 0.5, 0.5]}
    joint = exact.log_joint(rows)
    of_size = exact.log_joint({"word": [""], "size": [0.5]})[0]
    close(joint[1], of_size, rtol=1e-12)
    filled = exact.log_joint({"word": [f"a{symbol}c" for symbol in ALPHABET], "size": [0.5] * 3})
    close(joint[0], scipy.special.logsumexp(filled, axis=0), rtol=1e-9)
    holed = [["a", None, "b"] if word == "abba" else word for word in WORDS]
    with pytest.raises(bg.FitError, match=r"'word'.*missing"):
        bg.fit(bg.NaiveBayes(), {"word": holed}, LABELS, method=bg.Exact(), schema=SCHEMA)
    absent = [None if word == "abba" else word for word in WORDS]
    without = bg.fit(naive_bayes(), {"word": absent}, LABELS, method=bg.Exact())
    kept = [word for word in WORDS if word != "abba"]
    words = {label: [w for w, of in zip(absent, LABELS, strict=True) if of == label and w in kept] for label in "xy"}
    close(without.log_evidence, of_labels(LABELS) + sum(log_evidence(words[k], 1, 1.0) for k in "xy"), rtol=1e-12)
    with pytest.raises(bg.ModelError, match="'word' is of sequences, of which some are missing or lack steps"):
        exact.impute(rows)
    with pytest.raises(bg.ModelError, match=r"'word'.*some are missing.*does not fill in cells of sequences"):
        exact.impute({"word": ["a", None], "size": [1.0, 1.0]})
    assert exact.impute({"word": ["a", "b"], "size": [None, 1.0]})["word"].tolist() == ["a", "b"]


def test_columns_of_a_hidden_chain_have_steps_that_go_together():
    rng = np.random.default_rng(0)
    lengths = [5, 3, 7, 4]
    walks = {name: [rng.normal(3 * (np.arange(size) % 2), 0.3) for size in lengths] for name in ("east", "north")}
    model = bg.GenerativeClassifier([("walk", bg.DirichletHiddenMarkov(2), ["east", "north"])], class_prior=None)
    fit = bg.fit(model, walks, method=bg.MAP(num_starts=1))
    assert fit.schema.kinds["east"] == bg.SequenceOf("real") and fit.parameters["walk_mean"].shape == (2, 2)
    padded = {name: np.full((4, 7), np.nan) for name in walks}
    for name, row in itertools.product(walks, range(4)):
        padded[name][row, : lengths[row]] = walks[name][row]
    close(fit.log_joint(padded), fit.log_joint(walks), rtol=1e-9)
    apart = walks | {"north": [walks["north"][0][:-1], *walks["north"][1:]]}
    with pytest.raises(bg.DataError, match="Column 'north' has 4 steps at row 0, and column 'east' has 5"):
        fit.log_joint(apart)
    rows = fit.simulate(3, seed=1, walk_length=[2, 6, 4])
    assert rows["walk"].shape == (3, 6, 2) and np.isnan(rows["walk"][0, 2:]).all()
    assert np.isfinite(fit.log_joint(rows)).all()


def test_declarations_that_do_not_fit_families_are_refused():
    X = {"word": WORDS, "size": SIZES}
    cases = [
        (naive_bayes(end=True), X, bg.Schema(kinds={"word": bg.SequenceOf()}), r"SequenceOf\(.*end=False\).*end=True"),
        (bg.NaiveBayes({"word": bg.DirichletHiddenMarkov(2)}), X, None, "'word' is of sequences of real steps"),
        (
            bg.NaiveBayes(),
            {"size": [[1.0]] * 13},
            bg.Schema(kinds={"size": bg.SequenceOf("real")}),
            "no default family",
        ),
        (bg.NaiveBayes(bg.DirichletMarkov()), X, None, "'size' is of sequences, and has 1.0 at row 0"),
        (bg.NaiveBayes({"word": bg.DirichletCategorical()}), X, SCHEMA, "'word' is of kind 'sequence'"),
    ]
    for model, data, schema, match in cases:
        with pytest.raises(bg.BayesgenError, match=match):
            bg.fit(model, data, LABELS, method=bg.MAP(), schema=schema)


def test_models_of_sequences_are_compared():
    frame = pd.DataFrame({"word": WORDS, "size": SIZES})
    models = {"words": bg.NaiveBayes(), "pairs": bg.NaiveBayes({"sequence": bg.DirichletMarkov(2)})}
    pairs = [(bg.MAP(), bg.PlugIn()), (bg.Exact(), bg.BMA())]
    table = bg.compare(models, frame, LABELS, frame, LABELS, methods=pairs, schema=SCHEMA).table
    assert table["refused"].isna().all() and (table["log_score"] > -1).all()
