"""The days of tables: the rows of a table, cluster and day are one object, with facts about them in its footer."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Final

import pyarrow as pa
from msgspec import Struct

from reconciler.errors import LakeDamaged, LakeError
from reconciler.evidence.store import series_index
from reconciler.evidence.store.files import parquet_files
from reconciler.evidence.store.files.parquet_files import TableFile
from reconciler.usage.tables import Table

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
        """The series of the day (:mod:`reconciler.evidence.store.series_index`).

        Raises:
            LakeDamaged: The list is not readable.
        """
        text = self.file.texts.get(series_index.KEY, "")
        try:
            return series_index.read(text)
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
