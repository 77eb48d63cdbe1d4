"""``kquota spark usage``, ``capacity`` and ``report``: a job over a window, and its report as text, JSON, Markdown or a page.

A report goes to standard output or a file, with real names or pseudonyms.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from reconciler import __version__
from reconciler.app.recorded_use.selection import (
    ClusterSelection,
    SelectedCluster,
    WindowOptions,
    spanned,
)
from reconciler.app.recorded_use.spark_job import SparkOptions, run
from reconciler.base.text_files import check_place, write_text
from reconciler.cli.framework.commands import command
from reconciler.cli.framework.console import Console
from reconciler.cli.framework.exit_codes import ExitCode
from reconciler.cli.options.shared import FILE, OptionPack
from reconciler.cli.spark.options import (
    clusters_options,
    lake_option,
    running_options,
    window_options,
)
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
    return OptionPack(
        "showing",
        ReportOutput,
        [
            click.option(
                "--format",
                "output",
                type=click.Choice(FORMATS),
                help="How it is shown  [default: by the name of --out, else text].",
            ),
            click.option(
                "--out",
                type=FILE,
                metavar="FILE",
                help="Where to; replaced whole. Default: stdout.",
            ),
            click.option(
                "--pseudonymise",
                type=KeyFileParameter(),
                metavar="KEYFILE",
                help="Replace names by a keyed hash; KEYFILE has the key. For pages that are published.",
            ),
        ],
    )


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
    from reconciler.evidence.render.report_text import report_markdown, report_text

    if output == "markdown":
        return report_markdown(report)
    return report_text(report, style=console.style)


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


def show(console: Console, report: "UsageReport", output: str) -> None:
    """Print a report.

    Args:
        console: Where.
        report: What.
        output: ``text``, ``json`` or ``markdown``.
    """
    if output == "json":
        from reconciler.evidence.render.report_json import report_document

        console.document(report_document(report))
        return
    from reconciler.evidence.render.report_text import report_markdown, report_text

    text = (
        report_markdown(report)
        if output == "markdown"
        else report_text(report, style=console.style)
    )
    console.fact(text.rstrip("\n"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportRequest:
    """A report that was asked for."""

    lake: str
    clusters: ClusterSelection
    window: WindowOptions
    most: int
    running: SparkOptions
    showing: ReportOutput

    def run(
        self,
        console: Console,
        job: str,
        *extra_options: Callable[[Sequence[SelectedCluster]], Mapping[str, object]],
        **extra_settings: object,
    ) -> ExitCode:
        """Run a job and show its report.

        Args:
            console: Where to.
            job: Its name.
            extra_options: Settings that only this job has and that depend on the clusters.
            extra_settings: Others that only this job has.

        Raises:
            UsageError: The clusters or the window cannot be.
            LakeError: The lake cannot be read or written.
            SparkError: Spark fails.
        """
        clusters = self.clusters.select()
        job_options = {**spanned(clusters, self.window), "most": self.most, **extra_settings}
        for settings in extra_options:
            job_options |= settings(clusters)
        report: UsageReport = run(job, self.lake, self.running, **job_options)
        show_report(console, report, self.showing)
        return ExitCode.DONE


def report_options() -> Callable[[F], F]:
    """The lake, clusters, the window, how much to show, how to run and where to show it, handed on as ``asked``."""
    return OptionPack(
        "asked",
        ReportRequest,
        [
            lake_option(),
            clusters_options(),
            window_options(),
            click.option(
                "--most",
                type=click.IntRange(1, 5_000),
                default=50,
                show_default=True,
                help="Maximum number of rows of each table.",
            ),
            running_options(),
            showing_options(),
        ],
    )


def curves_option() -> Callable[[F], F]:
    """``--curves``."""
    return click.option(
        "--curves",
        type=click.IntRange(0, 24),
        default=12,
        show_default=True,
        help="Maximum number of curves on a page.",
    )


USAGE_HELP: Final = """Show who uses how much of which limit: percentiles per broker, throttled, near the limit, unused.

Rollups of days that changed are made first. All rows go to the lake (usage_row); the most telling are shown.

\b
Example:
  kquota spark usage --cluster prod --lake ./lake
  kquota spark usage --all --lake s3://metrics/kquota --from 30d --out usage.html"""


@command(help=USAGE_HELP)
@report_options()
@curves_option()
@click.pass_obj
def usage(console: Console, *, asked: ReportRequest, curves: int) -> ExitCode:
    """Run the job and show its report."""
    return asked.run(console, "usage", curves=curves)


CAPACITY_HELP: Final = """Show the budgets of brokers: capacity after replication, how much of it limits promise, and what was served.

What a broker can carry comes from spec.brokerCapacity of each QuotaCluster, or from --capacity; without it there is no
budget. Where brokers were over it, the most of those who used more than a fair share are named (shares, not blame).

\b
Example:
  kquota spark capacity --cluster prod --lake ./lake
  kquota spark capacity --cluster-id 4L6g3nShT-eMCtK--X86sw --lake ./lake --capacity 4L6g3nShT-eMCtK--X86sw=125000000:125000000"""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerCapacityOptions:
    """What brokers can carry, as it was typed."""

    capacities: tuple[str, ...] = ()
    replication_factor: int | None = None

    def of(self, clusters: Iterable[SelectedCluster]) -> dict[str, object]:
        """The settings of a job."""
        return {
            "capacity": capacities_of(clusters, self.capacities),
            "replication_factor": self.replication_factor,
        }


def budgets_options() -> Callable[[F], F]:
    """``--capacity`` and ``--replication-factor``, handed on as ``budgets``."""
    return OptionPack(
        "budgets",
        BrokerCapacityOptions,
        [
            click.option(
                "--capacity",
                "capacities",
                multiple=True,
                metavar="ID=IN:OUT[:PPM]",
                help="Bytes/s that a broker can take and give, - where unknown, and the usable part in millionths; may be repeated.",
            ),
            click.option(
                "--replication-factor",
                type=click.IntRange(1, 100),
                help="Stands for replication where it was not recorded: inward for balanced leaders, outward where it is known what came in.",
            ),
        ],
    )


def capacities_of(clusters: Iterable[SelectedCluster], typed: Iterable[str]) -> tuple[str, ...]:
    """What brokers can carry: as typed, else as the project says.

    Args:
        clusters: The clusters.
        typed: Values of ``--capacity``.
    """
    from reconciler.manifest.quantity import parse_integer
    from reconciler.usage.capacity import HEADROOM_PPM
    from reconciler.usage.samples import MILLION

    typed_values = tuple(typed)
    typed_ids = {typed_value.rpartition("=")[0] for typed_value in typed_values}
    capacities: list[str] = []
    for cluster in clusters:
        capacity_spec = cluster.settings.broker_capacity if cluster.settings is not None else {}
        if cluster.id in typed_ids or not capacity_spec:
            continue
        ways = ":".join(
            "-" if way not in capacity_spec else str(parse_integer(str(capacity_spec[way])))
            for way in ("ingress", "egress")
        )
        headroom = round(float(capacity_spec.get("headroom", HEADROOM_PPM / MILLION)) * MILLION)
        capacities.append(f"{cluster.id}={ways}:{headroom}")
    return (*typed_values, *capacities)


@command(help=CAPACITY_HELP)
@report_options()
@budgets_options()
@click.pass_obj
def capacity(console: Console, *, asked: ReportRequest, budgets: BrokerCapacityOptions) -> ExitCode:
    """Run the job and show its report."""
    return asked.run(console, "capacity", budgets.of)


REPORT_HELP: Final = """Write one report: use against limits over time, headroom, capacity, what-if and recommendations.

The what-if and the recommendations are the newest that `kquota spark simulate` and `kquota spark recommend` left in the
lake, which may be of another window: the report says of which. A page (--out report.html) needs no network and no script; with --pseudonymise it may be shown outside.

\b
Example:
  kquota spark report --cluster prod --lake ./lake --out report.html
  kquota spark report --all --lake ./lake --from 7d --pseudonymise key.txt --out public.html"""


@command(help=REPORT_HELP)
@report_options()
@budgets_options()
@curves_option()
@click.pass_obj
def report(
    console: Console, *, asked: ReportRequest, budgets: BrokerCapacityOptions, curves: int
) -> ExitCode:
    """Run the job and show its report."""
    return asked.run(console, "report", budgets.of, curves=curves)
