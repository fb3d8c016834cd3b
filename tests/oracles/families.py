"""The table of families, with priors and likelihoods written once more by SciPy."""

import dataclasses
import itertools
from collections.abc import Callable

import numpy as np
from scipy import stats

from bayesgen.families import (
    BetaBernoulli,
    DirichletCategorical,
    DirichletHistogram,
    DirichletMultinomial,
    Family,
    GammaPoisson,
    NormalInverseGamma,
    NormalInverseWishart,
    Scale,
)
from bayesgen.sequences import DirichletMarkov

CLASSES, COLUMNS, VALUES, ROWS = 2, 3, 5, 23


@dataclasses.dataclass(frozen=True)
class Case:
    """A family, rows for it, and independent densities.

    Attributes:
        family: with hyperparameters that are numbers, for a table (K, D) or alone.
        rows: (rng, n) -> rows (n, D).
        parameters: rng -> random parameters of a table.
        log_prior: (resolved family, parameters) -> log density, by SciPy.
        log_likelihood: (parameters, rows, codes) -> (n,), by SciPy.
        alone: whether the family makes sense without a class axis.
        simplex: whether the parameters are probabilities that sum to 1.
        columns, values: what a table is made for.
    """

    family: Family
    rows: Callable
    parameters: Callable
    log_prior: Callable
    log_likelihood: Callable
    alone: bool = True
    simplex: bool = False
    columns: int = COLUMNS
    values: int = VALUES

    def table(self):
        """The family for K classes and D columns."""
        return self.family.resolve(Scale(CLASSES, self.columns, self.values))


def matrix(dimension, seed=3):
    """A covariance with correlations and unequal variances."""
    factor = np.tril(np.random.default_rng(seed).normal(0, 0.6, (dimension, dimension)))
    factor[np.diag_indices(dimension)] = 0.5 + np.arange(dimension) / 2
    return factor @ factor.T


def whole(array, tied, spherical):
    """A table (K, D) of variances from one that is shared."""
    array = np.asarray(array)[None] if tied else np.asarray(array)
    array = array[..., None] if spherical else array
    return np.broadcast_to(array, (CLASSES, COLUMNS))


def log_dirichlet(family, parameters):
    tables = zip(
        parameters["probs"].reshape(-1, family.concentration.shape[-1]),
        family.concentration.reshape(-1, family.concentration.shape[-1]),
        strict=True,
    )
    return sum(stats.dirichlet.logpdf(probs, alpha) for probs, alpha in tables)


def log_category(parameters, rows, codes):
    picked = np.take_along_axis(parameters["probs"][codes], rows.astype(int)[..., None], -1)
    return np.log(picked[..., 0]).sum(-1)


EDGES, TAILS = [-2.0, -0.4, 0.3, 1.1, 2.9, 4.0], [0.8, 1.7]


def log_histogram(parameters, rows, codes):
    """A mixture of what is in each bin: of uniform numbers, and at both ends of exponential ones beyond."""
    starts, widths = np.asarray(EDGES[:-1]), np.diff(EDGES)
    parts = stats.uniform.pdf(rows[..., None], starts, widths)
    for place, beyond, tail in ((0, EDGES[0] - rows, TAILS[0]), (-1, rows - EDGES[-1], TAILS[1])):
        share = tail / (tail + widths[place])
        parts[..., place] = (1 - share) * parts[..., place] + share * stats.expon.pdf(beyond, scale=tail)
    return np.log((parameters["probs"][codes] * parts).sum(-1)).sum(-1)


def normal_inverse_gamma(tied=False, spherical=False):
    shared = (() if tied else (CLASSES,)) + (() if spherical else (COLUMNS,))

    def parameters(rng):
        return {"mean": rng.normal(0.4, 1, (CLASSES, COLUMNS)), "variance": rng.gamma(4.0, 0.4, shared)}

    def log_prior(family, parameters):
        variance = whole(parameters["variance"], tied, spherical)
        of_variance = stats.invgamma.logpdf(
            parameters["variance"], family.shape.reshape(shared), scale=family.scale.reshape(shared)
        )
        of_mean = stats.norm.logpdf(parameters["mean"], family.location, np.sqrt(variance / family.kappa))
        return np.sum(of_variance) + of_mean.sum()

    def log_likelihood(parameters, rows, codes):
        scale = np.sqrt(whole(parameters["variance"], tied, spherical))
        return stats.norm.logpdf(rows, parameters["mean"][codes], scale[codes]).sum(-1)

    scale = 1.3 if spherical else [1.3, 0.4, 2.2]
    family = NormalInverseGamma([0.5, -1.0, 2.0], 0.7, 2.6, scale, tied=tied, spherical=spherical)
    return Case(family, reals, parameters, log_prior, log_likelihood, alone=not tied)


def normal_inverse_wishart(tied=False):
    def parameters(rng):
        covariances = stats.wishart.rvs(COLUMNS + 5, matrix(COLUMNS) / 6, CLASSES, random_state=rng)
        return {
            "mean": rng.normal(0.4, 1, (CLASSES, COLUMNS)),
            "covariance": covariances[0] if tied else covariances,
        }

    def matrices(parameters):
        return np.broadcast_to(parameters["covariance"], (CLASSES, COLUMNS, COLUMNS))

    def log_prior(family, parameters):
        shared = parameters["covariance"].reshape(-1, COLUMNS, COLUMNS)
        of_covariance = sum(
            stats.invwishart.logpdf(one, float(df), scale)
            for one, df, scale in zip(shared, family.df, family.scale, strict=True)
        )
        cells = zip(parameters["mean"], family.location, matrices(parameters), family.kappa, strict=True)
        return of_covariance + sum(
            stats.multivariate_normal.logpdf(mean, center, one / kappa) for mean, center, one, kappa in cells
        )

    def log_likelihood(parameters, rows, codes):
        pairs = zip(parameters["mean"], matrices(parameters), strict=True)
        table = [stats.multivariate_normal.logpdf(rows, mean, one) for mean, one in pairs]
        return np.stack(table, -1)[np.arange(len(rows)), codes]

    family = NormalInverseWishart([0.5, -1.0, 2.0], 0.7, COLUMNS + 2.6, matrix(COLUMNS, 11), tied=tied)
    return Case(family, reals, parameters, log_prior, log_likelihood, alone=not tied)


def reals(rng, size):
    return rng.normal(0, 1, (size, COLUMNS)) @ np.linalg.cholesky(matrix(COLUMNS)).T + [1.0, 0.0, 3.0]


SYMBOLS, STEPS = 3, 17


def chain_table(parameters):
    """Rows of the table of contexts: those of the start, and the others."""
    initial = parameters.get("initial", np.zeros((CLASSES, 0, SYMBOLS)))
    return np.concatenate([initial if initial.ndim == 3 else initial[:, None], parameters["transition"]], 1)


def markov(order, end):
    """Chains of three symbols, the last of which may be the end."""
    before = range(SYMBOLS - end)
    contexts = [c for length in range(order + 1) for c in itertools.product(before, repeat=length)]
    num_starts = len(contexts) - len(before) ** order
    concentration = 1.2 + np.arange(len(contexts) * SYMBOLS).reshape(-1, SYMBOLS) % 5 / 2

    def rows(rng, n):
        steps, lengths = rng.integers(0, SYMBOLS, (n, STEPS)), rng.integers(0, STEPS + 1, n)
        if end:
            is_end = steps == SYMBOLS - 1
            lengths = np.where(is_end.any(1), is_end.argmax(1) + 1, STEPS)
        return np.where(np.arange(STEPS) < lengths[:, None], steps, -1)

    def parameters(rng):
        probs = rng.dirichlet(np.full(SYMBOLS, 2.0), (CLASSES, len(contexts)))
        initial = {"initial": probs[:, 0] if order == 1 else probs[:, :num_starts]} if order else {}
        return {**initial, "transition": probs[:, num_starts:]}

    def log_likelihood(parameters, rows, codes):
        table, place = chain_table(parameters), {context: index for index, context in enumerate(contexts)}
        total = np.zeros(len(rows))
        for i, (row, k) in enumerate(zip(rows.astype(int).tolist(), codes, strict=True)):
            steps = [symbol for symbol in row if symbol >= 0]
            places = [place[tuple(steps[max(t - order, 0) : t])] for t in range(len(steps))]
            total[i] = np.log(table[k, places, steps]).sum()
        return total

    return Case(
        DirichletMarkov(order, concentration, end=end),
        rows,
        parameters,
        lambda f, p: sum(map(stats.dirichlet.logpdf, chain_table(p).reshape(-1, SYMBOLS), flat_rows(f.concentration))),
        log_likelihood,
        simplex=True,
        columns=1,
        values=SYMBOLS,
    )


def flat_rows(concentration):
    return concentration.reshape(-1, SYMBOLS)


CASES = {
    "BetaBernoulli": Case(
        BetaBernoulli(1.7, [2.6, 1.4, 3.1]),
        lambda rng, n: rng.integers(0, 2, (n, COLUMNS)).astype(float),
        lambda rng: {"probs": rng.beta(2, 2, (CLASSES, COLUMNS))},
        lambda f, p: stats.beta.logpdf(p["probs"], f.a, f.b).sum(),
        lambda p, rows, codes: stats.bernoulli.logpmf(rows, p["probs"][codes]).sum(-1),
    ),
    "DirichletCategorical": Case(
        DirichletCategorical([1.7, 2.6, 1.4, 3.1, 1.2]),
        lambda rng, n: rng.integers(0, VALUES, (n, COLUMNS)).astype(float),
        lambda rng: {"probs": rng.dirichlet(np.full(VALUES, 2.0), (CLASSES, COLUMNS))},
        log_dirichlet,
        log_category,
        simplex=True,
    ),
    "DirichletHistogram": Case(
        DirichletHistogram(concentration=[1.7, 2.6, 1.4, 3.1, 1.2], edges=EDGES, tails=TAILS),
        lambda rng, n: rng.normal(0.8, 2.0, (n, COLUMNS)),
        lambda rng: {"probs": rng.dirichlet(np.full(VALUES, 2.0), (CLASSES, COLUMNS))},
        log_dirichlet,
        log_histogram,
        simplex=True,
    ),
    "DirichletMarkov": markov(1, end=False),
    "DirichletMarkov, order 0": markov(0, end=False),
    "DirichletMarkov, order 2, end": markov(2, end=True),
    "DirichletMultinomial": Case(
        DirichletMultinomial([1.7, 2.6, 1.4]),
        lambda rng, n: rng.poisson([1.0, 2.0, 0.7], (n, COLUMNS)).astype(float),
        lambda rng: {"probs": rng.dirichlet(np.full(COLUMNS, 2.0), CLASSES)},
        log_dirichlet,
        lambda p, rows, codes: stats.multinomial.logpmf(rows, rows.sum(-1).astype(int), p["probs"][codes]),
        simplex=True,
    ),
    "GammaPoisson": Case(
        GammaPoisson(2.6, [0.7, 1.4, 3.1]),
        lambda rng, n: rng.poisson([1.0, 4.0, 0.3], (n, COLUMNS)).astype(float),
        lambda rng: {"rate": rng.gamma(2.0, 1.0, (CLASSES, COLUMNS))},
        lambda f, p: stats.gamma.logpdf(p["rate"], f.shape, scale=1 / f.rate).sum(),
        lambda p, rows, codes: stats.poisson.logpmf(rows, p["rate"][codes]).sum(-1),
    ),
    "NormalInverseGamma": normal_inverse_gamma(),
    "NormalInverseGamma, tied": normal_inverse_gamma(tied=True),
    "NormalInverseGamma, spherical": normal_inverse_gamma(spherical=True),
    "NormalInverseGamma, tied and spherical": normal_inverse_gamma(tied=True, spherical=True),
    "NormalInverseWishart": normal_inverse_wishart(),
    "NormalInverseWishart, tied": normal_inverse_wishart(tied=True),
}
