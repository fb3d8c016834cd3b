"""Figures that others published, made again."""

import itertools

import numpy as np
import pytest

import bayesgen as bg

# UCI Car Evaluation (M. Bohanec, doi 10.24432/C5JP48, CC BY 4.0): all 1,728 combinations of six attributes, the last
# running fastest. A word gives the classes (unacc, acc, good, vgood) of nine combinations of size of boot and safety;
# a digit of `CAR` names the word.
ATTRIBUTES = {
    "buying": ["vhigh", "high", "med", "low"],
    "maint": ["vhigh", "high", "med", "low"],
    "doors": ["2", "3", "4", "5more"],
    "persons": ["2", "4", "more"],
    "lug_boot": ["small", "med", "big"],
    "safety": ["low", "med", "high"],
}
WORDS = [
    "uaauaauav",
    "uaauavuav",
    "uaguagugv",
    "uagugvugv",
    "uuauaauaa",
    "uuauuauaa",
    "uuuuaauav",
    "uuuuagugv",
    "uuuuuauaa",
    "uuuuuuuuu",
]
CAR = (
    "999999999999999999999999958954944944958954944944999999999999958954944944958954944944958954944944"
    "958954944944958954944944906901911911927923933933958954944944906901911911927923933933927923933933"
)


@pytest.fixture(scope="module")
def car():
    combinations = zip(*itertools.product(*ATTRIBUTES.values()), strict=True)
    X = {name: np.array(values) for name, values in zip(ATTRIBUTES, combinations, strict=True)}
    return X, np.array(list("".join(WORDS[int(digit)] for digit in CAR)))


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
