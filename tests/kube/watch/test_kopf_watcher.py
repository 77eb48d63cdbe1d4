"""What Kopf is told before it watches for us: it writes nothing, and asks for no right that the chart does not give."""

import asyncio
import threading

from reconciler.kube.api.custom_resources import FINALIZER
from reconciler.kube.watch.kopf_watcher import _wait_for_task_end, settings


def test_kopf_does_not_take_our_finalizer_for_its_own():
    # It takes its own off every object that no handler of deletions needs it on.
    assert settings().persistence.finalizer != FINALIZER


def test_kopf_posts_no_events_and_watches_no_definitions():
    made = settings()
    assert made.posting.enabled is False
    assert made.scanning.disabled is True


def test_a_watch_that_ended_is_noticed_by_its_task_and_named():
    async def story() -> str:
        async def refused() -> None:
            await asyncio.sleep(0.3)
            raise PermissionError("clientquotas is forbidden", {"the": "whole answer"})

        one = asyncio.create_task(refused(), name="watcher for clientquotas.v1alpha1@team")
        other = asyncio.create_task(asyncio.sleep(60), name="watcher for secrets.v1@ops")
        over = asyncio.Event()
        why = await _wait_for_task_end(["clientquotas", "secrets"], threading.Event(), over)
        assert over.is_set()
        assert one.done()
        _ = other.cancel()
        return why

    why = asyncio.run(story())
    assert why == "the watcher for clientquotas.v1alpha1@team ended: clientquotas is forbidden"


def test_who_is_halted_does_not_begin_anew():
    async def story() -> str:
        halt = threading.Event()
        halt.set()
        return await _wait_for_task_end(["clientquotas"], halt, asyncio.Event())

    assert asyncio.run(story()) == ""
