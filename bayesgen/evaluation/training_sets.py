"""Training sets of a study: random subsets of the rows of a data set, or rows of simulated processes."""

import abc
import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
import pandas as pd

from bayesgen.averaging import AverageModel
from bayesgen.data import Schema, Table, category_array, read_table
from bayesgen.errors import BayesgenError, DataError, ModelError
from bayesgen.fitting import Fit, FitBatch, fit, fit_many, read_sets
from bayesgen.generative import GenerativeProgram
from bayesgen.prediction import ClassPrediction, normalize
from bayesgen.program import Recipe, content_digest
from bayesgen.runtime import as_key, generator
from bayesgen.typing import Data, Int, PRNGKeyArray, Seed, Values


@dataclasses.dataclass(frozen=True, eq=False)
class TrainingSets(abc.ABC):
    """A training set of each size in each repeat, and the rows on which it is scored.

    Smaller sets are parts of larger ones of the same repeat.

    Attributes:
        num_repeats: training sets of each size.
        description: the data in plain Python, by which a study that goes on knows its own.
        about_errors: a sentence on what standard errors over repeats tell.
    """

    num_repeats: int
    description: Mapping[str, Any]
    about_errors: str

    @abc.abstractmethod
    def training(self, model: Any, size: int, repeat: int) -> Table:
        """The rows of one training set, with labels if there are any."""

    @abc.abstractmethod
    def tested(self, model: Any) -> list[Table]:
        """The rows to predict in each repeat, with labels if there are any; one table where repeats share them."""

    def places(self, size: int, repeat: int) -> Any:
        """Positions, among the rows that are predicted, of those that a repeat is scored on."""
        return slice(None)

    def truths(self) -> list[Any]:
        """Predictions by the true processes, or the error that refuses them; empty where the truth is not known."""
        return []

    def batch(self, model: Recipe, size: int, **options: Any) -> FitBatch:
        """The fits of all training sets of a size by `fit_many`."""
        tables = [self.training(model, size, repeat) for repeat in range(self.num_repeats)]
        return fit_many(model, [(table, table.labels) for table in tables], **options)

    def fits(self, model: Any, size: int, *, seed: Seed, **options: Any) -> "FitBatch | list[Fit | BayesgenError]":
        """The fit, or its error, of each repeat: a batch, or one by one where `fit_many` does not take the model."""
        if isinstance(model, Recipe):
            batch, _ = attempted(self.batch, model, size, seed=seed, **options)
            return [batch] * self.num_repeats if isinstance(batch, BayesgenError) else batch
        tables = enumerate(self.training(model, size, repeat) for repeat in range(self.num_repeats))
        keys = [jax.random.fold_in(as_key(seed), repeat) for repeat in range(self.num_repeats)]
        return [attempted(fit, model, table, table.labels, seed=keys[at], **options)[0] for at, table in tables]


def attempted(function: Callable[..., Any], *arguments: Any, **named: Any) -> tuple[Any, float]:
    """What a call returns, or the error that refuses it; and its seconds."""
    start = time.perf_counter()
    try:
        outcome = function(*arguments, **named)
    except BayesgenError as refusal:
        outcome = refusal
    return outcome, time.perf_counter() - start


def recipe_of(model: Any) -> Any:
    """The model, or the first member of an average."""
    return recipe_of(model.members[0]) if isinstance(model, AverageModel) else model


@dataclasses.dataclass(frozen=True, eq=False)
class Subsets(TrainingSets):
    """Random subsets of the rows of one data set.

    Attributes:
        table: the rows, with labels if there are any.
        scored: the rows with a label, of which all that are not learned from are test rows.
        labelled: their positions.
        order: a random order of these rows for each repeat, as positions among them.
        rank: the place of each row in that order, among the rows of its class where sizes are by class; -1 for rows
            without a label, which are in every training set and are never scored.
        test: number of test rows; None for all rows that are not in the training set; or rows of their own.
    """

    table: Table
    scored: Table
    labelled: Int[np.ndarray, " labelled"]
    order: Int[np.ndarray, "B labelled"]
    rank: Int[np.ndarray, "B n"]
    test: int | Table | None

    def batch(self, model: Recipe, size: int, **options: Any) -> FitBatch:
        """Subsets are weights of all rows, which are encoded once."""
        return fit_many(model, self.table, weights=(self.rank < size).astype(float), **options)

    def training(self, model: Any, size: int, repeat: int) -> Table:
        return self.table.rows(np.flatnonzero(self.rank[repeat] < size))

    def tested(self, model: Any) -> list[Table]:
        return [self.test if isinstance(self.test, Table) else self.scored]

    def places(self, size: int, repeat: int) -> Any:
        """The last rows of the order that are not in the training set: of an integer, the same for most sizes."""
        if isinstance(self.test, Table):
            return slice(None)
        order = self.order[repeat]
        candidates = order[self.rank[repeat][self.labelled[order]] >= size]
        return np.sort(candidates if self.test is None else candidates[len(candidates) - self.test :])


def subsets(
    model: Any,
    X: Data,
    y: Values | None,
    *,
    sizes: Sequence[int],
    repeats: int,
    per_class: bool,
    test: Any,
    schema: Schema | None,
    seed: Seed,
) -> Subsets:
    """Random subsets of rows: `size` rows of each class, or `size` rows where there are no classes.

    Rows without a label are in every training set.

    Raises:
        DataError: sizes that the data, or a class, cannot give.
    """
    table = read_table(X, y)
    sets: Any = read_sets(recipe_of(model), table, None, np.ones((1, table.num_rows)), schema)
    codes, classes = sets.rows.labels if per_class and table.labels is not None else None, sets.schema.classes
    observed = np.ones(table.num_rows, bool) if table.labels is None else ~pd.isna(table.labels)
    labelled = np.flatnonzero(observed)
    own_test = None
    if isinstance(test, tuple):
        own_test = read_table(*test)
        if (own_test.labels is None) != (table.labels is None):
            raise DataError("Give both y and y_test, test=(X_test, y_test), or neither.")
    groups = np.zeros(len(labelled), int) if codes is None else codes[labelled]
    names = list(classes) if codes is not None and classes else ["all"]
    _check_sizes(np.bincount(groups, minlength=len(names)), names, sizes, test if own_test is None else 0)
    order = generator(as_key(seed)).permuted(np.tile(np.arange(len(labelled)), (repeats, 1)), axis=1)
    by_group = np.take_along_axis(order, np.argsort(groups[order], axis=1, kind="stable"), axis=1)
    ranks = np.full((repeats, table.num_rows), -1)
    in_group = np.concatenate([*map(np.arange, np.bincount(groups))])[None]
    np.put_along_axis(ranks, labelled[by_group], in_group, axis=1)
    stated = test if own_test is None else f"{own_test.num_rows} rows given"
    return Subsets(
        repeats,
        {
            "rows": table.num_rows,
            "data_sha256": content_digest([_cells(table), _cells(own_test)]),
            "test": stated,
            "per_class": codes is not None,
        },
        f"Standard errors are over {repeats} random subsets of one data set, which share rows: they are not errors "
        "over new data.",
        table,
        table if observed.all() else table.rows(labelled),
        labelled,
        order,
        ranks,
        test if own_test is None else own_test,
    )


def _check_sizes(counts: Int[np.ndarray, " K"], names: Sequence[Any], sizes: Sequence[int], test: int | None) -> None:
    """Refuse sizes that leave no test rows, and those that a class cannot give, by class."""
    left = 1 if test is None else test
    for size in sizes:
        short = [
            f"{'class ' + repr(name) if len(names) > 1 else 'the data'} has {count}"
            for name, count in zip(names, counts.tolist(), strict=True)
            if count < size
        ]
        if short:
            by_class = " of each class" if len(names) > 1 else ""
            remedy = "Give smaller sizes" if counts.all() else "Count the rows of all classes together, per_class=False"
            raise DataError(f"Size {size} takes {size} rows{by_class}, and {', '.join(short)}. {remedy}.")
        num_left = int(counts.sum()) - size * len(names)
        if num_left < left:
            raise DataError(
                f"Size {size} leaves {num_left} rows to test on, and {left} are wanted. Give smaller sizes, fewer test "
                "rows, or test=(X_test, y_test)."
            )


def _cells(table: Table | None) -> tuple[Any, ...] | None:
    """The cells of a table with the names of their columns, and the labels; None without a table."""
    if table is None:
        return None
    if table.sparse:
        matrix: Any = table.matrix(table.names)
        return matrix.shape, matrix.data, matrix.indices, matrix.indptr, table.labels
    names = tuple(table.names)
    return names, [table.sequences(name) for name in names], table.labels


@dataclasses.dataclass(frozen=True, eq=False)
class Worlds(TrainingSets):
    """Rows of processes that are drawn from the prior of a program: each repeat has a process of its own.

    Attributes:
        program: the program.
        latents: the process of each repeat, site -> (B, ...).
        training_rows: rows of each process to learn from, site -> (B, n, ...); `size` rows of each class come first.
        test_rows: rows of each process to be scored on, by site.
        rows_per_size: how many of the training rows one unit of size is.
    """

    program: GenerativeProgram
    latents: Mapping[str, np.ndarray]
    training_rows: Mapping[str, np.ndarray]
    test_rows: Mapping[str, np.ndarray]
    rows_per_size: int

    def training(self, model: Any, size: int, repeat: int) -> Table:
        num_rows = size * self.rows_per_size
        return self._table(model, {name: values[repeat, :num_rows] for name, values in self.training_rows.items()})

    def tested(self, model: Any) -> list[Table]:
        rows = ({name: values[repeat] for name, values in self.test_rows.items()} for repeat in range(self.num_repeats))
        return [self._table(model, world_rows) for world_rows in rows]

    def _table(self, model: Any, rows: dict[str, np.ndarray]) -> Table:
        """Rows as a model takes them: for programs by site, for others with a column for each cell of a site's row."""
        labels = rows.get(self.program.label or self.program.response_site or "")
        columns = {name: values for name, values in rows.items() if values is not labels}
        if not isinstance(model, GenerativeProgram):
            cells = [
                (name, values, place) for name, values in columns.items() for place in np.ndindex(values.shape[1:])
            ]
            columns = {
                f"{name}[{', '.join(map(str, place))}]" if place else name: values[(slice(None), *place)]
                for name, values, place in cells
            }
        return read_table(columns, labels)

    def truths(self) -> list[Any]:
        if self.program.response_site is not None:
            refusal = ModelError("The answer of the true process is known for classes and densities, not for numbers.")
            return [refusal] * self.num_repeats
        latents = [{name: values[at] for name, values in self.latents.items()} for at in range(self.num_repeats)]
        tables = map(self.program.log_joint, latents, self.tested(self.program))
        return [
            ClassPrediction(log_probabilities, category_array(self.program.classes), log_marginal)
            for log_probabilities, log_marginal in map(normalize, tables)
        ]


def worlds(program: Any, *, sizes: Sequence[int], repeats: int, per_class: bool, test: Any, seed: Seed) -> Worlds:
    """Processes drawn from the prior of a program, and rows of each.

    By class, `size` training rows are of each class, and the test rows are as the process makes them.

    Raises:
        DataError: what is not a program; test rows in place of their number.
    """
    if not isinstance(program, GenerativeProgram):
        raise DataError(
            f"simulate has to be a GenerativeProgram, got {program!r}. A fit has one: simulate=fit.program."
        )
    if isinstance(test, tuple):
        raise DataError("Each simulated process has test rows of its own: give their number, test=1000.")
    by_class = per_class and program.label is not None
    rows_per_size = program.num_classes if by_class else 1
    num_rows = max(sizes) * rows_per_size
    world_codes = np.arange(num_rows) % program.num_classes if by_class else None
    codes = {} if world_codes is None else {str(program.label): np.tile(world_codes, (repeats, 1))}

    def simulated(num_rows: int, key: PRNGKeyArray, known: Mapping[str, Any]) -> tuple[Any, dict[str, np.ndarray]]:
        latents, rows = program.simulate_many(num_rows, repeats, seed=key, latents=known)
        if program.label is not None:
            rows[program.label] = category_array(program.classes)[rows[program.label]]
        return latents, {name: values.reshape(repeats, num_rows, *values.shape[1:]) for name, values in rows.items()}

    first, second = jax.random.split(as_key(seed))
    latents, training = simulated(num_rows, first, codes)
    _, tested = simulated(test or 1000, second, latents)
    return Worlds(
        repeats,
        {
            "simulate": repr(program),
            "data_sha256": content_digest([training, tested]),
            "test": test or 1000,
            "per_class": by_class,
        },
        f"Standard errors are over {repeats} processes drawn from the prior, with data of their own.",
        program,
        latents,
        training,
        tested,
        rows_per_size,
    )
