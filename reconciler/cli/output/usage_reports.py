"""Reports of use at the command line: text, JSON, Markdown or a page, to standard output or a file, with real names or pseudonyms."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from reconciler import __version__
from reconciler.base.text_files import check_place, write_text
from reconciler.cli.framework.console import Console
from reconciler.cli.options.shared import FILE, packed
from reconciler.errors import QuotaValueError

if TYPE_CHECKING:
    from reconciler.usage.reports.pseudonyms import Pseudonyms
    from reconciler.usage.reports.usage import UsageReport

F = TypeVar("F", bound=Callable[..., Any])

FORMATS: Final = ("text", "json", "markdown", "html")
_SUFFIXES: Final = {".html": "html", ".htm": "html", ".md": "markdown", ".json": "json"}


class KeyFileParameter(click.ParamType["Pseudonyms"]):
    """A file whose content is a key, read once and early: it may be a pipe, and no job runs for a bad one."""

    name = "keyfile"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> "Pseudonyms":
        """The pseudonyms under that key."""
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
    """How a report is shown, as it was typed; what cannot be written cannot be built, so no job runs for nothing.

    Attributes:
        output: The format; ``None`` = what the name of the file says, else text.
        out: A file; ``None`` = standard output.
        pseudonymise: What stands for names; ``None`` = themselves.
    """

    output: str | None = None
    out: Path | None = None
    pseudonymise: "Pseudonyms | None" = None

    def __post_init__(self) -> None:
        if self.out is not None:
            check_place(self.out)

    @property
    def format(self) -> str:
        """The format."""
        return self.output or _SUFFIXES.get(self.out.suffix.lower() if self.out else "", "text")


def showing_options() -> Callable[[F], F]:
    """``--format``, ``--out`` and ``--pseudonymise``, handed on as ``showing``."""
    return packed(
        "showing",
        ReportOutput,
        ["output", "out", "pseudonymise"],
        [
            click.option("--format", "output", type=click.Choice(FORMATS), help="How it is shown  [default: by the name of --out, else text]."),
            click.option("--out", type=FILE, metavar="FILE", help="Where to; replaced whole. Default: stdout."),
            click.option("--pseudonymise", type=KeyFileParameter(), metavar="KEYFILE", help="Replace names by a keyed hash; KEYFILE has the key. For pages that are published."),
        ],
    )  # fmt: skip


def show_report(console: Console, report: "UsageReport", showing: ReportOutput) -> None:
    """Show it.

    Raises:
        UsageError: The file cannot be written.
    """
    names = showing.pseudonymise
    named_report = report if names is None else names.report(report)
    text = render(named_report, showing.format, console)
    if showing.out is None:
        console.fact(text)
        return
    write_text(showing.out, text, private=True)
    console.note(f"written to {showing.out}")


def render(report: "UsageReport", output: str, console: Console) -> str:
    """The report in a format."""
    if output == "json":
        from reconciler.evidence.render.report_json import report_document
        from reconciler.render.json_values import dump

        return dump(report_document(report))
    if output == "html":
        return page_of(report)
    from reconciler.cli.output.plans import style_of
    from reconciler.evidence.render.report_text import report_markdown, report_text

    if output == "markdown":
        return report_markdown(report)
    return report_text(report, style=style_of(console))


def page_of(report: "UsageReport") -> str:
    """The page of a report, made now."""
    from reconciler.base.clock import SystemClock
    from reconciler.evidence.render.report_page import (
        STYLES,
        TEMPLATE,
        UsePageFiles,
        use_page,
    )

    folder = files("reconciler.render").joinpath("page")
    parts = UsePageFiles(
        template=folder.joinpath(TEMPLATE).read_text(encoding="utf-8"),
        style="\n".join(folder.joinpath(name).read_text(encoding="utf-8") for name in STYLES),
    )
    return use_page(
        report, parts, made_ms=round(SystemClock().now() * 1000), tool_version=__version__
    )
