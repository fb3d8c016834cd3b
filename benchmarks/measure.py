"""Alternating measurements, the goals they are held to, and the lines of the table."""

import abc
import contextlib
import dataclasses
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax

REPEATS = 5
LONGEST = 12.0  # seconds after which a line begins no further round; the table tells how many runs it got
COMPILED = "/jax/core/compile/backend_compile_duration"


class Goal(abc.ABC):
    """What a figure, made of our median and the peer's, has to reach."""

    bound: float | None
    sign: str
    suffix: str

    @abc.abstractmethod
    def figure(self, ours: float, peer: float) -> float:
        """The figure that is judged."""

    def is_reached(self, figure: float) -> bool | None:
        """Whether it is good enough; None where nothing was asked."""
        if self.bound is None:
            return None
        return figure <= self.bound if self.sign == "<=" else figure >= self.bound

    def in_words(self, ours: float, peer: float) -> str:
        """How ours compares with the peer, in a table of a page; nothing where no peer is compared with."""
        return ""

    def __str__(self):
        return "-" if self.bound is None else f"{self.sign} {self.bound:g}{self.suffix}"


@dataclasses.dataclass(frozen=True)
class Faster(Goal):
    """How many times shorter our time is."""

    bound: float | None = None
    sign = ">="
    suffix = "x"

    def figure(self, ours, peer):
        return peer / ours

    def in_words(self, ours, peer):
        return f"{legible(peer / ours)} times faster" if ours <= peer else f"{legible(ours / peer)} times as long"


@dataclasses.dataclass(frozen=True)
class Higher(Goal):
    """How many times higher our rate is."""

    bound: float | None = None
    sign = ">="
    suffix = "x"

    def figure(self, ours, peer):
        return ours / peer

    def in_words(self, ours, peer):
        return f"{legible(ours / peer)} times as many"


@dataclasses.dataclass(frozen=True)
class Price(Goal):
    """What ours costs, in costs of the peer."""

    bound: float | None = None
    sign = "<="
    suffix = "x"

    def figure(self, ours, peer):
        return ours / peer

    def in_words(self, ours, peer):
        return f"{legible(ours / peer)} times as long"


@dataclasses.dataclass(frozen=True)
class Below(Goal):
    """Our own number, which is to stay below a bound."""

    bound: float | None = None
    sign = "<="
    suffix = ""

    def figure(self, ours, peer):
        return ours


GOALS = {goal.__name__: goal for goal in (Faster, Higher, Price, Below)}


def legible(value: float) -> str:
    """A number with three significant digits, or all its digits before the point."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


@dataclasses.dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes:
        work: what was done.
        goal: what the figure has to reach.
        ours: one number a run.
        peer: one number a run; empty where there is no peer.
        unit: of these numbers.
        peer_name: who the peer is and in which form.
        note: what a reader has to know besides.
    """

    work: str
    goal: Goal
    ours: Sequence[float]
    peer: Sequence[float] = ()
    unit: str = "s"
    peer_name: str = ""
    note: str = ""

    @property
    def medians(self) -> tuple[float, float]:
        """Ours and the peer's."""
        return statistics.median(self.ours), statistics.median(self.peer) if self.peer else float("nan")

    @property
    def figure(self) -> float:
        """What the goal is about."""
        return self.goal.figure(*self.medians)

    @property
    def verdict(self) -> str:
        """Whether the goal was reached, in a word."""
        return {True: "yes", False: "NO", None: "-"}[self.goal.is_reached(self.figure)]

    def as_json(self) -> dict[str, Any]:
        """All runs; `from_json` makes the line of it again."""
        values = {**vars(self), "goal": type(self.goal).__name__, "bound": self.goal.bound}
        return {**values, "ours": list(self.ours), "peer": list(self.peer)}


@dataclasses.dataclass(frozen=True)
class Missing:
    """A line that cannot be measured on this machine, and why."""

    work: str
    reason: str
    verdict = "skipped"

    def as_json(self) -> dict[str, Any]:
        """What was not measured, and why."""
        return {"work": self.work, self.verdict: self.reason}


@dataclasses.dataclass(frozen=True)
class Failed(Missing):
    """A line that ended in an error, and which."""

    verdict = "failed"


def from_json(line: dict[str, Any]) -> Row | Missing:
    """A line as `as_json` wrote it."""
    for kind in (Missing, Failed):
        if kind.verdict in line:
            return kind(line["work"], line[kind.verdict])
    values = {name: value for name, value in line.items() if name != "bound"}
    return Row(**values | {"goal": GOALS[line["goal"]](line["bound"])})


def seconds(work: Callable[[], object]) -> float:
    """Wall-clock time of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def rounds(once: Callable[[int], object], repeats: int) -> list:
    """What `once(round)` returns, as often as asked for; fewer where that takes too long."""
    start, found = time.monotonic(), []
    while len(found) < repeats and (not found or time.monotonic() - start < LONGEST):
        found.append(once(len(found)))
    return found


def duel(work, goal, ours, peer, peer_name, *, repeats=REPEATS, warm_up=True, note="") -> Row:
    """Time two functions alternately, so that both see the same drift of the machine."""
    if warm_up:
        ours()
        peer()
    pairs = rounds(lambda _: (seconds(ours), seconds(peer)), repeats)
    return Row(work, goal, *zip(*pairs, strict=True), peer_name=peer_name, note=note)


@contextlib.contextmanager
def compilations():
    """A list that gets one entry for each JAX compilation inside the block."""
    found: list[str] = []

    def listen(event, duration, **_):
        if event == COMPILED:
            found.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        yield found
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
