"""Memory beyond the input and the answer does not grow with the number of rows."""

import tracemalloc

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse

import bayesgen as bg
from bayesgen.data import categories as levels
from bayesgen.runtime import chunking

ROWS, COLUMNS = 400_000, 10  # 32 MB in float64
MEGABYTE = 2**20


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Blocks of 2 MB, so that a small table has many."""
    monkeypatch.setattr(chunking, "TABLE_CELLS", 1 << 18)


@pytest.fixture(scope="module")
def labels():
    return np.random.default_rng(1).integers(0, 3, ROWS)


@pytest.fixture(scope="module", autouse=True)
def warm(labels):
    """What is imported and compiled at the first call is not counted."""
    few = np.random.default_rng(2).normal(size=(20, 2))
    fit = bg.fit(bg.GaussianDiscriminant(), few, labels[:20], method=bg.Exact())
    bg.predict(fit, few, rule=bg.BMA())


def peak(work):
    """Megabytes that were allocated at most while `work` ran, and what it gave."""
    tracemalloc.start()
    try:
        result = work()
        return tracemalloc.get_traced_memory()[1] / MEGABYTE, result
    finally:
        tracemalloc.stop()


def normals(dtype=np.float64):
    return np.random.default_rng(0).normal(size=(ROWS, COLUMNS)).astype(dtype)


INPUTS = {
    "float32": lambda: normals(np.float32),
    "float64, by column": lambda: np.asfortranarray(normals()),
    "whole numbers": lambda: np.random.default_rng(0).integers(0, 9, (ROWS, COLUMNS), dtype=np.int16),
    "booleans": lambda: normals() > 0.5,
    "pandas": lambda: pd.DataFrame(normals(np.float32)).add_prefix("c"),
    "polars": lambda: pl.DataFrame(normals()),
    "mapping": lambda: {f"c{j}": column for j, column in enumerate(normals().T)},
    "sparse": lambda: scipy.sparse.csr_array(normals() > 1.5).astype(np.float64),
}


@pytest.mark.parametrize("make", INPUTS.values(), ids=INPUTS)
def test_training_holds_a_few_blocks_at_a_time(make, labels):
    X = make()
    used, _ = peak(lambda: bg.fit(bg.NaiveBayes(), X, labels, method=bg.Exact()))
    assert used < 20


@pytest.mark.parametrize("words", [np.array(["no", "yes", "maybe"]), np.array(["no", "yes", "maybe"], dtype=object)])
def test_labels_are_read_in_blocks(words, labels, monkeypatch):
    monkeypatch.setattr(chunking, "TABLE_CELLS", 1 << 14)
    monkeypatch.setattr(levels, "THREAD_CELLS", 1 << 14)
    y, X = words[labels], np.zeros((ROWS, 1), bool)
    one_code_a_row = 8 * ROWS / MEGABYTE
    assert peak(lambda: bg.summarize(bg.NaiveBayes(), X, y))[0] < one_code_a_row


def test_chunks_are_let_go(labels):
    rng = np.random.default_rng(3)

    def chunks():
        for start in range(0, ROWS, 20_000):
            yield rng.normal(size=(20_000, COLUMNS)), labels[start : start + 20_000]

    used, fit = peak(lambda: bg.fit(bg.GaussianDiscriminant(), chunks(), method=bg.Exact()))
    assert used < 20
    assert fit.summaries.statistics.class_weights.sum() == ROWS


@pytest.mark.parametrize("rule", [bg.BMA(), bg.PlugIn()], ids=["BMA", "PlugIn"])
def test_prediction_in_closed_form_holds_the_answer_and_a_few_blocks(rule, labels):
    X = INPUTS["whole numbers"]()
    fit = bg.fit(bg.NaiveBayes(), X, labels, method=bg.Exact())
    used, answer = peak(lambda: bg.predict(fit, X, rule=rule))
    kept = (answer.log_probabilities.nbytes + answer.log_marginal.nbytes) / MEGABYTE
    assert used < 2 * kept + 20  # blocks of the answer are joined at the end


@pytest.mark.filterwarnings("ignore::bayesgen.errors.ConvergenceWarning")
@pytest.mark.parametrize(
    "method, rule",
    [
        pytest.param(bg.Exact(), bg.ConditionalAverage(num_draws=1000), id="ConditionalAverage"),
        pytest.param(bg.NUTS(num_samples=250, num_warmup=50), bg.BMA(), id="BMA", marks=pytest.mark.slow),
    ],
)
def test_averages_over_draws_never_hold_draws_times_rows_times_classes(method, rule):
    rng = np.random.default_rng(4)
    model = bg.NaiveBayes(bg.GammaPoisson())
    counts = rng.poisson(2.0, (2_000, 2))
    fit = bg.fit(model, counts, np.arange(2_000) % 3, method=method, progress=False)
    whole = 1000 * len(counts) * 3 * 8 / MEGABYTE
    bg.predict(fit, counts[:10], rule=rule)
    used, _ = peak(lambda: bg.predict(fit, counts, rule=rule))
    assert used < whole / 4
