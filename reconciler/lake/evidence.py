"""Published evidence as a preview reads it: who was seen, under which limits, and the series of a few buckets, without a JVM."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import groupby, repeat
from threading import Lock
from typing import Final

import pyarrow as pa

from reconciler.errors import LakeDamaged, LakeError
from reconciler.lake import arrow, parquet
from reconciler.lake import latest as latest_
from reconciler.lake.latest import BUCKET_SEEN, Latest, Part
from reconciler.lake.looks import state_of
from reconciler.lake.manifest import states_of
from reconciler.lake.skipping import Skipping, matches
from reconciler.lake.store import Store
from reconciler.lake.strict import MOST_BYTES
from reconciler.quota.keys import Key
from reconciler.quota.state import State
from reconciler.usage.findings import Evidence
from reconciler.usage.recorded import Recorded
from reconciler.usage.samples import Cadence, Censored, QuotaType, Sample, cadence
from reconciler.usage.tables import QUOTA_ENTRY, USAGE_SAMPLE
from reconciler.usage.tags import Bucket, GroupKind

AHEAD_MS: Final = 600_000
"""How far the clock of whoever published may be ahead of ours."""

AT_ONCE: Final = 8
MOST_SAMPLES: Final = 10_000_000
"""Samples of all buckets that one plan asks about; each needs 300 bytes."""

_UNITS: Final = ((3_600_000, "hours"), (60_000, "minutes"), (1_000, "seconds"), (1, "milliseconds"))
UNKNOWN_PACE: Final = cadence(30_000)
"""Of evidence that holds nothing."""

_BUCKET: Final = ("group_kind", "user", "client_id", "ip")
_PLACE: Final = ("quota_type", *_BUCKET)
_VALUES: Final = ("broker_id", "ts_ms", "dt_ms", "rate_units", "throttle_ms", "censored")

Seen = Mapping[QuotaType, Mapping[str, frozenset[Bucket]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """The evidence of one cluster; where :attr:`note` says why it counts as none, it holds nothing.

    Attributes:
        note: What it is and how good.
        state: The limits in force at the end of the window; ``None`` = nobody looked.
        recorded: The limits under which the window was recorded; ``None`` = nobody looked.
        cadence: How often brokers were read.
    """

    note: Evidence
    state: State | None = None
    recorded: Recorded | None = None
    cadence: Cadence = UNKNOWN_PACE
    _measured: frozenset[QuotaType] = frozenset()
    _seen: Seen = field(default_factory=dict[QuotaType, Mapping[str, frozenset[Bucket]]])
    _files: tuple[Skipping, ...] = ()

    def measured(self, kind: QuotaType) -> bool:
        """Whether any bucket of this type was recorded: else silence says nothing."""
        return kind in self._measured

    def seen(self, kind: QuotaType) -> Mapping[str, frozenset[Bucket]]:
        """The buckets that each broker recorded, by broker id."""
        return self._seen.get(kind, {})

    def series(
        self, kind: QuotaType, buckets: Collection[Bucket]
    ) -> dict[Bucket, dict[str, list[Sample]]]:
        """The samples of some buckets by broker, in time order; buckets and brokers without any are left out.

        Only row groups that may hold them are fetched. The moments at which a broker answered and a bucket was silent
        are samples of zero, as the days were assembled.

        Raises:
            LakeError: A file is damaged, or cannot be fetched.
        """
        asked = sorted(set(buckets))
        if not asked or not self._files:
            return {}
        wanted = [(str(kind), str(one.kind), one.user, one.client_id, one.ip) for one in asked]

        budget = _Budget()

        def read(file: Skipping) -> _Rows | None:
            groups = file.groups(_PLACE, wanted)
            certain = sum(file.equal_rows(at, _PLACE) for at in groups)
            budget.take(certain)
            tables = [
                found
                for at in groups
                if (found := _matching(file.read([at], (*_PLACE, *_VALUES)), wanted)).num_rows
            ]
            budget.take(sum(one.num_rows for one in tables) - certain)
            return _rows(pa.concat_tables(tables).unify_dictionaries()) if tables else None

        with ThreadPoolExecutor(min(AT_ONCE, len(self._files))) as pool:
            days = list(pool.map(read, self._files))
        found: dict[Bucket, dict[str, list[Sample]]] = {}
        for day in days:
            for (number, broker), samples in day or ():
                found.setdefault(asked[number], {}).setdefault(broker, []).extend(samples)
        return found


_Rows = Sequence[tuple[tuple[int, str], list[Sample]]]


class _Budget:
    """Counts the samples of one question, over all files."""

    def __init__(self) -> None:
        self._left = MOST_SAMPLES
        self._lock = Lock()

    def take(self, samples: int) -> None:
        """Takes as many off.

        Raises:
            LakeError: So many are not read.
        """
        with self._lock:
            self._left -= samples
            if self._left < 0:
                raise LakeError(
                    f"the buckets that are asked for have more than {MOST_SAMPLES:,} samples",
                    hint="change fewer limits at once, or answer with kquota spark simulate, which has no such limit",
                )


def _matching(rows: pa.Table, wanted: Sequence[tuple[str, ...]]) -> pa.Table:
    """The rows of the wanted buckets, with the number of the bucket in place of its name."""
    numbers = matches(rows, _PLACE, wanted)
    return rows.select(_VALUES).append_column("number", numbers).filter(numbers.is_valid())


def _rows(rows: pa.Table) -> _Rows:
    """The samples of a day by number of the bucket and broker."""
    rows = rows.combine_chunks()
    columns = [
        _texts(rows.column(name))
        if name in {"broker_id", "censored"}
        else rows.column(name).to_pylist()
        for name in (*_VALUES, "number")
    ]
    brokers, times, spans, rates, throttles, words, of = columns
    censored = list(map(_CENSORED.get, words, repeat(Censored.UNKNOWN)))
    samples = list(map(Sample, times, spans, rates, throttles, censored))
    found: list[tuple[tuple[int, str], list[Sample]]] = []
    at = 0
    for key, run in groupby(zip(of, brokers, strict=True)):
        end = at + sum(1 for _ in run)
        found.append((key, samples[at:end]))
        at = end
    return found


_CENSORED: Final = {str(one): one for one in Censored}


def _texts(column: pa.ChunkedArray) -> list[str]:
    """The values of a column of dictionaries, each text made once."""
    found: list[str] = []
    for chunk in column.chunks:
        names = chunk.dictionary.to_pylist()
        found += map(names.__getitem__, chunk.indices.to_pylist())
    return found


def opened(store: Store, cluster_id: str, now_ms: int, max_age_ms: int) -> Published:
    """The evidence that was published last of a cluster.

    Evidence that is absent, too old, damaged or of a newer version is no error: it holds nothing, and its note says
    why. Its series are not read yet.

    Args:
        store: Where evidence is kept.
        cluster_id: Of which cluster.
        now_ms: Now.
        max_age_ms: How old its end may be.

    Raises:
        LakeError: It may not be read, or nobody answers.
    """
    path = f"{latest_.folder(cluster_id)}/{latest_.NAME}"
    shown = store.where(path)
    try:
        content = store.find(path, most=MOST_BYTES)
        latest = None if content is None else latest_.read(content, shown, cluster_id)
    except LakeDamaged as error:
        return _none(cluster_id, shown, _reason(error))
    if latest is None:
        return _none(cluster_id, shown, f"{shown}: no evidence of this cluster was published")
    note = _note(latest, shown)
    why = _too_old(latest, now_ms, max_age_ms)
    if not why and not latest.of(USAGE_SAMPLE):
        why = "the window holds no sample"
    if why:
        return _none(cluster_id, shown, why, note)
    try:
        return _whole(store, latest, note)
    except LakeDamaged as error:
        return _none(cluster_id, shown, _reason(error), note)
    except ValueError as error:  # a word that no enumeration has
        return _none(cluster_id, shown, f"a file of it says what is not known here: {error}", note)


def _whole(store: Store, latest: Latest, note: Evidence) -> Published:
    """Everything small, and the ends of the files of samples."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        files = pool.map(
            lambda one: Skipping(
                store, one.file, one.table, one.end_sha256, most_at_once=2 * parquet.ROW_GROUP
            ),
            latest.of(USAGE_SAMPLE),
        )
        seen = pool.map(lambda one: _small(store, one), latest.of(BUCKET_SEEN))
        limits = pool.map(lambda one: (one.source, _small(store, one)), latest.of(QUOTA_ENTRY))
        states = {name: state_of(rows, latest.cluster_id) for name, rows in limits}
        if latest.snapshot_id:  # a look that found no limits has no file
            _ = states.setdefault(latest.snapshot_id, State())
        return Published(
            note=note,
            state=states.get(latest.snapshot_id),
            recorded=_recorded(latest, states),
            cadence=latest.pace,
            _measured=frozenset(latest.measured),
            _seen=_seen(seen),
            _files=tuple(files),
        )


def _recorded(latest: Latest, states: Mapping[str, State]) -> Recorded | None:
    """The limits of the window by the looks that have a file."""
    beyond = frozenset(key for key in Key if latest.counts.get(f"{latest_.BEYOND} {key}"))
    return Recorded(states=tuple(states.values()), beyond=beyond) if states else None


def _small(store: Store, part: Part) -> pa.Table:
    file, shown = part.file, store.where(part.file.path)
    content = store.get(file.path, most=file.size + 1)
    parquet.check_same(content, size=file.size, sha256=file.sha256, path=shown)
    return parquet.read(part.table, content, path=shown, rows=file.rows)


def _seen(days: Iterable[pa.Table]) -> Seen:
    """Who was seen on any day; buckets are made once for all brokers and days."""
    rows = pa.concat_tables([arrow.schema(BUCKET_SEEN).empty_table(), *days])
    once = rows.group_by(["quota_type", "broker_id", *_BUCKET]).aggregate([])
    columns = (once.column(name).to_pylist() for name in ("quota_type", "broker_id", *_BUCKET))
    known: dict[tuple[str, ...], Bucket] = {}
    found: dict[QuotaType, dict[str, set[Bucket]]] = {}
    for kind, broker, *names in zip(*columns, strict=True):
        group, user, client_id, ip = names
        bucket = known.get(tuple(names))
        if bucket is None:
            bucket = Bucket(kind=GroupKind(group), user=user, client_id=client_id, ip=ip)
            known[tuple(names)] = bucket
        found.setdefault(QuotaType(kind), {}).setdefault(broker, set()).add(bucket)
    return {
        kind: {broker: frozenset(of) for broker, of in sorted(brokers.items())}
        for kind, brokers in found.items()
    }


def _note(latest: Latest, source: str) -> Evidence:
    return Evidence(
        cluster_id=latest.cluster_id,
        source=source,
        from_ms=latest.from_ms,
        to_ms=latest.to_ms,
        made_ms=latest.made_ms,
        step_ms=latest.pace.step_ms,
        coverage_ppm=latest.coverage_ppm,
        snapshot_id=latest.snapshot_id,
        partial=latest.partial,
        counts={  # earlier publications counted coverage and zeros, too
            name: amount
            for name, amount in states_of(latest.counts).items()
            if not name.startswith(latest_.BEYOND)
        },
    )


def _too_old(latest: Latest, now_ms: int, max_age_ms: int) -> str:
    ends = datetime.fromtimestamp(latest.to_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")
    if latest.made_ms > now_ms + AHEAD_MS:
        return "it was published in the future: the clock there or here is wrong"
    if now_ms - latest.to_ms > max_age_ms:
        return f"it ends {ends}, {_ages(now_ms - latest.to_ms, max_age_ms)}"
    return ""


def _ages(age_ms: int, allowed_ms: int) -> str:
    """``72 hours ago; 48 are allowed``: in the largest unit that tells the limit whole and the two apart."""
    size, name = next(
        (size, name)
        for size, name in _UNITS
        if allowed_ms % size == 0 and age_ms // size > allowed_ms // size
    )
    return f"{age_ms // size:,} {name} ago; {allowed_ms // size:,} are allowed"


def _none(cluster_id: str, source: str, why: str, note: Evidence | None = None) -> Published:
    empty = note or Evidence(cluster_id=cluster_id, source=source)
    return Published(note=replace(empty, stale=why))


def _reason(error: LakeError) -> str:
    return f"{error.message} ({error.hint})" if error.hint else error.message
