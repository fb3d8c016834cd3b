"""`Conjugate`: the class prior and blocks of a model, for closed forms and EM."""

import abc
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np

from bayesgen.data import Rows, Schema
from bayesgen.families import Family, IncompleteFamily, LatentVariableFamily, Names
from bayesgen.predictives import PredictiveDistribution
from bayesgen.records import copied, record, static
from bayesgen.statistics import (
    DensityGivenFeatures,
    RowDensity,
    SufficientStatistics,
    as_float,
    flatten_rows,
    namespace,
)
from bayesgen.typing import Array, Bool, Category, Float, Int

ClosedAnswer: TypeAlias = tuple[PredictiveDistribution, Float[np.ndarray, "S n"] | None]
"""p(y | x), and log p(x) where the same pass over the rows gives it."""


class ClosedResponse(abc.ABC):
    """p(y | x) in closed form. It holds no numbers, and hashes by content."""

    is_predictive: ClassVar[bool] = True
    """Whether it has a closed form with the parameters integrated out, too."""

    @abc.abstractmethod
    def at(self, parameters: Mapping[str, np.ndarray], rows: Rows) -> ClosedAnswer | None:
        """p(y | x, Q) of rows without y, at the parameters of a process; None without a closed form.

        Parameters, and so the distribution, may have a leading axis of draws.
        """

    @abc.abstractmethod
    def predictive(self, families: Mapping[str, Family], rows: Rows) -> ClosedAnswer | None:
        """p(y | x, T) of rows without y, the parameters integrated out; None without a closed form.

        Args:
            families: block -> updated family.
            rows: rows without y.
        """


@record
class SiteEntries:
    """A latent site of a program as the parameter of a family: which of its entries stand where in the table.

    Attributes:
        site: name of the latent site.
        shape: of its value.
        entries: for each cell of the parameter's table, an index into the value of the site as a vector. Each entry of
            the site stands in one cell.
    """

    site: str = static()
    shape: tuple[int, ...] = static()
    entries: Int[Array, "..."]

    def table(self, values: Any) -> Any:
        """The parameter, from a value of the site."""
        return values.reshape(-1)[self.entries, ...]

    def values(self, table: Array) -> np.ndarray:
        """The value of the site, from the parameter; axes of draws come first."""
        draws = table.shape[: table.ndim - self.entries.ndim]
        order = np.argsort(self.entries, axis=None)
        return np.asarray(table).reshape((*draws, -1))[..., order].reshape((*draws, *self.shape))


@record
class Block:
    """Columns, or an attribute site of a program, modelled by one family.

    Attributes:
        name: the attribute site's name.
        family: resolved family; its table of parameters has the classes, where there are any, as first axis.
        columns: names of the columns; empty in a program of one's own, whose cells have no names.
        source: site or covariate of the features that the columns depend on; None without features.
        sites: parameter -> the latent site that it is; None where sites are called `{block}_{parameter}`.
        pooled: whether all classes share all parameters, in tables of one class.
        in_one_axis: whether the cells of a row, of any shape, are the columns of the family.
    """

    name: str = static()
    family: Family
    columns: Sequence[str] = static()
    source: str | None = static(default=None)
    sites: Mapping[str, SiteEntries] | None = None
    pooled: bool = static(default=False)
    in_one_axis: bool = static(default=False)

    def summary(self, summary: Any) -> Any:
        """The summary of the site as the family takes it."""
        summary = summary.in_one_axis() if self.in_one_axis else summary
        return summary.pooled() if self.pooled else summary

    def column_parameters(self, column: str, parameters: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Parameter -> its entries for one column. Parameters may have leading axes."""
        place, values = list(self.columns).index(column), {}
        for parameter, axes in self.family.parameter_axes().items():
            value = parameters[f"{self.name}_{parameter}"]
            values[parameter] = np.take(value, place, axes.index("feature") - len(axes)) if "feature" in axes else value
        return values


@record
class Conjugate:
    """A class prior and blocks, all resolved: a prior over processes, or a posterior.

    Without classes, families and parameters have no class axis. Statistics and densities of rows have one of length 1,
    which is added and removed here alone.

    Attributes:
        class_prior: family over the K class probabilities; None without classes.
        blocks: the blocks, independent given the class.
        classes: the labels.
        class_sites: as `Block.sites`, of the class prior.
        averaging, without_class: remedies that messages name where there is no maximum: see `Names`.
        closed_response: p(y | x) of a continuous label y in closed form, or None.
    """

    class_prior: Family | None
    blocks: tuple[Block, ...]
    classes: tuple[Category, ...] = static()
    class_sites: Mapping[str, SiteEntries] | None = dataclasses.field(default=None, kw_only=True)
    closed_response: ClosedResponse | None = static(default=None, kw_only=True)
    averaging: str = static(default=Names.averaging, init=False)
    without_class: str = static(default=Names.without_class, init=False)
    is_one_structure: ClassVar[bool] = True
    """Whether it is a distribution of the parameters of one program."""

    @property
    def is_closed(self) -> bool:
        """Whether the posterior of complete data has a closed form."""
        return self.is_number and not any(isinstance(family, LatentVariableFamily) for _, family in self.families())

    @property
    def is_number(self) -> bool:
        """Whether every hyperparameter is a number, so that the joint mode has a closed form or EM finds it."""
        return not any(family.hierarchical for _, family in self.families())

    def families(self) -> list[tuple[str, Family]]:
        """(name, family) of the class prior, if there is one, and of each block."""
        pairs = [] if self.class_prior is None else [("class", self.class_prior)]
        return [*pairs, *((block.name, block.family) for block in self.blocks)]

    def incomplete(self, statistics: SufficientStatistics) -> list[tuple[Block, IncompleteFamily]]:
        """The blocks whose rows lack cells or have hidden variables, with their families: see `table`."""
        pairs = [
            (block, self.table(block)) for block in self.blocks if not statistics.summaries[block.name].is_complete
        ]
        return [(block, family) for block, family in pairs if isinstance(family, IncompleteFamily)]

    def table(self, block: Block) -> Family:
        """A block's family with a class axis, of length 1 without classes."""
        return block.family if self.class_prior is not None else block.family.with_class_axis()

    def block_parameters(self, block: Block, parameters: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The parameters of one block by their names in its family, with a class axis."""
        values = self._parameters(block.name, block.family, parameters)
        if self.class_prior is not None:
            return values
        return {name: namespace(value).expand_dims(value, 0) for name, value in values.items()}

    @property
    def has_several_maxima(self) -> bool:
        """Whether likelihoods of labelled rows have several maxima, because a block has latent variables."""
        return bool(self.without_maximum)

    @property
    def without_maximum(self) -> str:
        """The remedies of families with latent variables where there is no maximum; "" without any."""
        families = [block.family for block in self.blocks if isinstance(block.family, IncompleteFamily)]
        return " ".join(dict.fromkeys(family.without_maximum for family in families)).strip()

    def are_empty(self, rows: Rows) -> Bool[np.ndarray, " n"]:
        """Which rows have no observed cell; none if there are sequences, whose length is observed."""
        empty = np.ones(rows.num_rows, bool)
        for block in self.blocks:
            observed = rows.observed.get(block.name)
            if observed is None or block.family.kind.has_steps:
                return np.zeros(rows.num_rows, bool)
            empty &= ~flatten_rows(np.asarray(observed)).any(1)
        return empty

    def initial_statistics(
        self, statistics: SufficientStatistics, rng: np.random.Generator | None = None
    ) -> SufficientStatistics:
        """Statistics of complete rows imputed from the observed cells, where EM starts.

        See `Family.initial_summary` for the random numbers.
        """
        summaries = dict(statistics.summaries)
        for block, family in self.incomplete(statistics):
            summaries[block.name] = family.initial_summary(summaries[block.name], rng)
        return dataclasses.replace(statistics, summaries=summaries)

    def update(self, evidence: SufficientStatistics) -> Self:
        """The posterior given complete rows, of families whose hyperparameters are numbers."""
        summary_of = self._summaries(evidence)
        blocks = tuple(
            dataclasses.replace(block, family=block.family.posterior(summary_of[block.name])) for block in self.blocks
        )
        prior = None if self.class_prior is None else self.class_prior.posterior(summary_of["class"])
        return dataclasses.replace(self, class_prior=prior, blocks=blocks)

    def log_evidence(self, evidence: SufficientStatistics) -> float | Float[Array, ""]:
        """log p(X, y), all parameters integrated out."""
        summary_of = self._summaries(evidence)
        return as_float(sum(family.log_evidence(summary_of[name]) for name, family in self.families()))

    def log_prior(self, parameters: Mapping[str, np.ndarray]) -> float:
        """Log prior density of given parameters, in the coordinates that `mode` maximises it in."""
        return sum(family.log_prior(values) for _, family, values in self._families_with(parameters))

    def log_likelihood(self, statistics: SufficientStatistics, parameters: Mapping[str, np.ndarray]) -> float:
        """log p(X, y | parameters) of labelled rows."""
        summary_of = {"class": statistics.labels} | dict(statistics.summaries)
        families = self._families_with(parameters)
        return sum(family.log_likelihood(values, summary_of[name]) for name, family, values in families)

    def check_estimable(self, statistics: SufficientStatistics) -> None:
        """Refuse data with missing cells whose likelihood has no maximum, or several; a FitError names the place."""
        for block, family in self.incomplete(statistics):
            family.check_estimable(statistics.summaries[block.name], Names(block.name, self.classes, block.columns))

    def e_step_with_log_likelihood(
        self, statistics: SufficientStatistics, parameters: Mapping[str, np.ndarray]
    ) -> tuple[float, SufficientStatistics]:
        """The log-likelihood of labelled rows, and their expected statistics, in one pass."""
        summaries, log_likelihood = {"class": statistics.labels} | dict(statistics.summaries), 0.0
        for name, family, values in self._families_with(parameters):
            if isinstance(family, IncompleteFamily) and not summaries[name].is_complete:
                term, summaries[name] = family.e_step(summaries[name], values)
            else:
                term = family.log_likelihood(values, summaries[name])
            log_likelihood += term
        del summaries["class"]
        return log_likelihood, dataclasses.replace(statistics, summaries=summaries)

    def e_step(
        self, statistics: SufficientStatistics, parameters: Mapping[str, np.ndarray], *, cells_alone: bool = False
    ) -> SufficientStatistics:
        """The expected statistics of labelled rows, given parameters.

        Args:
            statistics: of the rows.
            parameters: of the process.
            cells_alone: whether blocks with latent variables are left as they are, for `initial_summary`.
        """
        summaries = dict(statistics.summaries)
        for block, family in self.incomplete(statistics):
            if not (cells_alone and family.without_maximum):
                summaries[block.name] = family.e_step(summaries[block.name], self.block_parameters(block, parameters))[
                    1
                ]
        return dataclasses.replace(statistics, summaries=summaries)

    def free_parameters(self, parameters: Mapping[str, np.ndarray]) -> Float[np.ndarray, " F"]:
        """The free parameters of EM, unconstrained."""
        incomplete = [block for block in self.blocks if isinstance(block.family, IncompleteFamily)]
        return np.concatenate([np.zeros(0), *(self._free_parameters(block, parameters) for block in incomplete)])

    def _free_parameters(self, block: Block, parameters: Mapping[str, np.ndarray]) -> Float[np.ndarray, " F"]:
        family = self.table(block)
        assert isinstance(family, IncompleteFamily)
        return family.free_parameters(self.block_parameters(block, parameters))

    def at_free_parameters(
        self, vector: Float[np.ndarray, " F"], parameters: Mapping[str, np.ndarray]
    ) -> dict[str, np.ndarray] | None:
        """Parameters with those of the vector replaced; None where floating point has no such parameters."""
        values, start = dict(parameters), 0
        for block in self.blocks:
            family = self.table(block)
            if isinstance(family, IncompleteFamily):
                stop = start + len(self._free_parameters(block, parameters))
                moved, start = family.at_free_parameters(vector[start:stop]), stop
                if moved is None:
                    return None
                for name, value in moved.items():
                    values[f"{block.name}_{name}"] = np.asarray(value if self.class_prior is not None else value[0])
        return values

    def _families_with(self, parameters: Mapping[str, np.ndarray]) -> list[tuple[str, Family, dict[str, np.ndarray]]]:
        """Name, family with a class axis, and parameters, of the class prior and of each block."""
        blocks = [(block.name, self.table(block), self.block_parameters(block, parameters)) for block in self.blocks]
        if self.class_prior is None:
            return blocks
        return [("class", self.class_prior, {"probs": self._class_probs(parameters)}), *blocks]

    def _sites(self, name: str) -> Mapping[str, SiteEntries] | None:
        """Parameter -> site, of the class prior or a block; None where sites have the names of blocks."""
        return self.class_sites if name == "class" else next(b.sites for b in self.blocks if b.name == name)

    def _parameters(self, name: str, family: Family, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters of a block by their names in its family."""
        sites = self._sites(name)
        if sites is None:
            return {key: parameters[f"{name}_{key}"] for key in family.parameter_axes()}
        return {key: entries.table(parameters[entries.site]) for key, entries in sites.items()}

    def _class_probs(self, parameters: Mapping[str, np.ndarray]) -> Float[np.ndarray, " K"]:
        """The class probabilities of a process; fixed ones of a program are no parameters."""
        assert self.class_prior is not None
        if self.class_sites is None:
            return parameters["class_probs"]
        stated = self._parameters("class", self.class_prior, parameters)
        return stated["probs"] if stated else np.asarray(self.class_prior.mean()["probs"])

    @property
    def axes(self) -> dict[str, tuple[str, ...]]:
        """{block}_{parameter} -> names of its axes: class, and the keys of `coordinates`."""
        axes: dict[str, tuple[str, ...]] = {} if self.class_prior is None else {"class_probs": ("class",)}
        for block in self.blocks:
            prefix = self.prefix(block)
            for parameter, names in block.family.parameter_axes().items():
                axes[f"{block.name}_{parameter}"] = tuple(
                    name if name == "class" else prefix + name
                    for name in names
                    if name != "class" or self.class_prior is not None
                )
        return axes

    def prefix(self, block: Block) -> str:
        """The prefix of the names of a block's axes, where there are several blocks."""
        return f"{block.name}_" if len(self.blocks) > 1 else ""

    def coordinates(self, schema: Schema) -> dict[str, Sequence[Category]]:
        """Axis -> the names along it: labels, and those of the families."""
        coordinates: dict[str, Sequence[Category]] = {}
        if self.class_prior is not None:
            coordinates["class"] = [str(label) for label in self.classes]
        for block in self.blocks:
            names = block.family.axis_names(schema, block.columns)
            coordinates |= {self.prefix(block) + axis: names_along for axis, names_along in names.items()}
        return coordinates

    def block_of(self, column: str) -> Block | None:
        """The block of a column; None where there is no such column."""
        return next((block for block in self.blocks if column in block.columns), None)

    # --- parameters of all families: site, such as {block}_{parameter}, -> value -----------------------------------

    def mean(self) -> dict[str, Any]:
        """Means of the parameters."""
        return self.collect(lambda family, names, summary: family.mean())

    def mode(self) -> dict[str, Any]:
        """Joint mode of the parameters, by families."""
        return self.collect(lambda family, names, summary: family.mode(names))

    def variance(self) -> dict[str, Any]:
        """Variances of the parameters, elementwise."""
        return self.collect(lambda family, names, summary: family.variance())

    def quantile(self, prob: float) -> dict[str, Any]:
        """Quantiles of the parameters, elementwise: NaN, or no entry, where the marginal has no closed form."""
        return self.collect(lambda family, names, summary: family.quantile(prob))

    def center(self) -> dict[str, Any]:
        """A process at the centre of the prior, without zero probabilities."""
        return self.collect(lambda family, names, summary: family.central_parameters())

    def sample(self, shape: tuple[int, ...], rng: np.random.Generator) -> dict[str, Any]:
        """Independent draws of the parameters, each of this shape and then its own."""
        return self.collect(lambda family, names, summary: family.sample(rng, shape))

    def maximum_likelihood(self, statistics: SufficientStatistics) -> dict[str, Any]:
        """The parameters of highest likelihood given complete rows."""
        return self.collect(lambda family, names, summary: family.maximum_likelihood(summary, names), statistics)

    def maximum_posterior(self, statistics: SufficientStatistics) -> dict[str, Any]:
        """The joint mode of the parameters given complete rows."""
        return self.collect(lambda family, names, summary: family.maximum_posterior(summary, names), statistics)

    def posterior_center(self, statistics: SufficientStatistics) -> dict[str, Any]:
        """A process at the centre of the posterior given complete rows, without zero probabilities."""
        return self.collect(lambda family, names, summary: family.central_parameters(summary), statistics)

    def moment_estimates(self, statistics: SufficientStatistics) -> dict[str, Any]:
        """Rough estimates without the prior, to which programs adapt coordinates: see `Family.reparametrised`."""

        def estimates(family: Family, names: Names, summary: Any) -> Mapping[str, Any]:
            return family.moment_estimates(summary) if isinstance(family, LatentVariableFamily) else {}

        return self.collect(estimates, statistics)

    def collect(
        self,
        function: Callable[[Family, Names, Any], Mapping[str, Any]],
        statistics: SufficientStatistics | None = None,
    ) -> dict[str, Any]:
        """Site -> value, from a function (family, names for messages, summary) -> the family's parameters."""
        summary_of = {} if statistics is None else self._summaries(statistics)
        values: dict[str, Any] = {}
        for name, family in self.families():
            parameters = function(family, self._names(name, family), summary_of.get(name))
            sites = self._sites(name)
            if sites is None:
                values |= {f"{name}_{key}": namespace(value).asarray(value) for key, value in parameters.items()}
            else:
                values |= {
                    e.site: e.values(np.asarray(parameters[key])) for key, e in sites.items() if key in parameters
                }
        return values

    def _summaries(self, statistics: SufficientStatistics) -> dict[str, Any]:
        """Summaries of the labels ("class") and of each block, with a class axis only if there are classes."""
        if self.class_prior is None:
            return {b.name: b.summary(statistics.summaries[b.name]).select_class(0) for b in self.blocks}
        summaries = {"class": statistics.labels} | dict(statistics.summaries)
        for block in self.blocks:
            if block.sites is not None:
                summaries[block.name] = block.summary(summaries[block.name])
        return summaries

    def _names(self, name: str, family: Family) -> Names:
        """Names for messages: hidden variables have no method that averages but `NUTS`."""
        averaging = "NUTS()" if isinstance(family, LatentVariableFamily) else self.averaging
        remedies: Any = {"averaging": averaging, "without_class": self.without_class}
        if family is self.class_prior:
            return Names("class", None, [f"probability of {label!r}" for label in self.classes], **remedies)
        block = next(block for block in self.blocks if block.name == name)
        classes = None if self.class_prior is None else () if block.pooled else self.classes
        return Names(name, classes, block.columns or None, **remedies)

    def tilted(
        self, parameters: Mapping[str, np.ndarray], slopes: Mapping[str, Float[np.ndarray, "K ..."]]
    ) -> dict[str, Any] | None:
        """The parameters of blocks whose densities are tilted, see `Family.tilted`, by slopes of each block.

        None where log odds of classes cannot be any linear function of the cells.
        """
        if self.class_prior is None or self.class_prior.is_fixed:
            return None
        tilted: dict[str, Any] = {}
        for block in self.blocks:
            tables = block.family.tilted(self.block_parameters(block, parameters), slopes[block.name])
            if tables is None:
                return None
            tilted |= {f"{block.name}_{name}": table for name, table in tables.items()}
        return tilted

    def densities_at(self, parameters: Mapping[str, np.ndarray]) -> "Densities":
        """Log class probabilities and the blocks' densities at given parameters."""
        blocks = []
        for block in self.blocks:
            density = self.table(block).row_density(self.block_parameters(block, parameters))
            blocks.append((block.name, _with_source(block, density)))
        return (np.zeros(1) if self.class_prior is None else _log(self._class_probs(parameters))), blocks

    def predictive_densities(self) -> "Densities":
        """Log class probabilities and the blocks' densities with the parameters integrated out."""
        blocks = [(block.name, _with_source(block, self.table(block).row_predictive())) for block in self.blocks]
        return np.zeros(1) if self.class_prior is None else _log(self.class_prior.mean()["probs"]), blocks


Densities = tuple[Float[Array, " K"], list[tuple[str, RowDensity]]]  # log class probabilities (K,); of each block


def _with_source(block: Block, density: RowDensity) -> RowDensity:
    """The density with the site or covariate of its features."""
    return copied(density, source=block.source) if isinstance(density, DensityGivenFeatures) else density


def _log(class_probs: Float[Array, " K"]) -> Float[Array, " K"]:
    """Logs of class probabilities, which may be zero."""
    with np.errstate(divide="ignore"):
        return namespace(class_probs).log(class_probs)
