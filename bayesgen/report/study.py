"""The report of a study: which answer is better at which size, learning curves, scores, and how to run it again."""

import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bayesgen import plots
from bayesgen.describe import joined, significant, with_error
from bayesgen.evaluation import TRUTH, Study
from bayesgen.prediction import ClassScorer, ContinuousScorer, DensityScorer, Scorer

from .page import ANSWER_KINDS, ANSWERS, listed, page, paragraph, picture, program, section, table

CURVES = (
    "Learning curves: the mean log score of test rows by the number of training rows, and below its difference from "
    "one answer on the same rows. Bands are one standard error to either side."
)
STUDY_CALL = (
    "study(models, {data}, pairs=pairs, sizes={sizes}, repeats={repeats}, per_class={per_class}, test={test!r}, "
    "seed={seed}).to_html('report.html')"
)
MOST = 12  # messages of refusals


def study_page(study: Study, path: str | Path | None = None, title: str | None = None) -> str:
    """The report of a study as HTML, also written to the path, if there is one."""
    config = study.config
    data = f"simulate={config['simulate']}" if "simulate" in config else "X, y"
    models = [model for model in study.references if model != TRUTH]
    scorers = (ClassScorer, ContinuousScorer, DensityScorer)
    scorer = next(scorer for scorer in scorers if {*scorer.headline} <= {*study.metrics})
    references = joined([*dict.fromkeys(" + ".join(pair) for pair in study.references.values())])
    note = f"Scores are means over training sets, differences log scores less that of {references} of the same model."
    parts = {
        "What was compared": [paragraph(ANSWERS, ""), _contents(study)],
        "Figures": [picture(plots.learning_curves, study, CURVES)],
        "Scores": [*_score_tables(study, scorer), paragraph(f"{scorer.legend} {note} {study.about_errors}")],
        "Diagnostics": _diagnostics(study),
        "How to run it again": program(
            study, "pairs", ["# X, y: all rows and their labels", STUDY_CALL.format(**config, data=data)]
        ),
    }
    return page(title or f"{joined(models)}: learning from few rows", study.verdict, parts, path)


def _contents(study: Study) -> str:
    """Models and data."""
    config = study.config
    sizes = f"{joined([*map(str, config['sizes'])])} rows{' of each class' * config['per_class']}"
    return listed(
        {
            **config["models"],
            "answers": "; ".join(dict.fromkeys(f"{method} + {rule}" for _, method, rule in study.answers)),
            "data": config.get("simulate", f"{config.get('rows')} rows"),
            "SHA-256 of the data": config["data_sha256"],
            "training sets": f"{config['repeats']} of each size: {sizes}",
            "test rows": "all that are not learned from" if config["test"] is None else config["test"],
        }
    )


def _score_tables(study: Study, scorer: type[Scorer]) -> Iterator[str]:
    """A table for each model, with a line for each answer and size."""
    texts: Any = {metric.column: (metric.name, metric.text) for metric in scorer.metrics if metric.name}
    texts |= {count.column: (count.name, significant) for count in scorer.counts}
    shown = [column for column in texts if column in study.metrics and study.table[column].any()]
    heads = ["answer", "kind", "size", *(texts[column][0] for column in shown), "difference", "training sets"]
    for model, summary in study.summary.groupby("model", sort=False):
        rows = []
        for line in summary.to_dict("records"):
            pair = line["method"], line["rule"]
            kind = ANSWER_KINDS[None if model == TRUTH else pair in study.two_step]
            scores = ["–" if math.isnan(line[column]) else texts[column][1](line[column]) for column in shown]
            difference = with_error(line["difference"], line["standard_error"]) or "–"
            rows.append([" + ".join(pair), kind, str(line["size"]), *scores, difference, str(line["repeats"])])
        yield section(str(model), table(heads, rows, 2), level=3)


def _diagnostics(study: Study) -> Iterator[str]:
    """What was refused, and seconds."""
    names = study.table["model"] + ": " + study.table["method"] + " + " + study.table["rule"]
    groups = study.table.assign(is_refused=study.table["refused"].notna()).groupby(names, sort=False)
    seconds, refused = groups["seconds"].mean(), groups["is_refused"].agg(["sum", "size"])
    counts = [f"{number} of {size}" for number, size in refused.itertuples(index=False)]
    yield table(
        ["answer", "seconds a training set", "refused"],
        [[name, f"{spent:.2g}", count] for name, spent, count in zip(seconds.index, seconds, counts, strict=True)],
    )
    messages = Counter(f"{name}: {text}" for name, text in zip(names, study.table["refused"], strict=True) if text)
    for message, number in messages.most_common(MOST):
        yield paragraph(f"Refused {number} times, {message}", "message")
    yield paragraph(f"{len(messages)} messages of refusals are in study.table." * (len(messages) > MOST))
