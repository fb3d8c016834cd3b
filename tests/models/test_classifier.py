"""Blocks that one states oneself."""

import numpy as np
import numpyro.distributions as dist
import pytest

import bayesgen as bg
from bayesgen.records import fill, record


@pytest.mark.parametrize(
    ("blocks", "match"),
    [
        ([("one", ["a", "b"]), ("two", ["b"])], "Column 'b' is in blocks 'one' and 'two'.*count twice"),
        ([("one", ["a", "b", "a"])], "Column 'a' is twice in block 'one'.*count twice"),
    ],
)
def test_a_column_that_would_count_twice_is_refused(blocks, match):
    with pytest.raises(bg.ModelError, match=match):
        bg.GenerativeClassifier([(name, bg.NormalInverseGamma(), columns) for name, columns in blocks])


CLASHING = {
    "a parameter": [("b", bg.NormalInverseGamma(), ["u"]), ("b_mean", bg.BetaBernoulli(), ["v"])],
    "a factor of a parameter": [("b", bg.NormalInverseWishart(), ["u"]), ("b_scale_tril", bg.GammaPoisson(), ["v"])],
    "a hyperparameter": [("b", bg.BetaBernoulli(dist.Gamma(2.0, 1.0), 1.0), ["u"]), ("b_a", bg.GammaPoisson(), ["v"])],
    "a covariate": [("b_total", bg.GammaPoisson(), ["v"]), ("b", bg.DirichletMultinomial(), ["u", "w"])],
}


@pytest.mark.parametrize("name", CLASHING)
def test_a_block_named_like_a_parameter_of_another_is_refused(name):
    with pytest.raises(bg.ModelError, match=r"block cannot be called 'b_.* of block 'b'"):
        bg.GenerativeClassifier(CLASHING[name])


def test_the_name_of_the_class_probabilities_is_taken():
    with pytest.raises(bg.ModelError, match=r"'class_probs'.*taken"):
        bg.GenerativeClassifier([("class_probs", bg.BetaBernoulli(), ["u"])])


@record
class Unscaled(bg.NormalInverseGamma):
    """A family of real columns without defaults that depend on the data."""

    scaled = False

    def __init__(self) -> None:
        stated = bg.NormalInverseGamma(0.0, 1.0, 2.0, 1.0)
        fill(self, **stated.hyperparameters, pooling=stated.pooling)


def test_a_real_family_need_not_look_at_the_scale_of_the_columns():
    X, y = np.array([[1.0], [2.0], [2.5], [7.0], [9.0]]), list("aabbb")
    models = [bg.NaiveBayes(family) for family in (Unscaled(), bg.NormalInverseGamma(0.0, 1.0, 2.0, 1.0))]
    one, other = (bg.predict(bg.fit(m, X, y, method=bg.Exact()), X, rule=bg.BMA()).probabilities for m in models)
    np.testing.assert_array_equal(one, other)
    assert one.shape == (5, 2)
