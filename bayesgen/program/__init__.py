"""Generative programs: NumPyro functions that make data, and what can be computed from them."""

from .density import Evidence, Rows
from .generative import GenerativeProgram
from .model import ConcreteModel, Model
from .recognition import Plan
from .structure import Site, Structure

__all__ = ["ConcreteModel", "Evidence", "GenerativeProgram", "Model", "Plan", "Rows", "Site", "Structure"]
