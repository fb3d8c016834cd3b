"""Running a program at given latents: its prior, its class-conditional distributions, its rows.

Everything here traces under JAX's transformations and takes the program's `function` as it is.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from numpyro import handlers

from bayesgen.statistics import read_conditional

from .conventions import check_same_sites
from .latent_space import Point, at_free, free_of
from .tracing import sites_of


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """A program run at n rows with every site given.

    Attributes:
        latents: constrained values of the latent sites.
        deterministics: values of `numpyro.deterministic` sites outside the plate.
        log_prior: log density of the latents in the coordinates of their sites, factors included.
        log_jacobian: log-Jacobian from unconstrained to constrained latents (0 where these were given).
        at_pole: whether a latent is nearer to a pole of its prior than its value resolves.
        label_log_probs: log probability of each row's label, (n,), or zeros.
        sites: attribute name -> traced site.
        label: the traced label site, or None.
    """

    latents: dict[str, Any]
    deterministics: dict[str, Any]
    log_prior: Any
    log_jacobian: Any
    at_pole: Any
    label_log_probs: Any
    sites: dict[str, Any]
    label: Any = None

    def conditional(self, name, axis):
        """The site's distributions read as a `Conditional`, or None where no statistic is registered."""
        return read_conditional(self.sites[name]["fn"], axis)

    def scale(self, name):
        """The factor of `handlers.scale` at a site, or None."""
        return self.sites[name]["scale"]


class _Unconstrain:
    """Substitution of unconstrained values."""

    def __init__(self, values):
        self.values = values

    def __call__(self, site):
        if site["type"] != "sample" or site["name"] not in self.values:
            return None
        return at_free(site["fn"], self.values[site["name"]]).value


def evaluate(function, structure, latents, labels, attributes=None, covariates=None, unconstrained=False):
    """Run the program with latents, labels and attributes given.

    Args:
        latents: site -> value; unconstrained values if `unconstrained`.
        labels: (n,) codes.
        attributes: site -> rows (n, ...); zeros where absent (then only distributions are of interest).
        covariates: name -> (n, ...).
    """
    size = len(labels)
    values = {name: _rows_or_zeros(site, (attributes or {}).get(name), size) for name, site in structure.attributes}
    if structure.label is not None:
        values[structure.label] = structure.label_values(labels)
    free = latents if unconstrained else {}
    if not unconstrained:
        values |= latents
    program = handlers.substitute(handlers.seed(function, jax.random.key(0)), data=values)
    program = handlers.substitute(program, substitute_fn=_Unconstrain(free))
    trace = sites_of(program, size, _covariates(structure, covariates, size))
    names = dict(structure.latents)
    check_same_sites(_drawn(trace), {*names, *values, *latents})
    prior = [
        _point(site, free.get(name))
        for name, site in trace.items()
        if site["type"] == "sample" and (name in names or isinstance(site["fn"], dist.Unit))
    ]
    labels_log_prob = jnp.zeros(size)
    if structure.label is not None:
        labels_log_prob = jnp.reshape(site_log_prob(trace[structure.label]), (size,))
    return Evaluation(
        latents={name: trace[name]["value"] for name in names},
        deterministics={name: trace[name]["value"] for name in structure.deterministics},
        log_prior=sum((point.log_prob for point in prior), start=jnp.zeros(())),
        log_jacobian=sum((point.log_jacobian for point in prior), start=jnp.zeros(())),
        at_pole=jnp.asarray([point.at_pole for point in prior]).any(),
        label_log_probs=labels_log_prob,
        sites={name: trace[name] for name, _ in structure.attributes},
        label=trace.get(structure.label),
    )


def _point(site, free):
    """The `Point` of a latent site or a factor, its scale honoured; `free` is its unconstrained value, if any."""
    if free is None:
        return Point(site["value"], site_log_prob(site).sum(), 0.0)
    point, scale = at_free(site["fn"], free), 1.0 if site["scale"] is None else site["scale"]
    return point._replace(log_prob=scale * point.log_prob if jnp.ndim(scale) == 0 else site_log_prob(site).sum())


def _drawn(trace):
    """Names of the sites of a trace that have a value to be chosen: all but factors."""
    return {name for name, site in trace.items() if site["type"] == "sample" and not isinstance(site["fn"], dist.Unit)}


def unconstrain(function, structure, latents, labels, covariates):
    """Unconstrained values of constrained latents: site -> array."""
    free = {}

    def record(site):
        if site["type"] == "sample" and site["name"] in latents:
            free[site["name"]] = free_of(site["fn"], jnp.asarray(latents[site["name"]]))
            return latents[site["name"]]
        return None

    evaluate(handlers.substitute(function, substitute_fn=record), structure, {}, labels, None, covariates)
    return free


def _rows_or_zeros(site, rows, size):
    if rows is None:
        rows = jnp.zeros((size, *site.row_shape))
    return site.to_site(jnp.asarray(rows).astype(site.dtype))


def _covariates(structure, covariates, size):
    """Covariates as they are; ones where they are not given (then nothing of interest depends on them)."""
    given = covariates or {}
    return {name: given.get(name, jnp.ones(size)) for name in structure.covariates}


def site_log_prob(site):
    """Log probability of a traced site, scale and mask honoured, elementwise over its batch axes."""
    log_prob = site["fn"].log_prob(site["value"])
    return log_prob if site["scale"] is None else site["scale"] * log_prob


def row_log_probs(evaluation, structure, names):
    """Log probability of each row of the named sites: name -> (n,)."""
    rows = {}
    for name in names:
        log_prob = site_log_prob(evaluation.sites[name])
        position = log_prob.ndim + structure.axis
        rows[name] = jnp.moveaxis(log_prob, position, 0).reshape(log_prob.shape[position], -1).sum(-1)
    return rows


def class_table(function, structure, num_classes, latents, attributes, covariates, names):
    """Log probability of rows under each class for the named sites: name -> (n, K).

    Each row is set K times into the program, once under every class, and the rows are mapped: whatever depends
    on the latents alone (a Cholesky factor, say) is computed K times and not once a row.
    """

    def one(row, covariate):
        repeat = lambda value: jnp.broadcast_to(value, (num_classes, *jnp.shape(value)))  # noqa: E731
        rows, given = jax.tree.map(repeat, (row, covariate))
        evaluation = evaluate(function, structure, latents, jnp.arange(num_classes), rows, given)
        return row_log_probs(evaluation, structure, names)

    return jax.vmap(one)(attributes, covariates or {})
