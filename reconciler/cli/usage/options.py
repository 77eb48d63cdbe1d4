"""Options shared by the commands of ``kquota usage``: the lake, clusters, a time window, the Spark session."""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

import click

from reconciler.app.recorded_use.engines import AUTO, LOCAL, SPARK, EngineOptions
from reconciler.app.recorded_use.selection import ClusterSelection, WindowOptions
from reconciler.cli.framework.commands import flag, option
from reconciler.cli.options.shared import FILE, OptionPack
from reconciler.evidence.spark.runtime.session_settings import SessionSettings

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
    """Return ``--engine``, ``--master``, ``--remote``, ``--memory`` and ``--brief``, passed as ``engine``."""
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
            flag("--brief", "Start faster and compute slower; for little data on this machine."),
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
