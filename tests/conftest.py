"""What all tests share: types and shapes that are checked, one cache of JAX's compilations, and Ctrl-C everywhere."""

import importlib.metadata
import os
import pathlib
import signal

# Threads of BLAS wait for each other's tiny products by spinning, and the workers of pytest-xdist use all cores anyway.
# Before NumPy is imported, which reads it once.
os.environ["OPENBLAS_NUM_THREADS"] = os.environ.get("OPENBLAS_NUM_THREADS", "1")

import jaxtyping
from jaxtyping import install_import_hook

from bayesgen import errors

CACHE = pathlib.Path(__file__).parents[1] / ".pytest_cache" / "jax"

os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(CACHE))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.2")
# Most programs of tests run for less time than they are compiled for. XLA ends a process for a flag it does not know.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
if importlib.metadata.version("jaxlib").startswith("0.10."):
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_use_fusion_emitters=false")  # compiling takes half the time

if "PYTEST_XDIST_WORKER" in os.environ:  # pytest-xdist has its workers, and what they start, ignore interrupts
    signal.signal(signal.SIGINT, signal.default_int_handler)

PACKAGE = pathlib.Path(errors.__file__).parent
OUTER = ("__init__", "as_model", "generative")
INNER = [path.stem for path in (PACKAGE / "program").glob("*.py") if path.stem not in OUTER]

# Arguments and results of these modules, and of those inside them, are checked against their types, shapes included.
# Not so those of `GenerativeProgram`: users call them, and what they refuse by themselves is tested.
CHECKED = [
    "bayesgen.records",
    *(f"bayesgen.runtime.{name}" for name in ("chunking", "compilation", "progress", "threads")),
    "bayesgen.solvers",
    "bayesgen.data.rows",
    "bayesgen.statistics",
    "bayesgen.families",
    *(f"bayesgen.program.{name}" for name in INNER),
    "bayesgen.posteriors",
    *(f"bayesgen.prediction.{name}" for name in ("answer", "batches", "reliability")),
    *(f"bayesgen.averaging.{name}" for name in ("facts", "fit", "left_out", "weights")),
    *(
        f"bayesgen.concepts.{name}"
        for name in ("bands", "hypothesis_classes", "extensions", "likelihood", "prior", "table")
    ),
]
install_import_hook(CHECKED, "type_checker.check")
# Between functions that are checked lie frames of the checkers: warnings point past them, at the user's line.
errors._NOT_THE_USER = (*errors._NOT_THE_USER, str(pathlib.Path(jaxtyping.__file__).parent), "<@beartype(")
