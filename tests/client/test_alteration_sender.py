"""Tests of alter: chunks, three-valued outcomes, refusals before sending."""

import asyncio
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.client.alteration_sender import MAX_BYTES, split_into_chunks
from reconciler.client.client_config import ClientConfig
from reconciler.client.quota_client import QuotaClient
from reconciler.errors import QuotaValueError
from reconciler.quota.entity import ABSENT, DEFAULT, Entity, entity
from reconciler.quota.state import (
    ANY,
    MAX_OPERATIONS,
    Alteration,
    Applied,
    Component,
    Filter,
    OpenAlteration,
    Rejected,
    Result,
    Unknown,
)
from reconciler.sandbox import Sandbox, SandboxSettings, profile_named
from reconciler.wire.apis import ALTER_CLIENT_QUOTAS
from reconciler.wire.messages import alter_client_quotas
from tests.client.support import ALICE, BOB, RATE, Recorder, client, on_loop, setting
from tests.fakes import scripted_broker as acts
from tests.fakes.clock import FakeClock
from tests.fakes.scripted_broker import ScriptedBroker, Turn

KEYS = (RATE, "consumer_byte_rate", "request_percentage", "controller_mutation_rate")
FULL = MAX_OPERATIONS // len(KEYS)
"""The number of entities with all of these keys that fill a request."""


def many(count: int, operations: int = len(KEYS)) -> list[Alteration]:
    return [
        Alteration(
            entity=entity(user=f"user-{number:05}"),
            operations=tuple((key, 1000.0 + number) for key in KEYS[:operations]),
        )
        for number in range(count)
    ]


def sent(broker: ScriptedBroker) -> list[int]:
    """The number of entities in each alter request."""
    return [
        len(alter_client_quotas.decode_request(request.version, request.body).alterations)
        for request in broker.requests
        if request.api == ALTER_CLIENT_QUOTAS.name
    ]


@on_loop
async def test_validate_only_changes_nothing() -> None:
    async with ScriptedBroker() as broker, client(broker) as our:
        assert await our.alter([setting(ALICE)], validate_only=True) == {ALICE: Applied()}
        assert broker.quotas == {}


@on_loop
async def test_an_empty_alteration_sends_no_request() -> None:
    async with ScriptedBroker() as broker, client(broker) as our:
        assert await our.alter([]) == {}
        assert broker.requests == []


@on_loop
async def test_a_chunk_contains_as_many_operations_as_a_request_may_contain() -> None:
    total = 2 * FULL + 100
    async with ScriptedBroker() as broker, client(broker) as our:
        steps: list[tuple[str, int, int]] = []
        await our.alter(many(total), progress=lambda *step: steps.append(step))
        assert sent(broker) == [FULL, FULL, 100]
        assert steps == [("alter", at, total) for at in (FULL, 2 * FULL, total)]
        broker.requests.clear()
        await our.alter(many(MAX_OPERATIONS + 1, operations=1), validate_only=True)
        assert sent(broker) == [MAX_OPERATIONS, 1]


def policy_above(limit: int) -> acts.Act:
    async def act(turn: Turn) -> None:
        request = alter_client_quotas.decode_request(turn.header.api_version, turn.body)
        over = len(request.alterations) > limit
        await (
            acts.code(44, "Unable to perform excessively large batch operation.")
            if over
            else acts.answer
        )(turn)

    return act


@on_loop
async def test_one_entity_that_is_too_large_is_rejected() -> None:
    async with ScriptedBroker() as broker, client(broker) as our:
        broker.on(ALTER_CLIENT_QUOTAS, *[policy_above(0)] * 20)
        results = await our.alter(many(2))
        assert {result.code for result in results.values() if isinstance(result, Rejected)} == {44}
        assert sent(broker) == [2, 1, 1]


@pytest.mark.parametrize("last", [acts.close, acts.reset, acts.truncated(2), acts.wrong_id])
@on_loop
async def test_a_lost_response_is_unknown_and_never_sent_again(last: acts.Act) -> None:
    async with ScriptedBroker() as broker, client(broker) as our:
        broker.on(ALTER_CLIENT_QUOTAS, acts.applied_then(last))
        results = await our.alter([setting(ALICE)])
        assert isinstance(results[ALICE], Unknown)
        assert "sent, but no usable response" in results[ALICE].reason
        assert broker.count(ALTER_CLIENT_QUOTAS) == 1


@on_loop
async def test_a_timeout_is_unknown_and_stops_the_rest() -> None:
    async with ScriptedBroker() as broker, client(broker) as our:
        await our.describe()
        broker.on(ALTER_CLIENT_QUOTAS, acts.silence)
        results = await our.alter(many(FULL + 5), timeout=3)
        assert {type(result) for result in results.values()} == {Unknown}
        assert len(results) == FULL + 5
        whys = {
            result.reason.split(":")[0]
            for result in results.values()
            if isinstance(result, Unknown)
        }
        assert whys == {"sent, but no usable response", "not sent after that"}


@pytest.mark.parametrize("code", [7, -1])
@on_loop
async def test_error_codes_without_a_certain_meaning_are_unknown(code: int) -> None:
    async with ScriptedBroker() as broker, client(broker) as our:
        broker.on(ALTER_CLIENT_QUOTAS, acts.code(code))
        results = await our.alter([setting(ALICE)])
        assert isinstance(results[ALICE], Unknown)
        assert broker.count(ALTER_CLIENT_QUOTAS) == 1


def answering(*results: tuple[acts.Parts, int, str | None]) -> acts.Act:
    async def act(turn: Turn) -> None:
        turn.send(alter_client_quotas.encode_response(turn.header.api_version, results=results))

    return act


ALICE_PARTS = (("user", "alice"),)


@on_loop
async def test_an_entity_that_the_response_does_not_name_is_unknown() -> None:
    async with ScriptedBroker() as broker, client(broker) as our:
        broker.on(ALTER_CLIENT_QUOTAS, answering((ALICE_PARTS, 0, None)))
        results = await our.alter([setting(ALICE), setting(BOB)])
        assert results[ALICE] == Applied()
        assert isinstance(results[BOB], Unknown)


@pytest.mark.parametrize(
    "wrong",
    [
        answering((ALICE_PARTS, 0, None), ((("user", "mallory"),), 0, None)),
        answering((ALICE_PARTS, 0, None), (ALICE_PARTS, 42, "no")),
        answering((ALICE_PARTS, 0, None), ((("user", "alice"), ("client-id", None)), 0, None)),
    ],
)
@on_loop
async def test_a_response_with_a_foreign_or_repeated_entity_makes_the_whole_chunk_unknown(
    wrong: acts.Act,
) -> None:
    recorder = Recorder()
    async with ScriptedBroker() as broker, client(broker, recorder=recorder) as our:
        broker.on(ALTER_CLIENT_QUOTAS, wrong)
        results = await our.alter([setting(ALICE), setting(BOB)])
        assert {type(result) for result in results.values()} == {Unknown}
        assert len(recorder.of("disconnected")) == 1


@on_loop
async def test_if_the_broker_becomes_unreachable_the_rest_is_reported_as_not_sent() -> None:
    async with ScriptedBroker() as broker, client(broker, clock=FakeClock()) as our:

        async def last(turn: Turn) -> None:
            await acts.answer(turn)
            await turn.writer.drain()
            assert broker._server is not None
            broker._server.close()
            turn.writer.close()

        broker.on(ALTER_CLIENT_QUOTAS, last)
        results = await our.alter(many(FULL + 1), timeout=60)
        assert sum(isinstance(result, Applied) for result in results.values()) == FULL
        (why,) = {result.reason for result in results.values() if isinstance(result, Unknown)}
        assert "sent" in why


@on_loop
async def test_a_chunk_that_no_controller_accepts_is_rejected_and_the_rest_is_not_sent() -> None:
    pauses = {"retry_backoff_ms": 15_000, "retry_backoff_max_ms": 20_000}
    async with ScriptedBroker() as broker, client(broker, clock=FakeClock(), **pauses) as our:
        broker.on(ALTER_CLIENT_QUOTAS, acts.answer, *[acts.code(41)] * 1000)
        results = list((await our.alter(many(2 * FULL + 5), timeout=60)).values())
        assert results[:FULL] == [Applied()] * FULL
        refused, unsent = results[FULL : 2 * FULL], results[2 * FULL :]
        assert {result.name for result in refused if isinstance(result, Rejected)} == {
            "NOT_CONTROLLER"
        }
        assert {result.reason[:9] for result in unsent if isinstance(result, Unknown)} == {
            "not sent:"
        }


@on_loop
async def test_a_cancelled_caller_receives_the_completed_and_the_open_alterations() -> None:
    async with ScriptedBroker() as broker, client(broker) as our:
        broker.on(ALTER_CLIENT_QUOTAS, acts.answer, acts.silence)
        results: dict[Entity, Result] = {}
        work = asyncio.create_task(our.alter(many(2 * FULL + 5), results=results))
        await broker.until(ALTER_CLIENT_QUOTAS, 2)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        kinds = [type(results.get(alteration.entity)) for alteration in many(2 * FULL + 5)]
        assert kinds == [Applied] * FULL + [Unknown] * FULL + [type(None)] * 5


@pytest.mark.parametrize(
    ("alterations", "words"),
    [
        ([setting(ALICE), setting(ALICE, 2.0)], "is given twice"),
        ([Alteration(ALICE, ((RATE, 1.0), (RATE, None)))], "producer_byte_rate is given twice"),
        ([Alteration(ALICE, ())], "has no operation"),
        ([setting(ALICE, math.nan)], "finite"),
        ([setting(ALICE, math.inf)], "finite"),
        ([setting(ALICE, 0.0)], "above 0"),
        ([setting(ALICE, -1.0)], "above 0"),
        ([setting(Entity((ABSENT, ABSENT, ABSENT)))], "needs a user"),
        ([setting(Entity(("a", ABSENT, "10.0.0.1")))], "ip cannot be combined"),
        ([setting(Entity((ABSENT, DEFAULT, DEFAULT)))], "ip cannot be combined"),
        ([setting(Entity(("", ABSENT, ABSENT)))], "name is empty"),
        ([setting(Entity(("é" * 16_384, ABSENT, ABSENT)))], "32768 bytes"),
        ([setting(Entity(("\ud800", ABSENT, ABSENT)))], "UTF-8"),
    ],
)
@on_loop
async def test_ambiguous_alterations_are_refused_before_anything_is_sent(
    alterations: list[Alteration], words: str
) -> None:
    async with ScriptedBroker() as broker, client(broker) as our:
        with pytest.raises(QuotaValueError, match=words):
            await our.alter([setting(BOB), *alterations])
        assert broker.requests == []


@on_loop
async def test_an_entity_of_another_type_is_sent_and_validated_by_the_broker() -> None:
    prefix = (("client-id-prefix", "etl-"),)
    alteration = OpenAlteration(prefix, ((RATE, 5.0),))
    async with Sandbox(SandboxSettings(profile=profile_named("redpanda"))) as sandbox:
        config = ClientConfig.from_mapping({"bootstrap.servers": sandbox.bootstrap()})
        async with QuotaClient(config) as our:
            assert await our.alter_open([alteration], validate_only=True) == {prefix: Applied()}
            assert (await our.describe()).foreign_entities == ()
            assert await our.alter_open([alteration]) == {prefix: Applied()}
            state = await our.describe(
                Filter(components=(Component(entity_type="client-id-prefix", match=ANY),))
            )
            assert state.foreign_entities == ((prefix, ((RATE, 5.0),)),)
            refused = await our.alter_open([OpenAlteration((("group", "g"),), ((RATE, 5.0),))])
            assert refused[("group", "g"),] == Rejected(
                code=42, name="INVALID_REQUEST", message="Unhandled client quota entity type: group"
            )


@pytest.mark.parametrize(
    ("alterations", "reason"),
    [
        ([OpenAlteration((), ((RATE, 1.0),))], "needs each type once"),
        ([OpenAlteration((("a", "x"), ("a", "y")), ((RATE, 1.0),))], "needs each type once"),
        ([OpenAlteration((("a", "x"),), ((RATE, 1.0),))] * 2, "is given twice"),
        (
            [
                OpenAlteration((("a", "x"), ("b", "y")), ((RATE, 1.0),)),
                OpenAlteration((("b", "y"), ("a", "x")), ((RATE, 1.0),)),
            ],
            "is given twice",
        ),
        ([OpenAlteration((("a", "x"),), ())], "has no operation"),
        ([OpenAlteration((("a", "x"),), ((RATE, 0.0),))], "above 0"),
        ([OpenAlteration((("a", "é" * 16_384),), ((RATE, 1.0),))], "the a name: .* 32768 bytes"),
        ([OpenAlteration((("a", "\ud800"),), ((RATE, 1.0),))], "the a name: .* UTF-8"),
        (
            [OpenAlteration((("a" * 32_768, "x"),), ((RATE, 1.0),))],
            "entity type 'aaa.* 32768 bytes",
        ),
        ([OpenAlteration((("\ud800", "x"),), ((RATE, 1.0),))], r"entity type '\\ud800': .* UTF-8"),
    ],
)
@on_loop
async def test_an_ambiguous_open_alteration_is_not_sent(
    alterations: list[OpenAlteration], reason: str
) -> None:
    async with ScriptedBroker() as broker, client(broker) as our:
        with pytest.raises(QuotaValueError, match=reason):
            await our.alter_open(alterations)
        assert broker.count(ALTER_CLIENT_QUOTAS) == 0


SIZES = st.lists(st.tuples(st.integers(1, 5000), st.integers(1, 2 * MAX_BYTES)), max_size=200)


@given(SIZES)
def test_chunks_contain_every_alteration_in_order_and_stay_within_every_bound(
    shape: list[tuple[int, int]],
) -> None:
    alterations = [
        Alteration(entity(user=str(n)), tuple((f"k{i}", 1.0) for i in range(min(operations, 3))))
        for n, (operations, _) in enumerate(shape)
    ]
    sizes = [size for _, size in shape]
    chunks = list(split_into_chunks(alterations, sizes))
    assert [at for start, end in chunks for at in range(start, end)] == list(range(len(shape)))
    for start, end in chunks:
        assert (
            sum(len(alteration.operations) for alteration in alterations[start:end])
            <= MAX_OPERATIONS
        )
        assert end - start == 1 or sum(sizes[start:end]) <= MAX_BYTES
