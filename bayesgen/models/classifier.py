"""`GenerativeClassifier`: a class prior and blocks of columns, each with a conjugate family."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bayesgen.data import PositionalNames, Rows, Schema, Table, refuse_missing_cells
from bayesgen.errors import DataError, ModelError
from bayesgen.families import DirichletCategorical, Family, FixedCategorical, Scale
from bayesgen.program import ConcreteModel, GenerativeProgram, Plan
from bayesgen.records import fill
from bayesgen.statistics import Cells, Moments, PatternMoments, Statistic, check_magnitudes, check_rows
from bayesgen.typing import Array, Bool, Float

from .apart import ClassPrior, check_classes_apart
from .conjugate import Block, Conjugate
from .function import LABEL, ClassifierFunction, covariate_name


@dataclasses.dataclass(frozen=True)
class GenerativeClassifier(ConcreteModel):
    """A generative classifier: instances are made by choosing a class, then each block of columns given the class.

    Generative story::

        class_probs            ~ class_prior
        {block}_{parameter}[k] ~ the block's family, for each class k
        y                      ~ Categorical(class_probs)
        {block}                ~ the family's likelihood with the parameters of class y

    Args:
        blocks: (name, family, columns) for each block; columns are names of columns of one kind, and categorical
            ones of equal numbers of values.
        class_prior: a `DirichletCategorical`, or K fixed probabilities.

    `NaiveBayes` and `GaussianDiscriminant` choose the blocks by the kinds of the columns.

    >>> import bayesgen as bg
    >>> model = GenerativeClassifier([("size", bg.NormalInverseWishart(), ["height", "weight"])])
    >>> data = {"height": [1.6, 1.7, 1.8, 1.9], "weight": [60.0, 61.0, 83.0, 92.0]}
    >>> fit = bg.fit(model, data, ["a", "a", "b", "b"], method=bg.Exact())
    >>> bg.predict(fit, {"height": [1.85], "weight": [85.0]}, rule=bg.BMA()).labels.tolist()
    ['b']
    """

    blocks: Sequence[tuple[str, Family, Sequence[str]]]
    class_prior: ClassPrior = dataclasses.field(default_factory=DirichletCategorical)

    def __post_init__(self) -> None:
        fill(self, class_prior=as_class_prior(self.class_prior), blocks=tuple(map(_as_block, self.blocks)))
        names = [name for name, _, _ in self.blocks]
        if len(set(names)) < len(names) or not names:
            raise ModelError(f"The blocks need distinct names, at least one; got {names}.")
        reserved = {LABEL, "class", "class_probs", "instances"} & set(names)
        if reserved:
            raise ModelError(f"A block cannot be called {min(reserved)!r}: that name is taken.")
        _check_columns_once(self.blocks)
        for name, family, _ in self.blocks:
            clashing = _sites(name, family).intersection(names)
            if clashing:
                raise ModelError(
                    f"A block cannot be called {min(clashing)!r}: that is the name of a parameter of block {name!r}. "
                    "Give it another one."
                )

    def __hash__(self) -> int:
        """By content, but for the names of columns, which may be very many."""
        return hash((self.class_prior, tuple((name, family, len(columns)) for name, family, columns in self.blocks)))

    def infer_schema(self, table: Table, y: Any, declared: Schema) -> Schema:
        """The kinds of the columns are those of their blocks' families."""
        kinds = {column: family.kind for _, family, columns in self.blocks for column in columns}
        if declared.columns is not None:
            declared.check_table(table)
        names = table.names if declared.columns is None else declared.columns
        unused = [name for name in names if name not in kinds]
        missing = [name for name in kinds if name not in names]
        if unused or missing:
            raise ModelError(
                f"The blocks and the data must have the same columns: in no block {unused}, not in the data {missing}."
            )
        return declared.resolve(table, y, implied_kinds=kinds)

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
            values[name], mask = schema.encode_cells(table, columns)
            if mask is not None:
                if not family.takes_missing:
                    refuse_missing_cells(mask, columns, _of_whole_rows(name, family))
                observed[name] = mask
        # covariates are left out: what is learned depends on none, and densities of rows see the totals in the cells
        return Rows(values, observed)

    def check_rows(self, schema: Schema, attributes: Mapping[str, Cells]) -> None:
        """See `ConcreteModel.check_rows`."""
        for name, family, columns in self.blocks:
            if family.kind == "real" and family.statistic.takes_squares:
                variance = _scale(schema, name, family, columns).variance
                units = 1.0 if variance is None else np.sqrt(variance)
                check_rows(attributes[name], units, functools.partial(_column_name, columns))

    def statistics(self, schema: Schema) -> dict[str, Statistic]:
        """Each block's statistic."""
        return {
            name: _statistic(family, schema, columns, _num_categories(schema, name, family, columns))
            for name, family, columns in self.blocks
        }

    def with_scale(self, schema: Schema, summaries: Mapping[str, Any]) -> Schema:
        """Fill in means and variances of the columns, from the summaries of the blocks. Those that are known stay."""
        if not any(family.scaled for _, family, _ in self.blocks):
            return schema
        unknown = np.full(len(schema.columns or ()), np.nan)
        mean = unknown.copy() if schema.mean is None else schema.mean.copy()
        variance = unknown.copy() if schema.variance is None else schema.variance.copy()
        position = {name: index for index, name in enumerate(schema.columns or ())}
        for name, family, columns in self.blocks:
            if family.scaled:
                where = np.array([position[column] for column in columns])
                found = _column_moments(summaries[name], columns)  # which are refused where they are too large
                is_known = ~np.isnan(mean[where])
                mean[where] = np.where(is_known, mean[where], found[0])
                variance[where] = np.where(is_known, variance[where], found[1])
        return dataclasses.replace(schema, mean=mean, variance=variance)

    def check_classes_apart(self, schema: Schema) -> None:
        """See `ConcreteModel.check_classes_apart`."""
        check_classes_apart(self.class_prior, self.blocks, self.conjugate(schema))

    def conjugate(self, schema: Schema) -> Conjugate:
        """The resolved class prior and blocks."""
        num_classes = len(schema.classes or ())
        prior = self.class_prior
        prior = prior if isinstance(prior, Family) else FixedCategorical(prior)
        blocks = tuple(
            Block(name, family.resolve(_scale(schema, name, family, columns)), columns)
            for name, family, columns in self.blocks
        )
        return Conjugate(prior.resolve(Scale(num_categories=num_classes)), blocks, tuple(schema.classes or ()))

    def bind(self, schema: Schema) -> GenerativeProgram:
        """The program of data with this schema. Default hyperparameters need its means and variances."""
        conjugate = self.conjugate(schema)
        families = {block.name: block.family for block in conjugate.blocks}
        function = ClassifierFunction(conjugate.class_prior, tuple(families.values()), tuple(families))
        program = GenerativeProgram(function, label=LABEL, classes=schema.classes)
        coordinates = {
            f"{name}_{site}": (f"{name}_{parameter}", transform)
            for name, family in families.items()
            for site, (parameter, transform) in family.coordinates.items()
        }
        statistics = self.statistics(schema)
        plan = Plan(tuple((name, statistics[name]) for name in families))
        return program.replace(coordinates=coordinates, plan=plan)


def _of_whole_rows(name: str, family: Family) -> str:
    """Why the rows of a block have to be whole, and what to do."""
    return (
        f"Block {name!r} ({type(family).__name__}) models the cells of a row as parts of one total, which is not known "
        "where one of them is missing. Drop these rows, or model the columns one by one, as GammaPoisson() does."
    )


def as_class_prior(prior: Any) -> ClassPrior:
    """A class prior as models keep it, to be compared: a family as it is, fixed probabilities as a tuple."""
    if isinstance(prior, Family):
        return prior
    probs = np.asarray(prior).tolist()
    return tuple(probs) if isinstance(probs, list) else probs


def _as_block(block: tuple[str, Family, Sequence[str]]) -> tuple[str, Family, Sequence[str]]:
    """A block as models keep it; names of columns by position are left as they are, because they may be very many."""
    name, family, columns = block
    return name, family, columns if isinstance(columns, PositionalNames) else tuple(columns)


def _check_columns_once(blocks: Sequence[tuple[str, Family, Sequence[str]]]) -> None:
    """ModelError for a column that stands twice, in two blocks or in one: its cells would count twice."""
    if len(blocks) == 1 and isinstance(blocks[0][2], PositionalNames):
        return  # names by position are all different, and there may be very many
    seen: dict[str, str] = {}
    for name, _, columns in blocks:
        for column in columns:
            if column in seen:
                where = (
                    f"twice in block {name!r}" if seen[column] == name else f"in blocks {seen[column]!r} and {name!r}"
                )
                raise ModelError(f"Column {column!r} is {where}, so its cells would count twice. Name it once.")
            seen[column] = name


def _sites(name: str, family: Family) -> set[str]:
    """Names of the sites of a block besides the attribute: parameters, hyperparameters and the covariate."""
    suffixes = {*family.parameter_axes(), *family.coordinates, *family.hierarchical}
    return {f"{name}_{suffix}" for suffix in suffixes} | ({covariate_name(name)} if family.covariate else set())


def _statistic(family: Family, schema: Schema, columns: Sequence[str], num_categories: int | None) -> Statistic:
    if num_categories is None:
        return family.statistic
    scale = Scale(len(schema.classes or ()), len(columns), num_categories)
    return family.resolve(scale).statistic


def _num_categories(schema: Schema, name: str, family: Family, columns: Sequence[str]) -> int | None:
    if family.kind != "categorical":
        return None
    numbers = {schema.num_categories(column) for column in columns}
    if len(numbers) != 1:
        raise ModelError(
            f"Block {name!r}: its columns have {sorted(numbers)} numbers of values. Put columns with different "
            "numbers of values into different blocks, or declare Schema(categories=...)."
        )
    return numbers.pop()


def _scale(schema: Schema, name: str, family: Family, columns: Sequence[str]) -> Scale:
    mean = variance = None
    if family.scaled:
        if schema.mean is None or schema.variance is None:
            raise ModelError(
                f"Block {name!r}: default hyperparameters come from the training columns, which this schema has not "
                "seen. Bind with the schema of a fit (fit.schema), or give numbers."
            )
        position = {column: index for index, column in enumerate(schema.columns or ())}
        where = [position[column] for column in columns]
        mean, variance = schema.mean[where], schema.variance[where]
        variance = np.where(variance > 0, variance, 1.0)
    return Scale(
        len(schema.classes or ()), len(columns), _num_categories(schema, name, family, columns), mean, variance
    )


def _column_name(columns: Sequence[str], place: tuple[int, ...]) -> str:
    return f"Column {columns[place[0]]!r}"


def _column_moments(summary: Any, columns: Sequence[str]) -> tuple[Float[Array, " D"], Float[Array, " D"] | float]:
    """Means and variances (denominator N) of a block's columns over all classes, of the cells that are there.

    0 and 1 where a column has none: its prior, whatever it is, says all of it.
    """
    if isinstance(summary, PatternMoments):
        summary = summary.by_column()
    if isinstance(summary, Moments):
        check_magnitudes(summary, functools.partial(_column_name, columns))
    pooled = summary.pooled().of_class(0)
    count = np.where(pooled.count > 0, pooled.count, 1.0)
    if not isinstance(pooled, Moments):
        return pooled.totals[0] / count, np.nan
    scatter = np.diagonal(pooled.scatter) if pooled.is_matrix else pooled.scatter
    return pooled.mean, np.where(pooled.count > 0, scatter / count, 1.0)
