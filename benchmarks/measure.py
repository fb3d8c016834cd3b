"""Timing of two pieces of work in turn, and the ratio of their medians."""

import dataclasses
import statistics
import time
from collections.abc import Callable


@dataclasses.dataclass(frozen=True)
class Result:
    """One line of the table: seconds of ours and of the peer (medians), and what was to be reached."""

    work: str
    ours: float
    peer: float
    peer_name: str
    goal: str

    @property
    def ratio(self) -> float:
        """The peer's time over ours: how many times faster we are."""
        return self.peer / self.ours


def seconds(work: Callable[[], object]) -> float:
    """Wall-clock time of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def duel(work, ours, peer, peer_name, goal, repeats=5, warm_up=True) -> Result:
    """Time two functions alternately, so that both see the same drift of the machine."""
    if warm_up:
        ours()
        peer()
    pairs = [(seconds(ours), seconds(peer)) for _ in range(repeats)]
    return Result(work, *(statistics.median(column) for column in zip(*pairs, strict=True)), peer_name, goal)
