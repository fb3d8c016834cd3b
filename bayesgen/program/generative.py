"""`GenerativeProgram`: a NumPyro function that makes data, as the statement of a model."""

import dataclasses
import functools
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from numpyro import handlers
from numpyro.distributions import constraints
from numpyro.distributions.constraints import Constraint

from bayesgen.data import Covariate, Rows, Schema, levels_array, read_table
from bayesgen.describe import quote_some
from bayesgen.errors import DataError, ModelError
from bayesgen.records import copied, fill
from bayesgen.runtime import as_key
from bayesgen.typing import Array, Float, Seed

from .arbitrary import find_latent_supports, find_response_support, find_supports
from .conventions import check_signature
from .density import joint_log_density
from .discovery import RowCheck, continuous_label, find_class_axes, find_structure
from .evaluation import evaluate_classes
from .indexing import check_indexes, find_indexes
from .joint import log_joint
from .missing import check_missing
from .model import ProgramModel
from .pytree import Definition, PytreeFunction, cached_by_structure, register_program, weakref_safe
from .recognition import make_plan
from .rows import simulated, summarize_rows, with_covariates
from .structure import Arrays, Indexes, Plan, Structure, Supports
from .tracing import sites_of

NEEDS_CLASSES = (
    "GenerativeProgram needs classes=: the labels in order, or their number. (A label whose values are real numbers "
    "needs none.)"
)


@dataclasses.dataclass(frozen=True, init=False, repr=False, eq=False)
class GenerativeProgram(ProgramModel):
    """A generative model stated as a NumPyro function that makes n instances.

    The function samples latent parameters, then, in one plate of size n, the label and the attributes. It takes no
    data: bayesgen conditions on them. Keyword-only arguments of the function are covariates, quantities that each
    row has but the program does not model: arrays (n, ...) of any shape and dtype in a mapping, columns of a frame,
    (n,). The program gets them as the data have them, integers as integers, to index by.

    Args:
        function: `function(n, *, covariates...)`, any NumPyro program that follows the conventions: no `obs=`, no
            `numpyro.param`, no subsampling, no latent per row, attributes not reparametrised. It is traced when the
            program is made, so that Python's `if` and NumPy see no sampled value: use `jnp.where` and `jax.numpy`.
            With covariates it is traced, and refused, when data show their shapes, in `fit` at the latest; what is
            asked of it before supposes one real number a row.
        label: name of the label site, or None for a program without one.
        classes: the labels in the order of the label site's values 0 to K - 1, or their number K. Not for label=None,
            and not for a continuous label.
        continuous: whether the label is continuous, the y of a regression; None to see by its distribution. It is then
            one more attribute, which new rows lack: `predict` gives its distribution.

    Raises:
        ModelError: a program that breaks a convention; a label site whose values are not those of K classes.

    Cells of attributes may be missing in data, numbers and joint normals in part, other events as a whole: they are
    left out of the likelihood. A row in which an attribute is missing that another one depends on is refused with both
    names, unless that one is missing too; covariates have to be there.

    The program is itself callable, so it runs under `numpyro.infer.Predictive`, `numpyro.render_model` and, with
    `numpyro.handlers.condition`, under `MCMC`.

    >>> import numpyro, numpyro.distributions as dist
    >>> def heights(n):
    ...     p = numpyro.sample("p", dist.Beta(1, 1))
    ...     mean = numpyro.sample("mean", dist.Normal(170, 20).expand([2]).to_event(1))
    ...     with numpyro.plate("people", n):
    ...         y = numpyro.sample("y", dist.Bernoulli(p))
    ...         numpyro.sample("height", dist.Normal(mean[y], 7.0))
    >>> program = GenerativeProgram(heights, classes=["women", "men"])
    >>> program.attributes, program.latents
    (('height',), ('p', 'mean'))
    >>> sorted(program.simulate(3, seed=1))
    ['height', 'y']
    >>> def schools(n, *, X, school):
    ...     effect = numpyro.sample("effect", dist.Normal(0, 5).expand([8]).to_event(1))
    ...     slopes = numpyro.sample("slopes", dist.Normal(0, 1).expand([X.shape[1]]).to_event(1))
    ...     with numpyro.plate("pupils", n):
    ...         numpyro.sample("y", dist.Normal(effect[school] + X @ slopes, 1.0))
    >>> X = np.array([[0.3, 1.2], [0.1, 0.8], [0.9, 0.4]])
    >>> GenerativeProgram(schools).simulate(3, seed=1, X=X, school=np.array([0, 7, 0]))["y"].shape
    (3,)

    What the function reads belongs to the program: its closure, its defaults, the globals that it names, and what the
    functions among these read. It is read when the program is made, and again by each `fit`, where another value makes
    another program. A fit keeps the program that it was made of, and refuses to run it once it reads something else.
    Programs are equal whose functions have one code and read the same values, with one label and classes: the cell of a
    notebook that is run again makes the same program, and nothing is compiled again. Values are told by content, see
    `bayesgen.program.pytree`; a function that reads what cannot be told so (a file, a module of settings as a
    whole) is the same as itself alone, and changes of it are not seen. What is found out about a program (its
    structure, its plan, ...) is found when it is asked for, and kept.
    """

    function: Callable[..., Any]
    label: str | None
    classes: tuple[Hashable, ...]
    response_site: str | None
    known_covariates: tuple[tuple[str, Covariate], ...] | None = dataclasses.field(default=None, compare=False)

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        label: str | None = "y",
        classes: int | Iterable[Any] | None = None,
        continuous: bool | None = None,
    ) -> None:
        function, response_site = weakref_safe(function), None
        fill(self, function=function, known_covariates=None)
        is_traced = not isinstance(function, PytreeFunction) and not self.covariates
        if continuous and (label is None or classes is not None):
            raise ModelError("A continuous label has a name and no classes: give label=, and leave classes= out.")
        if label is not None and classes is None and not isinstance(function, PytreeFunction):
            fill(self, label=None, classes=(), response_site=None)
            supposed = None if continuous is False else label  # until data show what the program is run with
            response_site = continuous_label(self, label, continuous) if is_traced else supposed
            label = label if response_site is None else None
        if label is not None and classes is None:
            raise ModelError(NEEDS_CLASSES)
        if label is None and classes is not None:
            raise ModelError("A program with label=None has no classes: drop classes=.")
        stated = () if classes is None else classes
        labels = tuple(range(stated) if isinstance(stated, int | np.integer) else stated)
        if label is not None and len(labels) < (1 if isinstance(function, PytreeFunction) else 2):
            raise ModelError(f"GenerativeProgram needs at least two classes, got {labels}.")
        fill(self, label=label, classes=labels, response_site=response_site)
        if is_traced:
            _ = self.structure  # a program that breaks a convention is refused here, and not at the first fit
        else:
            check_signature(function)

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled and copied: the fields. What was found out about the program is found again."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    @property
    def _statement(self) -> Hashable:
        return self.definition or self.function, self.label, self.classes, self.response_site

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GenerativeProgram) and self._statement == other._statement

    def __hash__(self) -> int:
        return hash(self._statement)

    def __repr__(self) -> str:
        name = getattr(self.function, "__name__", type(self.function).__name__)
        classes = f", classes=[{quote_some(self.classes)}]" if self.classes else ""
        return f"GenerativeProgram({name}, label={self.response_site or self.label!r}{classes})"

    def __call__(self, n: int, **covariates: Any) -> Any:
        """Generate n instances inside NumPyro's handlers; what the function returns."""
        return self.function(n, **covariates)

    def replace(self, **values: Any) -> "GenerativeProgram":
        """A copy with some attributes replaced, unchecked (structure and plan are found anew unless given)."""
        kept = {} if "function" in values else {"definition": self.definition}
        return copied(self, **kept, **values)

    def as_read_now(self) -> "GenerativeProgram":
        """The program, made again where what its function reads has changed since it was made."""
        if self.definition is None or Definition.of(self.function) is self.definition:
            return self
        label = self.response_site or self.label
        return GenerativeProgram(self.function, label=label, classes=self.classes or None)

    def reparametrised(self, parameters: Arrays) -> "GenerativeProgram":
        """The same program, latents in coordinates that suit processes near one; itself where it has no others."""
        if not isinstance(self.function, PytreeFunction):
            return self
        function = self.function.reparametrised(parameters)
        return self if function is self.function else self.replace(function=function, plan=self.plan)

    # --- what the program consists of ---------------------------------------------------------------------------

    @property
    def awaits_covariates(self) -> bool:
        """Whether the program is one of many, of which data will show which: those of covariates of all shapes."""
        return self.known_covariates is None and bool(self.covariates) and not isinstance(self.function, PytreeFunction)

    def of_covariates(self, columns: Mapping[str, Covariate]) -> "GenerativeProgram":
        """The program of covariates of these shapes and dtypes. What is found out about it is kept for the next time.

        Raises:
            DataError: covariates that the program cannot be run with.
            ModelError: a label of classes, where none were given.
        """
        if not self.covariates or isinstance(self.function, PytreeFunction):
            return self
        known = tuple({**self.covariate_columns, **columns}.items())
        if known == self.known_covariates:
            return self
        if known not in self._of_covariates:
            program = self.replace(known_covariates=known)
            if self.response_site is not None and continuous_label(program, self.response_site, None) is None:
                raise ModelError(NEEDS_CLASSES)
            self._of_covariates[known] = program
        return self._of_covariates[known]

    @functools.cached_property
    def _of_covariates(self) -> dict[tuple[tuple[str, Covariate], ...], "GenerativeProgram"]:
        return {}

    @functools.cached_property
    def structure(self) -> Structure:
        """Its sites, found by tracing."""
        if self.awaits_covariates:
            return self.of_covariates(self.covariate_columns).structure
        with jax.enable_x64(True):
            return cached_by_structure(self, find_structure)

    @functools.cached_property
    def plan(self) -> Plan:
        """Which attribute sites are compressed into sufficient statistics, and why the others are not."""
        if self.awaits_covariates:
            return self.of_covariates(self.covariate_columns).plan
        with jax.enable_x64(True):
            return make_plan(self) if self.definition is None else cached_by_structure(self, make_plan)

    @functools.cached_property
    def supports(self) -> Supports:
        """What is known, without the latents, of the values that attributes can take."""
        return find_supports(self)

    @functools.cached_property
    def indexes(self) -> Indexes:
        """What it indexes by covariates."""
        with jax.enable_x64(True):
            return find_indexes(self) if self.known_covariates else Indexes()

    @functools.cached_property
    def response_support(self) -> Constraint:
        """The values that a continuous label may take."""
        return constraints.real if self.response_site is None else find_response_support(self)

    @functools.cached_property
    def latent_supports(self) -> dict[str, Constraint]:
        """The supports of the latent sites, those of one event where there are several."""
        return find_latent_supports(self)

    @functools.cached_property
    def class_axes(self) -> dict[str, int]:
        """The axis that is the class, by the name of a latent or deterministic site with an entry for each class."""
        with jax.enable_x64(True):
            return {} if self.label is None else cached_by_structure(self, find_class_axes)

    def check_row_count(self, size: int) -> None:
        """Refuse a program that is another one at this number of rows. Those of the library are known not to be."""
        if not isinstance(self.function, PytreeFunction):
            with jax.enable_x64(True):
                self._row_check(size)

    @functools.cached_property
    def _row_check(self) -> RowCheck:
        return cached_by_structure(
            self.replace(structure=self.structure, plan=self.plan), RowCheck
        )  # which keeps the copy

    # --- what can be computed -----------------------------------------------------------------------------------

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
            Dict of the attributes (n at the instance plate's axis), the covariates and, under the label's name, the
            class labels.

        Raises:
            DataError: covariates that are not given, or not one value a row, by name.
        """
        missing = [name for name in self.covariates if name not in covariates]
        if missing:
            wanted = ", ".join(f"{name}=..." for name in missing)
            raise DataError(f"The program computes with covariates that each row has: write simulate(n, {wanted}).")
        given = {name: np.asarray(v) if np.ndim(v) else np.full(n, v) for name, v in covariates.items()}
        for name, value in given.items():
            if value.shape[:1] != (n,):
                raise DataError(f"Covariate {name!r} has the shape {value.shape}, and {n} rows need one value each.")
        program, values = with_covariates(self, given)
        check_indexes(program, values)
        key = as_key(seed)
        with jax.enable_x64(True):
            known = {name: jnp.asarray(value) for name, value in (latents or {}).items()}
            trace = sites_of(handlers.substitute(self.unchanged_function, data=known), n, values, key)
        rows = {name: simulated(site, trace[name]["value"]) for name, site in program.structure.attributes}
        rows |= {name: np.asarray(value) for name, value in values.items()}
        if self.label is not None:
            codes = np.asarray(trace[self.label]["value"]).reshape(n)
            rows[self.label] = levels_array(self.classes)[codes]
        return rows

    def class_conditionals(self, latents: Mapping[str, Any]) -> dict[str, dist.Distribution]:
        """The K class-conditional distributions of each attribute: name -> NumPyro distribution.

        The program is run at n = K with the label set to 0..K-1, so the instance axis is the class.
        """
        with jax.enable_x64(True):
            evaluation = evaluate_classes(self, self._complete(latents))
            return {name: jax.tree.map(np.asarray, site["fn"]) for name, site in evaluation.sites.items()}

    def log_joint(self, latents: Mapping[str, Any], X: Any, y: Any = None) -> Float[np.ndarray, "n K"]:
        """log p(x_i, y = k | latents) of rows; where the label is continuous, log p(x_i, y_i | latents), (n, 1).

        Args:
            latents: site -> value.
            X: mapping or data frame with the attribute sites (and covariates) as names.
            y: a continuous label of each row. Without it the table is log p(x_i | latents), if no attribute is made
                from the label.
        """
        program, rows = self._read_with(X, y)
        if y is not None and self.response_site is None:
            raise DataError("log_joint takes y for a continuous label alone: its table has all classes.")
        with jax.enable_x64(True):
            return np.asarray(log_joint(program, program._complete(latents), rows))

    def log_density(self, latents: Mapping[str, Any], X: Any, y: Any = None) -> float:
        """Log joint density of latents and data: log p(latents) + log p(X, y | latents).

        Labels that are missing in y are summed out.

        The density of the latents is that of their sites, in the constrained space.
        """
        program, rows = self._read_with(X, y)
        if self.label is not None:
            rows = dataclasses.replace(rows, labels=Schema(classes=self.classes).label_codes(y))
        with jax.enable_x64(True):
            return float(joint_log_density(program, program._complete(latents), summarize_rows(program, rows).padded()))

    def _read_with(self, X: Any, y: Any) -> tuple["GenerativeProgram", Rows]:
        """The program of the rows' covariates, and the rows with their continuous label, if they have one."""
        table = read_table(X) if self.response_site is None else read_table(X, y)
        program = self.of_table(table) if self.awaits_covariates else self
        rows = program.read(None, table)
        if self.response_site is not None:
            check_missing(program, rows)
        return program, rows

    def _complete(self, latents: Mapping[str, Any]) -> dict[str, Array]:
        """The latents as arrays. A DataError names those that are not given: they would be drawn in silence."""
        missing = [name for name in self.latents if name not in latents]
        if missing:
            raise DataError(f"The latents {missing} have no values. Give one for each of {list(self.latents)}.")
        return {name: jnp.asarray(value) for name, value in latents.items()}

    # --- a program as a model: see `ProgramModel` ---------------------------------------------------------------

    def with_components(self, num_components: int) -> "GenerativeProgram":
        """The program with its classes called 0, 1, ..., of which there have to be so many."""
        if self.label is None:
            raise ModelError(
                "A Mixture needs classes to be its components, and a program with label=None has none: sample the "
                "component of each row at a site of its own and give its name, label=..., and classes=."
            )
        if self.num_classes != num_components:
            raise ModelError(
                f"The program has {self.num_classes} classes, and the mixture {num_components} components: they have "
                f"to be as many. Write Mixture(program, {self.num_classes}), or state a program of other classes."
            )
        components = tuple(range(num_components))
        if self.classes == components:
            return self
        known = {} if self.awaits_covariates else {"structure": self.structure}
        return self.replace(classes=components, **known)

    def concrete(self, schema: Schema) -> "GenerativeProgram":
        """The program as its function is now, of covariates as the schema knows them."""
        return self.as_read_now().of_covariates(schema.covariates)

    def bind(self, schema: Schema) -> "GenerativeProgram":
        """See `concrete`: a program of one's own is bound to nothing else."""
        return self.of_covariates(schema.covariates)


register_program(GenerativeProgram)
