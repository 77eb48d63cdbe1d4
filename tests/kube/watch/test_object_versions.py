"""Which of two versions of an object is newer, by their numbers."""

import pytest

from reconciler.kube.api.custom_resources import is_before, is_within


def obj(version: str) -> dict[str, object]:
    return {"metadata": {"resourceVersion": version}}


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("9", "10", True),
        ("10", "9", False),
        ("10", "10", False),
        ("", "10", False),
        ("9", "opaque", False),
        ("\u0664", "10", False),
    ],
)
def test_resource_versions_are_compared_as_numbers_or_are_undecided(
    first: str, second: str, expected: bool
) -> None:
    assert is_before(obj(first), obj(second)) is expected


def test_a_listing_contains_writes_up_to_its_version() -> None:
    assert is_within(obj("9"), "10")
    assert is_within(obj("10"), "10")
    assert not is_within(obj("11"), "10")
    assert is_within(obj("opaque"), "10"), "an unknown order hides no deletion"
    assert is_within(obj("11"), "opaque")
