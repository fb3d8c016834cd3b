"""The conventions of programs, checked on NumPyro's messages about their sites."""

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeAlias, TypedDict

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from numpyro.distributions import constraints
from numpyro.distributions.constraints import Constraint
from numpyro.primitives import CondIndepStackFrame, Messenger

from bayesgen.distributions import innermost, log_prob_of_values
from bayesgen.errors import ModelError
from bayesgen.typing import Array, Float


class Message(TypedDict, total=False):
    """The entries of NumPyro's message about a site that are read here; `run` adds `support`."""

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
OF_CLASSES = dist.BernoulliProbs, dist.BernoulliLogits, dist.CategoricalProbs, dist.CategoricalLogits


def is_sample(message: Message) -> bool:
    """Whether the site is a sample site, a factor included."""
    return message["type"] == "sample"


def is_drawn(message: Message) -> bool:
    """Whether the site is a sample site whose value is not observed."""
    return is_sample(message) and not message["is_observed"]


def is_of_classes(message: Message) -> bool:
    """Whether the values of a sample site are classes; other whole numbers are counts."""
    return isinstance(innermost(message["fn"]), OF_CLASSES)


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


def samples(trace: Trace) -> dict[str, Message]:
    """The sample sites."""
    return {name: message for name, message in trace.items() if is_sample(message)}


def in_plate(message: Message, plate: str) -> bool:
    """Whether a site is in a plate."""
    return any(frame.name == plate for frame in message.get("cond_indep_stack", ()))


def log_prob(message: Message) -> Float[Array, "..."]:
    """Log probability of a site's value, scale and mask honoured, elementwise over its batch axes."""
    log_probs = log_prob_of_values(message["fn"], message["value"])
    return log_probs if message["scale"] is None else message["scale"] * log_probs


def as_codes(message: Message) -> Message:
    """A site with values of a discrete distribution as whole numbers, as NumPyro takes them; 0 where missing."""
    if not message["fn"].support.is_discrete:
        return message
    return {**message, "value": jnp.nan_to_num(message["value"]).astype(int)}


def base_support(support: Constraint) -> Constraint:
    """The support of single entries of an event."""
    while isinstance(support, constraints.independent):
        support = support.base_constraint
    return support


DATA_NAMES = ("x", "xs", "y", "ys", "data", "obs", "labels")  # of arguments of functions that are given data


def signature_of(function: Callable[..., object]) -> inspect.Signature:
    """The signature of a program function, NumPyro's handlers around it removed."""
    while isinstance(function, Messenger) and function.fn is not None:
        function = function.fn
    return inspect.signature(function)


def arguments_of(function: Callable[..., object]) -> Collection[inspect.Parameter]:
    """The arguments of a program function."""
    return signature_of(function).parameters.values()


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


def check_sites(trace: Trace, plate: str, label: str | None) -> None:
    """Refuse sites that a generative program cannot have."""
    for message in samples(trace).values():
        _check_sample(message, plate, label)


def _check_sample(message: Message, plate: str, label: str | None) -> None:
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
    if not inside and name != label and not is_factor(message) and message["support"].is_discrete:
        raise ModelError(
            f"The latent site {name!r} is discrete: only the label may be, and latents of the rows that local=(...) "
            f"names. Sample it in the plate {plate!r} and name it there, sum it out, or make it an attribute."
        )


def check_label(trace: Trace, label: str, num_classes: int, plate: CondIndepStackFrame) -> None:
    """Refuse a label site that does not exist, or whose values are not the codes 0 to K - 1, one for each row."""
    inside = [name for name, message in samples(trace).items() if in_plate(message, plate.name)]
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
        kind = type(innermost(distribution)).__name__
        known = f"{values[0]} to {values[1]}" if values else "not whole numbers of a known range"
        raise ModelError(
            f"The label site {label!r} is {kind}, whose values are {known}, and the program has {num_classes} classes: "
            f"the values must be the codes 0 to {num_classes - 1}. Sample it from Categorical with {num_classes} "
            "probabilities (Bernoulli for two classes), and pass as many classes."
        )


def check_local(inside: Trace, local: Collection[str], label: str | None, plate: str) -> None:
    """Refuse local latents that are no sites of the rows, or discrete without a finite support of a known size."""
    for name in local:
        if name not in inside or name == label:
            others = [other for other in inside if other != label]
            raise ModelError(
                f"local= names {name!r}, and latents of rows are sites of the plate {plate!r} other than the label: "
                f"{others}."
            )
        if inside[name]["support"].is_discrete and value_range(inside[name]["support"]) is None:
            raise ModelError(
                f"The local latent {name!r} is {type(innermost(inside[name]['fn'])).__name__}, whose values are not "
                "whole numbers of a known range, so they cannot be summed out. Use Categorical, Bernoulli, or another "
                "distribution whose bounds are numbers; or integrate it out in the program."
            )


def value_range(support: Constraint) -> tuple[int, int] | None:
    """The lowest and the highest value of an integer support; None where they are not known."""
    support = base_support(support)
    if isinstance(support, type(constraints.boolean)):
        return 0, 1
    bounds = jax.tree.leaves(support)
    known = not any(np.ndim(bound) or isinstance(bound, jax.core.Tracer) for bound in bounds)
    if not isinstance(support, type(constraints.integer_interval(0, 1))) or not known:
        return None
    return int(support.lower_bound), int(support.upper_bound)
