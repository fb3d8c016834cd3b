"""The content of functions: what their code is, and what it reads; compiled code is keyed by it."""

import builtins
import dataclasses
import dis
import functools
import hashlib
import os
import sys
import sysconfig
import types
import weakref
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, cast

import jax
import numpy as np
import numpyro.distributions as dist
from numpyro.distributions.util import lazy_property

from bayesgen.errors import ModelError

# Packages whose functions are pure, and the same wherever they are named: those of arrays, and of Python.
LIBRARIES = {"bayesgen", "jax", "jaxlib", "numpy", "numpyro", "scipy"}
LIBRARIES |= {"abc", "builtins", "collections", "copyreg", "dataclasses", "enum", "math", "reprlib", "typing"}
LIBRARIES |= {"_collections", "_functools", "_operator", "functools", "itertools", "operator"}
# Names of functions whose results change: they read a name that is not in the code, hidden state, or a file.
READERS = {"eval", "exec", "compile", "globals", "__import__", "random", "now", "today"}
READERS |= {"open", "input", "load", "loadtxt", "genfromtxt", "fromfile", "memmap", "read_text", "read_bytes"}
_INSTALLED = tuple(os.path.join(sysconfig.get_path(name), "") for name in ("purelib", "platlib"))
_MADE_BY_PYTHON = 1 << 9  # Py_TPFLAGS_HEAPTYPE
_PICKLING = {"__reduce__", "__reduce_ex__", "__getstate__"}
_PLAIN = (type(None), bool, int, str, bytes, type(...), type(NotImplemented))
# Attributes that Python, its library and NumPyro set on classes, of which none is read by what a class does.
_NOT_READ = {"__module__", "__qualname__", "__doc__", "__firstlineno__", "__static_attributes__", "__signature__"}
_NOT_READ |= {"__dict__", "__weakref__", "__slotnames__", "__dataclass_fields__", "__dataclass_params__", "_abc_impl"}
_NOT_READ |= {"__annotations__", "__annotate__", "__annotate_func__", "__annotations_cache__", "__classdictcell__"}
_NOT_READ |= {"__orig_bases__", "__parameters__", "__type_params__", "__protocol_attrs__", "__abstractmethods__"}
# What is read of values that have no pickle, or one that leaves something out.
_PARTS: dict[type, Callable[[Any], tuple[object, ...]]] = {
    type(jax.jit(lambda: None)): lambda function: (function.__wrapped__,),
    functools._lru_cache_wrapper: lambda function: (function.__wrapped__,),
    functools.partial: lambda call: (type(call), call.func, call.args, call.keywords, vars(call)),
    types.MethodType: lambda method: (method.__func__, method.__self__),
    types.BuiltinFunctionType: lambda method: (method.__name__, method.__self__),
    property: lambda made: (made.fget, made.fset, made.fdel),
    functools.cached_property: lambda made: (made.func,),
    staticmethod: lambda method: (method.__func__,),
    classmethod: lambda method: (method.__func__,),
}


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
    walk = _Walk()
    content = walk.content(function)
    return content if walk.is_known else None


def content_digest(value: object) -> str | None:
    """A digest that is equal, in all processes, for values of equal content; None where that cannot be known.

    The content of functions is that of `function_fingerprint`; of records of bayesgen, their fields.
    """
    walk = _Walk()
    content = walk.content(value)
    return _digest(content).hex() if walk.is_known else None


def _digest(content: Hashable) -> bytes:
    """SHA-256 of a fingerprint."""
    if not isinstance(content, tuple):
        return hashlib.sha256(as_text(content).encode()).digest()
    return hashlib.sha256(b"".join(map(_digest, content))).digest()


def changed_names(before: Hashable, after: Hashable) -> list[str]:
    """Names of the values that differ between two fingerprints of a function; none where they are not known."""
    if not (isinstance(before, tuple) and isinstance(after, tuple) and before[0] == after[0] == "function"):
        return []
    contents = dict(before[1])
    return [name for name, content in after[1] if name not in contents or contents[name] != content]


class FunctionContent:
    """The content of a function, shared by all functions with equal fingerprints.

    Compiled functions live as long as the content, which lives as long as a program that has it. Programs share one if
    their functions had equal fingerprints when the programs were made or, without fingerprints, if they have the same
    function.

    Attributes:
        fingerprint: see `function_fingerprint`; None where it cannot be known.
        cache: what `cached_by_structure` has computed.
    """

    def __init__(self, fingerprint: Hashable | None) -> None:
        self.fingerprint = fingerprint
        self.cache: dict[Hashable, Any] = {}
        self._functions: weakref.WeakValueDictionary[int, Callable[..., object]] = weakref.WeakValueDictionary()
        self._is_stable = False

    @classmethod
    def of(cls, function: Callable[..., object]) -> "FunctionContent":
        """The content of a function as it is now."""
        content = _contents.get(id(function))
        if content is None:
            fingerprint = function_fingerprint(function)
            content = _contents.setdefault(id(function) if fingerprint is None else fingerprint, cls(fingerprint))
        content._functions[id(function)] = function
        return content

    @property
    def function(self) -> Callable[..., object]:
        """A function with this content.

        Raises:
            ModelError: the values that it reads have changed, so there is none.
        """
        changed: list[str] = []
        functions = list(self._functions.values())
        for function in functions:
            fingerprint = self.fingerprint and function_fingerprint(function)
            if fingerprint == self.fingerprint:
                return function
            changed = changed_names(self.fingerprint, fingerprint)
        if functions and not self._is_stable:
            return functions[0]  # it may itself change what it reads: see `check_stable`
        raise ModelError(
            f"The program has to be run again, and what its function reads is not what it was when the program was "
            f"made{': ' if changed else ''}{', '.join(changed)}. Set it back, or make the program and its fits again; "
            "what is to differ between programs is best an argument of a function that makes them."
        )

    def __deepcopy__(self, memo: object) -> Callable[..., object]:
        return self.function

    def __reduce__(self) -> tuple[Callable[[bytes], object], tuple[bytes]]:
        """What is pickled: the function, by its code where no module has it (notebooks, local functions).

        Raises:
            ModelError: a function that reads what cannot be pickled.
        """
        import cloudpickle

        function = self.function
        try:
            return cloudpickle.loads, (cloudpickle.dumps(function),)
        except Exception as error:  # each type has its own way to say that it cannot be pickled
            name = getattr(function, "__qualname__", repr(function))
            raise ModelError(
                f"The function {name!r} of the program cannot be pickled ({error}). Define it at the top of a module "
                "that can be imported, with no open files or locks among what it reads; or keep the fit by "
                "fit.save(path), and load it by bayesgen.load(path, program=program)."
            ) from error

    @functools.cached_property
    def digests(self) -> dict[str, str]:
        """What the function reads, by name, as digests that are the same in all processes; empty if not known."""
        if self.fingerprint is None:
            return {}
        kind, parts = cast(tuple[str, tuple[Any, ...]], self.fingerprint)
        named = parts if kind == "function" else (("its values", parts),)
        return {name: _digest(part).hex() for name, part in named}

    def check_stable(self, function: Callable[..., object]) -> None:
        """Drop the fingerprint if a first run of the function has changed what it reads."""
        if not self._is_stable and self.fingerprint not in (None, function_fingerprint(function)):
            _contents.pop(self.fingerprint, None)
            _contents[id(function)], self.fingerprint = self, None
        self._is_stable = True


def weakref_safe(function: Callable[..., object]) -> Callable[..., object]:
    """The function itself, or a wrapper where it does not support weak references."""
    try:
        weakref.ref(function)
    except TypeError:
        return functools.update_wrapper(lambda *args, **kwargs: function(*args, **kwargs), function, updated=())
    return function


_contents: weakref.WeakValueDictionary[Hashable, FunctionContent] = weakref.WeakValueDictionary()


class _Walk:
    """One walk through all values that a function reads. A repeated value is coded by its first position."""

    def __init__(self) -> None:
        self.is_known = True
        self._positions: dict[int, tuple[int, object]] = {}  # with the values, so that no other object takes their ids

    def content(self, value: object) -> Hashable:
        """The content of a value, as a key."""
        kind = type(value)
        if kind in _PLAIN:
            return kind, value
        if kind in (float, complex):
            return kind, repr(value)  # -0.0 and 0.0 differ, NaN equals NaN
        if _is_of_library(value):
            return value
        if id(value) in self._positions:
            return "again", self._positions[id(value)][0]
        self._positions[id(value)] = len(self._positions), value
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
        kind: Any = type(value)
        if parts := next((parts for base, parts in _PARTS.items() if isinstance(value, base)), None):
            return self._contents(parts(value))
        if isinstance(value, FunctionContent):  # in the state of a program
            return value.fingerprint or self._unknown()
        if dataclasses.is_dataclass(kind) and _package(kind) == "bayesgen" and kind.__getstate__ is object.__getstate__:
            # what follows from these fields, such as cached properties, depends on what was asked of the object
            return kind, self._named({field.name: getattr(value, field.name) for field in dataclasses.fields(kind)})
        return self._pickled(value)

    def _pickled(self, value: object) -> Hashable:
        """The state of an object: all attributes, or its pickle where these are not all that it holds."""
        bases = type(value).__mro__[:-1]
        users = [base for base in bases if not _is_installed(_package(base))]
        has_attributes_alone = all(base.__flags__ & _MADE_BY_PYTHON for base in bases)
        if isinstance(value, dist.Distribution) or (users and has_attributes_alone):
            return self._attributes(value)
        if any(not _PICKLING.isdisjoint(vars(base)) for base in users):
            return self._unknown()
        try:
            reduced = value.__reduce_ex__(4)
        except Exception:  # each type has its own way to say that it cannot be pickled
            return self._unknown()
        if isinstance(reduced, str):
            return self._unknown()
        state = tuple(self._contents(part or ()) for part in (reduced[:3], *reduced[3:5]))
        return (*state, self._attributes(value)) if users else state

    def _attributes(self, value: object) -> Hashable:
        """The class and the attributes of an object, but for the lazy ones of NumPyro."""
        state: Any = object.__getstate__(value)
        if isinstance(state, dict):
            parts = [part for kind in type(value).__mro__ for part in vars(kind).items()]
            lazy = {name for name, part in parts if isinstance(part, lazy_property)}
            state = {name: part for name, part in state.items() if name not in lazy}
        return self._contents((type(value), state))

    @_parts.register(list)
    @_parts.register(tuple)
    @_parts.register(set)
    @_parts.register(frozenset)
    @_parts.register(dict)
    def _(self, value: Any) -> Hashable:
        if type(value) not in (list, tuple, set, frozenset, dict):
            return self._pickled(value)
        if isinstance(value, dict):
            return self._named(value)
        return self._contents(sorted(value, key=repr) if isinstance(value, set | frozenset) else value)

    @_parts.register
    def _(self, value: np.ndarray) -> Hashable:
        if type(value) is not np.ndarray or value.dtype.hasobject:
            return self._pickled(value)
        return repr(value.dtype), value.shape, hashlib.sha256(value.ravel().view(np.uint8).data).digest()

    @_parts.register
    def _(self, value: jax.Array) -> Hashable:
        if isinstance(value, jax.core.Tracer) or jax.dtypes.issubdtype(value.dtype, jax.dtypes.extended):
            return self._unknown()
        return value.weak_type, self._parts(np.asarray(value))

    @_parts.register
    def _(self, value: types.ModuleType) -> Hashable:
        return self._unknown()  # of which an attribute is read: see `_globals`

    @_parts.register
    def _(self, value: types.CellType) -> Hashable:
        try:
            return self.content(value.cell_contents)
        except ValueError:  # it is empty
            return self._unknown()

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
            for attribute in attributes:
                if not isinstance(value, types.ModuleType) or _is_of_library(value) or attribute not in vars(value):
                    break
                name, value = f"{name}.{attribute}", vars(value)[attribute]
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


def as_text(content: Hashable) -> str:
    """A fingerprint as text that is the same in all processes."""
    if isinstance(content, tuple):
        return repr(tuple(map(as_text, content)))
    if isinstance(content, types.CodeType):
        return f"{content.co_qualname} {content.co_code!r}"
    name = getattr(content, "__qualname__", getattr(content, "__name__", None))
    return repr(content) if name is None else f"{getattr(content, '__module__', '')}.{name}"
