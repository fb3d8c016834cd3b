"""`HypothesisSpace`: finitely many concepts, each a set of members of one domain."""

import collections
import functools
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse
from jaxtyping import UInt8

from bayesgen.errors import DataError, ModelError, as_numbers
from bayesgen.records import copied, fill, record, static
from bayesgen.typing import Array, Bool, Float, Int, Shaped

from .prior import (
    Hyperparameter,
    HypothesisPrior,
    Number,
    Range,
    check_hyperparameters,
    merge_hyperparameters,
    merge_ranges,
    unknown,
)

CHUNK_HYPOTHESES = 1 << 14  # to pack or count at a time
BITS = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).astype(np.float64)  # (256, 8)


@record
class Extensions:
    """The members of each hypothesis: a matrix of H x D bits; a million hypotheses over 1,000 members take 125 MB.

    Attributes:
        rows: bits of the members of each hypothesis in the order of the domain, eight to a byte.
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

        Errors name hypotheses and members by names (H,) and domain (D,), or by indices.

        Raises:
            ModelError: an object that is not a matrix, or has other entries.
        """
        sparse, matrix = scipy.sparse.issparse(matrix), matrix if isinstance(matrix, Extensions) else _matrix(matrix)
        hypotheses, members = _labels(matrix.shape, names, domain)
        if isinstance(matrix, Extensions):
            return matrix
        rows = np.empty((matrix.shape[0], -(-matrix.shape[1] // 8)), np.uint8)
        for start in range(0, len(rows), CHUNK_HYPOTHESES):
            part = matrix[start : start + CHUNK_HYPOTHESES]
            part = _booleans(part.toarray() if sparse else part, hypotheses[start : start + CHUNK_HYPOTHESES], members)
            rows[start : start + CHUNK_HYPOTHESES] = np.packbits(part, axis=1)
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
        """Number of examples, counted by member, in each hypothesis."""
        total = np.zeros(len(self.rows), np.int64)
        for place in np.flatnonzero(counts):
            total += int(counts[place]) * (self.rows[:, place >> 3] >> (7 - (place & 7)) & 1)
        return total

    def weigh(self, weights: Float[np.ndarray, " H"]) -> Float[np.ndarray, " D"]:
        """Total weight of the hypotheses that hold each member, by counts of bytes without unpacking."""
        used = np.flatnonzero(weights)
        rows, weights = (self.rows, weights) if len(used) == len(weights) else (self.rows[used], weights[used])
        totals = np.zeros((rows.shape[1], 256))
        for start in range(0, len(rows), CHUNK_HYPOTHESES):  # small enough to stay in the cache
            columns, chunk_weights = (
                rows[start : start + CHUNK_HYPOTHESES].T.copy(),
                weights[start : start + CHUNK_HYPOTHESES],
            )
            totals += [np.bincount(column, chunk_weights, minlength=256) for column in columns]
        return (totals @ BITS).ravel()[: self.num_members]

    def equal_groups(self) -> list[list[int]]:
        """Groups of two or more hypotheses with the same members: lists of their indices."""
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
        raise ModelError("The extensions are not a matrix: their rows differ in length.") from None
    if matrix.ndim != 2:
        raise ModelError(f"The extensions must be a matrix (hypotheses, members), got the shape {matrix.shape}.")
    return matrix


def _labels(
    shape: tuple[int, int], names: Sequence[Hashable] | None, domain: Sequence[Hashable] | None
) -> tuple[Sequence[Hashable], Sequence[Hashable]]:
    """Names of hypotheses and members."""
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


@record
class HypothesisSpace:
    """Finitely many concepts, and their prior.

    Args:
        names: (H,) names of the hypotheses, all different.
        extensions: (H, D) booleans, or zeros and ones, dense or scipy.sparse: whether a hypothesis has a member of the
            domain. Each hypothesis has at least one.
        domain: (D,) the members, all different and hashable.
        prior: (H,) positive weights, or a function, `f(sizes, **hyperparameters)`, that JAX can trace and that returns
            the logarithms of the weights. Use a function of a module, because each new function is compiled again.
        normalize: False to refuse weights that do not sum to 1.
        ranges: name -> (low, high) for hyperparameters that must be between two bounds.
        hyperparameters: arguments of the function: numbers, or NumPyro distributions of a number.

    Raises:
        ModelError: shapes that do not fit, extensions that are not booleans or exactly 0 and 1, an empty extension, a
            hyperparameter out of its range, a prior that is not positive.

    Spaces with equal contents are equal. Memberships are stored as bits (see `Extensions`). Hypotheses with the same
    members remain different hypotheses; `duplicates` lists them.

    >>> space = HypothesisSpace.of({"even": lambda x: x % 2 == 0, "all": lambda x: True}, range(1, 5))
    >>> space.sizes.tolist()
    [2, 4]

    A prior with a hyperparameter, under which short words are more probable:

    >>> import numpyro.distributions as dist
    >>> words = HypothesisSpace(
    ...     ["a or b", "a"], [[True, True], [True, False]], ["a", "b"], lambda sizes, rate: -rate * sizes, rate=2.0
    ... )
    >>> words.prior.round(3).tolist()
    [0.119, 0.881]
    """

    names: tuple[Hashable, ...] = static()
    domain: tuple[Hashable, ...] = static()
    extensions: Extensions
    structure: HypothesisPrior
    hyperparameters: dict[str, Hyperparameter]
    ranges: dict[str, Range]

    def __init__(
        self,
        names: Iterable[Hashable],
        extensions: Any,
        domain: Iterable[Hashable],
        prior: HypothesisPrior | Callable[..., Any] | Sequence[float] | np.ndarray,
        *,
        normalize: bool = True,
        ranges: Mapping[str, Range] | None = None,
        **hyperparameters: Hyperparameter,
    ) -> None:
        fill(self, names=_hashable("names", names), domain=_hashable("members of the domain", domain))
        fill(self, extensions=Extensions.of(extensions, self.names, self.domain))
        self._check_members()
        fill(self, hyperparameters=hyperparameters, ranges=dict(ranges or {}))
        check_hyperparameters(hyperparameters, self.ranges)
        if isinstance(prior, HypothesisPrior):
            fill(self, structure=prior)
        elif callable(prior):
            fill(self, structure=HypothesisPrior.by_size(prior, hyperparameters, self.sizes))
        else:
            fill(self, structure=self._weights(prior, normalize))
        self._check_prior()

    def __hash__(self) -> int:
        """A hash of the names, the domain and the form of the prior, without members and weights."""
        return hash((self.names, self.domain, self.structure.factors, tuple(self.hyperparameters)))

    def __repr__(self) -> str:
        of = f", hyperparameters {', '.join(self.hyperparameters)}" if self.hyperparameters else ""
        return f"HypothesisSpace({len(self.names)} hypotheses over {len(self.domain)} members{of})"

    def _check_members(self) -> None:
        names, domain = self.names, self.domain
        for noun, values in (("members of the domain", domain), ("names", names)):
            if len(set(values)) < len(values):
                raise ModelError(f"The {noun} must all be different; {_repeated(values)!r} is there twice.")
        empty = np.flatnonzero(self.sizes == 0)
        if len(empty):
            raise ModelError(f"Hypothesis {names[empty[0]]!r} has no members in the domain. Leave it out.")

    def _check_prior(self) -> None:
        values = self.hyperparameters
        if not unknown(values) and not np.isfinite(self.structure.factors(values)).all():
            raise ModelError(f"The prior is not positive and finite for every hypothesis at {values}.")

    def _weights(self, prior: Any, normalize: bool) -> HypothesisPrior:
        """The prior of given weights, which are checked."""
        weights = as_numbers("The prior", prior, remedy="Give positive weights, or a function of sizes.")
        if weights.shape != (len(self.names),):
            raise ModelError(f"{len(self.names)} hypotheses need as many prior weights, got {weights.shape}.")
        wrong = np.flatnonzero(~(np.isfinite(weights) & (weights > 0)))
        if len(wrong):
            name, weight = self.names[wrong[0]], weights[wrong[0]]
            raise ModelError(f"Hypothesis {name!r} has prior weight {weight}: it must be positive. Leave out others.")
        with np.errstate(over="ignore"):
            total = weights.sum()
        if not normalize and abs(total - 1) > 1e-9:
            raise ModelError(f"The prior sums to {total:.10g}, not to 1. normalize=True normalises it.")
        return HypothesisPrior.fixed(weights)

    @classmethod
    def of(
        cls,
        predicates: Mapping[str, Callable[[Any], Any]],
        domain: Iterable[Hashable],
        prior: Any = None,
        **keywords: Any,
    ) -> "HypothesisSpace":
        """The space of hypotheses that predicates over a domain define; prior weights are equal unless given."""
        domain = list(domain)
        extensions = np.array([[bool(holds(member)) for member in domain] for holds in predicates.values()])
        weights = np.ones(len(predicates)) if prior is None else prior
        return cls(list(predicates), extensions, domain, weights, **keywords)

    @classmethod
    def union(
        cls,
        weighted: Iterable[tuple[float | Callable[..., Any], "HypothesisSpace"]],
        *,
        ranges: Mapping[str, Range] | None = None,
        **hyperparameters: Hyperparameter,
    ) -> "HypothesisSpace":
        """All hypotheses of several spaces over one domain; a hypothesis of two spaces is kept twice.

        Args:
            weighted: (weight, space) for each. A weight is a number, or a function of the hyperparameters.
            ranges: name -> (low, high) for those of the hyperparameters that must be between two bounds.
            hyperparameters: arguments of these functions.

        >>> rules = HypothesisSpace.of({"odd": lambda x: x % 2 == 1}, range(1, 5))
        >>> intervals = HypothesisSpace.of({"1 to 2": lambda x: x < 3, "3 to 4": lambda x: x > 2}, range(1, 5))
        >>> weighted = [(lambda rules: rules, rules), (lambda rules: 1 - rules, intervals)]
        >>> HypothesisSpace.union(weighted, rules=0.5).prior.tolist()
        [0.5, 0.25, 0.25]
        """
        weighted = list(weighted)
        if not weighted:
            raise ModelError("A union needs at least one (weight, space).")
        weights, spaces = zip(*weighted, strict=True)
        if any(space.domain != spaces[0].domain for space in spaces):
            raise ModelError("A union takes spaces over the same domain.")
        names = [name for space in spaces for name in space.names]
        prior = HypothesisPrior.union(weights, hyperparameters, [space.structure for space in spaces])
        merged: dict[str, Any] = merge_hyperparameters(hyperparameters, *(space.hyperparameters for space in spaces))
        extensions = Extensions.concatenate([space.extensions for space in spaces])
        together = merge_ranges(ranges or {}, *(space.ranges for space in spaces))
        return cls(names, extensions, spaces[0].domain, prior, ranges=together, **merged)

    @functools.cached_property
    def sizes(self) -> Int[np.ndarray, " H"]:
        """The number of members of each hypothesis."""
        return self.extensions.sizes()

    @property
    def prior(self) -> Float[np.ndarray, " H"]:
        """Prior probabilities.

        Raises:
            ModelError: a hyperparameter that is a distribution.
        """
        names = list(unknown(self.hyperparameters))
        if names:
            raise ModelError(f"The prior depends on the hyperparameters {names}: use space.at({names[0]}=...).prior.")
        return np.exp(self.log_prior(self.hyperparameters))

    def log_prior(self, values: Mapping[str, Number]) -> Float[Array, " H"]:
        """Log prior probabilities at hyperparameters by name. Traceable by JAX."""
        return self.structure.log_probabilities({**self.hyperparameters, **values})

    def at(self, **values: Hyperparameter) -> "HypothesisSpace":
        """The same space with numbers for some of its hyperparameters.

        Raises:
            ModelError: unknown names, and values that the constructor refuses.
        """
        other = self.at_mode(values)
        check_hyperparameters(values, self.ranges)
        other._check_prior()
        return other

    def at_mode(self, values: Mapping[str, Hyperparameter]) -> "HypothesisSpace":
        """The same space at a mode, which may be at bounds of ranges, where hypotheses have probability 0."""
        unknown_names = [name for name in values if name not in self.hyperparameters]
        if unknown_names:
            raise ModelError(f"The space has no hyperparameters {unknown_names}; it has {list(self.hyperparameters)}.")
        check_hyperparameters(values, self.ranges, closed=True)
        hyperparameters = {**self.hyperparameters, **values}
        return copied(self, hyperparameters=hyperparameters, sizes=self.sizes, place=self.place)

    @property
    def duplicates(self) -> list[tuple[Hashable, ...]]:
        """Names of hypotheses that have the same members."""
        return [tuple(self.names[index] for index in group) for group in self.extensions.equal_groups()]

    @functools.cached_property
    def place(self) -> dict[Hashable, int]:
        """member -> its position in the domain."""
        return {member: index for index, member in enumerate(self.domain)}

    def positions(self, members: Any, what: str = "examples") -> Int[np.ndarray, " n"]:
        """Positions of members in the domain."""
        members = members.tolist() if hasattr(members, "tolist") else members
        if isinstance(members, str) or not hasattr(members, "__iter__"):
            raise DataError(f"The {what} must be a 1-D sequence of members of the domain, got {members!r}.")
        members = list(members)
        outside = [member for member in members if not self.holds(member)]
        if outside:
            raise DataError(f"The {what} {outside} are not in the domain.")
        return np.asarray([self.place[_as_tuple(member)] for member in members], np.int64)

    def holds(self, member: Any) -> bool:
        """Whether a value is a member of the domain; a list counts as the tuple of its values."""
        try:
            return _as_tuple(member) in self.place
        except TypeError:  # values that are not hashable are no members
            return False


def _as_tuple(member: Any) -> Any:
    return tuple(member) if isinstance(member, list) else member


def _hashable(what: str, values: Any) -> tuple[Hashable, ...]:
    """Names or members as a tuple.

    Raises:
        ModelError: values that are not a collection, or not hashable.
    """
    if not isinstance(values, Iterable):
        raise ModelError(f"The {what} must be a sequence, got {values!r}.")
    values = tuple(values)
    for value in values:
        try:
            hash(value)
        except TypeError:
            raise ModelError(f"The {what} must be hashable, so {value!r} cannot be one. Give a tuple.") from None
    return values


def _repeated(values: Iterable[Hashable]) -> Hashable:
    """The first value that occurs twice."""
    return next(value for value, count in collections.Counter(values).items() if count > 1)
