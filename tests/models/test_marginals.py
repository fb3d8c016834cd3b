"""Missing cells of built-in models, against brute force: sums over all values of the cell, and quadrature."""

import itertools

import jax
import numpy as np
import pytest
import scipy.special
from prediction.draws import drawn

import bayesgen as bg
from bayesgen.averaging.left_out import assign_folds, cross_validated_scores
from bayesgen.data import COUNT

from .cases import CASES, mixed, reals, take
from .test_laws import with_prior

close = np.testing.assert_allclose
RULES = ("mean", "mode", "predictive")
VALUES = {"wild": [True, False], "tame": [True, False], "fur": ["dark", "light"], "food": ["leaves", "meat", "roots"]}
MOST = 120  # of counts, beyond which no probability is left
FAMILIES = {"visits": bg.GammaPoisson(2.0, 0.7), "calls": bg.GammaPoisson(2.0, 0.7)}
AVERAGED = bg.NaiveBayes(FAMILIES, structure="average")
WORDS = ["".join(word) for word in itertools.product("grw", repeat=3)]  # whatever the length, one of them it is
ENDLESS = {"naive Bayes, words that end"}  # there are words of any length
MODELS = {name: case.model for name, case in CASES.items() if isinstance(case.new, dict) and name not in ENDLESS}
MODELS["averaged"] = AVERAGED
INFORMATIVE = bg.NormalInverseGamma([0.3, 1.0, -0.2], 0.4, 2.5, [1.4, 0.8, 2.0])


def mostly_slow(quick, names):
    """Some of the names in every run, the others with -m slow."""
    marked = [name if name in quick else pytest.param(name, marks=pytest.mark.slow) for name in names]
    return pytest.mark.parametrize("name", marked)


def grid(center, spread, size):
    """Points and log weights of a quadrature over all numbers: Gauss-Legendre, with tails of any power."""
    nodes, weights = np.polynomial.legendre.leggauss(size)
    points = center + spread * nodes / (1 - nodes**2)
    return points, np.log(weights) + np.log(spread * (1 + nodes**2) / (1 - nodes**2) ** 2)


def steps(bins, size=40):
    """Points and log weights for densities that are constant within bins and decay exponentially beyond their ends."""
    edges, (low, high) = np.asarray(bins.edges), bins.tails
    inner = edges[np.isfinite(edges)]
    nodes, weights = np.polynomial.laguerre.laggauss(size)
    parts = [(0.5 * (inner[1:] + inner[:-1]), np.log(np.diff(inner)))]
    parts += [(inner[0] - low * nodes, np.log(low * weights) + nodes)] if low else []
    parts += [(inner[-1] + high * nodes, np.log(high * weights) + nodes)] if high else []
    return tuple(np.concatenate(arrays) for arrays in zip(*parts, strict=True))


def spreads(name, X):
    """Standard deviations of the real columns; of all of them the largest where they share one."""
    alone = {column: np.std(cells) for column, cells in X.items() if np.asarray(cells).dtype.kind in "if"}
    return dict.fromkeys(alone, max(alone.values())) if "spherical" in name else alone


def fillings(fit, spread, X, column, size=200):
    """All values of a cell, as far as they have a probability, and their log weights."""
    if column in VALUES:
        return VALUES[column], np.zeros(len(VALUES[column]))
    if column == "cry":
        return WORDS, np.zeros(len(WORDS))
    if fit.schema.kinds[column] == COUNT:
        return np.arange(MOST), np.zeros(MOST)
    if isinstance(fit.schema.kinds[column], bg.Binned):
        return steps(fit.schema.kinds[column])
    return grid(np.mean(X[column]), 2 * spread[column], size)


def filled(row, column, values):
    """The row, once with each value in place of the cell."""
    rows = {name: np.repeat(cells, len(values)) for name, cells in row.items()}
    return rows | {column: np.asarray(values)}


def without(row, column):
    return row | {column: np.ma.array(row[column], mask=True)}


@pytest.fixture(scope="module")
def averaged():
    return bg.fit(AVERAGED, *CASES["naive Bayes"].data, method=bg.Exact())


@mostly_slow({"naive Bayes", "discriminant, full", "discriminant, tied-spherical", "averaged"}, MODELS)
def test_the_density_of_a_row_without_a_cell_is_the_integral_over_it(name, averaged):
    fit, case = (averaged, CASES["naive Bayes"]) if name == "averaged" else (CASES[name].exact, CASES[name])
    row = take(case.new, slice(0, 1))
    spread = spreads(name, case.data[0])
    for column in row:
        values, log_weights = fillings(fit, spread, case.data[0], column)
        for at in RULES:
            found = fit.log_joint(without(row, column), at=at)[0]
            whole = fit.log_joint(filled(row, column, values), at=at) + log_weights[:, None]
            close(found, scipy.special.logsumexp(whole, axis=0), rtol=1e-8, atol=1e-8, err_msg=f"{column} at {at}")


@mostly_slow({"discriminant, full"}, ["discriminant, full", "discriminant, spherical", "own blocks"])
def test_two_missing_cells_are_integrated_out_together(name):
    fit, case = CASES[name].exact, CASES[name]
    row = take(case.new, slice(1, 2))
    first, second = list(row)[:2]
    spread = spreads(name, case.data[0])
    grids = [fillings(fit, spread, case.data[0], column, 120) for column in (first, second)]
    rows = filled(row, first, np.repeat(grids[0][0], 120)) | {second: np.tile(grids[1][0], 120)}
    log_weights = np.add.outer(grids[0][1], grids[1][1]).reshape(-1, 1)
    for at in RULES:
        whole = scipy.special.logsumexp(fit.log_joint(rows, at=at) + log_weights, axis=0)
        close(fit.log_joint(without(without(row, first), second), at=at)[0], whole, rtol=1e-7, err_msg=at)


GAUSSIAN = {
    "diag": bg.GaussianDiscriminant("diag", INFORMATIVE),
    "spherical": bg.GaussianDiscriminant("spherical", bg.NormalInverseGamma([0.3, 1.0, -0.2], 0.4, 2.5, 1.1)),
    "tied-diag": bg.GaussianDiscriminant("tied-diag", INFORMATIVE),
    "tied-spherical": bg.GaussianDiscriminant("tied-spherical", bg.NormalInverseGamma([0.3, 1.0, -0.2], 0.4, 2.5, 1.1)),
    "averaged": bg.NaiveBayes(INFORMATIVE, structure="average"),
}


@mostly_slow({"spherical", "averaged"}, GAUSSIAN)
def test_the_evidence_of_rows_without_a_real_cell_is_the_integral_over_it(name):
    rng = np.random.default_rng(11)
    codes = np.array([0, 1, 0, 1, 1, 0, 1])
    X, y = reals(("a", "b", "c"))(rng, codes), np.array(["u", "v"])[codes]
    X = {column: (cells - cells.mean()) / cells.std() for column, cells in X.items()}
    values, log_weights = grid(0.0, 2.0, 60)
    whole = []
    for value in values:
        X["b"][3] = value
        whole.append(bg.fit(GAUSSIAN[name], X, y, method=bg.Exact()).log_evidence)
    holed = X | {"b": np.ma.array(X["b"], mask=np.arange(7) == 3)}
    found = bg.fit(GAUSSIAN[name], holed, y, method=bg.Exact()).log_evidence
    close(found, scipy.special.logsumexp(whole + log_weights), rtol=1e-7)


@pytest.mark.parametrize("structure", ["full", "average"])
def test_the_evidence_of_rows_without_discrete_cells_is_the_sum_over_them(structure):
    rng = np.random.default_rng(12)
    codes = np.array([0, 1, 0, 2, 1])
    X, y = mixed(rng, codes), np.array(["u", "v", "w"])[codes]
    X = {name: X[name] for name in ("wild", "food", "visits")}
    schema = bg.Schema(categories={"food": VALUES["food"]})
    model = bg.NaiveBayes({"visits": bg.GammaPoisson(3.0, 2.0)}, structure=structure)
    holes = [("wild", 1), ("food", 1), ("visits", 2)]
    whole = []
    for values in itertools.product(VALUES["wild"], VALUES["food"], range(26)):
        for (column, row), value in zip(holes, values, strict=True):
            X[column][row] = value
        whole.append(bg.fit(model, X, y, method=bg.Exact(), schema=schema).log_evidence)
    holed = {column: np.ma.array(cells) for column, cells in X.items()}
    for column, row in holes:
        holed[column][row] = np.ma.masked
    found = bg.fit(model, holed, y, method=bg.Exact(), schema=schema).log_evidence
    close(found, scipy.special.logsumexp(whole), rtol=1e-9)


@pytest.mark.parametrize("method", [bg.MLE(), bg.MAP()], ids=["MLE", "MAP"])
def test_a_column_of_naive_bayes_is_learned_from_the_rows_that_have_it(method):
    X, y = CASES["naive Bayes"].data
    rng = np.random.default_rng(13)
    holed = {name: np.ma.array(cells, mask=rng.random(len(y)) < 0.3) for name, cells in X.items()}
    families = {"visits": bg.GammaPoisson(), "calls": bg.GammaPoisson()}
    schema = bg.Schema(categories={name: VALUES[name] for name in ("fur", "food")})
    whole = bg.fit(bg.NaiveBayes(families), holed, y, method=method, schema=schema)
    for name, cells in holed.items():
        there = ~cells.mask
        alone = bg.fit(
            bg.NaiveBayes({name: families[name]} if name in families else None),
            {name: cells.data[there]},
            y[there],
            method=method,
            schema=bg.Schema(categories={name: VALUES[name]} if name in ("fur", "food") else {}),
        )
        for parameter, value in alone.parameters_of(name).items():
            close(whole.parameters_of(name)[parameter], value, rtol=1e-12, err_msg=f"{name} {parameter}")
    close(whole.parameters["class_probs"], np.unique(y, return_counts=True)[1] / len(y), rtol=1e-12)


def test_a_column_without_a_cell_in_a_class_is_refused_where_an_empty_class_is():
    X = {"a": [1.0, 2.0, 4.0, None, None], "b": [1.0, 2.5, 4.0, 3.0, 1.0], "t": [True, None, None, False, True]}
    y = list("uuuvv")
    with pytest.raises(bg.BayesgenError, match=r"class 'v', column 'a'"):
        bg.fit(bg.NaiveBayes(), X, y, method=bg.MLE())
    X["a"][3:] = [2.0, 3.0]
    with pytest.raises(bg.BayesgenError, match=r"class 'u', column 't'"):
        bg.fit(bg.NaiveBayes(), X | {"t": [None, None, None, False, True]}, y, method=bg.MLE())
    nowhere = X | {"a": np.full(5, np.nan)}
    with pytest.raises(bg.BayesgenError, match=r"column 'a'"):
        bg.fit(bg.NaiveBayes(), nowhere, y, method=bg.MLE())
    fit = bg.fit(bg.NaiveBayes(), nowhere, y, method=bg.Exact())  # and no warning of a constant column
    close(fit.parameters_of("a")["mean"], 0.0)
    assert fit.schema.mean[0] == 0.0 and np.isnan(fit.schema.variance[0])
    kept = bg.fit(bg.NaiveBayes(), {name: X[name] for name in "bt"}, y, method=bg.Exact())
    close(fit.log_evidence, kept.log_evidence, rtol=1e-13)
    joints = (each.log_joint({"b": [1.0], "t": [None]}, at="predictive") for each in (kept,))
    close(fit.log_joint({"a": [None], "b": [1.0], "t": [None]}, at="predictive"), *joints, rtol=1e-13)


def test_rows_of_weight_zero_are_absent_whatever_is_missing_in_them():
    X, y = {"a": np.array([1.0, 2.0, np.nan, 7.0, 9.0]), "b": [True, None, True, False, None]}, list("uuuvv")
    kept = bg.fit(
        bg.NaiveBayes(),
        take(X | {"b": np.array(X["b"], object)}, slice(0, 4)),
        y[:4],
        method=bg.Exact(),
        schema=bg.Schema(kinds={"b": "binary"}),
    )
    weighted = bg.fit(bg.NaiveBayes(), X, y, method=bg.Exact(), sample_weight=[1, 1, 1, 1, 0])
    close(weighted.log_evidence, kept.log_evidence, rtol=1e-13)


def test_rows_left_out_are_predicted_from_the_cells_of_the_others():
    case = CASES["naive Bayes"]
    X, y = case.data
    rng = np.random.default_rng(14)
    holed = {name: np.ma.array(cells, mask=rng.random(len(y)) < 0.3) for name, cells in X.items()}
    fit = bg.fit(case.model, holed, y, method=bg.Exact())
    folds = assign_folds(holed, 3, 0)
    scores, model = cross_validated_scores(fit, holed, y, folds).given_row, with_prior(fit)
    for fold in range(3):
        out, rest = np.flatnonzero(folds == fold), np.flatnonzero(folds != fold)
        part = bg.fit(model, take(holed, rest), y[rest], method=bg.Exact(), schema=fit.schema)
        answer = bg.predict(part, take(holed, out), rule=bg.BMA())
        own = answer.log_probabilities[np.arange(len(out)), fit.schema.encode_labels(y[out])]
        close(scores[out], own, rtol=1e-9)
    both = bg.average([case.model, AVERAGED], weights="stacking", X=holed, y=y, folds=3)
    assert both.weights.sum() == pytest.approx(1.0)
    with pytest.raises(bg.BayesgenError, match="cells by class"):
        bg.average([fit], weights="stacking", X=X, y=y)


def test_evidences_of_other_missing_cells_are_not_comparable():
    X, y = CASES["naive Bayes"].data
    zero = {"wild": np.zeros(len(y), bool), "tame": X["tame"]}
    holed = zero | {"wild": np.ma.array(zero["wild"], mask=np.arange(len(y)) == 5)}
    fits = [bg.fit(bg.NaiveBayes(), cells, y, method=bg.Exact()) for cells in (zero, holed)]
    with pytest.raises(bg.BayesgenError, match="cells by class differ"):
        bg.average(fits)
    same = [
        bg.fit(model, holed, y, method=bg.Exact()) for model in (bg.NaiveBayes(), bg.NaiveBayes(structure="average"))
    ]
    assert bg.average(same).weights.shape == (2,)


CHAINS = pytest.param("chains", marks=pytest.mark.slow)


@pytest.fixture(scope="module", params=["independent", CHAINS])
def sampled(request):
    """Exact fit and draws of the same rows, a fourth of whose cells is missing; and new ones."""
    rng = np.random.default_rng(15)
    y = np.repeat(["u", "v"], [30, 40])
    X = {"a": rng.normal(size=70) + (y == "u"), "t": rng.random(70) < 0.3 + 0.4 * (y == "u")}
    X = {name: np.ma.array(cells, mask=rng.random(70) < 0.25) for name, cells in X.items()}
    exact = bg.fit(bg.NaiveBayes(), X, y, method=bg.Exact())
    if request.param == "independent":
        draws = drawn(exact, num_samples=700)
    else:
        draws = bg.fit(bg.NaiveBayes(), X, y, method=bg.NUTS(num_samples=700), progress=False)
    return exact, draws, {"a": [0.3, None, 2.0, None], "t": [None, True, False, None]}


@pytest.mark.parametrize("sampled", [CHAINS], indirect=True)
def test_draws_are_those_of_the_exact_posterior(sampled):
    exact, draws, _ = sampled
    for name, value in exact.posterior.parameter_draws(500, jax.random.key(0)).items():
        found = draws.parameters[name]
        close(found.mean((0, 1)), value.mean((0, 1)), atol=6 * value.std() / 2800**0.5 + 0.01, err_msg=name)


@pytest.mark.parametrize(
    "rule",
    [bg.BMA(), *(pytest.param(rule, marks=pytest.mark.slow) for rule in (bg.BMA(0), bg.ConditionalAverage(8000)))],
    ids=repr,
)
def test_averages_over_draws_leave_missing_cells_out(sampled, rule):
    exact, draws, new = sampled
    expected = bg.predict(exact, new, rule=rule)
    found = bg.predict(draws, new, rule=rule)
    close(found.probabilities, expected.probabilities, atol=0.01)
    close(found.probabilities[3], exact.parameters["class_probs"], atol=0.01)
