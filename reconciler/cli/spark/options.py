"""Options shared by the commands of ``kquota spark``: the lake, clusters, a time window, the Spark session."""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

import click

from reconciler.app.recorded_use.selection import ClusterSelection, WindowOptions
from reconciler.app.recorded_use.spark_job import SparkOptions
from reconciler.cli.options.shared import FILE, OptionPack

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
            from reconciler.cli.options.value_types import DurationParameter

            return -round(DurationParameter().convert(text, param, ctx) * 1000)
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
            click.option(
                "--from",
                "from_ms",
                type=InstantParameter(),
                metavar="WHEN",
                help=f"Start: a date, a time, or a duration before now  [default: {default}].",
            ),
            click.option(
                "--to",
                "to_ms",
                type=InstantParameter(),
                metavar="WHEN",
                help="End, not included  [default: now].",
            ),
        ],
    )


def lake_option() -> Callable[[F], F]:
    """Return ``--lake``, which ``KQUOTA_LAKE`` can set."""
    return click.option(
        "--lake",
        envvar=LAKE_VARIABLE,
        show_envvar=True,
        required=True,
        metavar="URI",
        help="Location of the tables: a folder, s3://, gs:// or az://.",
    )


def clusters_options() -> Callable[[F], F]:
    """Return ``--cluster``, ``--all``, ``--project`` and ``--cluster-id``, passed as ``clusters``."""
    return OptionPack(
        "clusters",
        ClusterSelection,
        [
            click.option(
                "--cluster",
                "names",
                multiple=True,
                metavar="NAME",
                help="Name of a cluster in the project file; may be repeated.",
            ),
            click.option("--all", "every", is_flag=True, help="All clusters of the project file."),
            click.option(
                "--project", type=FILE, metavar="FILE", help="Project file  [default: kquota.yaml]."
            ),
            click.option(
                "--cluster-id",
                "ids",
                multiple=True,
                metavar="ID",
                help="A Kafka cluster id, instead of a project file; may be repeated.",
            ),
        ],
    )


ENGINES: Final = ("auto", "core", "spark")


def running_options() -> Callable[[F], F]:
    """Return ``--master``, ``--remote``, ``--memory`` and ``--brief``, passed as ``running``."""
    return OptionPack(
        "running",
        SparkOptions,
        [
            click.option(
                "--master",
                metavar="MASTER",
                help="Spark master: local[2], spark://host:7077, k8s://…, yarn  [default: this machine].",
            ),
            click.option(
                "--remote",
                metavar="sc://HOST:PORT",
                help="Spark Connect server to use instead of --master.",
            ),
            click.option(
                "--memory",
                metavar="SIZE",
                help="Heap of a session on this machine, such as 4g  [default: 1g].",
            ),
            click.option(
                "--brief",
                is_flag=True,
                help="Start faster and compute slower; for little data on this machine.",
            ),
        ],
    )


def most_option(default: int, text: str) -> Callable[[F], F]:
    """Return ``--most``, at most 10,000; ``text`` says of what."""
    return click.option(
        "--most",
        type=click.IntRange(1, 10_000),
        default=default,
        show_default=True,
        metavar="N",
        help=text,
    )


def engine_option() -> Callable[[F], F]:
    """Return ``--engine``: the core in this process, Spark, or the faster of the two for the number of rows."""
    return click.option(
        "--engine",
        type=click.Choice(ENGINES),
        default="auto",
        show_default=True,
        help="Engine: core (this process), spark, or auto (the faster one).",
    )
