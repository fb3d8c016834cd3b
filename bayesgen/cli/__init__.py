"""The command line: `bayesgen compare iris`."""

from .app import app, main

__all__ = ["app", "main"]
