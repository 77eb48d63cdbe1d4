"""What commands have in common that show one report of a window: their options, the run, the page."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from reconciler.cli.console import Console
from reconciler.cli.exits import Exit
from reconciler.cli.options import packed
from reconciler.cli.spark_options import (
    Chosen,
    Clusters,
    Window,
    clusters_options,
    lake_option,
    spanned,
    window_options,
)
from reconciler.cli.spark_running import Running, run, running_options
from reconciler.cli.spark_showing import Showing, show_report, showing_options

if TYPE_CHECKING:
    from reconciler.usage.reports import UsageReport

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A report that was asked for."""

    lake: str
    clusters: Clusters
    window: Window
    most: int
    running: Running
    showing: Showing

    def shown(
        self,
        console: Console,
        job: str,
        *known: Callable[[Sequence[Chosen]], Mapping[str, object]],
        **more: object,
    ) -> Exit:
        """Run a job and show what it tells.

        Args:
            console: Where to.
            job: Its name.
            known: Settings that only this job has and that depend on the clusters.
            more: Others that only this job has.

        Raises:
            UsageError: The clusters or the window cannot be.
            LakeError: The lake cannot be read or written.
            SparkError: Spark fails.
        """
        chosen = self.clusters.chosen()
        given = {**spanned(chosen, self.window), "most": self.most, **more}
        for settings in known:
            given |= settings(chosen)
        found: UsageReport = run(job, self.lake, self.running, **given)
        show_report(console, found, self.showing)
        return Exit.DONE


def report_options() -> Callable[[F], F]:
    """The lake, clusters, the window, how much to show, how to run and where to show it, handed on as ``asked``."""
    return packed(
        "asked",
        Report,
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
