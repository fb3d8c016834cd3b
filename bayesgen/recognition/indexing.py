"""Indexes that a program computes from covariates, checked to be inside the arrays that they index.

JAX clips an index that is too large, and counts from the end where it is negative. So indexes are found in the jaxpr
of a program, and those that depend on covariates alone are evaluated for each row. A program may mask entries, as by
`jnp.where(valid, table[index], 0.0)`: indexes of masked entries are not checked.
"""

import dataclasses
import functools
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias, final

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import JaxprEqn

from bayesgen.errors import DataError
from bayesgen.program import Arrays
from bayesgen.runtime import (
    CACHE_ROWS,
    Interpreter,
    Traced,
    Variable,
    bound_results,
    in_float64,
    inner_jaxprs,
    over_chunks,
)
from bayesgen.typing import Array, Int

from .traces import Traces, shaped

_REARRANGING = ("broadcast_in_dim", "reshape", "squeeze", "transpose", "slice")


@dataclasses.dataclass(frozen=True)
class Index:
    """An index into an axis that is a function of a row's covariates alone.

    Attributes:
        covariates: names of these covariates.
        size: the number of entries along the axis.
    """

    covariates: tuple[str, ...]
    size: int


class CovariateIndexes:
    """The indexes of a program that depend on covariates. Inside float64.

    Attributes:
        checked: indexes that are functions of a row's covariates alone.
        unchecked: names of the integer covariates that enter indexes together with attributes, latents or the counter
            of a loop.
    """

    def __init__(self, traces: Traces) -> None:
        self._traces, self._columns = traces, dict(traces.program.structure.covariates)
        readers: list[_IndexReader] = []
        jax.eval_shape(lambda covariates: readers.append(self._read(covariates)), self._shapes(traces.classes.size))
        self.checked = tuple(index for index, _ in readers[0].used.values())
        self.unchecked = sorted(name for name in readers[0].unchecked if self._columns[name].dtype.kind in "iu")

    @in_float64
    def check(self, covariates: Arrays) -> None:
        """Refuse covariates that make an index lie outside its axis.

        Raises:
            DataError: naming the covariates and the first such row.
        """
        num_rows = min(map(len, covariates.values()), default=0)
        if not num_rows or not self.checked:
            return
        entries = over_chunks(self._entries, covariates, num_rows, CACHE_ROWS, least=CACHE_ROWS)
        for index, (lowest, highest) in zip(self.checked, entries, strict=True):
            wrong = (lowest < 0) | (highest >= index.size)
            if wrong.any():
                row = int(np.argmax(wrong))
                entry = lowest[row] if lowest[row] < 0 else highest[row]
                values = " and ".join(f"{name!r} has {covariates[name][row]}" for name in index.covariates)
                raise DataError(
                    f"Covariate {values} in row {row}, of which the program makes the index {entry} along an axis of "
                    f"{index.size} entries, 0 to {index.size - 1}; {int(wrong.sum())} rows are such. Code what it "
                    "stands for by 0, 1, 2 and so on, all of it in training and nothing else later, or give the "
                    "program more entries. Where a value is meant to have no entry, write jnp.where(valid, "
                    "table[index], 0.0)."
                )

    @functools.cached_property
    def _entries(self) -> Traced:
        """The lowest and the highest value of each index in each row."""

        def lowest_and_highest(row: Arrays) -> list[tuple[Int[Array, ""], Int[Array, ""]]]:
            num_classes = self._traces.classes.size
            rows = {name: jnp.broadcast_to(value, (num_classes, *value.shape)) for name, value in row.items()}
            return [(entries.min(), entries.max()) for _, entries in self._read(rows).used.values()]

        return Traced.of(jax.vmap(lowest_and_highest), self._shapes(CACHE_ROWS))

    def _shapes(self, size: int) -> dict[str, jax.ShapeDtypeStruct]:
        return {name: jax.ShapeDtypeStruct((size, *c.row_shape), c.dtype) for name, c in self._columns.items()}

    def _read(self, covariates: Arrays) -> "_IndexReader":
        """The indexes of the program at its classes, with covariates of one row a class."""
        function = self._traces.classes.function.only(operator.attrgetter("distributions"))
        jaxpr, names = function.jaxpr.jaxpr, sorted(covariates)  # the order of JAX's leaves
        codes = _IndexTerm(np.arange(self._traces.classes.size))
        columns = [
            _IndexTerm(covariates[name], covariates=frozenset({name}), ranging=frozenset({name})) for name in names
        ]
        unknown = [_IndexTerm(None)] * (len(jaxpr.invars) - 1 - len(columns))
        reader = _IndexReader()
        arguments = [*unknown, codes, *columns]
        reader.use(reader.read(jaxpr, function.jaxpr.consts, arguments, function.variables))
        return reader


_Lookup: TypeAlias = tuple[Index, Any]
"""An index that depends on covariates alone, and its value for each number that is looked up."""


@dataclasses.dataclass(frozen=True, eq=False)
class _IndexTerm:
    """A variable of a jaxpr.

    Attributes:
        value: its value; None where it depends on more than covariates.
        covariates: names of the covariates that it depends on, if `value` is known.
        ranging: names of the covariates that its size may depend on: none for truth values.
        operation: name of the operation that made it, or "".
        operands: of this operation.
        lookups: whose entries it holds.
    """

    value: Any
    covariates: frozenset[str] = frozenset()
    ranging: frozenset[str] = frozenset()
    operation: str = ""
    operands: Sequence["_IndexTerm"] = ()
    lookups: tuple[_Lookup, ...] = ()


@final
class _IndexReader(Interpreter[_IndexTerm]):
    """Reads jaxprs, operation by operation.

    Attributes:
        used: the lookups whose entries are used, each once.
        unchecked: names of the covariates that enter indexes together with latents, attributes or loops.
    """

    def __init__(self) -> None:
        self.used: dict[int, _Lookup] = {}
        self.unchecked: set[str] = set()

    def constant(self, value: Any, variable: Variable) -> _IndexTerm:
        return _IndexTerm(value)

    def results(self, equation: JaxprEqn, operands: Sequence[_IndexTerm]) -> list[_IndexTerm]:
        if inner_jaxprs(equation):
            return self._read_within(equation, operands)
        lookups = (*self._looked_up(equation, operands), *self._maskable(equation, operands))
        return _results(equation, operands, lookups)

    def use(self, terms: Iterable[_IndexTerm]) -> None:
        """Note that the entries of lookups are used."""
        self.used |= {id(lookup): lookup for term in terms for lookup in term.lookups}

    def _read_within(self, equation: JaxprEqn, operands: Sequence[_IndexTerm]) -> list[_IndexTerm]:
        """Read a loop or branches, whose values are unknown."""
        name, everything = equation.primitive.name, _unknown(operands)
        self.use(operands)
        if name == "scan":
            return self._read_scan(equation.params, operands)
        for jaxpr in inner_jaxprs(equation) if name in ("cond", "while") else ():
            inputs = [_unknown([operand]) for operand in operands[1:]]
            arguments = inputs if name == "cond" else [everything] * len(jaxpr.invars)
            self.read(jaxpr, [None] * len(jaxpr.constvars), arguments)
        return [everything] * len(equation.outvars)

    def _read_scan(self, parameters: Mapping[str, Any], operands: Sequence[_IndexTerm]) -> list[_IndexTerm]:
        """Read a scan, again until no more covariates enter what it carries."""
        body, (start, count) = parameters["jaxpr"], _sizes_of_scan(parameters)
        constants, inputs = operands[:start], [_unknown([operand]) for operand in operands[start:]]
        while True:
            results = _IndexReader().read(body.jaxpr, body.consts, [*constants, *inputs])
            after = [_unknown(pair) for pair in zip(inputs[:count], results[:count], strict=True)]
            if all(a.ranging == b.ranging for a, b in zip(after, inputs[:count], strict=True)):
                results = self.read(body.jaxpr, body.consts, [*constants, *inputs])
                self.use(results)
                return [_unknown([result]) for result in results]
            inputs[:count] = after

    def _looked_up(self, equation: JaxprEqn, operands: Sequence[_IndexTerm]) -> list[_Lookup]:
        """The lookups of a gather or a slice, axis by axis."""
        name, parameters, result = equation.primitive.name, equation.params, shaped(equation.outvars[0])
        if name == "gather" and not _fills(equation):
            numbers = parameters["dimension_numbers"]
            axes, dims = numbers.start_index_map, [at for at in range(result.ndim) if at not in numbers.offset_dims]
            indexes = _by_axis(operands[1], len(axes))
        elif name == "dynamic_slice":
            axes, dims, indexes = range(result.ndim), [], list(operands[1:])
        else:
            return []
        self.unchecked.update(*(term.ranging for term in indexes if term.value is None))
        sizes = [shaped(equation.invars[0]).shape[axis] - parameters["slice_sizes"][axis] + 1 for axis in axes]
        return [
            (Index(tuple(sorted(term.covariates)), size), jax.lax.broadcast_in_dim(term.value, result.shape, dims))
            for term, size in zip(indexes, sizes, strict=True)
            if term.value is not None and term.covariates
        ]

    def _maskable(self, equation: JaxprEqn, operands: Sequence[_IndexTerm]) -> list[_Lookup]:
        """The lookups of operands whose entries may still be masked; those of other operands are noted as used."""
        name = equation.primitive.name
        if name == "select_n":
            which, *cases = operands
            self.use([which])
            return [lookup for case, term in enumerate(cases) for lookup in _chosen(which, case, term.lookups)]
        if name == "convert_element_type":
            return list(operands[0].lookups)
        if name in _REARRANGING:
            rearranged = functools.partial(equation.primitive.bind, **equation.params)
            return [(index, rearranged(entries)) for index, entries in operands[0].lookups]
        self.use(operands)
        return []


def _sizes_of_scan(parameters: Mapping[str, Any]) -> tuple[int, int]:
    """How many constants a scan has, and how many arrays it carries from iteration to iteration."""
    if "num_consts" in parameters:
        return parameters["num_consts"], parameters["num_carry"]
    constants, carried, _ = parameters["ft_in"].unpack()  # from JAX 0.12 on
    return len(constants.vals), len(carried.vals)


def _unknown(terms: Iterable[_IndexTerm]) -> _IndexTerm:
    """A term of unknown value that depends on these."""
    return _IndexTerm(None, ranging=frozenset().union(*(term.ranging for term in terms)))


def _fills(equation: JaxprEqn) -> bool:
    """Whether a gather has a fill value of the user's for indexes outside, and not JAX's NaN."""
    fill = equation.params["fill_value"]
    if fill is None or equation.params["mode"] != jax.lax.GatherScatterMode.FILL_OR_DROP:
        return False
    with jax.ensure_compile_time_eval():
        default = jnp.take(jnp.zeros(1, shaped(equation.invars[0]).dtype), 1)
        return not np.array_equal(fill, default, equal_nan=True)


def _chosen(which: _IndexTerm, case: int, lookups: Iterable[_Lookup]) -> list[_Lookup]:
    """The lookups of one case of a `select`, with the index 0 where another case is selected.

    A condition of unknown value that depends on covariates is trusted to mask what is outside.
    """
    if which.value is None:
        return [] if which.covariates else list(lookups)
    return [(index, jnp.where(which.value == case, entries, 0)) for index, entries in lookups]


def _by_axis(indexes: _IndexTerm, num_axes: int) -> list[_IndexTerm]:
    """The indexes of a gather along each of its axes."""
    is_joined = indexes.operation == "concatenate" and len(indexes.operands) == num_axes
    parts = [(term, 0) for term in indexes.operands] if is_joined else [(indexes, axis) for axis in range(num_axes)]
    return [t if t.value is None else dataclasses.replace(t, value=t.value[..., axis]) for t, axis in parts]


def _results(equation: JaxprEqn, operands: Sequence[_IndexTerm], lookups: tuple[_Lookup, ...]) -> list[_IndexTerm]:
    """The results of an operation."""
    name = equation.primitive.name
    if name == "select_n" and _counts_from_the_end(operands):
        return [operands[1]]  # a negative index, which is checked as it is
    covariates = frozenset().union(*(operand.covariates for operand in operands))
    is_truth = all(shaped(result).dtype == bool for result in equation.outvars)
    ranging = frozenset() if is_truth else _unknown(operands).ranging
    values: Sequence[Any] = [None] * len(equation.outvars)
    if all(operand.value is not None for operand in operands):
        values = bound_results(equation, list(map(_value_of(equation), operands)))
    return [_IndexTerm(value, covariates, ranging, name, operands, lookups) for value in values]


def _value_of(equation: JaxprEqn) -> Callable[[_IndexTerm], Any]:
    """The function operand -> value. Whole numbers outside a narrower dtype are clipped, and do not become others."""
    dtype = shaped(equation.outvars[0]).dtype
    if equation.primitive.name != "convert_element_type" or dtype.kind not in "iu":
        return lambda operand: operand.value
    return lambda operand: _clipped(operand.value, np.iinfo(dtype))


def _clipped(value: Array, limits: np.iinfo) -> Array:
    """Numbers with those outside limits at these."""
    if jnp.issubdtype(value.dtype, jnp.integer):
        dtype = np.iinfo(value.dtype)
        return jnp.clip(value, max(dtype.min, limits.min), min(dtype.max, limits.max))
    return value if value.dtype == bool else jnp.clip(value, limits.min, limits.max)


def _counts_from_the_end(operands: Sequence[_IndexTerm]) -> bool:
    """Whether a `select` is the one by which JAX adds the size of an axis to negative indexes."""
    if len(operands) != 3:
        return False
    which, index, added = operands
    negative = which.operation == "lt" and which.operands[0] is index
    return negative and added.operation == "add" and added.operands[0] is index
