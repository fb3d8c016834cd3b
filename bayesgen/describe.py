"""Short descriptions of objects, for notebooks and messages."""

import dataclasses
import html
import itertools
import math
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

WIDTH = 110  # most characters of a line
TEXT_WIDTH = 80  # of texts that are wrapped
MOST_LINES, MOST_ROWS = 20, 12  # of an object, and of a frame
BARS = "▁▂▃▄▅▆▇█"
LEFT = 'style="text-align: left"'  # notebooks align cells to the right
FLOATS = "{:,.4g}".format  # numbers of a frame
Entries: TypeAlias = Mapping[str, Any]  # texts and pandas frames by their names; None is left out
Description: TypeAlias = tuple[str, Entries]  # a title and entries


class Described:
    """A result that states its title and entries once, for the terminal and for notebooks."""

    def _description(self) -> Description:
        """The title, and entries by name."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return described(*self._description())

    def _repr_html_(self) -> str:
        return described_as_html(*self._description())


def described(title: str, entries: Entries) -> str:
    """A title, and "name: text" for each entry with a text, or a frame below the name.

    Texts are wrapped. Where lines are more than `MOST_LINES`, the longest texts are cut first.
    """
    texts = [title, *(f"  {name}: {entry}" for name, entry in entries.items() if isinstance(entry, str) and entry)]
    frames = [(name, entry) for name, entry in entries.items() if not isinstance(entry, str | None)]
    tables = [line for name, frame in frames for line in _table_lines(name, frame)]
    wrapped = [_wrapped(text, 4) for text in texts]
    while sum(map(len, wrapped)) + len(tables) > MOST_LINES and max(map(len, wrapped)) > 1:
        longest = max(range(len(texts)), key=lambda index: (len(wrapped[index]), index))
        wrapped[longest] = _wrapped(texts[longest], len(wrapped[longest]) - 1)
    return "\n".join([*itertools.chain(*wrapped), *tables])


def _wrapped(text: str, most: int) -> list[str]:
    """The lines of a text, at most so many, broken between words."""
    options: Any = {
        "initial_indent": "  " * text.startswith(" "),
        "subsequent_indent": "    ",
        "max_lines": most,
        "placeholder": " ...",
        "break_on_hyphens": False,
        "break_long_words": False,
    }
    return list(map(shortened, textwrap.wrap(text.strip(), TEXT_WIDTH, **options)))


def _table_lines(name: str, frame: "pd.DataFrame") -> list[str]:
    """The lines of a frame below its name, the first rows of a long one."""
    more = f", the first {MOST_ROWS} of {len(frame)} rows" if len(frame) > MOST_ROWS else ""
    return [f"  {name}{more}:", *frame.head(MOST_ROWS).to_string(index=False, float_format=FLOATS).split("\n")]


def described_as_html(title: str, entries: Entries) -> str:
    """A title and a table of the entries in HTML, in the colours of the page, with frames below the table."""
    rows, frames = list[str](), list[str]()
    for name, entry in ((html.escape(name), entry) for name, entry in entries.items() if entry is not None):
        if isinstance(entry, str):
            rows += (
                [f'<tr><th scope="row" {LEFT}>{name}</th><td {LEFT}>{html.escape(entry)}</td></tr>'] if entry else []
            )
        else:
            frames.append(f"<p>{name}</p>{entry.to_html(index=False, border=0, float_format=FLOATS)}")
    return f"<div><p><b>{html.escape(title)}</b></p><table>{''.join(rows)}</table>{''.join(frames)}</div>"


def free_name(name: str, used_names: Iterable[object]) -> str:
    """The name, with as many underscores behind it as make it different from the names in use."""
    names = set(used_names)
    while name in names:
        name += "_"
    return name


def shortened(text: str) -> str:
    """The text on one line, cut to `WIDTH`."""
    line = " ".join(text.split("\n"))
    return line if len(line) <= WIDTH else line[: WIDTH - 3] + "..."


def joined(texts: Sequence[str]) -> str:
    """Texts in a sentence: a, b and c."""
    return " and ".join(filter(None, [", ".join(texts[:-1]), *texts[-1:]]))


def stated(value: Any) -> str:
    """A dataclass as a call of its constructor, without arguments that have their defaults; other objects by `repr`."""
    how_made = getattr(type(value), "__dataclass_params__", None)
    if how_made is None or not how_made.init:
        return repr(value)
    arguments = []
    for field in dataclasses.fields(value):
        argument, make = getattr(value, field.name), field.default_factory
        default = field.default if make is dataclasses.MISSING else make()
        if field.init and field.repr and repr(argument) != repr(default):
            written = stated if getattr(getattr(argument, "__dataclass_params__", None), "repr", False) else repr
            arguments.append(f"{field.name}={written(argument)}")
    return f"{type(value).__qualname__}({', '.join(arguments)})"


def counted(values: Iterable[object]) -> str | None:
    """The number of names and the first five; None without names."""
    names = list(values)
    return f"{len(names)} ({quote_some(names, 5)})" if names else None


def shapes(arrays: Mapping[str, Any], skip: int = 0) -> str:
    """Names and shapes of arrays, without `skip` leading axes."""
    return ", ".join(f"{name} {np.shape(value)[skip:]}" for name, value in arrays.items())


def amount(value: float | None) -> str | None:
    """A number with six digits, integers in full; None for None."""
    if value is None:
        return None
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.6g}"


def signed(pattern: str) -> Callable[[float], str]:
    """A function that formats a number by the pattern, with typographic signs."""
    return lambda value: "−∞" if value == -math.inf else pattern.format(value).replace("-", "−")


def significant(value: float, digits: int = 4) -> str:
    """A number to so many significant digits, without an exponent unless it is very large or small.

    >>> significant(200.04), significant(-1234567.0), significant(0.012345, 3), significant(1.5e-7)
    ('200.0', '−1,234,567', '0.0123', '1.500e−07')
    """
    if not math.isfinite(value) or value == 0:
        text = f"{value:g}".replace("inf", "∞")
    elif 1e-4 <= abs(value) < 1e9:
        text = f"{value:,.{max(0, digits - 1 - math.floor(math.log10(abs(value))))}f}"
    else:
        text = f"{value:.{digits - 1}e}"
    return text.replace("-", "−")


def with_error(value: float, error: float, separator: str = " ") -> str:
    """A difference and its standard error, to the same number of digits: four, or two of the error."""
    if math.isnan(value) or value == error == 0:
        return ""
    if math.isinf(value):
        return "+∞" if value > 0 else "−∞"
    digits = 4 if not 0 < error < 1e-3 else min(8, 1 - math.floor(math.log10(error)))
    text = f"{value:+.{digits}f}".replace("-", "−")
    return text if math.isnan(error) else f"{text}{separator}±{error:.{digits}f}"


def histogram(values: np.ndarray) -> str:
    """A drawing of how numbers from 0 to 1 are distributed over tenths, NaN left out."""
    counts, _ = np.histogram(values[~np.isnan(values)], bins=10, range=(0.0, 1.0))
    even = max(1, len(values)) / 10  # as many rows give a bar of height 3
    heights = np.clip(np.rint(counts / even * 3), 0, len(BARS) - 1).astype(int)
    return "".join(BARS[height] for height in heights)


def quote_some(values: Iterable[object], limit: int = 10) -> str:
    """At most `limit` values as text for a message, and the number of others."""
    sequence = values if isinstance(values, Sequence) else list(values)
    start = [v.item() if isinstance(v, np.generic) and v.dtype.kind in "biufU" else v for v in sequence[:limit]]
    shown = ", ".join(map(repr, start))
    return f"{shown} and {len(sequence) - limit} more" if len(sequence) > limit else shown
