"""NumPyro's messages about the sites of a program, and what they say."""

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeAlias, TypedDict

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from numpyro.distributions import constraints
from numpyro.distributions.constraints import Constraint
from numpyro.primitives import CondIndepStackFrame, Messenger

from bayesgen.errors import ModelError
from bayesgen.statistics import log_prob_of_cells, log_prob_of_values
from bayesgen.typing import Array, Bool, Float


class Message(TypedDict, total=False):
    """The entries of NumPyro's message about a site that are read here; `arbitrary_trace` adds `support`."""

    _control_flow_done: bool  # whether its site is that of a scan

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
    """Whether the site is a sample site, a factor included."""
    return message["type"] == "sample"


def is_drawn(message: Message) -> bool:
    """Whether the site is a sample site whose value is not observed."""
    return is_sample(message) and not message["is_observed"]


def is_factor(message: Message) -> bool:
    """Whether the site is a factor, which has a log density and no value."""
    return is_sample(message) and isinstance(message["fn"], dist.Unit)


# wrappers of distributions, and handlers make them, that let a part of the density of a value count in training
PARTLY_COUNTED = dist.MaskedDistribution, dist.LeftCensoredDistribution, dist.RightCensoredDistribution


def _is_partly_counted(part: object) -> bool:
    return isinstance(part, PARTLY_COUNTED)


def counts_partly(message: Message) -> bool:
    """Whether a scale, a mask or censoring says how much, or which part, of a site's density counts in training."""
    parts = jax.tree.leaves(message["fn"], is_leaf=_is_partly_counted)
    return message["scale"] is not None or any(map(_is_partly_counted, parts))


def distribution_of_values(distribution: Any) -> Any:
    """The distribution that values are drawn from, without the masks and the censoring in it."""

    def inner(part: Any) -> Any:
        is_partly_counted = _is_partly_counted(part)
        return distribution_of_values(part.base_dist.expand(part.batch_shape)) if is_partly_counted else part

    return jax.tree.map(inner, distribution, is_leaf=_is_partly_counted)


class InPrediction(Messenger):
    """Runs a program with the distributions of the values themselves, as predictions take them.

    Scales, masks and censoring are of training: how much, or which part, of a row's density counts there.
    """

    def process_message(self, msg: Message) -> None:
        """Put the distribution of the values of a sample site in place of its own."""
        if is_sample(msg) and not is_factor(msg) and counts_partly(msg):
            msg["fn"], msg["scale"] = distribution_of_values(msg["fn"]), None


def is_deterministic(message: Message) -> bool:
    """Whether the site is a `numpyro.deterministic`."""
    return message["type"] == "deterministic"


def is_scanned(message: Message) -> bool:
    """Whether the site is sampled in the body of a `scan`."""
    return message.get("_control_flow_done", False)


def is_plate(message: Message) -> bool:
    """Whether the site is a plate."""
    return message["type"] == "plate"


def sample_sites(trace: Trace) -> dict[str, Message]:
    """The sample sites."""
    return {name: message for name, message in trace.items() if is_sample(message)}


def in_plate(message: Message, plate: str) -> bool:
    """Whether a site is in a plate."""
    return any(frame.name == plate for frame in message.get("cond_indep_stack", ()))


def log_prob(message: Message, observed: Bool[Array, "..."] | None = None) -> Float[Array, "..."]:
    """Log probability of a site's observed cells, of all by default, scale and mask honoured: one for each batch entry.

    `observed` has the shape of the site's value, whose missing cells hold some value in the support.
    """
    if observed is None:
        log_probs = log_prob_of_values(message["fn"], message["value"])
    else:
        log_probs = log_prob_of_cells(message["fn"], message["value"], observed)
    return log_probs if message["scale"] is None else message["scale"] * log_probs


def with_integer_values(message: Message) -> Message:
    """A site with values of a discrete distribution as whole numbers, as NumPyro takes them; 0 where missing."""
    if not message["fn"].support.is_discrete:
        return message
    return {**message, "value": jnp.nan_to_num(message["value"]).astype(int)}


def base_support(support: Constraint) -> Constraint:
    """The support of single entries of an event."""
    while isinstance(support, constraints.independent):
        support = support.base_constraint
    return support


def signature_of(function: Callable[..., object]) -> inspect.Signature:
    """The signature of a program function, NumPyro's handlers around it removed."""
    while isinstance(function, Messenger) and function.fn is not None:
        function = function.fn
    return inspect.signature(function)


def arguments_of(function: Callable[..., object]) -> Collection[inspect.Parameter]:
    """The arguments of a program function."""
    return signature_of(function).parameters.values()


def check_same_sites(names: Iterable[str], at_other_size: Iterable[str]) -> None:
    """Refuse sites that exist at some numbers of rows only."""
    differing = set(names) ^ set(at_other_size)
    if differing:
        raise ModelError(
            f"The program has the sites {sorted(differing)} for some numbers of rows n and not for others. Which sites "
            "it has must not depend on n."
        )


def check_statement(message: Message) -> None:
    """Refuse a statement that no program can have."""
    name = message.get("name")
    if message["type"] == "param":
        raise ModelError(f"The program has numpyro.param({name!r}): every unknown needs a prior. Use numpyro.sample.")
    if is_plate(message) and message["args"][1] not in (None, message["args"][0]):
        raise ModelError(f"The plate {name!r} subsamples: bayesgen needs every row. Drop subsample_size.")
