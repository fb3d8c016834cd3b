"""The rules of prediction, their Monte Carlo errors and their refusals."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import scipy.special
from models.cases import CASES, take
from scipy import stats

import bayesgen as bg
from bayesgen.fitting import fit_of_draws, prepare
from bayesgen.posteriors import Draws
from bayesgen.prediction import ClassPrediction
from bayesgen.prediction.answers import normalize
from bayesgen.prediction.averages import pareto_k
from bayesgen.program import joint, reduce_draws, reductions
from prediction.draws import drawn

close = np.testing.assert_allclose
CASE = CASES["naive Bayes, integer labels"]
SEEDS = 50


@pytest.fixture(scope="module")
def exact():
    return CASE.exact


@pytest.fixture(scope="module")
def chains():
    return drawn(CASE.exact, seed=2)


def assert_calibrated(estimates, errors, expected=None):
    """Reported errors are the spread of the estimates over seeds: (seeds, n, K) both."""
    estimates, errors = estimates[..., 1:], errors[..., 1:]  # the others follow
    spread = estimates.std(0, ddof=1)
    ratio = np.sqrt((errors**2).mean(0)) / spread
    assert 0.85 < np.median(ratio) < 1.18
    assert ratio.min() > 0.6
    assert ratio.max() < 1.6
    if expected is not None:
        z = (estimates - expected[:, 1:]) / errors
        assert np.abs(z.mean(0)).max() < 4 / np.sqrt(len(z)) * 1.3
        assert (np.abs(z) < 4).mean() > 0.99


def test_errors_of_conditional_averages_are_calibrated(exact):
    answers = [bg.predict(exact, CASE.new, rule=bg.ConditionalAverage(1000, seed=s)) for s in range(SEEDS)]
    estimates = np.stack([answer.probabilities for answer in answers])
    assert_calibrated(estimates, np.stack([answer.standard_error for answer in answers]))


def some_chains(draws, which):
    groups = (draws.latents, draws.values, draws.sample_stats)
    return Draws(draws.program, *({name: values[which] for name, values in group.items()} for group in groups))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::bayesgen.ConvergenceWarning")
def test_errors_of_averages_over_chains_are_calibrated(exact):
    """Independent chains are run all at once, and taken as the fits of four chains each that they are."""
    whole = bg.fit(CASE.model, *CASE.data, method=bg.NUTS(num_samples=500, num_chains=4 * SEEDS)).posterior
    fits = [dataclasses.replace(exact, posterior=some_chains(whole, slice(4 * s, 4 * s + 4))) for s in range(SEEDS)]
    answers = [bg.predict(fit, CASE.new, rule=bg.BMA()) for fit in fits]
    estimates = np.stack([answer.probabilities for answer in answers])
    expected = bg.predict(exact, CASE.new, rule=bg.BMA()).probabilities
    assert_calibrated(estimates, np.stack([answer.standard_error for answer in answers]), expected)


def test_the_three_rules_differ_and_agree_with_their_definitions(chains):
    table = chains.log_joint(CASE.new, at="draws")
    assert table.shape == (1000, len(CASE.new["age"]), 2)
    averaged = scipy.special.logsumexp(table, axis=0) - np.log(len(table))
    bma, conditional = (bg.predict(chains, CASE.new, rule=rule) for rule in (bg.BMA(), bg.ConditionalAverage()))
    close(bma.log_marginal, scipy.special.logsumexp(averaged, axis=1), rtol=1e-10)
    close(bma.probabilities, scipy.special.softmax(averaged, axis=1), rtol=1e-9)
    close(conditional.probabilities, scipy.special.softmax(table, axis=2).mean(0), rtol=1e-9)
    plug_in = bg.predict(chains, CASE.new, rule=bg.PlugIn())
    assert np.abs(plug_in.probabilities - bma.probabilities).max() > 1e-3
    assert np.abs(conditional.probabilities - bma.probabilities).max() > 1e-3
    assert plug_in.standard_error is None


def three_places(n, *, offset):
    """The third class is this far from the others, in which it never is."""
    mean = numpyro.sample("mean", dist.Normal(0, 1).expand([3]).to_event(1))
    with numpyro.plate("rows", n):
        y = numpyro.sample("y", dist.Categorical(probs=jnp.array([0.5, 0.5, 0.0])))
        numpyro.sample("x", dist.Normal(jnp.where(y == 2, offset, 0.0) / 16 + 0.01 * mean[y], 1.0))


THREE_PLACES = bg.GenerativeProgram(three_places, classes=3)


@pytest.mark.filterwarnings("ignore::bayesgen.ConvergenceWarning")  # short chains will do
@pytest.mark.parametrize("offset", [0.0, 600.0, 800.0])
def test_a_class_that_no_draw_makes_possible_takes_nothing_of_the_entropy(offset):
    x = np.array([0.3, -0.8, 1.1, 0.2])
    problem = prepare(THREE_PLACES, {"x": x, "offset": np.full(4, offset)}, np.array([0, 1, 0, 1]))
    latents = {"mean": np.random.default_rng(1).normal(size=(2, 100, 3))}  # of which the data say next to nothing
    fit = problem.result(bg.NUTS(), Draws(problem.program, latents, latents, {}))
    answer = bg.predict(fit, {"x": np.array([0.0, offset / 16]), "offset": np.full(2, offset)}, rule=bg.BMA())
    assert (answer.probabilities[:, 2] == 0).all()
    close(answer.expected_entropy, np.log(2), atol=0.2)
    assert (answer.mutual_information >= 0).all()


def test_an_average_without_entropies_is_the_same_in_single_precision(chains):
    whole, quick = (bg.predict(chains, CASE.new, rule=bg.BMA(entropy_draws=draws)) for draws in (None, 0))
    close(quick.probabilities, whole.probabilities, rtol=1e-5)
    close(quick.log_marginal, whole.log_marginal, rtol=0, atol=1e-5)
    close(quick.standard_error, whole.standard_error, rtol=1e-3)
    assert quick.expected_entropy is None
    assert quick.mutual_information is None
    assert whole.mutual_information is not None
    some = bg.predict(chains, CASE.new, rule=bg.BMA(entropy_draws=1))  # of draws, all are taken or none
    close(some.mutual_information, whole.mutual_information, rtol=1e-12)


@pytest.mark.filterwarnings("ignore::bayesgen.ConvergenceWarning")
@pytest.mark.parametrize("covariance", ["full", pytest.param("diag", marks=pytest.mark.slow)])
def test_single_precision_is_enough_whatever_the_columns_are(covariance):
    """Columns that nearly agree, far from zero, in units that differ: what costs quadratic forms their digits."""
    rng, y = np.random.default_rng(3), np.arange(90) % 2
    first = rng.normal(size=90) + y
    X = np.stack([1e9 + 1e3 * first, 1e-4 * (first + 1e-4 * rng.normal(size=90)), rng.normal(size=90) - 7e4], axis=1)
    fit = drawn(bg.fit(bg.GaussianDiscriminant(covariance), X, y, method=bg.Exact()))
    rows = np.concatenate([X, X.mean(0) + 30 * (X[:5] - X.mean(0))])
    table = fit.log_joint(rows, at="draws")
    averaged = scipy.special.logsumexp(table, axis=0)
    found = bg.predict(fit, rows, rule=bg.BMA(entropy_draws=0))
    log_marginal = scipy.special.logsumexp(averaged, axis=1) - np.log(len(table))
    probabilities = scipy.special.softmax(averaged, axis=1)
    for rows, tolerance in ((slice(90), 1e-5), (slice(90, None), 1e-3)):  # few draws carry the averages of the latter
        close(found.log_marginal[rows], log_marginal[rows], rtol=0, atol=tolerance)
        close(found.probabilities[rows], probabilities[rows], rtol=0, atol=tolerance)


@pytest.mark.filterwarnings("ignore::bayesgen.ConvergenceWarning")  # few draws carry averages far away
def test_rows_far_from_everything_are_averaged_in_double_precision():
    """Distances from where single precision does well to where it knows no such numbers; counts beside them."""
    rng, y = np.random.default_rng(3), np.arange(60) % 2
    columns = {f"x{j}": rng.normal(y, 1.0) for j in range(3)} | {"count": rng.poisson(3.0, 60)}
    model = bg.NaiveBayes({"count": bg.GammaPoisson()})
    fit = drawn(bg.fit(model, columns, y, method=bg.Exact()))
    distances = np.asarray([0.0, 3.0, 10.0, 20.0, 30.0, 50.0, 100.0, 1e3, 1e4, 1e6, 1e25, 1e100])
    directions = rng.normal(size=(8, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    far = dict(zip(columns, (distances[:, None, None] * directions).reshape(-1, 3).T, strict=False))
    far["count"] = np.resize([0, 4, 10**6], 96)
    whole, quick = (bg.predict(fit, far, rule=bg.BMA(entropy_draws=draws)) for draws in (None, 0))
    for name in ("log_probabilities", "log_marginal"):
        close(getattr(quick, name), getattr(whole, name), rtol=1e-12, atol=1e-4)
    close(quick.probabilities, whole.probabilities, atol=2e-5)


def test_the_mutual_information_weighs_draws_by_the_row(chains):
    table = chains.log_joint(CASE.new, at="draws")
    marginal = scipy.special.logsumexp(table, axis=2)
    entropies = scipy.special.entr(scipy.special.softmax(table, axis=2)).sum(2)
    expected = (scipy.special.softmax(marginal, axis=0) * entropies).sum(0)
    answer = bg.predict(chains, CASE.new, rule=bg.BMA())
    close(answer.expected_entropy, expected, rtol=1e-9)
    assert np.abs(expected - entropies.mean(0)).max() > 1e-3


@pytest.mark.filterwarnings("ignore:.*few draws decide")  # of an outlier
@pytest.mark.parametrize("rule", [bg.BMA(), bg.ConditionalAverage()])
def test_entropy_splits_into_two_parts_that_are_not_negative(chains, rule):
    for X in (CASE.new, CASE.data[0]):
        answer = bg.predict(chains, X, rule=rule)
        close(answer.entropy, answer.expected_entropy + answer.mutual_information, rtol=1e-12)
        assert (answer.mutual_information >= 0).all()
        assert (answer.expected_entropy >= 0).all()
        assert answer.mutual_information.max() > 1e-3
        assert (answer.entropy <= np.log(2) + 1e-12).all()


def test_the_exact_fit_splits_entropy_by_draws(exact, chains):
    plain = bg.predict(exact, CASE.new, rule=bg.BMA())
    assert plain.standard_error is None
    assert plain.mutual_information is None
    split = bg.predict(exact, CASE.new, rule=bg.BMA(entropy_draws=1000))
    np.testing.assert_array_equal(split.probabilities, plain.probabilities)
    found = bg.predict(chains, CASE.new, rule=bg.BMA()).mutual_information
    close(split.mutual_information, found, atol=0.02)


def test_the_plug_in_at_the_mode_is_map(exact):
    point = bg.fit(CASE.model, *CASE.data, method=bg.MAP())
    expected = bg.predict(exact, CASE.new, rule=bg.PlugIn(at="mode")).log_probabilities
    for at in ("mean", "mode"):
        close(bg.predict(point, CASE.new, rule=bg.PlugIn(at=at)).log_probabilities, expected, rtol=1e-12)
    assert bg.predict(point, CASE.new, rule=bg.PlugIn()).mutual_information is None


@pytest.mark.filterwarnings("ignore:.*few draws decide")  # of an outlier
def test_rows_and_draws_in_chunks_are_the_whole(chains, monkeypatch):
    rows = CASE.data[0]
    rules = {"bma": bg.BMA(), "conditional": bg.ConditionalAverage(), "plug-in": bg.PlugIn()}
    whole = {name: bg.predict(chains, rows, rule=rule) for name, rule in rules.items()}
    monkeypatch.setattr(reductions, "BUDGET_BYTES", 1.0)
    monkeypatch.setattr(reductions, "CACHE_BYTES", 1.0)
    for module in (joint, reductions):
        monkeypatch.setattr(module, "TABLE_CHUNK_ROWS", 64)
    for name, rule in rules.items():
        part = bg.predict(chains, rows, rule=rule)
        for field in ("log_probabilities", "log_marginal", "standard_error", "expected_entropy"):
            one, two = getattr(part, field), getattr(whole[name], field)
            assert (one is None) == (two is None)
            if one is not None:
                close(one, two, rtol=1e-9, atol=1e-12, err_msg=f"{name}: {field}")


@pytest.mark.filterwarnings("ignore:.*few draws decide")  # of 201 draws
def test_all_that_an_answer_tells_is_of_the_same_batches_of_draws(exact):
    """None of which is of two chains: where each chain stands still, batches have no spread."""
    fit = drawn(exact, 3, 67)
    latents = {name: np.repeat(value[:, :1], 67, axis=1) for name, value in fit.posterior.latents.items()}
    still = dataclasses.replace(fit, posterior=dataclasses.replace(fit.posterior, latents=latents))
    rows = take(CASE.new, slice(3))
    spread = reductions.Reduction(_spread, _largest, "float64")
    assert still.reduce_draws(rows, spread)[0].max() == 0 < fit.reduce_draws(rows, spread)[0].min()

    answer, (tables, used) = bg.predict(fit, rows, rule=bg.BMA(0)), fit.reduce_draws(rows, reductions.ALL_DRAWS)
    logs = np.moveaxis(tables["log_joint"], 1, 0)
    whole = fit.log_joint(rows, at="draws")
    close(logs, whole.reshape(3, 67, 3, 2)[:, 1:].reshape(198, 3, 2), rtol=1e-9)
    assert used == 198
    close(answer.log_marginal, scipy.special.logsumexp(logs, axis=(0, 2)) - np.log(used), rtol=1e-5)
    uneven = answer.pareto_k > 0
    close(answer.pareto_k[uneven], pareto_k(logs)[uneven], rtol=1e-9)


def test_draws_of_a_closed_posterior_follow_the_seed(exact):
    rows = take(CASE.new, slice(3))
    tables = [exact.log_joint(rows, at="draws", seed=seed) for seed in (1, 1, 2)]
    assert (tables[0] == tables[1]).all() and (tables[0] != tables[2]).any()


def _spread(anchor, deviations):
    return jnp.ptp(deviations, axis=1).max(0)


def _largest(batches):
    return batches.max(0)


def test_a_table_of_any_number_of_draws_is_made_in_few_batches(exact, monkeypatch):
    fit, made = drawn(exact, 1, 997), []
    monkeypatch.setattr(reductions, "reduce_draws", lambda *args: made.append(args[1]) or reduce_draws(*args))
    rows = take(CASE.new, slice(2))
    table = fit.log_joint(rows, at="draws")
    assert next(iter(made[0].values())).shape[:2] == (10, 100) and table.shape == (997, 2, 2)
    last = {name: value[0, -1] for name, value in fit.posterior.latents.items()}
    close(table[-1], joint.program_table(fit.program, last, fit.read(rows)), rtol=1e-9)


@pytest.mark.parametrize("at", ["mean", "predictive"])
def test_closed_forms_in_chunks_are_the_whole(exact, at):
    rows = {name: np.resize(values, 40_009) + np.arange(40_009) / 1e4 for name, values in CASE.data[0].items()}
    parts = [{name: values[i : i + 997] for name, values in rows.items()} for i in range(0, 40_009, 997)]
    close(exact.log_joint(rows, at=at), np.concatenate([exact.log_joint(part, at=at) for part in parts]), rtol=1e-11)


def test_impossible_rows_are_nan_and_counted():
    X = np.asarray([[0, 0], [0, 1], [1, 0], [1, 1], [1, 0]], bool)
    model, y = bg.NaiveBayes(), ["no", "no", "yes", "yes", "yes"]
    X[:, 1] = False
    fit = bg.fit(model, X, y, method=bg.MLE())
    rows = np.asarray([[0, 1], [0, 0], [1, 1], [1, 0]], bool)
    with pytest.warns(bg.ImpossibleRowsWarning, match="^2 of 4 rows.*BMA") as caught:
        answer = bg.predict(fit, rows, rule=bg.PlugIn())
    assert len(caught) == 1
    np.testing.assert_array_equal(answer.probabilities[1::2], [[1.0, 0.0], [0.0, 1.0]])
    assert np.isnan(answer.probabilities[::2]).all()
    assert answer.labels.tolist()[1::2] == ["no", "yes"]
    exact = bg.fit(model, X, y, method=bg.Exact())
    for rule in (bg.BMA(), bg.PlugIn(at="mean")):
        assert np.isfinite(bg.predict(exact, rows, rule=rule).probabilities).all()


NEVER, LABELS = np.zeros((4, 1), bool), [0, 0, 1, 1]
ONCE = np.asarray([[False], [True], [False], [False]])


@pytest.mark.parametrize(
    "method, at, remedy",
    [
        (bg.MLE(), "mean", r"Fit with Exact\(\)"),
        (bg.Exact(), "mode", r"Average instead \(BMA\), plug in the posterior mean"),
    ],
)
def test_the_remedy_for_impossible_rows_is_another_process(method, at, remedy):
    fit = bg.fit(bg.NaiveBayes(bg.BetaBernoulli(1.0, 2.0)), NEVER, LABELS, method=method)
    with pytest.warns(bg.ImpossibleRowsWarning, match=f"^1 of 4 .*NaN. {remedy}"):
        bg.predict(fit, ONCE, rule=bg.PlugIn(at=at))


@pytest.mark.parametrize("rule", [bg.BMA(), bg.BMA(entropy_draws=0), bg.ConditionalAverage()], ids=repr)
def test_averages_are_not_told_to_average(rule):
    point = bg.fit(bg.NaiveBayes(), NEVER, LABELS, method=bg.MLE())
    chains = {name: np.broadcast_to(value, (2, 20, *value.shape)) for name, value in point.parameters.items()}
    fit = dataclasses.replace(point, posterior=Draws(point.program, chains, chains, {}))
    with pytest.warns(bg.ImpossibleRowsWarning, match=r"^1 of 4 .*NaN\. No process of the posterior") as caught:
        answer = bg.predict(fit, ONCE, rule=rule)
    assert "BMA" not in str(caught[0].message)
    assert np.isnan(answer.probabilities).any(1).tolist() == [False, True, False, False]


def test_draws_have_no_mode(chains):
    with pytest.raises(bg.PredictionError, match=r"mode.*MAP\(\)"):
        bg.predict(chains, CASE.new, rule=bg.PlugIn(at="mode"))


@pytest.mark.parametrize("rule", [bg.BMA(), bg.ConditionalAverage()])
@pytest.mark.parametrize("method", [bg.MLE(), bg.MAP()])
def test_a_point_has_no_average(method, rule):
    fit = bg.fit(CASE.model, *CASE.data, method=method)
    with pytest.raises(bg.PredictionError, match=r"point estimate.*NUTS\(\), or with Exact\(\)"):
        bg.predict(fit, CASE.new, rule=rule)


def test_rules_are_objects_with_arguments_in_range(exact):
    with pytest.raises(bg.PredictionError, match="'median'"):
        bg.PlugIn(at="median")
    with pytest.raises(bg.PredictionError, match="'bma'"):
        bg.predict(exact, CASE.new, rule="bma")


@pytest.mark.parametrize("value", [-5, 2.5, "7", True, np.nan])
def test_numbers_of_draws_are_whole(value):
    with pytest.raises(bg.PredictionError, match=r"BMA: entropy_draws must be a whole number and at least 0"):
        bg.BMA(entropy_draws=value)
    with pytest.raises(
        bg.PredictionError, match=r"ConditionalAverage: num_draws must be a whole number and at least 1"
    ):
        bg.ConditionalAverage(num_draws=value)


@pytest.mark.parametrize("rule", [bg.BMA, bg.ConditionalAverage])
@pytest.mark.parametrize("value", [1.5, None, 2**63, "0", True, np.zeros(2)])
def test_seeds_are_integers_or_keys(rule, value):
    with pytest.raises(bg.DataError, match="seed must be an integer"):
        rule(seed=value)


def test_no_draws_are_no_average(exact):
    with pytest.raises(bg.PredictionError, match="at least 1, got 0"):
        bg.ConditionalAverage(num_draws=0)
    for seed in (np.int64(3), -1, 2**63 - 1, jax.random.key(3), jax.random.PRNGKey(3)):
        answer = bg.predict(exact, CASE.new, rule=bg.ConditionalAverage(np.int32(5), seed=seed))
        assert np.isfinite(answer.probabilities).all()
    assert bg.BMA(entropy_draws=np.int64(0)).entropy_draws == 0


def test_the_frame_has_the_labels_own_type(exact):
    answer = bg.predict(exact, CASE.new, rule=bg.BMA())
    frame = answer.to_frame()
    assert frame.columns.tolist() == ["label", 3, 7]
    assert frame["label"].tolist() == answer.labels.tolist()
    assert answer.labels.dtype.kind == "i"
    close(frame[7], answer.probabilities[:, 1])


def of_two_numbers(prior, attribute):
    def function(n):
        t = numpyro.sample("t", prior.expand([2]).to_event(1))
        with numpyro.plate("rows", n):
            numpyro.sample("x", attribute(t))

    return bg.GenerativeProgram(function, label=None)


def fit_by_draws(program, x, t, log_density):
    """The fit by draws made by hand, (draws, 2), of four chains."""
    problem = prepare(program, {"x": x}, None)
    sites = {"t": t.reshape(4, -1, 2)}
    stats = {"potential_energy": -log_density(t).reshape(4, -1)}
    return fit_of_draws(bg.NUTS(), problem, problem.program, sites, stats, {})


@pytest.mark.filterwarnings("ignore::bayesgen.ConvergenceWarning")  # chains by hand that know one mode each
def test_a_mean_of_draws_between_modes_is_warned_of_where_it_is_plugged_in():
    """The data know the product of two latents, whose signs both may change."""
    x, rng = np.array([4.1, 3.8, 4.0]), np.random.default_rng(0)
    t = np.repeat([1.0, -1.0], 200)[:, None] * rng.normal(2, 0.1, (400, 2))

    def log_density(t):
        return stats.norm(0, 2).logpdf(t).sum(1) + stats.norm(t.prod(1)[:, None], 0.5).logpdf(x).sum(1)

    fit = fit_by_draws(of_two_numbers(dist.Normal(0, 2), lambda t: dist.Normal(t.prod(), 0.5)), x, t, log_density)
    close(fit.attributes["fall_at_mean"], log_density(t).min() - log_density(t.mean(0)[None])[0], rtol=1e-9)
    with pytest.warns(bg.BayesgenWarning, match=r"mean of the draws .* several modes.*BMA") as caught:
        at_mean = bg.predict(fit, {"x": [4.0, 4.0]}, rule=bg.PlugIn())
    assert len(caught) == 1
    averaged = bg.predict(fit, {"x": [4.0, 4.0]}, rule=bg.BMA())  # without a warning
    assert (averaged.log_marginal > at_mean.log_marginal + 20).all()


@pytest.mark.filterwarnings("ignore::bayesgen.ConvergenceWarning")
@pytest.mark.parametrize("concentration", [0.2, 3.0])
def test_a_skewed_posterior_of_one_mode_is_plugged_in_without_a_warning(concentration):
    """Two rates of which the data know the first: independent gamma distributions, of logs that are skewed."""
    t = np.random.default_rng(1).gamma(concentration + np.array([2.0, 0.0]), 1 / np.array([7.0, 1.0]), (400, 2))

    def log_density(t):  # of the logs of the rates
        return (stats.gamma(concentration).logpdf(t) + np.log(t)).sum(1) + 2 * np.log(t[:, 0]) - 6 * t[:, 0]

    program = of_two_numbers(dist.Gamma(concentration, 1), lambda t: dist.Exponential(t[0]))
    fit = fit_by_draws(program, np.array([2.0, 4.0]), t, log_density)
    assert "fall_at_mean" not in fit.attributes
    bg.predict(fit, {"x": [1.0]}, rule=bg.PlugIn())


def test_tables_of_log_joints_are_normalised_whatever_their_range():
    table = np.random.default_rng(0).normal(size=(5000, 3)) * 10.0 ** np.arange(5000)[:, None].clip(0, 4)
    table[7] = -np.inf
    log_probabilities, log_marginal = normalize(table)
    with np.errstate(invalid="ignore"):
        expected = scipy.special.log_softmax(table, axis=1)
    np.testing.assert_allclose(log_probabilities, expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(log_marginal, scipy.special.logsumexp(table, axis=1), rtol=1e-12)
    answer = ClassPrediction(log_probabilities, np.arange(3), log_marginal)
    np.testing.assert_array_equal(answer.probabilities, np.exp(log_probabilities))
