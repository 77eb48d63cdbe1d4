"""Output options of reports, and the rendering of a usage or client report as text, JSON, Markdown or HTML."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
from msgspec import Struct

from reconciler import __version__
from reconciler.base.text_files import check_place, write_text
from reconciler.cli.framework.commands import option
from reconciler.cli.framework.console import Console
from reconciler.cli.options.shared import OptionPack, out_option

if TYPE_CHECKING:
    from reconciler.render.use.report_text import Report
    from reconciler.usage.reports.client import ClientReport
    from reconciler.usage.reports.usage import UsageReport

F = TypeVar("F", bound=Callable[..., Any])

FORMATS: Final = ("text", "json", "markdown", "html")
_SUFFIXES: Final = {".html": "html", ".htm": "html", ".md": "markdown", ".json": "json"}


class ReportOutput(Struct, frozen=True, kw_only=True):
    """How a report is shown. Construction fails if the output file cannot be written, before a job runs."""

    output: str | None = None  # the format; None = by the suffix of the file, else text
    out_path: Path | None = None  # a file; None = standard output

    def __post_init__(self) -> None:
        if self.out_path is not None:
            check_place(self.out_path)

    @property
    def format(self) -> str:
        """The format: ``output``, or the one of the file's suffix, or ``text``."""
        return self.output or _SUFFIXES.get(
            self.out_path.suffix.lower() if self.out_path else "", "text"
        )

    def show(self, console: Console, report: "Report") -> None:
        """Print a report or write it to the file.

        Raises:
            UsageError: The file cannot be written.
        """
        text = self._text(console, report)
        if self.out_path is None:
            console.fact(text)
            return
        write_text(self.out_path, text, private=True)
        console.note(f"written to {self.out_path}")

    def _text(self, console: Console, report: "Report") -> str:
        from reconciler.codecs.use_report import report_document
        from reconciler.render.json_values import dump
        from reconciler.render.use.report_text import report_markdown, report_text

        if self.format == "html":
            return page_of(report)
        if self.format == "json":
            return dump(report_document(report))
        if self.format == "markdown":
            return report_markdown(report)
        return report_text(report) if self.out_path else report_text(report, style=console.style)


def showing_options() -> Callable[[F], F]:
    """Return ``--format`` and ``--out``, passed as ``showing``."""
    return OptionPack(
        "showing",
        ReportOutput,
        [
            option(
                "--format",
                "Output format  [default: by the suffix of --out, else text].",
                click.Choice(FORMATS),
                name="output",
            ),
            out_option(),
        ],
    )


def page_of(report: "UsageReport | ClientReport") -> str:
    """Return the HTML page of a report, with the current time."""
    from reconciler.app.html_page import page_files
    from reconciler.base.clock import SystemClock
    from reconciler.render.use.report_page import use_page

    made_ms = round(SystemClock().now() * 1000)
    return use_page(report, page_files(), made_ms=made_ms, tool_version=__version__)
