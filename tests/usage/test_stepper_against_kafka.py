"""The stepper against Kafka's own quota manager: the same records at the same times get the same delays and rates."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers.tools import Conversation, JavaSource
from tests.usage.stepper import SampledWindows

pytestmark = pytest.mark.integration

SOURCE = JavaSource(
    path=Path(__file__).parents[1] / "servers" / "oracle" / "WindowOracle.java",
    class_name="WindowOracle",
)


@pytest.fixture(scope="module", params=["4.3.1", "4.4.0"])
def kafka(request: pytest.FixtureRequest) -> Iterator[Conversation]:
    with Conversation(request.param, SOURCE) as running:
        yield running


def records(seed: int) -> list[tuple[int, int]]:
    """Bursts, low rates and gaps of about the length of the windows."""
    chance = random.Random(seed)
    now, rows = 1_000_000, []
    for _ in range(400):
        now += chance.choice(
            [0, 1, 7, 100, 999, 1_000, 1_001, 2_500, 10_000, 11_000, 11_001, 30_000]
        )
        rows.append((now, chance.choice([1, 1_000, 65_536, 1_000_000])))
    return rows


def test_records_get_the_delays_and_rates_of_kafka(kafka):
    cases = [(limit, records(seed)) for seed, limit in enumerate([5_000, 50_000, 250_000, 10**6])]
    answer = kafka.ask({"cases": [{"limit": limit, "records": rows} for limit, rows in cases]})
    delayed = 0
    for (limit, rows), outcomes in zip(cases, answer["cases"], strict=True):
        windows = SampledWindows()
        for (now, value), outcome in zip(rows, outcomes, strict=True):
            windows.record(value, now)
            assert windows.measure(now)[0] == pytest.approx(outcome["rate"], rel=1e-12)
            assert (
                abs(windows.delay(limit, now) - outcome["delay"]) <= 1
            )  # a tie of halves, in floats
            delayed += outcome["delay"] > 0
    assert delayed > 100
