"""`GenerativeProgram`: a model of data stated as a NumPyro function that generates them."""

import dataclasses
import functools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpyro.distributions.constraints import Constraint

from bayesgen.data import (
    ResponseColumn,
    Rows,
    Schema,
    Table,
    read_table,
    refuse_classes_of_response,
)
from bayesgen.describe import Described, Description, described, quote_some, shapes
from bayesgen.errors import DataError, FitError, ModelError, as_list, check_flag, check_integer, check_text, is_integer
from bayesgen.labels import AnyLabel
from bayesgen.program import (
    ClosedProgram,
    ConcreteModel,
    Conjugate,
    FunctionContent,
    PytreeFunction,
    Response,
    check_missing,
    check_numbers,
    covariate_cells,
    log_density_of_sites,
    program_table,
    read_rows,
    register_program,
    weakref_safe,
)
from bayesgen.recognition import (
    check_signature,
    continuous_label,
    summarize_rows,
)
from bayesgen.records import copied, fill
from bayesgen.runtime import check_not_forked, in_float64, public
from bayesgen.statistics import (
    Cells,
    LatentLikelihood,
    Likelihood,
    Moments,
    PatternMoments,
    SufficientStatistics,
    check_magnitudes,
    check_rows,
)
from bayesgen.typing import Data, Float, Values

from .as_written import AsWritten, as_written, named_labels
from .introspected import NEEDS_CLASSES, IntrospectedProgram


@dataclasses.dataclass(frozen=True, init=False, repr=False, eq=False)
class GenerativeProgram(IntrospectedProgram, Described, ConcreteModel[AnyLabel]):
    """A generative model stated as a NumPyro function that makes n instances.

    The function samples latent parameters, then, in one plate of size n, the label and the attributes. It takes no
    data: bayesgen conditions on them. Keyword-only arguments of the function are covariates, quantities that each
    row has but the program does not model: arrays (n, ...) of any shape and dtype in a mapping, or columns of a frame,
    (n,). Covariates keep their dtype, so that the program can index by integers. Attributes and the label may depend
    on them; a program whose label does need not have attributes (logistic regression).

    Args:
        function: `function(n, *, covariates...)`, any NumPyro program that follows the conventions: no `obs=`, no
            `numpyro.param`, no subsampling, attributes not reparametrised. It is traced when the program is made, so
            that Python's `if` and NumPy see no sampled value: use `jnp.where` and `jax.numpy`. With covariates it is
            traced and checked once data show their shapes, in `fit` at the latest; before that, each covariate is taken
            as one real number a row.
        label: name of the label site, or None for a program without one.
        classes: the labels in the order of the label site's values 0 to K - 1, or their number K. Not for label=None,
            and not for a label that is a number.
        local: names of the latents of each row, sites in the plate that the data do not have. Discrete ones are summed
            out, by log-sum-exp over up to 256 joint values a row; `Fit.local` is their posterior. Continuous ones
            (random effects, abilities) are sampled by `NUTS` with the rest, and `fit.parameters` has those of the
            training rows, a row of weight 2 as two rows. In prediction they are integrated out: a single number in a
            row by quadrature, to about 1e-6 where densities are smooth and have up to four modes, which are looked for
            at distances that double (with more the answer is NaN); up to four by importance sampling with 4,608
            points a draw, whose errors are part of the standard errors of averages over draws. A plug-in answer has
            no such error: p(x, y | Q) is known to about 0.5 % there where a row has two latents that have one mode
            given the row, be it skewed, bounded or of heavy tails; to 1 or 2 % with a product of two latents, and with
            three or four skewed ones. With a product among three latents it may be wrong by a quarter, and where
            latents lie along a thin curved ridge, as two whose product is measured closely, by a factor: integrate one
            out in the program.
        continuous: whether the label is continuous, the y of a regression; None decides by its distribution. A
            continuous label is an attribute that is missing in new rows: `predict` gives its distribution. So is a
            count, such as that of a Poisson or a binomial distribution, unless it has classes.

    Raises:
        ModelError: a program that breaks a convention; a label site whose values are not those of K classes.

    Discrete latents that all rows share (Categorical, Bernoulli, DiscreteUniform) are enumerated, up to a million joint
    values: `Exact` gives their weights, `MAP` and `MLE` the best value, and `NUTS` draws them given the other latents.

    Cells of attributes may be missing in data and are marginalised: single columns of numbers and of joint normals,
    other events as a whole. Where an attribute depends on another one that is missing in a row, the row is refused,
    unless both are missing. Covariates must be complete.

    Scales, masks (`handlers.scale`, `handlers.mask`, `mask` of distributions) and censored distributions say how much,
    or which part, of a row's density counts in training. Predictions are of the values themselves: they take the
    normalised densities that rows are drawn from, and a cell that is not to count there is missing (NaN). `log_joint`
    and `log_density` are NumPyro's own, as in training.

    Rows have to be exchangeable: the probability of a row depends on nothing but the latents and its own label,
    attributes and covariates. `fit` compares what the program computes for as many rows as the data have, up to 4,099
    (fewer where distributions have very many parameters), and refuses a program that changes with the number of rows or
    with their position there. A change that only more rows would show is not seen.

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

    The values that the function reads belong to the program: its closure, its defaults, the globals that it names, and
    what the functions among these read. They are compared by content (see `bayesgen.program.fingerprint`), when the
    program is made and at each `fit`; a changed value makes another program, and a fit refuses to run its program after
    such a change. Programs are equal if their functions have equal code and equal values and the labels and classes
    are the same: the cell of a notebook that is run again makes an equal program, and nothing is compiled again. A
    function that reads something that cannot be compared (a file, a module of settings as a whole) equals only itself,
    and changes of such a value are not noticed.
    """

    has_columns = False

    @public
    def __init__(
        self,
        function: Callable[..., object],
        *,
        label: str | None = "y",
        classes: int | Iterable[Any] | None = None,
        continuous: bool | None = None,
        local: str | Iterable[str] = (),
    ) -> None:
        if not callable(function):
            raise ModelError(f"A program is a function of NumPyro, function(n, *, covariates...), got {function!r}.")
        if label is not None:
            check_text("GenerativeProgram: label", label, ModelError)
        if continuous is not None:
            check_flag("GenerativeProgram: continuous", continuous)
        if is_integer(classes):
            check_integer("GenerativeProgram: classes", classes, 1)
        function, response_site = weakref_safe(function), None
        names = [local] if isinstance(local, str) else as_list("GenerativeProgram: local", local, "names", ModelError)
        local = tuple(dict.fromkeys(names))
        fill(self, function=function, local=local, known_covariates=None, in_prediction=False)
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
        stated = range(classes) if isinstance(classes, int | np.integer) else () if classes is None else classes
        labels = tuple(as_list("GenerativeProgram: classes", stated, "labels", ModelError))
        if label is not None and len(labels) < (1 if isinstance(function, PytreeFunction) else 2):
            raise ModelError(f"GenerativeProgram needs at least two classes, got {labels}.")
        fill(self, label=label, classes=labels, response_site=response_site)
        if is_traced:
            _ = self.structure  # a program that breaks a convention is refused here, and not at the first fit
        else:
            check_signature(function)

    @classmethod
    @public
    @in_float64
    def from_model(
        cls,
        model: Callable[..., object],
        *args: Any,
        label: str | None = None,
        rows: str | None = None,
        classes: int | Iterable[Any] | None = None,
        constants: str | Iterable[str] = (),
        **kwargs: Any,
    ) -> "GenerativeProgram":
        """The program of a NumPyro model as it is written, with `obs=`.

        The model is run with its arguments, as `numpyro.infer.MCMC.run` runs it, and with one row more. The values of
        its observed sites are attributes (or the label). Arrays that are as long as the data along an axis, the first
        such one, and are not observed are covariates; a whole number that is the number of rows is n, if the model
        cannot be run with a row more otherwise; all other arguments are constants. Discrete latents of each row are
        summed out.

        Args:
            model: any NumPyro model with `obs=`.
            args, kwargs: its arguments, as in `mcmc.run(key, *args, **kwargs)`.
            label: the observed site that is to be predicted, if any.
            rows: the plate of the rows; by default the outermost plate that all observed sites stand in, or else the
                first axis of all of them.
            classes: the labels in the order of the values 0 to K - 1 of a label site of classes; these values by
                default.
            constants: names of arguments that do not follow the rows though they are as long: hyperparameters of as
                many groups as there are rows, say.

        Raises:
            ModelError: a model whose rows cannot be told, that mixes them, or that breaks a convention.

        >>> import numpyro, numpyro.distributions as dist
        >>> def line(x, y=None):
        ...     slope = numpyro.sample("slope", dist.Normal(0, 1))
        ...     with numpyro.plate("N", len(x)):
        ...         numpyro.sample("y", dist.Normal(slope * x, 0.5), obs=y)
        >>> x, y = np.array([0.1, 0.7, 1.3]), np.array([0.0, 1.2, 2.9])
        >>> program = GenerativeProgram.from_model(line, x, y, label="y")
        >>> program.latents, program.covariates
        (('slope',), ('x',))
        >>> program.read(x, y)
        ({'x': array([0.1, 0.7, 1.3])}, array([0. , 1.2, 2.9]))
        >>> program.read(np.array([2.0]))
        ({'x': array([2.])}, None)
        """
        constants = (constants,) if isinstance(constants, str) else tuple(constants)
        function, columns, num_classes = as_written(model, args, kwargs, rows, label, constants)
        stated = classes if classes is not None or label is None else num_classes.get(label)
        return cls(function, label=label, classes=stated, local=function.local).for_covariates(columns)

    @in_float64
    def read(self, *args: Any, **kwargs: Any) -> tuple[Any, np.ndarray | None]:
        """Rows and labels, as `fit` and `predict` take them, of the arguments of the model that `from_model` was given.

        Rows are a mapping of arrays; a frame with an index alone where there are none, as in a model of a label without
        covariates. Values that are None, as those to be predicted, are left out; labels are None if they are.

        Raises:
            DataError: arguments that the program was not made for, see `from_model`; values of a label that are none of
                its classes.
        """
        import pandas as pd

        if not isinstance(self.function, AsWritten):
            raise ModelError(
                "read(...) takes the arguments of a model given to GenerativeProgram.from_model. This program takes "
                "its rows as they are: a mapping, or a frame, with its attributes and covariates as names."
            )
        values, covariates, num_rows = self.function.read(args, kwargs)
        labels = values.pop(self.label or self.response_site or "", None)
        if self.label is not None and labels is not None and self.classes != tuple(range(self.num_classes)):
            labels = named_labels(self, labels)
        return {**values, **covariates} or pd.DataFrame(index=range(num_rows)), labels

    def refreshed(self) -> "GenerativeProgram":
        """The program, made again if what its function reads has changed since."""
        if self.content is None or FunctionContent.of(self.function) is self.content:
            return self
        label = self.response_site or self.label
        return GenerativeProgram(self.function, label=label, classes=self.classes or None, local=self.local)

    def __repr__(self) -> str:
        name = getattr(self.function, "__name__", type(self.function).__name__)
        classes = f", classes=[{quote_some(self.classes)}]" if self.classes else ""
        local = f", local={self.local!r}" if self.local else ""
        return f"GenerativeProgram({name}, label={self.response_site or self.label!r}{classes}{local})"

    def __str__(self) -> str:
        return described(*self._description())

    def _description(self) -> Description:
        """What is recognised in the program; it is traced for that, where covariates do not wait for data."""
        names, next_steps = ", ".join(self.covariates), "fit(program, X, y, method=NUTS()), program.simulate(n, seed=1)"
        if self.awaits_covariates:
            awaited = f"once data show the shapes of {names}: print(fit.program)"
            return repr(self), {"covariates": names, "recognised": awaited, "next": next_steps}
        latents = shapes({name: np.empty(shape) for name, shape in self.structure.latents})
        try:
            recognised = {**site_entries(self.why_row_by_row), "closed form": self.closed_in_words}
        except ModelError as error:
            recognised = {"refused": str(error)}
        return repr(self), {"covariates": names, "latents": latents, **recognised, "next": next_steps}

    @property
    def why_row_by_row(self) -> dict[str, str]:
        """Site of rows -> why it is evaluated row by row; "" where it has a sufficient statistic."""
        latent = {name for name, likelihood in self.plan.compressed if isinstance(likelihood, LatentLikelihood)}
        reasons = dict.fromkeys(latent, HIDDEN_VARIABLES) | dict(self.plan.reasons)
        names = (*(() if self.label is None else (self.label,)), *self.attributes, *self.local)
        return {name: reasons.get(name, "") for name in names}

    def __call__(self, n: int, **covariates: Any) -> Any:
        """Generate n instances inside NumPyro's handlers; what the function returns."""
        return self.function(n, **covariates)

    def response_support(self, rows: Rows) -> Constraint:
        assert self.response_site is not None
        return self.introspection.support_of_response(self.response_site, rows)

    # --- what can be computed -----------------------------------------------------------------------------------

    def log_joint(self, latents: Mapping[str, Any], X: Data, y: Values | None = None) -> Float[np.ndarray, "n K"]:
        """log p(x_i, y = k | latents) of rows; where the label is continuous, log p(x_i, y_i | latents), (n, 1).

        Args:
            latents: site -> value.
            X: mapping or data frame with the attribute sites (and covariates) as names.
            y: a continuous label of each row. Without it the table is log p(x_i | latents), if no attribute depends on
                the label.
        """
        program, rows = self._read_with(X, y)
        if y is not None and self.response_site is None:
            raise DataError("log_joint takes y for a continuous label alone: its table has all classes.")
        return program_table(program, program.checked_latents(latents), rows)

    @in_float64
    def log_density(self, latents: Mapping[str, Any], X: Data, y: Values | None = None) -> float:
        """Log joint density of latents and data: log p(latents) + log p(X, y | latents).

        Missing labels are marginalised. The density of the latents is that of their sites, in the constrained space.
        """
        program, rows = self._read_with(X, y)
        if self.label is not None:
            rows = dataclasses.replace(rows, labels=Schema(classes=self.classes).label_codes(y))
        statistics = summarize_rows(program, program.introspection, rows).padded()
        return float(log_density_of_sites(program, program.checked_latents(latents), statistics))

    def _read_with(self, X: Data, y: Values | None) -> tuple["GenerativeProgram", Rows]:
        """The program of the rows' covariates, and the rows, with their continuous label if there is one."""
        table = read_table(X) if self.response_site is None else read_table(X, y)
        program = self.for_table(table) if self.awaits_covariates else self
        rows = program.read_rows(None, table)
        if self.response_site is not None:
            check_missing(program, rows)
        return program, rows

    # --- the program as a model ---------------------------------------------------------------------------------

    def columns_read(self, names: Sequence[str]) -> Sequence[str]:
        sites = {*self.attributes, *self.covariates}
        return [name for name in names if name in sites]

    def infer_schema(self, table: Table, y: np.ndarray | None, declared: Schema) -> Schema:
        """The schema with names of the attributes and covariates, and the program's classes."""
        if (program := self.refreshed()) is not self:
            return program.infer_schema(table, y, declared)
        if y is not None and self.label is not None and self.classes == tuple(range(self.num_classes)):
            check_numbers(y, self.num_classes)
        program = self.for_table(table, declared.covariates)
        program.check_row_count(table.num_rows)
        names = tuple(name for name in (*program.attributes, *program.covariates) if name != self.response_site)
        schema = dataclasses.replace(declared, columns=names, covariates=dict(program.known_covariates or ()))
        cells, columns = covariate_cells(program, table), program.covariate_columns
        schema = schema.widened({name: columns[name].values(name, cells[name]) for name in program.unchecked_indexes})
        if self.response_site is not None:
            refuse_classes_of_response("The program", declared.classes)
            return dataclasses.replace(schema, response=ResponseColumn(self.response_site))
        return dataclasses.replace(schema, classes=self.classes or None)

    def read_rows(self, schema: Schema | None, table: Any) -> Rows:
        """The rows of anything that `read_table` takes: the program's sites are its schema."""
        check_not_forked()  # what is compiled already runs without tracing
        return read_rows(self, table)

    def check_rows(self, schema: Schema, attributes: Mapping[str, Cells]) -> None:
        """Refuse values too large for sums of squares; the units of the columns are not known here."""
        for site, likelihood in self.plan.compressed:
            if likelihood.takes_squares:
                axis = "column" if self.structure.attribute[site].steps is None else "step"
                check_rows(attributes[site], None, functools.partial(_column_name, site, axis=axis))

    @functools.cached_property
    def response(self) -> Response | None:
        site = self.response_site
        if site is None:
            return None
        return Response(site, None, any(site in parents for _, parents in self.plan.dependences))

    @property
    def has_labels(self) -> bool:
        return self.label is not None

    @property
    def has_row_statistics(self) -> bool:
        return bool(self.row_statistics)

    @property
    def in_threads(self) -> bool:
        return False

    def statistics(self, schema: Schema) -> dict[str, Likelihood]:
        return dict(self.plan.compressed)

    def summarize(self, schema: Schema, rows: Rows) -> SufficientStatistics:
        """The sufficient statistics of compressed sites, and the rows themselves for the others."""
        return summarize_rows(self, self.introspection, rows)

    def with_scale(self, schema: Schema, summaries: Mapping[str, Any]) -> Schema:
        """The schema itself: a program of one's own has no default priors. Values too large to square are refused."""
        for site, summary in summaries.items():
            moments = summary.by_column() if isinstance(summary, PatternMoments) else summary
            if isinstance(moments, Moments):
                check_magnitudes(moments, functools.partial(_column_name, site))
        return schema

    def check_class_can_be_added(self, schema: Schema) -> None:
        raise FitError(
            f"A program of one's own makes the classes that it states, {quote_some(self.classes) or 'none'}, and no "
            "other can be added to its fit. State a program with all classes, and fit it to all rows."
        )

    def conjugate(self, schema: Schema) -> Conjugate | ClosedProgram | None:
        """The prior, with blocks of the families that are recognised, or stages; None unless of all latents."""
        program = self.concrete(schema)
        closed_form = program._closed_form
        if closed_form.elimination is not None:
            return ClosedProgram(program, closed_form.elimination)
        return None if closed_form.conjugate is None else copied(closed_form.conjugate, classes=program.classes)

    def why_not_conjugate(self, method: str) -> str:
        reasons = [finding for finding in self._closed_form.findings if finding.reason]
        finding = min(reasons, key=lambda finding: bool(finding.family))  # what is closed given others comes last
        sites = {"latent": finding.latent, "attribute": finding.attribute}
        named = " of ".join(f"{word} {name!r}" for word, name in sites.items() if name)
        return (
            f"{method}() has no closed form for {named}: {finding.reason}. Use NUTS(), which samples the "
            "latents; program.closed_form tells what is closed."
        )

    def with_components(self, num_components: int) -> "GenerativeProgram":
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
        return self.replace(classes=components, **({} if self.awaits_covariates else {"structure": self.structure}))

    def concrete(self, schema: Schema) -> "GenerativeProgram":
        """The program as its function is now, of the covariates of the schema."""
        return self.refreshed().for_covariates(schema.covariates)

    def bind(self, schema: Schema) -> "GenerativeProgram":
        return self.for_covariates(schema.covariates)


register_program(GenerativeProgram)

HIDDEN_VARIABLES = "its hidden variables are summed out in each row"


def site_entries(why_row_by_row: Mapping[str, str], linear: Collection[str] = ()) -> dict[str, str | None]:
    """Which sites have sufficient statistics and which are evaluated row by row, in words.

    Args:
        why_row_by_row: as the program has it.
        linear: sites of means that are linear in the latents, which are summarised by cross products.
    """
    by_row = {name: reason for name, reason in why_row_by_row.items() if reason and name not in linear}
    products = " (products of features, as its mean is linear in the latents)"
    return {
        "sufficient statistics": ", ".join(n + products * (n in linear) for n in why_row_by_row if n not in by_row),
        "evaluated row by row": ", ".join(f"{name} ({reason})" for name, reason in by_row.items()),
    }


def _column_name(site: str, place: tuple[int, ...], axis: str = "column") -> str:
    """The name of a column or time step, to begin a sentence."""
    return f"Attribute {site!r}" + (f", {axis} {', '.join(map(str, place))}," if place else "")
