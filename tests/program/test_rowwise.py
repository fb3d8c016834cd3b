"""Sites that no statistic summarises: evaluated row by row, beside others that are compressed, and never decomposed."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import bayesgen as bg
from bayesgen.data import Rows
from bayesgen.program import LogPriorKind, ProgramDensity, StatisticsTerm
from bayesgen.recognition import summarize_rows
from bayesgen.runtime import inner_jaxprs
from program.programs import Bound, reference_density

sample, normal, exp = numpyro.sample, dist.Normal, jnp.exp
COVARIANCE = np.asarray([[2.0, 0.6], [0.6, 1.1]])


def covariance(a):
    return exp(a)[..., None, None] * COVARIANCE


def student(y, a, b):
    sample("x", dist.StudentT(exp(b[y]), a[y], 1.3))


def mixture(y, a, b):
    parts = dist.Normal(jnp.stack([a[y], b[y]], -1), 0.7)
    sample("x", dist.MixtureSameFamily(dist.Categorical(probs=np.asarray([0.3, 0.7])), parts))


def dispersed(y, a, b):
    sample("x", dist.NegativeBinomial2(exp(a[y]), exp(b[y])))


def tree(y, a, b):
    """Tree-augmented naive Bayes: a binary attribute has another as parent besides the class."""
    x = sample("x", dist.Bernoulli(logits=a[y]))
    sample("z", dist.Bernoulli(logits=jnp.where(x == 1, b[y], a[y])))


def autoregressive(y, a, b):
    """Each number depends on the one before it."""
    last = sample("x0", normal(a[y], 1.0))
    for index in (1, 2):
        last = sample(f"x{index}", normal(a[y] + jnp.tanh(b[y]) * last, 0.8))


def regressed(y, a, b):
    """A joint normal whose mean has another attribute in it, by precision; and one by covariance."""
    x = sample("x", normal(a[y], 1.0))
    mean = jnp.stack([b[y] * x, a[y]], -1)
    sample("z", dist.MultivariateNormal(mean, precision_matrix=covariance(b[y])))
    sample("w", dist.MultivariateNormal(-mean, covariance_matrix=covariance(a[y])))


def heavy(y, a, b):
    """A multivariate Student-t, its factor computed in the program; with sites that are compressed."""
    sample("x", dist.Poisson(exp(a[y])))
    sample("z", dist.MultivariateStudentT(5.0, jnp.stack([a[y], b[y]], -1), jnp.linalg.cholesky(covariance(b[y]))))
    sample("w", dist.MultivariateNormal(np.zeros(2), covariance_matrix=covariance(a[y])))


PROGRAMS = {
    # attributes: (compressed, row by row)
    student: ((), ("x",)),
    mixture: ((), ("x",)),
    dispersed: ((), ("x",)),
    tree: (("x",), ("z",)),
    autoregressive: (("x0",), ("x1", "x2")),
    regressed: (("x",), ("z", "w")),
    heavy: (("x", "w"), ("z",)),
}


def program(attributes):
    def function(n):
        a, b = (sample(name, normal().expand([3]).to_event(1)) for name in "ab")
        with numpyro.plate("rows", n):
            attributes(sample("y", dist.Categorical(probs=np.asarray([0.5, 0.2, 0.3]))), a, b)

    return bg.GenerativeProgram(function, classes=3)


BOUND = Bound(program)
every_program = pytest.mark.parametrize(
    "attributes",
    [
        pytest.param(
            attributes,
            id=attributes.__name__,
            marks=[pytest.mark.slow] * (attributes in (student, dispersed, autoregressive)),
        )
        for attributes in PROGRAMS
    ],
)


@every_program
def test_what_can_be_compressed_is_and_the_density_is_numpyros(attributes):
    own = BOUND[attributes]
    assert (tuple(dict(own.plan.compressed)), own.plan.rowwise) == PROGRAMS[attributes]
    rng = np.random.default_rng(4)
    y, rows = rng.integers(0, 3, 23), {}
    for name, site in own.structure.attributes:
        shape = (23, *site.row_shape)
        rows[name] = rng.integers(0, 2, shape) if site.discrete else rng.normal(0.3, 1.6, shape)
    latents = {name: rng.normal(0, 0.8, 3) for name in "ab"}
    with jax.enable_x64(True):
        expected = float(reference_density(own.function, 23)({**latents, **rows, "y": y}, {}))
    np.testing.assert_allclose(own.log_density(latents, rows, y), expected, rtol=1e-11)


def decompositions(jaxpr):
    """How many matrices each Cholesky decomposition in a computation takes."""
    found = []
    for equation in jaxpr.eqns:
        if equation.primitive.name == "cholesky":
            found.append(int(np.prod(equation.invars[0].aval.shape[:-2])))
        for inner in inner_jaxprs(equation):
            found += decompositions(inner)
    return found


@pytest.mark.parametrize("attributes", [regressed, pytest.param(heavy, marks=pytest.mark.slow)])
def test_no_row_is_decomposed(attributes):
    own, found = BOUND[attributes], []
    for size in (24, 384):
        values = {name: np.zeros((size, *site.row_shape)) for name, site in own.structure.attributes}
        with jax.enable_x64(True):
            evidence = summarize_rows(own, own.introspection, Rows(values, labels=np.arange(size) % 3)).padded()
            density = ProgramDensity(own, (StatisticsTerm(evidence),), LogPriorKind.SITES)
            found.append(decompositions(jax.make_jaxpr(jax.value_and_grad(density))(jnp.ones(6)).jaxpr))
    assert found[0] == found[1] and found[0] and max(found[0]) <= 3, found
