"""Calibrate what is shipped by simulation, and write VALIDATION.md: `python -m benchmarks.validation`.

Each line simulates data sets under the prior of a model, or about its posterior, fits them, and tests that the ranks of
the true processes among posterior draws are uniform. Negative controls at the end have to be rejected.
"""

import argparse
import dataclasses
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpyro
import numpyro.distributions as dist

import bayesgen as bg

from . import report

TABLE = Path(__file__).parents[1] / "VALIDATION.md"
ROWS, EXACT_SIMULATIONS, NUTS_SIMULATIONS = 20, 1000, 100
SAMPLER = bg.NUTS(num_warmup=150, num_samples=150, num_chains=2)
HEADINGS = ("model", "method", "rows", "simulations", "quantities", "draws", "smallest p-value", "result", "seconds")


@dataclasses.dataclass(frozen=True)
class Case:
    """One line: a model, or a fit that holds its prior, and the arguments of `calibrate`.

    Attributes:
        name: of the model.
        make: makes the model.
        method: of training.
        options: of `calibrate`.
        is_right: whether the posterior is right, so that the line has to pass.
    """

    name: str
    make: Callable[[], Any]
    method: Any = dataclasses.field(default_factory=bg.Exact)
    options: Any = dataclasses.field(default_factory=dict)
    is_right: bool = True


def reals():
    """Four real columns, three classes, and a number that depends on the columns."""
    rng = np.random.default_rng(0)
    codes = np.arange(60) % 3
    X = rng.normal(size=(60, 4)) @ rng.normal(size=(4, 4)) + 2.0 * codes[:, None]
    return X, codes, X @ [1.0, -1.0, 0.5, 2.0] + rng.normal(size=60)


def mixed():
    """Columns of every kind, and labels."""
    rng, (X, codes, _) = np.random.default_rng(1), reals()
    columns = {
        "height": X[:, 0],
        "wild": rng.random(60) > 0.5,
        "food": np.asarray(["leaves", "meat", "roots"])[rng.integers(0, 3, 60)],
        "visits": rng.poisson(3.0, 60),
    }
    return columns, codes


def exact(model, X, y=None, schema=None):
    """The exact fit, which holds the default prior of these data."""
    return bg.fit(model, X, y, method=bg.Exact(), schema=schema)


def sloped(n):
    """A number that depends on another one: evaluated row by row."""
    p = numpyro.sample("p", dist.Beta(2.0, 2.0))
    mean = numpyro.sample("mean", dist.Normal(0.0, 2.0).expand([2]).to_event(1))
    slope = numpyro.sample("slope", dist.Normal(0.0, 1.0))
    with numpyro.plate("rows", n):
        y = numpyro.sample("y", dist.Bernoulli(p))
        x = numpyro.sample("x", dist.Normal(mean[y], 1.0))
        numpyro.sample("z", dist.Normal(slope * x, 0.7))


def heavy_tailed(n):
    """Numbers of a distribution without a sufficient statistic."""
    center = numpyro.sample("center", dist.Normal(0.0, 3.0))
    scale = numpyro.sample("scale", dist.LogNormal(0.0, 0.5))
    with numpyro.plate("rows", n):
        numpyro.sample("x", dist.StudentT(4.0, center, scale))


def words():
    """Words of three letters, of two classes."""
    rng = np.random.default_rng(2)
    return {"word": ["".join(rng.choice(list("abc"), 5)) for _ in range(20)]}, np.arange(20) % 2


def cases():
    """All lines."""
    X, codes, numbers = reals()
    columns, labels = mixed()
    spelled, of_words = words()
    counts = np.random.default_rng(3).poisson(2.0, (60, 5))
    naive, discriminant = bg.NaiveBayes, bg.GaussianDiscriminant
    yield Case("naive Bayes, Bernoulli", lambda: exact(naive(), X > 1, codes))
    yield Case("naive Bayes, categorical", lambda: exact(naive(bg.DirichletCategorical()), counts.clip(0, 2), codes))
    yield Case("naive Bayes, Poisson", lambda: exact(naive(bg.GammaPoisson()), counts, codes))
    multinomial = bg.NaiveBayes(bg.DirichletMultinomial())
    yield Case("naive Bayes, multinomial", lambda: exact(multinomial, counts, codes), options=with_("count_total", 9))
    yield Case("naive Bayes, normal", lambda: exact(naive(), X, codes))
    yield Case("naive Bayes, columns of every kind", lambda: exact(naive(), columns, labels))
    yield Case("normal columns without classes", lambda: exact(naive(class_prior=None), X))
    for covariance in ("full", "tied", "diag", "spherical", "tied-diag", "tied-spherical"):
        yield Case(f"discriminant, {covariance}", lambda c=covariance: exact(discriminant(c), X, codes))
    about = {"around": "posterior"}
    yield Case("discriminant, full, about a posterior", lambda: exact(discriminant(), X, codes), options=about)
    markov = bg.GenerativeClassifier([("word", bg.DirichletMarkov(), ["word"])])
    yield Case("Markov chains", lambda: exact(markov, spelled, of_words), options=with_("word_length", 6))
    histogram = bg.NaiveBayes(bg.DirichletHistogram(4))
    yield Case("histograms", lambda: exact(histogram, X, codes))
    yield Case("joint normal regression", lambda: exact(bg.JointGaussianRegression(), X, numbers))
    yield Case("naive Bayes regression", lambda: exact(bg.NaiveBayesRegression(), X, numbers))
    given = about | with_("y_features", X[:ROWS])
    yield Case("linear regression, about a posterior", lambda: exact(bg.LinearRegression(), X, numbers), options=given)
    yield from sampled(X, codes, columns, labels)
    yield from hidden(X)
    yield from controls(X, codes)


def with_(name, value):
    """The option of one covariate."""
    return {"covariates": {name: value}}


def sampled(X, codes, columns, labels):
    """The lines by NUTS."""
    cells = np.ones((ROWS, 4), bool)
    cells[:5, 0] = cells[3:9, 2] = False
    is_labelled = np.arange(ROWS) > 4
    masked = {"mask": {"real": cells, "y": is_labelled}}
    yield Case("discriminant, full", lambda: exact(bg.GaussianDiscriminant(), X, codes), SAMPLER)
    yield Case("discriminant, tied", lambda: exact(bg.GaussianDiscriminant("tied"), X, codes), SAMPLER)
    yield Case("naive Bayes, columns of every kind", lambda: exact(bg.NaiveBayes(), columns, labels), SAMPLER)
    missing = "discriminant, diag, cells and labels missing"
    yield Case(missing, lambda: exact(bg.GaussianDiscriminant("diag"), X, codes), SAMPLER, masked)
    mixture = bg.Mixture(bg.GaussianDiscriminant("diag"), 2)
    yield Case("mixture of two, up to names", lambda: bg.fit(mixture, X[:, :2], method=bg.MAP(num_starts=2)), SAMPLER)
    yield Case("program, attribute given attribute", lambda: bg.GenerativeProgram(sloped, classes=2), SAMPLER)
    yield Case("program, Student-t", lambda: bg.GenerativeProgram(heavy_tailed, label=None), SAMPLER)
    hierarchical = bg.NaiveBayes(bg.BetaBernoulli(dist.LogNormal(0.0, 0.5), dist.LogNormal(0.0, 0.5)))
    yield Case(
        "naive Bayes, hyperparameters drawn", lambda: bg.fit(hierarchical, X > 1, codes, method=SAMPLER), SAMPLER
    )


def hidden(X):
    """The lines of models with hidden states, trees or factors, which have no closed form."""
    rng = np.random.default_rng(4)
    songs = {"song": ["".join(rng.choice(list("ab"), 6)) for _ in range(20)]}
    walks = {"walk": [rng.normal(size=6).tolist() for _ in range(20)]}
    states = bg.DirichletHiddenMarkov(2, bg.DirichletCategorical())
    of_letters = bg.NaiveBayes({"song": states}, class_prior=None)
    yield Case(
        "hidden Markov, letters", lambda: bg.fit(of_letters, songs, method=bg.MAP()), SAMPLER, with_("song_length", 6)
    )
    normal = bg.DirichletHiddenMarkov(2, bg.NormalInverseGamma(0.0, 1.0, 4.0, 1.0))
    of_numbers = bg.GenerativeClassifier([("walk", normal, ["walk"])], class_prior=None)
    yield Case(
        "hidden Markov, numbers", lambda: bg.fit(of_numbers, walks, method=bg.MAP()), SAMPLER, with_("walk_length", 6)
    )
    grammar = bg.DirichletGrammar({"S": ["A B", "B A", "A A"], "A": ["a", "b", "c"], "B": ["b", "c c"]})
    phrases = {"phrase": ["ab", "ba", "bb", "acc", "cca", "ac", "ca", "cc", "bcc"]}
    of_phrases = bg.NaiveBayes(grammar, class_prior=None)
    yield Case("grammar", lambda: bg.fit(of_phrases, phrases, method=bg.MAP()), SAMPLER)
    factors = bg.ProbabilisticPCA(2, bg.LowRankNormal(2))
    yield Case("probabilistic PCA", lambda: bg.fit(factors, X, method=bg.MAP()), SAMPLER)


def controls(X, codes):
    """Wrong posteriors."""
    narrow = bg.NaiveBayes(bg.NormalInverseGamma(0.0, 1.0, 4.0, 1.0))
    wide = bg.NaiveBayes(bg.NormalInverseGamma(0.0, 1.0, 4.0, 1.5))
    other = {"simulate": exact(wide, X, codes)}
    yield Case("control: data from a wider prior", lambda: exact(narrow, X, codes), options=other, is_right=False)


def line(case, share):
    """The cells of one line, and whether it is as it has to be."""
    start, options = time.monotonic(), dict(case.options)
    simulations = EXACT_SIMULATIONS if isinstance(case.method, bg.Exact) else NUTS_SIMULATIONS
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bg.BayesgenWarning)
        result = bg.calibrate(
            case.make(), method=case.method, n=ROWS, simulations=max(20, int(share * simulations)), seed=1, **options
        )
    found = "passed" if result.passed else "rejected"
    p_value = result.table["p_value"].min()
    draws = f"{result.num_draws.min()} to {result.num_draws.max()}" if np.ptp(result.num_draws) else result.num_draws[0]
    seconds = f"{time.monotonic() - start:.0f}"
    numbers = (ROWS, len(result.num_draws), len(result.fractions), draws, f"{p_value:.2g}")
    cells = (case.name, type(case.method).__name__, *numbers, found, seconds)
    return tuple(map(str, cells)), result.passed == case.is_right


def main() -> None:
    """Parse the arguments, calibrate, write the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.validation", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the simulations, and no file")
    parser.add_argument("--only", help="lines whose name contains this, and no file")
    options = parser.parse_args()
    lines, all_right = [HEADINGS, ("---",) * len(HEADINGS)], True
    for case in cases():
        if options.only and options.only not in case.name:
            continue
        cells, is_right = line(case, 0.1 if options.quick else 1.0)
        lines.append(cells)
        all_right &= is_right
        print("  ".join(cells), file=sys.stderr, flush=True)
        if not (options.quick or options.only):
            TABLE.write_text(written(lines))
    sys.exit(not all_right)


def written(lines):
    """The text of VALIDATION.md."""
    machine = {**report.machine(), **report.software()}
    about = ", ".join(f"{name} {machine[name]}" for name in ("processor", "cores", "python", "jax", "numpyro"))
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
    return INTRODUCTION + table + f"\n\n{about}.\n"


INTRODUCTION = f"""# Validation

Posteriors are checked by simulation: processes are drawn from the prior (or from a posterior, whose data are then
learned too), data are made by them, and the rank of each true value among posterior draws has to be uniform. Every
scalar parameter is ranked, the joint log-likelihood, and the class probability (or density, or number) of a held-out
row. Two tests a quantity, the simultaneous band of the distribution function and the chi-square of normal scores; a
line passes where none is rejected at 0.01 after Holm's correction. Controls are wrong on purpose, and have to be
rejected; others are in `tests/evaluation/test_calibration.py`. Samplers are short
({SAMPLER.num_chains} chains of {SAMPLER.num_samples} draws), and draws are thinned to half their effective sample size.

Made by `python -m benchmarks.validation`; one line by `--only NAME`.

"""


if __name__ == "__main__":
    main()
