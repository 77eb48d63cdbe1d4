"""Pseudonyms by a keyed hash, for reports to be shown outside: the same client has the same pseudonym everywhere.

The hash is keyed (HMAC-SHA-256) because user names are few and guessable, so a reader could try them all with a plain
hash. With the key, the owner can look up a name.

The order of rows must not reveal names either. The order by figures is kept; rows that only their real names order are
sorted by pseudonym.
"""

import hmac
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from ipaddress import IPv6Address
from itertools import groupby
from typing import Any, Final, TypeAlias, TypeVar

from reconciler.errors import QuotaValueError
from reconciler.quota.entity import ENTITY_TYPES, Entity, Slot
from reconciler.quota.entity_forms import canonical_text, read_canonical
from reconciler.usage.impact.result_rows import (
    EvidenceNote,
    ImpactRow,
    RecommendationRow,
    Simulation,
    TierBreach,
)
from reconciler.usage.reports.usage import (
    CapacityRow,
    NoisyRow,
    ResultOrigin,
    UsageCurve,
    UsageReport,
    UsageRow,
)
from reconciler.usage.samples import QuotaType
from reconciler.usage.tags import Bucket, GroupKind

T = TypeVar("T")

LEAST_KEY_BYTES: Final = 16
_DIGITS: Final = 12
_DOCUMENTATION: Final = int(IPv6Address("2001:db8::"))
"""Addresses become addresses of the range for documentation (RFC 3849)."""


class Pseudonyms:
    """Pseudonyms under one key; equal names of one kind have equal pseudonyms.

    Args:
        key: At least 16 bytes, kept secret.

    Raises:
        QuotaValueError: The key is too short.
    """

    __slots__ = ("_key",)

    def __init__(self, key: bytes) -> None:
        if len(key) < LEAST_KEY_BYTES:
            raise QuotaValueError(f"a key for pseudonyms has at least {LEAST_KEY_BYTES} bytes")
        self._key = key

    def name(self, kind: str, name: str) -> str:
        """Return the pseudonym of a name: ``user-1a2b…``; "" stays "".

        Args:
            kind: ``user``, ``client-id``, ``ip``, or any other word that distinguishes kinds.
        """
        if not name:
            return ""
        digest = hmac.digest(self._key, f"{kind}\0{name}".encode(), "sha256")
        if kind == "ip":
            return str(IPv6Address(_DOCUMENTATION | int.from_bytes(digest[:12], "big")))
        return f"{kind}-{digest.hex()[:_DIGITS]}"

    def bucket(self, bucket: Bucket) -> Bucket:
        """Return the bucket with pseudonyms."""
        return replace(
            bucket,
            user=self.name("user", bucket.user),
            client_id=self.name("client-id", bucket.client_id),
            ip=self.name("ip", bucket.ip),
        )

    def source(self, entity_json: str) -> str:
        """Return the entity with pseudonyms; defaults and "" stay."""
        if not entity_json:
            return ""
        slots: list[Slot] = [
            self.name(kind, slot) if isinstance(slot, str) else slot
            for kind, slot in zip(ENTITY_TYPES, read_canonical(entity_json), strict=True)
        ]
        user, client_id, ip = slots
        return canonical_text(Entity((user, client_id, ip)))

    def report(self, report: UsageReport) -> UsageReport:
        """Return the report without real names and without an order by them; sentences, which may contain names, are replaced by their number."""
        renamed_report = _walked(self, report)
        rows: list[ImpactRow | UsageRow] = [*renamed_report.usage]
        rows[:0] = renamed_report.simulation.rows if renamed_report.simulation else ()
        places: dict[_Series, int] = {}
        for at, row in enumerate(rows):
            _ = places.setdefault(_series(row), at)
        curves = sorted(
            renamed_report.curves, key=lambda curve: places.get(_series(curve), len(rows))
        )
        return replace(renamed_report, curves=tuple(curves), notes=_withheld(report.notes))


_Series: TypeAlias = tuple[str, QuotaType, Bucket, str]


def _series(row: ImpactRow | UsageRow | UsageCurve) -> _Series:
    return row.cluster_id, row.quota_type, row.bucket, row.broker_id


def _fullness(row: UsageRow) -> float | None:
    return row.max_rate_units / row.limit_units if row.limit_units else None


def _moved(row: RecommendationRow) -> int | None:
    return None if row.target_units is None else abs(row.target_units - (row.current_units or 0))


_RANKS: Final[Mapping[type, Callable[[Any], object]]] = {
    EvidenceNote: lambda _: None,
    ResultOrigin: lambda row: row.other_window,
    UsageCurve: lambda _: None,
    UsageRow: lambda row: (row.state, row.throttled_ms, _fullness(row)),
    CapacityRow: lambda row: (row.overload_ms, row.coincident_ppm),
    NoisyRow: lambda row: (row.excess_units, row.bucket_ms),
    ImpactRow: lambda row: (row.severity, row.after_throttled_ms),
    TierBreach: lambda row: (row.row.severity, row.row.after_throttled_ms),
    RecommendationRow: lambda row: (row.advice, _moved(row)),
}
"""The figures by which rows are ordered (``report_rows`` of the Spark jobs); rows with equal figures are ordered by name."""


def _name_of(row: Any) -> tuple[str, ...]:  # noqa: ANN401 - a row of any type above
    inner_row = getattr(row, "row", row)
    bucket: Bucket = getattr(inner_row, "bucket", Bucket(kind=GroupKind.NONE))
    key_parts = (
        getattr(inner_row, name, "") for name in ("quota_type", "broker_id", "direction", "table")
    )
    return (inner_row.cluster_id, bucket.user, bucket.client_id, bucket.ip, *map(str, key_parts))


def _reordered(before: tuple[Any, ...], after: tuple[Any, ...]) -> tuple[Any, ...]:
    """Sort rows with equal figures by pseudonym; other values stay as they are."""
    rank = _RANKS.get(type(before[0])) if before else None
    if rank is None:
        return after
    runs = groupby(zip(before, after, strict=True), key=lambda pair: rank(pair[0]))
    return tuple(
        row for _, run in runs for row in sorted((run_row for _, run_row in run), key=_name_of)
    )


def _walked(names: Pseudonyms, value: T) -> T:
    """Replace every bucket, source and cluster id of a value at any depth."""
    renamed: Any = value
    if isinstance(value, Bucket):
        renamed = names.bucket(value)
    elif isinstance(value, tuple):
        renamed = _reordered(value, tuple(_walked(names, element) for element in value))
    elif is_dataclass(value) and not isinstance(value, type):
        renamed = replace(
            value,
            **{
                value_field.name: _field(names, value_field.name, getattr(value, value_field.name))
                for value_field in fields(value)
            },
        )
        if isinstance(renamed, EvidenceNote):
            renamed = replace(renamed, source="", partial=_withheld(renamed.partial))
        elif isinstance(renamed, Simulation):
            renamed = replace(
                renamed,
                notes=_withheld(renamed.notes),
            )
    result: T = renamed
    return result


def _field(names: Pseudonyms, name: str, value: object) -> object:
    if isinstance(value, str) and name == "cluster_id":
        return names.name("cluster", value)
    if isinstance(value, str) and name == "source_entity":
        return names.source(value)
    return _walked(names, value)


def _withheld(sentences: tuple[str, ...]) -> tuple[str, ...]:
    return (f"withheld sentences (may contain names): {len(sentences)}",) if sentences else ()
