"""The arguments of a model with `obs=`: constants, the number of rows, and arrays with an axis of rows."""

import abc
import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from bayesgen.data import (
    as_array,
    dtype_categories,
    factorize,
    numbers_of_objects,
    sorted_categories,
    type_of_objects,
)
from bayesgen.describe import quote_some
from bayesgen.errors import DataError, ModelError
from bayesgen.program import signature_of
from bayesgen.typing import Array, Shaped

from .numpy_reads import TrainingArray

OURS = ("label", "rows", "classes", "constants")  # keyword-only arguments of `GenerativeProgram.from_model`

Leaves = Mapping[str, Any]  # arguments, and parts of arguments that are containers, by name


class Text(NamedTuple):
    """A column of text or of categories, as indices of its categories; NaN where it is missing."""

    codes: Shaped[np.ndarray, " n"]
    categories: tuple[Any, ...]

    @classmethod
    def of(cls, name: str, values: Any, categories: tuple[Any, ...] | None = None) -> "Text":
        """The indices of a column, among its own categories unless these are given.

        Raises:
            DataError: a row of a category that is not among those given.
        """
        import pandas as pd

        argument = f"The argument {name!r}"
        cells = as_array(values, argument).astype(object)
        if categories is None:
            categories = dtype_categories(values) or sorted_categories(factorize(cells, argument)[1], argument)
        index = pd.Index(categories)
        codes, missing = np.asarray(index.get_indexer(pd.Index(cells)), np.int64), np.asarray(pd.isna(cells))
        if (unknown := (codes < 0) & ~missing).any():
            row = int(np.argmax(unknown))
            raise DataError(
                f"{argument} has {str(cells[row])!r} in row {row}, and those of training are "
                f"{quote_some(index)}: give every row its category."
            )
        return cls(np.where(missing, np.nan, codes) if missing.any() else codes, tuple(index))


def is_text(value: Any) -> bool:
    """Whether an argument is a column of text or of categories."""
    dtype = getattr(value, "dtype", None)
    if isinstance(dtype, np.dtype):
        return dtype.kind == "U" or (dtype.kind == "O" and type_of_objects(np.ma.getdata(value)) == "string")
    return str(dtype) in ("category", "str", "string") and hasattr(value, "to_numpy")


def _cells(name: str, value: Any) -> np.ndarray:
    """A column as an array; of numbers among objects, NaN where they are missing."""
    return numbers_of_objects(as_array(value, f"The argument {name!r}"))


def _is_leaf(value: Any) -> bool:
    """Whether a container is one argument: a list of cells, or a distribution."""
    from pandas.api.types import is_scalar

    is_cells = isinstance(value, list) and all(is_scalar(cell) or cell is np.ma.masked for cell in value)
    return value is None or is_cells or isinstance(value, dist.Distribution)


def arguments_by_name(
    model: Callable[..., object], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[Any, Leaves]:
    """The model's arguments with names in place of leaves, and the leaves by name; columns as arrays."""
    signature = signature_of(model)
    fixed = getattr(model, "keywords", {})  # of a functools.partial
    if clashing := [name for name in OURS if name in signature.parameters and name not in fixed]:
        raise ModelError(
            f"The model has the argument {clashing[0]!r}, which from_model has, too: fix it before, "
            f"from_model(functools.partial(model, {clashing[0]}=...), ...), or rename it."
        )
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        raise ModelError(
            f"The model cannot be called with these arguments: {error}. Give them as it takes them."
        ) from None
    bound.apply_defaults()
    leaves: dict[str, Any] = {}
    template = {}
    for argument, value in bound.arguments.items():
        is_of_names = signature.parameters[argument].kind is inspect.Parameter.VAR_KEYWORD
        template[argument] = _taken_apart("" if is_of_names else argument, value, leaves)
    return template, leaves


def _taken_apart(name: str, value: Any, leaves: dict[str, Any]) -> Any:
    """An argument with names in place of its leaves, which are noted; mappings keep their order."""
    if type(value) is dict:
        return {key: _taken_apart(f"{name}.{key}" if name else key, part, leaves) for key, part in value.items()}
    paths, tree = jax.tree_util.tree_flatten_with_path(value, is_leaf=_is_leaf)
    names = [f"{name}.{jax.tree_util.keystr(path, simple=True, separator='.')}" if path else name for path, _ in paths]
    leaves |= {path_name: _column(path_name, leaf) for path_name, (_, leaf) in zip(names, paths, strict=True)}
    return jax.tree.unflatten(tree, names)


def _column(name: str, value: Any) -> Any:
    """A column as an array, but one of text or of categories; other values as they are."""
    if hasattr(value, "columns"):
        raise ModelError(f"The argument {name!r} is a frame: let the model take arrays, model(df['x'].to_numpy()).")
    is_column = hasattr(value, "to_numpy") or (isinstance(value, np.ndarray) and value.ndim > 0)
    return _cells(name, value) if is_column and not is_text(value) else value


def is_array(value: Any) -> bool:
    """Whether an argument is an array of numbers that may have an axis of rows."""
    return isinstance(value, np.ndarray | jax.Array) and value.ndim > 0 and value.dtype.kind in "iubf"


def with_columns(leaves: Leaves) -> tuple[Leaves, dict[str, Text]]:
    """The leaves with columns as arrays, text as indices of its categories; and the columns of text.

    A list, or text, is a column if an array of numbers is as long; others are constants, such as names of columns.
    """
    lengths = {len(value) for value in leaves.values() if is_array(value)}
    lengths = lengths or {len(value) for value in leaves.values() if isinstance(value, list) or is_text(value)}
    lists = {name for name, value in leaves.items() if isinstance(value, list) and len(value) in lengths}
    arrays = {name: _cells(name, value) if name in lists else value for name, value in leaves.items()}
    texts = {name: Text.of(name, value) for name, value in arrays.items() if is_text(value) and len(value) in lengths}
    return {**arrays, **{name: text.codes for name, text in texts.items()}}, texts


def put_together(template: Any, leaves: Leaves) -> Any:
    """The argument that is made up of these leaves."""
    if type(template) is dict:
        return {key: put_together(part, leaves) for key, part in template.items()}
    return jax.tree.map(leaves.__getitem__, template)


@dataclasses.dataclass(frozen=True)
class Leaf(abc.ABC):
    """An argument of the model, or a part of one."""

    @abc.abstractmethod
    def at(self, size: int, covariates: Mapping[str, Array]) -> Any:
        """Its value in a run with so many rows."""


@dataclasses.dataclass(frozen=True)
class Constant(Leaf):
    """An argument that does not follow the rows."""

    value: Any

    def at(self, size: int, covariates: Mapping[str, Array]) -> Any:
        return jax.tree.map(own_array, self.value)

    def check(self, name: str, value: Any) -> None:
        """Refuse another value, given to `read`."""
        if value is not self.value and not _is_equal(value, self.value):
            raise DataError(
                f"The argument {name!r} is constant, and it differs from the one that the program was made with: give "
                "the same, or make another program."
            )


def _is_equal(value: Any, other: Any) -> bool:
    """Whether constants, distributions among them, are of the same numbers; NaN equals NaN."""
    pairs = zip(jax.tree.leaves(value), jax.tree.leaves(other), strict=False)
    try:
        same = [np.shape(a) == np.shape(b) and np.all((a == b) | ((a != a) & (b != b))) for a, b in pairs]
    except (TypeError, ValueError):  # of objects that are no arrays and cannot be compared
        return False
    structures = {jax.tree.structure(value), jax.tree.structure(other)}
    return len(structures) == 1 and all(same)


def own_array(value: Any) -> Any:
    """A view of a NumPy array, which JAX takes for another array; other values as they are.

    As long as a traced function has a NumPy array as a constant, JAX (0.9) remembers the dtype that the array had
    there: outside of float64 the user's own array would be one of float32 with the bytes of float64.
    """
    return value.view() if type(value) is np.ndarray else value


@dataclasses.dataclass(frozen=True)
class NumberOfRows(Leaf):
    """A whole number that is the number of rows."""

    def at(self, size: int, covariates: Mapping[str, Array]) -> int:
        return size


@dataclasses.dataclass(frozen=True)
class RowsArgument(Leaf):
    """An array with an axis of rows.

    Attributes:
        name: of the covariate; None for an array that observed values are made of.
        axis: the axis of the rows.
        row_shape: the shape of a row.
        dtype: of its values.
        categories: of a column of text.
        training: its values in training, where Python or NumPy reads them.
    """

    name: str | None
    axis: int
    row_shape: tuple[int, ...]
    dtype: np.dtype
    categories: tuple[Any, ...] | None
    training: np.ndarray | None

    @functools.cached_property
    def training_array(self) -> TrainingArray | None:
        return None if self.training is None else TrainingArray(self.training)

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    def at(self, size: int, covariates: Mapping[str, Array]) -> Any:
        if self.name is None:
            return self.in_model(jnp.asarray(np.ones((size, *self.row_shape), self.dtype)))
        return self.in_model(covariates[self.name])

    def in_model(self, rows: Any) -> Any:
        """Rows as the model takes them."""
        value = jnp.moveaxis(rows, 0, self.axis) if self.axis else rows
        return value if self.training_array is None else self.training_array.read_as_training(value)

    def rows_of(self, name: str, value: Any) -> Shaped[np.ndarray, "n ..."]:
        """The rows of an argument, text as indices of the categories of training."""
        cells = _cells(name, value) if self.categories is None else Text.of(name, value, self.categories).codes
        if np.ndim(cells) != 1 + len(self.row_shape):
            raise DataError(
                f"The argument {name!r} has {np.ndim(cells)} axes, and {1 + len(self.row_shape)} in training."
            )
        return np.moveaxis(cells, self.axis, 0)
