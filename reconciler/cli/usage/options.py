"""Options shared by the commands of ``kquota usage``: the lake, clusters, a time window, the engine, and how reports are shown."""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
from msgspec import Struct

from reconciler import __version__
from reconciler.app.recorded_use.selection import (
    AUTO,
    LOCAL,
    SPARK,
    ClusterSelection,
    EngineOptions,
    WindowOptions,
)
from reconciler.base.text_files import check_place, write_text
from reconciler.cli.framework.commands import flag, option
from reconciler.cli.framework.console import Console
from reconciler.cli.options.shared import FILE, OptionPack, out_option
from reconciler.evidence.spark.session_settings import SessionSettings

if TYPE_CHECKING:
    from reconciler.render.use.report_text import Report
    from reconciler.usage.reports.client import ClientReport
    from reconciler.usage.reports.usage import UsageReport


F = TypeVar("F", bound=Callable[..., Any])

LAKE_VARIABLE: Final = "KQUOTA_LAKE"

_AGO: Final = re.compile(r"(?:[0-9]{1,6}(?:ms|s|m|h|d))+")


class InstantParameter(click.ParamType[int]):
    """A time: ``2026-11-01``, ``2026-11-01T12:00:00Z`` (UTC without a zone), or ``14d`` for 14 days ago.

    The value is in milliseconds since the epoch; a relative time is negative and resolved by :meth:`WindowOptions.span`.
    """

    name = "moment"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """Return milliseconds since the epoch, or a negative number of milliseconds before now."""
        if isinstance(value, int):
            return value
        text = str(value)
        if _AGO.fullmatch(text):
            from reconciler.cli.options.shared import DURATION

            return -round(DURATION.convert(text, param, ctx) * 1000)
        try:
            when = datetime.fromisoformat(text)
        except ValueError:
            self.fail(
                f"{text!r} is not a time; examples: 2026-11-01, 2026-11-01T12:00:00Z, or 14d for 14 days ago",
                param,
                ctx,
            )
        if when.tzinfo is None:
            when = when.replace(tzinfo=UTC)
        milliseconds = round(when.timestamp() * 1000)
        if milliseconds < 0:
            self.fail(f"{text!r} is before 1970", param, ctx)
        return milliseconds


def window_options(default: str = "14d") -> Callable[[F], F]:
    """Return ``--from`` and ``--to``, passed as ``window``.

    Args:
        default: Default of ``--from``, as shown in the help.
    """
    return OptionPack(
        "window",
        WindowOptions,
        [
            option(
                "--from WHEN",
                f"Start: a date, a time, or a duration before now  [default: {default}].",
                InstantParameter(),
                name="from_ms",
            ),
            option(
                "--to WHEN", "End, not included  [default: now].", InstantParameter(), name="to_ms"
            ),
        ],
    )


def lake_option() -> Callable[[F], F]:
    """Return ``--lake``, which ``KQUOTA_LAKE`` can set."""
    return option(
        "--lake URI",
        "Location of the tables: a folder, s3://, gs:// or az://.",
        envvar=LAKE_VARIABLE,
        show_envvar=True,
        required=True,
    )


def clusters_options() -> Callable[[F], F]:
    """Return ``--cluster``, ``--all``, ``--project`` and ``--cluster-id``, passed as ``clusters``."""
    return OptionPack(
        "clusters",
        ClusterSelection,
        [
            option(
                "--cluster NAME",
                "Name of a cluster in the project file; may be repeated.",
                name="names",
                multiple=True,
            ),
            flag("--all", "All clusters of the project file.", name="every"),
            option("--project FILE", "Project file  [default: kquota.yaml].", FILE),
            option(
                "--cluster-id ID",
                "A Kafka cluster id, instead of a project file; may be repeated.",
                name="ids",
                multiple=True,
            ),
        ],
    )


ENGINES: Final = (AUTO, LOCAL, SPARK)


def engine_options() -> Callable[[F], F]:
    """Return ``--engine``, ``--master``, ``--remote`` and ``--memory``, passed as ``engine``."""
    running = OptionPack(
        "running",
        SessionSettings,
        [
            option(
                "--master MASTER",
                "Spark master: local[2], spark://host:7077, k8s://…, yarn  [default: this machine].",
            ),
            option("--remote sc://HOST:PORT", "Spark Connect server to use instead of --master."),
            option(
                "--memory SIZE", "Heap of a session on this machine, such as 4g  [default: 1g]."
            ),
        ],
    )
    engine = option(
        "--engine",
        "Engine: local (processes of this machine), spark, or auto (by the number of samples).",
        click.Choice(ENGINES),
        default=AUTO,
    )
    return OptionPack("engine", EngineOptions, [engine, running])


def most_option(default: int, text: str) -> Callable[[F], F]:
    """Return ``--most``, at most 10,000; ``text`` says of what."""
    return option("--most N", text, click.IntRange(1, 10_000), default=default)


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
