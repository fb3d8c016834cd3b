"""Averaging over structures: posterior weights, stacking and pseudo-BMA, and what is refused."""

import dataclasses

import jax
import numpy as np
import pytest
import scipy.sparse
import scipy.special
import scipy.stats

import bayesgen as bg

close = np.testing.assert_allclose
STRUCTURES = [bg.GaussianDiscriminant(form) for form in ("full", "tied", "diag", "spherical")]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(5)
    y = np.asarray(["ape", "bear", "cow"])[np.arange(41) % 3]
    X = rng.normal(0, 1, (41, 2)) @ [[1.0, 0.7], [0.0, 0.6]] + np.arange(41)[:, None] % 3 * [1.2, -0.4]
    return X, y


@pytest.fixture(scope="module")
def fits(data):
    return [bg.fit(model, *data, method=bg.Exact()) for model in STRUCTURES]


@pytest.fixture(scope="module")
def new():
    return np.random.default_rng(6).normal(0.5, 1.5, (7, 2))


def test_weights_are_posterior_probabilities(fits):
    prior = np.asarray([1.0, 2.0, 3.0, 4.0])
    both = bg.average(fits, prior=prior)
    scores = np.asarray([fit.log_evidence for fit in fits])
    joint = prior / 10 * np.exp(scores - scores.max())
    close(both.weights, joint / joint.sum(), rtol=1e-12)
    close(both.log_evidence, np.log(joint.sum()) + scores.max(), rtol=1e-12)


def test_bma_mixes_joints_and_plug_in_takes_the_best(fits, new):
    both = bg.average(fits)
    mixed = sum(w * np.exp(fit.log_joint(new, at="predictive")) for w, fit in zip(both.weights, fits, strict=True))
    answer = bg.predict(both, new, rule=bg.BMA())
    close(answer.probabilities, mixed / mixed.sum(1, keepdims=True), rtol=1e-12)
    close(answer.log_marginal, np.log(mixed.sum(1)), rtol=1e-12)
    for at in ("mean", "mode"):
        ours, theirs = (bg.predict(fit, new, rule=bg.PlugIn(at)) for fit in (both, both.best))
        close(ours.log_probabilities, theirs.log_probabilities, rtol=1e-13)
    assert both.best is fits[int(np.argmax([fit.log_evidence for fit in fits]))]


def test_the_predictive_is_a_ratio_of_two_evidences(fits, data, new):
    """p(x, y | T) = p(T and (x, y)) / p(T), structures averaged in both: no formula of the average in it."""
    (X, y), both = data, bg.average(fits)
    table = both.log_joint(new[:2], at="predictive")
    for row, (x, of_row) in enumerate(zip(new[:2], table, strict=True)):
        for index, label in enumerate(both.classes):
            evidences = []
            for fit in fits:
                blocks = [(name, fit.prior[name], columns) for name, _, columns in fit.concrete.blocks]
                kept = bg.GenerativeClassifier(blocks, class_prior=fit.prior["class"])
                more = bg.fit(kept, np.vstack([X, x]), np.append(y, label), method=bg.Exact())
                evidences.append(more.log_evidence)
            whole = scipy.special.logsumexp(evidences) - np.log(len(fits))
            close(whole - both.log_evidence, of_row[index], rtol=1e-9, err_msg=f"{row} {label}")


def test_averages_of_models_are_equal_by_content():
    def made(prior):
        return bg.average([bg.NaiveBayes(), bg.GaussianDiscriminant()], prior=prior)

    for prior in (None, [0.2, 0.8], np.array([0.2, 0.8])):
        assert made(prior) == made(prior) != made([0.5, 0.5]) and hash(made(prior)) == hash(made(prior))


def test_models_are_fitted_first_and_averages_nest(fits, data):
    close(bg.average(STRUCTURES, X=data[0], y=data[1]).weights, bg.average(fits).weights, rtol=1e-12)
    first, last = bg.average(fits[:2]), bg.average(fits[2:])
    nested = bg.average([first, last])
    close(
        np.concatenate([w * part.weights for w, part in zip(nested.weights, (first, last), strict=True)]),
        bg.average(fits).weights,
        rtol=1e-12,
    )
    close(nested.log_evidence, bg.average(fits).log_evidence, rtol=1e-12)


def test_an_average_of_models_is_a_model(fits, data, new):
    prior = [1.0, 2.0, 3.0, 4.0]
    model = bg.average(STRUCTURES, prior=prior)
    fitted = bg.fit(model, *data, method=bg.Exact())
    close(fitted.weights, bg.average(fits, prior=prior).weights, rtol=1e-12)
    nested = bg.average(
        [bg.average(STRUCTURES[:2], prior=[1.0, 2.0]), bg.average(STRUCTURES[2:], prior=[3.0, 4.0])], [3, 7]
    )
    answers = [bg.predict(bg.fit(each, *data, method=bg.Exact()), new, rule=bg.BMA()) for each in (model, nested)]
    close(*(answer.probabilities for answer in answers), rtol=1e-10)
    weights = np.random.default_rng(7).integers(1, 4, len(data[1]))
    weighted = bg.fit(model, *data, method=bg.Exact(), sample_weight=weights)
    twice = np.repeat(np.arange(len(data[1])), weights)
    close(weighted.log_evidence, bg.fit(model, data[0][twice], data[1][twice], method=bg.Exact()).log_evidence)


@pytest.mark.parametrize("weights", ["stacking", "pseudo-bma"])
def test_a_model_weighed_on_rows_left_out_is_the_average_of_its_fits(fits, data, weights):
    model = bg.average(STRUCTURES[:2], weights=weights, folds=4, seed=1)
    fitted = bg.fit(model, *data, method=bg.Exact())
    expected = bg.average(fits[:2], weights=weights, folds=4, seed=1, X=data[0], y=data[1])
    close(fitted.weights, expected.weights, rtol=1e-9)
    assert fitted.method == expected.method


@pytest.mark.parametrize("method", [bg.MLE(), bg.MAP(), bg.NUTS()], ids=lambda method: type(method).__name__)
def test_other_methods_refuse_an_average_of_models(data, method):
    with pytest.raises(bg.FitError, match=rf"{type(method).__name__}\(\) has no log evidence.*Use Exact\(\)"):
        bg.fit(bg.average(STRUCTURES), *data, method=method)


@pytest.mark.parametrize("weights", ["evidence", "stacking"])
@pytest.mark.parametrize("method", [bg.Exact(), bg.MAP(), bg.NUTS()], ids=["Exact", "MAP", "NUTS"])
def test_no_exact_fit_is_recommended_where_a_member_has_none(method, weights):
    rows, y = {"v": np.array(["ab", "ba", "bb"], object)}, ["u", "v", "u"]
    hidden = [bg.NaiveBayes({"v": bg.DirichletHiddenMarkov(number, bg.DirichletCategorical())}) for number in (1, 2)]
    with pytest.raises(bg.FitError, match=r"a member has none.*states are hidden.*fit a single structure") as refusal:
        bg.fit(bg.average(hidden, weights=weights), rows, y, method=method)
    assert "Use Exact()" not in str(refusal.value)
    fit = bg.fit(hidden[0], rows, y, method=bg.MLE(num_starts=1))
    with pytest.raises(bg.FitError, match="has none by any method: use a single structure"):
        bg.average([fit, fit])


def test_an_average_of_models_reads_chunks_that_can_be_read_again(data):
    X, y = data
    chunks, schema = [(X[:20], y[:20]), (X[20:], y[20:])], bg.Schema(classes=["ape", "bear", "cow"])
    model = bg.average(STRUCTURES)
    fitted = bg.fit(model, chunks, method=bg.Exact(), schema=schema)
    close(fitted.weights, bg.fit(model, X, y, method=bg.Exact()).weights, rtol=1e-10)
    with pytest.raises(bg.DataError, match="once for each of its members"):
        bg.fit(model, iter(chunks), method=bg.Exact(), schema=schema)


def test_an_average_beside_its_members_in_compare(fits, data):
    (X, y), named = data, dict(zip(("full", "tied", "diag", "spherical"), STRUCTURES, strict=True))
    methods = [(bg.MAP(), bg.PlugIn()), (bg.Exact(), bg.PlugIn()), (bg.Exact(), bg.BMA())]
    models = {
        **named,
        "average": bg.average(STRUCTURES),
        "stacked": bg.average(STRUCTURES, weights="stacking", folds=5),
    }
    result = bg.compare(models, X[::2], y[::2], X[1::2], y[1::2], methods=methods)
    refused = result.table[result.table["refused"].notna()]
    assert refused[["model", "method"]].to_numpy().tolist() == [["average", "MAP"], ["stacked", "MAP"]]
    both = bg.average([bg.fit(model, X[::2], y[::2], method=bg.Exact()) for model in STRUCTURES])
    answer = bg.predict(both, X[1::2], rule=bg.BMA())
    mine = next(a for a in result.answers if (a.model, a.rule) == ("average", "BMA"))
    close(mine.prediction.log_probabilities, answer.log_probabilities, rtol=1e-9)
    assert "EvidenceWeighting" in result.config["models"]["average"]
    assert result.to_json()


def test_different_priors_and_blocks_are_structures_too():
    rng = np.random.default_rng(2)
    y = np.arange(30) % 2
    X = {"a": rng.normal(y, 1.0), "b": rng.normal(y, 1.0), "c": rng.random(30) < 0.3 + 0.4 * y}
    one = bg.GenerativeClassifier([("r", bg.NormalInverseWishart(), ["a", "b"]), ("c", bg.BetaBernoulli(), ["c"])])
    models = [bg.NaiveBayes(), bg.NaiveBayes({"c": bg.BetaBernoulli(2, 2)}), one]
    both = bg.average(models, X=X, y=y)
    close(both.weights.sum(), 1.0)
    assert bg.predict(both, X, rule=bg.BMA()).probabilities.shape == (30, 2)


def test_multinomial_averages_with_multinomial():
    rng = np.random.default_rng(3)
    y, X = np.arange(20) % 2, rng.poisson(2.0, (20, 5))
    models = [bg.NaiveBayes(bg.DirichletMultinomial(a)) for a in (0.5, 1.0)]
    assert bg.average(models, X=X, y=y).weights.shape == (2,)


def test_simulate_and_export(fits):
    fits = fits[:2]
    both = bg.average(fits)
    assert both.simulate(5, seed=1)["y"].shape == (5,)
    tree = both.to_datatree(num_draws=50, seed=3)
    assert set(tree.children) == {"structures", *(f"member_{index}" for index in range(len(fits)))}
    close(tree["structures"]["weight"], both.weights)
    close(tree["structures"]["score"], [fit.log_evidence for fit in fits])
    assert tree["structures"]["model"].to_numpy().tolist() == [repr(fit.model) for fit in fits]
    alone = fits[1].to_datatree(num_draws=50, seed=3)["posterior"].to_dataset()
    assert tree["member_1"]["posterior"].to_dataset().equals(alone)
    with pytest.raises(bg.PredictionError, match="no draws"):
        bg.predict(both, [[0.0, 1.0]], rule=bg.ConditionalAverage())


def test_stacking_maximises_the_log_score_of_left_out_rows(fits, data):
    from bayesgen.averaging.left_out import stacking_weights

    rng = np.random.default_rng(0)
    log_scores = np.log(rng.uniform(0.05, 1.0, (200, 3)))
    weights = stacking_weights(log_scores)
    grid = [(a, b, 1 - a - b) for a in np.linspace(0, 1, 41) for b in np.linspace(0, 1 - a, 41)]
    best = max(np.log(np.exp(log_scores) @ np.asarray(w)).mean() for w in grid)
    assert np.log(np.exp(log_scores) @ weights).mean() >= best - 1e-10
    close(weights.sum(), 1.0)
    stacked = bg.average(fits, weights="stacking", X=data[0], y=data[1], folds=5)
    close(stacked.weights.sum(), 1.0)
    assert stacked.log_evidence is None


def test_duplicating_a_model_dilutes_pseudo_bma_and_leaves_stacking(fits, data, new):
    named = dict(X=data[0], y=data[1], folds=5)
    pair, triple = [fits[0], fits[2]], [fits[0], fits[2], fits[2]]
    once, twice = (bg.average(each, weights="pseudo-bma", **named) for each in (pair, triple))
    close(twice.weights[0], once.weights[0] / (once.weights[0] + 2 * once.weights[1]), rtol=1e-10)
    assert twice.weights[0] < once.weights[0]
    close(twice.weights[1], twice.weights[2])
    once, twice = (bg.average(each, weights="stacking", **named) for each in (pair, triple))
    close(twice.weights[0], once.weights[0], atol=1e-5)
    close(*(bg.predict(each, new, rule=bg.BMA()).probabilities for each in (once, twice)), atol=1e-5)


def test_leave_one_out_is_refitting_with_the_prior_kept(fits, data):
    from bayesgen.averaging.left_out import cross_validated_scores

    (X, y), fit = data, fits[0]
    scores = cross_validated_scores(fit, X, y, np.arange(len(y))).given_row
    kept = bg.GenerativeClassifier([("real", fit.prior["real"], ["x0", "x1"])], class_prior=fit.prior["class"])
    for row in (0, 17):
        rest = np.arange(len(y)) != row
        one = bg.fit(kept, X[rest], y[rest], method=bg.Exact())
        answer = bg.predict(one, X[row : row + 1], rule=bg.BMA())
        close(scores[row], answer.log_probabilities[0, answer.classes.tolist().index(y[row])], rtol=1e-9)


def test_stacking_mixes_bernoulli_and_multinomial_events():
    rng = np.random.default_rng(9)
    y, counts = np.arange(40) % 2, rng.poisson(1.0, (40, 4))
    counts[:, 0] += y
    binary = bg.fit(bg.NaiveBayes(bg.BetaBernoulli()), counts > 0, y, method=bg.Exact())
    events = bg.fit(bg.NaiveBayes(bg.DirichletMultinomial()), counts, y, method=bg.Exact())
    poisson = bg.fit(bg.NaiveBayes(bg.GammaPoisson()), counts, y, method=bg.Exact())
    for other in (binary, poisson):
        with pytest.raises(bg.FitError, match=r"different data.*stacking"):
            bg.average([other, events])
    with pytest.raises(bg.FitError, match=r"kinds differ.*stacking"):
        bg.average([binary, poisson])
    ones = rng.integers(0, 2, (60, 4))
    labels = np.arange(60) % 2
    ones[:, 0] = ones[:, 0] | labels
    both = bg.average([binary, events], weights="stacking", X=ones, y=labels, folds=None)
    parts = [bg.predict(fit, ones, rule=bg.BMA()).probabilities for fit in (binary, events)]
    expected = sum(w * part for w, part in zip(both.weights, parts, strict=True))
    close(bg.predict(both, ones, rule=bg.BMA()).probabilities, expected, rtol=1e-10)


def test_stacking_learns_bernoulli_against_multinomial_events_from_the_same_sparse_rows():
    """On rows of zeros and ones both are models; which mixture predicts rows left out best is read off a grid."""
    rng = np.random.default_rng(12)
    y, X = np.arange(60) % 2, (rng.random((60, 6)) < 0.3) * 1.0
    X[:, 0] = np.maximum(X[:, 0], y * (rng.random(60) < 0.7))
    X[:, 5] = 1.0  # no row is empty
    models = [bg.NaiveBayes(family) for family in (bg.BetaBernoulli(), bg.DirichletMultinomial())]
    sparse = scipy.sparse.csr_array(X)
    with pytest.raises(bg.FitError, match=r"different data.*stacking"):
        bg.fit(bg.average(models), sparse, y, method=bg.Exact())
    both = bg.fit(bg.average(models, weights="stacking", folds=60), sparse, y, method=bg.Exact())
    scores = []
    for model in models:
        parts = []
        for row in range(60):
            rest = np.arange(60) != row
            answer = bg.predict(bg.fit(model, X[rest], y[rest], method=bg.Exact()), X[row : row + 1], rule=bg.BMA())
            parts.append(answer.probabilities[0, y[row]])
        scores.append(parts)
    close(both.scores, np.log(scores).sum(1), rtol=1e-9)
    grid = np.linspace(0, 1, 401)
    heights = [np.log(w * np.asarray(scores[0]) + (1 - w) * np.asarray(scores[1])).mean() for w in grid]
    assert abs(both.weights[0] - grid[int(np.argmax(heights))]) <= 1 / 400


def test_sparse_and_dense_counts_are_the_same_data_and_the_coefficient_is_in_both():
    rng = np.random.default_rng(3)
    y, X = np.arange(20) % 2, rng.poisson(2.0, (20, 5))
    model = bg.NaiveBayes(bg.DirichletMultinomial(1.0), class_prior=[0.5, 0.5])
    fits = [bg.fit(model, rows, y, method=bg.Exact()) for rows in (X, scipy.sparse.csr_array(X))]
    close(bg.average(fits).weights, 0.5, rtol=1e-10)
    events = [scipy.stats.dirichlet_multinomial(np.ones(5), row.sum()).logpmf(row) for row in X[:1]]
    one = bg.fit(model, X[:1], [0], method=bg.Exact(), schema=bg.Schema(classes=[0, 1]))
    close(one.log_evidence, events[0] + np.log(0.5), rtol=1e-10)


def test_incomparable_evidences_are_refused(fits, data):
    X, y = data
    relabelled = np.random.default_rng(1).permutation(y)
    others = {
        "classes are.*same rows": (X, np.char.upper(y)),
        "rows by class differ.*same rows": (X, np.where(np.arange(41) < 4, "ape", y)),
        "totals by class differ.*same rows": (X, relabelled),
        "columns or their kinds.*stacking": (np.column_stack([X, X[:, 0] * X[:, 1]]), y),
    }
    for message, other in others.items():
        with pytest.raises(bg.FitError, match=f"not comparable.*{message}"):
            bg.average([fits[0], bg.fit(STRUCTURES[0], *other, method=bg.Exact())])


def about_class_means(X, y, change):
    """Rows with the same class means, the residuals changed."""
    means = np.stack([X[y == label].mean(0) for label in y])
    return means + change(X - means)


def test_rows_with_the_same_totals_and_other_second_moments_are_other_rows(fits, data):
    X, y = data
    shrunk, turned = (about_class_means(X, y, change) for change in (lambda r: 0.1 * r, lambda r: r * [1, -1]))
    for first in (0, 2):
        for other in (1, 3):
            with pytest.raises(bg.FitError, match="squares about the class means differ"):
                bg.average([fits[first], bg.fit(STRUCTURES[other], shrunk, y, method=bg.Exact())])
    full, tied = (bg.fit(model, turned, y, method=bg.Exact()) for model in STRUCTURES[:2])
    for members in ([fits[0], tied], [fits[2], fits[1], full]):
        with pytest.raises(bg.FitError, match="products about the class means of x0, x1 differ"):
            bg.average(members)


def test_other_categories_with_the_same_codes_in_total_are_other_rows():
    y = np.arange(24) % 2
    one, other = (np.asarray(list(values * 2)) for values in ("aaaaddddbbcc", "bbbbccccaadd"))
    models = [bg.NaiveBayes(), bg.NaiveBayes(class_prior=[0.5, 0.5])]
    same, differ = (
        [bg.fit(m, {"v": v}, y, method=bg.Exact()) for m, v in zip(models, vs, strict=True)]
        for vs in ((one, one), (one, other))
    )
    assert bg.average(same).weights.shape == (2,)
    with pytest.raises(bg.FitError, match="the counts by class of 4 values differ"):
        bg.average(differ)


@pytest.mark.filterwarnings("ignore::bayesgen.ConstantColumnWarning")
@pytest.mark.parametrize("offset", [0.0, 1e4, 1e8])
def test_the_same_rows_in_another_order_and_in_chunks_are_comparable(data, offset):
    """What only rounding tells apart is the same data, wherever the columns lie."""
    X, y = (np.concatenate([each] * 7) for each in data)
    X = np.column_stack([X * [1.0, 1e-3] + offset, np.full(len(X), 0.1), np.arange(len(X)) % 2])
    order = np.random.default_rng(8).permutation(len(y))
    chunks = [(X[order[part]], y[order[part]]) for part in (slice(90), slice(90, 100), slice(100, None))]
    schema = bg.Schema(classes=["ape", "bear", "cow"], kinds={f"x{index}": "real" for index in range(4)})
    prior = {"diag": bg.NormalInverseGamma(0.0, 1, 2, 1), "full": bg.NormalInverseWishart(np.zeros(4), 1, 9, np.eye(4))}
    fits = [
        bg.fit(bg.GaussianDiscriminant(form, prior[form]), *rows, method=bg.Exact(), schema=schema)
        for form in prior
        for rows in ((X, y), (X[order], y[order]), (chunks,))
    ]
    close(bg.average(fits).weights.sum(), 1.0)
    stacked = bg.average(fits[1::3], weights="stacking", X=X, y=y, folds=3)
    close(stacked.weights.sum(), 1.0)


def test_an_average_of_averages_of_other_data_is_refused(fits, data):
    X, y = data
    other = bg.average([bg.fit(model, X + 1.0, y, method=bg.Exact()) for model in STRUCTURES[:2]])
    for members in ([bg.average(fits), other], [fits[0], other], [bg.average([bg.average(fits)]), bg.average([other])]):
        with pytest.raises(bg.FitError, match="members 0 and 1 are not comparable: the totals by class differ"):
            bg.average(members)


@pytest.mark.parametrize("weights", ["stacking", "pseudo-bma"])
def test_left_out_weights_take_the_training_rows_alone(data, weights):
    X, y = (each[:13] for each in data)
    fits = [bg.fit(model, X, y, method=bg.Exact()) for model in STRUCTURES[::2]]
    order = np.random.default_rng(3).permutation(13)
    expected = bg.average(fits, weights=weights, X=X, y=y, folds=13)
    shuffled = bg.average(fits, weights=weights, X=X[order], y=y[order], folds=13)
    close(shuffled.weights, expected.weights, atol=1e-5)
    within = np.concatenate([np.flatnonzero(y == label) for label in np.unique(y)])
    for rows in (X[order], X + 1e-6, about_class_means(X, y, lambda r: 2 * r), X[::-1]):
        with pytest.raises(bg.DataError, match=r"not the rows of the training: the .* differ\. Give"):
            bg.average(fits, weights=weights, X=rows, y=y)
    close(bg.average(fits, weights=weights, X=X[within], y=y[within], folds=13).weights, expected.weights, atol=1e-5)


def test_a_generator_of_members_is_a_list_and_seeds_may_be_keys(fits, data):
    X, y = data
    close(bg.average(fit for fit in fits).weights, bg.average(fits).weights)
    assert bg.average(model for model in STRUCTURES).members == tuple(STRUCTURES)
    named = dict(weights="pseudo-bma", X=X, y=y, folds=3)
    by_key, by_number, other = (bg.average(fits, seed=seed, **named) for seed in (jax.random.key(1), 1, np.int64(2)))
    close(by_key.scores, by_number.scores, rtol=1e-14)
    assert np.abs(by_key.scores - other.scores).max() > 1e-6


def test_members_that_all_find_some_row_impossible_are_refused(data):
    X, y = data
    models = [bg.NaiveBayes(class_prior=prior) for prior in ([0.0, 0.5, 0.5], [0.5, 0.0, 0.5], [0.3, 0.3, 0.4])]
    fits = [bg.fit(model, X, y, method=bg.Exact()) for model in models]
    for weights, message in {
        "pseudo-bma": r"some row probability zero \(members in order: rows \[0, 1\]\)",
        "evidence": "gives the data probability zero",
    }.items():
        rows = {} if weights == "evidence" else dict(X=X, y=y)
        with pytest.raises(bg.FitError, match=message):
            bg.average(fits[:2], weights=weights, **rows)
        close(bg.average(fits, weights=weights, **rows).weights, [0.0, 0.0, 1.0])


def test_fits_without_evidence_are_refused(fits, data):
    point = bg.fit(STRUCTURES[1], *data, method=bg.MAP())
    sampled = dataclasses.replace(point, method=bg.NUTS())
    for each in (sampled, bg.fit(STRUCTURES[0], *data, method=bg.MAP())):
        with pytest.raises(bg.FitError, match=rf"{type(each.method).__name__}\(.*not available yet for NUTS.*Exact"):
            bg.average([fits[0], each])
    with pytest.raises(bg.FitError, match="only Exact"):
        bg.average([fits[0], sampled], weights="stacking", X=data[0], y=data[1])


def test_wrong_arguments_are_refused(fits, data):
    for message, call in {
        "weights must be": lambda: bg.average(fits, weights="loo"),
        "nothing to average": lambda: bg.average([]),
        "is a model, not a fit: give X=, and y=": lambda: bg.average([fits[0], STRUCTURES[1]]),
        "give X= and y=.": lambda: bg.average(fits, weights="stacking"),
        "prior must hold 4": lambda: bg.average(fits, prior=[1, 2]),
        "takes no prior": lambda: bg.average(fits, [1, 2, 3, 4], "stacking", X=data[0], y=data[1]),
        "give fits, not models": lambda: bg.average(STRUCTURES, None, "stacking", X=data[0], y=data[1], folds=None),
        "seen: give fits": lambda: bg.average(STRUCTURES, None, "stacking", folds=None),
        "weights must be one of": lambda: bg.average(fits, weights=[0.25] * 4),
        "must be a list of fits or models, got dict": lambda: bg.average({"a": fits[0], "b": fits[1]}),
        "must be a list of fits or models, got Fit": lambda: bg.average(fits[0]),
        "must be a list of fits or models, got str": lambda: bg.average("ab"),
        "Member 1 is neither a fit nor a model: 3": lambda: bg.average([fits[0], 3]),
        "drop X= and y=": lambda: bg.average(fits, X=data[0], y=data[1]),
        "schema= is for models": lambda: bg.average(fits, schema=fits[0].schema),
        "schema= is for models that": lambda: bg.average(STRUCTURES, schema=fits[0].schema),
        "without sample_weight": lambda: bg.fit(
            bg.average(STRUCTURES, weights="stacking"), *data, method=bg.Exact(), sample_weight=np.ones(41)
        ),
    }.items():
        with pytest.raises(bg.FitError, match=message):
            call()
    for folds in (1, 2.5, "ten"):
        with pytest.raises(bg.DataError, match="folds must be"):
            bg.average(fits, weights="stacking", X=data[0], y=data[1], folds=folds)
    with pytest.raises(bg.DataError, match="not the rows"):
        bg.average(fits, weights="stacking", X=data[0][:20], y=data[1][:20])


@pytest.mark.parametrize("seed", [1, 7, 16, 191])
def test_stacking_weights_are_at_the_maximum_by_its_gradient(seed):
    """By concavity the score is within the largest gradient less 1 of its maximum."""
    from bayesgen.averaging.left_out import stacking_weights

    rng = np.random.default_rng(seed)
    log_scores = rng.normal(size=(int(rng.integers(1, 200)), int(rng.integers(1, 8)))) * 10.0 ** rng.integers(-3, 3)
    weights = stacking_weights(log_scores)
    assert weights.min() >= 0 and abs(weights.sum() - 1) < 1e-12
    mixed = scipy.special.logsumexp(log_scores, axis=1, b=weights, keepdims=True)
    assert np.exp(log_scores - mixed).mean(0).max() - 1 < 1e-9


def test_models_of_rows_without_labels_are_fitted_to_rows_alone():
    X = np.random.default_rng(0).normal(size=(30, 2))
    families = [bg.NormalInverseGamma(0.0, kappa, 2.0, 1.0) for kappa in (1.0, 9.0)]
    models = [bg.NaiveBayes(family, class_prior=None) for family in families]
    evidences = [bg.fit(model, X, method=bg.Exact()).log_evidence for model in models]
    expected = scipy.special.softmax(evidences)
    np.testing.assert_allclose(bg.average(models, X=X).weights, expected, rtol=1e-12)
    assert bg.average(models, weights="stacking", X=X, folds=3).weights.shape == (2,)
    with pytest.raises(bg.BayesgenError):
        bg.average([bg.NaiveBayes()], X=X)
