"""One iteration of EM: Gaussian mixtures against scikit-learn's, multinomial ones in their two sparse products."""

import dataclasses
import functools
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

import bayesgen as bg
from bayesgen.fitting.em import CompleteDataObjective, ExpectationMaximization
from bayesgen.fitting.training import prepare
from bayesgen.runtime import SINGLE_THREADED_BLAS

from .closed_form import NUM_CLASSES, NUM_COLUMNS, reals, texts
from .measure import REPEATS, Faster, Price, Row, duel, rounds, seconds

MORE = 3  # iterations that scikit-learn does more of, in the longer of two runs


def measures(quick):
    """All comparisons; `quick` takes a tenth of the rows."""
    num_rows = 100_000 if quick else 1_000_000
    X, y = reals(num_rows)
    X = X.astype(np.float64)
    for covariance, bound in (("full", 3), ("diag", None)):
        yield functools.partial(_gaussian, X, y, covariance, bound)
    yield functools.partial(_multinomial, 30_000)


def steps_of(model, X, groups):
    """The steps of EM for a mixture without labels, and a point that rows of these groups suggest."""
    problem = prepare(model, X)
    statistics, conjugate = problem.data.statistics, problem.conjugate
    labelled = dataclasses.replace(statistics, unlabelled=None)
    steps = ExpectationMaximization(
        conjugate, CompleteDataObjective.of(conjugate, has_prior=False), labelled, statistics.unlabelled
    )
    complete = steps.given_classes(statistics.unlabelled, groups, conjugate.center())
    return steps, conjugate.posterior_center(complete)


def _gaussian(X, y, covariance, bound):
    steps, point = steps_of(bg.Mixture(bg.GaussianDiscriminant(covariance), NUM_CLASSES), X, y)
    spread = point["real_covariance" if covariance == "full" else "real_variance"]
    precisions = np.linalg.inv(spread) if covariance == "full" else 1 / spread

    def peer(num_iterations):
        mixture = GaussianMixture(
            NUM_CLASSES,
            covariance_type=covariance,
            tol=0,
            reg_covar=0,
            max_iter=num_iterations,
            weights_init=point["class_probs"],
            means_init=point["real_mean"],
            precisions_init=precisions,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # it is stopped on purpose
            mixture.fit(X)

    def once(_):
        # as `search_by_em` runs: chunks of rows have threads, products have none
        with SINGLE_THREADED_BLAS:
            ours = seconds(lambda: steps.step(point))
        return ours, (seconds(lambda: peer(1 + MORE)) - seconds(lambda: peer(1))) / MORE

    once(0)
    ours, theirs = zip(*rounds(once, REPEATS), strict=True)
    return Row(
        f"one EM iteration, Gaussian mixture, {covariance}, {len(X):,} x {NUM_COLUMNS}, {NUM_CLASSES} components",
        Faster(bound),
        ours,
        theirs,
        peer_name="GaussianMixture, by the difference of two max_iter",
    )


def _multinomial(num_rows):
    X, y = texts(num_rows)
    X = X.astype(np.float64)
    steps, point = steps_of(bg.Mixture(bg.NaiveBayes(), NUM_CLASSES), X, y % NUM_CLASSES)
    log_probs = np.log(point["count_probs"])
    shares = np.random.default_rng(0).dirichlet(np.ones(NUM_CLASSES), X.shape[0])

    def ours():
        with SINGLE_THREADED_BLAS:
            steps.step(point)

    return duel(
        f"one EM iteration, multinomial mixture, sparse {X.shape[0]:,} x {X.shape[1]:,}, {X.nnz / 1e6:.1f}M cells",
        Price(1.3),
        ours,
        lambda: (X @ log_probs.T, X.T @ shares),
        "SciPy: one product with the parameters, and one back",
        repeats=21,
    )
