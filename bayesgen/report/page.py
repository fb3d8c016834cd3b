"""Pages of HTML that need nothing but themselves: texts are escaped here, and figures are part of the page."""

import base64
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any, TypeAlias

from bayesgen import plots
from bayesgen.describe import joined

Cell: TypeAlias = str | tuple[str, str]  # a text, with a class of the style sheet
NARROW = 3.6  # inches of a figure for a phone
DPI, SCALE = 200, 110  # dots of figures, and pixels of the page, per inch


def page(title: str, lead: Sequence[str], parts: Iterable[str], path: str | Path | None) -> str:
    """The page, which is also written to the path, if there is one.

    Args:
        title: heading of the page.
        lead: texts that stand out below it.
        parts: HTML of the functions below.
        path: a file, or None.
    """
    style = resources.files(__package__).joinpath("page.css").read_text("utf-8")
    leads = "".join(f'<p class="lead">{escape(text)}</p>' for text in lead)
    content = (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><title>{escape(title)}</title>'
        f"<style>\n{style}</style></head>\n<body><main>"
        f"<header><h1>{escape(title)}</h1>{leads}</header>\n{''.join(parts)}</main></body></html>\n"
    )
    if path is not None:
        Path(path).write_text(content, "utf-8")
    return content


def models_in_title(names: Sequence[str]) -> str:
    """The names of models, or their number where there are many."""
    return joined(names) if len(names) < 4 else f"{len(names)} models"


def section(heading: str, *parts: str) -> str:
    """A section of HTML; nothing where it has no part."""
    return f"<section><h2>{escape(heading)}</h2>{''.join(parts)}</section>\n" if any(parts) else ""


def subsection(heading: str, *parts: str) -> str:
    """The parts below a smaller heading, which may be empty."""
    return "".join([f"<h3>{escape(heading)}</h3>" if heading else "", *parts])


def paragraph(text: str, style: str = "") -> str:
    """A text."""
    return f'<p class="{style}">{escape(text)}</p>' if text else ""


def listed(entries: Mapping[str, Any]) -> str:
    """Names and texts; None is left out."""
    lines = (
        f"<dt>{escape(name)}</dt><dd>{escape(str(text))}</dd>" for name, text in entries.items() if text is not None
    )
    return f"<dl>{''.join(lines)}</dl>"


def table(head: Sequence[str], rows: Iterable[Sequence[Cell]], num_texts: int = 1) -> str:
    """A table that scrolls by itself; its first columns are texts, and the others numbers."""

    def line(tag: str, cells: Sequence[Cell]) -> str:
        pairs = [(cell, "") if isinstance(cell, str) else cell for cell in cells]
        aligned = ["" if place < num_texts else "number " for place in range(len(pairs))]
        return "".join(
            f'<{tag} class="{kind}{style}">{escape(text)}</{tag}>'
            for kind, (text, style) in zip(aligned, pairs, strict=True)
        )

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
        f'<figure style="flex-basis: {size}px"><picture><source media="(max-width: 640px)" srcset="{sources[1]}">'
        f'<img src="{sources[0]}" width="{size}" alt="{text}"></picture><figcaption>{text}</figcaption></figure>'
    )


def figures(pictures: Iterable[str]) -> str:
    """Figures beside each other where there is room."""
    return f'<div class="figures">{"".join(pictures)}</div>'


def program(lines: Iterable[str]) -> str:
    """Lines of code."""
    return f"<pre><code>{escape(chr(10).join(lines))}</code></pre>"


def models_and_pairs(models: Mapping[str, str], pairs: Iterable[Sequence[str]]) -> Iterator[str]:
    """Lines of code that make models and (method, rule) pairs."""
    yield from ("models = {", *(f"    {name!r}: {text}," for name, text in models.items()), "}")
    yield from ("pairs = [", *(f"    ({method}, {rule})," for method, rule in pairs), "]")


def versions(by_name: Mapping[str, str]) -> str:
    """The versions of libraries, in a sentence."""
    return paragraph(f"Versions: {', '.join(f'{name} {version}' for name, version in by_name.items())}.", "note")
