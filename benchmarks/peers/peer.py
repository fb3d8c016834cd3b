"""What a peer is."""

import abc
import dataclasses
from collections.abc import Callable
from importlib.util import find_spec

from benchmarks.gda import Problem, Run


@dataclasses.dataclass(frozen=True)
class Ready:
    """A peer set up on a problem: what makes one run, and what setting up took."""

    sample: Callable[[int], Run]
    set_up_seconds: float = 0.0


class Peer(abc.ABC):
    """A sampler, in one form of the likelihood."""

    name: str
    packages: tuple[str, ...]

    @property
    def missing(self):
        """The packages that are not installed."""
        return [package for package in self.packages if find_spec(package) is None]

    @abc.abstractmethod
    def prepare(self, problem: Problem) -> Ready:
        """Set up, compilation included: what runs after is warm."""
