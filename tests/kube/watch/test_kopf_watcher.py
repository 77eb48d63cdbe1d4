"""The settings of Kopf as a watcher: it writes nothing, and needs no right that the chart does not grant."""

import asyncio
import gc

import pytest

from reconciler.kube.watch.kopf_watcher import ignore_abandoned_tasks


@pytest.mark.parametrize("is_abandoned", [True, False])
def test_the_error_of_an_abandoned_task_of_kopf_is_not_logged_and_others_are(
    is_abandoned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail() -> None:
        raise RuntimeError("Connection closed.")

    def fail_at_once() -> None:
        raise RuntimeError("a bug")

    async def story() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(ignore_abandoned_tasks)
        if is_abandoned:
            task = loop.create_task(fail())
            _ = await asyncio.wait({task})
            del task
            _ = gc.collect()
        else:
            _ = loop.call_soon(fail_at_once)
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    asyncio.run(story())
    assert ("RuntimeError" in caplog.text) is not is_abandoned
