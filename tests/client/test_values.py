"""Small pure parts: backoff, deadlines, chunks, node choice, events, lines of Kafka."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.base.backoff import Backoff, Deadline
from reconciler.base.clock import SystemClock
from reconciler.client import cluster_info
from reconciler.client.alteration_chunks import MAX_BYTES, halves, split_into_chunks
from reconciler.client.client_config import ClientConfig
from reconciler.client.events import ClientEvents, Rebootstrapped, emit
from reconciler.client.network.nodes import Nodes, address_of
from reconciler.quota.cluster import Node
from reconciler.quota.entity import entity
from reconciler.quota.outcome import MAX_ENTITIES, MAX_OPERATIONS, Alteration
from reconciler.wire.version_selection import OfferedVersions
from tests.client.support import on_loop


def test_waits_double_up_to_the_cap_and_are_spread_by_a_fifth() -> None:
    backoff = Backoff(first=0.1, cap=1.0)
    assert [backoff.pause(n, lambda: 0.5) for n in range(7)] == pytest.approx(
        [0, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    )
    assert backoff.pause(5, lambda: 0.0) == pytest.approx(0.8)
    assert backoff.pause(5, lambda: 0.999999) == pytest.approx(1.2, abs=1e-5)
    assert backoff.pause(10_000, lambda: 0.5) == 1.0


def test_deadlines_never_leave_less_than_nothing() -> None:
    deadline = Deadline(at=10.0)
    assert (deadline.seconds_remaining(4.0), deadline.seconds_remaining(12.0)) == (6.0, 0.0)
    assert (deadline.within(4.0, 1.0), deadline.within(4.0, 9.0)) == (1.0, 6.0)
    assert Deadline(at=10.0, connect_at=6.0).to_connect.seconds_remaining(4.0) == 2.0
    assert deadline.to_connect == deadline
    assert [deadline.passed(at) for at in (9.9, 10.0)] == [False, True]


SIZES = st.lists(st.tuples(st.integers(1, 5000), st.integers(1, 2 * MAX_BYTES)), max_size=200)


@given(SIZES)
def test_chunks_cover_everything_in_order_and_keep_every_bound(
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
        assert end - start <= MAX_ENTITIES
        assert sum(len(it.operations) for it in alterations[start:end]) <= MAX_OPERATIONS
        assert end - start == 1 or sum(sizes[start:end]) <= MAX_BYTES


@given(st.integers(0, 50), st.integers(0, 50))
def test_halves_are_the_whole_and_smaller(start: int, count: int) -> None:
    found = halves(start, start + count)
    if count < 2:
        assert found == ()
        return
    (first, middle), (again, last) = found
    assert (first, middle, last) == (start, again, start + count)
    assert start < middle < last


def nodes(*known: int) -> Nodes:
    config = ClientConfig.from_mapping(
        {"bootstrap.servers": "a:1,b:2", "reconnect.backoff.ms": 100}
    )
    made = Nodes(config)
    made.learn([Node(id=n, host=f"n{n}", port=9092) for n in known], 0.0)
    return made


def test_before_metadata_all_bootstrap_addresses_are_dialed_together() -> None:
    choice = nodes().choose(0.0)
    assert {str(it) for it in choice.addresses} == {"a:1", "b:2"}
    assert choice.wait == 0.0


def test_one_known_broker_is_dialed_at_a_time_and_those_that_failed_come_last() -> None:
    known = nodes(1, 2, 3)
    bad = [address_of(it) for it in known.brokers[:2]]
    known.failed(bad, 0.0)
    for _ in range(20):
        assert [str(it) for it in known.choose(5.0).addresses] == ["n3:9092"]
    known.record_success(bad[0], 6.0)
    assert {str(known.choose(7.0).addresses[0]) for _ in range(50)} == {"n1:9092", "n3:9092"}


def test_when_all_must_wait_the_first_to_be_ready_is_waited_for() -> None:
    known = nodes(1)
    known.failed([address_of(known.brokers[0])], 10.0)
    choice = known.choose(10.0)
    assert 0.08 <= choice.wait <= 0.12


def test_the_time_for_setting_up_grows_with_failures() -> None:
    known = nodes(1)
    address = address_of(known.brokers[0])
    assert 8 <= known.choose_node(address, 0.0).setup_seconds <= 12
    known.failed([address] * 3, 0.0)
    assert 24 <= known.choose_node(address, 99.0).setup_seconds <= 36


def test_the_known_brokers_are_given_up_when_all_failed_or_after_long_silence() -> None:
    known = nodes(1, 2)
    assert known.must_rebootstrap(299.0) == ""
    assert "nothing was heard" in known.must_rebootstrap(301.0)
    known.failed([address_of(it) for it in known.brokers], 1.0)
    assert known.must_rebootstrap(2.0) == "every known broker failed"
    known.forget()
    assert known.must_rebootstrap(2.0) == ""


@on_loop
async def test_a_listener_that_fails_goes_to_the_loop_and_not_into_the_protocol() -> None:
    caught: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: caught.append(context))

    def bad(_: object) -> None:
        raise RuntimeError("listener")

    emit(ClientEvents(rebootstrap=bad).rebootstrap, Rebootstrapped(reason="x"))
    assert "Rebootstrapped" in str(caught[0]["message"])


def test_listeners_do_nothing_unless_given() -> None:
    events = ClientEvents()
    assert {getattr(events, name)(object()) for name in ClientEvents.__dataclass_fields__} == {None}


@pytest.mark.parametrize(
    ("ranges", "expected"),
    [
        ({18: (0, 5), 3: (0, 13)}, ("4.4+", "4.x")),
        ({18: (0, 4), 3: (0, 13), 88: (0, 0)}, ("4.1+", "4.x")),
        ({18: (0, 4), 3: (0, 13)}, ("4.0+", "4.x")),
        ({18: (0, 4), 3: (0, 12), 60: (0, 1), 50: (0, 0)}, ("3.9+", "3.9")),
        ({18: (0, 3), 3: (0, 12), 60: (0, 1), 50: (0, 0)}, ("3.7+", "3.9")),
        ({18: (0, 3), 3: (0, 12), 60: (0, 0), 50: (0, 0)}, ("3.5+", "3.9")),
        ({18: (0, 3), 3: (0, 12), 60: (0, 0)}, ("3.1+", "3.4")),
        ({18: (0, 3), 3: (0, 11), 60: (0, 0)}, ("2.8+", "3.4")),
        ({18: (0, 3), 3: (0, 9)}, ("2.6+", "3.4")),
    ],
)
def test_a_line_of_kafka_is_guessed_from_what_it_offers(
    ranges: dict[int, tuple[int, int]], expected: tuple[str, str]
) -> None:
    assert cluster_info.line(OfferedVersions(ranges=ranges)) == expected


def test_the_real_clock_goes_forward() -> None:
    clock = SystemClock()
    before = clock.monotonic()
    asyncio.run(clock.sleep(-1))
    assert clock.monotonic() >= before
    assert clock.now() > 1_700_000_000
