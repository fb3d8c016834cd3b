"""Distributions of a number, as they are told in a terminal."""

import functools
from collections.abc import Callable, Iterator

import numpy as np
from rich.console import RenderableType
from rich.text import Text

from bayesgen.evaluation import Comparison, ContinuousTarget, Scored

from .layout import Layout, Line, Spelling, layout_of
from .table import BARS, WIDE, answer_table, signed, significant

_SHOWN = 10  # rows in which answers differ
_TENTHS, _EVEN_BAR = 10, 3  # as high is the bar of a tenth of the truths
_SAME = 0.01  # log scores that differ by less are told as equal


def _nearest(level: float) -> Callable[..., float]:
    """The number nearest to a level, of several."""
    return functools.partial(min, key=lambda value: abs(value - level))


class ContinuousLayout(Layout):
    """Distributions of a number."""

    scores = (
        Line("log score", "log_score", signed("{:.4f}"), max),
        Line("RMSE", "rmse", significant, min),
        Line("CRPS", "crps", significant, min),
        Line("in 50% interval", "coverage_50", "{:.1%}".format, _nearest(0.5)),
        Line("in 80% interval", "coverage_80", "{:.1%}".format, _nearest(0.8)),
        Line("in 95% interval", "coverage_95", "{:.1%}".format, _nearest(0.95)),
        Line("95% width", "width_95", significant, None),
    )
    counts = (
        Line("impossible rows", "impossible", "{:.0f}".format, min),
        Line("truth ruled out", "ruled_out", "{:.0f}".format, min),
    )
    legend = (
        "Log score: mean of log p(truth), higher is better. RMSE of the mean, and CRPS (continuous ranked probability "
        "score), in the units of the target: lower is better. In 50% interval: the share of truths within the central "
        "interval of 50%, which should be 50%; 95% width: mean width of the central interval of 95%. "
        "Truths by tenth: how many truths lie in each tenth of their distribution, from the lowest; level where "
        "probabilities are right, high at both ends where the answer is too sure, in the middle where not sure enough."
    )

    def drawings(self, scored: Scored) -> dict[str, str]:
        """In which tenths of their distributions the truths lie."""
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
        apart = np.where(np.isneginf(top), 0.0, top - log_scores.min(axis=0))
        order = np.argsort(-apart, kind="stable")[:_SHOWN]
        order = order[apart[order] > _SAME]
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
    """A number as it may stand in the data."""
    text = significant(truth, 6)
    return text.rstrip("0").rstrip(".") if "." in text and "e" not in text else text


@layout_of.register
def _(target: ContinuousTarget) -> Layout:
    return ContinuousLayout()
