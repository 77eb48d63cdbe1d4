"""Tests of listeners of a client's events."""

import asyncio

from reconciler.client.events import ClientEvents, Rebootstrapped, emit
from tests.client.support import on_loop


@on_loop
async def test_an_exception_of_a_listener_goes_to_the_event_loop_and_not_into_the_protocol() -> (
    None
):
    caught: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: caught.append(context))

    def bad(_: object) -> None:
        raise RuntimeError("listener")

    emit(ClientEvents(rebootstrap=bad).rebootstrap, Rebootstrapped(reason="x"))
    assert "Rebootstrapped" in str(caught[0]["message"])


def test_listeners_do_nothing_by_default() -> None:
    events = ClientEvents()
    assert {getattr(events, name)(object()) for name in ClientEvents.__struct_fields__} == {None}
