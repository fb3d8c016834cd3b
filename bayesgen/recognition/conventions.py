"""The conventions of programs: what breaks one is refused, with the remedy."""

from collections.abc import Callable, Collection

import jax
import numpy as np
import numpyro.distributions as dist
from numpyro.distributions import constraints
from numpyro.distributions.constraints import Constraint
from numpyro.primitives import CondIndepStackFrame

from bayesgen.errors import ModelError
from bayesgen.program import Message, Trace, arguments_of, base_support, in_plate, is_factor, samples
from bayesgen.statistics import innermost

CLASS_DISTRIBUTIONS = dist.BernoulliProbs, dist.BernoulliLogits, dist.CategoricalProbs, dist.CategoricalLogits
DATA_NAMES = ("x", "xs", "y", "ys", "data", "obs", "labels")  # of arguments of functions that are given data


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
        bounds = f"{values[0]} to {values[1]}" if values else "not whole numbers of a known range"
        raise ModelError(
            f"The label site {label!r} is {kind}, whose values are {bounds}, and the program has {num_classes} "
            f"classes: they must be the codes 0 to {num_classes - 1}. Sample it from Categorical with {num_classes} "
            "probabilities (Bernoulli for two classes), and pass as many classes."
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
    are_numbers = not any(np.ndim(bound) or isinstance(bound, jax.core.Tracer) for bound in bounds)
    if not isinstance(support, type(constraints.integer_interval(0, 1))) or not are_numbers:
        return None
    return int(support.lower_bound), int(support.upper_bound)
