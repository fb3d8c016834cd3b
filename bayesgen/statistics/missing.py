"""Cells that are missing: what stands in for them, and who refuses them."""

from typing import NoReturn

from bayesgen.errors import DataError
from bayesgen.typing import Array, Bool, Shaped

from .arrays import Cells, Sparse, namespace


def filled(values: Cells, observed: Bool[Array, "n ..."], filling: float | int = 1.0) -> Shaped[Array, "n ..."]:
    """The rows with a value that every formula takes in place of the missing cells, which may be NaN."""
    if isinstance(values, Sparse):
        raise DataError("A sparse matrix has no missing cells: what it does not store is zero. Give a dense array.")
    return namespace(values, observed).where(observed, values, filling)


def refuse_missing(name: str) -> NoReturn:
    """Refuse missing cells of vectors that stand only as a whole."""
    raise DataError(
        f"The vectors of {name} have missing cells, and a part of one has no density of its own there. Drop these "
        "rows, or model the columns one by one."
    )
