"""The iteration order of a Java ``HashMap`` of strings. Pure.

Kafka stores the operations of one alteration in a ``HashMap`` and reports the first one that fails, so which of two
invalid keys is reported follows from their hash codes (``ClientQuotaControlManager``, 3.4 to 4.4). It also prints a
duplicate entity in the order of its map. Buckets that Java would convert to trees need eight collisions; the keys of
one alteration do not have them.
"""

import struct
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

_MASK: Final = 0xFFFF_FFFF
DEFAULT_CAPACITY: Final = 16
_LOAD: Final = 0.75


@lru_cache(maxsize=4096)
def string_hash(text: str) -> int:
    """``String.hashCode`` as an unsigned 32-bit number: over UTF-16 code units."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for (unit,) in struct.iter_unpack(">H", units):
        value = (31 * value + unit) & _MASK
    return value


def hash_ordered(keys: Iterable[str], *, capacity: int = DEFAULT_CAPACITY) -> list[str]:
    """Return distinct keys in the order of a ``HashMap(capacity)`` after inserting them one by one.

    The table has the next power of two of ``capacity`` and doubles beyond a load of three quarters; within a bucket
    the order of insertion stays.
    """
    distinct_keys = list(dict.fromkeys(keys))
    if len(distinct_keys) < 2:
        return distinct_keys
    size = 1
    while size < capacity:
        size *= 2
    while len(distinct_keys) > max(int(size * _LOAD), 1 if size == 1 else 0):
        size *= 2

    def bucket(key: str) -> int:
        code = string_hash(key)
        return (code ^ (code >> 16)) & (size - 1)

    return sorted(distinct_keys, key=bucket)
