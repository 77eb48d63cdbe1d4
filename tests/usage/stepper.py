"""Kafka's limiter, request by request: an independent implementation of its classes, in floats and milliseconds.

``SampledWindows`` is ``org.apache.kafka.common.metrics.stats.Rate`` over ``WindowedSum`` (``SampledStat``) as of
4.3.1: a list of samples that begin with their first event; a new one after a full window; twelve kept for eleven
asked; one is void when its last event is eleven windows old; and the rate's window is never shorter than ten windows
plus what has begun. ``delay`` is ``ClientQuotaManager.throttleTime``: (O - T) / T * W, rounded, not capped, and the
connection is muted that long after the answer (KIP-219). The client is open-loop: its demand does not depend on
throttling; it queues, and sends requests of 64 KiB on one connection.

Nothing here is shared with the package.
"""

import heapq
import math
import random
from dataclasses import dataclass, field

WINDOWS = 11
WINDOW_MS = 1_000
REQUEST_BYTES = 65_536
SLOT_MS = 100
"""The slot length of the demand: arrivals are uniform within a slot."""


@dataclass(slots=True)
class SampledWindows:
    """One sensor: ``samples`` are ``[value, start, last event]``, the newest at ``current``."""

    samples: list[list[float]] = field(default_factory=list)
    current: int = 0

    def record(self, value: float, now: float) -> None:
        if not self.samples:
            self.samples.append([0.0, now, now])
        sample = self.samples[self.current]
        if now - sample[1] >= WINDOW_MS:
            self.current = (self.current + 1) % (WINDOWS + 1)
            if self.current >= len(self.samples):
                self.samples.append([0.0, now, now])
            else:
                self.samples[self.current] = [0.0, now, now]
            sample = self.samples[self.current]
        sample[0] += value
        sample[2] = now

    def measure(self, now: float) -> tuple[float, float]:
        """The rate per second and the length of its window in milliseconds."""
        for sample in self.samples:
            if now - sample[2] >= WINDOWS * WINDOW_MS:
                sample[:] = [0.0, now, now]
        oldest = min((sample[1] for sample in self.samples), default=now)
        elapsed = now - oldest
        missing = WINDOWS - 1 - int(elapsed // WINDOW_MS)
        window = max(elapsed + max(0, missing) * WINDOW_MS, WINDOW_MS)
        return sum(sample[0] for sample in self.samples) * 1000 / window, window

    def delay(self, limit: float, now: float) -> float:
        rate, window = self.measure(now)
        return math.floor((rate - limit) / limit * window + 0.5) if rate > limit else 0.0


def obtained(
    limit: float,
    fetch: float,
    *,
    connections: int = 1,
    seconds: int = 1_500,
    settled: int = 300,
    overhead: float = 100,
) -> float:
    """The share of its limit that a consumer gets whose partitions always have more to read than a fetch holds.

    A fetch is recorded completely; if the rate then exceeds the limit, its bytes are subtracted again, and the client
    fetches again after the delay (KafkaApis.handleFetchRequest, ClientQuotaManager.unrecordQuotaSensor). A fetch
    requests at most ten seconds of the limit. Responses have some bytes besides the records.
    """
    chance, windows, got = random.Random(1), SampledWindows(), 0.0
    size = min(fetch, (WINDOWS - 1) * limit * WINDOW_MS / 1000) + overhead
    asking = [(chance.uniform(0, 50), connection) for connection in range(connections)]
    heapq.heapify(asking)
    while asking[0][0] < seconds * 1000:
        now, connection = heapq.heappop(asking)
        windows.record(size, now)
        pause = windows.delay(limit, now)
        if pause:
            windows.record(-size, now)
        elif now >= settled * 1000:
            got += size
        heapq.heappush(asking, (now + pause + chance.uniform(0, 4), connection))
    return got / (limit * (seconds - settled))


@dataclass(frozen=True, slots=True)
class Truth:
    """The result for the client: milliseconds muted with a backlog, late milliseconds, and the worst delay."""

    muted_ms: float
    late_ms: float
    worst_ms: float


def demand(
    seed: int, seconds: int, mean: float, volatility: float, *, correlation: float = 0.98
) -> list[float]:
    """Bytes per second, second by second: a lognormal walk with the given mean; seeded."""
    chance = random.Random(seed)
    level, rates = chance.gauss(0, 1), []
    for _ in range(seconds):
        level = correlation * level + math.sqrt(1 - correlation**2) * chance.gauss(0, 1)
        rates.append(mean * math.exp(volatility * level - volatility**2 / 2))
    return rates


def requests(rates: list[float]) -> list[float]:
    """When each request of 64 KiB is ready to be sent, in milliseconds."""
    ready, collected = [], 0.0
    for second, rate in enumerate(rates):
        for slot in range(1000 // SLOT_MS):
            arriving = rate * SLOT_MS / 1000
            start = second * 1000 + slot * SLOT_MS
            while arriving > 0 and collected + arriving >= REQUEST_BYTES * (len(ready) + 1):
                part = (REQUEST_BYTES * (len(ready) + 1) - collected) / arriving
                ready.append(start + part * SLOT_MS)
            collected += arriving
    return ready


def gauge(
    ready: list[float], seconds: int, step_ms: int, offset_ms: int = 0
) -> list[tuple[int, float]]:
    """A scraper's samples of the same client without a limit: ``(milliseconds, bytes per second)``."""
    windows, readings, at = SampledWindows(), [], 0
    for ts in range(step_ms + offset_ms, seconds * 1000 + 1, step_ms):
        while at < len(ready) and ready[at] <= ts:
            windows.record(REQUEST_BYTES, ready[at])
            at += 1
        readings.append((ts, windows.measure(ts)[0]))
    return readings


def limited(
    ready: list[float], limit: float, until_ms: float, late_after_ms: float = 1_000
) -> Truth:
    """The same client under a limit: one connection, muted after each request according to Kafka's rule.

    ``late`` is the time in which arrivals wait longer than ``late_after_ms``.
    """
    windows = SampledWindows()
    free = muted = late = worst = 0.0
    last_late: float | None = None
    for moment in ready:
        now = max(moment, free)
        if now >= until_ms and moment >= until_ms:
            break
        wait = now - moment
        worst = max(worst, wait)
        if wait >= late_after_ms:
            late += moment - last_late if last_late is not None else 0.0
            last_late = moment
        else:
            last_late = None
        windows.record(REQUEST_BYTES, now)
        pause = windows.delay(limit, now)
        free = now + pause
        muted += min(free, until_ms) - min(now, until_ms)
    return Truth(muted, late, worst)
