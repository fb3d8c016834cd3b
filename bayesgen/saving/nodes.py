"""Values as nodes of JSON and arrays, and back, without executing anything.

Each node is `[kind, parts]`, its parts before it. A part is a text, a number, a truth value, None, or `[place]` of its
node, so that shared parts stay shared. Kinds are those of `ENCODINGS`, and classes of `MODULES`, of which objects are
made without their constructors: what a file says is looked up there, and never imported or called.
"""

import dataclasses
import datetime
import functools
import hashlib
import importlib
import math
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
import pandas as pd
from numpyro.distributions import Distribution
from scipy.interpolate import BSpline
from scipy.sparse import csr_array

from bayesgen import WINGS
from bayesgen.data import KINDS, Kind, as_kind
from bayesgen.describe import quote_some
from bayesgen.errors import BayesgenError, DataError, ModelError, warn
from bayesgen.generative import GenerativeProgram
from bayesgen.records import fill

ROOMS = (
    "data statistics families program recognition generative predictives models posteriors fitting prediction averaging"
)
TRANSFORMERS = "preprocessing impute compose pipeline decomposition kernel_approximation"
MODULES = (
    "bayesgen.errors",
    *(f"bayesgen.{room}" for room in (*ROOMS.split(), *WINGS)),
    *(f"sklearn.{module}" for module in TRANSFORMERS.split()),
    "numpyro.distributions",
)
READ = (  # "its values", by which fingerprints name what no name stands for
    "the values and arrays that its function reads (a NumPyro model as written also reads training rows where Python "
    "or NumPy does, as in np.unique(group): give such numbers as arguments)"
)
MOST_CELLS_IN_JSON = 64  # of an array in the JSON; that of more cells is a variable of the file
PLAIN = ("<f4", "<f8", "|i1", "<i2", "<i4", "<i8", "|u1", "<u2", "<u4", "<u8")  # of netCDF; others are bytes there


@functools.cache
def _named(name: str) -> Any:
    """The class of a name "room:class", if files may name it; of wings functions, too, as of priors."""
    module, _, qualname = name.partition(":")
    if module in MODULES:
        importlib.import_module(module)
        for path, home in list(sys.modules.items()):
            named = vars(home).get(qualname) if f"{path}.".startswith(f"{module}.") else None
            kinds = (type, types.FunctionType) if module.rpartition(".")[2] in WINGS else type
            if isinstance(named, kinds) and named.__module__ == path:
                return named
    raise DataError(f"There is no {name!r} in this version of the package, or none that a file may hold.")


def _name_of(named: Any) -> str | None:
    """The name of a class or function in files; None where they cannot hold it."""
    home = next((module for module in MODULES if f"{named.__module__}.".startswith(f"{module}.")), None)
    try:
        name = f"{home}:{named.__qualname__}"
        return name if _named(name) is named else None
    except DataError:
        return None


class Encoding(NamedTuple):
    """How values of a kind stand in a file.

    Attributes:
        holds: whether a value is of it.
        parts: function of a value: what it is made of.
        make: function of the parts: the value.
    """

    holds: Callable[[Any], bool]
    parts: Callable[[Any], Sequence[Any]]
    make: Callable[[list[Any]], Any]


def _exactly(kind: type) -> Callable[[Any], bool]:
    return lambda value: type(value) is kind


UFUNCS = {name: function for name, function in vars(np).items() if isinstance(function, np.ufunc)}
ENCODINGS = {
    "tuple": Encoding(_exactly(tuple), list, tuple),
    "list": Encoding(_exactly(list), list, list),
    "dict": Encoding(
        _exactly(dict),
        lambda items: [part for item in items.items() for part in item],
        lambda p: dict(zip(p[::2], p[1::2], strict=True)),
    ),
    "set": Encoding(_exactly(set), list, set),
    "frozenset": Encoding(_exactly(frozenset), list, frozenset),
    "range": Encoding(_exactly(range), lambda steps: [steps.start, steps.stop, steps.step], lambda p: range(*p)),
    "slice": Encoding(_exactly(slice), lambda part: [part.start, part.stop, part.step], lambda p: slice(*p)),
    "float": Encoding(_exactly(float), lambda number: [str(number)], lambda p: float(p[0])),  # NaN and infinities
    "complex": Encoding(_exactly(complex), lambda number: [number.real, number.imag], lambda p: complex(*p)),
    "bytes": Encoding(_exactly(bytes), lambda text: [text.hex()], lambda p: bytes.fromhex(p[0])),
    "date": Encoding(
        _exactly(datetime.date), lambda day: [day.isoformat()], lambda p: datetime.date.fromisoformat(p[0])
    ),
    "datetime": Encoding(
        _exactly(datetime.datetime),
        lambda time: [time.isoformat()],
        lambda p: datetime.datetime.fromisoformat(p[0]),
    ),
    "timestamp": Encoding(
        _exactly(pd.Timestamp),
        lambda time: [time.isoformat(), time.unit],
        lambda p: pd.Timestamp(p[0]).as_unit(p[1]),
    ),
    "dtype": Encoding(
        lambda value: isinstance(value, np.dtype) and not value.hasobject,
        lambda dtype: [dtype.str],
        lambda p: np.dtype(p[0]),
    ),
    "type": Encoding(
        lambda value: isinstance(value, type) and issubclass(value, np.generic),
        lambda scalar: [np.dtype(scalar).str],
        lambda p: np.dtype(p[0]).type,
    ),
    "scalar": Encoding(
        lambda value: isinstance(value, np.generic), lambda number: [np.asarray(number)], lambda p: p[0][()]
    ),
    "objects": Encoding(
        lambda value: type(value) is np.ndarray and value.dtype.hasobject,
        lambda cells: [cells.shape, *cells.ravel().tolist()],
        lambda p: np.fromiter(p[1:], object, len(p) - 1).reshape(p[0]),
    ),
    "sparse": Encoding(
        _exactly(csr_array),
        lambda cells: [cells.data, cells.indices, cells.indptr, cells.shape],
        lambda p: csr_array(tuple(p[:3]), shape=p[3]),
    ),
    "column kind": Encoding(
        lambda value: isinstance(value, Kind) and KINDS.get(value.name) == value,
        lambda kind: [kind.name],
        lambda p: as_kind(p[0], "of the file"),
    ),
    "spline": Encoding(
        _exactly(BSpline),
        lambda line: [line.t, line.c, line.k, line.extrapolate, line.axis],
        lambda p: BSpline(*p),
    ),
    "ufunc": Encoding(
        lambda value: isinstance(value, np.ufunc) and UFUNCS.get(value.__name__) is value,
        lambda function: [function.__name__],
        lambda p: UFUNCS[p[0]],
    ),
    "function": Encoding(
        lambda value: isinstance(value, types.FunctionType) and _name_of(value) is not None,
        lambda function: [_name_of(function)],
        lambda p: _named(p[0]),
    ),
}


def _field_names(value: Any) -> list[str]:
    """The names of what an object of a class of `MODULES` is made of."""
    if isinstance(value, BayesgenError):
        return ["args"]
    if isinstance(value, Distribution):
        return [name for name in type(value).arg_constraints if name in vars(value)]
    if dataclasses.is_dataclass(value):
        return [field.name for field in dataclasses.fields(value)]
    return list(vars(value))


class Encoder:
    """Nodes of values, and the arrays that are variables of the file.

    Attributes:
        nodes: see the module.
        variables: name -> array.
    """

    def __init__(self, stored: Mapping[str, np.ndarray]) -> None:
        """Begin.

        Args:
            stored: name -> array, variables that the file has anyway; arrays equal to them are not stored again.
        """
        self.nodes: list[list[Any]] = []
        self.variables: dict[str, np.ndarray] = {}
        self._places: dict[int, tuple[int, object]] = {}  # with the values, so that no other object takes their ids
        self._names = {_key(array): name for name, array in stored.items()}

    def part(self, value: Any, path: str) -> Any:
        """A value as a part of a node.

        Args:
            value: the value.
            path: how it is reached, for messages.

        Raises:
            ModelError: a value that a file cannot hold.
        """
        if value is None or type(value) in (bool, int, str) or (type(value) is float and math.isfinite(value)):
            return value
        if id(value) not in self._places:
            node = self._node(value, path)
            self.nodes.append(node)
            self._places[id(value)] = len(self.nodes) - 1, value
        return [self._places[id(value)][0]]

    def _node(self, value: Any, path: str) -> list[Any]:
        kind = next((name for name, kind in ENCODINGS.items() if kind.holds(value)), None)
        if kind is not None:
            parts = ENCODINGS[kind].parts(value)
            indices = [repr(key) for key in value for _ in "kv"] if kind == "dict" else range(len(parts))
            return [kind, [self.part(part, f"{path}[{index}]") for index, part in zip(indices, parts, strict=True)]]
        if type(value) is np.ndarray:
            return ["array", self._array(value)]
        if isinstance(value, jax.Array) and not jax.dtypes.issubdtype(value.dtype, jax.dtypes.extended):
            return ["array", self._array(np.asarray(value))]
        name = _name_of(type(value))
        if name is None:
            raise _refusal(value, path)
        fields = {field: getattr(value, field) for field in _field_names(value)}
        if isinstance(value, GenerativeProgram) and value.content is not None:
            fields["function"] = value.fingerprint()
        if isinstance(value, Distribution) and not _is_made_of(value, fields):
            raise _refusal(value, path)
        return [name, {field: self.part(part, f"{path}.{field}") for field, part in fields.items()}]

    def _array(self, array: np.ndarray) -> list[Any]:
        """Dtype, shape, whether the axes stand in the order of Fortran, and the cells: themselves or a variable."""
        reverse = bool(array.flags.f_contiguous and not array.flags.c_contiguous)
        array, is_plain = array.T if reverse else array, array.dtype.str in PLAIN
        cells: Any
        if array.dtype.kind == "U" or (array.size <= MOST_CELLS_IN_JSON and is_plain and np.isfinite(array).all()):
            cells = array.ravel().tolist()
        elif array.size <= MOST_CELLS_IN_JSON:
            cells = {"hex": array.tobytes().hex()}
        else:
            name = self._names.setdefault(_key(array), f"bayesgen/array_{len(self.nodes)}")
            if name.startswith("bayesgen/"):
                self.variables[name] = array if is_plain else np.frombuffer(array.tobytes(), np.uint8)
            cells = {"variable": name}
        return [array.dtype.str, list(array.shape), reverse, cells]


def _key(array: np.ndarray) -> tuple[Any, ...]:
    return array.dtype.str, array.shape, hashlib.blake2b(array.tobytes()).digest()


def _is_made_of(value: Distribution, fields: Mapping[str, Any]) -> bool:
    """Whether the distribution of these arguments is the same one."""
    try:
        copy = type(value)(**fields)
    except Exception:  # of a constructor that takes other arguments
        return False
    has_shape = (copy.batch_shape, copy.event_shape) == (value.batch_shape, value.event_shape)
    return has_shape and all(np.array_equal(getattr(copy, name), argument) for name, argument in fields.items())


def _refusal(value: Any, path: str) -> ModelError:
    cls = type(value)
    name = getattr(value, "__qualname__", None)
    shown = (
        f"the function {name!r}" if callable(value) and name else f"of the class {cls.__module__}.{cls.__qualname__}"
    )
    return ModelError(
        f"{path} is {shown}, and files of fits hold results, models of the package, NumPyro's simple distributions and "
        "scikit-learn's transformers, but no code. Fit without it, or keep the fit by pickle: "
        "joblib.dump(fit, path), which is safe to load from people whom you trust."
    )


def decoded(nodes: list[Any], read: Callable[[str], np.ndarray], functions: Sequence[Callable[..., object]]) -> Any:
    """The value of the last node.

    Args:
        nodes: as an `Encoder` makes them.
        read: function of the name of a variable: its array.
        functions: those of programs of one's own.

    Raises:
        DataError: programs that are not given, or are others.
        Exception: of any kind, for nodes that no encoder makes.
    """
    values: list[Any] = []

    def value(part: Any) -> Any:
        return values[part[0]] if isinstance(part, list) else part

    for kind, parts in nodes:
        if kind == "array":
            values.append(_array_of(parts, read))
        elif kind in ENCODINGS:
            values.append(ENCODINGS[kind].make([value(part) for part in parts]))
        else:
            values.append(_object(kind, {name: value(part) for name, part in parts.items()}, functions))
    return values[-1]


def _array_of(parts: list[Any], read: Callable[[str], np.ndarray]) -> np.ndarray:
    dtype, shape, reverse, cells = parts
    if isinstance(cells, list):
        array = np.array(cells, dtype)
    else:
        content = read(cells["variable"]).tobytes() if "variable" in cells else bytes.fromhex(cells["hex"])
        array = np.frombuffer(content, dtype).copy()
    return array.reshape(shape).T if reverse else array.reshape(shape)


def _object(kind: str, fields: dict[str, Any], functions: Sequence[Callable[..., object]]) -> Any:
    """The object of a class with these fields; no constructor is called but those of distributions."""
    cls = _named(kind)
    if issubclass(cls, Distribution):
        return cls(**fields)
    if issubclass(cls, GenerativeProgram) and isinstance(fields["function"], dict):
        return _program(fields, functions)
    if dataclasses.is_dataclass(cls) and fields.keys() != {field.name for field in dataclasses.fields(cls)}:
        raise DataError(f"{kind} has other fields in this version of the package.")
    return fill(cls.__new__(cls), **fields)


def _program(fields: dict[str, Any], functions: Sequence[Callable[..., object]]) -> GenerativeProgram:
    """The program of the file, made of the one of these functions that has its fingerprint."""
    saved, differing = fields.pop("function"), []
    for function in functions:
        program = fill(object.__new__(GenerativeProgram), **fields, function=function)
        fingerprint = program.fingerprint()
        pairs = [(saved[part], fingerprint[part]) for part in saved if part in fingerprint]
        differing = [name for old, new in pairs for name in old | new if old.get(name) != new.get(name)]
        if not differing:
            if not all(old for old, _ in pairs):
                warn(
                    "Whether this is the program that was fitted is not known: its function reads files, the clock or "
                    "what cannot be pickled, so that its sites alone were compared."
                )
            return program
    if functions:
        named = quote_some(differing).replace(repr("its values"), READ)
        raise DataError(
            f"the program is another one than that of the fit, in {named}. Give the program that was fitted, with what "
            "its function reads as it was."
        )
    raise DataError(
        "the fit is of a program of one's own, and a file holds no functions. Give it: load(path, program=program)."
    )
