"""Tests of durations, entities and limits on a command line."""

import re
from datetime import UTC, datetime

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.cli.options.shared import ENTITY, DurationParameter, ReasonParameter, limit
from reconciler.errors import UsageError
from reconciler.quota.entity import DEFAULT, entity
from reconciler.quota.keys import Key
from reconciler.render.units import instant


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("2h", 7200), ("1h30m", 5400), ("7d", 604_800), ("5ms", 0.005)],
)
def test_durations_are_parsed(text, seconds):
    assert DurationParameter().convert(text, None, None) == seconds


@pytest.mark.parametrize("text", ["", "2", "h", "2 h", "0s", "-1h", "1.5h", "2hours"])
def test_invalid_durations_are_refused(text):
    with pytest.raises(click.BadParameter, match="not a duration"):
        DurationParameter().convert(text, None, None)


@given(st.lists(st.integers(1, 999_999), min_size=1, max_size=6), st.integers(1, 36_500))
def test_a_duration_ends_at_a_time_that_every_output_can_write(counts, max_days):
    text = "".join(f"{count}d" for count in counts)
    duration = DurationParameter(max_days=max_days)
    if sum(counts) > max_days:
        with pytest.raises(click.BadParameter, match=f"longer than {max_days}d"):
            duration.convert(text, None, None)
    else:
        now = datetime(2100, 1, 1, tzinfo=UTC).timestamp()
        assert instant(now + duration.convert(text, None, None))


@given(st.text(max_size=600))
def test_a_reason_is_neither_blank_nor_longer_than_what_is_shown(text):
    reason = text.strip()
    if 0 < len(reason) <= 512:
        assert ReasonParameter().convert(text, None, None) == reason
    else:
        with pytest.raises(click.BadParameter, match="it is empty" if not reason else "at most"):
            ReasonParameter().convert(text, None, None)


@pytest.mark.parametrize("text", ["x" * 513, "  "])
def test_a_long_and_a_blank_reason_are_refused(text):
    with pytest.raises(click.BadParameter):
        ReasonParameter().convert(text, None, None)


def test_the_three_states_of_a_slot_can_be_typed():
    read = ENTITY.convert
    assert read("user=alice,client-id=<default>", None, None) == entity(
        user="alice", client_id=DEFAULT
    )
    assert read('user="<default>"', None, None) == entity(user="<default>")
    assert read('user="CN=a,O=b"', None, None) == entity(user="CN=a,O=b")


@pytest.mark.parametrize("text", ["alice", "", "user=a,ip=1.2.3.4", "user=\udcff"])
def test_invalid_entities_are_refused(text):
    with pytest.raises(click.BadParameter):
        ENTITY.convert(text, None, None)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("producer_byte_rate=10Mi", (Key.PRODUCER_BYTE_RATE, 10_485_760.0)),
        ("consumerByteRate=20M", (Key.CONSUMER_BYTE_RATE, 20_000_000.0)),
        ("request_percentage=50.5", (Key.REQUEST_PERCENTAGE, 50.5)),
        ("producer_byte_rate=9223372036854775807", (Key.PRODUCER_BYTE_RATE, 2.0**63)),
    ],
)
def test_limits_are_parsed_under_both_names_and_with_suffixes(text, read):
    assert limit(text) == read


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("producer_byte_rate", "key=value"),
        ("speed=1", "unknown key"),
        ("producer_byte_rate=fast", "not a quantity"),
        ("producer_byte_rate=1.5", "whole number"),
        ("producer_byte_rate=0", "greater than 0"),
        ("request_percentage=0", "greater than 0"),
        ("request_percentage=-1", "decimal number"),
        ("producer_byte_rate=9007199254740993", "float64"),
    ],
)
def test_limits_that_kafka_rejects_are_refused(text, message):
    with pytest.raises(UsageError, match=message):
        limit(text)


@given(
    st.sampled_from([Key.REQUEST_PERCENTAGE, Key.CONTROLLER_MUTATION_RATE]),
    st.from_regex(r"[+-]?[0-9]{0,3}(\.[0-9]{0,3})?(Mi|Ki|G|k|m|n|e2|E|%)?", fullmatch=True),
)
def test_a_key_without_bytes_accepts_plain_decimal_numbers_only(key, text):
    """As in a manifest; `request_percentage=5Mi` would be five million percent, which is no limit."""
    is_plain = re.fullmatch(r"(0|[1-9][0-9]*)(\.[0-9]+)?", text) is not None
    if is_plain and float(text) > 0:
        assert limit(f"{key}={text}") == (key, float(text))
    else:
        with pytest.raises(UsageError):
            limit(f"{key}={text}")
