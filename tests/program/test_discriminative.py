"""Programs whose label depends on covariates: p(y | x), with x given and not modelled, or modelled in part."""

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import scipy.special
import scipy.stats
from sklearn.linear_model import LogisticRegression

import bayesgen as bg
from bayesgen.errors import DataError, FitError, ModelError
from program.programs import reference_density

close = np.testing.assert_allclose

ROWS = 97
RNG = np.random.default_rng(0)
X = RNG.normal(size=(ROWS, 3))
NAMES = np.array(["no", "yes"])
LABELS = (RNG.random(ROWS) < scipy.special.expit(X @ [1.0, -2.0, 0.5])).astype(int)
ORDINAL = np.digitize(X[:, 0] + RNG.logistic(size=ROWS), [-1.0, 0.0, 1.0])
WEIGHTS = RNG.integers(0, 3, ROWS).astype(float)


def logistic(n, *, X):
    w = numpyro.sample("w", dist.Normal(0, 2).expand([X.shape[1]]).to_event(1))
    with numpyro.plate("rows", n):
        numpyro.sample("y", dist.Bernoulli(logits=X @ w))


def softmax(n, *, X):
    w = numpyro.sample("w", dist.Normal(0, 2).expand([X.shape[1], 4]).to_event(2))
    with numpyro.plate("rows", n):
        numpyro.sample("y", dist.Categorical(logits=X @ w))


def ordered(n, *, X):
    w = numpyro.sample("w", dist.Normal(0, 1).expand([X.shape[1]]).to_event(1))
    cuts = dist.transforms.OrderedTransform()
    c = numpyro.sample("c", dist.TransformedDistribution(dist.Normal(0, 3).expand([3]).to_event(1), cuts))
    with numpyro.plate("rows", n):
        numpyro.sample("y", dist.OrderedLogistic(X @ w, c))


def gated(n, *, X, dose):
    """The label depends on covariates and on the attribute `x`, and `z` on the label."""
    w = numpyro.sample("w", dist.Normal(0, 2).expand([X.shape[1]]).to_event(1))
    slope = numpyro.sample("slope", dist.Normal(0, 1))
    mean = numpyro.sample("mean", dist.Normal(0, 3).expand([2]).to_event(1))
    with numpyro.plate("rows", n):
        x = numpyro.sample("x", dist.Normal(0, 1))
        y = numpyro.sample("y", dist.Bernoulli(logits=X @ w + slope * x))
        numpyro.sample("z", dist.Normal(mean[y], 1))
        numpyro.sample("t", dist.Normal(mean[y] * dose, 1))


LOGISTIC = bg.GenerativeProgram(logistic, classes=NAMES)
SOFTMAX = bg.GenerativeProgram(softmax, classes=4)
ORDERED = bg.GenerativeProgram(ordered, classes=["poor", "fair", "good", "best"])
GATED = bg.GenerativeProgram(gated, classes=2)
GATED_ROWS = {"X": X, "dose": X[:, 0] + 1.0, "x": X[:, 1] ** 2, "z": X[:, 2], "t": X[:, 0] * X[:, 1]}


def logistic_mode(labels, weights=None, rows=slice(None)):
    """The mode by scikit-learn, which has no intercept here and whose C is the variance of the prior."""
    model = LogisticRegression(C=4.0, fit_intercept=False, tol=1e-10, max_iter=1000)
    return model.fit(X[rows], labels[rows], weights).coef_


@pytest.fixture(scope="module")
def sampled():
    return bg.fit(LOGISTIC, X, NAMES[LABELS], method=bg.NUTS(num_samples=500), seed=1)


def test_the_mode_of_logistic_regression_is_that_of_scikit_learn():
    fit = bg.fit(LOGISTIC, {"X": X}, NAMES[LABELS], method=bg.MAP())
    close(fit.parameters["w"], logistic_mode(LABELS)[0], atol=1e-6)
    expected = scipy.special.expit(X @ fit.parameters["w"])
    answer = bg.predict(fit, X, rule=bg.PlugIn())
    close(answer.probabilities, np.column_stack([1 - expected, expected]), atol=1e-12)
    close(answer.log_marginal, 0.0, atol=1e-12)
    conditional = bg.fit(LOGISTIC, X, NAMES[LABELS], method=bg.MAP(objective="conditional"))
    close(conditional.parameters["w"], fit.parameters["w"], atol=1e-6)
    assert fit.program.plan.reasons == (("y", "its parameters depend on covariate X"),)


def test_the_mode_of_several_classes_is_that_of_scikit_learn():
    fit = bg.fit(SOFTMAX, X, ORDINAL, method=bg.MAP(num_starts=1))
    close(fit.parameters["w"], logistic_mode(ORDINAL).T, atol=1e-5)


def test_weighted_rows_count_as_often_and_rows_without_labels_not_at_all():
    fit = bg.fit(LOGISTIC, X, NAMES[LABELS], sample_weight=WEIGHTS, method=bg.MAP())
    close(fit.parameters["w"], logistic_mode(LABELS, WEIGHTS)[0], atol=1e-6)
    some = np.arange(ROWS) >= 11
    fit = bg.fit(LOGISTIC, X, np.where(some, NAMES[LABELS], None), method=bg.MAP(num_starts=1))
    close(fit.parameters["w"], logistic_mode(LABELS, rows=some)[0], atol=1e-6)
    latents = {"w": np.array([0.5, -1.0, 0.2])}
    expected = scipy.special.log_expit((2 * LABELS - 1) * (X @ latents["w"]))
    prior = scipy.stats.norm(0, 2).logpdf(latents["w"]).sum()
    density = LOGISTIC.log_density(latents, X, np.where(some, NAMES[LABELS], None))
    close(density, prior + expected[some].sum(), rtol=1e-12)


def test_draws_have_the_moments_that_quadrature_finds(sampled):
    mode = logistic_mode(LABELS)[0]
    shares = scipy.special.expit(X @ mode)
    scale = np.linalg.cholesky(np.linalg.inv((X.T * shares * (1 - shares)) @ X + np.eye(3) / 4))
    axis = np.linspace(-6, 6, 41)  # of coordinates in which the posterior is about a standard normal
    points = mode + np.stack(np.meshgrid(axis, axis, axis), axis=-1).reshape(-1, 3) @ scale.T
    logs = scipy.special.log_expit(points @ (X * (2 * LABELS - 1)[:, None]).T).sum(1) - (points**2).sum(1) / 8
    weights = scipy.special.softmax(logs)
    mean = weights @ points
    deviation = np.sqrt(weights @ (points - mean) ** 2)
    draws = sampled.parameters["w"].reshape(-1, 3)
    assert (np.abs(mean - draws.mean(0)) < 4 * deviation / 1000**0.5).all()  # of 2000 draws, not all independent
    close(draws.std(0), deviation, rtol=0.1)


def test_both_averages_over_draws_coincide_where_the_covariates_are_given(sampled):
    """p(y | x, D) is the mean over draws of p(y | x, Q): no row says anything of Q but by its label."""
    expected = scipy.special.expit(np.einsum("nd,csd->csn", X, sampled.parameters["w"])).mean((0, 1))
    for rule in (bg.BMA(), bg.ConditionalAverage()):
        answer = bg.predict(sampled, X, rule=rule)
        close(answer.probabilities[:, 1], expected, atol=1e-6)
        close(answer.log_probabilities.max(1), np.log(np.maximum(expected, 1 - expected)), atol=1e-6)


def test_ordered_categories_are_classes():
    latents = {"w": np.array([0.5, -1.0, 0.2]), "c": np.array([-1.0, 0.5, 1.5])}
    cumulative = scipy.special.expit(latents["c"] - (X @ latents["w"])[:, None])
    expected = np.diff(cumulative, axis=1, prepend=0.0, append=1.0)
    close(ORDERED.log_joint(latents, X), np.log(expected), rtol=1e-9)
    fit = bg.fit(ORDERED, X, np.asarray(ORDERED.classes)[ORDINAL], method=bg.MAP(num_starts=1))
    answer = bg.predict(fit, X, rule=bg.PlugIn())
    assert answer.classes.tolist() == list(ORDERED.classes)
    assert (answer.labels == np.asarray(ORDERED.classes)[ORDINAL]).mean() > 0.4
    close(answer.log_probabilities, fit.log_joint(X), atol=1e-12)


def test_the_label_may_depend_on_covariates_and_attributes_at_once():
    latents = {"w": np.array([0.5, -1.0, 0.2]), "slope": 0.7, "mean": np.array([-0.5, 1.0])}
    with jax.enable_x64(True):
        density = reference_density(gated, ROWS)
        covariates = {name: GATED_ROWS[name] for name in ("X", "dose")}
        values = {name: GATED_ROWS[name] for name in ("x", "z", "t")}
        expected, at_0, at_1 = (
            float(density({**latents, **values, "y": y}, covariates)) for y in (LABELS, 0 * LABELS, 0 * LABELS + 1)
        )
    close(GATED.log_density(latents, GATED_ROWS, LABELS), expected, rtol=1e-10)
    table = GATED.log_joint(latents, GATED_ROWS)
    close(table.sum(0)[1] - table.sum(0)[0], at_1 - at_0, rtol=1e-9)
    unknown = np.where(np.arange(ROWS) < 13, None, LABELS)
    picked = np.where(np.arange(ROWS) < 13, scipy.special.logsumexp(table, axis=1), table[np.arange(ROWS), LABELS])
    prior = at_0 - table.sum(0)[0]
    close(GATED.log_density(latents, GATED_ROWS, unknown), prior + picked.sum(), rtol=1e-10)


@pytest.mark.slow  # a regression is a mixture of lines in every run: test_local.py
def test_a_mixture_may_be_gated_by_covariates():
    """Components whose shares depend on a covariate: p(x | c) = sum_k p(k | c) p(x | k)."""
    fit = bg.fit(bg.Mixture(GATED, 2), GATED_ROWS, method=bg.MAP(num_starts=1))
    parameters = fit.parameters
    logits = X @ parameters["w"] + parameters["slope"] * GATED_ROWS["x"]
    of_x = -0.5 * (GATED_ROWS["x"] ** 2 + np.log(2 * np.pi))
    means = parameters["mean"]
    of_others = -0.5 * (GATED_ROWS["z"][:, None] - means) ** 2 - np.log(2 * np.pi)
    of_others = of_others - 0.5 * (GATED_ROWS["t"][:, None] - GATED_ROWS["dose"][:, None] * means) ** 2
    table = scipy.special.log_expit(np.column_stack([-logits, logits])) + of_others
    expected = of_x + scipy.special.logsumexp(table, axis=1)
    close(bg.predict(fit, GATED_ROWS, rule=bg.PlugIn()).log_marginal, expected, rtol=1e-9)
    assert fit.program.plan.rowwise == ("t", "y") and dict(fit.program.plan.dependences) == {"y": ("x",)}
    missing = {**GATED_ROWS, "x": np.where(np.arange(ROWS) == 5, np.nan, GATED_ROWS["x"])}
    with pytest.raises(DataError, match=r"'x' is missing in 1 rows, the first is row 5, and the program makes 'y'"):
        bg.predict(fit, missing, rule=bg.PlugIn())


# --- refusals -----------------------------------------------------------------------------------------------------


def test_separable_classes_have_no_maximum_without_a_prior():
    separable = NAMES[(X[:, 0] > 0).astype(int)]
    for objective in ("joint", "conditional"):
        with pytest.raises(FitError, match=r"likelihood has no maximum.*site 'w'.*separable.*MAP\("):
            bg.fit(LOGISTIC, X, separable, method=bg.MLE(objective=objective, num_starts=1))
    close(bg.fit(LOGISTIC, X, separable, method=bg.MAP()).parameters["w"], logistic_mode(separable)[0], atol=1e-6)


def test_rows_without_any_label_teach_nothing():
    with pytest.raises(DataError, match="No row has a label, and the program models nothing else"):
        bg.fit(bg.Mixture(LOGISTIC, 2), X, method=bg.MAP())


def test_wrong_labels_and_covariates_are_refused_by_name():
    fit = bg.fit(LOGISTIC, X, NAMES[LABELS], method=bg.MAP())
    with pytest.raises(DataError, match="maybe"):
        bg.fit(LOGISTIC, X, ["maybe"] * ROWS, method=bg.MAP())
    with pytest.raises(DataError, match=r"'X' has the shape \(n, 2\), and \(n, 3\) in"):
        bg.predict(fit, X[:, :2], rule=bg.PlugIn())
    with pytest.raises(DataError, match=r"no columns for the covariates \['X'\]"):
        bg.predict(fit, {"Z": X}, rule=bg.PlugIn())
    with pytest.raises(ModelError, match="needs classes="):
        bg.fit(bg.GenerativeProgram(logistic), X, LABELS, method=bg.MAP())

    def grouped(n, *, group):
        effect = numpyro.sample("effect", dist.Normal(0, 1).expand([4]).to_event(1))
        with numpyro.plate("rows", n):
            numpyro.sample("y", dist.Bernoulli(logits=effect[group]))

    with pytest.raises(DataError, match=r"'group' has 4 in row 4.*4 entries, 0 to 3"):
        bg.fit(bg.GenerativeProgram(grouped, classes=2), {"group": np.arange(ROWS) % 5}, LABELS, method=bg.MAP())

    def alone(n):
        p = numpyro.sample("p", dist.Beta(1, 1))
        with numpyro.plate("rows", n):
            numpyro.sample("y", dist.Bernoulli(p))

    with pytest.raises(ModelError, match=r"no attribute site.*let the label depend on covariates"):
        bg.GenerativeProgram(alone, classes=2)
