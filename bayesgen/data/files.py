"""Tables from files."""

import difflib
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

import pandas as pd

from bayesgen.errors import DataError


def _read_text(separator: str) -> Callable[[Path, Sequence[str], Sequence[str]], pd.DataFrame]:
    def read(path: Path, missing: Sequence[str], texts: Sequence[str]) -> pd.DataFrame:
        header = pd.read_csv(path, sep=separator, header=None, nrows=1, dtype=str, keep_default_na=False)
        _check_distinct(path, header.iloc[0].tolist())  # pandas would rename the second of two
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # it tells of cells about to be dropped
            return pd.read_csv(
                path,
                sep=separator,
                index_col=False,
                low_memory=False,
                na_values=list(missing),
                dtype=dict.fromkeys(texts, str),
            )

    return read


def _read_parquet(path: Path, missing: Sequence[str], texts: Sequence[str]) -> pd.DataFrame:
    if find_spec("pyarrow") is None:
        raise DataError(f"{path} is a Parquet file, which pyarrow reads. Install it: pip install pyarrow")
    from pyarrow import parquet

    _check_distinct(path, parquet.read_schema(path).names)
    frame = pd.read_parquet(path, engine="pyarrow")
    return frame.mask(frame.isin(list(missing))) if missing else frame


def _check_distinct(path: Path, names: list[str]) -> None:
    """Refuse a table in which two columns have one name (several may have none)."""
    repeated = [name for name, count in Counter(filter(None, names)).items() if count > 1]
    if repeated:
        raise DataError(f"{path} has several columns called {', '.join(map(repr, repeated))}. Rename or drop some.")


_READERS = {
    ".tsv": _read_text("\t"),
    ".tab": _read_text("\t"),
    ".parquet": _read_parquet,
    ".pq": _read_parquet,
}
# ValueError covers what pandas and Arrow raise of contents they cannot read, other encodings included.
_UNREADABLE = (OSError, EOFError, ValueError, zlib.error, pd.errors.ParserWarning)


def read_file(path: Path, missing: Sequence[str], texts: Sequence[str], known: Sequence[str]) -> pd.DataFrame:
    """A table from a CSV, TSV or Parquet file.

    Args:
        path: the file, perhaps gzipped.
        missing: texts that mark a cell as missing, besides those that pandas knows.
        texts: columns whose cells stay the texts that they are in a CSV or TSV file, be they digits; Parquet has types.
        known: names that may be meant where there is no such file.

    Raises:
        DataError: no such file; one that cannot be read, is empty, or has two columns of one name.
    """
    if not path.exists():
        close = difflib.get_close_matches(str(path), known, n=1)
        hint = f" Did you mean {close[0]}?" if close else ""
        names = ", ".join(known)
        raise DataError(f"There is no file {str(path)!r}.{hint} The data sets known by name are {names}.")
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() != ".gz"]
    read = _READERS.get(suffixes[-1] if suffixes else "", _read_text(","))
    try:
        frame = read(path, missing, texts)
    except DataError:
        raise
    except pd.errors.EmptyDataError as refusal:
        raise DataError(f"{path} is empty. It needs a header line and rows.") from refusal
    except _UNREADABLE as refusal:
        raise DataError(f"{path} cannot be read as a table: {str(refusal).strip()}") from refusal
    if len(frame) == 0:
        raise DataError(f"{path} has no rows below its header line.")
    return frame
