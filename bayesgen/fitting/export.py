"""Export of a fit to an `xarray.DataTree` for ArviZ; draws, log-likelihoods and generated rows as NumPyro has them."""

import dataclasses
import functools
import numbers
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
import numpyro

from bayesgen import __version__
from bayesgen.data import PADDING, Rows, RowsLike, Table, read_table
from bayesgen.describe import quote_some
from bayesgen.errors import DataError, FitError, PredictionError, check_integer, warn
from bayesgen.models import covariate_name
from bayesgen.posteriors import ParameterArrays, ProcessPosterior, chains_joined
from bayesgen.program import log_priors, log_probs_by_site, row_digests, scores_of_draws
from bayesgen.runtime import ROUNDING, as_key, beyond_memory, generator
from bayesgen.typing import Float, PRNGKeyArray, Seed, Values

from .summaries import encoded_rows
from .trained import TrainedProgram

if TYPE_CHECKING:
    from xarray import DataTree

Groups = dict[str, dict[str, Any]]  # group of a tree -> variable -> array: (chain, draw, ...), or data, (row, ...)

Names = Mapping[str, Sequence[Any]]

TOTAL = "log_likelihood"
SAMPLE_DIMS = "chain", "draw"
PARAMETERS = "posterior", "point_estimate", "prior"  # which may have an axis of the training rows
ARVIZ_NAMES = {"num_steps": "n_steps", "accept_prob": "acceptance_rate"}


def to_datatree(
    fit: TrainedProgram,
    X: RowsLike | None,
    y: Values | None,
    prior: bool,
    predictive: bool,
    num_draws: int,
    seed: Seed,
    dims: Names,
    coords: Names,
) -> "DataTree":
    """The tree of a fit: see `Fit.to_datatree`."""
    if isinstance(X, numbers.Integral) and not isinstance(X, bool):
        raise DataError(f"to_datatree({X}): X= are rows, and {X} is a number. Write to_datatree(num_draws={X}).")
    posterior, key = process_posterior(fit), as_key(seed)
    if predictive and posterior.is_point:
        raise FitError(
            "predictive=True asks for draws from a posterior predictive, and a point estimate has no posterior: "
            "fit.predictive(num_samples, X) generates rows from the point. Fit with NUTS() or Exact() for draws."
        )
    groups = groups_of_draws(posterior, int(num_draws), key)
    values = next(iter(groups.values()))
    if not posterior.is_point and (posterior.conjugate is None or posterior.conjugate.is_one_structure):
        groups["log_prior"] = _by_chain(values, log_priors(fit.program, _latents(fit, values)))
    table, rows = None, None
    if X is not None:
        table = read_table(X, y)
        rows = _rows(fit, table)
        groups["observed_data"], groups["constant_data"] = _data(fit, rows), dict(rows.covariates)
        if table.labels is not None or fit.concrete.response is None:
            by_site = log_likelihoods(fit, values, rows)
            groups[TOTAL] = {name: with_uneven_tails(log_probs) for name, log_probs in by_site.items()}
    if predictive:
        latents = _latents_at(fit, chains_joined(values), rows, new_rows=False)
        sites = _generated(fit, rows, latents, jax.random.fold_in(key, 1))
        groups["posterior_predictive"] = _by_chain(values, sites)
    if prior:
        groups["prior"] = _prior_draws(fit, int(num_draws), jax.random.fold_in(key, 2))
    if prior and predictive:
        sites = _generated(fit, rows, _latents(fit, groups["prior"]), jax.random.fold_in(key, 3))
        groups["prior_predictive"] = _by_chain(groups["prior"], sites)
    known_coords, known_dims = axes(fit)
    known = {**known_coords, **_row_names(table)}, {**known_dims, **_dims_of_rows(fit, groups, known_coords)}
    named = named_axes(_shapes(groups), known, coords, dims, {"chain", "draw", *values})
    return datatree(groups, *named, about(fit, seed))


def tree_of_kept(fit: TrainedProgram) -> "DataTree | None":
    """The tree of the draws of chains, or of the point, that a fit holds; None where it holds neither."""
    posterior = fit.posterior
    if not isinstance(posterior, ProcessPosterior) or not (posterior.is_point or posterior.is_sampled):
        return None
    return datatree(groups_of_draws(posterior, 1, jax.random.key(0)), *axes(fit), about(fit))


def process_posterior(fit: TrainedProgram) -> ProcessPosterior:
    """The posterior of a fit of one program.

    Raises:
        PredictionError: an average, whose members have no parameters in common.
    """
    if not isinstance(fit.posterior, ProcessPosterior):
        fit.posterior.require("draws")
    assert isinstance(fit.posterior, ProcessPosterior)
    return fit.posterior


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


def about(fit: Any, seed: Seed | None = None) -> dict[str, Any]:
    """How a fit, or a batch of fits, came about: attributes of the groups of its tree."""
    versions = {"bayesgen_version": __version__, "numpyro_version": numpyro.__version__, "jax_version": jax.__version__}
    stated = {"model": fit.model, "method": fit.method, "precision": "float64", "inference_library": "bayesgen"}
    drawn = {} if seed is None else {"prior": getattr(fit, "prior", None), "seed_of_draws": seed}
    return {**fit.attributes, **stated, **drawn, **versions}


def datatree(groups: Groups, coords: Names, dims: Names, attributes: Mapping[str, Any]) -> "DataTree":
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


def _tree_names(names: Iterable[str], taken: Collection[str]) -> dict[str, str]:
    """Name -> its name in a tree, with "." for "/", and with "_" behind it where that is taken."""
    chosen = {name: name for name in names if "/" not in name and name not in taken}
    for name in names:
        if name not in chosen:
            new = name.replace("/", ".")
            while new in taken or new in chosen.values():
                new += "_"
            chosen[name] = new
    return chosen


def _coordinate(values: Sequence[Any]) -> Sequence[Any]:
    """Names along an axis, as files have them: texts, where they are neither numbers nor dates."""
    import pandas as pd

    array = pd.Index(values, dtype=object).infer_objects().to_numpy()
    return [str(value) for value in values] if array.dtype == object else array


# Draws, log-likelihoods and generated rows, as arrays.


def samples(fit: TrainedProgram, group_by_chain: bool, num_draws: int, seed: Seed) -> dict[str, np.ndarray]:
    """Site -> draws: see `Fit.samples`."""
    fit.posterior.require("draws")
    values = _values(fit, num_draws, seed)
    structure = fit.program.structure
    sites = {name: values[name] for name in structure.deterministics if name in values} | _sites(fit, values)
    local = {name: site.position for name, site in structure.continuous_local if name in values}
    sites |= {name: np.moveaxis(values[name], 2, 2 + position) for name, position in local.items()}
    return sites if group_by_chain else chains_joined(sites)


def draws(fit: TrainedProgram, n: int, seed: Seed) -> dict[str, np.ndarray]:
    """Parameter -> n draws: see `Fit.draws`."""
    check_integer("draws: n", n, 1, PredictionError)
    fit.posterior.require("draws")
    values, places = chains_joined(_values(fit, n, seed)), np.arange(n)
    if fit.is_sampled:
        total = len(next(iter(values.values())))
        places = generator(as_key(seed)).choice(total, int(n), replace=n > total)
    return {name: value[places] for name, value in values.items()}


def _values(fit: TrainedProgram, num_draws: int, seed: Seed) -> ParameterArrays:
    """At least so many independent draws of the parameters, as four chains; or all of Markov chains, or the point."""
    return process_posterior(fit).parameter_draws(-(-int(num_draws) // 4), as_key(seed))


def predictive(
    fit: TrainedProgram, num_samples: int, X: RowsLike | None, new_rows: bool, seed: Seed
) -> dict[str, np.ndarray]:
    """Site -> generated values, (draws, n, ...): see `Fit.predictive`."""
    check_integer("predictive: num_samples", num_samples, 1, PredictionError)
    first, second = jax.random.split(as_key(seed))
    if process_posterior(fit).is_point:
        values = {k: np.repeat(np.asarray(v)[None], num_samples, axis=0) for k, v in fit.parameters.items()}
    else:
        values = draws(fit, num_samples, first)
    rows = None if X is None else fit.rows_to_generate(X)
    return _generated(fit, rows, _latents_at(fit, values, rows, new_rows), second)


def _latents_at(
    fit: TrainedProgram, values: ParameterArrays, rows: Rows | None, new_rows: bool
) -> dict[str, np.ndarray]:
    """Latent site -> (draws, ...), with the continuous latents of rows where these are the training rows, or None.

    Warns of rows that are others, unless new rows are asked for.
    """
    latents = _latents(fit, {name: value[None] for name, value in values.items()})
    local = {name: site for name, site in fit.program.structure.continuous_local if name in values}
    if not local or new_rows:
        return latents
    training_digests, digests = fit.attributes.get("row_digests", {}), {} if rows is None else row_digests(rows)
    digests.pop(fit.program.response_site or "", None)
    if any(training_digests.get(name) != digest for name, digest in digests.items()):
        warn(
            f"X are other rows than those of training, so their latents {quote_some(local)} are drawn anew: new rows "
            "of the same population. Write predictive(num_samples, X, new_rows=True) if that is meant; the training "
            "rows are known by their covariates and attributes."
        )
        return latents
    return latents | {name: np.moveaxis(values[name], 1, 1 + site.position) for name, site in local.items()}


def log_likelihoods(fit: TrainedProgram, values: ParameterArrays, rows: Rows) -> dict[str, np.ndarray]:
    """Site -> log probabilities, (chain, draw, n), the total last: see `Fit.log_likelihood`."""
    program, latents = fit.program, _latents(fit, values)
    has_label, given_x, found = program.label is not None, f"{program.label}_given_x", dict[str, np.ndarray]()
    _check_memory("log-likelihoods", len(next(iter(latents.values()))) * rows.num_rows * (len(program.attributes) + 2))
    if not program.local and not (has_label and (rows.labels is None or np.any(np.asarray(rows.labels) < 0))):
        found = log_probs_by_site(program, latents, dataclasses.replace(rows, covariates=_covariates(fit, rows)))
    if not found or (has_label and program.attributes):
        given_row, joint = scores_of_draws(program, latents, rows)
        found |= {given_x: given_row} if found else {TOTAL: joint}
    if len(found) > 1:
        found[TOTAL] = functools.reduce(np.add, [table for name, table in found.items() if name != given_x])
    return _by_chain(values, found)


def with_uneven_tails(log_probs: Float[np.ndarray, "*draws n"]) -> Float[np.ndarray, "*draws n"]:
    """Log-likelihoods of rows under draws, where those of a row that are the same differ by rounding.

    Draws are weighted by one over the likelihood of a row that is left out. Pareto-smoothed weights, of ArviZ too, take
    the distribution of the largest, a fifth of them at most, and do not exist where these are one number: of a row
    without observed cells, or one whose density no latent changes.
    """
    by_draw = log_probs.reshape(-1, log_probs.shape[-1])
    place = len(by_draw) // 5 - 1
    if place < 1:
        return log_probs
    smallest = by_draw.min(axis=0)
    is_even = (np.partition(by_draw, place, axis=0)[place] == smallest) & np.isfinite(smallest)
    rising = ROUNDING * np.linspace(0.0, 1.0, len(by_draw))[:, None] * np.maximum(1.0, np.abs(smallest))
    return (by_draw + np.where(is_even, rising, 0.0)).reshape(log_probs.shape)


def log_likelihood(
    fit: TrainedProgram, X: RowsLike, y: Values | None, num_draws: int, seed: Seed
) -> dict[str, np.ndarray]:
    """Site -> (draws, n): see `Fit.log_likelihood`."""
    table = read_table(X, y)
    if y is None and fit.concrete.response is not None:
        raise DataError("y is missing: the likelihood of this model is that of its label. Give log_likelihood(X, y).")
    return chains_joined(log_likelihoods(fit, _values(fit, num_draws, seed), _rows(fit, table)))


def _prior_draws(fit: TrainedProgram, num_draws: int, key: PRNGKeyArray) -> ParameterArrays:
    """Draws of the parameters from the prior, (1, draw, ...).

    Raises:
        FitError: an improper prior.
    """
    program, conjugate = fit.program, fit.concrete.conjugate(fit.schema)
    for name, family in () if conjugate is None else conjugate.families():
        if not family.is_proper:
            raise FitError(f"prior=True: the prior of block {name!r} is improper, so there are no draws from it.")
    if conjugate is not None and conjugate.is_closed:
        return conjugate.sample((1, num_draws), generator(key))
    examples: dict[str, Any] = dict(program.example_covariates(program.num_classes))
    drawn, _ = program.generate(program.num_classes, num_draws, seed=key, **examples)
    return program.parameters_of({n: value[None] for n, value in drawn.items() if n not in program.row_statistics})


def _generated(
    fit: TrainedProgram, rows: Rows | None, latents: Mapping[str, np.ndarray], key: PRNGKeyArray
) -> dict[str, np.ndarray]:
    """Site -> as many rows as these, with their covariates, (draws, n, ...); None for those of the training."""
    program, num_worlds = fit.program, len(next(iter(latents.values())))
    num_rows = max(1, round(fit.attributes["total_weight"])) if rows is None else rows.num_rows
    cells = sum(np.prod(site.row_shape, dtype=float) for _, site in program.structure.row_sites) + 1
    _check_memory("generated rows", num_worlds * num_rows * cells)
    covariates = {} if rows is None else _covariates(fit, rows)
    if set(program.covariates) - covariates.keys():
        raise DataError(
            f"The rows are generated given {sorted(program.covariates)}, so give rows that have them: X=..."
        )
    others, sites = program.generate(num_rows, num_worlds, seed=key, latents=latents, **covariates)
    return sites | {name: others[name] for name in program.structure.deterministics}


def _check_memory(what: str, num_cells: float) -> None:
    """Refuse arrays beyond memory."""
    refusal = beyond_memory(f"The {what} of all draws", 8.0 * num_cells)
    if refusal:
        raise PredictionError(f"{refusal} Give fewer rows, or fewer draws.")


def _covariates(fit: TrainedProgram, rows: Rows) -> dict[str, Any]:
    """The covariates of rows: of blocks of columns also the totals of counts, and the lengths of sequences."""
    found: dict[str, Any] = {name: np.asarray(value) for name, value in rows.covariates.items()}
    conjugate = fit.concrete.conjugate(fit.schema)
    for block in () if conjugate is None else conjugate.blocks:
        if block.family.traits.covariate is not None and block.given is None:
            cells, observed = _dense(rows.values[block.name]), rows.observed.get(block.name)
            name = covariate_name(block.name, block.family.traits.covariate)
            found[name] = _lengths(cells, observed) if block.family.kind.has_steps else cells.sum(1)
    return found


def _lengths(cells: np.ndarray, observed: Any) -> np.ndarray:
    """The number of time steps of each row, up to the last one of symbols, or the last observed one of numbers."""
    of_symbols = np.issubdtype(cells.dtype, np.integer) or observed is None
    inside = (cells != PADDING if of_symbols else np.asarray(observed)).reshape(*cells.shape[:2], -1).any(2)
    return np.asarray((inside * np.arange(1, cells.shape[1] + 1)).max(1, initial=0))


def _rows(fit: TrainedProgram, table: Table) -> Rows:
    """The rows of a table with their labels, if it has any."""
    return fit.rows_of(table) if table.labels is None else encoded_rows(fit.concrete, fit.schema, table)


def _data(fit: TrainedProgram, rows: Rows) -> dict[str, np.ndarray]:
    """Site -> the values of rows, labels as codes; NaN where they are missing."""
    cells = {name: _dense(values) for name, values in rows.values.items()}
    found = {k: np.where(rows.observed[k], v, np.nan) if k in rows.observed else v for k, v in cells.items()}
    if fit.program.label is not None and rows.labels is not None:
        codes = np.asarray(rows.labels)
        found[fit.program.label] = np.where(codes < 0, np.nan, codes) if (codes < 0).any() else codes
    return found


def _dense(cells: Any) -> np.ndarray:
    return cells.toarray() if hasattr(cells, "toarray") else np.asarray(cells)


def _sites(fit: TrainedProgram, values: ParameterArrays) -> dict[str, np.ndarray]:
    """Latent site -> its draws, (chain, draw, ...), from those of the parameters."""
    of_sites = fit.program.latents_of(values)
    return {name: of_sites[name] for name in fit.program.latents}


def _latents(fit: TrainedProgram, values: ParameterArrays) -> dict[str, np.ndarray]:
    return chains_joined(_sites(fit, values))


def _by_chain(values: ParameterArrays, found: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Arrays of all draws, with the axes of chains and draws that these parameters have."""
    shape = next(iter(values.values())).shape[:2]
    return {name: np.asarray(value).reshape(*shape, *np.shape(value)[1:]) for name, value in found.items()}


# Names of axes.


def _row_names(table: Table | None) -> dict[str, Sequence[Any]]:
    """The index of a frame, where it names each row."""
    index = None if table is None else table.index
    return {} if index is None or index.nlevels > 1 or not index.is_unique else {"row": index.tolist()}


def _dims_of_rows(fit: TrainedProgram, groups: Groups, coords: Names) -> dict[str, Sequence[str]]:
    """Site -> the names of the axes of its rows, `row` first and the columns of its block then."""
    conjugate, dims = fit.concrete.conjugate(fit.schema), dict[str, Sequence[str]]()
    columns = {} if conjugate is None else {block.name: list(block.columns) for block in conjugate.blocks}
    for group in ("observed_data", "constant_data", "posterior_predictive", "prior_predictive", TOTAL):
        for name, value in groups.get(group, {}).items():
            if group.endswith("predictive") and name in fit.program.structure.deterministics:
                continue  # of all rows together
            num_axes = np.ndim(value) - (3 if "data" not in group else 1)
            features = [dim for dim in (f"{name}_feature", "feature") if dim in coords][:1]
            are_columns = num_axes == 1 and [list(coords[dim]) for dim in features] == [columns.get(name)]
            inner = features if are_columns else [f"{name}_dim_{axis}" for axis in range(num_axes)]
            if len(inner) >= len(dims.get(name, ())) - 1:
                dims[name] = ["row", *inner]
    return dims


def axes(fit: TrainedProgram) -> tuple[dict[str, Sequence[Any]], dict[str, Sequence[str]]]:
    """(coords, dims) of the parameters of a fit, for ArviZ."""
    conjugate = fit.concrete.conjugate(fit.schema)
    coords, dims = _own_axes(fit) if conjugate is None else (conjugate.coordinates(fit.schema), conjugate.axes)
    names = {"class": fit.concrete.class_axis}
    return {names.get(dim, dim): values for dim, values in coords.items()}, {
        name: tuple(names.get(dim, dim) for dim in dims_of) for name, dims_of in dims.items()
    }


def named_axes(
    shapes: Mapping[str, tuple[int, ...]],
    known: tuple[Names, Names],
    coords: Names,
    dims: Names,
    taken: Collection[str],
) -> tuple[Names, Names]:
    """(coords, dims) that are known, and in their places those that a user gives.

    Args:
        shapes: name -> shape of what has axes.
        known: (coords, dims), as `axes` gives them.
        coords, dims: of the user.
        taken: what no axis may be called.

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
        if refused := [dim for dim in names if dim in taken or [*names].count(dim) > 1]:
            raise DataError(f"dims: the name {refused[0]!r} of an axis of {name!r} is taken. Choose another one.")
    named, lengths = {**known[1], **dims}, dict[str, set[int]]()
    for name, shape in shapes.items():
        for dim, length in zip(named.get(name) or _numbered(name, len(shape)), shape, strict=False):
            lengths.setdefault(dim, set()).add(length)
    for dim, names in coords.items():
        if dim not in lengths:
            raise DataError(f"coords: there is no axis {dim!r}, but {quote_some(lengths)}.")
        if len(names) not in lengths[dim]:
            raise DataError(f"coords: {dim!r} has {len(names)} names, and the axis {min(lengths[dim])} entries.")
    return {**known[0], **coords}, named


def _numbered(name: str, num_axes: int) -> list[str]:
    """Names of axes that have none, as ArviZ makes them."""
    return [f"{name}_dim_{axis}" for axis in range(num_axes)]


def _shapes(groups: Groups) -> dict[str, tuple[int, ...]]:
    """Variable -> its shape, without chains and draws; the one with the most axes where groups differ."""
    shapes: dict[str, tuple[int, ...]] = {}
    for group, values in groups.items():
        for name, value in values.items():
            shape = np.shape(value)[0 if group.endswith("_data") else 2 :]
            shapes[name] = max(shapes.get(name, ()), shape, key=len)
    return shapes


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
        if name not in fit.parameters:
            continue
        num_axes = np.ndim(fit.parameters[name]) - (2 if fit.is_sampled else 0)
        dims[name] = ["class" if axis == class_axis else f"{name}_dim_{axis}" for axis in range(num_axes)]
    for local, of_row in fit.program.structure.continuous_local:
        dims[local] = ["row", *(f"{local}_dim_{axis}" for axis in range(1, 1 + len(of_row.row_shape)))]
    return {"class": [str(label) for label in fit.classes.tolist()]}, dims


def _plain(attributes: Mapping[str, Any]) -> dict[str, str | int | float]:
    """Attributes as netCDF has them: texts and numbers, but no truth values."""
    return {
        name: value if isinstance(value, str | int | float) and not isinstance(value, bool) else repr(value)
        for name, value in attributes.items()
    }
