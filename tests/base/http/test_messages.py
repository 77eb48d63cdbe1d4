"""Whether a response allows a retry, and the delay before it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.base.http.messages import HttpRequest, HttpResponse

NOW = 1_700_000_000.0


def wait(text: str) -> float | None:
    return HttpResponse(status=429, headers={"retry-after": text}).retry_after(NOW)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("7", 7.0),
        (" 0 ", 0.0),
        ("Tue, 14 Nov 2023 22:13:31 GMT", 11.0),
        ("Tue, 14 Nov 2023 22:13:31", 11.0),
        ("Tue, 14 Nov 2023 22:13:31 -0000", 11.0),
        ("Tue, 14 Nov 2000 22:13:31 GMT", 0.0),
        ("", None),
        ("soon", None),
        ("-3", None),
        ("1e3", None),
        ("²", None),
        ("9" * 5000, None),
        ("Tue, 99 Nov 2023", None),
        ("Tue, 14 Nov 99999 22:13:31 GMT", None),
    ],
)
def test_retry_after_is_a_number_of_seconds_or_a_date(text: str, seconds: float | None) -> None:
    assert wait(text) == seconds


@given(st.text())
def test_an_invalid_retry_after_is_neither_an_exception_nor_negative(text: str) -> None:
    assert (wait(text) or 0.0) >= 0.0


@pytest.mark.parametrize(
    ("status", "success", "transient"),
    [
        (200, True, False),
        (204, True, False),
        (302, False, False),
        (400, False, False),
        (401, False, False),
        (408, False, True),
        (425, False, True),
        (429, False, True),
        (500, False, True),
        (503, False, True),
        (520, False, True),
    ],
)
def test_the_status_decides_whether_a_request_is_retried(
    status: int, success: bool, transient: bool
) -> None:
    response = HttpResponse(status=status)
    assert (response.is_success, response.is_transient) == (success, transient)


def test_the_repr_of_a_request_contains_neither_url_nor_headers_nor_body() -> None:
    request = HttpRequest(
        method="POST",
        url="https://h/planted",
        headers={"Authorization": "planted"},
        body=b"planted",
        max_bytes=1,
    )
    assert "planted" not in repr(request)
