"""Rows without labels: what every built-in model makes of them, by EM and by sampling."""

import dataclasses
import itertools

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest
import scipy.sparse
from counting import compilations
from models.cases import CASES, ROWS, stated, take, with_holes
from oracles.moments import assert_moments
from scipy import stats

import bayesgen as bg
from bayesgen.data import Rows
from bayesgen.fitting.em import CompleteDataObjective, ExpectationMaximization, SearchOptions, search_by_em
from bayesgen.fitting.training import prepare

close = np.testing.assert_allclose
every_case = pytest.mark.parametrize("name", CASES)


def hidden(y, share=0.5, seed=11):
    """Labels, some of which are missing; in each class two are left."""
    rng = np.random.default_rng(seed)
    labels = np.asarray(y, object).copy()
    labels[rng.random(len(y)) < share] = None
    for label in np.unique(y):
        labels[np.flatnonzero(np.asarray(y) == label)[:2]] = label
    return labels


def steps_of(problem, has_prior, hard=False):
    statistics = problem.data.statistics
    labelled = dataclasses.replace(statistics, unlabelled=None)
    objective = CompleteDataObjective.of(problem.conjugate, has_prior)
    return ExpectationMaximization(problem.conjugate, objective, labelled, statistics.unlabelled, hard)


@every_case
def test_the_likelihood_is_the_sum_over_all_labelings(name):
    case = CASES[name]
    X, y = case.data
    few = np.r_[0:3, 20:27]
    missing = np.array([1, 4, 5, 6, 8, 9])
    labels = np.asarray(y[few], object)
    labels[missing] = None
    schema = case.exact.schema
    problem = prepare(case.model, take(X, few), labels, schema=dataclasses.replace(schema, mean=None, variance=None))
    parameters = case.exact.parameters
    found, _ = steps_of(problem, False).e_step(parameters)
    hard, _ = steps_of(problem, False, hard=True).e_step(parameters)
    table = case.exact.log_joint(take(X, few), at="mean")
    codes = schema.encode_labels(y[few])
    totals = []
    for guess in itertools.product(range(len(schema.classes)), repeat=len(missing)):
        codes[missing] = guess
        totals.append(table[np.arange(len(few)), codes].sum())
    close(found, np.logaddexp.reduce(totals), rtol=1e-10)
    close(hard, max(totals), rtol=1e-10)


@pytest.mark.parametrize("assignment", ["soft", "hard"])
@pytest.mark.parametrize("has_prior", [False, True], ids=["likelihood", "posterior"])
@every_case
def test_the_objective_never_falls(name, has_prior, assignment):
    case = CASES[name]
    X, y = case.data
    problem = prepare(case.model, X, hidden(y), sample_weight=np.random.default_rng(1).integers(1, 4, ROWS))
    options = SearchOptions(1, hard=assignment == "hard")
    objective = CompleteDataObjective.of(problem.conjugate, has_prior)
    search = search_by_em(problem, problem.conjugate, objective, problem.data.statistics, options)
    objectives = np.asarray(search.best.objectives)
    assert len(objectives) > 2 and search.best.converged
    assert (np.diff(objectives) >= -1e-11 * np.abs(objectives[-1])).all()
    # at the top no direction leads up: EM stays where it is
    objective, following = search.steps.step(search.best.point)
    again, _ = search.steps.step(following)
    close(again, objective, rtol=1e-9)


@pytest.mark.parametrize("name", ["naive Bayes", "discriminant, full", "discriminant, tied", "own blocks"])
def test_cells_may_be_missing_too(name):
    """EM over both: its likelihood is that of a program whose rows have neither, its objective never falls."""
    case = CASES[name]
    X, y = case.data
    masked = with_holes(X, np.random.default_rng(8))
    problem = prepare(case.model, masked, hidden(y))
    assert problem.data.statistics.unlabelled.observed
    search = search_by_em(
        problem,
        problem.conjugate,
        CompleteDataObjective.of(problem.conjugate, has_prior=True),
        problem.data.statistics,
        SearchOptions(1),
    )
    objectives = np.asarray(search.best.objectives)
    assert len(objectives) > 2 and search.best.converged
    assert (np.diff(objectives) >= -1e-11 * np.abs(objectives[-1])).all()
    fit = bg.fit(case.model, masked, hidden(y), method=bg.MAP(num_starts=1))
    table = fit.log_joint(masked)
    codes = np.array([-1 if label is None else fit.classes.tolist().index(label) for label in hidden(y)])
    of_rows = np.where(codes < 0, np.logaddexp.reduce(table, axis=1), table[np.arange(ROWS), codes])
    prior = fit.posterior.conjugate.log_prior(fit.parameters)
    close(fit.attributes["objective"], of_rows.sum() + prior, rtol=1e-10)


def fitted(name, method, rows=slice(None), **options):
    case = CASES[name]
    X, y = case.data
    X, labels = take(X, rows), hidden(y)[rows]
    return bg.fit(case.model, X, labels, method=method, **options)


def assert_same(one, two, rtol=1e-6):
    assert one.schema == two.schema
    close(one.attributes["objective"], two.attributes["objective"], rtol=1e-10)
    for key, value in one.parameters.items():
        close(value, two.parameters[key], rtol=rtol, atol=1e-7, err_msg=key)


LAWS = [
    "naive Bayes, informative",
    "discriminant, full",
    "discriminant, tied-diag",
    "multinomial, sparse",
    "own blocks",
]


@pytest.mark.parametrize("name", LAWS)
def test_order_weights_and_chunks_do_not_matter(name):
    case, one = CASES[name], bg.MAP(num_starts=1)
    X, y = case.data
    plain = fitted(name, one)
    order = np.random.default_rng(2).permutation(ROWS)
    assert_same(fitted(name, one, order), plain)
    weights = np.random.default_rng(1).integers(0, 4, ROWS)
    weights[[0, 1, 2, 3, 4, 5]] = 1
    assert_same(fitted(name, one, np.repeat(np.arange(ROWS), weights)), fitted(name, one, sample_weight=weights))
    labels, schema = hidden(y), bg.Schema(classes=plain.classes, categories=plain.schema.categories)
    parts = [(take(X, part), labels[part]) for part in (slice(0, 20), slice(20, 21), slice(21, ROWS))]
    assert_same(bg.fit(case.model, iter(parts), method=one, schema=schema), plain)
    merged = sum(
        (bg.summarize(case.model, *part, schema=schema) for part in parts[1:]),
        start=bg.summarize(case.model, *parts[0], schema=schema),
    )
    assert merged.total_weight == ROWS
    assert_same(bg.fit(case.model, merged, method=one), plain)


@pytest.mark.parametrize("name", ["multinomial, sparse", "Bernoulli, sparse"])
def test_sparse_rows_are_learned_as_dense_ones(name):
    case = CASES[name]
    X, y = case.data
    schema = bg.summarize(case.model, X, y).schema
    family = bg.DirichletMultinomial() if "multinomial" in name else bg.BetaBernoulli(1.7, 2.6)
    dense = bg.fit(bg.NaiveBayes(family, case.model.class_prior), X.toarray(), hidden(y), method=bg.MAP())
    sparse = bg.fit(case.model, X, hidden(y), method=bg.MAP())
    assert schema.sparse and not dense.schema.sparse
    close(dense.attributes["objective"], sparse.attributes["objective"], rtol=1e-11)
    for key, value in dense.parameters.items():
        close(value, sparse.parameters[key], rtol=1e-7, atol=1e-9)


def test_the_weight_of_rows_without_labels():
    case = CASES["discriminant, diag"]
    X, y = case.data
    labels = hidden(y)
    known = np.flatnonzero(labels != None)  # noqa: E711
    lost = np.setdiff1d(np.arange(ROWS), known)
    prior = bg.NormalInverseGamma(0.5, 0.1, 2.0, 1.0)
    model = bg.GaussianDiscriminant("diag", prior)
    none = bg.fit(model, X, labels, method=bg.MAP(unlabelled_weight=0))
    alone = bg.fit(model, take(X, known), y[known], method=bg.MAP())
    twice = bg.fit(model, X, labels, method=bg.MAP(unlabelled_weight=2.0, num_starts=1))
    more = np.r_[np.arange(ROWS), lost]
    repeated = bg.fit(model, take(X, more), labels[more], method=bg.MAP(num_starts=1))
    for key, value in alone.parameters.items():
        close(none.parameters[key], value, rtol=1e-12)
        close(twice.parameters[key], repeated.parameters[key], rtol=1e-6)
        assert not np.allclose(none.parameters[key], twice.parameters[key], rtol=1e-3)
    assert twice.attributes["total_weight"] == ROWS and repeated.attributes["total_weight"] == ROWS + len(lost)
    assert twice.attributes["total_weight_unlabelled"] == len(lost)


def test_starts_are_where_users_say():
    case = CASES["discriminant, tied"]
    X, y = case.data
    labels = hidden(y)
    weights = np.ones(ROWS)
    weights[[7, 30]] = 0
    right = bg.fit(case.model, X, labels, method=bg.MAP(starts=y), sample_weight=weights)
    shares = (y[:, None] == np.unique(y)) * 1.0
    for starts in (shares, [shares], [y, y], pd.Series(y), y.tolist()):
        again = bg.fit(case.model, X, labels, method=bg.MAP(starts=starts), sample_weight=weights)
        for key, value in right.parameters.items():
            close(again.parameters[key], value, rtol=1e-9)
    assert right.attributes["num_starts"] == 1 and again.attributes["num_starts"] == 1
    method = bg.MAP(starts=[y, shares])
    assert method == bg.MAP(starts=[y, shares]) != bg.MAP(starts=[y]) and hash(method) == hash(
        bg.MAP(starts=[y, shares])
    )
    assert bg.fit(case.model, X, labels, method=method).attributes["num_starts"] == 2
    assert len(repr(method)) < 150


def test_starts_that_do_not_fit_are_refused():
    case = CASES["discriminant, tied"]
    X, y = case.data
    labels, shares = hidden(y), np.full((ROWS, 3), 1 / 3)

    def refused(words, starts, y=labels):
        with pytest.raises(bg.DataError, match=words):
            bg.fit(case.model, X, y, method=bg.MAP(starts=starts))

    place = int(np.flatnonzero(labels == None)[0])  # noqa: E711
    refused("5 rows, and X has 53", y[:5])
    refused("2 columns", shares[:, :2])
    refused(f"at row {place}", 2 * shares)
    refused("dog", np.where(np.arange(ROWS) == place, "dog", y))
    refused(f"no label at row {place}", labels)
    refused("every row has its label", y, y)
    with pytest.raises(bg.DataError, match="shape"):
        bg.MAP(starts=np.zeros((2, 2, 2)))
    for wrong in (
        {"assignment": "medium"},
        {"unlabelled_weight": -1},
        {"unlabelled_weight": np.nan},
        {"num_starts": 0},
    ):
        with pytest.raises(bg.ModelError, match=next(iter(wrong))):
            bg.MLE(**wrong)


def test_singular_starts_are_dropped_and_counted():
    X = np.r_[np.linspace(-1, 1, 11), np.linspace(9, 11, 11)][:, None]
    y = np.array(["a"] * 5 + [None] * 17, object)
    schema = bg.Schema(classes=["a", "b"])
    lone = np.where(np.arange(22) == 21, "b", "a")
    with pytest.raises(bg.FitError, match=r"any of 1 starts.*MAP\(\)"):
        bg.fit(bg.NaiveBayes(), X, y, method=bg.MLE(starts=lone), schema=schema)
    half = np.where(np.arange(22) > 10, "b", "a")
    fit = bg.fit(bg.NaiveBayes(), X, y, method=bg.MLE(starts=[lone, half]), schema=schema)
    assert fit.attributes["num_starts"] == 2 and fit.attributes["num_starts_dropped"] == 1
    assert fit.attributes["classes_without_labels"] == ("b",) and "'b'" in repr(fit)
    bg.fit(bg.NaiveBayes(), X, y, method=bg.MAP(starts=lone), schema=schema)
    with pytest.raises(bg.FitError, match=r"any of 8 starts.*Beta.*NUTS\(\)"):
        bg.fit(bg.NaiveBayes(bg.BetaBernoulli(0.5, 0.5)), (X > 3) * 1.0, y, method=bg.MAP(), schema=schema)


def test_classes_without_any_label():
    rng = np.random.default_rng(3)
    X = np.r_[rng.normal(-5, 1, (30, 2)), rng.normal(5, 1, (40, 2)), rng.normal(15, 1, (30, 2))]
    schema = bg.Schema(classes=["a", "b", "c"])
    y = np.array(["a"] * 3 + [None] * 97, object)
    with pytest.warns(bg.BayesgenWarning, match="'b', 'c' have no row with a label"):
        fit = bg.fit(bg.GaussianDiscriminant(), X, y, method=bg.MAP(), schema=schema)
    close(np.sort(fit.parameters["class_probs"]), [0.3, 0.3, 0.4], atol=0.01)
    assert bg.predict(fit, X[:30], rule=bg.PlugIn()).labels.tolist() == ["a"] * 30
    with pytest.raises(bg.DataError, match="Mixture"):
        bg.fit(bg.GaussianDiscriminant(), X, np.full(100, None), method=bg.MAP())
    with pytest.warns(bg.BayesgenWarning, match="'a', 'b', 'c' have no row with a label"):
        bg.fit(bg.GaussianDiscriminant(), X, np.full(100, np.nan), method=bg.MAP(), schema=schema)


def hypotheses(n):
    """Three known distributions of three outcomes, of unknown shares."""
    likelihoods = jnp.array([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]])
    shares = numpyro.sample("shares", dist.Dirichlet(np.ones(3)))
    with numpyro.plate("rows", n):
        hypothesis = numpyro.sample("y", dist.Categorical(shares))
        numpyro.sample("x", dist.Categorical(likelihoods[hypothesis]))


def test_classes_whose_attributes_are_known_keep_their_names_without_labels():
    program = bg.GenerativeProgram(hypotheses, classes=["low", "middle", "high"])
    x = np.repeat([0, 1, 2], [1, 4, 15])
    fit = bg.fit(program, {"x": x}, np.array(["low"] + [None] * 19, object), method=bg.MAP())  # without a warning
    assert fit.attributes["classes_without_labels"] == ("middle", "high")
    assert fit.parameters["shares"][2] > 0.6 > 0.4 > fit.parameters["shares"][1]


def test_the_default_prior_has_the_scale_of_all_rows():
    case = CASES["discriminant, full"]
    X, y = case.data
    whole = bg.fit(case.model, X, y, method=bg.MAP()).schema
    some = bg.fit(case.model, X, hidden(y), method=bg.MAP(unlabelled_weight=0.3)).schema
    close(some.mean, whole.mean, rtol=1e-12)
    close(some.variance, whole.variance, rtol=1e-12)


def test_sparse_rows_that_would_be_too_many_cells_are_not_made_dense():
    X = scipy.sparse.random_array((4000, 50_000), density=1e-5, format="csr", rng=1)
    X.data[:] = 1.0
    y = np.array(["a", "b"] + [None] * 3998, object)
    with pytest.raises(bg.DataError, match=r"3,998 sparse rows.*MAP\(\)"):
        bg.fit(bg.NaiveBayes(), X, y, method=bg.NUTS())
    fit = bg.fit(bg.NaiveBayes(), X, y, method=bg.MAP(num_starts=1))
    assert fit.attributes["converged"]


def test_exact_refuses_and_says_why():
    X, y = CASES["discriminant, diag"].data
    with pytest.raises(bg.FitError, match=r"labels are missing.*power of rows.*NUTS\(\).*MAP\(\)"):
        bg.fit(bg.NaiveBayes(), X, hidden(y), method=bg.Exact())


def test_comparisons_learn_from_rows_without_labels():
    case = CASES["discriminant, diag"]
    X, y = case.data
    pairs = [(bg.MLE(), bg.PlugIn()), (bg.MAP(), bg.PlugIn()), (bg.Exact(), bg.BMA())]
    table = bg.compare(case.model, X, hidden(y), X, y, methods=pairs).table
    assert table.refused.isna().tolist() == [True, True, False]
    assert table.accuracy[0] > 0.5


def test_unlikely_rows_and_rows_in_threads(monkeypatch):
    """In many small chunks and threads the same as in one."""
    from bayesgen.fitting import em

    case = CASES["own blocks"]
    X, y = case.data
    whole = bg.fit(case.model, X, hidden(y), method=bg.MAP(num_starts=2))
    many = {name: np.concatenate([column] * 6) for name, column in X.items()}
    six = bg.fit(case.model, many, np.tile(hidden(y), 6), method=bg.MLE(num_starts=1))
    monkeypatch.setattr(em, "THREAD_CELLS", 1)
    in_parts = bg.fit(case.model, many, np.tile(hidden(y), 6), method=bg.MLE(num_starts=1))
    assert len(whole.parameters) == len(six.parameters)
    for key, value in six.parameters.items():
        close(in_parts.parameters[key], value, rtol=1e-8)


def test_rows_join_whatever_masks_and_matrices_they_have():
    from bayesgen.data import joined_rows

    masked = Rows({"x": np.ones((2, 3))}, {"x": np.array([[True, False, True]] * 2)})
    both = joined_rows([Rows({"x": np.zeros((1, 3))}), masked])
    assert both.observed["x"].tolist() == [[True] * 3, [True, False, True], [True, False, True]]
    matrices = [scipy.sparse.random_array((n, 7), density=0.4, format="csr", rng=n) for n in (3, 1, 5)]
    stacked = joined_rows([Rows({"x": matrix}) for matrix in matrices]).values["x"]
    close(stacked.toarray(), scipy.sparse.vstack(matrices).toarray())
    close(stacked @ np.arange(7.0), scipy.sparse.vstack(matrices) @ np.arange(7.0))


@pytest.mark.parametrize(
    "name", ["naive Bayes, integer labels", pytest.param("multinomial, dense", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("method", [pytest.param(bg.MLE(), marks=pytest.mark.slow), bg.MAP()], ids=["MLE", "MAP"])
def test_em_ends_where_a_search_over_the_density_does(name, method):
    """Programs know no families: their densities, labels summed out, are climbed by their gradients."""
    case = CASES[name]
    X, y = case.data
    built_in = bg.fit(case.model, X, hidden(y), method=method)
    own = bg.fit(built_in.program, stated(built_in, X), hidden(y), method=method)
    assert own.attributes["total_weight_unlabelled"] == built_in.attributes["total_weight_unlabelled"] > 10
    for key, value in built_in.parameters.items():
        if key in own.parameters:
            close(own.parameters[key], value, rtol=1e-3, atol=1e-4, err_msg=key)
    labelled = bg.fit(case.model, take(X, hidden(y) != None), y[hidden(y) != None], method=method)  # noqa: E711
    assert any(
        not np.allclose(labelled.parameters[key], value, rtol=1e-2) for key, value in built_in.parameters.items()
    )


@pytest.mark.slow  # two programs, each compiled for three densities
def test_programs_of_ones_own_take_the_same_arguments():
    case = CASES["naive Bayes, integer labels"]
    X, y = case.data
    labels, starts = hidden(y), np.full((ROWS, 2), 0.5) + 0.4 * (np.asarray(y)[:, None] == [3, 7]) - 0.2
    for options in (
        {"starts": [y, starts]},
        {"assignment": "hard", "starts": y},
        {"unlabelled_weight": 0.2, "starts": y},
    ):
        built_in = bg.fit(case.model, X, labels, method=bg.MAP(**options))
        own = bg.fit(built_in.program, stated(built_in, X), labels, method=bg.MAP(**options))
        for key, value in own.parameters.items():
            close(value, built_in.parameters[key], rtol=1e-3, err_msg=f"{key} {options}")


def tossed(n):
    """Two coins, of which one is taken for five tosses."""
    p = numpyro.sample("p", dist.Beta(np.array([2.0, 4.0]), np.array([3.0, 1.5])).to_event(1))
    with numpyro.plate("rows", n):
        y = numpyro.sample("y", dist.Categorical(np.array([0.4, 0.6])))
        numpyro.sample("x", dist.Binomial(5, p[y]))


def quadrature(x, labels, weights, tosses):
    """Means and covariance of both probabilities, on a grid, each row a mixture over the classes that it may have."""
    grid = (np.arange(400) + 0.5) / 400
    log_density = stats.beta.logpdf(grid, 2.0, 3.0)[:, None] + stats.beta.logpdf(grid, 4.0, 1.5)[None, :]
    for value, label, weight in zip(x, labels, weights, strict=True):
        of_row = np.log([0.4, 0.6])[:, None] + stats.binom.logpmf(value, tosses, grid)
        first, second = of_row[0][:, None], of_row[1][None, :]
        log_density = log_density + weight * {0: first, 1: second, None: np.logaddexp(first, second)}[label]
    mass = np.exp(log_density - log_density.max())
    mass /= mass.sum()
    points = np.stack(np.meshgrid(grid, grid, indexing="ij"), -1)
    mean = (mass[..., None] * points).sum((0, 1))
    return mean, np.einsum("ab,abi,abj->ij", mass, points - mean, points - mean)


def tosses(num_tosses):
    rng = np.random.default_rng(8)
    codes = rng.integers(0, 2, 23)
    x, weights = rng.binomial(num_tosses, np.array([0.3, 0.75])[codes]), rng.integers(1, 3, 23)
    labels = np.where(np.arange(23) < 6, codes.astype(object), None)
    return x, labels, weights, quadrature(x, labels, weights, num_tosses)


COIN = bg.NaiveBayes(bg.BetaBernoulli(np.array([[2.0], [4.0]]), np.array([[3.0], [1.5]])), class_prior=[0.4, 0.6])


def test_nuts_sums_labels_out():
    x, labels, weights, (mean, covariance) = tosses(1)
    X = scipy.sparse.csr_array(x[:, None].astype(float))
    fit = bg.fit(COIN, X, labels, method=bg.NUTS(num_samples=2000), sample_weight=weights)
    assert fit.attributes["path"] == "whitened"
    assert_moments(fit.parameters["binary_probs"][..., 0], mean, covariance, "probs")
    assert fit.attributes["total_weight_unlabelled"] == weights[6:].sum()
    assert fit.attributes["classes_without_labels"] == ()


@pytest.mark.slow  # the model above is in every run
def test_nuts_sums_labels_of_programs_out():
    x, labels, weights, (mean, covariance) = tosses(5)
    program = bg.GenerativeProgram(tossed, classes=2)
    fit = bg.fit(program, {"x": x}, labels, method=bg.NUTS(num_samples=2000), sample_weight=weights)
    assert_moments(fit.parameters["p"], mean, covariance, "p")


@pytest.mark.filterwarnings("ignore::bayesgen.errors.ConvergenceWarning")  # short chains will do
def test_a_second_fit_compiles_nothing():
    """The numbers of rows with and without labels may differ, up to the next size that functions are compiled for."""
    method = bg.NUTS(num_warmup=20, num_samples=20)
    rng = np.random.default_rng(1)

    def learn(num_rows):
        x = scipy.sparse.csr_array((rng.random((num_rows, 1)) < 0.4) * 1.0)
        labels = np.where(np.arange(num_rows) < 6, np.arange(num_rows) % 2, None)
        bg.fit(COIN, x, labels, method=method, sample_weight=rng.integers(1, 3, num_rows))

    learn(23)
    with compilations() as found:
        learn(26)  # 17 and 20 rows without labels: 20 each
    assert found == []


def test_labelled_rows_of_a_class_of_probability_zero_are_refused():
    model = bg.NaiveBayes(class_prior=[0.0, 1.0])
    with pytest.raises(bg.FitError, match="given the probability zero"):
        bg.fit(model, [[1.0], [2.0], [3.0], [5.0], [4.0]], ["a", "a", "b", "b", None], method=bg.MAP())
