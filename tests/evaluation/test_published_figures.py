"""Figures that others published, made again."""

import itertools

import numpy as np
import pytest
from scipy.stats import betabinom

import bayesgen as bg

# UCI Car Evaluation (M. Bohanec, doi 10.24432/C5JP48): all 1,728 combinations of six attributes, with the class that a
# decision model of M. Bohanec and V. Rajkovic gives them: first the price of a car, and how comfortable and safe it is.
ATTRIBUTES = {
    "buying": ["vhigh", "high", "med", "low"],
    "maint": ["vhigh", "high", "med", "low"],
    "doors": ["2", "3", "4", "5more"],
    "persons": ["2", "4", "more"],
    "lug_boot": ["small", "med", "big"],
    "safety": ["low", "med", "high"],
}
PRICES = np.array([[0, 0, 1, 1], [0, 1, 1, 1], [1, 1, 2, 3], [1, 2, 3, 3]])  # by buying and maint; 3 is the best
CLASSES = np.array([list("uuuu"), list("uuaa"), list("uaav"), list("uagv")])  # unacc, acc, good, vgood


def car_class(buying, maint, doors, persons, boot, safety):
    """The class of one car; each attribute is the place of its value in `ATTRIBUTES`."""
    if persons == 2 and doors == 0:
        comfort = boot
    else:
        comfort = 2 if boot == 2 or (boot == 1 and (doors >= 2 or persons == 2)) else 1
    quality = 0 if persons == 0 or comfort == 0 or safety == 0 else comfort + safety - 1
    return CLASSES[PRICES[buying, maint], quality]


@pytest.fixture(scope="module")
def car():
    places = np.array([*itertools.product(*(range(len(values)) for values in ATTRIBUTES.values()))])
    X = {name: np.array(values)[places[:, j]] for j, (name, values) in enumerate(ATTRIBUTES.items())}
    return X, np.array([car_class(*car) for car in places])


def test_the_table_of_cars_has_the_published_shares(car):
    labels, counts = np.unique(car[1], return_counts=True)
    assert dict(zip(labels.tolist(), counts.tolist(), strict=True)) == {"a": 384, "g": 69, "u": 1210, "v": 65}


@pytest.mark.parametrize(
    "prior, expected", [(0.5, 0.000026294701543), (0.03, 0.000000813258915), (0.95, 0.000499362978504)]
)
def test_doors_hardly_belong_to_the_class_of_a_car(car, prior, expected):
    model = bg.NaiveBayes(structure="average", dependence_prior=prior)
    fit = bg.fit(model, *car, method=bg.Exact())
    name, columns = next((name, columns) for name, _, columns in fit.concrete.blocks if "doors" in columns)
    dependence = fit.parameters[f"{name}_dependence"][list(columns).index("doors")]
    np.testing.assert_allclose(dependence, expected, rtol=0, atol=1e-10)


def test_free_energy_of_a_coin():
    tosses = np.repeat([1.0, 0.0], [3743, 1257])
    np.testing.assert_allclose(-bg.BetaBernoulli(2, 7).log_evidence(tosses), 2828.05333436225, rtol=0, atol=1e-9)


# The excess of a plug-in over the one-step answer: bits a symbol, of sequences whose probabilities have the prior
# Dirichlet(2). Under Dirichlet(1) the mode gives 0 to a symbol that has not been seen, and the excess is infinite.
def expected_excess(num_symbols: int, length: int) -> float:
    """The mean over symbols and sequences of log2 of the ratio of both answers, by sums over the count of a symbol."""
    total = 0.0
    for seen in range(length):
        count = np.arange(seen + 1)
        one_step, mode = (count + 2) / (seen + 2 * num_symbols), (count + 1) / (seen + num_symbols)
        prob_of_count = betabinom(seen, 2, 2 * (num_symbols - 1)).pmf(count)
        total += num_symbols * (prob_of_count * one_step * np.log2(one_step / mode)).sum()
    return total / length


@pytest.mark.parametrize("num_symbols, length, published", [(2, 10, 0.009297), (4, 5, 0.014833)])
def test_the_excess_of_a_plug_in_has_its_expectation(num_symbols, length, published):
    """All sequences of some symbols, each predicted symbol by symbol, weighted by their evidence."""
    symbols = np.array(list("abcd")[:num_symbols])
    sequences = symbols[np.array(list(itertools.product(range(num_symbols), repeat=length)))]
    model = bg.NaiveBayes(bg.DirichletCategorical(2), class_prior=None)
    pairs = [(bg.MAP(), bg.PlugIn()), (bg.Exact(), bg.BMA())]
    tasks = [({"symbol": sequence},) for sequence in sequences]
    result = bg.prequential(model, tasks, pairs=pairs, schema=bg.Schema(categories={"symbol": symbols}))
    plug_in, one_step = result.code_length[..., -1]
    weights = np.exp(-one_step)
    np.testing.assert_allclose(weights.sum(), 1.0, rtol=1e-12)
    excess = weights @ (plug_in - one_step) / np.log(2) / length
    np.testing.assert_allclose(excess, expected_excess(num_symbols, length), rtol=1e-10)
    np.testing.assert_allclose(excess, published, rtol=0, atol=5e-7)


@pytest.fixture(scope="module")
def scores_of_seeds():
    """Mean log scores of the answers on 300 test rows: 1,000 training sets of 15 rows, five for each of three classes.

    The classes are normals of two columns, of unlike covariance.
    """
    rng = np.random.default_rng(0)
    means = np.array([[0.0, 0.0], [2.0, 0.0], [1.0, 2.0]])
    factors = np.array([[[1.0, 0.0], [0.0, 1.0]], [[0.6, 0.0], [0.5, 0.8]], [[1.2, 0.0], [-0.6, 0.5]]])

    def rows(num_sets, num_rows):
        codes = np.tile(np.repeat(np.arange(3), num_rows), (num_sets, 1))
        return means[codes] + np.einsum("snij,snj->sni", factors[codes], rng.normal(size=(*codes.shape, 2))), codes

    X, y = rows(1000, 5)
    (X_test,), (y_test,) = rows(1, 100)
    sets, scores = list(zip(X, y, strict=True)), {}
    for method, rules in {
        bg.MLE(): {"MLE": bg.PlugIn()},
        bg.Exact(): {"mean": bg.PlugIn(at="mean"), "one-step": bg.BMA()},
    }.items():
        batch = bg.fit_many(bg.GaussianDiscriminant(), sets, method=method)
        for name, rule in rules.items():
            answer = bg.predict(batch, X_test, rule=rule)
            scores[name] = answer.log_probabilities[:, np.arange(len(y_test)), y_test].mean(1)
    return scores


@pytest.mark.parametrize("plug_in, expected", [("MLE", [2.878, 0.254, 0.995]), ("mean", [0.0871, 0.0033, 0.938])])
def test_student_t_is_ahead_of_plug_in_normals_over_a_thousand_seeds(scores_of_seeds, plug_in, expected):
    gains = scores_of_seeds["one-step"] - scores_of_seeds[plug_in]
    mean, error, share_ahead = gains.mean(), gains.std(ddof=1) / np.sqrt(len(gains)), (gains > 0).mean()
    np.testing.assert_allclose([mean, error, share_ahead], expected, rtol=0, atol=1e-3)
