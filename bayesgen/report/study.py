"""The report of a study: which answer is better at which size, learning curves, scores, and how to run it again."""

import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bayesgen import plots
from bayesgen.describe import significant, with_error
from bayesgen.evaluation import TRUTH, Study
from bayesgen.prediction import ClassScorer, ContinuousScorer, DensityScorer, Scorer

from . import page
from .comparison import ANSWERS, KINDS
from .page import Cell

CURVES = (
    "Learning curves: the mean log score of test rows by the number of training rows, and below its difference from "
    "one answer on the same rows. Bands are one standard error to either side."
)


def study_page(study: Study, path: str | Path | None = None, title: str | None = None) -> str:
    """The report of a study as HTML, also written to the path, if there is one."""
    models = [model for model in study.references if model != TRUTH]
    title = title or f"{page.models_in_title(models)}: learning from few rows"
    references = dict.fromkeys(" + ".join(pair) for pair in study.references.values())
    note = (
        f"{_scorer(study).legend} Scores are means over training sets. Differences are log scores less that of "
        f"{' or '.join(references)} of the same model. {study.about_errors}"
    )
    parts = [
        page.section("What was compared", page.paragraph(ANSWERS), _contents(study)),
        page.section("Figures", page.figures([page.picture(plots.learning_curves, study, CURVES)])),
        page.section("Scores", *_score_tables(study), page.paragraph(note, "note")),
        page.section("Diagnostics", *_diagnostics(study)),
        page.section("How to run it again", *_program(study)),
    ]
    return page.page(title, study.verdict.splitlines(), parts, path)


def _contents(study: Study) -> str:
    """Models, data and settings."""
    config = study.config
    unit = f"rows{' of each class' * config['per_class']}"
    data = f"{config['rows']:,} rows" if "rows" in config else f"simulated by {config['simulate']}"
    return page.listed(
        {
            **{f"model {name}": text for name, text in config["models"].items()},
            "answers": "; ".join(dict.fromkeys(f"{method} + {rule}" for model, method, rule in study.answers)),
            "data": f"{data}; SHA-256 {config['data_sha256']}",
            "training sets": f"{config['repeats']} of each size: {', '.join(map(str, config['sizes']))} {unit}",
            "test rows": "all that are not learned from" if config["test"] is None else config["test"],
        }
    )


def _score_tables(study: Study) -> Iterator[str]:
    """A table for each model, with a line for each answer and size."""
    scorer = _scorer(study)
    metrics = [metric for metric in scorer.metrics if metric.name and metric.column in study.metrics]
    counts = [count for count in scorer.counts if count.column in study.metrics and study.table[count.column].any()]
    texts = {metric.column: metric.text for metric in metrics} | {count.column: significant for count in counts}
    heads = [metric.name for metric in (*metrics, *counts)]
    for model, summary in study.summary.groupby("model", sort=False):
        rows = list[list[Cell]]()
        for line in summary.to_dict("records"):
            cells = ["–" if math.isnan(line[column]) else text(line[column]) for column, text in texts.items()]
            kind = ("true process", "truth") if model == TRUTH else KINDS[_pair(line) in study.two_step]
            difference = with_error(line["difference"], line["standard_error"]) or "–"
            rows.append([" + ".join(_pair(line)), kind, str(line["size"]), *cells, difference, f"{line['repeats']:,}"])
        table = page.table(["answer", "kind", "size", *heads, "difference", "training sets"], rows, 2)
        yield page.subsection(str(model) * (study.summary["model"].nunique() > 1), table)


def _scorer(study: Study) -> type[Scorer]:
    """The scorer whose scores the study has."""
    scorers = (ClassScorer, ContinuousScorer)
    return next((s for s in scorers if {*s.headline} <= {*study.metrics}), DensityScorer)


def _pair(line: Any) -> tuple[str, str]:
    return line["method"], line["rule"]


def _name(line: Any) -> str:
    """The answer of a line."""
    return f"{line['model']}: {' + '.join(_pair(line))}"


def _diagnostics(study: Study) -> Iterator[str]:
    """What was refused, and seconds."""
    groups: Any = study.table.groupby(["model", "method", "rule"], sort=False)
    rows = [
        [
            _name(group.iloc[0]),
            f"{group['seconds'].mean():.2g}",
            f"{group['refused'].notna().sum():,} of {len(group):,}",
        ]
        for _, group in groups
    ]
    yield page.table(["answer", "seconds a training set", "refused"], rows)
    refusals = study.table[study.table["refused"].notna()]
    messages = Counter(f"{_name(line)}, size {line['size']}: {line['refused']}" for line in refusals.to_dict("records"))
    for message, count in messages.most_common(MOST):
        yield page.paragraph(f"{count} times: {message}", "message")
    if len(messages) > MOST:
        yield page.paragraph(f"{len(messages) - MOST} more messages are in study.table.", "note")


MOST = 12  # messages of refusals


def _program(study: Study) -> Iterator[str]:
    """The call that makes the study, and the versions with which it was made."""
    config = study.config
    is_simulated = "simulate" in config
    data = f"simulate={config['simulate']}" if is_simulated else "X, y"
    settings = [f"{name}={config[name]!r}" for name in ("sizes", "repeats", "per_class")]
    settings += [f"test={config['test']}"] if isinstance(config["test"], int) else []
    yield page.program(
        [
            "from bayesgen import *",
            "",
            *page.models_and_pairs(config["models"], config["pairs"]),
            *["# X, y: all rows and their labels"] * (not is_simulated),
            f"result = study(models, {data}, pairs=pairs, {', '.join(settings)}, seed={config['seed']})",
            "result.to_html('report.html')",
        ]
    )
    yield page.versions(study.versions)
