"""Values of rows checked against the supports of their sites, and the statistics of rows."""

import functools
from collections.abc import Callable

import jax
import numpy as np
from numpyro.distributions import constraints
from numpyro.distributions.constraints import Constraint

from bayesgen.data import PADDING, Rows
from bayesgen.errors import DataError
from bayesgen.program import Program, Site
from bayesgen.runtime import in_float64
from bayesgen.statistics import SufficientStatistics, sufficient_statistics
from bayesgen.typing import Array, Bool, Float, Shaped

from .introspection import Introspection


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
