"""The structure of a program, found by running it: sites, class axes, and that more rows change nothing."""

import enum
import functools
import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal, Var, jaxprs_in_params
from numpyro.distributions.transforms import biject_to
from numpyro.primitives import CondIndepStackFrame

from bayesgen.distributions import SequenceDistribution, innermost, whole_axes
from bayesgen.errors import BayesgenError, DataError, ModelError
from bayesgen.typing import Array, Bool, Float, Shaped

from .arbitrary import arbitrary_numbers, run, run_abstractly
from .conventions import (
    Message,
    Trace,
    check_label,
    check_same_sites,
    check_signature,
    check_sites,
    in_plate,
    is_deterministic,
    is_plate,
    samples,
)
from .evaluation import evaluate
from .recognition import QUICKLY, Probe, check_plan
from .structure import Arrays, Program, Site, Structure, TimeSteps

# Whether a program does the same with other numbers of rows, by its jaxprs.

# operations whose result for a row may depend on its position
_POSITIONAL = {"iota", "sort", "rev", "concatenate", "pad", "slice", "argmax", "argmin", "scan", "while"}
_POSITIONAL_PREFIXES = ("cum", "scatter", "dynamic_", "reduce_window")
_PLAIN = (str, bytes, bool, type(None), np.dtype, enum.Enum)

Sizes = tuple[int, int]  # numbers of rows of two traces


def equal_up_to_size(first: ClosedJaxpr, second: ClosedJaxpr, sizes: Sizes) -> bool:
    """Whether two jaxprs are equal up to the numbers of rows that they were traced at.

    Operations, operands and numbers must be equal; shapes may differ by the numbers of rows. Constants with a row axis
    must be equal in all rows. Equal jaxprs may still treat rows by their position (`jnp.arange(n) > 150`).
    """
    return _same(first, second, sizes)


def _same(first: Any, second: Any, sizes: Sizes) -> bool:
    if type(first) is not type(second):
        return False
    if isinstance(first, ClosedJaxpr):  # in later versions of JAX the one type of jaxprs, its own `jaxpr`
        if len(first.consts) != len(second.consts) or not _same_operations(first.jaxpr, second.jaxpr, sizes):
            return False
        return all(_same_numbers(*pair, sizes) for pair in zip(first.consts, second.consts, strict=True))
    if isinstance(first, Jaxpr):
        return _same_operations(first, second, sizes)
    if isinstance(first, tuple | list):
        return len(first) == len(second) and all(_same(*pair, sizes) for pair in zip(first, second, strict=True))
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(_same(value, second[name], sizes) for name, value in first.items())
    if isinstance(first, int) and not isinstance(first, bool):
        return first == second or (first, second) == sizes
    if isinstance(first, float | complex | np.ndarray | np.generic | jax.Array):
        return _same_numbers(first, second, sizes)
    return not isinstance(first, _PLAIN) or first == second  # others (rules for derivatives) belong to the operation


def _same_operations(first: Jaxpr, second: Jaxpr, sizes: Sizes) -> bool:
    variables: tuple[dict[Var, int], dict[Var, int]] = ({}, {})

    def same_operand(operand: Any, other: Any) -> bool:
        if isinstance(operand, Literal) or isinstance(other, Literal):
            literals = isinstance(operand, Literal) and isinstance(other, Literal)
            return literals and _same_numbers(operand.val, other.val, sizes)
        numbers = [known.setdefault(var, len(known)) for known, var in zip(variables, (operand, other), strict=True)]
        return numbers[0] == numbers[1] and _same(tuple(operand.aval.shape), tuple(other.aval.shape), sizes)

    def same_operands(operands: Sequence[Any], others: Sequence[Any]) -> bool:
        return len(operands) == len(others) and all(map(same_operand, operands, others))

    return (
        len(first.eqns) == len(second.eqns)
        and same_operands([*first.constvars, *first.invars], [*second.constvars, *second.invars])
        and all(
            equation.primitive is other.primitive
            and same_operands(equation.invars, other.invars)
            and same_operands(equation.outvars, other.outvars)
            and _same(dict(equation.params), dict(other.params), sizes)
            for equation, other in zip(first.eqns, second.eqns, strict=True)
        )
        and same_operands(first.outvars, second.outvars)
    )


def _same_numbers(first: Any, second: Any, sizes: Sizes) -> bool:
    first, second = (jax.random.key_data(array) if _is_key(array) else array for array in (first, second))
    first, second = np.asarray(first), np.asarray(second)
    if not _same(first.shape, second.shape, sizes) or first.dtype != second.dtype:
        return False
    row_axes = [axis for axis, pair in enumerate(zip(first.shape, second.shape, strict=True)) if pair == sizes]
    for axis in row_axes:
        first_row, second_row = (np.take(array, [0], axis) for array in (first, second))
        if not ((first == first_row).all() and (second == second_row).all()):
            return False
        first, second = first_row, second_row
    return np.array_equal(first, second, equal_nan=first.dtype.kind == "f")


def depends_on_position(jaxpr: Jaxpr, size: int) -> bool:
    """Whether results of a jaxpr come from operations that depend on positions in arrays of `size` rows."""
    needed = {var for var in jaxpr.outvars if not isinstance(var, Literal)}
    for equation in reversed(jaxpr.eqns):
        if needed.isdisjoint(equation.outvars):
            continue
        name, operands = equation.primitive.name, [var for var in equation.invars if not isinstance(var, Literal)]
        needed.update(operands)
        of_rows = any(size in getattr(var.aval, "shape", ()) for var in (*operands, *equation.outvars))
        if of_rows and (name in _POSITIONAL or name.startswith(_POSITIONAL_PREFIXES)):
            return True
        if any(depends_on_position(inner, size) for inner in jaxprs_in_params(equation.params)):
            return True
    return False


def _is_key(array: Any) -> bool:
    return isinstance(array, jax.Array) and jax.dtypes.issubdtype(array.dtype, jax.dtypes.prng_key)


LARGE_PROBE = (2**20, 2**22)  # rows and numbers of a probe of programs that depend on positions


class RowCheck:
    """A check whether a program does the same with other numbers of rows than its plan was made with."""

    def __init__(self, program: Program) -> None:
        self._probe = Probe.of(program).with_rows()
        self._checked, self._looked_further = {self._probe.size}, False

    @functools.cached_property
    def _jaxpr(self) -> ClosedJaxpr:
        return self._probe.jaxpr()

    def __call__(self, size: int) -> None:
        """Refuse a program whose distributions depend on positions of rows, or change with their number, `size`.

        A program whose trace changes with the size is run at that size, one that depends on positions once with very
        many rows. For all others nothing is compiled.
        """
        if size in self._checked:
            return
        probe = Probe(self._probe.source, size)
        if not equal_up_to_size(probe.jaxpr(), self._jaxpr, (size, self._probe.size)):
            check_plan(probe.within(*LARGE_PROBE))
        if size > self._probe.size and not self._looked_further:
            if depends_on_position(self._jaxpr.jaxpr, self._probe.size):
                check_plan(probe.with_rows(*LARGE_PROBE))
            self._looked_further = True
        self._checked.add(size)


# The class axes of latents, found by changing entries one at a time.


class Change(NamedTuple):
    """Another value at one entry, along one axis, of a latent."""

    name: str
    axis: int
    entry: int


def find_class_axes(program: Program) -> dict[str, int]:
    """Latent or deterministic site -> its class axis, if it has one. Inside float64.

    An axis of a latent is a class axis if its entry k changes the distributions of class k alone (of its attributes, or
    its probability). An axis of a deterministic site is a class axis if such changes of class k change its entry k
    alone.
    """
    changes = _changes(program)
    if not changes or program.num_classes < 2:
        return {}
    moved, deterministics_moved = _effects(program, changes)
    axes = {change.name: change.axis for change in changes if _is_class(moved, changes, {(change.name, change.axis)})}
    of_latents = set(axes.items())
    for name, values_moved in deterministics_moved.items():
        for axis in range(1, values_moved.ndim):
            if values_moved.shape[axis] == program.num_classes and _is_class(
                _any_along([values_moved], axis), changes, of_latents
            ):
                axes.setdefault(name, axis - 1)
    return axes


def _changes(program: Program) -> list[Change]:
    """The changes of every entry along every axis of latents that has length K."""
    shapes = jax.eval_shape(lambda numbers: _arbitrary_values(program, numbers)[0], arbitrary_numbers(0))
    return [
        Change(name, axis, entry)
        for name, leaf in shapes.items()
        for axis, size in enumerate(leaf.shape)
        if size == program.num_classes
        for entry in range(program.num_classes)
    ]


def _effects(
    program: Program, changes: list[Change]
) -> tuple[Bool[np.ndarray, "changes K"], dict[str, Bool[np.ndarray, "changes ..."]]]:
    """Which classes' distributions, and which entries of deterministic sites, differ after each change."""

    def differences(
        numbers: Float[Array, " numbers"], others: Float[Array, " numbers"]
    ) -> tuple[list[Bool[Array, "..."]], dict[str, Bool[Array, "..."]]]:
        latents, rows = _arbitrary_values(program, numbers)
        other_latents, _ = _arbitrary_values(program, others)
        changed = [_changed(latents, other_latents, change) for change in changes]
        stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), latents, *changed)
        # all in one computation, so that what is unchanged is equal to the last bit
        values = jax.vmap(lambda latents: _values_of_classes(program, latents, rows))(stacked)
        return jax.tree.map(lambda leaf: leaf[1:] != leaf[:1], values)

    numbers = arbitrary_numbers(0), arbitrary_numbers(1)
    of_classes, of_deterministics = jax.tree.map(np.asarray, jax.jit(differences, compiler_options=QUICKLY)(*numbers))
    return _any_along(of_classes, -1), of_deterministics


def _arbitrary_values(program: Program, numbers: Float[Array, " numbers"]) -> tuple[dict[str, Array], dict[str, Array]]:
    """Latents, and a row for each class."""
    trace = run(program, program.num_classes, numbers=numbers)
    rows = {name: site.from_site(trace[name]["value"]) for name, site in program.structure.attributes}
    return {name: trace[name]["value"] for name in program.latents}, rows


def _values_of_classes(
    program: Program, latents: Arrays, rows: Arrays
) -> tuple[list[Shaped[Array, "... K"]], dict[str, Array]]:
    """Arrays, classes last, that depend on the classes' distributions, and deterministic values."""
    evaluation = evaluate(program, latents, jnp.arange(program.num_classes), rows)
    log_probs = evaluation.row_log_probs(program.attributes)
    leaves = [] if evaluation.label is None else jax.tree.leaves(evaluation.label["fn"])
    of_label = [leaf for leaf in leaves if jnp.shape(leaf)[-1:] == (program.num_classes,)]
    return [*log_probs.values(), *of_label], evaluation.deterministics


def _changed(latents: Arrays, other_latents: Arrays, change: Change) -> dict[str, Array]:
    """Latents with a change applied."""
    place = (slice(None),) * change.axis + (change.entry,)
    value = jnp.asarray(latents[change.name]).at[place].set(other_latents[change.name][place])
    return {**latents, change.name: value}


def _any_along(arrays: list[Bool[np.ndarray, "changes ..."]], axis: int) -> Bool[np.ndarray, "changes K"]:
    """Whether any array differs, for each change and entry along an axis."""
    flat = [np.moveaxis(array, axis, 1) for array in arrays]
    return np.any([array.reshape(*array.shape[:2], -1).any(-1) for array in flat], axis=0)


def _is_class(moved: Bool[np.ndarray, "changes K"], changes: list[Change], chosen: set[tuple[str, int]]) -> bool:
    """Whether, for every k, the chosen changes of entry k move k and nothing else."""
    entries: set[int] = set()
    for (name, axis, entry), row in zip(changes, moved, strict=True):
        if (name, axis) in chosen:
            if row.sum() > row[entry]:
                return False
            entries |= {entry} if row[entry] else set()
    return len(entries) == moved.shape[1]


TRACED_ROWS = 11


def find_structure(program: Program) -> Structure:
    """The structure of a program; programs that break a convention are refused. Inside float64."""
    check_signature(program.function)
    sizes = _sizes(program)
    first, second = (_sites_at(program, size) for size in sizes)
    check_same_sites(samples(first), samples(second))
    plate = _instance_plate(first, second, sizes)
    check_sites(first, plate.name, program.label)
    if program.label is not None:
        check_label(first, program.label, program.num_classes, plate)
    inside = {name: message for name, message in samples(first).items() if in_plate(message, plate.name)}
    attributes = tuple((name, _site(message, plate.dim)) for name, message in inside.items() if name != program.label)
    for name, site in attributes:
        if site != _site(second[name], plate.dim):
            raise _refusal(program, _of_moving_shape(name, first, second, sizes))
    if not attributes:
        raise ModelError(f"The program has no attribute site in its plate {plate.name!r}: sample at least one there.")
    return Structure(
        plate=plate.name,
        axis=plate.dim,
        label=program.label,
        attributes=attributes,
        latents=tuple(
            (name, _unconstrained_shape(program, message, second[name], plate.name))
            for name, message in samples(first).items()
            if name not in inside and not message["is_observed"]
        ),
        deterministics=tuple(name for name, message in first.items() if _is_of_no_row(message, second, plate.name)),
        covariates=tuple(program.covariate_columns.items()),
    )


def _sizes(program: Program) -> tuple[int, int]:
    """Two numbers of rows, unlike all axes of covariates: the plate with these sizes is that of the rows."""
    axes = {size for column in program.covariate_columns.values() for size in column.row_shape}
    sizes = (size for size in itertools.count(TRACED_ROWS, 2) if size not in axes)
    return next(sizes), next(sizes)


def _sites_at(program: Program, size: int) -> Trace:
    """The sites at a number of rows.

    Raises:
        DataError: covariates that the program cannot be run with.
    """
    try:
        return run_abstractly(program, size)
    except BayesgenError:
        raise
    except (TypeError, ValueError, IndexError) as error:  # of what the program calls
        if not program.covariates:
            raise
        message = f"The program cannot be run with the covariates that it is given ({error})."
        raise _refusal(program, message) from error


def _refusal(program: Program, message: str) -> BayesgenError:
    """The error to raise, which names the covariates' shapes if there are any."""
    columns = program.covariate_columns
    if not columns:
        return ModelError(message)
    shown = ", ".join(f"{name} {column}" for name, column in columns.items())
    supposed = ", as is supposed of them before data are seen" if program.known_covariates is None else ""
    return DataError(
        f"{message} Its covariates are {shown}{supposed}. Give them in the shapes and dtypes that the program computes "
        "with, (n,) for one number a row (values[:, 0], say), a mapping of arrays for others, whole numbers for an "
        "index; or state a program that takes these."
    )


def _of_moving_shape(name: str, first: Trace, second: Trace, sizes: tuple[int, int]) -> str:
    shapes = [trace[name]["fn"].shape() for trace in (first, second)]
    return (
        f"The attribute {name!r} has the shape {shapes[0]} at {sizes[0]} rows and {shapes[1]} at {sizes[1]}, where the "
        "rows have to be one axis alone."
    )


def continuous_label(program: Program, label: str, stated: bool | None) -> str | None:
    """The label site where it is continuous, or None where it is one of classes.

    Raises:
        ModelError: a site that is not what was stated of it, or not one number a row.
    """
    check_signature(program.function)
    with jax.enable_x64(True):
        message = samples(_sites_at(program, _sizes(program)[0])).get(label)
        if message is None or message["support"].is_discrete:
            if stated:
                found = "has no such site" if message is None else f"samples it from {_kind(message)}, of whole numbers"
                raise ModelError(
                    f"continuous=True says that the label {label!r} is continuous, and the program {found}."
                )
            return None
        if stated is False:
            raise ModelError(
                f"continuous=False says that the label {label!r} is one of classes, and the program samples it from "
                f"{_kind(message)}."
            )
        site = find_structure(program).attribute.get(label)
    if site is None or site.row_shape:
        raise ModelError(
            f"The continuous label {label!r} has to be one number for each row: sample it in the plate of the rows "
            "alone, and without to_event."
        )
    return label


def _kind(message: Message) -> str:
    return type(innermost(message["fn"])).__name__


def _instance_plate(first: Trace, second: Trace, sizes: tuple[int, int]) -> CondIndepStackFrame:
    """The plate whose size is the number of rows."""
    pairs = zip(first.items(), second.values(), strict=False)
    of_rows = {
        name
        for (name, message), other in pairs
        if is_plate(message) and (message["args"][0], other["args"][0]) == sizes
    }
    if len(of_rows) != 1:
        plates = [name for name, message in first.items() if is_plate(message)]
        raise ModelError(
            f"A program needs exactly one plate whose size is n, found {sorted(of_rows) or 'none'} among the plates "
            f"{plates}. Write: with numpyro.plate('instances', n): ..."
        )
    name = of_rows.pop()
    for message in first.values():
        for frame in message.get("cond_indep_stack", ()):
            if frame.name == name:
                return frame
    raise ModelError(f"The plate {name!r} holds no site: put the label and the attributes into it.")


def _is_of_no_row(message: Message, other: Trace, plate: str) -> bool:
    """Whether a site is deterministic and has no entries for rows."""
    if not is_deterministic(message) or in_plate(message, plate):
        return False
    return jnp.shape(message["value"]) == jnp.shape(other[message["name"]]["value"])


def _site(message: Message, axis: int) -> Site:
    """The shape of an attribute site."""
    distribution = message["fn"]
    batch = list(distribution.batch_shape)
    if len(batch) < -axis:
        raise ModelError(f"The attribute {message['name']!r} does not reach the axis {axis} of the instance plate.")
    batch[len(batch) + axis] = 0
    discrete, leaf = bool(message["support"].is_discrete), innermost(distribution)
    steps = None
    if isinstance(leaf, SequenceDistribution):
        num_axes = len(distribution.shape()) - len(leaf.event_shape)
        steps = TimeSteps(leaf.most_steps, leaf.of_symbols, leaf.symbols, are_several=num_axes > 1)
    return Site(tuple(batch), tuple(distribution.event_shape), axis, discrete, whole_axes(distribution), steps)


def _unconstrained_shape(program: Program, message: Message, at_other_size: Message, plate: str) -> tuple[int, ...]:
    """The shape of the unconstrained value of a latent site, the same at every number of rows."""
    shape, other_shape = jnp.shape(message["value"]), jnp.shape(at_other_size["value"])
    if shape != other_shape:
        raise _refusal(
            program,
            f"The latent site {message['name']!r} has the shape {shape}, and {other_shape} where there are more rows: "
            "a latent for each row is not supported. Sum it out, or, if it is an attribute, sample it in the plate "
            f"{plate!r}.",
        )
    return tuple(biject_to(message["support"]).inverse_shape(tuple(shape)))
