"""How well Markov chains have mixed: R-hat and effective sample sizes of many quantities at once.

ArviZ has the same numbers, one quantity at a time; of a thousand posteriors they would take as long as the sampling.
"""

import math

import numpy as np
import scipy.fft
import scipy.special
import scipy.stats

from bayesgen.typing import Float


def rhats_and_sizes(
    draws: Float[np.ndarray, "entries chains draws"],
) -> tuple[Float[np.ndarray, " entries"], Float[np.ndarray, " entries"]]:
    """Rank-normalised split R-hat and bulk effective sample size of each entry.

    Source: Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021), Rank-normalization, folding, and localization: an
    improved R-hat for assessing convergence of MCMC, section 4.
    """
    if not len(draws):
        return np.empty(0), np.empty(0)
    halves = _halves(draws)
    normal = _rank_normalised(halves)
    folded = _rank_normalised(np.abs(halves - np.median(halves, axis=(1, 2), keepdims=True)))
    return np.maximum(_rhats(normal), _rhats(folded)), _effective_sizes(normal)


def bulk_sizes(draws: Float[np.ndarray, "entries chains draws"]) -> Float[np.ndarray, " entries"]:
    """Bulk effective sample size of each entry."""
    return _effective_sizes(_rank_normalised(_halves(draws)))


@np.errstate(divide="ignore", invalid="ignore")
def errors_and_tail_sizes(
    draws: Float[np.ndarray, "entries chains draws"],
) -> tuple[Float[np.ndarray, " entries"], Float[np.ndarray, " entries"]]:
    """Monte Carlo standard error of the mean of each entry, and its tail effective sample size.

    The tail size is the least of those of the indicators of the lowest and the highest 5 % of the draws.
    """
    low, high = np.quantile(draws, [0.05, 0.95], axis=(1, 2))[..., None, None]
    tails = [_effective_sizes(_halves((draws <= end).astype(float))) for end in (low, high)]
    return draws.std((1, 2), ddof=1) / np.sqrt(_effective_sizes(_halves(draws))), np.minimum(*tails)


def split_rhats(draws: Float[np.ndarray, "entries chains draws"]) -> Float[np.ndarray, " entries"]:
    """Split R-hat of each entry, without ranks; NaN where draws do not vary."""
    return _rhats(_halves(draws))


def _halves(draws: Float[np.ndarray, "entries chains draws"]) -> Float[np.ndarray, "entries halves half"]:
    """Both halves of each chain, without the draw in the middle of an odd number."""
    half = draws.shape[2] // 2
    return np.concatenate([draws[:, :, :half], draws[:, :, draws.shape[2] - half :]], axis=1)


def _rank_normalised(chains: Float[np.ndarray, "entries M N"]) -> Float[np.ndarray, "entries M N"]:
    """Normal scores of the ranks among all draws of an entry; NaN where a draw is NaN."""
    pooled = chains.reshape(len(chains), -1)
    ranks = scipy.stats.rankdata(pooled, axis=1)
    return scipy.special.ndtri((ranks - 0.375) / (pooled.shape[1] + 0.25)).reshape(chains.shape)


@np.errstate(divide="ignore", invalid="ignore")
def _rhats(chains: Float[np.ndarray, "entries M N"]) -> Float[np.ndarray, " entries"]:
    length = chains.shape[2]
    between, within = chains.mean(2).var(1, ddof=1), chains.var(2, ddof=1).mean(1)
    return np.sqrt(between / within + (length - 1) / length)


@np.errstate(divide="ignore", invalid="ignore")
def _effective_sizes(chains: Float[np.ndarray, "entries M N"]) -> Float[np.ndarray, " entries"]:
    """Number of draws over the autocorrelation time by Geyer's initial monotone sequence."""
    _, num_chains, length = chains.shape
    size = num_chains * length
    centred = chains - chains.mean(2, keepdims=True)
    spectrum = scipy.fft.rfft(centred, n=scipy.fft.next_fast_len(2 * length, real=True), axis=2)
    power = (spectrum.real**2 + spectrum.imag**2).mean(1)
    covariances = scipy.fft.irfft(power, n=scipy.fft.next_fast_len(2 * length, real=True), axis=1)[:, :length] / length
    within = covariances[:, :1] * length / (length - 1)
    total = covariances[:, :1] + (chains.mean(2).var(1, ddof=1)[:, None] if num_chains > 1 else 0.0)
    correlations = 1 - (within - covariances) / total
    correlations[:, 0] = 1.0

    num_pairs = max(1, math.ceil((length - 2) / 2))  # no pair of lags that few products estimate
    even, odd = correlations[:, 0 : 2 * num_pairs : 2], correlations[:, 1 : 2 * num_pairs : 2]
    pairs = even + odd
    ends = np.append(pairs[:, :-1] <= 0, np.ones((len(pairs), 1), bool), axis=1).argmax(1)
    monotone = np.where(np.arange(num_pairs) < ends[:, None], np.minimum.accumulate(pairs, axis=1), 0.0).sum(1)
    rest = np.maximum(np.take_along_axis(even, ends[:, None], axis=1)[:, 0], 0.0)
    return size / np.maximum(2 * monotone - 1 + rest, 1 / math.log10(size))
