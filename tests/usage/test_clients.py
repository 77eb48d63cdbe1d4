"""What is known about requests: what is stated, what is plausible, and numbers that contradict each other."""

import pytest

from reconciler.errors import QuotaValueError
from reconciler.usage.clients import Clients, Span


def clients(connections: int = 2, least: int = 900, most: int = 900, part: int = 100) -> Clients:
    return Clients(
        is_produce=False,
        connections=Span(connections, 2),
        most_bytes=Span(least, most),
        part_bytes=Span(part, part),
    )


@pytest.mark.parametrize("wrong", [{"least": 0}, {"least": 901}, {"connections": 0}, {"part": 901}])
def test_numbers_that_contradict_each_other_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(QuotaValueError):
        clients(**wrong)
