"""`Extensions`: which members of the domain each hypothesis holds, one bit each."""

import dataclasses

import numpy as np
import scipy.sparse

CHUNK = 1 << 14  # hypotheses that are packed or counted at a time
BITS = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).astype(np.float64)  # (256, 8)


@dataclasses.dataclass(frozen=True, eq=False)
class Extensions:
    """A matrix of H x D booleans, eight to a byte: a million hypotheses over a thousand members take 125 MB.

    Attributes:
        rows: (H, ceil(D / 8)) bytes, the members of each hypothesis in the order of the domain.
        num_members: D.

    `numpy.asarray(extensions)` unpacks them all.
    """

    rows: np.ndarray
    num_members: int

    @classmethod
    def of(cls, matrix):
        """Pack a matrix (H, D) of booleans, dense or scipy.sparse."""
        if isinstance(matrix, cls):
            return matrix
        sparse = scipy.sparse.issparse(matrix)
        matrix = matrix.tocsr() if sparse else np.asarray(matrix, bool)
        rows = np.empty((matrix.shape[0], -(-matrix.shape[1] // 8)), np.uint8)
        for start in range(0, len(rows), CHUNK):
            part = matrix[start : start + CHUNK]
            rows[start : start + CHUNK] = np.packbits(part.toarray().astype(bool) if sparse else part, axis=1)
        return cls(rows, matrix.shape[1])

    @classmethod
    def concatenate(cls, parts):
        """All hypotheses of several matrices over one domain."""
        return cls(np.concatenate([part.rows for part in parts]), parts[0].num_members)

    @property
    def shape(self):
        """(H, D)."""
        return len(self.rows), self.num_members

    def __array__(self, dtype=None, copy=None):
        return np.unpackbits(self.rows, axis=1, count=self.num_members).astype(dtype or bool)

    def sizes(self):
        """(H,) number of members of each hypothesis."""
        return np.bitwise_count(self.rows).sum(1, dtype=np.int64)

    def held(self, counts):
        """(H,) how many of the examples counted by member, (D,) whole numbers, each hypothesis holds."""
        total = np.zeros(len(self.rows), np.int64)
        for place in np.flatnonzero(counts):
            total += int(counts[place]) * (self.rows[:, place >> 3] >> (7 - (place & 7)) & 1)
        return total

    def weigh(self, weights):
        """(D,) total weight of the hypotheses that hold each member. Nothing is unpacked: bytes are counted."""
        used = np.flatnonzero(weights)
        rows, weights = (self.rows, weights) if len(used) == len(weights) else (self.rows[used], weights[used])
        totals = np.zeros((rows.shape[1], 256))
        for start in range(0, len(rows), CHUNK):  # small enough to stay in the cache
            columns, own = rows[start : start + CHUNK].T.copy(), weights[start : start + CHUNK]
            totals += [np.bincount(column, own, minlength=256) for column in columns]
        return (totals @ BITS).ravel()[: self.num_members]

    def equal_groups(self):
        """Groups of two or more hypotheses that hold the same members: lists of their indices."""
        groups: dict[bytes, list[int]] = {}
        for index, row in enumerate(self.rows):
            groups.setdefault(row.tobytes(), []).append(index)
        return [group for group in groups.values() if len(group) > 1]
