"""A comparison as a person reads it in a terminal: the answers side by side, then where they disagree."""

from collections.abc import Iterator, Sequence

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from bayesgen.evaluation import Comparison

from .layout import Layout, Line, Spelling, layout_of
from .table import WIDE, answer_table, cells, spelling, with_error

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
    """The whole comparison, for a terminal `width` columns wide that shows characters of the encoding.

    What is told `about` the data stands below the title.
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
    """Print the comparison on a console, what is told about the data below its title."""
    console.print(render(comparison, title, console.width, console.encoding, about))


def _score_table(comparison: Comparison, layout: Layout, model: str, width: int, spell: Spelling) -> Table:
    scores = comparison.table
    scores = scores[scores.model == model]
    answers = [answer for answer in comparison.answers if answer.model == model]
    table = answer_table(answers, "")

    def add(line: Line) -> None:
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
