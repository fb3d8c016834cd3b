"""Fits in files, without pickle: results, model and schema as JSON and arrays; nothing is executed on loading."""

from .files import Savable as Savable
from .files import load
from .files import save as save

__all__ = ["load"]
