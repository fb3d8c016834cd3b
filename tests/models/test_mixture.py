"""Mixtures: models whose labels are all unknown, against scikit-learn, SciPy and enumeration."""

import json

import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import scipy.optimize
import scipy.special
import scipy.stats
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

import bayesgen as bg
from models.cases import CASES, NEW, ROWS

close = np.testing.assert_allclose
FORMS = ("full", "tied", "diag", "spherical")


def in_two_groups(n):
    """A program of two classes."""
    share = numpyro.sample("share", dist.Beta(2, 2))
    center = numpyro.sample("center", dist.Normal(0, 3).expand([2]).to_event(1))
    with numpyro.plate("rows", n):
        y = numpyro.sample("y", dist.Bernoulli(share))
        numpyro.sample("x", dist.Normal(center[y], 1.0))


def without_groups(n):
    """A program without classes."""
    center = numpyro.sample("center", dist.Normal(0, 3))
    with numpyro.plate("rows", n):
        numpyro.sample("x", dist.Normal(center, 1.0))


@pytest.fixture(scope="module")
def blobs():
    """Three groups that overlap a little, of correlated columns of unlike scales."""
    rng = np.random.default_rng(11)
    codes = np.arange(211) % 3
    factor = np.asarray([[1.0, 0.0], [0.6, 0.5]])
    X = rng.normal(size=(211, 2)) @ factor.T + np.asarray([[0.0, 0.0], [3.0, 1.0], [0.5, 3.5]])[codes]
    return X * [1.0, 20.0] + [0.0, 100.0], codes


# --- what a mixture is ------------------------------------------------------------------------------------------


def test_mixtures_are_equal_by_content():
    one, two = (bg.Mixture(bg.GaussianDiscriminant("tied"), 3) for _ in range(2))
    assert one == two and hash(one) == hash(two) and one != bg.Mixture(bg.GaussianDiscriminant("tied"), 4)
    assert repr(one).startswith("Mixture(model=GaussianDiscriminant(covariance='tied'")
    program = bg.GenerativeProgram(in_two_groups, classes=["low", "high"])
    assert bg.Mixture(program, 2) == bg.Mixture(program, 2)


@pytest.mark.parametrize("number", [0, -3, 2.0, True, None, "two"])
def test_a_mixture_has_a_whole_number_of_components(number):
    with pytest.raises(bg.ModelError, match="num_components must be a whole number and at least 1"):
        bg.Mixture(bg.NaiveBayes(), number)


def test_what_has_no_components_is_refused_by_name():
    own = bg.GenerativeProgram(in_two_groups, classes=2)
    for message, model in {
        "made of a model or a GenerativeProgram": bg.NaiveBayes,
        "components of a mixture cannot be mixtures": bg.Mixture(bg.NaiveBayes(), 2),
        "label=None has none: sample the component": bg.GenerativeProgram(without_groups, label=None),
        r"2 classes, and the mixture 3 components.*Mixture\(program, 2\)": own,
        "got AverageModel": bg.average([bg.NaiveBayes(), bg.GaussianDiscriminant()]),
    }.items():
        with pytest.raises(bg.ModelError, match=message):
            bg.Mixture(model, 3)
    with pytest.raises(bg.ModelError, match="Use structure='full'"):
        bg.fit(bg.Mixture(bg.NaiveBayes(structure="average"), 2), [[1.0], [2.0]], method=bg.MAP())
    with pytest.raises(bg.ModelError, match="2 fixed class probabilities, but 3 classes"):
        bg.fit(bg.Mixture(bg.NaiveBayes(class_prior=[0.5, 0.5]), 3), [[1.0], [2.0]], method=bg.MAP())


def test_labels_are_refused_with_what_takes_them(blobs):
    mixture = bg.Mixture(bg.NaiveBayes(), 2)
    chunks = [([[1.0], [2.0]],), ([[3.0], [4.0]], ["a", "b"])]
    for call in (
        lambda: bg.fit(mixture, *blobs, method=bg.MAP()),
        lambda: bg.fit(mixture, chunks, method=bg.MAP()),
        lambda: bg.summarize(mixture, *blobs),
    ):
        with pytest.raises(bg.DataError, match=r"takes no y.*None or NaN where a label is missing"):
            call()
    with pytest.raises(bg.DataError, match=r"components 0 to 1: leave Schema\(classes=...\) out"):
        bg.fit(mixture, blobs[0], method=bg.MAP(), schema=bg.Schema(classes=["a", "b"]))


def test_a_model_without_labels_is_told_of_mixtures(blobs):
    for model in (bg.NaiveBayes(), bg.GaussianDiscriminant()):
        with pytest.raises(bg.DataError, match=r"y is missing.*Mixture\(model, num_components\)"):
            bg.fit(model, blobs[0], method=bg.Exact())
    with pytest.raises(bg.DataError, match="starts= has 5 "):
        bg.fit(bg.Mixture(bg.NaiveBayes(), 2), [[1.0], [2.0]], method=bg.MAP(starts=[1, 5]))


def test_exact_refuses_a_mixture(blobs):
    with pytest.raises(bg.FitError, match=r"Exact\(\).*NUTS"):
        bg.fit(bg.Mixture(bg.NaiveBayes(), 2), blobs[0], method=bg.Exact())


# --- expectation maximisation against other programs -----------------------------------------------------------


def test_k_means_is_a_mixture_by_hard_assignment(blobs):
    X, _ = blobs
    start = np.random.default_rng(1).integers(0, 3, len(X))
    model = bg.Mixture(bg.GaussianDiscriminant("tied-spherical", class_prior=[1 / 3] * 3), 3)
    fit = bg.fit(model, X, method=bg.MLE(assignment="hard", starts=start))
    centers = np.stack([X[start == k].mean(axis=0) for k in range(3)])
    theirs = KMeans(3, init=centers, n_init=1, algorithm="lloyd", tol=0).fit(X)
    close(fit.parameters["real_mean"], theirs.cluster_centers_, rtol=1e-12)
    close(fit.parameters["real_variance"] * X.size, theirs.inertia_, rtol=1e-12)
    np.testing.assert_array_equal(bg.predict(fit, X, rule=bg.PlugIn()).labels, theirs.labels_)
    assert fit.attributes["num_iterations"] == theirs.n_iter_


@pytest.mark.parametrize("form", FORMS)
def test_every_step_is_that_of_a_gaussian_mixture(form, blobs):
    """From the same start, after the same number of steps: all parameters, and the likelihood."""
    X, start = blobs[0], np.where(np.arange(211) % 7 > 0, blobs[1], np.random.default_rng(2).integers(0, 3, 211))
    fit = bg.fit(bg.Mixture(bg.GaussianDiscriminant(form), 3), X, method=bg.MLE(starts=start))
    first = bg.fit(bg.GaussianDiscriminant(form), X, start, method=bg.MLE()).parameters
    spread = "real_covariance" if form in ("full", "tied") else "real_variance"
    precision = np.linalg.inv(first[spread]) if form in ("full", "tied") else 1 / first[spread]
    theirs = GaussianMixture(
        3,
        covariance_type=form,
        reg_covar=0,
        tol=0,
        max_iter=fit.attributes["num_iterations"],
        weights_init=first["class_probs"],
        means_init=first["real_mean"],
        precisions_init=precision,
    )
    with pytest.warns(ConvergenceWarning, match="converge"):  # it is told to stop after these steps
        theirs.fit(X)
    close(fit.attributes["objective"], theirs.score(X) * len(X), rtol=1e-12)
    close(fit.parameters["class_probs"], theirs.weights_, rtol=1e-9)
    close(fit.parameters["real_mean"], theirs.means_, rtol=1e-9)
    close(fit.parameters[spread], theirs.covariances_, rtol=1e-8)
    answer = bg.predict(fit, X, rule=bg.PlugIn())
    close(answer.probabilities, theirs.predict_proba(X), atol=1e-9)
    close(answer.log_marginal, theirs.score_samples(X), rtol=1e-9)
    assert fit.attributes["num_iterations"] > 10


def binary_rows(rng, codes):
    return rng.random((len(codes), 5)) < np.asarray([[0.9, 0.8, 0.1, 0.2, 0.6], [0.2, 0.3, 0.8, 0.7, 0.5]])[codes]


def categorical_rows(rng, codes):
    shares = np.asarray([[[6, 3, 1], [2, 1, 7]], [[1, 2, 7], [5, 4, 1]]])[codes] / 10
    draws = (rng.random((len(codes), 2, 1)) > shares.cumsum(axis=2)).sum(axis=2)
    return {name: np.asarray(["low", "middle", "top"])[draws[:, j]] for j, name in enumerate(("price", "speed"))}


def count_rows(rng, codes):
    shares = np.asarray([[5, 3, 1, 1], [1, 2, 3, 6]])[codes]
    return np.stack([rng.multinomial(n, row / row.sum()) for n, row in zip(3 + codes * 2, shares, strict=True)])


def log_bernoulli(values, free):
    return scipy.stats.bernoulli(scipy.special.expit(free.reshape(5))).logpmf(values["binary"]).sum(axis=1)


def log_categorical(values, free):
    logs = scipy.special.log_softmax(free.reshape(2, 3), axis=1)
    return sum(logs[j][values["categorical_3"][:, j]] for j in range(2))


def log_multinomial(values, free):
    counts = values["count"]
    return scipy.stats.multinomial(counts.sum(axis=1), scipy.special.softmax(free)).logpmf(counts)


# model, its rows, log density of rows at free parameters of one component, how many there are
KINDS = {
    "Bernoulli": (bg.NaiveBayes(), binary_rows, log_bernoulli, 5),
    "categorical": (bg.NaiveBayes(), categorical_rows, log_categorical, 6),
    "multinomial": (bg.NaiveBayes(bg.DirichletMultinomial()), count_rows, log_multinomial, 4),
}


@pytest.mark.parametrize("kind", KINDS)
def test_em_maximises_the_likelihood_as_scipy_writes_it(kind):
    model, rows, log_density, size = KINDS[kind]
    rng = np.random.default_rng(3)
    truth = rng.permutation(np.arange(211) % 2)
    X = rows(rng, truth)
    fit = bg.fit(bg.Mixture(model, 2), X, method=bg.MLE(starts=truth))
    values = fit.read(X).values

    def loss(free):
        parts = [log_density(values, free[1 + k * size : 1 + (k + 1) * size]) for k in range(2)]
        logs = scipy.special.log_expit([-free[0], free[0]])
        return -np.logaddexp(parts[0] + logs[0], parts[1] + logs[1]).sum()

    far = [0.0]
    for k in range(2):  # from a start of its own: what rows of each group are like
        group = {name: value[truth == k] for name, value in values.items()}
        local = scipy.optimize.minimize(lambda free, group=group: -log_density(group, free).sum(), np.zeros(size))
        far += local.x.tolist()
    best = scipy.optimize.minimize(loss, far, options={"gtol": 1e-7})
    assert fit.attributes["objective"] == pytest.approx(-best.fun, abs=1e-4)
    close(fit.attributes["objective"], bg.predict(fit, X, rule=bg.PlugIn()).log_marginal.sum(), rtol=1e-10)


def test_a_missing_cell_is_left_out_of_the_likelihood_and_of_responsibilities(blobs):
    X = blobs[0].copy()
    missing = np.random.default_rng(4).random(X.shape) < 0.2
    X[missing] = np.nan
    fit = bg.fit(bg.Mixture(bg.GaussianDiscriminant("diag"), 3), X, method=bg.MLE(num_starts=2))
    mean, deviation = fit.parameters["real_mean"], np.sqrt(fit.parameters["real_variance"])
    of_cells = scipy.stats.norm(mean, deviation).logpdf(X[:, None])
    joint = np.where(missing[:, None], 0.0, of_cells).sum(axis=2) + np.log(fit.parameters["class_probs"])
    close(fit.attributes["objective"], scipy.special.logsumexp(joint, axis=1).sum(), rtol=1e-10)
    answer = bg.predict(fit, X, rule=bg.PlugIn())
    close(answer.probabilities, scipy.special.softmax(joint, axis=1), atol=1e-10)


# --- every model -----------------------------------------------------------------------------------------------


VARIANTS = ("informative", "integer labels", "diag", "spherical", "tied-diag", "tied-spherical", "stated", "that end")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * name.endswith(VARIANTS)) for name in CASES]
)
def test_every_model_is_a_model_of_components(name):
    """Sites and shapes are the model's, responsibilities and densities its table's, scales those of all rows."""
    case = CASES[name]
    X, number = case.data[0], len(case.labels)
    fit = bg.fit(bg.Mixture(case.model, number), X, method=bg.MAP(num_starts=2), seed=1)
    assert fit.classes.tolist() == list(range(number)) and fit.attributes["total_weight"] == ROWS
    expected = case.exact.posterior.conjugate.mean()
    assert {key: np.shape(value) for key, value in fit.parameters.items()} == {
        key: np.shape(value) for key, value in expected.items()
    }
    answer, table = bg.predict(fit, case.new, rule=bg.PlugIn()), fit.log_joint(case.new)
    assert answer.probabilities.shape == (NEW, number)
    close(answer.log_marginal, scipy.special.logsumexp(table, axis=1), rtol=1e-12)
    close(answer.probabilities.sum(axis=1), 1.0, rtol=1e-12)
    conjugate = fit.concrete.conjugate(fit.schema)
    log_likelihood = bg.predict(fit, X, rule=bg.PlugIn()).log_marginal.sum()
    close(fit.attributes["objective"], log_likelihood + conjugate.log_prior(fit.parameters), rtol=1e-9)
    if fit.schema.mean is not None:  # default priors are in the units of all rows
        close(fit.schema.mean, case.exact.schema.mean, rtol=1e-10)
        close(fit.schema.variance, case.exact.schema.variance, rtol=1e-10)


def test_rows_in_chunks_and_with_weights_are_the_rows(blobs):
    X, codes = blobs
    mixture, method = bg.Mixture(bg.GaussianDiscriminant("full"), 3), bg.MAP(starts=codes)
    whole = bg.fit(mixture, X, method=method)
    chunks = bg.fit(mixture, [(X[:50],), (X[50:],)], method=method)
    weights = np.random.default_rng(5).integers(1, 3, len(X))
    twice = np.repeat(np.arange(len(X)), weights)
    weighted = bg.fit(mixture, X, method=method, sample_weight=weights)
    repeated = bg.fit(mixture, X[twice], method=bg.MAP(starts=codes[twice]))
    for one, other in ((whole, chunks), (weighted, repeated)):
        for name, value in one.parameters.items():
            close(other.parameters[name], value, rtol=1e-7, err_msg=name)


def test_the_axis_of_the_components_has_their_name(blobs):
    fit = bg.fit(bg.Mixture(bg.GaussianDiscriminant("full"), 3), blobs[0], method=bg.MAP(num_starts=1))
    point = fit.to_datatree()["point_estimate"]
    assert point["real_mean"].dims == ("component", "feature")
    assert point["real_covariance"].dims == ("component", "feature", "feature_2")
    assert point["class_probs"].coords["component"].values.tolist() == ["0", "1", "2"]
    assert "components: 3 (0, 1, 2)" in repr(fit) and "without labels" not in repr(fit)
    rows = fit.simulate(500, seed=3)
    assert set(np.unique(rows["y"])) == {0, 1, 2}
    answer = bg.predict(fit, rows, rule=bg.PlugIn())
    assert (answer.labels == rows["y"]).mean() > 0.9  # what it makes, it tells apart


# --- how many components ---------------------------------------------------------------------------------------


def test_one_component_is_the_density_of_all_rows(blobs):
    X, _ = blobs
    fit = bg.fit(bg.Mixture(bg.GaussianDiscriminant("full"), 1), X, method=bg.MLE())
    normal = scipy.stats.multivariate_normal(X.mean(axis=0), np.cov(X.T, ddof=0))
    close(fit.attributes["objective"], normal.logpdf(X).sum(), rtol=1e-12)
    answer = bg.predict(fit, X, rule=bg.PlugIn())
    close(answer.log_marginal, normal.logpdf(X), rtol=1e-10)
    assert set(answer.labels.tolist()) == set(fit.simulate(5)["y"].tolist()) == {0}
    family = bg.NormalInverseWishart()
    mode = bg.fit(bg.Mixture(bg.GaussianDiscriminant("full"), 1), X, method=bg.MAP()).parameters
    close(mode["real_covariance"][0], family.update(X).mode()["covariance"], rtol=1e-9)


@pytest.fixture(scope="module")
def split(blobs):
    X = np.random.default_rng(6).permutation(blobs[0])
    return X[:150], X[150:]


def numbers(*counts):
    return {f"{count} components": bg.Mixture(bg.GaussianDiscriminant("tied"), count) for count in counts}


def test_numbers_of_components_are_compared_by_the_density_of_held_out_rows(split):
    train, test = split
    methods = [(bg.MAP(num_starts=2), bg.PlugIn()), (bg.Exact(), bg.BMA())]
    compared = bg.compare(numbers(1, 2, 3), train, None, test, None, methods=methods)
    table = compared.table.set_index(["model", "method"])
    assert table.log_score.idxmax() == ("3 components", "MAP")
    fit = bg.fit(numbers(2)["2 components"], train, method=bg.MAP(num_starts=2))
    expected = bg.predict(fit, test, rule=bg.PlugIn()).log_marginal.mean()
    close(table.loc[("2 components", "MAP")].log_score, expected, rtol=1e-10)
    assert table.refused.str.contains("Exact").sum() == 3 and table.accuracy.isna().all()
    pairs = json.loads(compared.to_json(), parse_constant=pytest.fail)["pairs"]
    assert len(pairs) == 6 and {pair["accuracy"] for pair in pairs} == {None}


def test_numbers_of_components_are_stacked(split):
    train, test = split
    models = list(numbers(1, 3).values())
    stacked = bg.fit(bg.average(models, weights="stacking", folds=2), train, method=bg.MAP(num_starts=2))
    assert (
        stacked.weights[1] > 0.9 and len(stacked.classes) == 0 and "components" not in repr(stacked).split("weight")[0]
    )
    parts = [bg.predict(fit, test, rule=bg.PlugIn()).log_marginal for fit in stacked.members]
    answer = bg.predict(stacked, test, rule=bg.BMA())
    close(np.exp(answer.log_marginal), stacked.weights @ np.exp(parts), rtol=1e-10)
    with pytest.raises(bg.PredictionError, match=r"responsibilities ask one member, predict\(fit\.best"):
        _ = answer.probabilities
    best = bg.predict(stacked.best, test, rule=bg.PlugIn())
    assert best.probabilities.shape == (len(test), 3)


def test_mixtures_have_no_evidence_to_be_averaged_by(split):
    models = list(numbers(1, 2).values())
    fits = [bg.fit(model, split[0], method=bg.MAP(num_starts=1)) for model in models]
    for members in (models, fits):
        with pytest.raises(bg.FitError, match=r'Member 0 is a mixture.*weights="stacking"'):
            bg.average(members)
    with pytest.raises(bg.FitError, match=r"Exact\(\) has no closed form"):
        bg.fit(bg.average(models, weights="stacking"), split[0], method=bg.Exact())


# --- programs of one's own -------------------------------------------------------------------------------------


def test_a_program_is_a_mixture_of_its_classes():
    """Against a search with SciPy over the same density."""
    rng = np.random.default_rng(7)
    codes = np.arange(43) % 2
    X = {"x": np.asarray([-2.0, 2.5])[codes] + rng.normal(size=43)}
    fit = bg.fit(bg.Mixture(bg.GenerativeProgram(in_two_groups, classes=["low", "high"]), 2), X, method=bg.MAP())
    assert fit.classes.tolist() == [0, 1]

    def loss(free):
        share, center = scipy.special.expit(free[0]), free[1:]
        joint = scipy.stats.norm(center, 1.0).logpdf(X["x"][:, None]) + np.log([1 - share, share])
        prior = scipy.stats.beta(2, 2).logpdf(share) + scipy.stats.norm(0, 3).logpdf(center).sum()
        return -scipy.special.logsumexp(joint, axis=1).sum() - prior

    best = scipy.optimize.minimize(loss, [0.0, -1.0, 1.0], options={"gtol": 1e-8})
    order = np.argsort(fit.parameters["center"])
    close(fit.parameters["center"][order], best.x[1:], rtol=1e-4)
    share = fit.parameters["share"] if order[1] == 1 else 1 - fit.parameters["share"]
    close(share, scipy.special.expit(best.x[0]), rtol=1e-4)
    answer = bg.predict(fit, X, rule=bg.PlugIn())
    assert np.array_equal(np.argsort(order)[answer.labels], codes)
