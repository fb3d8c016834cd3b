"""NUTS against other samplers on one posterior, warm: smallest bulk effective sample size a second over all latents."""

import functools
import statistics

import numpy as np

import bayesgen as bg

from . import gda
from .measure import REPEATS, Higher, Missing, Row, compilations, rounds, seconds
from .peers.peer import Peer
from .peers.plain_numpyro import BY_CLASS
from .peers.pymc_nutpie import COMPRESSED, ROWS, Nutpie
from .peers.stan import Stan

TOO_FAR = 5.0  # standard errors between posterior means: of 45 latents the largest is seldom above 3.5
ROWS_PEER = "nutpie, the rows of a class at once"
FEW_DRAWS = 250  # draws of nutpie a chain for many rows, so that a run stays well under a minute


def measures(quick):
    """All comparisons."""
    peers = [(Nutpie(ROWS_PEER, ROWS), 4.0), (BY_CLASS, None)]
    if not quick:
        peers += [(Nutpie("nutpie, compressed by hand", COMPRESSED), 1.5), (Stan(), None)]
    repeats = 2 if quick else REPEATS
    for peer, bound in peers:
        yield functools.partial(against, peer, 150, bound, repeats)
    if not quick:
        yield functools.partial(against, Nutpie(ROWS_PEER, ROWS, FEW_DRAWS), 10_000, 150.0, repeats)


def against(peer: Peer, num_rows: int, bound: float | None, repeats: int):
    """Ours and one peer, in turn."""
    work = f"smallest bulk ESS/s, full GDA, iris shape, N={num_rows:,}, 4 x {gda.NUM_DRAWS:,} draws, warm"
    if peer.missing:
        return Missing(f"{work}: {peer.name}", f"needs {', '.join(peer.missing)}: pip install -e '.[bench]'")
    problem = gda.iris(num_rows)
    ready = peer.prepare(problem)
    ours(problem, 99)
    with compilations() as compiled:
        pairs = rounds(lambda seed: (ours(problem, seed), ready.sample(seed)), repeats)
    notes = [f"set-up {ready.set_up_seconds:.0f} s not counted", *_fewer(pairs), *_doubts(pairs, len(compiled))]
    rates = [tuple(run.rate for run in pair) for pair in pairs]
    return Row(work, Higher(bound), *zip(*rates, strict=True), "ESS/s", peer.name, "; ".join(notes))


def ours(problem, seed) -> gda.Run:
    """A fit from rows to draws: statistics, mode, whitening, warm-up and draws."""
    model, fits = bg.GaussianDiscriminant(), []
    method = bg.NUTS(num_samples=gda.NUM_DRAWS, num_chains=gda.NUM_CHAINS)
    took = seconds(lambda: fits.append(bg.fit(model, problem.X, problem.y, method=method, seed=seed, progress=False)))
    found = fits[0].parameters
    factors = np.linalg.cholesky(found["real_covariance"])
    return gda.Run(gda.Draws(found["class_probs"], found["real_mean"], factors), took)


def _fewer(pairs):
    """A note where the peer made fewer draws than are reckoned."""
    drawn = pairs[0][1].draws.mean.shape[1]
    if drawn == gda.NUM_DRAWS:
        return []
    full = statistics.median(run.seconds for _, run in pairs)
    return [f"peer: {drawn} draws a chain after its full warm-up, reckoned as {gda.NUM_DRAWS:,} ({full:.0f} s)"]


def _doubts(pairs, num_compiled):
    """Warnings where what was compared is not comparable."""
    if num_compiled:
        yield f"WARNING: {num_compiled} compilations in warm runs"
    difference = statistics.median(gda.largest_difference(one.draws, other.draws) for one, other in pairs)
    if difference > TOO_FAR:
        yield f"WARNING: posterior means differ by {difference:.1f} standard errors"
