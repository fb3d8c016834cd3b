"""Export of a fit to an `xarray.DataTree` with named dimensions, for ArviZ."""

import numpy as np

from bayesgen.runtime import as_key


def to_datatree(fit, num_draws=1000, seed=0):
    """Export the parameters.

    Groups: `posterior` (and `sample_stats`) of chains for NUTS; `posterior` of 4 x `num_draws` independent draws for
    an exact fit, marked by the attribute `sampling = "independent"`; `point_estimate` for MLE and MAP. Dimensions are
    `class`, the columns (`feature`, or `{block}_feature` where there are several blocks) and `category`, with the
    labels' and columns' own names as coordinates. In a program of one's own an axis is `class` where its entries
    belong to one class each; the others are called `{site}_dim_{axis}`.
    """
    from arviz_base import from_dict

    exported = fit.posterior.exported(num_draws, as_key(seed))
    coords, dims = axes(fit)
    groups = exported.groups
    used = {dim for name in dims for dim in dims[name]}
    # the conventions are that there are more draws than chains, which need not be
    tree = from_dict(groups, coords={k: v for k, v in coords.items() if k in used}, dims=dims, check_conventions=False)
    if "point_estimate" in groups:
        tree["point_estimate"] = tree["point_estimate"].to_dataset().squeeze(("chain", "draw"), drop=True)
    for name in groups:
        tree[name].attrs.update(_plain({"sampling": exported.sampling} | fit.attributes | {"method": repr(fit.method)}))
    return tree


def axes(fit):
    """(coords, dims) of the parameters of a fit, for ArviZ."""
    classes = [str(label) for label in fit.classes.tolist()]
    conjugate = fit.concrete.conjugate(fit.schema)
    if conjugate is None:
        return _own_axes(fit, classes)
    coords, dims = {"class": classes}, {"class_probs": ["class"]}
    alone = len(conjugate.blocks) == 1
    for block in conjugate.blocks:
        prefix = "" if alone else f"{block.name}_"
        own = {"feature": list(block.columns), "feature_2": list(block.columns)}
        if "category" in sum(block.family.parameter_axes().values(), ()):
            own["category"] = _categories(fit.schema, block.columns)
        coords |= {prefix + name: values for name, values in own.items()}
        for name, used in conjugate.axes(block).items():
            dims[f"{block.name}_{name}"] = [axis if axis == "class" else prefix + axis for axis in used]
    return coords, dims


def _categories(schema, columns):
    """Names of the values of categorical columns: their own where there is one column, else codes."""
    if len(columns) == 1:
        return [str(value) for value in schema.categories[columns[0]]]
    return list(range(schema.num_categories(columns[0])))


def _own_axes(fit, classes):
    """A program of one's own: the axes that are the class are those that its attributes use as such."""
    dims, skip = {}, 2 if fit.is_sampled else 0
    for site, axis in fit.program.class_axes.items():
        name, _ = fit.program.coordinates.get(site, (site, None))
        dims[name] = [f"{name}_dim_{index}" for index in range(np.ndim(fit.parameters[name]) - skip)]
        dims[name][axis] = "class"
    return {"class": classes}, dims


def _plain(attributes):
    return {name: value if isinstance(value, str | int | float) else repr(value) for name, value in attributes.items()}
