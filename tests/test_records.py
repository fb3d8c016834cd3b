"""Records: equal by content, taken apart and put together by JAX without their checks."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse

from bayesgen.records import by_content, content_hash, copied, fill, record, static


@record
class Curve:
    heights: np.ndarray
    units: str = static(default="m")
    note: object = None

    def __post_init__(self):
        if np.ndim(self.heights) != 1:
            raise ValueError("heights have one axis")


@record
class Key:
    numbers: np.ndarray
    __hash__ = content_hash


def test_equality_is_that_of_content_and_structure():
    assert Curve(np.array([1.0, np.nan])) == Curve(np.array([1.0, np.nan]))
    assert Curve(np.array([1.0, 2.0])) != Curve(np.array([1.0, 2.5]))
    assert Curve(np.array([1.0])) != Curve(np.array([1.0]), units="km")
    assert Curve(np.array([1.0])) != Curve(np.array([1]))
    assert Curve(np.array([1.0]), note=np.zeros(2)) != Curve(np.array([1.0]))
    assert Curve(np.array([1.0])) != "a curve"


@by_content
class Held:
    content: object
    time: float = dataclasses.field(default=0.0, compare=False)


@pytest.mark.parametrize(
    "make, other",
    [
        (lambda: np.array(["a", np.nan, 3], object), np.array(["a", np.nan, 4], object)),
        (lambda: {"a": [np.arange(3), (1, "x")]}, {"a": [np.arange(3), (1, "y")]}),
        (lambda: scipy.sparse.csr_array(np.eye(3)), scipy.sparse.csr_array(np.ones((3, 3)))),
        (lambda: functools.partial(np.add, np.ones(2)), functools.partial(np.add, np.zeros(2))),
        (lambda: Held(np.array([np.nan])), Held(None)),
        (lambda: np.array(["NaT", "2020-01-01"], "datetime64[D]"), np.array(["NaT", "2020-01-02"], "datetime64[D]")),
        (lambda: float("nan"), 1),
        (lambda: 1.0, 1),
        (lambda: [1], (1,)),
    ],
)
def test_what_an_object_holds_is_compared_cell_by_cell(make, other):
    assert Held(make(), time=1.0) == Held(make(), time=2.0)
    assert Held(make()) != Held(other) and Held(other) != Held(make())
    with pytest.raises(TypeError, match="unhashable"):
        hash(Held(make()))


def test_records_are_frozen_and_unhashable_unless_they_say_otherwise():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Curve(np.zeros(2)).units = "km"
    with pytest.raises(TypeError, match="unhashable"):
        hash(Curve(np.zeros(2)))
    assert hash(Key(np.array([0.0, 1.0]))) == hash(Key(np.array([-0.0, 1.0])))
    assert len({Key(np.array([1.0])), Key(np.array([1.0])), Key(np.array([2.0]))}) == 2


@record
class Sealed(Key):
    seal: str = static(default="wax")

    def __init__(self, numbers, seal="wax"):
        fill(self, numbers=np.asarray(numbers, float), seal=seal)


def test_records_inherit_fields_hashes_and_how_they_are_written():
    assert repr(Sealed([1])) == "Sealed(numbers=array([1.]), seal='wax')"
    assert Sealed([1]) == Sealed(1.0 + np.zeros(1)) != Key(np.ones(1))
    assert hash(Sealed([1])) == hash(Sealed([1.0])) and Sealed([1]) != Sealed([1], "lead")
    assert copied(Sealed([1]), seal="lead") == Sealed([1], "lead")


def test_jax_puts_records_together_without_their_checks():
    with pytest.raises(ValueError, match="one axis"):
        Curve(np.zeros((2, 2)))
    batches = jax.vmap(lambda curve: curve)(Curve(np.zeros(3)))
    assert batches.heights.shape == (3,)
    assert jax.tree.map(lambda leaf: None, Curve(np.zeros(3))).heights is None


def test_static_fields_decide_what_is_compiled_and_leaves_do_not():
    traced = []

    @jax.jit
    def total(curve):
        traced.append(curve.units)
        return curve.heights.sum()

    for numbers in (1.0, 2.0):
        assert total(Curve(jnp.full(3, numbers))) == 3 * numbers
    total(Curve(jnp.ones(3), units="km"))
    assert traced == ["m", "km"]
