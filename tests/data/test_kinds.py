"""A new kind of column is one class and its name: schemas, models, predictions and imputations take it as their own."""

import dataclasses
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest

import bayesgen as bg
from bayesgen.data import COUNT, KINDS, REAL, Encoded, Kind, Numbers, Schema, as_kind, read_table, register_kind

close = np.testing.assert_allclose
SCHOOLS = ("none", "primary", "secondary", "higher")


@dataclasses.dataclass(frozen=True)
class Degrees(Numbers):
    """Angles, real numbers from 0 to `turn`."""

    name = "degrees"
    turn: float = 360.0

    @property
    def modelled_as(self):
        return REAL

    def encode(self, columns):
        numbers, observed, unknown = super().encode(columns)
        return Encoded(numbers % self.turn, observed, unknown)

    def decode(self, column, categories, values):
        return values % self.turn


@dataclasses.dataclass(frozen=True)
class Schooling(Kind):
    """Ordinal labels as counts of the steps from the lowest."""

    name = "schooling"
    levels: ClassVar = SCHOOLS

    @property
    def modelled_as(self):
        return COUNT

    def encode(self, columns):
        codes = [pd.Categorical(columns.table.flat_column(name), self.levels).codes for name in columns.table_names]
        numbers = np.stack(codes, axis=1).astype(float)
        return Encoded(np.maximum(numbers, 0), None if (numbers >= 0).all() else numbers >= 0)

    def decode(self, column, categories, values):
        return np.asarray(self.levels, object)[np.minimum(np.round(values), 3).astype(int)]


@pytest.fixture(autouse=True, params=["registered", "given"])
def kinds(request):
    """The schema's kinds: by name, or as objects, which need no name."""
    if request.param == "given":
        return {"wind": Degrees(), "school": Schooling()}
    for kind in (Degrees(), Schooling()):
        register_kind(kind)
    request.addfinalizer(lambda: [KINDS.pop(name) for name in ("degrees", "schooling")])
    return {"wind": "degrees", "school": "schooling"}


def table(n=40):
    rng = np.random.default_rng(0)
    codes = np.arange(n) % 2
    wind = np.where(codes, 90.0, 200.0) + rng.normal(0, 5, n) + 360 * rng.integers(-2, 3, n)
    school = np.asarray(SCHOOLS, object)[np.minimum(rng.poisson(0.5 + codes), 3)]
    return pd.DataFrame({"wind": wind, "size": rng.normal(size=n), "school": school}), codes


def test_new_kinds_are_fitted_as_the_numbers_that_they_are_encoded_as(kinds):
    X, y = table()
    fit = bg.fit(bg.NaiveBayes(), X, y, method=bg.Exact(), schema=Schema(kinds=kinds))
    plain = X.assign(wind=X.wind % 360, school=[SCHOOLS.index(school) for school in X.school])
    expected = bg.fit(bg.NaiveBayes(), plain, y, method=bg.Exact(), schema=Schema(kinds={"school": "count"}))
    close(fit.log_evidence, expected.log_evidence, rtol=1e-12)
    assert sorted(fit.prior) == ["class", "degrees", "real", "schooling"]
    assert isinstance(fit.prior["schooling"], bg.GammaPoisson)
    answer = bg.predict(fit, X.assign(wind=X.wind + 720), rule=bg.BMA())
    close(answer.probabilities, bg.predict(expected, plain, rule=bg.BMA()).probabilities)


def test_new_kinds_have_missing_cells_and_impute_them(kinds):
    X, y = table()
    fit = bg.fit(bg.NaiveBayes(), X, y, method=bg.Exact(), schema=Schema(kinds=kinds))
    gaps = X.copy()
    gaps.loc[1, "wind"], gaps.loc[[2, 5], "school"] = np.nan, None
    answer = bg.predict(fit, gaps, rule=bg.BMA()).probabilities
    assert np.isfinite(answer).all() and not np.allclose(answer[1], bg.predict(fit, X, rule=bg.BMA()).probabilities[1])
    whole = fit.impute(gaps)
    assert 0 <= whole.wind[1] < 360 and set(whole.school[[2, 5]]) <= set(SCHOOLS)
    pd.testing.assert_series_equal(whole.school.drop([2, 5]), X.school.drop([2, 5]))
    drawn = fit.impute(gaps, num_draws=2, seed=1)
    assert all(0 <= draw.wind[1] < 360 for draw in drawn)


def test_families_are_chosen_for_them_by_name_by_column_or_by_what_they_are_modelled_as(kinds):
    X, y = table()
    schema = Schema(kinds=kinds)
    for key in ("degrees", "wind") if "degrees" in KINDS else ("wind",):
        fit = bg.fit(bg.NaiveBayes({key: bg.NormalInverseGamma(kappa=3.0)}), X, y, method=bg.MAP(), schema=schema)
        assert np.unique(fit.prior["degrees"].hyperparameters["kappa"]) == 3.0
    blocks = [("angles", bg.NormalInverseWishart(), ["wind", "size"]), ("steps", bg.GammaPoisson(), ["school"])]
    with pytest.raises(bg.DataError, match="one kind are encoded together"):
        bg.fit(bg.GenerativeClassifier(blocks), X, y, method=bg.Exact(), schema=schema)
    with pytest.raises(bg.ModelError, match="'wind' is of kind 'degrees', but its family BetaBernoulli"):
        bg.fit(bg.NaiveBayes({"wind": bg.BetaBernoulli()}), X, y, method=bg.MAP(), schema=schema)


def test_resolved_schemas_hold_kinds_as_objects(kinds):
    X, y = table()
    schema = Schema.infer(X, y, declared=Schema(kinds=kinds))
    assert schema.kinds == {"wind": Degrees(), "size": REAL, "school": Schooling()}
    assert schema.kinds == {"wind": Degrees(), "size": "real", "school": Schooling()}  # by name, as they are stated
    assert schema.kinds["size"] != "count" and hash(REAL) == hash("real")
    assert schema.columns_of("degrees") == ("wind",) and schema.kind_of("size") == REAL
    assert schema.resolve(read_table(X), y) == schema
    with pytest.raises(bg.DataError, match=r"'a' is given the kind 'angles'\. The kinds are 'real', 'binary'"):
        as_kind("angles", "a")


def test_refusals_name_the_new_kind():
    schema = Schema(kinds={"wind": Degrees()})
    with pytest.raises(bg.DataError, match="'wind' is degrees, and has 'north' at row 3"):
        bg.fit(bg.NaiveBayes(), {"wind": [1.0, 2.0, None, "north"]}, [0, 1, 0, 1], method=bg.MLE(), schema=schema)
