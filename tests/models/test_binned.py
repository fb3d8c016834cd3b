"""Naive Bayes on binned columns: discretise, then naive Bayes, with densities of the numbers themselves."""

import math

import numpy as np
import pytest
from counting import compilations
from prediction.draws import drawn
from scipy.special import gammaln
from sklearn.naive_bayes import CategoricalNB
from sklearn.preprocessing import KBinsDiscretizer

import bayesgen as bg

ROWS = 67
close = np.testing.assert_allclose


def rows(seed=0, size=ROWS):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, size)
    return {"a": rng.normal(y, 1.0), "b": 1e6 + 10.0 ** rng.normal(0.3 * y, 1.0), "c": rng.gamma(1.0 + y, 1e-3)}, y


@pytest.fixture(scope="module")
def fit():
    X, y = rows()
    kinds = {"a": bg.Binned(5), "b": bg.Binned(edges=[1e6, 1e6 + 2, 1e6 + 30], tails=[1, 40]), "c": bg.Binned(5)}
    return bg.fit(bg.NaiveBayes(), X, y, method=bg.Exact(), schema=bg.Schema(kinds=kinds))


def log_dirichlet_multinomial(counts):
    """The log probability of codes in this order, by the chain of predictions."""
    seen, total = np.ones(len(counts)), 0.0
    for index, count in enumerate(counts):
        for _ in range(int(count)):
            total += math.log(seen[index] / seen.sum())
            seen[index] += 1
    return total


def log_heights(bins, values):
    """Log density of each value within its bin, which has the probability one."""
    heights = []
    for value, code in zip(values, bins.codes(values), strict=True):
        lower, upper = bins.edges[code], bins.edges[code + 1]
        flat = 0.0 if math.isinf(upper - lower) else upper - lower
        tail, beyond = 0.0, 0.0
        if code == 0:
            tail, beyond = bins.tails[0], max((upper if math.isinf(lower) else lower) - value, 0.0)
        elif code == bins.num_bins - 1:
            tail, beyond = bins.tails[1], max(value - (lower if math.isinf(upper) else upper), 0.0)
        heights.append(-math.log(flat + tail) - (beyond / tail if beyond else 0.0))
    return np.asarray(heights)


def test_the_evidence_is_that_of_the_codes_times_the_widths(fit):
    X, y = rows()
    expected = log_dirichlet_multinomial(np.bincount(y))
    for column, values in X.items():
        bins = fit.schema.bins(column)
        codes = bins.codes(values)
        of_codes = [log_dirichlet_multinomial(np.bincount(codes[y == k], minlength=bins.num_bins)) for k in range(3)]
        expected += sum(of_codes) + log_heights(bins, values).sum()
    close(fit.log_evidence, expected, rtol=1e-12)


def test_the_average_over_structures_is_the_mean_of_both_evidences_column_by_column(fit):
    X, y = rows()
    average = bg.fit(bg.NaiveBayes(structure="average"), X, y, method=bg.Exact(), schema=fit.schema)
    expected = log_dirichlet_multinomial(np.bincount(y))
    for column, values in X.items():
        bins = fit.schema.bins(column)
        codes, num_bins = bins.codes(values), bins.num_bins
        of_all = log_dirichlet_multinomial(np.bincount(codes, minlength=num_bins))
        of_each = sum(log_dirichlet_multinomial(np.bincount(codes[y == k], minlength=num_bins)) for k in range(3))
        expected += np.logaddexp(of_all, of_each) - math.log(2) + log_heights(bins, values).sum()
    close(average.log_evidence, expected, rtol=1e-12)


def test_many_rows_have_the_densities_that_few_have(fit):
    new, _ = rows(4, 20_011)
    new["a"][::5] = np.nan
    together = fit.log_joint(new, at="predictive")
    for part in (slice(0, 7), slice(8190, 8195), slice(20_000, 20_011)):
        few = fit.log_joint({name: values[part] for name, values in new.items()}, at="predictive")
        close(together[part], few, rtol=1e-13)


def test_the_density_of_a_row_is_the_ratio_of_two_evidences(fit):
    X, y = rows()
    new, label = {"a": [9.0], "b": [1e6 - 3.0], "c": [2e-3]}, [1]
    kinds = fit.schema.kinds.items()
    stated = {column: bg.DirichletHistogram(edges=kind.edges, tails=kind.tails) for column, kind in kinds}
    longer = {name: np.append(X[name], new[name]) for name in X}
    both = [bg.fit(bg.NaiveBayes(stated), *data, method=bg.Exact()) for data in ((X, y), (longer, np.append(y, label)))]
    close(both[0].log_evidence, fit.log_evidence, rtol=1e-12)
    ratio = both[1].log_evidence - both[0].log_evidence
    close(fit.log_joint(new, at="predictive")[0, 1], ratio, rtol=1e-10)


def test_the_density_of_new_rows_integrates_to_one():
    X, y = rows(2)
    fit = bg.fit(bg.NaiveBayes(bg.DirichletHistogram(6)), {"a": X["a"]}, y, method=bg.Exact())
    nodes, weights = np.polynomial.legendre.leggauss(40)
    cuts = np.array([-60.0, -20.0, -5.0, *fit.schema.bins("a").edges[1:-1], 8.0, 25.0, 60.0])
    halves = np.diff(cuts)[:, None] / 2
    places = cuts[:-1, None] + halves * (1 + nodes)
    density = np.exp(bg.predict(fit, {"a": places.ravel()}, rule=bg.BMA()).log_marginal).reshape(places.shape)
    close((halves * weights * density).sum(), 1.0, rtol=1e-10)


@pytest.mark.parametrize("alpha", [1.0, 0.3])
def test_class_probabilities_are_those_of_scikit_learns_discretizer_and_categorical_naive_bayes(alpha):
    X, y = rows(3, 211)
    table, new = np.stack(list(X.values()), 1), np.stack(list(rows(4, 50)[0].values()), 1)
    cutter = KBinsDiscretizer(6, encode="ordinal", strategy="quantile", quantile_method="averaged_inverted_cdf")
    codes = cutter.fit_transform(table)
    expected = CategoricalNB(alpha=alpha, min_categories=6).fit(codes, y).predict_proba(cutter.transform(new))
    kinds = {f"x{j}": bg.Binned(edges=edges) for j, edges in enumerate(cutter.bin_edges_)}
    shares = np.bincount(y) / len(y)  # its class probabilities are frequencies
    model = bg.NaiveBayes(bg.DirichletHistogram(concentration=alpha), class_prior=shares)
    fit = bg.fit(model, table, y, method=bg.Exact(), schema=bg.Schema(kinds=kinds))
    close(bg.predict(fit, new, rule=bg.PlugIn()).probabilities, expected, rtol=1e-10)


def test_numbers_of_bins_and_normal_columns_are_weighed_by_evidence():
    rng = np.random.default_rng(6)
    y = rng.integers(0, 2, 400)
    bell = {"a": rng.normal(y, 1.0, 400)}
    heavy = {"a": np.where(rng.random(400) < 0.5, rng.normal(y, 0.05, 400), rng.normal(-5.0 + 10 * y, 0.05, 400))}
    families = (bg.DirichletHistogram(5), {"real": bg.DirichletHistogram(25)}, None)
    models = [bg.NaiveBayes(family) for family in families]
    for X, best in ((bell, 2), (heavy, 1)):
        average = bg.average(models, X=X, y=y)
        evidences = [bg.fit(model, X, y, method=bg.Exact()).log_evidence for model in models]
        close(average.weights, np.exp(evidences - np.logaddexp.reduce(evidences)), rtol=1e-9)
        assert average.weights.argmax() == best and average.weights.max() > 0.9
    answer = bg.predict(average, {"a": [-5.0, 0.1, 60.0]}, rule=bg.BMA())
    close(answer.probabilities.sum(1), 1.0)


def test_evidences_of_other_rows_are_not_weighed_together():
    X, y = rows()
    models = [bg.NaiveBayes(bg.DirichletHistogram(5)), bg.NaiveBayes(bg.DirichletHistogram(4)), bg.NaiveBayes()]
    fits = [bg.fit(model, X, y, method=bg.Exact()) for model in models]
    others = {**X, "c": X["c"] * np.where(np.arange(ROWS) == 7, 1.01, 1.0)}
    for model, rest in ((models[0], fits[1:2]), (models[2], fits[:1]), (models[1], fits[2:])):
        changed = bg.fit(model, others, y, method=bg.Exact())
        with pytest.raises(bg.FitError, match="totals by class differ"):
            bg.average([changed, *rest])
    order = np.random.default_rng(1).permutation(ROWS)
    shuffled = bg.fit(models[0], {name: values[order] for name, values in X.items()}, y[order], method=bg.Exact())
    assert bg.average([shuffled, *fits[1:]]).weights.shape == (3,)


def test_a_concentration_has_one_entry_for_each_bin():
    with pytest.raises(bg.ModelError, match="concentration has length 2, of 3 bins"):
        bg.DirichletHistogram(3, [1.0, 2.0])
    model = bg.NaiveBayes(bg.DirichletHistogram(4, [1.0, 2.0, 3.0, 4.0]))
    X, y = {"a": np.arange(8.0), "b": [1.0, 1.0, 1.0, 1.0, 1.0, 2.0, 3.0, 4.0]}, list("abababab")
    assert bg.fit(model, {"a": X["a"]}, y, method=bg.Exact()).parameters["binned_4_probs"].shape == (2, 1, 4)
    with (
        pytest.warns(bg.BayesgenWarning, match="fewer bins"),
        pytest.raises(bg.FitError, match=r"length 4, and column 'b' has 3 bins, because equal values are in one bin"),
    ):
        bg.fit(model, X, y, method=bg.Exact())


def test_a_kind_that_a_schema_declares_and_a_family_may_both_say_the_bins():
    X, y = rows()
    by_schema = bg.fit(bg.NaiveBayes(), X, y, method=bg.Exact(), schema=bg.Schema(kinds=dict.fromkeys(X, bg.Binned(4))))
    for model in (bg.NaiveBayes(bg.DirichletHistogram(4)), bg.NaiveBayes({"real": bg.DirichletHistogram(4)})):
        fit = bg.fit(model, X, y, method=bg.Exact())
        assert fit.schema == by_schema.schema and fit.log_evidence == by_schema.log_evidence
        assert bg.fit(model, X, y, method=bg.Exact(), schema=by_schema.schema).schema == by_schema.schema
    assert list(by_schema.prior) == ["class", "binned_4"]
    later = rows(1)
    assert bg.fit(bg.NaiveBayes(), *later, method=bg.Exact(), schema=by_schema.schema).schema == by_schema.schema
    stated = bg.NaiveBayes(bg.DirichletHistogram(edges=[0, 1, 2, 3, 4]))
    with pytest.raises(bg.ModelError, match="its edges are not those of its columns"):
        bg.fit(stated, X, y, method=bg.Exact(), schema=by_schema.schema)


def test_families_are_written_as_they_were_stated():
    families = [bg.DirichletHistogram(4, 2.0), bg.DirichletHistogram(edges=[0, 1, 2], tails=3.0)]
    assert repr(families[0]) == "DirichletHistogram(4, concentration=2)"
    assert repr(families[1]) == "DirichletHistogram(concentration=1, edges=<array (3,)>, tails=3)"


def test_bins_come_from_the_first_chunk():
    X, y = rows(0, 90)
    chunks = [({name: values[part] for name, values in X.items()}, y[part]) for part in (slice(0, 50), slice(50, 90))]
    model = bg.NaiveBayes(bg.DirichletHistogram(3))
    fit = bg.fit(model, chunks, method=bg.Exact())
    first = bg.fit(model, *chunks[0], method=bg.Exact())
    assert fit.schema.kinds == first.schema.kinds
    close(fit.log_evidence, first.update(*chunks[1]).log_evidence, rtol=1e-12)


@pytest.mark.parametrize(
    ("families", "match"),
    [
        (bg.Binned(5), r"is a kind of column. Write DirichletHistogram\(5\)"),
        ({"a": bg.Binned(edges=[0, 1, 2])}, r"Write DirichletHistogram\(edges=\[0.0, 1.0, 2.0\]\)"),
        ({"real": bg.DirichletHistogram}, "takes families such as NormalInverseGamma"),
        ("binned", "takes families such as NormalInverseGamma"),
    ],
)
def test_what_is_no_family_is_refused_with_what_to_write(families, match):
    with pytest.raises(bg.ModelError, match=match):
        bg.NaiveBayes(families)


def test_blocks_of_columns_with_unlike_numbers_of_bins_are_refused():
    X, y = rows()
    schema = bg.Schema(kinds={"a": bg.Binned(3), "b": bg.Binned(4), "c": bg.Binned(4)})
    model = bg.GenerativeClassifier([("all", bg.DirichletHistogram(), ["a", "b", "c"])])
    with pytest.raises(bg.ModelError, match=r"'all': its columns have \[3, 4\] numbers of bins.*state edges"):
        bg.fit(model, X, y, method=bg.Exact(), schema=schema)


def test_parameters_are_exported_with_the_names_of_the_bins(fit):
    exported = fit.to_datatree(num_draws=5)["posterior"]
    assert exported["binned_2_bin"].values.tolist() == ["[1000000.0, 1000002.0)", "[1000002.0, 1000030.0)"]
    assert exported["binned_5_bin"].values.tolist() == list(range(5))
    assert fit.parameters_of("b")["probs"].shape == (3, 2)


def test_missing_cells_are_filled_in_by_means_and_draws_of_their_bins(fit):
    X, _ = rows()
    X["b"] = np.where(np.arange(ROWS) % 2 == 0, np.nan, X["b"])
    filled, shares = fit.impute(X), bg.predict(fit, X, rule=bg.PlugIn()).probabilities
    probs, bins, missing = fit.parameters_of("b")["probs"], fit.schema.bins("b"), np.isnan(X["b"])
    # of [1e6, 1e6 + 2) with the tail 1 the flat part, 2/3 of it, has the mean 1e6 + 1, the tail 1e6 - 1; of the other
    # bin 16 and 70 beyond 1e6
    means = shares[missing] @ probs @ np.array([2 / 3 - 1 / 3, (28 * 16 + 40 * 70) / 68])
    close(filled["b"][missing] - 1e6, means, rtol=1e-6)
    close(filled["b"][~missing], X["b"][~missing])
    draws = fit.impute(X, num_draws=300, seed=2)["b"][:, missing]
    close((bins.codes(draws.ravel()) == 0).mean(), (shares @ probs)[missing, 0].mean(), atol=0.02)
    close(draws.mean() - 1e6, means.mean(), rtol=0.05)


@pytest.mark.slow
def test_simulated_rows_are_numbers_in_the_bins(fit):
    parameters = bg.fit(fit.model, *rows(), method=bg.MAP(), schema=fit.schema)
    made = parameters.simulate(20_000, seed=1)
    codes = fit.schema.bins("b").codes(made["b"].to_numpy())
    for k in range(3):
        found = np.bincount(codes[made["y"] == k], minlength=2) / np.sum(made["y"] == k)
        close(found, parameters.parameters["binned_2_probs"][k, 0], atol=0.02)


def test_components_of_a_mixture_may_have_bins():
    X, _ = rows()
    mixture = bg.Mixture(bg.NaiveBayes(bg.DirichletHistogram(4, 2.0)), 2)
    fit = bg.fit(mixture, {"a": X["a"], "c": X["c"]}, method=bg.MAP())
    log_joint = fit.log_joint({"a": X["a"], "c": X["c"]}, at="mode")
    density = bg.predict(fit, {"a": X["a"], "c": X["c"]}, rule=bg.PlugIn()).log_marginal
    close(density, np.logaddexp.reduce(log_joint, axis=1), rtol=1e-9)


@pytest.mark.parametrize("is_sampled", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_draws_agree_with_the_closed_form_and_other_bins_compile_nothing(is_sampled):
    model, new = bg.NaiveBayes(bg.DirichletHistogram(4, 1.5)), rows(9, 19)[0]
    method = bg.NUTS(num_warmup=150, num_samples=300, num_chains=4)
    for seed in (0, 5):
        X, y = rows(seed)
        fit = bg.fit(model, X, y, method=bg.Exact())
        exact = bg.predict(fit, new, rule=bg.BMA())
        with compilations() as compiled:
            draws = bg.fit(model, X, y, method=method, seed=3) if is_sampled else drawn(fit, 4, 300)
            chains = bg.predict(draws, new, rule=bg.BMA())
        close(chains.probabilities, exact.probabilities, atol=0.03)
        close(chains.log_marginal, exact.log_marginal, atol=0.1)
    assert compiled == []


def test_a_column_declared_by_name_stands_beside_normal_ones_in_a_discriminant():
    X, y = rows()
    schema = bg.Schema(kinds={"b": bg.Binned(3)})
    fit = bg.fit(bg.GaussianDiscriminant("tied"), X, y, method=bg.Exact(), schema=schema)
    assert {name: list(columns) for name, _, columns in fit.concrete.blocks} == {"real": ["a", "c"], "binned_3": ["b"]}
    assert np.isfinite(bg.predict(fit, X, rule=bg.BMA()).log_marginal).all()


def test_log_gammas_agree(fit):
    """The chain of predictions, which is the oracle above, against log-gammas."""
    counts = np.array([3.0, 0.0, 5.0, 1.0])
    expected = gammaln(4) - gammaln(13) + gammaln(counts + 1).sum()
    close(log_dirichlet_multinomial(counts), expected, rtol=1e-12)
