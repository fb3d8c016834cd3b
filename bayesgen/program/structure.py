"""What a program consists of: its sites, and how each of them meets the data."""

import abc
import dataclasses
import functools
from collections.abc import Callable, Hashable, Mapping
from typing import Any, Self, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.distributions.constraints import Constraint
from numpyro.distributions.transforms import Transform

from bayesgen.data import Covariate
from bayesgen.statistics import Likelihood
from bayesgen.typing import Array, Bool, Float, Int, Shaped

from .conventions import arguments_of
from .pytree import Definition, PytreeFunction


@dataclasses.dataclass(frozen=True)
class StepsOfSite:
    """The steps of a site whose events are sequences: the first axis of its event, of which any length is taken.

    Attributes:
        most: how many steps a sequence may have; None where that is any number, or not known without
            covariates.
        of_symbols: whether steps are codes of symbols, or numbers.
        symbols: what the codes stand for, or None.
        are_several: whether a row has several sequences.
    """

    most: int | None
    of_symbols: bool
    symbols: tuple[Hashable, ...] | None = None
    are_several: bool = False


@dataclasses.dataclass(frozen=True)
class Site:
    """The shape of one site of a row.

    Attributes:
        batch_shape: the site's batch shape, with 0 in place of the number of rows.
        event_shape: the shape of its event.
        axis: the instance axis among the batch axes (negative).
        discrete: whether the support is discrete.
        whole_axes: how many of the last axes are one event, of which no part may be missing.
        steps: of sequences; None where events are none.
    """

    batch_shape: tuple[int, ...]
    event_shape: tuple[int, ...]
    axis: int
    discrete: bool
    whole_axes: int = 0
    steps: StepsOfSite | None = None

    @property
    def position(self) -> int:
        """The instance axis among all axes (nonnegative)."""
        return len(self.batch_shape) + self.axis

    @property
    def row_shape(self) -> tuple[int, ...]:
        """Shape of one row, the instance axis removed."""
        batch = list(self.batch_shape)
        del batch[self.position]
        return (*batch, *self.event_shape)

    @property
    def step_axis(self) -> int:
        """The axis of the steps of sequences among those of rows, of which the first is that of the rows."""
        return 1 + len(self.row_shape) - len(self.event_shape)

    @property
    def dtype(self) -> np.dtype:
        """The dtype of values that programs are given; logs of gammas of int32 would be computed in float32."""
        return jnp.result_type(int if self.discrete else float)

    def to_site(self, rows: Shaped[Array, "n ..."]) -> Shaped[Array, "..."]:
        """Rows in the order of axes of the site."""
        return jnp.moveaxis(jnp.asarray(rows), 0, self.position)

    def mask_of_site(self, observed: Bool[Array, "n ..."]) -> Bool[Array, "..."]:
        """The mask of rows in the order of axes of the site."""
        return jnp.moveaxis(jnp.asarray(observed), 0, self.position)

    def from_site(self, values: Shaped[Array, "..."]) -> Shaped[Array, "n ..."]:
        """Values in the site's order of axes as rows."""
        return jnp.moveaxis(jnp.asarray(values), self.position, 0)


@dataclasses.dataclass(frozen=True)
class Structure:
    """What a program consists of, in the order of its statements. Hashable.

    Attributes:
        plate: name of the instance plate.
        axis: the instance axis among the batch axes (negative).
        label: name of the label site, or None.
        attributes: (site, its shape).
        latents: (site, the shape of its unconstrained value).
        deterministics: names of the deterministic sites that have no entry for each row.
        covariates: (name, what is known of it).
    """

    plate: str
    axis: int
    label: str | None
    attributes: tuple[tuple[str, Site], ...]
    latents: tuple[tuple[str, tuple[int, ...]], ...]
    deterministics: tuple[str, ...]
    covariates: tuple[tuple[str, Covariate], ...]

    @property
    def attribute(self) -> dict[str, Site]:
        """Attribute sites by name."""
        return dict(self.attributes)

    def label_values(self, codes: Int[Array, " n"]) -> Int[Array, "..."]:
        """Codes shaped to the instance plate's axis."""
        return jnp.reshape(codes, (-1, *(1,) * (-1 - self.axis)))


@dataclasses.dataclass(frozen=True)
class Plan:
    """How each attribute site meets the data. Hashable: it is part of what compiled functions are keyed by.

    Attributes:
        compressed: (site, likelihood) for the sites that go through summaries.
        rowwise: names of the sites that are evaluated row by row.
        reasons: (site, why it is not compressed).
        measure: names of the compressed sites whose base measure has parameters of its own.
        dependences: (site, the other attributes that enter its distribution), for the sites that have any.
    """

    compressed: tuple[tuple[str, Likelihood], ...]
    rowwise: tuple[str, ...] = ()
    reasons: tuple[tuple[str, str], ...] = ()
    measure: tuple[str, ...] = ()
    dependences: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclasses.dataclass(frozen=True)
class Index:
    """An index into an axis, which follows from the covariates of a row.

    Attributes:
        covariates: the names of those that it follows from.
        size: the number of entries along the axis.
    """

    covariates: tuple[str, ...]
    size: int


@dataclasses.dataclass(frozen=True)
class Indexes:
    """What a program indexes by covariates.

    Attributes:
        known: the indexes that follow from the covariates of a row.
        others: the names of the whole-number covariates that enter other indexes, of which more than a row's
            covariates tells the entries: values of attributes, latents, the steps of a loop.
    """

    known: tuple[Index, ...] = ()
    others: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Supports:
    """What is known, without the latents, of the values that attribute sites can take.

    Attributes:
        fixed: site -> its support, where that is the same for every row.
        by_row: discrete sites whose support comes of running the program at the row, such as a binomial's.
        by_class: those of them whose support differs between the classes.
    """

    fixed: dict[str, Constraint]
    by_row: tuple[str, ...]
    by_class: tuple[str, ...]


# A program as computations see it: a function, and what is found out about it.

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
