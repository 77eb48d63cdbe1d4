"""Output options of reports, and the rendering of a usage or client report as text, JSON, Markdown or HTML."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from reconciler import __version__
from reconciler.base.text_files import check_place, write_text
from reconciler.cli.framework.commands import option
from reconciler.cli.framework.console import Console
from reconciler.cli.options.shared import OptionPack, out_option
from reconciler.errors import QuotaValueError

if TYPE_CHECKING:
    from reconciler.evidence.render.report_text import Report
    from reconciler.usage.reports.client import ClientReport
    from reconciler.usage.reports.pseudonyms import Pseudonyms
    from reconciler.usage.reports.usage import UsageReport

F = TypeVar("F", bound=Callable[..., Any])

FORMATS: Final = ("text", "json", "markdown", "html")
_SUFFIXES: Final = {".html": "html", ".htm": "html", ".md": "markdown", ".json": "json"}


class KeyFileParameter(click.ParamType["Pseudonyms"]):
    """A key file, read once before a job runs, so that a pipe works and an invalid key fails early."""

    name = "keyfile"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> "Pseudonyms":
        """Return the pseudonyms for the key in the file."""
        from reconciler.usage.reports.pseudonyms import Pseudonyms

        path = Path(str(value))
        try:
            return Pseudonyms(path.read_bytes().strip())
        except OSError as error:
            self.fail(
                f"{path} cannot be read: {error.strerror}; make it: head -c 32 /dev/urandom | base64 > {path}",
                param,
                ctx,
            )
        except QuotaValueError as short:
            self.fail(f"{path}: {short.message}", param, ctx)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportOutput:
    """How a report is shown. Construction fails if the output file cannot be written, before a job runs."""

    output: str | None = None  # the format; None = by the suffix of the file, else text
    out_path: Path | None = None  # a file; None = standard output
    most: int = 10_000  # maximum number of rows of each table; a report has at most the default
    pseudonymise: "Pseudonyms | None" = None  # replaces names in a usage report; None = real names

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
        from reconciler.evidence.render.report_json import report_document
        from reconciler.evidence.render.report_text import report_markdown, report_text
        from reconciler.render.json_values import dump
        from reconciler.usage.reports.usage import UsageReport

        if isinstance(report, UsageReport) and self.pseudonymise:
            report = self.pseudonymise.report(report)
        if self.format == "html":
            return page_of(report)
        if self.format == "json":
            return dump(report_document(report))
        if self.format == "markdown":
            return report_markdown(report, max_rows=self.most)
        return report_text(report, style=console.style)


def showing_options() -> Callable[[F], F]:
    """Return ``--format``, ``--out`` and ``--pseudonymise``, passed as ``showing``."""
    return OptionPack(
        "showing",
        ReportOutput,
        [
            _page_format_option(),
            out_option(),
            option(
                "--pseudonymise KEYFILE",
                "Replace names by a keyed hash; KEYFILE has the key. For pages that are published.",
                KeyFileParameter(),
            ),
        ],
    )


def client_options() -> Callable[[F], F]:
    """Return ``--format`` and ``--out`` of a page, passed as ``showing``."""
    return OptionPack("showing", ReportOutput, [_page_format_option(), out_option()])


def _page_format_option() -> Callable[[F], F]:
    return option(
        "--format",
        "Output format  [default: by the suffix of --out, else text].",
        click.Choice(FORMATS),
        name="output",
    )


def page_of(report: "UsageReport | ClientReport") -> str:
    """Return the HTML page of a report, with the current time."""
    from reconciler.app.html_page import joined_files
    from reconciler.base.clock import SystemClock
    from reconciler.evidence.render.report_page import STYLES, UsePageFiles, use_page
    from reconciler.render.html.frame import FRAME

    parts = UsePageFiles(frame=joined_files(FRAME), style=joined_files(*STYLES))
    return use_page(
        report, parts, made_ms=round(SystemClock().now() * 1000), tool_version=__version__
    )
