import pytest

from reconciler.errors import DecodeError, TooManyItems
from reconciler.wire.messages.entry_layout import EntryCollection, EntryLayout
from tests.wire.samples import LAYOUT


@pytest.mark.parametrize(
    ("slots", "columns"),
    [
        (("user",), ("a", "b")),
        (("user", "user"), ("a", "b")),
        (("user", "ip"), ("a",)),
        (("user", ""), ("a", "b")),
        (("user", "x" * 127), ("a", "b")),
    ],
)
def test_a_layout_requires_two_or_more_short_names(
    slots: tuple[str, ...], columns: tuple[str, ...]
) -> None:
    with pytest.raises(ValueError, match=r"slots|columns"):
        EntryLayout(slots=slots, columns=columns)


@pytest.mark.parametrize(
    ("parts", "values", "words"),
    [
        ([], [], "no component"),
        ([("user", "a"), ("user", "b")], [], "the same type twice"),
        ([("user", "a")], [("x", 1.0), ("x", 1.0)], "the same key twice"),
    ],
)
def test_entries_that_no_broker_sends_are_refused(
    parts: list[tuple[str, str | None]], values: list[tuple[str, float]], words: str
) -> None:
    with pytest.raises(DecodeError, match=words) as caught:
        EntryCollection(layout=LAYOUT, most_entities=100).add(parts, values, offset=7)
    assert caught.value.offset == 7


@pytest.mark.parametrize("entity_type", ["user", "group"])
def test_a_repeated_entity_is_refused(entity_type: str) -> None:
    gathering = EntryCollection(layout=LAYOUT, most_entities=100)
    gathering.add([(entity_type, "a"), ("ip", None)], [], offset=0)
    with pytest.raises(DecodeError, match="the same entity occurs twice"):
        gathering.add([("ip", None), (entity_type, "a")], [], offset=9)


def test_the_number_of_foreign_items_is_limited() -> None:
    gathering = EntryCollection(layout=LAYOUT, most_entities=5)
    gathering.add([("group", "g")], [("y", 1.0)], offset=0)
    gathering.add([("user", "a")], [("w", 1.0), ("x", 2.0), ("y", 3.0)], offset=0)
    gathering.add([("user", "b")], [("request_percentage", 1.0)], offset=0)
    assert gathering.verbatim_items == 5
    with pytest.raises(TooManyItems, match="more than 5 components and values") as caught:
        gathering.add([("user", "c")], [("y", 1.0)], offset=0)
    assert "receive.max.entities" in caught.value.hint
