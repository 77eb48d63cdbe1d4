"""A storm of watch events needs little memory and does not block the loop."""

import asyncio

from reconciler.kube.watch.kopf_watcher import EventBuffer


def quota(name, version=1, **metadata):
    named = {
        "name": name,
        "namespace": "team",
        "uid": f"uid-{name}",
        "resourceVersion": str(version),
    }
    return {"metadata": named | metadata, "spec": {"clusterRef": {"name": "prod"}}}


def story(test):
    async def run():
        events = []
        await test(
            EventBuffer(asyncio.get_running_loop(), lambda *event: events.append(event)), events
        )

    asyncio.run(run())


async def idle_turns():
    for _ in range(5):
        await asyncio.sleep(0)


def versions(events):
    return [(kind, obj.name, obj.version) for kind, obj in events]


def test_of_many_events_of_one_object_the_newest_is_delivered():
    async def test(buffer, events):
        for number in range(10_000):
            buffer.put("MODIFIED", quota("a", number))
        assert len(buffer) == 1
        await idle_turns()
        assert versions(events) == [("MODIFIED", "a", "9999")]
        assert len(buffer) == 0

    story(test)


def test_a_deletion_and_a_later_creation_with_the_same_name_are_delivered_in_order():
    async def test(buffer, events):
        buffer.put("MODIFIED", quota("a", 1))
        buffer.put("DELETED", quota("a", 2))
        buffer.put("ADDED", quota("a", 3, uid="another"))
        await idle_turns()
        assert versions(events) == [("DELETED", "a", "2"), ("ADDED", "a", "3")]

    story(test)


def test_a_listing_does_not_hide_an_earlier_change():
    async def test(buffer, events):
        buffer.put("MODIFIED", quota("a", 1))
        buffer.put("", quota("a", 2))
        buffer.put("", quota("b", 2))
        await idle_turns()
        assert versions(events) == [("MODIFIED", "a", "2"), ("", "b", "2")]

    story(test)
