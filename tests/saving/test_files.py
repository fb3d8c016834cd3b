"""Files that are broken, altered, or of a later version are refused; a save is whole or not at all."""

import faulthandler
import json
import os
from pathlib import Path

import h5py
import numpy as np
import pytest
import xarray

import bayesgen as bg
from bayesgen.saving import files

X, Y = np.vander(np.arange(1.0, 8.0), 4)[:, :3], list("aabbbab")
ROWS = np.full((3, 3), 2.0)


@pytest.fixture(scope="module")
def fit():
    return bg.fit(bg.GaussianDiscriminant(), X, Y, method=bg.Exact())


@pytest.fixture
def path(fit, tmp_path):
    fit.save(tmp_path / "fit.nc")
    return tmp_path / "fit.nc"


def refused(path, said):
    with pytest.raises(bg.DataError, match=f"{path.name}' cannot be loaded: {said}"):
        bg.load(path)


def test_paths_are_texts_too(fit, tmp_path):
    fit.save(str(tmp_path / "fit"))
    assert bg.load(str(tmp_path / "fit")) == fit


@pytest.mark.parametrize("name", ["fit.zarr", "fit.v2.pkl", "fit.json"])
def test_an_ending_of_another_format_is_refused(fit, tmp_path, name):
    with pytest.raises(bg.DataError, match=f"{name}' has the ending of another format.*netCDF"):
        fit.save(tmp_path / name)
    assert os.listdir(tmp_path) == []


def test_folders_have_to_be_there_and_links_stay_links(fit, tmp_path, path):
    with pytest.raises(bg.DataError, match=r"There is no folder '.*none' for 'fit\.nc'"):
        fit.save(tmp_path / "none" / "fit.nc")
    link = tmp_path / "link.nc"
    link.symlink_to(path)
    more = fit.update(X, Y)
    more.save(link)
    assert link.is_symlink() and bg.load(path) == bg.load(link) == more


def test_what_is_no_file_of_a_fit(tmp_path, path):
    refused(tmp_path / "none.nc", "there is no such file")
    (tmp_path / "text.nc").write_text("no fit")
    refused(tmp_path / "text.nc", r"it is no netCDF file, or is truncated\.")
    (tmp_path / "folder").mkdir()
    refused(tmp_path / "folder", ".")
    xarray.Dataset({"a": [1.0]}).to_netcdf(tmp_path / "other.nc", engine="h5netcdf")
    refused(tmp_path / "other.nc", "it is not the file of a fit")


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_truncated_files(path, share):
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    refused(path, r"it is no netCDF file, or is truncated\.")


def refused_or_the_same(path, fit):
    """Where what was altered belongs to nothing that is read, the fit is what it was."""
    try:
        again = bg.load(path)
    except bg.DataError as error:
        assert "fit.nc' cannot be loaded: " in str(error)
    else:
        assert again == fit


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of HDF5, closing what is broken
def test_no_altered_bit_goes_unnoticed(fit, path):
    content, rng = path.read_bytes(), np.random.default_rng(1)
    for place in rng.integers(0, len(content), 25).tolist():
        altered = bytearray(content)
        altered[place] ^= 1 << rng.integers(8)
        path.write_bytes(bytes(altered))
        refused_or_the_same(path, fit)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("start", range(16))
def test_no_altered_byte_goes_unnoticed(fit, path, start):
    """Each byte of the file in turn, in sixteen parts that workers share."""
    content = path.read_bytes()
    faulthandler.dump_traceback_later(600, exit=True)  # nothing else ends what HDF5 does not end
    for place in range(start, len(content), 16):
        path.write_bytes(content[:place] + bytes([content[place] ^ 0xFF]) + content[place + 1 :])
        refused_or_the_same(path, fit)
    faulthandler.cancel_dump_traceback_later()


def test_sizes_that_are_declared_and_not_there_take_no_memory(path):
    with h5py.File(path, "r+") as file:
        del file["bayesgen/structure"]
        file["bayesgen"].create_dataset("structure", (10**12,), np.uint8, chunks=(2**20,))
    refused(path, r"it declares 1,000,000,000,000 bytes of 'bayesgen/structure', and has")


def test_texts_of_any_length_are_not_read(path):
    """HDF5 reads them without end where the place that they name is damaged."""
    with h5py.File(path, "r+") as file:
        file.attrs["bayesgen_digest"] = "a text"
    refused(path, "it is not the file of a fit")


def test_structures_that_are_deep_are_refused(path):
    with h5py.File(path, "r+") as file:
        del file["bayesgen/structure"]
        file["bayesgen/structure"] = np.frombuffer(b"[" * 100_000, np.uint8)
    refused(path, "maximum recursion depth")


def altered(path, change, digest=True):
    """Changes the nodes in a file, and its digest."""
    with h5py.File(path, "r+") as file:
        group = file["bayesgen"]
        nodes = json.loads(group["structure"][:].tobytes())
        change(nodes, file.attrs)
        structure = json.dumps(nodes).encode()
        del group["structure"]
        group["structure"] = np.frombuffer(structure, np.uint8)
        if digest:
            file.attrs["bayesgen_digest"] = np.bytes_(
                files._digest(structure, (group[n.split("/")[1]][...] for n in files._names(nodes)))
            )


def test_altered_content_and_later_formats(path):
    altered(path, lambda nodes, about: nodes.pop(), digest=False)
    refused(path, "it was altered or damaged")
    altered(path, lambda nodes, about: about.modify("bayesgen_format", 2))
    refused(path, "bayesgen 0.1.0 wrote it in format 2, and bayesgen .* formats up to 1: install a later version")


def naming(kind, parts):
    def change(nodes, about):
        nodes[-1:] = [["list", ["echo"]], [kind, parts(len(nodes) - 1)]]

    return change


@pytest.mark.parametrize(
    "change",
    [
        naming("builtins:eval", lambda place: {"a": "1"}),
        naming("posix:system", lambda place: {}),
        naming("bayesgen.cli:main", lambda place: {}),
        naming("bayesgen.data:np.load", lambda place: {}),
        naming("sklearn.preprocessing:FunctionTransformer.fit", lambda place: {}),
        naming("function", lambda place: ["bayesgen.data:load_dataset"]),
        naming("function", lambda place: ["os:system"]),
        naming("ufunc", lambda place: ["load"]),
        naming("type", lambda place: ["O"]),
        naming("array", lambda place: ["O", [1], False, {"hex": "00" * 8}]),
        naming("bayesgen.fitting:Fit", lambda place: {"model": 1}),
        naming("bayesgen.posteriors:Posterior", lambda place: {}),
        naming("tuple", lambda place: [[place + 5]]),
        naming("dict", lambda place: [1]),
        naming("tuple", lambda place: 3),
        lambda nodes, about: nodes.append(["unknown", []]),
        lambda nodes, about: nodes.clear(),
    ],
)
def test_what_a_file_says_is_neither_imported_nor_called(path, change, monkeypatch):
    monkeypatch.setattr(os, "system", lambda command: pytest.fail("called"))
    altered(path, change)
    refused(path, ".")


def test_only_fits_are_loaded(path):
    altered(path, lambda nodes, about: nodes.append(["list", [1]]))
    refused(path, "it holds a list, and no fit")


@pytest.mark.parametrize(
    ("error", "message"),
    [(KeyboardInterrupt(), "^$"), (OSError(28, "No space left on device"), r"No space left on device: '.*fit.nc'")],
)
def test_a_save_that_fails_leaves_the_file_as_it_was(fit, tmp_path, monkeypatch, error, message):
    place = tmp_path / "fit.nc"
    fit.save(place)
    more = fit.update(X, Y)

    def failing(path, content):
        writing(path, content[:1000])
        raise error

    writing = Path.write_bytes
    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_bytes", failing)
        with pytest.raises(type(error), match=message):
            more.save(place)
    assert bg.load(place) == fit and os.listdir(tmp_path) == [place.name]
    more.save(place)
    assert bg.load(place) == more != fit and os.listdir(tmp_path) == [place.name]


def test_folders_are_left_alone(fit, tmp_path):
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "thesis").write_text("whole")
    with pytest.raises(bg.DataError, match="results' is a folder, and no file"):
        fit.save(tmp_path / "results")
    assert (tmp_path / "results" / "thesis").read_text() == "whole" and os.listdir(tmp_path) == ["results"]
