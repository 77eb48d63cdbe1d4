"""The report on one client: when brokers throttled it, by which limit, and the smallest limit that would have avoided it. Values only."""

from dataclasses import dataclass

from reconciler.usage.impact.result_rows import EvidenceNote
from reconciler.usage.reports.usage import UsageCurve
from reconciler.usage.samples import QuotaType
from reconciler.usage.tags import Bucket


@dataclass(frozen=True, slots=True, kw_only=True)
class ThrottledRow:
    """A time in which a broker recorded throttling of a bucket of the client."""

    quota_type: QuotaType
    bucket: Bucket
    broker_id: str
    begin_ms: int
    end_ms: int
    limit_units: int | None  # the lowest limit in force within it; None = no limit is known
    source_entity: str  # the entity of that limit as canonical JSON; "" = none
    level: int | None  # its level; None = none
    delay_ms: int  # the largest mean delay of throttled requests
    rate_units: int  # the largest rate
    # A lower limit would have throttled these requests too; None = not known.
    least_units: int | None
    # The last snapshot before its end, which has no such limit: that of the next snapshot was set after it; None = another
    # case.
    snapshot_ms: int | None = None

    def distance_ms(self, at_ms: int | None) -> int:
        """Return the time between a moment and the nearest moment of the row; 0 if the row contains it, and for ``None``."""
        return 0 if at_ms is None else max(self.begin_ms - at_ms, at_ms - self.end_ms, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientLimitRow:
    """One limit of the client at the end of the window, with the use under it."""

    quota_type: QuotaType
    bucket: Bucket
    is_known: (
        bool  # whether a quota snapshot says which limit there is, and no throttling contradicts it
    )
    limit_units: int | None  # None = there is none, or it is not known
    source_entity: str
    level: int | None
    brokers: int  # number of brokers with readings
    peak_units: int
    covered_ms: int  # recorded time of the broker that throttled the longest
    throttled_ms: int | None  # throttled time on that broker; None = not recorded
    # The smallest limit that would have avoided all throttling, at least; None = there was none.
    least_units: int | None
    # The same with the margin of the client's tier, to be proposed; None also where the limit is known not to be below it.
    target_units: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientReport:
    """The content of one page."""

    user: str
    client_id: str
    ip: str
    evidence: EvidenceNote
    at_ms: int | None  # the time in question; None = the whole window
    silent_brokers: tuple[str, ...]  # brokers of the window that did not answer then
    # The longest delays first; with `at_ms`, the nearest times first.
    throttled: tuple[ThrottledRow, ...]
    limits: tuple[ClientLimitRow, ...]
    curves: tuple[UsageCurve, ...]
    # ClientQuota documents that set the limits of `limits` to their targets.
    patches: tuple[str, ...] = ()
    left_out: int = 0  # number of rows of `throttled` that are only counted

    @property
    def throttled_at(self) -> tuple[ThrottledRow, ...]:
        """The rows whose time contains :attr:`at_ms`."""
        return tuple(row for row in self.throttled if row.distance_ms(self.at_ms) == 0)
