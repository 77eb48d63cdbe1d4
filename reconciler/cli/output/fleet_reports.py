"""Reports over fleets at the command line: as text, JSON or Markdown, to standard output or into a file."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from reconciler.base.text_files import check_place, write_text
from reconciler.cli.framework.console import Console
from reconciler.cli.framework.exit_codes import ExitCode
from reconciler.cli.options.shared import FILE, packed

if TYPE_CHECKING:
    from reconciler.usage.reports.fleet import FleetReport

F = TypeVar("F", bound=Callable[..., Any])

FORMATS: Final = ("text", "json", "markdown")


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetOutput:
    """How a report is shown, as it was typed; what cannot be written cannot be built, so no job runs for nothing.

    Attributes:
        output: The format.
        out: A file; ``None`` = standard output.
        most: Rows of each kind.
    """

    output: str
    out: Path | None
    most: int

    def __post_init__(self) -> None:
        if self.out is not None:
            check_place(self.out)


def fleet_options() -> Callable[[F], F]:
    """``--format``, ``--out`` and ``--most``, handed on as ``showing``."""
    return packed(
        "showing",
        FleetOutput,
        ["output", "out", "most"],
        [
            click.option("--format", "output", type=click.Choice(FORMATS), default="text", show_default=True, help="Output format."),
            click.option("--out", type=FILE, metavar="FILE", help="Where to; replaced whole. Default: stdout."),
            click.option("--most", type=click.IntRange(1, 10_000), default=100, show_default=True, help="Maximum number of rows of each kind; the lake has all."),
        ],
    )  # fmt: skip


def show_fleet(console: Console, report: "FleetReport", showing: FleetOutput) -> ExitCode:
    """Show it, and give what the shell gets: conflicts are errors, violations of guards refusals."""
    text = _render(console, report, showing)
    if showing.out is None:
        console.fact(text)
    else:
        write_text(showing.out, text, private=True)
        console.note(f"written to {showing.out}")
    if report.conflicts:
        console.error("documents claim the same pairs: one must give way, a pair has one owner")
        return ExitCode.ERROR
    return ExitCode.REFUSED if report.is_refused else ExitCode.DONE


def _render(console: Console, report: "FleetReport", showing: FleetOutput) -> str:
    from reconciler.cli.output.plans import style_of
    from reconciler.evidence.render.fleet_report import (
        fleet_document,
        fleet_markdown,
        fleet_text,
    )
    from reconciler.render.json_values import dump

    if showing.output == "json":
        return dump(fleet_document(report))
    if showing.output == "markdown":
        return fleet_markdown(report, max_rows=showing.most)
    return fleet_text(report, style=style_of(console))
