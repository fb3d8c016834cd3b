"""The entry point of the command `bayesgen`, which loads nothing before Ctrl-C is taken care of."""

import io
import os
import sys

from .interruption import ended_by_interrupts

_REFUSED = 1


def main() -> None:
    """Run the command that the arguments of the process name.

    What the encoding of standard output lacks is escaped. The exit status is 1 where standard output cannot be
    written, with a line that says why unless it is a closed pipe, and 130 after Ctrl-C, with a line that says so.
    """
    with ended_by_interrupts():
        from .app import app

        if sys.stdout is None:  # it was closed before
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")
        try:
            try:
                app(prog_name="bayesgen")
            finally:
                sys.stdout.flush()  # the interpreter's own attempt as it ends would be a traceback
        except OSError as refusal:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nothing is left to be flushed
            if not isinstance(refusal, BrokenPipeError):
                print(f"bayesgen: standard output cannot be written: {refusal.strerror}", file=sys.stderr)
            sys.exit(_REFUSED)
