"""Blocks of columns that are refused."""

import pytest

import bayesgen as bg


@pytest.mark.parametrize(
    ("blocks", "match"),
    [
        ([("one", ["a", "b"]), ("two", ["b"])], "Column 'b' is in blocks 'one' and 'two'.*count twice"),
        ([("one", ["a", "b", "a"])], "Column 'a' is twice in block 'one'.*count twice"),
    ],
)
def test_a_column_that_would_count_twice_is_refused(blocks, match):
    with pytest.raises(bg.ModelError, match=match):
        bg.GenerativeClassifier([(name, bg.NormalInverseGamma(), columns) for name, columns in blocks])
