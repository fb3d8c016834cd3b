"""`Extensions`: which members of the domain each hypothesis holds, one bit each."""

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import scipy.sparse
from jaxtyping import UInt8

from bayesgen.errors import ModelError
from bayesgen.records import record, static
from bayesgen.typing import Bool, Float, Int, Shaped

CHUNK = 1 << 14  # hypotheses that are packed or counted at a time
BITS = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).astype(np.float64)  # (256, 8)


@record
class Extensions:
    """A matrix of H x D booleans, eight to a byte: a million hypotheses over a thousand members take 125 MB.

    Attributes:
        rows: the members of each hypothesis in the order of the domain, eight to a byte.
        num_members: D.

    `numpy.asarray(extensions)` unpacks them all.
    """

    rows: UInt8[np.ndarray, "H bytes"]
    num_members: int = static()

    @classmethod
    def of(
        cls, matrix: Any, names: Sequence[Hashable] | None = None, domain: Sequence[Hashable] | None = None
    ) -> "Extensions":
        """Pack a matrix (H, D) of booleans or of exactly 0 and 1, dense or scipy.sparse.

        Errors call hypotheses and members by names (H,) and domain (D,); by their indices if there are none.

        Raises:
            ModelError: what is no matrix, or has other entries.
        """
        sparse, matrix = scipy.sparse.issparse(matrix), matrix if isinstance(matrix, Extensions) else _matrix(matrix)
        hypotheses, members = _labels(matrix.shape, names, domain)
        if isinstance(matrix, Extensions):
            return matrix
        rows = np.empty((matrix.shape[0], -(-matrix.shape[1] // 8)), np.uint8)
        for start in range(0, len(rows), CHUNK):
            part = matrix[start : start + CHUNK]
            part = _booleans(part.toarray() if sparse else part, hypotheses[start : start + CHUNK], members)
            rows[start : start + CHUNK] = np.packbits(part, axis=1)
        return cls(rows, matrix.shape[1])

    @classmethod
    def concatenate(cls, parts: Sequence["Extensions"]) -> "Extensions":
        """All hypotheses of several matrices over one domain."""
        return cls(np.concatenate([part.rows for part in parts]), parts[0].num_members)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of hypotheses and of members of the domain."""
        return len(self.rows), self.num_members

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Shaped[np.ndarray, "H D"]:
        return np.unpackbits(self.rows, axis=1, count=self.num_members).astype(dtype or bool)

    def sizes(self) -> Int[np.ndarray, " H"]:
        """Number of members of each hypothesis."""
        return np.bitwise_count(self.rows).sum(1, dtype=np.int64)

    def held(self, counts: Int[np.ndarray, " D"]) -> Int[np.ndarray, " H"]:
        """How many of the examples, counted by member, each hypothesis holds."""
        total = np.zeros(len(self.rows), np.int64)
        for place in np.flatnonzero(counts):
            total += int(counts[place]) * (self.rows[:, place >> 3] >> (7 - (place & 7)) & 1)
        return total

    def weigh(self, weights: Float[np.ndarray, " H"]) -> Float[np.ndarray, " D"]:
        """Total weight of the hypotheses that hold each member. Nothing is unpacked: bytes are counted."""
        used = np.flatnonzero(weights)
        rows, weights = (self.rows, weights) if len(used) == len(weights) else (self.rows[used], weights[used])
        totals = np.zeros((rows.shape[1], 256))
        for start in range(0, len(rows), CHUNK):  # small enough to stay in the cache
            columns, of_chunk = rows[start : start + CHUNK].T.copy(), weights[start : start + CHUNK]
            totals += [np.bincount(column, of_chunk, minlength=256) for column in columns]
        return (totals @ BITS).ravel()[: self.num_members]

    def equal_groups(self) -> list[list[int]]:
        """Groups of two or more hypotheses that hold the same members: lists of their indices."""
        groups: dict[bytes, list[int]] = {}
        for index, row in enumerate(self.rows):
            groups.setdefault(row.tobytes(), []).append(index)
        return [group for group in groups.values() if len(group) > 1]


def _matrix(values: Any) -> Any:
    """A sparse matrix by rows, or a dense one."""
    if scipy.sparse.issparse(values):
        return values.tocsr()
    try:
        matrix = np.asarray(values)
    except ValueError:
        raise ModelError("The extensions are no matrix: their rows differ in length.") from None
    if matrix.ndim != 2:
        raise ModelError(f"The extensions must be a matrix (hypotheses, members), got the shape {matrix.shape}.")
    return matrix


def _labels(
    shape: tuple[int, int], names: Sequence[Hashable] | None, domain: Sequence[Hashable] | None
) -> tuple[Sequence[Hashable], Sequence[Hashable]]:
    """What hypotheses and members are called."""
    names, domain = range(shape[0]) if names is None else names, range(shape[1]) if domain is None else domain
    if shape != (len(names), len(domain)) or not names:
        raise ModelError(
            f"{len(names)} names and {len(domain)} members need extensions ({len(names)}, {len(domain)}), at "
            f"least one of each; got {shape}."
        )
    return names, domain


def _booleans(
    part: Shaped[np.ndarray, "h D"], names: Sequence[Hashable], domain: Sequence[Hashable]
) -> Bool[np.ndarray, "h D"]:
    """Rows of booleans, or of numbers that are exactly 0 or 1, as booleans."""
    if part.dtype == bool:
        return part
    members = part == 1
    wrong = np.argwhere(~(members | (part == 0)))
    if len(wrong):
        hypothesis, member = wrong[0]
        value = part[hypothesis : hypothesis + 1, member].tolist()[0]
        raise ModelError(
            f"Whether hypothesis {names[hypothesis]!r} holds {domain[member]!r} must be True or False, 1 or 0; got "
            f"{value!r}."
        )
    return members.astype(bool)
