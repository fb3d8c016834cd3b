"""Pages of HTML that need nothing but themselves: texts are escaped here, and figures are part of the page."""

import base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any, TypeAlias

from bayesgen import plots

Cell: TypeAlias = str | tuple[str, str]  # a text, with a class of the style sheet
NARROW = 3.6  # inches of a figure for a phone
DPI, SCALE = 200, 110  # dots of figures, and pixels of the page, per inch
ANSWER_KINDS = {True: ("one process", "two-step"), False: ("average", "one-step"), None: ("true process", "truth")}
ANSWERS = (
    "A process is one way in which rows may come about: values for all parameters of the model. A plug-in answer takes "
    "two steps: it chooses one process by the training rows, and predicts by that one. An averaged answer takes one "
    "step: it predicts by all processes, each as probable as the training rows leave it."
)


def page(title: str, verdict: str, parts: Mapping[str, Iterable[str]], path: str | Path | None) -> str:
    """The page, which is also written to the path, if there is one.

    Args:
        title: heading of the page.
        verdict: lines that stand out below it.
        parts: heading -> HTML of the functions below.
        path: a file, or None.
    """
    style = resources.files(__package__).joinpath("page.css").read_text("utf-8")
    lead = "".join(paragraph(line, "lead") for line in verdict.splitlines())
    sections = (section(heading, *content) for heading, content in parts.items())
    text = (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><title>{escape(title)}</title>'
        f"<style>\n{style}</style></head>\n<body><main>"
        f"<header><h1>{escape(title)}</h1>{lead}</header>\n{''.join(sections)}</main></body></html>\n"
    )
    if path is not None:
        Path(path).write_text(text, "utf-8")
    return text


def section(heading: str, *parts: str, level: int = 2) -> str:
    """Parts below a heading, if there is one."""
    return f"<section>{f'<h{level}>{escape(heading)}</h{level}>' * bool(heading)}{''.join(parts)}</section>\n"


def paragraph(text: str, style: str = "note") -> str:
    """A text, in a class of the style sheet."""
    return f'<p class="{style}">{escape(text)}</p>'


def listed(entries: Mapping[str, Any]) -> str:
    """Names and texts; None is left out."""
    lines = [
        f"<dt>{escape(name)}</dt><dd>{escape(str(text))}</dd>" for name, text in entries.items() if text is not None
    ]
    return f"<dl>{''.join(lines)}</dl>"


def table(head: Sequence[str], rows: Iterable[Sequence[Cell]], num_texts: int = 1) -> str:
    """A table that scrolls by itself; its first columns are texts, and the others numbers."""

    def line(tag: str, cells: Sequence[Cell]) -> str:
        pairs = [(cell, "") if isinstance(cell, str) else cell for cell in cells]
        styles = [f"{'number ' * (place >= num_texts)}{style}".strip() for place, (_, style) in enumerate(pairs)]
        texts = [escape(text) for text, _ in pairs]
        return "".join(f'<{tag} class="{s}">{text}</{tag}>' for s, text in zip(styles, texts, strict=True))

    body = "".join(f"<tr>{line('td', cells)}</tr>" for cells in rows)
    return f'<div class="table"><table><thead><tr>{line("th", head)}</tr></thead><tbody>{body}</tbody></table></div>'


def picture(draw: Callable[..., Any], subject: Any, caption: str, width: float | None = None) -> str:
    """A figure, drawn once for wide screens and once for phones.

    Args:
        draw: a function of `bayesgen.plots`.
        subject: what it draws.
        caption: a text below the figure.
        width: for wide screens, in inches; None for that of the function.
    """
    wide, narrow = (draw(subject, width=inches) for inches in (width, NARROW))
    sources = ["data:image/png;base64," + base64.b64encode(plots.png(f, DPI)).decode() for f in (wide, narrow)]
    size, text = round(SCALE * wide.get_figwidth()), escape(caption)
    return (
        f'<figure style="width: {size}px"><picture><source media="(max-width: 640px)" srcset="{sources[1]}">'
        f'<img src="{sources[0]}" alt="{text}"></picture><figcaption>{text}</figcaption></figure>'
    )


def program(result: Any, pairs: str, lines: Sequence[str]) -> list[str]:
    """The code that makes a comparison or a study again, and the versions with which it was made.

    Args:
        result: the comparison or the study.
        pairs: name of the (method, rule) pairs in its settings.
        lines: of code, after the models and the pairs.
    """
    models = [f"    {str(name)!r}: {text}," for name, text in result.config.get("models", {}).items()]
    both = [f"    ({method}, {rule})," for method, rule in result.config.get(pairs, ())]
    code = ["from bayesgen import *", "", "models = {", *models, "}", "pairs = [", *both, "]", *lines]
    versions = ", ".join(f"{name} {version}" for name, version in result.versions.items())
    blocks = [command for command in [result.config.get("command"), "\n".join(code)] if command]
    return [*(f"<pre><code>{escape(block)}</code></pre>" for block in blocks), paragraph(f"Versions: {versions}.")]
