"""Training problems, each a model and its data, and the methods that solve them."""

import abc
import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Generic

import jax
import numpy as np

from bayesgen.data import Rows, Schema
from bayesgen.describe import quote_some
from bayesgen.errors import ConstantColumnWarning, FitError, check_integer, warn
from bayesgen.generative import GenerativeProgram
from bayesgen.labels import Learned
from bayesgen.posteriors import Posterior, ProcessPosterior, chains_joined
from bayesgen.program import (
    ConcreteModel,
    Conjugate,
    CrossProductsTerm,
    LogLikelihood,
    ProgramDensity,
    WeightedValues,
    likelihood_terms,
    repeated_rows,
    row_statistics,
    weighted_values,
)
from bayesgen.runtime import in_float64, used
from bayesgen.statistics import SufficientStatistics
from bayesgen.typing import Seed

from .fit import Fit
from .summaries import Summaries


@dataclasses.dataclass(frozen=True)
class Problem(abc.ABC, Generic[Learned]):
    """A model and its training data, to be solved by a method. Models of other data pose problems of their own.

    Attributes:
        model: the model as the user gave it.
        data: the training data.
        seed: integer or JAX key.
        progress: whether to show progress; None means in a terminal.
    """

    model: Any
    data: Any
    seed: Seed = 0
    progress: bool | None = None

    @abc.abstractmethod
    def fit_by(self, method: "Method") -> Learned:
        """The fit by a method.

        Raises:
            FitError: a method that is not for such a problem; an estimate that does not exist for these data.
        """


@dataclasses.dataclass(frozen=True)
class ProgramProblem(Problem[Fit]):
    """A program, or blocks with families, and the sufficient statistics of rows.

    Attributes:
        data: summaries of the training data.
    """

    data: Summaries

    @property
    def has_labels(self) -> bool:
        """Whether rows have labels, all or some of them."""
        return self.data.model.has_labels

    def fit_by(self, method: "Method") -> Fit:
        return method.solve(self.checked_for(method))

    def checked_for(self, method: "Method") -> "ProgramProblem":
        """The problem of the model that its data select; a `FitError` where the method refuses it."""
        if not method.gives_evidence:
            self.data.model.check_searchable(type(method).__name__)
        problem, model = self, self.data.model.selected_by(self.data.statistics)
        if model is not self.data.model:
            problem = dataclasses.replace(self, data=dataclasses.replace(self.data, model=model))
        refusal = method.refusal(problem)
        if refusal is not None:
            form = self.data.model.form_to_search
            raise FitError(refusal if form is None else f"{refusal} These methods take the model with {form}.")
        return problem

    def refusal_of(self, method: "Method") -> str | None:
        """The reason why the method cannot solve the problem, as far as it is known before fitting; else None."""
        return method.refusal(self)

    @property
    def approximates_evidence(self) -> bool:
        """Whether fits by any method have an approximation of their log evidence."""
        return self.data.model.approximates_evidence

    @functools.cached_property
    def program(self) -> GenerativeProgram:
        """The bound program."""
        return self.data.model.bind(self.data.scaled_schema)

    @functools.cached_property
    def conjugate(self) -> Conjugate | None:
        """The conjugate blocks of columns with resolved priors, or None, as for a program of one's own."""
        return self.closed_prior if self.data.model.has_columns else None

    @functools.cached_property
    def closed_prior(self) -> Conjugate | None:
        """The prior whose posterior has a closed form: the blocks of columns, or those recognised in a program."""
        return self.data.model.conjugate(self.data.scaled_schema)

    @property
    def samples_rows(self) -> bool:
        """Whether the program has continuous latents of each row, which are sampled with the others."""
        return self.conjugate is None and bool(self.program.structure.continuous_local)

    @property
    def nothing_to_learn(self) -> str | None:
        """The reason why no method has anything to learn: the program has no latents. Else None."""
        if self.conjugate is not None or self.program.latents or self.samples_rows:
            return None
        return (
            "There is nothing to learn: the program has no continuous latent site, so it is one known process. Ask it "
            "for program.log_joint({}, X), and for the most probable class of each row."
        )

    @functools.cached_property
    def log_likelihoods(self) -> tuple[LogLikelihood, ...]:
        """The log-likelihoods whose sum is that of the program's data."""
        with jax.enable_x64(True):
            return likelihood_terms(self.program, self.data.statistics)

    @property
    def is_enumerable(self) -> bool:
        """Whether all latents are discrete ones that all rows share."""
        return self.conjugate is None and bool(self.program.structure.finite) and not self.program.structure.latents

    @property
    def about_products(self) -> dict[str, Any]:
        """Attributes of a fit: the sites that are compressed to cross products, if any are."""
        names = tuple(term.site for term in self.log_likelihoods if isinstance(term, CrossProductsTerm))
        return {"cross_products": names} if names else {}

    def result(self, method: "Method", posterior: Posterior, attributes: dict[str, Any] | None = None) -> Fit:
        """A fit with this posterior. It keeps the data where the method's fits do and they are statistics alone."""
        statistics = self.data.statistics
        are_statistics = not method.needs_rows and statistics.rows is None and statistics.unlabelled is None
        keeps_data = method.keeps_statistics and are_statistics
        is_dependent = self.data.model.has_row_statistics
        left_out = self._left_out(posterior) if is_dependent else {}
        names = tuple(n for n in self.program.row_statistics if n not in left_out) if is_dependent else ()
        return Fit(
            model=self.model,
            schema=self.data.scaled_schema,
            method=method,
            posterior=self._with_row_statistics(posterior, names) if names else posterior,
            concrete=self.data.model,
            approximate_log_evidence=self.data.model.approximate_log_evidence(statistics),
            summaries=dataclasses.replace(self.data, rows=None) if keeps_data else None,
            attributes={
                **(attributes or {}),
                **({"sites_left_out": left_out} if left_out else {}),
                **({} if self.data.model.has_columns else {"why_row_by_row": self.program.why_row_by_row}),
                **self.about_labels,
                "total_weight": statistics.total_weight,
                **({} if self.data.origin is None else {"statistics": self.data.origin}),
                "device": used(),
            },
        )

    def _left_out(self, posterior: Posterior) -> dict[str, str]:
        """Deterministic site that depends on the rows -> why it cannot be evaluated at those of the training."""
        rows = self.data.rows
        if rows is None:
            reason = "the rows are not kept: give them to fit as X and y, and not in chunks or as Summaries"
        elif not np.isclose(rows.frequencies.sum(), self.data.statistics.total_weight):
            reason = "some rows have no label"
        elif np.any(rows.frequencies % 1):
            reason = "some weights are no whole numbers"
        else:
            local = set(self.program.local) - posterior.parameters.keys()
            return {
                name: f"{unknown[0]!r} of some rows is not known"
                for name, sites in self.program.plan.row_statistics
                if (unknown := [site for site in sites if site in local or site in rows.observed])
            }
        return dict.fromkeys(self.program.row_statistics, reason)

    def _with_row_statistics(self, posterior: Posterior, names: tuple[str, ...]) -> Posterior:
        """The posterior with these deterministic sites, evaluated at the training rows."""
        assert isinstance(posterior, ProcessPosterior) and self.data.rows is not None
        rows = dataclasses.replace(repeated_rows(self.data.rows), weights=None)
        draws = posterior.parameter_draws(1, jax.random.key(0))
        shape = next(iter(draws.values())).shape[:2]
        joined = {n: v for n, v in chains_joined(draws).items() if n in {*self.program.latents, *self.program.local}}
        values = row_statistics(self.program, names, joined, rows)
        return posterior.with_values({name: value.reshape(*shape, *value.shape[1:]) for name, value in values.items()})

    @functools.cached_property
    def about_labels(self) -> dict[str, Any]:
        """Attributes of a fit: the weight of rows without labels, and the classes of which no row has a label."""
        statistics = self.data.statistics
        if statistics.unlabelled is None or not self.has_labels:
            return {}
        pairs = zip(self.data.schema.classes or (), statistics.class_weights, strict=True)
        return {
            "total_weight_unlabelled": statistics.total_weight - float(statistics.class_weights.sum()),
            "classes_without_labels": tuple(label for label, weight in pairs if weight == 0),
        }

    def warn_of_unnamed_classes(self) -> None:
        """Warn once of classes without labelled rows, whose names are arbitrary if their attributes are learned."""
        unnamed = self.about_labels.get("classes_without_labels", ())
        if len(unnamed) > 1 and (self.conjugate is not None or self.program.learns_attributes):
            warn(
                f"The classes {quote_some(unnamed)} have no row with a label: they are told apart by X alone, and "
                "which of them has which name is arbitrary. Label a row of each."
            )

    def warn_of_constant_columns(self) -> None:
        """Warn once of constant columns whose default prior takes its scale from their variance.

        Where the schema came with its scale, the fit that found it has warned.
        """
        schema, earlier, constant = self.data.scaled_schema, self.data.schema, []
        if schema.variance is not None and schema.columns is not None:
            is_new = True if earlier.variance is None else np.isnan(earlier.variance)
            is_constant = np.asarray(schema.variance == 0) & is_new
            constant = np.asarray(schema.columns)[is_constant].tolist()
            if constant and self.conjugate is not None:  # a prior that depends on variances is a default
                unlike = 2 + 3 * np.nanmax(schema.variance)  # neither the default for constant columns nor any mean
                varying = dataclasses.replace(schema, variance=np.where(is_constant, unlike, schema.variance))
                pairs = zip(self.conjugate.blocks, self.data.model.conjugate(varying).blocks, strict=True)
                scaled = {name for block, other in pairs if block.family != other.family for name in block.columns}
                constant = [name for name in constant if name in scaled]
        if schema.response is not None and (earlier.response is None or earlier.response.variance is None):
            constant += schema.response.constant
        if constant:
            warn(
                f"Constant columns {constant}: their default prior takes variance 1, or that of the columns with which "
                "they share it. Drop them if they carry nothing.",
                ConstantColumnWarning,
            )


@in_float64
def values_of(density: ProgramDensity) -> WeightedValues:
    """The distribution of the discrete latents of a program that has no others.

    Raises:
        FitError: data that are impossible at all of their values.
    """
    values = weighted_values.by_numpy(density)
    if not np.isfinite(values.log_integral):
        raise FitError(
            f"The data have the log probability {values.log_integral} at every value of "
            f"{quote_some(density.program.latents)}: add a value that makes them possible, or let rows be noisy."
        )
    return values


class Method(abc.ABC):
    """A method of training, with its arguments."""

    gives_evidence: ClassVar[bool] = False
    """Whether its fits have the log evidence, parameters integrated out in closed form."""
    keeps_statistics: ClassVar[bool] = True
    """Whether its fits keep the statistics of their data, to learn from more rows."""
    gives_draws: ClassVar[bool] = True
    """Whether its fits have draws from the posterior."""
    has_prior: ClassVar[bool] = True
    """Whether its fits depend on the prior."""

    @property
    def needs_rows(self) -> bool:
        """Whether it needs rows one by one, so that they are kept besides their statistics."""
        return False

    def refusal(self, problem: ProgramProblem) -> str | None:
        """The reason why it cannot solve a problem, as far as it is known before fitting; else None."""
        return None

    def has_closed_form(self, conjugate: Conjugate) -> bool:
        """Whether its fits of complete data have a closed form, for `closed_form`."""
        return False

    def closed_form(
        self, model: ConcreteModel, schema: Schema, prior: Conjugate, statistics: SufficientStatistics
    ) -> ProcessPosterior:
        """The posterior, or point, of complete data under a prior with a closed form. Traceable."""
        raise NotImplementedError

    def bytes_kept(self, problem: ProgramProblem) -> float:
        """Memory that the draws of its fit take."""
        return 0.0

    def check_counts(self, **counts: object) -> None:
        """Refuse arguments, by name, that are not whole numbers of at least 1.

        Raises:
            ModelError: naming the method and the argument.
        """
        for name, value in counts.items():
            check_integer(f"{type(self).__name__}: {name}", value, 1)

    def fitted(self, model: Any, data: Summaries, seed: Seed = 0, progress: bool | None = None) -> Fit:
        """The fit of a model to summarised data; a `FitError` where the method refuses them."""
        return ProgramProblem(model, data, seed, progress).fit_by(self)

    def solvers(self, problems: Sequence[ProgramProblem]) -> Sequence[Callable[[], Fit]]:
        """For each of several problems for which there is no `refusal` a function that gives its fit."""
        return [functools.partial(self.solve, problem) for problem in problems]

    @abc.abstractmethod
    def solve(self, problem: ProgramProblem) -> Fit:
        """The fit of a problem for which there is no `refusal`."""


def why_not_closed(
    model: ConcreteModel,
    schema: Schema,
    method: Method,
    statistics: SufficientStatistics,
    rows: Rows | None,
    predicts: bool = False,
) -> str | None:
    """The reason why no compiled function makes fits of such statistics, and of these rows; None where one does.

    With `predicts`, why none makes predictives of these rows too.
    """
    if not model.is_traceable:
        return f"{type(model).__name__} is not traceable"
    conjugate = model.conjugate(schema)
    if conjugate is None or not method.has_closed_form(conjugate):
        return f"{type(method).__name__} has no closed form of this model"
    if not statistics.is_complete:
        return "labels or cells are missing"
    return None if rows is None else why_not_compiled(conjugate, rows, predicts)


def why_not_compiled(conjugate: Conjugate, rows: Rows, predicts: bool) -> str | None:
    """The reason why compiled functions do not take rows: sparse cells, or predictives that add up missing ones."""
    if any(hasattr(values, "tocsr") for values in rows.values.values()):
        return "the rows are sparse"
    is_completed = predicts and any(
        block.family.traits.completed and block.name in rows.observed for block in conjugate.blocks
    )
    return "steps of sequences are missing" if is_completed else None
