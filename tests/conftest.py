"""What all tests share: JAX's compilations are kept on disk, so that a program is compiled once for all runs."""

import os
import pathlib

CACHE = pathlib.Path(__file__).parents[1] / ".pytest_cache" / "jax"

os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(CACHE))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.2")
