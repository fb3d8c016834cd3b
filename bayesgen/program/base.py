"""A program as computations see it: a function, and what is found out about it."""

import abc
import functools
from collections.abc import Callable, Hashable, Mapping
from typing import Any, Self, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.distributions.transforms import Transform

from bayesgen.data import Covariate
from bayesgen.typing import Array, Float, Shaped

from .conventions import arguments_of
from .pytree import Definition, PytreeFunction
from .structure import Indexes, Plan, Structure, Supports

Arrays: TypeAlias = Mapping[str, Array]  # values by the name of a site or of a covariate


class Program(abc.ABC):
    """A NumPyro function that makes instances: latents, then a plate of rows with their labels and attributes.

    There is one kind, `GenerativeProgram`, which finds out what is stated here.

    Attributes:
        function: `function(n, **covariates)`.
        label: name of the label site, or None for a program without classes.
        classes: the labels in the order of the label site's values; none for a program without classes.
        response_site: name of the site of a continuous label, which is one of the attributes; None without one.
        known_covariates: (name, what is known of it), as data have shown them; None before any data are seen.
    """

    function: Callable[..., Any]
    label: str | None
    classes: tuple[Hashable, ...]
    response_site: str | None
    known_covariates: tuple[tuple[str, Covariate], ...] | None

    @property
    @abc.abstractmethod
    def structure(self) -> Structure:
        """Its sites, found by tracing."""

    @property
    @abc.abstractmethod
    def plan(self) -> Plan:
        """Which attribute sites are compressed into sufficient statistics, and why the others are not."""

    @property
    @abc.abstractmethod
    def supports(self) -> Supports:
        """What is known, without the latents, of the values that attributes can take."""

    @property
    @abc.abstractmethod
    def indexes(self) -> Indexes:
        """What it indexes by covariates."""

    @abc.abstractmethod
    def of_covariates(self, columns: Mapping[str, Covariate]) -> Self:
        """The program of covariates of these shapes and dtypes."""

    @property
    def coordinates(self) -> dict[str, tuple[str, Transform]]:
        """Site -> (the parameter that it stands for in other coordinates, the map from it to the site)."""
        return self.function.coordinates if isinstance(self.function, PytreeFunction) else {}

    @functools.cached_property
    def definition(self) -> Definition | None:
        """What the function did when the program was made; None for those of the library, which are pytrees."""
        return None if isinstance(self.function, PytreeFunction) else Definition.of(self.function)

    @property
    def unchanged_function(self) -> Callable[..., Any]:
        """A function that does what the program's did when the program was made: what is run."""
        return self.function if self.definition is None else self.definition.function

    @property
    def owner(self) -> Definition | None:
        """The definition, which compiled functions live as long as; None where all programs share them."""
        return self.definition

    @property
    def num_classes(self) -> int:
        """K; 1 for a program without classes."""
        return max(1, len(self.classes))

    @property
    def attributes(self) -> tuple[str, ...]:
        """Names of the attribute sites."""
        return tuple(name for name, _ in self.structure.attributes)

    @property
    def latents(self) -> tuple[str, ...]:
        """Names of the latent sites."""
        return tuple(name for name, _ in self.structure.latents)

    @property
    def covariates(self) -> tuple[str, ...]:
        """Names of the covariates: the keyword-only arguments of the function."""
        if hasattr(self.function, "covariates"):
            return tuple(self.function.covariates)
        arguments = arguments_of(self.function)
        return tuple(argument.name for argument in arguments if argument.kind is argument.KEYWORD_ONLY)

    @property
    def covariate_columns(self) -> dict[str, Covariate]:
        """What is known of the covariates."""
        known = dict(self.known_covariates or ())
        return {name: known.get(name, Covariate()) for name in self.covariates}

    def example_covariates(self, size: int) -> dict[str, Shaped[Array, "n ..."]]:
        """Covariates to run the program with where their values do not matter: ones."""
        return {name: jnp.ones((size, *c.row_shape), c.dtype) for name, c in self.structure.covariates}

    def log_coordinate_jacobian(self, latents: Arrays) -> Float[Array, ""]:
        """Log |d parameters -> d sites|: 0 unless a site stands for a parameter in other coordinates."""
        total = jnp.zeros(())
        for site, (_, transform) in self.coordinates.items():
            value = latents[site]
            total = total + jnp.sum(transform.log_abs_det_jacobian(transform.inv(value), value))
        return -total

    def parameters_of(self, latents: Arrays) -> dict[str, np.ndarray]:
        """Latents in the coordinates that are reported: name -> array (any leading axes)."""
        return _converted(latents, {site: [(name, t.inv)] for site, (name, t) in self.coordinates.items()})

    def latents_of(self, parameters: Arrays) -> dict[str, np.ndarray]:
        """The inverse of `parameters_of`."""
        sites: dict[str, list[tuple[str, Transform]]] = {}
        for site, (name, transform) in self.coordinates.items():
            sites.setdefault(name, []).append((site, transform))
        return _converted(parameters, sites)


def _converted(values: Arrays, table: Mapping[str, list[tuple[str, Transform]]]) -> dict[str, np.ndarray]:
    converted = {}
    with jax.enable_x64(True):
        for name, value in values.items():
            for new_name, transform in table.get(name, [(name, None)]):
                if transform is None:
                    converted[new_name] = np.asarray(value)
                elif new_name not in values:  # deterministic sites need no transforming
                    converted[new_name] = np.asarray(transform(jnp.asarray(value)))
    return converted
