"""Start-up of whole processes: `import bayesgen` against `import numpyro`, and the command line's help."""

import subprocess
import sys

from .measure import Result, duel


def _python(code):
    return lambda: subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def run(quick: bool) -> list[Result]:
    """All comparisons."""
    program = "import sys; sys.argv = ['bayesgen', '--help']; from bayesgen.cli import main; main()"
    return [
        duel(
            "import bayesgen",
            _python("import bayesgen"),
            _python("import numpyro"),
            "import numpyro",
            ">= 0.91x",
        ),
        duel("bayesgen --help", _python(program), _python("pass"), "python -c pass", "ours < 0.5 s"),
    ]
