"""Programs whose latents are conjugate: recognised, proven, and fitted exactly as ready-made models are."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import scipy.stats

import bayesgen as bg
from bayesgen import GenerativeProgram
from tests.counting import compilations

CLASSES = ["a", "b", "c"]
RNG = np.random.default_rng(0)
CODES = np.r_[0, 1, 2, RNG.integers(0, 3, 38)]
LABELS = np.array(CLASSES)[CODES]
WORDS = RNG.integers(0, 5, (41, 2))
ONES = (RNG.uniform(size=(41, 7)) < 0.4).astype(int)
COUNTS = RNG.poisson(3.0, (41, 2))
REALS = RNG.normal(size=(41, 2)) + CODES[:, None]
TOTALS = RNG.multinomial(6, [0.5, 0.3, 0.2], 41)
PRIOR = bg.NormalInverseGamma(0.5, 0.4, 2.5, 1.5)

READY = {
    "categorical": (bg.NaiveBayes(bg.DirichletCategorical(1.7)), WORDS.astype(str)),
    "binary": (bg.NaiveBayes(bg.BetaBernoulli(2, 3)), ONES.astype(bool)),
    "counts": (bg.NaiveBayes(bg.GammaPoisson(2, 0.5)), COUNTS),
    "normal": (bg.NaiveBayes(PRIOR), REALS),
    "fixed": (bg.NaiveBayes(PRIOR, class_prior=[0.2, 0.3, 0.5]), REALS),
    "diag": (bg.GaussianDiscriminant("diag", PRIOR), REALS),
    "tied-diag": (bg.GaussianDiscriminant("tied-diag", bg.NormalInverseGamma(0.5, 0.4, 2.5, 1.5, tied=True)), REALS),
    "spherical": (
        bg.GaussianDiscriminant("spherical", bg.NormalInverseGamma(0.5, 0.4, 2.5, 1.5, spherical=True)),
        REALS,
    ),
    "tied-spherical": (
        bg.GaussianDiscriminant("tied-spherical", bg.NormalInverseGamma(0.5, 0.4, 2.5, 1.5, tied=True, spherical=True)),
        REALS,
    ),
}


ALIKE = ("binary", "normal", "diag", "tied-diag", "spherical")  # with families that the others of the table have


def as_plain(fit):
    """The program of a fit as a function of a user's own, with the label and classes of the fit."""
    bound = fit.program.function

    def plain(n):
        bound(n)

    return GenerativeProgram(plain, label=fit.program.label, classes=fit.program.classes or None)


def same(actual, expected):
    """To nine digits."""
    np.testing.assert_allclose(actual, expected, rtol=1e-9, atol=1e-12)


def numbers(fit):
    """The numbers of the summary, parameter by parameter, without those of classes."""
    frame = fit.summary().query("parameter != 'class_probs'").sort_values("parameter", kind="stable")
    return frame[["mean", "sd", "lower", "upper"]].to_numpy()


def exact(program, rows, labels=None):
    return bg.fit(program, rows, labels, method=bg.Exact())


def averaged(fit, X):
    return bg.predict(fit, X, rule=bg.BMA()).probabilities


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * (name in ALIKE)) for name in READY],
)
def test_the_program_of_a_ready_made_model_has_its_posterior(name):
    model, X = READY[name]
    known = exact(model, X, LABELS)
    rows = dict(known.read(X).values)
    fit = exact(as_plain(known), rows, LABELS)
    same(fit.log_evidence, known.log_evidence)
    assert fit.parameters.keys() == known.parameters.keys() - ({"class_probs"} if name == "fixed" else set())
    for parameter, value in fit.parameters.items():
        same(value, known.parameters[parameter])
    for rule in (bg.BMA(), bg.PlugIn(), bg.PlugIn(at="mode")):
        same(bg.predict(fit, rows, rule=rule).log_probabilities, bg.predict(known, X, rule=rule).log_probabilities)
    same(bg.predict(fit, rows, rule=bg.BMA()).log_marginal, bg.predict(known, X, rule=bg.BMA()).log_marginal)
    same(*(numbers(trained) for trained in (fit, known)))


def documents(n):
    topics = numpyro.sample("topics", dist.Dirichlet(jnp.array([1.0, 2.0, 3.0])))
    words = numpyro.sample("words", dist.Dirichlet(jnp.ones((3, 5)) * 0.5).to_event(1))
    with numpyro.plate("documents", n):
        y = numpyro.sample("y", dist.Categorical(topics))
        numpyro.sample("word", dist.Categorical(words[y]))


def test_ten_line_naive_bayes_is_counting():
    program = GenerativeProgram(documents, classes=CLASSES)
    assert program.closed_form.to_dict("records") == [
        {"latent": "topics", "attribute": "y", "family": "DirichletCategorical", "reason": ""},
        {"latent": "words", "attribute": "word", "family": "DirichletCategorical", "reason": ""},
    ]
    fit = exact(program, {"word": WORDS[:, 0]}, LABELS)
    counts = np.zeros((3, 5))
    np.add.at(counts, (CODES, WORDS[:, 0]), 1)
    labels = counts.sum(1)
    same(fit.parameters["topics"], (np.array([1, 2, 3]) + labels) / (6 + 41))
    same(fit.parameters["words"], (counts + 0.5) / (counts + 0.5).sum(1, keepdims=True))
    rows = scipy.stats.dirichlet_multinomial([0.5] * 5, labels.astype(int)[:, None])
    log_orders = [scipy.special.gammaln(row.sum() + 1) - scipy.special.gammaln(row + 1).sum() for row in counts]
    log_words = [rows.logpmf(counts[k].astype(int))[k] - log_orders[k] for k in range(3)]
    log_order = scipy.special.gammaln(42) - scipy.special.gammaln(labels + 1).sum()
    log_labels = scipy.stats.dirichlet_multinomial([1, 2, 3], 41).logpmf(labels.astype(int)) - log_order
    same(fit.log_evidence, log_labels + sum(log_words))


def measured(n):
    """Means by class of two columns and in transposed order; one variance for all."""
    variance = numpyro.sample("variance", dist.InverseGamma(2.5, 1.5))
    with numpyro.plate("columns", 2, dim=-2), numpyro.plate("classes", 3, dim=-1):
        mean = numpyro.sample("mean", dist.Normal(0.5, jnp.sqrt(variance / 0.4)))
    with numpyro.plate("rows", n):
        y = numpyro.sample("y", dist.Categorical(jnp.array([0.2, 0.3, 0.5])))
        numpyro.sample("x", dist.Normal(mean[:, y].T, jnp.sqrt(variance)).to_event(1))


def test_transposed_tables_and_shared_variances_are_those_of_a_tied_discriminant():
    prior = bg.NormalInverseGamma(0.5, 0.4, 2.5, 1.5, tied=True, spherical=True)
    known = exact(bg.GaussianDiscriminant("tied-spherical", prior, class_prior=[0.2, 0.3, 0.5]), REALS, LABELS)
    fit = exact(GenerativeProgram(measured, classes=CLASSES), {"x": REALS}, LABELS)
    same(fit.log_evidence, known.log_evidence)
    assert fit.parameters["mean"].shape == (2, 3)
    name = next(name for name in known.parameters if name.endswith("mean"))
    same(fit.parameters["mean"].T, known.parameters[name])
    same(fit.draws(5, seed=1)["mean"].shape, (5, 2, 3))
    same(
        bg.predict(fit, {"x": REALS}, rule=bg.BMA()).probabilities,
        bg.predict(known, REALS, rule=bg.BMA()).probabilities,
    )


def test_a_latent_that_all_classes_share_learns_from_all_rows():
    def coins(n):
        q = numpyro.sample("q", dist.Beta(2, 3))
        with numpyro.plate("rows", n):
            numpyro.sample("y", dist.Bernoulli(0.25))
            numpyro.sample("x", dist.Bernoulli(q))

    heads, labels = ONES[:, 0], (CODES > 0).astype(int)
    fit = exact(GenerativeProgram(coins, classes=2), {"x": heads}, labels)
    total, rows = heads.sum(), len(heads)
    same(fit.parameters["q"], (2 + total) / (5 + rows))
    log_labels = scipy.stats.bernoulli(0.25).logpmf(labels).sum()
    log_heads = scipy.special.betaln(2 + total, 3 + rows - total) - scipy.special.betaln(2, 3)
    same(fit.log_evidence, log_labels + log_heads)
    same(averaged(fit, {"x": heads}), np.tile([0.75, 0.25], (rows, 1)))


def test_programs_without_classes_and_vectors_of_counts():
    def bags(n):
        probs = numpyro.sample("probs", dist.Dirichlet(jnp.array([1.0, 2.0, 0.5])))
        rate = numpyro.sample("rate", dist.Gamma(2.0, 0.5).expand([2]).to_event(1))
        with numpyro.plate("rows", n):
            numpyro.sample("bag", dist.Multinomial(6, probs))
            numpyro.sample("count", dist.Poisson(rate).to_event(1))

    fit = exact(GenerativeProgram(bags, label=None), {"bag": TOTALS, "count": COUNTS})
    bag = bg.DirichletMultinomial([1.0, 2.0, 0.5])
    counts = bg.GammaPoisson(2.0, 0.5)
    same(fit.log_evidence, bag.log_evidence(TOTALS) + counts.log_evidence(COUNTS))
    same(fit.parameters["probs"], bag.update(TOTALS).mean()["probs"])
    same(fit.parameters["rate"], counts.update(COUNTS).mean()["rate"])


def test_totals_of_counts_may_be_a_covariate():
    counts = RNG.poisson(2.0, (41, 4))

    def documents_of_any_length(n, *, total):
        words = numpyro.sample("words", dist.Dirichlet(jnp.ones((3, 4))).to_event(1))
        with numpyro.plate("documents", n):
            y = numpyro.sample("y", dist.Categorical(jnp.array([0.2, 0.3, 0.5])))
            numpyro.sample("x", dist.Multinomial(total, words[y], total_count_max=40))

    known = exact(bg.NaiveBayes(bg.DirichletMultinomial(), class_prior=[0.2, 0.3, 0.5]), counts, LABELS)
    rows = {"x": counts, "total": counts.sum(1)}
    fit = exact(GenerativeProgram(documents_of_any_length, classes=CLASSES), rows, LABELS)
    same(fit.log_evidence, known.log_evidence)
    same(averaged(fit, rows), averaged(known, counts))


def test_missing_cells_weights_and_updates_are_those_of_the_ready_made_model():
    known = exact(bg.NaiveBayes(bg.BetaBernoulli(2, 3)), ONES.astype(bool), LABELS)
    program, cells = as_plain(known), ONES.astype(float)
    cells[RNG.uniform(size=cells.shape) < 0.2] = np.nan
    (name,), weights = known.read(ONES.astype(bool)).values, RNG.integers(1, 4, 41)
    model = bg.NaiveBayes(bg.BetaBernoulli(2, 3))
    frame = np.where(np.isnan(cells), None, cells.astype(object))
    schema = bg.Schema(kinds={f"x{i}": "binary" for i in range(7)})
    expected = bg.fit(model, frame, LABELS, method=bg.Exact(), sample_weight=weights, schema=schema)
    fit = bg.fit(program, {name: cells}, LABELS, method=bg.Exact(), sample_weight=weights)
    same(fit.log_evidence, expected.log_evidence)
    same(averaged(fit, {name: cells}), averaged(expected, frame))
    halves = exact(program, {name: ONES[:20]}, LABELS[:20]).update({name: ONES[20:]}, LABELS[20:])
    same(halves.log_evidence, known.log_evidence)
    same(halves.parameters["class_probs"], known.parameters["class_probs"])


def test_left_out_rows_averages_and_files(tmp_path):
    known = exact(bg.NaiveBayes(bg.GammaPoisson(2, 0.5)), COUNTS, LABELS)
    (name,) = known.read(COUNTS).values
    program = as_plain(known)
    fit = exact(program, {name: COUNTS}, LABELS)
    left_out = bg.leave_one_out(fit, {name: COUNTS}, LABELS)
    same(left_out.log_scores, bg.leave_one_out(known, COUNTS, LABELS).log_scores)
    fit.save(tmp_path / "fit")
    loaded = bg.load(tmp_path / "fit", program=program)
    same(loaded.log_evidence, fit.log_evidence)
    same(
        bg.predict(loaded, {name: COUNTS}, rule=bg.BMA()).probabilities,
        bg.predict(known, COUNTS, rule=bg.BMA()).probabilities,
    )


def test_averages_over_programs_are_those_over_ready_made_models():
    models = [bg.NaiveBayes(bg.BetaBernoulli(a, 3)) for a in (1, 4)]
    known = [exact(model, ONES.astype(bool), LABELS) for model in models]
    rows = dict(known[0].read(ONES.astype(bool)).values)
    average, expected = bg.average([exact(as_plain(fit), rows, LABELS) for fit in known]), bg.average(known)
    same(average.weights, expected.weights)
    same(averaged(average, rows), averaged(expected, ONES.astype(bool)))

    def counted(n):
        probs, rate = jnp.full(3, 1 / 3), numpyro.sample("rate", dist.Gamma(1.0, 1.0))
        with numpyro.plate("rows", n):
            numpyro.sample("y", dist.Categorical(probs))
            numpyro.sample("x", dist.Poisson(rate))

    def weighed(n):
        probs = jnp.full(3, 1 / 3)
        variance = numpyro.sample("variance", dist.InverseGamma(2.0, 1.0))
        mean = numpyro.sample("mean", dist.Normal(0.0, jnp.sqrt(variance)))
        with numpyro.plate("rows", n):
            numpyro.sample("y", dist.Categorical(probs))
            numpyro.sample("x", dist.Normal(mean, jnp.sqrt(variance)))

    fits = [exact(GenerativeProgram(f, classes=CLASSES), {"x": COUNTS[:, 0]}, LABELS) for f in (counted, weighed)]
    with pytest.raises(bg.FitError, match="kinds differ"):
        bg.average(fits)


def test_a_model_written_with_obs_has_its_exact_posterior():
    def coin(flips=None):
        q = numpyro.sample("q", dist.Beta(2, 3))
        numpyro.sample("flips", dist.Bernoulli(q), obs=flips)

    heads = ONES[:, 0]
    program = GenerativeProgram.from_model(coin, heads)
    rows, _ = program.read(heads)
    same(exact(program, rows).parameters["q"], (2 + heads.sum()) / (5 + len(heads)))


def squared(n):
    q = numpyro.sample("q", dist.Beta(2, 3))
    with numpyro.plate("rows", n):
        numpyro.sample("x", dist.Bernoulli(q * q))


def test_exact_names_latent_attribute_reason_and_remedy():
    with pytest.raises(bg.FitError, match=r"latent 'q' of attribute 'x': link: .* Use NUTS\(\)"):
        exact(GenerativeProgram(squared, label=None), {"x": ONES[:, 0]})


def test_recognition_and_exact_fits_of_programs_compile_nothing():
    program = GenerativeProgram(documents, classes=CLASSES)
    program.check_row_count(len(WORDS))  # introspection, as for any method
    with compilations() as compiled:
        exact(program, {"word": WORDS[:, 0]}, LABELS)
    assert compiled == []
