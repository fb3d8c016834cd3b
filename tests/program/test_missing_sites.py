"""Missing cells of programs of one's own: left out, against quadrature over them; or refused by both names."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import scipy.stats
from scipy.special import logsumexp

import bayesgen as bg
from bayesgen.errors import DataError
from bayesgen.program import LogPriorKind, ProgramDensity, StatisticsTerm, log_joint_draws, program_table
from program.programs import (
    BOUND,
    ROWS,
    covariate,
    data_of,
    entangled,
    handled,
    inner_plate,
    mixed,
    outer_plate,
    probabilities,
)

close = np.testing.assert_allclose
ROW = 4


def vectors(n):
    """Events of several numbers, compressed and row by row: `v` is jointly normal about a multiple of `u`."""
    p = probabilities()
    mean = numpyro.sample("mean", dist.Normal(0, 2).expand([3, 2]).to_event(2))
    alpha = numpyro.sample("alpha", dist.Gamma(3.0, 1.0).expand([3, 3]).to_event(2))
    factor = jnp.array([[1.0, 0.0], [0.7, 0.6]])
    with numpyro.plate("rows", n):
        y = numpyro.sample("y", dist.Categorical(p))
        numpyro.sample("x", dist.MultivariateNormal(mean[y], scale_tril=factor))
        numpyro.sample("s", dist.Dirichlet(alpha[y]))
        u = numpyro.sample("u", dist.Normal(mean[y, 0], 1.0))
        numpyro.sample("v", dist.MultivariateNormal(mean[y] * u[:, None], scale_tril=factor))
        numpyro.sample("f", dist.LowRankMultivariateNormal(mean[y], factor[:, :1], jnp.array([0.3, 0.8])))
        numpyro.sample("t", dist.MultivariateStudentT(5.0, mean[y], factor))


def edges(n):
    """Sites without a statistic whose log densities have no value, or no slope, at zero and at NaN."""
    p = probabilities()
    shape = numpyro.sample("shape", dist.Gamma(3.0, 1.0).expand([3]).to_event(1))
    with numpyro.plate("rows", n):
        y = numpyro.sample("y", dist.Categorical(p))
        numpyro.sample("w", dist.Weibull(shape[y], 1.5))
        numpyro.sample("k", dist.Kumaraswamy(shape[y][:, None], jnp.array([2.0, 3.0])).to_event(1))
        numpyro.sample("c", dist.NegativeBinomial2(shape[y], 2.0))


def vector_data(rng):
    latents = {"p": rng.dirichlet(np.full(3, 4.0)), "mean": rng.normal(0, 1, (3, 2)), "alpha": rng.gamma(3, 1, (3, 3))}
    rows = {name: rng.normal(0, 1, (ROWS, 2)) for name in "xvft"}
    return latents, rows | {"u": rng.normal(0, 1, ROWS), "s": rng.dirichlet(np.ones(3), ROWS)}, rng.integers(0, 3, ROWS)


def edge_data(rng):
    latents = {"p": rng.dirichlet(np.full(3, 4.0)), "shape": rng.gamma(3, 1, 3)}
    rows = {"w": rng.weibull(2, ROWS), "k": rng.beta(2, 2, (ROWS, 2)), "c": rng.poisson(2.0, ROWS)}
    return latents, rows, rng.integers(0, 3, ROWS)


def example(function):
    """Latents, rows with covariates, and labels."""
    rng = np.random.default_rng(21)
    if function is vectors:
        return vector_data(rng)
    if function is edges:
        return edge_data(rng)
    latents, rows, y, covariates = data_of(function, rng)
    return latents, rows | covariates, y


def rows_first(function, cells):
    return np.moveaxis(cells, -1, 0) if function is inner_plate and cells.ndim > 1 else cells


def with_nan(function, rows, name, cell):
    """The rows with one cell (row, ...) of an attribute missing."""
    cells = np.array(rows[name], float)
    rows_first(function, cells)[cell] = np.nan
    return rows | {name: cells}


def repeated(function, rows, name, cell, values):
    """One of the rows, once with each value in place of its cell."""
    many = {
        key: np.moveaxis(np.repeat(rows_first(function, np.asarray(cells, float))[[cell[0]]], len(values), 0), 0, -1)
        if function is inner_plate and np.ndim(cells) > 1
        else np.repeat(np.asarray(cells, float)[[cell[0]]], len(values), 0)
        for key, cells in rows.items()
    }
    rows_first(function, many[name])[(slice(None), *cell[1:])] = values
    return many


def real_line(size=400):
    nodes, weights = np.polynomial.legendre.leggauss(size)
    return 3 * nodes / (1 - nodes**2), np.log(weights * 3 * (1 + nodes**2) / (1 - nodes**2) ** 2)


def interval(most):
    nodes, weights = np.polynomial.legendre.leggauss(400)
    return most * (nodes + 1) / 2, np.log(most * weights / 2)


def counts(most):
    return np.arange(most + 1.0), np.zeros(most + 1)


CELLS = [
    (mixed, "x", (ROW,), real_line),
    (mixed, "counts", (ROW, 1), lambda: counts(80)),
    (entangled, "z", (ROW,), real_line),
    (entangled, "t", (ROW,), real_line),
    (outer_plate, "x", (ROW, 1), real_line),
    (inner_plate, "x", (ROW, 1), real_line),
    (handled, "w", (ROW, 0), real_line),
    (covariate, "hits", (ROW,), lambda: counts(4)),
    (covariate, "x", (ROW,), real_line),
    (vectors, "x", (ROW, 1), real_line),
    (vectors, "v", (ROW, 0), real_line),
    (vectors, "f", (ROW, 1), real_line),
    (edges, "w", (ROW,), lambda: interval(30.0)),
    (edges, "k", (ROW, 1), lambda: interval(1.0)),
    (edges, "c", (ROW,), lambda: counts(200)),
]
QUICK = {"hits of covariate", "v of vectors"}


def mostly_slow(names):
    """What compiles programs is run for some; for the others with -m slow."""
    return [() if name in QUICK else pytest.mark.slow for name in names]


CELL_NAMES = [f"{name} of {function.__name__}" for function, name, *_ in CELLS]
every_cell = pytest.mark.parametrize(
    ("function", "name", "cell", "values"),
    [
        pytest.param(*case, id=name, marks=marks)
        for case, name, marks in zip(CELLS, CELL_NAMES, mostly_slow(CELL_NAMES), strict=True)
    ],
)


def some_slow(quick, others):
    return pytest.mark.parametrize(
        "function", [*quick, *(pytest.param(other, marks=pytest.mark.slow) for other in others)]
    )


@every_cell
def test_the_density_without_a_cell_is_the_integral_over_it(function, name, cell, values):
    latents, rows, _ = example(function)
    if function is covariate:
        rows["trials"][ROW] = 4.0
    points, log_weights = values()
    whole = BOUND[function].log_joint(latents, repeated(function, rows, name, cell, points))
    found = BOUND[function].log_joint(latents, with_nan(function, rows, name, cell))[ROW]
    close(found, logsumexp(whole + log_weights[:, None], axis=0), rtol=1e-6)


def holed(function):
    """Rows a fourth of whose univariate cells, and of whose other events, is missing; all rows have one or two."""
    latents, rows, y = example(function)
    rng = np.random.default_rng(22)
    for name, site in BOUND[function].structure.attributes:
        if function is entangled and name == "x":
            continue  # `z` depends on it
        if function is vectors and name == "u":
            continue
        cells = np.array(rows[name], float)
        there = rows_first(function, cells)
        shape = there.shape[: there.ndim - site.event_axes]
        there[rng.random(shape) < 0.25] = np.nan
        rows[name] = cells
    return latents, rows, y


@some_slow([entangled], [vectors, mixed, inner_plate, handled, covariate, edges])
def test_summaries_draws_and_tables_agree_on_the_cells_that_are_there(function):
    """The density of the data is the prior and the sum of the table's entries, whatever is compressed."""
    own, (latents, whole, y), (_, rows, _) = BOUND[function], example(function), holed(function)
    of_labels = [own.log_joint(latents, X)[np.arange(ROWS), y].sum() for X in (whole, rows)]
    prior = own.log_density(latents, whole, y) - of_labels[0]
    close(own.log_density(latents, rows, y), prior + of_labels[1], rtol=1e-10)
    read = own.read_rows(None, rows)
    several = {name: np.stack([np.asarray(value)] * 3) for name, value in latents.items()}
    table = log_joint_draws(own, several, read)
    close(table[1], program_table(own, latents, read), rtol=1e-9)
    close(table[1], own.log_joint(latents, rows), rtol=1e-9)


@some_slow([edges], [entangled, vectors])
def test_densities_without_cells_have_slopes(function):
    """Reverse-mode derivatives against differences: what stands in missing places leaves no NaN in them."""
    own, (_, rows, y) = BOUND[function], holed(function)
    statistics = bg.summarize(own, rows, y).statistics.padded()
    density = ProgramDensity(own, (StatisticsTerm(statistics),), LogPriorKind.SITES)
    rng = np.random.default_rng(23)
    with jax.enable_x64(True):
        at, direction = rng.normal(0, 0.3, (2, density.dimension))
        of = jax.jit(jax.value_and_grad(density))
        slope = float(np.asarray(of(at)[1]) @ direction)
        near = [float(of(at + step * direction)[0]) for step in (-1e-5, 1e-5)]
    assert np.isfinite(slope)
    close(slope, (near[1] - near[0]) / 2e-5, rtol=1e-5)


def test_what_stands_in_missing_places_does_not_matter_where_densities_are_scaled_or_masked():
    latents, rows, _ = example(handled)
    p, mean = latents["p"], latents["mean"]
    table = BOUND[handled].log_joint(latents, rows)[ROW]
    without_x = BOUND[handled].log_joint(latents, with_nan(handled, rows, "x", (ROW,)))[ROW]
    close(table - without_x, 0.37 * scipy.stats.norm.logpdf(rows["x"][ROW], mean, 1.3), rtol=1e-9)
    without_z = BOUND[handled].log_joint(latents, with_nan(handled, rows, "z", (ROW,)))[ROW]
    expected = np.where(np.arange(3) == 1, 0.0, scipy.stats.norm.logpdf(rows["z"][ROW], 2 * mean, 0.7))
    close(table - without_z, expected, rtol=1e-9, atol=1e-12)
    nothing = {name: np.full_like(cells, np.nan, dtype=float) for name, cells in rows.items()}
    close(BOUND[handled].log_joint(latents, nothing), np.tile(np.log(p), (ROWS, 1)), rtol=1e-12)


def test_events_that_stand_as_a_whole_are_left_out_as_a_whole():
    latents, rows, _ = example(vectors)
    table = BOUND[vectors].log_joint(latents, rows)[ROW]
    for name, density in {
        "s": lambda row, k: scipy.stats.dirichlet.logpdf(row, latents["alpha"][k]),
        "t": lambda row, k: scipy.stats.multivariate_t.logpdf(row, latents["mean"][k], [[1, 0.7], [0.7, 0.85]], df=5),
    }.items():
        without = BOUND[vectors].log_joint(latents, with_nan(vectors, rows, name, (ROW,)))[ROW]
        close(table - without, [density(rows[name][ROW], k) for k in range(3)], rtol=1e-8)
        with pytest.raises(DataError, match=rf"'{name}' has events of which a part is missing, the first in row {ROW}"):
            BOUND[vectors].read_rows(None, with_nan(vectors, rows, name, (ROW, 1)))


def test_an_attribute_on_which_another_depends_is_refused_with_both_names():
    latents, rows, y = example(entangled)
    holes = with_nan(entangled, with_nan(entangled, rows, "x", (ROW,)), "x", (9,))
    with pytest.raises(DataError, match=rf"'x' is missing in 2 rows, the first is row {ROW}.*makes 'z' from it"):
        bg.fit(BOUND[entangled], holes, y, method=bg.MAP())
    with pytest.raises(DataError, match=r"'u' is missing in 1 rows.*'v'"):
        BOUND[vectors].log_joint(
            *[with_nan(vectors, part, "u", (0,)) if "u" in part else part for part in example(vectors)[:2]]
        )
    both = with_nan(entangled, with_nan(entangled, holes, "z", (ROW,)), "z", (9,))
    found = BOUND[entangled].log_joint(latents, both)[ROW]
    t = scipy.stats.t.logpdf(rows["t"][ROW], 4.0, latents["mean"], 2.0)
    close(found, np.log(latents["p"]) + t, rtol=1e-9)


def test_missing_covariates_and_infinite_cells_are_refused_by_name():
    _, rows, y = example(covariate)
    with pytest.raises(DataError, match=r"Covariate 'dose' has 1 missing cells, the first in row 4"):
        bg.fit(BOUND[covariate], with_nan(covariate, rows, "dose", (ROW,)), y, method=bg.MAP())
    with pytest.raises(DataError, match=r"'x' has 1 infinite values"):
        BOUND[covariate].read_rows(None, rows | {"x": np.where(np.arange(ROWS) == 2, np.inf, rows["x"])})
    with pytest.raises(DataError, match=r"'hits': 1 values are outside its support.*row 3"):
        hits = np.array(rows["hits"], float)
        hits[2:4] = np.nan, 40
        BOUND[covariate].read_rows(None, rows | {"hits": hits})


def test_every_mark_of_a_missing_cell_is_one():
    rows = {"x": np.array([1.0, None, 2.0], object), "counts": np.ma.array([[1, 2], [3, 4], [5, 6]], mask=[[0, 1]] * 3)}
    read = BOUND[mixed].read_rows(None, rows)
    assert read.observed["x"].tolist() == [True, False, True]
    assert read.observed["counts"].tolist() == [[True, False]] * 3
    assert read.values["counts"].tolist() == [[1.0, 0.0], [3.0, 0.0], [5.0, 0.0]]
    assert np.isnan(read.values["x"][1])


def test_a_mode_is_that_of_the_cells_that_are_there():
    """Rows without an attribute tell of the others, and of the classes, alone: two fits of parts say the same."""
    _, rows, y = example(mixed)
    there = np.arange(ROWS) % 3 != 1
    fit = bg.fit(BOUND[mixed], rows | {"x": np.where(there, rows["x"], np.nan)}, y, method=bg.MAP())
    whole = bg.fit(BOUND[mixed], rows, y, method=bg.MAP())
    part = bg.fit(BOUND[mixed], {name: cells[there] for name, cells in rows.items()}, y[there], method=bg.MAP())
    close(fit.parameters["mean"], part.parameters["mean"], rtol=1e-5, atol=1e-6)
    for name in ("p", "rate"):
        close(fit.parameters[name], whole.parameters[name], rtol=1e-5)
    chunks = [
        ({name: cells[rows_] for name, cells in (rows | {"x": np.where(there, rows["x"], np.nan)}).items()}, y[rows_])
        for rows_ in (slice(0, 1), slice(1, ROWS))
    ]
    close(bg.fit(BOUND[mixed], chunks, method=bg.MAP()).parameters["mean"], fit.parameters["mean"], rtol=1e-6)
