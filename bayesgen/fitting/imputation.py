"""Missing cells of rows, filled in: by their means given the cells that are there, or by draws."""

import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.special

from bayesgen.data import SEQUENCE, Rows, Schema, Table, collected, filled, read_table
from bayesgen.errors import ModelError, PredictionError
from bayesgen.models import Conjugate, Densities
from bayesgen.posteriors import chunk_table
from bayesgen.runtime import as_key, chunks, generator
from bayesgen.typing import Float, Seed, Shaped

from .reading import TrainedOnRows

CHUNK_NUMBERS = 1 << 22  # of a table of processes, rows and classes, or of processes, rows and cells

Filled = dict[str, Shaped[np.ndarray, "draws n D"]]  # block -> its cells


def imputed(fit: TrainedOnRows, X: Any, num_draws: int, seed: Seed) -> Any:
    """See `Fit.impute`."""
    conjugate = fit.concrete.conjugate(fit.schema)
    if conjugate is None:
        raise ModelError(
            "A program of one's own does not tell how its cells follow from each other, so it fills none in. State the "
            "model by blocks, GenerativeClassifier(...); predictions leave missing cells out as they are."
        )
    response = fit.concrete.response
    if response is not None and (response.column is None or response.is_needed):
        raise ModelError(
            f"{type(fit.model).__name__} does not tell of the cells of X on their own: it has them given, or makes "
            "them from y. JointGaussianRegression() fills cells in."
        )
    if not isinstance(num_draws, numbers.Integral) or isinstance(num_draws, bool) or num_draws < 0:
        raise PredictionError(f"num_draws must be a whole number of at least 0, got {num_draws!r}.")
    table = read_table(X)
    fit.warn_of_new_values(table)
    rows = fit.concrete.read(fit.schema, table)
    fit.concrete.check_rows(fit.schema, rows.values)
    _refuse_sequences(conjugate, rows)
    processes = fit.posterior.densities(conjugate)
    rng = generator(as_key(seed))
    row_size = len(processes) * max(len(fit.classes), 1) + max(num_draws, 1) * sum(
        np.shape(values)[1] for values in rows.values.values()
    )
    parts = []
    for places in chunks(rows.num_rows, max(1, CHUNK_NUMBERS // row_size)):
        part = rows.take(places)
        responsibilities = _responsibilities(processes, part, places.start)
        drawn = _draws(processes, part, responsibilities, num_draws, rng) if num_draws else None
        parts.append(_means(processes, part, responsibilities) if drawn is None else drawn)
    found = {name: np.concatenate([part[name] for part in parts], axis=1) for name in rows.observed}
    copies = [
        filled(table, _cells(fit.schema, table, conjugate, rows, found, draw)) for draw in range(max(num_draws, 1))
    ]
    return collected(copies) if num_draws else copies[0]


def _refuse_sequences(conjugate: Conjugate, rows: Rows) -> None:
    """Refuse sequences that lack steps, or are missing altogether: their cells are not filled in."""
    for block in conjugate.blocks:
        if block.family.kind == SEQUENCE and block.name in rows.observed:
            raise ModelError(
                f"Block {block.name!r} is of sequences, of which some are missing or lack steps, and impute does not "
                "fill in cells of sequences. Leave these rows out, or impute by a model without this block; fit and "
                "predict sum what is missing out as it is."
            )


def _responsibilities(processes: Sequence[Densities], rows: Rows, start: int) -> Float[np.ndarray, "S n K"]:
    """Probability of each process and class, given the cells of each row that are there."""
    tables = np.stack([chunk_table(densities, rows, slice(0, rows.num_rows)) for densities in processes])
    total = scipy.special.logsumexp(tables, axis=(0, 2))
    if np.isneginf(total).any():
        row = start + int(np.argmax(np.isneginf(total)))
        raise PredictionError(
            f"Row {row} is impossible under every class, so nothing follows from it for its missing cells. Fit with "
            "MAP() under a prior that leaves every value some probability, or with one that averages over processes."
        )
    return np.exp(tables - total[:, None])


def _means(processes: Sequence[Densities], rows: Rows, responsibilities: Float[np.ndarray, "S n K"]) -> Filled:
    """The mean of each missing cell; of categorical and binary ones the most probable value (of equals the first)."""
    means: dict[str, Any] = dict.fromkeys(rows.observed, 0.0)
    for (_, blocks), of_process in zip(processes, responsibilities, strict=True):
        for name, density in blocks:
            if name in means:
                expected = density.expected(_double(rows.values[name]), np.asarray(rows.observed[name]))
                weights = of_process.reshape(*of_process.shape, *[1] * (expected.ndim - 2))
                means[name] = means[name] + (weights * expected).sum(1)
    modes = {name: mean.argmax(-1) if mean.ndim > 2 else mean for name, mean in means.items()}
    return {name: mode[None] for name, mode in modes.items()}


def _draws(
    processes: Sequence[Densities],
    rows: Rows,
    responsibilities: Float[np.ndarray, "S n K"],
    num_draws: int,
    rng: np.random.Generator,
) -> Filled:
    """Draws of the missing cells: of a process and a class given the cells that are there, and of cells given these."""
    num_processes, num_rows, num_classes = responsibilities.shape
    bounds = responsibilities.transpose(1, 0, 2).reshape(num_rows, -1).cumsum(1)
    uniform = rng.random((num_draws, num_rows)) * bounds[:, -1]
    chosen = np.stack(
        [np.searchsorted(of_row, draws, "right") for of_row, draws in zip(bounds, uniform.T, strict=True)]
    )
    process_of, class_of = np.divmod(np.minimum(chosen.T, num_processes * num_classes - 1), num_classes)
    found: Filled = {name: np.zeros((num_draws, *np.shape(rows.values[name]))) for name in rows.observed}
    for index, (_, blocks) in enumerate(processes):
        draw, row = np.nonzero(process_of == index)
        for name, density in blocks:
            if name in found and len(row):
                values, observed = (np.asarray(part[name])[row] for part in (rows.values, rows.observed))
                found[name][draw, row] = density.sample(_double(values), observed, class_of[draw, row], rng)
    return found


def _double(values: Any) -> Float[np.ndarray, "n D"]:
    return np.asarray(values, np.float64)


def _cells(
    schema: Schema, table: Table, conjugate: Conjugate, rows: Rows, found: Filled, draw: int
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Column of the table -> the rows in which it is missing, and what stands there now, as the user writes it."""
    cells = {}
    for block in conjugate.blocks:
        if block.name not in rows.observed:
            continue
        response = None if schema.response is None else schema.response.name  # which is no column of X, and the last
        columns = [column for column in block.columns if column != response]
        names = schema.names_in(table, columns)
        for index, (column, name) in enumerate(zip(columns, names, strict=True)):
            places = np.flatnonzero(~np.asarray(rows.observed[block.name][:, index]))
            if len(places):
                cells[name] = (places, schema.decode(column, found[block.name][draw, places, index]))
    return cells
