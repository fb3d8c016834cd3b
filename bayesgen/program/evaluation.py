"""Programs run at given latents: prior, class-conditional distributions, log probabilities of rows. Traceable."""

import abc
import dataclasses
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax.nn import log_sigmoid
from jax.scipy.special import gammaln
from numpyro.distributions import constraints
from numpyro.distributions.constraints import Constraint
from numpyro.distributions.distribution import ExpandedDistribution, Independent
from numpyro.distributions.transforms import biject_to

from bayesgen.runtime import VANISHING
from bayesgen.statistics import Conditional, read_conditional
from bayesgen.typing import Array, Bool, Float, Int, Real, Shaped

from .messages import Message, Trace, check_same_sites, is_factor, log_prob, sample_sites
from .missing import with_possible_values
from .structure import Arrays, Program, Site
from .tracing import sites_of

# Draws at the edge of floating point: within 1e-16 of 1 a probability p has no digits left for 1 - p. The models of
# this package are sampled in coordinates that have them; a program of one's own may use 1 - p, and is only warned.


def saturated_sites(
    supports: Mapping[str, Constraint], latents: Mapping[str, Float[np.ndarray, "chain draw *shape"]]
) -> list[str]:
    """A sentence for each latent site with draws at the edge of floating point."""
    problems = []
    for name, draws in latents.items():
        share = _edge(supports[name], draws).mean()
        if share >= 1e-3:
            problems.append(
                f"{share:.1%} of the draws of site {name!r} lie at the edge of floating point (a probability within "
                "1e-15 of 1, or a number below 1e-300), where the program's density is not resolved: sample the "
                "site's log odds (or its logarithm) in its place, and use numpyro.distributions that take logits"
            )
    return problems


def _edge(support: Constraint, draws: Float[np.ndarray, "chain draw *shape"]) -> Bool[np.ndarray, "chain draw *shape"]:
    """Which draws are at the edge of a support of probabilities or positive numbers; none of other supports."""
    if support in (constraints.unit_interval, constraints.simplex):
        return (draws > 1 - 1e-15) | (draws < VANISHING)
    if support in (constraints.positive, constraints.nonnegative):
        return draws < VANISHING
    return np.zeros(draws.shape, bool)


# The unconstrained coordinates of latent sites, in which modes are searched and posteriors sampled: NumPyro's own, but
# for probabilities and rates with small concentrations. Beta(0.01, 0.01) has most of its mass within 1e-16 of 0 and 1,
# where 1 - p is rounded to 0; its log odds u reach to hundreds, in tails that fall by 0.01 a unit, while the likelihood
# is steep. So the densities of these sites are computed from log p and log(1 - p), exact functions of u, and the
# coordinate is v, with u = v + v**3 / 3: in v, a tail that falls by b a unit of u falls like exp(-b v**3 / 3).

Decay: TypeAlias = Real[Array, "..."] | float  # decrease of a log density a unit

STEEP_TAIL = 0.25  # a tail that falls by this or more a unit needs no stretching
NEAR_ZERO, NEAR_ONE = -700.0, 36.0  # log odds beyond which p, or 1 - p, is not resolved by floating point


class LatentValue(NamedTuple):
    """A latent site at an unconstrained value.

    Attributes:
        value: the constrained value.
        log_prob: log density of the value, summed over the site.
        log_jacobian: log |d value / d unconstrained value|.
        at_pole: whether the value is too near to a pole of the density for floating point.
    """

    value: Array
    log_prob: Float[Array, ""]
    log_jacobian: Float[Array, ""]
    at_pole: Bool[Array, ""] | bool = False


def at_free(distribution: dist.Distribution, free: Float[Array, "..."], known: Array | None = None) -> LatentValue:
    """The `LatentValue` of a site at an unconstrained value, whose constrained value may be known."""
    transform, prior = biject_to(distribution.support), _with_poles(distribution)
    if prior is None:
        value = transform(free) if known is None else known
        return LatentValue(
            value, distribution.log_prob(value).sum(), jnp.sum(transform.log_abs_det_jacobian(free, value))
        )
    coordinate = prior.stretch(free)
    log_prob, log_jacobian = prior.log_density(coordinate)
    log_slope, at_pole = jnp.log(prior.stretch.slope(free)), jnp.any(prior.at_pole(coordinate))
    return LatentValue(transform(coordinate), log_prob.sum(), log_jacobian.sum() + log_slope.sum(), at_pole)


def free_of(distribution: dist.Distribution, value: Array) -> Float[Array, "..."]:
    """The unconstrained value of a site's value; infinite at an edge of its support."""
    prior = _with_poles(distribution)
    if prior is None:
        return biject_to(distribution.support).inv(value)
    return prior.stretch.inverse(prior.coordinate_of(value))


class _Stretch(NamedTuple):
    """The map v -> v + c v**3 / 3, elementwise, with a coefficient c from 0 to 1 on either side of zero."""

    left: Real[Array, "..."]
    right: Real[Array, "..."]

    @classmethod
    def for_tails(cls, left: Decay, right: Decay) -> "_Stretch":
        """The map for tails with these slopes; steep tails are not stretched."""
        return cls(*(jnp.maximum(1 - jnp.minimum(decay, STEEP_TAIL) / STEEP_TAIL, 0.0) for decay in (left, right)))

    def _coefficient(self, free: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        return jnp.where(free < 0, self.left, self.right)

    def __call__(self, free: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        return free + self._coefficient(free) * free**3 / 3

    def slope(self, free: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """The derivative."""
        return 1 + self._coefficient(free) * free**2

    def inverse(self, coordinate: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """The root of the cubic, by hyperbolic functions; infinity is mapped to itself."""
        coefficient = self._coefficient(coordinate)  # the map keeps signs
        root = jnp.sqrt(jnp.where(coefficient > 0, coefficient, 1.0))
        stretched = 2 * jnp.sinh(jnp.arcsinh(1.5 * root * coordinate) / 3) / root
        return jnp.where((coefficient > 0) & jnp.isfinite(coordinate), stretched, coordinate)


class _WithPoles(abc.ABC):
    """A distribution whose density may have poles at the ends of its range, in an unbounded coordinate."""

    decay: tuple[Decay, Decay]
    """Decrease of the log density a unit of the coordinate in the left and right tail; below 1 there is a pole."""

    @property
    def stretch(self) -> _Stretch:
        """From unconstrained values to the coordinate."""
        return _Stretch.for_tails(*self.decay)

    def at_pole(self, coordinate: Float[Array, "..."]) -> Bool[Array, "..."]:
        """Whether the value at a coordinate is nearer to a pole than floating point resolves."""
        left, right = self.decay
        return ((left < 1) & (coordinate < NEAR_ZERO)) | ((right < 1) & (coordinate > NEAR_ONE))

    @abc.abstractmethod
    def coordinate_of(self, value: Array) -> Float[Array, "..."]:
        """The coordinate of a value: infinite at an end of the range, NaN where it is not determined."""

    @abc.abstractmethod
    def log_density(self, coordinate: Float[Array, "..."]) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        """Log density of the value at a coordinate, and the log-Jacobian of the value by the coordinate."""


class _Beta(_WithPoles):
    """The coordinate is the log odds."""

    def __init__(self, prior: dist.Beta) -> None:
        self.decay = prior.concentration1, prior.concentration0

    def coordinate_of(self, value: Array) -> Float[Array, "..."]:
        return jnp.log(value) - jnp.log1p(-value)

    def log_density(self, coordinate: Float[Array, "..."]) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        a, b = self.decay
        log_p, log_1_p = log_sigmoid(coordinate), log_sigmoid(-coordinate)
        constant = gammaln(a + b) - gammaln(a) - gammaln(b)
        return (a - 1) * log_p + (b - 1) * log_1_p + constant, log_p + log_1_p


class _Dirichlet(_WithPoles):
    """The coordinates are log odds of stick breaking, shifted as in NumPyro, so that zeros give equal parts."""

    def __init__(self, prior: dist.Dirichlet) -> None:
        self.alpha = prior.concentration
        left = jnp.flip(jnp.cumsum(jnp.flip(self.alpha, -1), -1), -1)
        self.decay = self.alpha[..., :-1], left[..., 1:]

    def _shifts(self) -> Float[Array, " r"]:
        return jnp.log(jnp.arange(self.alpha.shape[-1] - 1, 0, -1))

    def coordinate_of(self, value: Array) -> Float[Array, "..."]:
        left = jnp.flip(jnp.cumsum(jnp.flip(value, -1), -1), -1)
        return jnp.log(value[..., :-1]) - jnp.log(left[..., 1:]) + self._shifts()

    def log_density(self, coordinate: Float[Array, "..."]) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        log_odds = coordinate - self._shifts()
        log_broken, log_left = log_sigmoid(log_odds), log_sigmoid(-log_odds)
        edge = [(0, 0)] * (coordinate.ndim - 1)
        log_probs = jnp.pad(log_broken, [*edge, (0, 1)]) + jnp.pad(jnp.cumsum(log_left, -1), [*edge, (1, 0)])
        constant = gammaln(self.alpha.sum(-1)) - gammaln(self.alpha).sum(-1)
        return ((self.alpha - 1) * log_probs).sum(-1) + constant, log_probs[..., :-1] + log_left


class _Gamma(_WithPoles):
    """The coordinate is the logarithm. Its right tail falls ever faster."""

    def __init__(self, prior: dist.Gamma) -> None:
        self.shape, self.rate = prior.concentration, prior.rate
        self.decay = self.shape, jnp.inf

    def coordinate_of(self, value: Array) -> Float[Array, "..."]:
        return jnp.log(value)

    def log_density(self, coordinate: Float[Array, "..."]) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        constant = self.shape * jnp.log(self.rate) - gammaln(self.shape)
        return (self.shape - 1) * coordinate - self.rate * jnp.exp(coordinate) + constant, coordinate


_WITH_POLES: dict[type[dist.Distribution], type[_WithPoles]] = {
    dist.Beta: _Beta,
    dist.Dirichlet: _Dirichlet,
    dist.Gamma: _Gamma,
}


def _with_poles(distribution: dist.Distribution) -> _WithPoles | None:
    """A distribution with possible poles, in a coordinate that resolves them; None for others."""
    base = base_of(distribution)
    coordinates: Any = _WITH_POLES.get(type(base))
    return None if coordinates is None else coordinates(base)


def base_of(distribution: dist.Distribution) -> dist.Distribution:
    """The distribution that one is an array of."""
    while isinstance(distribution, Independent | ExpandedDistribution):
        distribution = distribution.base_dist
    return distribution


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """A program run at n rows with every site given.

    Attributes:
        latents: constrained values of the latent sites.
        deterministics: values of `numpyro.deterministic` sites outside the plate.
        log_priors: log prior density of each latent and factor.
        log_prior: their sum.
        log_jacobian: log-Jacobian from unconstrained to constrained latents (0 for those given by constrained values).
        at_pole: whether a latent is too near to a pole of its prior for floating point.
        label_log_probs: log probability of each row's label, or zeros.
        sites: the attribute sites and local latents.
        label: the label site, or None.
        axis: the instance axis among the batch axes (negative).
        observed: masks of the observed cells, for sites with missing ones.
        local_log_jacobian: log-Jacobian of the unconstrained local latents of each row (0 without them).
        latent_sites: the latent sites.
    """

    latents: dict[str, Array]
    deterministics: dict[str, Array]
    log_priors: dict[str, Float[Array, ""]]
    log_prior: Float[Array, ""]
    log_jacobian: Float[Array, ""]
    at_pole: Bool[Array, ""]
    label_log_probs: Float[Array, " n"]
    sites: dict[str, Message]
    label: Message | None
    axis: int
    observed: dict[str, Bool[Array, "..."]] = dataclasses.field(default_factory=dict)
    local_log_jacobian: Float[Array, "*n"] | float = 0.0
    latent_sites: dict[str, Message] = dataclasses.field(default_factory=dict)

    def conditional(self, name: str) -> Conditional | None:
        """Likelihood and parameters of a site's distributions; None where no likelihood is registered."""
        return read_conditional(self.sites[name]["fn"], self.axis)

    def compressed(self, name: str) -> Conditional:
        """Likelihood and parameters of a compressed site's distributions."""
        conditional = self.conditional(name)
        assert conditional is not None, f"no likelihood is registered for the distribution of {name!r}"
        return conditional

    def scale(self, name: str) -> float | Array | None:
        """The factor of `handlers.scale` at a site, or None."""
        return self.sites[name]["scale"]

    def row_log_probs(self, names: Collection[str]) -> dict[str, Float[Array, " n"]]:
        """Site -> log probability of the observed cells, or of the label, of each row."""
        return {
            name: by_row(log_prob(self.sites[name], self.observed.get(name)), self.axis)
            if name in self.sites
            else self.label_log_probs
            for name in names
        }


def by_row(log_probs: Float[Array, "..."], axis: int) -> Float[Array, " n"]:
    """Sums over the rows, whose axis this is among the batch axes."""
    position = log_probs.ndim + axis
    return jnp.moveaxis(log_probs, position, 0).reshape(log_probs.shape[position], -1).sum(-1)


def evaluate(
    program: Program,
    latents: Arrays,
    codes: Int[Array, " n"],
    attributes: Arrays | None = None,
    covariates: Arrays | None = None,
    *,
    unconstrained: Collection[str] = (),
    observed: Arrays | None = None,
    free_local: Arrays | None = None,
) -> Evaluation:
    """The program run with latents, labels and attributes given.

    Args:
        program: the program.
        latents: site -> value.
        codes: the labels.
        attributes: site -> (n, ...), local latents included; zeros by default, for distributions alone.
        covariates: name -> (n, ...); ones by default.
        unconstrained: names of the latents that are given by unconstrained values.
        observed: site -> mask of the observed cells, of the shape of its values, for sites with missing ones.
        free_local: continuous local latent -> its unconstrained values, (n, ...), in place of those in `attributes`.
    """
    structure, free, latent_names = program.structure, {n: latents[n] for n in unconstrained}, set(program.latents)
    masks = {name: structure.attribute[name].to_site(mask) for name, mask in (observed or {}).items()}
    local = {name: dict(structure.local)[name].to_site(values) for name, values in (free_local or {}).items()}
    trace = _sites_at(program, latents, codes, attributes or {}, covariates or {}, unconstrained, masks, local)
    jacobians = (
        biject_to(trace[name]["fn"].support).log_abs_det_jacobian(values, trace[name]["value"])
        for name, values in local.items()
    )
    priors = {
        name: _latent_value(message, free.get(name))
        for name, message in sample_sites(trace).items()
        if name in latent_names or is_factor(message)
    }
    label = None if structure.label is None else trace[structure.label]
    return Evaluation(
        latents={name: trace[name]["value"] for name in program.latents},
        deterministics={name: trace[name]["value"] for name in structure.deterministics},
        log_priors={name: prior.log_prob for name, prior in priors.items()},
        log_prior=sum((prior.log_prob for prior in priors.values()), start=jnp.zeros(())),
        log_jacobian=sum((prior.log_jacobian for prior in priors.values()), start=jnp.zeros(())),
        at_pole=jnp.asarray([prior.at_pole for prior in priors.values()]).any(),
        label_log_probs=jnp.zeros(len(codes)) if label is None else jnp.reshape(log_prob(label), (len(codes),)),
        sites={name: trace[name] for name in (*program.attributes, *program.local)},
        label=label,
        axis=structure.axis,
        observed=masks,
        local_log_jacobian=sum((by_row(jacobian, structure.axis) for jacobian in jacobians), start=0.0),
        latent_sites={name: trace[name] for name in program.latents},
    )


def evaluate_classes(
    program: Program, latents: Arrays, covariates: Arrays | None = None, *, unconstrained: Collection[str] = ()
) -> Evaluation:
    """The program run at its K classes, with the covariates of the first row."""
    num_classes = program.num_classes
    first = {name: jnp.repeat(values[:1], num_classes, 0) for name, values in (covariates or {}).items()}
    return evaluate(program, latents, jnp.arange(num_classes), None, first, unconstrained=unconstrained)


def unconstrain(program: Program, latents: Arrays) -> dict[str, Array]:
    """Unconstrained values of constrained latents, but of discrete ones."""
    trace = _sites_at(program, latents, jnp.arange(program.num_classes), {}, {}, (), {}, {})
    return {name: free_of(trace[name]["fn"], jnp.asarray(latents[name])) for name in program.continuous_latents}


def _sites_at(
    program: Program,
    latents: Arrays,
    codes: Int[Array, " n"],
    attributes: Arrays,
    covariates: Arrays,
    unconstrained: Collection[str],
    masks: Arrays,
    free_local: Arrays,
) -> Trace:
    structure, size = program.structure, len(codes)
    site_values = {name: _values_of(site, attributes.get(name), size) for name, site in structure.row_sites}
    if structure.label is not None:
        site_values[structure.label] = structure.label_values(codes)

    def choose(message: Message) -> Shaped[Array, "..."] | None:
        name = message["name"]
        if name in unconstrained:
            return at_free(message["fn"], latents[name]).value
        if name in free_local:
            return biject_to(message["fn"].support)(free_local[name])
        if name in masks:
            return with_possible_values(message["fn"], site_values[name], masks[name])
        return latents[name] if name in latents else site_values.get(name)

    examples = {name: covariates.get(name, ones) for name, ones in program.example_covariates(size).items()}
    trace = sites_of(program.function_as_made, size, examples, jax.random.key(0), choose)
    drawn = {name for name, message in sample_sites(trace).items() if not is_factor(message)}
    check_same_sites(drawn, {*program.latents, *site_values, *latents})
    return trace


def _values_of(site: Site, rows: Shaped[Array, "n ..."] | None, size: int) -> Shaped[Array, "..."]:
    """The value of an attribute site at these rows; zeros by default."""
    if rows is None:
        rows = jnp.zeros((size, *site.row_shape))
    return site.to_site(jnp.asarray(rows).astype(site.dtype))


def _latent_value(message: Message, free: Float[Array, "..."] | None) -> LatentValue:
    """The value of a latent site or a factor, scale honoured; `free` is its unconstrained value, if given."""
    if free is None:
        return LatentValue(message["value"], log_prob(message).sum(), jnp.zeros(()))
    latent = at_free(message["fn"], free, message["value"])
    scale = 1.0 if message["scale"] is None else message["scale"]
    scaled = scale * latent.log_prob if jnp.ndim(scale) == 0 else log_prob(message).sum()
    return latent._replace(log_prob=scaled)
