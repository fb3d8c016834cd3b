"""Tables from files: what separates cells, which texts are numbers or truth values, and which cells are missing."""

import difflib
import gzip
import io
import os
import shlex
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO, final

import numpy as np
import pandas as pd

from bayesgen.describe import quote_some
from bayesgen.errors import DataError, warn
from bayesgen.typing import Int

from .categories import CATEGORICAL, factorize

MISSING_WORDS = frozenset(
    [
        *("#N/A", "#N/A N/A", "#NA", "<NA>", "N/A", "NA", "n/a", "NULL", "null", "None", "NaN", "nan", "-NaN", "-nan"),
        *("1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"),
    ]
)
"""Words that readers of text files, pandas among them, take for missing cells."""

_TRUTH_VALUES = {
    text: truth for truth in (True, False) for text in (f"{truth}", f"{truth}".lower(), f"{truth}".upper())
}
_SEPARATORS = {".tsv": "\t", ".tab": "\t"}  # commas in other text files
_COMPRESSED = (".gz",)
_ARCHIVES = {".bz2", ".xz", ".zip", ".zst", ".tar", ".tgz"}  # which pandas opens, and are not searched for U+0000
_PARQUET = (".parquet", ".pq")
_QUERY = "?"
_NAMED = 5  # columns that a warning names
# ValueError covers what pandas and Arrow raise of contents they cannot read, other encodings included.
_UNREADABLE = (OSError, EOFError, ValueError, zlib.error)

_NOTES = {
    "words": "Words are taken for missing cells: {}. Where they are values, say words_are_values=True, on the command "
    "line --words-are-values.",
    "strays": "Columns of numbers with other texts among them are taken as categorical, one category for each number: "
    "{}. To have them taken as numbers, some of which are missing, name these texts, missing=[...], on the command "
    "line --missing TEXT.",
    "queries": "A '?' is taken as a value like any other: in {}. Where it marks a missing cell, say missing=['?'], on "
    "the command line --missing '?'.",
    "zeros": "Columns of numbers with leading zeros are taken as codes, so as texts: {}. To have one taken as numbers, "
    "say kinds={{COLUMN: 'real'}}, on the command line --kind COLUMN=real.",
    "labels": "Labels of which several are one number, or one truth value, stay texts: {}. To have them taken as "
    "numbers, say kinds={{COLUMN: 'real'}}, on the command line --kind COLUMN=real.",
    "commas": "Columns of numbers with commas are taken as categorical: {}. If these are decimal commas, say "
    "decimal=',', on the command line --decimal ','.",
}
"""Topic -> what is told of columns, with their names in place of {}."""


@final
@dataclass(frozen=True, eq=False)
class FileReader:
    """How the cells of a file become columns.

    Attributes:
        missing: texts that mark a cell as missing, besides an empty cell.
        words: words that mark it, too, in a text file.
        texts: columns of a text file whose cells stay as they are written: only empty cells and `missing` mark these.
        kinds: column -> the name of its declared kind.
        label_kind: that of the labels, where `kinds` has none.
        separator: what separates the cells of a text file; None to go by the file's name.
        decimal: "." or ",", what stands before the decimals of a number in a text file.
        notes: topic -> the columns that a warning names, as they are read.
        met: the texts of `missing` that some cell holds.
    """

    missing: Sequence[str]
    words: frozenset[str]
    texts: Sequence[str]
    kinds: Mapping[str, str]
    label_kind: str | None
    separator: str | None
    decimal: str
    notes: dict[str, list[str]] = field(default_factory=dict)
    met: set[str] = field(default_factory=set)

    def read(self, source: Path | BinaryIO, target: str | None, data_sets: Sequence[str]) -> pd.DataFrame:
        """The table of a CSV, TSV or Parquet file, perhaps gzipped. Warns of what may not be meant.

        Args:
            source: the file, or a stream with the content of a CSV file.
            target: the column of labels; None for the last one.
            data_sets: names that may be meant where there is no such file.

        Raises:
            DataError: no such file; one that cannot be read, is empty, or has two columns of one name.
        """
        path = source if isinstance(source, Path) else Path(name_of_source(source))
        if isinstance(source, Path) and not os.path.exists(path):
            close = difflib.get_close_matches(str(path), data_sets, n=1)
            hint = f" Did you mean {close[0]}?" if close else ""
            names = ", ".join(data_sets)
            raise DataError(f"There is no file {str(path)!r}.{hint} The data sets known by name are {names}.")
        suffix = next((suffix for suffix in map(str.lower, reversed(path.suffixes)) if suffix not in _COMPRESSED), "")
        separator = self.separator or _SEPARATORS.get(suffix, ",")
        try:
            if isinstance(source, Path) and suffix in _PARQUET:
                frame = self._read_parquet(path)
            else:
                content = path if isinstance(source, Path) else io.BytesIO(source.read())
                frame = self._read_text(path, content, separator, target)
        except DataError:
            raise
        except pd.errors.EmptyDataError as refusal:
            raise DataError(f"{path} is empty. It needs a header line and rows.") from refusal
        except _UNREADABLE as refusal:
            raise DataError(f"{path} cannot be read as a table: {str(refusal).strip()}") from refusal
        if len(frame) == 0:
            raise DataError(f"{path} has no rows below its header line.")
        for topic, columns in self.notes.items():
            more = f" and {len(columns) - _NAMED} more" if len(columns) > _NAMED else ""
            warn(_NOTES[topic].format(", ".join(columns[:_NAMED]) + more))
        if unmet := [mark for mark in self.missing if mark not in self.met]:
            warn(f"No cell of {path} is {quote_some(unmet)}, which is to mark a missing cell. Is it spelled so there?")
        return frame

    def _read_text(self, path: Path, content: Path | io.BytesIO, separator: str, target: str | None) -> pd.DataFrame:
        options: dict[str, Any] = {
            "sep": separator,
            "dtype": str,
            "na_filter": False,
            "skipinitialspace": not self.texts,
        }
        header = pd.read_csv(content, header=None, nrows=1, **options).iloc[0].str.strip().tolist()
        _check_distinct(path, header)  # pandas would rename the second of two
        other = next((sign for sign in ";\t|," if sign in header[0]), None)
        if len(header) == 1 and other is not None and self.separator is None:
            raise DataError(
                f"{path} has one column, {header[0]!r}, where {separator!r} separates cells. Does {other!r}? "
                f"Then say separator={other!r}, on the command line --separator {shlex.quote(other)}; for numbers with "
                "decimal commas also decimal=',', on the command line --decimal ','."
            )
        if isinstance(content, io.BytesIO):
            content.seek(0)
        lines = pd.read_csv(content, header=None, names=range(len(header) + 1), **options).fillna("")
        *columns, beyond = (lines[index].iloc[1:].reset_index(drop=True) for index in lines)
        is_longer = beyond != ""
        if is_longer.any():
            raise DataError(
                f"{path} cannot be read as a table: its header has {len(header)} names, and {is_longer.sum()} of "
                f"its rows (first row {int(is_longer.argmax())}) have more cells. Name every column."
            )
        opened = gzip.open if path.suffix.lower() in _COMPRESSED else open
        with content if isinstance(content, io.BytesIO) else opened(content, "rb") as stream:
            stream.seek(0)
            is_archive = not _ARCHIVES.isdisjoint(map(str.lower, path.suffixes))
            has_null = not is_archive and any(b"\0" in line for line in stream)
        if has_null:
            raise DataError(
                f"{path} cannot be read as a table: it has the character U+0000, at which some readers end a cell. "
                "Remove it, or save the table as UTF-8 or Parquet."
            )
        names = [name or f"Unnamed: {index}" for index, name in enumerate(header)]
        labels = names[-1] if target is None else target
        return pd.DataFrame(
            {name: self._column(name, cells, name == labels) for name, cells in zip(names, columns, strict=True)}
        )

    def _read_parquet(self, path: Path) -> pd.DataFrame:
        if find_spec("pyarrow") is None:
            raise DataError(f"{path} is a Parquet file, which pyarrow reads. Install it: pip install pyarrow")
        from pyarrow import parquet

        _check_distinct(path, parquet.read_schema(path).names)
        frame = pd.read_parquet(path, engine="pyarrow")
        for name in frame if self.missing else ():
            column = frame[name]
            is_number = pd.api.types.is_numeric_dtype(column.dtype) and not pd.api.types.is_bool_dtype(column.dtype)
            marks = self._numbers_that_mark(column) if is_number else column.isin(self._marks_of(column))
            frame[name] = column.mask(marks)
        return frame

    def _column(self, name: str, cells: pd.Series, are_labels: bool) -> pd.Series:
        """Texts as numbers, truth values or texts without the blanks around them; NaN where they are missing."""
        if name in self.texts:
            return cells.mask((cells == "") | cells.isin(self._marks_of(cells)))
        codes, distinct = pd.factorize(cells.str.strip())
        texts, counts = pd.Series(distinct), np.bincount(codes)
        is_mark, is_word = texts.isin(self._marks_of(texts)), texts.isin(self.words)
        for index in np.flatnonzero(is_word & ~is_mark):
            self._note("words", f"{texts[index]!r} in {counts[index]} cells of {name!r}")
        values = self._values(name, texts.mask((texts == "") | is_mark | is_word), counts, are_labels)
        return values.take(codes).set_axis(cells.index)

    def _values(self, name: str, texts: pd.Series, counts: Int[np.ndarray, " n"], are_labels: bool) -> pd.Series:
        """The values of distinct texts, of which `counts` cells each are.

        They are numbers where all are and none has leading zeros, as codes have. Labels are numbers only where no two
        are the same number.
        """
        observed, kind = texts.dropna(), self.kinds.get(name, self.label_kind if are_labels else None)
        if observed.empty or kind == CATEGORICAL.name:
            return texts
        truths, numbers = observed.map(_TRUTH_VALUES), _as_numbers(observed, self.decimal)
        values = truths if truths.notna().all() else numbers
        if kind is None and self._stays_text(name, observed, values, counts[observed.index], are_labels):
            return texts
        if values.notna().all():
            values = values.mask(self._numbers_that_mark(values)) if values is numbers else values
            # integers would become floats beside missing cells, and labels beyond 2^53 equal
            is_exact = are_labels and len(observed) < len(texts) and values.dtype == np.int64
            return (values.astype("Int64") if is_exact else values).reindex(texts.index)
        if numbers.isna().all():
            return texts
        # texts that are no numbers are refused by row where they are encoded
        return texts.astype(object).mask(numbers.reindex(texts.index).notna(), numbers.astype(object))

    def _stays_text(
        self, name: str, texts: pd.Series, values: pd.Series, counts: Int[np.ndarray, " n"], are_labels: bool
    ) -> bool:
        """Whether a column of no declared kind stays text, and a note that says why. `values` are NaN for no number."""
        has_zeros, is_repeated = texts.str.match(r"[+-]?0\d"), values.duplicated(keep=False)
        if values.isna().any():
            self._note_strays(name, texts, values.notna(), counts)
        elif has_zeros.any():
            self._note("zeros", f"{name!r} ({texts[has_zeros].iloc[0]!r})")
        elif are_labels and is_repeated.any():
            equal = texts[values == values[is_repeated].iloc[0]].tolist()
            self._note("labels", f"{name!r} ({quote_some(equal, 3)})")
        else:
            return False
        return True

    def _marks_of(self, cells: pd.Series) -> list[str]:
        """The texts among cells that mark a missing cell, with the blanks around them."""
        _, distinct = factorize(cells.to_numpy(object), f"Column {cells.name!r}")
        texts = {text: text.strip() for text in distinct if isinstance(text, str)}
        marks = {mark.strip(): mark for mark in self.missing}
        self.met.update(marks[text] for text in texts.values() if text in marks)
        return [text for text, stripped in texts.items() if stripped in marks]

    def _numbers_that_mark(self, numbers: pd.Series) -> pd.Series:
        """Which numbers are that of a text that marks a missing cell."""
        marks = pd.to_numeric(pd.Series(self.missing, dtype=object), errors="coerce")
        self.met.update(mark for mark, number in zip(self.missing, marks, strict=True) if (numbers == number).any())
        return numbers.isin(marks.dropna())

    def _note_strays(self, name: str, texts: pd.Series, are_numbers: pd.Series, counts: Int[np.ndarray, " n"]) -> None:
        """Note the texts that keep a column from holding numbers where it seems to be meant to, and a "?"."""
        strays, num_numbers, num_strays = texts[~are_numbers].tolist(), are_numbers.sum(), counts[~are_numbers].sum()
        are_rare = 10 * num_strays <= counts.sum() or num_numbers > 10  # up to ten numbers may be categories
        if strays == [_QUERY] or (len(strays) < num_numbers and are_rare):
            self._note("strays", f"{name!r} ({quote_some(strays, 3)} in {num_strays} cells)")
        elif _as_numbers(texts, ",").notna().all():
            self._note("commas", f"{name!r} ({texts.iloc[0]!r})")
        elif _QUERY in strays:
            self._note("queries", f"{name!r} ({counts[texts == _QUERY].sum()} cells)")

    def _note(self, topic: str, column: str) -> None:
        self.notes.setdefault(topic, []).append(column)


def name_of_source(source: str | Path | BinaryIO) -> str:
    """What a file, a named data set or a stream is called in messages."""
    return str(source) if isinstance(source, str | Path) else str(getattr(source, "name", "the stream"))


def _as_numbers(texts: pd.Series, decimal: str) -> pd.Series:
    """Texts as numbers, NaN where they are none."""
    swapped = texts if decimal == "." else texts.str.translate(str.maketrans(",.", ".,"))
    return pd.to_numeric(swapped.astype(object), errors="coerce")


def _check_distinct(path: Path, names: list[str]) -> None:
    """Refuse a table in which two columns have one name (several may have none)."""
    repeated = [name for name, count in Counter(filter(None, names)).items() if count > 1]
    if repeated:
        raise DataError(f"{path} has several columns called {', '.join(map(repr, repeated))}. Rename or drop some.")
