"""Columns whose squares overflow or vanish are refused by name: no variance of theirs could be computed."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import bayesgen as bg

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
