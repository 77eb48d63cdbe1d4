"""Recorded responses of brokers against the sent writes of a store; a contradicting broker is named."""

import asyncio
from typing import Any

from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from reconciler.quota.state import Alteration, Applied, Rejected, Result, Unknown
from tests.e2e.recorder import RecordedStore, Recording

ALICE = entity(user="alice")
RATE = Key.PRODUCER_BYTE_RATE


class Answering:
    """A store that returns one response without an effect."""

    def __init__(self, answer: Result) -> None:
        self.answer = answer
        self.observe = self.cluster = self.describe = self.wait_visible = None

    async def alter(self, alterations: Any, *, results: Any, progress: Any = None) -> Any:
        results.update({alteration.entity: self.answer for alteration in alterations})
        return results


def row(value: float | None) -> dict[Any, Any]:
    return {} if value is None else {ALICE: (value, None, None, None, None)}


def contradictions(answer: Result, *values: float | None) -> list[str]:
    """Alice has 1, a write of 2 is answered, and one broker shows some values."""
    store: Any = RecordedStore(Answering(answer))
    _ = asyncio.run(store.alter([Alteration(ALICE, ((str(RATE), 2.0),))]))
    recording = Recording()
    for value in values:
        recording.take(7, row(value))
    return recording.contradictions(row(1.0), store)


def test_values_that_the_results_explain_are_no_contradiction() -> None:
    assert contradictions(Applied(), 1.0, 2.0) == []
    assert contradictions(Unknown(reason="cut off"), 1.0) == []
    assert contradictions(Unknown(reason="cut off"), 1.0, 2.0) == []


def test_a_broker_that_shows_a_value_without_a_write_is_named() -> None:
    refused = Rejected(code=42, name="INVALID_REQUEST", message="no")
    for values in ((1.0, 2.0), (1.0, None)):
        (problem,) = contradictions(refused, *values)
        assert "broker 7 shows" in problem
    assert contradictions(Unknown(reason="cut off"), 1.0, 2.0, 1.0)
