"""A comparison in a terminal: the scores of answers side by side, then the rows in which they disagree."""

import abc
import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from bayesgen.evaluation import Answer, ClassTarget, Comparison, ContinuousTarget, DensityTarget, Scored
from bayesgen.prediction import named_classes

WIDE = 110  # from this width on, a value and its standard error are on one line
_STEP_STYLES = {True: "cyan", False: "green"}
_STEP_NAMES = {True: "two-step", False: "one-step"}
_RULE_NAMES = {"PlugIn": "plug-in", "PlugIn(mean)": "at mean", "PlugIn(mode)": "at mode"}

BARS = "▁▂▃▄▅▆▇█"
# in place of characters that an output cannot encode
_ASCII = {"−": "-", "–": "-", "±": "+-", "∞": "inf", "≥": ">="} | {bar: str(n) for n, bar in enumerate(BARS, start=1)}


def can_encode(text: str, encoding: str) -> bool:
    """Whether every character of the text is in the encoding."""
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


def spelling(encoding: str) -> Callable[[str], str]:
    """A function that replaces the characters used here that the encoding lacks by ASCII."""
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


def cells(
    values: Sequence[float],
    text: Callable[[float], str],
    best: Callable[..., float] | None,
    spell: Callable[[str], str],
) -> Iterator[Text]:
    """Numbers as text, the best in bold unless all are equal; a dash for a refused answer."""
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


Spelling = Callable[[str], str]


class ScoreRow(NamedTuple):
    """A row of the table of scores: its name and column, a number as text, and the best of several numbers."""

    name: str
    column: str
    text: Callable[[float], str]
    best: Callable[..., float] | None


class Layout(abc.ABC):
    """The layout of a comparison of answers of one kind.

    Attributes:
        scores: rows of scores, the first in the table.
        counts: rows of counts, left out where all are 0.
        legend: explanation of the scores.
    """

    scores: tuple[ScoreRow, ...]
    counts: tuple[ScoreRow, ...]
    legend: str

    def drawings(self, scored: Scored) -> dict[str, str]:
        """More rows of the table of scores: name of the row -> drawing of an answer in a few characters."""
        return {}

    def reference(self, comparison: Comparison, model: str) -> Iterator[Text]:
        """A reference for the scores of this model."""
        yield from ()

    def costs(self, comparison: Comparison, model: str, spell: Spelling) -> Iterator[RenderableType]:
        """The test rows that cost this model's answers most."""
        yield from ()

    @abc.abstractmethod
    def disagreements(
        self, comparison: Comparison, model: str, width: int, spell: Spelling
    ) -> Iterator[RenderableType]:
        """The test rows in which this model's answers differ, the largest difference first."""


@functools.singledispatch
def layout_of(target: Any) -> Layout:
    """The layout for answers to such a target. Kinds of answers register theirs here."""
    raise TypeError(f"no layout is registered for {type(target).__name__}.")


_CONTINUOUS_SHOWN = 10  # rows in which answers differ
_TENTHS, _EVEN_BAR = 10, 3  # the height of the bar of a tenth of the truths
_SAME = 0.01  # log scores that differ by less count as equal


def _nearest(level: float) -> Callable[..., float]:
    """A function that finds the number nearest to a level."""
    return functools.partial(min, key=lambda value: abs(value - level))


class ContinuousLayout(Layout):
    """The layout of distributions of a number."""

    scores = (
        ScoreRow("log score", "log_score", signed("{:.4f}"), max),
        ScoreRow("RMSE", "rmse", significant, min),
        ScoreRow("CRPS", "crps", significant, min),
        ScoreRow("in 50% interval", "coverage_50", "{:.1%}".format, _nearest(0.5)),
        ScoreRow("in 80% interval", "coverage_80", "{:.1%}".format, _nearest(0.8)),
        ScoreRow("in 95% interval", "coverage_95", "{:.1%}".format, _nearest(0.95)),
        ScoreRow("95% width", "width_95", significant, None),
    )
    counts = (
        ScoreRow("impossible rows", "impossible", "{:.0f}".format, min),
        ScoreRow("truth ruled out", "ruled_out", "{:.0f}".format, min),
    )
    legend = (
        "Log score: mean of log p(truth), higher is better. RMSE of the mean, and CRPS (continuous ranked probability "
        "score), in the units of the target: lower is better. In 50% interval: the share of truths within the central "
        "interval of 50%, which should be 50%; 95% width: mean width of the central interval of 95%. "
        "Truths by tenth: how many truths lie in each tenth of their distribution, from the lowest; level where "
        "probabilities are right, high at both ends where the answer is too sure, in the middle where not sure enough."
    )

    def drawings(self, scored: Scored) -> dict[str, str]:
        """A histogram of the tenths of their distributions in which the truths lie."""
        places = scored.row_scores["pit"]
        counts, _ = np.histogram(places[~np.isnan(places)], bins=_TENTHS, range=(0.0, 1.0))
        even = max(1, len(places)) / _TENTHS
        heights = np.clip(np.rint(counts / even * _EVEN_BAR), 0, len(BARS) - 1).astype(int)
        return {"truths by tenth": "".join(BARS[height] for height in heights)}

    def disagreements(
        self, comparison: Comparison, model: str, width: int, spell: Spelling
    ) -> Iterator[RenderableType]:
        """The rows in which the log scores of this model's answers differ most."""
        given = [one for one in comparison.scored if one.answer.model == model]
        if len(given) < 2:
            return
        log_scores = np.stack([one.log_scores for one in given])
        top = log_scores.max(axis=0)
        distance = np.where(np.isneginf(top), 0.0, top - log_scores.min(axis=0))
        order = np.argsort(-distance, kind="stable")[:_CONTINUOUS_SHOWN]
        order = order[distance[order] > _SAME]
        total = len(comparison.rows)
        if len(order) == 0:
            yield Text(f"{model}: the log scores of all answers are within {_SAME} in each of the {total} test rows.")
            return
        title = (
            f"{model}: the {len(order)} of {total} rows in which log scores differ most (mean ± deviation, log score)"
        )
        yield Text(spell(title), style="bold")
        table = answer_table([one.answer for one in given], "row", "truth")
        for row in order:
            truth = comparison.target.truth_columns(slice(None))["truth"][row]
            cells = []
            for one in given:
                outside = not one.row_scores["lower_95"][row] <= truth <= one.row_scores["upper_95"][row]
                text = _cell(
                    one.answer.prediction.mean[row], one.answer.prediction.std[row], one.log_scores[row], width
                )
                cells.append(Text(spell(text), style="red" if outside else ""))
            table.add_row(str(comparison.rows[row]), _plain(truth), *cells)
        yield table
        yield Text("Red: the truth lies outside the central interval of 95%.", style="dim")


def _cell(mean: float, std: float, log_score: float, width: int) -> str:
    """Mean, standard deviation and log score of one row."""
    if np.isnan(mean) and np.isneginf(log_score):
        return "impossible"
    separator = "  " if width >= WIDE else "\n"
    return f"{significant(mean)} ±{significant(std, 3)}{separator}{signed('{:.2f}')(log_score)}"


def _plain(truth: float) -> str:
    """A number without trailing zeros."""
    text = significant(truth, 6)
    return text.rstrip("0").rstrip(".") if "." in text and "e" not in text else text


@layout_of.register
def _(target: ContinuousTarget) -> Layout:
    return ContinuousLayout()


_SHOWN = 10  # rows of disagreement
_COSTS = (
    "Rows in which an answer does worse than the shares of the classes. The column is the one without which the log "
    "score would be highest; several where answers differ in it, or where each rules the row out."
)


class DensityLayout(Layout):
    """The layout of densities of rows, without predictions."""

    scores = (
        ScoreRow("accuracy", "accuracy", "{:.3f}".format, max),
        ScoreRow("log score", "log_score", signed("{:.4f}"), max),
        ScoreRow("Brier score", "brier", "{:.4f}".format, min),
        ScoreRow("calibration error", "ece", "{:.4f}".format, min),
    )
    counts = (
        ScoreRow("impossible rows", "impossible", "{:.0f}".format, min),
        ScoreRow("true class ruled out", "ruled_out", "{:.0f}".format, min),
    )
    legend = (
        "Log score: mean of log p(true class), higher is better. Brier "
        "score (summed over classes, 0 to 2) and calibration error (15 bins of equal mass): lower is better."
    )

    def disagreements(
        self, comparison: Comparison, model: str, width: int, spell: Spelling
    ) -> Iterator[RenderableType]:
        """None: there are no predictions."""
        yield from ()


class ClassLayout(DensityLayout):
    """The layout of class probabilities."""

    def reference(self, comparison: Comparison, model: str) -> Iterator[Text]:
        """The log score of the shares of the classes alone, and whether every answer is worse."""
        target = comparison.target
        assert isinstance(target, ClassTarget)
        score = target.log_score_of_shares
        given = [one.log_scores.mean() for one in comparison.scored if one.answer.model == model]
        text = Text(f"Shares of the classes among the training rows alone, no column read: log score {score:.4f}.")
        if given and max(given) < score:
            text.append(f" Every answer of {model} is worse than that.", style="yellow")
        yield text

    def costs(self, comparison: Comparison, model: str, spell: Spelling) -> Iterator[RenderableType]:
        """A row of log scores for each costly row, and the columns without which they would be highest."""
        costs = [cost for cost in comparison.costs if cost.model == model]
        answers = [one.answer for one in comparison.scored if one.answer.model == model]
        if not costs:
            return
        yield Text(f"{model}: rows that cost most (log scores), and the column that did it", style="bold")
        table = answer_table(answers, "row", "truth")
        table.add_column(Text("\n\ncolumn"), overflow="fold")
        for start in range(0, len(costs), len(answers)):
            of_row = costs[start : start + len(answers)]
            scores = [spell(signed("{:.3f}")(cost.log_score)) for cost in of_row]
            columns = dict.fromkeys(name for cost in of_row for name in cost.columns)
            table.add_row(str(of_row[0].row), str(of_row[0].truth), *scores, ", ".join(columns))
        yield table
        yield Text(f"{_COSTS}\n", style="dim")

    def disagreements(
        self, comparison: Comparison, model: str, width: int, spell: Spelling
    ) -> Iterator[RenderableType]:
        answers = [answer for answer in comparison.answers if answer.model == model and answer.refused is None]
        truth = comparison.truth
        if len(answers) < 2 or truth is None:
            return
        named = np.stack([named_classes(answer.prediction.log_probabilities) for answer in answers])
        possible = np.where(named < 0, named.max(axis=0), named)  # an answer without a class disagrees with none
        differing = np.flatnonzero(possible.min(axis=0) != possible.max(axis=0))
        total, num_unanswered = len(comparison.rows), int((named < 0).any(axis=0).sum())
        unanswered = f"; in {num_unanswered} at least one answer finds the row impossible and names no class"
        if num_unanswered == 0:
            unanswered = ""
        if len(differing) == 0:
            rows = f"{total - num_unanswered} of" if unanswered else "each of"
            yield Text(f"{model}: all answers name the same class in {rows} the {total} test rows{unanswered}.")
            return
        probabilities = np.exp(np.stack([answer.prediction.log_probabilities[differing] for answer in answers]))
        distance = (np.nanmax(probabilities, axis=0) - np.nanmin(probabilities, axis=0)).max(axis=1)
        order = np.argsort(-distance, kind="stable")
        title = f"{model}: rows where the answers differ, {len(differing)} of {total}{unanswered}"
        if len(order) > _SHOWN:
            title += f" (the {_SHOWN} widest apart; all are in --json and --out)"
        yield Text(title, style="bold")
        table = answer_table(answers, "row", "truth")
        for place in order[:_SHOWN]:
            row = differing[place]
            shown = [
                _named_cell(comparison, int(index), int(truth[row]), probabilities[a, place], width)
                for a, index in enumerate(named[:, row])
            ]
            table.add_row(str(comparison.rows[row]), str(comparison.classes[truth[row]]), *shown)
        yield table
        place = "Beside" if width >= WIDE else "Below"
        yield Text(
            f"{place} each class: the probability that the answer gives it. Red: not the true class.", style="dim"
        )


def _named_cell(comparison: Comparison, index: int, truth: int, probabilities: np.ndarray, width: int) -> Text:
    if index < 0:
        return Text("impossible", style="dim")
    separator = " " if width >= WIDE else "\n"
    text = f"{comparison.classes[index]}{separator}{probabilities[index]:.3f}"
    return Text(text, style="" if index == truth else "red")


@layout_of.register
def _(target: DensityTarget) -> Layout:
    return DensityLayout()


@layout_of.register
def _(target: ClassTarget) -> Layout:
    return ClassLayout()


_STEPS = (
    "Two-step: learn one process, then predict by it (plug-in). One-step: average over all processes, each "
    "as probable as the data leave it (BMA)."
)
_DIFFERENCES = (
    "vs MAP, vs mean: log score minus that of the MAP or posterior-mean plug-in, ± standard error over "
    "test rows. Seconds: to learn and predict, compilation included."
)


def render(
    comparison: Comparison, title: str, width: int, encoding: str = "utf-8", about: Sequence[RenderableType] = ()
) -> RenderableType:
    """The whole comparison, for a terminal of this width in columns and this encoding.

    `about` is shown below the title.
    """
    spell = spelling(encoding)
    layout = layout_of(comparison.target)
    parts: list[RenderableType] = [Text(title, style="bold"), Text(), *about]
    for model in dict.fromkeys(answer.model for answer in comparison.answers):
        parts += [Text(model, style="bold"), _score_table(comparison, layout, model, width, spell)]
        parts += [*layout.reference(comparison, model), *_refusals(comparison, model), Text()]
        parts += [*layout.disagreements(comparison, model, width, spell), Text()]
        parts += [*layout.costs(comparison, model, spell)]
    return Group(*parts, Text(spell(f"{_STEPS} {layout.legend} {_DIFFERENCES}"), style="dim"))


def show(comparison: Comparison, title: str, console: Console, about: Sequence[RenderableType] = ()) -> None:
    """Print the comparison on a console; `about` is shown below the title."""
    console.print(render(comparison, title, console.width, console.encoding, about))


def _score_table(comparison: Comparison, layout: Layout, model: str, width: int, spell: Spelling) -> Table:
    scores = comparison.table
    scores = scores[scores.model == model]
    answers = [answer for answer in comparison.answers if answer.model == model]
    table = answer_table(answers, "")

    def add(line: ScoreRow) -> None:
        values = scores[line.column].astype(float).tolist()
        table.add_row(line.name, *cells(values, line.text, line.best, spell))

    for line in layout.scores:
        add(line)
    drawings = {id(one.answer): layout.drawings(one) for one in comparison.scored}
    for name in dict.fromkeys(name for lines in drawings.values() for name in lines):
        table.add_row(name, *(Text(spell(drawings.get(id(answer), {}).get(name, "–"))) for answer in answers))
    separator = " " if width >= WIDE else "\n"
    for name, column, error in (
        ("vs MAP", "difference", "standard_error"),
        ("vs mean", "difference_from_mean", "standard_error_from_mean"),
    ):
        pairs = zip(scores[column].tolist(), scores[error].tolist(), strict=True)
        differences = [spell(with_error(value, spread, separator)) for value, spread in pairs]
        if any(differences):
            table.add_row(name, *differences)
    for line in layout.counts:
        if scores[line.column].fillna(0).sum() > 0:
            add(line)
    seconds = (scores["fit_seconds"] + scores["predict_seconds"]).tolist()
    table.add_row(
        "seconds", *cells(seconds, lambda spent: f"{spent:.{3 if spent < 1 else 1}f}", None, spell), style="dim"
    )
    return table


def _refusals(comparison: Comparison, model: str) -> Iterator[Text]:
    refused = [answer for answer in comparison.answers if answer.model == model and answer.refused]
    for method, message in dict.fromkeys((answer.method, answer.refused) for answer in refused):
        yield Text.assemble((f"{method} refused: ", "yellow"), str(message))
