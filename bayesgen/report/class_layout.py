"""Probabilities of classes, as they are told in a terminal."""

from collections.abc import Iterator

import numpy as np
from rich.console import RenderableType
from rich.text import Text

from bayesgen.evaluation import ClassTarget, Comparison, DensityTarget
from bayesgen.prediction import named_classes

from .layout import Layout, Line, Spelling, layout_of
from .table import WIDE, answer_table, signed

_SHOWN = 10  # rows of disagreement
_COSTS = (
    "Rows in which an answer does worse than the shares of the classes. The column is the one without which the log "
    "score would be highest; several where answers differ in it, or where each rules the row out."
)


class DensityLayout(Layout):
    """Densities of rows of which nothing is predicted."""

    scores = (
        Line("accuracy", "accuracy", "{:.3f}".format, max),
        Line("log score", "log_score", signed("{:.4f}"), max),
        Line("Brier score", "brier", "{:.4f}".format, min),
        Line("calibration error", "ece", "{:.4f}".format, min),
    )
    counts = (
        Line("impossible rows", "impossible", "{:.0f}".format, min),
        Line("true class ruled out", "ruled_out", "{:.0f}".format, min),
    )
    legend = (
        "Log score: mean of log p(true class), higher is better. Brier "
        "score (summed over classes, 0 to 2) and calibration error (15 bins of equal mass): lower is better."
    )

    def disagreements(
        self, comparison: Comparison, model: str, width: int, spell: Spelling
    ) -> Iterator[RenderableType]:
        """None: nothing is named that could differ."""
        yield from ()


class ClassLayout(DensityLayout):
    """Probabilities of classes."""

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
        """A row of log scores for each, and the columns without which they would be highest."""
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
        """The rows to which this model's answers give different classes."""
        answers = [answer for answer in comparison.answers if answer.model == model and answer.refused is None]
        truth = comparison.truth
        if len(answers) < 2 or truth is None:
            return
        named = np.stack([named_classes(answer.prediction.log_probabilities) for answer in answers])
        possible = np.where(named < 0, named.max(axis=0), named)  # an answer that names no class disagrees with none
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
        apart = (np.nanmax(probabilities, axis=0) - np.nanmin(probabilities, axis=0)).max(axis=1)
        order = np.argsort(-apart, kind="stable")
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
