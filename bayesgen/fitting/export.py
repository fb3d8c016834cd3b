"""Export of a fit to an `xarray.DataTree` for ArviZ, and the names of the axes of its parameters."""

import numbers
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
import numpyro

from bayesgen import __version__
from bayesgen.data import Rows, RowsLike, Table, read_table
from bayesgen.describe import quote_some
from bayesgen.errors import DataError, FitError, warn
from bayesgen.posteriors import ProcessPosterior, chains_joined
from bayesgen.program import log_priors
from bayesgen.runtime import as_key, public
from bayesgen.typing import PRNGKeyArray, Seed, Values

from .sampling import (
    TOTAL,
    by_chain,
    dense,
    generated_rows,
    labelled_rows,
    latent_draws,
    latents_at,
    log_likelihoods_by_site,
    prior_draws,
    process_posterior,
    with_uneven_tails,
)
from .trained import TrainedProgram

if TYPE_CHECKING:
    from xarray import DataTree

Groups = dict[str, dict[str, Any]]  # group of a tree -> variable -> array: (chain, draw, ...), or data, (row, ...)

AxisNames = Mapping[str, Sequence[Any]]

SAMPLE_DIMS = "chain", "draw"
PARAMETERS = "posterior", "point_estimate", "prior"  # which may have an axis of the training rows
ARVIZ_NAMES = {"num_steps": "n_steps", "accept_prob": "acceptance_rate"}


@public
def to_datatree(
    self: TrainedProgram,
    X: RowsLike | None = None,
    y: Values | None = None,
    *,
    prior: bool = False,
    predictive: bool = False,
    num_draws: int = 1000,
    seed: Seed = 0,
    dims: AxisNames | None = None,
    coords: AxisNames | None = None,
) -> "DataTree":
    """Export to an `xarray.DataTree` for ArviZ.

    Groups: `posterior` (and `sample_stats`) of chains for NUTS; `posterior` of 4 x `num_draws` independent draws
    for an exact fit, marked by the attribute `sampling = "independent"`; `point_estimate` for MLE and MAP;
    `log_prior` of draws, by site; `weights_data`, the values of discrete latents of an exact fit with their weights.
    With rows, `observed_data`, `constant_data` (covariates) and `log_likelihood`, whose variable is the sum of all
    sites; the tables by site, and log p(y | x) as "{label}_given_x", are coordinates beside it:
    `arviz_stats.loo(tree)` takes the sum, `loo(tree, var_name="y_given_x")` scores classes.

    Dimensions are `class` (of a mixture, `component`), the columns (`feature`, or `{block}_feature` where there are
    several blocks), `category` and `row`, with the labels' and columns' own names as coordinates. In a program of
    one's own an axis is `class` where each entry belongs to one class, and `row` where it belongs to a training
    row; the others are called `{site}_dim_{axis}`, unless `dims` names them. Labels and categories in data are
    codes, and so are the categories of parameters where columns of a block have different ones, which `summary`
    names. Attributes say how the fit came about.

    `arviz_plots.plot_ppc_pit` takes variables with the axis `row` alone, from any tree: choose one column of a
    block by `var_names=` and `coords={"feature": "height"}`.

    Args:
        X, y: rows and labels, as `fit` takes them.
        prior: whether to add `prior`, `num_draws` draws of the parameters.
        predictive: whether to add `posterior_predictive`, a data set like X for each draw; `prior_predictive` too
            where `prior` is asked for.
        num_draws: of an exact fit for each of four chains, and of the prior.
        seed: integer or JAX key.
        dims: site -> names of its axes; coords: name of an axis -> names along it, both as ArviZ takes them.

    Raises:
        DataError: `dims` of no variable, and `dims` and `coords` of other numbers of names than it has axes or
            entries.
        FitError: draws from a point estimate's posterior predictive, or from an improper prior.
        PredictionError: more numbers than half of the memory.

    >>> import bayesgen as bg
    >>> X, y = [[1.0], [2.0], [7.0], [9.0]], ["a", "a", "c", "c"]
    >>> fit = bg.fit(bg.NaiveBayes(), X, y, method=bg.Exact())
    >>> list(fit.to_datatree(X, y, prior=True).children)
    ['posterior', 'log_prior', 'observed_data', 'log_likelihood', 'prior']
    """
    if isinstance(X, numbers.Integral) and not isinstance(X, bool):
        raise DataError(f"to_datatree({X}): X= are rows, and {X} is a number. Write to_datatree(num_draws={X}).")
    posterior, key = process_posterior(self), as_key(seed)
    if predictive and posterior.is_point:
        raise FitError(
            "predictive=True asks for draws from a posterior predictive, and a point estimate has no posterior: "
            "fit.predictive(num_samples, X) generates rows from the point. Fit with NUTS() or Exact() for draws."
        )
    groups = groups_of_draws(posterior, int(num_draws), key)
    values = next(iter(groups.values()))
    if not posterior.is_point and (posterior.conjugate is None or posterior.conjugate.is_one_structure):
        latents = chains_joined(latent_draws(self, values))
        groups["log_prior"] = by_chain(values, log_priors(self.program, latents))
    if posterior.is_weighted:
        groups["weights_data"] = {f"{name}_by_value": value for name, value in posterior.parameters.items()}
    table, rows = None, None
    if X is not None:
        table = read_table(X, y)
        rows = labelled_rows(self, table)
        groups["observed_data"], groups["constant_data"] = _observed_data(self, rows), dict(rows.covariates)
        if table.labels is not None or self.concrete.response is None:
            by_site = log_likelihoods_by_site(self, values, rows)
            groups[TOTAL] = {name: with_uneven_tails(log_probs) for name, log_probs in by_site.items()}
    if predictive:
        latents = latents_at(self, values, rows, new_rows=False)
        sites = generated_rows(self, rows, latents, jax.random.fold_in(key, 1))
        groups["posterior_predictive"] = by_chain(values, sites)
    if prior:
        groups["prior"] = prior_draws(self, int(num_draws), jax.random.fold_in(key, 2))
    if prior and predictive:
        latents = chains_joined(latent_draws(self, groups["prior"]))
        sites = generated_rows(self, rows, latents, jax.random.fold_in(key, 3))
        groups["prior_predictive"] = by_chain(groups["prior"], sites)
    parameter_coords, parameter_dims = axes(self)
    row_dims = _dims_of_rows(self, groups, parameter_coords)
    defaults = {**parameter_coords, **_row_names(table)}, {**parameter_dims, **row_dims}
    names = with_names_of_user(_shapes(groups), defaults, coords or {}, dims or {}, {*SAMPLE_DIMS, *values})
    return datatree(groups, *names, tree_attributes(self, seed))


def tree_to_save(fit: TrainedProgram) -> "DataTree | None":
    """The tree of the draws of chains, or of the point, that a fit holds; None where it holds neither."""
    posterior = fit.posterior
    if not isinstance(posterior, ProcessPosterior) or not (posterior.is_point or posterior.is_sampled):
        return None
    return datatree(groups_of_draws(posterior, 1, jax.random.key(0)), *axes(fit), tree_attributes(fit))


def groups_of_draws(posterior: ProcessPosterior, num_draws: int, key: PRNGKeyArray) -> Groups:
    """The group of the parameters, and that of the sampler's statistics if there was one."""
    draws = posterior.parameter_draws(num_draws, key)
    if posterior.sample_stats is None:
        return {"point_estimate" if posterior.is_point else "posterior": draws}
    return {"posterior": draws, "sample_stats": sampler_statistics(posterior.sample_stats)}


def sampler_statistics(stats: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Statistics of a sampler by ArviZ's names; `lp` is the log density, up to a constant."""
    renamed = {ARVIZ_NAMES.get(name, name): value for name, value in stats.items()}
    depths = {"tree_depth": np.ceil(np.log2(stats["num_steps"] + 1)).astype(int)} if "num_steps" in stats else {}
    return renamed | depths | {"lp": -renamed.pop("potential_energy")}


def tree_attributes(fit: Any, seed: Seed | None = None) -> dict[str, Any]:
    """How a fit, or a batch of fits, came about: attributes of the groups of its tree."""
    versions = {"bayesgen_version": __version__, "numpyro_version": numpyro.__version__, "jax_version": jax.__version__}
    stated = {"model": fit.model, "method": fit.method, "precision": "float64", "inference_library": "bayesgen"}
    drawn = {} if seed is None else {"prior": getattr(fit, "prior", None), "seed_of_draws": seed}
    return {**fit.attributes, **stated, **drawn, **versions}


def datatree(groups: Groups, coords: AxisNames, dims: AxisNames, attributes: Mapping[str, Any]) -> "DataTree":
    """An `xarray.DataTree` of groups, whose names have "." for "/", which it takes for paths.

    A variable called like an axis of its group, or like another one with "." for "/", has "_" behind its name, and a
    warning says so.

    The last table of log-likelihoods, the total, is the only variable of its group: `arviz_stats.loo` refuses several
    where none is named, and `psense` would count the likelihood twice. Those by site are coordinates beside it.

    Args:
        groups: a point is one draw of "point_estimate".
        coords, dims: as ArviZ takes them.
        attributes: of every group.
    """
    from arviz_base import dict_to_dataset
    from xarray import DataTree

    sampling = "none" if "point_estimate" in groups else "chains" if "sample_stats" in groups else "independent"
    plain = _plain({"sampling": sampling, **attributes})
    dim_names = _tree_names(dict.fromkeys(dim for names in dims.values() for dim in names), SAMPLE_DIMS)
    dims = {name: [dim_names[dim] for dim in names] for name, names in dims.items()}
    coords = {dim_names.get(dim, dim): _coordinate(values) for dim, values in coords.items()}
    datasets, renamed = {}, dict[str, str]()
    for group, values in groups.items():
        is_data = group.endswith("_data")
        used = {dim for name in values for dim in dims.get(name, ())}
        names = _tree_names(values, {*SAMPLE_DIMS, *used})
        renamed |= {name: new for name, new in names.items() if new != name.replace("/", ".")}
        values = {names[name]: value for name, value in values.items()}
        datasets[group] = dict_to_dataset(
            values,
            coords={k: v for k, v in coords.items() if k in used and not (k == "row" and group in PARAMETERS)},
            dims={new: dims[name] for name, new in names.items() if name in dims},
            sample_dims=[] if is_data else None,
            skip_event_dims=group.startswith("log_"),
            check_conventions=False,  # they require more draws than chains
            attrs=plain,
        ).set_coords([*values][:-1] if group == TOTAL else [])
        if "point_estimate" in groups and not is_data and "prior" not in group:
            datasets[group] = datasets[group].squeeze(("chain", "draw"), drop=True)
    if renamed:
        warn(
            f"The tree has other names for {quote_some(renamed)}, which are those of axes or of others of its "
            f"variables: {quote_some(renamed.values())}."
        )
    return DataTree.from_dict({group: dataset for group, dataset in datasets.items() if dataset.data_vars})


def _tree_names(names: Iterable[str], used_names: Collection[str]) -> dict[str, str]:
    """Name -> its name in a tree, with "." for "/", and with "_" behind it where that is taken."""
    chosen = {name: name for name in names if "/" not in name and name not in used_names}
    for name in names:
        if name not in chosen:
            new = name.replace("/", ".")
            while new in used_names or new in chosen.values():
                new += "_"
            chosen[name] = new
    return chosen


def _coordinate(values: Sequence[Any]) -> Sequence[Any]:
    """Names along an axis, as files have them: texts, where they are neither numbers nor dates."""
    import pandas as pd

    array = pd.Index(values, dtype=object).infer_objects().to_numpy()
    return [str(value) for value in values] if array.dtype == object else array


def _observed_data(fit: TrainedProgram, rows: Rows) -> dict[str, np.ndarray]:
    """Site -> the values of rows, labels as codes; NaN where they are missing."""
    cells = {name: dense(values) for name, values in rows.values.items()}
    data = {k: np.where(rows.observed[k], v, np.nan) if k in rows.observed else v for k, v in cells.items()}
    if fit.program.label is not None and rows.labels is not None:
        codes = np.asarray(rows.labels)
        data[fit.program.label] = np.where(codes < 0, np.nan, codes) if (codes < 0).any() else codes
    return data


def _row_names(table: Table | None) -> dict[str, Sequence[Any]]:
    """The index of a frame, where it names each row."""
    index = None if table is None else table.index
    return {} if index is None or index.nlevels > 1 or not index.is_unique else {"row": index.tolist()}


def _dims_of_rows(fit: TrainedProgram, groups: Groups, coords: AxisNames) -> dict[str, Sequence[str]]:
    """Site -> the names of the axes of its rows, `row` first and the columns of its block then."""
    conjugate, dims = fit.concrete.column_blocks(fit.schema), dict[str, Sequence[str]]()
    columns = {} if conjugate is None else {block.name: list(block.columns) for block in conjugate.blocks}
    for group in ("observed_data", "constant_data", "posterior_predictive", "prior_predictive", TOTAL):
        for name, value in groups.get(group, {}).items():
            if group.endswith("predictive") and name in fit.program.structure.deterministics:
                continue  # of all rows together
            num_axes = np.ndim(value) - (3 if "data" not in group else 1)
            features = [dim for dim in (f"{name}_feature", "feature") if dim in coords][:1]
            are_columns = num_axes == 1 and [list(coords[dim]) for dim in features] == [columns.get(name)]
            inner = features if are_columns else numbered_axes(name, num_axes)
            if len(inner) >= len(dims.get(name, ())) - 1:
                dims[name] = ["row", *inner]
    return dims


def _shapes(groups: Groups) -> dict[str, tuple[int, ...]]:
    """Variable -> its shape, without chains and draws; the one with the most axes where groups differ."""
    shapes: dict[str, tuple[int, ...]] = {}
    for group, values in groups.items():
        for name, value in values.items():
            shape = np.shape(value)[0 if group.endswith("_data") else 2 :]
            shapes[name] = max(shapes.get(name, ()), shape, key=len)
    return shapes


def _plain(attributes: Mapping[str, Any]) -> dict[str, str | int | float]:
    """Attributes as netCDF has them: texts and numbers, but no truth values."""
    return {
        name: value if isinstance(value, str | int | float) and not isinstance(value, bool) else repr(value)
        for name, value in attributes.items()
    }


# Names of axes: classes, columns, categories and rows.


def axes(fit: TrainedProgram) -> tuple[dict[str, Sequence[Any]], dict[str, Sequence[str]]]:
    """(coords, dims) of the parameters of a fit, for ArviZ."""
    conjugate = fit.concrete.column_blocks(fit.schema)
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
        is_weighted = isinstance(fit.posterior, ProcessPosterior) and fit.posterior.is_weighted
        num_axes = np.ndim(fit.parameters[name]) - (2 if fit.is_sampled else int(is_weighted))
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
    """Names of axes that have none, as ArviZ makes them."""
    return [f"{name}_dim_{axis}" for axis in range(num_axes)]
