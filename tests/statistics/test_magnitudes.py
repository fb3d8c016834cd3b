"""Columns whose squares overflow or vanish are refused by name: no variance of theirs could be computed."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from scipy.stats import norm

import bayesgen as bg
from bayesgen.runtime import chunking
from bayesgen.statistics import NormalLikelihood
from bayesgen.statistics.summaries import check_rows

rng = np.random.default_rng(5)
ROWS = 31
Y = np.where(np.arange(ROWS) % 3, "near", "far")
BASE = {name: rng.normal(Y == "far", 1.0) for name in ("depth", "width", "mass")}
MODELS = [bg.NaiveBayes(), *(bg.GaussianDiscriminant(name) for name in ("full", "tied", "diag", "spherical"))]
METHODS = [bg.MLE(), bg.MAP(), bg.Exact()]


def scaled(scale):
    return BASE | {"width": BASE["width"] * scale}


def power_of(message):
    """The power of ten that a message says the values have."""
    return int(message.split("about ")[1].split(",")[0].split("e")[1])


@pytest.mark.parametrize("method", METHODS, ids=lambda method: type(method).__name__)
@pytest.mark.parametrize("model", MODELS, ids=repr)
@pytest.mark.parametrize("exponent, happens", [(200, "overflow"), (-200, "vanish")])
def test_a_column_of_another_order_is_refused_by_name(model, method, exponent, happens):
    with pytest.raises(bg.DataError, match=rf"Column 'width' .*{happens}.*divide it by") as found:
        bg.fit(model, scaled(10.0**exponent), Y, method=method)
    assert abs(power_of(str(found.value)) - exponent) <= 1


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_the_remedy_of_the_message_is_one(model):
    with pytest.raises(bg.DataError) as found:
        bg.fit(model, scaled(1e200), Y, method=bg.Exact())
    divisor = float(str(found.value).split("divide it by ")[1].split(")")[0])
    X = scaled(1e200)
    fit = bg.fit(model, X | {"width": X["width"] / divisor}, Y, method=bg.Exact())
    assert np.isfinite(fit.log_evidence)


HUGE = np.asarray([1e200, -1e200] * 15 + [0.0])
TINY = np.asarray([1e-200, -1e-200, 3e-200] * 10 + [0.0])


@pytest.mark.parametrize(
    "values", [HUGE, TINY, np.full(ROWS, 1e308), np.full(ROWS, 5e-324), np.linspace(-1, 1, ROWS) * 1.7e308]
)
@pytest.mark.parametrize("model", MODELS[:2], ids=repr)
def test_whatever_their_mean_is(values, model):
    with pytest.raises(bg.DataError, match="'width'"):
        bg.fit(model, BASE | {"width": values}, Y, method=bg.MAP())


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_classes_that_lie_far_apart(model):
    with pytest.raises(bg.DataError, match=r"'width'.*overflow"):
        bg.fit(model, BASE | {"width": np.where(Y == "far", 1e160, -1e160)}, Y, method=bg.Exact())


def test_chunks_that_lie_far_apart():
    chunks = [(scaled(1.0), Y), (BASE | {"width": BASE["width"] + 1e170}, Y)]
    with pytest.raises(bg.DataError, match=r"'width'.*overflow"):
        bg.fit(bg.GaussianDiscriminant("tied"), chunks, method=bg.Exact())


def test_columns_of_zeros_are_constant_and_no_more():
    with pytest.warns(bg.ConstantColumnWarning, match="width"):
        bg.fit(bg.NaiveBayes(), BASE | {"width": np.zeros(ROWS)}, Y, method=bg.Exact())


def sizes(n):
    """Two columns of normal sizes."""
    mean = numpyro.sample("mean", dist.Normal(0.0, 10.0).expand([2, 2]).to_event(2))
    with numpyro.plate("animals", n):
        y = numpyro.sample("y", dist.Bernoulli(0.5))
        numpyro.sample("size", dist.Normal(jnp.asarray(mean)[y], 1.0).to_event(1))


@pytest.mark.parametrize("scale, happens", [(1e200, "overflow"), (1e-200, "vanish")])
def test_an_attribute_of_a_program(scale, happens):
    X = {"size": np.stack([BASE["depth"], BASE["width"] * scale], 1)}
    program = bg.GenerativeProgram(sizes, classes=["near", "far"])
    for method in (bg.MLE(), bg.MAP(), bg.NUTS()):
        with pytest.raises(bg.DataError, match=rf"Attribute 'size', column 1, .*{happens}"):
            bg.fit(program, X, Y, method=method)


@pytest.mark.parametrize("family", [bg.NormalInverseGamma(), bg.NormalInverseWishart()], ids=repr)
def test_a_family_used_alone(family):
    X = np.stack([BASE["depth"], BASE["width"] * 1e200], 1)
    with pytest.raises(bg.DataError, match=r"Column 1 .*overflow"):
        family.update(X)
    with pytest.raises(bg.DataError, match=r"The data .*vanish"):
        bg.NormalInverseGamma().log_evidence(BASE["width"] * 1e-200)


ASKED = [(bg.MLE(), bg.PlugIn()), (bg.Exact(), bg.BMA()), (bg.Exact(), bg.ConditionalAverage(num_draws=100))]


@pytest.mark.parametrize("model", [bg.NaiveBayes(structure="average"), *MODELS], ids=repr)
@pytest.mark.parametrize("unit, value", [(1.0, 1e153), (1.0, -1e300), (1e-20, 1e133), (1e-120, 1e35)])
def test_a_new_row_beyond_squares_is_refused_by_name(model, unit, value):
    fit = bg.fit(model, scaled(unit), Y, method=bg.Exact())
    rows = {name: np.append(values, 0.0) for name, values in scaled(unit).items()}
    rows["width"][7] = value
    with pytest.raises(bg.DataError, match=rf"Column 'width' has {value:.3g} at row 7, .*overflow".replace("+", r"\+")):
        bg.predict(fit, rows, rule=bg.BMA())


@pytest.mark.parametrize("method, rule", ASKED, ids=repr)
@pytest.mark.parametrize("unit", [1e-120, 1e-20, 1.0, 1e20, 1e150])
@pytest.mark.parametrize("model", [MODELS[0], MODELS[1]], ids=repr)
def test_what_is_not_refused_has_probabilities(model, unit, method, rule):
    fit = bg.fit(model, scaled(unit), Y, method=method)
    rows = {name: np.zeros(2) for name in BASE} | {"width": np.asarray([1.0, -1.0]) * min(1e139 * unit, 9e151)}
    assert np.isfinite(bg.predict(fit, rows, rule=rule).probabilities).all()


def test_single_precision_and_far_rows_in_blocks(monkeypatch):
    monkeypatch.setattr(chunking, "TABLE_CELLS", 1)
    monkeypatch.setattr(chunking, "LEAST_ROWS", 8)
    fit = bg.fit(bg.NaiveBayes(), scaled(1.0), Y, method=bg.Exact())
    largest = {name: np.full(20, np.finfo(np.float32).max) for name in BASE}
    assert np.isfinite(bg.predict(fit, largest, rule=bg.BMA()).probabilities).all()
    rows = {name: np.resize(values, 40) for name, values in BASE.items()}
    rows["mass"][33] = 1e200
    with pytest.raises(bg.DataError, match=r"'mass' .*at row 33"):
        bg.predict(fit, rows, rule=bg.BMA())


def test_a_new_row_of_a_program():
    X = {"size": np.stack([BASE["depth"], BASE["width"]], 1)}
    fit = bg.fit(bg.GenerativeProgram(sizes, classes=["near", "far"]), X, Y, method=bg.MAP())
    with pytest.raises(bg.DataError, match=r"Attribute 'size', column 1, has 1e\+180 at row 0"):
        bg.predict(fit, {"size": [[0.0, 1e180]]}, rule=bg.PlugIn())


def walks(n):
    """Sequences of two hidden levels."""
    mean = numpyro.sample("mean", dist.Normal(0.0, 5.0).expand([2]).to_event(1))
    with numpyro.plate("walks", n):
        numpyro.sample("x", bg.HiddenMarkov(np.full(2, 0.5), np.full((2, 2), 0.5), dist.Normal(mean, 1.0), 3))


def test_a_step_of_a_new_sequence():
    rows = [[0.1, 0.2], [3.0, 0.1, 2.9], [3.1]]
    model = bg.GenerativeClassifier([("walk", bg.DirichletHiddenMarkov(1), ["east"])], class_prior=None)
    fit = bg.fit(model, {"east": rows}, method=bg.MAP(num_starts=1))
    with pytest.raises(bg.DataError, match=r"Column 'east', step 2, has -1e\+200 at row 1"):
        bg.predict(fit, {"east": [[0.1], [0.2, 0.3, -1e200]]}, rule=bg.PlugIn())
    program = bg.GenerativeProgram(walks, label=None)
    fit = bg.fit(program, {"x": np.array([[0.1, 3.0, 2.9], [3.1, 0.0, 0.2]])}, method=bg.MAP())
    with pytest.raises(bg.DataError, match=r"Attribute 'x', step 1, has 1e\+200 at row 0"):
        bg.predict(fit, {"x": [[0.1, 1e200, 0.1]]}, rule=bg.PlugIn())


@pytest.mark.parametrize("offset", [0.0, 2.0**20, 2.0**30, 2.0**40])
def test_an_offset_costs_the_digits_that_it_has(offset):
    """Cells in units of 2^-12, so that they are exact whatever the offset: what is lost is lost in the means."""
    values = {name: np.round(column * 2**12) / 2**12 for name, column in BASE.items()}
    moved = {name: column + offset for name, column in values.items()}
    near, far = (
        bg.predict(bg.fit(bg.NaiveBayes(), X, Y, method=bg.Exact()), X, rule=bg.BMA()).probabilities
        for X in (values, moved)
    )
    np.testing.assert_allclose(far, near, rtol=0, atol=20 * max(1.0, offset) * np.finfo(float).eps)


@pytest.mark.parametrize("scale", [1.0, 2.0**-400, 2.0**400])
@pytest.mark.parametrize("distance", [0.0, 3.0, 50.0, 1e3, 1e9])
def test_densities_of_near_and_far_classes_have_equal_digits(distance, scale):
    draws = np.random.default_rng(2)
    loc = (1e3 + distance * draws.uniform(-1, 1, (3, 4))) * scale
    deviations = draws.uniform(0.5, 2.0, (3, 4)) * scale
    rows = loc[draws.integers(0, 3, 40)] + 3.0 * scale * draws.normal(size=(40, 4))
    density = NormalLikelihood().density({"loc": loc, "scale": deviations})
    cells = norm.logpdf(rows[:, None] / scale, loc / scale, deviations / scale) - np.log(scale)
    np.testing.assert_allclose(density.log_prob(rows), cells.sum(-1), rtol=1e-12, atol=2e-11)
    observed = draws.random(rows.shape) < 0.7
    expected = np.where(observed[:, None], cells, 0.0).sum(-1)
    np.testing.assert_allclose(
        density.log_prob(np.where(observed, rows, np.nan), observed), expected, rtol=1e-12, atol=2e-11
    )


def test_the_column_that_is_too_far_away_is_named_beside_one_in_tiny_units():
    values, variance = np.array([[1e-160, 0.0], [0.0, -1e153]]), np.array([1e-306, 1.0])
    with pytest.raises(bg.DataError, match=r"^1 has -1e\+153 at row 1"):
        check_rows(values, variance, lambda place: str(place[0]))
