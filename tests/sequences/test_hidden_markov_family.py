"""`DirichletHiddenMarkov`: EM against plain sums over all paths of states, and against hmmlearn; what it refuses."""

import itertools

import numpy as np
import pytest
from scipy.stats import beta, gamma, multivariate_normal, norm, poisson

import bayesgen as bg
from bayesgen.families import Scale
from bayesgen.fitting import em
from bayesgen.statistics import RetainedRows

STATES, CLASSES, COLUMNS, SYMBOLS = 3, 2, 2, 5
LENGTHS, WEIGHTS, CODES = [4, 1, 5, 3], np.array([1.0, 2.0, 0.5, 3.0]), np.array([0, 1, 1, 0])


@pytest.fixture
def rng():
    return np.random.default_rng(3)


def resolved(emissions, num_columns=COLUMNS, num_categories=None, num_classes=CLASSES):
    shape = (num_columns,)
    scale = Scale(num_classes, num_columns, num_categories, mean=np.full(shape, 0.4), variance=np.full(shape, 2.0))
    return bg.DirichletHiddenMarkov(STATES, emissions).resolve(scale)


def chain(rng):
    return {
        "initial": rng.dirichlet(np.ones(STATES), CLASSES),
        "transition": rng.dirichlet(np.full(STATES, 2.0), (CLASSES, STATES)),
    }


def by_enumeration(initial, transition, factors):
    """p(x), and expected first states, transitions and states by all paths; factors: (T, S)."""
    length, num_states = factors.shape
    total, first, moves, states = 0.0, np.zeros(num_states), np.zeros((num_states,) * 2), np.zeros(factors.shape)
    for path in itertools.product(range(num_states), repeat=length):
        steps = list(itertools.pairwise(path))
        probability = initial[path[0]] * np.prod(factors[np.arange(length), path])
        probability *= np.prod([transition[step] for step in steps])
        total += probability
        first[path[0]] += probability
        states[np.arange(length), path] += probability
        for step in steps:
            moves[step] += probability
    return np.log(total), first / total, moves / total, states / total


def check_expectation(family, parameters, rows, factors_of):
    """The E-step against all paths; returns how much each step of each row counts in each class and state."""
    log_likelihood, counts = family.e_step(rows, parameters)
    total, first, moves = 0.0, np.zeros((CLASSES, STATES)), np.zeros((CLASSES, STATES, STATES))
    shares = []
    for place, code, weight in zip(rows.row_of_entry, rows.classes, rows.weights, strict=True):
        of_class = {name: value[code] for name, value in parameters.items()}
        seen = None if rows.observed is None else rows.observed[place]
        factors = factors_of(of_class, rows.values[place][: LENGTHS[place]], seen)
        logs, initial, transition, states = by_enumeration(of_class["initial"], of_class["transition"], factors)
        total += weight * logs
        first[code] += weight * initial
        moves[code] += weight * transition
        shares.append(weight * states)
    np.testing.assert_allclose(log_likelihood, total, rtol=1e-11)
    np.testing.assert_allclose(counts.initial, first, rtol=1e-9)
    np.testing.assert_allclose(counts.transition, moves, rtol=1e-9, atol=1e-12)
    return counts.emissions, shares


def padded(rows, filling=0.0):
    longest = max(map(len, rows))
    return np.stack([np.concatenate([row, np.full((longest - len(row), *row.shape[1:]), filling)]) for row in rows])


def kept(values, observed=None):
    """Rows one of which is of both classes, in part."""
    shares = 0.0 + (CODES[:, None] == np.arange(CLASSES))
    shares[2] = [0.25, 0.75]
    return RetainedRows.from_rows(values, shares, CLASSES, WEIGHTS, observed)


def normal_rows(rng):
    """Rows with cells, and a whole step, that are missing."""
    values = padded([rng.normal(size=(length, COLUMNS)) for length in LENGTHS])
    observed = np.arange(max(LENGTHS))[None, :, None] < np.array(LENGTHS)[:, None, None]
    observed = np.broadcast_to(observed, values.shape).copy()
    observed[0, 1, 0] = observed[2, 3, 1] = False
    observed[2, 1] = False
    return np.where(observed, values, 0.0), observed


def test_normal_emissions_are_expected_as_by_all_paths(rng):
    family = resolved(bg.NormalInverseGamma())
    values, observed = normal_rows(rng)
    shape = (CLASSES, STATES, COLUMNS)
    parameters = chain(rng) | {"mean": rng.normal(size=shape), "variance": rng.gamma(3.0, 1.0, shape)}

    def factors(of_class, row, seen):
        densities = norm.pdf(row[:, None], of_class["mean"], np.sqrt(of_class["variance"]))
        return np.where(seen[: len(row), None], densities, 1.0).prod(-1)

    rows = kept(values, observed)
    moments, shares = check_expectation(family, parameters, rows, factors)
    count, total = np.zeros((CLASSES, STATES, COLUMNS)), np.zeros((CLASSES, STATES, COLUMNS))
    for place, code, states in zip(rows.row_of_entry, rows.classes, shares, strict=True):
        there = observed[place, : len(states)]
        count[code] += np.einsum("ts,td->sd", states, there)
        total[code] += np.einsum("ts,td->sd", states, np.where(there, values[place, : len(states)], 0.0))
    np.testing.assert_allclose(moments.count, count, rtol=1e-9)
    np.testing.assert_allclose(moments.mean, total / count, rtol=1e-9)


def test_symbols_and_counts_are_expected_as_by_all_paths(rng):
    codes = padded([rng.integers(0, SYMBOLS, length) for length in LENGTHS], -1)
    observed = np.ones(codes.shape, bool)
    observed[0, 2] = False
    probs = rng.dirichlet(np.ones(SYMBOLS), (CLASSES, STATES, 1))

    def of_symbols(of_class, row, seen):
        return np.where(seen[: len(row), None], of_class["probs"][:, 0, row].T, 1.0)

    rows = kept(codes, observed)
    counts, shares = check_expectation(
        resolved(bg.DirichletCategorical(), 1, SYMBOLS), chain(rng) | {"probs": probs}, rows, of_symbols
    )
    expected = np.zeros((CLASSES, STATES, 1, SYMBOLS))
    for place, code, states in zip(rows.row_of_entry, rows.classes, shares, strict=True):
        for step in np.flatnonzero(observed[place, : len(states)]):
            expected[code, :, 0, codes[place, step]] += states[step]
    np.testing.assert_allclose(counts.totals[0], expected, rtol=1e-9, atol=1e-12)

    numbers = padded([rng.poisson(2.0, (length, COLUMNS)).astype(float) for length in LENGTHS])
    _, observed = normal_rows(rng)
    rates = rng.gamma(2.0, 1.0, (CLASSES, STATES, COLUMNS))

    def of_counts(of_class, row, seen):
        return np.where(seen[: len(row), None], poisson.pmf(row[:, None], of_class["rate"]), 1.0).prod(-1)

    check_expectation(resolved(bg.GammaPoisson()), chain(rng) | {"rate": rates}, kept(numbers, observed), of_counts)


def test_joint_emissions_have_missing_cells_filled_by_regression(rng):
    family = resolved(bg.NormalInverseWishart())
    values, observed = normal_rows(rng)
    root = rng.normal(size=(CLASSES, STATES, COLUMNS, COLUMNS))
    covariance = root @ np.swapaxes(root, -1, -2) + np.eye(COLUMNS)
    parameters = chain(rng) | {"mean": rng.normal(size=(CLASSES, STATES, COLUMNS)), "covariance": covariance}

    def density(row, there, mean, matrix):
        places = np.flatnonzero(there)
        return multivariate_normal.pdf(row[places], mean[places], matrix[np.ix_(places, places)]) if len(places) else 1

    def factors(of_class, row, seen):
        by_state = list(zip(of_class["mean"], of_class["covariance"], strict=True))
        return np.array([[density(cells, there, *state) for state in by_state] for cells, there in zip(row, seen)])  # noqa: B905

    rows = kept(values, observed)
    moments, shares = check_expectation(family, parameters, rows, factors)
    total, count = np.zeros((CLASSES, STATES, COLUMNS)), np.zeros((CLASSES, STATES))
    for place, code, states in zip(rows.row_of_entry, rows.classes, shares, strict=True):
        for step, state in itertools.product(range(len(states)), range(STATES)):
            there = observed[place, step]
            if not there.any():
                continue
            mean, matrix = parameters["mean"][code, state], covariance[code, state]
            filled = values[place, step].copy()
            if not there.all():
                slope = matrix[~there][:, there] / matrix[there][:, there]
                filled[~there] = mean[~there] + (slope @ (filled[there] - mean[there]))
            total[code, state] += states[step, state] * filled
            count[code, state] += states[step, state]
    np.testing.assert_allclose(moments.count, count, rtol=1e-9)
    np.testing.assert_allclose(moments.mean, total / count[..., None], rtol=1e-9)


A, R = np.array([2.0, 3.0, 1.5]), np.array([2.0, 3.0])
# emissions, the marginal distribution of their parameters, and the shape of these
PRIORS = {
    "binary": (bg.BetaBernoulli(A, 4.0), beta(A, 4.0), (STATES, 3)),
    "binary, one column": (bg.BetaBernoulli(2.0, 4.0), beta(2.0, 4.0), (STATES,)),
    "binary, by state": (bg.BetaBernoulli(A[:, None], 4.0), beta(A[:, None], 4.0), (STATES, 1)),
    "count": (bg.GammaPoisson(R, 0.5), gamma(R, scale=2.0), (STATES, 2)),
    "count, one column": (bg.GammaPoisson(2.0, 0.5), gamma(2.0, scale=2.0), (STATES,)),
    "categorical": (bg.DirichletCategorical(A), beta(A, A.sum() - A), (STATES, 3)),
}


@pytest.mark.parametrize("name", PRIORS)
def test_priors_used_alone_have_those_of_their_emissions_in_each_state(name, rng):
    emissions, marginal, shape = PRIORS[name]
    family = bg.DirichletHiddenMarkov(STATES, emissions, 2.0, initial=[1.5, 2.5, 3.5])
    (parameter,) = emissions.parameter_axes()
    of_chain = beta([1.5, 2.5, 3.5], [6.0, 5.0, 4.0])
    for found, moment in ((family.mean(), "mean"), (family.variance(), "var")):
        np.testing.assert_allclose(found["initial"], getattr(of_chain, moment)())
        np.testing.assert_allclose(found[parameter], np.broadcast_to(getattr(marginal, moment)(), shape))
    draws = family.sample(rng, (4000,))
    assert draws["transition"].shape == (4000, STATES, STATES) and draws[parameter].shape == (4000, *shape)
    np.testing.assert_allclose(draws[parameter].mean(0), np.broadcast_to(marginal.mean(), shape), rtol=0.06)
    mode = family.mode()
    assert mode[parameter].shape == shape
    simplexes = ["initial", "transition", *[parameter] * (name == "categorical")]
    for _ in range(5):
        near = {key: value * np.exp(0.1 * rng.standard_normal(value.shape)) for key, value in mode.items()}
        near |= {key: near[key] / near[key].sum(-1, keepdims=True) for key in simplexes}
        assert family.log_prior(near) < family.log_prior(mode)


def test_priors_that_are_not_known_yet_are_refused_with_remedies_that_hold():
    with pytest.raises(bg.ModelError, match=r"cannot know how many values.*an array with one entry for each value"):
        bg.DirichletHiddenMarkov(2, bg.DirichletCategorical()).mean()
    family = bg.DirichletHiddenMarkov(2, bg.GammaPoisson())
    with pytest.raises(
        bg.ModelError, match=r"mean needs numbers for rate; give them, or fit a model .* fit.prior\[block"
    ):
        family.mean()
    fit = bg.fit(model(bg.GammaPoisson(), num_states=2), {"x0": [[1, 5], [0, 6, 7]]}, method=bg.MAP(num_starts=1))
    assert fit.prior["x"].mean()["rate"].shape == (2, 1)


# --- whole fits -----------------------------------------------------------------------------------------------------


def signals(rng, lengths, num_columns=2):
    """Sequences of a chain of three levels."""
    levels = np.array([[0.0, 0.0], [3.0, 1.0], [-2.0, 4.0]])[:, :num_columns]
    transition = np.array([[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.3, 0.1, 0.6]])
    found = []
    for length in lengths:
        states = [rng.integers(STATES)]
        for _ in range(length - 1):
            states.append(rng.choice(STATES, p=transition[states[-1]]))
        found.append(levels[states] + rng.normal(size=(length, num_columns)))
    return found


def table(sequences):
    """A column of lists for each column of the sequences."""
    return {f"x{index}": [each[:, index].tolist() for each in sequences] for index in range(sequences[0].shape[1])}


def model(emissions, num_columns=1, class_prior=None, num_states=STATES, **options):
    family = bg.DirichletHiddenMarkov(num_states, emissions, **options)
    columns = [f"x{index}" for index in range(num_columns)]
    return bg.GenerativeClassifier([("x", family, columns)], class_prior=class_prior)


START = {"x_initial": [0.5, 0.3, 0.2], "x_transition": 0.1 + 0.7 * np.eye(STATES)}
GAUSSIAN = {"x_mean": [[0.0, 0.0], [2.0, 0.0], [0.0, 2.0]]}


def check_climb(fitted, ours, names):
    for name, value in names.items():
        np.testing.assert_allclose(ours.parameters[name], getattr(fitted, value), atol=2e-6, err_msg=name)


@pytest.fixture
def to_the_end(monkeypatch):
    """EM goes on until nothing is gained."""
    monkeypatch.setattr(em, "LEAST_GAIN", 1e-15)


@pytest.mark.parametrize("covariance", ["diag", "full"])
def test_climbs_of_normal_emissions_are_those_of_hmmlearn(covariance, rng, to_the_end):
    hmm = pytest.importorskip("hmmlearn.hmm")
    sequences = signals(rng, [90, 61, 1, 78])
    X, rows, lengths = table(sequences), np.concatenate(sequences), list(map(len, sequences))
    theirs = hmm.GaussianHMM(
        STATES, covariance, n_iter=5000, tol=1e-11, init_params="", min_covar=0, means_weight=0, covars_prior=0,
        covars_weight=0 if covariance == "diag" else -COLUMNS - 1,
    )  # fmt: skip
    theirs.startprob_, theirs.transmat_ = np.array(START["x_initial"]), START["x_transition"]
    theirs.means_ = np.array(GAUSSIAN["x_mean"])
    if covariance == "diag":
        emissions, spread = bg.NormalInverseGamma(), {"x_variance": np.ones((STATES, COLUMNS))}
        theirs.covars_ = spread["x_variance"]
    else:
        emissions, spread = bg.NormalInverseWishart(), {"x_covariance": np.tile(np.eye(COLUMNS), (STATES, 1, 1))}
        theirs.covars_ = spread["x_covariance"]
    theirs.fit(rows, lengths)
    ours = bg.fit(model(emissions, COLUMNS), X, method=bg.MLE(starts={**START, **GAUSSIAN, **spread}))
    check_climb(theirs, ours, {"x_initial": "startprob_", "x_transition": "transmat_", "x_mean": "means_"})
    np.testing.assert_allclose(ours.attributes["objective"], theirs.score(rows, lengths), rtol=1e-9)
    assert ours.attributes["converged"] and ours.attributes["num_starts"] == 1
    by_itself = bg.fit(model(emissions, COLUMNS), X, method=bg.MLE())
    assert by_itself.attributes["objective"] >= ours.attributes["objective"] - 1e-6
    assert (np.diff(by_itself.parameters["x_mean"][:, 0]) > 0).all()  # of well separated groups, states keep the order


def test_climbs_of_symbols_and_of_counts_are_those_of_hmmlearn(rng, to_the_end):
    hmm = pytest.importorskip("hmmlearn.hmm")
    lengths = [40, 25, 1, 33]
    codes = [rng.choice(4, length, p=rng.dirichlet(np.ones(4))) for length in lengths]
    probs = rng.dirichlet(np.full(4, 3.0), STATES)
    theirs = hmm.CategoricalHMM(STATES, n_iter=5000, tol=1e-11, init_params="", n_features=4)
    theirs.startprob_, theirs.transmat_ = np.array(START["x_initial"]), START["x_transition"]
    theirs.emissionprob_ = probs.copy()
    theirs.fit(np.concatenate(codes)[:, None], lengths)
    X = {"x0": ["".join("abcd"[code] for code in each) for each in codes]}
    method = bg.MLE(starts={**START, "x_probs": probs[:, None]})
    ours = bg.fit(model(bg.DirichletCategorical()), X, method=method)
    np.testing.assert_allclose(
        ours.attributes["objective"], theirs.score(np.concatenate(codes)[:, None], lengths), rtol=1e-8
    )
    counts = [rng.poisson([[1.0], [6.0], [15.0]][place % 3], (1, length))[0] for place, length in enumerate(lengths)]
    theirs = hmm.PoissonHMM(STATES, n_iter=5000, tol=1e-11, init_params="", lambdas_prior=0, lambdas_weight=0)
    theirs.startprob_, theirs.transmat_ = np.array(START["x_initial"]), START["x_transition"]
    theirs.lambdas_ = np.array([[1.0], [5.0], [10.0]])
    theirs.fit(np.concatenate(counts)[:, None], lengths)
    method = bg.MLE(starts={**START, "x_rate": [[1.0], [5.0], [10.0]]})
    ours = bg.fit(model(bg.GammaPoisson()), {"x0": [each.tolist() for each in counts]}, method=method)
    check_climb(theirs, ours, {"x_rate": "lambdas_"})


@pytest.mark.parametrize(
    ("method", "remedy"),
    [
        (bg.MAP(num_starts=1), r"nothing was counted of .*_transition.*Markov\(2, concentration=2.0, initial=2.0\)"),
        (bg.MLE(num_starts=1), r"concentration=2.0, initial=2.0\); NUTS\(\) needs no maximum"),
    ],
)
def test_sequences_of_one_step_are_refused_with_remedies_that_hold(method, remedy):
    def fitted(family, method):
        model = bg.GenerativeClassifier([("level", family, ["level"])], class_prior=None)
        return bg.fit(model, {"level": [[1.0], [2.0], [2.5]]}, method=method)

    with pytest.raises(bg.FitError, match=remedy) as refusal:
        fitted(bg.DirichletHiddenMarkov(2), method)
    assert "Exact" not in str(refusal.value) and "below 1" not in str(refusal.value)
    fit = fitted(bg.DirichletHiddenMarkov(2, concentration=2.0, initial=2.0), bg.MAP(num_starts=1))
    np.testing.assert_allclose(fit.parameters["level_transition"], 0.5)


def test_emissions_that_have_no_estimate_name_no_method_that_refuses_hidden_states():
    model = bg.GenerativeClassifier([("level", bg.DirichletHiddenMarkov(5), ["level"])], class_prior=None)
    with pytest.raises(bg.FitError, match=r"the variance is zero at state.*MAP\(\) or NUTS\(\)") as refusal:
        bg.fit(model, {"level": [[1.0, 2.0, 1.0, 2.0, 2.0]]}, method=bg.MLE(num_starts=1))
    assert "Exact" not in str(refusal.value)
