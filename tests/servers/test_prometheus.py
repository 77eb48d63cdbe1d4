"""Tests of the fixtures for Prometheus, Alertmanager and promtool."""

import contextlib
import http.client
import json
import threading

import pytest

from tests.servers import prometheus
from tests.servers.inbox import Inbox
from tests.servers.jars import ServersUnavailable
from tests.servers.processes import HANG_SECONDS
from tests.servers.prometheus import Alertmanager, CheckFailed, Prometheus, until

NOBODY = {"route": {"receiver": "nobody"}, "receivers": [{"name": "nobody"}]}


def test_a_download_that_is_not_the_pinned_one_is_refused(tmp_path):
    file = tmp_path / "a.deb"
    file.write_bytes(b"something else")
    with pytest.raises(ServersUnavailable, match="is pinned"):
        prometheus.check(file, "0" * 64)


def test_a_compiled_in_path_becomes_a_relative_one_of_the_same_length():
    program = b"\x00/usr/share/a\x00/usr/share/a/ui\x00"
    moved = prometheus.relocated(program, "/usr/share/a")
    assert moved == b"\x00usr/share//a\x00usr/share//a/ui\x00"
    assert len(moved) == len(program)


def test_waiting_returns_the_awaited_value_or_reports_details():
    with pytest.raises(AssertionError, match=r"the bell: not within 0 s\. silence"):
        until(bool, seconds=0.0, doing="the bell", details=lambda: "silence")
    assert until(lambda: True, seconds=1.0, doing="nothing") < 1.0


def posted(inbox: Inbox) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", inbox.port, timeout=60)
    with contextlib.closing(connection):
        connection.request("POST", "/here", body=b'{"a": 1}')
        return connection.getresponse().status


def test_an_inbox_stores_requests_and_gives_the_configured_responses():
    with Inbox(status=503) as inbox:
        assert posted(inbox) == 503
        inbox.status = 200
        later = threading.Timer(0.05, posted, (inbox,))
        later.start()
        waited = inbox.wait(
            lambda _: len(inbox.posts) == 2, seconds=HANG_SECONDS, doing="the second"
        )
        assert waited < HANG_SECONDS
        later.join()
    assert {(post.path, post.json["a"]) for post in inbox.posts} == {("/here", 1)}


@pytest.mark.integration
def test_promtool_reports_errors(tmp_path):
    file = tmp_path / "rules.json"
    file.write_text(
        json.dumps({"groups": [{"name": "g", "rules": [{"record": "a", "expr": "1 +"}]}]})
    )
    with pytest.raises(CheckFailed, match="parse error"):
        prometheus.promtool("check", "rules", str(file))


@pytest.mark.integration
def test_both_servers_start_answer_and_end():
    with Alertmanager(NOBODY) as alertmanager, Prometheus({}) as server:
        assert alertmanager.get("/api/v2/alerts") == []
        assert server.values("vector(3)") == {(): 3.0}
        assert server.firing() == set()
    with pytest.raises(OSError, match="refused"):
        server.get("/api/v1/alerts")


@pytest.mark.integration
def test_the_output_of_a_server_that_does_not_start_is_quoted():
    with pytest.raises(AssertionError, match=r"prometheus ended: .*not a valid duration"):
        Prometheus({"global": {"scrape_interval": "often"}}).__enter__()
