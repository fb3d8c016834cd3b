"""Generative programs: conventions, structure, and what is computed from them, against NumPyro itself."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest
from numpyro import handlers
from numpyro.infer import MCMC, NUTS, Predictive
from numpyro.infer.util import log_density

import bayesgen as bg
from bayesgen.errors import DataError, ModelError
from bayesgen.fitting.data import summarize

ROWS = 17
close = np.testing.assert_allclose


@pytest.fixture
def rng():
    return np.random.default_rng(3)


def program(function, classes=3, **options):
    return bg.GenerativeProgram(function, classes=classes, **options)


def probabilities(size=3):
    return numpyro.sample("p", dist.Dirichlet(jnp.ones(size)))


# --- programs ---------------------------------------------------------------------------------------------


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
BOUND = {function: program(function) for function in PROGRAMS}  # shared, so that each is probed once
every_program = pytest.mark.parametrize("function", PROGRAMS, ids=lambda function: function.__name__)


def data_of(function, rng):
    """Latents, rows, labels and covariates, at random."""
    _, _, covariates, latents, rows = PROGRAMS[function]
    p = {"p": rng.dirichlet(np.full(3, 4.0))}
    return p | latents(rng), rows(rng), rng.integers(0, 3, ROWS), covariates(rng)


@functools.cache
def compiled_density(function):
    """NumPyro's own joint density of everything, through its own handlers."""
    return jax.jit(lambda values, covariates: log_density(function, (ROWS,), covariates, values)[0])


def numpyro_density(function, latents, rows, y, covariates):
    label = np.asarray(y).reshape((ROWS, 1) if function is outer_plate else ROWS)
    with jax.enable_x64(True):
        return float(compiled_density(function)({**latents, **rows, "y": label}, covariates))


@every_program
def test_the_plan_says_what_is_compressed(function):
    compressed, rowwise, *_ = PROGRAMS[function]
    plan = BOUND[function].plan
    assert tuple(name for name, _ in plan.compressed) == compressed
    assert plan.rowwise == rowwise == tuple(name for name, _ in plan.reasons)


def test_the_plan_says_why_not():
    reasons = dict(BOUND[entangled].plan.reasons)
    assert "depends on attribute x" in reasons["z"]
    assert "StudentT has no registered statistic" in reasons["t"]
    assert "depend on covariate dose" in dict(BOUND[covariate].plan.reasons)["x"]
    assert BOUND[covariate].plan.inert == ("hits",)


def test_the_structure_is_found_by_tracing():
    structure = BOUND[outer_plate].structure
    assert (structure.plate, structure.axis, structure.label) == ("rows", -2, "y")
    assert structure.attribute["x"].row_shape == (2,)
    assert BOUND[inner_plate].structure.axis == -1
    assert BOUND[inner_plate].structure.attribute["x"].row_shape == (2,)
    assert BOUND[mixed].latents == ("p", "mean", "rate")
    assert BOUND[mixed].attributes == ("x", "counts")
    assert dict(BOUND[mixed].structure.latents) == {"p": (2,), "mean": (3,), "rate": (3, 2)}
    assert BOUND[covariate].covariates == ("trials", "dose")


@every_program
def test_log_density_is_numpyros(function, rng):
    latents, rows, y, covariates = data_of(function, rng)
    expected = numpyro_density(function, latents, rows, y, covariates)
    close(BOUND[function].log_density(latents, {**rows, **covariates}, y), expected, rtol=1e-9)


@every_program
def test_log_joint_is_numpyros_density_row_by_row(function, rng):
    """The density of row i with label k is a difference of two of NumPyro's joint densities."""
    latents, rows, y, covariates = data_of(function, rng)
    own = BOUND[function]
    table = own.log_joint(latents, {**rows, **covariates})
    assert table.shape == (ROWS, 3) and isinstance(table, np.ndarray) and table.dtype == np.float64

    def whole(labels):
        return numpyro_density(function, latents, rows, labels, covariates)

    one = np.array([(label + 1) % 3 for label in y])
    for labels in (y, one):
        prior = whole(labels) - table[np.arange(ROWS), labels].sum()
        close(prior, whole(y) - table[np.arange(ROWS), y].sum(), rtol=1e-9)
    mixed_labels = np.where(np.arange(ROWS) == 5, one, y)
    close(whole(mixed_labels) - whole(y), table[5, one[5]] - table[5, y[5]], rtol=1e-8)


@pytest.mark.parametrize("function", [mixed, outer_plate, inner_plate], ids=lambda function: function.__name__)
def test_simulation_has_the_shapes_of_the_sites(function, rng):
    own = BOUND[function]
    rows = own.simulate(ROWS, seed=4)
    again = own.simulate(ROWS, seed=4)
    assert set(rows) == {*own.attributes, "y"} and rows["y"].shape == (ROWS,)
    assert all((rows[name] == again[name]).all() for name in rows)
    other = own.simulate(ROWS, seed=jax.random.key(5))
    assert any((rows[name] != other[name]).any() for name in own.attributes)
    table = own.log_joint(data_of(function, rng)[0], {k: rows[k] for k in own.attributes})
    assert np.isfinite(table).all()


def test_simulation_takes_covariates(rng):
    latents, _, _, _ = data_of(covariate, rng)
    rows = BOUND[covariate].simulate(ROWS, latents=latents, trials=np.full(ROWS, 4.0), dose=np.full(ROWS, 1e6))
    assert rows["hits"].max() <= 4
    close(rows["x"], 1e6 * latents["success"][rows["y"]], atol=6)


def test_simulation_follows_the_latents_that_are_given():
    means = np.array([-50.0, 0.0, 50.0])
    latents = {"p": np.array([0.2, 0.3, 0.5]), "mean": means, "rate": np.ones((3, 2))}
    rows = program(mixed, ["a", "b", "c"]).simulate(4001, latents=latents)
    codes = np.searchsorted(["a", "b", "c"], rows["y"])
    assert np.abs(rows["x"] - means[codes]).max() < 10
    close(np.bincount(codes) / 4001, latents["p"], atol=0.03)


def test_class_conditionals_are_the_distributions_at_each_class(rng):
    latents, rows, _, _ = data_of(mixed, rng)
    found = BOUND[mixed].class_conditionals(latents)
    assert isinstance(found["x"], dist.Normal)
    close(found["x"].loc, latents["mean"])
    assert found["counts"].batch_shape == (3,) and found["counts"].event_shape == (2,)
    total = np.log(latents["p"])
    with jax.enable_x64(True):
        total = total + found["x"].log_prob(rows["x"][:, None]) + found["counts"].log_prob(rows["counts"][:, None])
        total = np.asarray(total)
    close(BOUND[mixed].log_joint(latents, rows), total, rtol=1e-10)
    assert isinstance(found["x"].loc, np.ndarray)


def test_summaries_are_as_good_as_rows(rng):
    """The compressed density and the row-wise density of the same program are one number."""
    latents, rows, y, _ = data_of(mixed, rng)
    own = BOUND[mixed]
    compressed = own.log_density(latents, rows, y)
    plan = type(own.plan)((), ("x", "counts"), (("x", "told"), ("counts", "told")))
    by_row = own.replace(structure=own.structure, plan=plan)
    close(by_row.log_density(latents, rows, y), compressed, rtol=1e-10)
    close(by_row.log_joint(latents, rows), own.log_joint(latents, rows), rtol=1e-10)


def test_a_program_without_classes(rng):
    own = bg.GenerativeProgram(unlabelled, label=None)
    latents, rows = {"mean": 0.7, "scale": 1.9}, {"x": rng.normal(size=ROWS)}
    expected = float(log_density(unlabelled, (ROWS,), {}, {**latents, **rows})[0])
    assert own.classes == () and own.attributes == ("x",)
    close(own.log_density(latents, rows), expected, rtol=1e-5)
    table = own.log_joint(latents, rows)
    assert table.shape == (ROWS, 1)
    with jax.enable_x64(True):
        close(table[:, 0], dist.Normal(0.7, 1.9).log_prob(rows["x"]), rtol=1e-12)
    assert set(own.simulate(3)) == {"x"}


def test_labels_may_be_of_any_type(rng):
    latents, rows, y, _ = data_of(mixed, rng)
    names = np.array(["oak", "elm", "ash"])
    own = program(mixed, list(names))
    close(own.log_density(latents, rows, names[y]), BOUND[mixed].log_density(latents, rows, y), rtol=1e-12)
    assert own.classes == tuple(names)
    with pytest.raises(DataError, match="yew"):
        own.log_density(latents, rows, np.where(y == 0, "yew", names[y]))


def test_rows_may_be_a_data_frame(rng):
    latents, rows, _y, _ = data_of(entangled, rng)
    frame = pd.DataFrame(rows)[["t", "x", "z"]]
    close(BOUND[entangled].log_joint(latents, frame), BOUND[entangled].log_joint(latents, rows), rtol=1e-12)


# --- refusals ---------------------------------------------------------------------------------------------


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
    "position": (
        lambda n, y, m: numpyro.sample("x", dist.Normal(m[y], jnp.linspace(1, 2, n))),
        "'x' are not exchangeable.*covariate",
    ),
    "neighbour": (
        lambda n, y, m: numpyro.sample("x", dist.Normal(m[jnp.roll(y, 1)], 1)),
        "'x' are not exchangeable",
    ),
    "centred": (
        lambda n, y, m: numpyro.sample("x", dist.Normal(m[y] - m[y].mean(), 1)),
        "'x' are not exchangeable",
    ),
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


def test_labels_and_classes_belong_together():
    for options, match in [
        ({"classes": None}, "needs classes="),
        ({"classes": 3, "label": None}, "drop classes="),
        ({"classes": ["one"]}, "at least two classes"),
    ]:
        with pytest.raises(ModelError, match=match):
            bg.GenerativeProgram(mixed, **options)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda rows: {"x": rows["x"]}, r"missing \['counts'\]"),
        (lambda rows: {**rows, "w": rows["x"]}, r"not in the program \['w'\]"),
        (lambda rows: {**rows, "counts": rows["counts"][:, :1]}, r"'counts'.*shape \(1,\).*\(2,\)"),
        (lambda rows: {**rows, "counts": rows["counts"] - 90}, "'counts'.*outside its support"),
        (lambda rows: {**rows, "counts": rows["counts"] + 0.5}, "'counts'.*outside its support"),
        (lambda rows: {**rows, "x": np.where(np.arange(ROWS) < 2, np.nan, rows["x"])}, "'x' has 2 missing"),
        (lambda rows: {**rows, "x": np.full(ROWS, "tall")}, "'x'"),
    ],
)
def test_bad_rows_are_refused_by_name(change, match, rng):
    latents, rows, _, _ = data_of(mixed, rng)
    with pytest.raises(DataError, match=match):
        BOUND[mixed].log_joint(latents, change(rows))


def test_multinomial_totals_are_a_covariate_and_checked(rng):
    def words(n, *, length):
        p = probabilities()
        theta = numpyro.sample("theta", dist.Dirichlet(jnp.ones(5)).expand([3]).to_event(1))
        with numpyro.plate("rows", n):
            y = numpyro.sample("y", dist.Categorical(p))
            numpyro.sample("x", dist.Multinomial(length.astype(int), theta[y], total_count_max=9))

    own = program(words)
    rows = rng.multinomial(7, np.full(5, 0.2), ROWS) + np.eye(5, dtype=int)[rng.integers(0, 5, ROWS)]
    rows[0] = [0, 0, 1, 0, 1]
    y = np.arange(ROWS) % 3
    with jax.enable_x64(True):
        latents = {"p": np.array([0.2, 0.3, 0.5]), "theta": rng.dirichlet(np.ones(5), 3)}
        length = rows.sum(1)
        values = {**latents, "x": rows, "y": y}
        expected = float(log_density(words, (ROWS,), {"length": length}, values)[0])
    found = own.log_density(latents, {"x": rows, "length": length.astype(float)}, y)
    close(found, expected, rtol=1e-9)
    with pytest.raises(DataError, match=r"'x'.*row 2 sums to 8, not 9"):
        own.log_density(latents, {"x": rows, "length": length + (np.arange(ROWS) == 2.0)}, y)


# --- a program is a NumPyro program -----------------------------------------------------------------------


def built_in(rng):
    """A built-in, bound: naive Bayes on a real and a binary block, with its rows."""
    X = pd.DataFrame({"height": rng.normal(size=40), "girth": rng.gamma(2.0, 1.0, 40), "ill": rng.random(40) < 0.4})
    y = np.where(X["height"] + 0.3 * X["girth"] > 0.7, "elm", "ash")
    data = summarize(bg.NaiveBayes(), X, y)
    own = data.model.bind(data.scaled_schema)
    attributes, _ = data.model.read(data.scaled_schema, bg.tables.read_table(X))
    return own, attributes, np.searchsorted(["ash", "elm"], y)


def test_a_program_runs_under_predictive():
    with jax.enable_x64(True):
        draws = Predictive(BOUND[mixed], num_samples=301)(jax.random.key(0), 5)
        draws = jax.tree.map(np.asarray, draws)
    assert draws["x"].shape == (301, 5) and draws["counts"].shape == (301, 5, 2)
    own_mean = np.take_along_axis(draws["mean"], draws["y"], 1)
    residual = draws["x"] - own_mean
    assert abs(residual.mean()) < 5 * 1.3 / np.sqrt(residual.size)
    close(residual.std(), 1.3, rtol=0.06)
    own_rate = np.take_along_axis(draws["rate"], draws["y"][..., None], 1)
    assert abs((draws["counts"] - own_rate).mean()) < 5 * np.sqrt(own_rate.mean() / own_rate.size)


def test_a_bound_built_in_runs_under_predictive(rng):
    own, _, _ = built_in(rng)
    with jax.enable_x64(True):
        draws = jax.tree.map(np.asarray, Predictive(own, num_samples=301)(jax.random.key(0), 7))
    assert draws["real"].shape == (301, 7, 2) and draws["binary"].shape == (301, 7, 1)
    assert {"class_probs", "real_mean", "real_variance", "binary_probs", "y"} <= set(draws)
    picked = np.take_along_axis(draws["class_probs"], draws["y"], 1)
    close(picked.mean(), 2 / 3, atol=0.05)  # E[p1² + p2²] under Dirichlet(1, 1)
    pick = draws["y"][..., None]
    standard = (draws["real"] - np.take_along_axis(draws["real_mean"], pick, 1)) / np.sqrt(
        np.take_along_axis(draws["real_variance"], pick, 1)
    )
    assert abs(standard.mean()) < 5 / np.sqrt(standard.size)
    close(standard.std(), 1.0, atol=0.05)


def edges(graph):
    return {tuple(line.strip().split(" -> ")) for line in graph.source.splitlines() if " -> " in line}


def test_programs_are_drawn_by_render_model(rng):
    pytest.importorskip("graphviz")
    assert edges(numpyro.render_model(BOUND[mixed], (5,))) == {
        ("p", "y"),
        ("y", "x"),
        ("mean", "x"),
        ("y", "counts"),
        ("rate", "counts"),
    }
    own, _, _ = built_in(rng)
    found = edges(numpyro.render_model(own, (5,)))
    assert {("class_probs", "y"), ("y", "real"), ("real_mean", "real"), ("real_variance", "real")} <= found
    assert {("y", "binary"), ("binary_probs", "binary"), ("real_variance", "real_mean")} <= found
    assert not any(target == "class_probs" for _, target in found)


def run_nuts(own, data, size):
    conditioned = handlers.condition(own, data=data)
    with jax.enable_x64(True):
        chain = MCMC(NUTS(conditioned), num_warmup=200, num_samples=400, progress_bar=False)
        chain.run(jax.random.key(3), size)
        return jax.tree.map(np.asarray, chain.get_samples())


def within(draws, expected, spread):
    """The mean of autocorrelated draws near its expectation: a fifth of them counted as independent."""
    return (np.abs(draws.mean(0) - expected) < 5 * np.asarray(spread) / np.sqrt(len(draws) / 5)).all()


def test_a_conditioned_program_runs_under_nuts(rng):
    """The posterior is known: Dirichlet for the labels, normal for the means, gamma for the rates."""
    _, rows, y, _ = data_of(mixed, rng)
    draws = run_nuts(BOUND[mixed], {**rows, "y": y}, ROWS)
    counts = np.bincount(y, minlength=3)
    labels = bg.DirichletCategorical(np.ones(3)).update(y)
    assert within(draws["p"], labels.mean()["probs"], np.sqrt(labels.variance()["probs"]))
    for k in range(3):
        rate = bg.GammaPoisson(2.0, 1.0).update(rows["counts"][y == k].reshape(-1, 2))
        assert within(draws["rate"][:, k], rate.mean()["rate"], np.sqrt(rate.variance()["rate"]))
        precision = counts[k] / 1.3**2 + 1 / 9
        mean = rows["x"][y == k].sum() / 1.3**2 / precision
        assert within(draws["mean"][:, k], mean, precision**-0.5)


def test_a_conditioned_built_in_runs_under_nuts(rng):
    own, attributes, y = built_in(rng)
    data = {"real": attributes["real"], "binary": attributes["binary"].astype(int), "y": y}
    draws = run_nuts(own, data, len(y))
    for name, family in own.function.blocks:
        summary = family.statistic.summarize(attributes[name].astype(float), y, 2)
        posterior = family.update(summary)
        for key, value in posterior.mean().items():
            assert within(draws[f"{name}_{key}"], value, np.sqrt(posterior.variance()[key])), key


def test_a_bound_built_in_is_a_program_and_nothing_more(rng):
    """Structure and plan, found by tracing and probing, are what the model said; the density is NumPyro's."""
    own, attributes, y = built_in(rng)
    assert own.attributes == ("real", "binary")
    assert own.latents == ("class_probs", "real_variance", "real_mean", "binary_probs")
    bare = bg.GenerativeProgram(own.function, classes=own.classes)
    assert [name for name, _ in bare.plan.compressed] == [name for name, _ in own.plan.compressed]
    assert dict(bare.plan.compressed) == dict(own.plan.compressed) and bare.plan.rowwise == ()
    assert bare.structure == own.structure
    rows = {name: np.asarray(value, float) for name, value in attributes.items()}
    with jax.enable_x64(True):
        trace = handlers.trace(handlers.seed(own, 2)).get_trace(3)
        latents = {name: np.asarray(trace[name]["value"]) for name in own.latents}
        values = {**latents, "real": rows["real"], "binary": rows["binary"].astype(int), "y": y}
        expected = float(log_density(own, (len(y),), {}, values)[0])
    names = np.array(["ash", "elm"])
    close(own.log_density(latents, rows, names[y]), expected, rtol=1e-9)
    close(bare.log_density(latents, rows, names[y]), expected, rtol=1e-9)
