"""Smoothed hidden states of sequences, at one process or averaged over many. Chunked over rows and draws."""

import dataclasses
import functools
import itertools
import math
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np

from bayesgen.data import Rows
from bayesgen.records import record, static
from bayesgen.runtime import EQUAL_DENSITIES, FAST_CELLS, LEAST_ROWS, OwnedJit, in_float64, over_chunks, placed
from bayesgen.statistics import StatesLikelihood
from bayesgen.typing import Array, Bool, Float, Int

from .evaluation import Evaluation, evaluate_classes
from .joint import log_joint_of, program_latents
from .marginal import joint_table
from .reductions import ratio_of_batches
from .structure import Arrays, Program


@record
class ResponseValues:
    """Values of the unknown response of rows, and their weights in sums that integrate it out.

    Attributes:
        site: of the response.
        values: of each row.
        log_weights: of these values; -inf where a row has fewer.
    """

    site: str = static()
    values: Float[Array, "n m"]
    log_weights: Float[Array, "n m"]

    def put(self, rows: Rows, values: Float[Array, " n"]) -> Rows:
        """The rows with one value each. Traceable."""
        observed = {name: mask for name, mask in rows.observed.items() if name != self.site}
        return dataclasses.replace(rows, values=rows.values | {self.site: values}, observed=observed)


def sites_with_states(program: Program) -> tuple[str, ...]:
    """The attribute sites of hidden Markov models."""
    return tuple(name for name, likelihood in program.plan.compressed if isinstance(likelihood, StatesLikelihood))


@in_float64
def shape_of_states(program: Program, latents: Arrays, rows: Rows, site: str) -> tuple[int, int, int]:
    """(K, T, S): classes, time steps and states of a site."""
    first = rows.take(slice(0, 1))
    return _smoothing.shapes(program, program_latents(program, latents), first, site=site).shape[1:]


def states_at(
    program: Program,
    latents: Arrays,
    rows: Rows,
    site: str,
    lengths: Int[np.ndarray, " n"],
    response: ResponseValues | None = None,
) -> tuple[Float[np.ndarray, "n K T S"], Int[np.ndarray, "n K T"]]:
    """Smoothed probabilities of the states at each time step, and most probable paths, under each class.

    Args:
        program: the program.
        latents: site -> its value.
        rows: the data.
        site: the site with hidden states.
        lengths: number of time steps of each sequence, missing ones included.
        response: its values, by which it is integrated out; None where nothing depends on it, or it is known.
    """
    latents = program_latents(program, latents)
    row_cells = _row_cells(program, latents, rows, site)
    with jax.enable_x64(True), placed(float(rows.num_rows * row_cells)):
        return over_chunks(
            lambda part: _states(program, latents, *part, site=site),
            (rows, lengths, response),
            rows.num_rows,
            max(1, FAST_CELLS // row_cells),
            least=LEAST_ROWS,
        )


def average_states(
    program: Program,
    batches: Arrays,
    rows: Rows,
    site: str,
    weights: Float[np.ndarray, "n draws K"],
    orders: Int[np.ndarray, "draws K S"],
    response: ResponseValues | None = None,
) -> tuple[Float[np.ndarray, "n K T S"], Float[np.ndarray, "n K T S"]]:
    """Smoothed probabilities of the states, averaged over draws with weights for each row and class, and their errors.

    Args:
        program: of the draws.
        batches: site -> (batches, draws, ...), as `bayesgen.runtime.in_batches` gives them.
        rows: the data.
        site: the site with hidden states.
        weights: of the draws, batch by batch; they sum to 1.
        orders: orders[s, k, j], the state of draw s that is the j-th of class k.
        response: as above.
    """
    batches = program_latents(program, batches)
    first = {name: value[0, 0] for name, value in batches.items()}
    num_batches, num_draws = next(iter(batches.values())).shape[:2]
    batch_orders = orders.reshape(num_batches, num_draws, *orders.shape[1:])
    row_cells = num_draws * _row_cells(program, first, rows, site)
    with jax.enable_x64(True), placed(float(rows.num_rows * row_cells)):
        return over_chunks(
            lambda part: _averaged(program, batches, batch_orders, *part, site=site),
            (rows, weights, response),
            rows.num_rows,
            max(1, FAST_CELLS // row_cells),
            least=LEAST_ROWS,
        )


def log_states_of_draws(
    program: Program,
    latents: Arrays,
    rows: Rows,
    site: str,
    positions: tuple[Int[np.ndarray, "K m"], Int[np.ndarray, "K m"]],
) -> Float[np.ndarray, "draws K m S"]:
    """Log probabilities of the states at some time steps, under each class and draw. See `average_states`.

    Args:
        program, latents, rows, site: as above.
        positions: rows and time steps of each class.
    """
    latents = program_latents(program, latents)
    first = {name: value[0] for name, value in latents.items()}
    num_draws = len(next(iter(latents.values())))
    draw_cells = rows.num_rows * _row_cells(program, first, rows, site)
    at_once = min(num_draws, max(1, FAST_CELLS // draw_cells))
    with jax.enable_x64(True), placed(float(at_once * draw_cells)):
        return np.asarray(_log_states(program, latents, rows, *positions, site=site, at_once=at_once))


def _smoothed(
    program: Program, latents: Arrays, rows: Rows, site: str, response: ResponseValues | None = None
) -> Float[Array, "n K T S"]:
    if site in program.local:
        shares = jax.nn.softmax(_local_table(program, latents, rows, response), axis=2)
        return jnp.einsum("nkj,jts->nkts", shares, jax.nn.one_hot(*_joint_states(program, site), dtype=shares.dtype))
    likelihood, parameters = _chain(evaluate_classes(program, latents, rows.covariates), site)
    return likelihood.smoothed(parameters, rows.values[site], rows.observed.get(site))


def _chain(evaluation: Evaluation, site: str) -> tuple[StatesLikelihood, Arrays]:
    """The likelihood of a site of hidden Markov models, and its parameters."""
    conditional = evaluation.compressed(site)
    assert isinstance(conditional.likelihood, StatesLikelihood)
    return conditional.likelihood, conditional.parameters


def _joint_states(program: Program, site: str) -> tuple[Int[np.ndarray, "J T"], int]:
    """The cells of a local latent in each joint value of all of them, from 0, and the number of its values."""
    values = dict(program.structure.local)[site].values
    assert values is not None
    cells = program.structure.joint_values()[site].reshape(program.structure.num_joint_values, -1)
    return cells - values.start, len(values)


def _local_table(
    program: Program, latents: Arrays, rows: Rows, response: ResponseValues | None
) -> Float[Array, "n K J"]:
    """Log probability of the joint values of local latents and of what depends on them, under each class.

    An unknown response is integrated out, with all that depends on it.
    """
    if response is None:
        return joint_table(program, latents, rows, program.plan.rowwise)

    def add(total: jax.Array, node: tuple[Array, Array]) -> tuple[jax.Array, None]:
        values, log_weights = node
        table = joint_table(program, latents, response.put(rows, values), program.row_sites)
        return jnp.logaddexp(total, table + log_weights[:, None, None]), None

    start = jnp.full((rows.num_rows, program.num_classes, program.structure.num_joint_values), -jnp.inf)
    return jax.lax.scan(add, start, (response.values.T, response.log_weights.T))[0]


_smoothing = OwnedJit(_smoothed, static_argnames="site")


@functools.partial(OwnedJit, static_argnames="site")
def _states(
    program: Program,
    latents: Arrays,
    rows: Rows,
    lengths: Int[Array, " n"],
    response: ResponseValues | None,
    *,
    site: str,
) -> tuple[Float[Array, "n K T S"], Int[Array, "n K T"]]:
    if site in program.local:
        best = _local_table(program, latents, rows, response).argmax(2)
        return _smoothed(program, latents, rows, site, response), jnp.asarray(_joint_states(program, site)[0])[best]
    likelihood, parameters = _chain(evaluate_classes(program, latents, rows.covariates), site)
    values, observed = rows.values[site], rows.observed.get(site)
    smoothed = likelihood.smoothed(parameters, values, observed)
    return smoothed, likelihood.most_probable_paths(parameters, values, observed, lengths)


@functools.partial(OwnedJit, static_argnames="site")
def _averaged(
    program: Program,
    batches: Arrays,
    orders: Int[Array, "batches b K S"],
    rows: Rows,
    weights: Float[Array, "n draws K"],
    response: ResponseValues | None,
    *,
    site: str,
) -> tuple[Float[Array, "n K T S"], Float[Array, "n K T S"]]:
    """See `average_states`: one batch of draws at a time."""
    num_batches, size = orders.shape[:2]
    weights = jnp.moveaxis(jnp.asarray(weights), 0, 1).reshape(num_batches, size, rows.num_rows, -1)

    def batch_sums(batch: tuple[Arrays, Array, Array]) -> tuple[Array, Array]:
        draws, batch_orders, shares = batch
        return _weighed(program, draws, batch_orders, shares, rows, site, response), shares.sum(0)[..., None, None]

    return ratio_of_batches(*jax.lax.map(batch_sums, (batches, orders, weights)))


def _weighed(
    program: Program,
    draws: Arrays,
    orders: Int[Array, "b K S"],
    weights: Float[Array, "b n K"],
    rows: Rows,
    site: str,
    response: ResponseValues | None,
) -> Float[Array, "n K T S"]:
    """The weighted sum over draws; NaN where a draw with positive weight makes a row impossible."""
    states = jax.vmap(lambda latents: _smoothed(program, latents, rows, site, response))(draws)
    in_order = jnp.take_along_axis(states, orders[:, None, :, None, :], axis=-1)
    in_order = jnp.where((states > 0).any(-1, keepdims=True), in_order, jnp.nan)
    shares = weights[..., None, None]
    return jnp.where(shares == 0, 0.0, shares * in_order).sum(0)


@functools.partial(OwnedJit, static_argnames=("site", "at_once"))
def _log_states(
    program: Program,
    latents: Arrays,
    rows: Rows,
    row: Int[Array, "K m"],
    step: Int[Array, "K m"],
    *,
    site: str,
    at_once: int,
) -> Float[Array, "draws K m S"]:
    classes = jnp.arange(len(row))[:, None]
    return jax.lax.map(
        lambda draw: jnp.log(_smoothed(program, draw, rows, site)[row, classes, step]), latents, batch_size=at_once
    )


def _row_cells(program: Program, latents: Arrays, rows: Rows, site: str) -> int:
    """Classes x time steps x states of a row: numbers that are computed, and about as many multiplications."""
    return max(1, math.prod(shape_of_states(program, latents, rows, site)))


# Whether hidden states are exchangeable, so that draws may swap them.

Axis = tuple[str, int]


@in_float64
def are_exchangeable(program: Program, latents: Arrays, class_axes: Mapping[str, int], rows: Rows, site: str) -> bool:
    """Whether prior and likelihood are invariant under permutations of the states of a site.

    A program does not declare which axes of its latents belong to the states: every subset of the axes of length S is
    tried, for the two permutations that generate all others (swap the first two, shift by one). With more than
    12 such axes nothing is tried, and states count as distinct.

    Args:
        program: with hidden states at `site`.
        latents: a process.
        class_axes: latent -> its class axis, which is no axis of states.
        rows: data whose density has to be invariant.
        site: the site with hidden states.
    """
    site_latents, some = program_latents(program, latents), rows.take(slice(0, 8))
    num_states = shape_of_states(program, latents, rows, site)[-1]
    axes = tuple(
        (name, axis)
        for name, value in site_latents.items()
        for axis, size in enumerate(np.shape(value))
        if size == num_states and class_axes.get(name) != axis
    )
    if len(axes) > 12:
        return False
    choices = np.array(list(itertools.product((False, True), repeat=len(axes))), bool)
    swapped, moved = np.arange(num_states), np.roll(np.arange(num_states), 1)
    swapped[:2] = [1, 0]
    is_same = [
        _is_same(program, site_latents, some, choices, order, axes=axes, site=site) for order in (swapped, moved)
    ]
    return bool(np.all(is_same, axis=0).any())


@functools.partial(OwnedJit, static_argnames=("axes", "site"))
def _is_same(
    program: Program,
    latents: Arrays,
    rows: Rows,
    choices: Bool[Array, "choices axes"],
    order: Int[Array, " S"],
    *,
    axes: tuple[Axis, ...],
    site: str,
) -> Bool[Array, " choices"]:
    """Which choices of axes, their entries put in an order, give the same process with its states in that order."""

    def invariants(latents: Arrays, order: Int[Array, " S"]) -> list[Array]:
        evaluation = evaluate_classes(program, latents, rows.covariates)
        invariant = [evaluation.log_prior, log_joint_of(program, evaluation, rows)]
        if site in program.local:
            return [*invariant, _smoothed(program, latents, rows, site)[..., order]]
        likelihood, parameters = _chain(evaluation, site)
        return [*invariant, *jax.tree.leaves(likelihood.in_order(parameters, order))]

    expected = invariants(latents, order)

    def is_same(choice: Bool[Array, " axes"]) -> Bool[Array, ""]:
        other = dict(latents)
        for (name, axis), is_chosen in zip(axes, choice, strict=True):
            other[name] = jnp.where(is_chosen, jnp.take(other[name], order, axis), other[name])
        log_densities = invariants(other, jnp.arange(len(order)))
        agree = [
            jnp.allclose(value, expected_value, EQUAL_DENSITIES, EQUAL_DENSITIES)
            for value, expected_value in zip(log_densities, expected, strict=True)
        ]
        return jnp.stack(agree).all()

    return jax.lax.map(is_same, choices)
