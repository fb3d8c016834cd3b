"""Training sets of a study: random subsets of the rows of a data set, or rows of simulated processes."""

import abc
import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import jax
import numpy as np

from bayesgen.averaging import AverageModel
from bayesgen.data import Schema, Table, category_array, read_table
from bayesgen.errors import BayesgenError, DataError, ModelError
from bayesgen.fitting import Fit, FitBatch, Method, fit, fit_many, read_sets
from bayesgen.prediction import ClassPrediction, Places, normalize
from bayesgen.program import GenerativeProgram, Recipe
from bayesgen.runtime import as_key, generator
from bayesgen.typing import Bool, Data, Int, Seed, Values

Fits: TypeAlias = FitBatch | Sequence[Fit | BayesgenError]


class TrainingSets(abc.ABC):
    """A training set of each size in each repeat, and the rows on which it is scored.

    Smaller sets are parts of larger ones of the same repeat.
    """

    @property
    @abc.abstractmethod
    def num_repeats(self) -> int:
        """Training sets of each size."""

    @property
    @abc.abstractmethod
    def description(self) -> dict[str, Any]:
        """The data in plain Python, by which a study that goes on knows its own."""

    @property
    @abc.abstractmethod
    def about_errors(self) -> str:
        """A sentence on what standard errors over repeats tell."""

    @abc.abstractmethod
    def _many(self, model: Recipe, size: int) -> dict[str, Any]:
        """The training sets as `fit_many` takes them."""

    @abc.abstractmethod
    def _single(self, model: Any, size: int, repeat: int) -> tuple[Any, Values | None]:
        """X and y of one training set."""

    @abc.abstractmethod
    def tested(self, model: Any) -> Any:
        """The rows to predict: one table for all repeats, or a list of one for each."""

    @abc.abstractmethod
    def labels(self, repeat: int) -> tuple[Any, int]:
        """The labels of the rows to predict, None without labels, and the number of rows."""

    @abc.abstractmethod
    def places(self, size: int, repeat: int) -> Places:
        """Positions, among the rows that are predicted, of those that a repeat is scored on."""

    def truths(self) -> list[Any]:
        """Predictions by the true processes, or the error that refuses them; empty where the truth is not known."""
        return []

    def fits(self, model: Any, method: Method, size: int, seed: Seed, schema: Schema | None) -> Fits:
        """The fit, or its error, of each repeat: a batch, or one by one where `fit_many` does not take the model."""
        if isinstance(model, Recipe):
            try:
                return fit_many(
                    model, **self._many(model, size), method=method, schema=schema, seed=seed, progress=False
                )
            except BayesgenError as refusal:
                return [refusal] * self.num_repeats
        return [self._fit(model, method, size, repeat, seed, schema) for repeat in range(self.num_repeats)]

    def _fit(self, model: Any, method: Method, size: int, repeat: int, seed: Seed, schema: Any) -> Any:
        key = jax.random.fold_in(as_key(seed), repeat)
        try:
            X, y = self._single(model, size, repeat)
            return fit(model, X, y, method=method, schema=schema, seed=key, progress=False)
        except BayesgenError as refusal:
            return refusal


def recipe_of(model: Any) -> Any:
    """The model, or the first member of an average."""
    return recipe_of(model.members[0]) if isinstance(model, AverageModel) else model


@dataclasses.dataclass(frozen=True, eq=False)
class Subsets(TrainingSets):
    """Random subsets of the rows of one data set.

    Attributes:
        table: the rows, with labels if there are any.
        order: a random order of the rows for each repeat, as positions.
        rank: the place of each row in that order, among the rows of its class where sizes are by class.
        test: number of test rows; None for all rows that are not in the training set; or rows of their own.
        digest: hash of the rows as they are encoded.
    """

    table: Table
    order: Int[np.ndarray, "B n"]
    rank: Int[np.ndarray, "B n"]
    test: int | Table | None
    digest: str

    @property
    def num_repeats(self) -> int:
        return len(self.order)

    @property
    def description(self) -> dict[str, Any]:
        test = self.test
        return {
            "rows": self.table.num_rows,
            "data_sha256": self.digest,
            "test": f"{test.num_rows} rows given" if isinstance(test, Table) else test,
        }

    @property
    def about_errors(self) -> str:
        return (
            f"Standard errors are over {self.num_repeats} random subsets of one data set, which share rows: they are "
            "not errors over new data."
        )

    def _many(self, model: Recipe, size: int) -> dict[str, Any]:
        return {"X": self.table, "weights": self._is_in(size).astype(float)}

    def _single(self, model: Any, size: int, repeat: int) -> tuple[Any, Values | None]:
        chosen = self.table.rows(np.flatnonzero(self._is_in(size)[repeat]))
        return chosen, chosen.labels

    def _is_in(self, size: int) -> Bool[np.ndarray, "B n"]:
        """Which rows are in the training set of each repeat."""
        return self.rank < size

    def tested(self, model: Any) -> Table:
        return self.test if isinstance(self.test, Table) else self.table

    def labels(self, repeat: int) -> tuple[Any, int]:
        tested = self.tested(None)
        return tested.labels, tested.num_rows

    def places(self, size: int, repeat: int) -> Places:
        """The last rows of the order that are not in the training set: of an integer, the same for most sizes."""
        if isinstance(self.test, Table):
            return slice(None)
        order = self.order[repeat]
        rest = order[self.rank[repeat][order] >= size]
        return np.sort(rest if self.test is None else rest[len(rest) - self.test :])


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

    Raises:
        DataError: rows without a label; sizes that the data, or a class, cannot give.
    """
    table = read_table(X, y)
    sets: Any = read_sets(recipe_of(model), table, None, np.ones((1, table.num_rows)), schema)
    codes, classes = None if table.labels is None else sets.rows.labels, sets.schema.classes
    if codes is not None and (codes < 0).any():
        raise DataError(
            f"y has {(codes < 0).sum()} missing labels (first at row {int(np.argmax(codes < 0))}). Drop these rows: a "
            "study scores every row that is not learned from."
        )
    own_test = None
    if isinstance(test, tuple):
        own_test = read_table(*test)
        if (own_test.labels is None) != (table.labels is None):
            raise DataError("Give both y and y_test, test=(X_test, y_test), or neither.")
    groups = codes if per_class and codes is not None else np.zeros(table.num_rows, int)
    names = list(classes) if per_class and codes is not None and classes else ["all"]
    _check_sizes(np.bincount(groups, minlength=len(names)), names, sizes, test if own_test is None else 0)
    order = generator(as_key(seed)).permuted(np.tile(np.arange(table.num_rows), (repeats, 1)), axis=1)
    digest = _digest([sets.rows, *([] if own_test is None else [sets.model.read_rows(sets.schema, own_test)])])
    return Subsets(table, order, _ranks(order, groups), test if own_test is None else own_test, digest)


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
            of_each = " of each class" if len(names) > 1 else ""
            raise DataError(f"Size {size} takes {size} rows{of_each}, and {', '.join(short)}. Give smaller sizes.")
        rest = int(counts.sum()) - size * len(names)
        if rest < left:
            raise DataError(
                f"Size {size} leaves {rest} rows to test on, and {left} are wanted. Give smaller sizes, fewer test "
                "rows, or test=(X_test, y_test)."
            )


def _ranks(order: Int[np.ndarray, "B n"], groups: Int[np.ndarray, " n"]) -> Int[np.ndarray, "B n"]:
    """The place of each row among those of its group, in each order."""
    ranks, of_place = np.empty_like(order), groups[order]
    for group in np.unique(groups):
        sets, places = np.nonzero(of_place == group)
        ranks[sets, order[sets, places]] = (np.cumsum(of_place == group, axis=1) - 1)[sets, places]
    return ranks


def _digest(rows: Any) -> str:
    """SHA-256 of the arrays of rows, sparse ones included."""
    digest = hashlib.sha256()
    for leaf in jax.tree.leaves(rows):
        arrays = (leaf.data, leaf.indices, leaf.indptr) if hasattr(leaf, "indptr") else (leaf,)
        for array in map(np.asarray, arrays):
            digest.update(repr((array.shape, array.dtype.str)).encode())
            digest.update(repr(array.tolist()).encode() if array.dtype == object else array.tobytes())
    return digest.hexdigest()


@dataclasses.dataclass(frozen=True, eq=False)
class Worlds(TrainingSets):
    """Rows of processes that are drawn from the prior of a program: each repeat has a process of its own.

    Attributes:
        program: the program.
        latents: the process of each repeat.
        training: rows of each process to learn from, by site; `size` rows of each class are the first of them.
        test: rows of each process to be scored on, by site.
        rows_per_size: how many of the training rows one unit of size is.
    """

    program: GenerativeProgram
    latents: Sequence[Mapping[str, np.ndarray]]
    training: Sequence[dict[str, np.ndarray]]
    test: Sequence[dict[str, np.ndarray]]
    rows_per_size: int

    @property
    def num_repeats(self) -> int:
        return len(self.latents)

    @property
    def description(self) -> dict[str, Any]:
        return {
            "simulate": repr(self.program),
            "data_sha256": _digest([self.training, self.test]),
            "test": self.labels(0)[1],
        }

    @property
    def about_errors(self) -> str:
        return f"Standard errors are over {self.num_repeats} processes drawn from the prior, with data of their own."

    @property
    def _label(self) -> str | None:
        return self.program.label or self.program.response_site

    def _many(self, model: Recipe, size: int) -> dict[str, Any]:
        sets = [self._single(model, size, repeat) for repeat in range(self.num_repeats)]
        return {"X": [(X,) if y is None else (X, y) for X, y in sets]}

    def _single(self, model: Any, size: int, repeat: int) -> tuple[Any, Values | None]:
        rows = {name: values[: size * self.rows_per_size] for name, values in self.training[repeat].items()}
        labels = rows.pop(self._label) if self._label is not None else None
        return _columns(model, rows), labels

    def tested(self, model: Any) -> list[dict[str, np.ndarray]]:
        return [
            _columns(model, {name: values for name, values in rows.items() if name != self._label})
            for rows in self.test
        ]

    def labels(self, repeat: int) -> tuple[Any, int]:
        rows = self.test[repeat]
        return None if self._label is None else rows[self._label], len(next(iter(rows.values())))

    def places(self, size: int, repeat: int) -> Places:
        return slice(None)

    def truths(self) -> list[Any]:
        if self.program.response_site is not None:
            refusal = ModelError("The answer of the true process is known for classes and densities, not for numbers.")
            return [refusal] * self.num_repeats
        tables = map(self.program.log_joint, self.latents, self.tested(self.program))
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
    codes = {str(program.label): np.arange(num_rows) % program.num_classes} if by_class else {}
    latents, training, tested = [], [], []
    for repeat in range(repeats):
        key = jax.random.fold_in(as_key(seed), repeat)
        process, first, second = jax.random.split(key, 3)
        latents.append(program.draw_latents(seed=process))
        training.append(program.simulate(num_rows, seed=first, latents={**latents[-1], **codes}))
        tested.append(program.simulate(test or 1000, seed=second, latents=latents[-1]))
    for rows in (*training, *tested):
        for name in program.local:
            del rows[name]
    return Worlds(program, latents, training, tested, rows_per_size)


def _columns(model: Any, rows: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The rows as a model takes them: for programs by site, for others with a column for each cell of a site's row."""
    if isinstance(model, GenerativeProgram):
        return dict(rows)
    columns = {}
    for name, values in rows.items():
        if values.ndim == 1:
            columns[name] = values
        for place in np.ndindex(values.shape[1:]) if values.ndim > 1 else ():
            columns[f"{name}[{', '.join(map(str, place))}]"] = values[(slice(None), *place)]
    return columns
