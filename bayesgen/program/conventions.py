"""Refusing programs that break a convention."""

import inspect

import jax
import numpy as np
import numpyro.distributions as dist
from numpyro.distributions import constraints

from bayesgen.errors import ModelError

from .messages import base_support, in_plate, innermost, samples

DATA_NAMES = ("x", "xs", "y", "ys", "data", "obs", "labels")  # of arguments of functions that are given data


def check_signature(function):
    """Refuse functions that take data, (X, y=None), and not a number of rows."""
    if hasattr(function, "covariates"):
        return
    parameters = inspect.signature(function).parameters.values()
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    required = [p for p in positional if p.default is p.empty]
    if len(required) > 1 or any(p.name.lower() in DATA_NAMES for p in positional):
        raise ModelError(
            f"A program takes the number of rows n and makes the rows itself; this function takes "
            f"({', '.join(map(str, parameters))}), as one that is given data does. Write def program(n), sample the "
            "label and every attribute in numpyro.plate('instances', n) without obs=, and pass what a row knows but "
            "the program does not model as a keyword-only argument (a covariate)."
        )


def check_same_sites(one, two):
    """Refuse sites that are there at some numbers of rows only."""
    differing = set(one) ^ set(two)
    if differing:
        raise ModelError(
            f"The program has the sites {sorted(differing)} for some numbers of rows n and not for others. Which sites "
            "it has must not depend on n."
        )


def check_sites(trace, plate, label):
    for name, site in trace.items():
        kind = site["type"]
        if kind == "param":
            raise ModelError(
                f"The program has numpyro.param({name!r}): every unknown needs a prior. Use numpyro.sample."
            )
        if kind == "plate" and site["args"][1] not in (None, site["args"][0]):
            raise ModelError(f"The plate {name!r} subsamples: bayesgen needs every row. Drop subsample_size.")
        if kind == "control_flow":
            raise ModelError("The program uses numpyro.contrib.control_flow: write the loop in Python.")
        if kind != "sample":
            continue
        if isinstance(innermost(site["fn"]), dist.Delta):
            raise ModelError(
                f"The site {name!r} is Delta: it has one possible value, and no density to learn from. Compute the "
                "value without sampling it, or record it by numpyro.deterministic."
            )
        inside = in_plate(site, plate)
        if site["is_observed"] and not (isinstance(site["fn"], dist.Unit) and not inside):
            raise ModelError(
                f"The site {name!r} is observed: a program generates data and takes none. Drop obs= (and factors in "
                f"the plate {plate!r}); bayesgen conditions on the data itself."
            )
        latent = not inside and name != label and not isinstance(site["fn"], dist.Unit)
        if latent and site["support"].is_discrete:
            raise ModelError(
                f"The latent site {name!r} is discrete: only the label may be. Sum it out, or make it an attribute."
            )


def check_label(site, num_classes, plate, axis):
    """Refuse a label that is not one of the codes 0 to K - 1 for each row."""
    name, fn = site["name"], site["fn"]
    kind, values, others = type(innermost(fn)).__name__, value_range(site["support"]), list(fn.batch_shape)
    if len(others) >= -axis:
        del others[axis]
    if fn.event_shape or any(size != 1 for size in others):
        raise ModelError(
            f"The label site {name!r} has the shape {fn.shape()}, more than one number a row: sample it in the plate "
            f"{plate!r} alone, outside of any other plate and without to_event."
        )
    if values != (0, num_classes - 1):
        known = f"{values[0]} to {values[1]}" if values else "not whole numbers of a known range"
        raise ModelError(
            f"The label site {name!r} is {kind}, whose values are {known}, and the program has {num_classes} classes: "
            f"the values must be the codes 0 to {num_classes - 1}. Sample it from Categorical with {num_classes} "
            "probabilities (Bernoulli for two classes), and pass as many classes."
        )


def value_range(support):
    """The lowest and the highest value of a support of whole numbers, or None where they are not known."""
    support = base_support(support)
    if isinstance(support, type(constraints.boolean)):
        return 0, 1
    bounds = jax.tree.leaves(support)
    known = not any(np.ndim(bound) or isinstance(bound, jax.core.Tracer) for bound in bounds)
    if not isinstance(support, type(constraints.integer_interval(0, 1))) or not known:
        return None
    return int(support.lower_bound), int(support.upper_bound)


def missing_label(label, trace, plate):
    names = [name for name, site in samples(trace).items() if in_plate(site, plate)]
    if label in trace:
        return f"The label site {label!r} is not in the plate {plate!r}: sample it there."
    return f"The program has no label site {label!r} in its plate {plate!r}, only {names}. Name it, or pass label=..."
