"""Covariates of any shape and dtype: what programs get, what they learn by it, and what is refused by name."""

import math
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest
import scipy.special
import scipy.stats
from oracles.moments import assert_moments
from prediction.draws import at_point

import bayesgen as bg
from bayesgen.data import Covariate
from bayesgen.errors import DataError, ModelError
from program.programs import reference_density

close = np.testing.assert_allclose

ROWS, SCHOOLS = 23, 4
RNG = np.random.default_rng(0)
PUPILS = {
    "X": RNG.normal(size=(ROWS, 2)),
    "school": np.arange(ROWS) % SCHOOLS,
    "boards": np.arange(ROWS) % 5 < 2,
}
SCORES = PUPILS["X"] @ [1.0, -2.0] + PUPILS["school"] + 0.5 * PUPILS["boards"] + RNG.normal(size=ROWS)


def pupils(n, *, X, school, boards):
    """A linear regression whose covariates are a matrix, an index and truth values."""
    slopes = numpyro.sample("slopes", dist.Normal(0, 3).expand([X.shape[1]]).to_event(1))
    effect = numpyro.sample("effect", dist.Normal(0, 2).expand([SCHOOLS]).to_event(1))
    boarding = numpyro.sample("boarding", dist.Normal(0, 1))
    with numpyro.plate("pupils", n):
        numpyro.sample("y", dist.Normal(effect[school] + X @ slopes + jnp.where(boards, boarding, 0.0), 0.7))


PROGRAM = bg.GenerativeProgram(pupils)  # made before any data are seen


def line(n, *, dose):
    slope = numpyro.sample("slope", dist.Normal(0, 3))
    with numpyro.plate("rows", n):
        numpyro.sample("y", dist.Normal(slope * dose, 0.7))


LINE = bg.GenerativeProgram(line)


def wards(n, *, X, ward):
    """Classes whose means lie in a table of wards."""
    share = numpyro.sample("share", dist.Beta(2, 2))
    mean = numpyro.sample("mean", dist.Normal(0, 3).expand([2, 3]).to_event(2))
    slopes = numpyro.sample("slopes", dist.Normal(0, 1).expand([2]).to_event(1))
    with numpyro.plate("patients", n):
        y = numpyro.sample("y", dist.Bernoulli(share))
        numpyro.sample("ill", dist.Bernoulli(logits=X @ slopes))
        numpyro.sample("level", dist.Normal(mean[y, ward], 0.5))


WARDS = bg.GenerativeProgram(wards, classes=["well", "unwell"])
LABELS = np.arange(ROWS) % 2
PATIENTS = {
    "X": PUPILS["X"],
    "ward": np.arange(ROWS) % 3,
    "ill": (RNG.random(ROWS) < 0.5).astype(int),
    "level": 3.0 * LABELS + RNG.normal(size=ROWS),
}


def normal_posterior():
    """Mean and covariance of slopes, effects and boarding, which are normal (Bishop 2006, equation 3.50)."""
    design = np.column_stack([PUPILS["X"], np.eye(SCHOOLS)[PUPILS["school"]], PUPILS["boards"]])
    precision = np.diag(np.asarray([3.0] * 2 + [2.0] * SCHOOLS + [1.0]) ** -2.0) + design.T @ design / 0.7**2
    covariance = np.linalg.inv(precision)
    return design, covariance @ design.T @ SCORES / 0.7**2, covariance


def stacked(parameters):
    return np.concatenate([*(parameters[name] for name in ("slopes", "effect")), parameters["boarding"][..., None]], -1)


@pytest.fixture(scope="module")
def fit():
    return bg.fit(PROGRAM, PUPILS, SCORES, method=bg.MAP(num_starts=1))


def test_a_regression_on_a_matrix_an_index_and_truth_values_has_its_normal_posterior(fit):
    design, mean, _ = normal_posterior()
    np.testing.assert_allclose(stacked(fit.parameters), mean, atol=1e-6)
    np.testing.assert_allclose(bg.predict(fit, PUPILS, rule=bg.PlugIn()).mean, design @ mean, atol=1e-5)


@pytest.mark.slow  # chains of a regression on a number are in every run
def test_chains_of_such_a_regression_have_its_normal_posterior():
    design, mean, covariance = normal_posterior()
    sampled = bg.fit(PROGRAM, PUPILS, SCORES, method=bg.NUTS(num_samples=500), seed=1)
    assert_moments(stacked(sampled.parameters), mean, covariance, "weights")
    answer = bg.predict(sampled, {name: values[:5] for name, values in PUPILS.items()}, rule=bg.BMA())
    variance = 0.7**2 + ((design @ covariance) * design).sum(1)
    np.testing.assert_allclose(answer.mean, (design @ mean)[:5], atol=0.1)
    np.testing.assert_allclose(answer.std, np.sqrt(variance[:5]), rtol=0.05)


def test_data_may_come_in_chunks_and_fits_may_be_pickled(fit):
    chunks = [
        ({name: values[part] for name, values in PUPILS.items()}, SCORES[part]) for part in (slice(9), slice(9, None))
    ]
    whole = bg.fit(PROGRAM, chunks, method=bg.MAP(num_starts=1))
    np.testing.assert_allclose(stacked(whole.parameters), stacked(fit.parameters), atol=1e-6)
    again = pickle.loads(pickle.dumps(fit))
    assert again.program == fit.program == PROGRAM and again.schema == fit.schema
    some = {name: values[:3] for name, values in PUPILS.items()}
    rows = again.simulate(3, seed=2, **some)
    assert rows["y"].tolist() == fit.simulate(3, seed=2, **some)["y"].tolist()
    assert rows["school"].dtype == np.int64 and rows["boards"].dtype == bool


@pytest.mark.slow
def test_densities_are_those_of_numpyro_whether_labels_are_known_or_not():
    latents = {"share": 0.3, "mean": np.arange(6.0).reshape(2, 3), "slopes": np.asarray([0.5, -1.0])}
    covariates = {name: PATIENTS[name] for name in ("X", "ward")}
    values = {name: PATIENTS[name] for name in ("ill", "level")}
    with jax.enable_x64(True):
        density = reference_density(wards, ROWS)
        expected = [
            float(density({**latents, **values, "y": y}, covariates)) for y in (LABELS, 0 * LABELS, 0 * LABELS + 1)
        ]
    names = np.asarray(WARDS.classes, object)[LABELS]
    close(WARDS.log_density(latents, PATIENTS, names), expected[0], rtol=1e-9)
    table = WARDS.log_joint(latents, PATIENTS)
    prior = expected[1] - table[:, 0].sum()
    close(table[:, 1].sum() + prior, expected[2], rtol=1e-9)
    unknown = np.where(np.arange(ROWS) < 5, None, names)
    of_rows = np.where(np.arange(ROWS) < 5, scipy.special.logsumexp(table, axis=1), table[np.arange(ROWS), LABELS])
    close(WARDS.log_density(latents, PATIENTS, unknown), prior + of_rows.sum(), rtol=1e-9)


@pytest.mark.slow
def test_mixtures_learn_by_such_covariates():
    """Components that are far apart: each has the means of its own rows, ward by ward."""
    rows = {**PATIENTS, "level": 20.0 * LABELS + PATIENTS["ward"]}
    fit = bg.fit(bg.Mixture(WARDS, 2), rows, method=bg.MLE(num_starts=4))
    # two wards have both levels in halves, so which levels of the wards go together is a tie
    np.testing.assert_allclose(np.sort(fit.parameters["mean"], axis=0), [[0, 1, 2], [20, 21, 22]], atol=1e-4)
    with pytest.raises(DataError, match=r"'ward' has 3 in row 1.*3 entries, 0 to 2;"):
        bg.predict(fit, {**rows, "ward": rows["ward"] + 2}, rule=bg.PlugIn())


# --- what programs get --------------------------------------------------------------------------------------------


def test_programs_get_what_the_data_have():
    seen = {}

    def looks(n, *, a, b, c, d):
        seen.update({name: (value.shape[1:], value.dtype) for name, value in dict(a=a, b=b, c=c, d=d).items()})
        mean = numpyro.sample("mean", dist.Normal(0, 1))
        with numpyro.plate("rows", n):
            numpyro.sample("x", dist.Normal(mean, 1))

    program = bg.GenerativeProgram(looks, label=None)
    assert not seen
    frame = pd.DataFrame(
        {"a": [1, 2], "b": [True, False], "c": pd.array([3, 4], "Int64"), "d": [0.5, 1], "x": [0.0, 1]}
    )
    for cells in (frame, {**frame, "d": np.ones((2, 3, 4), np.float32)}):
        program.read_rows(None, cells)
        shape = np.shape(cells["d"])[1:]
        assert seen == {"a": ((), int), "b": ((), bool), "c": ((), int), "d": (shape, float)}


def test_values_have_the_dtype_of_training_where_that_changes_none(fit):
    rows = {**PUPILS, "school": PUPILS["school"].astype(float), "boards": PUPILS["boards"].astype(int)}
    assert fit.read(rows) == fit.read(PUPILS)
    for name, values, match in [
        ("school", PUPILS["school"] + 0.5, r"'school' has 0\.5 in row 0, and whole numbers in"),
        ("boards", PUPILS["school"], r"'boards' has 2 in row 2, and truth values in"),
        ("school", PUPILS["school"].astype(str), "'school' holds no numbers"),
        ("school", np.where(PUPILS["school"] == 2, None, 1), "'school' has 6 missing cells, the first in row 2"),
        ("X", np.where(PUPILS["X"] == PUPILS["X"][3, 1], np.inf, 0), "'X' has inf in row 3"),
        ("school", np.full(ROWS, 2**63, np.uint64), f"'school' has {2**63} in row 0"),
    ]:
        with pytest.raises(DataError, match=match):
            bg.predict(fit, {**PUPILS, name: values}, rule=bg.PlugIn())


# --- shapes that a program is not written for ---------------------------------------------------------------------

SHAPES = {
    "a matrix for a number": (LINE, {"dose": np.ones((5, 3))}, r"dose \(n, 3\) of real numbers.*values\[:, 0\]"),
    "as many rows as columns": (LINE, {"dose": np.ones((3, 3))}, r"dose \(n, 3\)"),
    "what broadcasts to a square": (LINE, {"dose": np.ones((3, 1))}, r"shape \(11, 11\).*dose \(n, 1\)"),
    "as many columns as rows are traced at": (LINE, {"dose": np.ones((3, 11))}, r"dose \(n, 11\)"),
    "numbers for a matrix": (PROGRAM, {**PUPILS, "X": PUPILS["X"][:, 0]}, r"X \(n,\) of real"),
    "an index of real numbers": (PROGRAM, {**PUPILS, "school": PUPILS["school"] / 2}, r"school \(n,\) of real"),
    "no column": (
        PROGRAM,
        {"X": PUPILS["X"], "school": PUPILS["school"]},
        r"no columns for the covariates \['boards'\]",
    ),
    "rows of several shapes": (LINE, {"dose": [[1.0], [1.0, 2.0]]}, "'dose' has rows of several shapes"),
}


@pytest.mark.parametrize("name", SHAPES)
def test_shapes_that_the_program_is_not_written_for_are_refused_by_name(name):
    program, X, match = SHAPES[name]
    with pytest.raises(DataError, match=match):
        bg.fit(program, X, np.zeros(len(next(iter(X.values())))), method=bg.MAP())


def test_shapes_of_training_are_those_of_prediction_and_simulation(fit):
    for X in (PUPILS["X"][:, :1], PUPILS["X"][:, 0], np.ones((ROWS, 3))):
        with pytest.raises(DataError, match=r"'X' has the shape \(n.*, and \(n, 2\) in"):
            bg.predict(fit, {**PUPILS, "X": X}, rule=bg.PlugIn())
        with pytest.raises(DataError, match=r"'X' has the shape"):
            fit.simulate(ROWS, **{**PUPILS, "X": X})


def test_conventions_are_checked_at_the_latest_when_data_come():
    def observed(n, *, dose):
        with numpyro.plate("rows", n):
            numpyro.sample("y", dist.Normal(0, 1), obs=dose)

    def classes(n, *, dose):
        share = numpyro.sample("share", dist.Beta(1, 1))
        with numpyro.plate("rows", n):
            y = numpyro.sample("y", dist.Bernoulli(share))
            numpyro.sample("x", dist.Normal(y * dose, 1))

    rows = {"dose": np.ones(3)}
    with pytest.raises(ModelError, match=r"'y' is observed"):
        bg.fit(bg.GenerativeProgram(observed), rows, np.ones(3), method=bg.MAP())
    with pytest.raises(ModelError, match=r"needs classes="):
        bg.fit(bg.GenerativeProgram(classes), {**rows, "x": np.ones(3)}, np.ones(3), method=bg.MAP())
    with pytest.raises(ModelError, match=r"this function takes \(X, y, dose\)"):
        bg.GenerativeProgram(lambda X, y, *, dose: None)


# --- indexes ------------------------------------------------------------------------------------------------------

INDEXED = {
    # how a class, a group and a table (2, 4) make the mean: (mean, groups that it takes)
    "itself": (lambda t, y, g: t[0][g], (0, 3)),
    "less one": (lambda t, y, g: t[0][g - 1], (1, 4)),
    "with the class": (lambda t, y, g: t[y, g], (0, 3)),
    "in one row": (lambda t, y, g: t.ravel()[2 * g + y], (0, 3)),
    "a column": (lambda t, y, g: t[:, g][0], (0, 3)),
    "taken": (lambda t, y, g: jnp.take(t[0], g), (0, 3)),
    "a group of groups": (lambda t, y, g: t[0][jnp.asarray([3, 2, 1])[g]], (0, 2)),
    "filled with NaN": (lambda t, y, g: jnp.take(t[0], g, mode="fill"), (0, 3)),
    "along two axes": (lambda t, y, g: t[0].reshape(2, 2)[g // 2, g % 2], (0, 3)),
    "row by row": (lambda t, y, g: jax.vmap(lambda index: t[0, index])(g), (0, 3)),
    "of a mixed sign": (lambda t, y, g: t[0][g + 2], (-2, 1)),
    "clipped by the program": (lambda t, y, g: t[0][jnp.clip(g, 0, 3)], None),
    "with more entries": (lambda t, y, g: jnp.concatenate([jnp.zeros(1), t[0]])[g], (0, 4)),
    "a number": (lambda t, y, g: 0.1 * g, None),
    "of codes with a reference level": (lambda t, y, g: jnp.where(g > 0, t[0][g - 1], 0.0), (-math.inf, 4)),
    "of one class": (lambda t, y, g: jnp.where((y == 1) & (g >= 0), t[0, g], 0.0), (-math.inf, 3)),
    "of a class": (lambda t, y, g: jnp.where(y == 1, t[0, g], 0.0), (0, 3)),
    "by the part that a latent shows": (lambda t, y, g: jnp.where(g < 3 + (t[0, 0] > 0), t[0, g], 0.0), None),
    "of several columns": (lambda t, y, g: jnp.where(g < 4, t[:, g], 0.0).sum(0), (0, math.inf)),
    "guarded once and used twice": (lambda t, y, g: jnp.where(g < 4, t[0, g], 0.0) + t[0, g], (0, 3)),
    "filled": (lambda t, y, g: t[0].at[g].get(mode="fill", fill_value=0.0), None),
    "compared": (lambda t, y, g: jax.nn.one_hot(g - 1, 4) @ t[0] + (g[:, None] == jnp.arange(4)) @ t[0], None),
}


@pytest.mark.parametrize("name", INDEXED)
def test_indexes_out_of_range_are_refused(name):
    mean, ends = INDEXED[name]

    def indexed(n, *, group):
        table = numpyro.sample("table", dist.Normal(0, 1).expand([2, 4]).to_event(2))
        with numpyro.plate("rows", n):
            y = numpyro.sample("y", dist.Bernoulli(0.5))
            numpyro.sample("x", dist.Normal(mean(table, y, group), 1))

    program = bg.GenerativeProgram(indexed, classes=2)
    lowest, highest = ends or (-math.inf, math.inf)
    low, high = max(lowest, -100), min(highest, 2**40)
    program.read_rows(None, {"x": np.zeros(3), "group": [low, high, low]})
    program.simulate(2, group=[low, high])
    outside = [low - 1] * (lowest == low) + [high + 1, high + 2**32] * (highest == high)
    for group in outside:
        with pytest.raises(DataError, match=rf"Covariate 'group' has {group} in row 2.*; 1 rows are such"):
            program.read_rows(None, {"x": np.zeros(3), "group": [low, high, group]})
    for group in outside[-1:]:
        with pytest.raises(DataError, match=rf"Covariate 'group' has {group} in row 0"):
            program.simulate(2, group=group)


def test_indexes_out_of_range_are_refused_in_training_and_in_prediction(fit):
    for school in (99, -1):
        rows = {**PUPILS, "school": np.where(np.arange(ROWS) == 20, school, PUPILS["school"])}
        with pytest.raises(DataError, match=rf"'school' has {school} in row 20"):
            bg.fit(PROGRAM, rows, SCORES, method=bg.MAP())
        with pytest.raises(DataError, match=rf"'school' has {school} in row 20"):
            bg.predict(fit, rows, rule=bg.PlugIn())
    with pytest.raises(DataError, match=r"'school' has 4 in row 3, .*4 entries, 0 to 3; 5 rows are such"):
        bg.fit(PROGRAM, {**PUPILS, "school": PUPILS["school"] + 1}, SCORES, method=bg.MAP())


def test_indexes_of_several_covariates_and_of_arrays_of_them_name_both():
    def indexed(n, *, place, year):
        table = numpyro.sample("table", dist.Normal(0, 1).expand([6]).to_event(1))
        with numpyro.plate("rows", n):
            numpyro.sample("x", dist.Normal(table[3 * year[:, None] + place].sum(1), 1))

    program = bg.GenerativeProgram(indexed, label=None)
    rows = {"x": np.zeros(2), "place": [[0, 2], [1, 1]], "year": [0, 1]}
    program.read_rows(None, rows)
    with pytest.raises(DataError, match=r"'place' has \[1 1\] and 'year' has 2 in row 1, .* the index 7 .*0 to 5;"):
        program.read_rows(None, {**rows, "year": [0, 2]})


def test_entries_count_where_a_program_chooses_them():
    """Arrays padded by -1, real numbers of which 0 is the reference level, and a choice that is wrong by one."""

    def chosen(n, *, padded, dose, group):
        table = numpyro.sample("table", dist.Normal(0, 1).expand([4]).to_event(1))
        level = jnp.where(dose > 0, table[dose.astype(int) - 1], 0.0)
        level += jnp.where(padded >= 0, table[padded], 0.0).sum(-1) + jnp.where(group < 5, table[group], 0.0)
        with numpyro.plate("rows", n):
            numpyro.sample("x", dist.Normal(level, 1))

    program = bg.GenerativeProgram(chosen, label=None)
    rows = {"x": np.zeros(2), "padded": [[0, -1, -9], [3, 1, 2]], "dose": [0.0, 4.0], "group": [3, 5]}
    program.read_rows(None, rows)
    for name, values in [("padded", [[0, 1, 2], [3, 4, -1]]), ("dose", [-1.0, 5.0]), ("group", [9, 4])]:
        with pytest.raises(DataError, match=rf"'{name}' has .* in row 1, .* the index 4 .* 4 entries, 0 to 3;.*where"):
            program.read_rows(None, {**rows, name: values})


CASTS = {
    **{dtype: lambda g, dtype=dtype: g.astype(dtype) for dtype in ("int8", "int16", "int32", "uint8", "uint32")},
    "truth values": lambda g: (g > 1).astype(jnp.int8),
    "a rest": lambda g: g % 3,
    "a distance": lambda g: abs(g.astype(int) - 3),
    "a shift": lambda g: g.astype(int) >> 1,
    "from the end": lambda g: 3 - g.astype(jnp.int16),
    "a choice": lambda g: jnp.where(g > 2, 0, g).astype(int),
    "a bin": lambda g: jnp.digitize(g * 1.0, jnp.array([0.5, 1.5, 2.5])),
    "rounded down": lambda g: jnp.floor(g / 2).astype(jnp.uint16),
}


@pytest.mark.parametrize(
    "dtype", ["int8", "float64", *(pytest.param(d, marks=pytest.mark.slow) for d in ("uint8", "int16", "uint64"))]
)
def test_indexes_in_range_are_taken_whatever_their_dtype(dtype):
    def cast(n, *, g):
        entries = numpyro.sample("entries", dist.Normal(0, 1).expand([4]).to_event(1))
        with numpyro.plate("rows", n):
            for name, to_index in CASTS.items():
                index = to_index(g)
                numpyro.sample(
                    name, dist.Normal(entries[index if jnp.issubdtype(index.dtype, int) else index.astype(int)], 1.0)
                )

    program = bg.GenerativeProgram(cast, label=None).for_covariates({"g": Covariate((), np.dtype(dtype))})
    program.check_indexes({"g": np.array([0, 1, 2, 3, 3], dtype)})
    with pytest.raises(DataError, match=r"'g' has 100(\.0)? in row 1, of which the program makes the index 100 along"):
        program.check_indexes({"g": np.array([0, 100], dtype)})


@pytest.mark.parametrize(
    "dtype",
    [
        "int8",
        "uint8",
        *(pytest.param(d, marks=pytest.mark.slow) for d in ("int16", "uint16", "int32", "uint32", "int64", "uint64")),
    ],
)
def test_arithmetic_of_whole_numbers_is_that_of_their_dtype(dtype):
    """As NumPy computes, and NumPyro with it: 2 * 127 is -2 in a byte."""

    def doubled(n, *, k):
        mean = numpyro.sample("mean", dist.Normal(0, 1))
        with numpyro.plate("rows", n):
            numpyro.sample("y", dist.Normal(mean * (k * 2) / 100, 1.0))

    def written(k, y=None):
        mean = numpyro.sample("mean", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(mean * (k * 2) / 100, 1.0), obs=y)

    k, y = np.array([100, 90, 127, 3]).astype(dtype), np.linspace(-1, 1, 4)
    expected = scipy.stats.norm(0.3 * (k * k.dtype.type(2)) / 100, 1).logpdf(y).sum() + scipy.stats.norm.logpdf(0.3)
    latents = {"mean": np.array(0.3)}
    np.testing.assert_allclose(
        bg.GenerativeProgram(doubled, label=None).log_density(latents, {"k": k, "y": y}), expected
    )
    program = bg.GenerativeProgram.from_model(written, k, y)
    np.testing.assert_allclose(program.log_density(latents, *program.read(k, y)), expected)
    # the same numbers of another dtype are read as those of training
    np.testing.assert_allclose(program.log_density(latents, *program.read(k.astype(np.int64), y)), expected)


def test_an_index_that_its_dtype_cannot_count_is_refused_by_name():
    def many(n, *, g):
        entries = numpyro.sample("entries", dist.Normal(0, 1).expand([300]).to_event(1))
        with numpyro.plate("rows", n):
            numpyro.sample("y", dist.Normal(entries[g], 1.0))

    program = bg.GenerativeProgram(many, label=None)
    with pytest.raises(DataError, match=r"300 out of bounds for int8.* g \(n,\) of whole numbers \(int8\)"):
        program.read_rows(None, {"g": np.zeros(3, np.int8), "y": np.zeros(3)})
    assert program.read_rows(None, {"g": np.full(3, 299), "y": np.zeros(3)}).num_rows == 3


def test_truth_values_are_no_index():
    def indexed(n, *, group):
        table = numpyro.sample("table", dist.Normal(0, 1).expand([2]).to_event(1))
        with numpyro.plate("rows", n):
            numpyro.sample("x", dist.Normal(table[group], 1))

    program = bg.GenerativeProgram(indexed, label=None)
    with pytest.raises(ModelError, match=r"truth values \(line .*table\[group\].*astype\(int\)") as refusal:
        program.read_rows(None, {"x": np.zeros(2), "group": [True, False]})
    assert "http" not in str(refusal.value)


# --- indexes of which covariates are a part -----------------------------------------------------------------------


def taken(n, *, group, age):
    """A table of kinds and groups, (3, 8), flat; the age is no index."""
    table = numpyro.sample("table", dist.Normal(0, 1).expand([24]).to_event(1))
    with numpyro.plate("rows", n):
        kind = numpyro.sample("kind", dist.Categorical(jnp.full(3, 1 / 3)))
        numpyro.sample("x", dist.Normal(table[8 * kind + group] + 0.1 * age, 1))


TAKEN = bg.GenerativeProgram(taken, label=None)


def kinds(groups):
    size = len(groups)
    return {"kind": np.arange(size) % 3, "x": np.arange(size) / 4, "group": np.asarray(groups), "age": np.arange(size)}


def taken_by(groups, **options):
    return at_point(TAKEN, {"table": np.zeros(24)}, kinds(groups), **options)


@pytest.fixture(scope="module")
def taken_fit():
    return taken_by([2, 5, 3, 4])


def assert_refused(fit, group, row=0):
    """New rows with an age that training lacks, of which one has this group."""
    groups = np.full(row + 2, 3)
    rows = {**kinds(groups), "age": groups + 90}
    assert fit.log_joint(rows).shape == (len(groups), 1)
    groups[row] = group
    match = rf"'group' has {group} in row {row}, and \d to \d in training.*Schema\(ranges"
    for ask in (
        lambda: fit.log_joint({**rows, "group": groups}),
        lambda: bg.predict(fit, {**rows, "group": groups}, rule=bg.PlugIn()),
        lambda: fit.simulate(len(groups), group=groups, age=1),
    ):
        with pytest.raises(DataError, match=match):
            ask()


def test_indexes_that_other_things_enter_have_the_range_of_training(taken_fit):
    assert taken_fit.schema.ranges == {"group": (2, 5)}
    for group, row in [(6, 0), (1, 2), (-3, 1)]:
        assert_refused(taken_fit, group, row)
    assert_refused(pickle.loads(pickle.dumps(taken_fit)), 6)


def test_ranges_widen_and_are_those_of_a_fit_and_not_of_its_program(taken_fit):
    chunks = [({name: values[part] for name, values in kinds([2, 5, 0, 7]).items()},) for part in np.eye(4, dtype=bool)]
    wider = at_point(TAKEN, {"table": np.zeros(24)}, chunks)
    assert wider.schema.ranges == {"group": (0, 7)} and wider.schema == taken_fit.schema
    assert wider.program is taken_fit.program
    assert wider.log_joint(kinds([0, 7])).shape == (2, 1)
    assert_refused(wider, 8)
    assert_refused(taken_fit, 7)
    one, other = (bg.summarize(TAKEN, *chunk) for chunk in (chunks[1], chunks[3]))
    assert (one + other).schema.ranges == (other + one).schema.ranges == {"group": (5, 7)}
    declared = taken_by([2, 5], schema=bg.Schema(ranges={"group": (0, 4)}))
    assert declared.schema.ranges == {"group": (0, 5)}


@pytest.mark.slow
def test_updates_widen_ranges():
    sizes = np.arange(4, 20)

    def tosses(n, *, group):
        heads = numpyro.sample("heads", dist.Beta(1, 1))
        with numpyro.plate("rows", n):
            kind = numpyro.sample("kind", dist.Categorical(jnp.full(2, 0.5)))
            numpyro.sample("x", dist.Binomial(jnp.asarray(sizes)[8 * kind + group], heads))

    program = bg.GenerativeProgram(tosses, label=None)
    fit = bg.fit(program, {"kind": [0, 1], "x": [1, 2], "group": [3, 4]}, method=bg.MAP(num_starts=1))
    wider = fit.update({"kind": [1], "x": [3], "group": [7]})
    assert (fit.schema.ranges, wider.schema.ranges) == ({"group": (3, 4)}, {"group": (3, 7)})
    rows = {"kind": [1], "x": [3], "group": [7]}
    assert wider.read(rows).num_rows == 1
    with pytest.raises(DataError, match="'group' has 7 in row 0"):
        fit.read(rows)


ENTERING = {
    # how a kind, a group and a table (24,) make the mean: which covariates enter indexes
    "a sum": (lambda t, k, g: t[8 * k + g], True),
    "with a latent": (lambda t, k, g: t[g + (t[0] > 0)], True),
    "one-hot": (lambda t, k, g: jax.nn.one_hot(k + g, 24) @ t, False),
    "filled": (lambda t, k, g: t.at[8 * k + g].get(mode="fill", fill_value=0.0), False),
    "mapped": (lambda t, k, g: jax.lax.map(lambda i: t[i], g), True),
    "switched": (lambda t, k, g: jax.lax.map(lambda i: jax.lax.switch(i % 2, [lambda: t[i], lambda: 0.0]), g), True),
    "carried": (lambda t, k, g: jax.lax.scan(lambda c, _: (c + 1, t[c]), g, length=2)[1].sum(0), True),
    "while": (lambda t, k, g: jax.lax.while_loop(lambda c: (c < 2).all(), lambda c: c + t[g], 0.0 * k), True),
    "in bins": (lambda t, k, g: t[jnp.searchsorted(jnp.arange(23.0), g)], False),
    # from JAX 0.12 on a search is one operation, which is not seen to end in one of the bins
    "in bins of latents": (lambda t, k, g: t[jnp.searchsorted(jnp.sort(t[:9]), g)], jax.__version_info__ >= (0, 12)),
    "compared": (lambda t, k, g: t[k + (g > 2)], False),
    "alone": (lambda t, k, g: t[g], False),
    "compared in a loop": (lambda t, k, g: jax.lax.map(lambda i: t[jnp.where(i > 2, 1, 0)], g), False),
    "a number": (lambda t, k, g: t[k] * g, False),
}


@pytest.mark.parametrize("name", ENTERING)
def test_covariates_that_enter_indexes_are_told_from_others(name):
    mean, enters = ENTERING[name]

    def entering(n, *, group):
        table = numpyro.sample("table", dist.Normal(0, 1).expand([24]).to_event(1))
        with numpyro.plate("rows", n):
            kind = numpyro.sample("kind", dist.Categorical(jnp.full(3, 1 / 3)))
            numpyro.sample("x", dist.Normal(mean(table, kind, group), 1))

    program = bg.GenerativeProgram(entering, label=None)
    indexes = program.for_covariates({"group": Covariate((), np.dtype(np.int64))}).introspection.indexes
    assert indexes.unchecked == (["group"] if enters else [])
