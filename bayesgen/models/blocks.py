"""`BlockModel`: blocks of columns, each with a conjugate family; how it reads data, and its program."""

import dataclasses
import functools
import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import numpy as np

from bayesgen.data import (
    Kind,
    ResponseColumn,
    Rows,
    Schema,
    Table,
    refuse_classes_of_response,
    refuse_missing_cells,
    response_of_rows,
)
from bayesgen.describe import quote_some
from bayesgen.errors import DataError, FitError, ModelError
from bayesgen.families import Family, FixedCategorical, Scale, argument_names
from bayesgen.generative import GenerativeProgram
from bayesgen.labels import Labelled
from bayesgen.program import Block, ClosedResponse, ConcreteModel, Conjugate, Model, Plan, Recipe, SummedBlock
from bayesgen.records import copied
from bayesgen.statistics import (
    Cells,
    CellSums,
    Likelihood,
    Moments,
    PatternMoments,
    SufficientStatistics,
    Summary,
    any_known,
    as_float,
    check_magnitudes,
    check_rows,
    column_moments,
    namespace,
    sufficient_statistics,
)
from bayesgen.typing import Array, Bool, Float, Values

from .closed_response import refuse_missing_everywhere, refuse_unseen
from .function import LABEL, BlocksFunction

if TYPE_CHECKING:
    from scipy.sparse import csr_array


def check_kind_of_sequences(column: str, kind: Kind, family: Family) -> None:
    """Refuse sequences of another kind than their family models.

    Raises:
        ModelError: naming the column, and what to declare.
    """
    if not kind.is_modelled_by(family.kind_of_column(0)):
        raise ModelError(
            f"Column {column!r} is of kind {kind!r}, and its family {family!r} models {family.kind_of_column(0)!r}. "
            "Leave the kind out of the schema, or choose a family of such sequences."
        )


def with_alphabets(declared: Schema, families: Mapping[str, Family]) -> Schema:
    """The schema with the symbols that families state as categories of their columns.

    Raises:
        ModelError: a column with other declared symbols.
    """
    implied = {column: family.alphabet for column, family in families.items() if family.alphabet is not None}
    for column, symbols in implied.items():
        stated = declared.categories.get(column)
        if stated is not None and tuple(stated) != symbols:
            raise ModelError(
                f"Column {column!r} is declared to have the symbols {quote_some(stated)}, and its family "
                f"{type(families[column]).__name__} has {quote_some(symbols)}. Leave Schema(categories=...) out."
            )
    if not implied:
        return declared
    return dataclasses.replace(declared, categories={**declared.categories, **implied})


def num_values(schema: Schema, name: str, family: Family, columns: Sequence[str]) -> int | None:
    """Number of values, or bins, of each column of a block; None for kinds without such a number."""
    if family.kind.noun_for_values is None or schema.num_values(columns[0]) is None:
        return None
    sizes = [schema.num_values(column) or 0 for column in columns]
    noun, remedy = family.kind.noun_for_values
    if family.num_values is not None:
        for column, size in zip(columns, sizes, strict=True):
            if size != family.num_values:
                ties = family.kind.reason_for_fewer_bins if size < family.num_values else ""
                raise FitError(
                    f"Block {name!r}: concentration has length {family.num_values}, and column {column!r} has {size} "
                    f"{noun}{ties}. Give one number for all of them, or {remedy}."
                )
    numbers = set(sizes)
    if len(numbers) != 1:
        raise ModelError(
            f"Block {name!r}: its columns have {sorted(numbers)} numbers of {noun}. Put columns with different "
            f"numbers of {noun} into different blocks, or {remedy}."
        )
    return numbers.pop()


def column_name(columns: Sequence[str], place: tuple[int, ...]) -> str:
    """The name of a column, to begin a sentence; the place of a cell of sequences is (time step, column).

    The only column of a block may have no place of its own.
    """
    *step, column = place or (0,)
    return f"Column {columns[column]!r}" + (f", step {step[0]}," if step else "")


def _pooled_moments(
    summary: Summary, family: Family, columns: Sequence[str]
) -> tuple[Float[Array, " D"], Float[Array, " D"]]:
    """Means and variances (denominator N) of the observed cells of a block's columns, over all classes.

    The mean is 0 and the variance NaN where a column has no observed cell: its posterior is its prior.
    """
    summary, has_features = summary.by_column(), family.traits.features
    if isinstance(summary, Moments):
        check_magnitudes(summary, lambda place: column_name(columns, place[:1] if has_features else place))
    mean, variance = column_moments(summary.pooled().select_class(0))
    return (mean[..., -1], variance[..., -1]) if has_features else (mean.reshape(-1), variance.reshape(-1))


ClassPrior: TypeAlias = Family | Sequence[float]
"""A family over the codes of the classes, or K fixed probabilities."""


def check_class_can_be_added(
    class_prior: ClassPrior, blocks: Sequence[tuple[str, Family, Sequence[str]]], resolved: Conjugate
) -> None:
    """Refuse to add a class to a classifier whose classes share parameters, or whose prior is stated class by class.

    Args:
        class_prior, blocks: as the user gave them.
        resolved: the same with resolved hyperparameters.

    Raises:
        FitError: naming the block, the shared parameters, and the remedy.
    """
    if not isinstance(class_prior, Family):
        raise FitError(
            f"The class probabilities are fixed, {list(class_prior)}, and leave none for another class. Fit all rows "
            "anew with the probabilities of all classes, or with class_prior=DirichletCategorical()."
        )
    assert resolved.class_prior is not None
    _check_prior("The class prior", class_prior, resolved.class_prior)
    for (name, family, _), block in zip(blocks, resolved.blocks, strict=True):
        _check_prior(f"Block {name!r}", family, block.family)
        shared = [parameter for parameter, axes in block.family.parameter_axes().items() if "class" not in axes]
        if shared:
            raise FitError(
                f"Block {name!r}: all classes share one {' and '.join(shared)}, which rows of a new class would change "
                "for the others too. Fit all rows anew with all classes, or use a family that is not tied."
            )


def _check_prior(owner: str, stated: Family, resolved: Family) -> None:
    """Refuse a hierarchical prior, which classes share, and hyperparameters given class by class.

    Resolved ones have the class as first axis; those given for all classes have fewer axes, or a first one of length 1.
    """
    if stated.hierarchical:
        raise FitError(
            f"{owner}: the hyperparameter {argument_names(stated.hierarchical)} is a distribution, and its "
            "posterior depends on the rows of all classes. Fit all rows anew with all classes, or give a number."
        )
    by_class = [
        name
        for name, value in stated.hyperparameters.items()
        if np.ndim(value) and np.ndim(value) == np.ndim(resolved.hyperparameters[name]) and np.shape(value)[0] > 1
    ]
    if by_class:
        raise FitError(
            f"{owner}: the hyperparameter {argument_names(by_class)} is given for each class, and not for a "
            "new one. Fit all rows anew with values for all classes, or give one value for all."
        )


class BlockModel(ConcreteModel[Labelled]):
    """Blocks of columns that are independent given the class, or blocks without classes.

    Attributes:
        blocks: (name, family, columns) for each block.
        class_prior: of the classes; None for a model without classes.
    """

    blocks: Sequence[tuple[str, Family, Sequence[str]]]
    class_prior: ClassPrior | None

    def columns_read(self, names: Sequence[str]) -> Sequence[str]:
        columns = {column for _, _, block_columns in self.blocks for column in block_columns}
        return [name for name in names if name in columns]

    def infer_schema(self, table: Table, y: np.ndarray | None, declared: Schema) -> Schema:
        """The kinds of the columns are those of their blocks' families."""
        kinds = {
            column: family.kind_of_column(index)
            for _, family, columns in self.blocks
            for index, column in enumerate(columns)
        }
        if self.response is not None:
            refuse_classes_of_response(type(self).__name__, declared.classes)
            response = declared.response or ResponseColumn()
            declared = dataclasses.replace(declared, response=response)
            kinds.pop(response.name)
        elif not self.has_labels:
            refuse_classes(self, y, declared)
        names = table.names if declared.columns is None else declared.columns
        unused = [name for name in names if name not in kinds]
        missing = [name for name in kinds if name not in names]
        if unused or missing:
            raise ModelError(
                f"The blocks and the data must have the same columns: in no block {unused}, not in the data {missing}."
            )
        owners = {column: family for _, family, columns in self.blocks for column in columns}
        declared = with_alphabets(declared, owners)
        schema = declared.resolve(table, y if self.has_labels else None, implied_kinds=kinds)
        for _, family, columns in self.blocks:
            if family.kind.has_steps:
                for column in columns:
                    check_kind_of_sequences(column, schema.kind_of(column), family)
        return schema

    def read_rows(self, schema: Schema, table: Table) -> Rows:
        """The rows, each block's columns encoded."""
        for name, family, _ in self.blocks:
            if table.sparse and not family.traits.sparse:
                raise DataError(
                    f"X is sparse, and block {name!r} ({type(family).__name__}) takes every cell of its columns. Give "
                    "it X.toarray(), or model the columns by DirichletMultinomial() or BetaBernoulli()."
                )
        values: dict[str, Any] = {}
        observed: dict[str, Bool[Array, "n D"]] = {}
        for name, family, columns in self.blocks:
            values[name], mask = _encoded(schema, table, columns)
            if mask is not None:
                if not family.traits.missing:
                    reason = (
                        f"Block {name!r} ({type(family).__name__}) models the cells of a row as parts of one total, "
                        "which is not known where one of them is missing. Drop these rows, or model the columns one by "
                        "one, as GammaPoisson() does."
                    )
                    refuse_missing_cells(mask, columns, reason)
                observed[name] = mask
        # no covariates: parameters depend on none, and densities of rows compute totals from the cells
        return Rows(values, observed)

    def check_rows(self, schema: Schema, attributes: Mapping[str, Cells]) -> None:
        for name, family, columns in self.blocks:
            if self._likelihood(family, schema, name, columns).takes_squares:
                _, variance = self._moments(schema, name, columns)
                check_rows(attributes[name], variance, functools.partial(column_name, columns))

    def summarize(self, schema: Schema, rows: Rows) -> SufficientStatistics:
        """The sufficient statistics of rows: of columns that depend on features, together with these."""
        sources, row_parameters = {**rows.covariates, **rows.values}, {}
        for name, source in self.feature_sources.items():
            features = np.asarray(sources[source])
            row_parameters[name] = {"features": features[:, None] if features.ndim == 1 else features}
        return sufficient_statistics(
            rows, self.statistics(schema), max(1, len(schema.classes or ())), row_parameters=row_parameters
        )

    @property
    def is_traceable(self) -> bool:
        return not self.feature_sources and not self.approximates_evidence

    def statistics(self, schema: Schema) -> dict[str, Likelihood]:
        return {name: self._likelihood(family, schema, name, columns) for name, family, columns in self.blocks}

    def summed_blocks(self, schema: Schema) -> Sequence[SummedBlock] | None:
        statistics, site = self.statistics(schema), None if self.response is None else self.response.site
        are_sums = all(likelihood.cell_sums is not CellSums.NONE for likelihood in statistics.values())
        if not are_sums or self.feature_sources:
            return None
        return [
            (name, statistics[name], (*columns[:-1], None) if name == site else columns)
            for name, _, columns in self.blocks
        ]

    def with_scale(self, schema: Schema, summaries: Mapping[str, Any]) -> Schema:
        """Fill in means and variances of the columns, from the summaries of the blocks; known ones stay."""
        if not any(family.traits.scaled for _, family, _ in self.blocks):
            return schema
        positions, moments = [], []
        for name, family, columns in self.blocks:
            mean, variance = self._moments(schema, name, columns)
            if family.traits.scaled:
                new_mean, new_variance = _pooled_moments(summaries[name], family, columns)  # refuses too large values
                xp = namespace(mean, new_mean)
                is_new = xp.isnan(mean)
                mean, variance = xp.where(is_new, new_mean, mean), xp.where(is_new, new_variance, variance)
            positions += self._positions(schema, name, columns)
            moments.append((mean, variance))
        order, xp = np.argsort(positions), namespace(*itertools.chain(*moments))
        mean, variance = (xp.concatenate(parts)[order] for parts in zip(*moments, strict=True))
        if schema.response is None:
            return copied(schema, mean=mean, variance=variance)
        self._refuse_without_response(schema.response, summaries)
        response = dataclasses.replace(schema.response, mean=as_float(mean[-1]), variance=as_float(variance[-1]))
        return copied(schema, mean=mean[:-1], variance=variance[:-1], response=response)

    def _positions(self, schema: Schema, name: str, columns: Sequence[str]) -> list[int]:
        """Indices of the columns of a block among all columns and the response.

        The response is the last column of its block, and may have the name of another column.
        """
        names = schema.columns or ()
        position = dict(zip(names, range(len(names)), strict=True))
        if self.response is None or name != self.response.site:
            return list(map(position.__getitem__, columns))
        return [*map(position.__getitem__, columns[:-1]), len(position)]

    def _refuse_without_response(self, response: ResponseColumn, summaries: Mapping[str, Any]) -> None:
        """Refuse training rows without any response, unless the schema of an earlier fit has its moments."""
        assert self.response is not None
        summary = summaries[self.response.site]
        by_column = summary.by_column() if isinstance(summary, PatternMoments) else summary
        counts = namespace(by_column.mean).broadcast_to(by_column.cell_counts, by_column.mean.shape)
        if response.mean is None and any_known(~counts[..., -1].any()):
            refuse_missing_everywhere(response.name)

    @property
    def feature_sources(self) -> Mapping[str, str]:
        """Block -> site or covariate of the features that its columns depend on, for blocks with features."""
        return {}

    @property
    def closed_response(self) -> ClosedResponse | None:
        return None

    @property
    def has_labels(self) -> bool:
        return self.class_prior is not None

    def with_components(self, num_components: int) -> Recipe:
        if not self.has_labels:
            refuse_components(self)
        return self

    def conjugate(self, schema: Schema) -> Conjugate:
        """The resolved class prior and blocks; without classes, families have no class axis."""
        blocks = tuple(
            Block(
                name,
                family.resolve(self._scale(schema, name, family, columns)),
                columns,
                self.feature_sources.get(name),
            )
            for name, family, columns in self.blocks
        )
        prior = self.class_prior
        if prior is None:
            return Conjugate(None, blocks, (), closed_response=self.closed_response)
        prior = prior if isinstance(prior, Family) else FixedCategorical(prior)
        classes = tuple(schema.classes or ())
        return Conjugate(prior.resolve(Scale(num_categories=len(classes))), blocks, classes)

    def bind(self, schema: Schema) -> GenerativeProgram:
        """The program of data with this schema. Default hyperparameters need its means and variances."""
        conjugate = self.conjugate(schema)
        families = {block.name: block.family for block in conjugate.blocks}
        prior = conjugate.class_prior
        function = BlocksFunction(prior, tuple(families.values()), tuple(families), tuple(self.feature_sources.items()))
        program = GenerativeProgram(function, label=None if prior is None else LABEL, classes=schema.classes)
        statistics = self.statistics(schema)
        dependences = tuple((name, (source,)) for name, source in self.feature_sources.items() if source in families)
        compressed = tuple((name, statistics[name]) for name in families)
        plan = Plan(compressed, row_parameters=tuple(self.feature_sources), dependences=dependences)
        return program.replace(plan=plan)

    def _scale(self, schema: Schema, name: str, family: Family, columns: Sequence[str]) -> Scale:
        """The `Scale` of a block: numbers of classes, columns and categories; means and variances."""
        shape = self._shape(schema, name, family, columns)
        if not family.traits.scaled:
            return shape
        if schema.mean is None or schema.variance is None:
            refuse_unseen(name)
        mean, variance = self._moments(schema, name, columns)
        return dataclasses.replace(shape, mean=mean, variance=variance)

    def _moments(
        self, schema: Schema, name: str, columns: Sequence[str]
    ) -> tuple[Float[Array, " D"], Float[Array, " D"]]:
        """Means and variances of the columns of a block; NaN where they are not known."""
        response, unknown = schema.response, np.full(len(schema.columns or ()), np.nan)
        mean = unknown if schema.mean is None else schema.mean
        variance = unknown if schema.variance is None else schema.variance
        if response is not None:
            last_mean, last_variance = (np.nan if m is None else m for m in (response.mean, response.variance))
            xp = namespace(mean, variance, last_mean, last_variance)
            mean, variance = xp.append(mean, last_mean), xp.append(variance, last_variance)
        positions = np.array(self._positions(schema, name, columns))
        return mean[positions], variance[positions]

    def _shape(self, schema: Schema, name: str, family: Family, columns: Sequence[str]) -> Scale:
        """The `Scale` of a block without means and variances."""
        num_classes = len(schema.classes or ()) if self.has_labels else None
        scale = Scale(num_classes, len(columns), num_values(schema, name, family, columns))
        if not family.kind.parameters:
            return scale
        parameters = [schema.kind_of(column).parameters for column in columns]
        tables: dict[str, Any] = {key: np.asarray([table[key] for table in parameters]) for key in parameters[0]}
        return dataclasses.replace(scale, **tables)

    def _likelihood(self, family: Family, schema: Schema, name: str, columns: Sequence[str]) -> Likelihood:
        if num_values(schema, name, family, columns) is None:
            return family.likelihood
        return family.resolve(self._shape(schema, name, family, columns)).likelihood


def _encoded(
    schema: Schema, table: Table, columns: Sequence[str]
) -> tuple["np.ndarray | csr_array", Bool[np.ndarray, "n D"] | None]:
    """The cells of a block and a mask, see `Schema.encode_cells`; its last column may be the response."""
    if schema.response is None or schema.response.name not in columns:
        return schema.encode_cells(table, columns)
    response = response_of_rows(table, schema.response.name)[:, None]
    is_observed = ~np.isnan(response)
    if len(columns) == 1:
        return response, None if is_observed.all() else is_observed
    values, mask = schema.encode_cells(table, columns[:-1])
    if mask is None and len(values) and not is_observed.any():  # new rows share one mask, which takes no memory
        by_column = np.zeros((len(columns), len(values)))  # long vectors, as predictions take them
        by_column[:-1] = values.T
        return by_column.T, np.broadcast_to(np.arange(len(columns)) < len(columns) - 1, by_column.T.shape)
    values = np.concatenate([values, np.where(is_observed, response, 0.0)], 1)
    if mask is None and is_observed.all():
        return values, None
    mask = np.ones((len(values), len(columns) - 1), bool) if mask is None else mask
    return values, np.concatenate([mask, is_observed], 1)


def refuse_classes(model: Model, y: Values | None, declared: Schema) -> None:
    """Refuse labels, and declared classes, for a model without classes.

    Raises:
        DataError: labels or declared classes.
    """
    if y is not None:
        raise DataError(f"{type(model).__name__} has no classes, so it takes no y: drop it.")
    if declared.classes is not None:
        raise DataError(f"{type(model).__name__} has no classes: leave Schema(classes=...) out.")


def refuse_components(model: Model) -> NoReturn:
    """Refuse a mixture of a model without classes."""
    raise ModelError(
        f"A Mixture needs classes to be its components, and {type(model).__name__} has none. Give it a classifier of "
        "these columns, such as GaussianDiscriminant()."
    )
