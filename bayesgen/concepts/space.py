"""`HypothesisSpace`: finitely many concepts, each a set of members of one domain."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import DataError, ModelError


@dataclasses.dataclass(frozen=True, eq=False)
class HypothesisSpace:
    """Finitely many concepts, and their prior.

    Args:
        names: (H,) what the hypotheses are called, all different.
        extensions: (H, D) booleans: which members of the domain each hypothesis holds. None may be empty.
        domain: (D,) the members, all different.
        prior: (H,) positive weights; they are normalised.

    Raises:
        ModelError: shapes that do not fit, an empty extension, a prior that is not positive.

    >>> space = HypothesisSpace.of({"even": lambda x: x % 2 == 0, "all": lambda x: True}, range(1, 5))
    >>> space.sizes.tolist()
    [2, 4]
    """

    names: Sequence[str]
    extensions: np.ndarray
    domain: Sequence[Any]
    prior: np.ndarray

    def __post_init__(self):
        names, domain = tuple(self.names), tuple(self.domain)
        extensions, prior = np.asarray(self.extensions, bool), np.asarray(self.prior, np.float64)
        if extensions.shape != (len(names), len(domain)) or prior.shape != (len(names),):
            raise ModelError(
                f"{len(names)} names and {len(domain)} members need extensions ({len(names)}, {len(domain)}) and as "
                f"many prior weights as names; got {extensions.shape} and {prior.shape}."
            )
        if len(set(domain)) < len(domain) or len(set(names)) < len(names):
            raise ModelError("The members of the domain must all be different, and so must the names.")
        empty = np.flatnonzero(~extensions.any(1))
        if len(empty):
            raise ModelError(f"Hypothesis {names[empty[0]]!r} has no members in the domain. Leave it out.")
        if not (np.isfinite(prior) & (prior > 0)).all():
            raise ModelError("The prior must be positive and finite for every hypothesis.")
        fields = {"names": names, "domain": domain, "extensions": extensions, "prior": prior / prior.sum()}
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    @classmethod
    def of(cls, predicates: Mapping[str, Callable], domain, prior=None):
        """The space of predicates over a domain; equal prior weights unless given."""
        domain = list(domain)
        extensions = np.array([[bool(holds(member)) for member in domain] for holds in predicates.values()])
        weights = np.ones(len(predicates)) if prior is None else prior
        return cls(list(predicates), extensions, domain, weights)

    @classmethod
    def union(cls, weighted):
        """All hypotheses of several spaces over one domain, (weight, space) for each; a repeated one stays twice."""
        spaces = [space for _, space in weighted]
        if any(space.domain != spaces[0].domain for space in spaces):
            raise ModelError("Only spaces over the same domain unite.")
        prior = np.concatenate([weight * space.prior for weight, space in weighted])
        names = [name for space in spaces for name in space.names]
        return cls(names, np.concatenate([space.extensions for space in spaces]), spaces[0].domain, prior)

    @property
    def sizes(self) -> np.ndarray:
        """(H,) the number of members of each hypothesis."""
        return self.extensions.sum(1)

    @property
    def duplicates(self) -> list[tuple[str, ...]]:
        """Names of hypotheses that have the same members."""
        groups: dict[bytes, list[str]] = {}
        for name, row in zip(self.names, np.packbits(self.extensions, axis=1), strict=True):
            groups.setdefault(row.tobytes(), []).append(name)
        return [tuple(group) for group in groups.values() if len(group) > 1]

    def positions(self, members, what="examples") -> np.ndarray:
        """(n,) where these members stand in the domain."""
        place = {member: index for index, member in enumerate(self.domain)}
        values = np.asarray(members).tolist()
        if not isinstance(values, list) or any(isinstance(value, list) for value in values):
            raise DataError(f"The {what} must be a 1-D sequence of members of the domain.")
        strangers = [value for value in values if value not in place]
        if strangers:
            raise DataError(f"The {what} {strangers} are not in the domain.")
        return np.asarray([place[value] for value in values], np.int64)
