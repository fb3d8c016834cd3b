"""The structure of a program: its sites, its plan, and `Program`, the program as computations see it, a JAX pytree."""

import abc
import dataclasses
import functools
import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Self, TypeAlias

import jax.numpy as jnp
import numpy as np
from numpyro.distributions.transforms import Transform

from bayesgen.data import Covariate, Rows
from bayesgen.runtime import Traced, in_float64
from bayesgen.statistics import Likelihood
from bayesgen.typing import Array, Float, Int, Shaped

from .fingerprint import FunctionContent
from .integration import num_points
from .messages import InPrediction, arguments_of


@dataclasses.dataclass(frozen=True)
class TimeSteps:
    """The time steps of a site whose events are sequences, the first axis of the event, of any length.

    Attributes:
        most: largest number of time steps; None where there is no limit, or it depends on covariates.
        of_symbols: whether values are codes of symbols, or numbers.
        symbols: the symbols of the codes, or None.
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
        event_axes: number of last axes that form one event, whose cells are missing together or not at all.
        steps: the time steps of sequences; None for other events.
        values: of a cell of a discrete latent of the row; None for other sites.
        free_event: the event shape of the unconstrained value of a continuous latent of the row; None for other sites.
    """

    batch_shape: tuple[int, ...]
    event_shape: tuple[int, ...]
    axis: int
    discrete: bool
    event_axes: int = 0
    steps: TimeSteps | None = None
    values: range | None = None
    free_event: tuple[int, ...] | None = None

    @property
    def position(self) -> int:
        """The instance axis among all axes (nonnegative)."""
        return len(self.batch_shape) + self.axis

    @property
    def row_shape(self) -> tuple[int, ...]:
        """Shape of one row, the instance axis removed."""
        return (*self._batch_of_row, *self.event_shape)

    @property
    def free_row_shape(self) -> tuple[int, ...]:
        """Shape of the unconstrained value of one row."""
        return (*self._batch_of_row, *(self.free_event or ()))

    @property
    def _batch_of_row(self) -> tuple[int, ...]:
        return self.batch_shape[: self.position] + self.batch_shape[self.position + 1 :]

    @property
    def step_axis(self) -> int:
        """The time axis of sequences, the rows being axis 0."""
        return 1 + len(self.row_shape) - len(self.event_shape)

    @property
    def dtype(self) -> np.dtype:
        """The dtype of values given to programs: with int32, log-gammas would be computed in float32."""
        return jnp.result_type(int if self.discrete else float)

    def to_site(self, rows: Shaped[Array, "n ..."]) -> Shaped[Array, "..."]:
        """Rows, or a mask of them, with the axes in the order of the site."""
        return jnp.moveaxis(jnp.asarray(rows), 0, self.position)

    def from_site(self, values: Shaped[Array, "..."]) -> Shaped[Array, "n ..."]:
        """Values of the site with the rows first."""
        return jnp.moveaxis(jnp.asarray(values), self.position, 0)

    def rows_of(self, cells: Shaped[np.ndarray, "..."], rows_first: bool) -> Shaped[np.ndarray, "n ..."]:
        """Cells with the rows first, given so or in the order of the site: `rows_first` decides where both fit."""
        if cells.ndim != len(self.row_shape) + 1:
            return cells
        moved = np.moveaxis(cells, self.position, 0)
        is_first, is_of_site = (array.shape[1:] == self.row_shape for array in (cells, moved))
        return cells if is_first and (rows_first or not is_of_site) else moved


@dataclasses.dataclass(frozen=True)
class FiniteSite:
    """The name and shape of a discrete latent, and the values that each of its entries may have."""

    name: str
    shape: tuple[int, ...]
    values: range


def joint_values(sites: Sequence[FiniteSite]) -> dict[str, Int[np.ndarray, "J ..."]]:
    """Discrete latent -> its value in each of the joint values of all of them."""
    sizes = [len(site.values) for site in sites for _ in range(math.prod(site.shape))]
    cells = iter(np.unravel_index(np.arange(math.prod(sizes)), sizes) if sizes else ())
    by_entry = {site: [next(cells) for _ in range(math.prod(site.shape))] for site in sites}
    return {s.name: s.values.start + np.stack(by_entry[s], axis=1).reshape(-1, *s.shape) for s in sites}


@dataclasses.dataclass(frozen=True)
class Structure:
    """The sites of a program, in the order of its statements. Hashable.

    Attributes:
        plate: name of the instance plate.
        axis: the instance axis among the batch axes (negative).
        label: name of the label site, or None.
        attributes: (site, its shape).
        latents: (site, the shape of its unconstrained value).
        deterministics: names of the deterministic sites whose shape does not follow the number of rows.
        row_deterministics: (deterministic site, its axis of rows) of those with a value for each row.
        covariates: (name, shape and dtype).
        local: (site, its shape) of the latents of each row.
        counts_partly: whether a scale, a mask or censoring says how much of rows counts in training.
        finite: the discrete latents that all rows share; `latents` are the continuous ones.
        has_normal_rows: whether the one continuous latent of each row is normal given all else, as `WithRowLatents` has
            proven.
    """

    plate: str
    axis: int
    label: str | None
    attributes: tuple[tuple[str, Site], ...]
    latents: tuple[tuple[str, tuple[int, ...]], ...]
    deterministics: tuple[str, ...]
    covariates: tuple[tuple[str, Covariate], ...]
    local: tuple[tuple[str, Site], ...] = ()
    counts_partly: bool = False
    row_deterministics: tuple[tuple[str, int], ...] = ()
    finite: tuple[FiniteSite, ...] = ()
    has_normal_rows: bool = False

    @functools.cached_property
    def finite_values(self) -> dict[str, Int[np.ndarray, "J ..."]]:
        """Discrete latent that all rows share -> its value in each of their joint values."""
        return joint_values(self.finite)

    @property
    def num_finite(self) -> int:
        """The number of their joint values; 1 where there are none."""
        return math.prod(len(site.values) ** math.prod(site.shape) for site in self.finite)

    @property
    def num_joint_values(self) -> int:
        """The number of joint values of the discrete local latents of a row; 1 where there are none."""
        return math.prod(len(site.values) ** math.prod(site.row_shape) for _, site in self.local if site.values)

    @property
    def continuous_local(self) -> tuple[tuple[str, Site], ...]:
        """(site, its shape) of the continuous latents of each row."""
        return tuple((name, site) for name, site in self.local if site.free_event is not None)

    @property
    def num_free_local(self) -> int:
        """The number of unconstrained coordinates of the continuous latents of a row."""
        return sum(math.prod(site.free_row_shape) for _, site in self.continuous_local)

    def free_local(self, vectors: Float[Array, "n D"]) -> dict[str, Float[Array, "n ..."]]:
        """Continuous local latent -> its unconstrained values, from the vectors that hold all of a row."""
        return by_name([(name, site.free_row_shape) for name, site in self.continuous_local], vectors)

    def joint_values(self) -> dict[str, Int[np.ndarray, "J ..."]]:
        """Discrete local latent -> its value in each of their joint values."""
        return joint_values([FiniteSite(name, s.row_shape, s.values) for name, s in self.local if s.values])

    @property
    def row_sites(self) -> tuple[tuple[str, Site], ...]:
        """(site, its shape) of the attributes and local latents."""
        return self.attributes + self.local

    @property
    def attribute(self) -> dict[str, Site]:
        """Attribute sites by name."""
        return dict(self.attributes)

    def label_values(self, codes: Int[Array, " n"]) -> Int[Array, "..."]:
        """Codes shaped to the instance plate's axis."""
        return jnp.reshape(codes, (-1, *(1,) * (-1 - self.axis)))


@dataclasses.dataclass(frozen=True)
class Plan:
    """How the likelihood of each attribute site is evaluated. Hashable: compiled functions are keyed by it.

    Attributes:
        compressed: (site, likelihood) for the sites with sufficient statistics.
        rowwise: names of the sites that are evaluated row by row: attributes, a label that depends on the row, and
            local latents.
        reasons: (site, why it is not compressed).
        row_parameters: names of the compressed sites that have row parameters, see `statistics.register`.
        dependences: (site, the other attributes that enter its distribution), for the sites that have any.
        row_statistics: (deterministic site, sites of rows that enter it), for those of the structure that depend on
            the rows, such as an average over them.
    """

    compressed: tuple[tuple[str, Likelihood], ...]
    rowwise: tuple[str, ...] = ()
    reasons: tuple[tuple[str, str], ...] = ()
    row_parameters: tuple[str, ...] = ()
    dependences: tuple[tuple[str, tuple[str, ...]], ...] = ()
    row_statistics: tuple[tuple[str, tuple[str, ...]], ...] = ()


Arrays: TypeAlias = Mapping[str, Array]  # values by the name of a site or of a covariate


def by_name(shapes: Iterable[tuple[str, tuple[int, ...]]], vector: Shaped[Array, "*draws D"]) -> dict[str, Array]:
    """Latent -> its value, from the vector that holds all entries; draws may come first."""
    values, start = dict[str, Array](), 0
    for name, shape in shapes:
        stop = start + math.prod(shape)
        values[name], start = vector[..., start:stop].reshape((*vector.shape[:-1], *shape)), stop
    return values


BLOCK = 16  # draws of arbitrary latents, at which means are evaluated together


class Means(NamedTuple):
    """Means of a normal site, functions of rows.

    Attributes:
        at_arbitrary: at so many arbitrary latents.
        at_others: at latents of which most are zero, and at some about the means of the prior.
    """

    at_arbitrary: Callable[[Rows, int], Float[np.ndarray, "n draws ..."]]
    at_others: Callable[[Rows], Float[np.ndarray, "n draws ..."]]


class PytreeFunction(abc.ABC):
    """A program function whose constants (hyperparameters) are the leaves of a JAX pytree.

    Such constants are arguments of compiled functions: other hyperparameters compile nothing anew.
    """

    @property
    def covariates(self) -> tuple[str, ...]:
        """Names of the covariates that it takes."""
        return ()

    @property
    def coordinates(self) -> dict[str, tuple[str, Transform]]:
        """Sites in other coordinates than their parameters: see `Program`."""
        return {}

    def reparametrised(self, parameters: Mapping[str, Array]) -> Self:
        """The function with latents in coordinates adapted to these parameters, for samplers."""
        return self

    @abc.abstractmethod
    def __call__(self, n: int, **covariates: Array) -> object: ...


class Program(abc.ABC):
    """A NumPyro function that makes instances: latents, then a plate of rows with their labels and attributes.

    This is all that computations ask of a program. How sites, plan and indexes are found is said in the rooms above.

    Attributes:
        function: `function(n, **covariates)`.
        label: name of the label site, or None for a program without classes.
        classes: the labels in the order of the label site's values; none for a program without classes.
        response_site: name of the site of a continuous label, which is one of the attributes; None without one.
        local: names of the latents of each row, which the data do not have.
        known_covariates: (name, shape and dtype), as seen in data; None before any data are seen.
        in_prediction: whether rows have the densities of their values themselves, see `InPrediction`.
    """

    function: Callable[..., object]
    label: str | None
    classes: tuple[Hashable, ...]
    response_site: str | None
    local: tuple[str, ...]
    known_covariates: tuple[tuple[str, Covariate], ...] | None
    in_prediction: bool

    @property
    @abc.abstractmethod
    def structure(self) -> Structure:
        """Its sites, found by tracing."""

    @property
    @abc.abstractmethod
    def plan(self) -> Plan:
        """Which attribute sites are compressed into sufficient statistics, and why the others are not."""

    @abc.abstractmethod
    def check_indexes(self, covariates: Arrays) -> None:
        """Refuse covariates that make an index lie outside its axis, naming them and the first such row."""

    @abc.abstractmethod
    def check_values(self, rows: Rows) -> None:
        """Refuse values outside the support of their site, naming the site and the first such row."""

    @abc.abstractmethod
    def separable_means(self, site: str, num_rows: int) -> Means | None:
        """Means of a normal site of so many rows, which are sums of products; None where they are not."""

    @abc.abstractmethod
    def replace(self, **values: Any) -> Self:
        """An unchecked copy with some attributes replaced; what is known of the program is found anew unless given."""

    @abc.abstractmethod
    def for_covariates(self, columns: Mapping[str, Covariate]) -> Self:
        """The program of covariates of these shapes and dtypes."""

    @property
    def coordinates(self) -> dict[str, tuple[str, Transform]]:
        """Site in other coordinates than its parameter -> (the parameter, the map from the parameter to the site)."""
        return self.function.coordinates if isinstance(self.function, PytreeFunction) else {}

    @functools.cached_property
    def content(self) -> FunctionContent | None:
        """The function's content when the program was made; None for programs of the library, which are pytrees."""
        return None if isinstance(self.function, PytreeFunction) else FunctionContent.of(self.function)

    @property
    def function_as_made(self) -> Callable[..., object]:
        """The function that is run: one with the content that the program was made with."""
        function = self.function if self.content is None else self.content.function
        return InPrediction(function) if self.in_prediction else function

    @functools.cached_property
    def for_prediction(self) -> Self:
        """The program with the densities of the values of rows themselves: see `InPrediction`."""
        return self.replace(in_prediction=True) if self.structure.counts_partly else self

    @property
    def owner(self) -> FunctionContent | None:
        """The content of the function, whose lifetime compiled functions have; None where programs share them."""
        return self.content

    @property
    def num_classes(self) -> int:
        """K; 1 for a program without classes."""
        return max(1, len(self.classes))

    @property
    def attributes(self) -> tuple[str, ...]:
        """Names of the attribute sites."""
        return tuple(name for name, _ in self.structure.attributes)

    @property
    def row_sites(self) -> tuple[str, ...]:
        """Names of the sites with a value for each row: attributes, the label of classes, local latents."""
        return (*self.attributes, *(() if self.label is None else (self.label,)), *self.local)

    @property
    def row_statistics(self) -> tuple[str, ...]:
        """Names of the deterministic sites that depend on the rows, all together."""
        return tuple(name for name, _ in self.plan.row_statistics) if self.structure.deterministics else ()

    @property
    def num_cases(self) -> int:
        """The number of classes, times joint values or points of the local latents: evaluations of a row."""
        structure = self.structure
        points = 1 if structure.has_normal_rows else num_points(structure.num_free_local)
        return self.num_classes * structure.num_joint_values * points

    @property
    def hides_states(self) -> bool:
        """Whether rows have discrete latents, or sequences hidden states, whose values may be swapped."""
        return self.structure.num_joint_values > 1 or any(
            likelihood.has_symmetries for _, likelihood in self.plan.compressed
        )

    @property
    def latents(self) -> tuple[str, ...]:
        """Names of the latent sites."""
        return (*self.continuous_latents, *(site.name for site in self.structure.finite))

    @property
    def continuous_latents(self) -> tuple[str, ...]:
        """Names of the continuous latent sites."""
        return tuple(name for name, _ in self.structure.latents)

    @property
    def observed_deterministics(self) -> tuple[str, ...]:
        """Deterministic sites that are computed from observed arguments, as `from_model` finds them."""
        return getattr(self.function, "observed_deterministics", ())

    @property
    def rows_first(self) -> bool:
        """Whether data have the rows first, wherever the sites have them, as `from_model` reads them."""
        return getattr(self.function, "rows_first", False)

    @property
    def covariates(self) -> tuple[str, ...]:
        """Names of the covariates: the keyword-only arguments of the function."""
        if hasattr(self.function, "covariates"):
            return tuple(self.function.covariates)
        arguments = arguments_of(self.function)
        return tuple(argument.name for argument in arguments if argument.kind is argument.KEYWORD_ONLY)

    @property
    def covariate_columns(self) -> dict[str, Covariate]:
        """Covariate -> shape and dtype; one real number a row where these are not known yet."""
        columns = dict(self.known_covariates or ())
        return {name: columns.get(name, Covariate()) for name in self.covariates}

    def example_covariates(self, size: int) -> dict[str, Shaped[Array, "n ..."]]:
        """Covariates of ones, for runs in which their values do not matter."""
        return {name: jnp.asarray(np.ones((size, *c.row_shape), c.dtype)) for name, c in self.structure.covariates}

    def log_coordinate_jacobian(self, latents: Arrays) -> Float[Array, ""]:
        """Log determinant of d parameters / d these sites: 0 unless one has other coordinates than its parameter."""
        pairs = ((latents[site], transform) for site, (_, transform) in self.coordinates.items() if site in latents)
        terms = (jnp.sum(transform.log_abs_det_jacobian(transform.inv(value), value)) for value, transform in pairs)
        return -sum(terms, start=jnp.zeros(()))

    def parameters_of(self, latents: Arrays) -> dict[str, np.ndarray]:
        """Parameters, such as covariances, from latents, such as Cholesky factors; with any leading axes."""
        return _converted(latents, {site: [(name, t.inv)] for site, (name, t) in self.coordinates.items()})

    def latents_of(self, parameters: Arrays) -> dict[str, np.ndarray]:
        """The inverse of `parameters_of`."""
        sites: dict[str, list[tuple[str, Transform]]] = {}
        for site, (name, transform) in self.coordinates.items():
            sites.setdefault(name, []).append((site, transform))
        return _converted(parameters, sites)


@in_float64
def _converted(values: Arrays, table: Mapping[str, list[tuple[str, Transform]]]) -> dict[str, np.ndarray]:
    converted = {}
    for name, value in values.items():
        for new_name, transform in table.get(name, [(name, None)]):
            if transform is None:
                converted[new_name] = np.asarray(value)
            elif new_name not in values:  # deterministic sites need no transforming
                converted[new_name] = np.asarray(
                    Traced.of(functools.partial(transform), np.asarray(value))(np.asarray(value))
                )
    return converted
