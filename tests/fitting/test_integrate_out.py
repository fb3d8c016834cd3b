"""Latents integrated out by NUTS and MAP: against quadrature over one hyperparameter, and NUTS of all latents."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from oracles.moments import assert_mean

import bayesgen as bg

NUM_ROWS = 40


def survey(n):
    """Columns of three values, whose shares have a prior with a concentration that is learned."""
    concentration = numpyro.sample("concentration", dist.Gamma(2.0, 1.0))
    p = numpyro.sample("p", dist.Dirichlet(jnp.array([1.0, 2.0])))
    shares = dist.Dirichlet(concentration * jnp.ones(3)).expand([2, 5]).to_event(1)
    shares = numpyro.sample("shares", shares)
    with numpyro.plate("people", n):
        y = numpyro.sample("y", dist.Bernoulli(p[1]))
        numpyro.sample("answer", dist.Categorical(shares[y]).to_event(1))


def coin(n):
    q = numpyro.sample("q", dist.Beta(2.0, 3.0))
    with numpyro.plate("tosses", n):
        numpyro.sample("heads", dist.Bernoulli(q))


def lengths(n):
    """A centre that is normal given the variance, whose inverse has a gamma distribution given the spread."""
    spread = numpyro.sample("spread", dist.HalfNormal(2.0))
    variance = numpyro.sample("variance", dist.InverseGamma(3.0, 2.0))
    center = numpyro.sample("center", dist.Normal(0.0, jnp.sqrt(variance) * spread))
    with numpyro.plate("rows", n):
        numpyro.sample("length", dist.Normal(center, jnp.sqrt(variance)))


PROGRAM = bg.GenerativeProgram(survey, classes=2)


@pytest.fixture(scope="module")
def answers():
    rng = np.random.default_rng(12)
    y = rng.integers(0, 2, NUM_ROWS)
    return {"answer": rng.choice(3, (NUM_ROWS, 5), p=[0.6, 0.3, 0.1])}, y


@pytest.fixture(scope="module")
def by_quadrature(answers):
    """Log evidence and posterior given each of many concentrations, in closed form; and the weights of these."""
    X, y = answers
    grid = np.linspace(0.05, 12.0, 40)
    families = [bg.DirichletCategorical(c) for c in grid]
    frame = {f"q{j}": X["answer"][:, j].astype(str) for j in range(5)}
    models = [bg.NaiveBayes({"categorical": f}, class_prior=bg.DirichletCategorical([1.0, 2.0])) for f in families]
    fits = [bg.fit(model, frame, y, method=bg.Exact()) for model in models]
    logs = np.log(grid) - grid + [fit.log_evidence for fit in fits]
    return grid, logs, fits


def average(by_quadrature, function):
    grid, logs, fits = by_quadrature
    values = np.stack([function(c, fit) for c, fit in zip(grid, fits, strict=True)])
    return np.average(values, axis=0, weights=np.exp(logs - logs.max()))


@pytest.fixture(scope="module")
def sampled(answers):
    return bg.fit(PROGRAM, *answers, method=bg.NUTS(num_warmup=300, num_samples=500), seed=6)


def assert_agrees(fit, by_quadrature):
    draws = fit.parameters
    assert_mean(draws["concentration"], average(by_quadrature, lambda c, fit: c), "concentration")
    assert_mean(draws["concentration"] ** 2, average(by_quadrature, lambda c, fit: c**2), "concentration squared")
    shares = average(by_quadrature, lambda c, fit: fit.parameters["categorical_3_probs"])
    assert_mean(draws["shares"], shares, "shares")
    variance = lambda c, fit: fit.posterior.conjugate.variance()["categorical_3_probs"]  # noqa: E731
    squares = average(by_quadrature, lambda c, fit: variance(c, fit) + fit.parameters["categorical_3_probs"] ** 2)
    assert_mean(draws["shares"] ** 2, squares, "shares squared")


def test_the_others_have_the_posterior_that_evidence_gives_and_all_latents_are_drawn(sampled, by_quadrature):
    assert sampled.attributes["integrated_out"] == ("shares", "p")
    assert set(sampled.parameters) == {"concentration", "p", "shares"}
    assert sampled.parameters["shares"].shape == (4, 500, 2, 5, 3)
    assert sampled.posterior.sample_stats["potential_energy"].shape == (4, 500)
    assert_agrees(sampled, by_quadrature)


@pytest.mark.slow
def test_nuts_of_all_latents_agrees(answers, by_quadrature):
    fit = bg.fit(PROGRAM, *answers, method=bg.NUTS(integrate_out=False), seed=6)
    assert "integrated_out" not in fit.attributes
    assert_agrees(fit, by_quadrature)


@pytest.mark.slow
def test_some_latents_alone_are_integrated_out(answers, by_quadrature):
    fit = bg.fit(PROGRAM, *answers, method=bg.NUTS(integrate_out=["shares"]), seed=3)
    assert fit.attributes["integrated_out"] == ("shares",)
    assert_agrees(fit, by_quadrature)


@pytest.mark.slow
def test_hyperparameters_of_ready_made_models_are_sampled_alone(answers, by_quadrature):
    X, y = answers
    family = bg.DirichletCategorical(dist.Gamma(2.0, 1.0))
    model = bg.NaiveBayes({"categorical": family}, class_prior=bg.DirichletCategorical([1.0, 2.0]))
    frame = {f"q{j}": X["answer"][:, j].astype(str) for j in range(5)}
    fit = bg.fit(model, frame, y, method=bg.NUTS(), seed=2)
    assert sorted(fit.attributes["integrated_out"]) == ["categorical_3_probs", "class_probs"]
    assert_mean(fit.parameters["categorical_3_concentration"], average(by_quadrature, lambda c, fit: c))
    shares = average(by_quadrature, lambda c, fit: fit.parameters["categorical_3_probs"])
    assert_mean(fit.parameters["categorical_3_probs"], shares)


@pytest.mark.slow
def test_latents_are_integrated_out_stage_by_stage():
    """The centre given the variance, and then the variance: against quadrature over the spread."""
    x = np.array([1.2, 3.4, 2.2, 0.7, 2.9])
    program = bg.GenerativeProgram(lengths, label=None)
    fit = bg.fit(program, {"length": x}, method=bg.NUTS(integrate_out=["center", "variance"]), seed=4)
    assert fit.attributes["integrated_out"] == ("center", "variance")
    spread = np.linspace(1e-3, 12.0, 4001)
    precision = 1 / spread**2 + len(x)
    rate = 2.0 + 0.5 * ((x**2).sum() - x.sum() ** 2 / precision)
    shape = 3.0 + len(x) / 2
    logs = -(spread**2) / 8 - np.log(spread) - 0.5 * np.log(precision) - shape * np.log(rate)
    weights = np.exp(logs - logs.max())
    means = {"spread": spread, "variance": rate / (shape - 1), "center": x.sum() / precision}
    for name, given_spread in means.items():
        assert_mean(fit.parameters[name], np.average(given_spread, weights=weights), name)


@pytest.mark.slow
def test_draws_of_a_closed_program_are_independent():
    rows = {"heads": np.array([1, 0, 0, 1, 1, 0, 0])}
    program = bg.GenerativeProgram(coin, label=None)
    fit = bg.fit(program, rows, method=bg.NUTS(integrate_out="q"), seed=1)
    assert fit.attributes["integrated_out"] == ("q",)
    assert fit.attributes["path"] == "independent draws"
    q = fit.parameters["q"]
    assert abs(q.mean() - 5 / 12) < 4 * q.std() / np.sqrt(q.size)
    assert q.var() == pytest.approx(5 * 7 / (12**2 * 13), rel=0.1)
    assert abs(np.corrcoef(q[:, 1:].ravel(), q[:, :-1].ravel())[0, 1]) < 0.06


REFUSED = [
    (survey, ["concentration"], "'concentration'.*no closed form given the other latents"),
    (survey, ["shares", "cocnentration"], "'cocnentration'.*the latents are.*'shares'"),
]


@pytest.mark.parametrize("function, names, message", REFUSED)
def test_latents_without_a_closed_form_are_refused_by_name(answers, function, names, message):
    with pytest.raises(bg.FitError, match=f"NUTS.*integrate out {message}"):
        bg.fit(PROGRAM, *answers, method=bg.NUTS(integrate_out=names))


def test_missing_labels_are_refused_where_names_are_given(answers):
    X, y = answers
    labels = [None, *y[1:].tolist()]
    with pytest.raises(bg.FitError, match=r"integrate out 'shares'.*these data.*labels"):
        bg.fit(PROGRAM, X, labels, method=bg.NUTS(integrate_out=["shares"]))


@pytest.mark.parametrize("value", [True, 3, [], [1]])
def test_what_is_no_name_is_refused(value):
    with pytest.raises(bg.ModelError, match="NUTS: integrate_out"):
        bg.NUTS(integrate_out=value)


# --- MAP: the prior is learned ------------------------------------------------------------------------------------


def ready_made(concentration):
    family = bg.DirichletCategorical(concentration)
    return bg.NaiveBayes({"categorical": family}, class_prior=bg.DirichletCategorical([1.0, 2.0]))


@pytest.fixture(scope="module")
def frame(answers):
    return {f"q{j}": answers[0]["answer"][:, j].astype(str) for j in range(5)}


@pytest.fixture(scope="module")
def learned(frame, answers):
    """The fit with a learned concentration, and the exact one given it."""
    fit = bg.fit(ready_made(dist.Gamma(2.0, 1.0)), frame, answers[1], method=bg.MAP(integrate_out=True))
    concentration = float(fit.parameters["categorical_3_concentration"])
    return fit, bg.fit(ready_made(concentration), frame, answers[1], method=bg.Exact())


def log_evidence_times_prior(concentration, frame, y):
    fit = bg.fit(ready_made(concentration), frame, y, method=bg.Exact())
    return fit.log_evidence + np.log(concentration) - concentration


def test_the_learned_hyperparameter_has_the_highest_evidence_times_prior(learned, frame, answers):
    fit, _ = learned
    best = float(fit.parameters["categorical_3_concentration"])
    values = [log_evidence_times_prior(best * by, frame, answers[1]) for by in (0.999, 1.0, 1.001)]
    assert values[1] > max(values[0], values[2])
    assert sorted(fit.attributes["integrated_out"]) == ["categorical_3_probs", "class_probs"]
    assert fit.log_evidence is None and fit.approximate_log_evidence is None


@pytest.mark.parametrize("rule", [bg.PlugIn("mean"), bg.PlugIn("mode"), bg.BMA()])
def test_given_the_hyperparameter_both_answers_are_those_of_the_exact_fit(learned, frame, rule):
    tables = [bg.predict(fit, frame, rule=rule).log_probabilities for fit in learned]
    np.testing.assert_allclose(tables[0], tables[1], rtol=1e-10)


def test_a_learned_fit_has_the_draws_and_numbers_of_the_exact_one_and_the_hyperparameter(learned):
    fit, _ = learned
    best = fit.parameters["categorical_3_concentration"]
    assert (fit.samples()["categorical_3_concentration"] == best).all()
    draws, expected = (f.posterior.parameter_draws(100, jax.random.key(3)) for f in learned)
    np.testing.assert_array_equal(draws["categorical_3_probs"], expected["categorical_3_probs"])
    rows, of_exact = (f.summary().set_index(["parameter", "class"])["sd"].sort_index() for f in learned)
    assert rows.loc[("categorical_3_concentration", "")].item() == 0
    np.testing.assert_allclose(rows.loc["class_probs"], of_exact.loc["class_probs"])


def test_the_prior_is_learned_again_from_more_rows(learned, frame, answers):
    fit, _ = learned
    more = fit.update(frame, answers[1])
    twice = {name: np.tile(column, 2) for name, column in frame.items()}
    again = bg.fit(fit.model, twice, np.tile(answers[1], 2), method=bg.MAP(integrate_out=True))
    assert more.attributes["total_weight"] == 2 * NUM_ROWS
    names = "categorical_3_concentration", "class_probs", "categorical_3_probs"
    for name in names:
        np.testing.assert_allclose(more.parameters[name], again.parameters[name], rtol=1e-5)


@pytest.mark.slow
def test_a_program_answers_as_the_ready_made_model_does(learned, frame, answers):
    X, y = answers
    fit = bg.fit(PROGRAM, X, y, method=bg.MAP(integrate_out=True))
    assert float(fit.parameters["concentration"]) == pytest.approx(
        float(learned[0].parameters["categorical_3_concentration"]), rel=1e-6
    )
    np.testing.assert_allclose(fit.parameters["shares"], learned[0].parameters["categorical_3_probs"], rtol=1e-6)
    for rule in (bg.PlugIn("mean"), bg.PlugIn("mode"), bg.BMA()):
        tables = [bg.predict(f, rows, rule=rule).log_probabilities for f, rows in ((fit, X), (learned[0], frame))]
        np.testing.assert_allclose(*tables, rtol=1e-6)
    assert fit.log_evidence is None
    assert "integrated out: shares, p" in str(fit)


def test_a_model_without_hyperparameters_to_learn_is_refused(frame, answers):
    with pytest.raises(bg.FitError, match=r"MAP\(integrate_out=True\) has nothing to learn.*Exact\(\)"):
        bg.fit(ready_made(1.0), frame, answers[1], method=bg.MAP(integrate_out=True))


def test_a_program_without_a_closed_part_is_refused_by_name():
    def waits(n):
        shape = numpyro.sample("shape", dist.Gamma(2.0, 1.0))
        with numpyro.plate("rows", n):
            numpyro.sample("wait", dist.Gamma(shape, 1.0))

    program = bg.GenerativeProgram(waits, label=None)
    with pytest.raises(bg.FitError, match=r"MAP\(integrate_out=True\) has nothing to integrate out.*Use MAP\(\)"):
        bg.fit(program, {"wait": np.array([0.3, 2.1])}, method=bg.MAP(integrate_out=True))


@pytest.mark.parametrize("options", [{"starts": [0, 1]}, {"assignment": "hard"}, {"objective": "conditional"}])
def test_arguments_for_other_objectives_are_refused_where_a_prior_is_learned(options):
    with pytest.raises(bg.ModelError, match="integrate_out=True maximises evidence"):
        bg.MAP(integrate_out=True, **options)


def test_map_integrates_out_all_or_nothing():
    with pytest.raises(bg.ModelError, match="integrate_out is True or False"):
        bg.MAP(integrate_out=["shares"])
    assert repr(bg.MAP()).endswith("unlabelled_weight=1.0)")
    assert repr(bg.MAP(integrate_out=True)).endswith("unlabelled_weight=1.0, integrate_out=True)")
