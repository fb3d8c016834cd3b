"""Chunks cover rows once and in order; what is padded leaves no trace in what comes back."""

import jax
import numpy as np
import pytest
import scipy.sparse

from bayesgen.runtime import chunking
from bayesgen.runtime.chunking import (
    chunks,
    even_chunks,
    in_batches,
    least_rows,
    over_chunks,
    pad,
    padded_size,
    table_chunks,
)

CUTS = {
    "chunks": lambda n: chunks(n, 7),
    "table": lambda n: table_chunks(n, 3.0),
    "even": lambda n: even_chunks(n, 10),
}


@pytest.mark.parametrize("num_rows", [0, 1, 6, 7, 8, 63, 64, 65, 1000])
@pytest.mark.parametrize("cut", CUTS)
def test_chunks_cover_the_rows_once_and_in_order(cut, num_rows, monkeypatch):
    monkeypatch.setattr(chunking, "TABLE_CELLS", 30)
    monkeypatch.setattr(chunking, "LEAST_ROWS", 4)
    parts = CUTS[cut](num_rows)
    assert [row for part in parts for row in range(num_rows)[part]] == list(range(num_rows))
    sizes = [part.stop - part.start for part in parts]
    assert all(0 < size <= 10 for size in sizes)
    if cut == "even" and sizes:
        assert max(sizes) - min(sizes) <= len(sizes)
    if cut == "table" and len(sizes) > 1:
        assert set(sizes[:-1]) == {8}


@pytest.mark.parametrize("num_chains, length", [(1, 997), (1, 1000), (3, 500), (4, 251), (1, 5), (64, 249), (300, 7)])
def test_batches_are_of_successive_draws_of_one_chain(num_chains, length):
    chain, draw = np.indices((num_chains, length))
    batches = in_batches({"chain": chain, "draw": np.stack([draw, -draw], -1)})
    assert (np.ptp(batches["chain"], axis=1) == 0).all()
    assert (np.diff(batches["draw"][..., 0], axis=1) == 1).all() and batches["draw"].shape[2] == 2
    count, size = batches["chain"].shape
    used = set(zip(batches["chain"].ravel(), batches["draw"][..., 0].ravel(), strict=True))
    assert len(used) == count * size > 0.9 * num_chains * length
    assert min(67, num_chains * length) <= count <= max(200, num_chains)


@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 5, 6, 7, 48, 49, 64, 65, 97, 1025])
def test_sizes_that_are_compiled_are_few_and_little_larger(size):
    padded = padded_size(size)
    assert size <= padded <= max(4, 1.5 * size) and padded_size(padded) == padded
    assert bin(padded).count("1") <= 2


def test_padding_repeats_the_first_row_or_ones():
    assert pad(np.array([[3, 4], [5, 6]]), 4).tolist() == [[3, 4], [5, 6], [3, 4], [3, 4]]
    assert pad(np.zeros((0, 2)), 2).tolist() == [[1.0, 1.0], [1.0, 1.0]]


@pytest.mark.parametrize(("least", "sizes"), [(8, {8, 12, 16}), (12, {12, 16}), (16, {16}), (64, {16})])
@pytest.mark.parametrize("num_rows", [0, 1, 5, 16, 37])
def test_a_function_sees_padded_chunks_and_its_result_does_not(num_rows, least, sizes):
    rng = np.random.default_rng(num_rows)
    rows = {"a": rng.normal(size=(num_rows, 2)), "b": scipy.sparse.csr_array(rng.poisson(1.0, (num_rows, 3)))}
    shapes = set()

    def function(part):
        shapes.add(len(part["a"]))
        return {"sum": part["a"].sum(1) + part["b"].sum(1), "a": part["a"]}

    found = over_chunks(function, rows, num_rows, 16, least=least)
    np.testing.assert_allclose(found["sum"], rows["a"].sum(1) + rows["b"].toarray().sum(1))
    np.testing.assert_array_equal(found["a"], rows["a"])
    assert shapes <= sizes
    assert jax.tree.structure(found) == jax.tree.structure({"sum": 0, "a": 0})


def test_few_rows_are_compiled_for_as_many_as_stay_in_the_fast_cache():
    assert [least_rows(cells) for cells in (0.0, 512.0, 1000.0, 1e9)] == [64, 64, 32, 8]
