"""How posteriors narrow, and how the two answers approach each other, as rows are added."""

import numpy as np
import pytest

import bayesgen as bg

SIZES = 2 ** np.arange(6, 15)
REPEATS = 7
MODELS = {
    "normal": (bg.NaiveBayes(), lambda rng, codes: rng.normal(codes, 1.0)[:, None]),
    "joint": (bg.GaussianDiscriminant("full"), lambda rng, codes: rng.normal(size=(len(codes), 2)) + codes[:, None]),
    "binary": (bg.NaiveBayes(), lambda rng, codes: rng.random((len(codes), 2)) < 0.3 + 0.4 * codes[:, None]),
    "Poisson": (bg.NaiveBayes(bg.GammaPoisson()), lambda rng, codes: rng.poisson(2.0 + 2 * codes)[:, None]),
}


def slope(log_values):
    """The slope of logs, (repeats, sizes), by the log of the size, and its standard error over the repeats."""
    slopes = np.polyfit(np.log(SIZES), np.transpose(log_values), 1)[0]
    return slopes.mean(), slopes.std(ddof=1) / np.sqrt(len(slopes))


@pytest.mark.parametrize("name", MODELS)
def test_deviations_fall_as_the_root_of_the_rows_and_answers_approach_each_other_as_their_number(name):
    model, rows_of = MODELS[name]
    plug_in = bg.PlugIn("mode" if name == "binary" else "mean")  # at the mean of a probability the answers are equal
    deviations, gaps = np.empty((2, REPEATS, len(SIZES)))
    for repeat in range(REPEATS):
        rng = np.random.default_rng(repeat)
        codes, new = np.arange(SIZES[-1]) % 2, rows_of(rng, np.arange(99) % 2)
        X = rows_of(rng, codes)
        for index, size in enumerate(SIZES):
            fit = bg.fit(model, X[:size], codes[:size], method=bg.Exact(), schema=bg.Schema(classes=[0, 1]))
            variances = fit.posterior.conjugate.variance()
            deviations[repeat, index] = np.mean([np.log(value).mean() / 2 for value in variances.values()])
            one, two = (bg.predict(fit, new, rule=rule).log_probabilities for rule in (plug_in, bg.BMA()))
            gaps[repeat, index] = np.log(np.abs(one - two).mean())
    for values, expected in ((deviations, -0.5), (gaps, -1.0)):
        value, error = slope(values)
        assert abs(value - expected) < 4 * error + 0.02, (value, error)
        assert error < 0.1
