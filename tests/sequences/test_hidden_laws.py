"""The laws of models whose columns are sequences that hidden states make."""

import dataclasses
import functools
import itertools

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp

import bayesgen as bg
from tests.models.cases import ROWS, Case, take
from tests.models.test_laws import assert_same_fit, assert_same_values, close, with_prior


def lists(cells):
    """Cells that are lists of unlike lengths."""
    column = np.empty(len(cells), object)
    column[:] = cells
    return column


def chain(rng, transition, length):
    """States of a chain that begins in its first state."""
    states = [0]
    for _ in range(length - 1):
        states.append(rng.choice(len(transition), p=transition[states[-1]]))
    return np.array(states)


QUICK, SLOW = np.array([[0.3, 0.7], [0.6, 0.4]]), np.array([[0.9, 0.1], [0.2, 0.8]])


def walks(rng, codes):
    """Two columns of numbers that run in parallel: classes differ in how long states last."""
    east, north = [], []
    for code in codes:
        states = chain(rng, SLOW if code else QUICK, rng.integers(1, 12))
        steps = np.array([[0.0, 3.0], [2.0, -1.0]])[states] + rng.normal(size=(len(states), 2))
        east.append(steps[:, 0].tolist())
        north.append(steps[:, 1].tolist())
    return {"east": lists(east), "north": lists(north)}


def songs(rng, codes):
    """Strings, the empty one among them, beside a binary column."""
    cells = []
    for code in codes:
        states = chain(rng, SLOW if code else QUICK, rng.integers(1, 9))
        cells.append("".join(rng.choice(list("abc"), p=[[0.7, 0.2, 0.1], [0.1, 0.1, 0.8]][state]) for state in states))
    cells[-1] = ""
    return {"song": np.array(cells, object), "tame": rng.random(len(codes)) < 0.3 + 0.4 * codes}


@dataclasses.dataclass(frozen=True)
class HiddenCase(Case):
    """A model with hidden states, and where EM is to start."""

    start: dict = dataclasses.field(default_factory=dict)

    @functools.cached_property
    def point(self):
        """The joint mode that EM climbs to from the start."""
        return bg.fit(self.model, *self.data, method=bg.MAP(starts=self.start))

    @functools.cached_property
    def holed(self):
        """The training rows with steps that are missing, and a sequence that is missing altogether."""
        X, y = self.data
        rng, holed = np.random.default_rng(8), {}
        for name, cells in X.items():
            if cells.dtype != object:
                holed[name] = cells
                continue
            steps = [[None if rng.random() < 0.2 else step for step in cell] for cell in cells]
            steps[5] = None
            holed[name] = lists(steps)
        if "east" in X:
            holed["north"][5] = holed["east"][5] = None
        return holed, y


TWO = np.array([[[0.6, 0.4], [0.3, 0.7]], [[0.7, 0.3], [0.4, 0.6]]])
HIDDEN = {
    "numbers": HiddenCase(
        bg.GenerativeClassifier([("gait", bg.DirichletHiddenMarkov(2), ["east", "north"])]),
        walks,
        start={
            "gait_initial": np.full((2, 2), 0.5),
            "gait_transition": TWO,
            "gait_mean": np.tile([[0.5, 2.0], [1.5, 0.0]], (2, 1, 1)),
            "gait_variance": np.ones((2, 2, 2)),
        },
    ),
    "joint numbers": HiddenCase(
        bg.GenerativeClassifier(
            [("gait", bg.DirichletHiddenMarkov(2, bg.NormalInverseWishart(kappa=0.3)), ["east", "north"])],
        ),
        walks,
        start={"gait_mean": np.tile([[0.5, 2.0], [1.5, 0.0]], (2, 1, 1))},
    ),
    "symbols": HiddenCase(
        bg.GenerativeClassifier(
            [
                ("song", bg.DirichletHiddenMarkov(2, bg.DirichletCategorical(1.5), 1.3 + np.eye(2)), ["song"]),
                ("tame", bg.BetaBernoulli(2, 3), ["tame"]),
            ]
        ),
        songs,
        start={
            "song_initial": np.array([[0.6, 0.4], [0.5, 0.5]]),
            "song_transition": TWO,
            "song_probs": np.array([[[[0.5, 0.3, 0.2]], [[0.2, 0.2, 0.6]]]] * 2),
        },
    ),
}
METHODS = {"MLE": bg.MLE, "MAP": bg.MAP}
others = [pytest.param(name, marks=pytest.mark.slow) for name in HIDDEN if name != "numbers"]
one_case = pytest.mark.parametrize("name", ["numbers", *others])
one_method = pytest.mark.parametrize("method", [bg.MAP, pytest.param(bg.MLE, marks=pytest.mark.slow)])


def fitted(case, X, y, method=bg.MAP, **options):
    return bg.fit(case.model, X, y, method=method(starts=case.start), **options)


@pytest.mark.filterwarnings("ignore:EM has not converged")  # the law is of every step on the way
@one_method
@one_case
def test_weights_orders_and_parts_of_rows(name, method):
    """A row given twice is weight two; the order of rows does not matter; summaries merge, and are updated with."""
    case = HIDDEN[name]
    X, y = case.holed
    rng, schema = np.random.default_rng(1), bg.summarize(case.model, X, y).schema
    whole = fitted(case, X, y, method, schema=schema)
    order, weights = rng.permutation(ROWS), rng.choice(3, ROWS, p=[0.15, 0.7, 0.15])
    assert_same_fit(fitted(case, take(X, order), y[order], method, schema=schema), whole)
    twice = np.repeat(np.arange(ROWS), weights)
    weighted = fitted(case, X, y, method, sample_weight=weights, schema=schema)
    assert_same_fit(fitted(case, take(X, twice), y[twice], method, schema=schema), weighted)
    parts = [slice(0, 47), slice(47, ROWS)]  # the first compiles nothing that all rows do not
    one, two = (bg.summarize(case.model, take(X, part), y[part], schema=schema) for part in parts)
    assert_same_fit(bg.fit(case.model, two + one, method=method(starts=case.start)), whole)
    first = fitted(case, take(X, parts[0]), y[parts[0]], method, schema=schema)
    grown = first.update(take(X, parts[1]), y[parts[1]])
    again = bg.fit(with_prior(first), X, y, method=method(starts=case.start), schema=schema)
    assert_same_values(grown.parameters, again.parameters, rtol=1e-9, atol=1e-12)


@one_case
def test_a_class_that_is_added_leaves_the_others_as_they_were(name):
    case = HIDDEN[name]
    X, y = case.data
    fit = bg.fit(case.model, X, y, method=bg.MAP(num_starts=1))
    more = fit.add_class("yak", take(X, slice(0, 40)))
    for key, value in fit.parameters.items():
        if key != "class_probs":
            assert np.array_equal(more.parameters[key][: len(value)], value), key


QUICK_OBJECTIVES = {("symbols", "MLE"), ("numbers", "MAP")}


@pytest.mark.parametrize(
    ("name", "method"),
    [
        pytest.param(name, method, id=f"{name}-{key}", marks=[pytest.mark.slow] * ((name, key) not in QUICK_OBJECTIVES))
        for name in HIDDEN
        for key, method in METHODS.items()
    ],
)
def test_the_objective_is_that_of_rows(name, method):
    """The log-likelihood of the steps that are there, by densities of rows, which EM does not look at."""
    case = HIDDEN[name]
    X, y = case.holed
    fit = fitted(case, X, y, method)
    codes = np.searchsorted(fit.classes, y)
    prior = fit.concrete.conjugate(fit.schema).log_prior(fit.parameters) if method is bg.MAP else 0.0
    close(fit.attributes["objective"], fit.log_joint(X)[np.arange(ROWS), codes].sum() + prior, rtol=1e-9)
    assert fit.attributes["converged"]
    if "tame" in X:
        X = X | {"tame": np.ma.array(X["tame"], mask=np.arange(ROWS) == 5)}
    answer = bg.predict(fit, X, rule=bg.PlugIn())  # row 5 has no steps
    close(answer.probabilities[5], fit.parameters["class_probs"], rtol=1e-9)


def as_sites(case):
    """The rows of a case as the sites and covariates of its program."""
    rows, sites = case.point.read(case.data[0]), {}
    for site, values in rows.values.items():
        observed = rows.observed.get(site)
        sites[site] = values if observed is None else np.where(observed, values, np.nan)
        if f"{site}_length" in case.point.program.covariates:
            sites[f"{site}_length"] = np.full(ROWS, values.shape[1])
    return sites


@one_case
def test_the_program_has_the_same_densities(name):
    """The program's own density sums states out elsewhere."""
    case = HIDDEN[name]
    fit, sites = case.point, as_sites(case)
    latents = fit.program.latents_of(fit.parameters)
    table = fit.program.log_joint({key: latents[key] for key in fit.program.latents}, sites)
    close(table, fit.log_joint(case.data[0]), rtol=1e-9)


@pytest.mark.slow  # other models that EM fits are searched over in every run: models/test_open_laws.py
@pytest.mark.parametrize("name", HIDDEN)
def test_a_search_over_the_program_stays_at_the_maximum(name):
    case = HIDDEN[name]
    fit = case.point
    again = bg.fit(fit.program, as_sites(case), case.data[1], method=bg.MAP(starts=fit.parameters))
    for key, value in fit.parameters.items():
        close(again.parameters[key], value, rtol=1e-3, atol=1e-4, err_msg=key)


@pytest.mark.slow
def test_labels_may_be_missing_and_components_unknown():
    case = HIDDEN["numbers"]
    X, y = case.data
    some = np.where(np.arange(ROWS) % 2, y.astype(object), None)
    fit = bg.fit(case.model, X, some, method=bg.MAP(num_starts=1))
    table, codes = fit.log_joint(X), np.searchsorted(fit.classes, y)
    known = np.arange(ROWS) % 2 == 1
    of_rows = np.where(known, table[np.arange(ROWS), codes], logsumexp(table, axis=1)).sum()
    prior = fit.concrete.conjugate(fit.schema).log_prior(fit.parameters)
    close(fit.attributes["objective"], of_rows + prior, rtol=1e-9)
    mixture = bg.fit(bg.Mixture(case.model, 2), X, method=bg.MAP(num_starts=1))
    of_rows = logsumexp(mixture.log_joint(X), axis=1).sum()
    prior = mixture.concrete.conjugate(mixture.schema).log_prior(mixture.parameters)
    close(mixture.attributes["objective"], of_rows + prior, rtol=1e-9)


def log_evidence(sequences, num_states, num_symbols):
    """log p(sequences) under Dirichlet(1) priors, by all paths of all of them: parameters are integrated out."""
    terms = []
    for paths in itertools.product(*(itertools.product(range(num_states), repeat=len(each)) for each in sequences)):
        tables = np.zeros(num_states), np.zeros((num_states,) * 2), np.zeros((num_states, num_symbols))
        for path, symbols in zip(paths, sequences, strict=True):
            tables[0][path[0]] += 1
            np.add.at(tables[1], (path[:-1], path[1:]), 1)
            np.add.at(tables[2], (path, symbols), 1)
        logs = [gammaln(1 + t).sum(-1) - gammaln(t.shape[-1] + t.sum(-1)) + gammaln(t.shape[-1]) for t in tables]
        terms.append(sum(np.sum(each) for each in logs))
    return logsumexp(terms)


@pytest.mark.slow
def test_averages_over_draws_are_ratios_of_evidences():
    """p(new | training rows) by NUTS, states summed out, against sums over all paths."""
    words, new = ["aab", "abba", "b"], ["bb", "ab", "aaa"]
    X = {"word": np.array(words, object)}
    family = bg.DirichletHiddenMarkov(2, bg.DirichletCategorical())
    model = bg.NaiveBayes({"word": family}, class_prior=None)
    fit = bg.fit(model, X, method=bg.NUTS(num_samples=500), schema=bg.Schema(categories={"word": ["a", "b"]}))
    answer = bg.predict(fit, {"word": np.array(new, object)}, rule=bg.BMA())
    codes = [["ab".index(letter) for letter in word] for word in words]
    before = log_evidence(codes, 2, 2)
    for word, found in zip(new, answer.log_marginal, strict=True):
        expected = log_evidence([*codes, ["ab".index(letter) for letter in word]], 2, 2) - before
        assert abs(found - expected) < 0.05, word


@pytest.mark.slow
def test_sequences_are_simulated_given_their_lengths():
    case = HIDDEN["numbers"]
    fit = case.point
    drawn = fit.simulate(3, seed=1, gait_length=np.array([4, 1, 6]))
    steps = np.asarray(drawn["gait"])
    assert steps.shape == (3, 6, 2)
    assert (np.isnan(steps).all(-1) == (np.arange(6) >= np.array([[4], [1], [6]]))).all()


@pytest.mark.slow
def test_simulated_steps_of_one_column_are_data_of_that_column():
    X = {"walk": np.array([[0.1, 2.3, np.nan], [1.9, -0.4, 0.2]])}
    model = bg.NaiveBayes({"walk": bg.DirichletHiddenMarkov(2)}, class_prior=None)
    fit = bg.fit(model, X, method=bg.MAP(), schema=bg.Schema(columns={"walk": bg.SequenceOf("real")}))
    drawn = fit.simulate(3, seed=0, walk_length=[3, 4, 7])
    steps = drawn["walk"]
    assert steps.shape == (3, 7, 1)
    np.testing.assert_allclose(fit.log_joint({"walk": steps}), fit.log_joint(drawn), rtol=1e-12)
    np.testing.assert_allclose(fit.log_joint({"walk": steps[..., 0]}), fit.log_joint(drawn), rtol=1e-12)
