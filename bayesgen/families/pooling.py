"""Which classes and columns share one variance: the structure argument of the normal families."""

import dataclasses

import numpy as np

from bayesgen.typing import ArrayOrNumber, Float


@dataclasses.dataclass(frozen=True)
class Pooling:
    """Sharing of a table (..., K, D) of variances, by summing over the axes that share.

    Attributes:
        tied: one variance (or covariance) for all classes. Needs a class axis.
        spherical: one variance for all columns. Needs a column axis.
    """

    tied: bool = False
    spherical: bool = False

    @property
    def axes(self) -> tuple[int, ...]:
        """The axes that share, counted from the end."""
        return (-2,) * self.tied + (-1,) * self.spherical

    def pool(self, table: Float[ArrayOrNumber, "..."]) -> Float[ArrayOrNumber, "..."]:
        """Sum over the axes that share, keeping them with length 1."""
        return np.sum(table, axis=self.axes, keepdims=True) if self.axes else table

    def shape(self, batch_shape: tuple[int, ...]) -> tuple[int, ...]:
        """Shape of the shared table, with length 1 where an axis is shared."""
        shape = list(batch_shape)
        for axis in self.axes:
            shape[axis] = 1
        return tuple(shape)

    def members(self, batch_shape: tuple[int, ...]) -> int:
        """How many cells of the table share each entry."""
        return int(np.prod([batch_shape[axis] for axis in self.axes], dtype=int))

    def squeeze(self, table: Float[ArrayOrNumber, "..."]) -> Float[ArrayOrNumber, "..."]:
        """Drop the shared axes."""
        return table.squeeze(self.axes) if self.axes else table

    def expand(self, table: Float[ArrayOrNumber, "..."]) -> Float[ArrayOrNumber, "..."]:
        """Put the shared axes back, with length 1. Works on NumPy and JAX arrays."""
        if self.tied and self.spherical:
            return table[..., None, None]
        if self.tied:
            return table[..., None, :]
        return table[..., None] if self.spherical else table
