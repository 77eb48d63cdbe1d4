"""Which layout of a series of ConfigMaps counts after a crash."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.errors import InventoryError
from reconciler.kube.records.series_layout import ONE, SeriesLayout, current, name_of_part, part_of
from reconciler.quota.entity import entity

layouts = st.builds(SeriesLayout, serial=st.integers(0, 30), parts=st.integers(1, 12))


def names(layout: SeriesLayout) -> list[str]:
    return [name_of_part("records", layout, number) for number in range(layout.parts)]


@given(layouts, layouts, st.data())
def test_the_newest_complete_layout_is_used_while_a_newer_one_is_incomplete(old, new, data) -> None:
    if new.serial <= old.serial:
        new = SeriesLayout(serial=old.serial + 1, parts=new.parts)
    begun = data.draw(st.sets(st.sampled_from(names(new)), max_size=new.parts))
    layout, parts = current("records", [*names(old), *begun])
    expected = new if len(begun) == new.parts else old
    assert layout == expected
    assert list(parts) == names(expected)


def test_without_parts_the_first_layout_is_used() -> None:
    assert current("records", []) == (ONE, ())


@given(layouts.filter(lambda layout: layout.parts > 1), st.data())
def test_a_series_with_a_missing_part_is_never_complete(layout, data) -> None:
    gap = data.draw(st.sampled_from(names(layout)))
    with pytest.raises(InventoryError, match="are missing"):
        current("records", [name for name in names(layout) if name != gap])


@pytest.mark.parametrize("name", ["records", "records-0", "records-0-0of0", "records-01-0of1", "x"])
def test_a_foreign_name_with_the_labels_of_kquota_is_refused(name: str) -> None:
    with pytest.raises(InventoryError, match="but another name"):
        current("records", [name])


@given(st.text(max_size=30), st.integers(1, 50))
def test_an_entity_belongs_to_one_of_the_parts(user: str, parts: int) -> None:
    assert 0 <= part_of(entity(user=user), parts) < parts


def test_the_part_of_an_entity_never_changes_between_releases() -> None:
    places = [part_of(entity(user=name), 16) for name in ("alice", "bob", "carol")]
    assert places == [3, 10, 5]


@pytest.mark.parametrize(("serial", "parts"), [(-1, 1), (0, 0)])
def test_a_layout_has_a_part_and_a_serial_number(serial: int, parts: int) -> None:
    with pytest.raises(ValueError, match="at least one part"):
        SeriesLayout(serial=serial, parts=parts)
