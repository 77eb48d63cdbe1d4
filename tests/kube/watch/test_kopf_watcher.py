"""The settings of Kopf as a watcher: it writes nothing, and needs no right that the chart does not grant."""

import asyncio
import gc

import pytest

from reconciler.kube.api.custom_resources import FINALIZER
from reconciler.kube.watch.kopf_watcher import ignore_abandoned_tasks, settings


def test_kopf_does_not_use_the_finalizer_of_kquota():
    # Kopf removes its finalizer from every object that no deletion handler needs.
    assert settings().persistence.finalizer != FINALIZER


def test_kopf_posts_no_events_and_watches_no_definitions():
    kopf_settings = settings()
    assert kopf_settings.posting.enabled is False
    assert kopf_settings.scanning.disabled is True


def test_a_stop_does_not_wait_for_events_that_kopf_has_not_handled():
    assert settings().queueing.exit_timeout == 0


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
