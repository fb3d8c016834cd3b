"""Fits in files, without pickle: results, model and schema as JSON and arrays; nothing is executed on loading."""

from .files import Savable as Savable
from .files import load
from .files import packed as packed
from .files import save as save
from .files import unpacked as unpacked

__all__ = ["load"]
