"""Which errors are retriable."""

import pytest

from reconciler.client.network.requests import (
    UNKNOWN_ERROR_RETRIES,
    ConnectAttempts,
    can_retry,
    with_causes,
)
from reconciler.errors import (
    AuthenticationError,
    BrokerError,
    ClientError,
    ConnectError,
    RequestTimeout,
    TlsError,
)
from reconciler.wire.error_codes import ERROR_CODES, NOT_CONTROLLER, UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ConnectError("no connection"), True),
        (RequestTimeout("late", phase="request"), True),
        (RequestTimeout("a new connection would dodge the quota", phase="throttled"), False),
        (TlsError("certificate"), False),
        (AuthenticationError("password"), False),
        (BrokerError("elsewhere", code=NOT_CONTROLLER), True),
    ],
)
def test_transient_errors_are_retried(error: ClientError, expected: bool) -> None:
    assert can_retry(error, 0) is expected


def test_a_broker_error_without_a_reason_is_retried_a_few_times() -> None:
    error = BrokerError("?", code=UNKNOWN_SERVER_ERROR)
    tries = [can_retry(error, count) for count in range(UNKNOWN_ERROR_RETRIES + 3)]
    assert tries == [True] * (UNKNOWN_ERROR_RETRIES + 1) + [False, False]


def test_only_codes_that_kafka_calls_retriable_or_that_name_another_node_are_retried() -> None:
    healed = {number for number in ERROR_CODES if can_retry(BrokerError("x", code=number), 99)}
    assert {ERROR_CODES[number].name for number in healed} == {
        "REQUEST_TIMED_OUT",
        "NOT_CONTROLLER",
        "REBOOTSTRAP_REQUIRED",
    }


def test_a_cause_that_a_message_has_is_not_added_again() -> None:
    message = "no connection: a.b:1: refused"
    assert with_causes(message, ["a.b:1: refused"]) == message
    assert with_causes(message, ["b:1: refused"]) == f"{message}; last known cause: b:1: refused"


def test_a_call_that_ends_names_its_broker_its_time_and_its_attempts() -> None:
    attempts = ConnectAttempts(began=1000.0)
    for cause in ("no response within 2 s", "no response within 1 s"):
        attempts.tries += 1
        attempts.note(RequestTimeout(cause, phase="request", node="b:9092"), [])
    error = attempts.gave_up(1003.0, ["b:9092: refused"])
    expected = "no usable connection to b:9092 within 3.0 s (2 attempts)"
    assert (error.message, error.attempt) == (f"{expected}; last known cause: b:9092: refused", 2)


def test_a_call_that_ends_reports_a_cause_rather_than_a_later_timeout() -> None:
    attempts = ConnectAttempts(began=1000.0, tries=1)
    attempts.note(ConnectError("b:9092 closed the connection"), [])
    attempts.note(RequestTimeout("no time was left", phase="connect", node="b:9092"), [])
    assert (
        attempts.gave_up(1003.0, []).message == "b:9092 closed the connection (1 attempt in 3.0 s)"
    )
