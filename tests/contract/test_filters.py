"""Filters of DescribeClientQuotas, refused and answered, on every target."""

from tests.contract.filter_expectations import FILTERS, MATCHED, REFUSED_FILTERS, selects
from tests.contract.targets import Target


def test_every_invalid_filter_is_rejected_with_the_message_of_kafka(target: Target) -> None:
    with target.connect() as connection:
        for name, components, verdict in REFUSED_FILTERS:
            for strict in (False, True):
                described = connection.describe(components, strict=strict)
                assert (name, described.verdict) == (name, verdict)
                assert described.quotas == {}


def test_every_filter_selects_by_its_components(empty: Target) -> None:
    with empty.connect() as connection:
        connection.verdicts(*((names, tuple(values.items())) for names, values in MATCHED.items()))
        connection.settled(MATCHED)
        for components, strict in FILTERS:
            described = connection.describe(components, strict=strict)
            expected = {
                names: values
                for names, values in MATCHED.items()
                if selects(components, names, strict=strict)
            }
            assert (components, strict, described.quotas) == (components, strict, expected)
            assert described.verdict == (0, "")


def test_a_filter_without_matches_returns_an_empty_response_without_error(empty: Target) -> None:
    with empty.connect() as connection:
        for strict in (False, True):
            described = connection.describe(strict=strict)
            assert described.quotas == {}
            assert described.verdict == (0, "")
            assert described.throttle_time_ms == 0
