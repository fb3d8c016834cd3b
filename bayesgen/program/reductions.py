"""Tables of log-joints log p(x_i, y = k | Q) of rows under many processes Q, and reductions of them."""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bayesgen.data import Rows
from bayesgen.records import record
from bayesgen.runtime import (
    LEAST_ROWS,
    OwnedJit,
    SizedJit,
    mostly_in_threads,
    over_chunks,
    pad,
    placed,
    simplified,
    table_chunks,
)
from bayesgen.statistics import Reference, few, first_rows, median_of_draws
from bayesgen.typing import Array, Float, Shaped

from .evaluation import evaluate_classes
from .joint import (
    BUDGET_BYTES,
    TABLE_CHUNK_ROWS,
    class_terms,
    num_multiplications,
    program_latents,
    rows_that_fit,
    rowwise_sites,
    scores_of,
)
from .marginal import class_table
from .structure import Arrays, Program

CACHE_BYTES = 2e6  # for a table of (draws in a batch, rows, classes) on a CPU: `averaging` in benchmarks


@record
class ReferenceProcess:
    """The reference point of many processes whose densities are linear in features of rows.

    Attributes:
        sites: site -> its `Reference`.
        constant: log class probabilities, and other terms that do not depend on rows.
    """

    sites: dict[str, Reference]
    constant: Float[Array, " K"]


@record
class PreparedProcesses:
    """Many processes of a program, prepared for rows.

    Attributes:
        natural_parameters: about the reference, the coefficients of the features of a row; that of the last feature, 1,
            is the constant.
        parameters: site -> name -> (draws, K, ...), for the sites without a linear form.
        latents: site -> (draws, ...), if some sites are evaluated row by row.
    """

    natural_parameters: Float[Array, "K draws F"]
    parameters: dict[str, dict[str, Array]]
    latents: Arrays


def reference_of(
    program: Program, latents: Arrays, covariates: Arrays, masked: tuple[str, ...] = ()
) -> ReferenceProcess:
    """The reference point of many processes; latents have one leading axis. Traceable.

    Sites in `masked` (with missing cells) have no linear form.
    """
    constant, parameters = _class_terms_by_draw(program, jax.tree.map(few, latents), covariates)
    statistics = dict(program.plan.compressed)
    references = {
        name: reference
        for name, draws in parameters.items()
        if name not in masked and (reference := statistics[name].reference(draws)) is not None
    }
    for name, reference in references.items():
        constant = constant + reference.natural_parameters(parameters[name])[1]
    return ReferenceProcess(references, finite_reference(median_of_draws(constant)))


def processes(
    program: Program, reference: ReferenceProcess, latents: Arrays, covariates: Arrays, precision: str
) -> PreparedProcesses:
    """The `PreparedProcesses` of latents with one leading axis; natural parameters in this precision. Traceable."""
    constant, parameters = _class_terms_by_draw(program, latents, covariates)
    parts = []
    for name, site_reference in reference.sites.items():
        natural_parameters, offset = site_reference.natural_parameters(parameters[name])
        parts.append(natural_parameters)
        constant = constant + offset
    parts.append((constant - reference.constant)[..., None])
    return PreparedProcesses(
        natural_parameters=jnp.swapaxes(jnp.concatenate(parts, -1), 0, 1).astype(precision),
        parameters={name: draws for name, draws in parameters.items() if name not in reference.sites},
        latents=latents if rowwise_sites(program, parameters) else {},
    )


def _class_terms_by_draw(
    program: Program, latents: Arrays, covariates: Arrays
) -> tuple[Float[Array, "draws K"], dict[str, dict[str, Float[Array, "draws K ..."]]]]:
    """`class_terms` at each draw, with the draws first."""
    return jax.vmap(lambda draw: _class_terms_at(program, draw, covariates))(latents)


@OwnedJit  # so that it is traced once for the reference and all batches
@simplified
def _class_terms_at(
    program: Program, latents: Arrays, covariates: Arrays
) -> tuple[Float[Array, " K"], dict[str, dict[str, Float[Array, "K ..."]]]]:
    return class_terms(program, evaluate_classes(program, latents, covariates))


@record
class Features:
    """Rows, prepared for many processes.

    Attributes:
        log_joint: under the reference, of the sites with a linear form.
        features: multiplied by `PreparedProcesses.natural_parameters`; the last one is 1.
    """

    log_joint: Float[Array, "K n"]
    features: Float[Array, "K F n"]


def features_of(reference: ReferenceProcess, rows: Rows, precision: str) -> Features:
    """The `Features` of rows, in this precision; log-joints are always in double. Traceable."""
    shape = (len(reference.constant), rows.num_rows)
    site_features = [site_reference.features(rows.values[name]) for name, site_reference in reference.sites.items()]
    log_joint = sum((logs for logs, _ in site_features), start=jnp.broadcast_to(reference.constant[:, None], shape))
    features = jnp.concatenate([*(features for _, features in site_features), jnp.ones((shape[0], 1, shape[1]))], 1)
    return Features(log_joint, features.astype(precision))


def log_joint_tables(
    program: Program, reference: ReferenceProcess, draws: PreparedProcesses, features: Features, rows: Rows
) -> tuple[Float[Array, "K n"], Float[Array, "K draws n"]]:
    """Log-joints under a reference, and the deviations from them under many processes. Traceable.

    Args:
        reference: of the processes and of the rows.
        draws: the processes.
        features: of the rows.
        rows: the rows themselves.
    """
    deviations = jnp.matmul(draws.natural_parameters, features.features, precision=jax.lax.Precision.HIGHEST)
    nonlinear = _nonlinear_table(program, reference, draws, rows)
    if nonlinear is None:
        return features.log_joint, deviations
    tables = deviations + nonlinear  # in double precision: large terms may cancel
    peak = finite_reference(tables.max(1))
    return features.log_joint + peak, (tables - peak[:, None]).astype(deviations.dtype)


def finite_reference(logs: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """The shift of a log-sum-exp: zero in place of -inf, and of the least number, which NumPyro to 0.21 gives."""
    return jnp.where(logs <= jnp.finfo(logs.dtype).min, 0.0, logs)


def _nonlinear_table(
    program: Program, reference: ReferenceProcess, draws: PreparedProcesses, rows: Rows
) -> Float[Array, "K draws n"] | None:
    """The table of the sites without a linear form; None where there are none."""
    statistics = dict(program.plan.compressed)
    parts = [
        statistics[name].log_prob_of_many(parameters, rows.values[name], rows.observed.get(name))
        for name, parameters in draws.parameters.items()
    ]
    if draws.latents:
        names = rowwise_sites(program, (*reference.sites, *draws.parameters))
        tables = jax.vmap(lambda latents: class_table(program, latents, rows, names))(draws.latents)
        parts.append(jnp.moveaxis(tables, 2, 0))
    return sum(parts[1:], start=parts[0]) if parts else None


def log_joint_draws(program: Program, latents: Arrays, rows: Rows) -> Float[np.ndarray, "draws n K"]:
    """The tables of all draws at once. Latents have one leading axis."""
    num_draws = len(next(iter(latents.values())))
    num_batches = max(1, math.ceil(num_draws / 100))
    size = math.ceil(num_draws / num_batches)
    padded = {name: pad(np.asarray(value), num_batches * size) for name, value in latents.items()}
    batches = {name: value.reshape(num_batches, size, *value.shape[1:]) for name, value in padded.items()}
    return np.moveaxis(reduce_draws(program, batches, rows, ALL_DRAWS)["log_joint"], 0, 1)[:num_draws]


@dataclasses.dataclass(frozen=True)
class Reduction:
    """A reduction over draws of the log-joints of rows, batch by batch.

    Both functions are traceable functions of a module, not closures, so that they are compiled once.

    Attributes:
        reduce_batch: log-joints under the reference (K, n), and deviations from them (K, batch, n) -> any arrays.
        combine: the same arrays, stacked along a first axis -> arrays with the rows as first axis.
        precision: of the deviations, "float32" or "float64". Log-joints under the reference are always in double
            precision, as are the deviations of rows for which single precision would lose four decimals.
    """

    reduce_batch: Callable[[Array, Array], Any]
    combine: Callable[[Any], Any]
    precision: str


def _table(reference: Float[Array, "K n"], deviations: Float[Array, "K batch n"]) -> Float[Array, "K batch n"]:
    return reference[:, None] + deviations


def _draws_of_rows(tables: Float[Array, "batches K batch n"]) -> dict[str, Float[Array, "n draws K"]]:
    batches, num_classes, size, num_rows = tables.shape
    return {"log_joint": tables.transpose(3, 0, 2, 1).reshape(num_rows, batches * size, num_classes)}


ALL_DRAWS = Reduction(_table, _draws_of_rows, "float64")


def reduce_draws(program: Program, batches: Arrays, rows: Rows, reduction: Reduction) -> Any:
    """The result of a reduction over batches of draws: arrays (n, ...).

    Args:
        program: of the draws.
        batches: site -> (batches, draws, ...), as `bayesgen.runtime.in_batches` gives them.
        rows: the data.
        reduction: the reduction.
    """
    num_batches, num_draws = next(iter(batches.values())).shape[:2]
    with jax.enable_x64(True), placed(num_multiplications(program, rows, TABLE_CHUNK_ROWS, num_draws)) as device:
        examples, latent_batches = first_rows(rows.covariates, program.num_classes), program_latents(program, batches)
        num_parameters = sum(np.size(values) for values in latent_batches.values())
        reference, ready, squares = _prepare.for_size(num_parameters)(
            program, latent_batches, examples, precision=reduction.precision, masked=tuple(rows.observed)
        )
        budget = CACHE_BYTES if device.platform == "cpu" else BUDGET_BYTES
        num_features = ready.natural_parameters.shape[-1]
        numbers_per_row = program.num_cases * max(num_draws, num_features)  # of the tables, and of the features
        num_cells = max(rows.num_rows, LEAST_ROWS) * num_batches * num_draws * program.num_cases
        reduce = _reduce.for_size(num_cells)
        chunk = rows_that_fit(rows, numbers_per_row, budget)
        reduced, sizes = over_chunks(
            lambda part: reduce(program, reference, ready, squares, part, reduction=reduction),
            rows,
            rows.num_rows,
            chunk,
            least=LEAST_ROWS,
            each=mostly_in_threads,
        )
    # up to this deviation, single precision has errors of about 1e-5, at worst 1e-4; NaN where it overflows
    far = np.flatnonzero(~(sizes <= 128.0))
    if reduction.precision == "float64" or not len(far):
        return reduced
    in_double = dataclasses.replace(reduction, precision="float64")
    far_results = reduce_draws(program, batches, rows.take(far), in_double)

    def put(array: Shaped[np.ndarray, "n ..."], values: Shaped[np.ndarray, "far ..."]) -> np.ndarray:
        array[far] = values
        return array

    return jax.tree.map(put, reduced, far_results)


def ratio_of_batches(
    parts: Float[Array, "batches ..."], totals: Float[Array, "batches ..."]
) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    """Ratio of two means over draws, and its Monte Carlo standard error (NaN for a single batch).

    The variance of the means of batches of successive draws estimates the error, autocorrelation within batches
    included: the method of batch means (Flegal and Jones 2010), here of the delta method's linear terms.

    Args:
        parts: batch means, or sums, of the numerator.
        totals: those of the denominator; ones for a plain mean.
    """
    ratio, size = parts.mean(0) / totals.mean(0), len(parts)
    terms = (parts - ratio * totals) / totals.mean(0)
    return ratio, terms.std(0, ddof=1) / size**0.5 if size > 1 else np.nan * ratio


@functools.partial(SizedJit, few=5e5, some=math.inf, static_argnames=("precision", "masked"))
def _prepare(
    program: Program,
    batches: Arrays,
    covariates: Arrays,
    *,
    precision: str,
    masked: tuple[str, ...],
) -> tuple[ReferenceProcess, PreparedProcesses, Float[Array, "K F"]]:
    """The reference, the processes batch by batch, and the largest squares of their natural parameters."""
    draws = jax.tree.map(lambda array: array.reshape(-1, *array.shape[2:]), batches)
    reference = reference_of(program, draws, covariates, masked)
    ready = jax.lax.map(lambda batch: processes(program, reference, batch, covariates, precision), batches)
    return reference, ready, jnp.square(jnp.abs(ready.natural_parameters).max((0, 2)).astype(float))


@functools.partial(SizedJit, few=1e6, some=1.6e7, static_argnames="reduction")  # `averaging` in benchmarks
def _reduce(
    program: Program,
    reference: ReferenceProcess,
    batches: PreparedProcesses,
    largest_squares: Float[Array, "K F"],
    rows: Rows,
    *,
    reduction: Reduction,
) -> tuple[Any, Float[Array, " n"]]:
    """The reduction of rows, and bounds on the sizes of their deviations."""
    features = features_of(reference, rows, reduction.precision)

    def reduce_batch(draws: PreparedProcesses) -> Any:
        return reduction.reduce_batch(*log_joint_tables(program, reference, draws, features, rows))

    squares = jnp.einsum("kf,kfn->kn", largest_squares, jnp.square(features.features.astype(float)))
    return reduction.combine(jax.lax.map(reduce_batch, batches)), jnp.sqrt(squares.max(0))


def scores_of_draws(
    program: Program, latents: Arrays, rows: Rows
) -> tuple[Float[np.ndarray, "draws n"], Float[np.ndarray, "draws n"]]:
    """`scores_of` of rows under each draw; tables of all classes are made of some rows at a time."""
    num_draws = len(next(iter(latents.values()), ()))
    given_row, joint = np.empty((2, num_draws, rows.num_rows))
    for part in table_chunks(rows.num_rows, num_draws * program.num_cases):
        chunk = rows.take(part)
        table = log_joint_draws(program, latents, dataclasses.replace(chunk, labels=None))
        codes = None if chunk.labels is None else np.broadcast_to(chunk.labels, table.shape[:2])
        given_row[:, part], joint[:, part] = scores_of(table, codes)
    return given_row, joint
