"""Hidden states of sequences by rules of prediction: at one process, or averaged over draws."""

from collections.abc import Mapping

import jax
import numpy as np
import scipy.special

from bayesgen.data import PADDING, Rows
from bayesgen.errors import ImpossibleRowsWarning, LabelSwitchingWarning, warn
from bayesgen.fitting import Fit, HiddenStates
from bayesgen.posteriors import MATCHED_ROWS, At, ProcessPosterior, chains_joined, matching_orders
from bayesgen.predictives import GridPredictive
from bayesgen.program import (
    ALL_DRAWS,
    ResponseValues,
    are_exchangeable,
    average_states,
    log_states_of_draws,
    shape_of_states,
    states_at,
)
from bayesgen.runtime import TABLE_CELLS, chunks, in_batches, padded_size
from bayesgen.typing import Bool, Float, Int

from .answers import ClassPrediction, ContinuousPrediction
from .responses import GRID_ROWS, ResponseProcesses, support_of

SIMULATED_STEPS = 100  # of a simulated sequence, where the program has no largest length


def states_of_process(
    fit: Fit,
    rows: Rows,
    site: str,
    lengths: Int[np.ndarray, " n"],
    at: At,
    answer: ClassPrediction | ContinuousPrediction,
) -> HiddenStates:
    """Probabilities of states, and most probable paths, at one process.

    Args:
        fit: the fit.
        rows: the sequences, read.
        site: the site with hidden states.
        lengths: number of time steps of each sequence.
        at: the process.
        answer: the rule's prediction of the rows.
    """
    assert isinstance(fit.posterior, ProcessPosterior)
    if fit.posterior.is_sampled:
        _warn_of_reordered(fit, rows, site)
    parameters = fit.posterior.mode if at == "mode" else fit.posterior.mean
    latents = fit.program.latents_of(parameters)
    parts = []
    for chunk in chunks(rows.num_rows, _rows_at_once(fit, rows.num_rows)) or [slice(0, 0)]:
        part, response = rows.take(chunk), None
        if _hides_response(fit) and part.num_rows:
            process = ResponseProcesses(fit, at)
            response = _response_values(process.quadrature(part, support_of(fit, part))[1], process.response.site)
        parts.append(states_at(fit.program.for_prediction, latents, part, site, lengths[chunk], response))
    probabilities, paths = map(np.concatenate, zip(*parts, strict=True))
    return _hidden_states(fit, lengths, site, answer, probabilities, paths)


def states_of_draws(
    fit: Fit,
    rows: Rows,
    site: str,
    lengths: Int[np.ndarray, " n"],
    weighted: bool,
    answer: ClassPrediction | ContinuousPrediction,
) -> HiddenStates:
    """Probabilities of states averaged over the draws of a fit, their states in one order.

    Args:
        fit, rows, site, lengths: as above.
        weighted: whether draws have weights p(x, y = k | Q), or equal ones.
        answer: the rule's prediction of the rows.
    """
    batches, pivot = _batches_of(fit)
    orders = _orders(fit, chains_joined(batches), pivot, rows, site)
    per_row = len(orders) * max(1, len(fit.classes))
    parts = []
    for chunk in chunks(rows.num_rows, _rows_at_once(fit, max(1, TABLE_CELLS // per_row))) or [slice(0, 0)]:
        part = rows.take(chunk)
        weights, response = _weights(fit, part, len(orders), weighted)
        parts.append(average_states(fit.program.for_prediction, batches, part, site, weights, orders, response))
    probabilities, error = map(np.concatenate, zip(*parts, strict=True))
    return _hidden_states(fit, lengths, site, answer, probabilities, None, error, _share_reordered(orders))


def _batches_of(fit: Fit) -> tuple[dict[str, np.ndarray], int]:
    """The draws of a fit in batches, and the draw of highest density."""
    assert fit.posterior.sample_stats is not None
    energies = in_batches({"energy": np.asarray(fit.posterior.sample_stats["potential_energy"])})["energy"]
    return in_batches(fit.posterior.draws(1, jax.random.key(0))), int(energies.argmin())


def _hides_response(fit: Fit) -> bool:
    """Whether attributes of new rows depend on a response that is not known."""
    return fit.concrete.response is not None and fit.concrete.response.is_parent


def _rows_at_once(fit: Fit, most: int) -> int:
    return min(most, GRID_ROWS) if _hides_response(fit) else most


def _response_values(grid: GridPredictive, site: str) -> ResponseValues:
    """Values and weights by which an unknown response is integrated out: the nodes of a quadrature, as many a row."""
    rows, values, log_weights = map(np.concatenate, zip(*grid.nodes(GRID_ROWS), strict=True))
    first = np.searchsorted(rows, np.arange(grid.num_rows))
    counts = np.diff(first, append=len(rows))[:, None]
    positions = np.arange(padded_size(int(counts.max(initial=1))))
    nodes = first[:, None] + np.minimum(positions, counts - 1)
    return ResponseValues(site, values[nodes], np.where(positions < counts, log_weights[nodes], -np.inf))


def _weights(
    fit: Fit, rows: Rows, num_draws: int, weighted: bool
) -> tuple[Float[np.ndarray, "n draws K"], ResponseValues | None]:
    """Weights of draws, which sum to 1: equal ones, or by p(x, y = k | Q), NaN where every draw makes it impossible.

    Also the values by which a response is integrated out, where attributes depend on it.
    """
    response, table = None, None
    if _hides_response(fit) and rows.num_rows:
        draws = ResponseProcesses.drawn(fit, weighted)
        _, grid = draws.quadrature(rows, support_of(fit, rows))
        response, table = _response_values(grid, draws.response.site), draws.moments(rows, grid)[0].T[..., None]
    if not weighted:
        return np.full((rows.num_rows, num_draws, max(1, len(fit.classes))), 1 / num_draws), response
    if table is None:
        table = fit.reduce_draws(rows, ALL_DRAWS)[0]["log_joint"]
    with np.errstate(invalid="ignore"):
        return np.asarray(scipy.special.softmax(table, axis=1)), response


def _orders(
    fit: Fit, latents: Mapping[str, np.ndarray], pivot: int, rows: Rows, site: str
) -> Int[np.ndarray, "draws K S"]:
    """The order of the states of each draw in which draws match: its state that becomes the s-th.

    Where states are exchangeable, draws may swap them; elsewhere each draw keeps its order. They are matched on
    sequences simulated by the draw of highest density, which have all states in proportion and depend on the given
    sequences only by covariates of a program of one's own, so that states have the same names in every answer.
    """
    process = {name: value[pivot] for name, value in latents.items()}
    num_classes, _, num_states = shape_of_states(fit.program.for_prediction, process, rows, site)
    unmoved = np.broadcast_to(np.arange(num_states), (len(next(iter(latents.values()))), num_classes, num_states))
    if num_states == 1 or not rows.num_rows:
        return unmoved.copy()
    class_axes = fit.program.class_axes if num_classes == num_states else {}
    simulated, labels = _simulated(fit, process, rows, site, num_classes)
    if not are_exchangeable(fit.program.for_prediction, process, class_axes, simulated, site):
        return unmoved.copy()
    values = simulated.values.get(site, np.zeros((simulated.num_rows, 1)))  # local latents have no end
    time_steps = _time_steps_by_class(np.asarray(values) != PADDING, labels, num_classes)
    logs = log_states_of_draws(fit.program.for_prediction, latents, simulated, site, time_steps)
    logs = np.where(np.isneginf(logs).all(-1, keepdims=True), 0.0, logs)  # impossible: without information
    return np.stack([matching_orders(logs[:, k], np.ones(logs.shape[2]), pivot) for k in range(num_classes)], axis=1)


def _simulated(
    fit: Fit, process: Mapping[str, np.ndarray], rows: Rows, site: str, num_classes: int
) -> tuple[Rows, Int[np.ndarray, " m"]]:
    """Sequences simulated by a process, and their classes. Covariates of a program of one's own are those of rows."""
    steps = None if site in fit.program.local else fit.program.structure.attribute[site].steps
    num_steps = SIMULATED_STEPS if steps is None or steps.most is None else max(steps.most, 1)
    num_steps = 1 if site in fit.program.local else num_steps
    num_rows = num_classes * max(2, -(-MATCHED_ROWS // num_steps))
    covariates = {name: np.full(num_rows, num_steps) for name in fit.program.covariates}  # lengths of columns
    covariates |= {name: np.resize(value, (num_rows, *value.shape[1:])) for name, value in rows.covariates.items()}
    simulated, response = fit.program.simulate(num_rows, latents=process, **covariates), fit.concrete.response
    read, label = fit.read(simulated), fit.program.label
    if response is not None:
        read = response.put(read, simulated[response.site])
    if label is None:
        return read, np.zeros(num_rows, int)
    return read, np.argmax(fit.classes == np.asarray(simulated[label])[:, None], axis=1)


def _time_steps_by_class(
    inside: Bool[np.ndarray, "m T ..."], labels: Int[np.ndarray, " m"], num_classes: int
) -> tuple[Int[np.ndarray, "K m"], Int[np.ndarray, "K m"]]:
    """Rows and time steps within sequences of each class, evenly spaced; of all rows where a class has none."""
    inside = np.asarray(inside.all(tuple(range(2, inside.ndim))))
    chosen = []
    for k in range(num_classes):
        is_candidate = inside & (labels == k)[:, None]
        candidates = np.argwhere(is_candidate if is_candidate.any() else inside)
        chosen.append(candidates[np.linspace(0, len(candidates) - 1, MATCHED_ROWS).round().astype(int)])
    row, step = np.moveaxis(np.stack(chosen), -1, 0)
    return row, step


def _share_reordered(orders: Int[np.ndarray, "draws K S"]) -> float:
    """The share of draws whose states were reordered."""
    return float((orders != np.arange(orders.shape[-1])).any((1, 2)).mean())


def _warn_of_reordered(fit: Fit, rows: Rows, site: str) -> None:
    """Warn where the mean of draws mixes states in several orders."""
    batches, pivot = _batches_of(fit)
    moved = _share_reordered(_orders(fit, chains_joined(batches), pivot, rows, site))
    if moved:
        warn(
            f"The states of {site!r} have another order in {moved:.1%} of the draws, so that the mean of the draws, "
            "which PlugIn() takes, mixes different states. BMA() puts them in one order.",
            LabelSwitchingWarning,
        )


def _hidden_states(
    fit: Fit,
    lengths: Int[np.ndarray, " n"],
    site: str,
    answer: ClassPrediction | ContinuousPrediction,
    probabilities: Float[np.ndarray, "n K T S"],
    paths: Int[np.ndarray, "n K T"] | None,
    error: Float[np.ndarray, "n K T S"] | None = None,
    moved: float | None = None,
) -> HiddenStates:
    """The hidden states up to the ends of sequences, without the axis of classes where there are none."""
    log_marginal = np.zeros(len(lengths)) if answer.log_marginal is None else answer.log_marginal
    impossible = int(np.isneginf(log_marginal).sum())
    if impossible:
        warn(
            f"{impossible} of {len(lengths)} sequences are impossible, so their states are NaN. Fit with MAP() under "
            "a prior under which nothing is impossible, or with NUTS() and average.",
            ImpossibleRowsWarning,
        )
    has_classes = len(fit.classes) > 0

    def shown(array: np.ndarray | None) -> np.ndarray | None:
        return array if array is None or has_classes else array[:, 0]

    states = HiddenStates(
        site,
        np.asarray(shown(probabilities)),
        shown(paths),
        lengths,
        log_marginal,
        fit.classes,
        shown(error),
        answer.pareto_k,
        moved,
    )
    return states.until(lengths)
