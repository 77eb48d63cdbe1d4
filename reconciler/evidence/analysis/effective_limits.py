"""The finite limits of recorded buckets by one snapshot, and named limits that no use was recorded of."""

from collections.abc import Collection, Iterator
from typing import Final, NamedTuple

from reconciler.evidence.store import samples
from reconciler.evidence.store.files.parquet_files import Key
from reconciler.quota.entity import DEFAULT, Entity, canonical_text
from reconciler.quota.state import QuotaState
from reconciler.usage.samples import (
    KEY_OF,
    TYPE_OF,
    QuotaType,
    ValueState,
    limit_state,
    limit_units,
)
from reconciler.usage.tags import Bucket, KeyLimits, book, bucket_of, limit_of

NO_LIMIT: Final[tuple[int | None, str]] = (None, "")


class NamedLimit(NamedTuple):
    """A finite limit of an entity that matches exactly one bucket."""

    kind: QuotaType
    bucket: Bucket
    units: int
    source_entity: str


class LimitBook:
    """The limits of a cluster at one time."""

    def __init__(self, state: QuotaState) -> None:
        self._state = state
        self._books: dict[QuotaType, KeyLimits] = {
            kind: book(state, key) for kind, key in KEY_OF.items()
        }

    def of(self, key: Key) -> tuple[int | None, str]:
        """Return the finite limit of a series in units, and its entity; :data:`NO_LIMIT` if it has none."""
        kind, bucket, _ = samples.parts_of(key)
        units, source = self.units(kind, bucket), self.source(kind, bucket)
        return NO_LIMIT if units is None or source is None else (units, canonical_text(source))

    def source(self, kind: QuotaType, bucket: Bucket) -> Entity | None:
        """Return the entity of the limit of a bucket; ``None`` = it has none."""
        effective = limit_of(self._books[kind], bucket)
        return None if effective is None else effective[0]

    def units(self, kind: QuotaType, bucket: Bucket) -> int | None:
        """Return the finite limit of a bucket in units; ``None`` = it has none."""
        effective = limit_of(self._books[kind], bucket)
        if effective is None or limit_state(kind, effective[1]) is not ValueState.FINITE:
            return None
        return limit_units(kind, effective[1])

    def unused(self, recorded: Collection[tuple[QuotaType, Bucket]]) -> Iterator[NamedLimit]:
        """Yield the limits that name one bucket that was not recorded, sorted."""
        limits: list[NamedLimit] = []
        for entity, key, value in self._state.pairs():
            kind = TYPE_OF[key]
            names = [slot for slot in entity if isinstance(slot, str)]
            if (
                DEFAULT in entity
                or "" in names
                or limit_state(kind, value) is not ValueState.FINITE
            ):
                continue
            bucket = bucket_of(*(slot if isinstance(slot, str) else "" for slot in entity))
            units = limit_units(kind, value)
            if (kind, bucket) not in recorded and units is not None:
                limits.append(NamedLimit(kind, bucket, units, canonical_text(entity)))
        yield from sorted(limits)
