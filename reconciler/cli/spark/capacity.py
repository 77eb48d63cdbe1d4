"""``kquota spark capacity``: what brokers can give clients, what is promised, what was served at one time."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import click

from reconciler.cli.framework.commands import command
from reconciler.cli.framework.console import Console
from reconciler.cli.framework.exit_codes import ExitCode
from reconciler.cli.options.shared import packed
from reconciler.cli.spark.options import SelectedCluster
from reconciler.cli.spark.window_report import ReportRequest, report_options

F = TypeVar("F", bound=Callable[..., Any])

HELP: Final = """Show the budgets of brokers: capacity after replication, how much of it limits promise, and what was served.

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
    return packed(
        "budgets",
        BrokerCapacityOptions,
        ["capacities", "replication_factor"],
        [
            click.option("--capacity", "capacities", multiple=True, metavar="ID=IN:OUT[:PPM]", help="Bytes/s that a broker can take and give, - where unknown, and the usable part in millionths; may be repeated."),
            click.option("--replication-factor", type=click.IntRange(1, 100), help="Stands for replication where it was not recorded: inward for balanced leaders, outward where it is known what came in."),
        ],
    )  # fmt: skip


def capacities_of(clusters: Iterable[SelectedCluster], typed: Iterable[str]) -> tuple[str, ...]:
    """What brokers can carry: as typed, else as the project says.

    Args:
        clusters: The clusters.
        typed: Values of ``--capacity``.
    """
    from reconciler.manifest.quantity import parse_integer
    from reconciler.usage.reports.capacity import HEADROOM_PPM
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


@command(help=HELP)
@report_options()
@budgets_options()
@click.pass_obj
def capacity(console: Console, *, asked: ReportRequest, budgets: BrokerCapacityOptions) -> ExitCode:
    """Run the job and show its report."""
    return asked.run(console, "capacity", budgets.of)
