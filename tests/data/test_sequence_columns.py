"""Columns of sequences: what a cell may be, how rows hold them, and what is refused."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import bayesgen as bg
from bayesgen.data import PADDING, CodedSequences, Padded, Schema, SequenceOf, read_table
from bayesgen.errors import DataError

WORDS = ["cab", "", "a", None, "bb"]
CODES = [[2, 0, 1], [-1, -1, -1], [0, -1, -1], [-1, -1, -1], [1, 1, -1]]
IS_THERE = [[True] * 3, [True] * 3, [True] * 3, [False] * 3, [True] * 3]
LISTS = [None if word is None else list(word) for word in WORDS]


def encoded(cells, kind="sequence", column="word", **declared):
    table = read_table({column: cells}, least_rows=0)
    return Schema(kinds={column: kind}, **declared).resolve(table).encode_cells(table, [column])


def refused(cells, *words, kind="sequence", **declared):
    with pytest.raises(DataError) as caught:
        encoded(cells, kind, **declared)
    for word in words:
        assert word in str(caught.value), caught.value


FORMS = {
    "list of strings": WORDS,
    "array of objects": np.array(WORDS, object),
    "array of str dtype": np.array(WORDS, np.dtypes.StringDType(na_object=None)),
    "lists": LISTS,
    "tuples": [None if cells is None else tuple(cells) for cells in LISTS],
    "arrays": [None if cells is None else np.array(cells, "U1") for cells in LISTS],
    "strings and lists": [WORDS[0], *LISTS[1:4], WORDS[4]],
    "pandas series of strings": pd.Series(WORDS),
    "pandas series of lists": pd.Series(LISTS),
    "pandas string dtype": pd.Series(WORDS, dtype="string"),
    "pandas Arrow lists": pd.Series(LISTS, dtype=pd.ArrowDtype(pa.list_(pa.string()))),
    "polars strings": pl.Series(WORDS),
    "polars lists": pl.Series(LISTS, dtype=pl.List(pl.String)),
    "Arrow strings": pa.chunked_array([WORDS]),
    "Arrow lists": pa.chunked_array([LISTS]),
}


@pytest.mark.parametrize("form", FORMS)
def test_sequences_are_read_alike_in_every_form(form):
    values, observed = encoded(FORMS[form])
    assert values.dtype == np.int64 and values.tolist() == CODES and observed.tolist() == IS_THERE


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"word": WORDS}),
        pl.DataFrame({"word": WORDS}),
        pl.DataFrame({"word": LISTS}),
        pa.table({"word": LISTS}),
    ],
    ids=["pandas", "polars", "polars lists", "Arrow lists"],
)
def test_columns_of_frames_are_read_as_sequences(frame):
    schema = Schema(kinds={"word": "sequence"}).resolve(read_table(frame))
    assert schema.categories == {"word": ("a", "b", "c")} and schema.num_values("word") == 3
    values, _ = schema.encode_cells(read_table(frame), ["word"])
    assert values.tolist() == CODES
    some = read_table(frame).rows(slice(1, 3))
    assert schema.encode_cells(some, ["word"])[0].tolist() == [[-1], [0]]  # as long as the longest of them


def test_padded_arrays_are_read_to_their_ends():
    values, observed = encoded(np.array([[7, 3, 7], [3, -1, -1], [-1, -1, -1]]))
    assert values.tolist() == [[1, 0, 1], [0, -1, -1], [-1, -1, -1]] and observed is None
    padded = Padded(np.array([[7, 3, 7], [3, 5, 5], [-1, 9, 9]]), [3, 1, 1])
    values, observed = encoded(padded)
    assert values.tolist() == [[2, 1, 2], [1, -1, -1], [0, -1, -1]] and observed is None  # of -1, 3 and 7
    values, observed = encoded(np.array([[7, np.nan, 3], [3, -1, -1]]))
    assert values.tolist() == [[1, 0, 0], [0, -1, -1]]
    assert observed.tolist() == [[True, False, True], [True, True, True]]
    values, _ = encoded(np.array([[7, None, 3], [3, -1, -1]], object))
    assert values.tolist() == [[1, 0, 0], [0, -1, -1]]
    refused(np.array([[1, 2], [-1, 2]]), "'word' has -1 at row 1, step 0", "Padded(values, lengths)")


def test_integers_of_padded_arrays_are_codes_where_the_symbols_are_none():
    simulated = np.array([[2, 0, 1], [0, -1, -1]])
    values, observed = encoded(simulated, categories={"word": ["a", "b", "c"]})
    assert values.tolist() == simulated.tolist() and observed is None
    refused(np.array([[0, 3]]), "'word' has 3 at row 0, step 1", "0 to 2", categories={"word": ["a", "b", "c"]})
    with_end = np.array([[2, 3, -1], [0, 1, 2], [3, -1, -1]])
    values, observed = encoded(with_end, SequenceOf(end=True), categories={"word": ["a", "b", "c"]})
    assert values.tolist() == with_end.tolist() and observed is None  # the second is a prefix
    broken = np.array([[2, 0], [3, 0]])
    refused(
        broken,
        "'word' has 3, the code of the end, at row 1, step 0",
        kind=SequenceOf(end=True),
        categories={"word": ["a", "b", "c"]},
    )


SIGNED = [[0, 1, -1], [1, 0, 1], [-1, -1, 1]]
SIGNED_FORMS = {
    "lists": SIGNED,
    "tuples": tuple(map(tuple, SIGNED)),
    "arrays": list(map(np.array, SIGNED)),
    "array of objects": pd.Series(SIGNED).to_numpy(),
    "lengths": Padded(np.array(SIGNED), [3, 3, 3]),
    "pandas": pd.Series(SIGNED),
    "polars": pl.Series(SIGNED),
    "polars arrays": pl.Series(SIGNED, dtype=pl.Array(pl.Int64, 3)),
    "codes": CodedSequences([[1, 2, 0], [2, 1, 2], [0, 0, 2]]),
}


@pytest.mark.parametrize("form", SIGNED_FORMS)
def test_an_alphabet_may_hold_what_pads_arrays(form):
    values, observed = encoded(SIGNED_FORMS[form], categories={"word": [-1, 0, 1]})
    assert values.tolist() == [[1, 2, 0], [2, 1, 2], [0, 0, 2]] and observed is None
    for one in range(3):
        if not isinstance(SIGNED_FORMS[form], Padded):
            row = encoded(SIGNED_FORMS[form][one : one + 1], categories={"word": [-1, 0, 1]})[0]
            assert row.tolist() == [values[one].tolist()]
    if form != "codes":
        assert encoded(SIGNED_FORMS[form])[0].tolist() == values.tolist()
    refused(
        np.array(SIGNED[:2]),
        "-1 at row 0, step 2",
        "is one of its symbols",
        "Give lists",
        categories={"word": [-1, 0, 1]},
    )


def test_lists_of_one_length_are_symbols_as_those_of_several_are():
    values, _ = encoded([[("a", 1), ("b", 2)], [("a", 1), ("c", 3)]])
    assert values.tolist() == [[0, 1], [0, 2]]
    for cells in ([[0, 1], [1, 0]], [[0, 1], [1]], pd.Series([[0, 1], [1, 0]]), [np.array([0, 1]), np.array([1, 0])]):
        refused(cells, "0, 1 (first at row 0, step 0)", "'a', 'b'", "array", categories={"word": ["a", "b"]})
    values, observed = encoded([["a", None], ["b", "a"]])
    assert values.tolist() == [[0, 0], [1, 0]] and observed.tolist() == [[True, False], [True, True]]
    values, _ = encoded(Padded([[0, 1], [1, 9]], [2, 1]), categories={"word": ["a", "b"]})
    assert values.tolist() == [[0, 1], [1, -1]]


@pytest.mark.parametrize("end", [False, True])
@pytest.mark.parametrize("symbols", [(1, 2, 3), (1, 0), (True, False), (-1, 0, 1), (0.5, 1), "ab"])
def test_codes_that_say_so_are_codes_of_any_alphabet(symbols, end):
    codes = CodedSequences([[1, 0, 1], [0, -1, -1]])
    for cells in (codes, pickle.loads(pickle.dumps(codes)), np.concatenate([codes[:1], codes[1:]])):
        values, _ = encoded(cells, SequenceOf(end=end), categories={"word": list(symbols)})
        assert values.tolist() == codes.tolist()
    refused(codes + 5, "6 at row 0, step 0", f"0 to {len(symbols) - 1 + end}", kind=SequenceOf(end=end),
            categories={"word": list(symbols)})  # fmt: skip
    refused(codes, "do not tell their alphabet", "fit.schema.decode('word', codes)")


def test_the_end_is_one_more_symbol_after_every_sequence():
    values, observed = encoded(WORDS, SequenceOf(end=True))
    assert values.tolist() == [[2, 0, 1, 3], [3, -1, -1, -1], [0, 3, -1, -1], [-1] * 4, [1, 1, 3, -1]]
    assert observed.tolist() == [[True] * 4] * 3 + [[False] * 4] + [[True] * 4]
    schema = Schema(kinds={"word": SequenceOf(end=True)}).resolve(read_table({"word": WORDS}))
    assert len(schema.categories["word"]) == 3 and schema.num_values("word") == 4


def test_missing_steps_are_not_observed_and_what_is_past_the_end_is():
    values, observed = encoded([["b", None], [float("nan")], ["a", "a", None, "b"], [None, None, None]])
    assert values.tolist() == [[1, 0, -1, -1], [0, -1, -1, -1], [0, 0, 0, 1], [0, 0, 0, -1]]
    t, f = True, False
    assert observed.tolist() == [[t, f, t, t], [f, t, t, t], [t, t, f, t], [f, f, f, t]]


def test_symbols_may_be_any_values_that_can_be_sorted_or_are_declared():
    values, _ = encoded([[(1, 2), (1,)], [(1,)], []])
    assert values.tolist() == [[1, 0], [0, -1], [-1, -1]]
    values, _ = encoded([[True], [False, True]])
    assert values.tolist() == [[1, -1], [0, 1]]
    values, _ = encoded([range(3), [2]], categories={"word": [2, 1, 0, "none"]})
    assert values.tolist() == [[2, 1, 0], [0, -1, -1]]
    values, _ = encoded(["\U0001f600é", "é"], categories={"word": ["é", "\U0001f600"]})
    assert values.tolist() == [[1, 0], [0, -1]]
    refused([["a", 1]], "no common order", "'a'")
    refused([[["a"]], [["b"], ["c"]]], "'word'", "hash")


def test_an_alphabet_of_one_symbol_and_sequences_without_steps():
    assert encoded([], categories={"word": ["a"]})[0].shape == (0, 1)
    assert encoded(["aa", "a"])[0].tolist() == [[0, 0], [0, -1]]
    values, observed = encoded(["", None], categories={"word": ["a"]})
    assert values.tolist() == [[-1], [-1]] and observed.tolist() == [[True], [False]]
    refused(["", None], "'word' has no symbol", "categories={'word': [...]}")


def test_unknown_symbols_are_refused_by_row_and_step_or_missing():
    schema = Schema(kinds={"word": "sequence"}).resolve(read_table({"word": ["ab", "c"]}))
    table = read_table({"word": ["a", "cazz", "x"]})
    with pytest.raises(DataError, match=r"'word' has 'z', 'x' \(first at row 1, step 2\).*'a', 'b', 'c'.*'missing'"):
        schema.encode_cells(table, ["word"])
    lenient = Schema(kinds={"word": "sequence"}, unknown="missing").resolve(read_table({"word": ["ab", "c"]}))
    values, observed = lenient.encode_cells(table, ["word"])
    assert values.tolist() == [[0, -1, -1, -1], [2, 0, 0, 0], [0, -1, -1, -1]]
    assert (~observed).nonzero() == (pytest.approx([1, 1, 2]), pytest.approx([2, 3, 0]))
    assert table.unknown_cells == {"word": 3}
    lists = read_table({"word": [["a", "y"], ["b"]]})
    with pytest.raises(DataError, match=r"'word' has 'y' \(first at row 0, step 1\)"):
        schema.encode_cells(lists, ["word"])


@pytest.mark.parametrize(
    ("kind", "cells"),
    [
        ("real", [[0.5, -2], [], None, [3, None, float("nan"), 1]]),
        ("count", [[7, 0], [], None, [3, None, float("nan"), 1]]),
        ("binary", [[True, False], [], None, [1, None, float("nan"), 0]]),
    ],
)
def test_numbers_are_padded_by_zeros_that_nobody_observes(kind, cells):
    values, observed = encoded(cells, SequenceOf(kind))
    assert values.shape == observed.shape == (4, 4, 1) and values.dtype == np.float64
    t, f = True, False
    assert observed[..., 0].tolist() == [[t, t, f, f], [f] * 4, [f] * 4, [t, f, f, t]]
    assert values[..., 0].tolist() == [
        [*map(float, cells[0]), 0, 0],
        [0] * 4,
        [0] * 4,
        [float(cells[3][0]), 0, 0, float(cells[3][3])],
    ]
    assert not values[~observed].any()


def test_numbers_are_read_from_arrays():
    array = np.array([[0.5, -1.0, 2.0], [1.5, np.nan, np.nan]])
    for cells in (array, Padded(np.nan_to_num(array, nan=9.0), [3, 1]), np.ma.masked_invalid(array)):
        values, observed = encoded(cells, SequenceOf("real"))
        assert values[..., 0].tolist() == [[0.5, -1, 2], [1.5, 0, 0]]
        assert observed[..., 0].tolist() == [[True] * 3, [True, False, False]]
    values, observed = encoded(np.arange(6.0).reshape(2, 3), SequenceOf("real"))
    assert observed is None and values.shape == (2, 3, 1)
    refused([[1.0], [2.0, "x"]], "'word' is real, and has 'x' at row 1, step 1", kind=SequenceOf("real"))
    declare = "Schema(kinds={'word': SequenceOf(steps='real', end=False)})"
    refused([[1], [2, 0.5]], "'word' is count, and has 0.5 at row 1, step 1", declare, kind=SequenceOf("count"))
    refused([[1.0, np.inf]], "no finite number", kind=SequenceOf("real"))
    refused(["ab"], "'word' is of sequences of real steps", "row 0, step 0", kind=SequenceOf("real"))


def test_columns_of_one_block_have_steps_that_go_together():
    walk = {"x": [[1.0, 2.0], [3.0], None], "y": [[1.0, None], [3.0], [4.0, 5.0, 6.0]]}
    schema = Schema(kinds=dict.fromkeys("xy", SequenceOf("real"))).resolve(read_table(walk))
    values, observed = schema.encode_cells(read_table(walk), ["x", "y"])
    assert values.shape == (3, 3, 2)
    assert observed.sum(1).tolist() == [[2, 1], [1, 1], [0, 3]]
    apart = walk | {"y": [[1.0, None], [3.0, 1.0], None]}
    with pytest.raises(DataError, match="Column 'x' has 1 steps at row 1, and column 'y' has 2"):
        schema.encode_cells(read_table(apart), ["x", "y"])


def test_lists_that_nothing_declares_are_refused_with_the_remedy():
    for X in ({"w": [["a"], ["b", "c"]]}, pl.DataFrame({"w": [["a"]]}), {"w": Padded([[1, 2]], [1])}):
        with pytest.raises(DataError, match=r"'w' holds lists.*Schema\(kinds=\{'w': 'sequence'\}\)"):
            bg.fit(bg.NaiveBayes(), X, ["y"] * len(X["w"]), method=bg.MLE(), schema=Schema(classes=["y", "n"]))
    for X in (pd.DataFrame({"w": [["a"], ["b", "c"]]}), {"w": np.array([["a"], ["b", "c"]], object)}):
        with pytest.raises(DataError, match=r"'w' holds lists.*'sequence'"):
            Schema.infer(X)
        with pytest.raises(DataError, match=r"'w'.*hashing.*'sequence'"):
            Schema.infer(X, kinds={"w": "categorical"})
    with pytest.raises(DataError, match=r"'w' has shape \(2, 2\).*\{'w': 'sequence'\}"):
        Schema.infer({"w": [["a", "b"], ["c", "b"]]}).encode_cells(read_table({"w": [["a", "b"], ["c", "b"]]}), ["w"])


def test_cells_that_are_no_sequences_are_refused_by_row():
    refused([["a"], 5], "'word' is of sequences, and has 5 at row 1")
    refused([["a"], {"b"}], "row 1")
    refused([1.5, 2.5], "'word' is of sequences, and has 1.5 at row 0")
    refused([np.zeros((2, 2)), np.zeros(3)], "shape (2, 2) at row 0", "column of its own")
    refused(np.zeros((2, 3, 4)), "(2, 3, 4)", "column of its own")


def test_declarations_that_do_not_fit_are_refused():
    with pytest.raises(DataError, match="steps must be one of"):
        SequenceOf("text")
    with pytest.raises(DataError, match="end=True is one more symbol"):
        SequenceOf("real", end=True)
    with pytest.raises(DataError, match=r"lengths are whole numbers from 0 to 2, got 3"):
        Padded(np.zeros((1, 2)), [3])
    with pytest.raises(DataError, match="1 rows need 1 lengths"):
        Padded(np.zeros((1, 2)), [1, 2])
    for values, lengths in (([[1, 2], [3]], [2, 1]), ([[1, 2]], [2, [1]])):
        with pytest.raises(DataError, match="Padded: values are rows of one length"):
            Padded(values, lengths)
    refused([[1.0]], "has categories, and is sequence", kind=SequenceOf("real"), categories={"word": [1.0]})
    with pytest.raises(DataError, match="'b' is given the kind 'sequences'"):
        Schema(kinds={"b": "sequences"})


def test_what_is_encoded_is_decoded():
    words = ["cab", "", "a"]
    for kind, cells in (
        (SequenceOf(), words),
        (SequenceOf(end=True), words),
        (SequenceOf(), [[(1, 2)], [(1,), (1, 2)]]),
    ):
        schema = Schema(kinds={"word": kind}).resolve(read_table({"word": cells}))
        assert schema.decode("word", schema.encode_cells(read_table({"word": cells}), ["word"])[0]) == cells
    numbers = Schema(kinds={"walk": SequenceOf("real")}).resolve(read_table({"walk": [[1.0]]}))
    decoded = numbers.decode("walk", np.array([[1.0, np.nan, 2.0], [np.nan] * 3, [3.0, np.nan, np.nan]]))
    assert [row.tolist() for row in decoded][1:] == [[], [3.0]] and len(decoded[0]) == 3
    mixed = Schema.infer({"sky": ["grey", "blue"], "windy": [True, False], "size": [1.0, 2.0]})
    assert mixed.decode("sky", [1, 0]).tolist() == ["grey", "blue"]
    assert mixed.decode("windy", [1.0, 0.0]).tolist() == [True, False] and mixed.decode("size", [0.5]).tolist() == [0.5]
    with pytest.raises(DataError, match="'skye'"):
        mixed.decode("skye", [1])


@pytest.mark.parametrize("wrong", [-1, 2, 0.5, np.nan])
def test_codes_of_no_category_are_not_decoded(wrong):
    columns = {"sky": ["grey", "blue"], "windy": [True, False], "visits": [3, 4], "word": ["ab", "b"]}
    schema = Schema.infer(columns, kinds={"word": "sequence", "visits": "count"})
    with pytest.raises(DataError, match=f"'windy': {wrong} in row 1 is not True or False"):
        schema.decode("windy", [0, wrong])
    if wrong != 2:
        with pytest.raises(DataError, match=f"'visits': {wrong} in row 1 is not a whole number"):
            schema.decode("visits", [0, wrong])
    with pytest.raises(DataError, match=f"'sky': {wrong} in row 1, is no code: they are 0 to 1"):
        schema.decode("sky", [0, wrong])
    if wrong != -1:
        with pytest.raises(DataError, match=f"'word': {wrong} in row 0, step 1, is no code: they are 0 to 1, and -1"):
            schema.decode("word", [[0, wrong]])


def test_prefixes_are_not_decoded_as_whole_sequences():
    schema = Schema(kinds={"word": SequenceOf(end=True)}, categories={"word": ["a", "b"]}).resolve(
        read_table({"word": ["ab"]})
    )
    codes = np.array([[0, 2, -1], [2, -1, -1], [0, 1, 1]])
    assert schema.decode("word", codes[:2]) == ["a", ""]
    with pytest.raises(DataError, match=r"'word': row 2 has no end, 2.*max_length.*codes\[\(codes == 2\).any\(1\)\]"):
        schema.decode("word", codes)
    assert schema.decode("word", codes[(codes == 2).any(1)]) == ["a", ""]
    for wrong in (3, -2):
        with pytest.raises(DataError, match=f"'word': {wrong} in row 0, step 1, is no code: they are 0 to 2"):
            schema.decode("word", [[0, wrong, 2]])


def test_long_sequences_are_read_by_few_rows_at_a_time():
    schema = Schema(kinds={"word": "sequence"}, categories={"word": ["a", "b"]})
    for cells in (["ab" * 3000] * 3000, np.zeros((3000, 6000), np.int8), [list("ab")] * 3000):
        table = read_table({"word": cells})
        slices = schema.resolve(table).row_chunks(table)
        assert max(part.stop - part.start for part in slices) * len(cells[0]) < 1 << 23
        assert [part.start for part in slices][1:] == [part.stop for part in slices][:-1]
        assert slices[-1].stop == 3000 and (len(slices) > 2) == (len(cells[0]) > 2)


def test_padding_is_what_programs_take():
    assert PADDING == -1 and bg.SequenceOf is SequenceOf and bg.Padded is Padded
