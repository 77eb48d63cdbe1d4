"""The parts of one series of ConfigMaps: their number, the records of each, and their gzip bytes.

The number of parts is estimated from sizes, so that the work is linear in the bytes of the records: all records are
encoded and compressed at most four times, whatever the names are (once if the present layout fits). Nothing here
reads or writes ConfigMaps, and the arguments are immutable, so that it can run in a thread.
"""

import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct, field

from reconciler.errors import InventoryError
from reconciler.inventory import format as records_format
from reconciler.kube.records.series_layout import SeriesLayout, part_of
from reconciler.quota.entity import Entity
from reconciler.quota.keys import COLUMNS
from reconciler.quota.overrides import Override
from reconciler.quota.ownership import Intent, OwnershipRecord, OwnershipRecords, Pair


class PartLimits(Struct, frozen=True, kw_only=True):
    """Limits of a part, and of the number of parts."""

    # Characters of one part in base64, as stored. The API server accepts ConfigMaps of 1 MiB.
    packed: int = 256 * 1024
    # Bytes of one part before compression; well below what a reader accepts.
    unpacked: int = 16 * 1024 * 1024
    parts: int = 1024  # parts of one series
    # Characters of one part in base64 while there are few parts: a change of one document rewrites one part.
    target: int = 24 * 1024
    target_parts: int = 128  # from this number of parts on they grow beyond `target`

    def characters(self, parts: int) -> int:
        """Return the maximum characters of a part in base64, in a layout with this number of parts."""
        return min(self.target, self.packed) if parts < self.target_parts else self.packed

    def allows(self, part: "SeriesPart", parts: int) -> bool:
        """Whether a part is small enough for a layout with this number of parts."""
        characters = 4 * ((len(part.packed) + 2) // 3)
        return characters <= self.characters(parts) and part.size <= self.unpacked

    def certain(self, parts: int) -> int:
        """Return the bytes that fit into one part without compression: gzip adds at most 5 bytes per 16 KiB, and 18."""
        room = self.characters(parts) // 4 * 3
        return min(room - room // 1024 - 64, self.unpacked)


PART_LIMITS: Final = PartLimits()

GROWTH: Final = 1.2
"""Factor by which a part of a larger layout may compress worse than the part that it comes from."""

EMPTY: Final = 192
"""Maximum compressed bytes of a part without records; in base64, a third more."""

OVERHEAD: Final = 512
"""Estimated bytes of a part besides its rows."""


class SeriesPart(Struct, frozen=True, kw_only=True):
    """One part as stored."""

    number: int  # its number in the layout
    share: OwnershipRecords  # its records
    packed: bytes  # its gzip bytes
    size: int  # its unpacked bytes


def gzip_of(content: bytes) -> bytes:
    """Compress without time and name in the header: equal content gives equal bytes."""
    packer = zlib.compressobj(6, zlib.DEFLATED, 31)
    return packer.compress(content) + packer.flush()


def lay_out(
    owned: OwnershipRecords,
    present: SeriesLayout,
    *,
    limits: PartLimits = PART_LIMITS,
    pack: Callable[[bytes], bytes] = gzip_of,
) -> tuple[SeriesLayout, Sequence[SeriesPart]]:
    """Return the layout of a series and its parts: the present one if it fits and is not far too large.

    Args:
        owned: The records of the series.
        present: The stored layout.
        limits: Size limits of a part.
        pack: Compresses one part.

    Raises:
        InventoryError: The records exceed the largest layout.
    """
    parts = _parts(owned, present.parts, pack)
    if all(limits.allows(part, present.parts) for part in parts):
        if not _is_far_too_large(present, parts, limits):
            return present, parts
        return next_layout(present, 1), _parts(owned, 1, pack)
    sizes = _Sizes(owned, present.parts, limits.parts)
    for count in sizes.candidates(parts, limits):
        parts = _parts(owned, count, pack)
        if all(limits.allows(part, count) for part in parts):
            return next_layout(present, count), parts
    raise InventoryError(
        f"the records of cluster {owned.cluster_id} do not fit into {limits.parts} ConfigMaps",
        hint="declare or remove the limits of deleted documents: kquota drift lists them",
    )


def next_layout(present: SeriesLayout, parts: int) -> SeriesLayout:
    """Return the next layout, with this number of parts."""
    return SeriesLayout(serial=present.serial + 1, parts=parts)


def _is_far_too_large(
    present: SeriesLayout, parts: Sequence[SeriesPart], limits: PartLimits
) -> bool:
    """Whether one part would be filled to at most a quarter; the margin prevents alternating layouts."""
    return (
        present.parts > 1
        and sum(max(len(part.packed) - EMPTY, 0) for part in parts) <= limits.characters(1) // 4
        and sum(part.size for part in parts) <= limits.unpacked // 4
    )


# ---- sizes -----------------------------------------------------------------------------------


class _Sizes:
    """Bytes of the records by part of the finest layout; coarser layouts are sums of these.

    A part of a layout with twice the parts contains records of one part of the layout before it, because the number
    of a part is the remainder of a hash.
    """

    def __init__(self, owned: OwnershipRecords, present: int, max_bytes: int) -> None:
        self._present = present
        self._counts = [present]
        while self._counts[-1] * 2 <= max_bytes:
            self._counts.append(self._counts[-1] * 2)
        self._finest = [0] * self._counts[-1]
        for subject, size in sizes_of(owned).items():
            self._finest[part_of(subject, len(self._finest))] += size

    def candidates(self, parts: Sequence[SeriesPart], limits: PartLimits) -> Sequence[int]:
        """Return at most three numbers of parts to try: by the observed compression, without compression, and the maximum."""
        ratios = [
            GROWTH * len(part.packed) / max(size, 1)
            for part, size in zip(parts, self._of(self._present), strict=True)
        ]
        estimated = self._first(
            lambda number, size, count: (
                size * ratios[number % self._present] + OVERHEAD <= limits.characters(count) * 3 / 4
                and size + OVERHEAD <= limits.unpacked
            )
        )
        certain = self._first(lambda _, size, count: size + OVERHEAD <= limits.certain(count))
        return sorted({estimated, max(estimated, certain), self._counts[-1]} - {self._present})

    def _first(self, fits: Callable[[int, int, int], bool]) -> int:
        """Return the smallest larger layout all of whose parts fit; the largest if none does."""
        for count in self._counts[1:]:
            if all(fits(number, size, count) for number, size in enumerate(self._of(count))):
                return count
        return self._counts[-1]

    def _of(self, count: int) -> Sequence[int]:
        sums = [0] * count
        for number, size in enumerate(self._finest):
            sums[number % count] += size
        return sums


def sizes_of(owned: OwnershipRecords) -> Mapping[Entity, int]:
    """Return an upper bound of the bytes of each entity's rows, in one pass over the names."""
    sizes: dict[Entity, int] = {}
    names: dict[Entity, int] = {}

    def add(subject: Entity, size: int) -> None:
        name = names.get(subject)
        if name is None:
            name = names[subject] = sum(_escaped(slot) for slot in subject if slot)
        sizes[subject] = sizes.get(subject, 0) + name + _ROW + size

    for subject, record in owned.records.items():
        owners = {owner.document for owner in record.owners if owner is not None}
        add(subject, sum(_escaped(document) + _ROW for document in owners))
    for (subject, _), intent in owned.intents.items():
        add(subject, _escaped(intent.owner.document) + _ROW)
    for pairs in (owned.drift_since, owned.orphaned):
        for subject, _ in pairs:
            add(subject, 0)
    for (subject, _), override in owned.overrides.items():
        add(
            subject,
            _escaped(override.author + override.document) + _escaped(override.reason) + _ROW,
        )
    return sizes


_ROW: Final = 70 + 50 * len(COLUMNS)
"""Upper bound of a row's bytes besides texts: for each key a number of 25 characters and its owner; one more number, the name
of a key, punctuation."""


def _escaped(text: str) -> int:
    """Return an upper bound of a text's bytes in JSON: six per character, twelve beyond the basic multilingual plane."""
    if text.isascii() and text.isprintable():
        return 2 * len(text) + 3
    return 6 * (len(text.encode("utf-16-le", "surrogatepass")) // 2) + 3


# ---- content ---------------------------------------------------------------------------------


class _PartShare(Struct):
    """The content of one part."""

    records: dict[Entity, OwnershipRecord] = field(default_factory=dict)
    intents: dict[Pair, Intent] = field(default_factory=dict)
    drift_since: dict[Pair, float] = field(default_factory=dict)
    orphaned: set[Pair] = field(default_factory=set)
    overrides: dict[Pair, Override] = field(default_factory=dict)


def _parts(
    owned: OwnershipRecords,
    count: int,
    pack: Callable[[bytes], bytes],
) -> Sequence[SeriesPart]:
    return list(encoded_parts(owned, count, range(count), pack=pack))


def encoded_parts(
    owned: OwnershipRecords,
    count: int,
    numbers: Collection[int],
    *,
    pack: Callable[[bytes], bytes] = gzip_of,
) -> Iterator[SeriesPart]:
    """Yield some parts of a layout with ``count`` parts."""
    for number, share in zip(sorted(numbers), split(owned, count, numbers), strict=True):
        content = records_format.encode({owned.cluster_id: share})
        yield SeriesPart(number=number, share=share, packed=pack(content), size=len(content))


def split(
    owned: OwnershipRecords, count: int, numbers: Collection[int] | None = None
) -> Sequence[OwnershipRecords]:
    """Return the content of each of ``count`` parts, or of those with these numbers; one pass over the records."""
    if count == 1:
        return (owned,) if numbers is None or numbers else ()
    part_numbers = range(count) if numbers is None else sorted(numbers)
    shares = {number: _PartShare() for number in part_numbers}
    unselected = _PartShare()

    def share_of(subject: Entity) -> _PartShare:
        return shares.get(part_of(subject, count), unselected)

    for subject, record in owned.records.items():
        share_of(subject).records[subject] = record
    for pair, intent in owned.intents.items():
        share_of(pair[0]).intents[pair] = intent
    for pair, at in owned.drift_since.items():
        share_of(pair[0]).drift_since[pair] = at
    for pair in owned.orphaned:
        share_of(pair[0]).orphaned.add(pair)
    for pair, override in owned.overrides.items():
        share_of(pair[0]).overrides[pair] = override
    return tuple(
        OwnershipRecords(
            cluster_id=owned.cluster_id,
            records=share.records,
            intents=share.intents,
            drift_since=share.drift_since,
            orphaned=frozenset(share.orphaned),
            overrides=share.overrides,
            latest_end=owned.latest_end,
        )
        for share in shares.values()
    )
