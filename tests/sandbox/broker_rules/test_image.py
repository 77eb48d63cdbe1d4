"""Laws of the image."""

import math

from hypothesis import given
from hypothesis import strategies as st

from reconciler.sandbox import PROFILES
from reconciler.sandbox.broker_rules import alterations, describe_filters
from reconciler.sandbox.broker_rules.image import (
    EMPTY,
    Image,
    QuotaRecord,
    java_text,
    names_of,
    same_double,
)
from reconciler.sandbox.broker_rules.profiles import BrokerProfile

NAMES = st.sampled_from(
    [
        (("user", "a"),),
        (("user", None),),
        (("client-id", "c"), ("user", "a")),
        (("client-id", None), ("user", "a")),
        (("ip", "::1"),),
    ]
)
KEYS = st.sampled_from(
    ["producer_byte_rate", "request_percentage", "connection_creation_rate", "x"]
)
RECORDS = st.lists(
    st.builds(
        QuotaRecord,
        names=NAMES,
        key=KEYS,
        value=st.one_of(st.none(), st.integers(min_value=-1, max_value=5).map(float)),
    )
)
ALTERATIONS = st.lists(
    st.tuples(
        NAMES,
        st.lists(
            st.tuples(
                KEYS, st.one_of(st.none(), st.integers(min_value=-1, max_value=5).map(float))
            ),
            max_size=3,
        ).map(tuple),
    ),
    max_size=5,
)


def plain(image: Image) -> dict[object, dict[str, float]]:
    return {names: dict(values) for names, values in image.values.items()}


@given(RECORDS)
def test_an_image_equals_a_plain_dictionary(records: list[QuotaRecord]) -> None:
    model: dict[object, dict[str, float]] = {}
    for record in records:
        entity = model.setdefault(record.names, {})
        if record.value is None:
            entity.pop(record.key, None)
        else:
            entity[record.key] = record.value
    assert plain(EMPTY.applied(records)) == {
        names: values for names, values in model.items() if values
    }


@given(RECORDS, RECORDS)
def test_applying_records_does_not_change_older_images(
    first: list[QuotaRecord], second: list[QuotaRecord]
) -> None:
    image = EMPTY.applied(first)
    before = plain(image)
    _ = image.applied(second)
    assert plain(image) == before
    assert plain(EMPTY) == {}


@given(RECORDS, RECORDS)
def test_applying_batches_one_by_one_equals_applying_them_together(
    first: list[QuotaRecord], second: list[QuotaRecord]
) -> None:
    assert plain(EMPTY.applied(first).applied(second)) == plain(EMPTY.applied([*first, *second]))


@given(RECORDS, ALTERATIONS, st.sampled_from(list(PROFILES.values())))
def test_validation_gives_the_results_of_execution(
    records: list[QuotaRecord],
    batch: list[tuple[tuple[tuple[str, str | None], ...], tuple[tuple[str, float | None], ...]]],
    profile: BrokerProfile,
) -> None:
    image = EMPTY.applied(records)
    verdicts = [
        alterations.alter(profile, image, batch, resolvable=(), validate_only=validate_only)
        for validate_only in (True, False)
    ]
    assert verdicts[0] == verdicts[1]


@given(RECORDS, ALTERATIONS, st.sampled_from(list(PROFILES.values())))
def test_an_open_describe_shows_the_entries_of_a_model(
    records: list[QuotaRecord],
    batch: list[tuple[tuple[tuple[str, str | None], ...], tuple[tuple[str, float | None], ...]]],
    profile: BrokerProfile,
) -> None:
    image = EMPTY.applied(records)
    verdicts = alterations.alter(profile, image, batch, resolvable=(), validate_only=False)
    model = plain(image)
    earlier_names: set[object] = set()
    for names, operations in batch:
        first, earlier_names = names not in earlier_names, earlier_names | {names}
        twice = sum(entity_names == names for entity_names, _ in batch) > 1
        if not first or (verdicts.results[names] is not None and not twice):
            continue
        alone = alterations.alter(
            profile, image, [(names, operations)], resolvable=(), validate_only=True
        )
        if alone.results[names] is None:
            entity = model.setdefault(names, {})
            for key, value in operations:
                if value is None:
                    entity.pop(key, None)
                else:
                    entity[key] = value
    entries = describe_filters.matching(image.applied(verdicts.records), (), strict=False)
    assert {names: dict(values) for names, values in entries} == {
        names: entity for names, entity in model.items() if entity
    }


def test_doubles_are_compared_as_java_boxes_them() -> None:
    assert same_double(math.nan, math.nan)
    assert not same_double(0.0, -0.0)
    assert same_double(-0.0, -0.0)
    assert not same_double(None, 0.0)
    assert same_double(1.5, 1.5)


def test_the_last_name_of_a_repeated_type_is_used() -> None:
    assert names_of([("user", "a"), ("client-id", "c"), ("user", None)]) == (
        ("client-id", "c"),
        ("user", None),
    )


def test_an_entity_is_printed_as_by_java() -> None:
    assert java_text([("user", "a"), ("client-id", None)]) == (
        "ClientQuotaEntity(entries={client-id=null, user=a})"
    )
    assert java_text([]) == "ClientQuotaEntity(entries={})"
