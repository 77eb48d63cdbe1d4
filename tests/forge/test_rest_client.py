"""The JSON client: deadlines, sizes, retries, rate limits and pages; and no message contains the token."""

import asyncio
import json
import pickle
import traceback

import aiohttp.web
import pytest

from reconciler.base.http.messages import HttpResponse
from reconciler.errors import ForgeError, UsageError
from reconciler.forge.rest_client import (
    RestClient,
    RestLimits,
    checked_address,
    error_text,
    forge_token,
)

PLANTED = "ghp_planted-secret"


def result_of(handler, work, clock, *, bounds=None, path="/{tail:.*}"):
    """The result of `work(rest, url)`, with a client of a server whose handler is `handler`."""

    async def inside():
        application = aiohttp.web.Application()
        application.router.add_route("*", path, handler)
        runner = aiohttp.web.AppRunner(application, shutdown_timeout=0.1)
        await runner.setup()
        site = aiohttp.web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            async with RestClient(
                url,
                headers={"User-Agent": "t"},
                clock=clock,
                token=forge_token(PLANTED),
                bounds=bounds or RestLimits(),
            ) as client:
                return await work(client, url)
        finally:
            await runner.cleanup()

    return asyncio.run(inside())


def answers(*responses):
    """A handler that sends one response after the other, the last one repeatedly; and the received requests."""
    waiting, came = list(responses), []

    async def handler(request):
        came.append((request.method, request.path_qs, await request.text()))
        status, headers, body = waiting.pop(0) if len(waiting) > 1 else waiting[0]
        return aiohttp.web.Response(status=status, headers=headers, text=body)

    return handler, came


OK = (200, {}, '{"ok": true}')


def test_a_server_error_is_retried_and_then_reported(clock):
    handler, came = answers((502, {}, "<html>"), (500, {}, "{}"), OK)
    assert result_of(handler, lambda client, _: client.get("x"), clock) == {"ok": True}
    assert clock.slept == [1.0, 2.0]
    handler, came = answers((503, {}, '{"message": "down"}'))
    with pytest.raises(ForgeError, match="GET /x answered 503: down"):
        result_of(handler, lambda client, _: client.get("x"), clock)
    assert len(came) == 4


def test_a_write_that_may_have_been_executed_is_not_sent_again(clock):
    handler, came = answers((502, {}, ""))
    with pytest.raises(ForgeError) as caught:
        result_of(handler, lambda client, _: client.send("POST", "x", {"a": 1}), clock)
    assert caught.value.unsure
    assert len(came) == 1
    handler, came = answers((502, {}, ""), OK)
    assert result_of(handler, lambda client, _: client.send("PATCH", "x", {"a": 1}), clock) == {
        "ok": True
    }


@pytest.mark.parametrize(
    ("status", "headers", "body", "seconds"),
    [
        (429, {"Retry-After": "7"}, "{}", 7.0),
        (403, {"Retry-After": "3"}, "{}", 3.0),
        (403, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1700000042"}, "{}", 42.0),
        (403, {}, '{"message": "You have exceeded a secondary rate limit"}', 60.0),
        (403, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1"}, "{}", 1.0),
    ],
)
def test_a_rate_limit_is_waited_for_as_long_as_the_host_requests(
    clock, status, headers, body, seconds
):
    handler, came = answers((status, headers, body), OK)
    assert result_of(handler, lambda client, _: client.send("POST", "x", {}), clock) == {"ok": True}
    assert clock.slept == [pytest.approx(seconds)]
    assert len(came) == 2


def test_a_rate_limit_that_takes_too_long_is_reported(clock):
    handler, _ = answers((429, {"Retry-After": "3600"}, "{}"))
    with pytest.raises(ForgeError, match="answered 429") as caught:
        result_of(handler, lambda client, _: client.get("x"), clock)
    assert "3600 s" in caught.value.hint
    assert clock.slept == []
    handler, came = answers((429, {"Retry-After": "100"}, "{}"))
    with pytest.raises(ForgeError):
        result_of(handler, lambda client, _: client.get("x"), clock)
    assert len(came) == 2


@pytest.mark.parametrize(
    ("status", "says"),
    [
        (401, "token is invalid"),
        (403, "permissions"),
        (404, "does not exist"),
        (410, "are disabled"),
        (422, "did not accept"),
    ],
)
def test_a_refusal_is_reported_once_with_the_next_step(clock, status, says):
    handler, came = answers(
        (status, {}, json.dumps({"message": "no", "errors": [{"message": "too long"}]}))
    )
    with pytest.raises(ForgeError, match=f"answered {status}: no; too long") as caught:
        result_of(handler, lambda client, _: client.get("x"), clock)
    assert says in caught.value.hint
    assert caught.value.status == status
    assert len(came) == 1


def test_a_redirect_is_not_followed_with_the_token(clock):
    handler, came = answers((301, {"Location": "https://elsewhere.example/"}, "{}"))
    with pytest.raises(ForgeError) as caught:
        result_of(handler, lambda client, _: client.get("x"), clock)
    assert "renamed" in caught.value.hint
    assert len(came) == 1


def test_the_size_of_a_response_is_limited_and_it_must_be_json(clock):
    handler, _ = answers((200, {}, "[" + "1," * 5000 + "1]"))
    with pytest.raises(ForgeError, match="larger than 1,000 bytes"):
        result_of(
            handler, lambda client, _: client.get("x"), clock, bounds=RestLimits(answer_bytes=1000)
        )
    handler, _ = answers((200, {}, "<html>login</html>"))
    with pytest.raises(ForgeError, match="not JSON"):
        result_of(handler, lambda client, _: client.get("x"), clock)


def test_a_host_that_does_not_answer_is_abandoned_at_the_timeout(clock):
    async def silent(request):
        await asyncio.Event().wait()

    with pytest.raises(ForgeError, match="no answer within"):
        result_of(
            silent, lambda client, _: client.get("x"), clock, bounds=RestLimits(total_seconds=0.05)
        )
    assert clock.slept == [1.0, 2.0, 4.0]


def test_an_unreachable_host_is_named(clock):
    async def work(client, url):
        async with RestClient(
            "http://127.0.0.1:9", headers={}, clock=clock, token=forge_token(PLANTED)
        ) as nobody:
            await nobody.send("POST", "x", {})

    handler, _ = answers(OK)
    with pytest.raises(ForgeError, match=r"127\.0\.0\.1:9 failed") as caught:
        result_of(handler, work, clock)
    assert not caught.value.unsure
    assert len(clock.slept) == 3


def collected(client, path="list", **more):
    async def work():
        return [item async for item in client.items(path, **more)]

    return work()


def test_pages_are_followed_by_the_link_header_to_the_last(clock):
    async def handler(request):
        page = int(request.query.get("page", "1"))
        links = (
            f'<{request.url.with_query(page=page + 1)}>; rel="next", <x>; rel="last"'
            if page < 3
            else ""
        )
        return aiohttp.web.json_response([{"page": page}], headers={"Link": links})

    items = result_of(handler, lambda client, _: collected(client, query={"a": "b"}), clock)
    assert items == [{"page": 1}, {"page": 2}, {"page": 3}]


@pytest.mark.parametrize("target", ["https://evil.example/x", "http://127.0.0.1:1/x", "//evil/x"])
def test_a_next_page_on_another_host_is_not_requested(clock, target):
    handler, came = answers((200, {"Link": f'<{target}>; rel="next"'}, "[]"))
    with pytest.raises(ForgeError, match="another host"):
        result_of(handler, lambda client, _: collected(client), clock)
    assert len(came) == 1


def test_an_endless_list_of_pages_is_aborted(clock):
    handler, came = answers((200, {"Link": '</list?page=2>; rel="next"'}, "[]"))
    with pytest.raises(ForgeError, match="more than"):
        result_of(handler, lambda client, _: collected(client), clock, bounds=RestLimits(pages=5))
    assert len(came) == 5


@pytest.mark.parametrize("body", ["{}", "[1]", '{"runs": 1}', "null"])
def test_a_response_that_is_not_a_list_is_refused(clock, body):
    handler, _ = answers((200, {}, body))
    with pytest.raises(ForgeError, match="list"):
        result_of(
            handler,
            lambda client, _: collected(client, field="runs" if "runs" in body else ""),
            clock,
        )


def test_a_download_is_redirected_to_the_signed_address_without_the_token(clock):
    headers = []

    async def handler(request):
        headers.append(dict(request.headers))
        if request.path == "/zip":
            return aiohttp.web.Response(
                status=302, headers={"Location": f"http://{request.host}/blob"}
            )
        return aiohttp.web.Response(body=b"content")

    assert (
        result_of(handler, lambda client, _: client.download("zip", max_bytes=100), clock)
        == b"content"
    )
    assert "Authorization" in headers[0]
    assert "Authorization" not in headers[1]
    with pytest.raises(ForgeError, match="larger than"):
        result_of(handler, lambda client, _: client.download("zip", max_bytes=3), clock)


def test_a_download_over_plain_http_is_refused(clock):
    handler, _ = answers((302, {"Location": "http://store.example/x"}, ""))
    with pytest.raises(ForgeError, match="not https"):
        result_of(handler, lambda client, _: client.download("zip", max_bytes=3), clock)


@pytest.mark.parametrize(
    "address",
    [
        "",
        "api.github.com",
        "ftp://x",
        "http://api.github.com",
        "https://me:pw@x",
        "https://x?y",
        "http://10.0.0.1",
        "https://",
    ],
)
def test_an_invalid_or_unprotected_address_is_refused(address):
    with pytest.raises(UsageError):
        checked_address(address)


def test_a_loopback_or_tls_address_is_accepted():
    assert checked_address("https://ghe.example/api/v3/") == "https://ghe.example/api/v3"
    assert checked_address("http://127.0.0.1:1") == "http://127.0.0.1:1"
    assert checked_address("http://[::1]:1/") == "http://[::1]:1"


def test_no_text_contains_the_token(clock):
    token = forge_token(f" {PLANTED}\n")
    displayed_text = f"{token} {token!r} {token:>10} {[token]}"
    assert PLANTED not in displayed_text
    with pytest.raises(TypeError):
        pickle.dumps(token)
    for text in ("", "  ", "a b", "a\nb", "ä"):
        with pytest.raises(UsageError) as caught:
            forge_token(text)
        assert not text.strip() or text not in str(caught.value)
    handler, _ = answers((422, {}, json.dumps({"message": f"what is {PLANTED}?"})))
    with pytest.raises(ForgeError) as caught:
        result_of(handler, lambda client, _: client.get("x"), clock)
    assert PLANTED not in "".join(traceback.format_exception(caught.value))


def test_messages_of_a_host_are_shortened_to_one_line():
    text = error_text(
        HttpResponse(status=500, body=json.dumps({"message": "a\n::error::b" + "x" * 999}).encode())
    )
    assert "\n" not in text
    assert len(text) < 310
    for body in (b"[]", b"\xff", b"[" * 100_000, b'{"message": {"base": ["bad"]}}'):
        assert isinstance(error_text(HttpResponse(status=500, body=body)), str)


def test_a_netrc_entry_for_the_host_is_not_sent(clock, tmp_path, monkeypatch):
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login me password netrc-planted\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    headers = []

    async def handler(request):
        headers.append(request.headers["Authorization"])
        return aiohttp.web.json_response({})

    result_of(handler, lambda client, _: client.get("x"), clock)
    assert headers == [f"Bearer {PLANTED}"]


def test_a_rate_limit_without_a_wait_time_is_not_retried_immediately(clock):
    handler, _ = answers(*[(429, {"Retry-After": "0"}, "{}")] * 5, OK)
    assert result_of(handler, lambda client, _: client.get("x"), clock) == {"ok": True}
    assert clock.slept == [1.0] * 5
    handler, came = answers((429, {"Retry-After": "0"}, "{}"))
    with pytest.raises(ForgeError, match="answered 429"):
        result_of(handler, lambda client, _: client.get("x"), clock)
    assert len(came) == 181
