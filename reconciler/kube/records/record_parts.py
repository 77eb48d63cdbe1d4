"""The 16 parts of the records of one cluster id, one ConfigMap each: their names, the part of an entity, the records of each."""

import hashlib
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from typing import Final, TypeVar

from msgspec.structs import replace

from reconciler.quota.entity import Entity
from reconciler.quota.entity_forms import record_key
from reconciler.quota.ownership import OwnershipRecords, Pair

_K = TypeVar("_K")
_V = TypeVar("_V")

PARTS: Final = 16
"""The number of parts. It must never change, because the part of an entity depends on it."""


def hash_of(cluster_id: str) -> str:
    """Return the form of a cluster id in names and labels, which do not allow all its characters."""
    return hashlib.sha256(cluster_id.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def part_names(cluster_id: str) -> tuple[str, ...]:
    """Return the names of the parts of a cluster id, in the order of their numbers."""
    prefix = hash_of(cluster_id)
    return tuple(f"kquota-{prefix}-{number}" for number in range(PARTS))


@lru_cache(maxsize=131_072)
def part_of(subject: Entity, salt: str) -> int:
    """Return the number of the part of an entity; must never change. Nobody can choose it who does not know the salt."""
    digest = hashlib.sha256(salt.encode() + record_key(subject)).digest()
    return int.from_bytes(digest[:8], "big") % PARTS


def split(
    owned: OwnershipRecords, salt: str, numbers: Collection[int]
) -> Mapping[int, OwnershipRecords]:
    """Return the records of some parts, by number; one pass over the records."""

    def of_entities(items: Mapping[Entity, _V]) -> Mapping[int, Mapping[Entity, _V]]:
        return _distribute(items, numbers, lambda subject: part_of(subject, salt))

    def of_pairs(items: Mapping[Pair, _V]) -> Mapping[int, Mapping[Pair, _V]]:
        return _distribute(items, numbers, lambda pair: part_of(pair[0], salt))

    records, intents = of_entities(owned.records), of_pairs(owned.intents)
    drift_since, overrides = of_pairs(owned.drift_since), of_pairs(owned.overrides)
    orphaned = of_pairs(dict.fromkeys(owned.orphaned))
    return {
        number: replace(
            owned,
            records=records[number],
            intents=intents[number],
            drift_since=drift_since[number],
            overrides=overrides[number],
            orphaned=frozenset(orphaned[number]),
        )
        for number in numbers
    }


def _distribute(
    items: Mapping[_K, _V], numbers: Collection[int], number_of: Callable[[_K], int]
) -> Mapping[int, Mapping[_K, _V]]:
    shares: dict[int, dict[_K, _V]] = {number: {} for number in numbers}
    for key, value in items.items():
        share = shares.get(number_of(key))
        if share is not None:
            share[key] = value
    return shares
