"""A comparison as a person reads it in a terminal: the answers side by side, then where they disagree."""

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from bayesgen.evaluation import Answer, Comparison

_WIDE = 110  # from this width on, a value and its standard error stand on one line
_SHOWN = 10  # rows of disagreement
_STEP_STYLES = {True: "cyan", False: "green"}
_STEP_NAMES = {True: "two-step", False: "one-step"}
_RULE_NAMES = {"PlugIn": "plug-in", "PlugIn(mean)": "at mean", "PlugIn(mode)": "at mode"}

_ASCII = {"−": "-", "–": "-", "±": "+-", "∞": "inf"}  # what stands for signs that an output cannot encode

_LEGEND = (
    "Two-step: learn one process, then predict by it (plug-in). One-step: average over all processes, each "
    "as probable as the data leave it (BMA). Log score: mean of log p(true class), higher is better. Brier "
    "score (summed over classes, 0 to 2) and calibration error (15 bins of equal mass): lower is better. "
    "vs MAP, vs mean: log score minus that of the MAP or posterior-mean plug-in, ± standard error over "
    "test rows. Seconds: to learn and predict, compilation included."
)


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


def render(comparison: Comparison, title: str, width: int, encoding: str = "utf-8") -> RenderableType:
    """The whole comparison, for a terminal `width` columns wide that shows characters of the encoding."""
    spell = spelling(encoding)
    parts: list[RenderableType] = [Text(title, style="bold"), Text()]
    for model in dict.fromkeys(answer.model for answer in comparison.answers):
        parts += [Text(model, style="bold"), _score_table(comparison, model, width, spell)]
        parts += [*_refusals(comparison, model), Text()]
        parts += [*_disagreements(comparison, model, width), Text()]
    return Group(*parts, Text(spell(_LEGEND), style="dim"))


def show(comparison: Comparison, title: str, console: Console) -> None:
    """Print the comparison on a console."""
    console.print(render(comparison, title, console.width, console.encoding))


def _answers_of(comparison: Comparison, model: str) -> list[Answer]:
    return [answer for answer in comparison.answers if answer.model == model]


def _table(answers: Sequence[Answer], *leading: str) -> Table:
    """An empty table with one column per answer after the leading ones."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 0, 0, 1), pad_edge=False)
    for name in leading:
        table.add_column(Text(f"\n\n{name}"), no_wrap=name != "truth")
    for answer in answers:
        rule = _RULE_NAMES.get(answer.rule, answer.rule)
        head = f"{_STEP_NAMES[answer.two_step]}\n{answer.method}\n{rule}"
        table.add_column(Text(head, style=_STEP_STYLES[answer.two_step]), justify="right", overflow="fold")
    return table


def _score_table(comparison: Comparison, model: str, width: int, spell: Callable[[str], str]) -> Table:
    answers = _answers_of(comparison, model)
    scores = comparison.table
    scores = scores[scores.model == model]
    table = _table(answers, "")

    def line(name: str, column: str, text: Callable[[float], str], best: Callable[..., float] | None) -> None:
        values = scores[column].astype(float).tolist()
        table.add_row(name, *_cells(values, text, best, spell))

    line("accuracy", "accuracy", "{:.3f}".format, max)
    line("log score", "log_score", _signed("{:.4f}"), max)
    line("Brier score", "brier", "{:.4f}".format, min)
    line("calibration error", "ece", "{:.4f}".format, min)
    separator = " " if width >= _WIDE else "\n"
    for name, column, error in (
        ("vs MAP", "difference", "standard_error"),
        ("vs mean", "difference_from_mean", "standard_error_from_mean"),
    ):
        pairs = zip(scores[column].tolist(), scores[error].tolist(), strict=True)
        cells = [spell(_with_error(value, spread, separator)) for value, spread in pairs]
        if any(cells):
            table.add_row(name, *cells)
    for name, column in (("impossible rows", "impossible"), ("true class ruled out", "ruled_out")):
        if scores[column].fillna(0).sum() > 0:
            line(name, column, "{:.0f}".format, min)
    seconds = (scores["fit_seconds"] + scores["predict_seconds"]).tolist()
    table.add_row(
        "seconds", *_cells(seconds, lambda spent: f"{spent:.{3 if spent < 1 else 1}f}", None, spell), style="dim"
    )
    return table


def _signed(pattern: str) -> Callable[[float], str]:
    return lambda value: "−∞" if value == -math.inf else pattern.format(value).replace("-", "−")


def _cells(
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


def _with_error(value: float, error: float, separator: str) -> str:
    """A difference and its standard error, to the same number of digits: four, or two of the error."""
    if math.isnan(value) or value == error == 0:
        return ""
    if math.isinf(value):
        return "+∞" if value > 0 else "−∞"
    digits = 4 if not 0 < error < 1e-3 else min(8, 1 - math.floor(math.log10(error)))
    text = f"{value:+.{digits}f}".replace("-", "−")
    return text if math.isnan(error) else f"{text}{separator}±{error:.{digits}f}"


def _refusals(comparison: Comparison, model: str) -> Iterator[Text]:
    seen = dict.fromkeys((a.method, a.refused) for a in _answers_of(comparison, model) if a.refused)
    for method, message in seen:
        yield Text.assemble((f"{method} refused: ", "yellow"), str(message))


def _disagreements(comparison: Comparison, model: str, width: int) -> Iterator[RenderableType]:
    """The test rows to which this model's answers give different classes, the widest apart first."""
    answers = [answer for answer in _answers_of(comparison, model) if answer.refused is None]
    truth = comparison.truth
    if len(answers) < 2 or truth is None:
        return
    named = np.stack([answer.named for answer in answers])
    possible = np.where(named < 0, named.max(axis=0), named)  # an answer that names no class disagrees with none
    differing = np.flatnonzero(possible.min(axis=0) != possible.max(axis=0))
    total = len(comparison.rows)
    if len(differing) == 0:
        yield Text(f"{model}: all answers name the same class in each of the {total} test rows.")
        return
    probabilities = np.exp(np.stack([answer.log_probabilities[differing] for answer in answers]))
    apart = (np.nanmax(probabilities, axis=0) - np.nanmin(probabilities, axis=0)).max(axis=1)
    order = np.argsort(-apart, kind="stable")
    title = f"{model}: rows where the answers differ, {len(differing)} of {total}"
    if len(order) > _SHOWN:
        title += f" (the {_SHOWN} widest apart; all are in --json and --out)"
    yield Text(title, style="bold")
    table = _table(answers, "row", "truth")
    for place in order[:_SHOWN]:
        row = differing[place]
        cells = [
            _named_cell(comparison, int(index), int(truth[row]), probabilities[a, place], width)
            for a, index in enumerate(named[:, row])
        ]
        table.add_row(str(comparison.rows[row]), str(comparison.classes[truth[row]]), *cells)
    yield table


def _named_cell(comparison: Comparison, index: int, truth: int, probabilities: np.ndarray, width: int) -> Text:
    if index < 0:
        return Text("impossible", style="dim")
    separator = " " if width >= _WIDE else "\n"
    text = f"{comparison.classes[index]}{separator}{probabilities[index]:.3f}"
    return Text(text, style="" if index == truth else "red")
