"""Discrete latents of each row, summed out: densities and posteriors by brute force, and what is refused by name."""

import dataclasses
import functools
import pickle

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import scipy.special
import scipy.stats
from prediction.draws import at_point

import bayesgen as bg
from bayesgen.errors import DataError, ModelError
from bayesgen.fitting import prepare
from bayesgen.posteriors import Draws

close = np.testing.assert_allclose

ROWS = 17
RNG = np.random.default_rng(0)


def of_components(n):
    """Each class is a mixture of two normals; `w` depends on the class alone, and is compressed."""
    p = numpyro.sample("p", dist.Dirichlet(jnp.ones(2)))
    share = numpyro.sample("share", dist.Beta(2, 2).expand([2]).to_event(1))
    mean = numpyro.sample("mean", dist.Normal(0, 3).expand([2, 2]).to_event(2))
    with numpyro.plate("rows", n):
        y = numpyro.sample("y", dist.Categorical(p))
        z = numpyro.sample("z", dist.Bernoulli(share[y]), infer={"enumerate": "parallel"})
        numpyro.sample("x", dist.Normal(mean[y, z], 1.3))
        numpyro.sample("t", dist.StudentT(4.0, mean[y, z], 2.0))
        numpyro.sample("w", dist.Normal(1.0 * y, 1.0))


def entangled(n, *, dose):
    """Latents that depend on each other, one of several cells; the label depends on them."""
    a = numpyro.sample("a", dist.Dirichlet(jnp.ones(3)))
    b = numpyro.sample("b", dist.Beta(1, 1).expand([3, 2]).to_event(2))
    slope = numpyro.sample("slope", dist.Normal(0, 1).expand([6]).to_event(1))
    with numpyro.plate("rows", n):
        level = numpyro.sample("level", dist.Categorical(a))
        marks = numpyro.sample("marks", dist.Bernoulli(b[level]).to_event(1))
        count = numpyro.sample("count", dist.DiscreteUniform(1, 5))
        y = numpyro.sample("y", dist.Bernoulli(logits=slope[level] * dose + marks[..., 0]))
        numpyro.sample("x", dist.Normal(slope[count] + marks.sum(-1) + y, 1.0))


def votes(n):
    """Dawid and Skene's annotators, whose votes are the columns of an item; the true class is a latent."""
    share = numpyro.sample("share", dist.Dirichlet(jnp.ones(3)))
    with numpyro.plate("annotators", 5, dim=-2), numpyro.plate("classes", 3, dim=-1):
        beta = numpyro.sample("beta", dist.Dirichlet(2 * jnp.ones(3)))
    with numpyro.plate("items", n, dim=-1):
        z = numpyro.sample("z", dist.Categorical(share))
        with numpyro.plate("annotators", 5, dim=-2):
            numpyro.sample("votes", dist.Categorical(beta[jnp.arange(5)[:, None], z]))


def lines(n, *, dose):
    """A mixture of two regressions, told apart by their priors."""
    slope = numpyro.sample("slope", dist.Normal(jnp.array([-2.0, 3.0]), 0.5).to_event(1))
    with numpyro.plate("rows", n):
        z = numpyro.sample("z", dist.Bernoulli(0.3))
        numpyro.sample("y", dist.Normal(slope[z] * dose, 0.5))


COMPONENTS = bg.GenerativeProgram(of_components, classes=2, local="z")
ENTANGLED = bg.GenerativeProgram(entangled, classes=2, local=("level", "marks", "count"))
VOTES = bg.GenerativeProgram(votes, label=None, local="z")
LABELLED_VOTES = bg.GenerativeProgram(votes, label="z", classes=3)
LINES = bg.GenerativeProgram(lines, local=["z"])
ATTRIBUTE_LINES = bg.GenerativeProgram(lines, label=None, local=["z"])

LABELS = np.arange(ROWS) % 2
VALUES = {name: RNG.normal(0, 2, ROWS) for name in ("x", "t", "w")}
LATENTS = {"p": np.array([0.3, 0.7]), "share": np.array([0.2, 0.6]), "mean": RNG.normal(0, 2, (2, 2))}
MISSING = {
    name: np.where(np.arange(ROWS) % step == 0, np.nan, VALUES[name]) for name, step in [("x", 3), ("t", 5), ("w", 7)]
}


def components_table(latents, rows):
    """log p(x, y = k, z = j), the cells that are NaN left out."""
    share = np.stack([1 - latents["share"], latents["share"]], axis=1)
    cells = [
        scipy.stats.norm(latents["mean"], 1.3).logpdf(rows["x"][:, None, None]),
        scipy.stats.t(4.0, latents["mean"], 2.0).logpdf(rows["t"][:, None, None]),
        scipy.stats.norm(np.arange(2.0)[:, None], 1.0).logpdf(rows["w"][:, None, None]),
    ]
    return np.log(latents["p"])[:, None] + np.log(share) + sum(np.nan_to_num(cell) for cell in cells)


UNKNOWN = np.where(np.arange(ROWS) < 5, None, LABELS)


@pytest.fixture(scope="module")
def components():
    return at_point(COMPONENTS, LATENTS, MISSING, UNKNOWN)


@pytest.mark.parametrize(
    "rows", [pytest.param(VALUES, id="complete", marks=pytest.mark.slow), pytest.param(MISSING, id="missing cells")]
)
def test_a_class_may_be_a_mixture(rows):
    table = scipy.special.logsumexp(components_table(LATENTS, rows), axis=2)
    close(COMPONENTS.log_joint(LATENTS, rows), table, rtol=1e-10)


def test_labels_may_be_missing_where_a_class_is_a_mixture(components):
    table = scipy.special.logsumexp(components_table(LATENTS, MISSING), axis=2)
    known = np.where(np.arange(ROWS) < 5, scipy.special.logsumexp(table, axis=1), table[np.arange(ROWS), LABELS])
    prior = scipy.stats.beta(2, 2).logpdf(LATENTS["share"]).sum() + scipy.stats.norm(0, 3).logpdf(LATENTS["mean"]).sum()
    close(COMPONENTS.log_density(LATENTS, MISSING, UNKNOWN), prior + known.sum(), rtol=1e-10)
    joint = components_table(components.parameters, MISSING)
    table = scipy.special.logsumexp(joint, axis=2)
    answer = bg.predict(components, MISSING, rule=bg.PlugIn())
    close(answer.probabilities, scipy.special.softmax(table, axis=1), atol=1e-10)
    found = components.local(MISSING, rule=bg.PlugIn())
    close(found.probabilities[:, :, 0], scipy.special.softmax(joint, axis=2), atol=1e-10)
    assert (found.paths[:, :, 0] == joint.argmax(2)).all() and found.classes.tolist() == [0, 1]


def test_sites_that_depend_on_latents_of_the_row_alone_are_evaluated_by_row():
    assert COMPONENTS.plan.rowwise == ("x", "t", "z") and [name for name, _ in COMPONENTS.plan.compressed] == ["w"]
    assert dict(COMPONENTS.plan.reasons)["x"] == "it depends on the row's latent z"
    assert COMPONENTS.class_axes == {"p": 0, "share": 0, "mean": 0}
    assert ENTANGLED.for_covariates({}).plan.rowwise == ("x", "y", "level", "marks", "count")


def entangled_table(latents, rows):
    """log p(x, y = k, level, marks, count)."""
    level, first, second, count = np.meshgrid(range(3), range(2), range(2), range(1, 6), indexing="ij")
    log_b = np.log(np.stack([1 - latents["b"], latents["b"]], axis=-1))
    prior = np.log(latents["a"])[level] + log_b[level, 0, first] + log_b[level, 1, second] - np.log(5)
    logits = latents["slope"][level] * rows["dose"][:, None, None, None, None] + first
    tables = []
    for y in range(2):
        mean = latents["slope"][count] + first + second + y
        of_x = scipy.stats.norm(mean, 1.0).logpdf(rows["x"][:, None, None, None, None])
        tables.append(prior + scipy.special.log_expit((2 * y - 1) * logits) + of_x)
    return np.stack(tables, axis=1)


def test_latents_may_depend_on_each_other_and_the_label_on_them():
    latents = {"a": np.array([0.2, 0.3, 0.5]), "b": np.full((3, 2), 0.3), "slope": np.linspace(-1, 1.5, 6)}
    rows = {"x": VALUES["x"], "dose": VALUES["w"]}
    joint = entangled_table(latents, rows)
    table = scipy.special.logsumexp(joint, axis=(2, 3, 4, 5))
    close(ENTANGLED.log_joint(latents, rows), table, rtol=1e-10)
    fit = at_point(ENTANGLED, latents, rows, LABELS)
    shares = np.exp(joint - scipy.special.logsumexp(joint, axis=(2, 3, 4, 5), keepdims=True))
    marks = fit.local(rows, rule=bg.PlugIn(), site="marks")
    assert marks.probabilities.shape == (ROWS, 2, 2, 2) and (marks.lengths == 2).all()
    close(marks.probabilities[:, :, 0], shares.sum((2, 4, 5)), atol=1e-9)
    close(marks.probabilities[:, :, 1], shares.sum((2, 3, 5)), atol=1e-9)
    count = fit.local(rows, rule=bg.PlugIn(), site="count")
    close(count.probabilities[:, :, 0], shares.sum((2, 3, 4)), atol=1e-9)
    best = shares.reshape(ROWS, 2, -1).argmax(2)
    assert (count.paths[:, :, 0] == best % 5).all()
    with pytest.raises(ModelError, match="several local latents: name one of them, site='level', 'marks', 'count'"):
        fit.local(rows, rule=bg.PlugIn())
    with pytest.raises(ModelError, match="site='x' is no local latent"):
        fit.local(rows, rule=bg.PlugIn(), site="x")


# --- annotators ---------------------------------------------------------------------------------------------------

ITEMS = 29


@functools.cache
def simulated_votes():
    return VOTES.simulate(ITEMS, seed=1, latents=ANNOTATORS)


@functools.cache
def cast_votes():
    is_missing = np.random.default_rng(2).random((5, ITEMS)) < 0.2
    return {"votes": np.where(is_missing, np.nan, simulated_votes()["votes"])}


CONFUSION = 0.6 * np.eye(3) + 0.4 / 3
ANNOTATORS = {"share": np.array([0.2, 0.3, 0.5]), "beta": np.broadcast_to(CONFUSION, (5, 3, 3))}


def votes_table(latents, cast):
    codes = np.nan_to_num(cast).astype(int)
    of_votes = np.log(latents["beta"])[np.arange(5)[:, None], :, codes]
    return np.log(latents["share"]) + np.where(np.isnan(cast)[..., None], 0.0, of_votes).sum(0)


@pytest.mark.slow  # annotators stand in every run of generative/test_as_written.py, and cells are missing above
def test_annotators_with_missing_votes():
    """The true class of an item is a label that no row has: the density and its posterior are the same."""
    table = votes_table(ANNOTATORS, cast_votes()["votes"])
    close(VOTES.log_joint(ANNOTATORS, cast_votes())[:, 0], scipy.special.logsumexp(table, axis=1), rtol=1e-10)
    close(LABELLED_VOTES.log_joint(ANNOTATORS, cast_votes()), table, rtol=1e-10)
    fit = bg.fit(VOTES, cast_votes(), method=bg.MAP(num_starts=1, starts=ANNOTATORS))
    states = fit.local(cast_votes(), rule=bg.PlugIn())
    answer = scipy.special.softmax(LABELLED_VOTES.log_joint(fit.parameters, cast_votes()), axis=1)
    close(states.probabilities[:, 0], answer, atol=1e-10)
    close(states.log_marginal, bg.predict(fit, cast_votes(), rule=bg.PlugIn()).log_marginal, atol=1e-12)
    # a step of EM does not move the maximum: under flat priors, shares are mean responsibilities
    shares = states.probabilities[:, 0]
    close(fit.parameters["share"], shares.mean(0), atol=1e-5)
    assert states.to_frame().shape == (ITEMS * 3, 4)


def annotated(annotations, weight):
    """The same as a model with `obs=`, its items the last axis, and with a covariate."""
    num_items, num_annotators = annotations.shape
    share = numpyro.sample("share", dist.Dirichlet(jnp.ones(3)))
    with numpyro.plate("annotators", num_annotators, dim=-2), numpyro.plate("classes", 3, dim=-1):
        beta = numpyro.sample("beta", dist.Dirichlet(2 * jnp.ones(3)))
    with numpyro.plate("items", num_items, dim=-1):
        z = numpyro.sample("z", dist.Categorical(share), infer={"enumerate": "parallel"})
        numpyro.sample("length", dist.Normal(weight * z, 1.0), obs=2 * annotations[:, 0] - 1.0)
        with numpyro.plate("annotators", num_annotators, dim=-2):
            places = jnp.arange(num_annotators)[:, None]
            numpyro.sample("votes", dist.Categorical(beta[places, z]), obs=annotations.T)


@pytest.mark.parametrize(
    "num_items",
    [pytest.param(ITEMS, id="many items", marks=pytest.mark.slow), pytest.param(5, id="as many items as annotators")],
)
def test_rows_come_first_wherever_a_site_of_a_model_has_them(num_items):
    annotations, weight = simulated_votes()["votes"].T[:num_items], np.linspace(-1, 2, num_items)
    program = bg.GenerativeProgram.from_model(annotated, annotations, weight, rows="items")
    rows, _ = program.read(annotations, weight)
    assert program.local == ("z",) and rows["votes"].shape == (num_items, 5)
    table = votes_table(ANNOTATORS, annotations.T)
    table = table + scipy.stats.norm(weight[:, None] * np.arange(3), 1.0).logpdf(rows["length"][:, None])
    expected = scipy.special.logsumexp(table, axis=1)
    close(program.log_joint(ANNOTATORS, rows)[:, 0], expected, rtol=1e-10)
    if num_items == ITEMS:
        simulated = program.simulate(num_items, seed=1, weight=weight, latents=ANNOTATORS)
        assert simulated["votes"].shape == (num_items, 5) and simulated["z"].shape == (num_items,)


def test_rows_may_come_first_where_shapes_tell():
    cast = cast_votes()
    close(VOTES.log_joint(ANNOTATORS, {"votes": cast["votes"].T}), VOTES.log_joint(ANNOTATORS, cast), rtol=1e-12)
    with pytest.raises(DataError, match=r"'votes'.*the program's site has"):
        VOTES.log_joint(ANNOTATORS, {"votes": cast["votes"][:4]})


def test_simulated_rows_hold_the_latents_which_are_not_read(components):
    assert simulated_votes()["z"].shape == (ITEMS,) and set(simulated_votes()["z"]) == {0, 1, 2}
    given = VOTES.simulate(ITEMS, seed=1, latents={**ANNOTATORS, "z": simulated_votes()["z"][::-1]})
    assert (given["z"] == simulated_votes()["z"][::-1]).all()
    again, rows = pickle.loads(pickle.dumps(components)), components.simulate(ROWS, seed=1)
    assert set(rows) == {"x", "t", "w", "z", "y"}
    close(again.log_joint(rows), components.log_joint({name: rows[name] for name in VALUES}), atol=1e-12)
    assert again.program == COMPONENTS != bg.GenerativeProgram(of_components, classes=2)
    with pytest.raises(DataError, match=r"not in the program \['z'\]"):
        bg.fit(COMPONENTS, {**VALUES, "z": LABELS}, LABELS, method=bg.MAP())


# --- averages over draws ------------------------------------------------------------------------------------------

DOSE = np.linspace(-2, 2, ROWS)
LINE_ROWS = {"dose": DOSE, "y": np.where(np.arange(ROWS) % 3 == 0, 3.0, -2.0) * DOSE + 0.5 * RNG.normal(size=ROWS)}


def lines_table(slope):
    """log p(y, z) of the draws of the two slopes."""
    mean = slope[:, None] * DOSE[:, None]
    return np.log([0.7, 0.3]) + scipy.stats.norm(mean, 0.5).logpdf(LINE_ROWS["y"][:, None])


def test_a_regression_may_be_a_mixture_of_lines():
    slope = np.array([-1.7, 2.9])
    fit = at_point(LINES, {"slope": slope}, {"dose": DOSE}, LINE_ROWS["y"])
    answer = bg.predict(fit, {"dose": DOSE}, rule=bg.PlugIn())
    close(answer.mean, (0.7 * slope[0] + 0.3 * slope[1]) * DOSE, atol=1e-6)
    expected = scipy.special.logsumexp(lines_table(slope[None])[0], axis=1)
    close(answer.log_density(LINE_ROWS["y"]), expected, atol=1e-6)


def test_averages_of_latents_are_those_of_the_draws():
    """BMA weighs draws by p(x | Q), ConditionalAverage does not."""
    problem = prepare(ATTRIBUTE_LINES, LINE_ROWS)
    draws = {"slope": np.random.default_rng(1).normal([-2.0, 3.0], 0.1, (4, 150, 2))}
    posterior = Draws(problem.program, draws, draws, {"potential_energy": np.zeros((4, 150))})
    fit = problem.result(bg.NUTS(), posterior)
    table = lines_table(fit.parameters["slope"].reshape(-1, 2))
    shares = scipy.special.softmax(table, axis=2)
    weights = scipy.special.softmax(scipy.special.logsumexp(table, axis=2), axis=0)[..., None]
    for rule, expected in [(bg.BMA(), (weights * shares).sum(0)), (bg.ConditionalAverage(), shares.mean(0))]:
        found = fit.local(LINE_ROWS, rule=rule)
        close(found.probabilities[:, 0], expected, atol=1e-9)
        assert found.paths is None and found.reordered == 0.0 and (found.standard_error < 0.05).all()


@pytest.mark.slow  # states of draws are put in one order in every run
def test_values_that_draws_may_swap_are_put_in_one_order():
    def swapped(n):
        mean = numpyro.sample("mean", dist.Normal(0, 5).expand([2]).to_event(1))
        with numpyro.plate("rows", n):
            z = numpyro.sample("z", dist.Bernoulli(0.5))
            numpyro.sample("x", dist.Normal(mean[z], 1.0))

    group = np.arange(ROWS) % 2
    program, x = (
        bg.GenerativeProgram(swapped, label=None, local="z"),
        8.0 * group + np.random.default_rng(1).normal(size=ROWS),
    )
    fit = bg.fit(program, {"x": x}, method=bg.NUTS(num_samples=200), seed=1)
    mean = fit.parameters["mean"].copy()
    mean[:2] = mean[:2, :, ::-1]  # as if chains had found the mirrored mode
    posterior = dataclasses.replace(fit.posterior, latents={"mean": mean}, values={"mean": mean})
    found = dataclasses.replace(fit, posterior=posterior).local({"x": x}, rule=bg.BMA())
    expected = fit.local({"x": x}, rule=bg.BMA()).probabilities[:, 0]
    assert found.reordered == 0.5
    mirrored = min(
        (found.probabilities[:, 0], found.probabilities[:, 0, ::-1]), key=lambda a: np.abs(a - expected).max()
    )
    close(mirrored, expected, atol=1e-9)
    assert (expected.argmax(1) == expected.argmax(1)[0]).tolist() == (group == 0).tolist() and expected.max(
        1
    ).min() > 0.9


# --- refusals -----------------------------------------------------------------------------------------------------


def of(latent, label=None, **options):
    def function(n):
        mean = numpyro.sample("mean", dist.Normal(0, 1))
        with numpyro.plate("rows", n):
            z = numpyro.sample("z", latent())
            numpyro.sample("x", dist.Normal(mean * jnp.reshape(z, (n, -1)).sum(1), 1.0))

    return bg.GenerativeProgram(function, label=label, **{"local": "z", **options})


REFUSED = {
    "an infinite support": (lambda: of(lambda: dist.Poisson(2.0)), "'z' is Poisson, whose values are not"),
    "too many values": (lambda: of(lambda: dist.Bernoulli(0.5).expand([11]).to_event(1)), r"2,048 joint values.*256"),
    "no site": (lambda: of(lambda: dist.Bernoulli(0.5), local="q"), r"local= names 'q'.*'rows'.*\['z', 'x'\]"),
    "a latent of all rows": (lambda: of(lambda: dist.Bernoulli(0.5), local="mean"), "local= names 'mean'"),
    "the label": (
        lambda: of(lambda: dist.Bernoulli(0.5), label="z", classes=2),
        "local= names 'z'.*other than the label",
    ),
    "nothing else": (lambda: of(lambda: dist.Bernoulli(0.5), local=("z", "x")), "no attribute site"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_latents_that_cannot_be_summed_out_are_refused_by_name(name):
    make, match = REFUSED[name]
    with pytest.raises(ModelError, match=match):
        make()


def test_other_programs_have_no_local_latents():
    fit = bg.fit(bg.NaiveBayes(), [[1.0], [2.0], [7.0]], ["a", "a", "b"], method=bg.Exact())
    with pytest.raises(ModelError, match="NaiveBayes has no discrete latents of its rows"):
        fit.local([[1.0]], rule=bg.PlugIn())


# A label that is a number, on which attributes or latents depend, and which new rows lack.


def shifted(n):
    slope = numpyro.sample("slope", dist.Normal(1.0, 1.0))
    with numpyro.plate("rows", n):
        y = numpyro.sample("y", dist.Normal(2.0, 1.0))
        z = numpyro.sample("z", dist.Bernoulli(0.4))
        numpyro.sample("x", dist.Normal(slope * y + 3 * z, 0.5))


def switched(n):
    slope = numpyro.sample("slope", dist.Normal(1.0, 1.0))
    with numpyro.plate("rows", n):
        y = numpyro.sample("y", dist.Normal(0.5, 2.0))
        z = numpyro.sample("z", dist.Bernoulli(logits=slope * y))
        numpyro.sample("x", dist.Normal(3.0 * z, 1.0))


def counted(n):
    slope = numpyro.sample("slope", dist.Normal(1.0, 1.0))
    with numpyro.plate("rows", n):
        y = numpyro.sample("y", dist.Poisson(1.5))
        z = numpyro.sample("z", dist.Bernoulli(0.4))
        numpyro.sample("x", dist.Normal(slope * y + 3 * z, 0.5))


REALS, COUNTS = np.linspace(-14, 16, 6001), np.arange(60)
NEW = np.array([-1.0, 1.0, 3.0, 4.0, 7.0])


def sum_over_response(y, log_weights, log_z, log_x):
    """log p(x, z | slope) of new rows, (n, 2), by a sum over y."""
    return np.stack([scipy.special.logsumexp(log_weights + log_z[z] + log_x(y, z), axis=1) for z in (0, 1)], axis=1)


def shifted_table(slope):
    weights, prior = scipy.stats.norm(2, 1).logpdf(REALS) + np.log(np.diff(REALS)[0]), np.log([0.6, 0.4])
    return sum_over_response(
        REALS, weights, prior, lambda y, z: scipy.stats.norm(slope * y + 3 * z, 0.5).logpdf(NEW[:, None])
    )


def switched_table(slope):
    weights = scipy.stats.norm(0.5, 2).logpdf(REALS) + np.log(np.diff(REALS)[0])
    prior = [scipy.special.log_expit(sign * slope * REALS) for sign in (-1, 1)]
    return sum_over_response(REALS, weights, prior, lambda y, z: scipy.stats.norm(3 * z, 1).logpdf(NEW[:, None]))


def counted_table(slope):
    weights, prior = scipy.stats.poisson(1.5).logpmf(COUNTS), np.log([0.6, 0.4])
    return sum_over_response(
        COUNTS, weights, prior, lambda y, z: scipy.stats.norm(slope * y + 3 * z, 0.5).logpdf(NEW[:, None])
    )


UNKNOWN_NUMBERS = {"an attribute": (shifted, shifted_table), "the latent": (switched, switched_table)}
UNKNOWN_NUMBERS |= {"an attribute, of counts": (counted, counted_table)}


SLOPES = np.random.default_rng(1).normal(1.0, 0.1, (4, 25))


@functools.cache
def with_unknown_numbers(name):
    """A fit with draws of the slope, and log p(x, z | slope) of each."""
    function, table_of = UNKNOWN_NUMBERS[name]
    program = bg.GenerativeProgram(function, local="z")
    problem = prepare(program, {"x": np.arange(4.0)}, np.arange(4.0))
    draws = Draws(problem.program, {"slope": SLOPES}, {"slope": SLOPES}, {"potential_energy": np.zeros((4, 25))})
    return problem.result(bg.NUTS(), draws), np.stack([table_of(slope) for slope in SLOPES.ravel()])


def expected_states(rule, name):
    """The probabilities of z, and the table for log p(x), by the meaning of the rule."""
    joint = with_unknown_numbers(name)[1]
    if isinstance(rule, bg.PlugIn):
        joint = UNKNOWN_NUMBERS[name][1](SLOPES.mean())[None]
    shares, log_marginals = scipy.special.softmax(joint, axis=2), scipy.special.logsumexp(joint, axis=2)
    weights = scipy.special.softmax(log_marginals * isinstance(rule, bg.BMA), axis=0)
    return (weights[..., None] * shares).sum(0), log_marginals


RULES_OF_NUMBERS = [(bg.BMA(), "an attribute, of counts")] + [
    pytest.param(rule, name, marks=pytest.mark.slow)
    for rule in (bg.PlugIn(), bg.BMA(), bg.ConditionalAverage())
    for name in UNKNOWN_NUMBERS
    if (rule, name) != (bg.BMA(), "an attribute, of counts")
]


@pytest.mark.parametrize(("rule", "name"), RULES_OF_NUMBERS)
def test_a_number_that_is_not_known_is_integrated_out(rule, name):
    """Latents of new rows are given what is known of the row, whatever depends on its label."""
    shares, log_marginals = expected_states(rule, name)
    states = with_unknown_numbers(name)[0].local({"x": NEW}, rule=rule)
    close(states.probabilities[:, 0], shares, atol=1e-7)
    close(states.log_marginal, scipy.special.logsumexp(log_marginals, axis=0) - np.log(len(log_marginals)), atol=1e-7)
    if isinstance(rule, bg.PlugIn):
        assert (states.paths[:, 0] == shares.argmax(1)).all()
