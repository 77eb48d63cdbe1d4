"""What makes a day doubtful, in sentences: brokers that share an id, and a cadence that the readings contradict."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import median_low
from typing import Final

import pyarrow as pa

from reconciler.evidence.ingest.assembly.broker_readings import BrokerReadings
from reconciler.usage.samples import Cadence

LEAST: Final = 20
"""So many distances of scrapes say how often a broker is read; fewer say nothing."""

_NEAR: Final = 4
"""A distance that is off by more than one part in so many is another one."""

_SHOWN: Final = 5


def doubts(day_readings: BrokerReadings, up: pa.Table, pace: Cadence) -> tuple[str, ...]:
    """What people have to know of a day before they believe it.

    Args:
        day_readings: What was read.
        up: Rows of ``target_up``, sorted.
        pace: What the day was assembled with.
    """
    return (*_shared(day_readings.contested), *_paces(up, pace))


def _shared(contested: Mapping[str, Sequence[str]]) -> Iterator[str]:
    for broker, instances in sorted(contested.items()):
        yield (
            f"{_join_names(instances)} have the broker id {broker} at the same time and are not one broker; nothing of them"
            " is used: name in telemetry.matchers what distinguishes the clusters, or correct telemetry.brokerId"
        )


def _paces(up: pa.Table, pace: Cadence) -> Iterator[str]:
    times: dict[str, list[int]] = {}
    for broker, ts in zip(up["broker_id"].to_pylist(), up["ts_ms"].to_pylist(), strict=True):
        times.setdefault(broker, []).append(ts)
    brokers_by_step: dict[int, list[str]] = {}
    for broker, scrape_times in times.items():
        usual = _usual(scrape_times)
        if usual is not None and abs(usual - pace.step_ms) * _NEAR > pace.step_ms:
            brokers_by_step.setdefault(round(usual / 1000), []).append(broker)
    for seconds, brokers in sorted(brokers_by_step.items()):
        were = "broker {} was" if len(brokers) == 1 else "brokers {} were"
        yield (
            f"{were.format(_join_names(brokers))} read every {seconds} s, and telemetry.scrapeStep means every"
            f" {_seconds(pace.step_ms)} with gaps of up to {_seconds(pace.max_gap_ms)}: correct it, then --rebuild"
        )


def _usual(times: Sequence[int]) -> int | None:
    if len(times) <= LEAST:
        return None
    return median_low([later_ts - earlier for earlier, later_ts in pairwise(times)])


def _seconds(ms: int) -> str:
    return f"{ms / 1000:g} s"


def _join_names(names: Iterable[str]) -> str:
    all_names = list(names)
    suffix = f" and {len(all_names) - _SHOWN} more" if len(all_names) > _SHOWN else ""
    return ", ".join(all_names[:_SHOWN]) + suffix
