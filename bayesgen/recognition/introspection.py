"""`Introspection`: the structure, plan, supports, indexes and class axes of a program, each found when asked for.

With it, values of rows are checked against the supports of their sites, and rows are summarised.
"""

import functools
import math
import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from numpyro.distributions import constraints
from numpyro.distributions.constraints import Constraint

from bayesgen.data import PADDING, Rows
from bayesgen.errors import DataError, ModelError
from bayesgen.program import (
    BLOCK,
    Arrays,
    Elimination,
    Enumeration,
    Means,
    Plan,
    Program,
    Site,
    Structure,
    arbitrary_numbers,
    log_density_of_sites,
)
from bayesgen.records import stacked
from bayesgen.runtime import CACHE_ROWS, EQUAL, Traced, all_sources, in_float64, over_chunks
from bayesgen.statistics import NormalLikelihood, SufficientStatistics, sufficient_statistics
from bayesgen.typing import Array, Bool, Float, Int, Shaped

from .conjugacy import ROWS, ClosedForm, FamilySearch
from .discovery import discover
from .indexing import CovariateIndexes
from .plan import Recognition
from .separable import FEW_LATENTS, separable
from .stages import NEAR, arbitrary_latents, find_elimination
from .traces import CODES, LATENTS, LOCAL, ProgramTrace, TraceOutputs, Traces, arbitrary_covariates

MOST_ROWS = 300  # of those whose latents are integrated out
COMPILED_FROM = 16  # chunks of rows, for which compiling takes less time than it saves


class Introspection:
    """What tracing a program shows: its sites, found at once, and all else when it is asked for.

    Attributes:
        structure: its sites.
    """

    @in_float64
    def __init__(self, program: Program) -> None:
        self._discovery = discovery = discover(program)
        self.structure: Structure = discovery.structure
        self._traces = Traces(program.replace(structure=self.structure), discovery.values, discovery.num_rows)

    @functools.cached_property
    @in_float64
    def _recognition(self) -> Recognition:
        return Recognition(self._traces)

    @property
    def plan(self) -> Plan:
        """Which attribute sites are compressed into sufficient statistics, and why the others are not."""
        return self._recognition.plan

    @in_float64
    def check_row_count(self, size: int) -> None:
        """Refuse a program that is another one at this number of rows, or whose rows depend on their position."""
        self._recognition.check_row_count(size)

    @functools.cached_property
    @in_float64
    def class_axes(self) -> dict[str, int]:
        """Latent or deterministic site with an entry for each class -> its class axis."""
        return find_class_axes(self._traces)

    @functools.cached_property
    @in_float64
    def closed_form(self) -> ClosedForm:
        """The parts of the program with a closed form."""
        closed_form = FamilySearch(self._traces, self.plan).result()
        if closed_form.conjugate is not None:
            return closed_form
        return closed_form.with_elimination(self.elimination, self._traces.program.latents)

    @functools.cached_property
    @in_float64
    def elimination(self) -> Elimination:
        """The latents that can be integrated out of the log density of labelled rows; last the discrete ones."""
        traces = self._traces
        program, structure = traces.program.replace(structure=self.structure, plan=self.plan), self.structure
        last = (Enumeration(structure.finite, float(traces.num_parameters)),) if structure.finite else ()
        if structure.local or structure.counts_partly or not structure.latents:
            return Elimination(last)
        rng, latents = np.random.default_rng(2), arbitrary_latents(traces, self._discovery.supports)
        # rows are more than columns of covariates, so that coefficients with flat priors have a normal distribution
        size = max(ROWS, min(3 * sum(math.prod(c.row_shape) for _, c in structure.covariates), MOST_ROWS))
        labels = None if program.label is None else rng.integers(0, program.num_classes, size)
        covariates = arbitrary_covariates(program, size)
        rows = Rows(
            traces.rows(traces.draw(arbitrary_numbers(NEAR[0])), size),
            {},
            dict(covariates),
            labels,
            rng.uniform(0.5, 1.5, size),
        )
        statistics = summarize_rows(program, self, rows)
        traced = Traced.of(lambda values: log_density_of_sites(program, values, statistics), latents[0])
        return Elimination((*find_elimination(traced.inline, latents, self._discovery.supports).stages, *last))

    @functools.cached_property
    @in_float64
    def indexes(self) -> CovariateIndexes:
        """The indexes that depend on covariates."""
        return CovariateIndexes(self._traces)

    # --- supports -----------------------------------------------------------------------------------------------

    @property
    def latent_supports(self) -> dict[str, Constraint]:
        """Latent site -> support of one entry of an event."""
        return {name: self._discovery.supports[name] for name in self._traces.program.latents}

    def support_of_response(self, site: str, rows: Rows) -> Constraint:
        """The support of a label that is a number, in rows; bounds that differ between these have the rows first.

        Raises:
            ModelError: a support of real numbers that differs between rows, or one that depends on latents.
        """
        support = self._discovery.supports[site]
        if _is_number_everywhere(support):
            return support
        if not support.is_discrete or site not in self.inputs_of_supports:
            raise ModelError(
                f"The support of the label {site!r} is not the same for all rows: let its bounds be numbers."
            )
        return self.supports_by_row(rows, rows.codes)[site]

    @functools.cached_property
    def supports_of_steps(self) -> dict[str, Constraint]:
        """Attribute of sequences -> the support of its steps, where it is the same for every row."""
        supports = {name: self._discovery.supports[name] for name, site in self.structure.attributes if site.steps}
        return {name: support for name, support in supports.items() if _is_number_everywhere(support)}

    @functools.cached_property
    @in_float64
    def inputs_of_supports(self) -> dict[str, frozenset[str]]:
        """Attribute -> what enters the bounds of its support: nothing, where they are the same for every row.

        Sequences, all real numbers, and supports that depend on latents are left out.
        """
        latents = {LATENTS, *(LOCAL + name for name, _ in self.structure.local)}
        sources = self._traces.sources.supports
        inputs = {
            name: all_sources(sources[name])
            for name, site in self.structure.attributes
            if site.steps is None and self._discovery.supports[name] is not constraints.real
        }
        return {name: names for name, names in inputs.items() if not names & latents}

    @property
    def supports_depend_on_class(self) -> bool:
        """Whether the support of an attribute in a row depends on its class."""
        return any(CODES in inputs for inputs in self.inputs_of_supports.values())

    @property
    @in_float64
    def attributes_depend_on_latents(self) -> bool:
        """Whether what sets the classes apart has to be learned; else only how probable they are."""
        log_probs = self._traces.sources.log_probs
        return any(LATENTS in inputs for name, inputs in log_probs.items() if name != self._traces.program.label)

    @functools.cached_property
    @in_float64
    def _fixed_supports(self) -> dict[str, Constraint]:
        """Attribute -> its support, where it is the same for every row; bounds have one row."""
        names = [name for name, inputs in self.inputs_of_supports.items() if not inputs]
        supports = self._traces.outputs_at_classes(lambda outputs: {name: outputs.supports[name] for name in names})
        return jax.tree.map(lambda bound: bound[0, :1], supports)

    # --- what does not depend on latents, in rows of data ---------------------------------------------------------

    def supports_by_row(self, rows: Rows, codes: Int[Array, " n"]) -> dict[str, Constraint]:
        """Attribute -> support, its bounds with the rows first, or with one row where they are the same for all."""
        names = tuple(name for name, inputs in self.inputs_of_supports.items() if inputs)
        if not names:
            return self._fixed_supports
        supports = self._at_rows(lambda outputs: {name: outputs.supports[name] for name in names}, rows, codes)
        return self._fixed_supports | supports

    def row_parameters(self, rows: Rows) -> dict[str, dict[str, np.ndarray]]:
        """Site -> its row parameters (see `statistics.register`), for the compressed sites that have any."""
        names = self.plan.row_parameters
        return self._at_rows(lambda outputs: {name: outputs.row_parameters[name] for name in names}, rows, rows.codes)

    @functools.cached_property
    @in_float64
    def _at_chunk(self) -> ProgramTrace:
        return self._traces.at(CACHE_ROWS, ())

    @in_float64
    def separable_means(self, name: str, num_rows: int) -> Means | None:
        """Means of a normal site of so many rows; None where these do not decide its distribution.

        They do where its means are sums of products of what latents and what rows make, and its scale is of latents
        alone.
        """
        if name not in self._separable:
            return None
        mean, traced, compiled = self._separable[name]
        function = traced if num_rows < COMPILED_FROM * CACHE_ROWS else compiled
        latents = self._traces.draws[0].latents

        def means_at(draws: Float[np.ndarray, "blocks draws"], *rows: Any) -> Float[np.ndarray, "n draws ..."]:
            return np.moveaxis(np.concatenate([function(block, *rows) for block in draws]), 0, 1)

        def at_few_latents(*rows: Any) -> Float[np.ndarray, "n draws ..."]:
            return np.concatenate([means_at(FEW_LATENTS, *rows), mean(latents, *rows)[:, None]], axis=1)

        def at_arbitrary(rows: Rows, num_draws: int) -> Float[np.ndarray, "n draws ..."]:
            draws = np.arange(float(num_draws)).reshape(-1, BLOCK)
            return self._over_rows(functools.partial(means_at, draws), rows, rows.codes)

        return Means(at_arbitrary, lambda rows: self._over_rows(at_few_latents, rows, rows.codes))

    @functools.cached_property
    @in_float64
    def _separable(self) -> dict[str, tuple[Traced, Traced, Callable[..., Any]]]:
        """Site -> its means, and its separable means, evaluated by NumPy, and compiled."""
        separable_sites: dict[str, tuple[Traced, Traced, Callable[..., Any]]] = {}
        classes, sources, traces = self._traces.classes, self._traces.sources.likelihood_parameters, self._traces
        for name in set(self.plan.rowwise) & classes.likelihoods.keys() - classes.unsummarized.keys():
            (parameters, mask), factor = sources[name]
            if mask is not None or classes.likelihoods[name] != NormalLikelihood():
                continue
            if not all_sources((parameters["scale"], factor)) <= {LATENTS}:
                continue
            by_site: Any = self._at_chunk.function.only(operator.attrgetter("likelihood_parameters"))
            mean = by_site.only(operator.itemgetter(name)).only(lambda parameters: parameters[0][0]["loc"])
            latents, rows = traces.draw(arbitrary_numbers(0)).latents, traces.zeros(CACHE_ROWS)
            covariates = arbitrary_covariates(traces.program, CACHE_ROWS)
            traced = separable(mean, latents, rows, np.zeros(CACHE_ROWS, int), covariates)
            if traced is not None:
                separable_sites[name] = mean, traced, jax.jit(traced.traceably)
        return separable_sites

    @in_float64
    def _at_rows(self, choose: Callable[[TraceOutputs], Any], rows: Rows, codes: Int[Array, " n"]) -> Any:
        function, latents = self._at_chunk.function.only(choose), self._traces.draws[0].latents
        return self._over_rows(functools.partial(function, latents), rows, codes)

    @in_float64
    def _over_rows(self, function: Callable[..., Any], rows: Rows, codes: Int[Array, " n"]) -> Any:
        """A function of attributes, codes and covariates at rows, chunk by chunk."""
        unused = self._traces.zeros(CACHE_ROWS)

        def at_chunk(chunk: Any) -> Any:
            values, codes, covariates = chunk
            return function(unused | values, codes, covariates)

        parents = {name for _, attributes in self.plan.dependences for name in attributes}
        chunks = {name: rows.values[name] for name in parents}, codes, rows.covariates
        return over_chunks(at_chunk, chunks, rows.num_rows, CACHE_ROWS, least=CACHE_ROWS)


def _is_number_everywhere(support: Constraint) -> bool:
    """Whether the bounds of a support are known, and the same for all rows."""
    return not any(np.ndim(bound) or bound != bound for bound in jax.tree.leaves(support))


# --- class axes of latents, found by changing entries one at a time ------------------------------------------------


class Change(NamedTuple):
    """Another value at one entry, along one axis, of a latent."""

    name: str
    axis: int
    entry: int


def find_class_axes(traces: Traces) -> dict[str, int]:
    """Latent or deterministic site -> its class axis, if it has one. Inside float64.

    An axis of a latent is a class axis if its entry k changes the distributions of class k alone (of its attributes, or
    its probability). An axis of a deterministic site is a class axis if such changes of class k change its entry k
    alone.
    """
    num_classes = traces.program.num_classes
    first, second = (traces.draw(arbitrary_numbers(seed)) for seed in range(2))
    changes = [
        Change(name, axis, entry)
        for name, value in first.latents.items()
        for axis, size in enumerate(value.shape)
        if size == num_classes
        for entry in range(num_classes)
    ]
    if not changes or num_classes < 2:
        return {}
    changed = [_changed(first.latents, second.latents, change) for change in changes]
    latents = stacked([first.latents, *changed])
    rows = traces.rows(first, num_classes)
    # no value of a discrete latent is that of a class
    rows |= {name: np.zeros_like(rows[name]) for name in traces.program.structure.joint_values()}
    moved, deterministics_moved = _effects(traces, latents, rows)
    axes = {change.name: change.axis for change in changes if _is_class(moved, changes, {(change.name, change.axis)})}
    latent_axes = set(axes.items())
    for name, values_moved in deterministics_moved.items():
        for axis in range(1, values_moved.ndim):
            if values_moved.shape[axis] == num_classes and _is_class(
                _any_along([values_moved], axis), changes, latent_axes
            ):
                axes.setdefault(name, axis - 1)
    return axes


def _changed(latents: Arrays, other_latents: Arrays, change: Change) -> dict[str, Array]:
    """Latents with a change applied."""
    place = (slice(None),) * change.axis + (change.entry,)
    value = np.array(latents[change.name])
    value[place] = np.asarray(other_latents[change.name])[place]
    return {**latents, change.name: value}


def _effects(
    traces: Traces, latents: Arrays, rows: Arrays
) -> tuple[Bool[np.ndarray, "changes K"], dict[str, Bool[np.ndarray, "changes ..."]]]:
    """Which classes' distributions, and which entries of deterministic sites, differ from those of the first ones."""
    codes = np.arange(traces.program.num_classes)

    def distributions(outputs: TraceOutputs) -> tuple[list[Any], dict[str, Any]]:
        attributes = [log_probs for name, log_probs in outputs.log_probs.items() if name != traces.program.label]
        return [*attributes, *jax.tree.leaves(outputs.label)], outputs.deterministics

    function = traces.classes.function.only(distributions)
    arguments = rows, codes, arbitrary_covariates(traces.program, len(codes), same=True)
    batched = Traced.of(jax.vmap(lambda latents: function.traceably(latents, *arguments)), latents)
    values, deterministics = jax.tree.map(
        lambda array: ~np.isclose(array[1:], array[:1], rtol=EQUAL, atol=0.0, equal_nan=True), batched(latents)
    )
    by_class = [array for array in values if array.ndim > 1 and array.shape[-1:] == codes.shape]
    return _any_along(by_class, -1), deterministics


def _any_along(arrays: list[Bool[np.ndarray, "changes ..."]], axis: int) -> Bool[np.ndarray, "changes K"]:
    """Whether any array differs, for each change and entry along an axis."""
    flat = [np.moveaxis(array, axis, 1) for array in arrays]
    return np.any([array.reshape(*array.shape[:2], -1).any(-1) for array in flat], axis=0)


def _is_class(moved: Bool[np.ndarray, "changes K"], changes: list[Change], chosen: set[tuple[str, int]]) -> bool:
    """Whether, for every k, the chosen changes of entry k move k and nothing else."""
    entries: set[int] = set()
    for (name, axis, entry), row in zip(changes, moved, strict=True):
        if (name, axis) in chosen:
            if row.sum() > row[entry]:
                return False
            entries |= {entry} if row[entry] else set()
    return len(entries) == moved.shape[1]


@in_float64
def check_values(program: Program, introspection: Introspection, rows: Rows) -> None:
    """Refuse values outside the support of their site: fractions of counts, more successes than trials.

    Where a row has no label, a value has to be possible under some class. Missing cells are not checked.
    """
    for name, site in program.structure.attributes:
        if site.discrete and site.steps is None:
            values = rows.values[name]
            _refuse_values(name, values, values != np.floor(values), lambda cell: "whole numbers")
    for name, support in introspection.supports_of_steps.items():
        check_sequences(name, program.structure.attribute[name], support, rows.values[name], rows.observed.get(name))
    if not rows.num_rows:
        return
    labels = np.full(rows.num_rows, -1) if rows.labels is None else rows.labels
    num_classes = program.num_classes if introspection.supports_depend_on_class and (labels < 0).any() else 1
    supports = [
        introspection.supports_by_row(rows, np.where(labels < 0, index, labels)) for index in range(num_classes)
    ]
    for name in introspection.inputs_of_supports:
        _check_bounds(name, rows, [by_site[name] for by_site in supports])


@in_float64
def check_sequences(
    name: str,
    site: Site,
    support: Constraint,
    values: Shaped[np.ndarray, "n ..."],
    observed: Bool[Array, "n ..."] | None,
) -> None:
    """Refuse time steps outside the support of the site; of symbols also transitions outside it.

    Args:
        name: of the site.
        site: the site.
        support: of its sequences, of any length.
        values: the rows; missing time steps may hold any value.
        observed: mask of the observed time steps; None where all are.

    Raises:
        DataError: naming row and time step.
    """
    assert site.steps is not None
    axis, are_codes = site.step_axis, site.steps.of_symbols
    observed = None if observed is None else np.asarray(observed)
    if not are_codes and observed is not None:
        values = np.where(observed, values, np.nan)
    _refuse_step(name, values, axis, ~np.asarray(support(np.expand_dims(values, axis + 1))), str(support))
    if not are_codes or values.shape[axis] < 2:
        return
    pairs = np.stack([values[..., :-1], values[..., 1:]], -1)
    broken = ~np.asarray(support(pairs))
    if observed is not None:
        broken &= observed[..., :-1] & observed[..., 1:]
    _refuse_step(name, values, axis, broken, f"{PADDING} stands past the end of a sequence, and nothing else does")


def _refuse_step(
    name: str, values: Shaped[np.ndarray, "n ..."], axis: int, wrong: Bool[np.ndarray, "n ..."], why: str
) -> None:
    if wrong.any():
        place = tuple(int(index) for index in np.argwhere(wrong)[0])
        raise DataError(
            f"Attribute {name!r}: {int(wrong.sum())} steps are outside its support ({why}); the first is "
            f"{values[place]} in row {place[0]}, step {place[axis]}. Correct them, or the distribution in the program."
        )


def _check_bounds(name: str, rows: Rows, supports: list[Constraint]) -> None:
    """Refuse values that are in none of these supports, whose bounds have the rows first."""
    values = rows.values[name]
    if name in rows.observed:
        values = np.where(rows.observed[name], values, supports[0].feasible_like(values))
    if isinstance(supports[0], type(constraints.multinomial(1))):
        _check_totals(name, values, [support.upper_bound for support in supports])
    impossible = ~np.any([_holds(support, values) for support in supports], axis=0)

    def described(cell: tuple[int, ...]) -> str:
        bounds_of_cell = functools.partial(jax.tree.map, lambda bound: np.broadcast_to(bound, impossible.shape)[cell])
        return " or ".join(sorted({str(bounds_of_cell(support)) for support in supports}))

    _refuse_values(name, values, impossible, described)


def _holds(support: Constraint, values: Float[np.ndarray, "n ..."]) -> Bool[np.ndarray, "n ..."]:
    """Whether values are in a support; of unit vectors and the like, of numbers in float32, too."""
    is_inside = np.asarray(support(values))
    return is_inside if jax.tree.leaves(support) else is_inside | np.asarray(support(values.astype(np.float32)))


def _check_totals(name: str, values: Float[np.ndarray, "n ..."], totals: list[Array]) -> None:
    """Refuse multinomial rows whose sum is none of these totals."""
    sums = values.sum(-1)
    wrong = np.all([sums != total for total in totals], axis=0)
    if wrong.any():
        row = tuple(map(int, np.argwhere(wrong)[0]))
        stated = " or ".join(sorted({f"{np.broadcast_to(total, sums.shape)[row]:g}" for total in totals}))
        raise DataError(
            f"Attribute {name!r}: {int(wrong.sum())} rows do not sum to the program's total_count; row {row[0]} sums "
            f"to {sums[row]:g}, not {stated}. Pass the totals as a covariate."
        )


def _refuse_values(
    name: str,
    values: Float[np.ndarray, "n ..."],
    impossible: Bool[np.ndarray, "n ..."],
    support: Callable[[tuple[int, ...]], str],
) -> None:
    """Refuse impossible values; `support` describes the support of a cell."""
    if impossible.any():
        cell = tuple(map(int, np.argwhere(impossible)[0]))
        raise DataError(
            f"Attribute {name!r}: {int(impossible.sum())} values are outside its support ({support(cell)}); the "
            f"first is {values[cell]} in row {cell[0]}. Correct them, or the distribution in the program."
        )


def summarize_rows(program: Program, introspection: Introspection, rows: Rows) -> SufficientStatistics:
    """The sufficient statistics of rows: summaries of the compressed sites, and the rows if there are other sites."""
    plan = program.plan
    if introspection.supports_depend_on_class:
        check_values(program, introspection, rows)
    return sufficient_statistics(
        rows,
        dict(plan.compressed),
        program.num_classes,
        row_parameters=introspection.row_parameters(rows) if plan.row_parameters else {},
        keeps_rows=bool(plan.rowwise),
    )
