"""Files of fits: netCDF, replaced in one step, and read without executing anything.

A fit is a list of nodes in JSON, see `saving.nodes`, and arrays.
"""

import contextlib
import functools
import hashlib
import io
import json
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from xarray import Dataset, DataTree

import bayesgen
from bayesgen.errors import DataError
from bayesgen.runtime import public, write_file

from .nodes import Encoder, decoded

FORMAT = 1
OTHER_ENDINGS = (".zarr", ".pkl", ".pickle", ".joblib", ".json", ".npz")  # of files that are no netCDF


class Savable:
    """An object that a file may hold: a fit, or several of one training."""

    def save(self, path: str | os.PathLike) -> None:
        """Write it to a file, which `bayesgen.load(path)` reads: see `Fit.save`."""
        save(self, path)


def save(fit: Any, path: str | os.PathLike, shown: DataTree | None = None) -> None:
    """Write a fit to a file: see `Fit.save`.

    Args:
        fit: the fit.
        path: of the file. It is replaced when the new one is complete.
        shown: groups for other programs, such as ArviZ; arrays of the fit that stand there are not stored twice.

    Raises:
        ModelError: a fit that holds what a file cannot, naming it.
        DataError: a path that is a folder, or has the ending of another format; no folder for the file.
        OSError: a file that cannot be written, as where the disk is full; it is as it was before.
    """
    if Path(path).suffix in OTHER_ENDINGS:
        raise DataError(f"{os.fspath(path)!r} has the ending of another format. The file is netCDF: call it 'fit.nc'.")
    place = Path(path).resolve()  # of a link, what it leads to
    if not place.parent.is_dir():
        raise DataError(f"There is no folder {str(place.parent)!r} for {place.name!r}: make it first.")
    if place.is_dir():
        raise DataError(f"{os.fspath(path)!r} is a folder, and no file that could be replaced.")
    groups = {str(group.name): group.to_dataset() for group in (() if shown is None else shown.leaves)}
    stored = {f"{group}/{name}": variable.values for group, data in groups.items() for name, variable in data.items()}
    encoder = Encoder(stored)
    encoder.part(fit, "fit")
    structure = json.dumps(encoder.nodes, allow_nan=False).encode()
    stored |= encoder.variables
    digest = _digest(structure, (stored[name] for name in _names(encoder.nodes)))
    # of fixed lengths: where texts of any length are damaged, HDF5 may read them without end
    texts = {"bayesgen_version": np.bytes_(bayesgen.__version__), "bayesgen_digest": np.bytes_(digest)}
    about = {"bayesgen_format": FORMAT, **texts}
    arrays = {"structure": np.frombuffer(structure, np.uint8)}
    arrays |= {name.removeprefix("bayesgen/"): array for name, array in encoder.variables.items()}
    variables = {name: ([f"{name}_{axis}" for axis in range(array.ndim)], array) for name, array in arrays.items()}
    tree = DataTree.from_dict({"/": Dataset(attrs=about), **groups, "bayesgen": Dataset(variables)})
    # In memory: where HDF5 cannot write to a disk that is full, the process ends by a segmentation fault.
    write_file(place, tree.to_netcdf(engine="h5netcdf"))


def _names(nodes: list[Any]) -> Iterable[str]:
    """The variables that nodes name, in their order."""
    return (parts[3]["variable"] for kind, parts in nodes if kind == "array" and "variable" in parts[3])


def _digest(structure: bytes, arrays: Iterable[np.ndarray]) -> str:
    content = hashlib.sha256(structure)
    for array in arrays:
        content.update(array.tobytes())
    return content.hexdigest()


def packed(value: Any) -> bytes:
    """A value that files may hold as bytes, for another process: see `unpacked`."""
    encoder = Encoder({})
    encoder.part((value,), "value")
    structure = np.frombuffer(json.dumps(encoder.nodes, allow_nan=False).encode(), np.uint8)
    content = io.BytesIO()
    np.savez(content, **{"structure": structure, **encoder.variables})  # type: ignore[arg-type]
    return content.getvalue()


def unpacked(content: bytes) -> Any:
    """The value that `packed` made bytes of. Nothing in them is executed."""
    with np.load(io.BytesIO(content)) as arrays:
        return decoded(json.loads(arrays["structure"].tobytes()), arrays.__getitem__, ())[0]


@public
def load(path: str | os.PathLike, program: Any = None) -> Any:
    """The fit in a file that `fit.save(path)` wrote.

    Its predictions are those of the saved fit, bit by bit; `update` and all else works as before. Nothing in a file is
    executed, so that one may load what one does not trust.

    Args:
        path: of the file.
        program: the `GenerativeProgram`, or list of them, of a fit of a program of one's own, whose function a file
            does not hold. It has to be the program that was fitted: its code, what this reads, and its sites are
            compared; the sites alone where another version of Python saved it, and, with a warning, where what its
            function reads cannot be known. A NumPyro model as written also reads
            the training rows of an argument that Python or NumPy looks into, as in `np.unique(group)`.

    Raises:
        DataError: no such file; one that is truncated, altered or not of a fit, or written by a later version in
            another format; a program that is not given, or another one, naming the sites or values that differ.

    >>> import os, tempfile
    >>> import bayesgen as bg
    >>> fit = bg.fit(bg.NaiveBayes(), [[1.0], [2.0], [7.0], [9.0]], ["a", "a", "b", "b"], method=bg.Exact())
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     fit.save(os.path.join(folder, "fit.nc"))
    ...     again = bg.load(os.path.join(folder, "fit.nc"))
    >>> again == fit, bg.predict(again, [[3.0]], rule=bg.BMA()).labels.tolist()
    (True, ['a'])
    """
    programs: Any = program if isinstance(program, list | tuple) else [] if program is None else [program]
    try:
        return _loaded(Path(path), [getattr(program, "function", program) for program in programs])
    except Exception as error:  # whatever a broken file leads to
        raise DataError(f"{os.fspath(path)!r} cannot be loaded: {error or type(error).__name__}") from error


def _loaded(path: Path, functions: list[Callable[..., object]]) -> Any:
    with _opened(path) as (read, about):
        if "bayesgen_digest" not in about:
            raise DataError("it is not the file of a fit, which fit.save(path) writes.")
        if about["bayesgen_format"] > FORMAT:
            raise DataError(
                f"bayesgen {about['bayesgen_version'].decode()} wrote it in format {about['bayesgen_format']}, and "
                f"bayesgen {bayesgen.__version__} reads formats up to {FORMAT}: install a later version."
            )
        structure = read("bayesgen/structure").tobytes()
        nodes = json.loads(structure)
        if _digest(structure, map(read, _names(nodes))).encode() != about["bayesgen_digest"]:
            raise DataError("it was altered or damaged after it was saved: its content does not have its digest.")
        fit = decoded(nodes, read, functions)
    if not isinstance(fit, Savable):
        raise DataError(f"it holds a {type(fit).__name__}, and no fit.")
    return fit


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[tuple[Callable[[str], np.ndarray], dict[str, Any]]]:
    """A function that reads a variable by its name, as it was written; and the attributes of the file."""
    if not path.exists():
        raise DataError("there is no such file.")
    try:
        file = h5py.File(path, "r")
    except PermissionError:
        raise
    except OSError as error:
        raise DataError(
            "it is no netCDF file, or is truncated. fit.save() writes files of fits; load_dataset() reads tables."
        ) from error
    with file:
        names = [name for name in file.attrs if file.attrs.get_id(name).dtype.kind in "iS"]
        about = {name: np.ravel(file.attrs[name])[0] for name in names}
        yield functools.partial(_content, file, path.stat().st_size), about


def _content(file: h5py.File, num_bytes: int, name: str) -> np.ndarray:
    """A variable of a file of so many bytes. Variables are not compressed, so that none is larger than its file."""
    if file[name].nbytes > num_bytes:
        raise DataError(f"it declares {file[name].nbytes:,} bytes of {name!r}, and has {num_bytes:,} in all.")
    return np.asarray(file[name][...])
