"""Finding the sites of a generative program by running it, and refusing programs that break a convention."""

import dataclasses
import inspect
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from numpyro import handlers
from numpyro.distributions import constraints
from numpyro.distributions.transforms import biject_to

from bayesgen.errors import ModelError

from .tracing import sites_of

DATA_NAMES = ("x", "xs", "y", "ys", "data", "obs", "labels")  # of arguments of functions that are given data
SIZES = (11, 13)  # two primes: the plate whose size follows is the instance plate


@dataclasses.dataclass(frozen=True)
class Site:
    """The shape of one site of a row.

    Attributes:
        batch_shape: the site's batch shape, with 0 in place of the number of rows.
        event_shape: the shape of its event.
        axis: the instance axis among the batch axes (negative).
        discrete: whether the support is discrete.
    """

    batch_shape: tuple[int, ...]
    event_shape: tuple[int, ...]
    axis: int
    discrete: bool

    @property
    def position(self):
        """The instance axis among all axes (nonnegative)."""
        return len(self.batch_shape) + self.axis

    @property
    def row_shape(self):
        """Shape of one row, the instance axis removed."""
        batch = list(self.batch_shape)
        del batch[self.position]
        return (*batch, *self.event_shape)

    @property
    def dtype(self):
        """The dtype of values that programs are given; logs of gammas of int32 would be computed in float32."""
        return jnp.result_type(int if self.discrete else float)

    def to_site(self, rows):
        """Rows (n, *row_shape) in the order of axes of the site."""
        return jnp.moveaxis(jnp.asarray(rows), 0, self.position)

    def from_site(self, values):
        """Values in the site's order of axes as rows (n, *row_shape)."""
        return jnp.moveaxis(jnp.asarray(values), self.position, 0)


@dataclasses.dataclass(frozen=True)
class Structure:
    """What a program consists of, in the order of its statements. Hashable."""

    plate: str
    axis: int
    label: str | None
    attributes: tuple[tuple[str, Site], ...]
    latents: tuple[tuple[str, tuple[int, ...]], ...]  # with the shapes of their unconstrained values
    deterministics: tuple[str, ...]
    covariates: tuple[str, ...]

    @property
    def attribute(self):
        """Attribute sites by name."""
        return dict(self.attributes)

    @property
    def label_shape(self):
        """Shape of one row's label, (1, ..., 1) to the right of the instance axis."""
        return (1,) * (-1 - self.axis)

    def label_values(self, codes):
        """Codes (n,) shaped to the instance plate's axis."""
        return jnp.reshape(codes, (-1, *self.label_shape))


def covariate_names(function):
    """Keyword-only arguments of a program: quantities of a row that it uses but does not model."""
    if hasattr(function, "covariates"):
        return tuple(function.covariates)
    parameters = inspect.signature(function).parameters.values()
    return tuple(p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY)


def arbitrary_value(site, key, spread=1.0):
    """A value in the support of a site, at random about its mean, where that is known: it costs no sampler.

    Args:
        spread: how far from there, in standard deviations; in those of unconstrained values where they are not known.
            Beyond 1, all values are just so far, on either side by chance; a negative spread changes the sides.
    """
    fn = site["fn"]
    shape = tuple(fn.batch_shape) + tuple(fn.event_shape)
    if fn.support.is_discrete:
        return jax.random.bernoulli(key, 0.5, shape).astype(jnp.int32)
    transform = biject_to(fn.support)
    free = jax.random.normal(key, transform.inverse_shape(shape))
    free = jnp.where(jnp.abs(spread) > 1, jnp.sign(free), free)
    if base_support(fn.support) is not constraints.real:
        return transform(jnp.sign(spread) * jnp.sqrt(jnp.abs(spread)) * free)
    center, scale = _center_and_scale(fn)
    return center + spread * scale * free


def _center_and_scale(fn):
    """Mean and standard deviation of a distribution, 0 and 1 where they are not known or do not exist."""
    try:
        mean, scale = jnp.asarray(fn.mean), jnp.sqrt(fn.variance)
    except NotImplementedError:
        return 0.0, 1.0
    known = jnp.isfinite(mean) & jnp.isfinite(scale)
    return jnp.where(known, mean, 0.0), jnp.where(known, scale, 1.0)


def run(function, size, covariates=None, key=None, spread=1.0):
    """Trace a program once, with arbitrary values at its sites, and note their supports. Traceable by JAX."""
    keys = itertools.count()
    key = jax.random.key(0) if key is None else key

    def choose(site):
        free = site["type"] == "sample" and not site["is_observed"]
        return arbitrary_value(site, jax.random.fold_in(key, next(keys)), spread) if free else None

    program = handlers.substitute(handlers.seed(function, key), substitute_fn=choose)
    trace = sites_of(program, size, covariates or {})
    for site in trace.values():
        if site["type"] == "sample":
            site["support"] = site["fn"].support  # which may have to be computed, here and not after tracing
    return trace


def run_abstractly(function, size, covariates):
    """Trace a program without computing anything: only shapes and names of the trace mean something."""
    traces = []
    jax.eval_shape(lambda given: traces.append(run(function, size, given)), covariates)
    return traces[0]


def find_structure(function, label, num_classes, covariates):
    """Trace `function` at two sizes and read off its structure.

    Args:
        function: the program.
        label: name of the label site, or None.
        num_classes: how many values the label has.
        covariates: function size -> dict of example covariates.
    """
    check_signature(function)
    first, second = (run_abstractly(function, size, covariates(size)) for size in SIZES)
    check_same_sites(_samples(first), _samples(second))
    plate, axis = _instance_plate(first, second)
    _check_sites(first, plate, label)
    samples = _samples(first)
    inside = {name: site for name, site in samples.items() if _in_plate(site, plate)}
    if label is not None:
        if label not in inside:
            raise ModelError(_missing_label(label, first, plate))
        _check_label(inside[label], num_classes, plate, axis)
    attributes = {name: _site(name, site, axis) for name, site in inside.items() if name != label}
    if not attributes:
        raise ModelError(f"The program has no attribute site in its plate {plate!r}: sample at least one there.")
    latents = {name: site for name, site in samples.items() if name not in inside and not site["is_observed"]}
    for name, site in latents.items():
        if jnp.shape(site["value"]) != jnp.shape(second[name]["value"]):
            raise ModelError(
                f"The latent site {name!r} has the shape {jnp.shape(site['value'])} at {SIZES[0]} rows and "
                f"{jnp.shape(second[name]['value'])} at {SIZES[1]}: a latent for each row is not supported. Sum it "
                f"out, or, if it is an attribute, sample it in the plate {plate!r}."
            )
    return Structure(
        plate=plate,
        axis=axis,
        label=label,
        attributes=tuple(attributes.items()),
        latents=tuple((name, _free_shape(site)) for name, site in latents.items()),
        deterministics=tuple(name for name, site in first.items() if _is_of_no_row(site, second[name], plate)),
        covariates=covariate_names(function),
    )


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


def _instance_plate(first, second):
    found = {}
    for (name, one), two in zip(first.items(), second.values(), strict=False):
        if one["type"] == "plate" and (one["args"][0], two["args"][0]) == SIZES:
            frame = one["args"]
            found[name] = frame
    if len(found) != 1:
        plates = [name for name, site in first.items() if site["type"] == "plate"]
        raise ModelError(
            f"A program needs exactly one plate whose size is n, found {sorted(found) or 'none'} among the plates "
            f"{plates}. Write: with numpyro.plate('instances', n): ..."
        )
    name = next(iter(found))
    for site in first.values():
        for frame in site.get("cond_indep_stack", ()):
            if frame.name == name:
                return name, frame.dim
    raise ModelError(f"The plate {name!r} holds no site: put the label and the attributes into it.")


def check_same_sites(one, two):
    """Refuse sites that are there at some numbers of rows only."""
    differing = set(one) ^ set(two)
    if differing:
        raise ModelError(
            f"The program has the sites {sorted(differing)} for some numbers of rows n and not for others. Which sites "
            "it has must not depend on n."
        )


def _samples(trace):
    return {name: site for name, site in trace.items() if site["type"] == "sample"}


def _in_plate(site, plate):
    return any(frame.name == plate for frame in site.get("cond_indep_stack", ()))


def _is_of_no_row(site, at_other_size, plate):
    """Whether a site is deterministic and not one with an entry for each row."""
    if site["type"] != "deterministic" or _in_plate(site, plate):
        return False
    return jnp.shape(site["value"]) == jnp.shape(at_other_size["value"])


def _check_label(site, num_classes, plate, axis):
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


def base_support(support):
    """A support for each entry, where it was one of whole events."""
    while isinstance(support, constraints.independent):
        support = support.base_constraint
    return support


def _check_sites(trace, plate, label):
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
        inside = _in_plate(site, plate)
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


def innermost(fn):
    """A distribution without what was wrapped around it: events, expansion, masks."""
    while isinstance(fn, dist.Independent | dist.ExpandedDistribution | dist.MaskedDistribution):
        fn = fn.base_dist
    return fn


def _missing_label(label, trace, plate):
    names = [name for name, site in _samples(trace).items() if _in_plate(site, plate)]
    if label in trace:
        return f"The label site {label!r} is not in the plate {plate!r}: sample it there."
    return f"The program has no label site {label!r} in its plate {plate!r}, only {names}. Name it, or pass label=..."


def _site(name, site, axis):
    fn = site["fn"]
    batch = list(fn.batch_shape)
    if len(batch) < -axis:
        raise ModelError(f"The attribute {name!r} does not reach the axis {axis} of the instance plate.")
    batch[len(batch) + axis] = 0
    return Site(tuple(batch), tuple(fn.event_shape), axis, bool(site["support"].is_discrete))


def _free_shape(site):
    return tuple(biject_to(site["support"]).inverse_shape(tuple(jnp.shape(site["value"]))))
