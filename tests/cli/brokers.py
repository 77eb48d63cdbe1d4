"""A sandbox in a separate thread, so that tests can call `main([...])` as a shell would."""

import asyncio
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, Self

from reconciler.sandbox import Fault, Sandbox, SandboxSettings
from reconciler.sandbox.faults import Hold

READY_SECONDS = 120
ONE_BROKER = SandboxSettings(cluster_id="AAAAAAAAAAAAAAAAAAAAAA")


class SandboxThread:
    """A running sandbox between `__enter__` and `__exit__`."""

    def __init__(self, sandbox: Sandbox | SandboxSettings = ONE_BROKER) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self.sandbox = sandbox if isinstance(sandbox, Sandbox) else Sandbox(sandbox)

    def __enter__(self) -> Self:
        self._thread.start()
        self._call(self.sandbox.__aenter__)
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End the sandbox like a killed broker; its port then refuses connections."""
        if self._loop.is_closed():
            return
        self._call(self._end)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(READY_SECONDS)
        self._loop.close()

    async def _end(self) -> None:
        """Stop the brokers, then end connections that were accepted at the same moment."""
        await self.sandbox.__aexit__(None, None, None)
        accepted = asyncio.all_tasks() - {asyncio.current_task()}
        for task in accepted:
            task.cancel()
        _ = await asyncio.gather(*accepted, return_exceptions=True)

    @property
    def bootstrap(self) -> str:
        return self.sandbox.bootstrap()

    def seed(self, values: Mapping[Any, Mapping[str, float]]) -> None:
        """Store values without validation."""

        async def work() -> None:
            self.sandbox.seed(values)

        self._call(work)

    def fail(self, fault: Fault) -> None:
        """Plan a fault."""

        async def work() -> None:
            self.sandbox.fail(fault)

        self._call(work)

    def hold_request(
        self, *, api: int, skip: int = 0, executed: bool = False
    ) -> Callable[[], object]:
        """Hold a request, or, if executed, its response; the result releases it."""
        until = asyncio.Event()
        self.fail(Fault(effect=Hold(until=until, executed=executed), api=api, skip=skip))
        return lambda: self._loop.call_soon_threadsafe(until.set)

    def values(self) -> dict[Any, dict[str, float]]:
        """The stored quotas."""
        return self.sandbox.values()

    def _call(self, work: Callable[[], Any]) -> None:
        done: Future[Any] = asyncio.run_coroutine_threadsafe(work(), self._loop)
        done.result(READY_SECONDS)
