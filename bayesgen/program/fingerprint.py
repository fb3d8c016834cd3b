"""Fingerprints of functions: what their code is, and what it reads."""

import builtins
import dataclasses
import dis
import functools
import hashlib
import os
import sys
import sysconfig
import types
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any

import jax
import numpy as np
import numpyro.distributions as dist
from numpyro.distributions.util import lazy_property

_OF_PYTHON = {"abc", "builtins", "collections", "copyreg", "dataclasses", "enum", "math", "reprlib", "typing"}
_OF_FUNCTIONS = {"_collections", "_functools", "_operator", "functools", "itertools", "operator"}
# Packages whose functions are pure, and the same wherever they are named.
LIBRARIES = {"bayesgen", "jax", "jaxlib", "numpy", "numpyro", "scipy"} | _OF_PYTHON | _OF_FUNCTIONS
# Names of functions whose results change: they read a file, hidden state, or a name that is not in the code.
_OF_FILES = {"open", "input", "load", "loadtxt", "genfromtxt", "fromfile", "memmap", "read_text", "read_bytes"}
READERS = {"eval", "exec", "compile", "globals", "__import__", "random", "now", "today"} | _OF_FILES
_INSTALLED = tuple(os.path.join(sysconfig.get_path(name), "") for name in ("purelib", "platlib"))
_MADE_BY_PYTHON = 1 << 9  # Py_TPFLAGS_HEAPTYPE
_PICKLING = {"__reduce__", "__reduce_ex__", "__getstate__"}
_PLAIN = (type(None), bool, int, str, bytes, type(...), type(NotImplemented))
_JITTED = type(jax.jit(lambda: None))
# Attributes that Python, its library and NumPyro set on classes, of which none is read by what a class does.
_NAMING = {"__module__", "__qualname__", "__doc__", "__firstlineno__", "__static_attributes__", "__signature__"}
_LAYOUT = {"__dict__", "__weakref__", "__slotnames__"}
_TYPING = {"__annotations__", "__annotate__", "__annotate_func__", "__annotations_cache__", "__classdictcell__"}
_GENERIC = {"__orig_bases__", "__parameters__", "__type_params__", "__protocol_attrs__", "__abstractmethods__"}
_OF_DATA_CLASSES = {"__dataclass_fields__", "__dataclass_params__"}
_NOT_READ = {"_abc_impl"} | _NAMING | _LAYOUT | _TYPING | _GENERIC | _OF_DATA_CLASSES


def function_fingerprint(function: Callable[..., object]) -> Hashable | None:
    """A key that is equal for functions that do the same; None where that cannot be known.

    It holds the code without its line numbers, the defaults, and the values that the code reads: the cells of its
    closure and the globals that it names, those of the functions and classes among them included. Values are compared
    by content: numbers by type and value (1, 1.0 and True differ, as -0.0 and 0.0 do), arrays by dtype, shape and
    bytes, other objects by their pickled state and all their attributes, but for the lazy ones of NumPyro's
    distributions, which follow from the others. Modules, and what the libraries define, are compared by identity.
    There is no key for objects that cannot be pickled, those of built-in types that pickle in a way of their own,
    modules of other packages as a whole, and code that names one of `READERS`.
    """
    reading = _Reading()
    content = reading.content(function)
    return content if reading.is_known else None


def content_digest(value: object) -> str | None:
    """A digest that is equal, in all processes, for values of equal content; None where that cannot be known.

    The content of functions is that of `function_fingerprint`; of records of bayesgen, their fields.
    """
    reading = _Reading()
    content = reading.content(value)
    return _digest(content).hex() if reading.is_known else None


def _digest(content: Hashable) -> bytes:
    """SHA-256 of a fingerprint."""
    if not isinstance(content, tuple):
        return hashlib.sha256(as_text(content).encode()).digest()
    return hashlib.sha256(b"".join(map(_digest, content))).digest()


def changed_names(before: Hashable, after: Hashable) -> list[str]:
    """Names of the values that differ between two fingerprints of a function; none where they are not known."""
    if not (isinstance(before, tuple) and isinstance(after, tuple) and before[0] == after[0] == "function"):
        return []
    known = dict(before[1])
    return [name for name, content in after[1] if name not in known or known[name] != content]


class Fingerprinted:
    """What has a fingerprint that was taken before.

    Attributes:
        content: the fingerprint; None where it cannot be known.
    """

    content: Hashable | None


class _Reading:
    """One walk through all values that a function reads. A repeated value is coded by its first place."""

    def __init__(self) -> None:
        self.is_known = True
        self._places: dict[int, tuple[int, object]] = {}  # with the values, so that no other object takes their ids

    def content(self, value: object) -> Hashable:
        """The content of a value, as a key."""
        kind = type(value)
        if kind in _PLAIN:
            return kind, value
        if kind in (float, complex):
            return kind, repr(value)  # -0.0 and 0.0 differ, NaN equals NaN
        if _is_of_library(value):
            return value
        if id(value) in self._places:
            return "again", self._places[id(value)][0]
        self._places[id(value)] = len(self._places), value
        return kind.__qualname__, self._parts(value)

    def _unknown(self) -> Hashable:
        self.is_known = False
        return None

    def _contents(self, values: Iterable[object]) -> tuple[Hashable, ...]:
        return tuple(map(self.content, values))

    def _named(self, values: Mapping[Any, object]) -> tuple[tuple[Hashable, Hashable], ...]:
        return tuple((self.content(name), self.content(value)) for name, value in values.items())

    @functools.singledispatchmethod
    def _parts(self, value: object) -> Hashable:
        """The contents of a value."""
        return self._pickled(value)

    def _pickled(self, value: object) -> Hashable:
        """The pickled state of an object, the class included."""
        if isinstance(value, Fingerprinted):  # in the state of a program
            return value.content or self._unknown()
        kind: Any = type(value)
        if dataclasses.is_dataclass(kind) and _package(kind) == "bayesgen" and kind.__getstate__ is object.__getstate__:
            # what follows from these fields, such as cached properties, depends on what was asked of the object
            return kind, self._named({field.name: getattr(value, field.name) for field in dataclasses.fields(kind)})
        try:
            reduced = value.__reduce_ex__(4)
        except Exception:  # each type has its own way to say that it cannot be pickled
            return self._unknown()
        if isinstance(reduced, str):
            return self._unknown()
        make, arguments, state, items, pairs = (*reduced, None, None, None)[:5]
        made = self.content(make), self._contents(arguments), self.content(state)
        return *made, self._contents(items or ()), self._named(dict(pairs or ())), self._unpickled(value)

    def _unpickled(self, value: object) -> Hashable:
        """What the pickled state of an object of the user's may leave out: its attributes."""
        kind: Any = type(value)
        own = [base for base in kind.__mro__ if not _is_installed(_package(base))]
        is_plain = all(getattr(kind, name) is getattr(object, name) for name in _PICKLING)
        if not own or is_plain:
            return None
        if any(map(_is_builtin, kind.__mro__)) and any(not _PICKLING.isdisjoint(vars(base)) for base in own):
            return self._unknown()
        return self.content(object.__getstate__(value))

    @_parts.register(list)
    @_parts.register(tuple)
    @_parts.register(set)
    @_parts.register(frozenset)
    def _(self, value: Any) -> Hashable:
        if type(value) not in (list, tuple, set, frozenset):
            return self._pickled(value)
        return self._contents(sorted(value, key=repr) if isinstance(value, set | frozenset) else value)

    @_parts.register
    def _(self, value: dict) -> Hashable:
        return self._named(value) if type(value) is dict else self._pickled(value)

    @_parts.register
    def _(self, value: np.ndarray) -> Hashable:
        if type(value) is not np.ndarray or value.dtype.hasobject:
            return self._pickled(value)
        return repr(value.dtype), value.shape, hashlib.blake2b(value.tobytes()).digest()

    @_parts.register
    def _(self, value: jax.Array) -> Hashable:
        if isinstance(value, jax.core.Tracer) or jax.dtypes.issubdtype(value.dtype, jax.dtypes.extended):
            return self._unknown()
        return value.weak_type, self._parts(np.asarray(value))

    @_parts.register
    def _(self, value: dist.Distribution) -> Hashable:
        state: Any = object.__getstate__(value)
        if not isinstance(state, dict):
            return self._pickled(value)
        parts = [part for kind in type(value).__mro__ for part in vars(kind).items()]
        lazy = {name for name, part in parts if isinstance(part, lazy_property)}
        return self.content(type(value)), self._named({n: part for n, part in state.items() if n not in lazy})

    @_parts.register
    def _(self, value: types.ModuleType) -> Hashable:
        return self._unknown()  # of which an attribute is read: see `_globals`

    @_parts.register(_JITTED)
    @_parts.register(functools._lru_cache_wrapper)
    def _(self, value: Any) -> Hashable:
        return self.content(value.__wrapped__)

    @_parts.register
    def _(self, value: functools.partial) -> Hashable:
        return self._contents((type(value), value.func, value.args, value.keywords, vars(value)))

    @_parts.register
    def _(self, value: types.MethodType) -> Hashable:
        return self._contents((value.__func__, value.__self__))

    @_parts.register
    def _(self, value: types.BuiltinFunctionType) -> Hashable:
        return value.__name__, self.content(value.__self__)

    @_parts.register
    def _(self, value: types.CellType) -> Hashable:
        try:
            return self.content(value.cell_contents)
        except ValueError:  # it is empty
            return self._unknown()

    @_parts.register
    def _(self, value: property) -> Hashable:
        return self._contents((value.fget, value.fset, value.fdel))

    @_parts.register(staticmethod)
    @_parts.register(classmethod)
    def _(self, value: Any) -> Hashable:
        return self.content(value.__func__)

    @_parts.register
    def _(self, value: functools.cached_property) -> Hashable:
        return self.content(value.func)

    @_parts.register
    def _(self, value: type) -> Hashable:
        if _is_installed(_package(value)):
            return value
        read = {name: part for name, part in vars(value).items() if name not in _NOT_READ}
        return value.__name__, self._contents((type(value), *value.__bases__)), self._named(read)

    @_parts.register
    def _(self, value: types.FunctionType) -> Hashable:
        code, package = value.__code__, _root(value.__globals__.get("__name__"))
        parts: list[tuple[str, Hashable]] = [
            ("its defaults", self._contents((value.__defaults__, value.__kwdefaults__)))
        ]
        parts += zip(code.co_freevars, self._contents(value.__closure__ or ()), strict=True)
        parts.append(("its attributes", self._named(vars(value))))
        if package in LIBRARIES and value.__name__ not in READERS:
            return *parts, ("its code", code)
        if _is_installed(package):
            return self._unknown()
        parts += ((name, self.content(part)) for name, part in self._globals(code, value.__globals__))
        return *parts, ("its code", self.content(code))

    def _globals(self, code: types.CodeType, names: Mapping[str, object]) -> Iterable[tuple[str, object]]:
        """The globals that code reads; of modules that are no libraries, the attributes that it reads."""
        for name, *attributes in _paths(code):
            value = names.get(name, vars(builtins).get(name))
            while _is_own_module(value) and attributes and attributes[0] in vars(value):
                name, value = f"{name}.{attributes[0]}", vars(value)[attributes.pop(0)]
            yield name, value

    @_parts.register
    def _(self, value: types.CodeType) -> Hashable:
        if not READERS.isdisjoint(value.co_names) or not LIBRARIES.issuperset(map(_root, _imports(value))):
            self._unknown()
        numbers = value.co_argcount, value.co_posonlyargcount, value.co_kwonlyargcount, value.co_flags
        names = value.co_name, value.co_names, value.co_varnames, value.co_freevars, value.co_cellvars
        return value.co_code, value.co_exceptiontable, numbers, names, self._contents(value.co_consts)


@functools.lru_cache(maxsize=1024)
def _paths(code: types.CodeType) -> tuple[tuple[str, ...], ...]:
    """The names that code reads from its globals, each with the attributes read from it."""
    paths: list[list[str]] = []
    is_open = False
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"):
            paths.append([step.argval])
            is_open = True
        elif is_open and step.opname in ("LOAD_ATTR", "LOAD_METHOD"):
            paths[-1].append(step.argval)
        elif step.opname != "EXTENDED_ARG":
            is_open = False
    inner = [path for part in code.co_consts if isinstance(part, types.CodeType) for path in _paths(part)]
    return tuple(dict.fromkeys([*map(tuple, paths), *inner]))


@functools.lru_cache(maxsize=1024)
def _imports(code: types.CodeType) -> frozenset[str]:
    """The modules that code imports when it is run."""
    return frozenset(step.argval for step in dis.get_instructions(code) if step.opname == "IMPORT_NAME")


def _is_own_module(value: object) -> bool:
    return isinstance(value, types.ModuleType) and not _is_of_library(value)


def _is_of_library(value: object) -> bool:
    """Whether a value is a library's object of its name, and so the same wherever it is named."""
    if isinstance(value, types.ModuleType):
        return _root(value.__name__) in LIBRARIES
    package, name = _package(value), getattr(value, "__name__", None)
    if package not in LIBRARIES or not isinstance(name, str) or name in READERS:
        return False
    return isinstance(value, type) or getattr(sys.modules.get(value.__module__), name, None) is value


def _package(value: object) -> str:
    return _root(getattr(value, "__module__", None))


def _root(module: object) -> str:
    """The package of a module by name: "numpy" of "numpy.linalg"."""
    return module.partition(".")[0] if isinstance(module, str) else ""


def _is_installed(package: str) -> bool:
    """Whether a package is installed, and not the user's own code."""
    path = getattr(sys.modules.get(package), "__file__", None) or ""
    return package in LIBRARIES or package in sys.stdlib_module_names or path.startswith(_INSTALLED)


def _is_builtin(kind: type) -> bool:
    """Whether a type is made by C code, whose things hold more than attributes."""
    return kind is not object and not kind.__flags__ & _MADE_BY_PYTHON


def as_text(content: Hashable) -> str:
    """A fingerprint as text that is the same in all processes."""
    if isinstance(content, tuple):
        return repr(tuple(map(as_text, content)))
    if isinstance(content, types.CodeType):
        return f"{content.co_qualname} {content.co_code!r}"
    name = getattr(content, "__qualname__", getattr(content, "__name__", None))
    return repr(content) if name is None else f"{getattr(content, '__module__', '')}.{name}"
