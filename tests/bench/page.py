"""The generated parts of tests/bench/benchmarks.md: tables, in which new rows replace the rows of earlier measurements."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.bench.harness import Row, short

PAGE = Path(__file__).with_name("benchmarks.md")
NO_BAR = "-"
"""Measured for information; no verdict."""


def cells(row: Row) -> str:
    """The cells of one line of a table."""
    peer_text = (
        f"{short(row.peer_figures.median)} ({row.peer_figures.spread})" if row.peer_figures else ""
    )
    value = (
        f"{row.value:.2f}"
        if row.peer_figures and ("x" in row.bar or row.bar == NO_BAR)
        else short(row.value)
    )
    verdict = "" if row.bar == NO_BAR else "met" if row.met else "**missed**"
    return (
        f"{row.work} | {row.peer} | {short(row.figures.median)} {row.unit} ({row.figures.spread}) | {peer_text}"
        f" | {value} | {row.bar} | {verdict}"
    )


def table(rows: Sequence[Row]) -> str:
    """The table of the core."""
    lines = [
        "| work | against | ours (median, range) | theirs | ratio | bar | |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    return "\n".join([*lines, *(f"| {cells(row)} |" for row in rows)])


def curve(rows: Iterable[Row], works: Iterable[str], before: str = "") -> str:
    """Rows that differ only in size: a line for each work, a column for each size.

    Args:
        rows: Measured rows; the peer is the size, and after a comma the time and conditions.
        works: The lines, in order.
        before: The current table of the page; columns without new measurements stay.
    """
    cells = _columns(before)
    for row in rows:
        size, _, when = row.peer.partition(", ")
        column = cells.setdefault(size, {})
        column[TAKEN], column[row.work] = when, _curve_cell(row)
    sizes = sorted(cells, key=lambda size: int(size.split()[0].replace(",", "")))
    lines = [f"| | {' | '.join(sizes)} |", "| --- |" + " --- |" * len(sizes)]
    for work in (*works, TAKEN):
        texts = (cells[size].get(work, "not measured yet") for size in sizes)
        lines.append(f"| {work} | {' | '.join(texts)} |")
    return "\n".join(lines)


TAKEN = "taken"


def _columns(table_text: str) -> dict[str, dict[str, str]]:
    """The cells of a table that :func:`curve` made: column -> line -> text."""
    lines = [line for line in table_text.splitlines() if line.startswith("| ")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    if not rows:
        return {}
    return {
        size: {row[0]: row[place] for row in rows[2:]} for place, size in enumerate(rows[0]) if size
    }


def _curve_cell(row: Row) -> str:
    spread = f" ({row.figures.spread})" if len(row.figures.samples) > 1 else ""
    text = f"{short(row.figures.median)} {row.unit}{spread}"
    if row.bar == NO_BAR:
        return text
    return f"{text}; {row.bar}: {'met' if row.met else '**missed**'}"


def between(page: str, name: str) -> str:
    """The text between the marks of a part."""
    _, start, remaining_text = page.partition(f"<!-- {name} -->")
    text, end, _ = remaining_text.partition(f"<!-- /{name} -->")
    if not start or not end:
        raise SystemExit(f"tests/bench/benchmarks.md has no marks of {name}")
    return text


def write(name: str, text: str) -> None:
    """Put another text between the marks of a part."""
    page = PAGE.read_text(encoding="utf-8")
    marks = f"<!-- {name} -->", f"<!-- /{name} -->"
    old = f"{marks[0]}{between(page, name)}{marks[1]}"
    PAGE.write_text(page.replace(old, f"{marks[0]}\n\n{text}\n\n{marks[1]}"), encoding="utf-8")
