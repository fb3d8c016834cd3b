"""What objects tell of themselves in a notebook: a title, and a short line for each fact."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

WIDTH = 110


def described(title: str, facts: Mapping[str, str | None]) -> str:
    """The title, and a line for each fact that is known, none of them wide."""
    lines = [title, *(f"  {name}: {text}" for name, text in facts.items() if text)]
    return "\n".join(map(shortened, lines))


def shortened(text: str) -> str:
    """The text on one line, cut where it is wide."""
    line = " ".join(text.split("\n"))
    return line if len(line) <= WIDTH else line[: WIDTH - 3] + "..."


def counted(values: Iterable[Any]) -> str | None:
    """How many names there are, and the first of them; None if there are none."""
    names = list(values)
    return f"{len(names)} ({quote_some(names, 5)})" if names else None


def shapes(arrays: Mapping[str, Any], skip: int = 0) -> str:
    """Names and shapes of arrays, without so many leading axes."""
    return ", ".join(f"{name} {np.shape(value)[skip:]}" for name, value in arrays.items())


def amount(value: float | None) -> str | None:
    """A number to six digits, whole ones in full; None where there is none."""
    if value is None:
        return None
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.6g}"


def quote_some(values: Iterable[Any], limit: int = 10) -> str:
    """At most `limit` values as text for a message, and how many more there are."""
    sequence = values if isinstance(values, Sequence) else list(values)
    start = [v.item() if isinstance(v, np.generic) and v.dtype.kind in "biufU" else v for v in sequence[:limit]]
    shown = ", ".join(map(repr, start))
    return f"{shown} and {len(sequence) - limit} more" if len(sequence) > limit else shown
