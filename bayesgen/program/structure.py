"""What a program consists of: its sites, found by running it."""

import dataclasses
import inspect

import jax.numpy as jnp
from numpyro.distributions.transforms import biject_to

from bayesgen.errors import ModelError

from .arbitrary import run_abstractly
from .conventions import check_label, check_same_sites, check_signature, check_sites, missing_label
from .messages import in_plate, samples

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
    check_same_sites(samples(first), samples(second))
    plate, axis = _instance_plate(first, second)
    check_sites(first, plate, label)
    drawn = samples(first)
    inside = {name: site for name, site in drawn.items() if in_plate(site, plate)}
    if label is not None:
        if label not in inside:
            raise ModelError(missing_label(label, first, plate))
        check_label(inside[label], num_classes, plate, axis)
    attributes = {name: _site(name, site, axis) for name, site in inside.items() if name != label}
    if not attributes:
        raise ModelError(f"The program has no attribute site in its plate {plate!r}: sample at least one there.")
    latents = {name: site for name, site in drawn.items() if name not in inside and not site["is_observed"]}
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


def _is_of_no_row(site, at_other_size, plate):
    """Whether a site is deterministic and not one with an entry for each row."""
    if site["type"] != "deterministic" or in_plate(site, plate):
        return False
    return jnp.shape(site["value"]) == jnp.shape(at_other_size["value"])


def _site(name, site, axis):
    fn = site["fn"]
    batch = list(fn.batch_shape)
    if len(batch) < -axis:
        raise ModelError(f"The attribute {name!r} does not reach the axis {axis} of the instance plate.")
    batch[len(batch) + axis] = 0
    return Site(tuple(batch), tuple(fn.event_shape), axis, bool(site["support"].is_discrete))


def _free_shape(site):
    return tuple(biject_to(site["support"]).inverse_shape(tuple(jnp.shape(site["value"]))))
