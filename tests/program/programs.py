"""Programs of every shape that the conventions allow, with data for them."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro import handlers
from numpyro.infer.util import log_density

import bayesgen as bg
from bayesgen.data import read_table
from bayesgen.posteriors import Draws
from bayesgen.runtime import Traced

ROWS = 17


def program(function, classes=3, **options):
    return bg.GenerativeProgram(function, classes=classes, **options)


def probabilities(size=3):
    return numpyro.sample("p", dist.Dirichlet(jnp.ones(size)))


def mixed(n):
    """A normal, a vector of counts, and nothing else: both compressed."""
    p = probabilities()
    mean = numpyro.sample("mean", dist.Normal(0, 3).expand([3]).to_event(1))
    rate = numpyro.sample("rate", dist.Gamma(2.0, 1.0).expand([3, 2]).to_event(2))
    with numpyro.plate("rows", n):
        y = numpyro.sample("y", dist.Categorical(p))
        numpyro.sample("x", dist.Normal(mean[y], 1.3))
        numpyro.sample("counts", dist.Poisson(rate[y]).to_event(1))


def entangled(n):
    """`z` depends on the attribute `x`, and is therefore evaluated row by row; `t` has no statistic."""
    p = probabilities()
    mean = numpyro.sample("mean", dist.Normal(0, 3).expand([3]).to_event(1))
    slope = numpyro.sample("slope", dist.Normal(0, 1))
    with numpyro.plate("rows", n):
        y = numpyro.sample("y", dist.Categorical(p))
        x = numpyro.sample("x", dist.Normal(mean[y], 1.3))
        numpyro.sample("z", dist.Normal(slope * x + mean[y], 0.7))
        numpyro.sample("t", dist.StudentT(4.0, mean[y], 2.0))


def outer_plate(n):
    """Instances at dim -2, with a plate of features inside."""
    p = probabilities()
    with numpyro.plate("features", 2, dim=-1), numpyro.plate("classes", 3, dim=-2):
        mean = numpyro.sample("mean", dist.Normal(0, 3))
    with numpyro.plate("rows", n, dim=-2):
        y = numpyro.sample("y", dist.Categorical(p))
        with numpyro.plate("features", 2, dim=-1):
            numpyro.sample("x", dist.Normal(mean[y[:, 0]], jnp.array([1.3, 0.6])))


def inner_plate(n):
    """Instances at dim -1, inside a plate of features at dim -2."""
    p = probabilities()
    with numpyro.plate("features", 2, dim=-2):
        mean = numpyro.sample("mean", dist.Normal(0, 3).expand([2, 1]).mask(True))
        shift = numpyro.sample("shift", dist.Normal(0, 1).expand([2, 1]))
    with numpyro.plate("rows", n, dim=-1):
        y = numpyro.sample("y", dist.Categorical(p))
        with numpyro.plate("features", 2, dim=-2):
            numpyro.sample("x", dist.Normal(mean + shift * y, 1.3))


def handled(n):
    """Scale and mask handlers around attributes."""
    p = probabilities()
    mean = numpyro.sample("mean", dist.Normal(0, 3).expand([3]).to_event(1))
    with numpyro.plate("rows", n):
        y = numpyro.sample("y", dist.Categorical(p))
        with handlers.scale(scale=0.37):
            numpyro.sample("x", dist.Normal(mean[y], 1.3))
        with handlers.mask(mask=y != 1):
            numpyro.sample("z", dist.Normal(2 * mean[y], 0.7))
        numpyro.sample("w", dist.Normal(jnp.zeros(2), 1.0).mask(jnp.array([True, False])).to_event(1))


def covariate(n, *, trials, dose):
    """A binomial whose number of trials, and a normal whose dose, belong to the row."""
    p = probabilities()
    success = numpyro.sample("success", dist.Beta(2, 2).expand([3]).to_event(1))
    with numpyro.plate("rows", n):
        y = numpyro.sample("y", dist.Categorical(p))
        numpyro.sample("hits", dist.Binomial(trials.astype(int), success[y]))
        numpyro.sample("x", dist.Normal(success[y] * dose, 1.0))


def unlabelled(n):
    mean = numpyro.sample("mean", dist.Normal(0, 3))
    scale = numpyro.sample("scale", dist.HalfNormal(2.0))
    with numpyro.plate("rows", n):
        numpyro.sample("x", dist.Normal(mean, scale))


def no_covariates(rng):
    return {}


def doses(rng):
    return {"trials": rng.integers(5, 9, ROWS).astype(float), "dose": rng.normal(0, 1, ROWS)}


def vector(rng, *shape):
    return rng.normal(0, 2, shape)


PROGRAMS = {
    # function: (compressed sites, row-wise sites, covariates, latents besides p, rows)
    mixed: (
        ("x", "counts"),
        (),
        no_covariates,
        lambda rng: {"mean": vector(rng, 3), "rate": rng.gamma(2.0, 1.0, (3, 2))},
        lambda rng: {"x": vector(rng, ROWS), "counts": rng.poisson(2.0, (ROWS, 2))},
    ),
    entangled: (
        ("x",),
        ("z", "t"),
        no_covariates,
        lambda rng: {"mean": vector(rng, 3), "slope": 0.7},
        lambda rng: {"x": vector(rng, ROWS), "z": vector(rng, ROWS), "t": vector(rng, ROWS)},
    ),
    outer_plate: (
        ("x",),
        (),
        no_covariates,
        lambda rng: {"mean": vector(rng, 3, 2)},
        lambda rng: {"x": vector(rng, ROWS, 2)},
    ),
    inner_plate: (
        ("x",),
        (),
        no_covariates,
        lambda rng: {"mean": vector(rng, 2, 1), "shift": vector(rng, 2, 1)},
        lambda rng: {"x": vector(rng, 2, ROWS)},
    ),
    handled: (
        ("x", "z", "w"),
        (),
        no_covariates,
        lambda rng: {"mean": vector(rng, 3)},
        lambda rng: {"x": vector(rng, ROWS), "z": vector(rng, ROWS), "w": vector(rng, ROWS, 2)},
    ),
    covariate: (
        ("hits",),
        ("x",),
        doses,
        lambda rng: {"success": rng.beta(2.0, 2.0, 3)},
        lambda rng: {"hits": rng.integers(0, 5, ROWS), "x": vector(rng, ROWS)},
    ),
}


class Bound(dict):
    """Function -> program, made when it is first asked for."""

    def __init__(self, make):
        self.make = make

    def __missing__(self, function):
        self[function] = self.make(function)
        return self[function]


BOUND = Bound(program)  # shared, so that each is probed once


every_program = pytest.mark.parametrize("function", PROGRAMS, ids=lambda function: function.__name__)
some_programs = pytest.mark.parametrize(
    "function",
    [
        pytest.param(function, id=function.__name__, marks=[pytest.mark.slow] * (function is not covariate))
        for function in PROGRAMS
    ],
)


def data_of(function, rng):
    """Latents, rows, labels and covariates, at random."""
    _, _, covariates, latents, rows = PROGRAMS[function]
    p = {"p": rng.dirichlet(np.full(3, 4.0))}
    return p | latents(rng), rows(rng), rng.integers(0, 3, ROWS), covariates(rng)


def by_numpy(function):
    """A function of JAX, traced and evaluated by NumPy: compiling it would take longer than what it is used for."""
    return lambda *arguments: Traced.of(function, *arguments)(*arguments)


# what a reference is compiled with: it runs once or twice, so that optimising it would take longer than running it
QUICKLY = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}


def reference_density(function, size):
    """NumPyro's own joint density of everything, through its own handlers: (values, covariates) -> number."""
    return by_numpy(lambda values, covariates: log_density(function, (size,), covariates, values)[0])


compiled_density = functools.cache(lambda function: reference_density(function, ROWS))


def numpyro_density(function, latents, rows, y, covariates):
    label = np.asarray(y).reshape((ROWS, 1) if function is outer_plate else ROWS)
    with jax.enable_x64(True):
        return float(compiled_density(function)({**latents, **rows, "y": label}, covariates))


def rows_first(program, rows):
    """Values by site with the rows first."""
    sites = dict(program.for_covariates({}).structure.attributes)
    return {name: np.moveaxis(value, sites[name].position, 0) for name, value in rows.items()}


def fit_at(program, latents, X, y=None):
    """A fit whose draws are all one process."""
    shape = (2, 10)
    draws = {name: np.broadcast_to(value, (*shape, *np.shape(value))) for name, value in latents.items()}
    stats = {"diverging": np.zeros(shape, bool), "potential_energy": np.zeros(shape)}
    schema = program.infer_schema(read_table(X, y), y, bg.Schema())
    concrete = program.concrete(schema)
    return bg.Fit(
        model=program,
        schema=schema,
        method=bg.NUTS(),
        posterior=Draws(concrete.bind(schema), draws, draws, stats),
        concrete=concrete,
        attributes={"total_weight": float(len(next(iter(X.values()))))},
    )
