"""What all tests share: one cache of JAX's compilations, Ctrl-C everywhere, and checks of types where asked for."""

import gc
import importlib.metadata
import os
import pathlib
import signal
import sys
from collections.abc import Iterator

import pytest

# Threads of BLAS wait for each other's tiny products by spinning, and the workers of pytest-xdist use all cores anyway.
# Before NumPy is imported, which reads it once.
os.environ["OPENBLAS_NUM_THREADS"] = os.environ.get("OPENBLAS_NUM_THREADS", "1")

import type_checker

# Images of containers often turn bytecode off: then each process that a test starts would compile the package, and each
# worker of each run all tests.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

gc.set_threshold(100_000, 50, 100)  # a quarter of the time of collecting the tests goes there otherwise

# Outside the checkout, so that the tests of a second clone find what those of the first have compiled. What one version
# has compiled may crash another one.
VERSIONS = f"{importlib.metadata.version('jaxlib')}-{sys.version_info.major}.{sys.version_info.minor}"
CACHES = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
CACHE = CACHES / "bayesgen-tests" / f"jax-{VERSIONS}"

os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(CACHE))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")  # many programs are made again
os.environ.setdefault("JAX_TRACEBACK_IN_LOCATIONS_LIMIT", "0")  # nobody reads where an operation comes from
# Most programs of tests run for less time than they are compiled for. XLA ends a process for a flag it does not know.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
if importlib.metadata.version("jaxlib").startswith("0.9."):
    # Compiling takes half the time by the older emitters, and less again on one core where all are busy.
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1")

if "PYTEST_XDIST_WORKER" in os.environ:  # pytest-xdist has its workers, and what they start, ignore interrupts
    signal.signal(signal.SIGINT, signal.default_int_handler)

if type_checker.REQUESTED:  # half as quick, and so not the default
    type_checker.install()


MOST_MAPS = (
    40_000  # of memory, of the 65,530 that Linux gives a process; each program that JAX has compiled takes several
)
MAPS = pathlib.Path("/proc/self/maps")


@pytest.fixture(scope="module", autouse=True)
def _maps_of_memory() -> Iterator[None]:
    """Lets compiled programs go before there are too many: without another map of memory the compiler crashes."""
    yield
    if MAPS.exists() and MAPS.read_bytes().count(b"\n") > MOST_MAPS:
        import jax  # not above: the process that shares the tests out needs none of it

        jax.clear_caches()
        gc.collect()


@pytest.fixture
def run(monkeypatch):
    """Runs a command of the command line, 100 columns wide, without colours; `input` is what standard input holds."""
    from typer.testing import CliRunner

    from bayesgen.cli.app import app

    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")

    def invoke(*arguments, input=None):
        return CliRunner().invoke(app, [str(argument) for argument in arguments], input=input)

    return invoke


def pytest_collection_finish() -> None:
    """Spares the garbage collector what lives as long as the tests: modules, tests, and what JAX has compiled."""
    gc.freeze()
