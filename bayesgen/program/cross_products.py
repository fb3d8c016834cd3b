"""Normal sites whose means, whatever the latents are, are linear in those of few rows: compressed to cross products."""

import dataclasses
import functools
import math
from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
import scipy.linalg

from bayesgen.data import Rows
from bayesgen.records import record, static
from bayesgen.runtime import CACHE_ROWS, LEAST_ROWS, chunks, in_threads
from bayesgen.statistics import LINEAR_NORMAL, Moments, SufficientStatistics, Summary
from bayesgen.typing import Array, Float, Int

from .density import LogLikelihood, StatisticsTerm
from .evaluation import Evaluation, evaluate
from .structure import BLOCK, Arrays, Means, Program

FEWEST = 4 * LEAST_ROWS  # rows that are compressed: fewer cost little as they are
SAMPLE = 4 * CACHE_ROWS  # rows of which a basis is chosen; the others are seen once, if it is theirs, too
MOST_BASIS_ROWS, MOST_PASSES = 256, 3  # rows of a basis, and passes over all rows
# of residuals relative to means at arbitrary latents: below the first they are rounding, above the second real; between
# the two a term in small units may be lost in rounding, and the site is left row by row
LEAST_ROUNDING, ROUNDING_OF_MEANS = 1e-14, 1e-12
ROUNDING_OF_SUMS = 1e-8  # relative, at other latents than those by which a basis was chosen
FAR = 10.0  # coefficients of a row that had better be in the basis


@record
class CrossProductsTerm(LogLikelihood):
    """Log-likelihood of a normal site with means that are linear in those of few rows.

    Attributes:
        rows: these rows.
        reference: values near their means, from which means are counted.
        summary: moments of the coefficients of all rows, and of their distances from the means by the reference.
        site: name of the site.
    """

    rows: Rows
    reference: Float[Array, "*extra p"]
    summary: Moments
    site: str = static(default="")

    @property
    def covariates(self) -> Arrays:
        return self.rows.covariates

    def log_prob(self, program: Program, evaluation: Evaluation) -> Float[Array, ""]:
        rows = self.rows
        few = evaluate(program, evaluation.latents, rows.codes, rows.values, rows.covariates)
        normal, factor = few.compressed(self.site).parameters, few.scale(self.site)
        coefficients, scale = jnp.moveaxis(normal["loc"], 0, -1) - self.reference, normal["scale"][:1]
        parameters = {"coefficients": coefficients[None], "intercept": jnp.zeros_like(scale), "scale": scale}
        log_likelihood = LINEAR_NORMAL.log_likelihood(parameters, self.summary).sum()
        return jnp.asarray(log_likelihood if factor is None else factor * log_likelihood)

    def cost(self, program: Program) -> float:
        """One multiplication for each cross product."""
        return float(np.size(self.summary.scatter))


def likelihood_terms(program: Program, statistics: SufficientStatistics) -> tuple[LogLikelihood, ...]:
    """The log-likelihoods whose sum is that of the data, by as few numbers as possible.

    Sites are compressed where all rows have labels, which are then among what rows know.
    """
    rows, rowwise = statistics.rows, program.plan.rowwise
    site_terms: dict[str, LogLikelihood] = {}
    if rows is not None and statistics.unlabelled is None and not program.local and program.content is not None:
        products = {name: _site_term(program, name, rows) for name in rowwise}
        site_terms = {name: term for name, term in products.items() if term is not None}
    remaining = statistics if len(site_terms) < len(rowwise) else dataclasses.replace(statistics, rows=None)
    return StatisticsTerm(remaining.padded(), excluded_sites=tuple(site_terms)), *site_terms.values()


def _site_term(program: Program, site: str, rows: Rows) -> CrossProductsTerm | None:
    """The cross products of a site; None where it has none, or so many that the rows cost less."""
    counts = rows.frequencies > 0
    if site in rows.observed:
        counts = counts & np.asarray(rows.observed[site]).reshape(rows.num_rows, -1).any(1)
    rows = rows if counts.all() else rows.take(np.flatnonzero(counts))
    means = program.separable_means(site, rows.num_rows) if rows.num_rows >= FEWEST else None
    most, num_draws = min(rows.num_rows // 8, 2 * math.isqrt(rows.num_rows), MOST_BASIS_ROWS), BLOCK
    while means is not None:
        vectors, limit = _vectors_of(means, num_draws, rows), min(most, num_draws - 2)
        basis = _basis_of_sample(vectors, rows)
        if 0 < len(basis.positions) <= limit:
            return _products(basis, vectors, means, site, rows, limit)
        if not len(basis.positions) or limit == most:
            break
        num_draws *= 2
    return None


def _vectors_of(means: Means, num_draws: int, rows: Rows) -> Callable[[Rows], Float[np.ndarray, "n L"]]:
    """A function of rows, their means at arbitrary latents, those of all columns one after another.

    They are in units of the means of some of the rows at the same latents.
    """

    def vectors(part: Rows) -> Float[np.ndarray, "n L"]:
        return means.at_arbitrary(part, num_draws).reshape(part.num_rows, -1)

    units = np.abs(vectors(rows.take(_some(rows, FEWEST)))).max(0)
    return lambda part: vectors(part) / np.where(units > 0, units, 1.0)


def _some(rows: Rows, size: int) -> Int[np.ndarray, " m"]:
    """Positions of about so many rows."""
    return np.arange(rows.num_rows)[:: math.ceil(rows.num_rows / size)]


class _Basis:
    """Rows of which others are linear combinations, with coefficients that are not large.

    Attributes:
        positions: of the rows.
        vectors: their means at arbitrary latents.
    """

    def __init__(self, positions: Int[np.ndarray, " p"], vectors: Float[np.ndarray, "p L"]) -> None:
        self.positions, self.vectors = positions, vectors
        self._orthogonal, triangular = np.linalg.qr(vectors.T)
        self._inverse = np.linalg.inv(triangular).T

    @classmethod
    def of(cls, positions: Int[np.ndarray, " m"], vectors: Float[np.ndarray, "m L"]) -> "_Basis":
        """The basis of rows, chosen by pivots; of no row where rounding leaves it in doubt."""
        triangular, order = scipy.linalg.qr(vectors.T, mode="r", pivoting=True, check_finite=False)
        sizes = np.abs(np.diagonal(triangular))
        order = order[: len(sizes)]
        shares = sizes / np.linalg.norm(vectors[order], axis=1)
        is_doubtful = np.any((shares > LEAST_ROUNDING) & (shares <= ROUNDING_OF_MEANS))
        order = order[:0] if is_doubtful else order[shares > ROUNDING_OF_MEANS]
        return cls(positions[order], vectors[order])

    def read(
        self, positions: Int[np.ndarray, " m"], vectors: Float[np.ndarray, "m L"]
    ) -> "tuple[_Basis, Float[np.ndarray, 'm p']]":
        """The coefficients of rows, and the basis; where rows stand out, one that is theirs, too."""
        projected, sizes = vectors @ self._orthogonal, np.linalg.norm(vectors, axis=1)
        coefficients, errors = projected @ self._inverse, vectors - projected @ self._orthogonal.T
        is_near = np.abs(coefficients).max(1, initial=0.0) <= FAR
        new = ~(is_near & (np.linalg.norm(errors, axis=1) <= ROUNDING_OF_MEANS * sizes))
        if not new.any():
            return self, coefficients
        positions = np.concatenate([self.positions, positions[new]])
        return _Basis.of(positions, np.concatenate([self.vectors, vectors[new]])), coefficients


def _basis_of_sample(means: Callable[[Rows], Float[np.ndarray, "n L"]], rows: Rows) -> _Basis:
    """The basis of some of the rows, first of few, as pivots of many take long."""
    few, many = _some(rows, FEWEST), _some(rows, SAMPLE)
    return _Basis.of(few, means(rows.take(few))).read(many, means(rows.take(many)))[0]


def _are_sums(
    means: Float[np.ndarray, "n ..."], coefficients: Float[np.ndarray, "n p"], basis_means: Float[np.ndarray, "p ..."]
) -> bool:
    """Whether means are those of the basis by these coefficients, but for rounding; also where they are not finite."""
    errors = np.abs(means - np.tensordot(coefficients, basis_means, 1))
    return not (errors > ROUNDING_OF_SUMS * np.abs(basis_means).max(0)).any()


def _products(
    basis: _Basis,
    vectors: Callable[[Rows], Float[np.ndarray, "n L"]],
    means: Means,
    site: str,
    rows: Rows,
    most: int,
) -> CrossProductsTerm | None:
    """The cross products of all rows; None where these have no basis of so many rows.

    Neither are there any where the means at latents that did not choose the basis are not those that it gives.
    """
    observed = rows.observed.get(site, np.ones(rows.values[site].shape, bool))
    observed_values = np.where(observed, rows.values[site], 0.0)
    typical = observed_values.sum(0) / np.maximum(observed.sum(0), 1)

    def summarize_chunk(part: slice) -> tuple[_Basis, Summary, bool]:
        chunk = rows.take(part)
        read, coefficients = basis.read(np.arange(part.start, part.stop), vectors(chunk))
        is_mean = _are_sums(means.at_others(chunk), coefficients, basis_means)
        summary = LINEAR_NORMAL.summarize(
            observed_values[part] - np.tensordot(coefficients, reference, 1),
            np.zeros(len(coefficients), int),
            1,
            rows.frequencies[part],
            observed=observed[part] if site in rows.observed else None,
            row_parameters={"features": coefficients},
        )
        return read, summary, is_mean

    for _ in range(MOST_PASSES):
        basis_means = means.at_others(rows.take(basis.positions))
        reference = np.where(observed[basis.positions], observed_values[basis.positions], typical)
        wider, summaries, are_means = zip(*in_threads(summarize_chunk, chunks(rows.num_rows, CACHE_ROWS)), strict=True)
        wider_bases = [other for other in wider if other is not basis]
        if not wider_bases and not all(are_means):
            return None
        if not wider_bases:
            few = dataclasses.replace(rows.take(basis.positions), observed={}, weights=None)
            return CrossProductsTerm(
                few, np.moveaxis(reference, 0, -1), functools.reduce(Moments._merged, summaries), site
            )
        for other in wider_bases:
            basis, _ = basis.read(other.positions, other.vectors)
        if not 0 < len(basis.positions) <= most:
            break
    return None
