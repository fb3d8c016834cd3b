"""Missing cells and responsibilities in statistics, against brute force: cells dropped, rows dropped, rows copied."""

import dataclasses
import functools

import jax
import numpy as np
import pytest
import scipy.sparse
from scipy.stats import multivariate_normal
from test_statistics import CASES, CLASSES, COLUMNS, EMPTY, ROWS, likelihood_of, read

from bayesgen.errors import DataError
from bayesgen.runtime import Traced
from bayesgen.statistics import Moments
from bayesgen.statistics.table import MULTIVARIATE_NORMAL, NORMAL

every_case = pytest.mark.parametrize("name", CASES)
VECTORS = [name for name in CASES if name.startswith(("Multi", "LowRank", "Dirichlet", "Markov"))]
columnwise = pytest.mark.parametrize("name", [name for name in CASES if name not in VECTORS])


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


@pytest.fixture
def rng():
    return np.random.default_rng(11)


def same(one, two, rtol=1e-11, atol=1e-11):
    assert jax.tree.structure(one) == jax.tree.structure(two)
    assert jax.tree.map(np.shape, one) == jax.tree.map(np.shape, two)
    jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=rtol, atol=atol), one, two)


def data(name, rng):
    likelihood, per_row = likelihood_of(name, rng)
    return likelihood, CASES[name].rows(rng), per_row, rng.choice([0, 2], ROWS), rng.gamma(1.0, 1.0, ROWS)


def take(per_row, rows):
    return {key: value[rows] for key, value in per_row.items()}


def with_holes(values, rng):
    """Rows with NaN in cells that are missing (any number, where they hold integers), and the mask of the others."""
    observed = rng.random(values.shape) < 0.7
    return np.where(observed, values, np.nan if values.dtype.kind == "f" else -7), observed


@every_case
@pytest.mark.parametrize("weighted", [False, True])
def test_one_hot_responsibilities_are_codes(name, weighted, rng):
    likelihood, values, per_row, codes, weights = data(name, rng)
    weights = weights if weighted else None
    by_codes = likelihood.summarize(values, codes, CLASSES, weights, row_parameters=per_row)
    by_rows = likelihood.summarize(values, np.eye(CLASSES)[codes], CLASSES, weights, row_parameters=per_row)
    same(by_rows, by_codes)
    assert (by_rows.count[EMPTY] == 0).all()


@every_case
def test_responsibilities_are_weighted_copies_in_every_class(name, rng):
    likelihood, values, per_row, _, weights = data(name, rng)
    responsibilities = rng.dirichlet(np.full(CLASSES, 0.5), ROWS)
    copies, codes = np.tile(np.arange(ROWS), CLASSES), np.repeat(np.arange(CLASSES), ROWS)
    expected = likelihood.summarize(
        values[copies],
        codes,
        CLASSES,
        (responsibilities * weights[:, None]).T.ravel(),
        row_parameters=take(per_row, copies),
    )
    same(likelihood.summarize(values, responsibilities, CLASSES, weights, row_parameters=per_row), expected)


ALIKE = ("MultivariateNormal, covariance_matrix", "MultivariateNormal, precision_matrix")


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in ALIKE)) for name in CASES])
def test_traced_summaries_are_those_of_numpy(name, rng):
    likelihood, values, per_row, codes, weights = data(name, rng)
    per_row, holes = jax.tree.map(np.array, per_row), with_holes(values, rng)[1]
    responsibilities = rng.dirichlet(np.full(CLASSES, 0.5), ROWS)
    holes = None if name in VECTORS else holes
    given = ((codes, None, holes), (codes, weights, None), (responsibilities, weights, holes))

    def run(values, given, per_row):
        return [likelihood.summarize(values, classes, CLASSES, w, mask, per_row) for classes, w, mask in given]

    found = Traced.of(run, values, given, per_row)(values, given, per_row)
    for traced, expected in zip(found, run(values, given, per_row), strict=True):
        assert all(isinstance(leaf, np.ndarray) for leaf in jax.tree.leaves(expected))
        same(jax.tree.map(np.asarray, traced), expected)


@columnwise
@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_missing_cell_is_dropped_from_its_column(name, soft, weighted, rng):
    likelihood, values, per_row, codes, weights = data(name, rng)
    weights = weights if weighted else None
    classes = rng.dirichlet(np.full(CLASSES, 0.5), ROWS) if soft else codes
    values, observed = with_holes(values, rng)
    found = likelihood.summarize(values, classes, CLASSES, weights, observed, per_row)
    assert found.count.shape == (CLASSES, COLUMNS)
    for column in range(COLUMNS):
        rows, place = observed[:, column], slice(column, column + 1)
        expected = likelihood.summarize(
            values[rows, place],
            classes[rows],
            CLASSES,
            None if weights is None else weights[rows],
            row_parameters={key: value[rows, place] for key, value in per_row.items()},
        )
        of_column = jax.tree.map(lambda array, place=place: array[:, place], found)
        assert jax.tree.structure(of_column) == jax.tree.structure(expected)
        for one, other in zip(jax.tree.leaves(of_column), jax.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(one, other.reshape(one.shape), rtol=1e-11, atol=1e-11)


@columnwise
@pytest.mark.parametrize("soft", [False, True])
def test_a_row_and_a_column_without_observed_cells(name, soft, rng):
    likelihood, values, per_row, codes, weights = data(name, rng)
    classes = rng.dirichlet(np.full(CLASSES, 0.5), ROWS) if soft else codes
    observed = np.ones(values.shape, bool)
    observed[[3, 17]] = False
    kept = observed[:, 0]
    found = likelihood.summarize(values, classes, CLASSES, weights, observed, per_row)
    expected = likelihood.summarize(
        values[kept], classes[kept], CLASSES, weights[kept], row_parameters=take(per_row, kept)
    )
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(
            one, other if one.shape == other.shape else np.stack([other] * COLUMNS, 1), rtol=1e-11
        )
    observed[:, 1] = False
    empty = likelihood.summarize(values, classes, CLASSES, weights, observed, per_row)
    assert all((leaf[:, 1] == 0).all() for leaf in jax.tree.leaves(empty))
    np.testing.assert_array_equal(empty.count[:, 0], found.count[:, 0])


@columnwise
def test_summaries_merge_with_and_without_missing_cells(name, rng):
    likelihood, values, per_row, codes, weights = data(name, rng)
    whole_values = values
    values, observed = with_holes(values, rng)
    observed[:19], values[:19] = True, whole_values[:19]

    def summarize(rows, masked=True):
        mask = observed[rows] if masked else None
        return likelihood.summarize(values[rows], codes[rows], CLASSES, weights[rows], mask, take(per_row, rows))

    everything, index = summarize(np.arange(ROWS)), np.arange(ROWS)
    whole, holes = summarize(index[:19], masked=False), summarize(index[19:])
    assert whole.count.shape == (CLASSES,)
    same(whole + holes, everything)
    same(holes + whole, everything)
    same(summarize(index[:1]) + summarize(index[1:]), everything)
    merged = jax.jit(lambda one, other: one + other)(whole, holes)
    same(jax.tree.map(np.asarray, merged), everything)
    same(
        everything.pooled().select_class(0),
        likelihood.summarize(values, 0 * codes, 1, weights, observed, per_row).select_class(0),
    )


@columnwise
def test_the_likelihood_of_what_is_observed(name, rng):
    _, values, per_row, codes, weights = data(name, rng)
    likelihood, parameters, _, cells = read(name, CASES[name].parameters(rng), values)
    values, observed = with_holes(values, rng)
    summary = likelihood.summarize(values, codes, CLASSES, weights, observed, per_row)
    weighted = weights[:, None] * np.where(observed, cells[np.arange(ROWS), codes], 0.0)
    expected = np.stack([weighted[codes == k].sum(0) for k in range(CLASSES)])
    np.testing.assert_allclose(likelihood.log_likelihood(parameters, summary), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("name", "words"), [("Multinomial, probs", "a multinomial"), ("Dirichlet", "a Dirichlet")])
def test_vectors_are_left_out_as_a_whole_and_refuse_missing_parts_by_name(name, words, rng):
    likelihood, values, per_row, codes, weights = data(name, rng)
    whole = rng.random(values.shape[:-1]) < 0.6
    observed = np.repeat(whole[..., None], values.shape[-1], -1)
    holed = np.where(observed, values, np.nan)
    found = likelihood.summarize(holed, codes, CLASSES, weights, observed, per_row)
    for column in range(values.shape[1]):
        rows, place = whole[:, column], slice(column, column + 1)
        kept = {key: value[rows, place] for key, value in per_row.items()}
        expected = likelihood.summarize(values[rows, place], codes[rows], CLASSES, weights[rows], row_parameters=kept)
        of_column = jax.tree.map(lambda array, place=place: array[:, place], found)
        same(of_column, dataclasses.replace(expected, count=expected.count[:, None]))
    observed[3, 0, 1] = not observed[3, 0, 1]
    with pytest.raises(DataError, match=rf"The vectors of {words} distribution have missing cells"):
        likelihood.summarize(values, codes, CLASSES, observed=observed, row_parameters=per_row)


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("traced", [False, True])
def test_moments_of_far_off_and_constant_columns(soft, traced, rng):
    """Centred, whatever the way they are made: large offsets cost no digits, constant columns have no scatter."""
    codes = rng.integers(0, 3, 101)
    values = rng.normal((1e8, 0.0, -3.0), 1.0, (101, 3))
    values[:, 1] = np.array([0.1, 0.7, 1e9 / 3])[codes]
    values[0, 0] = 1e5
    observed = rng.random(values.shape) < 0.7
    classes = np.eye(3)[codes] if soft else codes

    def summarize(*arrays):
        return NORMAL.summarize(arrays[0], arrays[1], 3, *arrays[2:])

    run = jax.jit(summarize) if traced else summarize
    found = run(values, classes, rng.gamma(1.0, 1.0, 101), observed)
    assert (np.asarray(found.scatter)[:, 1] == 0).all()
    unweighted = run(values, classes, np.ones(101), observed)
    for k in range(3):
        for column in (0, 2):
            cells = values[(codes == k) & observed[:, column], column].astype(np.longdouble)
            scatter = ((cells - cells.mean()) ** 2).sum()
            np.testing.assert_allclose(unweighted.scatter[k, column], float(scatter), rtol=1e-10)


def test_sparse_rows_have_responsibilities_and_no_missing_cells(rng):
    for name, dense in (
        ("Multinomial, probs", rng.poisson(0.4, (ROWS, 7)).astype(float)),
        ("Bernoulli, probs", (rng.random((ROWS, 7)) < 0.2).astype(float)),
    ):
        likelihood = likelihood_of(name, rng)[0]
        classes = rng.dirichlet(np.full(CLASSES, 0.5), ROWS)
        classes[:, EMPTY] = 0.0
        sparse = scipy.sparse.csr_array(dense)
        same(likelihood.summarize(sparse, classes, CLASSES), likelihood.summarize(dense, classes, CLASSES))
        with pytest.raises(DataError, match="missing cells"):
            likelihood.summarize(sparse, classes, CLASSES, observed=np.ones(dense.shape, bool))


def test_gradients_reach_responsibilities(rng):
    """Summaries made inside of what JAX differentiates: an expected log likelihood, by its responsibilities."""
    values, observed = with_holes(rng.normal(size=(ROWS, COLUMNS)), rng)

    def scatter(responsibilities):
        return NORMAL.summarize(values, responsibilities, CLASSES, observed=observed).scatter.sum()

    responsibilities = rng.dirichlet(np.full(CLASSES, 2.0), ROWS)
    direction = rng.normal(size=responsibilities.shape)
    slope = (np.asarray(jax.jit(jax.grad(scatter))(responsibilities)) * direction).sum()
    step = 1e-6 * direction
    expected = (scatter(responsibilities + step) - scatter(responsibilities - step)) / 2e-6
    np.testing.assert_allclose(slope, expected, rtol=1e-6)


# --- densities of rows ------------------------------------------------------------------------------------------


@columnwise
@pytest.mark.parametrize("traced", [False, True])
def test_the_density_of_what_is_observed(name, traced, rng):
    values = CASES[name].rows(rng)
    likelihood, parameters, _, cells = read(name, CASES[name].parameters(rng), values)
    if likelihood.has_row_parameters:
        return
    values, observed = with_holes(values, rng)
    observed[5] = False

    def run(parameters, many, *rows):
        return likelihood.density(parameters).log_prob(*rows), likelihood.log_prob_of_many(many, *rows)

    many = jax.tree.map(lambda array: np.stack([array, array[::-1], array]), parameters)
    found, tables = (jax.jit(run) if traced else run)(parameters, many, values, observed)
    assert isinstance(found, jax.Array if traced else np.ndarray)
    expected = np.where(observed[:, None], cells, 0.0).sum(-1)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(tables[:, 1].T, expected[:, ::-1], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("Bernoulli, probs", {"log_one": [[0.0, -np.inf]], "log_zero": [[-np.inf, 0.0]]}),
        ("Poisson", {"rate": [[0.0, 0.0]], "log_rate": [[-np.inf, -np.inf]]}),
    ],
)
def test_missing_cells_make_nothing_impossible(name, parameters, rng):
    likelihood = likelihood_of(name, rng)[0]
    values, observed = np.array([[1.0, 0.0], [0.0, 1.0], [np.nan, 1.0]]), np.array([[1, 1], [0, 0], [0, 1]], bool)
    found = likelihood.density({key: np.array(value) for key, value in parameters.items()}).log_prob(values, observed)
    np.testing.assert_array_equal(found[1:], [[0.0], [-np.inf]])


# --- joint normals, by pattern ----------------------------------------------------------------------------------


def marginals(parameters, rows, observed):
    """SciPy's log density of what is observed of each row, under each class and column: (n, K, columns)."""
    factor = np.asarray(parameters["scale_tril"])
    covariance = factor @ np.swapaxes(factor, -1, -2)
    table = np.zeros((len(rows), CLASSES, COLUMNS))
    for i, k, column in np.ndindex(*table.shape):
        seen = np.flatnonzero(observed[i, column])
        if len(seen):
            law = multivariate_normal(parameters["loc"][k, column, seen], covariance[k, column][np.ix_(seen, seen)])
            table[i, k, column] = law.logpdf(rows[i, column, seen])
    return table


def normal_with_holes(rng, offset=0.0):
    case = CASES["MultivariateNormal, scale_tril"]
    parameters, rows = case.parameters(rng), case.rows(rng)
    parameters["loc"] = parameters["loc"] + offset * np.arange(CLASSES)[:, None, None]
    observed = rng.random(rows.shape) < 0.6
    observed[0], observed[1] = True, False
    return MULTIVARIATE_NORMAL, parameters, np.where(observed, rows, np.nan), observed


@jax.jit
def traced_densities(parameters, density, rows, observed):
    """Densities prepared while tracing, and those that were prepared before."""
    prepared = MULTIVARIATE_NORMAL.density(parameters)
    return prepared.log_prob(rows, observed), density.log_prob(rows, observed)


@pytest.mark.parametrize("offset", [0.0, 1e5])
def test_joint_normal_densities_are_marginals(offset, rng):
    likelihood, parameters, rows, observed = normal_with_holes(rng, offset)
    expected = marginals(parameters, rows, observed).sum(-1)
    density = likelihood.density(parameters)
    for found in (density.log_prob(rows, observed), *traced_densities(parameters, density, rows, observed)):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    many = jax.tree.map(lambda array: np.stack([array, array[::-1]]), parameters)
    tables = likelihood.log_prob_of_many(many, rows, observed)
    np.testing.assert_allclose(tables[:, 1].T, expected[:, ::-1], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("soft", [False, True])
def test_moments_by_pattern_give_the_likelihood_of_what_is_observed(soft, rng):
    likelihood, parameters, rows, observed = normal_with_holes(rng)
    codes, weights = rng.choice([0, 2], ROWS), rng.gamma(1.0, 1.0, ROWS)
    responsibilities = rng.dirichlet(np.full(CLASSES, 0.5), ROWS) if soft else np.eye(CLASSES)[codes]
    summary = likelihood.summarize(rows, responsibilities if soft else codes, CLASSES, weights, observed)
    expected = np.einsum("nk,n,nkc->kc", responsibilities, weights, marginals(parameters, rows, observed))
    found = jax.jit(likelihood.log_likelihood)(parameters, summary)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-9)
    of_class = {name: value[2] for name, value in parameters.items()}
    found = likelihood.log_likelihood(of_class, summary.select_class(2))
    np.testing.assert_allclose(found, expected[2], rtol=1e-10, atol=1e-9)
    groups = [np.flatnonzero(of_row) for of_row in responsibilities * weights[:, None]]
    keys = {(k, *observed[row].ravel()) for row, of_row in enumerate(groups) for k in of_row if observed[row].any()}
    assert summary.num_groups == len(keys)


def test_moments_by_pattern_merge_with_each_other_and_with_those_of_whole_rows(rng):
    likelihood, _, rows, observed = normal_with_holes(rng)
    observed[:7], observed[20:27] = True, observed[10:17]
    rows = np.where(observed, rng.normal(size=rows.shape), np.nan)
    codes = rng.choice([0, 2], ROWS)

    def summarize(part, masked=True):
        return likelihood.summarize(rows[part], codes[part], CLASSES, None, observed[part] if masked else None)

    everything = summarize(slice(None))
    whole, second, third = summarize(slice(7), masked=False), summarize(slice(7, 18)), summarize(slice(18, None))
    assert isinstance(whole, Moments)
    for merged in ((whole + second) + third, third + (second + whole), second + (whole + third)):
        same_groups(merged, everything)
    same_groups(everything + summarize(slice(0)), everything)
    one_class = likelihood.summarize(rows, 0 * codes, 1, None, observed)
    same_groups(everything.pooled(), one_class)
    of_class = codes == 2
    alone = likelihood.summarize(rows[of_class], 0 * codes[of_class], 1, None, observed[of_class])
    same_groups(everything.select_class(2), alone.select_class(0))
    assert everything.select_class(1).num_groups == 0


def same_groups(one, two):
    """Whether groups are the same, and products of the rows for their scatter add up to the same."""
    scatters = []
    for summary in (one, two):
        matrices = np.zeros((*summary.mean.shape, summary.mean.shape[-1]))
        np.add.at(matrices, summary.spread_groups, summary.spread[..., :, None] * summary.spread[..., None, :])
        scatters.append(matrices)
    np.testing.assert_allclose(*scatters, atol=1e-11)
    no_spread = {"spread": one.spread[:0], "spread_groups": one.spread_groups[:0]}
    same(dataclasses.replace(one, **no_spread), dataclasses.replace(two, **no_spread))


def test_columns_of_moments_by_pattern_are_those_of_independent_columns(rng):
    likelihood, _, rows, observed = normal_with_holes(rng)
    codes, weights = rng.choice([0, 2], ROWS), rng.gamma(1.0, 1.0, ROWS)
    columns = likelihood.summarize(rows, codes, CLASSES, weights, observed).by_column()
    same(columns, NORMAL.summarize(rows, codes, CLASSES, weights, observed))
