"""Missing cells filled in: against sums and quadrature over them, and draws against what they are draws of."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse

import bayesgen as bg

from .programs import chained

close = np.testing.assert_allclose
FOODS, COATS = ("leaves", "meat", "roots"), ("dark", "light")
REAL = ("height", "weight", "age")


def mixed(rng, size):
    codes = np.arange(size) % 2
    factor = np.array([[1.0, 0.0, 0.0], [0.8, 0.6, 0.0], [-0.3, 0.5, 0.7]])
    reals = rng.normal(size=(size, 3)) @ factor.T + np.outer(codes, [1.0, -0.5, 0.3]) + [10.0, 0.0, 5.0]
    draw = rng.random((size, 2)) + 0.4 * codes[:, None]
    frame = pd.DataFrame(reals, columns=list(REAL))
    frame["food"] = np.asarray(FOODS)[np.digitize(draw[:, 0], [0.4, 0.9])]
    frame["wild"] = pd.array(draw[:, 1] > 0.6, "boolean")
    frame["visits"] = pd.array(rng.poisson(1.5 + 2 * codes), "Int64")
    return frame, np.asarray(["ape", "bear"])[codes]


def gaussian(name):
    family = {
        "joint": bg.NormalInverseWishart(),
        "tied": bg.NormalInverseWishart(tied=True),
        "diag": bg.NormalInverseGamma(),
        "spherical": bg.NormalInverseGamma(spherical=True),
    }[name]
    return bg.NaiveBayes({"real": family, "visits": bg.GammaPoisson()})


METHODS = {"MAP": bg.MAP(), "Exact": bg.Exact(), "NUTS": bg.NUTS(num_warmup=100, num_samples=30, num_chains=2)}
QUICK = [("joint", "Exact")]
EXACT = ["spherical", "average", "tied", "diag", "average joint"]
SLOW = [
    ("diag", "MAP"),
    *((name, "Exact") for name in EXACT),
    ("joint", "MAP"),
    ("spherical", "MAP"),
    ("joint", "NUTS"),
    ("diag", "NUTS"),
]
FITTED = [*QUICK, *(pytest.param(*case, marks=pytest.mark.slow) for case in SLOW)]
DATA = mixed(np.random.default_rng(3), 43)


@pytest.fixture(scope="module")
def fitted():
    """Fits by name, each made once."""
    made = {}

    def fit(name, method):
        if (name, method) not in made:
            family = bg.NormalInverseWishart() if name == "average joint" else bg.NormalInverseGamma()
            averaged = bg.NaiveBayes({"real": family, "visits": bg.GammaPoisson()}, structure="average")
            model = averaged if name.startswith("average") else gaussian(name)
            made[name, method] = bg.fit(model, *DATA, method=METHODS[method], progress=False)
        return made[name, method]

    return fit


def joint_density(fit, rows):
    """log p(row) of rows under the fit, by its tables alone: those at the draws that are averaged over, or the one."""
    if fit.is_sampled:
        table = fit.log_joint(rows, at="draws")  # 60 draws, fewer than would be thinned
        return np.logaddexp.reduce(np.logaddexp.reduce(table, axis=2), axis=0) - np.log(len(table))
    at = "predictive" if fit.posterior.can("predictive") else "mean"
    return np.logaddexp.reduce(fit.log_joint(rows, at=at), axis=1)


def filled(row, **cells):
    """The row, once with each value in place of a cell."""
    size = len(next(iter(cells.values())))
    rows = pd.concat([row] * size, ignore_index=True)
    for column, values in cells.items():
        rows[column] = pd.array(values, row[column].dtype)
    return rows


def grid(size, spread=40.0):
    nodes, weights = np.polynomial.legendre.leggauss(size)
    return nodes / (1 - nodes**2) * spread / 8, np.log(weights * spread / 8 * (1 + nodes**2) / (1 - nodes**2) ** 2)


@pytest.mark.filterwarnings("ignore::bayesgen.errors.ConvergenceWarning")
@pytest.mark.parametrize(("name", "method"), FITTED)
def test_means_and_most_probable_values_are_those_of_the_joint_density(name, method, fitted):
    """Each cell alone, and two real ones together; whatever the model, its density of whole rows says it all."""
    fit, rng = fitted(name, method), np.random.default_rng(4)
    row = mixed(rng, 5)[0].iloc[[3]].reset_index(drop=True)
    points, log_weights = grid(300)
    for column in row:
        holed = row.copy()
        holed[column] = pd.array([None], row[column].dtype) if column in ("wild", "visits") else np.nan
        found = fit.impute(holed)[column].iloc[0]
        if column in REAL:
            density = np.exp(joint_density(fit, filled(row, **{column: points + 5})) + log_weights)
            close(found, density @ (points + 5) / density.sum(), rtol=1e-5, atol=1e-6, err_msg=column)
        elif column == "visits":
            density = np.exp(joint_density(fit, filled(row, visits=range(120))))
            close(found, density @ np.arange(120) / density.sum(), rtol=1e-8)
        else:
            values = list(FOODS) if column == "food" else [False, True]
            assert found == values[int(np.argmax(joint_density(fit, filled(row, **{column: values}))))]
    points, log_weights = grid(90)
    first, second = np.repeat(points + 5, 90), np.tile(points, 90)
    density = joint_density(fit, filled(row, age=first, weight=second)) + np.add.outer(log_weights, log_weights).ravel()
    density = np.exp(density - density.max())
    found = fit.impute(row.assign(age=np.nan, weight=np.nan))
    close(found["age"], density @ first / density.sum(), rtol=1e-4)
    close(found["weight"], density @ second / density.sum(), rtol=1e-3, atol=1e-4)


@pytest.mark.filterwarnings("ignore::bayesgen.errors.ConvergenceWarning")
@pytest.mark.parametrize(("name", "method"), FITTED)
def test_draws_have_the_frequencies_of_the_joint_density(name, method, fitted):
    fit, rng = fitted(name, method), np.random.default_rng(5)
    size = 4000
    row = mixed(rng, 5)[0].iloc[[3]].reset_index(drop=True)
    holed = filled(row, age=[np.nan] * 2, weight=[np.nan, 1.0], food=[None] * 2, visits=[None] * 2)
    drawn = fit.impute({column: holed[column] for column in holed}, num_draws=size, seed=6)
    assert drawn["age"].shape == (size, 2)
    assert (drawn["weight"][:, 1] == 1.0).all()
    points, log_weights = grid(200)
    whole = filled(row, weight=[1.0] * 200, age=points + 5)
    weights = np.zeros(200)
    for food in FOODS:
        for visits in range(25):
            weights += np.exp(
                joint_density(fit, whole.assign(food=food, visits=pd.array([visits] * 200, "Int64"))) + log_weights
            )
    levels = np.quantile(drawn["age"][:, 1], [0.1, 0.5, 0.9])
    below = [weights[points + 5 <= level].sum() / weights.sum() for level in levels]
    close(below, [0.1, 0.5, 0.9], atol=0.04)
    together = {
        food: joint_density(fit, filled(row, weight=[1.0] * 200, age=points + 5).assign(food=food)) for food in FOODS
    }
    assert set(np.unique(drawn["food"])) <= set(together)
    means = fit.impute(holed)
    for column in ("age", "weight", "visits"):
        spread = drawn[column].std(0) / size**0.5
        close(drawn[column].mean(0), means[column].to_numpy(float), atol=6 * spread.max() + 1e-9, err_msg=column)


def test_draws_keep_what_cells_know_of_each_other(fitted):
    """Correlations within a row, given the class, are those of the joint normal."""
    fit = fitted("joint", "MAP")
    row = DATA[0].iloc[[1]].assign(age=np.nan, weight=np.nan)
    drawn = fit.impute({name: row[name] for name in row}, 8000)
    pair = np.stack([drawn["weight"][:, 0], drawn["age"][:, 0]])
    tables = fit.log_joint(row)[0]
    shares = np.exp(tables - np.logaddexp.reduce(tables))
    moments = []
    for mean, covariance in zip(fit.parameters["real_mean"], fit.parameters["real_covariance"], strict=True):
        slope = covariance[1:, 0] / covariance[0, 0]
        conditional = covariance[1:, 1:] - np.outer(slope, covariance[0, 1:])
        moments.append((mean[1:] + slope * (row["height"].iloc[0] - mean[0]), conditional))
    overall = sum(share * mean for share, (mean, _) in zip(shares, moments, strict=True))
    second = sum(s * (c + np.outer(m - overall, m - overall)) for s, (m, c) in zip(shares, moments, strict=True))
    close(np.cov(pair), second, rtol=0.08)


NUMBERS = np.array([[1.0, np.nan], [2.0, 3.0], [np.nan, np.nan]])


@pytest.mark.parametrize(
    "form",
    [
        lambda cells: cells,
        lambda cells: cells.astype(np.float32),
        lambda cells: [[None if np.isnan(cell) else cell for cell in row] for row in cells],
        np.ma.masked_invalid,
        lambda cells: {"x0": cells[:, 0], "x1": cells[:, 1]},
        lambda cells: pd.DataFrame(cells, columns=["x0", "x1"], index=[7, 8, 9]),
        lambda cells: pl.DataFrame(cells, schema=["x0", "x1"]).fill_nan(None),
        lambda cells: pa.table({"x0": cells[:, 0], "x1": cells[:, 1]}),
    ],
)
def test_rows_come_back_in_the_form_in_which_they_came(form):
    rng = np.random.default_rng(7)
    X, y = rng.normal(size=(20, 2)) + 2, np.repeat(["a", "b"], 10)
    fit = bg.fit(bg.GaussianDiscriminant(), X, y, method=bg.Exact())
    given = form(NUMBERS.copy())
    found = fit.impute(given)
    expected = type(given) if not isinstance(given, list | np.ma.MaskedArray) else np.ndarray
    assert type(found) is expected
    if isinstance(found, pd.DataFrame):
        assert found.index.tolist() == [7, 8, 9]
    if isinstance(found, np.ndarray) and isinstance(given, np.ndarray):
        assert found.dtype == given.dtype
    cells = (
        np.stack([np.asarray(found[name]) for name in ("x0", "x1")], 1) if not isinstance(found, np.ndarray) else found
    )
    close(cells, fit.impute(NUMBERS), rtol=1e-6)
    assert (cells[0, 0], cells[1].tolist()) == (1.0, [2.0, 3.0]) and np.isfinite(cells).all()
    assert np.isnan(NUMBERS).sum() == 3
    close(cells[2], fit.impute([[None, None]])[0], rtol=1e-6)
    several = fit.impute(given, 3)
    shape = (
        np.shape(several["x0"])
        if isinstance(several, dict)
        else np.shape(several)[:2]
        if isinstance(several, np.ndarray)
        else (len(several), 3)
    )
    assert shape == (3, 3)
    again = fit.impute(given, 3, seed=1)
    assert str(several) == str(fit.impute(given, 3)) != str(again)


def test_categories_and_truths_come_back_as_they_are_written():
    rng = np.random.default_rng(8)
    colours, truths = np.asarray(["red", "blue"])[rng.integers(0, 2, 30)], rng.random(30) < 0.6
    frame = pd.DataFrame(
        {
            "c": pd.Categorical(colours, ["red", "green", "blue"]),
            "t": pd.array(truths, "boolean"),
            "n": pd.array(range(30), "Int64"),
        }
    )
    y = np.where(truths, "u", "v")
    fit = bg.fit(bg.NaiveBayes(), frame, y, method=bg.Exact())
    holed = frame.copy()
    holed.loc[0, "c"], holed.loc[1, "t"], holed.loc[2, "n"] = None, None, None
    found = fit.impute(holed)
    assert found["c"].dtype == frame["c"].dtype and found["t"].dtype == frame["t"].dtype
    assert found["c"].iloc[0] in ("red", "blue") and found["c"].iloc[1:].equals(frame["c"].iloc[1:])
    assert found["t"].iloc[1] in (True, False) and 5 < found["n"].iloc[2] < 25
    for X in (pl.from_pandas(holed), pa.Table.from_pandas(holed), {name: holed[name] for name in holed}):
        other = fit.impute(X)
        cells = [other["c"][0], other["t"][1], other["n"][2]]
        cells = [cell.as_py() if isinstance(cell, pa.Scalar) else cell for cell in cells]
        assert cells == [found["c"].iloc[0], found["t"].iloc[1], found["n"].iloc[2]]
        if not isinstance(X, dict):
            before, after = (
                [str(getattr(Y[name], "type", None) or Y[name].dtype)[:4] for name in "ct"] for Y in (X, other)
            )
            assert after == before
    masked = {
        "c": np.ma.array(colours, mask=[True] + [False] * 29),
        "t": np.ma.array(truths, mask=[False, True] + [False] * 28),
        "n": np.arange(30),
    }
    other = fit.impute(masked)
    assert other["t"].dtype == bool and other["c"][0] == found["c"].iloc[0]
    assert fit.impute(frame).equals(frame)


def test_columns_without_any_cell_take_what_they_are_filled_with():
    rng = np.random.default_rng(11)
    X = {"c": np.asarray(COATS)[np.arange(20) % 2], "t": np.arange(20) % 3 == 0, "n": rng.normal(size=20)}
    fit = bg.fit(bg.NaiveBayes(), X, np.repeat(["u", "v"], 10), method=bg.Exact())
    nothing = {"c": [None, None], "t": [None, None], "n": [None, None]}
    expected = fit.impute(nothing)
    for form in (pd.DataFrame, pl.DataFrame, pa.table, lambda cells: pd.DataFrame(cells, dtype=float)):
        found = fit.impute(form(nothing))
        for name in nothing:
            cells = found[name].to_pylist() if isinstance(found, pa.Table) else list(found[name])
            assert cells == list(expected[name])


def test_rows_in_chunks_are_filled_in_alike(fitted, monkeypatch):
    fit = fitted("joint", "Exact")
    holed = DATA[0].mask(np.random.default_rng(9).random(DATA[0].shape) < 0.3)
    whole = fit.impute(holed)
    monkeypatch.setattr("bayesgen.fitting.unobserved.TABLE_CELLS", 60)
    pd.testing.assert_frame_equal(fit.impute(holed), whole, rtol=1e-12)
    assert not whole.isna().to_numpy().any()
    pd.testing.assert_frame_equal(whole.where(holed.notna()), holed.where(holed.notna()), check_dtype=False)


def test_what_cannot_be_filled_in_is_refused():
    X, y = {"t": [True, True, False, False], "s": [True, True, True, True]}, list("aabb")
    certain = bg.fit(bg.NaiveBayes(), X, y, method=bg.MLE())
    with pytest.raises(bg.BayesgenError, match="Row 1 is impossible under every class"):
        certain.impute({"t": [None, None], "s": [True, False]})
    rng = np.random.default_rng(10)
    own = bg.fit(
        bg.GenerativeProgram(chained, classes=2),
        {"x": rng.normal(size=9), "z": rng.normal(size=9)},
        np.arange(9) % 2,
        method=bg.MAP(),
    )
    with pytest.raises(bg.BayesgenError, match="GenerativeClassifier"):
        own.impute({"x": [1.0], "z": [None]})
    both = bg.fit(bg.average([bg.NaiveBayes(), bg.NaiveBayes(structure="average")]), X, y, method=bg.Exact())
    with pytest.raises(bg.BayesgenError, match=r"fit\.best"):
        both.impute({"t": [None], "s": [True]})
    assert both.best.impute({"t": [None], "s": [True]})["s"].tolist() == [True]
    for num_draws in (2.5, -1, True, "two"):
        with pytest.raises(bg.BayesgenError, match="num_draws must be a whole number"):
            certain.impute(X, num_draws)
    words = scipy.sparse.csr_array(rng.poisson(1.0, (9, 4)))
    text = bg.fit(bg.NaiveBayes(), words, np.arange(9) % 2, method=bg.Exact())
    assert (text.impute(words) != words).nnz == 0


@pytest.mark.parametrize("num_draws", [0, 2])
def test_integers_of_frames_and_arrays_of_named_columns_are_filled_in(num_draws):
    rng, y = np.random.default_rng(11), np.arange(24) % 2
    X = pd.DataFrame({"size": rng.normal(size=24), "visits": rng.poisson(3 + 2 * y)})
    fit = bg.fit(bg.NaiveBayes({"visits": bg.GammaPoisson()}), X, y, method=bg.Exact())
    visits = pd.array([1, None, 4], dtype="Int64")
    pandas = pd.DataFrame({"size": [0.5, 1.0, None], "visits": visits}, index=[7, 9, 9])
    small = pl.DataFrame({"size": [0.5, 1.0, None], "visits": pl.Series([1, None, 4], dtype=pl.Int8)})
    array = [[0.5, 1.0], [1.0, None], [None, 4.0]]
    answers = [fit.impute(data, num_draws=num_draws, seed=3) for data in (pandas, small, array)]
    last = [answer if num_draws == 0 else answer[-1] for answer in answers]
    expected = np.asarray(last[2], float)
    assert not np.isnan(expected).any() and expected[0].tolist() == [0.5, 1.0] and expected[2, 1] == 4.0
    for frame in last[:2]:
        np.testing.assert_allclose(frame.to_numpy().astype(float), expected, rtol=1e-12)
    if num_draws:
        assert last[0]["visits"].dtype == "Int64" and last[0].index.tolist() == [7, 9, 9]
        assert last[1]["visits"].dtype == pl.Int8
