"""What the commands print of results: scores of answers side by side, and rows in which answers disagree."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import pandas as pd
from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Column, Table
from rich.text import Text

from bayesgen.describe import BARS, WIDTH, histogram, signed, with_error
from bayesgen.evaluation import TRUTH, Answer, Comparison, Study
from bayesgen.prediction import Metric

from .running import can_encode

_STEPS = {True: ("two-step", "cyan"), False: ("one-step", "green")}  # names and styles
_RULE_NAMES = {"PlugIn": "plug-in", "PlugIn(mean)": "at mean", "PlugIn(mode)": "at mode"}
Spelling: TypeAlias = Callable[[str], str]

HEADLINES = ("accuracy", "log_score", "rmse", "crps")  # scores of a study on the screen
# in place of characters that an output cannot encode
_ASCII = {"−": "-", "–": "-", "±": "+-", "∞": "inf", "≥": ">="} | {bar: str(n) for n, bar in enumerate(BARS, start=1)}


def spelling(encoding: str) -> Spelling:
    """A function that replaces the characters used here that the encoding lacks by ASCII."""
    table = str.maketrans({sign: plain for sign, plain in _ASCII.items() if not can_encode(sign, encoding)})
    return lambda text: text.translate(table)


def answer_table(answers: Sequence[Answer], *leading: str) -> Table:
    """An empty table with one column per answer after the leading ones."""
    columns = [Column(Text(f"\n\n{name}"), no_wrap=name != "truth") for name in leading]
    table = Table(*columns, box=box.SIMPLE_HEAD, padding=(0, 0, 0, 1), pad_edge=False)
    for answer in answers:
        step, style = _STEPS[answer.two_step]
        head = f"{step}\n{answer.method}\n{_RULE_NAMES.get(answer.rule, answer.rule)}"
        table.add_column(Text(head, style=style), justify="right", overflow="fold")
    return table


_DIFFERENCES = (
    "vs MAP, vs mean: log score minus that of the MAP or posterior-mean plug-in, ± standard error over "
    "test rows. Seconds: to learn and predict, compilation included."
)


def comparison_shown(comparison: Comparison, console: Console) -> RenderableType:
    """The scores of a comparison, and the rows in which answers differ, in the width and encoding of a console."""
    is_wide, spell, parts = console.width >= WIDTH, spelling(console.encoding), list[RenderableType]()
    verdicts = comparison.verdicts
    for model in dict.fromkeys(answer.model for answer in comparison.answers):
        answers = [answer for answer in comparison.scored if answer.model == model]
        parts += [Text(model, style="bold"), _score_table(comparison, model, is_wide, spell)]
        parts += [Text(spell(verdict), style="bold") for name, verdict in verdicts.items() if name == model]
        parts += [*_notes(comparison, answers, model), Text()]
        parts += [*_disagreements(comparison, answers, model, is_wide, spell), Text()]
        parts += _cost_table(comparison, answers, model, spell)
    return Group(*parts, Text(spell(f"{comparison.target.legend} {_DIFFERENCES}"), style="dim"))


def _score_table(comparison: Comparison, model: str, is_wide: bool, spell: Spelling) -> Table:
    target, scores = comparison.target, comparison.table[comparison.table.model == model]
    scores = scores.assign(seconds=scores["fit_seconds"] + scores["predict_seconds"])
    answers = [answer for answer in comparison.answers if answer.model == model]
    lines = [_score_line(metric, scores, spell) for metric in target.metrics if metric.name]
    if target.histogram is not None:
        name, column = target.histogram
        drawings = {(*answer.key.values(),): histogram(answer.rows[column].to_numpy()) for answer in comparison.scored}
        lines.append([name, *(spell(drawings.get((*answer.key.values(),), "–")) for answer in answers)])
    for name, suffix in (("vs MAP", ""), ("vs mean", "_from_mean")):
        pairs = zip(scores[f"difference{suffix}"], scores[f"standard_error{suffix}"], strict=True)
        differences = [spell(with_error(value, error, " " if is_wide else "\n")) for value, error in pairs]
        lines += [[name, *differences]] if any(differences) else []
    lines += [_score_line(count, scores, spell) for count in target.counts if scores[count.column].fillna(0).any()]
    table = answer_table(answers, "")
    for line in lines:
        table.add_row(*line)
    table.add_row(*_score_line(_SECONDS, scores, spell), style="dim")
    return table


_SECONDS = Metric("seconds", None, "seconds", lambda spent: f"{spent:.{3 if spent < 1 else 1}f}")


def _score_line(metric: Metric, scores: pd.DataFrame, spell: Spelling) -> list[str | Text]:
    """A name and its numbers as text, the best in bold unless all are equal; a dash for a refused answer."""
    values = scores[metric.column].astype(float)
    texts = ["–" if math.isnan(value) else metric.text(value) for value in values]
    winner = metric.text(metric.best(values.dropna())) if metric.best and len({*texts} - {"–"}) > 1 else None
    return [metric.name, *(Text(spell(text), style="bold" if text == winner else "") for text in texts)]


def _notes(comparison: Comparison, answers: Sequence[Answer], model: str) -> Iterator[Text]:
    """The log score of the shares of the classes alone, whether every answer is worse, and what was refused."""
    score = comparison.target.reference.get("class_shares_log_score")
    if score is not None:
        is_worse = len(answers) > 0 and max(answer.log_scores.mean() for answer in answers) < score
        yield Text.assemble(
            f"Shares of the classes among the training rows alone, no column read: log score {score:.4f}.",
            (f" Every answer of {model} is worse than that." if is_worse else "", "yellow"),
        )
    refused = [answer for answer in comparison.answers if answer.model == model and answer.refused]
    for method, message in dict.fromkeys((answer.method, answer.refused) for answer in refused):
        yield Text.assemble((f"{method} refused: ", "yellow"), str(message))


def _disagreements(
    comparison: Comparison, answers: Sequence[Answer], model: str, is_wide: bool, spell: Spelling
) -> Sequence[RenderableType]:
    """The test rows in which a model's answers differ, the largest difference first."""
    scorer, frames = comparison.target, [answer.rows for answer in answers]
    heading, positions = scorer.disagreement(model, frames) if len(frames) > 1 else ("", ())
    if len(positions) == 0:
        return [Text(heading)] if heading else []
    table = answer_table(answers, "row", "truth")
    for position in positions:
        cells = [scorer.cell(frame.iloc[position]) for frame in frames]
        texts = [Text(spell((scorer.gap if is_wide else "\n").join(parts)), style=style) for parts, style in cells]
        truth = scorer.truth_text(frames[0].iloc[position]["truth"])
        table.add_row(str(comparison.rows[position]), truth, *texts)
    return [
        Text(spell(heading), style="bold"),
        table,
        Text(scorer.note.format(place="Beside" if is_wide else "Below"), style="dim"),
    ]


_COSTS = (
    "Rows in which an answer does worse than the shares of the classes. The column is the one without which the log "
    "score would be highest; several where answers differ in it, or where each rules the row out."
)


def _cost_table(
    comparison: Comparison, answers: Sequence[Answer], model: str, spell: Spelling
) -> Sequence[RenderableType]:
    """A row of log scores for each costly row of a model, and the columns without which they would be highest."""
    costs = [cost for cost in comparison.costs if cost.model == model]
    if not costs:
        return []
    table = answer_table(answers, "row", "truth")
    table.add_column(Text("\n\ncolumn"), overflow="fold")
    for start in range(0, len(costs), len(answers)):
        row_costs = costs[start : start + len(answers)]
        scores = [spell(signed("{:.3f}")(cost.log_score)) for cost in row_costs]
        columns = dict.fromkeys(name for cost in row_costs for name in cost.columns)
        table.add_row(str(row_costs[0].row), str(row_costs[0].truth), *scores, ", ".join(columns))
    return [
        Text(f"{model}: rows that cost most (log scores), and the column that did it", style="bold"),
        table,
        Text(f"{_COSTS}\n", style="dim"),
    ]


def study_shown(study: Study, console: Console) -> RenderableType:
    """The means over repeats of every answer, by size, the paired differences with their errors, and the verdict."""
    spell, summary = spelling(console.encoding), study.summary
    metrics = {name.replace("_", " "): name for name in study.metrics if name in HEADLINES}

    def cells(line: Mapping[Any, Any]) -> dict[str, str]:
        answer, number = (line["method"], line["rule"]), line["refused"]
        scores = {head: line[name] for head, name in metrics.items()}
        refused = f"{number} of {line['repeats'] + number}" if number else ""
        return {
            "model": line["model"],
            "": "" if line["model"] == TRUTH else _STEPS[answer in study.two_step][0],
            "answer": " + ".join(answer),
            "size": str(line["size"]),
            **{head: "–" if math.isnan(score) else signed("{:.4f}")(score) for head, score in scores.items()},
            "difference": with_error(line["difference"], line["standard_error"]),
            **({"refused": refused} if summary["refused"].any() else {}),
        }

    lines = [cells(line) for line in summary.to_dict("records")]
    columns = (
        Column(Text(head), justify="left" if head in ("model", "", "answer") else "right", overflow="fold")
        for head in lines[0]
    )
    table = Table(*columns, box=box.SIMPLE_HEAD, padding=(0, 0, 0, 1), pad_edge=False)
    for line in lines:
        table.add_row(*(Text(spell(cell)) for cell in line.values()))
    references = [f"{' + '.join(pair)} of {model}" for model, pair in study.references.items() if model != TRUTH]
    return Group(
        table,
        Text(spell(study.verdict), style="bold"),
        Text(spell(f"Differences of log scores are from {', '.join(references)}. {study.about_errors}"), style="dim"),
    )
