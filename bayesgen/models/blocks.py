"""Models of blocks of columns, each with a conjugate family: how they read data, and the program of them."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from bayesgen.data import (
    BINNED,
    SEQUENCE,
    ResponseColumn,
    Rows,
    Schema,
    Table,
    refuse_classes_of_response,
    refuse_missing_cells,
    response_of_rows,
)
from bayesgen.errors import DataError, ModelError
from bayesgen.families import Family, FixedCategorical, Scale, default_variances
from bayesgen.labels import Labelled
from bayesgen.program import ConcreteModel, GenerativeProgram, Model, Plan, PytreeFunction, Recipe
from bayesgen.statistics import Cells, PatternMoments, Statistic, check_rows
from bayesgen.typing import Array, Bool

from .apart import ClassPrior
from .block_columns import (
    check_sequences,
    column_moments,
    column_name,
    known_moments,
    num_values,
    with_alphabets,
)
from .closed_response import ClosedResponse
from .conjugate import Block, Conjugate
from .function import LABEL, BlocksFunction, ClassifierFunction
from .regression import refuse_missing_everywhere


class BlockModel(ConcreteModel[Labelled]):
    """Blocks of columns, independent of each other given the class; or without classes.

    Attributes:
        blocks: (name, family, columns) for each block.
        class_prior: of the classes; None where there are none.
    """

    blocks: Sequence[tuple[str, Family, Sequence[str]]]
    class_prior: ClassPrior | None

    def infer_schema(self, table: Table, y: Any, declared: Schema) -> Schema:
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
        if declared.columns is not None:
            declared.check_table(table)
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
            if family.kind == SEQUENCE:
                for column in columns:
                    check_sequences(column, schema.kinds[column], family)
        return schema

    def read(self, schema: Schema, table: Table) -> Rows:
        """Encode each block's columns."""
        schema.check_table(table)
        for name, family, _ in self.blocks:
            if table.sparse and not family.takes_sparse:
                raise DataError(
                    f"X is sparse, and block {name!r} ({type(family).__name__}) takes every cell of its columns. Give "
                    "it X.toarray(), or model the columns by DirichletMultinomial() or BetaBernoulli()."
                )
        values: dict[str, Any] = {}
        observed: dict[str, Bool[Array, "n D"]] = {}
        for name, family, columns in self.blocks:
            values[name], mask = _encoded(schema, table, columns)
            if mask is not None:
                if not family.takes_missing:
                    refuse_missing_cells(mask, columns, _of_whole_rows(name, family))
                observed[name] = mask
        # covariates are left out: what is learned depends on none, and densities of rows see the totals in the cells
        return Rows(values, observed)

    def check_rows(self, schema: Schema, attributes: Mapping[str, Cells]) -> None:
        """See `ConcreteModel.check_rows`."""
        for name, family, columns in self.blocks:
            is_real = family.kind in ("real", SEQUENCE)  # or its steps may be
            if is_real and self._statistic(family, schema, name, columns).takes_squares:
                variance = self._scale(schema, name, family, columns).variance
                units = 1.0 if variance is None else np.sqrt(default_variances(variance))
                check_rows(attributes[name], units, functools.partial(column_name, columns))

    def statistics(self, schema: Schema) -> dict[str, Statistic]:
        """Each block's statistic."""
        return {name: self._statistic(family, schema, name, columns) for name, family, columns in self.blocks}

    def with_scale(self, schema: Schema, summaries: Mapping[str, Any]) -> Schema:
        """Fill in means and variances of the columns, from the summaries of the blocks. Those that are known stay."""
        if not any(family.scaled for _, family, _ in self.blocks):
            return schema
        position, mean, variance = known_moments(schema)
        for name, family, columns in self.blocks:
            if family.scaled:
                where = np.array([position[column] for column in columns])
                found = column_moments(summaries[name], columns)  # which are refused where they are too large
                is_known = ~np.isnan(mean[where])
                mean[where] = np.where(is_known, mean[where], found[0])
                variance[where] = np.where(is_known, variance[where], found[1])
        if schema.response is None:
            return dataclasses.replace(schema, mean=mean, variance=variance)
        self._refuse_without_response(schema.response, summaries)
        response = dataclasses.replace(schema.response, mean=float(mean[-1]), variance=float(variance[-1]))
        return dataclasses.replace(schema, mean=mean[:-1], variance=variance[:-1], response=response)

    def _refuse_without_response(self, response: ResponseColumn, summaries: Mapping[str, Any]) -> None:
        """Refuse training rows of which none tells of the response, where no fit has told of it before."""
        assert self.response is not None
        summary = summaries[self.response.site]
        by_column = summary.by_column() if isinstance(summary, PatternMoments) else summary
        counts = np.broadcast_to(by_column.cell_counts, by_column.mean.shape)
        if response.mean is None and not counts[..., -1].any():
            refuse_missing_everywhere(response.name)

    @property
    def given(self) -> Mapping[str, str]:
        """Block -> the site or covariate that holds the features on which its columns depend, where there are any."""
        return {}

    @property
    def closed_response(self) -> ClosedResponse | None:
        """See `Conjugate`."""
        return None

    @property
    def has_labels(self) -> bool:
        """Where it has classes."""
        return self.class_prior is not None

    def with_components(self, num_components: int) -> Recipe:
        """See `Recipe.with_components`."""
        if not self.has_labels:
            refuse_components(self)
        return self

    def conjugate(self, schema: Schema) -> Conjugate:
        """The resolved class prior and blocks; without classes, blocks whose families stand alone."""
        blocks = tuple(
            Block(name, family.resolve(self._scale(schema, name, family, columns)), columns, self.given.get(name))
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
        if conjugate.class_prior is None:
            program = GenerativeProgram(self._function(families), label=None)
        else:
            function = ClassifierFunction(conjugate.class_prior, tuple(families.values()), tuple(families))
            program = GenerativeProgram(function, label=LABEL, classes=schema.classes)
        statistics = self.statistics(schema)
        dependences = tuple((name, (source,)) for name, source in self.given.items() if source in families)
        compressed = tuple((name, statistics[name]) for name in families)
        plan = Plan(compressed, inert=tuple(self.given), dependences=dependences)
        return program.replace(plan=plan)

    def _function(self, families: Mapping[str, Family]) -> PytreeFunction:
        """The program's function, without classes, of families by block."""
        return BlocksFunction(tuple(families.values()), tuple(families))

    def _scale(self, schema: Schema, name: str, family: Family, columns: Sequence[str]) -> Scale:
        """What the family of a block is told: numbers of classes, columns and categories; means and variances."""
        mean = variance = None
        if family.scaled:
            if schema.mean is None or schema.variance is None:
                raise ModelError(
                    f"Block {name!r}: default hyperparameters come from the training columns, which this schema has "
                    "not seen. Bind with the schema of a fit (fit.schema), or give numbers."
                )
            position, means, variances = known_moments(schema)
            where = [position[column] for column in columns]
            mean, variance = means[where], variances[where]
        return dataclasses.replace(self._shape(schema, name, family, columns), mean=mean, variance=variance)

    def _shape(self, schema: Schema, name: str, family: Family, columns: Sequence[str]) -> Scale:
        """What the family of a block is told before any summaries are known."""
        num_classes = len(schema.classes or ()) if self.has_labels else None
        scale = Scale(num_classes, len(columns), num_values(schema, name, family, columns))
        if family.kind != BINNED:
            return scale
        bins = [schema.bins(column) for column in columns]
        edges, tails = (
            np.asarray(table, np.float64) for table in zip(*((b.edges, b.tails) for b in bins), strict=True)
        )
        return dataclasses.replace(scale, edges=edges, tails=tails)

    def _statistic(self, family: Family, schema: Schema, name: str, columns: Sequence[str]) -> Statistic:
        shape = self._shape(schema, name, family, columns)
        return family.statistic if shape.num_categories is None else family.resolve(shape).statistic


def _encoded(schema: Schema, table: Table, columns: Sequence[str]) -> tuple[Any, Bool[np.ndarray, "n D"] | None]:
    """The cells of a block, and a mask of those that are there; the response, which new rows lack, is its last column.

    See `Schema.encode_cells`.
    """
    if schema.response is None or schema.response.name not in columns:
        return schema.encode_cells(table, columns)
    response = response_of_rows(table, schema.response.name)[:, None]
    is_there = ~np.isnan(response)
    if len(columns) == 1:
        return response, None if is_there.all() else is_there
    values, mask = schema.encode_cells(table, columns[:-1])
    if mask is None and not is_there.all():
        mask = np.ones(values.shape, bool)
    return np.concatenate([values, response], 1), None if mask is None else np.concatenate([mask, is_there], 1)


def refuse_classes(model: Model, y: Any, declared: Schema) -> None:
    """Refuse labels, and declared classes, where a model has none.

    Raises:
        DataError: saying what to leave out.
    """
    if y is not None:
        raise DataError(f"{type(model).__name__} has no classes, so it takes no y: drop it.")
    if declared.classes is not None:
        raise DataError(f"{type(model).__name__} has no classes: leave Schema(classes=...) out.")


def refuse_components(model: Model) -> NoReturn:
    """Refuse a mixture of a model without classes, which could be its components."""
    raise ModelError(
        f"A Mixture needs classes to be its components, and {type(model).__name__} has none. Give it a classifier of "
        "these columns, such as GaussianDiscriminant()."
    )


def _of_whole_rows(name: str, family: Family) -> str:
    """Why the rows of a block have to be whole, and what to do."""
    return (
        f"Block {name!r} ({type(family).__name__}) models the cells of a row as parts of one total, which is not known "
        "where one of them is missing. Drop these rows, or model the columns one by one, as GammaPoisson() does."
    )
