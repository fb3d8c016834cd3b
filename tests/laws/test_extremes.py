"""Numbers at the ends of their range: right to the digits that there are, by mpmath, or refused by name."""

import mpmath
import numpy as np
import pytest
import scipy.sparse
from mpmath import fsum, loggamma, mpf

import bayesgen as bg

DIGITS = 350  # so many that nothing cancels beside 10^300
COUNTS = ([3, 0, 5], [10**9, 3, 0])
CONCENTRATIONS = [1e-300, 1e-8, 1e8, 1e20, 1e34, 1e300]
Y = np.array(list("ababaabbaba"))
BASE = np.random.default_rng(0).normal(size=len(Y))


@pytest.fixture(autouse=True)
def _digits():
    with mpmath.workdps(DIGITS):
        yield


def close(value, expected, rtol=1e-10, atol=0.0):
    np.testing.assert_allclose(float(value), float(expected), rtol=rtol, atol=atol)


def exact(values):
    return [mpf(float(value)) for value in values]


def normal_evidence(x, mean, kappa, shape, scale):
    """Log evidence of normal numbers with a normal-inverse-gamma prior (Murphy 2007, eq. 95)."""
    n = len(x)
    if not n:
        return mpf(0)
    average = fsum(x) / n
    scatter = fsum((value - average) ** 2 for value in x) + kappa * n * (average - mean) ** 2 / (kappa + n)
    after = shape + mpf(n) / 2
    gammas = loggamma(after) - loggamma(shape) + mpmath.log(kappa / (kappa + n)) / 2
    scales = shape * mpmath.log(scale) - after * mpmath.log(scale + scatter / 2)
    return gammas + scales - mpf(n) / 2 * mpmath.log(2 * mpmath.pi)


def log_det(matrix):
    """Log determinant of a covariance, by that of its correlations: mpmath takes tiny pivots for zero."""
    sizes = [mpmath.sqrt(matrix[i, i]) for i in range(matrix.rows)]
    units = mpmath.diag([1 / size for size in sizes])
    return 2 * fsum(map(mpmath.log, sizes)) + mpmath.log(mpmath.det(units * matrix * units))


def joint_normal_evidence(rows, mean, kappa, df, scale):
    """Log evidence of normal vectors with a normal-inverse-Wishart prior (Murphy 2007, eq. 266)."""
    n, size = len(rows), len(mean)
    average = [fsum(column) / n for column in zip(*rows, strict=True)]
    scatter = mpmath.matrix(scale)
    for row in rows:
        shift = mpmath.matrix([value - centre for value, centre in zip(row, average, strict=True)])
        scatter += shift * shift.T
    shift = mpmath.matrix([centre - value for centre, value in zip(average, mean, strict=True)])
    scatter += kappa * n / (kappa + n) * shift * shift.T

    def log_multigamma(value):
        return fsum(loggamma(value - mpf(index) / 2) for index in range(size))

    dets = df / 2 * log_det(scale) - (df + n) / 2 * log_det(scatter)
    gammas = log_multigamma((df + n) / 2) - log_multigamma(df / 2) - mpf(n * size) / 2 * mpmath.log(mpmath.pi)
    return gammas + dets + mpf(size) / 2 * mpmath.log(kappa / (kappa + n))


def sequence_evidence(counts, concentration):
    """Log probability of a sequence with these counts (Polya's urn)."""
    rising = (log_rising(a, c) for a, c in zip(concentration, counts, strict=True))
    return fsum(rising) - log_rising(fsum(concentration), sum(counts))


def log_rising(start, count):
    """log gamma(start + count) - log gamma(start)."""
    if count < 100:
        return fsum(mpmath.log(start + step) for step in range(count))
    return loggamma(start + count) - loggamma(start)


# --- normal columns ---------------------------------------------------------------------------------------------------

KAPPA, SHAPE = mpf("0.01"), mpf("1.5")  # of the default prior
COLUMNS = {
    "plain": BASE,
    "10^150": BASE * 1e150,
    "10^-150": BASE * 1e-150,
    "10^8 deviations from zero": BASE + 1e8,
    "10^8 deviations from zero, in small units": (BASE - 1e8) * 1e-120,
    "10^8 deviations from zero, in large units": (BASE + 1e8) * 1e120,
}


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("model", [bg.NaiveBayes(), bg.GaussianDiscriminant("tied-diag")], ids=["separate", "tied"])
def test_the_evidence_of_a_normal_column(name, model):
    cells = exact(COLUMNS[name])
    mean = fsum(cells) / len(cells)
    variance = fsum((cell - mean) ** 2 for cell in cells) / len(cells)
    classes = [[cell for cell, label in zip(cells, Y, strict=True) if label == name] for name in "ab"]
    fit = bg.fit(model, COLUMNS[name][:, None], Y, method=bg.Exact())
    labels = sequence_evidence([len(members) for members in classes], [1, 1])
    if isinstance(model, bg.NaiveBayes):
        expected = fsum(normal_evidence(members, mean, KAPPA, SHAPE, variance / 2) for members in classes)
        close(fit.log_evidence, expected + labels, rtol=1e-8)
    answer = bg.predict(fit, COLUMNS[name][:, None], rule=bg.BMA())
    plain = bg.predict(bg.fit(model, BASE[:, None], Y, method=bg.Exact()), BASE[:, None], rule=bg.BMA())
    np.testing.assert_allclose(answer.probabilities, plain.probabilities, atol=3e-7 if "deviations" in name else 1e-12)


ROWS = np.random.default_rng(2).normal(size=(len(Y), 3)) @ [[1.0, 0.3, 0.1], [0.0, 0.8, 0.2], [0.0, 0.0, 0.6]]
WITH_HOLES = np.where(np.arange(33).reshape(11, 3) % 13 == 4, np.nan, ROWS)
COVARIANCES = ("full", "tied", "diag", "spherical", "tied-diag", "tied-spherical")
IN_UNITS = {
    **{covariance: (bg.GaussianDiscriminant(covariance), ROWS, Y) for covariance in COVARIANCES},
    **{f"{c}, holes": (bg.GaussianDiscriminant(c), WITH_HOLES, Y) for c in COVARIANCES if c not in ("full", "tied")},
    "separate, holes": (bg.NaiveBayes(), WITH_HOLES, Y),
    "joint regression": (bg.JointGaussianRegression(), ROWS[:, 1:], ROWS[:, 0]),
    "naive Bayes regression": (bg.NaiveBayesRegression(), WITH_HOLES[:, 1:], ROWS[:, 0]),
}


def answers_in_units(model, X, y, unit):
    """Log evidence, and scores of rows by an average, of rows that are left out, and after an update."""
    fit = bg.fit(model, X * unit, y, method=bg.Exact())
    updated = bg.fit(model, X[:6] * unit, y[:6], method=bg.Exact(), schema=fit.schema).update(X[6:] * unit, y[6:])
    answers = [bg.predict(way, X * unit, rule=bg.BMA()) for way in (fit, updated)]
    tables = [a.log_probabilities if hasattr(a, "log_probabilities") else a.log_density(y) for a in answers]
    return fit.log_evidence, [*tables, bg.leave_one_out(fit, X * unit, y).log_scores]


@pytest.mark.parametrize("name", IN_UNITS)
def test_units_of_columns_change_evidences_by_their_logarithm_alone(name):
    evidence, tables = answers_in_units(*IN_UNITS[name], 1.0)
    for unit in (1e150, 1e-150):
        other_evidence, other_tables = answers_in_units(*IN_UNITS[name], unit)
        cells = np.isfinite(IN_UNITS[name][1]).sum()
        np.testing.assert_allclose(other_evidence, evidence - cells * np.log(unit), rtol=1e-10)
        for table, other in zip(tables, other_tables, strict=True):
            np.testing.assert_allclose(other, table, atol=1e-9)


RNG = np.random.default_rng(1)
TABLES = {
    "fewer rows than columns": RNG.normal(size=(3, 5)),
    "columns that are equal": np.repeat(RNG.normal(size=(9, 1)), 3, 1),
    "columns that are nearly equal": np.outer(RNG.normal(size=9), [1, 2, 3]) + 1e-9 * RNG.normal(size=(9, 3)),
    "columns far from zero": RNG.normal(size=(9, 3)) * [1e-3, 1, 1e3] + [1e4, 1e6, 1e9],
    "columns of unlike units": RNG.normal(size=(9, 3)) * [1e-140, 1, 1e140],
}
SINGULAR = set(list(TABLES)[:3])


@pytest.mark.parametrize("name", TABLES)
def test_the_evidence_of_joint_columns(name):
    table = TABLES[name]
    rows, size = [exact(row) for row in table], table.shape[1]
    mean = [fsum(column) / len(rows) for column in zip(*rows, strict=True)]
    variances = [
        fsum((cell - centre) ** 2 for cell in column) / len(rows)
        for column, centre in zip(zip(*rows, strict=True), mean, strict=True)
    ]
    prior = mean, KAPPA, mpf(size + 2), mpmath.diag(variances)
    model = bg.GenerativeClassifier(
        [("size", bg.NormalInverseWishart(), [f"x{j}" for j in range(size)])], class_prior=None
    )
    fit, evidence = bg.fit(model, table, method=bg.Exact()), joint_normal_evidence(rows, *prior)
    close(fit.log_evidence, evidence, rtol=1e-8, atol=1e-8)
    expected = joint_normal_evidence([*rows, rows[0]], *prior) - evidence
    close(fit.log_joint(table[:1], at="predictive")[0, 0], expected, rtol=1e-6)
    if name in SINGULAR:
        with pytest.raises(bg.FitError, match=r"Block 'size'.*singular"):
            bg.fit(model, table, method=bg.MLE())
    assert np.isfinite(bg.fit(model, table, method=bg.MAP()).log_joint(table)).all()


# --- counts and concentrations ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("counts", COUNTS, ids=["small", "10^9"])
@pytest.mark.parametrize("concentration", CONCENTRATIONS)
def test_the_evidence_of_counts_of_a_total(concentration, counts):
    rows, new = np.array([counts, [1, 2, 3]]), np.array([[1, 1, 4]])
    alpha, totals = [mpf(concentration)] * 3, rows.sum(0).tolist()

    def log_ways(row):
        return loggamma(1 + sum(row)) - fsum(loggamma(1 + count) for count in row)

    evidence = sequence_evidence(totals, alpha) + fsum(map(log_ways, rows.tolist()))
    after = [a + count for a, count in zip(alpha, totals, strict=True)]
    predictive = sequence_evidence([1, 1, 4], after) + log_ways([1, 1, 4])
    rounding = 1e-16 * sum(totals) * 30  # of the log-gammas, which are as large as that
    model = bg.NaiveBayes(bg.DirichletMultinomial(concentration), class_prior=None)
    for form in (np.asarray, scipy.sparse.csr_array):
        fit = bg.fit(model, form(rows), method=bg.Exact())
        close(fit.log_evidence, evidence, atol=rounding)
        close(fit.log_joint(form(new), at="predictive")[0, 0], predictive)


@pytest.mark.parametrize("concentration", CONCENTRATIONS)
def test_the_evidence_of_truth_values_and_categories(concentration):
    evidence = sequence_evidence([2, 1], [mpf(concentration)] * 2)
    predictive = mpmath.log((mpf(concentration) + 2) / (2 * mpf(concentration) + 3))
    for family, cells in (
        (bg.BetaBernoulli(concentration, concentration), [[True], [False], [True]]),
        (bg.DirichletCategorical(concentration), np.array([["u"], ["v"], ["u"]])),
    ):
        fit = bg.fit(bg.NaiveBayes(family, class_prior=None), cells, method=bg.Exact())
        close(fit.log_evidence, evidence)
        close(fit.log_joint(cells[:1], at="predictive")[0, 0], predictive, atol=1e-15)


@pytest.mark.parametrize("counts", [[3, 4, 0], [10**9, 10**9 + 5, 7]], ids=["small", "10^9"])
@pytest.mark.parametrize("shape, rate", [(1e-8, 1.0), (1.0, 1e-8), (1e8, 1.0), (1.0, 1e8), (1e8, 1e8), (1e-8, 1e-8)])
def test_the_evidence_of_counts(counts, shape, rate):
    model = bg.NaiveBayes(bg.GammaPoisson(shape, rate), class_prior=None)
    fit = bg.fit(model, np.array(counts)[:, None], method=bg.Exact())
    a, b, total, n = mpf(shape), mpf(rate), sum(counts), len(counts)
    factorials = fsum(loggamma(1 + count) for count in counts)
    evidence = loggamma(a + total) - loggamma(a) + a * mpmath.log(b / (b + n)) - total * mpmath.log(b + n) - factorials
    close(fit.log_evidence, evidence, rtol=1e-9, atol=1e-16 * total * 30)
    a, b = a + total, b + n
    predictive = loggamma(a + 5) - loggamma(a) - loggamma(6) + a * mpmath.log(b / (b + 1)) - 5 * mpmath.log(b + 1)
    close(fit.log_joint(np.array([[5.0]]), at="predictive")[0, 0], predictive, rtol=1e-9, atol=1e-10)


# --- many of a thing, and few -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", [bg.NaiveBayes(), bg.GaussianDiscriminant("full")], ids=["separate", "joint"])
def test_rows_many_times(model):
    times, few = 100_000, np.array([[1.5, 1e6], [0.25, 1e6 + 1], [0.5, 1e6 - 2]])
    labels = np.array(["a", "b", "a"])
    many = bg.fit(model, np.repeat(few, times, 0), np.repeat(labels, times), method=bg.Exact())
    weighted = bg.fit(model, few, labels, sample_weight=np.full(3, times), method=bg.Exact())
    for name, values in many.parameters.items():
        np.testing.assert_allclose(values, weighted.parameters[name], rtol=1e-9)
    np.testing.assert_allclose(many.log_evidence, weighted.log_evidence, rtol=1e-9)


@pytest.mark.parametrize("covariance", ["full", "tied", "diag"])
def test_a_thousand_classes_of_one_row(covariance):
    classes = np.arange(1000)
    X = RNG.normal(size=(1000, 2)) + classes[:, None]
    model, schema = bg.GaussianDiscriminant(covariance), bg.Schema(classes=classes.tolist())
    for method in (bg.MAP(), bg.Exact()):
        answer = bg.predict(bg.fit(model, X, classes, method=method, schema=schema), X[:11], rule=bg.PlugIn())
        np.testing.assert_allclose(answer.probabilities.sum(1), 1.0, rtol=1e-12)
    with pytest.raises(bg.FitError, match=r"Block 'real'"):
        bg.fit(model, X[:1], ["a"], method=bg.MLE(), schema=bg.Schema(classes=["a", "b"]))


@pytest.mark.slow
def test_a_hundred_thousand_columns():
    X, y = RNG.normal(size=(4, 100_000)), list("aabb")
    for method in (bg.MLE(), bg.MAP(), bg.Exact()):
        answer = bg.predict(bg.fit(bg.NaiveBayes(), X, y, method=method), X, rule=bg.PlugIn())
        assert answer.labels.tolist() == y
    with pytest.raises(bg.DataError, match=r"100,000 columns"):
        bg.fit(bg.GaussianDiscriminant("full"), X, y, method=bg.Exact())


@pytest.mark.parametrize("method", [bg.MLE(), bg.MAP(), bg.Exact()], ids=["MLE", "MAP", "Exact"])
def test_probabilities_that_are_0_and_1(method):
    X, y = np.array([[True], [True], [False]]), ["a", "a", "b"]
    answer = bg.predict(bg.fit(bg.NaiveBayes(), X, y, method=method), X, rule=bg.PlugIn())
    expected = [[1, 0], [1, 0], [0, 1]]
    np.testing.assert_allclose(answer.probabilities, expected, atol=0 if not isinstance(method, bg.Exact) else 0.4)
    for prior in ([0.0, 1.0], [1e-300, 1.0]):
        fit = bg.fit(bg.NaiveBayes(class_prior=prior), X, y, method=bg.Exact())
        probabilities = bg.predict(fit, X, rule=bg.BMA()).probabilities
        np.testing.assert_allclose(probabilities, [[0.0, 1.0]] * 3, atol=1e-290)


# --- the ends of types ------------------------------------------------------------------------------------------------

LABELS = {
    "int64": np.array([-(2**63), 2**63 - 1]),
    "uint64": np.array([2**64 - 2, 2**64 - 1], np.uint64),
    "int8": np.array([-128, 127], np.int8),
    "beyond 64 bits": [2**70, 2**70 + 1],
    "neighbours beyond 2^53": [2**53, 2**53 + 1],
    "unlike": [-1, 2**63 + 1],
    "float": [5e-324, 1.7e308],
    "empty text": ["", " "],
    "a text that ends with U+0000": ["a", "a\0"],
}


@pytest.mark.filterwarnings("ignore:y has 2 different numbers")
@pytest.mark.parametrize("name", LABELS)
def test_labels_at_the_ends_of_their_type(name, tmp_path):
    labels = [*LABELS[name], *LABELS[name]]
    y = np.array(labels, LABELS[name].dtype) if isinstance(LABELS[name], np.ndarray) else labels
    X = [[1.0], [8.0], [2.0], [9.0]]
    fit = bg.fit(bg.NaiveBayes(), X, y, method=bg.Exact())
    fit.save(tmp_path / "fit.bayesgen")
    for other in (fit, bg.load(tmp_path / "fit.bayesgen")):
        assert list(other.classes) == sorted(set(labels)) and other.classes.dtype == fit.classes.dtype
        assert list(bg.predict(other, X, rule=bg.BMA()).labels) == labels
    if isinstance(y, np.ndarray):
        assert fit.classes.dtype == y.dtype


DTYPES = ["int8", "uint8", "int16", "uint16", "int64", "uint64", "float16", "float32", "longdouble", ">i4", ">f8", "O"]
INTEGERS = RNG.integers(20, 120, (11, 2))
FAMILIES = {
    "normal": bg.NaiveBayes(),
    "joint": bg.GaussianDiscriminant("full"),
    "Poisson": bg.NaiveBayes(bg.GammaPoisson()),
    "multinomial": bg.NaiveBayes(bg.DirichletMultinomial()),
}


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_type_of_numbers_changes_nothing(name, dtype):
    """Sums of small integers do not wrap, and those of short floats are made in double precision."""
    model, floats = FAMILIES[name], INTEGERS.astype(float)
    fits = [bg.fit(model, X, Y, method=bg.Exact()) for X in (INTEGERS.astype(dtype), floats)]
    close(fits[0].log_evidence, fits[1].log_evidence, rtol=1e-12)
    tables = [fit.log_joint(X, at="predictive") for fit, X in zip(fits, (INTEGERS.astype(dtype), floats), strict=True)]
    np.testing.assert_allclose(*tables, rtol=1e-10)
