"""Running a program at given latents: its prior, its class-conditional distributions, its rows.

Everything here traces under JAX's transformations.
"""

import dataclasses
from collections.abc import Collection

import jax
import jax.numpy as jnp

from bayesgen.statistics import Conditional, read_conditional
from bayesgen.typing import Array, Bool, Float, Int, Shaped

from .base import Arrays, Program
from .conventions import check_same_sites
from .latent_space import LatentValue, at_free, free_of
from .messages import Message, Trace, is_factor, log_prob, samples
from .missing import log_prob_of_site, with_possible_values
from .structure import Site
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
        label_log_probs: log probability of each row's label, or zeros.
        sites: the attribute sites.
        label: the label site, or None.
        axis: the instance axis among the batch axes (negative).
        observed: masks of the cells that are there, of the shapes of the sites' values, for sites that lack some.
    """

    latents: dict[str, Array]
    deterministics: dict[str, Array]
    log_prior: Float[Array, ""]
    log_jacobian: Float[Array, ""]
    at_pole: Bool[Array, ""]
    label_log_probs: Float[Array, " n"]
    sites: dict[str, Message]
    label: Message | None
    axis: int
    observed: dict[str, Bool[Array, "..."]] = dataclasses.field(default_factory=dict)

    def conditional(self, name: str) -> Conditional | None:
        """The distributions of a site, read into arrays; None where no statistic is registered for them."""
        return read_conditional(self.sites[name]["fn"], self.axis)

    def compressed(self, name: str) -> Conditional:
        """The distributions of a site that is compressed, read into arrays."""
        conditional = self.conditional(name)
        assert conditional is not None, f"no statistic is registered for the distribution of {name!r}"
        return conditional

    def scale(self, name: str) -> float | Array | None:
        """The factor of `handlers.scale` at a site, or None."""
        return self.sites[name]["scale"]

    def row_log_probs(self, names: Collection[str]) -> dict[str, Float[Array, " n"]]:
        """Log probability of each row, of its cells that are there, for each of these sites."""
        return {name: self._by_row(self._log_prob(name)) for name in names}

    def _log_prob(self, name: str) -> Float[Array, "..."]:
        message, observed = self.sites[name], self.observed.get(name)
        return log_prob(message) if observed is None else log_prob_of_site(message, observed)

    def _by_row(self, log_probs: Float[Array, "..."]) -> Float[Array, " n"]:
        position = log_probs.ndim + self.axis
        return jnp.moveaxis(log_probs, position, 0).reshape(log_probs.shape[position], -1).sum(-1)


def evaluate(
    program: Program,
    latents: Arrays,
    codes: Int[Array, " n"],
    attributes: Arrays | None = None,
    covariates: Arrays | None = None,
    *,
    unconstrained: bool = False,
    observed: Arrays | None = None,
) -> Evaluation:
    """The program run with latents, labels and attributes given.

    Args:
        program: what is run.
        latents: site -> value; unconstrained values if `unconstrained`.
        codes: the labels.
        attributes: site -> (n, ...); zeros where absent (then only distributions are of interest).
        covariates: name -> (n, ...); ones where absent (then nothing of interest depends on them).
        unconstrained: whether the latents are.
        observed: site -> mask of the cells that are there, of the shape of its values, for sites that lack some.
    """
    structure, free, latent_names = program.structure, latents if unconstrained else {}, set(program.latents)
    masks = {name: structure.attribute[name].mask_of_site(mask) for name, mask in (observed or {}).items()}
    trace = _sites_at(program, latents, codes, attributes or {}, covariates or {}, unconstrained, masks)
    priors = [
        _latent_value(message, free.get(name))
        for name, message in samples(trace).items()
        if name in latent_names or is_factor(message)
    ]
    label = None if structure.label is None else trace[structure.label]
    return Evaluation(
        latents={name: trace[name]["value"] for name in program.latents},
        deterministics={name: trace[name]["value"] for name in structure.deterministics},
        log_prior=sum((prior.log_prob for prior in priors), start=jnp.zeros(())),
        log_jacobian=sum((prior.log_jacobian for prior in priors), start=jnp.zeros(())),
        at_pole=jnp.asarray([prior.at_pole for prior in priors]).any(),
        label_log_probs=jnp.zeros(len(codes)) if label is None else jnp.reshape(log_prob(label), (len(codes),)),
        sites={name: trace[name] for name in program.attributes},
        label=label,
        axis=structure.axis,
        observed=masks,
    )


def evaluate_classes(
    program: Program, latents: Arrays, covariates: Arrays | None = None, *, unconstrained: bool = False
) -> Evaluation:
    """The program run at its K classes, with the covariates of the first row: what is learned depends on none."""
    num_classes = program.num_classes
    first = {name: jnp.repeat(values[:1], num_classes, 0) for name, values in (covariates or {}).items()}
    return evaluate(program, latents, jnp.arange(num_classes), None, first, unconstrained=unconstrained)


def unconstrain(program: Program, latents: Arrays) -> dict[str, Array]:
    """Unconstrained values of constrained latents."""
    trace = _sites_at(program, latents, jnp.arange(program.num_classes), {}, {}, False, {})
    return {name: free_of(trace[name]["fn"], jnp.asarray(latents[name])) for name in program.latents}


def _sites_at(
    program: Program,
    latents: Arrays,
    codes: Int[Array, " n"],
    attributes: Arrays,
    covariates: Arrays,
    unconstrained: bool,
    masks: Arrays,
) -> Trace:
    structure, size = program.structure, len(codes)
    given = {name: _values_of(site, attributes.get(name), size) for name, site in structure.attributes}
    if structure.label is not None:
        given[structure.label] = structure.label_values(codes)

    def choose(message: Message) -> Shaped[Array, "..."] | None:
        name = message["name"]
        if unconstrained and name in latents:
            return at_free(message["fn"], latents[name]).value
        if name in masks:
            return with_possible_values(message["fn"], given[name], masks[name])
        return latents[name] if name in latents else given.get(name)

    examples = {name: covariates.get(name, ones) for name, ones in program.example_covariates(size).items()}
    trace = sites_of(program.unchanged_function, size, examples, jax.random.key(0), choose)
    drawn = {name for name, message in samples(trace).items() if not is_factor(message)}
    check_same_sites(drawn, {*program.latents, *given, *latents})
    return trace


def _values_of(site: Site, rows: Shaped[Array, "n ..."] | None, size: int) -> Shaped[Array, "..."]:
    """The value of an attribute site at these rows; zeros where there are none."""
    if rows is None:
        rows = jnp.zeros((size, *site.row_shape))
    return site.to_site(jnp.asarray(rows).astype(site.dtype))


def _latent_value(message: Message, free: Float[Array, "..."] | None) -> LatentValue:
    """The value of a latent site or a factor, its scale honoured; `free` is the unconstrained one, if any."""
    if free is None:
        return LatentValue(message["value"], log_prob(message).sum(), jnp.zeros(()))
    latent, scale = at_free(message["fn"], free), 1.0 if message["scale"] is None else message["scale"]
    scaled = scale * latent.log_prob if jnp.ndim(scale) == 0 else log_prob(message).sum()
    return latent._replace(log_prob=scaled)


def class_table(
    program: Program,
    latents: Arrays,
    attributes: Arrays,
    covariates: Arrays,
    names: Collection[str],
    observed: Arrays | None = None,
) -> dict[str, Float[Array, "n K"]]:
    """Log probability of rows, of their cells that are there, under each class, for each of these sites.

    Each row is set K times into the program, once under every class, and the rows are mapped: whatever depends
    on the latents alone (a Cholesky factor, say) is computed K times and not once a row.
    """
    num_classes = program.num_classes

    def of_row(row: Arrays, covariates_of_row: Arrays, observed_in_row: Arrays) -> dict[str, Float[Array, " K"]]:
        rows, given, masks = jax.tree.map(
            lambda value: jnp.broadcast_to(value, (num_classes, *jnp.shape(value))),
            (row, covariates_of_row, observed_in_row),
        )
        return evaluate(program, latents, jnp.arange(num_classes), rows, given, observed=masks).row_log_probs(names)

    return jax.vmap(of_row)(attributes, covariates, observed or {})
