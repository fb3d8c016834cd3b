"""What is found by tracing and probing a program."""

import numpy as np
import pytest
from counting import compilations
from program.programs import BOUND, PROGRAMS, covariate, entangled, every_program, inner_plate, mixed, outer_plate

import bayesgen as bg
from bayesgen.errors import ModelError
from bayesgen.recognition.introspection import Introspection


@every_program
def test_the_plan_says_what_is_compressed(function):
    compressed, rowwise, *_ = PROGRAMS[function]
    plan = BOUND[function].plan
    assert tuple(name for name, _ in plan.compressed) == compressed
    assert plan.rowwise == rowwise == tuple(name for name, _ in plan.reasons)


def test_the_plan_says_why_not():
    reasons = dict(BOUND[entangled].plan.reasons)
    assert "depends on attribute x" in reasons["z"]
    assert "StudentT has no registered likelihood" in reasons["t"]
    assert "depend on covariate dose" in dict(BOUND[covariate].plan.reasons)["x"]
    assert BOUND[covariate].plan.row_parameters == ("hits",)


def test_the_structure_is_found_by_tracing():
    structure = BOUND[outer_plate].structure
    assert (structure.plate, structure.axis, structure.label) == ("rows", -2, "y")
    assert structure.attribute["x"].row_shape == (2,)
    assert BOUND[inner_plate].structure.axis == -1
    assert BOUND[inner_plate].structure.attribute["x"].row_shape == (2,)
    assert BOUND[mixed].latents == ("p", "mean", "rate")
    assert BOUND[mixed].attributes == ("x", "counts")
    assert dict(BOUND[mixed].structure.latents) == {"p": (2,), "mean": (3,), "rate": (3, 2)}
    assert BOUND[covariate].covariates == ("trials", "dose")


def test_labels_and_classes_belong_together():
    for options, match in [
        ({"classes": None}, "needs classes="),
        ({"classes": 3, "label": None}, "drop classes="),
        ({"classes": ["one"]}, "at least two classes"),
    ]:
        with pytest.raises(ModelError, match=match):
            bg.GenerativeProgram(mixed, **options)


@pytest.mark.parametrize(
    ("model", "y"),
    [(bg.GaussianDiscriminant("full"), ["a", "b"] * 5), (bg.LinearRegression(), np.linspace(0, 1, 10))],
    ids=["joint normals", "lines"],
)
def test_programs_are_looked_at_without_compiling(model, y):
    """NumPyro compiles its checks of triangles, where they are asked for, even while a program is traced."""
    fit = bg.fit(model, np.random.default_rng(0).normal(size=(10, 3)), y, method=bg.Exact())
    with compilations() as compiled:
        assert Introspection(fit.program).structure.attributes
    assert compiled == []
