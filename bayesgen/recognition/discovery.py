"""The structure of a program, found by running it at two numbers of rows; what breaks a convention is refused."""

import contextlib
import dataclasses
import itertools
from collections.abc import Callable, Collection

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from numpyro.distributions import constraints
from numpyro.distributions.constraints import Constraint
from numpyro.distributions.transforms import biject_to
from numpyro.primitives import CondIndepStackFrame

from bayesgen.describe import quote_some
from bayesgen.errors import BayesgenError, DataError, ModelError
from bayesgen.program import (
    Arrays,
    FiniteSite,
    Message,
    Program,
    Site,
    Structure,
    TimeSteps,
    Trace,
    arguments_of,
    base_support,
    check_same_sites,
    counts_partly,
    in_plate,
    is_deterministic,
    is_factor,
    is_plate,
    run_abstractly,
    sample_sites,
    sites_of,
)
from bayesgen.runtime import Traced, in_float64
from bayesgen.statistics import SequenceDistribution, event_axes, innermost

CLASS_DISTRIBUTIONS = dist.BernoulliProbs, dist.BernoulliLogits, dist.CategoricalProbs, dist.CategoricalLogits
DATA_NAMES = ("x", "xs", "y", "ys", "data", "obs", "labels")  # of arguments of functions that are given data
MOST_JOINT_VALUES = 256  # of the local latents of a row, at each of which the program is evaluated
RUN_ERRORS = TypeError, ValueError, IndexError, OverflowError  # of what a program calls
MOST_FINITE = 1_000_000  # joint values of the discrete latents that all rows share


@dataclasses.dataclass(frozen=True)
class Discovery:
    """The sites of a program that was run at two numbers of rows.

    Attributes:
        structure: its sites.
        supports: site -> support of one entry of an event, with NaN for bounds that depend on other sites.
        values: the program run freely, see `run_abstractly`.
        num_rows: the number of rows of these values.
    """

    structure: Structure
    supports: dict[str, Constraint]
    values: Traced
    num_rows: int


def discover(program: Program) -> Discovery:
    """The structure of a program; programs that break a convention are refused. Inside float64."""
    check_signature(program.function)
    sizes = _sizes(program)
    (first, values), (second, _) = (_run(program, size) for size in sizes)
    check_same_sites(sample_sites(first), sample_sites(second))
    plate = _instance_plate(first, second, sizes)
    check_sites(first, plate.name, program.label)
    if program.label is not None:
        check_label(first, program.label, program.num_classes, plate)
    structure = _structure(program, first, second, sizes, plate)
    check_finite(structure)
    supports = {name: _untraced(base_support(message["support"])) for name, message in sample_sites(first).items()}
    return Discovery(structure, supports, values, sizes[0])


def _structure(
    program: Program, first: Trace, second: Trace, sizes: tuple[int, int], plate: CondIndepStackFrame
) -> Structure:
    """The sites of a program, from its traces at two numbers of rows."""
    inside = {name: message for name, message in sample_sites(first).items() if in_plate(message, plate.name)}
    check_local(inside, program.local, program.label, plate.name)
    row_sites = {name: _site(message, plate.dim) for name, message in inside.items() if name != program.label}
    for name, site in row_sites.items():
        if site != _site(second[name], plate.dim):
            shapes = [trace[name]["fn"].shape() for trace in (first, second)]
            raise _refusal(
                program,
                f"The attribute {name!r} has the shape {shapes[0]} at {sizes[0]} rows and {shapes[1]} at {sizes[1]}, "
                "where the rows have to be one axis alone.",
            )
    attributes = tuple((name, site) for name, site in row_sites.items() if name not in program.local)
    if not attributes and (program.label is None or not program.covariates):
        raise ModelError(
            f"The program has no attribute site in its plate {plate.name!r}: sample at least one there, or let the "
            "label depend on covariates."
        )
    row_axes = {
        name: _row_axes(message, second)
        for name, message in first.items()
        if is_deterministic(message) and name not in program.observed_deterministics
    }
    shared = [
        (name, message, _shared_shape(program, message, second[name], plate.name))
        for name, message in sample_sites(first).items()
        if name not in inside and not message["is_observed"]
    ]
    return Structure(
        plate=plate.name,
        axis=plate.dim,
        label=program.label,
        attributes=attributes,
        latents=tuple(
            (name, _free_shape(message, shape)) for name, message, shape in shared if not message["support"].is_discrete
        ),
        deterministics=tuple(name for name, axes in row_axes.items() if axes == []),
        covariates=tuple(program.covariate_columns.items()),
        local=tuple((name, _local(row_sites[name], inside[name])) for name in program.local),
        counts_partly=any(map(counts_partly, inside.values())),
        row_deterministics=tuple((name, axes[0]) for name, axes in row_axes.items() if axes and len(axes) == 1),
        finite=tuple(
            FiniteSite(name, shape, _values(message))
            for name, message, shape in shared
            if message["support"].is_discrete
        ),
    )


def _untraced(support: Constraint) -> Constraint:
    if not any(isinstance(bound, jax.core.Tracer) for bound in jax.tree.leaves(support)):
        return support
    return jax.tree.map(lambda bound: float("nan") if isinstance(bound, jax.core.Tracer) else bound, support)


def _sizes(program: Program) -> tuple[int, int]:
    """Two numbers of rows, unlike all axes of covariates: the plate with these sizes is that of the rows."""
    axes = {size for column in program.covariate_columns.values() for size in column.row_shape}
    sizes = (size for size in itertools.count(11, 2) if size not in axes)
    return next(sizes), next(sizes)


@in_float64
def latents_before_failure(program: Program) -> list[str]:
    """The latents of a program that cannot be run with its covariates, as far as it comes."""
    names: list[str] = []
    size, _ = _sizes(program)

    def note(message: Message) -> None:
        if all(frame.size != size for frame in message["cond_indep_stack"]):
            names.append(message["name"])

    def run(covariates: Arrays) -> None:
        sites_of(program.function_as_made, size, covariates, jax.random.key(0), note)

    columns = program.covariate_columns
    with contextlib.suppress(*RUN_ERRORS):
        jax.eval_shape(run, {n: jax.ShapeDtypeStruct((size, *c.row_shape), c.dtype) for n, c in columns.items()})
    return names


def _run(program: Program, size: int) -> tuple[Trace, Traced]:
    """The sites at a number of rows, and the program run freely.

    Raises:
        DataError: covariates that the program cannot be run with.
    """
    try:
        return run_abstractly(program, size)
    except BayesgenError:
        raise
    except RUN_ERRORS as error:
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


@in_float64
def continuous_label(program: Program, label: str, stated: bool | None) -> str | None:
    """The label site where its values are real numbers, or counts, or None where they are classes.

    Raises:
        ModelError: a site that is not what was stated of it, or not one number a row.
    """
    check_signature(program.function)
    message = sample_sites(_run(program, _sizes(program)[0])[0]).get(label)
    if message is None or (message["support"].is_discrete and (stated is not None or is_of_classes(message))):
        if stated:
            in_program = (
                "has no such site" if message is None else f"samples it from {_kind(message)}, of whole numbers"
            )
            raise ModelError(
                f"continuous=True says that the label {label!r} is continuous, and the program {in_program}."
            )
        return None
    if stated is False:
        raise ModelError(
            f"continuous=False says that the label {label!r} is one of classes, and the program samples it from "
            f"{_kind(message)}."
        )
    site = program.structure.attribute.get(label)
    if site is None or site.row_shape:
        raise ModelError(
            f"The label {label!r} without classes has to be one number for each row: sample it in the plate of the "
            "rows alone, and without to_event."
        )
    return label


def _kind(message: Message) -> str:
    return type(innermost(message["fn"])).__name__


def _instance_plate(first: Trace, second: Trace, sizes: tuple[int, int]) -> CondIndepStackFrame:
    """The plate whose size is the number of rows."""
    pairs = zip(first.items(), second.values(), strict=False)
    names = {
        name
        for (name, message), other in pairs
        if is_plate(message) and (message["args"][0], other["args"][0]) == sizes
    }
    if len(names) != 1:
        plates = [name for name, message in first.items() if is_plate(message)]
        raise ModelError(
            f"A program needs exactly one plate whose size is n, found {sorted(names) or 'none'} among the plates "
            f"{plates}. Write: with numpyro.plate('instances', n): ..."
        )
    frames = [
        frame for message in first.values() for frame in message.get("cond_indep_stack", ()) if frame.name in names
    ]
    if not frames:
        raise ModelError(f"The plate {min(names)!r} holds no site: put the label and the attributes into it.")
    return frames[0]


def _row_axes(message: Message, at_other_size: Trace) -> list[int] | None:
    """The axes of a deterministic site that follow the number of rows; None where the site has others there."""
    shapes = [jnp.shape(site["value"]) for site in (message, at_other_size[message["name"]])]
    if len(shapes[0]) != len(shapes[1]):
        return None
    return [axis for axis, sizes in enumerate(zip(*shapes, strict=True)) if sizes[0] != sizes[1]]


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
    return Site(tuple(batch), tuple(distribution.event_shape), axis, discrete, event_axes(distribution), steps)


def _local(site: Site, message: Message) -> Site:
    """The shape of a local latent, and its values, or the shape of its unconstrained value."""
    if not site.discrete:
        shape = _free_shape(message, tuple(message["fn"].shape()))
        return dataclasses.replace(site, free_event=shape[len(site.batch_shape) :])
    return dataclasses.replace(site, values=_values(message))


def _values(message: Message) -> range:
    """The values of a discrete latent."""
    bounds = value_range(message["support"])
    assert bounds is not None, "checked by `check_local` and `check_sites`"
    return range(bounds[0], bounds[1] + 1)


def _shared_shape(program: Program, message: Message, at_other_size: Message, plate: str) -> tuple[int, ...]:
    """The shape of a latent site, the same at every number of rows."""
    shape, other_shape = jnp.shape(message["value"]), jnp.shape(at_other_size["value"])
    if shape != other_shape:
        raise _refusal(
            program,
            f"The latent site {message['name']!r} has the shape {shape}, and {other_shape} where there are more rows: "
            f"a latent or an attribute of each row is sampled in the plate {plate!r}, and local=(...) names latents.",
        )
    return tuple(shape)


def _free_shape(message: Message, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of the unconstrained value of a latent with this shape."""
    try:
        return tuple(biject_to(message["support"]).inverse_shape(shape))
    except NotImplementedError:
        raise ModelError(
            f"The latent site {message['name']!r} is {_kind(message)}, whose support {message['support']} NumPyro maps "
            "to no real numbers: sample real numbers and compute the value of them, as a handler of "
            "numpyro.infer.reparam does."
        ) from None


# --- conventions: what breaks one is refused, with the remedy ------------------------------------------------------


def is_of_classes(message: Message) -> bool:
    """Whether the values of a sample site are classes; other whole numbers are counts."""
    return isinstance(innermost(message["fn"]), CLASS_DISTRIBUTIONS)


def check_signature(function: Callable[..., object]) -> None:
    """Refuse functions that take data, (X, y=None), and not a number of rows."""
    if hasattr(function, "covariates"):
        return
    arguments = arguments_of(function)
    positional = [a for a in arguments if a.kind in (a.POSITIONAL_ONLY, a.POSITIONAL_OR_KEYWORD)]
    required = [argument for argument in positional if argument.default is argument.empty]
    if len(required) > 1 or any(argument.name.lower() in DATA_NAMES for argument in positional):
        raise ModelError(
            f"A program takes the number of rows n and makes the rows itself; this function takes "
            f"({', '.join(map(str, arguments))}), as one that is given data does. Write def program(n), sample the "
            "label and every attribute in numpyro.plate('instances', n) without obs=, and pass what a row knows but "
            "the program does not model as a keyword-only argument (a covariate)."
        )


def check_sites(trace: Trace, plate: str, label: str | None) -> None:
    """Refuse sites that a generative program cannot have."""
    for message in sample_sites(trace).values():
        name, inside = message["name"], in_plate(message, plate)
        if isinstance(innermost(message["fn"]), dist.Delta):
            raise ModelError(
                f"The site {name!r} is Delta: it has one possible value, and no density to learn from. Compute the "
                "value without sampling it, or record it by numpyro.deterministic."
            )
        if message["is_observed"] and not (is_factor(message) and not inside):
            raise ModelError(
                f"The site {name!r} is observed: a program generates data and takes none. Drop obs= (and factors in "
                f"the plate {plate!r}); bayesgen conditions on the data itself."
            )
        is_latent = not inside and name != label and not is_factor(message)
        if is_latent and message["support"].is_discrete and value_range(message["support"]) is None:
            raise ModelError(
                f"The discrete latent {name!r} is {_kind(message)}, whose values are not whole numbers of a known "
                "range, so they cannot be summed out. Use Categorical, Bernoulli or DiscreteUniform, whose bounds are "
                "numbers, or sum it out in the program; a latent of each row is sampled in the plate "
                f"{plate!r} and named there, local=(...)."
            )


def check_finite(structure: Structure) -> None:
    """Refuse discrete latents of more joint values than are summed, and shared ones beside continuous ones of rows."""
    names = quote_some([site.name for site in structure.finite])
    if structure.num_finite > MOST_FINITE:
        raise ModelError(
            f"The discrete latents {names}, which all rows share, have {structure.num_finite:,} joint values, and up "
            f"to {MOST_FINITE:,} are enumerated. Sum some of them out in the program, or let them have fewer values."
        )
    if structure.finite and structure.continuous_local:
        raise ModelError(
            f"The program has discrete latents that all rows share, {names}, and continuous latents of each row, "
            f"{quote_some([name for name, _ in structure.continuous_local])}: sum the former out in the program, or "
            "integrate out the latter."
        )
    if structure.num_joint_values > MOST_JOINT_VALUES:
        raise ModelError(
            f"The local latents {quote_some([*structure.joint_values()])} have {structure.num_joint_values:,} joint "
            f"values in a row, and up to {MOST_JOINT_VALUES} are summed out. Sum some of them out in the program."
        )


def check_label(trace: Trace, label: str, num_classes: int, plate: CondIndepStackFrame) -> None:
    """Refuse a label site that does not exist, or whose values are not the codes 0 to K - 1, one for each row."""
    inside = [name for name, message in sample_sites(trace).items() if in_plate(message, plate.name)]
    if label not in inside and label in trace:
        raise ModelError(f"The label site {label!r} is not in the plate {plate.name!r}: sample it there.")
    if label not in inside:
        raise ModelError(
            f"The program has no label site {label!r} in its plate {plate.name!r}, only {inside}. Name it, or pass "
            "label=..."
        )
    distribution = trace[label]["fn"]
    other_axes = list(distribution.batch_shape)
    if len(other_axes) >= -plate.dim:
        del other_axes[plate.dim]
    if distribution.event_shape or any(size != 1 for size in other_axes):
        raise ModelError(
            f"The label site {label!r} has the shape {distribution.shape()}, more than one number a row: sample it in "
            f"the plate {plate.name!r} alone, outside of any other plate and without to_event."
        )
    values = value_range(trace[label]["support"])
    if values != (0, num_classes - 1):
        bounds = f"{values[0]} to {values[1]}" if values else "not whole numbers of a known range"
        raise ModelError(
            f"The label site {label!r} is {_kind(trace[label])}, whose values are {bounds}, and the program has "
            f"{num_classes} classes: they must be the codes 0 to {num_classes - 1}. Sample it from Categorical with "
            f"{num_classes} probabilities (Bernoulli for two classes), and pass as many classes."
        )


def check_local(inside: Trace, local: Collection[str], label: str | None, plate: str) -> None:
    """Refuse local latents that are no sites of the rows, or discrete without a finite support of a known size."""
    for name in local:
        if name not in inside or name == label:
            row_sites = [site for site in inside if site != label]
            raise ModelError(
                f"local= names {name!r}, and latents of rows are sites of the plate {plate!r} other than the label: "
                f"{row_sites}."
            )
        if inside[name]["support"].is_discrete and value_range(inside[name]["support"]) is None:
            raise ModelError(
                f"The local latent {name!r} is {_kind(inside[name])}, whose values are not "
                "whole numbers of a known range, so they cannot be summed out. Use Categorical, Bernoulli, or another "
                "distribution whose bounds are numbers; or integrate it out in the program."
            )


def value_range(support: Constraint) -> tuple[int, int] | None:
    """The lowest and the highest value of an integer support; None where they are not known."""
    support = base_support(support)
    if isinstance(support, type(constraints.boolean)):
        return 0, 1
    bounds = jax.tree.leaves(support)
    are_numbers = not any(np.ndim(bound) or isinstance(bound, jax.core.Tracer) for bound in bounds)
    if not isinstance(support, type(constraints.integer_interval(0, 1))) or not are_numbers:
        return None
    return int(support.lower_bound), int(support.upper_bound)
