"""An outcome closes the intent of its pair once the cluster has decided."""

import pytest
from msgspec import UNSET

from tests.fakes.audit_entry import audit_entry


@pytest.mark.parametrize(
    ("outcome", "visibility", "intended_at", "closes"),
    [
        ("APPLIED", "not looked at", "T", True),
        ("NOT LANDED", "", "T", True),
        ("UNKNOWN", "visible", "T", True),
        ("UNKNOWN", "not yet visible", "T", False),
        ("HELD", "not looked at", UNSET, False),
        ("INTENDED", "not looked at", UNSET, False),
    ],
)
def test_only_a_decided_outcome_of_an_intended_change_closes_its_intent(
    outcome, visibility, intended_at, closes
):
    entry = audit_entry(outcome=outcome, visibility=visibility, intended_at=intended_at)
    assert entry.closes_intent is closes


def test_a_pair_is_of_one_cluster():
    entry, other_entry = audit_entry(cluster_id="a"), audit_entry(cluster_id="b")
    assert entry.pair == ("a", entry.entity, entry.key)
    assert entry.pair != other_entry.pair
