"""The result of a describe with a filter, as in Kafka's metadata image."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.errors import QuotaValueError
from reconciler.quota.filters import ANY, Component, Filter, exactly
from tests.quota.log_model import ENTITIES


@given(st.sampled_from(ENTITIES))
def test_the_exact_filter_of_an_entity_selects_it_alone(subject):
    assert [candidate for candidate in ENTITIES if exactly(subject).matches(candidate)] == [subject]


@pytest.mark.parametrize(
    "types", [("",), ("user", "user"), ("group", "group")], ids=["empty", "twice", "other twice"]
)
def test_an_empty_or_repeated_type_is_refused(types):
    with pytest.raises(QuotaValueError, match="empty or given twice"):
        _ = Filter(components=tuple(Component(entity_type=type_, match=ANY) for type_ in types))
