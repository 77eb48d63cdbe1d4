"""What is known about requests: what is stated, what is plausible, and numbers that contradict each other."""

import pytest

from reconciler.errors import QuotaValueError
from reconciler.usage.clients import UNSTATED_CONSUMERS, UNSTATED_PRODUCERS, Clients, Span


def clients(connections: int = 2, least: int = 900, most: int = 900, part: int = 100) -> Clients:
    return Clients(
        is_produce=False,
        connections=Span(connections, 2),
        most_bytes=Span(least, most),
        part_bytes=Span(part, part),
    )


def test_all_is_stated_if_no_number_has_a_span() -> None:
    assert clients().is_stated
    assert not clients(connections=1).is_stated
    assert not UNSTATED_CONSUMERS.is_stated
    assert not UNSTATED_PRODUCERS.is_stated
    (requests,) = clients().best()
    assert (requests.connections, requests.most_bytes, requests.part_bytes) == (2, 900, 100)
    assert [requests] == list(clients().worst(50))


def test_unstated_clients_wait_least_with_small_requests_and_longest_with_large_ones() -> None:
    best, worst = list(UNSTATED_CONSUMERS.best()), list(UNSTATED_CONSUMERS.worst(10**6))
    assert {case.connections for case in best} == {case.connections for case in worst} == {1, 6}
    assert {case.most_bytes for case in best} == {65_536}
    assert {case.most_bytes for case in worst} == {52_428_800}
    assert {case.part_bytes for case in UNSTATED_PRODUCERS.worst(500)} == {500}
    assert {case.part_bytes for case in UNSTATED_PRODUCERS.worst(10**6)} == {16_384}


@pytest.mark.parametrize("wrong", [{"least": 0}, {"least": 901}, {"connections": 0}, {"part": 901}])
def test_numbers_that_contradict_each_other_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(QuotaValueError):
        clients(**wrong)
