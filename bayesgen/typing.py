"""Types of arrays with named axes, such as Float[Array, "n K"]: n rows, K classes.

Axes: n rows, K classes, D columns or dimensions, r categories, F features, and the number of draws. Shapes of
one axis are written with a space first, Float[Array, " n"], which keeps linters from taking them for names.
"""

from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, ParamSpec, TypeAlias, TypeVar

import jax
import numpy as np
from jaxtyping import Bool, Float, Int, Integer, Num, PRNGKeyArray, Real, Shaped
from numpy.typing import ArrayLike

Array: TypeAlias = np.ndarray | jax.Array
if TYPE_CHECKING:  # for NumPy's stubs, arithmetic on arrays without axes gives an array
    ArrayOrNumber: TypeAlias = Array
else:  # at run time it gives one of NumPy's numbers
    ArrayOrNumber = np.ndarray | jax.Array | np.generic
Seed: TypeAlias = int | np.integer | Array  # an array is one JAX key, of the new kind or the old one
Category: TypeAlias = Hashable
"""A category, a class or a symbol: one of finitely many values of the user's own type."""
if TYPE_CHECKING:
    from narwhals.typing import IntoFrame, IntoSeries
    from scipy.sparse import sparray, spmatrix

    Values: TypeAlias = ArrayLike | IntoSeries
    Data: TypeAlias = Values | Mapping[Hashable, Values] | IntoFrame | sparray | spmatrix
else:  # whatever libraries the user has
    Values = Data = object
P = ParamSpec("P")  # arguments and result of a function that is called for another one
Result = TypeVar("Result")

__all__ = [
    "Array",
    "ArrayOrNumber",
    "Bool",
    "Category",
    "Data",
    "Float",
    "Int",
    "Integer",
    "Num",
    "P",
    "PRNGKeyArray",
    "Real",
    "Result",
    "Seed",
    "Shaped",
    "Values",
]
