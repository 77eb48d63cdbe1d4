"""The days of tables: the rows of a table, cluster and day are one object, with facts about them in its footer.

The footer of samples and of their sums has the list of series, too: which buckets were recorded by which brokers, without
reading rows. It is Arrow's stream format, compressed with zstd, as base64 after its size, and follows from the rows.
"""

import base64
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Final

import pyarrow as pa
from msgspec import Struct

from reconciler.errors import LakeDamaged, LakeError
from reconciler.evidence.store.files import arrow_tables, parquet_files
from reconciler.evidence.store.files.parquet_files import TableFile
from reconciler.usage.tables import USAGE_5M, USAGE_SAMPLE, Table

MOST_BYTES: Final = 2**25
"""Maximum size of a list before compression: some 700,000 series. A list is decoded as a whole."""

SERIES_KEY: Final = "kquota.series"
"""Its key in the footer."""

BUCKET: Final = ("group_kind", "user", "client_id", "ip")
"""The columns of a bucket besides its quota type."""

SERIES: Final = ("quota_type", *BUCKET, "broker_id")
"""The columns that distinguish the series of a cluster; files are sorted by them."""


def lists_series(table: Table) -> bool:
    """Whether the days of a table have a list: samples and their sums of five minutes."""
    return table in {USAGE_SAMPLE, USAGE_5M}


def series_text(rows: pa.Table) -> str:
    """Return the list of the series of rows as text: :data:`SERIES`, their ``rows``, ``first_ms`` and ``last_ms``.

    Raises:
        LakeError: There are too many.
    """
    at = "ts_ms" if "ts_ms" in rows.schema.names else "bucket_ms"
    kinds = ("count", "min", "max")
    groups = rows.group_by(list(SERIES), use_threads=False).aggregate(
        [(at, kind) for kind in kinds]
    )
    columns = [*SERIES, *(f"{at}_{kind}" for kind in kinds)]
    series = pa.table([groups.column(name) for name in columns], schema=_SCHEMA)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, _SCHEMA) as stream:
        stream.write_table(series.sort_by([(name, "ascending") for name in SERIES]))
    content = sink.getvalue()
    if content.size > MOST_BYTES:
        raise LakeError(f"a day has too many series: {series.num_rows:,}")
    return f"{content.size}:{base64.b64encode(pa.compress(content, _CODEC)).decode()}"


def read_series(text: str) -> pa.Table:
    """Return the list of a footer; no rows for "".

    Raises:
        ValueError: It is not base64, has no size, or is too large.
        pa.ArrowException: It is not a list.
    """
    if not text:
        return _SCHEMA.empty_table()
    size, _, encoded = text.partition(":")
    if int(size) > MOST_BYTES:
        raise ValueError(f"a list of series of {int(size):,} bytes")
    content = pa.decompress(base64.b64decode(encoded, validate=True), int(size), _CODEC)
    with pa.ipc.open_stream(content) as stream:
        return stream.read_all().cast(_SCHEMA)


_CODEC: Final = "zstd"
_FIELDS: Final = arrow_tables.schema(USAGE_SAMPLE)
_SCHEMA: Final = pa.schema(
    [
        *(_FIELDS.field(name) for name in SERIES),
        pa.field("rows", pa.int64()),
        pa.field("first_ms", pa.int64()),
        pa.field("last_ms", pa.int64()),
    ]
)


FACTS: Final = "kquota"
"""Key of :class:`DayFacts` in the footer."""

_COVERED: Final = "covered_ppm "
"""Prefix of a broker id in ``counts``: the share of the day in which the broker answered scrapes."""

CLUSTER_ID: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")
"""Cluster ids that can be the name of a folder."""


YEARS: Final = range(1970, 9999)
"""Years of which a day has a time since the epoch, and days before and after it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """What is replaced together: the rows of one table, cluster and UTC day."""

    table: Table
    cluster_id: str  # Kafka's cluster id
    day: date

    def __post_init__(self) -> None:
        if not CLUSTER_ID.fullmatch(self.cluster_id):
            raise LakeError(
                f"{self.cluster_id!r} cannot be the name of a folder",
                hint="Kafka's cluster ids are letters, digits, - and _",
            )

    @property
    def path(self) -> str:
        """The path of its object."""
        return (
            f"{cluster_folder(self.table, self.cluster_id)}/day={self.day.isoformat()}/part.parquet"
        )

    def __str__(self) -> str:
        return f"{self.table.name} of {self.cluster_id} on {self.day}"


def unit_at(table: Table, path: str) -> Unit | None:
    """Return the unit whose object has this path; ``None`` for every other file.

    Others write below a lake, too: copies of a partition, folders of days that are no date, or that no clock shows.
    """
    parts = path.split("/")
    if len(parts) != 4:
        return None
    cluster_id, day_text = parts[1].removeprefix("cluster_id="), parts[2].removeprefix("day=")
    try:
        unit = Unit(table=table, cluster_id=cluster_id, day=date.fromisoformat(day_text))
    except (ValueError, LakeError):
        return None
    return unit if unit.path == path and unit.day.year in YEARS else None


def cluster_folder(table: Table, cluster_id: str) -> str:
    """Return the folder of a cluster in a table."""
    return f"{table.name}/cluster_id={cluster_id}"


class DayFacts(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The facts of a day in the footer of its object."""

    schema_version: int
    unit: str  # of which table, cluster and day it is: an object in the wrong place is not read
    run_id: str
    made_ms: int
    # Named counts of the input and the coverage of brokers; see `states` and `coverage` of `StoredDay`.
    counts: dict[str, int]
    inputs: dict[str, str]  # provenance by name: digests, times
    partial: tuple[str, ...]  # sentences about what is missing


CURSOR: Final = "fetched_to_ms"
"""Input of a day: up to which a Prometheus was read without a gap."""

LIMITS_ASKED: Final = "limits_asked"
"""Input of a day: the digest of the limits at the last reading that kept stored hours."""

PROGRESS: Final = frozenset({CURSOR, LIMITS_ASKED})
"""The inputs that do not determine the rows of a day."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredDay:
    """A stored day: the footer of its object."""

    unit: Unit
    facts: DayFacts
    rows: int
    file: TableFile = field(repr=False, compare=False)
    version: str | None = None  # the version of the object; only of :meth:`Lake.day`

    @property
    def inputs(self) -> Mapping[str, str]:
        """What the day was made from, by name."""
        return self.facts.inputs

    @property
    def origin(self) -> dict[str, str]:
        """The inputs that determined the rows."""
        return origin_of(self.inputs)

    @property
    def partial(self) -> tuple[str, ...]:
        """Sentences about what is missing."""
        return self.facts.partial

    @property
    def states(self) -> dict[str, int]:
        """The named counts of the input, for display."""
        return states_of(self.facts.counts)

    @property
    def coverage(self) -> dict[str, int]:
        """The share of the day in which each broker answered scrapes, in millionths."""
        return {
            name.removeprefix(_COVERED): share
            for name, share in self.facts.counts.items()
            if name.startswith(_COVERED)
        }

    @property
    def series(self) -> pa.Table:
        """The series of the day (:func:`series_text`).

        Raises:
            LakeDamaged: The list is not readable.
        """
        text = self.file.texts.get(SERIES_KEY, "")
        try:
            return read_series(text)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise LakeDamaged(
                "the list of its series is damaged",
                path=self.file.shown,
                hint=parquet_files.WRITE_ANEW,
            ) from error


def origin_of(inputs: Mapping[str, str]) -> dict[str, str]:
    """Return the inputs that determine the rows of a day."""
    return {name: text for name, text in inputs.items() if name not in PROGRESS}


def counts_of(states: Mapping[str, int], coverage: Mapping[str, int]) -> dict[str, int]:
    """Merge named counts and the coverage of brokers into :attr:`DayFacts.counts`."""
    return {**states, **{f"{_COVERED}{broker}": share for broker, share in coverage.items()}}


def states_of(counts: Mapping[str, int]) -> dict[str, int]:
    """Return the named counts of a day, without coverage (which is not a count) and zeros."""
    return {
        name: amount for name, amount in counts.items() if amount and not name.startswith(_COVERED)
    }


def states_of_all(days: Iterable[StoredDay]) -> dict[str, int]:
    """Add the named counts of several days of one table; tables that were assembled together have the same counts."""
    total: Counter[str] = Counter()
    for day in days:
        total.update(day.states)
    return dict(total)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitContent:
    """The next content of a unit."""

    rows: pa.Table
    counts: Mapping[str, int] = field(default_factory=dict[str, int])
    inputs: Mapping[str, str] = field(default_factory=dict[str, str])
    partial: tuple[str, ...] = ()
