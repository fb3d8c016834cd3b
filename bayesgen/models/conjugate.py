"""`Conjugate`: the class prior and blocks of a model, for closed forms and EM."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np

from bayesgen.data import Rows, Schema, SequenceOf
from bayesgen.families import Advice, Family, Names
from bayesgen.records import copied, record, static
from bayesgen.statistics import (
    DensityGivenFeatures,
    RowDensity,
    SufficientStatistics,
    as_float,
    flatten_rows,
    namespace,
)
from bayesgen.typing import Array, Bool, Float

from .closed_response import ClosedResponse


@record
class Block:
    """Columns modelled by one family.

    Attributes:
        name: the attribute site's name.
        family: resolved family; its table of parameters has the classes, where there are any, as first axis.
        columns: names of the columns.
        given: site or covariate of the features that the columns depend on; None without features.
    """

    name: str = static()
    family: Family
    columns: Sequence[str] = static()
    given: str | None = static(default=None)

    def of_column(self, column: str, parameters: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
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
        advice: the remedy that messages name where there is no maximum.
        closed_response: p(y | x) of a continuous label y in closed form, or None.
    """

    class_prior: Family | None
    blocks: tuple[Block, ...]
    classes: tuple[Any, ...] = static()
    closed_response: ClosedResponse | None = static(default=None, kw_only=True)
    advice: Advice = static(default=Advice(), init=False)

    @property
    def is_closed(self) -> bool:
        """Whether the posterior of complete data has a closed form."""
        return self.is_number and all(family.is_closed for _, family in self.families())

    @property
    def is_number(self) -> bool:
        """Whether every hyperparameter is a number, so that the joint mode has a closed form or EM finds it."""
        return not any(family.hierarchical for _, family in self.families())

    def families(self) -> list[tuple[str, Family]]:
        """(name, family) of the class prior, if there is one, and of each block."""
        of_classes = [] if self.class_prior is None else [("class", self.class_prior)]
        return [*of_classes, *((block.name, block.family) for block in self.blocks)]

    def open_blocks(self, statistics: SufficientStatistics) -> list[str]:
        """Names of the blocks without a closed form for these data: jointly normal columns with missing cells."""
        summaries = statistics.summaries
        return [block.name for block in self.blocks if not block.family.has_closed_form(summaries[block.name])]

    def table(self, block: Block) -> Family:
        """A block's family with a class axis, of length 1 without classes."""
        return block.family if self.class_prior is not None else block.family.of_one_class()

    def of_block(self, block: Block, parameters: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The parameters of one block by their names in its family, with a class axis."""
        values = {name: parameters[f"{block.name}_{name}"] for name in block.family.parameter_axes()}
        if self.class_prior is not None:
            return values
        return {name: np.expand_dims(value, 0) for name, value in values.items()}

    def _summary(self, block: Block, statistics: SufficientStatistics) -> Any:
        """The summary that updates a block's family, with a class axis only if there are classes."""
        summary = statistics.summaries[block.name]
        return summary if self.class_prior is not None else summary.of_class(0)

    @property
    def has_several_maxima(self) -> bool:
        """Whether likelihoods of labelled rows have several maxima, because a block has latent variables."""
        return any(block.family.has_several_maxima for block in self.blocks)

    @property
    def without_maximum(self) -> str:
        """The remedies of families with latent variables where there is no maximum; "" without any."""
        return " ".join(dict.fromkeys(block.family.without_maximum for block in self.blocks)).strip()

    def are_empty(self, rows: Rows) -> Bool[np.ndarray, " n"]:
        """Which rows have no observed cell; none if there are sequences, whose length is observed."""
        empty = np.ones(rows.num_rows, bool)
        for block in self.blocks:
            observed = rows.observed.get(block.name)
            if observed is None or isinstance(block.family.kind_of_column(0), SequenceOf):
                return np.zeros(rows.num_rows, bool)
            empty &= ~flatten_rows(np.asarray(observed)).any(1)
        return empty

    def initial_statistics(
        self, statistics: SufficientStatistics, rng: np.random.Generator | None = None
    ) -> SufficientStatistics:
        """Statistics of complete rows imputed from the observed cells, where EM starts.

        See `Family.initial_summary` for the random numbers.
        """
        summaries = {
            block.name: self.table(block).initial_summary(statistics.summaries[block.name], rng)
            for block in self.blocks
        }
        return dataclasses.replace(statistics, summaries={**statistics.summaries, **summaries})

    def names(self, block: Block) -> Names:
        """Names for messages about a block."""
        classes = None if self.class_prior is None else self.classes
        return Names(block.name, classes, block.columns, advice=self.advice)

    @property
    def class_names(self) -> Names:
        """Names for messages about the class prior."""
        return Names("class", None, [f"probability of {label!r}" for label in self.classes], advice=self.advice)

    def update(self, evidence: SufficientStatistics) -> Self:
        """The posterior."""
        families = [block.family.update(self._summary(block, evidence)) for block in self.blocks]
        class_prior = None if self.class_prior is None else self.class_prior.update(evidence.labels)
        return self.replace_families(class_prior, families)

    def log_evidence(self, evidence: SufficientStatistics) -> float | Float[Array, ""]:
        """log p(X, y), all parameters integrated out."""
        blocks = [block.family.log_evidence(self._summary(block, evidence)) for block in self.blocks]
        of_labels = 0.0 if self.class_prior is None else self.class_prior.log_evidence(evidence.labels)
        return as_float(of_labels + sum(blocks))

    def log_prior(self, parameters: Mapping[str, np.ndarray]) -> float:
        """Log prior density of given parameters, in the coordinates that `mode` maximises it in."""
        return sum(family.log_prior(of_family) for family, of_family in self._each_with(parameters))

    def log_likelihood(self, statistics: SufficientStatistics, parameters: Mapping[str, np.ndarray]) -> float:
        """log p(X, y | parameters) of labelled rows."""
        of_labels = [] if self.class_prior is None else [statistics.labels]
        summaries = [*of_labels, *(statistics.summaries[block.name] for block in self.blocks)]
        pairs = zip(self._each_with(parameters), summaries, strict=True)
        return sum(family.log_likelihood(of_family, summary) for (family, of_family), summary in pairs)

    def check_estimable(self, statistics: SufficientStatistics) -> None:
        """Refuse data with missing cells whose likelihood has no maximum, or several; a FitError names the place."""
        for block in self.blocks:
            names = Names(block.name, self.classes, block.columns)
            self.table(block).check_estimable(statistics.summaries[block.name], names)

    def e_step_with_log_likelihood(
        self, statistics: SufficientStatistics, parameters: Mapping[str, np.ndarray]
    ) -> tuple[float, SufficientStatistics]:
        """The log-likelihood of labelled rows, and their expected statistics, in one pass."""
        log_likelihood, summaries = 0.0, {}
        if self.class_prior is not None:
            log_likelihood = self.class_prior.log_likelihood({"probs": parameters["class_probs"]}, statistics.labels)
        for block in self.blocks:
            summary, of_block = statistics.summaries[block.name], self.of_block(block, parameters)
            of_cells, summaries[block.name] = self.table(block).e_step_with_log_likelihood(summary, of_block)
            log_likelihood += of_cells
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
        for block in self.blocks:
            if not (cells_alone and block.family.has_several_maxima):
                of_block = self.of_block(block, parameters)
                summaries[block.name] = self.table(block).e_step(summaries[block.name], of_block)
        return dataclasses.replace(statistics, summaries=summaries)

    def free_parameters(self, parameters: Mapping[str, np.ndarray]) -> Float[np.ndarray, " F"]:
        """The free parameters of EM, unconstrained."""
        return np.concatenate([self.table(b).free_parameters(self.of_block(b, parameters)) for b in self.blocks])

    def at_free_parameters(
        self, vector: Float[np.ndarray, " F"], others: Mapping[str, np.ndarray]
    ) -> dict[str, np.ndarray] | None:
        """Parameters with those of the vector replaced; None where floating point has no such parameters."""
        values, start = dict(others), 0
        for block in self.blocks:
            family = self.table(block)
            stop = start + len(family.free_parameters(self.of_block(block, others)))
            of_block = family.at_free_parameters(vector[start:stop])
            if of_block is None:
                return None
            for name, value in of_block.items():
                values[f"{block.name}_{name}"] = np.asarray(value if self.class_prior is not None else value[0])
            start = stop
        return values

    def maximum_posterior(self, statistics: SufficientStatistics) -> dict[str, np.ndarray]:
        """The joint mode of the parameters given complete rows: {block}_{parameter} -> value."""
        summary_of = self._summaries(statistics)
        return self.collect(lambda family, names: family.maximum_posterior(summary_of[names.block], names))

    def posterior_center(self, statistics: SufficientStatistics) -> dict[str, np.ndarray]:
        """A process at the centre of the posterior given complete rows, without zero probabilities."""
        summary_of = self._summaries(statistics)
        return self.collect(lambda family, names: family.posterior_center(summary_of[names.block]))

    def moment_estimates(self, statistics: SufficientStatistics) -> dict[str, np.ndarray]:
        """Rough estimates without the prior, by which programs adapt coordinates: see `Family.reparametrised`."""
        summary_of = self._summaries(statistics)
        return self.collect(lambda family, names: family.moment_estimates(summary_of[names.block]))

    def center(self) -> dict[str, np.ndarray]:
        """A process at the centre of the prior, without zero probabilities."""
        return self.collect(lambda family, names: family.central_parameters())

    def _summaries(self, statistics: SufficientStatistics) -> dict[str, Any]:
        """Summaries of the labels ("class") and of each block, by name."""
        return {"class": statistics.labels} | {b.name: self._summary(b, statistics) for b in self.blocks}

    def maximum_likelihood(self, statistics: SufficientStatistics) -> dict[str, np.ndarray]:
        """The parameters of highest likelihood: {block}_{parameter} -> value."""
        summary_of = self._summaries(statistics)
        return self.collect(lambda family, names: family.maximum_likelihood(summary_of[names.block], names))

    def _each_with(self, parameters: Mapping[str, np.ndarray]) -> list[tuple[Family, dict[str, np.ndarray]]]:
        """The class prior and each block's family, with their parameters."""
        of_blocks = [(self.table(block), self.of_block(block, parameters)) for block in self.blocks]
        if self.class_prior is None:
            return of_blocks
        return [(self.class_prior, {"probs": parameters["class_probs"]}), *of_blocks]

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

    def coordinates(self, schema: Schema) -> dict[str, Sequence[Any]]:
        """Axis -> the names along it: labels, and those of the families."""
        coordinates: dict[str, Sequence[Any]] = {}
        if self.class_prior is not None:
            coordinates["class"] = [str(label) for label in self.classes]
        for block in self.blocks:
            names = block.family.axis_names(schema, block.columns)
            coordinates |= {self.prefix(block) + axis: names_along for axis, names_along in names.items()}
        return coordinates

    def block_of(self, column: str) -> Block | None:
        """The block of a column; None where there is no such column."""
        return next((block for block in self.blocks if column in block.columns), None)

    def mean(self) -> dict[str, np.ndarray]:
        """Means of the parameters: {block}_{parameter} -> value."""
        return self.collect(lambda family, names: family.mean())

    def mode(self) -> dict[str, np.ndarray]:
        """Joint mode of the parameters, by families."""
        return self.collect(lambda family, names: family.mode(names))

    def sample(self, shape: tuple[int, ...], rng: np.random.Generator) -> dict[str, np.ndarray]:
        """Independent draws of the parameters, each of this shape and then its own."""
        return self.collect(lambda family, names: family.sample(rng, shape))

    def collect(self, of_family: Callable[[Family, Names], Mapping[str, Any]]) -> dict[str, Any]:
        """Parameters of the class prior and of the blocks in one dict: {block}_{parameter} -> value."""
        values: dict[str, Any] = {}
        if self.class_prior is not None:
            values |= {f"class_{k}": v for k, v in of_family(self.class_prior, self.class_names).items()}
        for block in self.blocks:
            parameters = of_family(block.family, self.names(block))
            values |= {f"{block.name}_{name}": namespace(value).asarray(value) for name, value in parameters.items()}
        return values

    def densities_at(self, parameters: Mapping[str, np.ndarray]) -> "Densities":
        """Log class probabilities and the blocks' densities at given parameters."""
        blocks = []
        for block in self.blocks:
            density = self.table(block).row_density(self.of_block(block, parameters))
            blocks.append((block.name, _given(block, density)))
        return (np.zeros(1) if self.class_prior is None else _log(parameters["class_probs"])), blocks

    def predictive_densities(self) -> "Densities":
        """Log class probabilities and the blocks' densities with the parameters integrated out."""
        blocks = [(block.name, _given(block, self.table(block).row_predictive())) for block in self.blocks]
        return np.zeros(1) if self.class_prior is None else _log(self.class_prior.mean()["probs"]), blocks

    def replace_families(self, class_prior: Family | None, families: Iterable[Family]) -> Self:
        """The same blocks with other families."""
        blocks = tuple(
            dataclasses.replace(block, family=family) for block, family in zip(self.blocks, families, strict=True)
        )
        return dataclasses.replace(self, class_prior=class_prior, blocks=blocks)


Densities = tuple[Float[Array, " K"], list[tuple[str, RowDensity]]]  # log class probabilities (K,); of each block


def _given(block: Block, density: RowDensity) -> RowDensity:
    """The density with the site or covariate of its features."""
    return copied(density, source=block.given) if isinstance(density, DensityGivenFeatures) else density


def _log(class_probs: Float[Array, " K"]) -> Float[Array, " K"]:
    """Logs of class probabilities, which may be zero."""
    with np.errstate(divide="ignore"):
        return namespace(class_probs).log(class_probs)
