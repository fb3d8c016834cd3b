"""`IntrospectedProgram`: a program whose sites, plan and supports are found by tracing its function.

Its instances are generated in many worlds at once, compiled once for a number of rows.
"""

import dataclasses
import functools
import sys
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from numpyro import handlers
from numpyro.distributions.constraints import Constraint, is_dependent

from bayesgen.data import Covariate, Rows, Table, category_array, covariate_values
from bayesgen.describe import quote_some
from bayesgen.errors import DataError, ModelError, check_integer
from bayesgen.program import (
    AnyProgram,
    Arrays,
    Elimination,
    Means,
    Plan,
    Program,
    PytreeFunction,
    Site,
    Structure,
    cached_by_structure,
    covariate_cells,
    evaluate_classes,
    simulated,
    sites_of,
    with_covariates,
)
from bayesgen.recognition import (
    ClosedForm,
    Finding,
    Introspection,
    check_values,
    continuous_label,
    latents_before_failure,
)
from bayesgen.records import content_hash, copied, record, state_of_fields
from bayesgen.runtime import FAST_TO_COMPILE, OwnedJit, Traced, as_key, in_float64
from bayesgen.typing import Array, Bool, PRNGKeyArray, Seed, Shaped

from .model_arguments import own_array

if TYPE_CHECKING:
    import pandas as pd

NEEDS_CLASSES = (
    "GenerativeProgram needs classes=: the labels in order, or their number. (A label whose values are real numbers, "
    "or counts, needs none.)"
)


@dataclasses.dataclass(frozen=True, init=False, repr=False, eq=False)
class IntrospectedProgram(Program):
    """A program that finds out by tracing what `Program` promises, once for all programs of equal content."""

    function: Callable[..., object]
    label: str | None
    classes: tuple[Hashable, ...]
    response_site: str | None
    local: tuple[str, ...] = ()
    known_covariates: tuple[tuple[str, Covariate], ...] | None = dataclasses.field(default=None, compare=False)
    in_prediction: bool = False

    def __getstate__(self) -> dict[str, Any]:
        """The fields, which are pickled and copied. Structure and plan are found again."""
        fields = state_of_fields(self)
        return fields if self.content is None else fields | {"function": self.content}

    def __copy__(self) -> Self:
        return self.replace()

    @property
    def _key(self) -> Hashable:
        stated = self.label, self.classes, self.response_site, self.local, self.in_prediction
        return self.content or self.function, stated

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IntrospectedProgram) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def replace(self, **values: Any) -> Self:
        return copied(self, **({} if "function" in values else {"content": self.content}), **values)

    def reparametrised(self, parameters: Arrays) -> Self:
        """The program with latents in coordinates adapted to these parameters; itself where it has no others."""
        if not isinstance(self.function, PytreeFunction):
            return self
        function = self.function.reparametrised(parameters)
        if function is self.function:
            return self
        return self.replace(function=function, structure=self.structure, plan=self.plan)

    @property
    def awaits_covariates(self) -> bool:
        """Whether shapes and dtypes of the covariates are still to be learned from data."""
        return self.known_covariates is None and bool(self.covariates) and not isinstance(self.function, PytreeFunction)

    def for_covariates(self, columns: Mapping[str, Covariate]) -> Self:
        """The program of covariates of these shapes and dtypes, cached.

        Raises:
            DataError: covariates that the program cannot be run with.
            ModelError: a label of classes, where none were given.
        """
        if not self.covariates or isinstance(self.function, PytreeFunction):
            return self
        covariates = tuple({**self.covariate_columns, **columns}.items())
        if covariates == self.known_covariates:
            return self
        if covariates not in self._by_covariates:
            program = self.replace(known_covariates=covariates)
            if self.response_site is not None and continuous_label(program, self.response_site, None) is None:
                raise ModelError(NEEDS_CLASSES)
            self._by_covariates[covariates] = program
        return self._by_covariates[covariates]

    @functools.cached_property
    def _by_covariates(self) -> dict[tuple[tuple[str, Covariate], ...], Self]:
        return {}

    def for_table(self, table: Table, declared: Mapping[str, Covariate] | None = None) -> Self:
        """The program of the covariates of a table; declared shapes and dtypes win."""
        cells = covariate_cells(self, table)
        columns = {name: Covariate.of(covariate_values(name, values)) for name, values in cells.items()}
        return self.for_covariates({**columns, **(declared or {})})

    @functools.cached_property
    def introspection(self) -> Introspection:
        if self.awaits_covariates:
            return self.for_covariates(self.covariate_columns).introspection
        return cached_by_structure(self, Introspection)

    @functools.cached_property
    def structure(self) -> Structure:
        return self.introspection.structure

    @functools.cached_property
    def plan(self) -> Plan:
        if self.content is None:  # other hyperparameters may be of other likelihoods, such as those of histograms
            return Introspection(self).plan
        return self.introspection.plan

    @property
    def latent_supports(self) -> dict[str, Constraint]:
        """Latent site -> support of one entry of an event."""
        return self.introspection.latent_supports

    @property
    def class_axes(self) -> dict[str, int]:
        """Latent or deterministic site with an entry for each class -> its class axis."""
        return {} if self.label is None else self.introspection.class_axes

    @property
    def elimination(self) -> Elimination:
        """The latents that can be integrated out of the log density, given the others."""
        return self.introspection.elimination

    @property
    def learns_attributes(self) -> bool:
        """Whether the distributions of attributes depend on latents."""
        return self.introspection.attributes_depend_on_latents

    @property
    def closed_form(self) -> "pd.DataFrame":
        """A table of what is known of the posterior before any fit, with a line for each latent and what it enters.

        Columns are the latent, the attribute (or label) that it enters, the conjugate family that both are recognised
        as, and the reason where there is none. `Exact` fits programs whose latents all have a family. Where a program
        cannot be run before data show the shapes of its covariates, the reason says so.

        >>> import bayesgen, numpyro, numpyro.distributions as dist
        >>> def coin(n):
        ...     q = numpyro.sample("q", dist.Beta(1, 1))
        ...     with numpyro.plate("tosses", n):
        ...         numpyro.sample("heads", dist.Bernoulli(q))
        >>> bayesgen.GenerativeProgram(coin, label=None).closed_form["family"].tolist()
        ['BetaBernoulli']
        """
        import pandas as pd

        return pd.DataFrame(self._findings, columns=["latent", "attribute", "family", "reason"])

    @property
    def _findings(self) -> Iterable[Finding]:
        """What is found of the latents; where covariates wait for data, and it cannot be run without, that it is so."""
        try:
            return self._closed_form.findings
        except DataError:
            if not self.awaits_covariates:
                raise
        reason = (
            f"the shapes of the covariates {quote_some(self.covariates)} are not known yet: fit.program.closed_form "
            "says it once data are seen"
        )
        return [Finding(name, "", "", reason) for name in latents_before_failure(self)]

    @property
    def closed_in_words(self) -> str | None:
        """The latents with a closed form, each with its family, and others given which it has it; None without any."""
        closed = self._closed_form.closed
        words = {finding.latent: ", ".join(filter(None, (finding.family, finding.reason))) for finding in closed}
        return ", ".join(f"{latent} ({text})" for latent, text in words.items()) or None

    @functools.cached_property
    def _closed_form(self) -> ClosedForm:
        """Of a program of the library, hyperparameters are those of the program itself."""
        return (self.introspection if self.content is not None else Introspection(self)).closed_form

    def check_row_count(self, size: int) -> None:
        """Refuse a program whose distributions change with the number of rows. Those of the library do not."""
        if not isinstance(self.function, PytreeFunction):
            self.introspection.check_row_count(size)

    @property
    def unchecked_indexes(self) -> Sequence[str]:
        """Integer covariates that cannot be checked: they enter indexes together with latents, attributes or loops."""
        return self.introspection.indexes.unchecked if self.known_covariates else ()

    def check_indexes(self, covariates: Arrays) -> None:
        if self.known_covariates:
            self.introspection.indexes.check(covariates)

    def check_values(self, rows: Rows) -> None:
        check_values(self, self.introspection, rows)

    def separable_means(self, site: str, num_rows: int) -> Means | None:
        return self.introspection.separable_means(site, num_rows)

    @in_float64
    def class_conditionals(self, latents: Mapping[str, Any]) -> dict[str, dist.Distribution]:
        """Attribute -> its K class-conditional distributions, as one NumPyro distribution.

        The program is run at n = K with the label set to 0..K-1, so that the instance axis is the class axis.
        """

        def distributions(latents: Arrays) -> dict[str, dist.Distribution]:
            sites = evaluate_classes(self, latents).sites
            return {name: sites[name]["fn"] for name in self.attributes}

        latents = self.checked_latents(latents)
        return Traced.of(distributions, latents)(latents)

    def checked_latents(self, latents: Mapping[str, Any]) -> dict[str, Array]:
        """The latents as arrays. Latents without a value are refused: the program would draw them silently."""
        missing = [name for name in self.latents if name not in latents]
        if missing:
            raise DataError(f"The latents {missing} have no values. Give one for each of {list(self.latents)}.")
        return {name: np.asarray(value) for name, value in latents.items()}

    # --- instances that it generates ------------------------------------------------------------------------------

    def simulate(
        self, n: int, *, seed: Seed = 0, latents: Mapping[str, Any] | None = None, **covariates: Any
    ) -> dict[str, np.ndarray]:
        """n instances that the program generates.

        Args:
            n: number of rows.
            seed: integer seed or JAX key.
            latents: values of the latent sites; drawn from the prior where absent.
            covariates: name -> (n, ...), or one number for all rows.

        Returns:
            Site -> values: attributes and local latents (n at the instance plate's axis), covariates and the class
            labels.

        Raises:
            DataError: missing covariates, or covariates without one value a row.
        """
        program, values = _with_covariates_of_rows(self, n, covariates)
        one_world = {name: np.asarray(value)[None] for name, value in (latents or {}).items()}
        drawn = _draw_sites(program, n, as_key(seed)[None], one_world, values)
        rows = _rows_of_worlds(program, drawn, program.structure.row_sites, values)
        if self.label is not None:
            rows[self.label] = category_array(self.classes)[rows[self.label]]
        return rows

    def simulate_many(
        self, n: int, num_worlds: int, *, seed: Seed = 0, latents: Mapping[str, Any] | None = None, **covariates: Any
    ) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """n instances of each of many processes, in one compiled call.

        Args:
            n: number of rows of a process.
            num_worlds: number of processes.
            seed, covariates: as `simulate` takes them; covariates are those of every process.
            latents: latent site -> (worlds, ...); drawn from the prior where absent.

        Returns:
            Latent site -> (worlds, ...); and site -> the rows of all worlds, one world after another, labels as codes.
        """
        program, values = _with_covariates_of_rows(self, n, covariates)
        drawn = _draw_sites(program, n, jax.random.split(as_key(seed), num_worlds), latents or {}, values)
        rows = _rows_of_worlds(program, drawn, program.structure.attributes, values)
        return {name: drawn[name] for name in program.latents}, rows

    def generate(
        self, n: int, num_worlds: int, *, seed: Seed = 0, latents: Mapping[str, Any] | None = None, **covariates: Any
    ) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """All sites of n instances of each of many processes, as `numpyro.infer.Predictive` gives them.

        Args:
            n, num_worlds, seed, latents, covariates: as `simulate_many` takes them.

        Returns:
            Latent or deterministic site -> (worlds, ...); sites with a value for each row, deterministic ones too ->
            (worlds, n, ...), labels as codes.
        """
        program, values = _with_covariates_of_rows(self, n, covariates)
        drawn = _draw_sites(program, n, jax.random.split(as_key(seed), num_worlds), latents or {}, values)
        positions = {name: site.position for name, site in program.structure.row_sites}
        positions |= dict(program.structure.row_deterministics)
        sites = {name: np.moveaxis(drawn[name], position + 1, 1) for name, position in positions.items()}
        if self.label is not None:
            sites[self.label] = drawn[self.label].reshape(num_worlds, n)
        return {name: value for name, value in drawn.items() if name not in sites}, sites

    def fingerprint(self) -> dict[str, dict[str, str]]:
        """Digests that tell a program of one's own from others: of its sites, and of what its function reads, by name.

        Code is compared among programs that one version of Python has compiled.
        """
        read = {} if self.content is None else self.content.digests
        parts = {f"Python {sys.version_info.major}.{sys.version_info.minor}": read}
        if self.awaits_covariates:
            return parts
        sites = self.structure
        named = {**dict(sites.latents), **dict(sites.attributes), **dict(sites.local), **dict(sites.covariates)}
        return {"sites": {f"the site {name}": str(shape) for name, shape in named.items()}, **parts}


def _with_covariates_of_rows(
    program: AnyProgram, n: int, covariates: Mapping[str, Any]
) -> tuple[AnyProgram, dict[str, Shaped[Array, "n ..."]]]:
    """The program of covariates of n rows, and their values.

    Raises:
        DataError: missing covariates, or covariates without one value a row.
    """
    check_integer("n", n, 1, DataError)
    missing = [name for name in program.covariates if name not in covariates]
    if missing:
        arguments = ", ".join(f"{name}=..." for name in missing)
        raise DataError(f"The program computes with covariates that each row has: write simulate(n, {arguments}).")
    cells = {name: np.asarray(v) if np.ndim(v) else np.full(n, v) for name, v in covariates.items()}
    for name, value in cells.items():
        if value.shape[:1] != (n,):
            raise DataError(f"Covariate {name!r} has the shape {value.shape}, and {n} rows need one value each.")
    return with_covariates(program, cells)


@in_float64
def _draw_sites(
    program: Program, n: int, keys: PRNGKeyArray, latents: Mapping[str, Any], covariates: Mapping[str, Any]
) -> dict[str, Shaped[np.ndarray, "worlds ..."]]:
    """Site -> its values in some worlds, each with its key and, where given, its latents: in one compiled call.

    Covariates are compiled in. So one world that has any is run by itself: each new table would compile it again. So is
    one world whose parameters are not valid, as NumPyro refuses values only where they are no tracers, and one that
    cannot be compiled, as NumPyro bounds multinomial samples by the values of totals that are drawn.

    Raises:
        ModelError: a function that reads other numbers now than when the program was made.
    """
    latents, is_single = {name: np.asarray(value) for name, value in latents.items()}, len(keys) == 1
    _ = program.function_as_made  # compiled code would not notice that it has changed
    if not (is_single and covariates):
        bare = program.replace(structure=program.structure, plan=Plan(()))  # no density is needed, and so no plan
        try:
            drawn, is_valid = _worlds(bare, keys, latents, n=n, covariates=_Covariates.of(covariates))
            if not is_single or is_valid:
                return {name: np.asarray(value) for name, value in drawn.items()}
        except ValueError:
            if not is_single:
                raise
    first = {name: jnp.asarray(value[0]) for name, value in latents.items()}
    drawn, _ = _world(program, n, keys[0], first, covariates)
    return {name: np.asarray(value)[None] for name, value in drawn.items()}


def _world(
    program: Program, n: int, key: PRNGKeyArray, latents: Arrays, covariates: Mapping[str, Any]
) -> tuple[dict[str, Array], Bool[Array, ""]]:
    """Site -> its value in one run of the program; and whether the parameters of its distributions are valid."""
    trace = sites_of(handlers.substitute(program.function_as_made, data=latents), n, covariates, key)
    row_names = (*dict(program.structure.row_deterministics), *program.row_sites)
    names = (*program.latents, *program.structure.deterministics, *row_names)
    validities = _validities([site["fn"] for site in trace.values() if "fn" in site])
    return {name: trace[name]["value"] for name in names}, jnp.asarray(validities, bool).all()


def _validities(value: Any) -> list[Bool[Array, ""]]:
    """Whether each parameter is valid, of the distributions in a value and of those that they are made of."""
    if isinstance(value, list | tuple):
        return [is_valid for item in value for is_valid in _validities(item)]
    if not isinstance(value, dist.Distribution):
        return []
    constrained = ((value.arg_constraints[name], argument) for name, argument in value.get_args().items())
    checks = [jnp.all(constraint(argument)) for constraint, argument in constrained if not is_dependent(constraint)]
    return checks + _validities([*vars(value).values()])


@record
class _Covariates:
    """Covariates that are compiled in, as NumPyro bounds samples of counts and sequences by their values."""

    values: dict[str, Any]

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> "_Covariates":
        """Covariates as arrays of their own: see `bayesgen.generative.model_arguments.own_array`."""
        return cls({name: own_array(value) for name, value in values.items()})

    __hash__ = content_hash


@functools.partial(OwnedJit, static_argnames=("n", "covariates"), compiler_options=FAST_TO_COMPILE)
def _worlds(
    program: Program, keys: Any, latents: Arrays, *, n: int, covariates: _Covariates
) -> tuple[dict[str, Array], Bool[Array, ""]]:
    """The values of all sites of programs run with different keys and latents, (worlds, ...), and if all are valid."""
    drawn, is_valid = jax.vmap(lambda key, values: _world(program, n, key, values, covariates.values))(keys, latents)
    return drawn, jnp.asarray(is_valid).all()


def _rows_of_worlds(
    program: Program, drawn: Mapping[str, np.ndarray], sites: Iterable[tuple[str, Site]], covariates: Mapping[str, Any]
) -> dict[str, np.ndarray]:
    """Site or covariate -> the rows of all worlds, one world after another; labels as codes."""
    rows = {name: simulated(site, _joined(drawn[name], site), program.rows_first) for name, site in sites}
    num_worlds = len(next(iter(drawn.values())))
    rows |= {name: np.concatenate([value] * num_worlds) for name, value in covariates.items()}
    if program.label is not None:
        rows[program.label] = drawn[program.label].reshape(-1)
    return rows


def _joined(values: Shaped[np.ndarray, "worlds ..."], site: Site) -> Shaped[np.ndarray, "..."]:
    """The rows of all worlds along the instance axis of a site."""
    by_world = np.moveaxis(values, 0, site.position)
    return by_world.reshape(*by_world.shape[: site.position], -1, *by_world.shape[site.position + 2 :])
