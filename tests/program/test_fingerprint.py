"""Functions are told by what they do: everything that they read counts, and nothing else."""

import dataclasses
import functools
import math
import time
import types

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro import handlers

from bayesgen.program.fingerprint import changed_names, function_fingerprint

SOURCE = """
def function(n):
    return step(n, THING)
"""


def defined(source=SOURCE, lines=0, **names):
    """The last function of a source, as a notebook's cell has it: run in a module of its own."""
    module = types.ModuleType("cell")
    vars(module).update({"np": np, "jnp": jnp, "step": abs, "THING": None, **names})
    exec("\n" * lines + source, vars(module))
    return vars(module)["function"]


def closure(value, default=None):
    def function(n, setting=default, *, covariate=default):
        return n, value, setting

    return function


@dataclasses.dataclass(frozen=True)
class Frozen:
    shape: float
    names: tuple[str, ...] = ("a",)


class Plain:
    def __init__(self, **attributes):
        vars(self).update(attributes)

    def program(self, n):
        return n


class Wide(dist.Normal):
    def log_prob(self, value):
        return super().log_prob(value) / 2


def tuned(factor):
    """A class made anew, and a thing of it."""

    class Tuned:
        __slots__ = ("center",)
        scale = factor

        @property
        def width(self):
            return self.scale

    tuned = Tuned()
    tuned.center = 1.0
    return tuned


class Reloaded(Plain):
    """Pickled without its table, which is loaded again."""

    def __getstate__(self):
        return {key: value for key, value in vars(self).items() if key != "table"}


class Rebuilt(Plain):
    def __reduce__(self):
        return Rebuilt, ()


class Slotted:
    __slots__ = ("table",)

    def __init__(self, table):
        self.table = table

    def __getstate__(self):
        return None


class Tagged(np.ndarray):
    """An array with an attribute, which pickles of arrays leave out."""

    @classmethod
    def of(cls, values, tag):
        tagged = np.asarray(values, float).view(cls)
        tagged.tag = tag
        return tagged


class Named(Tagged):
    def __reduce__(self):
        return Named.of, ([], self.tag)


def marked(table):
    """A class with an attribute whose name looks like one of Python's."""
    return type("Marked", (), {"__table__": table})


def recursive(base):
    def power(n):
        return base * power(n - 1) if n else 1

    return power


def values():
    """Values of all kinds that differ from each other, made anew."""
    return {
        "numbers": [
            0,
            0.0,
            -0.0,
            False,
            None,
            "0",
            b"0",
            0j,
            np.float64(0),
            np.float32(0),
            np.array(0.0),
            jnp.zeros(()),
        ],
        "nan": [math.nan, math.inf, -math.inf],
        "arrays": [
            np.zeros(4),
            np.zeros((2, 2)),
            np.zeros(4, np.float32),
            np.zeros(4, ">f8"),
            -np.zeros(4),
            np.zeros(4).tolist(),
            np.array([0.0, None, 0.0, 0.0], object),
            np.array([0.0, "", 0.0, 0.0], object),
            np.ma.masked_array(np.zeros(4), [0, 0, 0, 1]),
        ],
        "arrays of JAX": [
            jnp.zeros(4),
            jnp.zeros(4, int),
            jnp.zeros(4).at[0].set(-0.0),
            jnp.asarray(1),
            jnp.asarray(1.0),
        ],
        "containers": [
            [1, 2],
            (1, 2),
            {1, 2},
            frozenset([1, 2]),
            [2, 1],
            [1, True],
            {1: 2},
            {2: 1},
            [[1], 2],
            [1, 2, 2],
        ],
        "order": [{"a": 1, "b": 2}, {"b": 2, "a": 1}],
        "objects": [Frozen(1.0), Frozen(1), Frozen(1.0, ("b",)), Plain(a=1), Plain(a=2), Plain(b=1), Plain(a=1, b=1)],
        "objects that leave things out of pickles": [
            *(Reloaded(table=table, name="a") for table in (0.0, 1.0)),
            *(Rebuilt(table=table) for table in (0.0, 1.0)),
            *(Slotted(table) for table in (0.0, 1.0)),
            *(Tagged.of([1, 2], tag) for tag in ("a", "b")),
            Tagged.of([1, 3], "a"),
        ],
        "dunder names": [marked(1.0), marked(2.0), marked(1.0)(), marked(2.0)()],
        "classes made anew": [tuned(1.0), tuned(2.0), type(tuned(1.0)), type(tuned(2.0))],
        "distributions": [dist.Normal(0, 1), dist.Normal(0, 2), Wide(0, 1), dist.Cauchy(0, 1), Wide, dist.Normal],
        "functions": [abs, len, np.exp, jnp.exp, jnp.add, jax.nn.relu, numpyro.sample, recursive(2), recursive(3)],
        "partial": [
            functools.partial(closure(1), 2),
            functools.partial(closure(1), 3),
            functools.partial(closure(2), 2),
        ],
        "methods": [Plain(a=1).program, Plain(a=2).program, Plain.program, [].append, [1].append, "".join],
        "handlers": [
            handlers.scale(closure(1), scale=2.0),
            handlers.scale(closure(1), scale=3.0),
            handlers.scale(closure(2), scale=2.0),
            handlers.mask(closure(1), mask=True),
        ],
        "jitted": [
            jax.jit(closure(1)),
            jax.jit(closure(2)),
            closure(1),
            functools.cache(closure(1)),
            jax.vmap(closure(1)),
        ],
    }


WAYS = {
    "closure": closure,
    "default": lambda value: closure(0, value),
    "global": lambda value: defined(THING=value),
    "called": lambda value: defined(step=defined(THING=value)),
    "of a module": lambda value: defined(SOURCE.replace("THING", "own.THING"), own=module_of(value)),
    "nested": lambda value: defined("def function(n):\n def inner(m): return THING\n return inner", THING=value),
}


def module_of(value):
    module = types.ModuleType("own")
    vars(module).update(THING=value, other=(part for part in "unknown"))
    return module


@pytest.mark.parametrize("name", values())
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_functions_are_the_same_that_read_the_same(name, way):
    """Values that differ in anything make other functions; values made anew make the same ones."""
    prints, again = ([function_fingerprint(way(value)) for value in values()[name]] for _ in range(2))
    assert None not in prints
    assert len(set(prints)) == len(prints)
    assert prints == again


CODES = [
    "def function(n): return n + 1",
    "def function(n): return n + 1.0",
    "def function(n): return n + True",
    "def function(n): return n * 0.0",
    "def function(n): return n * -0.0",
    "def function(m): return m + 1",
    "def function(n, *, k): return n + 1",
    "def function(n, k=None): return n + 1",
    "def function(n): return np.sin(n)",
    "def function(n): return np.cos(n)",
    "def function(n): return jnp.sin(n)",
    "def function(n): return (lambda k: k + 1)(n)",
    "def function(n): return (lambda k: k + 2)(n)",
    "def function(n):\n import math\n return math.sin(n)",
    "def function(n):\n try: return n\n except ValueError: return 1",
]


def test_code_is_told_by_all_but_its_lines():
    prints = [function_fingerprint(defined(source)) for source in CODES]
    assert None not in prints and len(set(prints)) == len(CODES)
    assert prints == [function_fingerprint(defined("# a comment\n" + source, lines=7)) for source in CODES]


UNKNOWN = {
    "a generator": lambda: closure(part for part in "ab"),
    "a file": lambda: defined("def function(n): return open('data.csv').read()"),
    "a file of numbers": lambda: defined("def function(n): return np.loadtxt('data.csv')"),
    "a loader": lambda: closure(np.load),
    "a state": lambda: defined("def function(n): return np.random.normal()"),
    "names at run time": lambda: defined("def function(n): return globals()['THING']"),
    "an import": lambda: defined("def function(n):\n import own\n return own.THING"),
    "a clock": lambda: closure(time.time),
    "what a module makes when it is asked": lambda: defined(SOURCE.replace("THING", "own.THIN"), own=module_of(1)),
    "a module as a whole": lambda: defined(THING=module_of(1)),
    "another package": lambda: closure(pytest.approx),
    "an empty cell": lambda: types.FunctionType(closure(1).__code__, {}, closure=(types.CellType(),)),
    "an array that is pickled without its values": lambda: closure(Named.of([1, 2], "a")),
    "a callee": lambda: defined(step=closure(part for part in "ab")),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_cannot_be_told_has_no_fingerprint(name):
    assert function_fingerprint(UNKNOWN[name]()) is None


DISTRIBUTIONS = {
    "multivariate": lambda scale: dist.MultivariateNormal(jnp.zeros(2), scale * jnp.eye(2)),
    "by covariance": lambda scale: dist.MultivariateNormal(jnp.zeros(2), covariance_matrix=scale * jnp.eye(2)),
    "logits": lambda scale: dist.Bernoulli(logits=scale),
    "probabilities": lambda scale: dist.Categorical(probs=jnp.array([scale, 1 - scale])),
    "nested": lambda scale: dist.Bernoulli(logits=jnp.full(2, scale)).to_event(1),
    "one's own": lambda scale: Wide(0.0, scale),
}


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_lazy_properties_of_distributions_change_nothing(name):
    distribution, other = map(DISTRIBUTIONS[name], (0.25, 0.5))
    before = function_fingerprint(closure(0, distribution))
    for part in (distribution, getattr(distribution, "base_dist", distribution)):
        for lazy in ("probs", "logits", "precision_matrix", "covariance_matrix"):
            getattr(part, lazy, None)
    assert function_fingerprint(closure(0, distribution)) == before != function_fingerprint(closure(0, other))


def test_a_traced_value_has_no_fingerprint():
    found = []
    jax.eval_shape(lambda value: found.append(function_fingerprint(closure(value))), jnp.zeros(3))
    assert found == [None]


def test_changes_in_place_are_seen_and_named():
    knots, weights = [1, 2], np.ones(3)
    function = defined("def function(n): return weights @ step(knots)", knots=knots, weights=weights)
    before = function_fingerprint(function)
    knots.append(3)
    assert changed_names(before, function_fingerprint(function)) == ["knots"]
    weights[1] = 0.0
    function.__globals__["step"] = len
    assert set(changed_names(before, function_fingerprint(function))) == {"knots", "weights", "step"}
    knots.pop()
    weights[1] = 1.0
    function.__globals__["step"] = abs
    assert function_fingerprint(function) == before
    assert changed_names(function_fingerprint(np.exp), before) == []
