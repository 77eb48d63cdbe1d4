"""What commands have in common that show one report of a window: their options, the run, the page."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from reconciler.cli.framework.console import Console
from reconciler.cli.framework.exit_codes import ExitCode
from reconciler.cli.options.shared import packed
from reconciler.cli.output.usage_reports import (
    ReportOutput,
    show_report,
    showing_options,
)
from reconciler.cli.spark.jobs.session import SparkOptions, run, running_options
from reconciler.cli.spark.options import (
    ClusterSelection,
    SelectedCluster,
    WindowOptions,
    clusters_options,
    lake_option,
    spanned,
    window_options,
)

if TYPE_CHECKING:
    from reconciler.usage.reports.usage import UsageReport

F = TypeVar("F", bound=Callable[..., Any])


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
    return packed(
        "asked",
        ReportRequest,
        ["lake", "clusters", "window", "most", "running", "showing"],
        [
            lake_option(),
            clusters_options(),
            window_options(),
            click.option("--most", type=click.IntRange(1, 5_000), default=50, show_default=True, help="Maximum number of rows of each table."),
            running_options(),
            showing_options(),
        ],
    )  # fmt: skip


def curves_option() -> Callable[[F], F]:
    """``--curves``."""
    return click.option("--curves", type=click.IntRange(0, 24), default=12, show_default=True, help="Maximum number of curves on a page.")  # fmt: skip
