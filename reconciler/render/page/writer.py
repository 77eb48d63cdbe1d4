"""Writes sections as one self-contained HTML page, which is readable without its script.

Pure: the caller reads the files of ``page/``. Every text passes :func:`html_text`, so no name becomes markup. The content
security policy allows the hashes of style and script and nothing else, no connection at all: a page may be opened from a
mail or a build's artifacts without trusting its content.
"""

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Final, NamedTuple

from msgspec import Struct

from reconciler.base.escaping import escaped
from reconciler.render.sections import CellKind, CellText, Section
from reconciler.render.units import PER_BROKER, count

FRAME: Final = "frame.html"
STYLES: Final = ("page.css", "charts.css")
SCRIPT: Final = "tables.js"
"""Files of ``page/``."""


class PageFiles(NamedTuple):
    """The constant parts of every page."""

    frame: str  # HTML with `{{policy}}`, `{{title}}`, `{{style}}`, `{{body}}` and `{{script}}`
    style: str
    script: str


class PageSection(NamedTuple):
    """A section as HTML."""

    name: str  # anchor
    title: str
    inner: str  # HTML
    total: int | None = None  # the number beside the title


class PagePart(Struct, frozen=True, kw_only=True, gc=False):
    """What a page says about one subject, such as a cluster."""

    title: str
    head: str  # HTML between the title and the sections
    sections: Sequence[PageSection]


def page_html(
    parts: Sequence[PagePart], files: PageFiles, *, title: str, created: str, tool_version: str
) -> str:
    """Return a page: its only part, or several, of which the first one is open.

    Args:
        title: Of the page; shown if it has several parts.
        created: Creation time, as text.
    """
    if len(parts) == 1:
        body = _part(parts[0], prefix="", level=1)
    else:
        body = f"<header><h1>{html_text(title)}</h1></header><main>" + "".join(
            f"<details class='part'{' open' * (not at)}><summary>{html_text(part.title)}</summary>"
            f"{_part(part, prefix=f'{at + 1}-', level=2)}</details>"
            for at, part in enumerate(parts)
        )
        body += "</main>"
    body += (
        f"<footer><p>{PER_BROKER} A limit that brokers show is not yet enforced: they apply it some milliseconds later.</p>"
        f"<p>Made by kquota {html_text(tool_version)} at {html_text(created)}. Times are UTC. The page loads and sends nothing.</p></footer>"
    )
    policy = (
        f"default-src 'none'; script-src '{_hash(files.script)}'; style-src '{_hash(files.style)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    texts = {"policy": policy, "title": html_text(title), "style": files.style, "body": body}
    return fill_template(files.frame, {**texts, "script": files.script})


def fill_template(template: str, parts: Mapping[str, str]) -> str:
    """Return a template with its parts, each once and in the order of the template; parts may contain ``{{``."""
    pieces: list[str] = []
    for name, part in parts.items():
        before, _, template = template.partition("{{" + name + "}}")
        pieces += [before, part]
    return "".join([*pieces, template])


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


def _part(part: PagePart, *, prefix: str, level: int) -> str:
    links = "".join(
        f'<li><a href="#{prefix}{section.name}">{html_text(section.title)}{_total(section)}</a></li>'
        for section in part.sections
    )
    heading = f"h{level + 1}"
    sections = "".join(
        f'<section id="{prefix}{section.name}"><{heading}>{html_text(section.title)}{_total(section)}</{heading}>'
        f"{section.inner}</section>"
        for section in part.sections
    )
    head, main = ("header", "main") if level == 1 else ("div", "div")
    return (
        f'<{head} class="head"><h{level}>{html_text(part.title)}</h{level}>{part.head}</{head}>'
        f'<div class="frame"><nav aria-label="Sections of {html_text(part.title)}"><ul>{links}</ul></nav>'
        f'<{main} class="main">{sections}</{main}></div>'
    )


def _total(section: PageSection) -> str:
    return "" if section.total is None else f' <span class="total">{section.total:,}</span>'


def page_section(section: Section, *, elsewhere: str) -> PageSection:
    """Return a section with its table.

    Args:
        elsewhere: Where the rows are that are not shown: ``in the lake``.
    """
    inner = "".join(map(paragraph, section.notes))
    if section.rows:
        heads = "".join(
            f'<th scope="col"{_css(kind)}>{html_text(head)}</th>'
            for head, kind in zip(section.heads, section.kinds, strict=True)
        )
        rows = "".join(_row(row, section.kinds) for row in section.rows)
        inner += (
            f'<div class="window{" long" * (len(section.rows) > LONG)}" tabindex="0" role="group" aria-label="{html_text(section.title)}">'
            f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>"
        )
    if section.left_out:
        inner += paragraph(f"and {count(section.left_out, 'more row')}, {elsewhere}")
    total = section.total if section.heads else None
    return PageSection(section.name, section.title, inner, total)


LONG: Final = 60
"""Tables of more rows scroll in a window of their own."""


def _row(row: Sequence[CellText], kinds: Sequence[CellKind]) -> str:
    first, *further_cells = map(_cell, row, kinds)
    return f'<tr><th scope="row"{first}</th>{"".join(f"<td{cell}</td>" for cell in further_cells)}</tr>'


def _cell(cell: CellText, kind: CellKind) -> str:
    """Return a cell from the end of its tag's name to its content."""
    content = html_text(cell.text)
    if kind is CellKind.STATE and content:
        content = f'<span class="pill {tone_of(cell.text)}">{content}</span>'
    below = "".join(f"<small>{html_text(line)}</small>" for line in cell.below if line)
    return f"{_css(kind)}>{content}{below}"


def _css(kind: CellKind) -> str:
    word = {CellKind.NAME: "name", CellKind.NUMBER: "number"}.get(kind)
    return f' class="{word}"' if word else ""


_TONES: Final = {
    "tightened": "bad",
    "refused": "bad",
    "exceeded": "warn",
    "conflict": "bad",
    "REJECTED": "bad",
    "UNKNOWN": "bad",
    "worse": "bad",
    "loosened": "good",
    "ours": "good",
    "APPLIED": "good",
    "partly": "accent",
    "overridden": "accent",
    "newly": "warn",
    "effect unknown": "warn",
    "not known": "warn",
    "warning": "warn",
    "drifted": "warn",
    "document deleted": "warn",
    "WAITING": "warn",
    "this plan": "warn",
}
"""The colour of a judgement that begins with a word; others are plain."""


def tone_of(judgement: str) -> str:
    """Return the colour of a judgement."""
    return next((tone for word, tone in _TONES.items() if judgement.startswith(word)), "plain")


def banner(tone: str, verdict: str, remark: str = "") -> str:
    """Return the sentence that says most, as HTML."""
    return f'<p class="banner {tone}"><strong>{html_text(verdict)}</strong> {html_text(remark)}</p>'


def pairs(css: str, entries: Iterable[tuple[str, str]]) -> str:
    """Return a list of names with values, as HTML; empty values are left out."""
    rows = "".join(
        f"<div><dt>{html_text(name)}</dt><dd>{html_text(value)}</dd></div>"
        for name, value in entries
        if value
    )
    return f'<dl class="{css}">{rows}</dl>'


def paragraph(sentence: str) -> str:
    """Return a sentence as a paragraph of HTML."""
    return f'<p class="note">{html_text(sentence)}</p>'


def html_text(text: str) -> str:
    """Escape text for HTML, also in an attribute: one line, without invisible and reordering characters."""
    return escape(escaped(text))
