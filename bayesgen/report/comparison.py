"""The report of a comparison: which answer is better, scores, figures, rows that differ, and how to run it again."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from bayesgen import plots
from bayesgen.describe import counted, histogram, signed, with_error
from bayesgen.evaluation import Answer, Comparison
from bayesgen.posteriors import Draws
from bayesgen.prediction import Metric

from . import page
from .page import Cell

KINDS = {True: ("one process", "two-step"), False: ("average", "one-step")}
ANSWERS = (
    "A process is one way in which rows may come about: values for all parameters of the model. A plug-in answer takes "
    "two steps: it chooses one process by the training rows, and predicts by that one. An averaged answer takes one "
    "step: it predicts by all processes, each as probable as the training rows leave it."
)
DIFFERENCES = (
    "vs MAP, vs mean: log score less that of the plug-in of MAP, or at the posterior mean, on the same rows, ± its "
    "standard error over test rows. Bold: the best of a column."
)
MANY = 0.7  # shape of weights above which few draws decide an answer


def comparison_page(comparison: Comparison, path: str | Path | None = None, title: str | None = None) -> str:
    """The report of a comparison as HTML, also written to the path, if there is one."""
    models = list(dict.fromkeys(answer.model for answer in comparison.answers))
    several = len(models) > 1
    title = title or f"{page.models_in_title(models)}: the answers compared"
    by_model = {model: [answer for answer in comparison.answers if answer.model == model] for model in models}
    scores = [page.subsection(model * several, _score_table(comparison, by_model[model])) for model in models]
    rows = [page.subsection(model * several, *_rows_that_differ(comparison, by_model[model])) for model in models]
    parts = [
        page.section("What was compared", page.paragraph(ANSWERS), _contents(comparison)),
        page.section("Scores", *scores, page.paragraph(f"{comparison.target.legend} {DIFFERENCES}", "note")),
        page.section("Figures", page.figures(_figures(comparison))),
        page.section("Rows that differ", *rows),
        page.section("Rows that cost most", *_costs(comparison)),
        page.section("Diagnostics", *_diagnostics(comparison)),
        page.section("How to run it again", *_program(comparison)),
    ]
    return page.page(title, [*comparison.verdict.splitlines()], parts, path)


def _contents(comparison: Comparison) -> str:
    """Models, data and settings."""
    config = comparison.config
    fitted = next((answer.fitted for answer in comparison.scored if answer.fitted is not None), None)
    columns = () if fitted is None else fitted.schema.columns or ()
    numbers = [f"{config[key]:,} {words}" for key, words in ROWS.items() if key in config]
    return page.listed(
        {
            **{f"model {name}": text for name, text in config.get("models", {}).items()},
            "answers": "; ".join(dict.fromkeys(map(_name, comparison.answers))),
            "data": ", ".join(numbers) or f"{len(comparison.rows):,} test rows",
            "columns": counted(columns),
            "classes": counted(comparison.classes.tolist()),
        }
    )


ROWS = {"train_rows": "training rows", "test_rows": "test rows"}


def _name(answer: Answer) -> str:
    return f"{answer.method} + {answer.rule}"


def _score_table(comparison: Comparison, answers: Sequence[Answer]) -> str:
    """A line for each answer of a model."""
    frame = comparison.table[comparison.table["model"] == answers[0].model]
    counts = [count for count in comparison.target.counts if frame[count.column].fillna(0).sum() > 0]
    metrics = [metric for metric in (*comparison.target.metrics, *counts) if metric.name]
    columns: dict[str, Sequence[Cell]]
    columns = {metric.name: _cells(metric, frame[metric.column].astype(float).tolist()) for metric in metrics}
    if comparison.target.histogram is not None:
        name, column = comparison.target.histogram
        frames = {_name(answer): answer.rows for answer in comparison.scored if answer.model == answers[0].model}
        drawings = {answer: histogram(rows[column].to_numpy()) for answer, rows in frames.items()}
        columns[name] = [drawings.get(_name(answer), "–") for answer in answers]
    for name, column, error in DIFFERENCE_COLUMNS:
        texts = [with_error(*numbers) or "–" for numbers in zip(frame[column], frame[error], strict=True)]
        columns |= {name: texts} if set(texts) != {"–"} else {}
    names = [[_name(answer), KINDS[answer.two_step]] for answer in answers]
    rows = [[*name, *cells] for name, *cells in zip(names, *columns.values(), strict=True)]
    return page.table(["answer", "kind", *columns], rows, 2)


DIFFERENCE_COLUMNS = (
    ("vs MAP", "difference", "standard_error"),
    ("vs mean", "difference_from_mean", "standard_error_from_mean"),
)


def _cells(metric: Metric, values: Sequence[float]) -> list[Cell]:
    """Numbers as texts, the best ones marked unless all are equal; a dash for a refused answer."""
    texts = ["–" if math.isnan(value) else metric.text(value) for value in values]
    numbers = [value for value in values if not math.isnan(value)]
    best = metric.text(metric.best(numbers)) if metric.best and len({*texts} - {"–"}) > 1 else None
    return [(text, "best" if text == best else "") for text in texts]


def _figures(comparison: Comparison) -> Iterator[str]:
    """The figures that the answers allow."""
    if len(comparison.scored) > 1:
        yield page.picture(plots.paired_differences, comparison, FORESTS, WIDE)
    if comparison.truth is None:
        return
    if len(comparison.classes) == 0:
        yield page.picture(plots.coverage, comparison, COVERAGE)
        return
    steps = {(answer.model, answer.two_step) for answer in comparison.scored}
    pairs = [answer for answer in comparison.scored if {(answer.model, True), (answer.model, False)} <= steps]
    if pairs:
        yield page.picture(plots.agreement, replace(comparison, answers=tuple(pairs)), AGREEMENT)
    yield page.picture(plots.reliability, comparison, RELIABILITY)


WIDE = 7.0  # inches
FORESTS = (
    "Mean log scores less that of the answer below the axis, for the same rows. Bars are two standard errors to either "
    "side: where a bar crosses zero, the difference may be noise."
)
AGREEMENT = (
    "The probability of the true class, by one process and by the average, a point for each test row. Points above the "
    "diagonal are rows that the average predicts better."
)
RELIABILITY = (
    "How often the most probable class is the true one, against its probability. Below the diagonal an answer is too "
    "sure. Bands hold 95 % of what calibrated answers give."
)
COVERAGE = (
    "The share of central intervals that hold the truth, against their probability. Below the diagonal an answer is "
    "too sure. The band holds 95 % of what calibrated answers give."
)


def _rows_that_differ(comparison: Comparison, answers: Sequence[Answer]) -> Iterator[str]:
    """The test rows in which the answers of a model differ, the largest difference first."""
    scorer, scored = comparison.target, [answer for answer in comparison.scored if answer.model == answers[0].model]
    frames = [answer.rows for answer in scored]
    heading, positions = scorer.disagreement(answers[0].model, frames) if len(frames) > 1 else ("", ())
    yield page.paragraph(heading)
    if len(positions):
        rows = list[list[Cell]]()
        for position in positions:
            cells = [scorer.cell(frame.iloc[position]) for frame in frames]
            truth = scorer.truth_text(frames[0].iloc[position]["truth"])
            rows.append(
                [str(comparison.rows[position]), truth, *((" · ".join(text), STYLES[style]) for text, style in cells)]
            )
        yield page.table(["row", "truth", *map(_name, scored)], rows, 2)
        yield page.paragraph(scorer.note.format(place="Beside"), "note")


STYLES = {"red": "wrong", "dim": "faint", "": ""}


def _costs(comparison: Comparison) -> Iterator[str]:
    """The rows with the lowest log scores, with the columns that cause them."""
    if comparison.costs:
        lines = [
            [
                str(cost.row),
                f"{cost.model}: {cost.method} + {cost.rule}",
                str(cost.truth),
                ", ".join(cost.columns) or "–",
            ]
            for cost in comparison.costs
        ]
        scores = [signed("{:.3f}")(cost.log_score) for cost in comparison.costs]
        rows = [[*line, score] for line, score in zip(lines, scores, strict=True)]
        yield page.table(["row", "answer", "truth", "columns", "log score"], rows, 4)
        yield page.paragraph(COSTS, "note")


COSTS = (
    "Rows in which an answer does worse than the shares of the classes. Columns: the one without which the log score "
    "would be highest, or those that rule the row out alone."
)


def _diagnostics(comparison: Comparison) -> Iterator[str]:
    """How far numbers can be trusted: refusals, rows without an answer, Monte Carlo errors, chains; and seconds."""
    rows, heads = [], ["answer", "seconds", "Monte Carlo error", "few draws decide"]
    several = len({answer.model for answer in comparison.answers}) > 1
    counts = comparison.target.counts
    for line, answer in zip(comparison.table.to_dict("records"), comparison.answers, strict=True):
        errors = getattr(answer.prediction, "standard_error", None)
        shapes = getattr(answer.prediction, "pareto_k", None)
        rows.append(
            [
                f"{answer.model}: " * several + _name(answer),
                "refused" if answer.refused else f"{answer.fit_seconds + answer.predict_seconds:.2f}",
                "–" if errors is None else f"at most {np.nanmax(errors, initial=0.0):.2g}",
                "–" if shapes is None else f"{int((shapes > MANY).sum()):,} rows",
                *("–" if answer.refused else str(line[count.column]) for count in counts),
            ]
        )
    yield page.table([*heads, *(count.name for count in counts)], rows)
    yield page.paragraph(TRUST, "note")
    for message in dict.fromkeys(
        f"{a.model}: {_name(a)} was refused: {a.refused}" for a in comparison.answers if a.refused
    ):
        yield page.paragraph(message, "message")
    for answer in comparison.scored:
        posterior = getattr(answer.fitted, "posterior", None)
        if isinstance(posterior, Draws) and posterior.entries is not None:
            diagnosis = answer.fitted.diagnose()
            numbers = ", ".join(f"{name} {number}" for name, number in diagnosis.sampler.items())
            yield page.paragraph(
                f"{answer.model}, chains of {answer.method}: {diagnosis.verdict} ({numbers})", "message"
            )


TRUST = (
    "Seconds: to learn and predict, compilation of a first call included. Monte Carlo error: standard error of a "
    "probability, or of a mean, that is an average of draws; – where no draws are averaged. Few draws decide: rows in "
    "which the weights of draws have a Pareto shape above 0.7. Impossible rows: the answer gives them probability zero "
    "under every class, and so has none; they count as wrong. Truth ruled out: rows whose true value has probability "
    "zero, so that their log score is −∞."
)


def _program(comparison: Comparison) -> Iterator[str]:
    """The call that makes the comparison, and the versions with which it was made."""
    config = comparison.config
    if "command" in config:
        yield page.program([str(config["command"])])
    if "models" in config:
        yield page.program(
            [
                "from bayesgen import *",
                "",
                "# X, y: the training rows and their labels; X_test, y_test: the test rows",
                *page.models_and_pairs(config["models"], config["methods"]),
                f"comparison = compare(models, X, y, X_test, y_test, methods=pairs, seed={config['seed']})",
                "comparison.to_html('report.html')",
            ]
        )
    yield page.versions(comparison.versions)
