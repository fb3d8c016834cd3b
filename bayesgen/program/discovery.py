"""Finding the structure of a program by running it at two sizes."""

import jax
import jax.numpy as jnp
from numpyro.distributions.transforms import biject_to
from numpyro.primitives import CondIndepStackFrame

from bayesgen.distributions import SequenceDistribution, innermost, whole_axes
from bayesgen.errors import ModelError

from .arbitrary import run_abstractly
from .base import Program
from .conventions import check_label, check_same_sites, check_signature, check_sites
from .messages import Message, Trace, in_plate, is_deterministic, is_plate, samples
from .structure import Site, StepsOfSite, Structure

SIZES = (11, 13)  # two primes: the plate whose size follows is the instance plate


def find_structure(program: Program) -> Structure:
    """The structure of a program, which is refused where it breaks a convention. Inside float64."""
    check_signature(program.function)
    first, second = (run_abstractly(program, size) for size in SIZES)
    check_same_sites(samples(first), samples(second))
    plate = _instance_plate(first, second)
    check_sites(first, plate.name, program.label)
    if program.label is not None:
        check_label(first, program.label, program.num_classes, plate)
    inside = {name: message for name, message in samples(first).items() if in_plate(message, plate.name)}
    attributes = tuple((name, _site(message, plate.dim)) for name, message in inside.items() if name != program.label)
    if not attributes:
        raise ModelError(f"The program has no attribute site in its plate {plate.name!r}: sample at least one there.")
    return Structure(
        plate=plate.name,
        axis=plate.dim,
        label=program.label,
        attributes=attributes,
        latents=tuple(
            (name, _unconstrained_shape(message, second[name], plate.name))
            for name, message in samples(first).items()
            if name not in inside and not message["is_observed"]
        ),
        deterministics=tuple(name for name, message in first.items() if _is_of_no_row(message, second, plate.name)),
        covariates=program.covariates,
    )


def continuous_label(program: Program, label: str, stated: bool | None) -> str | None:
    """The label site where it is continuous, or None where it is one of classes.

    Raises:
        ModelError: a site that is not what was stated of it, or not one number a row.
    """
    check_signature(program.function)
    with jax.enable_x64(True):
        message = samples(run_abstractly(program, SIZES[0])).get(label)
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


def _instance_plate(first: Trace, second: Trace) -> CondIndepStackFrame:
    """The plate whose size is the number of rows."""
    pairs = zip(first.items(), second.values(), strict=False)
    of_rows = {
        name
        for (name, message), other in pairs
        if is_plate(message) and (message["args"][0], other["args"][0]) == SIZES
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
    """Whether a site is deterministic and not one with an entry for each row."""
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
        steps = StepsOfSite(leaf.most_steps, leaf.of_symbols, leaf.symbols, are_several=num_axes > 1)
    return Site(tuple(batch), tuple(distribution.event_shape), axis, discrete, whole_axes(distribution), steps)


def _unconstrained_shape(message: Message, at_other_size: Message, plate: str) -> tuple[int, ...]:
    """The shape of the unconstrained value of a latent site, the same at every number of rows."""
    shape, other_shape = jnp.shape(message["value"]), jnp.shape(at_other_size["value"])
    if shape != other_shape:
        raise ModelError(
            f"The latent site {message['name']!r} has the shape {shape} at {SIZES[0]} rows and {other_shape} at "
            f"{SIZES[1]}: a latent for each row is not supported. Sum it out, or, if it is an attribute, sample it in "
            f"the plate {plate!r}."
        )
    return tuple(biject_to(message["support"]).inverse_shape(tuple(shape)))
