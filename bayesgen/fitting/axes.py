"""AxisNames of the axes of a fit's parameters: classes, columns, categories and rows, for ArviZ and for tables."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from bayesgen.describe import quote_some
from bayesgen.errors import DataError

from .trained import TrainedProgram

AxisNames = Mapping[str, Sequence[Any]]


def axes(fit: TrainedProgram) -> tuple[dict[str, Sequence[Any]], dict[str, Sequence[str]]]:
    """(coords, dims) of the parameters of a fit, for ArviZ."""
    conjugate = fit.concrete.conjugate(fit.schema)
    coords, dims = _program_axes(fit) if conjugate is None else (conjugate.coordinates(fit.schema), conjugate.axes)
    renamed = {"class": fit.concrete.class_axis}
    return {renamed.get(dim, dim): values for dim, values in coords.items()}, {
        name: tuple(renamed.get(dim, dim) for dim in parameter_dims) for name, parameter_dims in dims.items()
    }


def class_axes(fit: TrainedProgram) -> dict[str, int]:
    """Name of a parameter with an entry for each class -> the axis that is the class, among those of one draw."""
    _, dims = axes(fit)
    class_axis = fit.concrete.class_axis
    return {name: list(dims[name]).index(class_axis) for name in dims if class_axis in dims[name]}


def _program_axes(fit: TrainedProgram) -> tuple[dict[str, Sequence[Any]], dict[str, Sequence[str]]]:
    """For a program of one's own: an axis is the class where its attributes index it by the class."""
    dims: dict[str, Sequence[str]] = {}
    for site, class_axis in fit.program.class_axes.items():
        name, _ = fit.program.coordinates.get(site, (site, None))
        if name not in fit.parameters:
            continue
        num_axes = np.ndim(fit.parameters[name]) - (2 if fit.is_sampled else 0)
        dims[name] = ["class" if axis == class_axis else f"{name}_dim_{axis}" for axis in range(num_axes)]
    for name, latent in fit.program.structure.continuous_local:
        dims[name] = ["row", *numbered_axes(name, 1 + len(latent.row_shape))[1:]]
    return {"class": [str(label) for label in fit.classes.tolist()]}, dims


def with_names_of_user(
    shapes: Mapping[str, tuple[int, ...]],
    defaults: tuple[AxisNames, AxisNames],
    coords: AxisNames,
    dims: AxisNames,
    reserved: Collection[str],
) -> tuple[AxisNames, AxisNames]:
    """(coords, dims) by default, replaced by those that a user gives.

    Args:
        shapes: name -> shape of what has axes.
        defaults: (coords, dims), as `axes` gives them.
        coords, dims: of the user.
        reserved: what no axis may be called.

    Raises:
        DataError: names of what is not there, no list of names, or as many as do not fit; an axis called like another
            thing.
    """
    for key, names in (*dims.items(), *coords.items()):
        if isinstance(names, str) or not hasattr(names, "__len__"):
            raise DataError(f"dims and coords take lists, and {key!r} has {names!r}: write [{names!r}].")
    for name, names in dims.items():
        if name not in shapes:
            raise DataError(f"dims: there is no {name!r} whose axes could be named, but {quote_some(shapes)}.")
        if len(names) != len(shapes[name]):
            raise DataError(
                f"dims: {name!r} has the shape {shapes[name]}, and {len(names)} names: [{quote_some(names)}]."
            )
        if refused := [dim for dim in names if dim in reserved or [*names].count(dim) > 1]:
            raise DataError(f"dims: the name {refused[0]!r} of an axis of {name!r} is taken. Choose another one.")
    all_dims, lengths = {**defaults[1], **dims}, dict[str, set[int]]()
    for name, shape in shapes.items():
        for dim, length in zip(all_dims.get(name) or numbered_axes(name, len(shape)), shape, strict=False):
            lengths.setdefault(dim, set()).add(length)
    for dim, names in coords.items():
        if dim not in lengths:
            raise DataError(f"coords: there is no axis {dim!r}, but {quote_some(lengths)}.")
        if len(names) not in lengths[dim]:
            raise DataError(f"coords: {dim!r} has {len(names)} names, and the axis {min(lengths[dim])} entries.")
    return {**defaults[0], **coords}, all_dims


def numbered_axes(name: str, num_axes: int) -> list[str]:
    """AxisNames of axes that have none, as ArviZ makes them."""
    return [f"{name}_dim_{axis}" for axis in range(num_axes)]
