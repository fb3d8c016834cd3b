"""What the commands print of results: scores of answers side by side, and rows in which answers disagree."""

import math
from collections.abc import Callable, Iterator, Sequence

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from bayesgen.describe import BARS, WIDTH, histogram, signed, with_error
from bayesgen.evaluation import TRUTH, Answer, Calibration, Comparison, Study
from bayesgen.prediction import Metric

from .running import can_encode

_STEP_STYLES = {True: "cyan", False: "green"}
_STEP_NAMES = {True: "two-step", False: "one-step"}
_RULE_NAMES = {"PlugIn": "plug-in", "PlugIn(mean)": "at mean", "PlugIn(mode)": "at mode"}

LINES_SHOWN = 10  # of a calibration
HEADLINES = ("accuracy", "log_score", "rmse", "crps")  # scores of a study on the screen
# in place of characters that an output cannot encode
_ASCII = {"−": "-", "–": "-", "±": "+-", "∞": "inf", "≥": ">="} | {bar: str(n) for n, bar in enumerate(BARS, start=1)}


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


_DIFFERENCES = (
    "vs MAP, vs mean: log score minus that of the MAP or posterior-mean plug-in, ± standard error over "
    "test rows. Seconds: to learn and predict, compilation included."
)


def comparison_shown(comparison: Comparison, console: Console) -> RenderableType:
    """The scores of a comparison, and the rows in which answers differ, in the width and encoding of a console."""
    width, spell = console.width, spelling(console.encoding)
    parts: list[RenderableType] = []
    for model in dict.fromkeys(answer.model for answer in comparison.answers):
        answers = [answer for answer in comparison.scored if answer.model == model]
        parts += [Text(model, style="bold"), _score_table(comparison, answers, model, width, spell)]
        parts += [*_baseline(comparison, answers, model), *_refusals(comparison, model), Text()]
        parts += [*_disagreements(comparison, answers, model, width, spell), Text()]
        parts += _cost_table(comparison, answers, model, spell)
    return Group(*parts, Text(spell(f"{comparison.target.legend} {_DIFFERENCES}"), style="dim"))


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


def study_shown(study: Study, console: Console) -> RenderableType:
    """The means over repeats of every answer, by size, the paired differences with their errors, and the verdict."""
    spell, summary = spelling(console.encoding), study.summary
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 0, 0, 1), pad_edge=False)
    metrics = [name for name in study.metrics if name in HEADLINES]
    any_refused = bool(summary["refused"].any())
    heads = ["model", "", "answer", "size", *(metric.replace("_", " ") for metric in metrics), "difference"]
    for place, head in enumerate([*heads, *["refused"] * any_refused]):
        table.add_column(Text(head), justify="left" if place < 3 else "right", overflow="fold")
    for line in summary.to_dict("records"):
        answer = (line["method"], line["rule"])
        step = "" if line["model"] == TRUTH else _STEP_NAMES[answer in study.two_step]
        means = ["–" if math.isnan(line[metric]) else signed("{:.4f}")(line[metric]) for metric in metrics]
        difference = with_error(line["difference"], line["standard_error"], " ")
        refused = f"{line['refused']} of {line['repeats'] + line['refused']}" if line["refused"] else ""
        line_cells = (line["model"], step, " + ".join(answer), str(line["size"]), *means, difference)
        table.add_row(*(Text(spell(cell)) for cell in [*line_cells, *[refused] * any_refused]))
    references = [f"{' + '.join(pair)} of {model}" for model, pair in study.references.items() if model != TRUTH]
    note = f"Differences of log scores are from {', '.join(references)}. {study.about_errors}"
    return Group(table, Text(spell(study.verdict), style="bold"), Text(spell(note), style="dim"))


def calibration_shown(calibration: Calibration, title: str, console: Console) -> RenderableType:
    """The verdict of a calibration, and the lines of its table with the lowest p-values."""
    spell, failed = spelling(console.encoding), calibration.table["passed"].eq(False).sum()
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for head in ("quantity", "test of its ranks", "p-value", "passed"):
        table.add_column(Text(head), justify="right" if head == "p-value" else "left", overflow="fold")
    lines = calibration.table.sort_values("p_value", kind="stable").head(max(failed, LINES_SHOWN))
    for line in lines.to_dict("records"):
        passed = "yes" if line["passed"] else "no"
        table.add_row(Text(line["quantity"]), line["test"], f"{line['p_value']:.2g}", passed)
    total = len(calibration.table)
    verdict = (
        f"Passed: ranks of the true values are uniform in all {total} tests."
        if calibration.passed
        else f"Not passed: ranks of the true values are not uniform in {failed} of {total} tests. Posteriors are wrong."
    )
    about = f"{len(lines)} of {total} lines, by p-value. A line fails at 0.01 after a correction for all lines."
    return Group(Text(title, style="bold"), table, Text(spell(verdict), style="bold"), Text(about, style="dim"))
