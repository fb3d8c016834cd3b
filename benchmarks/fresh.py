"""Work in a fresh process: `python -m benchmarks.fresh FUNCTION ARGUMENTS` prints what FUNCTION returns, as JSON.

A fresh process has nothing compiled, and its peak memory is that of the work alone.
"""

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
MOST_SECONDS = 400


def call(function, *arguments):
    """The return value of `module.function` of this package, called in a fresh process without stored compilations."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("JAX_COMPILATION_CACHE")}
    # one thread for each LAPACK call: batched triangular solves of XLA and threads of OpenBLAS were seen to hang
    environment |= {"JAX_ENABLE_COMPILATION_CACHE": "false", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.fresh", function, *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=MOST_SECONDS)
    if done.returncode:
        raise RuntimeError((done.stderr.strip() or f"{function} ended with {done.returncode}").splitlines()[-1])
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Call the function that the command line names."""
    module, function = sys.argv[1].split(".")
    print(json.dumps(getattr(importlib.import_module(f"benchmarks.{module}"), function)(*sys.argv[2:])))


if __name__ == "__main__":
    main()
