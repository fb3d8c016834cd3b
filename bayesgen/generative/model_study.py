"""Runs a model with `obs=` on its arguments, to see which of them have rows, and along which axis."""

import dataclasses
import functools
import operator
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from numpyro.primitives import Messenger

from bayesgen.describe import quote_some
from bayesgen.errors import ModelError
from bayesgen.program import (
    NUMBERS_OF_A_RUN,
    Arrays,
    Message,
    Trace,
    arbitrary_numbers,
    arbitrary_sites,
    in_plate,
    is_deterministic,
    is_drawn,
    is_factor,
    is_sample,
    is_scanned,
    log_prob,
    sample_sites,
    signature_of,
    with_integer_values,
)
from bayesgen.runtime import Traced, all_sources
from bayesgen.typing import Array

from .model_arguments import Constant, Leaf, Leaves, NumberOfRows, RowsArgument, is_array, put_together, with_columns
from .numpy_reads import TrainingArray

MOST_CHANGED = 32  # rows, one of which is changed at a time


class ModelOutputs(NamedTuple):
    """What a run of the model computes: arrays, or the names of the arguments that each depends on.

    Attributes:
        values: observed site -> its value.
        log_probs: observed site -> log probabilities of its value.
        distributions: parameters of the distributions of all sites, and their scales.
        deterministics: deterministic site -> its value.
    """

    values: dict[str, Any]
    log_probs: dict[str, Any]
    distributions: dict[str, Any]
    deterministics: dict[str, Any]


class Observations(Messenger):
    """Takes note of the values of observed sites, and broadcasts their distributions to these.

    Args:
        are_drawn: whether the sites are drawn then, so that their values do not enter what depends on them.
        plate: of the rows, where the model has none.
        local: the latents of each row.
    """

    def __init__(self, are_drawn: bool = True, plate: numpyro.plate | None = None, local: tuple[str, ...] = ()) -> None:
        super().__init__()
        self.are_drawn, self.plate, self.local = are_drawn, plate, local
        self.values: dict[str, Any] = {}

    def process_message(self, msg: Message) -> None:
        """Note the value of an observed site."""
        if not is_sample(msg) or is_factor(msg):
            return
        if msg["name"] in self.local and self.plate is not None:
            self.plate.process_message(msg)
        if not msg["is_observed"]:
            return
        self.values[msg["name"]] = value = jnp.asarray(msg["value"])
        distribution = msg["fn"]
        batch = jnp.broadcast_shapes(distribution.batch_shape, value.shape[: value.ndim - distribution.event_dim])
        msg["fn"] = distribution.expand(batch)
        if self.plate is not None:
            msg["fn"] = msg["fn"].to_event(len(batch) + self.plate.dim)
            self.plate.process_message(msg)
        if self.are_drawn:
            msg["value"], msg["is_observed"] = None, False  # type: ignore[typeddict-item]


class ModelRun(NamedTuple):
    """A run of the model, traced.

    Attributes:
        trace: its sites.
        observed: the sites that it observes.
        outputs: `ModelOutputs` as a function of standard normal numbers and of arrays.
    """

    trace: Trace
    observed: dict[str, Message]
    outputs: Traced


@dataclasses.dataclass(frozen=True)
class Call:
    """A model, and its arguments with names in place of leaves."""

    model: Callable[..., object]
    template: dict[str, Any]

    def __call__(self, leaves: Leaves) -> object:
        bound = signature_of(self.model).bind_partial()
        bound.arguments.update(put_together(self.template, leaves))
        return self.model(*bound.args, **bound.kwargs)

    def traced(
        self,
        leaves: Leaves,
        arrays: Mapping[str, Any],
        training: Mapping[str, TrainingArray],
        *,
        are_drawn: bool = True,
    ) -> ModelRun:
        """The model run with leaves of which some are arrays that are traced."""
        runs: list[tuple[Trace, Observations]] = []

        def outputs(numbers: Array, arrays: Mapping[str, Array]) -> ModelOutputs:
            shown = {n: training[n].read_as_training(a) if n in training else a for n, a in arrays.items()}
            observations = Observations(are_drawn)

            def model(size: int) -> None:
                with observations:
                    self({**leaves, **shown})

            trace = arbitrary_sites(model, 1, {}, numbers)
            runs.append((trace, observations))
            distributions = {name: jax.tree.leaves((m["fn"], m["scale"])) for name, m in sample_sites(trace).items()}
            log_probs = (
                {} if are_drawn else {name: log_prob(with_integer_values(trace[name])) for name in observations.values}
            )
            deterministics = {name: m["value"] for name, m in trace.items() if is_deterministic(m)}
            return ModelOutputs(dict(observations.values), log_probs, distributions, deterministics)

        numbers = jax.ShapeDtypeStruct((NUMBERS_OF_A_RUN,), jnp.result_type(float))
        traced = Traced.of(outputs, numbers, dict(arrays))
        trace, observations = runs[0]
        return ModelRun(trace, {name: trace[name] for name in observations.values}, traced)


@dataclasses.dataclass(frozen=True)
class RowAxis:
    """The axis of the rows among the batch axes of the observed sites.

    Attributes:
        axis: negative.
        plate: the plate that it belongs to; None where the model has none, and it is the first axis of each site.
    """

    axis: int
    plate: str | None = None

    def size(self, message: Message) -> int:
        """The number of rows of an observed site: the size of their plate, where the model has one."""
        sizes = [frame.size for frame in message["cond_indep_stack"] if frame.name == self.plate]
        return (sizes or message["fn"].batch_shape[self.of(message) :] or (0,))[0]

    def of(self, message: Message) -> int:
        """The axis in the batch shape of a site: without a plate, the first one."""
        return self.axis if self.plate is not None else -len(message["fn"].batch_shape)

    def first(self, message: Message, array: Any, event_dim: int) -> Any:
        """An array of a site's shape with the rows first."""
        return np.moveaxis(np.asarray(array), np.ndim(array) - event_dim + self.of(message), 0)


def _row_axis(observed: Mapping[str, Message], rows: str | None) -> RowAxis:
    """The axis that the observed sites share."""
    stacks = [{frame.name: frame for frame in message["cond_indep_stack"]} for message in observed.values()]
    common = [frame for name, frame in stacks[0].items() if all(name in stack for stack in stacks)]
    plates = sorted({name for stack in stacks for name in stack})
    if rows is not None:
        frames = [frame for frame in common if frame.name == rows]
        if not frames:
            raise ModelError(
                f"rows={rows!r} is no plate that all observed sites, {quote_some(observed)}, stand in; the plates of "
                f"these sites are {plates or 'none'}."
            )
        return RowAxis(frames[0].dim, rows)
    batches = {name: tuple(message["fn"].batch_shape) for name, message in observed.items()}
    leading = {
        name: batch[0]
        for (name, batch), stack in zip(batches.items(), stacks, strict=True)
        if batch and -len(batch) not in {frame.dim for frame in stack.values()}
    }
    if common and not leading:
        return RowAxis(common[-1].dim, common[-1].name)  # NumPyro notes the inner plates first
    if not plates and len(leading) == len(observed) and len(set(leading.values())) == 1:
        return RowAxis(-min(map(len, batches.values())))
    shown = ", ".join(
        f"{name!r} {batches[name]}" + (f" in {[*stack]}" if stack else "")
        for name, stack in zip(observed, stacks, strict=True)
    )
    raise ModelError(
        f"Which axis is that of the rows is not clear: the observed sites have the batch shapes {shown}. Put all of "
        "them into one plate for the rows, and give its name, rows=..., if they share several. A value that is one "
        "event over all rows, a series or a Gaussian process, is one row of a data-free program, "
        "GenerativeProgram(function)."
    )


def _resized(value: Any, axis: int | None, size: int) -> Any:
    """The shape of an array, or a whole number, with another number of rows."""
    if np.ndim(value) == 0:
        return value if axis is None else size
    shape = list(value.shape)
    if axis is not None:
        shape[axis] = size
    return jax.ShapeDtypeStruct(tuple(shape), value.dtype)


class ModelStudy:
    """Which arguments of a model follow its rows: it is run with them, with a row more, and with a row changed."""

    def __init__(self, call: Call, leaves: Leaves, rows: str | None, constants: Collection[str] = ()) -> None:
        self.call, self.arguments, self.constants = call, leaves, constants
        self._check_constants()
        columns, texts = with_columns({name: value for name, value in leaves.items() if name not in constants})
        columns = {name: in_double(value) if is_array(value) else value for name, value in columns.items()}
        self.leaves = {**leaves, **columns}
        self.categories = {name: text.categories for name, text in texts.items()}
        self.trace, self.observed, _ = call.traced(self.leaves, {}, {})
        self._check_observed()
        self.rows = _row_axis(self.observed, rows)
        self.size = self.rows.size(next(iter(self.observed.values())))
        arrays = {name: np.asarray(value) for name, value in columns.items() if is_array(value)}
        self.arrays = {name: array for name, array in arrays.items() if max(array.shape) >= self.size}
        self.training = {name: TrainingArray(value) for name, value in self.arrays.items()}
        self.trace, self.observed, self.outputs = call.traced(self.leaves, self.arrays, self.training)
        self.sources = self.outputs.sources("numbers", {name: name for name in self.arrays})
        self.local: list[str] = []  # latents of the rows
        self.axes, other = self._axes()
        self._check_latents(other)
        self._check_sources()
        self._check_alone()

    def _check_observed(self) -> None:
        if masked := [name for name in self.observed if name.removesuffix("_observed") + "_unobserved" in self.trace]:
            raise ModelError(
                f"The site {masked[0].removesuffix('_observed')!r} has obs_mask=: drop it, and give NaN for the values "
                "that are missing; they are marginalised."
            )
        if not self.observed:
            raise ModelError(
                "No site of the model is observed with these arguments: give the values that obs= takes, or state the "
                "model as a data-free program, GenerativeProgram(function)."
            )

    def _check_constants(self) -> None:
        if unknown := [name for name in self.constants if name not in self.arguments]:
            raise ModelError(
                f"constants= names {unknown[0]!r}, and the arguments of the model are {quote_some(self.arguments)}: "
                "name some of them."
            )

    def _axes(self) -> tuple[dict[str, int | None], Trace]:
        """The axis of the rows of each array, and 0 for each whole number that is their number; and a larger run.

        Whole numbers follow the rows only if the model cannot be run with a row more otherwise, and no more of them
        than have to.
        """
        axes: dict[str, int | None] = {name: self._axis_of(name) for name in self.arrays}
        counting = [name for name, value in self.leaves.items() if self._is_number_of_rows(name, value)]
        larger, problem = self._larger(axes)
        if larger is None and counting:
            axes |= dict.fromkeys(counting, 0)
            larger, problem = self._larger(axes)
            for name in counting if larger is not None and len(counting) > 1 else ():
                fewer, _ = self._larger(axes | {name: None})
                axes, larger = (axes | {name: None}, fewer) if fewer is not None else (axes, larger)
        if larger is not None:
            return axes, larger.trace
        self._check_separate(all_sources(self.sources.values) - {"numbers"})
        following = [name for name, axis in axes.items() if axis is not None]
        raise ModelError(
            f"The model cannot be run with a row more than the {self.size} that it is given{problem}. Let all that "
            "belongs to rows come from its arguments (what NumPy computes of them inside the model stays as it is in "
            "training), and give the plate of the rows, rows=..., if another one is meant."
            f"{self._constants_instead(following)}"
        )

    def _axis_of(self, name: str) -> int | None:
        """The axis of an array's rows: the first that is as long as the data, and along which rows do not mix."""
        array = self.arrays[name]
        axes = [axis for axis, size in enumerate(array.shape) if size == self.size]
        if len(axes) < 2 or name not in all_sources(self.sources.values):
            return axes[0] if axes else None
        values = functools.partial(self.outputs.only(operator.attrgetter("values")), arbitrary_numbers(0))
        before = values(self.arrays)
        after = {axis: values({**self.arrays, name: _changed(array, axis)[0]}) for axis in axes}
        alone = [axis for axis in axes if self._other_rows(self.observed, before, after[axis], are_values=True) is None]
        return (alone or axes)[0]

    def _other_rows(
        self, observed: Mapping[str, Message], before: Arrays, after: Arrays, *, are_values: bool
    ) -> str | None:
        """An observed site whose values, or log probabilities, differ in another row than the first one."""
        for site, message in observed.items():
            event_dim = message["fn"].event_dim if are_values else 0
            first, second = (self.rows.first(message, arrays[site], event_dim)[1:] for arrays in (before, after))
            if not np.allclose(first, second, rtol=1e-9, atol=0.0, equal_nan=True):
                return site
        return None

    def _is_number_of_rows(self, name: str, value: Any) -> bool:
        is_whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
        return is_whole and value == self.size and name not in self.constants

    def _larger(self, axes: Mapping[str, int | None]) -> tuple[ModelRun | None, str]:
        """The model run with a row more; or None, and the error in parentheses if there is one."""
        try:
            larger = self._resized(axes, self.size + 1)
        except (TypeError, ValueError, IndexError, AssertionError, RuntimeError) as error:  # of what the model calls
            return None, f" ({error})"
        sizes = {self.rows.size(message) for message in larger.observed.values()}
        is_larger = sizes == {self.size + 1} and larger.observed.keys() == self.observed.keys()
        return (larger if is_larger else None), ""

    def _constants_instead(self, names: Collection[str]) -> str:
        """A remedy where some of these arguments that follow the rows may be constants of their length."""
        doubtful = sorted(set(names) - all_sources(self.sources.values))
        if not doubtful:
            return ""
        return (
            f" If {' or '.join(map(repr, doubtful))} is as long as the data and yet constant, say so: "
            f"constants=({doubtful[0]!r},)."
        )

    def _resized(self, axes: Mapping[str, int | None], size: int, *, are_drawn: bool = True) -> ModelRun:
        changed = {
            n: _resized(v, axes.get(n), size) for n, v in self.leaves.items() if n not in self.arrays and n in axes
        }
        arrays = {name: _resized(value, axes.get(name), size) for name, value in self.arrays.items()}
        return self.call.traced({**self.leaves, **changed}, arrays, self.training, are_drawn=are_drawn)

    def _check_latents(self, larger: Trace) -> None:
        for name, message in sample_sites(self.trace).items():
            if name in self.observed or name not in larger:
                continue
            if is_factor(message) and message["fn"].batch_shape != larger[name]["fn"].batch_shape:
                raise ModelError(
                    f"The factor {name!r} has a value for each row: sample what it scores at a site with obs=, from a "
                    "distribution with this log density."
                )
            if not is_drawn(message) or jnp.shape(message["value"]) == jnp.shape(larger[name]["value"]):
                continue
            if message["fn"].event_shape != larger[name]["fn"].event_shape:
                raise ModelError(
                    f"The site {name!r} has one value for all rows together, {jnp.shape(message['value'])}: a random "
                    "walk or a Gaussian process over all rows is one row of a data-free program, "
                    "GenerativeProgram(function)."
                )
            if self.rows.plate is not None and not in_plate(message, self.rows.plate):
                entering = all_sources(self.sources.distributions[name])
                raise ModelError(
                    f"The site {name!r} is a latent of each row, and it is not in their plate {self.rows.plate!r}: "
                    f"sample it there.{self._constants_instead(entering & self.following or self.following)}"
                )
            self.local.append(name)

    @property
    def following(self) -> frozenset[str]:
        """The arguments that follow the rows."""
        return frozenset(name for name, axis in self.axes.items() if axis is not None)

    @property
    def feeding(self) -> frozenset[str]:
        """The arrays with rows from which observed values are computed."""
        return all_sources(self.sources.values) & self.following

    @property
    def observed_deterministics(self) -> tuple[str, ...]:
        """The deterministic sites that are computed from observed arguments, which other rows do not have."""
        return tuple(
            name for name, sources in self.sources.deterministics.items() if all_sources(sources) & self.feeding
        )

    def _check_sources(self) -> None:
        for name, sources in self.sources.values.items():
            if not sources & self.feeding:
                raise ModelError(
                    f"The observed value of {name!r} is made of no argument with rows: give it to the model as one, "
                    "and compute with it by jax.numpy."
                )
        self._check_separate(self.feeding)

    def _check_separate(self, feeding: frozenset[str]) -> None:
        """Refuse arguments that give observed values, and enter distributions, too."""
        for site, parts in self.sources.distributions.items():
            shared = sorted(feeding & all_sources(parts))
            if shared and is_scanned(self.trace[site]):
                raise ModelError(
                    f"The site {site!r} is sampled in a scan over the rows, each of which depends on those before it: "
                    "such a series is one row of a data-free program, GenerativeProgram(function)."
                )
            if shared:
                raise ModelError(
                    f"The argument {shared[0]!r} gives an observed value, and it enters the distribution of {site!r}, "
                    "too: compute with the value that numpyro.sample returns, y = numpyro.sample('y', ..., obs=y), or "
                    "pass what enters the distribution as an argument of its own (a covariate). Missing values are "
                    "NaN, and need no mask; a series is one row of a data-free program, GenerativeProgram(function)."
                )

    def _check_alone(self) -> None:
        """Refuse arguments of which a row changes the log probability, or the observed value, of another row."""
        size = min(self.size, MOST_CHANGED)
        if size < 2:
            return
        _, observed, outputs = self._resized(self.axes, size, are_drawn=False)
        few = {  # rows of several arguments, as new rows may have them: an index of its own row is that of another one
            name: _rows(value, self.axes[name], np.roll(np.arange(size), shift))
            for shift, (name, value) in enumerate(self.arrays.items(), 1)
        }
        numbers, feeding = arbitrary_numbers(0), self.feeding
        for name, axis in self.axes.items():
            if name not in few or axis is None:
                continue
            feeds = name in feeding
            results = functools.partial(outputs.only(operator.attrgetter("values" if feeds else "log_probs")), numbers)
            before, *after = (results({**few, name: rows}) for rows in (few[name], *_changed(few[name], axis)))
            sites = [self._other_rows(observed, before, changed, are_values=feeds) for changed in after]
            if mixed := [site for site in sites if site is not None]:
                raise ModelError(
                    f"The model mixes the rows of the argument {name!r}: a change of row 0 changes the site "
                    f"{mixed[0]!r} in other rows, as x - x.mean() does. Compute it before, x - mean, with a mean that "
                    f"stays the same for new rows.{self._constants_instead({name})}"
                )

    def leaf(self, name: str) -> Leaf:
        """An argument as a constant, as the number of rows, or as an array with rows."""
        axis = self.axes.get(name)
        if axis is None:
            return Constant(self.arguments[name])
        if name not in self.arrays:
            return NumberOfRows()
        array = self.arrays[name]
        row_shape, covariate = np.moveaxis(array, axis, 0).shape[1:], None if name in self.feeding else name
        return RowsArgument(
            covariate, axis, row_shape, array.dtype, self.categories.get(name), self.training[name].needed
        )


def in_double(values: np.ndarray) -> np.ndarray:
    """An array of real numbers in float64; others as they are."""
    return values.astype(float) if values.dtype.kind == "f" else values


def _rows(value: np.ndarray, axis: int | None, rows: Any) -> np.ndarray:
    return value if axis is None else np.take(value, rows, axis)


def _changed(value: np.ndarray, axis: int) -> list[np.ndarray]:
    """Arrays with another first row: another row, numbers above all others, and numbers below all others."""
    rows = np.moveaxis(value, axis, 0)
    differing = np.flatnonzero((rows != rows[:1]).reshape(len(rows), -1).any(1))
    is_truth = rows.dtype.kind == "b"
    another = rows[differing[0]] if len(differing) else ~rows[0] if is_truth else rows[0] + 1
    arrays = []
    for first in (another, *(() if is_truth else _beyond(rows))):
        changed = np.array(rows)
        changed[0] = first
        arrays.append(np.moveaxis(changed, 0, axis))
    return arrays


def _beyond(values: np.ndarray) -> tuple[float, float]:
    """A number above all values, and one below."""
    limits: Any = (np.iinfo if values.dtype.kind in "iu" else np.finfo)(values.dtype)
    highest, lowest = np.nanmax(values, initial=0).item(), np.nanmin(values, initial=0).item()
    return min(highest + 1, limits.max), max(lowest - 1, limits.min)
