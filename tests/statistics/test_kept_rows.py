"""Rows with hidden structure: what is kept of them, and densities, against sums over what is hidden in plain loops."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from counting import compilations

from bayesgen.statistics import LatentLikelihood, RetainedRows
from bayesgen.statistics import latent as latent_module

CLASSES, KINDS, SYMBOLS = 3, 2, 5
TINY = 1e-12


@dataclasses.dataclass(frozen=True)
class Bags(LatentLikelihood):
    """Sequences all of whose symbols come of one of several dice, and which it was is hidden."""

    def log_probs(self, parameters, values, observed, classes):
        """log sum over dice of p(die) times the product of the probabilities of the symbols."""
        of_dice = jnp.moveaxis(parameters["log_probs"][classes], 1, 2)  # (m, r, dice)
        steps = jnp.take_along_axis(of_dice, jnp.maximum(values, 0)[:, :, None], 1)
        counts = values >= 0 if observed is None else (values >= 0) & observed
        terms = parameters["log_dice"][classes] + jnp.where(counts[:, :, None], steps, 0.0).sum(1)
        return jax.scipy.special.logsumexp(terms, axis=1)


@dataclasses.dataclass(frozen=True)
class Tosses(LatentLikelihood):
    """Numbers about one of two centres for a whole sequence."""

    def log_probs(self, parameters, values, observed, classes):
        """log of the mean over the centres of exp(-sum of squares)."""
        residuals = values[:, :, None] - parameters["centres"][classes][:, None]
        squares = residuals**2 if observed is None else jnp.where(observed[:, :, None], residuals**2, 0.0)
        return jax.scipy.special.logsumexp(-squares.sum(1), axis=1)


@pytest.fixture
def rng():
    return np.random.default_rng(5)


def parameters_of(rng):
    with np.errstate(divide="ignore"):
        probs = rng.dirichlet(np.full(SYMBOLS, 0.5), (CLASSES, KINDS))
        probs[0, 0, 3] = 0.0
        return {"log_dice": np.log(rng.dirichlet(np.ones(KINDS), CLASSES)), "log_probs": np.log(probs)}


def rows_of(rng, size, longest):
    lengths = rng.integers(0, longest + 1, size)
    lengths[0] = longest
    values = rng.integers(0, SYMBOLS, (size, longest))
    return np.where(np.arange(longest) < lengths[:, None], values, -1)


def plain(parameters, row, seen, code):
    """Log density of a row by a loop."""
    return np.log(sum(factor(parameters, row, seen, code, die) for die in range(KINDS)))


def factor(parameters, row, seen, code, die):
    """Probability of a die, and of the symbols that are seen if it is that."""
    probability = np.exp(parameters["log_dice"][code, die])
    for symbol, is_seen in zip(row, seen, strict=True):
        if symbol >= 0 and is_seen:
            probability *= np.exp(parameters["log_probs"][code, die, symbol])
    return probability


def by_class(parameters, rows, seen, shares):
    totals = np.zeros(CLASSES)
    for index, code in itertools.product(range(len(rows)), range(CLASSES)):
        if shares[index, code]:
            totals[code] += shares[index, code] * plain(parameters, rows[index], seen[index], code)
    return totals


def test_likelihoods_and_densities_are_sums_over_what_is_hidden(rng):
    parameters, rows = parameters_of(rng), rows_of(rng, 11, 7)
    seen = (rows < 0) | (rng.random(rows.shape) < 0.7)
    codes, weights = rng.choice([0, 2], 11), rng.gamma(1.0, 1.0, 11)
    shares = rng.dirichlet(np.ones(CLASSES), 11)
    shares[3] = [0.0, 1.0, 0.0]
    likelihood = Bags()
    table = likelihood.density(parameters).log_prob(rows, seen)
    cells = zip(rows, seen, strict=True)
    expected = [[plain(parameters, row, there, k) for k in range(CLASSES)] for row, there in cells]
    np.testing.assert_allclose(table, expected, rtol=1e-12, atol=TINY)
    labelled = likelihood.summarize(rows, codes, CLASSES, weights, seen)
    assert len(labelled.row_of_entry) == 11 and not labelled.is_complete
    of_codes = by_class(parameters, rows, seen, np.eye(CLASSES)[codes] * weights[:, None])
    np.testing.assert_allclose(likelihood.log_likelihood(parameters, labelled), of_codes, rtol=1e-12, atol=TINY)
    in_part = likelihood.summarize(rows, shares, CLASSES, weights, seen)
    assert len(in_part.row_of_entry) == 31  # a row of one class alone has one entry
    of_shares = by_class(parameters, rows, seen, shares * weights[:, None])
    np.testing.assert_allclose(likelihood.log_likelihood(parameters, in_part), of_shares, rtol=1e-12, atol=TINY)
    np.testing.assert_allclose(in_part.count, (shares * weights[:, None]).sum(0), rtol=1e-12, atol=TINY)


def test_one_class_and_all_of_them_pooled(rng):
    parameters, rows = parameters_of(rng), rows_of(rng, 9, 4)
    seen, shares = np.ones(rows.shape, bool), rng.dirichlet(np.ones(CLASSES), 9)
    likelihood, summary = Bags(), Bags().summarize(rows, shares, CLASSES)
    expected = by_class(parameters, rows, seen, shares)
    for code in range(CLASSES):
        of_class = {name: value[code] for name, value in parameters.items()}
        found = likelihood.log_likelihood(of_class, summary.select_class(code))
        np.testing.assert_allclose(found, expected[code], rtol=1e-12, atol=TINY)
    one = {name: value[1:2] for name, value in parameters.items()}
    pooled = summary.pooled()
    assert pooled.num_classes == 1 and len(pooled.row_of_entry) == 9
    total = sum(plain(parameters, row, there, 1) for row, there in zip(rows, seen, strict=True))
    np.testing.assert_allclose(likelihood.log_likelihood(one, pooled), [total], rtol=1e-12, atol=TINY)
    grown = summary.with_empty_class(1)
    assert grown.num_classes == CLASSES + 1
    np.testing.assert_allclose(grown.count, np.insert(summary.count, 1, 0.0))


def test_tables_of_unlike_lengths_merge(rng):
    parameters, parts = parameters_of(rng), [rows_of(rng, 5, 3), rows_of(rng, 4, 7), rows_of(rng, 2, 1)]
    likelihood, codes = Bags(), [rng.integers(0, CLASSES, len(part)) for part in parts]
    masks = [None, rng.random((4, 7)) < 0.5, None]
    pieces = [
        likelihood.summarize(*each, observed=mask)
        for *each, mask in zip(parts, codes, [CLASSES] * 3, masks, strict=True)
    ]
    expected = sum(likelihood.log_likelihood(parameters, piece) for piece in pieces)
    merged = pieces[0] + pieces[1] + pieces[2]
    assert merged.values.shape == (11, 7)
    np.testing.assert_allclose(likelihood.log_likelihood(parameters, merged), expected, rtol=1e-12, atol=TINY)
    np.testing.assert_allclose(likelihood.log_likelihood(parameters, merged.padded()), expected, rtol=1e-12, atol=TINY)


def test_steps_of_numbers_that_are_added_are_not_observed(rng):
    likelihood, parameters = Tosses(), {"centres": rng.normal(size=(CLASSES, 2))}
    short, long = rng.normal(size=(3, 2)), rng.normal(size=(2, 5))
    one, two = (
        likelihood.summarize(short, np.array([0, 1, 1]), CLASSES),
        likelihood.summarize(long, np.zeros(2, int), 3),
    )
    both = one.merge(two)
    assert both.observed.sum() == 16
    separate = likelihood.log_likelihood(parameters, one) + likelihood.log_likelihood(parameters, two)
    np.testing.assert_allclose(likelihood.log_likelihood(parameters, both), separate, rtol=1e-12, atol=TINY)
    columns = both.by_column()
    np.testing.assert_allclose(columns.mean[0, 0], np.append(short[0], long).mean(), rtol=1e-12, atol=TINY)
    np.testing.assert_allclose(
        columns.scatter[1, 0], np.square(short[1:] - short[1:].mean()).sum(), rtol=1e-12, atol=1e-12
    )


def test_gradients_are_expected_counts(rng):
    parameters, rows = parameters_of(rng), rows_of(rng, 6, 5)
    likelihood, codes = Bags(), rng.integers(0, 2, 6)
    summary = likelihood.summarize(rows, codes, CLASSES, np.full(6, 2.0))
    log_likelihood, counts = likelihood.expected_counts(parameters, summary)
    np.testing.assert_allclose(log_likelihood, likelihood.log_likelihood(parameters, summary), rtol=1e-12, atol=TINY)
    expected = np.zeros((CLASSES, KINDS))
    used = np.zeros((CLASSES, KINDS, SYMBOLS))
    for row, code in zip(rows, codes, strict=True):
        factors = np.array([factor(parameters, row, row > -2, code, die) for die in range(KINDS)])
        shares = 2.0 * factors / factors.sum()
        expected[code] += shares
        for symbol in row[row >= 0]:
            used[code, :, symbol] += shares
    np.testing.assert_allclose(counts["log_dice"], expected, rtol=1e-9)
    np.testing.assert_allclose(counts["log_probs"], used, rtol=1e-9, atol=1e-12)


@pytest.mark.slow
def test_chunks_and_traced_rows_give_the_same(rng, monkeypatch):
    parameters, rows = parameters_of(rng), rows_of(rng, 13, 5)
    likelihood, shares = Bags(), rng.dirichlet(np.ones(CLASSES), 13)
    summary = likelihood.summarize(rows, shares, CLASSES)
    whole, counts = likelihood.expected_counts(parameters, summary)
    table = likelihood.density(parameters).log_prob(rows)
    with jax.enable_x64(True):
        arrays = {name: jnp.asarray(value) for name, value in parameters.items()}
        traced = jax.jit(likelihood.log_likelihood)(arrays, summary)
        many = {name: jnp.stack([value, value[::-1]]) for name, value in arrays.items()}
        np.testing.assert_allclose(
            likelihood.log_prob_of_many(many, jnp.asarray(rows))[:, 0], table.T, rtol=1e-12, atol=1e-12
        )
    np.testing.assert_allclose(traced, whole, rtol=1e-12, atol=TINY)
    monkeypatch.setattr(latent_module, "LATENT_CELLS", 24)
    jax.clear_caches()
    in_chunks, counts_in_chunks = likelihood.expected_counts(parameters, summary)
    np.testing.assert_allclose(in_chunks, whole, rtol=1e-12, atol=TINY)
    for name, array in counts.items():
        np.testing.assert_allclose(counts_in_chunks[name], array, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(likelihood.density(parameters).log_prob(rows), table, rtol=1e-12, atol=TINY)
    jax.clear_caches()


def test_data_of_about_the_same_shape_compile_nothing(rng):
    likelihood, parameters = Bags(), parameters_of(rng)

    def work(size, longest):
        rows = rows_of(rng, size, longest)
        summary = likelihood.summarize(rows, rng.integers(0, CLASSES, size), CLASSES)
        likelihood.expected_counts(parameters, summary)
        likelihood.log_likelihood(parameters, summary)
        likelihood.density(parameters).log_prob(rows)

    work(30, 7)
    with compilations() as found:
        work(27, 8)
    assert not found


def test_rows_that_do_not_count_are_not_kept(rng):
    rows = rows_of(rng, 4, 3)
    summary = RetainedRows.from_rows(rows, np.array([0, 1, 1, 0]), 2, np.array([1.0, 0.0, 2.0, 0.0]))
    np.testing.assert_array_equal(summary.values, rows[[0, 2]])
    np.testing.assert_array_equal(summary.count, [1.0, 2.0])
    none = RetainedRows.from_rows(rows[:0], np.zeros(0, int), CLASSES)
    np.testing.assert_array_equal(Bags().log_likelihood(parameters_of(rng), none), np.zeros(CLASSES))
