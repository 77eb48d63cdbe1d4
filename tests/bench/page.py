"""The generated parts of tests/bench/benchmarks.md: tables, in which new rows replace the rows of earlier measurements."""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tests.bench.harness import Figures, Row, short
from tests.bench.use import Measured

PAGE = Path(__file__).with_name("benchmarks.md")
NO_BAR = "-"
"""Measured for information; no verdict."""

HEAD = (
    "| | work | against | ours (median, range) | theirs | value | bar | | taken |\n"
    "| --- | --- | --- | --- | --- | --- | --- | --- | --- |"
)


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
    return (
        f"{row.work} | {row.peer} | {short(row.figures.median)} {row.unit} ({row.figures.spread}) | {peer_text}"
        f" | {value} | {row.bar} | {'met' if row.met else '**missed**'}"
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


def line(measurement: Measured) -> str:
    """A line of the pipeline's table; there is no verdict without a target, or for a trial."""
    text = cells(measurement.row)
    if measurement.row.bar == NO_BAR:
        text = f"{text.rpartition(' | ')[0]} | "
    return f"| {measurement.target} | {text} | {measurement.when} |"


def use_table(
    measurements: Iterable[Measured], targets: Mapping[str, str], before: str = ""
) -> str:
    """All targets in order: measured now, otherwise as on the page, otherwise marked as not measured.

    Args:
        measurements: New measurements.
        targets: All targets with their titles.
        before: The current table of the page.
    """
    now: dict[str, list[str]] = {}
    for measurement in measurements:
        now.setdefault(measurement.target, []).append(line(measurement))
    lines = [HEAD]
    for target, about in targets.items():
        old = [old_line for old_line in before.splitlines() if old_line.startswith(f"| {target} |")]
        lines += now.get(target) or old or [unmeasured(target, about)]
    return "\n".join(lines)


def unmeasured(target: str, about: str) -> str:
    """The line of a target that was never measured."""
    return f"| {target} | {about} | | not measured yet | | | | | |"


def between(page: str, name: str) -> str:
    """The text between the marks of a part."""
    _, start, remaining_text = page.partition(f"<!-- {name} -->")
    text, end, _ = remaining_text.partition(f"<!-- /{name} -->")
    if not start or not end:
        raise SystemExit(f"tests/bench/benchmarks.md has no marks of {name}")
    return text


def replaced(page: str, name: str, text: str) -> str:
    """The page with another text between the marks of a part."""
    marks = f"<!-- {name} -->", f"<!-- /{name} -->"
    old = f"{marks[0]}{between(page, name)}{marks[1]}"
    return page.replace(old, f"{marks[0]}\n\n{text}\n\n{marks[1]}")


def crossover(rows: Sequence[Row]) -> str:
    """Rows of T8 as one table: seconds of each engine by size."""
    lines = [
        "| samples | Spark | local engine | DuckDB | Polars |",
        "| --- | --- | --- | --- | --- |",
    ]
    works = dict.fromkeys(row.work for row in rows)
    for work in works:
        by_peer = {row.peer: row for row in rows if row.work == work}
        cells = [seconds(next(iter(by_peer.values())).figures)]
        cells += [
            seconds(by_peer[name].peer_figures) for name in ("local engine", "DuckDB", "Polars")
        ]
        lines.append(f"| {work.split()[1]} | {' | '.join(cells)} |")
    return "\n".join(lines)


def seconds(figures: Figures | None) -> str:
    """A median, or a mark that there is none."""
    if figures is None or not math.isfinite(figures.median):
        return "did not finish"
    return f"{figures.median:.3g} s ({figures.spread})"
