"""Chains of which steps are missing: sums over all completions, by the chain's own density, are the oracle."""

import functools
import itertools

import jax
import numpy as np
import pytest
import scipy.special

import bayesgen as bg
from bayesgen.errors import DataError
from bayesgen.sequences import Contexts, CountsAndRows, MarkovLikelihood
from bayesgen.sequences.markov_likelihood import MissingSteps
from bayesgen.statistics import Sums, read_conditional

LENGTH, NUM_SYMBOLS, CLASSES = 5, 3, 3
close = np.testing.assert_allclose


def chain(order, end=None, seed=0):
    """K chains, some of whose probabilities are zero."""
    rng, contexts = np.random.default_rng(seed), Contexts(order, NUM_SYMBOLS, end)
    probs = rng.dirichlet(np.full(NUM_SYMBOLS, 0.7), (CLASSES, contexts.size))
    probs[0, -1] = [0.0, 0.3, 0.7]
    starts, transition = probs[:, : contexts.num_starts], probs[:, contexts.num_starts :]
    initial = None if order == 0 else starts[:, 0] if order == 1 else starts
    return bg.MarkovChain(initial, transition, LENGTH, end=end, validate_args=False)


def rows(end=None, seed=1, num_rows=19):
    """Ragged sequences, a third of whose steps are missing; one that is missing altogether, one that is empty."""
    rng = np.random.default_rng(seed)
    values = rng.integers(0, NUM_SYMBOLS, (num_rows, LENGTH))
    lengths = rng.integers(1, LENGTH + 1, num_rows)
    if end is not None:
        values = np.where(values == end, (end + 1) % NUM_SYMBOLS, values)
        values[np.arange(0, num_rows, 2), lengths[::2] - 1] = end
    values = np.where(np.arange(LENGTH) < lengths[:, None], values, -1)
    observed = (rng.random(values.shape) < 0.66) | (values == -1)
    observed[4:8] = True
    values[~observed] = 0
    values[1], observed[1] = -1, False
    values[2], observed[2] = -1, True
    return values, observed


def completions(row, seen, num_symbols=NUM_SYMBOLS):
    """All sequences that a row may be."""
    is_known = seen | (row == -1)
    options = [[code] if known else range(num_symbols) for code, known in zip(row.tolist(), is_known, strict=True)]
    return np.array(list(itertools.product(*options)))


@functools.cache
def enumerated(order, end):
    """Log densities of rows under each class, and the expected counts of each row, by enumeration."""
    with jax.enable_x64(True):
        model, (values, observed) = chain(order, end), rows(end)
        likelihood = MarkovLikelihood(Contexts(order, NUM_SYMBOLS, end))
        table, counts = [], []
        for row, seen in zip(values, observed, strict=True):
            every = completions(row, seen)
            padded = np.resize(every, (NUM_SYMBOLS**LENGTH, LENGTH))  # of one shape, which compiles once
            logs = np.asarray(model.log_prob(padded[:, None]))[: len(every)]
            table.append(scipy.special.logsumexp(logs, axis=0))
            shares = np.exp(logs - np.where(np.isneginf(table[-1]), 0.0, table[-1]))
            tells = end is not None or (seen & (row != -1)).any()  # else it has factor 1, and is left out
            counts.append(likelihood.summarize(every, shares * tells, CLASSES).totals[0])
        return np.array(table), np.array(counts)


CASES = {"order 0": (0, None), "order 1": (1, None), "order 2": (2, None), "order 2, end": (2, 1)}
every_case = pytest.mark.parametrize(
    ("order", "end"),
    [pytest.param(*case, id=name, marks=[pytest.mark.slow] * (name != "order 2, end")) for name, case in CASES.items()],
)


def read(order, end):
    with jax.enable_x64(True):
        conditional = read_conditional(chain(order, end), -1)
        return conditional.likelihood, jax.tree.map(np.asarray, conditional.parameters)


@every_case
def test_densities_sum_the_missing_steps_out(order, end):
    (likelihood, parameters), (values, observed) = read(order, end), rows(end)
    expected = enumerated(order, end)[0]
    density = likelihood.density(parameters)
    close(density.log_prob(values, observed), expected, rtol=1e-10, atol=1e-12)
    assert (density.log_prob(values, observed)[1:3] == 0).all()
    with jax.enable_x64(True):
        traced = jax.jit(lambda d, *rows: d.log_prob(*rows))(density, values, observed)
    close(traced, expected, rtol=1e-10, atol=1e-12)


@every_case
def test_likelihoods_and_expected_counts_are_those_of_the_rows(order, end):
    (likelihood, parameters), (values, observed) = read(order, end), rows(end)
    logs, counts = enumerated(order, end)
    rng = np.random.default_rng(5)
    weights, soft = rng.gamma(1.0, 1.0, len(values)), rng.dirichlet(np.ones(CLASSES), len(values))
    codes = np.where(np.isneginf(logs[:, 0]), 2, rng.integers(0, 2, len(values)))
    soft[np.isneginf(logs).any(1)] = [0.0, 0.4, 0.6]
    for classes in (codes, soft):
        of_rows = (np.eye(CLASSES)[classes] if classes.ndim == 1 else classes) * weights[:, None]
        summary = likelihood.summarize(values, classes, CLASSES, weights, observed)
        assert isinstance(summary, CountsAndRows) and not summary.is_complete
        expected = np.where(of_rows > 0, of_rows * np.where(of_rows > 0, logs, 0.0), 0.0).sum(0)
        close(likelihood.log_likelihood(parameters, summary), expected, rtol=1e-10)
        log_likelihood, completed = likelihood.e_step(parameters, summary)
        close(log_likelihood, expected.sum(), rtol=1e-10)
        assert isinstance(completed, Sums)
        expected_counts = np.einsum("nk,nkcr->kcr", of_rows, np.nan_to_num(counts))
        close(completed.totals[0], expected_counts, rtol=1e-9, atol=1e-12)


def test_rows_that_lack_few_steps_take_no_table_each():
    rng, contexts = np.random.default_rng(2), Contexts(3, 10)
    table = np.log(rng.dirichlet(np.full(10, 0.5), (2, contexts.size)))
    values, observed = rng.integers(0, 10, (100, 7)), np.ones((100, 7), bool)
    observed[np.arange(100), rng.integers(0, 3, 100)] = False  # one of any three
    observed[::2, 5] = False
    likelihood, whole = MarkovLikelihood(contexts), np.zeros(100, int)
    summary = likelihood.summarize(values, whole, 2, None, observed)
    assert summary.most == 1 and (summary + summary).select_class(0).most == 1
    few, many = (
        jax.value_and_grad(
            lambda p, most=most: MissingSteps(contexts, most).log_probs(p, values, observed, whole).sum()
        )
        for most in (1, None)
    )
    with jax.enable_x64(True):
        parameters = {"log_probs": jax.numpy.asarray(table)}
        compiled = jax.jit(few).lower(parameters).compile()
        assert compiled.memory_analysis().temp_size_in_bytes < 0.5 * table[0].nbytes * len(values)
        (value, slopes), (expected, of_many) = compiled(parameters), jax.jit(many)(parameters)
        close(value, expected, rtol=1e-12)
        close(slopes["log_probs"], of_many["log_probs"], rtol=1e-9, atol=1e-12)
    for row in range(3):
        every = completions(values[row], observed[row], 10)
        logs = likelihood.density({"log_probs": table}).log_prob(every)
        expected = scipy.special.logsumexp(logs, axis=0)
        close(
            likelihood.density({"log_probs": table}).log_prob(values[row : row + 1], observed[row : row + 1])[0],
            expected,
        )


def test_expected_counts_of_tiny_probabilities_are_not_negative():
    rng, contexts = np.random.default_rng(3), Contexts(1, 5)
    table = rng.dirichlet(np.full(5, 0.5), (1, contexts.size)) ** 30
    table = np.log(table / table.sum(-1, keepdims=True))
    values, observed = rng.integers(0, 5, (200, 9)), rng.random((200, 9)) < 0.5
    likelihood = MarkovLikelihood(contexts)
    summary = likelihood.summarize(values, np.zeros(200, int), 1, None, observed)
    counts = likelihood.e_step({"log_probs": table}, summary)[1].totals[0]
    assert (counts >= 0).all()
    close(counts.sum(), observed.size - 9 * (~observed.any(1)).sum(), rtol=1e-12)


def test_summaries_of_parts_merge_whatever_their_lengths_and_whether_steps_are_missing():
    (likelihood, parameters), (values, observed) = read(1, None), rows()
    codes = np.arange(len(values)) % CLASSES
    values[codes == 0] = np.where(values[codes == 0] == 0, 1, values[codes == 0])  # possible in class 0
    whole = likelihood.summarize(values, codes, CLASSES, None, observed)
    parts = [
        likelihood.summarize(values[4:8], codes[4:8], CLASSES),
        likelihood.summarize(values[:4], codes[:4], CLASSES, None, observed[:4]),
        likelihood.summarize(np.pad(values[8:], ((0, 0), (0, 3)), constant_values=-1), codes[8:], CLASSES, None,
                            np.pad(observed[8:], ((0, 0), (0, 3)), constant_values=True)),
    ]  # fmt: skip
    assert isinstance(parts[0], Sums)
    expected = likelihood.log_likelihood(parameters, whole)
    for order in itertools.permutations(parts):
        merged = functools.reduce(lambda one, other: one + other, order)
        close(likelihood.log_likelihood(parameters, merged), expected, rtol=1e-12)
        close(merged.count, whole.count)
    close(likelihood.log_likelihood(parameters, whole.padded()), expected, rtol=1e-12)
    of_class = {name: array[2] for name, array in parameters.items()}
    close(likelihood.log_likelihood(of_class, whole.select_class(2)), expected[2], rtol=1e-12)
    more = {name: np.insert(array, 1, array[0], 0) for name, array in parameters.items()}
    close(likelihood.log_likelihood(more, whole.with_empty_class(1)), np.insert(expected, 1, 0.0), rtol=1e-12)


def test_a_summary_without_missing_steps_is_one_of_counts():
    (likelihood, _), (values, observed) = read(2, None), rows()
    summary = likelihood.summarize(values[4:8], np.zeros(4, int), 1, None, observed[4:8])
    assert isinstance(summary, Sums)
    close(summary.totals[0].sum(), (values[4:8] >= 0).sum())


def test_missing_steps_of_several_sequences_a_row_are_refused():
    likelihood = MarkovLikelihood(Contexts(1, NUM_SYMBOLS))
    with pytest.raises(DataError, match="site of its own"):
        likelihood.summarize(np.zeros((4, 2, 3), int), np.zeros(4, int), 1, None, np.zeros((4, 2, 3), bool))
