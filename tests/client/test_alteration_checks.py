"""What is refused before a request is sent, and the text of the error."""

import math

import pytest

from reconciler.client.alteration_sender import check_alterations, check_open_alterations
from reconciler.errors import QuotaValueError
from reconciler.quota.entity import ABSENT, Entity, entity
from reconciler.quota.state import Alteration, OpenAlteration

ALICE = entity(user="alice")
RATE = ("producer_byte_rate", 1.0)


@pytest.mark.parametrize(
    ("alterations", "words"),
    [
        ([Alteration(ALICE, ())], "has no operation"),
        ([Alteration(ALICE, (RATE, RATE))], "producer_byte_rate is given twice"),
        ([Alteration(ALICE, (RATE,))] * 2, "is given twice in one call"),
        ([Alteration(entity(user=""), (RATE,))], "the user name is empty"),
        ([Alteration(Entity((ABSENT, ABSENT, ABSENT)), (RATE,))], "needs a user, a client-id"),
        ([Alteration(Entity(("a", ABSENT, "10.0.0.1")), (RATE,))], "ip cannot be combined"),
        ([Alteration(Entity(("x" * 40_000, ABSENT, ABSENT)), (RATE,))], "the user name"),
    ],
)
def test_an_ambiguous_alteration_is_refused(alterations: list[Alteration], words: str) -> None:
    with pytest.raises(QuotaValueError, match=words):
        check_alterations(alterations)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 0.0, -0.0, -1.0])
def test_zero_negative_and_infinite_values_are_refused_and_left_to_the_broker_in_validate_only(
    value: float,
) -> None:
    alterations = [Alteration(ALICE, (("producer_byte_rate", value),))]
    with pytest.raises(QuotaValueError, match="must be a finite number above 0"):
        check_alterations(alterations)
    check_alterations(alterations, validate_only=True)


def test_a_removal_has_no_value_to_check() -> None:
    check_alterations([Alteration(ALICE, (("producer_byte_rate", None),))])


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ((), "no type"),
        ((("user", "a"), ("user", "b")), "each type once"),
        ((("x" * 40_000, "a"),), "the entity type"),
        ((("group", "\ud800"),), "the group name"),
    ],
)
def test_an_entity_of_any_types_must_be_encodable_by_kafka(
    parts: tuple[tuple[str, str | None], ...], words: str
) -> None:
    with pytest.raises(QuotaValueError, match=words):
        check_open_alterations([OpenAlteration(parts, (RATE,))])


def test_the_same_parts_in_another_order_are_the_same_entity() -> None:
    first, again = (("user", "a"), ("group", "b")), (("group", "b"), ("user", "a"))
    with pytest.raises(QuotaValueError, match="given twice in one call"):
        check_open_alterations([OpenAlteration(first, (RATE,)), OpenAlteration(again, (RATE,))])


def test_an_error_quotes_a_part_of_a_long_name() -> None:
    with pytest.raises(QuotaValueError) as caught:
        check_alterations([Alteration(entity(user="x" * 5_000), ())])
    assert len(str(caught.value)) < 300
