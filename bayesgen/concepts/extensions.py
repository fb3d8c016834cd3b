"""`Extensions`: which members of the domain each hypothesis holds, one bit each."""

import numpy as np
import scipy.sparse

from bayesgen.errors import ModelError
from bayesgen.records import record, static

CHUNK = 1 << 14  # hypotheses that are packed or counted at a time
BITS = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).astype(np.float64)  # (256, 8)


@record
class Extensions:
    """A matrix of H x D booleans, eight to a byte: a million hypotheses over a thousand members take 125 MB.

    Attributes:
        rows: (H, ceil(D / 8)) bytes, the members of each hypothesis in the order of the domain.
        num_members: D.

    `numpy.asarray(extensions)` unpacks them all.
    """

    rows: np.ndarray
    num_members: int = static()

    @classmethod
    def of(cls, matrix, names=None, domain=None):
        """Pack a matrix (H, D) of booleans or of exactly 0 and 1, dense or scipy.sparse.

        Errors call hypotheses and members by names (H,) and domain (D,); by their indices if there are none.

        Raises:
            ModelError: what is no matrix, or has other entries.
        """
        sparse, matrix = scipy.sparse.issparse(matrix), matrix if isinstance(matrix, cls) else _matrix(matrix)
        names, domain = _labels(matrix.shape, names, domain)
        if isinstance(matrix, cls):
            return matrix
        rows = np.empty((matrix.shape[0], -(-matrix.shape[1] // 8)), np.uint8)
        for start in range(0, len(rows), CHUNK):
            part = matrix[start : start + CHUNK]
            part = _booleans(part.toarray() if sparse else part, names[start : start + CHUNK], domain)
            rows[start : start + CHUNK] = np.packbits(part, axis=1)
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


def _matrix(values):
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


def _labels(shape, names, domain):
    """What hypotheses and members are called."""
    names, domain = (range(size) if own is None else own for size, own in zip(shape, (names, domain), strict=True))
    if shape != (len(names), len(domain)) or not names:
        raise ModelError(
            f"{len(names)} names and {len(domain)} members need extensions ({len(names)}, {len(domain)}), at "
            f"least one of each; got {shape}."
        )
    return names, domain


def _booleans(part, names, domain):
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
