"""A simulation as a part of a plan document: the value itself, whose names contain the units, read back and checked.

It is not part of the digest of a plan. So the reader refuses what no simulation can be, and figures that contradict each
other.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from reconciler.base.compact_json import compact
from reconciler.codecs.reader import converted, edited
from reconciler.errors import QuotaValueError
from reconciler.quota.entity import canonical_text, read_canonical
from reconciler.usage.impact.result_rows import ImpactRow, Simulation
from reconciler.usage.impact.verdict import ImpactVerdict
from reconciler.usage.samples import LATEST_MOMENT_MS, MODEL_OF
from reconciler.usage.tags import bucket_of
from reconciler.usage.throttle_models import FigureBound


def whatif_document(simulation: Simulation) -> dict[str, Any]:
    """Return the part; equal simulations have equal parts."""
    document: dict[str, Any] = msgspec.to_builtins(simulation, str_keys=True)
    return document


def read_whatif(document: Mapping[str, Any], cluster_id: str, *, location: str) -> Simulation:
    """Read the simulation of a plan of this cluster.

    Raises:
        ConfigError: It was edited.
    """
    try:
        simulation = converted(document, Simulation, location)
    except QuotaValueError as error:
        raise edited(error.message, location) from error
    rows = (*simulation.rows, *(breach.row for breach in simulation.breaches))
    clusters = {note.cluster_id for note in simulation.evidence} | {row.cluster_id for row in rows}
    if not clusters <= {cluster_id}:
        raise edited("simulation should be about the cluster of the plan", location)
    if any(max(note.made_ms, note.to_ms) > LATEST_MOMENT_MS for note in simulation.evidence):
        raise edited("simulation.evidence should have times before the year 10000", location)
    if _has_negative(document) or not all(map(_agrees, rows)):
        raise edited("simulation has figures or names that contradict each other", location)
    if _TEXT(document) != _TEXT(whatif_document(simulation)):
        raise edited("simulation should be an object without unknown fields", location)
    return simulation


_TEXT: Final = compact(sort_keys=True)


def _has_negative(value: object) -> bool:
    if isinstance(value, Mapping):
        return any(map(_has_negative, value.values()))
    if isinstance(value, list):
        return any(map(_has_negative, value))
    return isinstance(value, int) and value < 0


def _agrees(row: ImpactRow) -> bool:
    """Whether the names of a row are those of its bucket and entity, and its figures those of its verdict."""
    bucket, throttled_ms = row.bucket, row.worst_throttled_ms or row.after_throttled_ms
    is_named = row.any_name or bucket == bucket_of(bucket.user, bucket.client_id, bucket.ip)
    is_known = row.bound is not FigureBound.AT_LEAST
    return (
        is_named
        and _is_entity(row.source_entity)
        and row.model is MODEL_OF[row.quota_type]
        and (row.worst_throttled_ms is None) is not (row.bound is FigureBound.BETWEEN)
        and not (row.verdict is ImpactVerdict.WORSE and is_known and not throttled_ms)
    )


def _is_entity(text: str) -> bool:
    try:
        return not text or canonical_text(read_canonical(text)) == text
    except QuotaValueError:
        return False
