"""Tests of loopback addresses, plain HTTP, and proxies of the environment."""

import pytest

from reconciler.base.http.messages import is_loopback, is_plain, proxy_for


@pytest.mark.parametrize(
    ("host", "is_local"),
    [
        ("localhost", True),
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("::1", True),
        ("10.0.0.1", False),
        ("localhost.example", False),
        ("", False),
    ],
)
def test_a_loopback_host_is_this_machine(host: str, is_local: bool) -> None:
    assert is_loopback(host) is is_local


@pytest.mark.parametrize(
    ("url", "plain"),
    [
        ("https://example.com/x", False),
        ("http://example.com/x", True),
        ("http://localhost:8/", False),
        ("http://[::1]:8/", False),
        ("ftp://127.0.0.1/", False),
        ("//example.com", True),
    ],
)
def test_plain_http_to_another_machine_counts_as_unprotected(url: str, plain: bool) -> None:
    assert is_plain(url) is plain


@pytest.mark.parametrize(
    ("url", "proxy"),
    [
        ("http://prometheus:9090", "http://plain:3128"),
        ("https://prometheus", "http://u:p@safe:3128"),
        ("https://inside.example", ""),
        ("http://localhost:9090", ""),
        ("https://127.0.0.1", ""),
    ],
)
def test_the_proxy_of_the_environment_is_used_except_for_this_machine(
    monkeypatch: pytest.MonkeyPatch, url: str, proxy: str
) -> None:
    for name, value in (
        ("http_proxy", "http://plain:3128"),
        ("https_proxy", "http://u:p@safe:3128"),
        ("no_proxy", "example,inside.example"),
    ):
        monkeypatch.setenv(name, value)
        monkeypatch.delenv(name.upper(), raising=False)
    assert proxy_for(url) == proxy
