"""Fits that learn one more class from its rows alone."""

import dataclasses

import numpy as np
import numpyro.distributions as dist
import pandas as pd
import polars as pl
import pytest
import scipy.sparse

import bayesgen as bg

close = np.testing.assert_allclose
METHODS = [bg.MLE(), bg.MAP(), bg.Exact()]
every_method = pytest.mark.parametrize("method", METHODS, ids=lambda method: type(method).__name__)


def reals(size, shift):
    rng = np.random.default_rng(int(10 * abs(shift)) + size)
    return rng.normal(size=(size, 3)) @ np.array([[1.0, 0.4, 0], [0, 0.8, -0.3], [0, 0, 2.0]]) + shift


def mixed(size, shift):
    rng, table = np.random.default_rng(size), reals(size, shift)
    foods = np.asarray(["leaves", "meat", "roots"])[np.arange(size) % 3]
    return pd.DataFrame({"height": table[:, 0], "weight": table[:, 1], "tame": rng.random(size) < 0.4, "food": foods})


def counts(size, shift):
    return np.random.default_rng(size).poisson(2.0 + abs(shift), (size, 5)) + 1.0


def sparse_counts(size, shift):
    return scipy.sparse.csr_array(counts(size, shift))


CASES = {
    "naive Bayes": (bg.NaiveBayes(), mixed),
    "numbers for all classes": (
        bg.NaiveBayes(
            {"real": bg.NormalInverseGamma([0.3, 1.1], 0.6, 2.7, [0.4, 1.9]), "binary": bg.BetaBernoulli(2, 3)}
        ),
        mixed,
    ),
    "full": (bg.GaussianDiscriminant("full"), reals),
    "diag": (bg.GaussianDiscriminant("diag"), reals),
    "spherical": (bg.GaussianDiscriminant("spherical", class_prior=bg.DirichletCategorical(1.5)), reals),
    "rates": (bg.NaiveBayes(bg.GammaPoisson()), counts),
    "multinomial": (bg.NaiveBayes(bg.DirichletMultinomial(1.3)), counts),
    "multinomial, sparse": (bg.NaiveBayes(), sparse_counts),
}


def joined(*parts):
    if isinstance(parts[0], pd.DataFrame):
        return pd.concat(parts)
    return scipy.sparse.vstack(parts) if scipy.sparse.issparse(parts[0]) else np.concatenate(parts)


@every_method
@pytest.mark.parametrize("name", CASES)
def test_it_is_the_fit_of_all_rows_and_classes_at_the_same_prior(name, method):
    model, rows = CASES[name]
    old, new = joined(rows(13, 0.0), rows(17, 1.5)), rows(11, -2.0)
    y = np.repeat(["a", "d"], [13, 17])
    first = bg.fit(model, old, y, method=method)
    grown = first.add_class("b", new)
    all_classes = dataclasses.replace(first.schema, classes=["a", "b", "d"])
    labels = np.append(y, ["b"] * 11)
    whole = bg.fit(model, joined(old, new), labels, method=method, schema=all_classes)
    assert grown.classes.tolist() == ["a", "b", "d"] and grown.schema == whole.schema and grown.prior == whole.prior
    for parameter, value in grown.parameters.items():
        close(value, whole.parameters[parameter], rtol=1e-12, atol=1e-12, err_msg=parameter)
        if parameter != "class_probs":
            assert (value[[0, 2]] == first.parameters[parameter]).all(), parameter
    if grown.log_evidence is not None:
        close(grown.log_evidence, whole.log_evidence, rtol=1e-12)
    answer = grown.log_joint(new)
    close(answer, whole.log_joint(new), rtol=1e-10)
    assert (answer.argmax(1) == 1).any()


def test_class_probabilities_are_as_if_all_classes_had_been_declared():
    model = bg.NaiveBayes(class_prior=bg.DirichletCategorical(2.5))
    fit = bg.fit(model, reals(7, 0.0), [1, 1, 1, 1, 1, 3, 3], method=bg.Exact())
    grown = fit.add_class(2, reals(4, 1.0), sample_weight=[0.5, 1.0, 2.0, 1.5])
    close(grown.parameters["class_probs"], np.array([5 + 2.5, 5 + 2.5, 2 + 2.5]) / (7 + 5 + 3 * 2.5), rtol=1e-14)
    assert grown.attributes["total_weight"] == 12.0


def test_classes_take_their_place_where_they_are_sorted_and_come_last_where_they_are_not():
    X = reals(6, 0.0)
    for classes, label, expected in [
        ((3, 7), 5, [3, 5, 7]),
        ((3, 7), np.int64(1), [1, 3, 7]),
        (("low", "high"), "middle", ["low", "high", "middle"]),
        (("b", "c"), np.str_("a"), ["a", "b", "c"]),
        ((("x", 1), ("x", 3)), ("x", 2), [("x", 1), ("x", 2), ("x", 3)]),
        ((1, "x"), "a", [1, "x", "a"]),
    ]:
        labels = pd.Series([classes[code] for code in [0, 1, 0, 1, 0, 1]], dtype=object)
        fit = bg.fit(bg.NaiveBayes(), X, labels, method=bg.Exact(), schema=bg.Schema(classes=classes))
        grown = fit.add_class(label, X[:2] + 1)
        assert list(grown.schema.classes) == expected
        place = expected.index(label)
        close(grown.parameters["class_probs"][place], 3 / 11)
        old = np.delete(grown.parameters["real_mean"], place, axis=0)
        assert (old == fit.parameters["real_mean"]).all()


def test_rows_in_chunks_more_rows_and_another_class_follow():
    X, more = mixed(20, 0.0), mixed(12, 2.0)
    y = np.arange(20) % 2
    fit = bg.fit(bg.NaiveBayes(), X, y, method=bg.MAP())
    grown = fit.add_class(2, ((more[part],) for part in (slice(0, 5), slice(5, 12))))
    at_once = fit.add_class(2, more)
    again = at_once.update(X[:3], [2, 0, 1]).add_class(3, more[:4])
    for parameter, value in at_once.parameters.items():
        close(grown.parameters[parameter], value, rtol=1e-12)
    labels = np.concatenate([y, np.full(12, 2), [2, 0, 1], np.full(4, 3)])
    everything = pd.concat([X, more, X[:3], more[:4]])
    whole = bg.fit(bg.NaiveBayes(), everything, labels, method=bg.MAP(), schema=again.schema)
    for parameter, value in whole.parameters.items():
        close(again.parameters[parameter], value, rtol=1e-12)


def test_averages_learn_a_class_where_every_member_can():
    X, y = reals(14, 0.0), np.arange(14) % 2
    members = [bg.fit(bg.GaussianDiscriminant(form), X, y, method=bg.Exact()) for form in ("full", "diag", "tied")]
    grown = bg.average(members[:2]).add_class(2, reals(5, 3.0))
    expected = bg.average([fit.add_class(2, reals(5, 3.0)) for fit in members[:2]])
    close(grown.weights, expected.weights, rtol=1e-12)
    assert grown.classes.tolist() == [0, 1, 2]
    with pytest.raises(bg.FitError, match="Block 'real': all classes share one covariance"):
        bg.average(members).add_class(2, reals(5, 3.0))


PER_CLASS = {
    "The class prior: the hyperparameter concentration": bg.NaiveBayes(class_prior=bg.DirichletCategorical([1.0, 2.0])),
    "Block 'real': the hyperparameter mean": bg.NaiveBayes(bg.NormalInverseGamma(mean=[[0.0] * 3, [1.0] * 3])),
    "Block 'real': the hyperparameter kappa": bg.GaussianDiscriminant(prior=bg.NormalInverseWishart(kappa=[0.5, 0.1])),
    "Block 'real': the hyperparameter scale": bg.GaussianDiscriminant(
        prior=bg.NormalInverseWishart(scale=[np.eye(3), 2 * np.eye(3)])
    ),
}
REFUSED = {
    **{words + " is given for each class": model for words, model in PER_CLASS.items()},
    "class probabilities are fixed, \\[0.3, 0.7\\]": bg.NaiveBayes(class_prior=[0.3, 0.7]),
    "share one covariance": bg.GaussianDiscriminant("tied"),
    "share one variance": bg.GaussianDiscriminant("tied-diag"),
    "Block 'real': all classes share one variance": bg.GaussianDiscriminant("tied-spherical"),
    "which columns depend on the class": bg.NaiveBayes(structure="average"),
}


@pytest.mark.parametrize("words", REFUSED)
def test_classes_that_are_not_learned_apart_are_refused(words):
    fit = bg.fit(REFUSED[words], reals(14, 0.0), np.arange(14) % 2, method=bg.Exact())
    with pytest.raises(bg.FitError, match=f"{words}.*Fit all rows anew"):
        fit.add_class(2, reals(5, 3.0))


def test_hyperparameters_of_one_column_each_are_those_of_a_new_class_too():
    """As many columns as classes: which axis is meant is told by how many there are."""
    model = bg.NaiveBayes(bg.NormalInverseGamma(mean=[0.0, 1.0, 2.0], kappa=0.7))
    fit = bg.fit(model, reals(15, 0.0), np.arange(15) % 3, method=bg.Exact())
    grown = fit.add_class(3, reals(5, 3.0))
    assert (grown.prior["real"].location == [[0.0, 1.0, 2.0]] * 4).all()


def test_a_hyperparameter_that_is_a_distribution_is_refused():
    model = bg.NaiveBayes(bg.GammaPoisson(dist.Gamma(2.0, 1.0), 1.5))
    fit = bg.fit(model, counts(9, 0.0), np.arange(9) % 2, method=bg.MAP(num_starts=1))
    with pytest.raises(bg.FitError, match="Block 'count': the hyperparameter shape is a distribution"):
        fit.add_class(2, counts(3, 1.0))


def test_labels_and_rows_that_are_no_new_class_are_refused():
    X = mixed(12, 0.0)
    fit = bg.fit(bg.NaiveBayes(), X, np.asarray(["a", "b"])[np.arange(12) % 2], method=bg.Exact())
    with pytest.raises(bg.DataError, match=r"There is a class 'b' already.*'a', 'b'.*fit.update"):
        fit.add_class("b", X)
    for missing in (None, np.nan, pd.NA):
        with pytest.raises(bg.DataError, match=r"label of the new class.*missing"):
            fit.add_class(missing, X)
    for value in (["c"], pl.LazyFrame({"a": [1.0]})):
        with pytest.raises(bg.DataError, match=r"label of the new class.*no plain value"):
            fit.add_class(value, X)
    with pytest.raises(bg.DataError, match=r"y has values with no common order: .*3 \(int\)"):
        fit.add_class(3, X)
    with pytest.raises(bg.DataError, match="without labels"):
        fit.add_class("c", [(X[:3], ["c"] * 3)])
    with pytest.raises(bg.DataError, match="Column 'food' has 'stones'"):
        fit.add_class("c", X.assign(food="stones"))
    with pytest.raises(bg.DataError, match="weight is zero for all rows"):
        fit.add_class("c", X, sample_weight=np.zeros(12))


def test_maximum_likelihood_needs_a_class_with_variance():
    fit = bg.fit(bg.NaiveBayes(), reals(10, 0.0), np.arange(10) % 2, method=bg.MLE())
    with pytest.raises(bg.FitError, match="class 2"):
        fit.add_class(2, reals(1, 0.0))


def test_jointly_normal_rows_with_missing_cells_are_a_new_class_too():
    rng = np.random.default_rng(5)
    old, new = (np.where(rng.random(X.shape) < 0.2, np.nan, X) for X in (reals(40, 0.0), reals(15, 2.0)))
    y = np.arange(40) % 2 * 2
    fit = bg.fit(bg.GaussianDiscriminant(), old, y, method=bg.MAP())
    grown = fit.add_class(1, new)
    labels = np.append(y, np.ones(15, int))
    whole = bg.fit(bg.GaussianDiscriminant(), np.concatenate([old, new]), labels, method=bg.MAP(), schema=grown.schema)
    for parameter, value in whole.parameters.items():
        ours = grown.parameters[parameter]
        if parameter == "class_probs":
            close(ours, value, rtol=1e-12)
            continue
        close(ours[1], value[1], rtol=1e-12, err_msg=parameter)
        assert (ours[[0, 2]] == fit.parameters[parameter]).all(), parameter
        close(ours[[0, 2]], value[[0, 2]], rtol=1e-4, err_msg=parameter)  # found by EM, to its tolerance


@pytest.mark.parametrize("method", [bg.MLE(), bg.MAP()], ids=["MLE", "MAP"])
def test_other_classes_stay_where_em_looks_for_them(method):
    rng = np.random.default_rng(7)
    X = rng.normal(size=(53, 2)) @ np.array([[1.0, 0.7], [0.0, 0.6]])
    X[rng.random(X.shape) < 0.2] = np.nan
    y = np.repeat(["a", "b", "c"], [19, 17, 17])
    old = y != "b"
    first = bg.fit(bg.GaussianDiscriminant("full"), X[old], y[old], method=method)
    grown = first.add_class("b", X[~old])
    whole = bg.fit(bg.GaussianDiscriminant("full"), X, y, method=method, schema=grown.schema)
    for name in ("real_mean", "real_covariance"):
        assert (grown.parameters[name][[0, 2]] == first.parameters[name]).all(), name
        close(grown.parameters[name], whole.parameters[name], rtol=1e-3, atol=1e-3)
    close(grown.parameters["class_probs"], whole.parameters["class_probs"], rtol=1e-12)
