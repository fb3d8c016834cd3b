"""Hypothesis spaces: what they check, how they keep extensions, what hyperparameters do to priors."""

import copy
import dataclasses
import itertools

import numpy as np
import numpyro.distributions as dist
import pytest
import scipy.sparse

import bayesgen as bg
from bayesgen.concepts.space import CHUNK_HYPOTHESES, Extensions

close = np.testing.assert_allclose
LETTERS = "abcde"


def random_matrix(num_hypotheses, num_members, density=0.3, seed=0):
    return np.random.default_rng(seed).random((num_hypotheses, num_members)) < density


# --- extensions ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("num_members", [1, 7, 8, 13, 41])
def test_packed_extensions_do_what_the_matrix_does(num_members):
    matrix = random_matrix(29, num_members)
    packed = Extensions.of(matrix)
    counts, weights = np.arange(num_members) % 4, np.linspace(-1.0, 2.0, 29) * (np.arange(29) % 3 > 0)
    assert packed.shape == matrix.shape and packed.rows.nbytes == 29 * -(-num_members // 8)
    np.testing.assert_array_equal(np.asarray(packed), matrix)
    np.testing.assert_array_equal(packed.sizes(), matrix.sum(1))
    np.testing.assert_array_equal(packed.held(counts), matrix @ counts)
    close(packed.weigh(weights), weights @ matrix, atol=1e-14)


def test_sparse_matrices_and_matrices_longer_than_a_chunk_are_packed_alike():
    matrix = random_matrix(CHUNK_HYPOTHESES + 3, 5)
    for other in (scipy.sparse.csr_array(matrix), scipy.sparse.coo_matrix(matrix.astype(float))):
        np.testing.assert_array_equal(Extensions.of(other).rows, Extensions.of(matrix).rows)


def test_duplicates_are_reported_and_stay():
    rows = [[1, 0, 1], [0, 1, 1], [1, 0, 1], [0, 1, 1], [1, 1, 1]]
    space = bg.HypothesisSpace(LETTERS, rows, "xyz", np.ones(5))
    assert space.duplicates == [("a", "c"), ("b", "d")]
    assert len(space.names) == 5


# --- equality --------------------------------------------------------------------------------------------------


def larger(sizes, rate):
    return rate * sizes


STATED = {
    "weights": lambda: bg.HypothesisSpace("ab", [[1, 0], [1, 1]], [1, 2], [1.0, 3.0]),
    "other weights": lambda: bg.HypothesisSpace("ab", [[1, 0], [1, 1]], [1, 2], [3.0, 1.0]),
    "other members": lambda: bg.HypothesisSpace("ab", [[0, 1], [1, 1]], [1, 2], [1.0, 3.0]),
    "other names": lambda: bg.HypothesisSpace("ac", [[1, 0], [1, 1]], [1, 2], [1.0, 3.0]),
    "other domain": lambda: bg.HypothesisSpace("ab", [[1, 0], [1, 1]], [1, 3], [1.0, 3.0]),
    "number": lambda: bg.HypothesisSpace("ab", [[1, 0], [1, 1]], [1, 2], larger, rate=1.0),
    "other number": lambda: bg.HypothesisSpace("ab", [[1, 0], [1, 1]], [1, 2], larger, rate=2.0),
    "distribution": lambda: bg.HypothesisSpace("ab", [[1, 0], [1, 1]], [1, 2], larger, rate=dist.Gamma(2.0, 1.0)),
    "range": lambda: bg.HypothesisSpace("ab", [[1, 0], [1, 1]], [1, 2], larger, ranges={"rate": (0, 9)}, rate=1.0),
    "murphy": bg.number_game,
    "tenenbaum": lambda: bg.number_game("tenenbaum", rule_weight=dist.Beta(2, 1)),
    "rectangles": lambda: bg.rectangles(3, 2, scale=4.0),
}


@pytest.mark.parametrize("name", STATED)
def test_spaces_and_learners_are_equal_by_content(name):
    space, again = STATED[name](), STATED[name]()
    assert space == again == copy.deepcopy(space) and hash(space) == hash(again)
    assert [other for other, make in STATED.items() if make() == space] == [name]
    one, two = bg.ConceptLearner(space, noise=dist.Beta(1, 9)), bg.ConceptLearner(again, noise=dist.Beta(1, 9))
    assert one == two and hash(one) == hash(two)
    assert one != bg.ConceptLearner(space, noise=dist.Beta(2, 9)) and one != bg.ConceptLearner(space, "weak")
    with pytest.raises(dataclasses.FrozenInstanceError):
        space.names = ("x",)


def test_a_space_at_the_values_it_has_is_itself():
    space = STATED["number"]()
    assert space.at(rate=1.0) == space != space.at(rate=2.0) == STATED["other number"]()
    assert space.at(rate=2.0).sizes is space.sizes


# --- priors ----------------------------------------------------------------------------------------------------


def test_weights_are_normalised_unless_that_is_refused():
    space = bg.HypothesisSpace("ab", [[1, 0], [1, 1]], [1, 2], [1.0, 3.0])
    close(space.prior, [0.25, 0.75])
    close(bg.HypothesisSpace("ab", [[1, 0], [1, 1]], [1, 2], [0.25, 0.75], normalize=False).prior, [0.25, 0.75])
    with pytest.raises(bg.ModelError, match="sums to 4"):
        bg.HypothesisSpace("ab", [[1, 0], [1, 1]], [1, 2], [1.0, 3.0], normalize=False)


def test_unions_of_unions_weigh_by_products():
    one, two, three = (bg.HypothesisSpace([name], [[1, 1]], [1, 2], [1.0]) for name in "abc")
    inner = bg.HypothesisSpace.union([(1, one), (3, two)])
    space = bg.HypothesisSpace.union([(lambda share: share, inner), (lambda share: 1 - share, three)], share=0.2)
    close(space.prior, [0.05, 0.15, 0.8])
    close(space.at(share=0.6).prior, [0.15, 0.45, 0.4])
    close(space.prior, [0.05, 0.15, 0.8])


def test_priors_by_size_and_hyperparameter_against_the_formula():
    matrix = random_matrix(19, 11, seed=3) | np.eye(19, 11, dtype=bool) | (np.arange(11) == 5)
    space = bg.HypothesisSpace(range(19), matrix, range(11), lambda sizes, rate: -rate * sizes, rate=dist.Gamma(2, 2))
    for rate in (0.3, 2.0):
        weights = np.exp(-rate * matrix.sum(1))
        close(space.at(rate=rate).prior, weights / weights.sum())
    with pytest.raises(bg.ModelError, match="rate"):
        _ = space.prior


# --- what is refused -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("ab", [[1, 0], [0, 0]], [1, 2], [1, 1]), "'b' has no members"),
        (("ab", [[1, 0], [0, 1]], [1, 2], [1, 0]), "'b' has prior weight 0"),
        (("ab", [[1, 0], [0, 1]], [1, 2], [np.nan, 1]), "'a' has prior weight nan"),
        (("ab", [[1, 0], [0, 1]], [1, 2], [1, 1, 1]), "2 hypotheses need as many prior weights"),
        (("aa", [[1, 0], [0, 1]], [1, 2], [1, 1]), "names must all be different; 'a'"),
        (("ab", [[1, 0], [0, 1]], [2, 2], [1, 1]), "members of the domain must all be different; 2"),
        (("ab", [[1, 0, 1], [0, 1, 1]], [1, 2], [1, 1]), r"\(2, 2\).*got \(2, 3\)"),
        (("ab", [[1, 0], [0, 1]], [1, 2], lambda sizes: np.log(sizes - 1)), "not positive"),
    ],
)
def test_bad_spaces(arguments, message):
    with np.errstate(divide="ignore", invalid="ignore"), pytest.raises(bg.ModelError, match=message):
        bg.HypothesisSpace(*arguments)


@pytest.mark.parametrize(
    "rows, found",
    [
        ([[1, 0, 1], [1, 1, 0.5]], "0.5"),
        ([[1, 0, 1], [1, 1, np.nan]], "nan"),
        ([[True, False, True], [True, True, None]], "None"),
        (scipy.sparse.csr_array([[0, 1, 0], [1, 1, -1.0]]), "-1.0"),
        (scipy.sparse.coo_array(([1, 1, 1, 1], ([0, 1, 1, 1], [0, 1, 2, 2]))), "2"),
    ],
)
def test_extensions_are_true_or_false_and_errors_name_what_is_not(rows, found):
    with pytest.raises(bg.ModelError, match=rf"hypothesis 'b' holds 'z' must be True or False, 1 or 0; got {found}\."):
        bg.HypothesisSpace("ab", rows, "xyz", [1, 1])


def test_words_are_no_booleans_and_long_matrices_are_checked_to_the_end():
    with pytest.raises(bg.ModelError, match=r"hypothesis 'a' holds 'x'.*got 'False'"):
        bg.HypothesisSpace("ab", [["False", "True"], ["True", "True"]], "xy", [1, 1])
    with pytest.raises(bg.ModelError, match="rows differ in length"):
        bg.HypothesisSpace("ab", [[1], [1, 1]], "xy", [1, 1])
    with pytest.raises(bg.ModelError, match=r"must be a matrix.*\(2,\)"):
        bg.HypothesisSpace("ab", [1, 1], "xy", [1, 1])
    matrix = random_matrix(CHUNK_HYPOTHESES + 3, 5).astype(float)
    matrix[CHUNK_HYPOTHESES + 1, 3] = 2
    with pytest.raises(bg.ModelError, match=f"hypothesis {CHUNK_HYPOTHESES + 1} holds 3.*got 2.0"):
        Extensions.of(matrix)
    for dtype in (int, float, object):
        np.testing.assert_array_equal(np.asarray(Extensions.of(np.eye(3, dtype=dtype))), np.eye(3, dtype=bool))


@pytest.mark.parametrize(
    "values, message",
    [
        ({"rule_weight": 1.7}, r"rule_weight must be between 0 and 1, got 1\.7"),
        ({"rule_weight": 1.0}, r"rule_weight must be between 0 and 1, got 1\.0"),
        ({"scale": -1.0}, r"scale must be a finite number above 0, got -1\.0"),
        ({"scale": np.nan}, "scale must be a finite number above 0, got nan"),
    ],
)
def test_later_hyperparameters_are_checked_like_the_first(values, message):
    for space in (bg.number_game("tenenbaum"), bg.number_game("tenenbaum", rule_weight=dist.Beta(2, 1))):
        for one in (space, bg.ConceptLearner(space)):
            with pytest.raises(bg.ModelError, match=message):
                one.at(**values)
    with pytest.raises(bg.ModelError, match=r"scale must be a finite number above 0, got 0\.0"):
        bg.rectangles(3, 2, scale=1.0).at(scale=0.0)


def test_ranges_of_own_hyperparameters_in_unions():
    arguments = "ab", [[1, 0], [1, 1]], [1, 2], lambda sizes, rate: np.log(rate) * sizes
    inner = bg.HypothesisSpace(*arguments, ranges={"rate": (0, 2)}, rate=1.0)
    space = bg.HypothesisSpace.union([(lambda rate: rate, inner)], ranges={"rate": (-1, 1.5)}, rate=1.0)
    close(space.at(rate=1.25).prior, np.array([1.25, 1.25**2]) / (1.25 + 1.25**2))
    for rate in (0.0, 1.75):
        with pytest.raises(bg.ModelError, match=r"rate must be between 0 and 1\.5"):
            space.at(rate=rate)
    free = bg.HypothesisSpace(*arguments, rate=1.0)
    with np.errstate(invalid="ignore"), pytest.raises(bg.ModelError, match="not positive and finite"):
        free.at(rate=-1.0)
    with pytest.raises(bg.ModelError, match="rate must be between 0 and 2, got 2"):
        bg.HypothesisSpace(*arguments, ranges={"rate": (0, 2)}, rate=2.0)


def test_bad_unions_and_hyperparameters():
    one = bg.HypothesisSpace("a", [[1, 1]], [1, 2], [1.0])
    other = bg.HypothesisSpace("b", [[1, 1]], [1, 3], [1.0])
    with pytest.raises(bg.ModelError, match="same domain"):
        bg.HypothesisSpace.union([(1, one), (1, other)])
    with pytest.raises(bg.ModelError, match="positive and finite, got -1"):
        bg.HypothesisSpace.union([(-1, one), (1, one)])
    with pytest.raises(bg.ModelError, match="no hyperparameters"):
        one.at(scale=1.0)
    with pytest.raises(bg.ModelError, match="number games"):
        bg.number_game("chess")


@pytest.mark.parametrize(
    "hyperparameters, message",
    [
        ({"rule_weight": 1.0}, "rule_weight must be between 0 and 1, got 1.0"),
        ({"rule_weight": dist.Gamma(1, 1)}, "rule_weight must be between 0 and 1: the support"),
        ({"scale": -1.0}, "scale must be a finite number above 0"),
        ({"scale": None}, "scale must be a finite number above 0, got None"),
        ({"scale": dist.Normal(0, 1)}, "scale must be a finite number above 0: the support"),
        ({"scale": dist.Poisson(3.0)}, "scale must be one number"),
        ({"rule_weight": dist.Beta(np.ones(2), 1)}, "rule_weight must be one number"),
    ],
)
def test_bad_hyperparameters_of_the_number_game(hyperparameters, message):
    with pytest.raises(bg.ModelError, match=message):
        bg.number_game("tenenbaum", **hyperparameters)


# --- other domains, and size -----------------------------------------------------------------------------------


def test_rectangles_on_a_grid_against_plain_loops():
    space = bg.rectangles(5, 3)
    assert len(space.names) == 15 * 6 and len(space.domain) == 15
    fit = bg.fit(bg.ConceptLearner(space), [(2, 1), (4, 2)], method=bg.Exact())
    assert fit.ties == ("2 to 4 by 1 to 2",)
    total, holding = 0.0, 0.0
    for a, b, c, d in itertools.product(range(1, 6), range(1, 6), range(1, 4), range(1, 4)):
        if a <= 2 and b >= 4 and c <= 1 and d >= 2:
            likelihood = ((b - a + 1) * (d - c + 1)) ** -2
            total += likelihood
            holding += likelihood * (a <= 5 <= b and c <= 1 <= d)
    close(bg.predict(fit, [(5, 1)], rule=bg.BMA()).membership, holding / total)
    close(np.exp(fit.log_evidence), total / 90)


def test_rectangles_with_a_scale():
    sizes = bg.rectangles(3, 2).sizes
    close(bg.rectangles(3, 2, scale=1.5).prior, np.exp(-sizes / 1.5) / np.exp(-sizes / 1.5).sum())


def test_a_hundred_thousand_hypotheses():
    matrix = random_matrix(100_000, 101, density=0.5)
    space = bg.HypothesisSpace(range(100_000), matrix, range(101), np.ones(100_000))
    fit = bg.fit(bg.ConceptLearner(space, noise=0.1), [3, 50, 100], method=bg.Exact())
    held = matrix[:, [3, 50, 100]]
    likelihood = np.where(held, 0.9 / matrix.sum(1)[:, None] + 0.1 / 101, 0.1 / 101).prod(1)
    close(fit.weights, likelihood / likelihood.sum(), rtol=1e-9)
    membership = bg.predict(fit, range(101), rule=bg.BMA()).membership
    close(membership, likelihood @ matrix / likelihood.sum(), rtol=1e-9)
    assert space.extensions.rows.nbytes == 100_000 * 13


# --- what is refused ----------------------------------------------------------------------------------------------

NAMES, MEMBERS, HELD = ["a", "b", "c"], ["x", "y"], [[1, 0], [1, 1], [0, 1]]
SPACES = {
    "a prior that is text": (lambda: bg.HypothesisSpace(NAMES, HELD, MEMBERS, "abc"), "'abc'. Give positive weights"),
    "weights that are text": (lambda: bg.HypothesisSpace(NAMES, HELD, MEMBERS, ["p", "q", "r"]), "positive weights"),
    "too few weights": (lambda: bg.HypothesisSpace(NAMES, HELD, MEMBERS, [1, 2]), "3 hypotheses need"),
    "a negative weight": (lambda: bg.HypothesisSpace(NAMES, HELD, MEMBERS, [1, 2, -1]), "'c' has prior weight -1"),
    "a missing weight": (lambda: bg.HypothesisSpace(NAMES, HELD, MEMBERS, [1, np.nan, 1]), "'b' has prior weight nan"),
    "weights beyond 1": (
        lambda: bg.HypothesisSpace(NAMES, HELD, MEMBERS, [1e308] * 3, normalize=False), "sums to inf",
    ),
    "lists as members": (lambda: bg.HypothesisSpace(NAMES, HELD, [[1], [2]], [1, 1, 1]), r"\[1\].*Give a tuple"),
    "lists as names": (lambda: bg.HypothesisSpace([[1], [2], [3]], HELD, MEMBERS, [1, 1, 1]), "names must be hashable"),
    "a number as domain": (lambda: bg.HypothesisSpace(NAMES, HELD, 5, [1, 1, 1]), "must be a sequence, got 5"),
    "a weight of a union": (lambda: bg.HypothesisSpace.union([("a", bg.number_game())]), "weights of a union.*'a'"),
    "a union of nothing": (lambda: bg.HypothesisSpace.union([]), "at least one"),
    "half a point": (lambda: bg.rectangles(2.5, 3), "width must be a whole number"),
    "no point": (lambda: bg.rectangles(3, 0), "height must be a whole number"),
    "points as text": (lambda: bg.rectangles("3", 3), "width must be a whole number"),
    "no space": (lambda: bg.ConceptLearner("murphy"), "must be a HypothesisSpace"),
}  # fmt: skip


@pytest.mark.parametrize("name", SPACES)
def test_spaces_that_are_refused(name):
    make, message = SPACES[name]
    with pytest.raises(bg.ModelError, match=message):
        make()


def test_weights_of_any_size_are_normalised():
    even = bg.HypothesisSpace(NAMES, HELD, MEMBERS, [1e308] * 3)
    np.testing.assert_allclose(even.prior, 1 / 3, rtol=1e-12)
    wide = bg.HypothesisSpace(NAMES, HELD, MEMBERS, [1e308, 1e-300, 1.0])
    np.testing.assert_allclose(wide.log_prior({}), [0.0, -608 * np.log(10), -308 * np.log(10)], rtol=1e-12, atol=1e-12)


def test_points_may_be_lists():
    learner, exact = bg.ConceptLearner(bg.rectangles(6, 5)), bg.Exact()
    points = [(2, 2), (4, 3), (3, 2)]
    expected = bg.fit(learner, points, method=exact)
    for same in ([list(point) for point in points], np.asarray(points)):
        found = bg.fit(learner, same, method=exact)
        np.testing.assert_array_equal(found.weights, expected.weights)
        np.testing.assert_array_equal(
            bg.predict(found, [[5, 3]], rule=bg.BMA()).membership,
            bg.predict(expected, [(5, 3)], rule=bg.BMA()).membership,
        )
    several = bg.fit(learner, [[[2, 2], [4, 3], [3, 2]], [[1, 1]]], method=exact)
    np.testing.assert_array_equal(several[0].weights, expected.weights)
    with pytest.raises(bg.DataError, match=r"\[40, 3\].* not in the domain"):
        bg.fit(learner, [[2, 2], [40, 3]], method=exact)


def test_no_examples_have_no_labels():
    learner, exact = bg.ConceptLearner(bg.number_game()), bg.Exact()
    nothing = bg.fit(learner, [], [], method=exact)
    np.testing.assert_allclose(nothing.weights, learner.space.prior, rtol=1e-12)
    for labels in ([], [True, [False]], "no"):
        with pytest.raises(bg.DataError, match="give 2 times True or False"):
            bg.fit(learner, [16, 8], labels, method=exact)
