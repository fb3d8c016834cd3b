"""Probabilistic PCA against scikit-learn, dense Gaussian conditioning, and its own invariances."""

import dataclasses

import numpy as np
import numpyro.distributions as dist
import pandas as pd
import pytest
import scipy.special
import scipy.stats
from arviz_stats.base import array_stats
from sklearn.decomposition import PCA
from sklearn.decomposition._pca import _assess_dimension

import bayesgen as bg
from bayesgen.fitting.em import CompleteDataObjective, ExpectationMaximization
from bayesgen.fitting.training import prepare

close = np.testing.assert_allclose
ROWS, COLUMNS, FACTORS = 61, 7, 2


def surface(rng, size=ROWS, dimension=COLUMNS, num_factors=FACTORS, noise=0.5):
    loadings = rng.normal(0, 1, (dimension, num_factors)) * np.linspace(3, 1.5, num_factors)
    return (
        rng.normal(0, 3, dimension)
        + rng.normal(size=(size, num_factors)) @ loadings.T
        + noise * rng.normal(size=(size, dimension))
    )


@pytest.fixture(scope="module", name="X")
def rows():
    return surface(np.random.default_rng(4))


@pytest.fixture(scope="module")
def fit(X):
    return bg.fit(bg.ProbabilisticPCA(FACTORS), X, method=bg.MLE())


@pytest.fixture(scope="module")
def sampled(X):
    return bg.fit(bg.ProbabilisticPCA(FACTORS), X, method=bg.NUTS(num_samples=400))


def with_holes(X, seed=5, share=0.15):
    return np.where(np.random.default_rng(seed).random(X.shape) < share, np.nan, X)


def test_densities_are_those_of_scikit_learn(X, fit):
    """Its noise and spectrum have the denominator n - 1: rows that are spread by that much more have them with n."""
    new = surface(np.random.default_rng(6), 11)
    spread = X.mean(0) + (X - X.mean(0)) * np.sqrt((ROWS - 1) / ROWS)
    peer = PCA(FACTORS).fit(spread)
    found = bg.predict(fit, new, rule=bg.PlugIn())
    close(found.log_marginal, peer.score_samples(new), rtol=1e-9)
    close(fit.log_joint(new)[:, 0], found.log_marginal, rtol=1e-12)
    with pytest.raises(bg.PredictionError):
        _ = found.probabilities


def test_coordinates_become_principal_components_as_noise_goes_to_nothing():
    for noise, tolerance in ((1e-2, 1e-3), (1e-5, 1e-8)):
        X = surface(np.random.default_rng(7), noise=noise)
        coordinates = bg.fit(bg.ProbabilisticPCA(FACTORS), X, method=bg.MLE()).transform(X)
        peer = PCA(FACTORS, whiten=True).fit(X)
        scores = peer.transform(X) * np.sqrt(ROWS / (ROWS - 1))
        close(abs(np.asarray(coordinates)), abs(scores), atol=tolerance)
        assert np.abs(coordinates.covariance).max() < tolerance


def conditioned(loadings, mean, noise, row):
    """Mean and covariance of the factors given the cells of a row that are there, by the joint normal of both."""
    there = ~np.isnan(row)
    seen, num_factors = loadings[there], loadings.shape[1]
    joint = np.block([[np.eye(num_factors), seen.T], [seen, seen @ seen.T + noise * np.eye(there.sum())]])
    slope = joint[:num_factors, num_factors:] @ np.linalg.inv(joint[num_factors:, num_factors:])
    return slope @ (row[there] - mean[there]), np.eye(num_factors) - slope @ joint[num_factors:, :num_factors]


@pytest.mark.parametrize("holed", [False, True])
def test_coordinates_are_the_conditional_distribution_of_the_factors(fit, holed):
    rows = surface(np.random.default_rng(8), 13)
    rows = with_holes(rows, share=0.4) if holed else rows
    if holed:
        rows[3] = np.nan
    found = fit.transform(rows)
    covariance, noise = fit.parameters["real_covariance"], fit.parameters["real_noise_variance"]
    close(found.loadings @ found.loadings.T + noise * np.eye(COLUMNS), covariance, rtol=1e-9, atol=1e-10)
    products = found.loadings.T @ found.loadings
    close(products, np.diag(np.diag(products)), atol=1e-9)
    assert (np.diff(np.diag(products)) < 0).all()
    assert found.covariance.shape == ((13, FACTORS, FACTORS) if holed else (FACTORS, FACTORS))
    for index, row in enumerate(rows):
        mean, spread = conditioned(found.loadings, fit.parameters["real_mean"], noise, row)
        close(found.mean[index], mean, rtol=1e-9, atol=1e-12)
        close(found.covariance[index] if holed else found.covariance, spread, rtol=1e-8, atol=1e-12)
    assert len(found) == 13 and np.asarray(found).shape == (13, FACTORS)


def test_cells_that_are_missing_are_left_out(X):
    holed = with_holes(X)
    holed[2] = np.nan
    fit = bg.fit(bg.ProbabilisticPCA(FACTORS), holed, method=bg.MLE())
    assert fit.attributes["converged"]
    assert fit.approximate_log_evidence is None

    def marginal(parameters):
        total = []
        for row in holed:
            there = ~np.isnan(row)
            covariance = parameters["real_covariance"][np.ix_(there, there)]
            normal = (
                scipy.stats.multivariate_normal(parameters["real_mean"][there], covariance) if there.any() else None
            )
            total.append(normal.logpdf(row[there]) if normal else 0.0)
        return np.array(total)

    close(fit.log_joint(holed)[:, 0], marginal(fit.parameters), rtol=1e-9, atol=1e-10)
    top, rng = marginal(fit.parameters).sum(), np.random.default_rng(9)
    close(fit.attributes["objective"], top, rtol=1e-10)
    loadings, noise = fit.transform(X).loadings, fit.parameters["real_noise_variance"]
    for _ in range(8):  # nowhere around is there a higher one
        moved = loadings + 1e-3 * rng.normal(size=loadings.shape)
        other = np.exp(1e-3 * rng.normal()) * noise
        near = {
            "real_mean": fit.parameters["real_mean"] + 1e-3 * rng.normal(size=COLUMNS),
            "real_covariance": moved @ moved.T + other * np.eye(COLUMNS),
        }
        assert marginal(near).sum() < top


@pytest.mark.parametrize("has_prior", [False, True], ids=["likelihood", "posterior"])
@pytest.mark.parametrize("model", [bg.ProbabilisticPCA(FACTORS), bg.Mixture(bg.ProbabilisticPCA(1), 2)], ids=repr)
def test_steps_of_em_never_lower_the_objective(model, has_prior, X):
    problem = prepare(model, with_holes(X))
    conjugate, statistics = problem.conjugate, problem.data.statistics
    rows, rng = statistics.unlabelled, np.random.default_rng(20)
    labelled = dataclasses.replace(statistics, unlabelled=None)
    steps = ExpectationMaximization(conjugate, CompleteDataObjective.of(conjugate, has_prior), labelled, rows)
    if rows is None:
        point = conjugate.posterior_center(conjugate.initial_statistics(labelled))
    else:
        point = conjugate.posterior_center(steps.given_classes(rows, rng.integers(0, 2, rows.num_rows)))
    objectives = []
    for _ in range(12):
        objective, point = steps.step(point)
        objectives.append(objective)
    gains = np.diff(objectives)
    assert (gains > -1e-9 * abs(objectives[0])).all() and gains[0] > 1e-3


@pytest.mark.parametrize("method", [bg.MLE(), bg.MAP()], ids=["MLE", "MAP"])
def test_turning_moving_and_scaling_rows_turns_moves_and_scales_what_is_learned(X, method):
    rng = np.random.default_rng(10)
    turn = np.linalg.qr(rng.normal(size=(COLUMNS, COLUMNS)))[0]
    shift, unit = rng.normal(0, 5, COLUMNS), 1e3
    # of the mean variance of columns, which turning leaves as it is, the default prior is made
    one = bg.fit(bg.ProbabilisticPCA(FACTORS), X, method=method).parameters
    other = bg.fit(bg.ProbabilisticPCA(FACTORS), unit * X @ turn.T + shift, method=method).parameters
    close(other["real_mean"], unit * turn @ one["real_mean"] + shift, rtol=1e-9)
    close(other["real_noise_variance"], unit**2 * one["real_noise_variance"], rtol=1e-9)
    close(other["real_covariance"], unit**2 * turn @ one["real_covariance"] @ turn.T, rtol=1e-8, atol=1e-4)


@pytest.mark.parametrize("method", [bg.MLE(), bg.MAP()], ids=["MLE", "MAP"])
def test_rows_in_another_order_twice_in_chunks_or_one_after_another(X, method):
    model = bg.ProbabilisticPCA(FACTORS)

    def same(one, other):
        for name, value in one.parameters.items():
            close(other.parameters[name], value, rtol=1e-9, atol=1e-10, err_msg=name)
        close(other.approximate_log_evidence, one.approximate_log_evidence, rtol=1e-9)

    whole = bg.fit(model, X, method=method)
    same(whole, bg.fit(model, X[::-1], method=method))
    twice = bg.fit(model, np.vstack([X, X]), method=method)
    same(twice, bg.fit(model, X, method=method, sample_weight=np.full(ROWS, 2.0)))
    same(whole, bg.fit(model, ([(X[:20],), (X[20:],)]), method=method))
    same(whole, bg.fit(model, bg.summarize(model, X[:20]) + bg.summarize(model, X[20:]), method=method))
    frame = pd.DataFrame(X, columns=list("abcdefg"))
    named = bg.fit(model, frame, method=method)
    same(whole, named)
    coordinates = named.transform(frame[list("gfedcba")].iloc[::-1])
    close(np.asarray(coordinates), np.asarray(whole.transform(X))[::-1], rtol=1e-9)
    assert coordinates.to_frame().index.tolist() == list(range(ROWS))[::-1]
    close(coordinates.to_frame()["factor_1"].loc[3], coordinates.mean[-4, 1])
    if method == bg.MLE():  # the scale of the prior is that of the first rows
        same(whole, bg.fit(model, X[:20], method=method).update(X[20:]))


def test_summaries_serve_any_number_of_factors(X):
    two = bg.summarize(bg.ProbabilisticPCA(FACTORS), X)
    for number in (1, 3, None):
        model = bg.ProbabilisticPCA(number)
        fit, whole = (bg.fit(model, data, method=bg.MAP()) for data in (two, X))
        assert fit.concrete.num_factors == whole.concrete.num_factors
        close(fit.parameters["real_covariance"], whole.parameters["real_covariance"], rtol=1e-9)
    with pytest.raises(bg.DataError, match="These summaries were made for"):
        bg.fit(bg.Mixture(bg.ProbabilisticPCA(1), 2), two, method=bg.MAP())


@pytest.mark.slow  # quadrature is in every run
def test_draws_agree_with_the_maximum_where_rows_are_many():
    many = surface(np.random.default_rng(11), 4000)
    point = bg.fit(bg.ProbabilisticPCA(FACTORS), many, method=bg.MLE())
    draws = bg.fit(bg.ProbabilisticPCA(FACTORS), many, method=bg.NUTS(num_samples=300))
    for name, value in point.parameters.items():
        chains = draws.parameters[name]
        error = chains.std((0, 1))
        assert (abs(chains.mean((0, 1)) - value) < 0.5 * error + 1e-6).all(), name
    assert draws.attributes["path"] == "whitened" and not draws.sample_stats["diverging"].any()


@pytest.mark.slow
def test_draws_are_covariances_of_the_model(X, fit, sampled):
    covariance, noise = (sampled.parameters[f"real_{name}"] for name in ("covariance", "noise_variance"))
    values = np.linalg.eigvalsh(covariance)[..., : COLUMNS - FACTORS]
    close(values, np.broadcast_to(noise[..., None], values.shape), rtol=1e-8)
    new = X[:5] + np.random.default_rng(12).normal(0, 0.3, (5, COLUMNS))
    by_draw = sampled.log_joint(new, at="draws")[..., 0]
    flat = covariance.reshape(-1, COLUMNS, COLUMNS), sampled.parameters["real_mean"].reshape(-1, COLUMNS)
    for place in (0, 700, 1599):
        close(by_draw[place], scipy.stats.multivariate_normal(flat[1][place], flat[0][place]).logpdf(new), rtol=1e-7)
    averaged = bg.predict(sampled, new, rule=bg.BMA()).log_marginal
    close(averaged, scipy.special.logsumexp(by_draw, axis=0) - np.log(len(by_draw)), rtol=1e-4)
    # the plug-in is at the mean covariance, taken for the nearest one of the model
    mean = covariance.mean((0, 1))
    spectrum = np.linalg.eigvalsh(mean)
    axes, rest = np.linalg.eigh(mean)[1][:, ::-1].T[:FACTORS], spectrum[: COLUMNS - FACTORS].mean()
    expected = axes.T @ np.diag(spectrum[::-1][:FACTORS] - rest) @ axes + rest * np.eye(COLUMNS)
    plugged = bg.predict(sampled, new, rule=bg.PlugIn()).log_marginal
    normal = scipy.stats.multivariate_normal(sampled.parameters["real_mean"].mean((0, 1)), expected)
    close(plugged, normal.logpdf(new), rtol=1e-6)


@pytest.mark.slow
def test_a_factor_that_is_not_there_and_a_column_of_noise_alone_do_not_hinder_chains():
    """The first column tells nothing of the factors, whose triangular loadings would begin with it."""
    rng = np.random.default_rng(13)
    X = np.column_stack([rng.normal(0, 0.5, 50), surface(rng, 50, 4, 1)])
    fit = bg.fit(bg.ProbabilisticPCA(2), X, method=bg.NUTS(num_samples=400))  # warnings, of R-hat as well, are errors
    assert not fit.sample_stats["diverging"].any()
    close(fit.parameters["real_covariance"].mean((0, 1)), np.cov(X.T), rtol=1.0, atol=2.0)


def posterior_by_quadrature(X, prior):
    """Means of covariance and noise variance of one factor in two columns, the mean summed out: on a grid.

    Loadings are (r cos a, r sin a), of density r exp(-r^2 / 2 scale^2) in r and even in a.
    """
    size, shift = len(X), X.mean(0) - prior.location
    scatter = (X - X.mean(0)).T @ (X - X.mean(0))
    scatter += prior.kappa * size / (prior.kappa + size) * np.outer(shift, shift)
    radius, angle = np.linspace(1e-4, 9, 241), np.linspace(0, np.pi, 120, endpoint=False)
    noise = np.exp(np.linspace(np.log(0.02), np.log(3.0), 161))
    r, a, v = (array.ravel() for array in np.meshgrid(radius, angle, noise, indexing="ij"))
    loadings = np.stack([r * np.cos(a), r * np.sin(a)], -1)
    covariance = loadings[:, :, None] * loadings[:, None, :] + v[:, None, None] * np.eye(2)
    logs = -0.5 * size * np.linalg.slogdet(covariance)[1]
    logs -= 0.5 * np.trace(np.linalg.solve(covariance, np.broadcast_to(scatter, covariance.shape)), axis1=1, axis2=2)
    logs += np.log(r) - 0.5 * (r / prior.loadings_scale) ** 2
    logs += scipy.stats.invgamma.logpdf(v, prior.shape, scale=prior.scale) + np.log(v)
    weights = scipy.special.softmax(logs)
    return np.einsum("s,sij->ij", weights, covariance), weights @ v, weights @ v**2


@pytest.mark.slow
def test_draws_have_the_posterior_that_quadrature_gives():
    rng = np.random.default_rng(18)
    X = rng.normal(size=(11, 1)) * [1.5, -0.8] + rng.normal(0, 0.5, (11, 2)) + [1.0, 3.0]
    prior = bg.LowRankNormal(1, [0.5, 2.0], 0.3, 1.4, 2.2, 0.5)
    fit = bg.fit(bg.ProbabilisticPCA(1, prior), X, method=bg.NUTS())
    covariance, noise, square = posterior_by_quadrature(X, prior)
    draws = {
        "covariance": (fit.parameters["real_covariance"], covariance),
        "noise": (fit.parameters["real_noise_variance"], noise),
        "square": (fit.parameters["real_noise_variance"] ** 2, square),
    }
    for name, (chains, expected) in draws.items():
        flat = chains.reshape(*chains.shape[:2], -1)
        errors = [array_stats.mcse(flat[..., place], method="mean") for place in range(flat.shape[-1])]
        assert (abs(flat.mean((0, 1)) - np.ravel(expected)) < 4 * np.array(errors)).all(), name


@pytest.mark.slow
@pytest.mark.parametrize("method", [bg.MAP(), bg.NUTS(num_samples=300)], ids=["MAP", "NUTS"])
def test_a_hyperparameter_may_be_a_distribution(method, X):
    """One that is nearly a number gives nearly what the number gives."""
    priors = [bg.LowRankNormal(loadings_scale=scale) for scale in (dist.LogNormal(0.5, 0.01), np.exp(0.5))]
    one, other = (bg.fit(bg.ProbabilisticPCA(FACTORS, prior), X, method=method).posterior.mean for prior in priors)
    tolerance = 0.02 if method == bg.MAP() else 0.15
    for name, expected in other.items():
        close(one[name], expected, rtol=tolerance, atol=tolerance * np.abs(expected).max(), err_msg=name)


def test_missing_cells_are_filled_in_by_what_the_surface_says(fit):
    row = np.array([[1.0, np.nan, -2.0, 0.5, np.nan, 3.0, 0.0]])
    there = ~np.isnan(row[0])
    mean, covariance = fit.parameters["real_mean"], fit.parameters["real_covariance"]
    slope = covariance[np.ix_(~there, there)] @ np.linalg.inv(covariance[np.ix_(there, there)])
    close(fit.impute(row)[0, ~there], mean[~there] + slope @ (row[0, there] - mean[there]), rtol=1e-9)
    coordinates = fit.transform(row)
    close((mean + coordinates.loadings @ coordinates.mean[0])[~there], fit.impute(row)[0, ~there], rtol=1e-8)


# --- how many factors -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [61, 17])
def test_the_approximate_evidence_is_that_of_scikit_learn(size):
    X = surface(np.random.default_rng(14), size)
    spectrum = PCA(svd_solver="full").fit(X).explained_variance_
    for number in range(1, COLUMNS):
        expected = _assess_dimension(spectrum, number, size)
        for method in (bg.MLE(), bg.MAP()):
            fit = bg.fit(bg.ProbabilisticPCA(number), X, method=method)
            assert abs(fit.approximate_log_evidence - expected) < 1e-8 and fit.log_evidence is None
    chosen = bg.fit(bg.ProbabilisticPCA(), X, method=bg.MLE())
    assert chosen.concrete.num_factors == PCA("mle", svd_solver="full").fit(X).n_components_
    kept = chosen.update(surface(np.random.default_rng(15), 9))
    assert kept.concrete.num_factors == chosen.concrete.num_factors


def test_the_number_that_made_the_rows_is_chosen():
    for number in (1, 2, 3):
        X = surface(np.random.default_rng(16), 200, num_factors=number, noise=0.3)
        assert bg.fit(bg.ProbabilisticPCA(), X, method=bg.MAP()).concrete.num_factors == number


def test_rows_that_cannot_tell_the_number_are_refused(X):
    with pytest.raises(bg.FitError, match="chooses by the eigenvalues of complete rows, and cells are missing"):
        bg.fit(bg.ProbabilisticPCA(), with_holes(X), method=bg.MLE())
    with pytest.raises(bg.FitError, match="finds no number of factors that leaves any noise"):
        bg.fit(bg.ProbabilisticPCA(), X[:2], method=bg.MLE())
    with pytest.raises(bg.ModelError, match="num_factors=None chooses by the covariance of all rows"):
        bg.Mixture(bg.ProbabilisticPCA(), 2)


# --- what is refused --------------------------------------------------------------------------------------------


def test_what_makes_no_sense_is_refused_by_name(X, fit):
    model = bg.ProbabilisticPCA(FACTORS)
    with pytest.raises(bg.FitError, match=r"Exact\(\) has no closed form for block 'real'"):
        bg.fit(model, X, method=bg.Exact())
    with pytest.raises(bg.DataError, match="has no classes, so it takes no y"):
        bg.fit(model, X, np.zeros(ROWS), method=bg.MLE())
    with pytest.raises(bg.DataError, match="'name' are not"):
        bg.fit(model, {"a": [1.0, 2.0], "b": [2.0, 3.0], "name": ["x", "y"]}, method=bg.MLE())
    with pytest.raises(bg.ModelError, match="7 factors for 7 columns leave none for noise"):
        bg.fit(bg.ProbabilisticPCA(7), X, method=bg.MLE())
    with pytest.raises(bg.FitError, match="the data has 3 rows, whose covariance has rank 2, so 2 factors"):
        bg.fit(model, X[:3], method=bg.MLE())
    with pytest.raises(bg.FitError, match="has no classes, so none can be added"):
        fit.add_class("a", X)
    with pytest.raises(bg.ModelError, match="takes a LowRankNormal as prior"):
        bg.ProbabilisticPCA(2, prior=bg.NormalInverseWishart())
    for number in (1, None):
        with pytest.raises(bg.DataError, match="takes two columns or more"):
            bg.fit(bg.ProbabilisticPCA(number), X[:, :1], method=bg.MLE())
    for number in (2, None):
        with pytest.raises(bg.ModelError, match=f"num_factors={number}, and the prior has num_factors=4"):
            bg.ProbabilisticPCA(number, prior=bg.LowRankNormal(4))
    assert "evidence, up to a constant of rows and columns: " in repr(fit)
    classifier = bg.fit(bg.GaussianDiscriminant(), X, np.arange(ROWS) % 2, method=bg.MLE())
    with pytest.raises(bg.ModelError, match="GaussianDiscriminant has no coordinates of rows"):
        classifier.transform(X)
    mixture = bg.fit(bg.Mixture(bg.GaussianDiscriminant(), 2), X, method=bg.MLE(num_starts=1))
    with pytest.raises(bg.ModelError, match=r"^Mixture has no coordinates of rows"):
        mixture.transform(X)


def test_few_rows_and_constant_columns_have_a_mode(X):
    few = X[:1].copy()
    with pytest.warns(bg.ConstantColumnWarning):
        fit = bg.fit(bg.ProbabilisticPCA(6), few, method=bg.MAP())
    close(fit.parameters["real_mean"], few[0])
    constant = X.copy()
    constant[:, 3] = 4.0
    likely = bg.fit(bg.ProbabilisticPCA(FACTORS), constant, method=bg.MLE())  # its noise is that of the others
    close(likely.parameters["real_mean"][3], 4.0)
    close(likely.parameters["real_covariance"][3, 3], likely.parameters["real_noise_variance"], rtol=1e-9)


def test_a_mixture_of_surfaces_tells_them_apart():
    rng = np.random.default_rng(17)
    X = np.vstack([surface(rng, 80, noise=0.2), surface(rng, 70, noise=0.2)])
    fit = bg.fit(bg.Mixture(bg.ProbabilisticPCA(FACTORS), 2), X, method=bg.MLE())
    labels = bg.predict(fit, X, rule=bg.PlugIn()).labels
    assert len(set(labels[:80])) == len(set(labels[80:])) == 1 and labels[0] != labels[-1]
    alone = bg.fit(bg.ProbabilisticPCA(FACTORS), X[:80], method=bg.MLE())
    close(fit.parameters["real_covariance"][labels[0]], alone.parameters["real_covariance"], rtol=1e-3, atol=1e-3)


def test_models_are_compared_by_densities_of_rows(X):
    models = {str(number): bg.ProbabilisticPCA(number) for number in (1, 2)}
    pairs = [(bg.MLE(), bg.PlugIn()), (bg.Exact(), bg.BMA())]
    table = bg.compare(models, X[:40], None, X[40:], None, methods=pairs).table
    scores = table["log_score"].to_numpy(float)
    assert scores[2] > scores[0] and np.isnan(scores[1]) and np.isnan(scores[3])
