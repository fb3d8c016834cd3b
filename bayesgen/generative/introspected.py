"""`IntrospectedProgram`: a program whose sites, plan and supports are found by tracing its function."""

import dataclasses
import functools
import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Self

import numpy as np
import numpyro.distributions as dist
from numpyro.distributions.constraints import Constraint

from bayesgen.data import Covariate, Rows, Table, covariate_values
from bayesgen.errors import DataError, ModelError
from bayesgen.program import (
    Arrays,
    Means,
    Plan,
    Program,
    PytreeFunction,
    Structure,
    cached_by_structure,
    covariate_cells,
    evaluate_classes,
)
from bayesgen.recognition import Introspection, check_values, continuous_label
from bayesgen.records import copied, state_of_fields
from bayesgen.runtime import Traced, in_float64
from bayesgen.typing import Array

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
    def learns_attributes(self) -> bool:
        """Whether the distributions of attributes depend on latents."""
        return self.introspection.attributes_depend_on_latents

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
