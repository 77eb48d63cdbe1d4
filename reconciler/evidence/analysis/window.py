"""A window of time with the days that it touches, and what a report of it covers."""

import datetime as dt
from dataclasses import dataclass

from reconciler.errors import UsageError
from reconciler.usage.capacity import CapacityOfCluster
from reconciler.usage.samples import DAY_MS, day_of


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeWindow:
    """From and to (exclusive), milliseconds since the epoch."""

    from_ms: int
    to_ms: int

    def __post_init__(self) -> None:
        if not 0 <= self.from_ms < self.to_ms:
            raise UsageError(
                f"the window from {self.from_ms} to {self.to_ms} is empty",
                hint="both are milliseconds since 1970, and it must end after it begins",
            )

    @property
    def span(self) -> tuple[int, int]:
        """From and to."""
        return self.from_ms, self.to_ms

    @property
    def first_day(self) -> dt.date:
        """The UTC day of the begin."""
        return day_of(self.from_ms)

    @property
    def last_day(self) -> dt.date:
        """The UTC day of the end; results are stored under it."""
        return day_of(self.to_ms - 1)

    @property
    def whole_days(self) -> "TimeWindow":
        """The same window extended to whole days, for daily histograms."""
        return TimeWindow(
            from_ms=self.from_ms // DAY_MS * DAY_MS, to_ms=-(-self.to_ms // DAY_MS) * DAY_MS
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportWindow(TimeWindow):
    """A window with the clusters and the size of its report."""

    clusters: tuple[str, ...]  # cluster ids
    most: int = 200  # maximum number of rows of each table in the report
    capacity: tuple[CapacityOfCluster, ...] = ()  # for budgets
