"""Laws that every family obeys. SciPy's densities are the oracle; no formula of a family is written again."""

import copy
import dataclasses
import pickle
import re

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from batches import assert_vmap_is_one_by_one
from numpyro import handlers
from oracles.families import CASES, CLASSES, COLUMNS, ROWS, VALUES

import bayesgen.families
from bayesgen.errors import BayesgenError, DataError, FitError, ModelError
from bayesgen.families import BetaBernoulli, Family, Names, NormalInverseWishart, Scale, with_sampled_hyperparameters
from bayesgen.runtime import Traced

every_case = pytest.mark.parametrize("name", CASES)
some_cases = pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * ("," in name)) for name in CASES],  # one of each family
)
every_lone_case = pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.alone])
close = np.testing.assert_allclose


@pytest.fixture
def rng():
    return np.random.default_rng(5)


@pytest.fixture
def codes(rng):
    return rng.integers(0, CLASSES, ROWS)


def summarize(family, rows, codes, weights=None):
    return family.likelihood.summarize(rows, codes, CLASSES, weights)


def log_prob(distribution, row):
    """The log density of one row, in float64."""
    with jax.enable_x64(True):
        row = row.astype(int) if distribution.support.is_discrete else row
        log_prob = Traced.of(lambda distribution, row: distribution.log_prob(row), distribution, row)
        return float(np.sum(log_prob(distribution, row)))


def covariate_of(family, rows):
    """Totals of counts, and lengths of sequences, by the name under which the family takes them."""
    of_rows = {"total_count": lambda: rows.sum(-1), "length": lambda: (rows >= 0).sum(-1)}
    name = family.traits.covariate
    return {} if name is None else {name: of_rows[name]().astype(float)}


def predictive(family, row):
    """The predictive of a family used alone (that of counts takes the row's total, that of sequences its length)."""
    return family.predictive(**{name: int(values[0]) for name, values in covariate_of(family, row[None]).items()})


def assert_same(one, two, rtol=1e-11):
    assert type(one) is type(two)
    for key, value in one.hyperparameters.items():
        close(value, two.hyperparameters[key], rtol=rtol, atol=1e-12, err_msg=key)


def test_every_family_is_in_the_table():
    public = [getattr(bayesgen, name) for name in bayesgen.__all__]
    families = [
        value for value in public if isinstance(value, type) and issubclass(value, Family) and value is not Family
    ]
    # those with features are in test_linear_families, those without a closed posterior have tests of their own
    elsewhere = bayesgen.families.LatentVariableFamily, bayesgen.families.LinearNormalInverseGamma
    here = {family.__name__ for family in families if not issubclass(family, elsewhere)}
    assert {type(case.family).__name__ for case in CASES.values()} == here


@every_case
def test_families_are_equal_by_content_and_hash_by_it(name):
    case = CASES[name]
    for family in (case.family, case.table()):
        for other in (copy.deepcopy(family), pickle.loads(pickle.dumps(family)), jax.tree.map(np.copy, family)):
            assert other == family and hash(other) == hash(family) and repr(other) == repr(family)
        assert jax.tree.structure(family) == jax.tree.structure(jax.tree.map(lambda leaf: leaf + 1, family))
        for key, value in family.hyperparameters.items():
            assert family.replace(**{key: value}) == family
            assert family.replace(**{key: value + 1}) != family != family.replace(**{key: None})
            with pytest.raises(dataclasses.FrozenInstanceError):
                setattr(family, key, value)
    assert case.family != case.table()
    assert len({family for family in (each.family for each in CASES.values()) if family == case.family}) == 1


@every_case
def test_a_table_of_a_family_is_made_once_more_from_its_own_arguments(name):
    family = CASES[name].family
    arguments = {"mean" if key == "location" else key: value for key, value in family.hyperparameters.items()}
    flags = dataclasses.asdict(family.pooling) if hasattr(family, "pooling") else {}
    flags |= {key: getattr(family, key) for key in ("order", "end") if hasattr(family, key)}
    flags = {key: value for key, value in flags.items() if value or key == "order"}
    assert type(family)(**arguments, **flags) == family
    assert type(family)() == type(family)() and hash(type(family)()) == hash(type(family)())


@every_case
def test_tilted_densities_have_the_ratio_that_slopes_say(name, rng):
    case = CASES[name]
    parameters, slopes = case.parameters(rng), rng.normal(0, 0.3, (CLASSES, case.columns))
    tilted = case.table().tilted(parameters, slopes)
    is_linear = name.startswith(("BetaBernoulli", "GammaPoisson")) or "tied" in name
    assert (tilted is not None) == is_linear
    if tilted is not None:
        rows = np.repeat(case.rows(rng, 4), CLASSES, axis=0)
        codes = np.tile(np.arange(CLASSES), 4)
        before, after = (case.log_likelihood(values, rows, codes) for values in (parameters, parameters | tilted))
        ratios = (after - before - (rows * slopes[codes]).sum(1)).reshape(4, CLASSES)
        close(ratios, np.broadcast_to(ratios[0], ratios.shape), atol=1e-9)


def test_distributions_as_hyperparameters_are_equal_by_content():
    one, other, third = (BetaBernoulli(dist.Gamma(shape, 1.0), 2.0) for shape in (1.0, 1.0, 3.0))
    assert one == other != third and hash(one) == hash(other)
    assert one != BetaBernoulli(dist.LogNormal(1.0, 1.0), 2.0)


def priors(family, values):
    """Log prior densities of the sites' values, in the program of a table whose hyperpriors are drawn."""

    def log_probs(values):
        model = handlers.seed(lambda: with_sampled_hyperparameters(family, "b").sample_sites("b"), 0)
        sites = handlers.trace(handlers.substitute(model, values)).get_trace()
        return [sites[name]["fn"].log_prob(value) for name, value in values.items()]

    with jax.enable_x64(True):
        return [np.sum(log_prob) for log_prob in Traced.of(log_probs, values)(values)]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] * (name not in ("BetaBernoulli", "NormalInverseWishart")))
        for name in CASES
    ],
)
def test_draws_of_hyperpriors_broadcast_like_arrays_and_other_shapes_are_refused_alike(name, rng):
    """There are as many classes as columns or values: nothing is guessed from lengths that coincide."""
    case = CASES[name]
    scale = Scale(case.values if case.columns == 1 else case.columns, case.columns, case.values)
    table = case.family.resolve(scale)
    model = handlers.seed(lambda: table.sample_sites("b"), 0)
    with jax.enable_x64(True):
        sites = handlers.trace(model).get_trace()
    values = {name: site["value"] for name, site in sites.items() if site["type"] == "sample"}
    for key, array in table.hyperparameters.items():
        if key in ("edges", "tails"):
            continue
        for dropped in range(array.ndim):
            part = array[(0,) * dropped]
            if key == "scale" and part.ndim < 2 and isinstance(case.family, NormalInverseWishart):
                continue  # refused, see below
            stated, drawn = ({key: value} for value in (part, dist.Delta(part, event_dim=part.ndim)))
            families = [case.family.replace(**each).resolve(scale) for each in (stated, drawn)]
            close(*(priors(family, values) for family in families), rtol=1e-12, err_msg=key)
        for shape in ((array.shape[-1] + 1,), (2, *array.shape)):
            for value in (np.full(shape, 7.0), dist.Gamma(2.0, 1.0).expand(shape)):
                with pytest.raises(BayesgenError, match=re.escape(str(shape)) + "|length"):
                    case.family.replace(**{key: value}).resolve(scale)


def test_hyperpriors_of_scale_matrices_that_are_no_matrices_are_refused():
    for shape in ((), (3,), (2, 3)):
        with pytest.raises(ModelError, match="symmetric positive-definite matrix"):
            NormalInverseWishart(scale=dist.Gamma(2.0, 1.0).expand(shape))


@every_case
def test_evidence_and_posterior_satisfy_bayes_rule_at_any_parameters(name, rng, codes):
    """p(T) = p(T | Q) p(Q) / p(Q | T), whatever Q: evidence, update and density, all at once."""
    case = CASES[name]
    prior, rows, weights = case.table(), case.rows(rng, ROWS), rng.integers(0, 4, ROWS) + 0.0
    summary = summarize(prior, rows, codes, weights)
    posterior, evidence = prior.update(summary), prior.log_evidence(summary)
    for _ in range(3):
        parameters = case.parameters(rng)
        likelihood = weights @ case.log_likelihood(parameters, rows, codes)
        expected = likelihood + case.log_prior(prior, parameters) - case.log_prior(posterior, parameters)
        close(evidence, expected, rtol=1e-10)


@every_case
def test_the_predictive_of_a_table_is_the_ratio_of_two_evidences(name, rng, codes):
    case = CASES[name]
    prior, rows, new = case.table(), case.rows(rng, ROWS), case.rows(rng, 3)
    summary = summarize(prior, rows, codes)
    found = prior.update(summary).row_predictive().log_prob(new)
    assert found.shape == (3, CLASSES)
    before = prior.log_evidence(summary)
    for row, given in zip(new, found, strict=True):
        added = [summary + summarize(prior, row[None], np.array([k])) for k in range(CLASSES)]
        close(given, [prior.log_evidence(one) - before for one in added], rtol=1e-10, atol=1e-10)


@some_cases
def test_the_closed_forms_of_many_data_sets_are_one_compiled_call(name, rng, codes):
    case = CASES[name]
    prior, rows, new = case.table(), case.rows(rng, ROWS), case.rows(rng, 3)
    sets = [summarize(prior, rows, codes, rng.integers(1, 4, ROWS) + 0.0) for _ in range(4)]

    def closed_forms(summary):
        posterior = prior.update(summary)
        points = posterior.mean(), posterior.mode(), posterior.variance(), prior.maximum_likelihood(summary)
        return posterior, prior.log_evidence(summary), points, posterior.row_predictive().log_prob(new)

    assert_vmap_is_one_by_one(closed_forms, sets, rtol=1e-9, atol=1e-10)


@every_lone_case
def test_the_predictive_alone_is_the_ratio_of_two_evidences(name, rng):
    case = CASES[name]
    rows, new = case.rows(rng, ROWS), case.rows(rng, 1)[0]
    ratio = case.family.log_evidence(np.vstack([rows, new])) - case.family.log_evidence(rows)
    close(log_prob(predictive(case.family.update(rows), new), new), ratio, rtol=1e-10, atol=1e-10)


@every_case
def test_sequential_is_batch(name, rng, codes):
    case = CASES[name]
    prior, rows = case.table(), case.rows(rng, ROWS)
    cut = 9
    first, second = summarize(prior, rows[:cut], codes[:cut]), summarize(prior, rows[cut:], codes[cut:])
    everything = summarize(prior, rows, codes)
    halfway = prior.update(first)
    assert_same(halfway.update(second), prior.update(everything))
    chained = prior.log_evidence(first) + halfway.log_evidence(second)
    close(chained, prior.log_evidence(everything), rtol=1e-11)


@every_case
def test_no_data_change_nothing(name, rng):
    case = CASES[name]
    prior = case.table()
    nothing = summarize(prior, case.rows(rng, 0), np.zeros(0, int))
    assert_same(prior.update(nothing), prior)
    close(prior.log_evidence(nothing), 0.0, atol=1e-12)


@every_lone_case
def test_alone_a_row_given_twice_is_weight_two(name, rng):
    family = CASES[name].family
    rows = CASES[name].rows(rng, ROWS)
    weights = rng.integers(0, 3, ROWS).astype(float)
    repeated = np.repeat(rows, weights.astype(int), axis=0)
    assert_same(family.update(rows, weights), family.update(repeated))
    close(family.log_evidence(rows, weights), family.log_evidence(repeated), rtol=1e-11)
    halves = family.update(rows[:9]).update(rows[9:])
    assert_same(halves, family.update(rows))


@every_lone_case
def test_each_class_of_a_table_is_the_family_alone(name, rng, codes):
    case = CASES[name]
    rows = case.rows(rng, ROWS)
    table = case.table().update(summarize(case.table(), rows, codes))
    terms = case.table().log_evidence_terms(summarize(case.table(), rows, codes))
    close(np.sum(terms), sum(case.family.log_evidence(rows[codes == k]) for k in range(CLASSES)), rtol=1e-11)
    for k in range(CLASSES):
        alone = case.family.update(rows[codes == k])
        for verb in ("mean", "mode", "variance"):
            for key, value in getattr(alone, verb)().items():
                close(getattr(table, verb)()[key][k], value, rtol=1e-11, err_msg=f"{verb} {key}")


@every_lone_case
def test_a_prior_alone_answers_before_any_data(name, rng):
    """The prior in a table of classes says the same, class by class."""
    case = CASES[name]
    if name == "DirichletCategorical":
        pytest.skip("alone it has one column")
    for verb in ("mean", "mode", "variance"):
        for key, value in getattr(case.family, verb)().items():
            expected = getattr(case.table(), verb)()[key][0]
            close(np.broadcast_to(value, expected.shape), expected, rtol=1e-12, err_msg=f"{verb} {key}")
    draws = case.family.sample(jax.random.key(3), (7,))
    for key, value in case.table().mean().items():
        assert draws[key].shape[0] == 7
        assert np.isfinite(draws[key]).all() and np.ndim(draws[key]) <= 1 + value[0].ndim
    row = predictive(case.family, case.rows(rng, 1)[0])
    assert (*row.batch_shape, *row.event_shape) in ((), (COLUMNS,)) or name.startswith("DirichletMarkov")


def with_cell(rows, value, place=(4, 1)):
    """Rows of which the cell at a place is another."""
    changed = rows.astype(object) if isinstance(value, str | None) else rows.copy()
    changed[place] = value
    return changed


@every_lone_case
@pytest.mark.parametrize("verb", ["update", "log_evidence"])
def test_alone_a_family_refuses_cells_that_it_cannot_make_by_row_and_column(name, verb, rng):
    case = CASES[name]
    family, rows = case.family, case.rows(rng, ROWS).astype(float)
    is_chain = name.startswith("DirichletMarkov")  # an array of floats is one of codes, which may be missing
    impossible = {"binary": [2.0, 0.5], "categorical": [VALUES, -1.0, 0.5], "count": [-1.0, 0.5]}.get(
        family.kind.name, []
    )
    for value in [np.nan, np.inf, "b", None, *impossible]:
        with pytest.raises(BayesgenError) as refusal:
            getattr(family, verb)(with_cell(rows, value))
        assert is_chain or ("row 4" in str(refusal.value) and "'x1'" in str(refusal.value)), str(refusal.value)
    for value in () if is_chain else (True, 1):
        assert getattr(family, verb)(with_cell(rows, value).tolist()) == getattr(family, verb)(with_cell(rows, 1.0))


@every_lone_case
def test_alone_a_family_refuses_rows_and_weights_of_another_shape(name, rng):
    family, rows = CASES[name].family, CASES[name].rows(rng, ROWS).astype(float)
    posterior = family.update(rows)
    columns = [rows[:, :1], rows[:, 0], np.hstack([rows, rows])]
    for wrong in (5.0, rows[..., None], rows[:, :0], [[1.0, 0.0], [1.0]], *columns):
        if not family.kind.has_steps:
            with pytest.raises(BayesgenError, match=r"shape|length"):
                posterior.update(wrong)
    for weights in (np.ones(ROWS - 1), np.ones((ROWS, 1)), np.full(ROWS, -1.0), np.full(ROWS, np.nan)):
        with pytest.raises(DataError, match="weights"):
            family.update(rows, weights)
    with pytest.raises(DataError, match=r"summarize\(rows, weights\)"):
        posterior.update(posterior.summarize(rows), np.ones(ROWS))


@every_case
@pytest.mark.parametrize("size", [CLASSES, CLASSES + 1])
def test_several_data_sets_along_a_leading_axis_are_refused(name, size, rng, codes):
    """Whether or not they are as many as the classes, of which they would be taken for the axis."""
    case = CASES[name]
    prior = case.table()
    summaries = [summarize(prior, case.rows(rng, ROWS), codes) for _ in range(size)]
    together = jax.tree.map(lambda *leaves: np.stack(leaves), *summaries)
    for refused in (prior.update, prior.log_evidence, *([prior.maximum_likelihood] if "tied" in name else [])):
        with pytest.raises(ModelError, match=rf"table of the shape \({CLASSES}, .*\({size}, {CLASSES}, .*vmap"):
            refused(together)


def moved(case, parameters, rng, step):
    """Parameters moved a little: probabilities stay on their simplex, covariances symmetric."""
    out = {}
    for key, value in parameters.items():
        noise = rng.normal(0, 1, value.shape)
        if key == "covariance":
            noise = noise + np.swapaxes(noise, -1, -2)
        elif case.simplex:
            noise = noise - noise.mean(-1, keepdims=True)
        out[key] = value + step * noise
    return out


def assert_maximum(density, case, parameters, rng):
    """The density falls in random directions, equally in both senses (to first order)."""
    top = density(parameters)
    for seed in range(8):
        sides = [density(moved(case, parameters, np.random.default_rng(seed), step)) for step in (-1e-4, 1e-4)]
        assert max(sides) < top
        falls = top - np.array(sides)
        close(falls[0], falls[1], rtol=0.05, atol=1e-8)


@every_case
def test_the_mode_maximises_the_density(name, rng, codes):
    case = CASES[name]
    prior, rows = case.table(), case.rows(rng, ROWS)
    mode = prior.update(summarize(prior, rows, codes)).mode()

    def density(parameters):
        return case.log_prior(prior, parameters) + case.log_likelihood(parameters, rows, codes).sum()

    assert_maximum(density, case, mode, rng)


@every_case
def test_maximum_likelihood_maximises_the_likelihood(name, rng, codes):
    case = CASES[name]
    prior, rows, codes = case.table(), case.rows(rng, 7 * ROWS), np.tile(codes, 7)
    point = prior.maximum_likelihood(summarize(prior, rows, codes))
    assert_maximum(lambda p: case.log_likelihood(p, rows, codes).sum(), case, point, rng)


@every_case
def test_draws_have_the_moments_that_are_told(name, rng, codes):
    case = CASES[name]
    posterior = case.table().update(summarize(case.table(), case.rows(rng, ROWS), codes))
    size = 4001
    draws = posterior.sample(jax.random.key(17), (size,))
    assert set(draws) == set(posterior.mean()) == set(posterior.variance()) == set(posterior.parameter_axes())
    for key, value in draws.items():
        expected, spread = posterior.mean()[key], posterior.variance()[key]
        assert value.dtype == np.float64 and value.shape == (size, *expected.shape)
        assert expected.ndim == len(posterior.parameter_axes()[key])
        squares = (value - expected) ** 2
        assert (np.abs(value.mean(0) - expected) < 5 * np.sqrt(spread / size)).all(), key
        assert (np.abs(squares.mean(0) - spread) < 5 * squares.std(0) / np.sqrt(size)).all(), key
    again = posterior.sample(jax.random.key(17), (size,))
    assert all((again[key] == draws[key]).all() for key in draws)


@every_case
def test_draws_follow_the_posterior_density(name, rng, codes):
    """E[p(T' | Q)] over draws of the posterior is the evidence of T' under it: more than two moments."""
    case = CASES[name]
    prior, rows = case.table(), case.rows(rng, ROWS)
    posterior = prior.update(summarize(prior, rows, codes))
    draws = posterior.sample(jax.random.key(2), (251,))
    row, label = rows[:1], codes[:1]
    densities = [prior.row_density({k: v[i] for k, v in draws.items()}) for i in range(251)]
    terms = np.exp([density.log_prob(row)[0, label[0]] for density in densities])
    expected = np.exp(posterior.log_evidence(summarize(prior, row, label)))
    assert abs(terms.mean() - expected) < 5 * terms.std() / np.sqrt(len(terms))


@every_case
def test_the_sites_are_the_prior_and_the_likelihood(name, rng, codes):
    """The NumPyro program of the family has SciPy's density, the Cholesky Jacobian taken out."""
    case = CASES[name]
    prior, rows, parameters = case.table(), case.rows(rng, ROWS), case.parameters(rng)
    covariate = covariate_of(prior, rows)
    values_in_rows = rows.astype(int) if name == "DirichletCategorical" else rows

    def program():
        sites = prior.sample_sites("block")
        with numpyro.plate("rows", ROWS):
            numpyro.sample("x", prior.site_distribution(sites, codes, **covariate))

    @jax.jit
    def run(values, rows):
        trace = handlers.trace(handlers.substitute(handlers.seed(program, 0), data={**values, "x": rows})).get_trace()
        sites = {k: v["fn"].log_prob(v["value"]) for k, v in trace.items() if v["type"] == "sample"}
        return (
            sites.pop("x"),
            sum(one.sum() for one in sites.values()),
            {k: v["value"] for k, v in trace.items()},
        )

    jacobian, values = 0.0, {f"block_{key}": value for key, value in parameters.items()}
    for site, (parameter, transform) in prior.coordinates.items():
        with jax.enable_x64(True):
            value = values.pop(f"block_{parameter}")
            factor = transform(value)
            jacobian += float(np.sum(transform.log_abs_det_jacobian(value, factor)))
            values[f"block_{site}"] = factor
    with jax.enable_x64(True):
        likelihood, density, traced = jax.tree.map(np.asarray, run(values, values_in_rows))
    close(likelihood, case.log_likelihood(parameters, rows, codes), rtol=1e-9, atol=1e-9)
    close(density + jacobian, case.log_prior(prior, parameters), rtol=1e-9)
    for key, value in parameters.items():
        close(traced[f"block_{key}"], value, rtol=1e-11)


@every_case
def test_the_row_density_is_the_likelihood(name, rng):
    case = CASES[name]
    rows, parameters = case.rows(rng, ROWS), case.parameters(rng)
    density = case.table().row_density(parameters)
    expected = [case.log_likelihood(parameters, rows, np.full(ROWS, k)) for k in range(CLASSES)]
    close(density.log_prob(rows), np.stack(expected, -1), rtol=1e-10, atol=1e-10)


@every_case
def test_a_family_is_a_pytree_of_its_hyperparameters(name):
    family = CASES[name].table()
    leaves, structure = jax.tree.flatten(family)
    assert len(leaves) == len(family.hyperparameters)
    assert_same(jax.tree.unflatten(structure, leaves), family)
    assert jax.tree.unflatten(structure, leaves).batch_shape == family.batch_shape


VERBS = {
    "update": lambda family, rows: family.update(rows),
    "log_evidence": lambda family, rows: family.log_evidence(rows),
    "mean": lambda family, rows: family.mean(),
    "mode": lambda family, rows: family.mode(),
    "variance": lambda family, rows: family.variance(),
    "sample": lambda family, rows: family.sample(jax.random.key(0)),
    "predictive": lambda family, rows: family.predictive(),
}


@every_lone_case
def test_closed_forms_refuse_a_hyperparameter_that_is_a_distribution(name, rng):
    case = CASES[name]
    rows = case.rows(rng, ROWS)
    for key in case.family.hyperparameters:
        prior = numpyro.distributions.Gamma(2.0, 1.0)
        if key == "scale" and np.ndim(case.family.scale) == 2:
            prior = numpyro.distributions.WishartCholesky(5.0, scale_tril=np.eye(COLUMNS))
        family = case.family.replace(**{key: prior})
        assert family.hierarchical == [key]
        for call in VERBS.values():
            with pytest.raises(ModelError, match=rf"{type(family).__name__}: .*hyperparameter {argument(key)} .*NUTS"):
                call(family, rows)


def argument(field):
    """The constructor's argument behind a field: a method is called `mean`, so its field has another name."""
    return "mean" if field == "location" else field


@every_lone_case
def test_closed_forms_refuse_what_is_not_resolved(name):
    family = type(CASES[name].family)()
    if not family.unresolved:
        return
    for verb in ("mean", "mode", "variance", "sample", "predictive"):
        with pytest.raises(ModelError, match=f"{verb} needs numbers for .*{argument(family.unresolved[0])}"):
            VERBS[verb](family, None)


POSITIVE = [
    (name, key)
    for name in CASES
    if "," not in name
    for key in CASES[name].family.hyperparameters
    if key not in ("location", "edges", "tails") and (name, key) != ("NormalInverseWishart", "scale")
]


@pytest.mark.parametrize(("name", "key"), POSITIVE)
@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf, [1.0, -2.0]])
def test_hyperparameters_out_of_range_are_refused_by_name(name, key, value):
    with pytest.raises(ModelError, match=rf"{name}: the hyperparameter {key} must be positive"):
        getattr(bayesgen, name)(**{key: value})


NAMES = Names("plants", ("oak", "elm"), ("height", "girth", "age"))


@every_case
def test_maximum_likelihood_without_rows_names_block_and_class(name, rng):
    case = CASES[name]
    if "tied" in name and "Gamma" in name:
        codes = np.zeros(ROWS, int)
        expected = "plants.*'elm'"
    else:
        codes, expected = np.ones(ROWS, int), "plants.*'oak'"
    family = case.table()
    with pytest.raises(FitError, match=expected):
        family.maximum_likelihood(summarize(family, case.rows(rng, ROWS), codes), NAMES)


def test_errors_of_the_families_are_bayesgens():
    assert issubclass(FitError, BayesgenError) and issubclass(ModelError, BayesgenError)
