"""Export of a fit to an `xarray.DataTree` with named dimensions, for ArviZ."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesgen.posteriors import Exported, ProcessPosterior
from bayesgen.runtime import as_key
from bayesgen.typing import Seed

from .trained import TrainedProgram

if TYPE_CHECKING:
    from xarray import DataTree


def to_datatree(fit: TrainedProgram, num_draws: int = 1000, seed: Seed = 0) -> "DataTree":
    """Export the parameters.

    Groups: `posterior` (and `sample_stats`) of chains for NUTS; `posterior` of 4 x `num_draws` independent draws for
    an exact fit, marked by the attribute `sampling = "independent"`; `point_estimate` for MLE and MAP. Dimensions are
    `class` (of a mixture, `component`), the columns (`feature`, or `{block}_feature` where there are several blocks)
    and `category`, with the labels' and columns' own names as coordinates. In a program of one's own an axis is `class`
    where each entry belongs to one class, and `row` where it belongs to a training row; the others are called
    `{site}_dim_{axis}`.
    """
    assert isinstance(fit.posterior, ProcessPosterior)
    exported = fit.posterior.exported(int(num_draws), as_key(seed))
    coords, dims = axes(fit)
    return datatree(exported, coords, dims, fit.attributes | {"method": repr(fit.method)})


def datatree(
    exported: Exported, coords: Mapping[str, Any], dims: Mapping[str, Any], attributes: Mapping[str, Any]
) -> "DataTree":
    """An `xarray.DataTree` of exported parameters.

    Args:
        exported: the parameters.
        coords, dims: as ArviZ takes them.
        attributes: of every group.
    """
    from arviz_base import from_dict

    groups = exported.groups
    used = {dim for name in dims for dim in dims[name]}
    # the conventions require more draws than chains
    tree = from_dict(groups, coords={k: v for k, v in coords.items() if k in used}, dims=dims, check_conventions=False)
    if "point_estimate" in groups:
        tree["point_estimate"] = tree["point_estimate"].to_dataset().squeeze(("chain", "draw"), drop=True)
    for name in groups:
        tree[name].attrs.update(_plain({"sampling": exported.sampling, **attributes}))
    return tree


def axes(fit: TrainedProgram) -> tuple[dict[str, Sequence[Any]], dict[str, Sequence[str]]]:
    """(coords, dims) of the parameters of a fit, for ArviZ."""
    conjugate = fit.concrete.conjugate(fit.schema)
    coords, dims = _own_axes(fit) if conjugate is None else (conjugate.coordinates(fit.schema), conjugate.axes)
    class_axis = fit.concrete.class_axis

    def renamed(dim: str) -> str:
        return class_axis if dim == "class" else dim

    return {renamed(dim): values for dim, values in coords.items()}, {
        name: tuple(map(renamed, dims_of)) for name, dims_of in dims.items()
    }


def class_axes(fit: TrainedProgram) -> dict[str, int]:
    """Name of a parameter with an entry for each class -> the axis that is the class, among those of one draw."""
    _, dims_of = axes(fit)
    class_axis = fit.concrete.class_axis
    return {name: list(dims_of[name]).index(class_axis) for name in dims_of if class_axis in dims_of[name]}


def _own_axes(fit: TrainedProgram) -> tuple[dict[str, Sequence[Any]], dict[str, Sequence[str]]]:
    """For a program of one's own: an axis is the class where its attributes index it by the class."""
    dims: dict[str, Sequence[str]] = {}
    for site, class_axis in fit.program.class_axes.items():
        name, _ = fit.program.coordinates.get(site, (site, None))
        num_axes = np.ndim(fit.parameters[name]) - (2 if fit.is_sampled else 0)
        dims[name] = ["class" if axis == class_axis else f"{name}_dim_{axis}" for axis in range(num_axes)]
    for local, of_row in fit.program.structure.continuous_local:
        dims[local] = ["row", *(f"{local}_dim_{axis}" for axis in range(1, 1 + len(of_row.row_shape)))]
    return {"class": [str(label) for label in fit.classes.tolist()]}, dims


def _plain(attributes: Mapping[str, Any]) -> dict[str, str | int | float]:
    return {name: value if isinstance(value, str | int | float) else repr(value) for name, value in attributes.items()}
