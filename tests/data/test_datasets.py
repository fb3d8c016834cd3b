"""Data sets by name and from files, what is refused, and how they are split."""

import gzip
import tarfile
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn import datasets as sklearn_datasets

import bayesgen as bg
from bayesgen import BayesgenWarning, DataError
from bayesgen.data import files
from bayesgen.data.datasets import load_dataset

TABLE = pd.DataFrame(
    {
        "length": [1.5, 2.5, 3.0, 4.25, 5.0, 6.0],
        "open": [True, False, True, True, False, False],
        "colour": ["red", "blue", "-", "red", "blue", "red"],
        "kind": ["b", "a", "b", "a", "b", "a"],
    }
)


def write_csv(path):
    TABLE.to_csv(path, index=False)


def write_tsv(path):
    TABLE.to_csv(path, index=False, sep="\t")


def write_parquet(path):
    pytest.importorskip("pyarrow")
    TABLE.to_parquet(path)


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("t.csv", write_csv),
        ("t.CSV.gz", write_csv),
        ("t.csv.gz", write_csv),
        ("t", write_csv),
        ("t.tsv", write_tsv),
        ("t.tsv.gz", write_tsv),
        ("t.parquet", write_parquet),
    ],
)
def test_a_file_gives_the_table_that_was_written(tmp_path, name, write):
    path = tmp_path / name
    write(path)
    dataset = load_dataset(path)
    assert dataset.y.name == "kind"
    assert dataset.y.tolist() == TABLE.kind.tolist()
    assert dataset.X.columns.tolist() == ["length", "open", "colour"]
    assert dataset.X.dtypes["length"].kind == "f"
    assert dataset.X.dtypes["open"].kind == "b"
    assert dataset.X.colour.tolist() == TABLE.colour.tolist()  # "-" is a value like any other
    assert not dataset.all_real


def test_a_target_is_taken_by_name_wherever_it_stands(tmp_path):
    write_csv(tmp_path / "t.csv")
    dataset = load_dataset(tmp_path / "t.csv", target="colour")
    assert dataset.y.tolist() == TABLE.colour.tolist()
    assert dataset.X.columns.tolist() == ["length", "open", "kind"]


@pytest.mark.parametrize(
    ("name", "shape", "classes"),
    [
        ("iris", (150, 4), {"setosa", "versicolor", "virginica"}),
        ("wine", (178, 13), {"class_0", "class_1", "class_2"}),
        ("breast_cancer", (569, 30), {"malignant", "benign"}),
    ],
)
def test_sets_of_scikit_learn_have_class_and_column_names(name, shape, classes):
    dataset = load_dataset(name)
    bunch = getattr(sklearn_datasets, f"load_{name}")()
    assert dataset.X.shape == shape
    assert dataset.all_real
    assert set(dataset.y) == classes
    assert dataset.X.columns.tolist() == list(bunch.feature_names)
    np.testing.assert_array_equal(dataset.X, bunch.data)
    assert dataset.y.tolist() == bunch.target_names[bunch.target].tolist()


def test_diabetes_has_a_number_to_predict_and_columns_in_their_own_units():
    dataset = load_dataset("diabetes")
    assert dataset.X.shape == (442, 10) and dataset.all_real and dataset.y.nunique() == 214
    assert 18 < dataset.X.age.min() < dataset.X.age.max() < 80
    np.testing.assert_allclose(np.corrcoef(dataset.X.bmi, dataset.y)[0, 1], 0.5865, atol=1e-4)
    with pytest.raises(DataError, match="one row only"):
        dataset.split()


def test_digits_are_counts_in_a_sparse_matrix():
    dataset = load_dataset("digits")
    bunch = sklearn_datasets.load_digits()
    assert sparse.issparse(dataset.X)
    np.testing.assert_array_equal(dataset.X.toarray(), bunch.data)
    np.testing.assert_array_equal(dataset.y, bunch.target)
    split = dataset.split(seed=3)
    np.testing.assert_array_equal(split.X_test.toarray(), bunch.data[split.y_test.index])
    assert not dataset.all_real
    with pytest.raises(DataError, match=r"digits has no column 'pixel'.*'target'"):
        load_dataset("digits", target="pixel")


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("empty.csv", "", r"empty\.csv is empty"),
        ("head.csv", "a,b,c\n", r"head\.csv has no rows"),
        ("one.csv", "a\n1\n", r"one column only, 'a'.*separated otherwise"),
        ("semicolons.csv", "a;b\n1,5;2\n", r"one column, 'a;b'.*--separator ';'.*--decimal ','"),
        ("tabs.csv", "a\tb\n1\t2\n", r"one column.*separator='\\t'"),
        ("not.csv.gz", "a,b\n1,2\n", r"not\.csv\.gz cannot be read"),
        ("cut.csv.gz", gzip.compress(b"a,b\n" + b"1,2\n" * 999, mtime=0)[:30], r"cut\.csv\.gz cannot be read"),
        ("not.parquet", "a,b\n1,2\n", r"not\.parquet cannot be read"),
        ("latin.csv", "a,b\nm\xfcd,1\n".encode("latin-1"), r"latin\.csv cannot be read"),
        ("null.csv", "a,b\nx,1\nx\0,1\n", r"null\.csv cannot be read.*U\+0000"),
        ("null.csv.gz", gzip.compress(b"a,b\nx,1\nx\0,1\n"), r"null\.csv\.gz cannot be read.*U\+0000"),
        ("ragged.csv", "a,b\n1,2\n1,2,3,4\n", r"ragged\.csv cannot be read"),
        ("wide.csv", "a,b\n1,2,3\n4,5,6\n", r"wide\.csv cannot be read"),
        ("holes.csv", "a,b\n1,\n2,\n3,\n4,\n", r"Target 'b' is missing in all 4 rows"),
    ],
)
def test_what_cannot_be_read_is_refused_by_name(tmp_path, name, content, message):
    with pytest.raises(DataError, match=message):
        load_dataset(write(tmp_path / name, content))


def test_archives_have_null_characters_of_their_own(tmp_path):
    write(tmp_path / "t.csv", "a,b\n1,x\n2,y\n")
    with tarfile.open(tmp_path / "t.csv.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "t.csv", "t.csv")
    assert load_dataset(tmp_path / "t.csv.tar.gz").X.a.tolist() == [1, 2]


def write_repeated_parquet(path):
    pytest.importorskip("pyarrow")
    from pyarrow import parquet, table

    parquet.write_table(table([[1, 2], [3, 4], ["a", "b"]], names=["y", "y", "kind"]), path)


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.csv.gz", "t.parquet"])
def test_two_columns_of_one_name_are_refused_by_name(tmp_path, name):
    path = tmp_path / name
    if name == "t.parquet":
        write_repeated_parquet(path)
    else:
        table = pd.DataFrame([[1, 3, "a", 0, 0], [2, 4, "b", 0, 0]], columns=["y", "y", "kind", "", ""])
        table.to_csv(path, index=False, sep="\t" if name == "t.tsv" else ",")
    with pytest.raises(DataError, match=r"several columns called 'y'\. Rename or drop"):
        load_dataset(path)


def test_a_file_that_is_not_there_and_a_folder_are_refused(tmp_path):
    with pytest.raises(
        DataError, match=r"no file 'irs'\. Did you mean iris\?.*iris, wine, breast_cancer, diabetes, digits"
    ):
        load_dataset("irs")
    with pytest.raises(DataError, match="cannot be read"):
        load_dataset(tmp_path)


def test_a_warning_names_few_of_many_columns(tmp_path):
    frame = pd.DataFrame({f"vote {number}": ["y", "n", "?"] for number in range(7)} | {"party": ["a", "b", "a"]})
    frame.to_csv(tmp_path / "t.csv", index=False)
    with pytest.warns(BayesgenWarning, match=r"in 'vote 0' \(1 cells\).*'vote 4' \(1 cells\) and 2 more\. Where"):
        load_dataset(tmp_path / "t.csv")


def test_a_target_that_is_not_there_is_refused_with_the_columns(tmp_path):
    write_csv(tmp_path / "t.csv")
    with pytest.raises(DataError, match=r"no column 'color'.*Did you mean 'colour'\?.*'length', 'open', 'colour'"):
        load_dataset(tmp_path / "t.csv", target="color")


def test_parquet_without_pyarrow_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "find_spec", lambda name: None)
    with pytest.raises(DataError, match="pip install pyarrow"):
        load_dataset(write(tmp_path / "t.parquet", "x"))


def test_numbers_among_question_marks_are_categories_with_a_warning(tmp_path):
    path = write(tmp_path / "t.csv", "age,colour,kind\n1.5,?,a\n?,red,b\n2.5,red,a\n?,blue,b\n")
    with pytest.warns(BayesgenWarning) as caught:
        dataset = load_dataset(path)
    numbers, texts = (str(warning.message) for warning in caught)
    assert "'age' ('?' in 2 cells)" in numbers and "--missing" in numbers and "colour" not in numbers
    assert "'colour' (1 cells)" in texts and "--missing '?'" in texts and "age" not in texts
    assert dataset.X.age.tolist() == ["1.5", "?", "2.5", "?"]


@pytest.mark.parametrize(("suffix", "separator"), [(".csv", ","), (".tsv", "\t")])
def test_columns_of_texts_stay_as_they_are_written(tmp_path, suffix, separator):
    path = tmp_path / f"codes{suffix}"
    rows = ["code flag size kind", "007 true 1 a", "10 false 2 b", "? ? 3 a", " true 4 b"]
    path.write_text("\n".join(row.replace(" ", separator) for row in rows))
    X = load_dataset(path, texts=["code", "flag"]).X  # without a warning that "?" may mark what is missing
    assert X.code.tolist()[:3] == ["007", "10", "?"] and X.code.isna().tolist() == [False] * 3 + [True]
    assert X.flag.tolist() == ["true", "false", "?", "true"]
    assert X["size"].tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("suffix", ["csv", "tsv", "parquet"])
def test_marks_of_missing_cells_besides_empty_ones(tmp_path, suffix):
    frame = pd.DataFrame({"age": ["1.5", "?", "2.5", None], "colour": ["-", "red", "?", "red"], "kind": list("abab")})
    path = tmp_path / f"t.{suffix}"
    if suffix == "parquet":
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False, sep="\t" if suffix == "tsv" else ",")
    dataset = load_dataset(path, missing=["?", "-"])
    assert dataset.X.isna().to_numpy().tolist() == [[False, True], [True, False], [False, True], [True, False]]
    assert dataset.X.colour.dropna().tolist() == ["red", "red"]
    if suffix != "parquet":  # whose columns have types of their own
        assert dataset.X.age.dropna().tolist() == [1.5, 2.5]
        assert dataset.declared.categories == {"colour": ("red",)}
    assert load_dataset(path, missing=["?", "b"]).y.isna().tolist() == [False, True, False, True]


def test_rows_without_labels_are_learned_from_and_not_tested_on(tmp_path):
    lines = ["a,kind"] + [f"{row},{row % 2 + 1 if row % 3 else ''}" for row in range(30)]
    dataset = load_dataset(write(tmp_path / "t.csv", "\n".join(lines)))
    assert dataset.declared.classes == (1, 2) and dataset.y.isna().sum() == 10
    for split in (dataset.split(test_size=0.25, seed=1), dataset.split_per_class(3)):
        assert not split.y_test.isna().any() and split.y_train.isna().sum() == 10
        assert sorted([*split.y_train.index, *split.y_test.index]) == list(range(30))
        assert split.X_train.index.tolist() == split.y_train.index.tolist() == sorted(split.y_train.index)
    assert dataset.split_per_class(3).y_train.value_counts().tolist() == [3, 3]


def test_columns_are_left_out_by_name():
    dataset = load_dataset("diabetes")
    fewer = dataset.without(["bmi", "age"])
    assert fewer.X.columns.tolist() == [name for name in dataset.X.columns if name not in ("bmi", "age")]
    assert fewer.y is dataset.y and dataset.without([]) is dataset
    with pytest.raises(DataError, match=r"diabetes has no column 'bmj' to leave out\. Did you mean 'bmi'\?"):
        dataset.without(["bmj"])
    with pytest.raises(DataError, match=r"diabetes has no column left.*--keep"):
        dataset.without(dataset.X.columns)
    with pytest.raises(DataError, match="digits has no column 'x3' to leave out"):
        load_dataset("digits").without(["x3"])


def test_a_split_keeps_classes_in_proportion_and_depends_on_the_seed_only():
    dataset = load_dataset("iris")
    split = dataset.split(test_size=0.2, seed=1)
    assert split.y_test.value_counts().tolist() == [10, 10, 10]
    assert set(split.y_test.index) | set(split.y_train.index) == set(range(150))
    assert split.X_test.index.equals(split.y_test.index)
    assert split.X_train.index.equals(split.y_train.index)
    assert dataset.split(test_size=0.2, seed=1).y_test.index.equals(split.y_test.index)
    assert not dataset.split(test_size=0.2, seed=2).y_test.index.equals(split.y_test.index)


def test_a_split_of_numbers_is_one_of_rows(tmp_path):
    dataset = load_dataset("diabetes")
    split = dataset.split(test_size=0.25, seed=3, by_class=False)
    assert len(split.y_test) == 111 and len(split.y_train) == 331
    assert sorted([*split.y_train.index, *split.y_test.index]) == list(range(442))
    assert dataset.split(test_size=0.25, seed=3, by_class=False).y_test.index.equals(split.y_test.index)
    lines = ["x,y"] + [f"{row},{row / 7 if row % 3 else ''}" for row in range(30)]
    holes = load_dataset(write(tmp_path / "t.csv", "\n".join(lines))).split(by_class=False)
    assert holes.y_train.isna().sum() == 10 and not holes.y_test.isna().any() and len(holes.y_test) == 5
    with pytest.raises(DataError, match=r"20 rows cannot be split with test size 0\.99"):
        load_dataset(tmp_path / "t.csv").split(test_size=0.99, by_class=False)


def test_a_split_per_class_learns_from_the_first_rows_of_each_class(tmp_path):
    write_csv(tmp_path / "t.csv")
    split = load_dataset(tmp_path / "t.csv").split_per_class(2)
    assert split.y_train.index.tolist() == [0, 1, 2, 3]
    assert split.X_test.index.tolist() == [4, 5]


def test_splits_that_cannot_be_made_are_refused(tmp_path):
    write_csv(tmp_path / "t.csv")
    dataset = load_dataset(tmp_path / "t.csv")
    with pytest.raises(DataError, match=r"With 3 rows per class.*none is left"):
        dataset.split_per_class(3)
    with pytest.raises(DataError, match=r"Class '[ab]' of target 'kind' has 3 rows, fewer than the 4"):
        dataset.split_per_class(4)
    with pytest.raises(DataError, match=r"6 rows in 2 classes.*test size 0\.1"):
        dataset.split(test_size=0.1)
    with pytest.raises(DataError, match=r"Class '-' of target 'colour' has one row only"):
        load_dataset(tmp_path / "t.csv", target="colour").split()


def test_the_declared_schema_knows_what_a_split_may_hide(tmp_path):
    path = write(tmp_path / "t.csv", "colour,kind\nred,a\nred,b\nblue,a\ngreen,b\n")
    dataset = load_dataset(path)
    assert set(dataset.split_per_class(1).X_train.colour) == {"red"}
    assert list(dataset.declared.categories["colour"]) == ["blue", "green", "red"]
    assert list(dataset.declared.classes) == ["a", "b"]


# --- what the cells of a text file are


def read(tmp_path, text, **options):
    """The columns and labels of a text file, and the warnings of reading it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        dataset = load_dataset(write(tmp_path / "t.csv", text), **options)
    return dataset, " ".join(str(warning.message) for warning in caught)


def test_words_that_mean_missing_are_counted_by_column_and_may_be_values(tmp_path):
    text = "country,mass,word,y\nNA,1.5,NA,None\nDE,NaN,null,a\nNA,2.5,nan,b\n,3.5,x,b\n"
    dataset, told = read(tmp_path, text, texts=["word"])
    assert dataset.X.country.isna().tolist() == [True, False, True, True] and dataset.X.mass.isna().sum() == 1
    assert dataset.y.isna().tolist() == [True, False, False, False]
    assert dataset.X.word.tolist() == ["NA", "null", "nan", "x"]  # sequences keep theirs
    for words in ("'NA' in 2 cells of 'country'", "'NaN' in 1 cells of 'mass'", "'None' in 1 cells of 'y'"):
        assert words in told
    assert "'word'" not in told and "--words-are-values" in told
    dataset, told = read(tmp_path, text, texts=["word"], words_are_values=True)
    assert dataset.X.country.fillna("").tolist() == ["NA", "DE", "NA", ""] and set(dataset.y) == {"None", "a", "b"}
    assert "taken for missing" not in told
    dataset, told = read(tmp_path, text, missing=["NA"])
    assert "NA'" not in told and dataset.X.word.isna().sum() == 3


def test_cells_and_names_are_read_without_the_blanks_around_them(tmp_path):
    dataset, told = read(tmp_path, 'age, job , y\n 39, Sales, "a, b"\n41 , ?, c\n  ,Sales ,c\n', missing=["?"])
    assert dataset.X.columns.tolist() == ["age", "job"] and dataset.y.tolist() == ["a, b", "c", "c"]
    assert dataset.X.job.fillna("").tolist() == ["Sales", "", "Sales"] and not told
    assert dataset.X.age.tolist()[:2] == [39, 41] and dataset.X.age.isna().tolist() == [False, False, True]
    dataset, _ = read(tmp_path, "word,y\n ab,1\nab ,2\n", texts=["word"])
    assert dataset.X.word.tolist() == [" ab", "ab "]
    with pytest.raises(DataError, match="several columns called 'a'"):
        read(tmp_path, "a, a,y\n1,2,3\n")


def test_a_mark_marks_texts_and_every_spelling_of_a_number_and_is_told_where_no_cell_is_it(tmp_path):
    text = "v,w,y\n-9,-9,a\n-9.0,x,b\n1.5,-9.0,c\n2,z,-9\n"
    dataset, told = read(tmp_path, text, missing=["-9"])
    assert dataset.X.v.isna().tolist() == [True, True, False, False]
    assert dataset.X.w.isna().tolist() == [True, False, False, False]  # a column of texts
    assert dataset.y.isna().tolist() == [False, False, False, True] and "No cell" not in told
    _, told = read(tmp_path, text, missing=["-9", "n.a.", "unknown"])
    assert "No cell" in told and "'n.a.', 'unknown'" in told
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame({"v": [-9, 1, 2], "t": [" ? ", "a", None], "y": list("aba")})
    frame.to_parquet(tmp_path / "t.parquet")
    assert load_dataset(tmp_path / "t.parquet", missing=["?", "-9"]).X.isna().sum().tolist() == [1, 2]
    with pytest.warns(BayesgenWarning, match="No cell of .* is '-'"):
        load_dataset(tmp_path / "t.parquet", missing=["-"])


def test_a_text_among_numbers_is_named_and_its_column_may_be_read_as_numbers(tmp_path):
    numbers = [f"{row}.5,k{row % 2}" for row in range(12)]
    text = "\n".join(["v,y", *numbers, "n.a.,k0"])
    dataset, told = read(tmp_path, text)
    assert "'v' ('n.a.' in 1 cells)" in told and "--missing" in told
    assert dataset.columns.kind_of("v").name == "categorical"
    dataset, told = read(tmp_path, text, missing=["n.a."])
    assert dataset.X.v.sum() == sum(row + 0.5 for row in range(12)) and not told
    dataset, told = read(tmp_path, text, kinds={"v": "real"})  # refused by row where it is used
    assert not told
    with pytest.raises(DataError, match=r"'v' is real, and has 'n\.a\.' at row 12"):
        bg.fit(bg.NaiveBayes(), dataset.X, dataset.y, method=bg.Exact(), schema=dataset.declared)
    for harmless in ("v,y\n2,a\n4,b\nmore,b\n", "v,y\nx1,a\n2,b\nx3,b\n"):
        assert not read(tmp_path, harmless)[1]


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        ("1 2 3", [1, 2, 3]),
        ("1.50 2.0 +3", [1.5, 2.0, 3.0]),
        ("1e3 .5 -0.25", [1000.0, 0.5, -0.25]),
        ("true FALSE True", [True, False, True]),
        ("9007199254740993 9007199254740992 1", [2**53 + 1, 2**53, 1]),
        ("01 1 10", ["01", "1", "10"]),
        ("-01 1 2", ["-01", "1", "2"]),
        ("1_0 2 3", ["1_0", "2", "3"]),
        ("0x10 2 3", ["0x10", "2", "3"]),
        ("0 0.5 00", ["0", "0.5", "00"]),
    ],
)
def test_texts_are_numbers_where_all_are_and_none_is_a_code(tmp_path, cells, values):
    text = "\n".join(["v,k", *(f"{cell},{kind}" for cell, kind in zip(cells.split(), "aba", strict=True))])
    dataset, _ = read(tmp_path, text)
    assert dataset.X.v.tolist() == values and type(dataset.X.v.tolist()[0]) is type(values[0])
    declared, told = read(tmp_path, text, kinds={"v": "categorical"})
    assert declared.X.v.tolist() == cells.split() and not told


def test_labels_stay_apart_where_two_texts_are_one_number_and_numbers_to_predict_do_not(tmp_path):
    text = "v,y\n1,1\n2,1.0\n3,2\n4,\n"
    dataset, told = read(tmp_path, text)
    assert dataset.declared.classes == ("1", "1.0", "2") and "'y' ('1', '1.0')" in told
    dataset, told = read(tmp_path, text, label_kind="real")
    assert dataset.y.dropna().tolist() == [1, 1, 2] and not told
    assert read(tmp_path, text, kinds={"y": "real"})[0].y.dropna().tolist() == [1, 1, 2]
    large = "v,y\n1,9007199254740993\n2,9007199254740992\n3,\n"  # beside a missing one, too
    assert read(tmp_path, large)[0].declared.classes == (2**53, 2**53 + 1)
