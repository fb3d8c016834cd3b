"""The command line: `bayesgen compare iris`."""

from .main import main

__all__ = ["main"]
