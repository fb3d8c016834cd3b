"""How answers of one kind are told: which scores, in which digits, and what of rows in which they differ."""

import abc
import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from rich.console import RenderableType
from rich.text import Text

from bayesgen.evaluation import Comparison, Scored

Spelling = Callable[[str], str]


class Line(NamedTuple):
    """A line of the table of scores: its name, the column of scores, a number as text, and which number is best."""

    name: str
    column: str
    text: Callable[[float], str]
    best: Callable[..., float] | None


class Layout(abc.ABC):
    """How answers of one kind are told.

    Attributes:
        scores: lines of scores, the first in the table.
        counts: lines of counts, left out where nothing was counted.
        legend: what the scores mean.
    """

    scores: tuple[Line, ...]
    counts: tuple[Line, ...]
    legend: str

    def drawings(self, scored: Scored) -> dict[str, str]:
        """More lines of the table of scores: what is drawn of an answer in a few signs, by the name of the line."""
        return {}

    def reference(self, comparison: Comparison, model: str) -> Iterator[Text]:
        """What this model's scores are to be held against."""
        yield from ()

    def costs(self, comparison: Comparison, model: str, spell: Spelling) -> Iterator[RenderableType]:
        """The test rows that cost this model's answers most."""
        yield from ()

    @abc.abstractmethod
    def disagreements(
        self, comparison: Comparison, model: str, width: int, spell: Spelling
    ) -> Iterator[RenderableType]:
        """The test rows in which this model's answers differ, the widest apart first."""


@functools.singledispatch
def layout_of(target: Any) -> Layout:
    """How answers that are held against such a target are told. Kinds of answers register theirs here."""
    raise TypeError(f"no layout tells answers that are held against {type(target).__name__}.")
