"""Programs with discrete latents that all rows share: enumerated, and held against enumeration by NumPy and SciPy."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import scipy.special
import scipy.stats

import bayesgen as bg
from bayesgen import GenerativeProgram
from bayesgen.program import Enumeration, FiniteSite

close = np.testing.assert_allclose
SPACE = bg.number_game("tenenbaum")
MEMBERS = np.asarray(SPACE.extensions)
SHARES = MEMBERS / SPACE.sizes[:, None]
PRIOR = np.asarray(SPACE.prior)
SETS = [[16], [16, 8, 2, 64], [16, 23, 19, 20]]
NUMBERS = {"number": np.arange(100)}


def exact(program, rows, labels=None, **options):
    return bg.fit(program, rows, labels, method=bg.Exact(), **options)


# --- concept learning ------------------------------------------------------------------------------------------------


def number_game(n):
    concept = numpyro.sample("concept", dist.Categorical(PRIOR))
    with numpyro.plate("examples", n):
        numpyro.sample("number", dist.Categorical(jnp.asarray(SHARES)[concept]))


def memberships(n, *, number):
    concept = numpyro.sample("concept", dist.Categorical(PRIOR))
    with numpyro.plate("queries", n):
        numpyro.sample("inside", dist.Bernoulli(jnp.asarray(MEMBERS)[concept, number].astype(float)))


@pytest.mark.parametrize("examples", [SETS[1], *(pytest.param(s, marks=pytest.mark.slow) for s in SETS[::2])], ids=str)
def test_the_number_game_as_a_program_is_the_concept_learner(examples):
    program, known = GenerativeProgram(number_game, label=None), exact(bg.ConceptLearner(SPACE), examples)
    fit = exact(program, {"number": np.array(examples) - 1})
    close(fit.log_evidence, known.log_evidence, rtol=1e-12)
    close(fit.parameters["weight"], known.weights, rtol=1e-10, atol=1e-15)
    next_example = bg.predict(known, range(1, 101), rule=bg.BMA()).next_example
    close(np.exp(bg.predict(fit, NUMBERS, rule=bg.BMA()).log_marginal), next_example, rtol=1e-10, atol=1e-15)
    summary = fit.summary()
    assert summary["parameter"].unique().tolist() == ["concept"] and summary["value"].tolist() == [*range(5084)]
    close(summary["weight"], known.weights, rtol=1e-10, atol=1e-15)
    best = int(known.belief.ties[0])
    for method in (bg.MAP(), bg.MLE()):
        point = bg.fit(program, {"number": np.array(examples) - 1}, method=method)
        assert point.parameters["concept"] == bg.fit(bg.ConceptLearner(SPACE), examples, method=method).belief.ties[0]
    answer = bg.predict(fit, NUMBERS, rule=bg.PlugIn(at="mode"))
    close(np.exp(answer.log_marginal), SHARES[best], atol=1e-15)


@pytest.mark.slow
def test_a_label_inside_has_the_membership_of_weak_sampling():
    examples, inside = np.array([16, 8, 2, 64, 31]), np.array([True, True, True, True, False])
    learner = bg.ConceptLearner(SPACE, sampling="weak")
    known = bg.fit(learner, examples, inside, method=bg.Exact())
    program = GenerativeProgram(memberships, label="inside", classes=[False, True])
    fit = exact(program, {"number": examples - 1}, inside)
    close(fit.log_evidence, known.log_evidence + 5 * np.log(100), rtol=1e-10)
    membership = bg.predict(known, range(1, 101), rule=bg.BMA()).membership
    close(bg.predict(fit, NUMBERS, rule=bg.BMA()).probabilities[:, 1], membership, rtol=1e-10, atol=1e-14)


# --- several latents, by loops ---------------------------------------------------------------------------------------

RATES = np.array([0.5, 2.0, 4.0])
COUNTS, CODES = np.array([0, 3, 5, 1, 2, 7, 4]), np.array([0, 1, 1, 0, 0, 1, 1])
WEIGHTS = np.array([1.0, 2.0, 1.0, 0.5, 1.0, 3.0, 1.0])


def counted(n):
    """Counts of two classes: the rate of each is one of three, and both are doubled or not."""
    kind = numpyro.sample("kind", dist.DiscreteUniform(3, 5).expand([2]).to_event(1))
    doubled = numpyro.sample("doubled", dist.Bernoulli(0.3))
    numpyro.deterministic("rate", jnp.asarray(RATES)[kind - 3] * (1 + doubled))
    with numpyro.plate("rows", n):
        y = numpyro.sample("y", dist.Bernoulli(0.4))
        numpyro.sample("count", dist.Poisson(jnp.asarray(RATES)[kind[y] - 3] * (1 + doubled)))


PROGRAM = GenerativeProgram(counted, classes=["few", "many"])
LABELS = np.array(["few", "many"])[CODES]
VALUES = [(kinds, doubled) for kinds in itertools.product([3, 4, 5], repeat=2) for doubled in (0, 1)]


def log_joint_of_row(value, count, code):
    (kinds, doubled) = value
    rate = RATES[kinds[code] - 3] * (1 + doubled)
    return scipy.stats.poisson.logpmf(count, rate) + np.log(0.4 if code else 0.6)


def log_joints(counts, codes, weights):
    """log p(value, data) of each value; a code of -1 is a label that is not known."""
    logs = []
    for value in VALUES:
        total = np.log(0.3 if value[1] else 0.7) - 2 * np.log(3)
        for count, code, weight in zip(counts, codes, weights, strict=True):
            by_class = [log_joint_of_row(value, count, k) for k in range(2)]
            total += weight * (scipy.special.logsumexp(by_class) if code < 0 else by_class[code])
        logs.append(total)
    return np.array(logs)


@pytest.mark.parametrize(
    "hidden", [pytest.param(0, marks=pytest.mark.slow, id="labelled"), pytest.param(2, id="some without labels")]
)
def test_weights_and_answers_are_those_of_all_values(hidden):
    codes = np.where(np.arange(7) < hidden, -1, CODES)
    labels = [None if code < 0 else label for code, label in zip(codes, LABELS, strict=True)]
    logs = log_joints(COUNTS, codes, WEIGHTS)
    fit = exact(PROGRAM, {"count": COUNTS}, labels, sample_weight=WEIGHTS)
    weights = np.exp(logs - scipy.special.logsumexp(logs))
    close(fit.log_evidence, scipy.special.logsumexp(logs))
    close(fit.parameters["weight"], weights)
    assert fit.parameters["kind"].tolist() == [list(kinds) for kinds, _ in VALUES]
    assert fit.parameters["doubled"].tolist() == [doubled for _, doubled in VALUES]
    rows = np.arange(4)
    tables = np.array([[[log_joint_of_row(v, count, k) for k in range(2)] for count in rows] for v in VALUES])
    averaged = scipy.special.logsumexp(tables, axis=0, b=weights[:, None, None])
    answer = bg.predict(fit, {"count": rows}, rule=bg.BMA())
    close(answer.log_marginal, scipy.special.logsumexp(averaged, axis=1))
    close(answer.log_probabilities, averaged - answer.log_marginal[:, None])
    best = logs.argmax()
    point = bg.fit(PROGRAM, {"count": COUNTS}, labels, sample_weight=WEIGHTS, method=bg.MAP())
    assert (tuple(point.parameters["kind"]), int(point.parameters["doubled"])) == VALUES[best]
    close(point.parameters["rate"], RATES[np.array(VALUES[best][0]) - 3] * (1 + VALUES[best][1]))
    expected = bg.predict(point, {"count": rows}, rule=bg.PlugIn()).probabilities
    close(bg.predict(fit, {"count": rows}, rule=bg.PlugIn(at="mode")).probabilities, expected)
    close(expected, scipy.special.softmax(tables[best], axis=1))
    without_prior = logs - np.array([np.log(0.3 if doubled else 0.7) for _, doubled in VALUES])
    likeliest = bg.fit(PROGRAM, {"count": COUNTS}, labels, sample_weight=WEIGHTS, method=bg.MLE()).parameters
    assert (tuple(likeliest["kind"]), int(likeliest["doubled"])) == VALUES[without_prior.argmax()]


def test_draws_have_the_frequencies_of_the_weights_and_updates_those_of_all_rows():
    whole = exact(PROGRAM, {"count": COUNTS}, LABELS)
    fit = exact(PROGRAM, {"count": COUNTS[:3]}, LABELS[:3]).update({"count": COUNTS[3:]}, LABELS[3:])
    close(fit.log_evidence, whole.log_evidence)
    close(fit.parameters["weight"], whole.parameters["weight"])
    draws, weights = fit.draws(40_000, seed=3), fit.parameters["weight"]
    expected = weights @ fit.parameters["kind"]
    close(draws["kind"].mean(0), expected, atol=0.03)
    close(draws["doubled"].mean(), weights @ fit.parameters["doubled"], atol=0.02)
    tree = fit.to_datatree({"count": COUNTS}, LABELS)
    assert tree.posterior["kind"].shape == (4, 1000, 2) and tree.posterior["kind"].dtype.kind == "i"
    close(tree.weights_data["weight_by_value"], weights)
    assert tree.weights_data["kind_by_value"].shape == (18, 2)
    assert fit.simulate(5, seed=1)["count"].shape == (5,)


# --- beside continuous latents ---------------------------------------------------------------------------------------

SHIFTS = np.array([0.2, 0.5, 1.0])
HEIGHTS = np.array([1.1, 0.4, 1.9, 0.7, 1.5])


def shifted(n):
    shift = numpyro.sample("shift", dist.Categorical(jnp.array([0.2, 0.5, 0.3])))
    mean = numpyro.sample("mean", dist.Normal(0.0, 0.6))
    numpyro.deterministic("center", mean + jnp.asarray(SHIFTS)[shift])
    with numpyro.plate("rows", n):
        numpyro.sample("height", dist.Normal(mean + jnp.asarray(SHIFTS)[shift], 0.8))


def of_shifts():
    """Log evidence at each shift, and mean and standard deviation of the mean given it."""
    covariance = 0.64 * np.eye(5) + 0.36
    logs = [scipy.stats.multivariate_normal(np.full(5, shift), covariance).logpdf(HEIGHTS) for shift in SHIFTS]
    precision = 5 / 0.64 + 1 / 0.36
    return np.array(logs) + np.log([0.2, 0.5, 0.3]), (HEIGHTS.mean() - SHIFTS) * 5 / 0.64 / precision, precision**-0.5


@pytest.mark.slow
def test_draws_beside_a_continuous_latent_are_those_of_the_joint_posterior():
    program = GenerativeProgram(shifted, label=None)
    fit = bg.fit(program, {"height": HEIGHTS}, method=bg.NUTS(num_samples=2000), seed=1)
    logs, means, deviation = of_shifts()
    weights = scipy.special.softmax(logs)
    draws = {name: value.reshape(-1) for name, value in fit.parameters.items()}
    close(np.bincount(draws["shift"], minlength=3) / 8000, weights, atol=0.03)
    close(draws["mean"].mean(), weights @ means, atol=0.03)
    for shift in np.flatnonzero(weights > 0.1):
        given = draws["mean"][draws["shift"] == shift]
        close([given.mean(), given.std()], [means[shift], deviation], atol=0.03)
    close(draws["center"], draws["mean"] + SHIFTS[draws["shift"]], rtol=1e-12)
    best = weights.argmax()
    assert fit.posterior.mean["shift"] == best
    close(fit.posterior.mean["mean"], means[best], atol=0.03)
    row = {"height": np.array([1.0])}
    plugged = bg.predict(fit, row, rule=bg.PlugIn()).log_marginal
    close(plugged, scipy.stats.norm(fit.posterior.mean["mean"] + SHIFTS[best], 0.8).logpdf(1.0))
    averaged = scipy.stats.norm(means + SHIFTS, np.hypot(0.8, deviation)).pdf(1.0) @ weights
    close(bg.predict(fit, row, rule=bg.BMA()).log_marginal, np.log(averaged), atol=0.02)


def test_the_best_value_has_its_best_parameters():
    program = GenerativeProgram(shifted, label=None)
    _, means, _ = of_shifts()
    normal = scipy.stats.norm
    logs = [
        normal(mean + shift, 0.8).logpdf(HEIGHTS).sum() + normal(0, 0.6).logpdf(mean) + np.log(share)
        for mean, shift, share in zip(means, SHIFTS, [0.2, 0.5, 0.3], strict=True)
    ]
    point = bg.fit(program, {"height": HEIGHTS}, method=bg.MAP()).parameters
    assert point["shift"] == np.argmax(logs)
    close(point["mean"], means[point["shift"]], rtol=1e-6)
    close(point["center"], point["mean"] + SHIFTS[point["shift"]])


def test_latents_are_integrated_out_given_each_value():
    program = GenerativeProgram(shifted, label=None)
    fit = bg.fit(program, {"height": HEIGHTS}, method=bg.NUTS(num_samples=2000, integrate_out="mean"), seed=1)
    assert fit.attributes["integrated_out"] == ("mean", "shift")
    logs, means, _ = of_shifts()
    draws = {name: value.reshape(-1) for name, value in fit.parameters.items()}
    close(np.bincount(draws["shift"], minlength=3) / 8000, scipy.special.softmax(logs), atol=0.02)
    close([draws["mean"][draws["shift"] == shift].mean() for shift in range(3)], means, atol=0.04)


def test_the_exact_posterior_is_a_mixture_over_values(tmp_path):
    program, row = GenerativeProgram(shifted, label=None), {"height": np.array([1.0, -0.3])}
    logs, means, deviation = of_shifts()
    weights = scipy.special.softmax(logs)
    fit = exact(program, {"height": HEIGHTS})
    close(fit.log_evidence, scipy.special.logsumexp(logs), rtol=1e-12)
    close(fit.parameters["weight"], weights, rtol=1e-10)
    close(fit.parameters["mean"], means, rtol=1e-10)
    spreads = np.hypot(0.8, deviation)
    densities = scipy.stats.norm(means[:, None] + SHIFTS[:, None], spreads).pdf(row["height"])
    close(bg.predict(fit, row, rule=bg.BMA()).log_marginal, np.log(weights @ densities), rtol=1e-10)
    fit.save(tmp_path / "fit.nc")
    assert bg.load(tmp_path / "fit.nc", program=program) == fit
    point = bg.fit(program, {"height": HEIGHTS}, method=bg.MAP())
    plugged, at_mode = (bg.predict(f, row, rule=bg.PlugIn(at="mode")).log_marginal for f in (point, fit))
    close(at_mode, plugged, rtol=1e-6)
    summary = fit.summary().query("parameter == 'mean'")
    close(summary[["weight", "mean", "sd"]], np.stack([weights, means, np.full(3, deviation)], 1), rtol=1e-8)
    close(summary["upper"], means + scipy.stats.norm.ppf(0.95) * deviation, rtol=1e-8)
    draws = fit.draws(20_000, seed=2)
    close(np.bincount(draws["shift"], minlength=3) / 20_000, weights, atol=0.02)
    close([draws["mean"][draws["shift"] == k].mean() for k in range(3)], means, atol=0.02)
    assert program.closed_form["family"].tolist() == ["normal", "finite"]


@pytest.mark.slow
def test_parameters_of_classes_are_given_by_value():
    def measured(n):
        sign = numpyro.sample("sign", dist.Bernoulli(0.4))
        mean = numpyro.sample("mean", dist.Normal(1.0, 2.0).expand([2]).to_event(1))
        with numpyro.plate("rows", n):
            y = numpyro.sample("y", dist.Bernoulli(0.3))
            numpyro.sample("x", dist.Normal(mean[y] * (1 - 2 * sign), 1.0))

    fit = exact(GenerativeProgram(measured, classes=["a", "b"]), {"x": HEIGHTS}, list("abaab"))
    sums, counts = np.array([HEIGHTS[[0, 2, 3]].sum(), HEIGHTS[[1, 4]].sum()]), np.array([3, 2])
    means = [(0.25 + sign * sums) / (0.25 + counts) for sign in (1, -1)]
    close(fit.parameters["mean"], means)
    summary = fit.summary().query("parameter == 'mean'")
    assert summary["joint value"].tolist() == [0, 0, 1, 1] and summary["class"].tolist() == ["a", "b"] * 2
    close(summary["mean"], np.ravel(means))
    assert fit.to_datatree().posterior["mean"].dims == ("chain", "draw", "class")


def test_many_values_are_enumerated_batch_by_batch():
    sites = (FiniteSite("a", (2,), range(3, 6)), FiniteSite("b", (), range(2)))

    def log_density(values):
        return -((values["a"] - 4.2) ** 2).sum() * values["x"] + values["b"]

    def total(x, cost):
        return Enumeration(sites, cost).conditional(log_density, {"x": x}).log_integral

    expected = [
        -((np.array(v) - 4.2) ** 2).sum() * 0.7 + b
        for v, b in itertools.product(itertools.product([3, 4, 5], repeat=2), [0, 1])
    ]
    for cost in (1.0, 2.0**21):  # the latter in batches of two
        close(total(0.7, cost), scipy.special.logsumexp(expected), rtol=1e-5)
        step = 1e-3
        slope = (total(0.7 + step, 1.0) - total(0.7 - step, 1.0)) / (2 * step)
        close(jax.grad(total)(0.7, cost), slope, rtol=1e-2)


DISASTERS = np.array([4, 5, 4, 0, 1, 4, 3, 4, 0, 6, 3, 3, 4, 0, 2, 1, 0, 1, 0, 0, 1, 2, 1, 0, 1, 1])


@pytest.mark.slow
def test_a_change_point_beside_two_rates():
    """Carlin, Gelfand and Smith (1992): rates before and after a change have gamma posteriors given its year."""

    def accidents(n, *, year):
        change = numpyro.sample("change", dist.DiscreteUniform(1, 25))
        early = numpyro.sample("early", dist.Gamma(2.0, 1.0))
        late = numpyro.sample("late", dist.Gamma(2.0, 1.0))
        with numpyro.plate("years", n):
            numpyro.sample("count", dist.Poisson(jnp.where(year < change, early, late)))

    program, years = GenerativeProgram(accidents, label=None), np.arange(26)
    fit = exact(program, {"count": DISASTERS, "year": years})
    gammaln, logs = scipy.special.gammaln, []
    for change in range(1, 26):
        parts = DISASTERS[:change], DISASTERS[change:]
        logs.append(
            sum(gammaln(2 + p.sum()) - (2 + p.sum()) * np.log(1 + len(p)) - gammaln(p + 1).sum() for p in parts)
        )
    logs = np.array(logs) - np.log(25)
    close(fit.log_evidence, scipy.special.logsumexp(logs), rtol=1e-10)
    close(fit.parameters["weight"], scipy.special.softmax(logs), rtol=1e-8)
    close(fit.parameters["early"], [(2 + DISASTERS[:c].sum()) / (1 + c) for c in range(1, 26)], rtol=1e-8)


# --- what is refused -------------------------------------------------------------------------------------------------


def test_what_cannot_be_enumerated_is_refused_with_the_number():
    def many(n):
        switches = numpyro.sample("switches", dist.Bernoulli(0.5).expand([21]).to_event(1))
        with numpyro.plate("rows", n):
            numpyro.sample("x", dist.Normal(switches.sum(), 1.0))

    with pytest.raises(bg.ModelError, match=r"'switches'.*2,097,152 joint values, and up to 1,000,000"):
        GenerativeProgram(many, label=None)


def test_what_has_no_mean_or_no_answer_is_refused_with_the_remedy():
    program = GenerativeProgram(number_game, label=None)
    fit = exact(program, {"number": np.array([15])})
    with pytest.raises(bg.PredictionError, match=r"'concept', which have no mean. Use PlugIn\(at='mode'\)"):
        bg.predict(fit, NUMBERS, rule=bg.PlugIn())
    with pytest.raises(bg.FitError, match=r"NUTS has nothing to sample.*Exact\(\)"):
        bg.fit(program, {"number": np.array([15])}, method=bg.NUTS())
    with pytest.raises(bg.FitError, match=r"does not enumerate.*'kind'"):
        bg.fit(PROGRAM, {"count": COUNTS}, LABELS, method=bg.MAP(objective="conditional"))
    small = GenerativeProgram(counted_without_rest, label=None)
    with pytest.raises(bg.FitError, match="every value of 'side'"):
        exact(small, {"number": np.array([0, 3])})


def counted_without_rest(n):
    side = numpyro.sample("side", dist.Bernoulli(0.5))
    with numpyro.plate("rows", n):
        numpyro.sample("number", dist.Categorical(jnp.array([[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.5, 0.5]])[side]))


def test_the_table_of_closed_forms_names_what_is_enumerated():
    program = GenerativeProgram(number_game, label=None)
    line = {"latent": "concept", "attribute": "number", "family": "finite", "reason": ""}
    assert program.closed_form.to_dict("records") == [line]
    families = PROGRAM.closed_form.set_index("latent")["family"].to_dict()
    assert families == {"": "FixedCategorical", "kind": "finite", "doubled": "finite"}


def pooled_or_not(n):
    concentration = numpyro.sample("concentration", dist.LogNormal(0.0, 1.0))
    table = numpyro.sample("table", dist.Dirichlet(concentration * jnp.ones(3)).expand([2]).to_event(1))
    differs = numpyro.sample("differs", dist.Bernoulli(0.5))
    with numpyro.plate("rows", n):
        y = numpyro.sample("y", dist.Bernoulli(0.5))
        numpyro.sample("x", dist.Categorical(jnp.where(differs == 1, table[y], table[0])))


def test_a_learned_prior_has_the_weights_of_discrete_latents_given_it():
    x, y = np.array([0, 2, 2, 1, 0, 2]), np.array([0, 1, 1, 0, 0, 1])
    program = GenerativeProgram(pooled_or_not, classes=2)
    fit = bg.fit(program, {"x": x}, y, method=bg.MAP(integrate_out=True))
    concentration = fit.parameters["concentration"]
    assert concentration.shape == (2,)
    assert np.ptp(concentration) == 0
    a = concentration[0]

    def log_evidence(codes):
        counts = np.bincount(codes, minlength=3)
        by_value = scipy.special.gammaln(a + counts) - scipy.special.gammaln(a)
        return by_value.sum() + scipy.special.gammaln(3 * a) - scipy.special.gammaln(3 * a + len(codes))

    logs = np.array([log_evidence(x), log_evidence(x[y == 0]) + log_evidence(x[y == 1])])
    close(fit.parameters["weight"], scipy.special.softmax(logs))
    assert fit.log_evidence is None
