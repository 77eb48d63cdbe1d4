"""Profiles of Hypothesis: the number of examples of a property in each."""

import pytest

from tests.hypothesis_profiles import scale


@pytest.mark.parametrize(
    ("thorough", "examples", "expected"),
    [
        pytest.param(400, 25, 400, id="thorough"),
        pytest.param(400, 5, 80, id="quick"),
        pytest.param(3, 5, 2, id="the simplest example and another one"),
        pytest.param(400, 1, 1, id="simplest"),
        pytest.param(400, 1000, 1000, id="deep"),
        pytest.param(2000, 1000, 2000, id="many in each profile"),
    ],
)
def test_a_property_has_its_share_of_the_examples_of_a_profile(
    thorough: int, examples: int, expected: int
) -> None:
    assert scale(thorough, examples) == expected
