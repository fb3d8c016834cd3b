"""The command line: `bayesgen compare iris`. Its entry point handles Ctrl-C before it imports the rest."""

import gc
import io
import os
import sys

from .interruption import ended_by_interrupts

__all__ = ["main"]


def main() -> None:
    """Run the command that the arguments of the process name.

    Characters that the encoding of standard output lacks are escaped. The exit status is 1, with a message unless it is
    a closed pipe, where standard output cannot be written, and 130, with a message, after Ctrl-C.
    """
    gc.set_threshold(100_000)  # what is imported and compiled stays: looking through it again and again takes a tenth
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
                gc.freeze()  # at exit of the interpreter nothing has to be looked through once more
                sys.stdout.flush()  # a failure at exit of the interpreter would print a traceback
        except OSError as refusal:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nothing is left to be flushed
            if not isinstance(refusal, BrokenPipeError):
                print(f"bayesgen: standard output cannot be written: {refusal.strerror}", file=sys.stderr)
            sys.exit(1)
