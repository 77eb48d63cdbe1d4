"""Whether a response allows a retry, and the delay before it."""

from hypothesis import given
from hypothesis import strategies as st

from reconciler.base.http.messages import HttpRequest, HttpResponse

NOW = 1_700_000_000.0


def wait(text: str) -> float | None:
    return HttpResponse(status=429, headers={"retry-after": text}).retry_after(NOW)


@given(st.text())
def test_an_invalid_retry_after_is_neither_an_exception_nor_negative(text: str) -> None:
    assert (wait(text) or 0.0) >= 0.0


def test_the_repr_of_a_request_contains_neither_url_nor_headers_nor_body() -> None:
    request = HttpRequest(
        method="POST",
        url="https://h/planted",
        headers={"Authorization": "planted"},
        body=b"planted",
        max_bytes=1,
    )
    assert "planted" not in repr(request)
