"""Start-up of whole processes: `import bayesgen` against `import numpyro`, and the command line's help."""

import functools
import subprocess
import sys

from .measure import Below, Price, Row, duel, seconds


def measures(quick):
    """Both."""
    yield functools.partial(
        duel, "import bayesgen", Price(1.1), _python("import bayesgen"), _python("import numpyro"), "import numpyro"
    )
    yield _help


def _help():
    work = _python("import sys; sys.argv = ['bayesgen', '--help']; from bayesgen.cli import main; main()")
    return Row("bayesgen --help", Below(0.5), [seconds(work) for _ in range(5)], unit="s")


def _python(code):
    return functools.partial(subprocess.run, [sys.executable, "-c", code], check=True, capture_output=True)
