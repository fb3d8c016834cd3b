"""Mixtures: models whose labels are all unknown, against scikit-learn, SciPy and enumeration."""

import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import bayesgen as bg

close = np.testing.assert_allclose
FORMS = ("full", "tied", "diag", "spherical")


def in_two_groups(n):
    """A program of two classes."""
    share = numpyro.sample("share", dist.Beta(2, 2))
    center = numpyro.sample("center", dist.Normal(0, 3).expand([2]).to_event(1))
    with numpyro.plate("rows", n):
        y = numpyro.sample("y", dist.Bernoulli(share))
        numpyro.sample("x", dist.Normal(center[y], 1.0))


def without_groups(n):
    """A program without classes."""
    center = numpyro.sample("center", dist.Normal(0, 3))
    with numpyro.plate("rows", n):
        numpyro.sample("x", dist.Normal(center, 1.0))


@pytest.fixture(scope="module")
def blobs():
    """Three groups that overlap a little, of correlated columns of unlike scales."""
    rng = np.random.default_rng(11)
    codes = np.arange(211) % 3
    factor = np.asarray([[1.0, 0.0], [0.6, 0.5]])
    X = rng.normal(size=(211, 2)) @ factor.T + np.asarray([[0.0, 0.0], [3.0, 1.0], [0.5, 3.5]])[codes]
    return X * [1.0, 20.0] + [0.0, 100.0], codes


# --- what a mixture is ------------------------------------------------------------------------------------------


def test_mixtures_are_equal_by_content():
    one, two = (bg.Mixture(bg.GaussianDiscriminant("tied"), 3) for _ in range(2))
    assert one == two and hash(one) == hash(two) and one != bg.Mixture(bg.GaussianDiscriminant("tied"), 4)
    assert repr(one).startswith("Mixture(model=GaussianDiscriminant(covariance='tied'")
    program = bg.GenerativeProgram(in_two_groups, classes=["low", "high"])
    assert bg.Mixture(program, 2) == bg.Mixture(program, 2)


@pytest.mark.parametrize("number", [1, 0, -3, 2.0, True, None, "two"])
def test_a_mixture_has_a_whole_number_of_components(number):
    with pytest.raises(bg.ModelError, match="num_components must be a whole number and at least 2"):
        bg.Mixture(bg.NaiveBayes(), number)


def test_what_has_no_components_is_refused_by_name():
    own = bg.GenerativeProgram(in_two_groups, classes=2)
    for message, model in {
        "made of a model or a GenerativeProgram": bg.NaiveBayes,
        "components of a mixture are no mixtures": bg.Mixture(bg.NaiveBayes(), 2),
        "label=None has none: sample the component": bg.GenerativeProgram(without_groups, label=None),
        r"2 classes, and the mixture 3 components.*Mixture\(program, 2\)": own,
        "got AverageModel": bg.average([bg.NaiveBayes(), bg.GaussianDiscriminant()]),
    }.items():
        with pytest.raises(bg.ModelError, match=message):
            bg.Mixture(model, 3)
    with pytest.raises(bg.ModelError, match="Use structure='full'"):
        bg.fit(bg.Mixture(bg.NaiveBayes(structure="average"), 2), [[1.0], [2.0]], method=bg.MAP())
    with pytest.raises(bg.ModelError, match="2 fixed class probabilities, but 3 classes"):
        bg.fit(bg.Mixture(bg.NaiveBayes(class_prior=[0.5, 0.5]), 3), [[1.0], [2.0]], method=bg.MAP())


def test_labels_are_refused_with_what_takes_them(blobs):
    mixture = bg.Mixture(bg.NaiveBayes(), 2)
    chunks = [([[1.0], [2.0]],), ([[3.0], [4.0]], ["a", "b"])]
    for call in (
        lambda: bg.fit(mixture, *blobs, method=bg.MAP()),
        lambda: bg.fit(mixture, chunks, method=bg.MAP()),
        lambda: bg.summarize(mixture, *blobs),
    ):
        with pytest.raises(bg.DataError, match=r"takes no y.*None or NaN where a label is missing"):
            call()
    with pytest.raises(bg.DataError, match=r"components 0 to 1: leave Schema\(classes=...\) out"):
        bg.fit(mixture, blobs[0], method=bg.MAP(), schema=bg.Schema(classes=["a", "b"]))


def test_exact_refuses_a_mixture(blobs):
    with pytest.raises(bg.FitError, match=r"Exact\(\).*NUTS"):
        bg.fit(bg.Mixture(bg.NaiveBayes(), 2), blobs[0], method=bg.Exact())
