"""NumPyro models with `obs=` as programs: `GenerativeProgram.from_model` and `read`."""

import functools
import inspect
import pathlib
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import numpyro.infer
import pandas as pd
import pytest
import scipy.stats
from numpyro.contrib.control_flow import scan
from numpyro.diagnostics import effective_sample_size
from numpyro.infer.util import log_density
from program.programs import mixed
from program.programs import program as data_free

import bayesgen
from bayesgen import MAP, NUTS, GenerativeProgram, NaiveBayes, PlugIn, fit, predict
from bayesgen.errors import DataError, ModelError
from bayesgen.generative.model_arguments import RowsArgument
from bayesgen.program.arbitrary import arbitrary_numbers

from .written import GROUP, GROUPS, TABLE, WON, N, X, Y, censored, hierarchical, linear, logistic, schools, varying

QUICK = {"linear", "hierarchical", "censored", "items", "scaled"}


def rows_of_table(quick):
    return [name if name in quick else pytest.param(name, marks=pytest.mark.slow) for name in TABLE]


def some_latents(program):
    """Values of the latents: arbitrary ones, which take no compiling to make."""
    with jax.enable_x64(True):
        return program.introspection._traces.draw(arbitrary_numbers(1)).latents


@functools.cache
def made(name):
    """The program of a model in the table."""
    case = TABLE[name]
    return GenerativeProgram.from_model(case.model, *case.args, label=case.label)


@pytest.mark.parametrize("name", rows_of_table(QUICK))
def test_log_density_is_that_of_the_model(name):
    case, program = TABLE[name], made(name)
    label = [program.label] if program.label else []
    assert {*program.attributes, *label} == set(case.attributes)
    assert program.covariates == case.covariates
    rows, labels = program.read(*case.args)
    latents = some_latents(program)
    with jax.enable_x64(True):
        expected = jax.jit(lambda latents: log_density(case.model, case.args, {}, latents)[0])(latents)
    np.testing.assert_allclose(program.log_density(latents, rows, labels), expected, rtol=1e-10)


@pytest.mark.parametrize("name", rows_of_table({"linear", "pooled"}))
def test_the_page_says_which_latents_are_closed(name):
    page = (pathlib.Path(__file__).parents[2] / "docs" / "guides" / "numpyro-models.md").read_text("utf-8")
    stated = next(row[4] for line in page.splitlines() if len(row := line.split("|")) == 6 and row[2].strip() == name)
    latents = made(name).latents
    table = made(name).closed_form.set_index("latent").family
    closed = [latent for latent in latents if np.all(table[latent] != "")]
    others = [latent for latent in latents if latent not in closed]
    words = [", ".join(f"`{latent}`" for latent in names) for names in (closed, others)]
    expected = ", given ".join(words) if closed and others else "all" if closed else "none"
    assert stated.strip() == expected


@pytest.mark.slow  # densities are those of the models above, and chains are tested in fitting/test_nuts.py
@pytest.mark.filterwarnings("ignore::bayesgen.errors.ConvergenceWarning")  # of priors with funnels, as NumPyro does
@pytest.mark.parametrize("name", TABLE)
def test_posterior_is_that_of_numpyro(name):
    case, program = TABLE[name], made(name)
    method = NUTS(num_chains=2, num_samples=400 if name == "logistic" else 2000, target_accept_prob=0.95)
    own = fit(program, *program.read(*case.args), method=method, seed=1).parameters
    peer = numpyro.infer.MCMC(
        numpyro.infer.NUTS(case.model, target_accept_prob=0.95),
        num_warmup=500,
        num_samples=2 * method.num_samples,
        progress_bar=False,
    )

    @jax.jit  # its parts would be compiled one by one
    def samples(key):
        peer.run(key, *case.args)
        return peer.get_samples()

    with jax.enable_x64(True):
        draws = {name: np.asarray(values)[None] for name, values in samples(jax.random.key(0)).items()}
    for name in program.latents:
        with np.errstate(invalid="ignore"):  # entries that are constant, of a Cholesky factor
            errors = [d.std((0, 1)) / np.sqrt(effective_sample_size(d)) for d in (own[name], draws[name])]
            scores = (own[name].mean((0, 1)) - draws[name].mean((0, 1))) / np.hypot(*errors)
        assert np.nanmax(np.abs(scores)) < 5, name


# --- rows and labels ----------------------------------------------------------------------------------------------


def test_new_rows_are_read_without_the_values_that_are_observed():
    case, program = TABLE["linear"], made("linear")
    rows, labels = program.read(*case.args)
    assert set(rows) == {"X"} and labels.tolist() == Y.tolist()
    new, none = program.read(X[:5])
    assert none is None and new["X"].tolist() == X[:5].tolist()
    found = fit(program, rows, labels, method=MAP())
    mean = found.parameters["intercept"] + X[:5] @ found.parameters["slopes"]
    np.testing.assert_allclose(predict(found, new, rule=PlugIn()).mean, mean)


def test_classes_are_named_or_the_values_of_their_site():
    named = GenerativeProgram.from_model(logistic, X, WON, label="won", classes=["lost", "won"])
    plain = GenerativeProgram.from_model(logistic, X, WON, label="won")
    assert plain.classes == (0, 1)
    assert named.read(X, WON)[1].tolist() == [named.classes[won] for won in WON]
    assert plain.read(X, WON)[1].tolist() == WON.tolist()
    with_missing = np.where(np.arange(N) == 2, np.nan, WON)
    assert named.read(X, with_missing)[1][2] is None
    fits = [fit(program, *program.read(X, WON), method=MAP()) for program in (named, plain)]
    codes, labels = (predict(found, {"X": X}, rule=PlugIn()).labels for found in reversed(fits))
    assert [named.classes[code] for code in codes] == labels.tolist()


def test_a_missing_value_is_a_missing_cell():
    program = GenerativeProgram.from_model(censored, *TABLE["censored"].args)
    *others, time = TABLE["censored"].args
    rows, _ = program.read(*others, np.where(np.arange(N) == 3, np.nan, time))
    assert np.isnan(rows["time"]).tolist() == (np.arange(N) == 3).tolist()


def test_rows_of_ones_have_the_precision_of_the_caller():
    """And JAX has nothing to warn of."""
    assert made("hierarchical").example_covariates(N)["group"].dtype == np.int32
    assert RowsArgument(None, 0, (), np.dtype(np.int64), None, None).at(N, {}).dtype == np.int32


@pytest.mark.parametrize("column", [list, np.array, lambda names: pd.Series(names, dtype="category")])
def test_text_becomes_the_index_of_its_category(column):
    names = ["a", "b", "c"]
    program = made("hierarchical")
    of_text = GenerativeProgram.from_model(hierarchical, column([names[g] for g in GROUP]), X[:, 0], Y, label="y")
    rows, _ = of_text.read(column(["c", "a"]), [0.5, 1.5])
    assert rows["group"].tolist() == [2, 0] and rows["x"].tolist() == [0.5, 1.5]
    assert of_text.latents == program.latents
    with pytest.raises(DataError, match="'group' has 'z' in row 1, and those of training are 'a', 'b', 'c'"):
        of_text.read(column(["c", "z"]), np.zeros(2))


def test_numbers_that_count_the_rows_follow_them():
    def schools(J, sigma, y=None):
        mean, spread = numpyro.sample("mean", dist.Normal(0, 5)), numpyro.sample("spread", dist.HalfCauchy(5))
        with numpyro.plate("schools", J):
            numpyro.sample("y", dist.Normal(mean, jnp.hypot(sigma, spread)), obs=y)

    program = GenerativeProgram.from_model(schools, 8, np.arange(1.0, 9), np.arange(8.0), label="y")
    assert program.covariates == ("sigma",)
    assert program.read(3, np.ones(3))[0]["sigma"].tolist() == [1, 1, 1]
    with pytest.raises(DataError, match=r"different numbers of rows: \{'sigma': 3, 'J': 8\}"):
        program.read(8, np.ones(3))
    groups = np.arange(N) % N  # as many groups as rows: their number is constant, as the model works without more
    assert made("varying").read(GROUP, X[:, 0], GROUPS)[1] is None
    many = GenerativeProgram.from_model(varying, groups, X[:, 0], N, Y, label="y")
    assert many.read(groups[:2], X[:2, 0], N)[1] is None


def test_arguments_in_mappings_keep_their_names_and_order():
    def columns(y=None, *, prior, kinds, **columns):
        assert kinds == ["line", "square"]  # a list of text that is no column
        slopes = numpyro.sample("slopes", prior.expand([len(columns)]).to_event(1))
        mean = sum(slope * column for slope, column in zip(slopes, columns.values(), strict=True))
        numpyro.sample("y", dist.Normal(mean, 1.0), obs=y)

    kinds = ["line", "square"]
    names = [f"x{index}" for index in range(30, 0, -1)]  # more than there are choices to try of what follows the rows
    values = {name: X[:, 0] ** (index % 3) for index, name in enumerate(names)}
    program = GenerativeProgram.from_model(columns, Y, prior=dist.Normal(0.0, 2.0), kinds=kinds, label="y", **values)
    assert program.covariates == tuple(names)
    rows, labels = program.read(Y, prior=dist.Normal(0.0, 2.0), kinds=kinds, **values)
    slopes = np.arange(30.0)
    mean = sum(map(np.multiply, slopes, values.values()))
    expected = scipy.stats.norm(mean, 1).logpdf(Y).sum() + scipy.stats.norm(0, 2).logpdf(slopes).sum()
    np.testing.assert_allclose(program.log_density({"slopes": slopes}, rows, labels), expected, rtol=1e-10)
    with pytest.raises(DataError, match="'prior' is constant, and it differs"):
        program.read(Y, prior=dist.Normal(0.0, 3.0), kinds=kinds, **values)


def test_a_label_needs_no_other_columns():
    """Rows without columns are an index; the posterior mean is that of a normal mean, missing labels left out."""

    def model(n, y=None):
        mean = numpyro.sample("mean", dist.Normal(0, 2))
        with numpyro.plate("rows", n):
            numpyro.sample("y", dist.Normal(mean, 0.5), obs=y)

    program = GenerativeProgram.from_model(model, N, Y, label="y")
    rows, labels = program.read(N, np.where(np.arange(N) == 3, np.nan, Y))
    assert rows.shape == (N, 0)
    observed = np.delete(Y, 3)
    expected = scipy.stats.norm(0.3, 0.5).logpdf(observed).sum() + scipy.stats.norm(0, 2).logpdf(0.3)
    np.testing.assert_allclose(program.log_density({"mean": np.array(0.3)}, rows, labels), expected)
    found = fit(program, rows, labels, method=MAP())
    mean = observed.sum() / 0.25 / (0.25 + len(observed) / 0.25)
    np.testing.assert_allclose(predict(found, program.read(3)[0], rule=PlugIn()).mean, np.full(3, mean), rtol=1e-6)
    with pytest.raises(DataError, match=r"pandas.DataFrame\(index=range\(n\)\)"):
        fit(program, {}, labels, method=MAP())
    with pytest.raises(DataError, match=f"X is empty: {N} rows and 0 columns"):
        fit(NaiveBayes(), rows, np.arange(N) % 2, method=MAP())


def test_the_rows_are_the_plate_that_is_named():
    def columns(values):
        with numpyro.plate("columns", 2, dim=-2):
            mean = numpyro.sample("mean", dist.Normal(0, 1))
        with numpyro.plate("column", 2, dim=-2), numpyro.plate("data", values.shape[1]):
            numpyro.sample("value", dist.Normal(mean, 1), obs=values)

    program = GenerativeProgram.from_model(columns, X.T, rows="data")
    np.testing.assert_array_equal(program.read(X.T)[0]["value"], X)
    with pytest.raises(ModelError, match="give the plate of the rows, rows="):
        GenerativeProgram.from_model(columns, X.T)
    with pytest.raises(ModelError, match=r"rows='columns' is no plate that all observed sites, 'value', stand in"):
        GenerativeProgram.from_model(columns, X.T, rows="columns")


def groups_with_priors(group, prior_mean, y=None):
    with numpyro.plate("groups", len(prior_mean)):
        effect = numpyro.sample("effect", dist.Normal(prior_mean, 1))
    with numpyro.plate("data", len(group)):
        numpyro.sample("y", dist.Normal(effect[group], 0.5), obs=y)


def groups_without_plates(group, prior_mean, y=None):
    effect = numpyro.sample("effect", dist.Normal(prior_mean, 1))
    numpyro.sample("y", dist.Normal(effect[group], 0.5), obs=y)


def slopes_with_scales(X, prior_scale, y=None):
    slopes = numpyro.sample("effect", dist.Normal(0, prior_scale))
    numpyro.sample("y", dist.Normal((X * slopes).sum(1), 0.5), obs=y)


@pytest.mark.parametrize("num_rows", [6, pytest.param(7, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "model, sentence",
    [
        (groups_with_priors, "'effect' is a latent of each row, and it is not in their plate"),
        (groups_without_plates, "mixes the rows of the argument"),
        (slopes_with_scales, "cannot be run with a row more"),
    ],
)
def test_constants_may_be_as_long_as_the_data(model, sentence, num_rows):
    """Which arguments they are is said, and the refusal says how."""
    random, prior = np.random.default_rng(1), np.arange(1.0, 7)
    first = random.normal(size=(num_rows, 6)) if model is slopes_with_scales else np.arange(num_rows) % 6
    args = first, prior, random.normal(size=num_rows)
    if num_rows == 6:
        with pytest.raises(ModelError, match=rf"{sentence}.*constants=\('"):
            GenerativeProgram.from_model(model, *args, label="y")
    constant = list(inspect.signature(model).parameters)[1]
    program = GenerativeProgram.from_model(model, *args, label="y", constants=constant)
    assert program.latents == ("effect",) and not program.local
    latents = {"effect": prior + 0.3}
    with jax.enable_x64(True):
        expected = jax.jit(lambda latents: log_density(model, args, {}, latents)[0])(latents)
    np.testing.assert_allclose(program.log_density(latents, *program.read(*args)), expected, rtol=1e-10)


def test_names_of_constants_are_those_of_arguments():
    with pytest.raises(ModelError, match="constants= names 'prior', and the arguments of the model are 'X', 'y'"):
        GenerativeProgram.from_model(linear, X, Y, constants=("prior",))


def test_one_row_is_counted_by_one():
    """And another number that is 1 stays as it is."""

    def model(n, scale, y=None):
        mean = numpyro.sample("mean", dist.Normal(0, 1))
        with numpyro.plate("rows", n):
            numpyro.sample("y", dist.Normal(mean, scale), obs=y)

    program = GenerativeProgram.from_model(model, 1, 1, np.array([1.3]))
    rows, _ = program.read(3, 1, np.array([0.5, 1.0, -1.0]))
    expected = scipy.stats.norm(0.2, 1).logpdf(rows["y"]).sum() + scipy.stats.norm.logpdf(0.2)
    np.testing.assert_allclose(program.log_density({"mean": 0.2}, rows), expected)


def test_rows_of_a_square_table_are_those_of_their_plate():
    def columns(values):
        mean = numpyro.sample("mean", dist.Normal(0, 1))
        with numpyro.plate("column", values.shape[0], dim=-2), numpyro.plate("data", values.shape[1]):
            numpyro.sample("value", dist.Normal(mean, 1), obs=values)

    table = np.arange(9.0).reshape(3, 3)
    program = GenerativeProgram.from_model(columns, table, rows="data")
    np.testing.assert_array_equal(program.read(table)[0]["value"], table.T)


# --- latents of each row ------------------------------------------------------------------------------------------


def clusters():
    shares = numpyro.sample("shares", dist.Dirichlet(jnp.ones(2)))
    return shares, numpyro.sample("means", dist.Normal(0, 3).expand([2]).to_event(1))


def mixture(values):
    shares, means = clusters()
    with numpyro.plate("data", len(values)):
        cluster = numpyro.sample("cluster", dist.Categorical(shares), infer={"enumerate": "parallel"})
        numpyro.sample("value", dist.Normal(means[cluster], 1), obs=values)


def mixture_without_plate(values):
    shares, means = clusters()
    cluster = numpyro.sample("cluster", dist.Categorical(jnp.broadcast_to(shares, (len(values), 2))))
    numpyro.sample("value", dist.Normal(means[cluster], 1), obs=values)


def marginal(values):
    shares, means = clusters()
    numpyro.sample("value", dist.MixtureSameFamily(dist.Categorical(shares), dist.Normal(means, 1)), obs=values)


def annotated(labels, num_classes):
    """Annotators with their own confusions of classes that nobody knows, after Dawid and Skene."""
    shares = numpyro.sample("shares", dist.Dirichlet(jnp.ones(num_classes)))
    with numpyro.plate("annotators", labels.shape[1], dim=-2), numpyro.plate("classes", num_classes):
        confusion = numpyro.sample("confusion", dist.Dirichlet(jnp.ones(num_classes)))
    with numpyro.plate("items", labels.shape[0], dim=-2):
        truth = numpyro.sample("truth", dist.Categorical(shares), infer={"enumerate": "parallel"})
        with numpyro.plate("positions", labels.shape[1]):
            numpyro.sample("label", dist.Categorical(confusion[jnp.arange(labels.shape[1]), truth]), obs=labels)


@pytest.mark.parametrize("model", [mixture, mixture_without_plate])
def test_discrete_latents_of_rows_are_summed_out(model):
    program = GenerativeProgram.from_model(model, Y)
    assert program.local == ("cluster",) and program.attributes == ("value",)
    latents = some_latents(program)
    with jax.enable_x64(True):
        expected = jax.jit(lambda latents: log_density(marginal, (Y,), {}, latents)[0])(latents)
    np.testing.assert_allclose(program.log_density(latents, *program.read(Y)), expected, rtol=1e-10)


def test_annotators_of_classes_that_nobody_knows():
    labels = np.random.default_rng(1).integers(0, 3, (N, 4))
    program = GenerativeProgram.from_model(annotated, labels, 3)
    assert program.local == ("truth",)
    latents, rows = some_latents(program), program.read(labels, 3)[0]
    likelihood = latents["confusion"][np.arange(4)[:, None], :, labels.T[:, :]].prod(0)  # (items, classes)
    expected = np.log(likelihood @ latents["shares"]).sum() + np.log(2.0) * 13  # Dirichlet(1) over 3 has density 2
    np.testing.assert_allclose(program.log_density(latents, rows), expected, rtol=1e-10)


# --- what NumPy and Python read -----------------------------------------------------------------------------------


def reads(code, x, y=None):
    """A model that reads its index by NumPy and Python, and computes with a covariate by NumPy."""
    sizes = len(np.unique(code)), int(code.max()) + 1, np.max(code) + 1, len(set(code.tolist())), len(set(code))
    assert set(sizes) == {GROUPS}
    effect = numpyro.sample("effect", dist.Normal(0, 1).expand(sizes[:1]).to_event(1))
    numpyro.sample("y", dist.Normal(effect[code] + np.log(x), 1.0), obs=None if y is None else np.exp(y))


def test_what_numpy_reads_is_as_in_training():
    x = np.exp(X[:, 0])
    program = GenerativeProgram.from_model(reads, GROUP, x, Y, label="y")
    rows, labels = program.read(GROUP, x, Y)
    np.testing.assert_allclose(labels, np.exp(Y))
    found = fit(program, rows, labels, method=MAP())
    new = program.read(np.array([0, 1, 0]), x[:3])[0]
    effect = found.parameters["effect"]
    np.testing.assert_allclose(predict(found, new, rule=PlugIn()).mean, effect[[0, 1, 0]] + X[:3, 0])
    assert program.simulate(3, seed=1, code=new["code"], x=new["x"])["y"].shape == (3,)
    with pytest.raises(DataError, match="'code' has 3 in row 1, of which the program makes the index 3"):
        predict(found, program.read(np.array([0, 3]), x[:2])[0], rule=PlugIn())


def test_programs_are_equal_whose_models_and_constants_are():
    program = made("hierarchical")
    assert pickle.loads(pickle.dumps(program)) == program
    same = GenerativeProgram.from_model(hierarchical, GROUP, 2 * X[:, 0], 3 * Y, label="y")
    assert same == program and same.structure is program.structure
    assert GenerativeProgram.from_model(hierarchical, GROUP % 2, X[:, 0], Y, label="y") != program


# --- refusals -----------------------------------------------------------------------------------------------------


def model_of(statements):
    """A model of x and y with a slope and these statements."""

    def model(x, y=None):
        statements(numpyro.sample("slope", dist.Normal(0, 1)), x, y)

    return model


def normal(mean, y, name="y", **options):
    return numpyro.sample(name, dist.Normal(mean, 1.0), obs=y, **options)


def masked(slope, x, y):
    with numpyro.handlers.mask(mask=~jnp.isnan(y)):
        normal(slope * x, jnp.nan_to_num(y))


def subsampled(slope, x, y):
    with numpyro.plate("data", N, subsample_size=5) as index:
        normal(slope * x[index], y[index])


def in_two_plates(slope, x, y):
    with numpyro.plate("first", N):
        normal(slope, x, "x")
    with numpyro.plate("second", N):
        normal(slope, y)


def positions(slope, x, y):
    _, index = np.unique(x, return_inverse=True)
    normal(slope * index, y)


def outside_the_plate(slope, x, y):
    side = numpyro.sample("side", dist.Bernoulli(0.5 * jnp.ones(len(x))))
    with numpyro.plate("data", len(x)):
        normal(slope * side, y)


WALK = dist.GaussianRandomWalk
REFUSED = {
    "mixed covariates": (lambda b, x, y: normal(b * (x - x.mean()), y), "mixes the rows of the argument 'x'"),
    "mixed values": (lambda b, x, y: normal(b * x, y / np.std(y)), "mixes the rows of the argument 'y'"),
    "a series": (lambda b, x, y: normal(b * y[:-1], y[1:]), "'y' gives an observed value, and it enters"),
    "a mask of values": (masked, r"'y' gives an observed .* Missing values are NaN, and need no mask"),
    "values as inputs": (
        lambda b, x, y: (normal(b, y), normal(b * y, x, "x")),
        r"'y' gives an observed .* compute with the value that numpyro.sample returns",
    ),
    "obs_mask": (lambda b, x, y: normal(b * x, y, obs_mask=x > 0), "'y' has obs_mask=: drop it, and give NaN"),
    "a factor": (
        lambda b, x, y: (normal(b * x, y), numpyro.factor("penalty", -b * x**2)),
        "The factor 'penalty' has a value for each row",
    ),
    "a parameter": (lambda b, x, y: normal(numpyro.param("free", 0.0) * x, y), "numpyro.param"),
    "a subsample": (subsampled, "subsamples: bayesgen needs every row"),
    "a random walk": (
        lambda b, x, y: normal(numpyro.sample("walk", WALK(1.0, num_steps=len(x))), y),
        "'walk' has one value for all rows together",
    ),
    "a scan": (
        lambda b, x, y: scan(lambda level, step: (normal(level, step), None), b, jnp.asarray(y)),
        "'y' is sampled in a scan over the rows, .* such a series is one row of a data-free program",
    ),
    "a Gaussian process": (
        lambda b, x, y: numpyro.sample("y", dist.MultivariateNormal(b * x, jnp.eye(len(x))), obs=y),
        r"have the batch shapes 'y' \(\)",
    ),
    "latents outside": (outside_the_plate, "'side' is a latent of each row, and it is not in their plate 'data'"),
    "two plates": (in_two_plates, r"not clear: .*'x' \(24,\) in \['first'\], 'y' \(24,\) in \['second'\]"),
    "positions": (positions, "cannot be run with a row more than the 24"),
    "no observed site": (lambda b, x, y: normal(b * x, None), "No site of the model is observed"),
    "no argument": (lambda b, x, y: normal(b * x, np.ones(N)), "cannot be run with a row more|made of no argument"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_says_why(name):
    statements, sentence = REFUSED[name]
    with pytest.raises(ModelError, match=sentence):
        GenerativeProgram.from_model(model_of(statements), X[:, 0], Y)


def autoregressive(previous, value):
    """The second order, of an observed value or of one that is sampled."""
    return (normal(0.5 * previous[0] - 0.2 * previous[1], value), previous[0]), None


def by_values(y):
    numpyro.sample("level", dist.Normal(0, 1))
    scan(autoregressive, (y[1], y[0]), y[2:])


def by_condition(num_steps, y):
    numpyro.sample("level", dist.Normal(0, 1))
    with numpyro.handlers.condition(data={"y": y}):
        scan(lambda previous, _: autoregressive(previous, None), (0.0, 0.0), None, length=num_steps)


@pytest.mark.parametrize("model, args", [(by_values, ()), (by_condition, (N,))])
def test_a_series_by_scan_is_refused_as_one_in_any_precision(model, args):
    with pytest.raises(ModelError, match="'y' is sampled in a scan over the rows"):
        GenerativeProgram.from_model(model, *args, jnp.asarray(Y, jnp.float32))


def test_arguments_of_our_names_are_fixed_before():
    def model(y, label=1.0):
        numpyro.sample("y", dist.Normal(label * numpyro.sample("mean", dist.Normal(0, 1)), 1.0), obs=y)

    with pytest.raises(ModelError, match="has the argument 'label', which from_model has, too: fix it before"):
        GenerativeProgram.from_model(model, Y)
    assert GenerativeProgram.from_model(functools.partial(model, label=2.0), Y).attributes == ("y",)
    with pytest.raises(ModelError, match="cannot be called with these arguments: missing"):
        GenerativeProgram.from_model(linear)
    with pytest.raises(ModelError, match=r"'rank' is no observed site of the model, whose observed sites are \['y'\]"):
        GenerativeProgram.from_model(linear, X, Y, label="rank")
    with pytest.raises(ModelError, match="'X' is a frame"):
        GenerativeProgram.from_model(linear, pd.DataFrame(X), Y)


def test_arguments_that_differ_from_those_of_training_are_refused():
    program = made("varying")
    with pytest.raises(DataError, match="'num_groups' is constant, and it differs"):
        program.read(GROUP, X[:, 0], GROUPS + 1)
    with pytest.raises(DataError, match="'x' is missing: every row needs its value"):
        program.read(GROUP, None, GROUPS)
    with pytest.raises(DataError, match="'x' has 2 axes, and 1 in training"):
        program.read(GROUP, X, GROUPS)
    with pytest.raises(DataError, match=r"different numbers of rows: \{'group': 24, 'x': 2\}"):
        program.read(GROUP, X[:2, 0], GROUPS)
    with pytest.raises(ModelError, match="takes the arguments of a model given to"):
        data_free(mixed).read(X)


def test_predictions_without_a_label_ask_for_it():
    program = GenerativeProgram.from_model(linear, X, Y)
    with pytest.raises(DataError, match="label='y'"):
        program.log_joint(some_latents(program), program.read(X)[0])


DOCUMENT = pathlib.Path(__file__).parents[2].joinpath("docs/guides/numpyro-models.md").read_text(encoding="utf-8")


def test_the_series_of_the_document_is_one_row():
    names = {"bg": bayesgen, "dist": dist, "np": np, "numpyro": numpyro}
    exec(DOCUMENT.split("```python\n")[-1].split("```")[0], names)
    assert names["fit"].parameters["step"] == pytest.approx(np.diff(names["series"], prepend=0).std(), rel=0.2)


def test_the_table_of_models_is_what_is_tested():
    accepted, refused = (
        {line.split("|")[column].strip() for line in part.splitlines() if line.startswith("| ")} - {"name", "---"}
        for part, column in zip(DOCUMENT.split("Refused, each"), (2, 1), strict=True)
    )
    assert accepted == {*TABLE, mixture.__name__, annotated.__name__, schools.__name__}
    assert refused == set(REFUSED)
