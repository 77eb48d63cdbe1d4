"""The tables of the pipeline: columns, units, keys, order and versions. All schemas are derived from this module.

Units are part of column names. Absent names are ``""``, not null: Kafka's names cannot be empty, and an empty client id is
counted as none, so equality needs no special case for null. Nullable columns are marked.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

SCHEMA_VERSION: Final = 1
"""The version of all tables; readers support this version alone."""


class ColumnKind(StrEnum):
    """The type of a column."""

    TEXT = "text"
    LONG = "long"
    INT = "int"
    DOUBLE = "double"
    TRUTH = "truth"
    DAY = "day"  # a date, UTC
    TEXTS = "texts"  # a list of texts


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column."""

    name: str  # with its unit, if it has one
    kind: ColumnKind
    null: bool = False  # whether it is nullable


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table."""

    name: str
    columns: tuple[Column, ...]  # in order. Every stored table has `cluster_id` and `day`.
    # Unique key; also the order of rows within a file, so that readers can skip.
    key: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(column.name for column in self.columns)


def _columns(text: str) -> tuple[Column, ...]:
    """Parse ``name:kind`` separated by blanks; a question mark after the kind = nullable."""
    columns: list[Column] = []
    for word in text.split():
        name, _, kind = word.partition(":")
        columns.append(
            Column(name=name, kind=ColumnKind(kind.rstrip("?")), null=kind.endswith("?"))
        )
    return tuple(columns)


def _table(name: str, columns: str, key: str) -> Table:
    return Table(name=name, columns=_columns(columns), key=tuple(key.split()))


_BUCKET: Final = "quota_type:text group_kind:text user:text client_id:text ip:text"
_BUCKET_KEY: Final = "quota_type group_kind user client_id ip"
_ENTITY: Final = (
    "user_kind:text client_kind:text ip_kind:text user:text client_id:text ip:text entity_json:text"
)

USAGE_SAMPLE: Final = _table(
    "usage_sample",
    f"cluster_id:text {_BUCKET} broker_id:text ts_ms:long dt_ms:int rate_units:long throttle_ms:long?"
    " censored:text day:day",
    f"cluster_id {_BUCKET_KEY} broker_id ts_ms",
)
"""Readings of a bucket on a broker; :class:`reconciler.usage.kernel.series.SampleSeries` documents the columns."""

TARGET_UP: Final = _table(
    "target_up",
    "cluster_id:text broker_id:text ts_ms:long dt_ms:int up:truth day:day",
    "cluster_id broker_id ts_ms",
)
"""Whether a broker answered a scrape: only then a silent bucket means zero. Thinned moments only."""

BROKER_SAMPLE: Final = _table(
    "broker_sample",
    "cluster_id:text broker_id:text ts_ms:long dt_ms:int bytes_in:long? bytes_out:long? replication_in:long?"
    " replication_out:long? request_idle_ppm:long? day:day",
    "cluster_id broker_id ts_ms",
)
"""The total rates of a broker, per second."""

SNAPSHOT: Final = _table(
    "snapshot",
    "cluster_id:text snapshot_id:text observed_at_ms:long complete:truth entries:int day:day",
    "cluster_id snapshot_id",
)
"""One row per snapshot of a cluster; it distinguishes "all quotas were removed" from "there was no snapshot"."""

QUOTA_ENTRY: Final = _table(
    "quota_entry",
    f"cluster_id:text snapshot_id:text observed_at_ms:long {_ENTITY} quota_key:text value:double"
    " quota_units:long? value_state:text source:text day:day",
    "cluster_id snapshot_id entity_json quota_key",
)
"""One limit of one entity in a snapshot. Kinds: ``named``, ``default``, ``absent``, ``foreign``. ``entity_json`` is canonical and lossless."""

USAGE_5M: Final = _table(
    "usage_5m",
    f"cluster_id:text {_BUCKET} broker_id:text bucket_ms:long n:long sum_dt_ms:long sum_units:long"
    " max_rate_units:long throttled_samples:long throttled_ms:long? censored_ms:long day:day",
    f"cluster_id {_BUCKET_KEY} broker_id bucket_ms",
)
"""Five minutes of a bucket on a broker; ``sum_units`` is what arrived (a_i of the throttle model), ``throttled_ms`` null if no sample has a throttle time."""

USAGE_HIST_D: Final = _table(
    "usage_hist_d",
    f"cluster_id:text {_BUCKET} broker_id:text bucket:int n_dt_ms:long day:day",
    f"cluster_id {_BUCKET_KEY} broker_id bucket",
)
"""A day of a bucket on a broker as a histogram (:mod:`reconciler.usage.kernel.histogram`)."""

IMPACT_ROW: Final = _table(
    "impact_row",
    f"cluster_id:text {_BUCKET} any_name:truth broker_id:text before_units:long? after_units:long?"
    " source_entity:text answer:text verdict:text bound:text model:text before_throttled_ms:long?"
    " before_max_delay_ms:long? observed_throttled_ms:long? after_throttled_ms:long? after_max_delay_ms:long?"
    " after_over_timeout_ms:long? delayed_units:long? unfinished:int? covered_ms:long censored_ms:long why:text"
    " worst_throttled_ms:long? worst_max_delay_ms:long? day:day",
    f"cluster_id {_BUCKET_KEY} any_name broker_id",
)
"""One bucket on one broker before and after; the fields of :class:`reconciler.usage.impact.result_rows.ImpactRow`, and the last day of the window."""

RECOMMENDATION: Final = _table(
    "recommendation",
    f"cluster_id:text {_BUCKET} source_entity:text tier:text advice:text current_units:long? target_units:long?"
    " needed_units:long? lower_units:long? upper_units:long? worst_week_units:long? peak_units:long"
    " train_share_ppm:long? train_max_delay_ms:long? test_share_ppm:long? test_max_delay_ms:long?"
    " confidence_ppm:long censored_ppm:long rules:texts evidence_ms:long samples:long brokers:int"
    " day:day",
    f"cluster_id {_BUCKET_KEY}",
)
"""The fields of :class:`reconciler.usage.impact.result_rows.RecommendationRow`, and the last day of the window."""

CAPACITY_ROW: Final = _table(
    "capacity_row",
    "cluster_id:text broker_id:text direction:text budget_units:long? committed_ppm:long? coincident_ppm:long?"
    " overload_ms:long? unattributed_ppm:long? covered_ms:long basis:text day:day",
    "cluster_id broker_id direction",
)
"""The budget of a broker and its commitment; ``basis``: ``measured`` or ``no_data``; earlier versions also stored ``replication_factor``."""

USAGE_ROW: Final = _table(
    "usage_row",
    f"cluster_id:text {_BUCKET} broker_id:text limit_units:long? source_entity:text covered_ms:long p50_units:long?"
    " p95_units:long? p99_units:long? max_rate_units:long throttled_ms:long? censored_ms:long state:text day:day",
    f"cluster_id {_BUCKET_KEY} broker_id",
)
"""Use of a bucket on a broker over the window; ``state``: ``unused``, ``idle``, ``used``, ``near_limit``, ``throttled``, ``no_data``."""

NOISY_ROW: Final = _table(
    "noisy_row",
    f"cluster_id:text broker_id:text bucket_ms:long {_BUCKET} budget_units:long rate_units:long fair_units:long"
    " excess_units:long day:day",
    f"cluster_id broker_id bucket_ms {_BUCKET_KEY}",
)
"""Buckets that used more than a fair share of a broker in a hot interval (:func:`reconciler.usage.capacity.shares`)."""

TABLES: Final[dict[str, Table]] = {
    table.name: table
    for table in (
        USAGE_SAMPLE,
        TARGET_UP,
        BROKER_SAMPLE,
        SNAPSHOT,
        QUOTA_ENTRY,
        USAGE_5M,
        USAGE_HIST_D,
        IMPACT_ROW,
        RECOMMENDATION,
        CAPACITY_ROW,
        USAGE_ROW,
        NOISY_ROW,
    )
}


class Measure(StrEnum):
    """The measures of points. Gauges are rates as read; counters (``_total``) become rates when days are assembled."""

    UP = "up"  # 1 = the scrape succeeded
    BROKER_ID = "broker_id"  # app-info: the value is the id
    RATE = "rate"  # in Kafka's unit of the quota type per second
    RATE_TOTAL = "rate_total"  # a counter of the same
    THROTTLE = "throttle_ms"  # mean delay of throttled requests; NaN = none was
    THROTTLE_TOTAL = "throttle_ms_total"
    BYTES_IN = "bytes_in"
    BYTES_OUT = "bytes_out"
    BYTES_IN_TOTAL = "bytes_in_total"
    BYTES_OUT_TOTAL = "bytes_out_total"
    REPLICATION_IN = "replication_in"
    REPLICATION_OUT = "replication_out"
    REPLICATION_IN_TOTAL = "replication_in_total"
    REPLICATION_OUT_TOTAL = "replication_out_total"
    REQUEST_IDLE = "request_idle"  # share, 0 to 1
