"""EM of hidden Markov models beside hmmlearn's, from the same start: one iteration, and the whole climb."""

import dataclasses
import functools
import importlib.util
import logging

import numpy as np

import bayesgen as bg
from bayesgen.fitting.em import CompleteDataObjective, ExpectationMaximization
from bayesgen.fitting.training import prepare
from bayesgen.runtime import SINGLE_THREADED_BLAS

from .measure import Faster, Missing, Row, rounds, seconds

NUM_STATES = 3
MORE = 5  # iterations that hmmlearn does more of, in the longer of two runs
COLUMN = "level"


def measures(quick):
    """Many short sequences, and a long one, of one column and of several."""
    tenth = 10 if quick else 1
    for num_rows, num_steps, num_columns in (
        (5_000 // tenth, 50, 1),
        (1, 100_000 // tenth, 1),
        (200, 500 // tenth, 8),
    ):
        yield functools.partial(_iteration, num_rows, num_steps, num_columns)
    yield functools.partial(_climb, 200, 500 // tenth)


@dataclasses.dataclass(frozen=True)
class Data:
    """Sequences of one length, and the chain that both start from.

    Attributes:
        values: the steps.
        start: parameters, the variances of columns apart.
    """

    values: np.ndarray  # (n, T, D)
    start: dict[str, np.ndarray]

    @classmethod
    def simulated(cls, num_rows: int, num_steps: int, num_columns: int) -> "Data":
        """States that last, and steps about their means."""
        rng = np.random.default_rng(0)
        means = 3.0 * np.stack([rng.permutation(NUM_STATES) for _ in range(num_columns)], axis=1)
        states = np.empty((num_rows, num_steps), int)
        states[:, 0] = rng.integers(0, NUM_STATES, num_rows)
        for step in range(1, num_steps):
            moves = rng.random(num_rows) < 0.1
            states[:, step] = np.where(moves, rng.integers(0, NUM_STATES, num_rows), states[:, step - 1])
        values = means[states] + rng.normal(size=(num_rows, num_steps, num_columns))
        start = {
            "initial": np.full(NUM_STATES, 1 / NUM_STATES),
            "transition": np.full((NUM_STATES, NUM_STATES), 0.15) + 0.55 * np.eye(NUM_STATES),
            "mean": means + rng.normal(0, 0.5, means.shape),
            "variance": np.full(means.shape, 2.0),
        }
        return cls(values, start)

    @property
    def model(self):
        """A block of all columns, of independent normals given the state."""
        columns = list(self.columns)
        return bg.GenerativeClassifier([(COLUMN, bg.DirichletHiddenMarkov(NUM_STATES), columns)], class_prior=None)

    @property
    def columns(self):
        """Name -> (n, T)."""
        return {f"{COLUMN}{index}": self.values[:, :, index] for index in range(self.values.shape[2])}

    @property
    def point(self):
        """The start, by the names of the model's parameters."""
        return {f"{COLUMN}_{name}": value for name, value in self.start.items()}

    def peer(self, num_iterations, tol):
        """hmmlearn's model at the start: maximum likelihood, no floor of the variances."""
        from hmmlearn.hmm import GaussianHMM

        logging.getLogger("hmmlearn.base").setLevel(logging.CRITICAL)  # a climb that is cut short
        chain = GaussianHMM(
            NUM_STATES, "diag", min_covar=0, n_iter=num_iterations, tol=tol, init_params="", covars_prior=0,
            covars_weight=0, means_weight=0,
        )  # fmt: skip
        chain.startprob_, chain.transmat_ = self.start["initial"].copy(), self.start["transition"].copy()
        chain.means_, chain.covars_ = self.start["mean"].copy(), self.start["variance"].copy()
        return chain

    @property
    def steps(self):
        """What hmmlearn takes: all steps, one sequence after another, and the lengths."""
        num_rows, num_steps, num_columns = self.values.shape
        return self.values.reshape(-1, num_columns), np.full(num_rows, num_steps)


NEEDS = "needs hmmlearn: pip install -e '.[bench]'"


def _iteration(num_rows, num_steps, num_columns):
    work = f"one EM iteration, hidden Markov, {num_rows:,} x {num_steps:,} steps x {num_columns}, {NUM_STATES} states"
    if importlib.util.find_spec("hmmlearn") is None:
        return Missing(work, NEEDS)
    data = Data.simulated(num_rows, num_steps, num_columns)
    problem = prepare(data.model, data.columns)
    conjugate = problem.conjugate
    steps = ExpectationMaximization(
        conjugate, CompleteDataObjective.of(conjugate, has_prior=False), problem.data.statistics, None
    )

    def theirs(num_iterations):
        data.peer(num_iterations, -np.inf).fit(*data.steps)

    def once(_):
        with SINGLE_THREADED_BLAS:
            ours = seconds(lambda: steps.step(data.point))
        return ours, (seconds(lambda: theirs(1 + MORE)) - seconds(lambda: theirs(1))) / MORE

    once(0)
    took = zip(*rounds(once, 5), strict=True)
    return Row(work, Faster(1), *took, peer_name="GaussianHMM, by the difference of two n_iter")


def _climb(num_rows, num_steps):
    work = f"EM of a hidden Markov model to its end, {num_rows:,} x {num_steps:,} steps, {NUM_STATES} states"
    if importlib.util.find_spec("hmmlearn") is None:
        return Missing(work, NEEDS)
    data = Data.simulated(num_rows, num_steps, 1)
    method, found = bg.MLE(starts=data.point), {}

    def ours():
        found["ours"] = bg.fit(data.model, data.columns, method=method, progress=False)

    def theirs():
        found["theirs"] = data.peer(10_000, 1e-9 * num_rows).fit(*data.steps)  # the gain at which ours ends

    once = functools.partial(_both, ours, theirs)
    once(0)
    took = rounds(once, 3)
    highest = found["ours"].log_joint(data.columns).sum(), found["theirs"].score(*data.steps)
    counts = found["ours"].attributes["num_iterations"], found["theirs"].monitor_.iter
    note = f"log-likelihoods {highest[0]:.6f} and {highest[1]:.6f}, after {counts[0]} and {counts[1]} iterations"
    return Row(work, Faster(1), *zip(*took, strict=True), peer_name="GaussianHMM.fit", note=note)


def _both(ours, theirs, _):
    return seconds(ours), seconds(theirs)
