"""Types of arrays with named axes, such as Float[Array, "n K"]: n rows, K classes.

Axes: n rows, K classes, D columns or dimensions, r categories, F features, and the number of draws. Shapes of
one axis are written with a space first, Float[Array, " n"], which keeps linters from taking them for names.
"""

from typing import TYPE_CHECKING, TypeAlias, TypeVar

import jax
import numpy as np
from jaxtyping import Bool, Float, Int, Integer, Num, PRNGKeyArray, Real, Shaped

Array: TypeAlias = np.ndarray | jax.Array
if TYPE_CHECKING:  # for NumPy's stubs, arithmetic on arrays without axes gives an array
    ArrayOrNumber: TypeAlias = Array
else:  # at run time it gives one of NumPy's numbers
    ArrayOrNumber = np.ndarray | jax.Array | np.floating | np.bool_
Seed: TypeAlias = int | np.integer | Array  # an array is one JAX key, of the new kind or the old one
Result = TypeVar("Result")  # of a function that is called for another one

__all__ = [
    "Array",
    "ArrayOrNumber",
    "Bool",
    "Float",
    "Int",
    "Integer",
    "Num",
    "PRNGKeyArray",
    "Real",
    "Result",
    "Seed",
    "Shaped",
]
