"""Tests of each fault, in front of a broker that responds to every frame."""

import gc
import socket
import socketserver
import struct
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.servers import ping
from tests.servers.fault_proxy import FaultProxy
from tests.servers.faults import DESCRIBE_CLIENT_QUOTAS, Action, Fault, shift_correlation, throttle
from tests.servers.processes import HANG_SECONDS

BODY = struct.pack(">ih", 0, 0) + b"the answer"


class Answering(socketserver.StreamRequestHandler):
    """Responds to each frame with its correlation id and `BODY`."""

    def handle(self) -> None:
        while len(size := self.rfile.read(4)) == 4:
            frame = self.rfile.read(*struct.unpack(">i", size))
            self.server.frames.append(frame)
            self.server.told.set()
            answer = frame[4:8] + BODY
            self.wfile.write(struct.pack(">i", len(answer)) + answer)


@contextmanager
def broker() -> Iterator[socketserver.ThreadingTCPServer]:
    """Start a fake broker that records the received frames."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Answering) as server:
        server.daemon_threads = True
        server.frames, server.told = [], threading.Event()
        serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        serving.start()
        yield server
        server.shutdown()
        serving.join()


@pytest.fixture
def upstream() -> Iterator[socketserver.ThreadingTCPServer]:
    with broker() as server:
        yield server


@pytest.fixture
def proxy(upstream: socketserver.ThreadingTCPServer) -> Iterator[FaultProxy]:
    with FaultProxy(upstream.server_address[1]) as running:
        yield running


def ask(proxy: FaultProxy, key: int = DESCRIBE_CLIENT_QUOTAS) -> bytes:
    return ping.call(proxy.port, key, 0, b"body", seconds=60)


def test_without_faults_everything_passes_and_is_recorded(proxy: FaultProxy) -> None:
    assert ask(proxy) == BODY
    (request,) = proxy.requests
    assert (request.api_key, request.api_version, request.client_id) == (48, 0, "ping")
    assert proxy.count(48) == 1
    assert proxy.count(49) == 0


def test_a_request_can_be_cut_before_it_reaches_the_broker(
    proxy: FaultProxy, upstream: socketserver.ThreadingTCPServer
) -> None:
    planted = proxy.plant(Fault(action=Action.CUT_BEFORE, api_key=49))
    assert ask(proxy, 48) == BODY
    with pytest.raises(ConnectionError):
        ask(proxy, 49)
    assert planted.reached.is_set()
    assert len(upstream.frames) == 1


def test_a_response_can_be_lost_after_the_broker_sent_it(
    proxy: FaultProxy, upstream: socketserver.ThreadingTCPServer
) -> None:
    proxy.plant(Fault(action=Action.LOSE_ANSWER, nth=2))
    assert ask(proxy) == BODY
    with pytest.raises(ConnectionError):
        ask(proxy)
    assert len(upstream.frames) == 2
    assert ask(proxy) == BODY


def test_a_repeated_fault_applies_until_it_is_removed(proxy: FaultProxy) -> None:
    proxy.plant(Fault(action=Action.LOSE_ANSWER, repeat=True))
    for _ in range(2):
        with pytest.raises(ConnectionError):
            ask(proxy)
    proxy.heal()
    assert ask(proxy) == BODY


def test_a_response_can_be_truncated(proxy: FaultProxy) -> None:
    proxy.plant(Fault(action=Action.TRUNCATE, keep_bytes=6))
    with ping.connected(proxy.port) as connection:
        connection.sendall(struct.pack(">ihhih", 10, 48, 0, 7, 0))
        assert len(connection.recv(4096)) == 6
        assert connection.recv(4096) == b""


@pytest.mark.parametrize("action", [Action.HOLD_ANSWER, Action.HOLD_REQUEST])
def test_a_held_call_returns_after_its_release(proxy: FaultProxy, action: Action) -> None:
    planted = proxy.plant(Fault(action=action))
    answers: list[bytes] = []
    asking = threading.Thread(target=lambda: answers.append(ask(proxy)))
    asking.start()
    planted.wait_reached()
    assert answers == []
    planted.release()
    asking.join()
    assert answers == [BODY]


def test_a_held_request_does_not_reach_the_broker(
    proxy: FaultProxy, upstream: socketserver.ThreadingTCPServer
) -> None:
    planted = proxy.plant(Fault(action=Action.HOLD_REQUEST))
    with ping.connected(proxy.port) as connection:
        connection.sendall(struct.pack(">ihhih", 10, 48, 0, 7, 0))
        planted.wait_reached()
        assert upstream.frames == []
        planted.release()
        assert upstream.told.wait(HANG_SECONDS)


def test_a_hanging_call_times_out(proxy: FaultProxy) -> None:
    proxy.plant(Fault(action=Action.HOLD_ANSWER))
    with pytest.raises(TimeoutError):
        ping.call(proxy.port, 48, 0, b"", seconds=0.05)


def test_a_response_can_be_repeated(proxy: FaultProxy) -> None:
    proxy.plant(Fault(action=Action.DUPLICATE))
    with ping.connected(proxy.port) as connection:
        connection.sendall(struct.pack(">ihhih", 10, 48, 0, 7, 0))
        once = struct.pack(">ii", 4 + len(BODY), 7) + BODY
        assert ping.receive(connection, 2 * len(once)) == once + once


def test_a_response_can_have_another_correlation_id(proxy: FaultProxy) -> None:
    proxy.plant(Fault(action=Action.EDIT, edit=shift_correlation(5)))
    with pytest.raises(ping.CallFailed, match="foreign correlation id"):
        ask(proxy)


def test_a_response_can_have_a_throttle_time(proxy: FaultProxy) -> None:
    proxy.plant(Fault(action=Action.EDIT, edit=throttle(1234)))
    assert struct.unpack_from(">i", ask(proxy)) == (1234,)


def test_a_refusing_proxy_closes_old_and_new_connections(proxy: FaultProxy) -> None:
    with ping.connected(proxy.port) as connection:
        assert ping.exchange(connection, 48, 0, b"") == BODY
        proxy.refuse()
        assert connection.recv(1) == b""
    with pytest.raises(ConnectionError):
        ask(proxy)
    proxy.heal()
    assert ask(proxy) == BODY


def test_a_stopped_broker_is_a_closed_connection(upstream: socketserver.ThreadingTCPServer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = nobody.getsockname()[1]
    with FaultProxy(port) as proxy:
        with pytest.raises(ConnectionError):
            ask(proxy)
        proxy.point_at(upstream.server_address[1])
        assert ask(proxy) == BODY


def test_a_connection_during_the_end_of_a_proxy_is_closed() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ResourceWarning)
        for _ in range(20):
            clients = [socket.socket() for _ in range(5)]
            with FaultProxy() as proxy:
                for client in clients:
                    client.setblocking(False)
                    client.connect_ex(("127.0.0.1", proxy.port))
            for client in clients:
                client.close()
        gc.collect()
    assert [str(warning.message) for warning in caught] == []
