"""The server for probes and scrapes."""

import asyncio

import aiohttp
import pytest

from reconciler.errors import ConfigError
from reconciler.metrics import HealthServer, ListenAddress, Metrics, address
from reconciler.metrics.server import LONGEST_LINE, MOST_LINES
from tests.leaked_sockets import STEPS, leaks

LOCAL = ListenAddress(host="127.0.0.1", port=0)


def response_of(path, *, method="GET", healthy=list, ready=list, headers=None):
    async def ask():
        async with (
            HealthServer(LOCAL, metrics=Metrics(), healthy=healthy, ready=ready) as server,
            aiohttp.ClientSession() as session,
            session.request(
                method, f"http://127.0.0.1:{server.port}{path}", headers=headers
            ) as answer,
        ):
            return answer.status, await answer.text(), answer.headers["Content-Type"]

    return asyncio.run(ask())


def broken():
    raise RuntimeError("user=alice")


def test_probes_answer_ok_or_list_the_problems_line_by_line():
    assert response_of("/healthz")[:2] == (200, "ok\n")
    assert response_of("/readyz", ready=lambda: ["no lease", "no pass yet"])[:2] == (
        503,
        "no lease\nno pass yet\n",
    )
    assert response_of("/healthz", ready=lambda: ["no lease"])[0] == 200


def test_responses_are_bounded_and_a_problem_cannot_forge_a_line():
    status, text, _ = response_of("/readyz", ready=lambda: ["x" * 500 + "\nok"] * 50)
    lines = text.splitlines()
    assert status == 503
    assert len(lines) == MOST_LINES + 1
    assert lines[-1] == "and 30 more"
    assert max(map(len, lines)) == LONGEST_LINE


def test_a_check_that_raises_is_a_problem_that_names_only_the_exception_class():
    assert response_of("/healthz", healthy=broken)[:2] == (
        503,
        "the check itself failed: RuntimeError\n",
    )


def test_other_paths_and_methods_are_refused():
    assert response_of("/")[0] == 404
    assert response_of("/metrics", method="POST")[0] == 405
    assert response_of("/metrics", method="HEAD")[:2] == (200, "")


def test_a_listen_address_in_use_is_a_configuration_error():
    async def twice():
        arguments = {"metrics": Metrics(), "healthy": list, "ready": list}
        async with HealthServer(LOCAL, **arguments) as first:
            with pytest.raises(ConfigError, match=r"cannot listen on 127\.0\.0\.1"):
                await HealthServer(
                    ListenAddress(host="127.0.0.1", port=first.port), **arguments
                ).__aenter__()

    asyncio.run(twice())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("127.0.0.1:9180", ListenAddress(host="127.0.0.1", port=9180)),
        (":9180", ListenAddress(host="", port=9180)),
        ("[::1]:0", ListenAddress(host="::1", port=0)),
        ("localhost:80", ListenAddress(host="localhost", port=80)),
    ],
)
def test_listen_addresses_are_parsed(text, expected):
    assert address(text) == expected


@pytest.mark.parametrize(
    "text", ["", "9180", "host", "::1:80", "host:http", "host:70000", "[host]:1", "a:b:1"]
)
def test_invalid_listen_addresses_are_refused(text):
    with pytest.raises(ConfigError):
        address(text)


@pytest.mark.parametrize("steps", STEPS)
def test_a_connection_in_any_step_of_being_accepted_is_closed_with_the_server(steps: int):
    server = HealthServer(LOCAL, metrics=Metrics(), healthy=list, ready=list)
    assert leaks(server, lambda running: running.port, steps=steps) == []
