"""The report of a comparison: which answer is better, scores, figures, rows that differ, and how to run it again."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from bayesgen import plots
from bayesgen.describe import counted, histogram, joined, with_error
from bayesgen.evaluation import Answer, Comparison
from bayesgen.posteriors import Draws
from bayesgen.prediction import Metric

from .page import ANSWER_KINDS, ANSWERS, Cell, listed, page, paragraph, picture, program, section, table

CAPTIONS = {
    "paired_differences": "Mean log scores less that of the answer below the axis, for the same rows. Bars are two "
    "standard errors to either side: where a bar crosses zero, the difference may be noise.",
    "agreement": "The probability of the true class, by one process and by the average, a point for each test row. "
    "Points above the diagonal are rows that the average predicts better.",
    "reliability": "How often the most probable class is the true one, against its probability. Below the diagonal an "
    "answer is too sure. Bands hold 95 % of what calibrated answers give.",
    "coverage": "The share of central intervals that hold the truth, against their probability. Below the diagonal an "
    "answer is too sure. The band holds 95 % of what calibrated answers give.",
    "scores": "vs MAP, vs mean: log score less that of the plug-in of MAP, or at the posterior mean, on the same rows, "
    "± its standard error over test rows. Bold: the best of a column.",
    "diagnostics": "Seconds: to learn and predict, compilation of a first call included. Monte Carlo error: standard "
    "error of a probability, or of a mean, that is an average of draws; – where no draws are averaged. Few draws "
    "decide: rows in which the weights of draws have a Pareto shape above 0.7. Impossible rows: the answer gives them "
    "probability zero under every class, and so has none; they count as wrong. Truth ruled out: rows whose true value "
    "has probability zero, so that their log score is −∞.",
}
ROW_NAMES = "# X, y: the training rows and their labels; X_test, y_test: the test rows"
CALL = "compare(models, X, y, X_test, y_test, methods=pairs, seed={seed}).to_html('report.html')"
WIDE = 7.0  # inches
STYLES = {"red": "wrong", "dim": "faint", "": ""}  # of cells of rows that differ


def comparison_page(comparison: Comparison, path: str | Path | None = None, title: str | None = None) -> str:
    """The report of a comparison as HTML, also written to the path, if there is one."""
    config, models = comparison.config, dict.fromkeys(answer.model for answer in comparison.answers)
    by_model = {model: [answer for answer in comparison.answers if answer.model == model] for model in models}
    scores = [section(model, _score_table(comparison, answers), level=3) for model, answers in by_model.items()]
    parts = {
        "What was compared": [paragraph(ANSWERS, ""), _contents(comparison)],
        "Scores": [*scores, paragraph(f"{comparison.target.legend} {CAPTIONS['scores']}")],
        "Figures": _figures(comparison),
        "Rows that differ": [part for model in models for part in _rows_that_differ(comparison, model)],
        "Diagnostics": _diagnostics(comparison),
        "How to run it again": program(comparison, "methods", [ROW_NAMES, CALL.format(seed=config.get("seed"))]),
    }
    return page(title or f"{joined([*models])}: the answers compared", comparison.verdict, parts, path)


def _contents(comparison: Comparison) -> str:
    """Models and data."""
    fits = [answer.fitted for answer in comparison.scored if answer.fitted is not None]
    train_rows = f"{comparison.config.get('train_rows', 'unknown')} training rows"
    return listed(
        {
            **comparison.config.get("models", {}),
            "answers": "; ".join(dict.fromkeys(answer.name for answer in comparison.answers)),
            "data": f"{train_rows}, {len(comparison.rows)} test rows",
            "columns": counted(fits[0].schema.columns or ()) if fits else None,
            "classes": counted(comparison.classes.tolist()),
        }
    )


def _score_table(comparison: Comparison, answers: Sequence[Answer]) -> str:
    """A line for each answer of a model."""
    scorer, frame = comparison.target, comparison.table[comparison.table["model"] == answers[0].model]
    metrics = [*scorer.metrics, *(count for count in scorer.counts if frame[count.column].fillna(0).any())]
    columns: dict[str, Sequence[Cell]]
    columns = {metric.name: _cells(metric, frame[metric.column].astype(float).tolist()) for metric in metrics}
    columns.pop("", None)  # of metrics that are not shown
    if scorer.histogram is not None:
        name, column = scorer.histogram
        rows = {answer.name: answer.rows for answer in comparison.scored if answer.model == answers[0].model}
        columns[name] = [histogram(rows[a.name][column].to_numpy()) if a.name in rows else "–" for a in answers]
    for name, suffix in {"vs MAP": "", "vs mean": "_from_mean"}.items():
        numbers = zip(frame[f"difference{suffix}"], frame[f"standard_error{suffix}"], strict=True)
        columns[name] = [with_error(*pair) or "–" for pair in numbers]
    names = [[answer.name, ANSWER_KINDS[answer.two_step]] for answer in answers]
    return table(["answer", "kind", *columns], [[*n, *c] for n, *c in zip(names, *columns.values(), strict=True)], 2)


def _cells(metric: Metric, values: Sequence[float]) -> list[Cell]:
    """Numbers as texts, the best ones marked unless all are equal; a dash for a refused answer."""
    texts = ["–" if math.isnan(value) else metric.text(value) for value in values]
    numbers = [value for value in values if not math.isnan(value)]
    best = metric.text(metric.best(numbers)) if metric.best and len({*texts} - {"–"}) > 1 else None
    return [(text, "best" if text == best else "") for text in texts]


def _figures(comparison: Comparison) -> Iterator[str]:
    """The figures that the answers allow."""
    yield picture(plots.paired_differences, comparison, CAPTIONS["paired_differences"], WIDE)
    steps = {(answer.model, answer.two_step) for answer in comparison.scored}
    pairs = tuple(answer for answer in comparison.scored if (answer.model, not answer.two_step) in steps)
    if comparison.truth is not None and len(comparison.classes) == 0:
        yield picture(plots.coverage, comparison, CAPTIONS["coverage"])
    elif comparison.truth is not None:
        if pairs:
            yield picture(plots.agreement, replace(comparison, answers=pairs), CAPTIONS["agreement"])
        yield picture(plots.reliability, comparison, CAPTIONS["reliability"])


def _rows_that_differ(comparison: Comparison, model: str) -> Iterator[str]:
    """The test rows in which the answers of a model differ, the largest difference first."""
    scorer, answers = comparison.target, [answer for answer in comparison.scored if answer.model == model]
    heading, positions = scorer.disagreement(model, [answer.rows for answer in answers]) if answers else ("", ())
    yield paragraph(heading, "")
    lines = list[list[Cell]]()
    for position in positions:
        rows = [answer.rows.iloc[position] for answer in answers]
        cells = [(" · ".join(texts), STYLES[style]) for texts, style in map(scorer.cell, rows)]
        lines.append([str(comparison.rows[position]), scorer.truth_text(rows[0]["truth"]), *cells])
    if lines:
        yield table(["row", "truth", *(answer.name for answer in answers)], lines, 2)
        yield paragraph(scorer.note.format(place="Beside"))


def _diagnostics(comparison: Comparison) -> Iterator[str]:
    """How far numbers can be trusted: rows without an answer, Monte Carlo errors, refusals, chains; and seconds."""
    lines, messages = [], []
    counts = comparison.target.counts
    for scores, answer in zip(comparison.table.to_dict("records"), comparison.answers, strict=True):
        name = f"{answer.model}: {answer.name}"
        errors, shapes = (getattr(answer.prediction, name, None) for name in ("standard_error", "pareto_k"))
        cells = [f"{answer.fit_seconds + answer.predict_seconds:.2f}", *(str(scores[count.column]) for count in counts)]
        cells.append("–" if errors is None else f"at most {np.nanmax(errors, initial=0.0):.2g}")
        cells.append("–" if shapes is None else f"{int((shapes > 0.7).sum())} rows")
        lines.append([name, *(["refused", *["–"] * (len(counts) + 2)] if answer.refused else cells)])
        posterior = getattr(answer.fitted, "posterior", None)
        if answer.refused:
            messages.append(f"{name} was refused: {answer.refused}")
        elif isinstance(posterior, Draws) and posterior.entries is not None:
            messages.append(f"{name}, its chains: {answer.fitted.diagnose().verdict}")
    heads = ["answer", "seconds", *(count.name for count in counts), "Monte Carlo error", "few draws decide"]
    yield table(heads, lines)
    yield paragraph(CAPTIONS["diagnostics"])
    yield from (paragraph(message, "message") for message in messages)
