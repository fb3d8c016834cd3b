"""What the commands print: columns as read, scores of answers side by side, and rows in which answers disagree."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from bayesgen.data import COUNT, REAL, Dataset, Kind, Schema
from bayesgen.describe import BARS, WIDTH, histogram, quote_some, signed, with_error
from bayesgen.evaluation import TRUTH, Answer, Comparison, Study
from bayesgen.prediction import Metric

_STEP_STYLES = {True: "cyan", False: "green"}
_STEP_NAMES = {True: "two-step", False: "one-step"}
_RULE_NAMES = {"PlugIn": "plug-in", "PlugIn(mean)": "at mean", "PlugIn(mode)": "at mode"}

HEADLINES = ("accuracy", "log_score", "rmse", "crps")  # scores of a study on the screen
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


def cells(
    values: Sequence[float],
    text: Callable[[float], str],
    best: Callable[..., float] | None,
    spell: Callable[[str], str],
) -> Iterator[Text]:
    """Numbers as text, the best in bold unless all are equal; a dash for a refused answer."""
    texts = ["–" if math.isnan(value) else text(value) for value in values]
    numbers = [value for value in values if not math.isnan(value)]
    winner = text(best(numbers)) if best and len(set(texts) - {"–"}) > 1 else None
    for cell in texts:
        yield Text(spell(cell), style="bold" if cell == winner else "")


Spelling = Callable[[str], str]


def _baseline(comparison: Comparison, answers: Sequence[Answer], model: str) -> Iterator[Text]:
    """The log score of the shares of the classes alone, and whether every answer is worse."""
    score = comparison.target.reference.get("class_shares_log_score")
    if score is None:
        return
    text = Text(f"Shares of the classes among the training rows alone, no column read: log score {score:.4f}.")
    if answers and max(answer.log_scores.mean() for answer in answers) < score:
        text.append(f" Every answer of {model} is worse than that.", style="yellow")
    yield text


_COSTS = (
    "Rows in which an answer does worse than the shares of the classes. The column is the one without which the log "
    "score would be highest; several where answers differ in it, or where each rules the row out."
)


def _cost_table(
    comparison: Comparison, answers: Sequence[Answer], model: str, spell: Spelling
) -> Iterator[RenderableType]:
    """A row of log scores for each costly row of a model, and the columns without which they would be highest."""
    costs = [cost for cost in comparison.costs if cost.model == model]
    if not costs:
        return
    yield Text(f"{model}: rows that cost most (log scores), and the column that did it", style="bold")
    table = answer_table(answers, "row", "truth")
    table.add_column(Text("\n\ncolumn"), overflow="fold")
    for start in range(0, len(costs), len(answers)):
        row_costs = costs[start : start + len(answers)]
        scores = [spell(signed("{:.3f}")(cost.log_score)) for cost in row_costs]
        columns = dict.fromkeys(name for cost in row_costs for name in cost.columns)
        table.add_row(str(row_costs[0].row), str(row_costs[0].truth), *scores, ", ".join(columns))
    yield table
    yield Text(f"{_COSTS}\n", style="dim")


def _disagreements(
    comparison: Comparison, answers: Sequence[Answer], model: str, width: int, spell: Spelling
) -> Iterator[RenderableType]:
    """The test rows in which a model's answers differ, the largest difference first."""
    scorer, is_wide, frames = comparison.target, width >= WIDTH, [answer.rows for answer in answers]
    heading, positions = scorer.disagreement(model, frames) if len(frames) > 1 else ("", ())
    if len(positions) == 0:
        yield from [Text(heading)] if heading else []
        return
    yield Text(spell(heading), style="bold")
    table = answer_table(answers, "row", "truth")
    for position in positions:
        rows = [frame.iloc[position] for frame in frames]
        cells = [scorer.cell(row) for row in rows]
        texts = [Text(spell((scorer.gap if is_wide else "\n").join(parts)), style=style) for parts, style in cells]
        table.add_row(str(comparison.rows[position]), scorer.truth_text(rows[0]["truth"]), *texts)
    yield table
    yield Text(scorer.note.format(place="Beside" if is_wide else "Below"), style="dim")


_STEPS = (
    "Two-step: learn one process, then predict by it (plug-in). One-step: average over all processes, each "
    "as probable as the data leave it (BMA)."
)
_DIFFERENCES = (
    "vs MAP, vs mean: log score minus that of the MAP or posterior-mean plug-in, ± standard error over "
    "test rows. Seconds: to learn and predict, compilation included."
)


def show(comparison: Comparison, title: str, console: Console, about: Sequence[RenderableType] = ()) -> None:
    """Print the comparison on a console, in its width and encoding; `about` is shown below the title."""
    width, spell = console.width, spelling(console.encoding)
    parts: list[RenderableType] = [Text(title, style="bold"), Text(), *about]
    for model in dict.fromkeys(answer.model for answer in comparison.answers):
        answers = [answer for answer in comparison.scored if answer.model == model]
        parts += [Text(model, style="bold"), _score_table(comparison, answers, model, width, spell)]
        parts += [*_baseline(comparison, answers, model), *_refusals(comparison, model), Text()]
        parts += [*_disagreements(comparison, answers, model, width, spell), Text()]
        parts += _cost_table(comparison, answers, model, spell)
    legend = Text(spell(f"{_STEPS} {comparison.target.legend} {_DIFFERENCES}"), style="dim")
    console.print(Group(*parts, legend))


def _score_table(comparison: Comparison, scored: Sequence[Answer], model: str, width: int, spell: Spelling) -> Table:
    scorer, scores = comparison.target, comparison.table
    scores = scores[scores.model == model]
    answers = [answer for answer in comparison.answers if answer.model == model]
    table = answer_table(answers, "")

    def add(metric: Metric) -> None:
        values = scores[metric.column].astype(float).tolist()
        table.add_row(metric.name, *cells(values, metric.text, metric.best, spell))

    for metric in scorer.metrics:
        if metric.name:
            add(metric)
    if scorer.histogram is not None:
        name, column = scorer.histogram
        drawings = {tuple(answer.key.values()): histogram(answer.rows[column].to_numpy()) for answer in scored}
        table.add_row(name, *(Text(spell(drawings.get(tuple(answer.key.values()), "–"))) for answer in answers))
    separator = " " if width >= WIDTH else "\n"
    for name, column, error in (
        ("vs MAP", "difference", "standard_error"),
        ("vs mean", "difference_from_mean", "standard_error_from_mean"),
    ):
        pairs = zip(scores[column].tolist(), scores[error].tolist(), strict=True)
        differences = [spell(with_error(value, spread, separator)) for value, spread in pairs]
        if any(differences):
            table.add_row(name, *differences)
    for count in scorer.counts:
        if scores[count.column].fillna(0).sum() > 0:
            add(count)
    seconds = (scores["fit_seconds"] + scores["predict_seconds"]).tolist()
    table.add_row(
        "seconds", *cells(seconds, lambda spent: f"{spent:.{3 if spent < 1 else 1}f}", None, spell), style="dim"
    )
    return table


def _refusals(comparison: Comparison, model: str) -> Iterator[Text]:
    refused = [answer for answer in comparison.answers if answer.model == model and answer.refused]
    for method, message in dict.fromkeys((answer.method, answer.refused) for answer in refused):
        yield Text.assemble((f"{method} refused: ", "yellow"), str(message))


def show_study(study: Study, title: str, console: Console, about: Sequence[RenderableType] = ()) -> None:
    """Print the means over repeats of every answer, by size, with their errors, and the paired differences.

    `about` is shown below the title.
    """
    spell = spelling(console.encoding)
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 0, 0, 1), pad_edge=False)
    metrics = [metric for metric in study.metrics if metric in HEADLINES]
    heads = [metric.replace("_", " ") for metric in metrics]
    for head in ("model", "answer", "size", *heads, "difference", "refused"):
        table.add_column(Text(head), justify="left" if head in ("model", "answer") else "right")
    for line in study.summary.to_dict("records"):
        means = ["–" if math.isnan(line[metric]) else signed("{:.4f}")(line[metric]) for metric in metrics]
        difference = with_error(line["difference"], line["standard_error"], " ")
        refused = f"{line['refused']} of {line['repeats'] + line['refused']}" if line["refused"] else ""
        cells_of_line = (line["model"], f"{line['method']} + {line['rule']}", str(line["size"]), *means)
        table.add_row(*(Text(spell(cell)) for cell in (*cells_of_line, difference, refused)))
    references = [f"{' + '.join(pair)} of {model}" for model, pair in study.references.items() if model != TRUTH]
    note = f"Differences of log scores are from {', '.join(references)}. {study.about_errors}"
    console.print(Text(spell(title), style="bold"), *about, table, Text(spell(note), style="dim"), sep="\n")


COLUMNS_SHOWN = 20


@dataclass(frozen=True)
class ColumnAsRead:
    """A column as read.

    Attributes:
        name, kind: of the column in the schema.
        values: number of different values.
        missing: number of missing cells.
        holds: the range of its numbers, or its first values.
        hardly_repeats: whether a text occurs in fewer than four rows on average, or whole numbers all differ, as
            identifiers do. False for sequences and other numbers, which seldom repeat.
    """

    name: str
    kind: str
    values: int
    missing: int
    holds: str
    hardly_repeats: bool


def columns_as_read(dataset: Dataset, schema: Schema) -> list[ColumnAsRead]:
    """Each column of a frame; a matrix of counts counts as one column."""
    if not isinstance(dataset.X, pd.DataFrame):
        cells = pd.Series(np.append(dataset.X.data, 0))  # zeros, which the matrix does not store
        name = f"{dataset.X.shape[1]} columns"
        return [ColumnAsRead(name, COUNT.name, cells.nunique(), 0, _range(cells), False)]
    inferred = Schema.infer(dataset.X, declared=schema)
    names = map(str, dataset.X.columns)
    return [_as_read(name, inferred.kind_of(name), dataset.X[name].dropna(), len(dataset.X)) for name in names]


def _as_read(name: str, kind: Kind, observed: pd.Series, num_rows: int) -> ColumnAsRead:
    is_real, num_values = kind.events == REAL, observed.nunique()
    if is_real:
        hardly_repeats = 1 < num_values == len(observed) and bool((observed == observed.round()).all())
    else:
        hardly_repeats = not kind.has_steps and 4 * num_values > num_rows
    holds = _range(observed) if is_real else quote_some(sorted(observed.unique().tolist(), key=str), 3)
    return ColumnAsRead(name, kind.name, num_values, num_rows - len(observed), holds, hardly_repeats)


def _range(cells: pd.Series) -> str:
    return f"{cells.min():.6g} to {cells.max():.6g}" if len(cells) else ""


def column_table(columns: Sequence[ColumnAsRead]) -> list[RenderableType]:
    """A table with a line for each of the first columns."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for head in ("column", "read as", "values", "missing", "from, or first values"):
        is_numeric = head in ("values", "missing")
        justify: Literal["right", "left"] = "right" if is_numeric else "left"
        table.add_column(head, justify=justify, no_wrap=is_numeric or head == "read as", overflow="fold")
    for column in columns[:COLUMNS_SHOWN]:
        counts = (f"{column.values:,}", f"{column.missing:,}")
        table.add_row(Text(column.name), column.kind, *counts, Text(column.holds))
    more = len(columns) - COLUMNS_SHOWN
    cut = [Text(f"and {more} more columns, all of which are in --json and --out", style="dim")] if more > 0 else []
    return [table, *cut, Text()]
