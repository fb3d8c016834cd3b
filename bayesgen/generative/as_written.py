"""NumPyro models as they are written, with `obs=`, as functions of a number of rows.

The model is called with its own arguments. Those with an axis of rows are taken apart: the values of observed sites are
dropped, and the sites are drawn; covariates are the function's; whole numbers that count the rows are n.
"""

import dataclasses
import operator
from collections.abc import Callable, Collection, Mapping
from typing import Any, ClassVar

import numpy as np
import numpyro

from bayesgen.data import Covariate, category_array, covariate_values
from bayesgen.describe import quote_some
from bayesgen.errors import DataError, ModelError, warn
from bayesgen.program import NUMBERS_OF_A_RUN, Message, Program, base_support
from bayesgen.recognition import is_of_classes, value_range
from bayesgen.typing import Array, Shaped

from .model_arguments import Constant, Leaf, NumberOfRows, RowsArgument, arguments_by_name
from .model_study import Call, ModelStudy, Observations, RowAxis, in_double


@dataclasses.dataclass(frozen=True, eq=False)
class AsWritten:
    """A NumPyro model with `obs=` as a function of a number of rows and of covariates.

    Attributes:
        call: the model.
        leaves: its arguments by name.
        rows: the axis of the rows.
        plate: name of the plate of the rows.
        local: names of the latents of each row.
        observed_deterministics: deterministic sites that are computed from observed arguments, and left out.
    """

    call: Call
    leaves: tuple[tuple[str, Leaf], ...]
    rows: RowAxis
    plate: str
    local: tuple[str, ...]
    observed_deterministics: tuple[str, ...]
    rows_first: ClassVar[bool] = True

    @property
    def covariates(self) -> tuple[str, ...]:
        """Names of the covariates."""
        return tuple(leaf.name for _, leaf in self.leaves if isinstance(leaf, RowsArgument) and leaf.name is not None)

    @property
    def __name__(self) -> str:
        return getattr(self.call.model, "__name__", type(self.call.model).__name__)

    def __call__(self, size: int, /, **covariates: Array) -> object:
        plate = numpyro.plate(self.plate, size, dim=self.rows.axis) if self.rows.plate is None else None
        with Observations(plate=plate, local=self.local):
            return self.call({name: leaf.at(size, covariates) for name, leaf in self.leaves})

    def read(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any], int]:
        """Values of observed sites and of covariates, rows first, of arguments of the model; and the number of rows.

        Raises:
            DataError: a constant that is not that of training, an argument that is missing, arrays of other shapes or
                of different numbers of rows, and text of unknown categories.
        """
        _, arguments = arguments_by_name(self.call.model, args, kwargs)
        leaves = dict(self.leaves)
        if extra := [name for name, value in arguments.items() if name not in leaves and value is not None]:
            raise DataError(f"The argument {extra[0]!r} was not given when the program was made: leave it out.")
        for name, leaf in self.leaves:
            if isinstance(leaf, Constant):
                leaf.check(name, arguments.get(name))
        parts = {
            name: leaf
            for name, leaf in self.leaves
            if isinstance(leaf, RowsArgument) and arguments.get(name) is not None
        }
        if missing := [name for name in self.covariates if name not in parts]:
            raise DataError(f"The argument {missing[0]!r} is missing: every row needs its value.")
        rows = {name: leaf.rows_of(name, arguments[name]) for name, leaf in parts.items()}
        counts = {name: int(arguments[name]) for name, leaf in self.leaves if isinstance(leaf, NumberOfRows)}
        sizes = {name: len(values) for name, values in rows.items()} | counts
        if len(set(sizes.values())) != 1:
            raise DataError(
                f"The arguments have different numbers of rows: {sizes}. Give all of them for the same rows."
            )
        covariates = {name: covariate_values(name, rows[name]) for name in self.covariates}
        size = next(iter(sizes.values()))
        return self._values(size, parts, rows), covariates, size

    def _values(
        self, size: int, parts: Mapping[str, RowsArgument], rows: Mapping[str, np.ndarray]
    ) -> dict[str, np.ndarray]:
        """Observed site -> value, rows first."""
        if all(leaf.name is not None for leaf in parts.values()):
            return {}
        fixed = {name: None if isinstance(leaf, RowsArgument) else leaf.at(size, {}) for name, leaf in self.leaves}
        arrays = {name: in_double(values) for name, values in rows.items()}
        training = {name: leaf.training_array for name, leaf in parts.items() if leaf.training_array is not None}
        moved = {name: np.moveaxis(value, 0, parts[name].axis) for name, value in arrays.items()}
        _, observed, outputs = self.call.traced(fixed, moved, training)
        values = outputs.only(operator.attrgetter("values"))(np.zeros(NUMBERS_OF_A_RUN), moved)
        return {name: self.rows.first(observed[name], v, observed[name]["fn"].event_dim) for name, v in values.items()}


def as_written(
    model: Callable[..., object],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    rows: str | None,
    label: str | None,
    constants: Collection[str] = (),
) -> tuple[AsWritten, dict[str, Covariate], dict[str, int]]:
    """A model as a function of a number of rows, as its arguments show it. Inside float64.

    Returns:
        The function; covariate -> its shape and dtype; and observed site -> number of its classes, for sites whose
        values are classes.

    Raises:
        ModelError: a model whose rows cannot be told, that mixes them, or that has what no program can have.
    """
    template, arguments = arguments_by_name(model, args, kwargs)
    call = Call(model, template)
    study = ModelStudy(call, arguments, rows, constants)
    if label is not None and label not in study.observed:
        raise ModelError(
            f"The label {label!r} is no observed site of the model, whose observed sites are {[*study.observed]}: name "
            "one of them, and give its values."
        )
    leaves = tuple((name, study.leaf(name)) for name in arguments)
    plate = study.rows.plate or next(n for n in ("rows", "rows of data", "all rows") if n not in study.trace)
    left_out = study.observed_deterministics
    function = AsWritten(call, leaves, study.rows, plate, tuple(study.local), left_out)
    if left_out:
        warn(
            f"The deterministic sites {quote_some(left_out)} are left out: they are computed from an argument that "
            "gives observed values, which rows to be predicted do not have. Compute them from the value that "
            "numpyro.sample returns, y = numpyro.sample('y', ..., obs=y)."
        )
    if clashing := sorted(set(function.covariates) & set(study.observed)):
        raise ModelError(
            f"The argument {clashing[0]!r} has the name of an observed site: give one of them another name."
        )
    columns = {
        name: Covariate.of(covariate_values(name, np.moveaxis(study.arrays[name], study.axes[name] or 0, 0)))
        for name in function.covariates
    }
    return function, columns, {name: k for name, m in study.observed.items() if (k := _num_classes(m))}


def _num_classes(message: Message) -> int | None:
    """The number of classes of a site whose values are classes, and not counts."""
    values = value_range(base_support(message["fn"].support))
    return values[1] + 1 if values is not None and is_of_classes(message) and values[0] == 0 else None


def named_labels(program: Program, values: Shaped[np.ndarray, " n"]) -> Shaped[np.ndarray, " n"]:
    """The names of the classes of a label site's values; None where these are missing."""
    missing = np.isnan(values)
    wrong = ~missing & ~np.isin(values, range(program.num_classes))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DataError(
            f"The label {program.label!r} has {values[row]} in row {row}, and its values are 0 to "
            f"{program.num_classes - 1}, of the classes {quote_some(program.classes)}: correct it, or make it NaN "
            "where the label is not known."
        )
    return category_array((*program.classes, None))[np.where(missing, -1, values).astype(int)]
