"""Broken conventions are refused, with the remedy."""

import os
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import polars as pl
import pytest
from numpyro import handlers
from program.programs import probabilities, program

import bayesgen as bg
from bayesgen.errors import DataError, ModelError


def refused(body, match, **options):
    def function(n):
        p = probabilities()
        mean = numpyro.sample("mean", dist.Normal(0, 3).expand([3]).to_event(1))
        with numpyro.plate("rows", n):
            y = numpyro.sample("y", dist.Categorical(p))
            body(n, y, mean)

    with pytest.raises(ModelError, match=match):
        program(function, **options).plan  # noqa: B018


REFUSED = {
    "obs": (
        lambda n, y, m: numpyro.sample("x", dist.Normal(m[y], 1), obs=jnp.zeros(n)),
        "'x' is observed.*obs=",
    ),
    "factor": (
        lambda n, y, m: (numpyro.sample("x", dist.Normal(m[y], 1)), numpyro.factor("f", m[y])),
        "'f' is observed.*factors",
    ),
    "param": (
        lambda n, y, m: numpyro.sample("x", dist.Normal(m[y], numpyro.param("s", 1.0))),
        "param.*'s'.*prior",
    ),
    "no attribute": (lambda n, y, m: None, "no attribute site"),
    "neighbouring attribute": (
        lambda n, y, m: numpyro.sample("x", dist.Normal(jnp.roll(numpyro.sample("w", dist.Normal(m[y], 1)), 1), 1)),
        "'x' are not exchangeable",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_broken_convention_is_refused_with_the_remedy(name):
    refused(*REFUSED[name])


def test_the_plate_must_be_one_of_size_n():
    def without(n):
        numpyro.sample("y", dist.Categorical(jnp.ones(3) / 3).expand([n]))

    def two(n):
        for name in ("one", "two"):
            with numpyro.plate(name, n):
                numpyro.sample(f"x_{name}", dist.Normal(0, 1))

    def subsampled(n):
        with numpyro.plate("rows", n, subsample_size=5):
            numpyro.sample("x", dist.Normal(numpyro.sample("y", dist.Categorical(jnp.ones(3) / 3)), 1))

    def outside(n):
        y = numpyro.sample("y", dist.Categorical(jnp.ones(3) / 3))
        with numpyro.plate("rows", n):
            numpyro.sample("x", dist.Normal(y, 1))

    def unnamed(n):
        with numpyro.plate("rows", n):
            numpyro.sample("kind", dist.Bernoulli(0.4))
            numpyro.sample("x", dist.Normal(0, 1))

    def discrete(n):
        k = numpyro.sample("k", dist.Poisson(3.0))
        with numpyro.plate("rows", n):
            numpyro.sample("x", dist.Normal(k + numpyro.sample("y", dist.Bernoulli(0.4)), 1))

    def unequal(n):
        with numpyro.plate("rows", n):
            y = numpyro.sample("y", dist.Bernoulli(jnp.linspace(0.1, 0.9, n)))
            numpyro.sample("x", dist.Normal(y, 1))

    for function, match in [
        (without, "exactly one plate whose size is n"),
        (two, r"exactly one plate.*'one', 'two'"),
        (subsampled, "subsample"),
        (outside, "label site 'y' is not in the plate 'rows'"),
        (unnamed, r"no label site 'y'.*\['kind', 'x'\].*label="),
        (discrete, "discrete latent 'k' is Poisson"),
        (unequal, "label 'y' is not exchangeable"),
    ]:
        with pytest.raises(ModelError, match=match):
            program(function, 2).plan  # noqa: B018


def test_a_latent_per_row_and_a_reparametrised_attribute_are_refused():
    """A latent in the plate counts as an attribute, so that the data lack it: the message names it."""

    def latent(n):
        p = probabilities()
        with numpyro.plate("rows", n):
            y = numpyro.sample("y", dist.Categorical(p))
            u = numpyro.sample("u", dist.Normal(0, 1))
            numpyro.sample("x", dist.Normal(u + y, 1))

    with pytest.raises(DataError, match=r"missing \['u'\]"):
        program(latent).read_rows(None, {"x": np.zeros(3)})

    def reparametrised(n):
        p = probabilities()
        with numpyro.plate("rows", n):
            y = numpyro.sample("y", dist.Categorical(p))
            with handlers.reparam(config={"x": numpyro.infer.reparam.LocScaleReparam(0)}):
                numpyro.sample("x", dist.Normal(1.0 * y, 2.0))

    with pytest.raises((ModelError, DataError), match="x"):
        program(reparametrised).read_rows(None, {"x": np.zeros(3)})


def test_covariates_belong_to_labels_and_attributes_of_their_own_row():
    def of_label(n, *, dose):
        p = probabilities()
        with numpyro.plate("rows", n):
            y = numpyro.sample("y", dist.Categorical(logits=jnp.log(p) * (dose - dose.mean())[:, None]))
            numpyro.sample("x", dist.Normal(1.0 * y, 1))

    def of_latent(n, *, dose):
        scale = numpyro.sample("scale", dist.HalfNormal(dose.max()))
        with numpyro.plate("rows", n):
            y = numpyro.sample("y", dist.Categorical(jnp.ones(3) / 3))
            numpyro.sample("x", dist.Normal(1.0 * y, scale))

    def of_neighbour(n, *, dose):
        p = probabilities()
        with numpyro.plate("rows", n):
            y = numpyro.sample("y", dist.Categorical(p))
            numpyro.sample("x", dist.Normal(y * (dose - dose.mean()), 1))

    for function, match in [
        (of_label, "label 'y' are not exchangeable"),
        (of_latent, "'dose' enters the distribution of the latents"),
        (of_neighbour, "'x' are not exchangeable"),
    ]:
        with pytest.raises(ModelError, match=match):
            program(function).plan  # noqa: B018


def labelled(label, num_classes=3):
    """A program whose label is made by `label(p)`, p being K probabilities."""

    def function(n):
        p = probabilities(num_classes)
        with numpyro.plate("rows", n):
            y = numpyro.sample("y", label(p))
            numpyro.sample("x", dist.Normal(1.0 * y, 1.0))

    return function


LABELS = {  # the label site, K of its probabilities, the number of classes given, and what is said where it is refused
    "three categories, two classes": (lambda p: dist.Categorical(p), 3, 2, "values are 0 to 2.*2 classes"),
    "two categories, three classes": (lambda p: dist.Categorical(logits=jnp.log(p)), 2, 3, "values are 0 to 1"),
    "Bernoulli, three classes": (lambda p: dist.Bernoulli(p[0]), 3, 3, "Bernoulli.*0 to 1.*3 classes"),
    "Poisson": (lambda p: dist.Poisson(p[0]), 3, 3, "Poisson.*not whole numbers of a known range"),
    "Normal": (lambda p: dist.Normal(p[0]), 2, 2, "Normal, whose values are not whole"),
    "numbers from one": (lambda p: dist.DiscreteUniform(1, 3), 3, 3, "values are 1 to 3"),
    "Categorical": (lambda p: dist.Categorical(p), 3, 3, None),
    "Bernoulli by logits": (lambda p: dist.Bernoulli(logits=p[0]), 3, 2, None),
    "numbers from zero": (lambda p: dist.DiscreteUniform(0, 2), 3, 3, None),
    "ordered": (lambda p: dist.OrderedLogistic(p[0], jnp.cumsum(p)[:2]), 3, 3, None),
    "Binomial": (lambda p: dist.Binomial(2, p[0]), 3, 3, None),
}


@pytest.mark.parametrize("name", LABELS)
def test_the_label_takes_the_codes_of_the_classes(name):
    label, size, classes, match = LABELS[name]
    if match is None:
        assert program(labelled(label, size), classes).attributes == ("x",)
        return
    with pytest.raises(ModelError, match=match):
        program(labelled(label, size), classes)


def whole(body):
    """A program of a mean and of what `body(n, mean)` does."""

    def function(n):
        body(n, numpyro.sample("mean", dist.Normal(0, 3).expand([3]).to_event(1)))

    return function


def rows_of(n, loc, label=None):
    with numpyro.plate("rows", n):
        y = numpyro.sample("y", label or dist.Categorical(jnp.ones(3) / 3))
        numpyro.sample("x", dist.Normal(loc(y), 1.0))


def inner_label(n, mean):
    with numpyro.plate("rows", n, dim=-2), numpyro.plate("columns", 2):
        y = numpyro.sample("y", dist.Categorical(jnp.ones(3) / 3))
        numpyro.sample("x", dist.Normal(mean[y], 1.0))


AT_ONCE = {
    "if": (lambda n, mean: rows_of(n, lambda y: mean[y] if y[0] > 0 else mean[0]), r"if y\[0\] > 0.*jnp.where"),
    "if on all labels": (lambda n, mean: rows_of(n, lambda y: mean[y] if y else mean[0]), r"if y else.*jnp.where"),
    "float of all labels": (lambda n, mean: rows_of(n, lambda y: float(y) * mean[0]), r"float\(y\).*jnp.where"),
    "if on a latent": (lambda n, mean: rows_of(n, lambda y: mean[y] if mean[0] > 0 else 0.0), "jnp.where"),
    "numpy": (lambda n, mean: rows_of(n, lambda y: np.asarray(mean)[y]), "jax.numpy in place of numpy"),
    "float": (lambda n, mean: rows_of(n, lambda y: float(mean[0]) * y), "jax.numpy in place of numpy"),
    "one name twice": (
        lambda n, mean: (numpyro.sample("mean", dist.Normal()), rows_of(n, lambda y: mean[y])),
        "two sites called 'mean'",
    ),
    "latent a row": (
        lambda n, mean: (numpyro.sample("u", dist.Normal().expand([n])), rows_of(n, lambda y: mean[y])),
        "latent site 'u' has the shape .*a latent or an attribute of each row is sampled",
    ),
    "a site at some sizes": (
        lambda n, mean: (n > 12 and numpyro.sample("u", dist.Normal()), rows_of(n, lambda y: mean[y])),
        r"\['u'\] for some numbers of rows",
    ),
    "Delta": (
        lambda n, mean: (numpyro.sample("u", dist.Delta(1.0)), rows_of(n, lambda y: mean[y])),
        "'u' is Delta.*deterministic",
    ),
    "label in an inner plate": (inner_label, "label site 'y' has the shape .11, 2."),
}


@pytest.mark.parametrize("name", AT_ONCE)
def test_mistakes_are_found_when_the_program_is_made(name):
    body, match = AT_ONCE[name]
    with pytest.raises(ModelError, match=match) as caught:
        program(whole(body))
    assert str(caught.value).count("\n") == 0


def test_the_line_is_named_in_a_folder_whose_name_begins_as_that_of_the_library_too():
    path = f"{Path(bg.__file__).parent}_project{os.sep}script.py"
    source = "def heights(n, mean):\n    return rows_of(n, lambda y: y) if mean[0] > 0 else None"
    exec(compile(source, path, "exec"), globals(), namespace := {})
    with pytest.raises(ModelError, match="line 2 of heights"):
        program(whole(namespace["heights"]))


def test_functions_that_take_data_are_refused():
    def discriminative(X, y=None):
        numpyro.sample("y", dist.Bernoulli(logits=X @ jnp.ones(2)), obs=y)

    with pytest.raises(ModelError, match=r"number of rows n .*takes \(X, y=None\).*def program\(n\)"):
        program(discriminative, 2)


@pytest.mark.parametrize("argument", ["classes", "local"])
def test_lists_that_are_none_are_refused_by_the_name_of_their_argument(argument):
    for value in (pl.LazyFrame({"a": [1.0]}), {"a": 1}, np.array(3.0)):
        with pytest.raises(ModelError, match=f"GenerativeProgram: {argument} must be a list of"):
            bg.GenerativeProgram(lambda n: None, **{argument: value})


def test_labels_that_are_names_are_asked_for_by_name():
    with pytest.raises(DataError, match=r"names such as 'b', 'a'.*classes=\['a', 'b', 'c'\]"):
        bg.fit(program(labelled(dist.Categorical)), {"x": np.zeros(3)}, ["b", "a", "c"], method=bg.MAP())


@pytest.mark.parametrize("model, match", [(bg.NaiveBayes, r"write NaiveBayes\("), (whole, "GenerativeProgram.whole")])
def test_what_is_no_model_yet_is_refused_with_the_remedy(model, match):
    with pytest.raises(DataError, match=match):
        bg.fit(model, [[1.0], [2.0]], [0, 1], method=bg.Exact())


def test_a_deterministic_site_with_an_entry_for_each_row_is_no_parameter():
    def function(n, mean):
        rows_of(n, lambda y: mean[y])
        numpyro.deterministic("of rows", jnp.ones(n))
        numpyro.deterministic("of the program", mean.sum())

    assert program(whole(function)).structure.deterministics == ("of the program",)


def test_a_setting_that_may_be_left_out_is_no_data():
    def program(n, spread=None):
        mean = numpyro.sample("mean", dist.Normal(0, spread or 2.0))
        with numpyro.plate("rows", n):
            numpyro.sample("x", dist.Normal(mean, 1.0))

    assert bg.GenerativeProgram(program, label=None).latents == ("mean",)


def test_covariates_are_found_inside_of_handlers():
    """A latent that is sampled in other coordinates, which are a linear map of its own: the mode is the closed form."""
    x, t = np.array([1.0, -0.5, 2.5, 4.0]), np.array([0.5, 1.0, 2.0, -1.0])

    @handlers.scale(scale=1.0)
    @handlers.reparam(config={"slope": numpyro.infer.reparam.LocScaleReparam(0)})
    def function(n, *, t):
        slope = numpyro.sample("slope", dist.Normal(1.0, 2.0))
        with numpyro.plate("rows", n):
            numpyro.sample("x", dist.Normal(slope * t, 1.0))

    program = bg.GenerativeProgram(function, label=None)
    assert program.covariates == ("t",) and program.latents == ("slope_decentered",)
    fit = bg.fit(program, {"x": x, "t": t}, method=bg.MAP(num_starts=1))
    np.testing.assert_allclose(fit.parameters["slope"], (1 / 4 + t @ x) / (1 / 4 + t @ t), rtol=1e-6)
