"""What NumPyro says of a program's sites: its messages, whose types are strings here only."""

from collections.abc import Mapping
from typing import Any, TypeAlias, TypedDict

import numpyro.distributions as dist
from numpyro.distributions import constraints
from numpyro.distributions.constraints import Constraint
from numpyro.primitives import CondIndepStackFrame

from bayesgen.typing import Array, Float


class Message(TypedDict, total=False):
    """What NumPyro says of a site, as far as it is read here; `support` is noted by `run`."""

    type: str
    name: str
    fn: dist.Distribution  # of a sample site
    args: tuple[Any, ...]  # of a plate, its size and that of its subsample
    kwargs: dict[str, Any]
    value: Array
    scale: float | Array | None
    is_observed: bool
    cond_indep_stack: list[CondIndepStackFrame]
    support: Constraint


Trace: TypeAlias = Mapping[str, Message]  # the messages of all sites, in the order of the program's statements


def is_sample(message: Message) -> bool:
    """Whether it is of a sample site, a factor included."""
    return message["type"] == "sample"


def is_drawn(message: Message) -> bool:
    """Whether it is of a sample site whose value is not observed."""
    return is_sample(message) and not message["is_observed"]


def is_factor(message: Message) -> bool:
    """Whether it is of a factor, which has a log density and no value."""
    return is_sample(message) and isinstance(message["fn"], dist.Unit)


def is_deterministic(message: Message) -> bool:
    """Whether it is of a value that follows from others."""
    return message["type"] == "deterministic"


def is_plate(message: Message) -> bool:
    """Whether it is of a plate."""
    return message["type"] == "plate"


def is_param(message: Message) -> bool:
    """Whether it is of a `numpyro.param`."""
    return message["type"] == "param"


def is_control_flow(message: Message) -> bool:
    """Whether it is of a loop or a branch of `numpyro.contrib.control_flow`."""
    return message["type"] == "control_flow"


def samples(trace: Trace) -> dict[str, Message]:
    """The sample sites."""
    return {name: message for name, message in trace.items() if is_sample(message)}


def in_plate(message: Message, plate: str) -> bool:
    """Whether a site is in a plate."""
    return any(frame.name == plate for frame in message.get("cond_indep_stack", ()))


def log_prob(message: Message) -> Float[Array, "..."]:
    """Log probability of a site's value, scale and mask honoured, elementwise over its batch axes."""
    log_probs = message["fn"].log_prob(message["value"])
    return log_probs if message["scale"] is None else message["scale"] * log_probs


def base_support(support: Constraint) -> Constraint:
    """A support for each entry, where it was one of whole events."""
    while isinstance(support, constraints.independent):
        support = support.base_constraint
    return support
