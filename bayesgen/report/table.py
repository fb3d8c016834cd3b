"""Tables with one column for each answer, for terminals: their heads, numbers as text, and signs that all can show."""

import math
from collections.abc import Callable, Iterator, Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from bayesgen.evaluation import Answer

WIDE = 110  # from this width on, a value and its standard error stand on one line
_STEP_STYLES = {True: "cyan", False: "green"}
_STEP_NAMES = {True: "two-step", False: "one-step"}
_RULE_NAMES = {"PlugIn": "plug-in", "PlugIn(mean)": "at mean", "PlugIn(mode)": "at mode"}

BARS = "▁▂▃▄▅▆▇█"
# what stands for signs that an output cannot encode
_ASCII = {"−": "-", "–": "-", "±": "+-", "∞": "inf", "≥": ">="} | {bar: str(n) for n, bar in enumerate(BARS, start=1)}


def can_encode(text: str, encoding: str) -> bool:
    """Whether every character of the text is in the encoding."""
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


def spelling(encoding: str) -> Callable[[str], str]:
    """A function that puts ASCII in place of the signs used here that the encoding lacks."""
    table = str.maketrans({sign: plain for sign, plain in _ASCII.items() if not can_encode(sign, encoding)})
    return lambda text: text.translate(table)


def answer_table(answers: Sequence[Answer], *leading: str) -> Table:
    """An empty table with one column per answer after the leading ones."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 0, 0, 1), pad_edge=False)
    for name in leading:
        table.add_column(Text(f"\n\n{name}"), no_wrap=name != "truth")
    for answer in answers:
        rule = _RULE_NAMES.get(answer.rule, answer.rule)
        head = f"{_STEP_NAMES[answer.two_step]}\n{answer.method}\n{rule}"
        table.add_column(Text(head, style=_STEP_STYLES[answer.two_step]), justify="right", overflow="fold")
    return table


def signed(pattern: str) -> Callable[[float], str]:
    """A function that writes a number by the pattern, with signs of typographers."""
    return lambda value: "−∞" if value == -math.inf else pattern.format(value).replace("-", "−")


def significant(value: float, digits: int = 4) -> str:
    """A number to so many significant digits, all of which are written, in full unless it is very large or small.

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


def cells(
    values: Sequence[float],
    text: Callable[[float], str],
    best: Callable[..., float] | None,
    spell: Callable[[str], str],
) -> Iterator[Text]:
    """Numbers as text, the best of them in bold, unless all read the same. A refused answer has a dash."""
    texts = ["–" if math.isnan(value) else text(value) for value in values]
    known = [value for value in values if not math.isnan(value)]
    winner = text(best(known)) if best and len(set(texts) - {"–"}) > 1 else None
    for cell in texts:
        yield Text(spell(cell), style="bold" if cell == winner else "")


def with_error(value: float, error: float, separator: str) -> str:
    """A difference and its standard error, to the same number of digits: four, or two of the error."""
    if math.isnan(value) or value == error == 0:
        return ""
    if math.isinf(value):
        return "+∞" if value > 0 else "−∞"
    digits = 4 if not 0 < error < 1e-3 else min(8, 1 - math.floor(math.log10(error)))
    text = f"{value:+.{digits}f}".replace("-", "−")
    return text if math.isnan(error) else f"{text}{separator}±{error:.{digits}f}"
