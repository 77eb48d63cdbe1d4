"""Parts of a series: every record in exactly one, each bounded, stable, and computed in linear time."""

import random

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.inventory import format as records_format
from reconciler.kube.records.config_map_reader import UNPACKED_BYTES, read
from reconciler.kube.records.config_maps import config_maps
from reconciler.kube.records.series_layout import ONE, SeriesLayout
from reconciler.kube.records.series_parts import (
    PartLimits,
    SeriesPart,
    gzip_of,
    lay_out,
    sizes_of,
    split,
)
from reconciler.kube.records.stored_records import StoredRecords
from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from reconciler.quota.ownership import Owner, OwnershipRecords, Recorded
from tests.inventory.samples import RECORD_CHANGES

ID = "lkc-1"
RATE = Key.PRODUCER_BYTE_RATE
CONTROLS = [chr(code) for code in range(1, 32)]


def records(names):
    """Records of users with these names."""
    return OwnershipRecords(cluster_id=ID).with_changes(
        [
            Recorded(
                entity=entity(user=name),
                key=RATE,
                value=float(number + 1),
                owner=Owner(document=f"team-a/{number}", since=float(number)),
            )
            for number, name in enumerate(names)
        ]
    )


def control_names(count, *, length=32_767, seed=7):
    """Names that are six times as long in JSON and hardly compress."""
    dice = random.Random(seed)
    return [
        "".join(dice.choices(CONTROLS, k=length - 8)) + f"{number:08}" for number in range(count)
    ]


class Packer:
    """Gzip that counts its input."""

    def __init__(self):
        self.bytes = 0
        self.calls = 0

    def __call__(self, content):
        self.bytes += len(content)
        self.calls += 1
        return gzip_of(content)


def size_of(owned):
    return len(records_format.encode({ID: owned}))


# ---- the law -----------------------------------------------------------------------------------

NAMES = st.lists(
    st.one_of(
        st.text(min_size=1, max_size=40),
        st.text(alphabet=CONTROLS, min_size=1, max_size=400),
        st.integers(1, 900).map("a".__mul__),
    ),
    unique=True,
    max_size=40,
)


@given(NAMES, st.sampled_from([1, 2, 8, 64]), st.lists(RECORD_CHANGES, max_size=6))
def test_every_record_is_in_exactly_one_part_and_each_part_is_small_enough(names, parts, changes):
    owned = records(names).with_changes(changes)
    limits = PartLimits(packed=4096, unpacked=9000)
    layout, packed = lay_out(owned, SeriesLayout(serial=3, parts=parts), limits=limits)
    assert layout.parts == len(packed)
    assert all(limits.allows(part, layout.parts) for part in packed)
    shares = split(owned, layout.parts)
    together = OwnershipRecords(cluster_id=ID)
    for share, part in zip(shares, packed, strict=True):
        assert gzip_of(records_format.encode({ID: share})) == part.packed
        for section in ("records", "intents", "drift_since", "overrides"):
            some, more = getattr(together, section), getattr(share, section)
            assert some.keys().isdisjoint(more)
            together = replace(together, **{section: {**some, **more}})
        assert together.orphaned.isdisjoint(share.orphaned)
        together = replace(together, orphaned=together.orphaned | share.orphaned)
    assert together == owned


@given(NAMES, NAMES)
def test_unchanged_records_keep_their_part_while_the_layout_is_unchanged(names, more):
    limits = PartLimits(packed=8192)
    layout, before = lay_out(records(names), SeriesLayout(parts=16), limits=limits)
    grown = records([*names, *more]) if set(names).isdisjoint(more) else records(names)
    later, after = lay_out(grown, layout, limits=limits)
    if later == layout:
        old, new = split(records(names), layout.parts), split(grown, layout.parts)
        for number, (old_part, new_part) in enumerate(zip(old, new, strict=True)):
            assert old_part.records.keys() <= new_part.records.keys()
            if old_part == new_part:
                assert before[number] == after[number]


@given(st.lists(RECORD_CHANGES, max_size=12), NAMES)
def test_the_size_of_an_entity_is_never_smaller_than_that_of_its_rows(changes, names):
    owned = records(names).with_changes(changes)
    empty = size_of(OwnershipRecords(cluster_id=ID))
    assert sum(sizes_of(owned).values()) >= size_of(owned) - empty


# ---- cost --------------------------------------------------------------------------------------


def test_long_names_are_encoded_and_compressed_a_few_times_for_any_number_of_parts():
    owned = records(control_names(15))
    packer = Packer()
    layout, parts = lay_out(owned, ONE, pack=packer)
    assert layout.parts > 1
    assert all(PartLimits().allows(part, layout.parts) for part in parts)
    assert packer.bytes <= 4.2 * size_of(owned)


def test_the_written_size_per_record_does_not_grow_with_the_number_of_records():
    shares = []
    for count in (200, 800, 1600):
        owned = records(control_names(count, length=400))
        packer = Packer()
        _ = lay_out(owned, ONE, limits=PartLimits(packed=16_000), pack=packer)
        shares.append(packer.bytes / size_of(owned))
    assert max(shares) <= 4.2
    assert packer.calls <= 4 * 1024


def test_a_layout_that_fits_is_compressed_once():
    owned = records(control_names(15))
    layout, _ = lay_out(owned, ONE)
    packer = Packer()
    again, _ = lay_out(owned, layout, pack=packer)
    assert again == layout
    assert packer.bytes <= 1.1 * size_of(owned)


def test_records_use_few_more_parts_than_they_fill():
    limits = PartLimits(target=256 * 1024)
    layout, parts = lay_out(records(control_names(30)), ONE, limits=limits)
    stored = sum(4 * len(part.packed) / 3 for part in parts)
    assert layout.parts <= 8 * stored / PartLimits().packed


# ---- what compresses too well ------------------------------------------------------------------


def test_a_part_that_compresses_well_stays_below_the_reading_limit():
    owned = records([f"{number:05}" + "a" * 32_000 for number in range(3000)])
    assert size_of(owned) > UNPACKED_BYTES
    value, stored = config_maps(StoredRecords(owned=owned), namespace="x")
    assert value.layout.parts > 1
    assert read(ID, stored.values()).owned.records == owned.records


def test_a_part_above_the_reading_limit_is_refused():
    limits = PartLimits()
    part = SeriesPart(number=0, share=records([]), packed=b"x", size=limits.unpacked)
    assert limits.allows(part, 1)
    assert not limits.allows(replace(part, size=limits.unpacked + 1), 1)
