"""Where an analysis runs: in processes of this machine, or on Spark."""

import contextlib
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from reconciler.app.requests import TextReceiver
from reconciler.base.installation import needs
from reconciler.evidence.spark.runtime.session_settings import SessionSettings

if TYPE_CHECKING:
    from reconciler.evidence.analysis.engine import Engine
    from reconciler.evidence.analysis.window import TimeWindow
    from reconciler.evidence.store.lake import Lake

AUTO: Final = "auto"
LOCAL: Final = "local"
SPARK: Final = "spark"

MOST_LOCAL: Final = 200_000_000
"""Maximum number of samples for which ``--engine auto`` stays on this machine: some minutes on two cores.

Memory does not decide: processes read the samples in parts of a million.
"""


class EngineOptions(Struct, frozen=True, kw_only=True):
    """The options of the command line."""

    engine: str = AUTO
    running: SessionSettings = SessionSettings()

    @contextlib.contextmanager
    def opened(
        self, notices: TextReceiver, lake: "Lake", clusters: Iterable[str], window: "TimeWindow"
    ) -> "Iterator[Engine]":
        """Open the engine while the block runs.

        Args:
            clusters: Cluster ids.
            window: The window whose samples are read.

        Raises:
            UsageError: Spark is not installed.
            LakeError: The lake cannot be read.
            KquotaError: No session of Spark can be started.
        """
        from reconciler.evidence.analysis.engine import LocalEngine
        from reconciler.usage.tables import USAGE_SAMPLE

        is_placed = self.running != SessionSettings(brief=self.running.brief)
        engine = SPARK if self.engine == AUTO and is_placed else self.engine
        if engine == AUTO:
            days = lake.days(USAGE_SAMPLE, set(clusters), window.first_day, window.last_day)
            rows = sum(day.rows for day in days)
            is_installed = find_spec("pyspark") is not None
            engine = SPARK if rows > MOST_LOCAL and is_installed else LOCAL
            if engine == SPARK:
                notices.note(f"{rows:,} samples: Spark reads them (--engine local would, too)")
        if engine == LOCAL:
            yield LocalEngine()
            return
        needs("spark", "--engine spark")
        from reconciler.evidence.spark import engine as spark_engine

        with spark_engine.opened(self.running) as opened:
            yield opened
