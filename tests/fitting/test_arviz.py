"""Fits at home in ArviZ and NumPyro: groups, log-likelihoods, generated rows, summaries and diagnoses."""

import functools
import warnings

import arviz_stats
import jax
import matplotlib
import numpy as np
import numpyro.infer
import pandas as pd
import pytest
import scipy.stats
from models.cases import CASES
from numpyro import handlers

import bayesgen as bg
from bayesgen.data import read_table
from bayesgen.posteriors import Draws

from .programs import chained

ROWS, PROGRAM = 24, bg.GenerativeProgram(chained, classes=["no", "yes"])
CLOSED = [name for name in CASES if not name.startswith(("low rank", "grammar"))]


def close(one, other, **options):
    np.testing.assert_allclose(one, other, **{"rtol": 1e-9, "atol": 1e-9, **options})


@pytest.fixture(scope="module")
def rows():
    """Rows of the program with names of their own, and labels."""
    rng, codes = np.random.default_rng(3), np.arange(ROWS) % 5 // 3
    x = rng.normal(3.0 * codes - 1.5, 1.3)
    X = pd.DataFrame({"x": x, "z": rng.normal(0.8 * x, 0.7)}, index=[f"r{i}" for i in range(ROWS)])
    return X, np.array(["no", "yes"])[codes]


@pytest.fixture(scope="module")
def sampled(rows):
    """A program of one's own with chains, made by hand."""
    rng, shape = np.random.default_rng(1), (4, 100)
    draws = {"p": rng.beta(10, 14, shape), "mean": rng.normal([-1.5, 1.5], 0.3, (*shape, 2))}
    draws["slope"] = rng.normal(0.8, 0.2, shape)
    stats = {"num_steps": rng.integers(1, 8, shape), "accept_prob": rng.random(shape), "energy": rng.normal(size=shape)}
    stats |= {"diverging": np.zeros(shape, bool), "potential_energy": rng.normal(size=shape)}
    posterior = Draws(PROGRAM, draws, draws, stats)
    schema = PROGRAM.infer_schema(read_table(rows[0]), rows[1], bg.Schema())
    attributes = {"total_weight": float(ROWS), "path": "by hand", "chain_method": "vectorized"}
    return bg.Fit(
        model=PROGRAM, schema=schema, method=bg.NUTS(), posterior=posterior, concrete=PROGRAM, attributes=attributes
    )


@pytest.fixture(scope="module")
def tree(sampled, rows):
    """All groups of the program."""
    return sampled.to_datatree(*rows, prior=True, predictive=True, num_draws=500, dims={"mean": ["kind"]})


@pytest.fixture(scope="module")
def density():
    """A model without classes, its rows, one of them far off, and its exact fit."""
    X = np.random.default_rng(0).normal(size=(20, 2))
    X[0] = 4.0
    model = bg.NaiveBayes(class_prior=None)
    return model, X, bg.fit(model, X, method=bg.Exact())


def test_log_likelihoods_are_those_of_numpyro(sampled, rows):
    X, y = rows
    codes = (y == "yes").astype(int)

    def of_numpyro(codes):
        data = {"x": X["x"].to_numpy(), "z": X["z"].to_numpy(), "y": codes}
        with jax.enable_x64(True):
            tables = numpyro.infer.log_likelihood(handlers.condition(PROGRAM, data), samples, ROWS)
        return {name: np.asarray(table) for name, table in tables.items()}

    samples = sampled.samples()
    found, expected = sampled.log_likelihood(X, y), of_numpyro(codes)
    assert list(found)[-1] == "log_likelihood"
    for name, table in expected.items():
        close(found[name], table)
    total = [sum(of_numpyro(np.full(ROWS, label)).values()) for label in (0, 1)]
    joint = sum(expected.values())
    close(found["log_likelihood"], joint)
    close(found["y_given_x"], joint - np.logaddexp(*total))
    assert list(sampled.log_likelihood(X)) == ["log_likelihood"]
    close(sampled.log_likelihood(X)["log_likelihood"], np.logaddexp(*total))


def test_samples_and_generated_rows_are_those_of_numpyro(sampled, rows):
    by_chain, samples = sampled.samples(group_by_chain=True), sampled.samples()
    shapes = {name: value.shape for name, value in by_chain.items()}
    assert shapes == {"mean": (4, 100, 2), "p": (4, 100), "slope": (4, 100)}
    for name, value in samples.items():
        close(value, by_chain[name].reshape(-1, *value.shape[1:]))
        close(value, sampled.parameters[name].reshape(value.shape))
    with jax.enable_x64(True):
        made = numpyro.infer.Predictive(PROGRAM, samples)(jax.random.key(0), ROWS)
        theirs = {name: np.asarray(value) for name, value in made.items()}
    ours = sampled.predictive(1000, seed=2)
    assert {name: value.shape for name, value in ours.items()} == dict.fromkeys("xzy", (1000, ROWS))
    for name, value in ours.items():
        means = [of_draws.mean(1) for of_draws in (value, theirs[name])]
        error = np.hypot(*(of_draw.std() / len(of_draw) ** 0.5 for of_draw in means))
        assert abs(means[0].mean() - means[1].mean()) < 4 * error
        close(np.std(value), np.std(theirs[name]), rtol=0.1)
    assert {name: value.shape[0] for name, value in sampled.draws(500, seed=1).items()} == dict.fromkeys(samples, 500)
    few = sampled.draws(90, seed=1)["slope"]
    assert len(np.unique(few)) == 90 and np.isin(few, samples["slope"]).all()


def test_groups_have_the_names_of_rows_columns_and_classes(tree, sampled, rows):
    X, y = rows
    assert set(tree.children) == {
        "posterior", "sample_stats", "log_prior", "observed_data", "log_likelihood", "posterior_predictive", "prior",
        "prior_predictive",
    }  # fmt: skip
    assert tree["posterior"]["mean"].dims == ("chain", "draw", "kind")
    assert tree["observed_data"].coords["row"].values.tolist() == X.index.tolist()
    np.testing.assert_array_equal(tree["observed_data"]["y"], y == "yes")
    likelihood = tree["log_likelihood"]
    assert list(likelihood.data_vars) == ["log_likelihood"] and likelihood["x"].dims == ("chain", "draw", "row")
    of_sites = sampled.log_likelihood(X, y)
    close(likelihood["y_given_x"].values.reshape(-1, ROWS), of_sites["y_given_x"])
    assert tree["posterior_predictive"]["x"].dims == ("chain", "draw", "row") and tree["prior"].sizes["draw"] == 500
    assert {"n_steps", "tree_depth", "lp", "energy", "acceptance_rate"} <= set(tree["sample_stats"].data_vars)
    assert tree["posterior"].attrs["path"] == sampled.attributes["path"]
    assert {"model", "method", "precision", "chain_method", "numpyro_version"} <= set(tree["posterior"].attrs)
    expected = scipy.stats.beta(2, 2).logpdf(tree["posterior"]["p"])
    close(tree["log_prior"]["p"], expected, rtol=1e-6)
    close(tree["prior"]["mean"].std(), 3, rtol=0.1)


@pytest.mark.parametrize(
    ("dims", "coords", "said"),
    [
        ({"means": ["kind"]}, {}, "there is no 'means' .* but .*'mean'"),
        ({"mean": "kind"}, {}, r"'mean' has 'kind': write \['kind'\]"),
        ({"mean": ["kind", "more"]}, {}, r"'mean' has the shape \(2,\), and 2 names: \['kind', 'more'\]"),
        ({"mean": ["kind"]}, {"kind": ["one"]}, "'kind' has 1 names, and the axis 2 entries"),
        ({"mean": ["kind"]}, {"kind": "ab"}, r"write \['ab'\]"),
        ({"mean": ["kind"]}, {"kinds": ["one", "two"]}, "no axis 'kinds', but .*'kind'"),
        ({"mean": ["mean"]}, {}, "'mean' of an axis of 'mean' is taken"),
    ],
)
def test_names_of_axes_that_do_not_fit_are_refused(sampled, dims, coords, said):
    for ask in (sampled.summary, sampled.to_datatree):
        with pytest.raises(bg.DataError, match=said):
            ask(dims=dims, coords=coords)


def test_axes_of_parameters_may_be_called_like_columns_of_rows(sampled, rows):
    names = {"dims": {"mean": ["x"]}, "coords": {"x": ["low", "high"]}}
    frame = sampled.summary(**names)
    assert frame.loc[frame["parameter"] == "mean", "x"].tolist() == ["low", "high"]
    tree = sampled.to_datatree(*rows, **names)
    assert tree["posterior"].coords["x"].values.tolist() == ["low", "high"] and tree["observed_data"]["x"].dims == (
        "row",
    )


def test_summaries_name_the_categories_of_columns_that_share_a_block():
    X = pd.DataFrame({"a": list("xyzx"), "b": list("uvwv")})
    fit = bg.fit(bg.NaiveBayes(), X, list("ttss"), method=bg.MAP())
    frame = fit.summary()
    assert [of_column["category"].tolist() for _, of_column in frame.groupby("column")][1:] == [
        list("xyz") * 2,
        list("uvw") * 2,
    ]
    assert fit.to_datatree()["point_estimate"].coords["category"].values.tolist() == [0, 1, 2]


def test_arviz_computes_with_all_of_them(tree, sampled):
    assert "mean[0]" in arviz_stats.summary(tree).index
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of pandas in some versions; the chains are no draws from this posterior
        total = arviz_stats.loo(tree, pointwise=True)
        label = arviz_stats.loo(tree, var_name="y_given_x")
        compared = arviz_stats.compare({"one": tree, "other": tree})
        sensitivity = arviz_stats.psense_summary(tree)
    close(total.elpd, float(total.elpd_i.sum()), rtol=1e-6)
    assert total.elpd < label.elpd < 0 and len(compared) == 2
    assert np.isfinite(sensitivity[["prior", "likelihood"]].astype(float)).all(axis=None)


def test_leaving_rows_out_by_arviz_agrees_with_exact_scores(density):
    _, X, fit = density
    exact = bg.leave_one_out(fit, X).log_scores
    with pytest.warns(UserWarning, match="greater than"):
        found = arviz_stats.loo(fit.to_datatree(X, num_draws=500, seed=1), pointwise=True)
    tails = found.pareto_k.values
    assert tails[0] == tails.max() > 0.7
    close(found.elpd_i.values[1:], exact[1:], atol=0.05)
    again = arviz_stats.reloo(bg.SamplingWrapper(fit, X), loo_orig=found, k_threshold=tails[0] - 1e-9)
    close(again.elpd_i.values[0], exact[0], atol=0.5)
    assert abs(found.elpd_i.values[0] - exact[0]) > abs(again.elpd_i.values[0] - exact[0])


@pytest.mark.parametrize("name", CLOSED)
def test_intervals_of_exact_fits_hold_their_share_of_draws(name):
    case = CASES[name]
    fit = case.exact
    table, draws = fit.summary(prob=0.8), fit.draws(2000, seed=1)
    assert len(table) == sum(np.size(value) for value in fit.parameters.values())
    for parameter, part in table.groupby("parameter", sort=False):
        of_draws = draws[parameter].reshape(2000, -1).astype(float)
        moves = of_draws.std(0) > 0
        for end, share in (("lower", 0.1), ("upper", 0.9)):
            below = (of_draws <= part[end].to_numpy() + 1e-12).mean(0)
            assert (np.abs(below - share)[moves & (part["sd"] > 0)] < 0.05).all() or "dependence" in parameter, (
                parameter
            )
    assert table["column"].isin([*fit.schema.columns, "", "y"]).all()


def test_diagnoses_are_those_of_arviz(sampled, tree):
    found = sampled.diagnose()
    computed = {
        "r_hat": arviz_stats.rhat(tree),
        "ess_bulk": arviz_stats.ess(tree),
        "ess_tail": arviz_stats.ess(tree, method="tail", prob=0.05),
        "mcse_mean": arviz_stats.mcse(tree),
    }
    assert len(found.table) == 4
    for column, theirs in computed.items():
        for name in ("p", "mean", "slope"):
            ours = found.table.loc[found.table["parameter"] == name, column]
            close(ours, np.ravel(theirs.get("posterior", theirs)[name].values), rtol=1e-6)
    energies = tree["sample_stats"]["energy"].values
    fractions = [np.square(np.diff(energy)).mean() / energy.var() for energy in energies]
    close(found.sampler["least E-BFMI"], min(fractions), atol=6e-4)
    assert found.verdict.startswith("No problem") == (not found.problems)
    assert found.verdict in " ".join(repr(found).split())


@pytest.fixture
def arviz_plots():
    """ArviZ's plots, without a screen."""
    matplotlib.use("Agg")
    import arviz_plots
    from matplotlib import pyplot

    yield arviz_plots
    pyplot.close("all")


PLOTS = {
    "plot_trace_dist": {},
    "plot_rank_dist": {},
    "plot_forest": {},
    "plot_energy": {},
    "plot_prior_posterior": {"var_names": ["p", "slope"]},
    "plot_ppc_dist": {"var_names": ["x"], "num_samples": 10},
    "plot_ppc_pit": {"var_names": ["x"]},
}
SLOW_PLOTS = "plot_trace_dist", "plot_rank_dist"


@pytest.mark.parametrize(
    "plot", [pytest.param(name, marks=pytest.mark.slow) if name in SLOW_PLOTS else name for name in PLOTS]
)
def test_arviz_plots_them(arviz_plots, tree, plot, tmp_path):
    tree = tree.map_over_datasets(lambda group: group.isel(draw=slice(40), missing_dims="ignore"))
    figure = getattr(arviz_plots, plot)(tree, backend="matplotlib", **PLOTS[plot])
    figure.savefig(tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 5000


def test_point_fits_have_groups_without_draws(density):
    model, X, _ = density
    fit = bg.fit(model, X, method=bg.MAP())
    tree = fit.to_datatree(X)
    assert set(tree.children) == {"point_estimate", "observed_data", "log_likelihood"}
    assert tree["log_likelihood"]["real"].dims == ("row",)
    close(tree["log_likelihood"]["real"], fit.log_joint(X)[:, 0])
    assert tree["observed_data"]["real"].dims == ("row", "feature")
    assert fit.predictive(5, seed=1)["real"].shape == (5, 20, 2)
    assert fit.summary().columns.tolist() == ["parameter", "column", "value"]


def test_what_a_fit_cannot_have_is_refused_with_the_reason(density, sampled):
    model, X, exact = density
    point = bg.fit(model, X, method=bg.MAP())
    with pytest.raises(bg.DataError, match=r"num_draws=250"):
        exact.to_datatree(250)
    for ask in (functools.partial(point.to_datatree, predictive=True), lambda: point.draws(3), point.samples):
        with pytest.raises(bg.BayesgenError, match="point estimate"):
            ask()
    with pytest.raises(bg.PredictionError, match=r"Only NUTS\(\) draws chains"):
        exact.diagnose()
    with pytest.raises(bg.PredictionError, match="prob must be between 0 and 1"):
        exact.summary(prob=90)
    batch = bg.fit_many(model, [(X, None), (X[1:], None)], method=bg.Exact())
    with pytest.raises(bg.PredictionError, match=r"batch\[0\]"):
        batch.to_datatree(X)
    for ask in (bg.average([exact, exact]).summary, functools.partial(bg.average([exact, exact]).draws, 3)):
        with pytest.raises(bg.PredictionError, match="no parameters in common"):
            ask()
    given = bg.fit(bg.LinearRegression(), X[:, :1], X[:, 1], method=bg.Exact())
    with pytest.raises(bg.DataError, match="y is missing"):
        given.log_likelihood(X[:, :1])
    with pytest.raises(bg.DataError, match="y_features"):
        given.predictive(3)
    with pytest.raises(bg.FitError, match="improper"):
        given.to_datatree(prior=True)
    assert given.predictive(3, X[:, :1])["y"].shape == (3, 20)
    assert list(given.to_datatree(X[:, :1], X[:, 1])["log_likelihood"].data_vars) == ["y"]


@pytest.mark.slow
def test_simulated_rows_are_like_the_data():
    case = CASES["naive Bayes"]
    made, (X, y) = case.exact.simulate(11, seed=3), case.data
    assert made.columns.tolist() == [*X, "y"] and set(made["y"]) <= set(y)
    answers = [bg.predict(case.exact, rows, rule=bg.BMA()).probabilities for rows in (made, made[[*X]])]
    close(*answers)
    assert {name: set(made[name]) <= set(X[name]) for name in ("tame", "food")} == {"tame": True, "food": True}
    again = bg.fit(case.model, made[[*X]], made["y"], method=bg.Exact(), schema=case.exact.schema)
    assert again.schema.columns == case.exact.schema.columns


def test_the_text_of_a_prior_says_what_comes_from_the_data():
    case = CASES["naive Bayes"]
    lines = repr(case.exact.prior).splitlines()
    (real,) = [line for line in lines if line.strip().startswith("real:")]
    assert "from the data: mean (means of" in real and "from the data" not in lines[1]
    stated = bg.NaiveBayes(bg.NormalInverseGamma(0.0, 0.01, 1.5, 1.0))
    assert "from the data" not in repr(bg.fit(stated, [[1.0], [2.0]], ["a", "b"], method=bg.Exact()).prior)
