"""Broken conventions are refused, with the remedy."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro import handlers

from bayesgen.errors import DataError, ModelError
from program.programs import probabilities, program


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
        (discrete, "latent site 'k' is discrete"),
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
        program(latent).read(None, {"x": np.zeros(3)})

    def reparametrised(n):
        p = probabilities()
        with numpyro.plate("rows", n):
            y = numpyro.sample("y", dist.Categorical(p))
            with handlers.reparam(config={"x": numpyro.infer.reparam.LocScaleReparam(0)}):
                numpyro.sample("x", dist.Normal(1.0 * y, 2.0))

    with pytest.raises((ModelError, DataError), match="x"):
        program(reparametrised).read(None, {"x": np.zeros(3)})


def test_covariates_belong_to_attributes_and_to_their_own_row():
    def of_label(n, *, dose):
        p = probabilities()
        with numpyro.plate("rows", n):
            y = numpyro.sample("y", dist.Categorical(logits=jnp.log(p) * dose[:, None]))
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
        (of_label, "'dose' enters the distribution of the label"),
        (of_latent, "'dose' enters the distribution of the latents"),
        (of_neighbour, "'x' are not exchangeable"),
    ]:
        with pytest.raises(ModelError, match=match):
            program(function).plan  # noqa: B018
