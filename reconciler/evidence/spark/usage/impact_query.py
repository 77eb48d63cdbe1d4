"""Which rows a change of limits asks for: the core's own regrouping, one grouped call per cluster over distinct buckets.

Everything that the call needs is one frame of *facts*: limits of both sides, buckets that brokers recorded, types that
were measured, how often brokers are read. All of it is bounded by entities and by buckets times brokers; samples are
never in it.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as fn
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from reconciler.evidence.store.quota_snapshots import state_of
from reconciler.quota.entity_forms import canonical_parts_text, canonical_text
from reconciler.quota.keys import Key
from reconciler.quota.state import QuotaState
from reconciler.usage.impact.query import ImpactQuery, ImpactRequest, impact_query
from reconciler.usage.impact.recorded_limits import RecordedLimits
from reconciler.usage.samples import Cadence, QuotaType
from reconciler.usage.tags import Bucket, GroupKind

BUCKET: Final = ("group_kind", "user", "client_id", "ip")

FactRow: TypeAlias = tuple[Any, ...]

_TEXT, _LONG, _YES = StringType(), LongType(), BooleanType()

FACTS: Final = StructType(
    [
        *(
            StructField(name, _TEXT)
            for name in (
                "cluster_id",
                "role",
                "quota_type",
                "broker_id",
                *BUCKET,
                "entity_json",
                "quota_key",
            )
        ),
        StructField("value", DoubleType()),
    ]
)
"""One fact per row; ``role`` says which, and unused columns are "" and 0."""

BEFORE, AFTER, RECORDED = "before", "after", "recorded"
"""Roles of limits: of today, to come, and those under which series were recorded (left out = those of today).

The last comes once for each look that is kept, with its number behind.
"""

SEEN, PACE = "seen", "pace"
_MEASURED, _CALLBACK, _LOOK, _BEYOND = "measured", "callback", "look", "beyond"

ANY_SEEN: Final = "*"

_PART: Final = StructType(
    [*(StructField(name, _TEXT) for name in BUCKET), StructField("limit", _LONG)]
)
ROWS: Final = StructType(
    [
        StructField("cluster_id", _TEXT),
        StructField("item", _TEXT),
        StructField("n", IntegerType()),
        StructField("quota_type", _TEXT),
        *(StructField(name, _TEXT) for name in BUCKET),
        StructField("any_name", _YES),
        StructField("broker_id", _TEXT),
        StructField("answer", _TEXT),
        StructField("before_units", _LONG),
        StructField("after_units", _LONG),
        StructField("source_entity", _TEXT),
        StructField("why", _TEXT),
        StructField("max_gap_ms", _LONG),
        StructField("parts", ArrayType(_PART)),
    ]
)
"""What the call answers; ``item`` is :data:`ASKED` or what is reported beside it, ``n`` numbers the rows of a cluster."""

ASKED, FLIPPED, UNEXPLAINED, NOTE = "asked", "flipped", "unexplained", "note"


def bucket_facts(samples: DataFrame) -> DataFrame:
    """The distinct buckets of each broker as facts."""
    names = ("quota_type", "broker_id", *BUCKET)
    distinct_buckets = samples.select("cluster_id", *names).distinct()
    return _facts(distinct_buckets, SEEN, **{name: name for name in names})


def _facts(frame: DataFrame, role: str, **columns_by_fact: str) -> DataFrame:
    fact_columns = {"role": fn.lit(role), "cluster_id": fn.col("cluster_id")}
    fact_columns |= {name: fn.col(column) for name, column in columns_by_fact.items()}
    return frame.select(
        *(
            fact_columns.get(struct_field.name, fn.lit(0 if struct_field.name == "value" else ""))
            .cast(struct_field.dataType)
            .alias(struct_field.name)
            for struct_field in FACTS.fields
        )
    )


def _row(cluster_id: str, role: str, **facts: Any) -> FactRow:  # noqa: ANN401 - values of FACTS
    fact_values: dict[str, Any] = {"cluster_id": cluster_id, "role": role, "value": 0.0} | facts
    return tuple(fact_values.get(name, "") for name in FACTS.names)


def cluster_facts(
    cluster_id: str,
    cadence: Cadence,
    *,
    measured: Iterable[QuotaType] | None = None,
    callback: str | None = None,
    states: Mapping[str, QuotaState] | None = None,
    recorded: RecordedLimits | None = None,
) -> list[FactRow]:
    """What is known of one cluster as rows of :data:`FACTS`: a bounded list, made where the job begins.

    Args:
        cluster_id: Which cluster.
        cadence: How often its brokers are read.
        measured: The types that they measure at all; ``None`` = those that any bucket was recorded of.
        callback: A custom quota callback.
        states: Limits by role, where they are at hand.
        recorded: The limits under which series were recorded; ``None`` = those of today.
    """
    types = [ANY_SEEN] if measured is None else sorted(map(str, measured))
    fact_rows = [
        _row(cluster_id, PACE, quota_key="step", value=float(cadence.step_ms)),
        _row(cluster_id, PACE, quota_key="gap", value=float(cadence.max_gap_ms)),
        *(_row(cluster_id, _MEASURED, quota_type=name) for name in types),
        _row(cluster_id, _CALLBACK, entity_json=callback or ""),
    ]
    for role, state in (states or {}).items():
        fact_rows += _entries(cluster_id, role, state)
    for n, state in enumerate(recorded.states if recorded else ()):
        fact_rows.append(_row(cluster_id, _LOOK, quota_key=f"{RECORDED} {n}"))
        fact_rows += _entries(cluster_id, f"{RECORDED} {n}", state)
    fact_rows += (
        _row(cluster_id, _BEYOND, quota_key=str(key))
        for key in sorted(recorded.beyond if recorded else ())
    )
    return fact_rows


def _entries(cluster_id: str, role: str, state: QuotaState) -> Iterator[FactRow]:
    return (
        _row(cluster_id, role, entity_json=entity, quota_key=key, value=value)
        for entity, key, value in entries_of(state)
    )


def entries_of(state: QuotaState) -> Iterator[tuple[str, str, float]]:
    """``(entity_json, quota_key, value)`` of everything in a state, foreign entities included."""
    for subject, key, value in state.pairs():
        yield canonical_text(subject), str(key), value
    for entity_parts, values in state.foreign_entities:
        for name, value in values:
            yield canonical_parts_text(entity_parts), name, value


def questions(facts: DataFrame) -> DataFrame:
    """The rows that each cluster's change asks for, as :data:`ROWS`; see ``usage.question.impact_query``.

    It is a bounded frame that several steps read: keep it (``persist``) before it is used.
    """
    return facts.groupBy("cluster_id").applyInArrow(_answered, ROWS)


def _answered(facts: pa.Table) -> pa.Table:
    """One cluster's facts -> its rows."""
    role = facts.column("role")
    by_role = {name: facts.filter(pc.equal(role, name)) for name in pc.unique(role).to_pylist()}
    none = facts.slice(0, 0)
    pace = {row["quota_key"]: int(row["value"]) for row in by_role.get(PACE, none).to_pylist()}
    if not pace:  # recorded, and not among the clusters that were asked for
        return _table([])
    buckets: defaultdict[QuotaType, defaultdict[str, set[Bucket]]] = defaultdict(
        lambda: defaultdict(set)
    )
    for row in by_role.get(SEEN, none).to_pylist():
        buckets[QuotaType(row["quota_type"])][row["broker_id"]].add(bucket_of_row(row))
    measured = set(by_role.get(_MEASURED, none).column("quota_type").to_pylist())
    looks = by_role.get(_LOOK, none).column("quota_key").to_pylist()
    overflowing_keys = by_role.get(_BEYOND, none).column("quota_key").to_pylist()
    callbacks = by_role.get(_CALLBACK, none).column("entity_json").to_pylist()
    query = impact_query(
        facts.column("cluster_id")[0].as_py(),
        state_of(by_role.get(BEFORE, none)),
        state_of(by_role.get(AFTER, none)),
        buckets,
        set(buckets) if ANY_SEEN in measured else {QuotaType(type_name) for type_name in measured},
        callback=callbacks[0] if callbacks else None,
        recorded=RecordedLimits(
            states=tuple(state_of(by_role.get(role, none)) for role in sorted(looks)),
            beyond=frozenset(map(Key, overflowing_keys)),
        ),
    )
    return _table(list(_rows(query, pace["gap"])))


def bucket_of_row(row: Row | Mapping[str, Any]) -> Bucket:
    """The bucket of a row with its columns."""
    return Bucket(
        kind=GroupKind(row["group_kind"]),
        user=row["user"],
        client_id=row["client_id"],
        ip=row["ip"],
    )


def _of_bucket(bucket: Bucket) -> dict[str, Any]:
    return {
        "group_kind": str(bucket.kind),
        "user": bucket.user,
        "client_id": bucket.client_id,
        "ip": bucket.ip,
    }


def _rows(query: ImpactQuery, max_gap_ms: int) -> Iterator[dict[str, Any]]:
    for n, request in enumerate(query.requests):
        yield _asked_row(query.cluster_id, n, request, max_gap_ms)
    unexplained_rows = [(FLIPPED, kind, bucket) for _, kind, bucket in query.flipped]
    unexplained_rows += [(UNEXPLAINED, kind, bucket) for _, kind, bucket in query.unexplained]
    for n, (item, kind, bucket) in enumerate(unexplained_rows):
        yield _of_bucket(bucket) | {
            "cluster_id": query.cluster_id,
            "item": item,
            "n": n,
            "quota_type": str(kind),
        }
    for n, text in enumerate(query.notes):
        yield {"cluster_id": query.cluster_id, "item": NOTE, "n": n, "why": text}


def _asked_row(cluster_id: str, n: int, request: ImpactRequest, max_gap_ms: int) -> dict[str, Any]:
    return _of_bucket(request.bucket) | {
        "cluster_id": cluster_id,
        "item": ASKED,
        "n": n,
        "quota_type": str(request.quota_type),
        "any_name": request.any_name,
        "broker_id": request.broker_id,
        "answer": str(request.answer),
        "before_units": request.before_units,
        "after_units": request.after_units,
        "source_entity": request.source_entity,
        "why": request.reason,
        "max_gap_ms": max_gap_ms,
        "parts": [_of_bucket(part.bucket) | {"limit": part.limit} for part in request.parts],
    }


_ARROW: Final = to_arrow_schema(ROWS)


def _table(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=_ARROW)
