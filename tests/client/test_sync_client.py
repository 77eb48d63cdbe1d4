"""The blocking client: the same API, usable inside a running loop and from several threads, closed after Ctrl-C."""

import asyncio
import contextlib
import inspect
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from reconciler.client.client_config import ClientConfig
from reconciler.client.events import ClientEvents
from reconciler.client.quota_client import QuotaClient
from reconciler.client.sync_client import SyncQuotaClient
from reconciler.errors import ClientError, QuotaValueError
from reconciler.quota.entity import Entity
from reconciler.quota.precedence import Principal, Resolution
from reconciler.quota.state import Applied, Result, Unknown
from reconciler.wire.apis import ALTER_CLIENT_QUOTAS
from tests.client.support import ALICE, BOB, RATE, config, setting
from tests.fakes import scripted_broker as acts
from tests.fakes.scripted_broker import ScriptedBroker
from tests.servers.processes import HANG_SECONDS


@contextmanager
def broker_in_a_thread() -> Iterator[ScriptedBroker]:
    """A scripted broker in another event loop, because the tests block theirs."""
    ready, stop = threading.Event(), threading.Event()
    brokers: list[ScriptedBroker] = []

    async def serve() -> None:
        async with ScriptedBroker() as broker:
            brokers.append(broker)
            ready.set()
            await asyncio.to_thread(stop.wait)

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    assert ready.wait(HANG_SECONDS)
    try:
        yield brokers[0]
    finally:
        stop.set()
        thread.join()


def test_every_call_has_a_blocking_equivalent_with_the_same_signature_and_a_docstring() -> None:
    def signatures(kind: type) -> dict[str, inspect.Signature]:
        return {
            name: inspect.signature(member)
            for name, member in vars(kind).items()
            if inspect.isfunction(member) and not name.startswith("_")
        }

    assert signatures(SyncQuotaClient) == signatures(QuotaClient)
    assert all(getattr(SyncQuotaClient, name).__doc__ for name in signatures(SyncQuotaClient))


def test_changes_are_sent_awaited_and_resolved_without_an_event_loop_of_the_caller() -> None:
    with broker_in_a_thread() as broker, SyncQuotaClient(config(broker)) as client:
        assert client.alter([setting(ALICE), setting(BOB)]) == {ALICE: Applied(), BOB: Applied()}
        assert client.wait_visible([setting(ALICE)]).everywhere
        assert set(client.describe().limits) == {ALICE, BOB}
        alice = Principal(user="alice", client_id="app")
        resolution = client.resolve([alice])[alice]
        assert isinstance(resolution, Resolution)
        assert resolution.effective[0].source == ALICE
        assert client.cluster().id == "test-cluster"
        assert client.quota_callback() is None
        assert client.login_error is None


def test_the_client_can_be_used_in_the_thread_of_a_running_loop() -> None:
    async def cell_of_a_notebook(broker: ScriptedBroker) -> int:
        with SyncQuotaClient(config(broker)) as client:
            return len(client.describe().limits)

    with broker_in_a_thread() as broker:
        assert asyncio.run(cell_of_a_notebook(broker)) == 0


def test_many_threads_may_share_a_client() -> None:
    with (
        broker_in_a_thread() as broker,
        SyncQuotaClient(config(broker)) as client,
        ThreadPoolExecutor(8) as pool,
    ):
        states = list(pool.map(lambda _: client.describe(), range(40)))
    assert len(states) == 40


def test_errors_are_those_of_the_asynchronous_client() -> None:
    with (
        broker_in_a_thread() as broker,
        SyncQuotaClient(config(broker)) as client,
        pytest.raises(QuotaValueError, match="twice"),
    ):
        client.alter([setting(ALICE), setting(ALICE)])


def test_ctrl_c_ends_the_call_before_it_is_raised_so_that_the_results_are_final() -> None:
    results: dict[Entity, Result] = {}
    main = threading.main_thread().ident
    assert main is not None

    def interrupt(event: object) -> None:
        if getattr(event, "api", "") == ALTER_CLIENT_QUOTAS.name:
            signal.pthread_kill(main, signal.SIGINT)

    with broker_in_a_thread() as broker:
        broker.on(ALTER_CLIENT_QUOTAS, acts.silence)
        with SyncQuotaClient(config(broker), events=ClientEvents(request=interrupt)) as client:
            with pytest.raises(KeyboardInterrupt):
                client.alter([setting(ALICE)], results=results)
            assert isinstance(results[ALICE], Unknown)


def test_a_closed_client_refuses_and_a_second_close_does_nothing() -> None:
    client = SyncQuotaClient(ClientConfig.from_mapping({"bootstrap.servers": "127.0.0.1:1"}))
    client.close()
    client.close()
    with pytest.raises(RuntimeError, match="closed"):
        client.describe()


def test_a_callback_that_calls_its_own_client_is_refused_instead_of_blocking() -> None:
    refusals: list[BaseException] = []
    with broker_in_a_thread() as broker:

        def call_back(phase: str, done: int, total: int) -> None:
            try:
                client.describe()
            except RuntimeError as error:
                refusals.append(error)

        with SyncQuotaClient(config(broker)) as client:
            client.alter([setting(ALICE, 1.0, RATE)], progress=call_back)
    assert "wait for itself" in str(refusals[0])


def test_two_threads_may_close_while_others_call() -> None:
    with broker_in_a_thread() as broker:
        for _ in range(20):
            our = SyncQuotaClient(config(broker))
            faults: list[RuntimeError] = []

            def call(our: SyncQuotaClient = our) -> None:
                with contextlib.suppress(RuntimeError, asyncio.CancelledError, ClientError):
                    while True:
                        our.describe()

            def close(our: SyncQuotaClient = our, faults: list[RuntimeError] = faults) -> None:
                try:
                    our.close()
                except RuntimeError as error:
                    faults.append(error)

            threads = [threading.Thread(target=work) for work in (call, call, close, close)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(HANG_SECONDS)
            assert not any(thread.is_alive() for thread in threads)
            assert faults == []
