"""The servers of tests leak no socket when they are closed while they accept a connection.

Such a socket would fail the test in which Python removes it, long after the test that leaked it.
"""

from collections.abc import Callable

import pytest

from tests.fakes.relay import Relay
from tests.fakes.scripted_broker import ScriptedBroker
from tests.leaked_sockets import STEPS, leaks


@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize("start", [lambda: Relay(9), ScriptedBroker], ids=["relay", "broker"])
def test_a_connection_in_any_step_of_being_accepted_is_closed(
    start: Callable[[], Relay | ScriptedBroker], steps: int
) -> None:
    assert leaks(start(), lambda running: running.port, steps=steps) == []
