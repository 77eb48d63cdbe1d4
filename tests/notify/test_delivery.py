"""Delivery over real sockets: retries, delays, final errors, and addresses that stay secret."""

import asyncio
import logging
import pickle

import pytest
from msgspec.structs import replace

from reconciler.base.http.client import HttpClient
from reconciler.base.http.retry import POLICIES, Peer
from reconciler.base.listeners import close_listeners
from reconciler.errors import ConfigError, NotifyError
from reconciler.notify.delivery import deliver
from reconciler.notify.endpoint import endpoint
from reconciler.notify.shapes import SHAPES, MessageShape
from tests.fakes.clock import FakeClock
from tests.notify.receivers import ALICE, NOW, PATH, Answer, Receiver, message

SECRETS = ("T0SECRET", "B0SECRET")


RETRY = POLICIES[Peer.RECEIVER]


def delivered(*answers: Answer):
    """`(error or none, received requests, delays)` of one message."""

    async def story():
        clock = FakeClock(NOW)
        async with Receiver(*answers) as receiver, HttpClient(seconds=60) as client:
            to = endpoint("webhook=env:HOOK", receiver.url)
            request = SHAPES[MessageShape.WEBHOOK](message(ALICE))
            try:
                result = await deliver(client, to, request, clock=clock, random=lambda: 0.0)
            except NotifyError as error:
                result = error
            return result, receiver.got, clock.slept

    return asyncio.run(story())


def test_a_message_that_is_accepted_is_sent_once():
    error, got, slept = delivered()
    assert (error, slept, len(got)) == (None, [], 1)
    assert got[0].path == PATH


def test_a_message_to_a_failing_receiver_is_sent_again_with_the_same_bytes():
    error, got, slept = delivered(Answer(status=500), Answer(status=503), Answer())
    assert (error, len(got)) == (None, 3)
    assert slept == [0.5, 1.0]
    assert len({(post.body, post.headers["X-Kquota-Delivery"]) for post in got}) == 1


def test_a_permanent_error_is_not_retried():
    error, got, _ = delivered(Answer(status=404, text="no_service"))
    assert (error.status, error.attempts, len(got)) == (404, 1, 1)
    assert "webhook=env:HOOK: http://127.0.0.1:" in str(error)
    assert "answered 404 (no_service) after 1 try" in str(error)
    assert error.hint == "the address is not valid any more"


def test_redirects_are_not_followed():
    error, got, _ = delivered(Answer(status=307, headers={"Location": "http://127.0.0.1:1/"}))
    assert error.status == 307
    assert len(got) == 1


def test_the_retry_after_of_a_receiver_is_used():
    assert delivered(Answer(status=429, headers={"Retry-After": "7"}), Answer())[2] == [7.0]
    date = {"Retry-After": "Tue, 14 Nov 2023 22:13:31 GMT"}  # 11 s after NOW
    assert delivered(Answer(status=429, headers=date), Answer())[2] == [11.0]
    for odd in ("soon", "-3", "1e3", "Tue, 99 Nov 2023"):
        assert delivered(Answer(status=429, headers={"Retry-After": odd}), Answer())[2] == [0.5]


def test_the_time_of_all_tries_is_limited():
    error, got, slept = delivered(Answer(status=429, headers={"Retry-After": "3600"}))
    assert (len(got), slept) == (1, [])
    assert "asks to wait 3600 s" in str(error)
    error, got, slept = delivered(Answer(status=500))
    assert (error.attempts, len(got)) == (5, 5)
    assert sum(slept) < RETRY.total_seconds


def test_a_hung_receiver_costs_one_deadline_per_try():
    async def story():
        over = asyncio.Event()

        async def silent(_reader, writer):
            await over.wait()
            writer.close()

        server = await asyncio.start_server(silent, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        to = endpoint("hook", f"http://127.0.0.1:{port}{PATH}")
        policy = replace(RETRY, tries=2, total_seconds=0.6)
        async with HttpClient(seconds=60) as client:
            with pytest.raises(
                NotifyError, match=r"could not be reached \(no answer within 0\.1 s\) after 2 tries"
            ):
                await deliver(
                    client,
                    to,
                    SHAPES[MessageShape.WEBHOOK](message(ALICE)),
                    clock=FakeClock(),
                    random=lambda: 0.0,
                    policy=policy,
                )
        over.set()
        await close_listeners([server])

    asyncio.run(story())


def refused(url: str) -> NotifyError:
    async def story():
        to = endpoint("hook", url)
        async with HttpClient(seconds=60) as client:
            await deliver(
                client,
                to,
                SHAPES[MessageShape.WEBHOOK](message(ALICE)),
                clock=FakeClock(),
                random=lambda: 0.0,
                policy=replace(RETRY, tries=1),
            )

    with pytest.raises(NotifyError) as caught:
        asyncio.run(story())
    return caught.value


def test_an_unreachable_receiver_is_reported_without_the_address():
    error = refused(f"http://127.0.0.1:1{PATH}?token=T0SECRET")
    assert str(error).startswith("hook: http://127.0.0.1:1 could not be reached (")
    assert not [secret for secret in SECRETS if secret in str(error)]
    assert error.__cause__ is None


def test_a_response_that_contains_secrets_is_quoted_without_them():
    error, _, _ = delivered(Answer(status=400, text=f"no service for {PATH}\x1b[31m" + "x" * 999))
    assert "no service for /<hidden>" in str(error)
    assert not [secret for secret in SECRETS if secret in str(error)]
    assert "\x1b" not in str(error)
    assert len(str(error)) < 300


def test_no_log_record_contains_a_secret(caplog):
    with caplog.at_level(logging.DEBUG):
        delivered(Answer(status=500), Answer())
        refused(f"http://127.0.0.1:1{PATH}")
        delivered(Answer(status=404, text=PATH))
    assert not [secret for secret in SECRETS if secret in caplog.text]


def test_an_endpoint_shows_scheme_host_and_port_only():
    hook = endpoint("hook", f" https://user:T0SECRET@hooks.example.com:8443{PATH}\n")
    assert hook.origin == "https://hooks.example.com:8443"
    for text in (repr(hook), str(hook), f"{hook.url}", f"{hook.url!r}"):
        assert not [secret for secret in SECRETS if secret in text]
    with pytest.raises(TypeError):
        pickle.dumps(hook)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "hooks.example.com",
        "ftp://x/T0SECRET",
        "https://",
        "https://a b/T0SECRET",
        "https://x:99999/T0SECRET",
        "https://[x/T0SECRET",
    ],
)
def test_an_invalid_address_is_refused_without_showing_it(url):
    with pytest.raises(ConfigError, match="webhook=env:HOOK") as caught:
        endpoint("webhook=env:HOOK", url)
    assert "T0SECRET" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "is_open"),
    [
        ("http://example.com/", True),
        ("https://example.com/", False),
        ("http://127.0.0.1/", False),
        ("http://[::1]:8/", False),
        ("http://localhost/", False),
    ],
)
def test_plain_http_to_another_machine_counts_as_unprotected(url, is_open):
    assert endpoint("hook", url).is_open is is_open
