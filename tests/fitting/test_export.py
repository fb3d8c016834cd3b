"""Export to ArviZ."""

import warnings

import arviz_stats
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from models.cases import CASES
from prediction.draws import IndependentDraws

import bayesgen as bg


@pytest.fixture(scope="module")
def exact():
    """The exact fit with columns of every kind."""
    return CASES["naive Bayes"].exact


def test_an_exact_fit_gives_independent_draws_with_named_axes(exact):
    tree = exact.to_datatree(num_draws=250, seed=1)
    posterior = tree["posterior"]
    assert set(tree.children) == {"posterior", "log_prior"}
    assert posterior.attrs["sampling"] == "independent"
    assert posterior.sizes["chain"] == 4
    assert posterior.sizes["draw"] == 250
    assert set(posterior.data_vars) == set(exact.parameters)
    assert posterior["real_mean"].dims == ("chain", "draw", "class", "real_feature")
    assert posterior["categorical_3_probs"].dims[-1].endswith("category")
    assert posterior.coords["class"].values.tolist() == ["ape", "bear"]
    assert posterior.coords["real_feature"].values.tolist() == ["height", "weight"]
    one = posterior["categorical_3_probs"].sel({"class": "bear"})
    assert one.coords[one.dims[-1]].values.tolist() == ["leaves", "meat", "roots"]
    for name, mean in exact.parameters.items():
        draws = posterior[name].values
        spread = draws.std((0, 1)) / np.sqrt(1000)
        np.testing.assert_array_less(np.abs(draws.mean((0, 1)) - mean), 5 * spread + 1e-12, err_msg=name)
    again, other = exact.to_datatree(num_draws=250, seed=1), exact.to_datatree(num_draws=250, seed=2)
    assert again["posterior"].equals(posterior)
    assert not other["posterior"].equals(posterior)


def named(found):
    """The variables of what ArviZ computes: in some versions in a group."""
    return found.get("posterior", found)


def test_arviz_reads_it(exact):
    tree = exact.to_datatree(num_draws=250, seed=1)
    summary = arviz_stats.summary(tree)
    assert "real_mean[ape, height]" in summary.index
    assert "class_probs[bear]" in summary.index
    sizes, rhats = (named(likelihood(tree)) for likelihood in (arviz_stats.ess, arviz_stats.rhat))
    for name in exact.parameters:
        assert (sizes[name].values > 600).all(), name  # of 1000 independent draws
        assert (rhats[name].values < 1.03).all(), name


@pytest.mark.parametrize("method", [bg.MLE(), bg.MAP()])
def test_a_point_fit_has_a_point_estimate(method):
    case = CASES["discriminant, full"]
    fit = bg.fit(case.model, *case.data, method=method)
    tree = fit.to_datatree()
    assert set(tree.children) == {"point_estimate"}
    point = tree["point_estimate"]
    assert point["real_covariance"].dims == ("class", "feature", "feature_2")
    for name, value in fit.parameters.items():
        np.testing.assert_array_equal(point[name].values, value)
    chosen = point["real_covariance"].sel({"class": "bear", "feature": "age", "feature_2": "height"})
    assert float(chosen) == fit.parameters["real_covariance"][1, 2, 0]
    assert fit.log_evidence is None


@pytest.mark.slow
def test_chains_come_with_their_statistics():
    case = CASES["naive Bayes, integer labels"]
    fit = bg.fit(case.model, *case.data, method=bg.NUTS(num_samples=500), seed=2)
    tree = fit.to_datatree()
    assert set(tree.children) == {"posterior", "sample_stats", "log_prior"}
    assert tree["posterior"].attrs["sampling"] == "chains"
    assert tree["posterior"].attrs["path"] == fit.attributes["path"]
    assert set(tree["posterior"].data_vars) == set(fit.parameters)
    assert tree["posterior"].coords["class"].values.tolist() == ["3", "7"]
    for name in ("n_steps", "acceptance_rate", "diverging", "energy", "lp", "step_size"):
        assert tree["sample_stats"][name].dims == ("chain", "draw")
    assert tree["sample_stats"]["diverging"].dtype == bool
    codes = np.searchsorted(fit.classes, case.data[1])
    rows = fit.log_joint(case.data[0], at="draws")[:, np.arange(len(case.data[1])), codes]
    assert np.corrcoef(tree["sample_stats"]["lp"].values.ravel(), rows.sum(1))[0, 1] > 0.3  # a log density, no energy
    assert "class_probs[3]" in arviz_stats.summary(tree).index
    assert fit.log_evidence is None
    assert bg.fit(case.model, *case.data, method=bg.Exact()).log_evidence < 0


def test_chains_shorter_than_they_are_many_are_exported_without_a_warning():
    case = CASES["naive Bayes, integer labels"]
    with pytest.warns(bg.ConvergenceWarning, match="num_samples=3 tells nothing"):
        fit = bg.fit(case.model, *case.data, method=IndependentDraws(num_samples=3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fit.to_datatree()["posterior"].sizes["draw"] == 3


def two_by_two(n):
    """Two classes and two columns, so that an axis of length two may be either."""
    probs = numpyro.sample("probs", dist.Dirichlet(jnp.ones(2)))
    column = numpyro.sample("column", dist.Normal(0, 3).expand([2]).to_event(1))
    shift = numpyro.sample("shift", dist.Normal(0, 3).expand([2]).to_event(1))
    both = numpyro.sample("both", dist.Normal(0, 3).expand([2, 2]).to_event(2))
    turned = numpyro.sample("turned", dist.Normal(0, 3).expand([2, 2]).to_event(2))
    slopes = numpyro.sample("slopes", dist.Normal(0, 1).expand([2]).to_event(1))
    numpyro.deterministic("twice", 2 * shift)
    numpyro.deterministic("sum", shift + shift[::-1])
    with numpyro.plate("rows", n):
        y = numpyro.sample("y", dist.Categorical(probs))
        mean = column + shift[y][:, None] + both[y] + turned[:, y].T
        x = numpyro.sample("x", dist.Normal(mean, 1.0).to_event(1))
        numpyro.sample("z", dist.StudentT(4.0, x @ slopes, 1.0))


@pytest.mark.slow
def test_an_axis_is_the_class_where_each_class_has_an_entry_of_its_own():
    rng = np.random.default_rng(0)
    X = {"x": rng.normal(size=(20, 2)), "z": rng.normal(size=20)}
    program = bg.GenerativeProgram(two_by_two, classes=["no", "yes"])
    point = bg.fit(program, X, ["no", "yes"] * 10, method=bg.MAP(num_starts=1)).to_datatree()["point_estimate"]
    assert {name: point[name].dims for name in point.data_vars} == {
        "probs": ("class",),
        "column": ("column_dim_0",),
        "shift": ("class",),
        "both": ("class", "both_dim_1"),
        "turned": ("turned_dim_0", "class"),
        "slopes": ("slopes_dim_0",),
        "twice": ("class",),
        "sum": ("sum_dim_0",),
    }
    assert point.coords["class"].values.tolist() == ["no", "yes"]
