"""Programs whose latents are integrated out stage by stage, as no family stands for them: exact fits."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import scipy.stats
from scipy.special import betaln

import bayesgen as bg
from bayesgen import GenerativeProgram

from .test_closed_form import CODES, LABELS, ONES, REALS, as_plain, exact, same

HEADS, FAILURES, COUNTS = ONES[:, 0], np.random.default_rng(1).geometric(0.4, 41) - 1, ONES.sum(1)
N = len(HEADS)


def complement(n):
    q = numpyro.sample("q", dist.Beta(2, 3))
    with numpyro.plate("rows", n):
        numpyro.sample("x", dist.Bernoulli(1 - q))


def two_likelihoods(n):
    q = numpyro.sample("q", dist.Beta(2, 3))
    with numpyro.plate("rows", n):
        numpyro.sample("x", dist.Bernoulli(q))
        numpyro.sample("z", dist.Geometric(q))


def part_unused(n):
    q = numpyro.sample("q", dist.Beta(2, 3).expand([3]).to_event(1))
    with numpyro.plate("rows", n):
        numpyro.sample("x", dist.Bernoulli(q[1]))


def enters_nothing(n):
    q = numpyro.sample("q", dist.Beta(2, 3))
    numpyro.sample("r", dist.Gamma(2, 3))
    with numpyro.plate("rows", n):
        numpyro.sample("x", dist.Bernoulli(q))


def two_scales(n):
    rate = numpyro.sample("rate", dist.Gamma(2.0, 0.5))
    with numpyro.plate("rows", n):
        numpyro.sample("z", dist.Poisson(3 * rate))
        numpyro.sample("x", dist.Exponential(0.5 * rate))


def tied_by_index(n):
    q = numpyro.sample("q", dist.Beta(2, 3).expand([2]).to_event(1))
    with numpyro.plate("rows", n):
        y = numpyro.sample("y", dist.Categorical(jnp.array([0.2, 0.3, 0.5])))
        numpyro.sample("x", dist.Bernoulli(q[jnp.array([0, 0, 1])[y]]))


def shared_table(n):
    p = numpyro.sample("p", dist.Dirichlet(jnp.ones(3)))
    with numpyro.plate("rows", n):
        numpyro.sample("y", dist.Categorical(p))
        numpyro.sample("x", dist.Categorical(p))


def beta_binomial(successes, failures):
    """Log evidence under Beta(2, 3)."""
    return betaln(2 + successes, 3 + failures) - betaln(2, 3)


def of_two_scales(z, x):
    shape, rate = 2.0 + z.sum() + len(x), 0.5 + 3 * len(z) + 0.5 * x.sum()
    of_prior = 2.0 * np.log(0.5) - scipy.special.gammaln(2.0)
    of_rows = (z * np.log(3) - scipy.special.gammaln(z + 1)).sum() + len(x) * np.log(0.5)
    return of_prior + of_rows + scipy.special.gammaln(shape) - shape * np.log(rate)


def of_shared_table(x, y):
    counts = np.bincount(np.r_[x, y], minlength=3)
    return scipy.special.gammaln(3) + scipy.special.gammaln(counts + 1).sum() - scipy.special.gammaln(3 + counts.sum())


TIMES = np.random.default_rng(2).exponential(2.0, N)
IN_FIRST = CODES < 2
LABEL_EVIDENCE = np.log(np.array([0.2, 0.3, 0.5]))[CODES].sum()
CLOSED = {
    complement: ({"x": HEADS}, None, beta_binomial(N - HEADS.sum(), HEADS.sum())),
    two_likelihoods: (
        {"x": HEADS, "z": FAILURES},
        None,
        beta_binomial(HEADS.sum() + N, N - HEADS.sum() + FAILURES.sum()),
    ),
    part_unused: ({"x": HEADS}, None, beta_binomial(HEADS.sum(), N - HEADS.sum())),
    enters_nothing: ({"x": HEADS}, None, beta_binomial(HEADS.sum(), N - HEADS.sum())),
    two_scales: ({"z": COUNTS, "x": TIMES}, None, of_two_scales(COUNTS, TIMES)),
    tied_by_index: (
        {"x": HEADS},
        CODES,
        LABEL_EVIDENCE
        + beta_binomial(HEADS[IN_FIRST].sum(), (1 - HEADS[IN_FIRST]).sum())
        + beta_binomial(HEADS[~IN_FIRST].sum(), (1 - HEADS[~IN_FIRST]).sum()),
    ),
    shared_table: ({"x": CODES[::-1]}, CODES, of_shared_table(CODES[::-1], CODES)),
}


def program_of(function, labels):
    return GenerativeProgram(function, **({"label": None} if labels is None else {"classes": 3}))


QUICK = [two_scales, shared_table, tied_by_index]
PROGRAMS = [pytest.param(f, id=f.__name__, marks=() if f in QUICK else pytest.mark.slow) for f in CLOSED]


@pytest.mark.parametrize("function", PROGRAMS)
def test_evidence_is_that_of_textbooks(function):
    rows, labels, log_evidence = CLOSED[function]
    program = program_of(function, labels)
    assert (program.closed_form["reason"] == "").all()
    same(exact(program, rows, labels).log_evidence, log_evidence)


@pytest.mark.parametrize("function", QUICK[:2], ids=lambda function: function.__name__)
def test_the_predictive_is_the_ratio_of_evidences(function):
    rows, labels, _ = CLOSED[function]
    program, new = program_of(function, labels), {name: cells[:2] + 1 for name, cells in rows.items()}
    fit = exact(program, rows, labels)
    table = fit.log_joint(new, at="predictive")
    for row in range(2):
        for code in range(table.shape[1]):
            longer = {name: np.r_[cells, new[name][row]] for name, cells in rows.items()}
            more = exact(program, longer, None if labels is None else np.r_[labels, code])
            same(table[row, code], more.log_evidence - fit.log_evidence)


READY = {
    "full": bg.GaussianDiscriminant("full", bg.NormalInverseWishart(0.3, 0.4, 4.5, [[1.3, 0.2], [0.2, 0.7]])),
    "tied": bg.GaussianDiscriminant(
        "tied", bg.NormalInverseWishart(0.3, 0.4, 4.5, [[1.3, 0.2], [0.2, 0.7]], tied=True), class_prior=[0.2, 0.3, 0.5]
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", READY)
def test_the_program_of_a_ready_made_model_has_its_evidence_and_predictive(name):
    known = exact(READY[name], REALS, LABELS)
    rows = dict(known.read(REALS).values)
    fit = exact(as_plain(known), rows, LABELS)
    same(fit.log_evidence, known.log_evidence)
    for rule in (bg.BMA(), bg.PlugIn()):
        answers = [bg.predict(fit, rows, rule=rule), bg.predict(known, REALS, rule=rule)]
        same(*(answer.log_probabilities for answer in answers))
        same(*(answer.log_marginal for answer in answers))


def test_draws_have_the_moments_of_the_posterior():
    rows, labels, _ = CLOSED[two_scales]
    fit = exact(program_of(two_scales, labels), rows, labels)
    draws, table = fit.draws(4000, seed=1)["rate"], fit.summary()
    shape, rate = 2.0 + COUNTS.sum() + N, 0.5 + 3 * N + 0.5 * TIMES.sum()
    same(table[["mean", "sd"]].to_numpy()[0], [shape / rate, shape**0.5 / rate])
    same(table["lower"], scipy.stats.gamma(shape, scale=1 / rate).ppf(0.05))
    np.testing.assert_allclose([draws.mean(), draws.std()], [shape / rate, shape**0.5 / rate], rtol=0.05)


@pytest.mark.slow
def test_missing_cells_leave_a_closed_form_or_are_refused():
    known = exact(READY["full"], REALS, LABELS)
    (name,), cells = known.read(REALS).values, REALS.copy()
    cells[0, 0] = np.nan
    with pytest.raises(bg.FitError, match=r"missing\. Use NUTS\(\)"):
        exact(as_plain(known), {name: cells}, LABELS)
    rows, labels, _ = CLOSED[two_likelihoods]
    program, holes = program_of(two_likelihoods, labels), np.where(np.arange(N) < 5, np.nan, HEADS)
    fit = exact(program, {**rows, "x": holes})
    same(fit.log_evidence, beta_binomial(HEADS[5:].sum() + N, N - 5 - HEADS[5:].sum() + FAILURES.sum()))


def test_weights_updates_files_and_left_out_rows(tmp_path):
    rows, labels, _ = CLOSED[shared_table]
    program, weights = program_of(shared_table, labels), np.arange(N) % 3
    fit = exact(program, rows, labels)
    twice = bg.fit(program, rows, labels, method=bg.Exact(), sample_weight=weights)
    index = np.repeat(np.arange(N), weights)
    same(twice.log_evidence, of_shared_table(rows["x"][index], labels[index]))
    halves = exact(program, {"x": rows["x"][:20]}, labels[:20]).update({"x": rows["x"][20:]}, labels[20:])
    same(halves.log_evidence, fit.log_evidence)
    fit.save(tmp_path / "fit")
    loaded = bg.load(tmp_path / "fit", program=program)
    assert loaded == fit
    left_out = bg.leave_one_out(fit, rows, labels)
    without = exact(program, {"x": rows["x"][1:]}, labels[1:])
    same(
        left_out.log_scores[0], bg.predict(without, {"x": rows["x"][:1]}, rule=bg.BMA()).log_probabilities[0, labels[0]]
    )


# --- labels that are numbers -----------------------------------------------------------------------------------------

X = np.random.default_rng(3).normal(size=(23, 2))
Y = X @ [1.0, -2.0] + 0.7 + np.random.default_rng(4).normal(size=23)
DESIGN = np.c_[np.ones(23), X]


def line(n, *, X):
    variance = numpyro.sample("variance", dist.InverseGamma(2.0, 1.5))
    slopes = numpyro.sample("slopes", dist.Normal(0.3, 2 * jnp.sqrt(variance)).expand([2]).to_event(1))
    intercept = numpyro.sample("intercept", dist.Normal(0.0, 3 * jnp.sqrt(variance)))
    with numpyro.plate("rows", n):
        numpyro.sample("y", dist.Normal(intercept + X @ slopes, jnp.sqrt(variance)))


def line_of_known_noise(n, *, X):
    slopes = numpyro.sample("slopes", dist.Normal(0.3, 2.0).expand([2]).to_event(1))
    intercept = numpyro.sample("intercept", dist.Normal(0.0, 3.0))
    with numpyro.plate("rows", n):
        numpyro.sample("y", dist.Normal(intercept + X @ slopes, 1.3))


MEAN, SPREAD = np.array([0.0, 0.3, 0.3]), np.diag([9.0, 4.0, 4.0])


@pytest.mark.slow
def test_regressions_with_unknown_noise_answer_by_student_t():
    fit = exact(GenerativeProgram(line), {"X": X}, Y)
    shape = np.eye(23) + DESIGN @ SPREAD @ DESIGN.T
    marginal = scipy.stats.multivariate_t(DESIGN @ MEAN, 1.5 / 2.0 * shape, df=4)
    same(fit.log_evidence, marginal.logpdf(Y))
    precision = DESIGN.T @ DESIGN + np.linalg.inv(SPREAD)
    mean = np.linalg.solve(precision, DESIGN.T @ Y + np.linalg.inv(SPREAD) @ MEAN)
    rate = 1.5 + 0.5 * (Y @ Y + MEAN @ np.linalg.inv(SPREAD) @ MEAN - mean @ precision @ mean)
    same(np.r_[fit.parameters["intercept"], fit.parameters["slopes"]], mean)
    same(fit.parameters["variance"], rate / (2.0 + 11.5 - 1))
    new = np.array([[0.3, 1.2], [2.0, -1.0]])
    design = np.c_[np.ones(2), new]
    spread = 1 + np.einsum("nd,de,ne->n", design, np.linalg.inv(precision), design)
    expected = scipy.stats.t(27, design @ mean, np.sqrt(rate / 13.5 * spread))
    answer = bg.predict(fit, {"X": new}, rule=bg.BMA())
    np.testing.assert_allclose(answer.mean, expected.mean(), rtol=1e-8)
    np.testing.assert_allclose(answer.std, expected.std(), rtol=1e-7)
    np.testing.assert_allclose(answer.log_density([0.5, 3.0]), expected.logpdf([0.5, 3.0]), rtol=1e-7)


def test_regressions_with_known_noise_answer_by_normals():
    fit = exact(GenerativeProgram(line_of_known_noise), {"X": X}, Y)
    covariance = 1.69 * np.eye(23) + DESIGN @ SPREAD @ DESIGN.T
    same(fit.log_evidence, scipy.stats.multivariate_normal(DESIGN @ MEAN, covariance).logpdf(Y))
    design, gain = np.array([[1.0, 0.3, 1.2]]), np.linalg.solve(covariance, DESIGN @ SPREAD).T
    mean = MEAN + gain @ (Y - DESIGN @ MEAN)
    variance = 1.69 + design @ (SPREAD - gain @ DESIGN @ SPREAD) @ design.T
    answer = bg.predict(fit, {"X": design[:, 1:]}, rule=bg.BMA())
    np.testing.assert_allclose(answer.mean, design @ mean, rtol=1e-8)
    np.testing.assert_allclose(answer.std, np.sqrt(variance[0]), rtol=1e-7)


def test_counts_with_exposures_are_gamma_and_answer_by_negative_binomials():
    def counted(n, *, hours):
        rate = numpyro.sample("rate", dist.Gamma(2.0, 0.5))
        with numpyro.plate("rows", n):
            numpyro.sample("y", dist.Poisson(rate * hours))

    hours, counts = np.linspace(0.5, 3.0, 23), np.random.default_rng(5).poisson(np.linspace(1.0, 6.0, 23))
    fit = exact(GenerativeProgram(counted), {"hours": hours}, counts)
    shape, rate = 2.0 + counts.sum(), 0.5 + hours.sum()
    same(fit.parameters["rate"], shape / rate)
    answer = bg.predict(fit, {"hours": np.array([2.0])}, rule=bg.BMA())
    expected = scipy.stats.nbinom(shape, rate / (rate + 2.0))
    np.testing.assert_allclose(answer.mean, expected.mean(), rtol=1e-6)
    np.testing.assert_allclose(answer.log_density([3]), expected.logpmf([3]), rtol=1e-6)


# --- other ready-made models -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_program_of_a_joint_normal_regression_has_its_evidence():
    known = exact(bg.JointGaussianRegression(), X, Y)
    rows = known.concrete.response.put(known.read(X), Y)
    fit = exact(as_plain(known), dict(rows.values))
    assert set(fit.attributes["closed_form"].split(", ")) == {
        "joint_scale_tril (factor of inverse Wishart)",
        "joint_mean (normal)",
    }
    same(fit.log_evidence, known.log_evidence)


def test_the_program_of_markov_chains_has_their_evidence_and_predictive():
    rng = np.random.default_rng(6)
    words = ["".join(rng.choice(list("ab"), size=size)) for size in rng.integers(3, 9, N)]
    known = exact(bg.NaiveBayes(bg.DirichletMarkov()), {"s": words}, LABELS)
    bound = known.program.function

    def plain(n, *, s_length):
        bound(n, s_length=s_length)

    rows = {**known.read({"s": words}).values, "s_length": np.array([len(word) for word in words])}
    fit = exact(GenerativeProgram(plain, classes=["a", "b", "c"]), rows, LABELS)
    same(fit.log_evidence, known.log_evidence)
    answers = bg.predict(fit, rows, rule=bg.BMA()), bg.predict(known, {"s": words}, rule=bg.BMA())
    same(*(answer.log_probabilities for answer in answers))


COEFFICIENTS = bg.LinearNormalInverseGamma(0.2, [[2.0, 0.3], [0.3, 1.0]], 0.4, 0.7, 2.5, 1.3)
REGRESSIONS = {
    "with a flat intercept": bg.LinearRegression(),
    "with a proper prior": bg.LinearRegression(prior=COEFFICIENTS),
}


@pytest.mark.slow  # lines of known noise, and flat coefficients in test_conjugate_pairs.py, have theirs by default
@pytest.mark.parametrize("name", REGRESSIONS)
def test_the_program_of_a_linear_regression_has_its_posterior(name):
    """A flat intercept has the density 1, whose evidence is that of the ready-made model, too."""
    known, new = exact(REGRESSIONS[name], X, Y), X[:3] + 0.5
    bound = known.program.function

    def plain(n, *, y_features):
        bound(n, y_features=y_features)

    fit = exact(GenerativeProgram(plain), dict(known.read(X).covariates), Y)
    same(fit.log_evidence, known.log_evidence)
    for parameter, value in known.parameters.items():
        same(fit.parameters[parameter], value)
    answer = bg.predict(fit, dict(known.read(new).covariates), rule=bg.BMA())
    expected = bg.predict(known, new, rule=bg.BMA())
    for numbers in ("mean", "std"):
        same(getattr(answer, numbers), getattr(expected, numbers))
    same(answer.log_density(Y[:3]), expected.log_density(Y[:3]))


BY_RESPONSE = bg.LinearNormalInverseGamma(0.2, 0.7, 0.4, 0.7, 2.5, 1.3)
NAIVE = {
    "with flat intercepts": bg.NaiveBayesRegression(),
    "with proper priors": bg.NaiveBayesRegression(BY_RESPONSE, bg.NormalInverseGamma(0.3, 0.6, 2.5, 1.1)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", NAIVE)
def test_the_program_of_a_naive_bayes_regression_has_its_posterior(name):
    known = exact(NAIVE[name], X, Y)
    rows = known.concrete.response.put(known.read(X), Y)
    fit = exact(as_plain(known), dict(rows.values))
    same(fit.log_evidence, known.log_evidence)
    for parameter, value in known.parameters.items():
        same(fit.parameters[parameter], value)
    answer = bg.predict(known, X, rule=bg.BMA())
    same(
        bg.predict(fit, dict(rows.values), rule=bg.BMA()).log_marginal,
        answer.log_marginal + answer.log_density(Y),
    )
