"""Kafka's limiter, request by request, for the clients of one bucket on one broker. One loop, compiled by Numba.

- Lumps of bytes arrive at each connection. A fetch takes what waits, up to its size, and ends within a batch, which is
  counted and read again; a produce request takes whole records. Without a backlog requests are small, and what they
  have beside their records is counted as it was recorded (``INFLATION``); with one, each request has it once.
- Twelve samples of a second, as in Kafka (``SampledStat``, ``Rate``). A produce request is counted, and then the connection
  waits (``ClientQuotaManager.throttleTime``). A fetch above the limit is answered empty and not counted, and the
  connection asks again after the same time (``KafkaApis.handleFetchRequest``, ``unrecordQuotaSensor``). So the connections
  of a bucket compete, and one may wait while others are served.
- All random numbers are those of one generator, so equal arguments give equal results, compiled or not.

Times are milliseconds, amounts bytes, both in doubles. Tables of doubles and not of records: Numba compiles them in a third
of the time. ``tests/usage/kernel/test_request_loop.py`` runs the same functions uncompiled, and ``tests/usage/stepper.py`` is
an independent implementation of the samples.
"""

import importlib
import importlib.util
import math
import pickle
from collections.abc import Callable
from functools import cache
from typing import Final, NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

Table: TypeAlias = npt.NDArray[np.float64]
Function = TypeVar("Function", bound=Callable[..., object])

# Workers of Spark may have NumPy alone: for them the same results take some hundred times longer.
HAS_COMPILER: Final = importlib.util.find_spec("numba") is not None

NEVER: Final = 1e300
SAMPLE_MS: Final = 1000.0
SAMPLES: Final = 11
"""``quota.window.num``; one more sample is kept."""

# Written here again, because Numba looks for changes of a kept function in its own module only.
LATE_MS: Final = 1_000.0
"""``MIN_DELAY_MS`` of :mod:`reconciler.usage.throttle_models`."""

VERY_LATE_MS: Final = 120_001.0
"""``DELIVERY_TIMEOUT_MS`` of it, and a millisecond."""

TURNAROUND_MS: Final = 4.0
"""The longest time from a response to the next request of a client that has more to do; shorter ones are as probable."""

SCALE: Final = 1.0 / 2147483648.0

# Columns of what arrives, a row for each time of constant rate: milliseconds, bytes of records, bytes that a broker counts
# for one of them without a backlog, and the row with which to go on if nothing waits.
BEGIN, LENGTH, UNITS, INFLATION, RESUME = range(5)

# Columns of connections: the time of the next request, the earliest time of one, bytes that wait, and whether nothing waited
# before them. Then of the oldest lump that waits: the state of the generator, its row of arrivals and the part of it that is
# used, its time, its size, and its connection. The row behind the connections is the next lump to arrive.
DUE, READY, WAITING, IDLE, CHANCE, ROW, USED, TIME, SIZE, OWNER = range(10)
LUMP: Final = CHANCE

# Columns of samples; the row behind them has the current one and the number of all.
VALUE, START, LAST = range(3)
STATE: Final = SAMPLES + 1


class RequestShape(NamedTuple):
    """The requests of the clients."""

    is_produce: bool
    size: float  # at most, while more waits
    each: float  # of a single request; `size` may stand for several
    batch: float  # of records, which a request does not divide
    lump: float  # that arrives at once; a batch or many
    overhead: float  # of a request
    connections: int


class Waits(NamedTuple):
    """What happened to the clients."""

    late_ms: float  # time in which some bytes had waited for `LATE_MS`, and for `VERY_LATE_MS`
    very_late_ms: float
    worst_ms: float  # the longest wait of all
    served: float
    delayed: float  # bytes that waited for `LATE_MS`
    late_served: float  # bytes that were served in the late time
    is_unfinished: bool  # whether bytes waited so long at the end
    reached_ms: float  # the end, or where the steps ended
    steps: int


_COMPILED_FUNCTIONS: Final[list[Callable[..., object]]] = []


def compilable(function: Function) -> Function:
    """Let the compiled loop call a function."""
    _COMPILED_FUNCTIONS.append(function)
    return function


@compilable
def drawn(number: int) -> int:
    """Return the number after a number, both below 2^31."""
    return (number * 1_103_515_245 + 12_345) & 0x7FFF_FFFF


@compilable
def advance(queues: Table, queue: int, arrivals: Table, requests: RequestShape) -> None:
    """Move on to the next lump of a connection, or of any for the row behind; of half to one and a half times the usual size.

    Connections get lumps in turn; as many as vary like batches that come to a connection at random get another one.
    """
    chance, owner = int(queues[queue, CHANCE]), int(queues[queue, OWNER])
    row, used, rows = int(queues[queue, ROW]), queues[queue, USED], arrivals.shape[0]
    while True:
        chance = drawn(chance)
        size = need = requests.lump * (0.5 + chance * SCALE)
        while row < rows and arrivals[row, UNITS] - used < need:
            need -= arrivals[row, UNITS] - used
            row += 1
            used = 0.0
        used += need
        chance = drawn(chance)
        owner += 1
        if chance * SCALE * requests.lump < requests.batch:
            chance = drawn(chance)
            owner = chance >> 8
        owner %= requests.connections
        if row >= rows or queue in (owner, requests.connections):
            break
    queues[queue, CHANCE] = chance
    queues[queue, ROW] = row
    queues[queue, USED] = used
    queues[queue, TIME] = NEVER
    if row < rows:
        queues[queue, TIME] = (
            arrivals[row, BEGIN] + arrivals[row, LENGTH] * used / arrivals[row, UNITS]
        )
    queues[queue, SIZE] = size
    queues[queue, OWNER] = owner


@compilable
def restart(queues: Table, row: int, arrivals: Table, requests: RequestShape) -> None:
    """Let the lumps of a row of arrivals be the next, and nothing wait."""
    tail = requests.connections
    queues[tail, ROW] = row
    queues[tail, USED] = 0.0
    advance(queues, tail, arrivals, requests)
    for queue in range(tail):
        queues[queue, LUMP:] = queues[tail, LUMP:]
        if queues[queue, OWNER] != queue and queues[queue, TIME] < NEVER:
            advance(queues, queue, arrivals, requests)


@compilable
def arrive(queues: Table, arrivals: Table, requests: RequestShape) -> None:
    """Let the next lump wait, and its connection send a request once it can."""
    tail = requests.connections
    queue, now = int(queues[tail, OWNER]), queues[tail, TIME]
    if queues[queue, WAITING] == 0.0:
        queues[queue, DUE] = max(now, queues[queue, READY])
        queues[queue, IDLE] = 1.0 if now >= queues[queue, READY] else 0.0
    queues[queue, WAITING] += queues[tail, SIZE]
    advance(queues, tail, arrivals, requests)


@compilable
def record(samples: Table, amount: float, now: float) -> None:
    """Count an amount, as ``SampledStat.record``."""
    current = int(samples[STATE, 0])
    if samples[STATE, 1] == 0.0:
        samples[STATE, 1] = 1.0
        samples[0, START] = now
        samples[0, VALUE] = 0.0
    elif now - samples[current, START] >= SAMPLE_MS:
        current = (current + 1) % (SAMPLES + 1)
        samples[STATE, 0] = current
        samples[STATE, 1] = max(samples[STATE, 1], current + 1.0)
        samples[current, VALUE] = 0.0
        samples[current, START] = now
    samples[current, VALUE] += amount
    samples[current, LAST] = now


@compilable
def pause(samples: Table, limit: float, now: float) -> float:
    """Return how long the broker delays, as ``Rate.measure`` and ``ClientQuotaManager.throttleTime``."""
    total, oldest = 0.0, now
    for at in range(int(samples[STATE, 1])):
        if now - samples[at, LAST] >= SAMPLES * SAMPLE_MS:
            samples[at, VALUE] = 0.0
            samples[at, START] = now
            samples[at, LAST] = now
        total += samples[at, VALUE]
        oldest = min(oldest, samples[at, START])
    elapsed = now - oldest
    missing = SAMPLES - 1 - math.floor(elapsed / SAMPLE_MS)
    window = max(elapsed + max(missing, 0) * SAMPLE_MS, SAMPLE_MS)
    if total * 1000.0 <= limit * window:
        return 0.0
    return float(math.floor(total * 1000.0 / limit - window + 0.5))


@compilable
def take(
    queues: Table, queue: int, amount: float, arrivals: Table, requests: RequestShape
) -> float:
    """Take bytes from the queue of a connection, whole batches only; return how many."""
    remaining = amount
    while queues[queue, WAITING] > 0.0 and remaining > 0.0:
        part = queues[queue, SIZE]
        if part <= remaining + 1e-6:
            advance(queues, queue, arrivals, requests)
        elif requests.lump > requests.batch:
            part = remaining
            queues[queue, SIZE] -= part
        else:
            break
        remaining -= part
        queues[queue, WAITING] -= part
        if queues[queue, WAITING] < 1e-3:
            queues[queue, WAITING] = 0.0
    return amount - remaining


@compilable
def is_empty(queues: Table) -> bool:
    """Return whether nothing waits."""
    waiting = 0.0
    for queue in range(queues.shape[0] - 1):
        waiting += queues[queue, WAITING]
    return waiting == 0.0


@compilable
def counted_of(amount: float, inflation: float, requests: RequestShape) -> float:
    """Return the bytes that a broker counts for some bytes of records; an inflation of 0 = they waited."""
    if inflation > 0.0:
        return amount * inflation
    return amount + requests.overhead * max(1.0, amount / requests.each)


@compilable
def earliest(queues: Table, column: int) -> int:
    """Return the connection with the least value of a column, the first of several."""
    first = 0
    for queue in range(1, queues.shape[0] - 1):
        if queues[queue, column] < queues[first, column]:
            first = queue
    return first


@compilable
def cut(amount: float, waiting: float, requests: RequestShape) -> float:
    """Return what a fetch delivers of its bytes: it ends within a batch if more waits."""
    if amount < waiting and requests.lump > requests.batch:
        return amount - min(amount, requests.batch) / 2 * max(1.0, amount / requests.each)
    return amount


@compilable
def settle(
    queues: Table, queue: int, samples: Table, arrivals: Table, requests: RequestShape
) -> None:
    """Let a connection for which nothing waits send nothing, and pass over times in which nothing can be delayed."""
    row = int(queues[requests.connections, ROW])
    if queues[queue, WAITING] == 0.0:
        queues[queue, DUE] = NEVER
        if row < arrivals.shape[0] and arrivals[row, RESUME] > row and is_empty(queues):
            restart(queues, int(arrivals[row, RESUME]), arrivals, requests)
            samples[STATE, 0] = samples[STATE, 1] = 0.0


def replay(
    arrivals: Table, requests: RequestShape, limit: float, seed: int, most_steps: int
) -> Waits:
    """Return what a limit does to the clients of a bucket; nothing waits at the begin.

    Args:
        arrivals: What arrives at each connection.
        requests: The requests.
        limit: Bytes per second.
        seed: Of the sizes and times, below 2^31.
        most_steps: Number of requests and lumps after which the replay ends.
    """
    tail = requests.connections
    queues, samples = np.zeros((tail + 1, OWNER + 1)), np.zeros((STATE + 1, 3))
    queues[:, DUE] = NEVER
    queues[tail, CHANCE] = drawn(drawn(seed))
    restart(queues, 0, arrivals, requests)
    end = arrivals[-1, BEGIN] + arrivals[-1, LENGTH]
    late = very_late = worst = served = delayed = late_served = since = now = 0.0
    last_late, chance, steps = -1.0, drawn(seed), 0
    while steps < most_steps:
        queue = earliest(queues, DUE)
        if queues[tail, TIME] <= queues[queue, DUE] and queues[tail, TIME] < NEVER:
            arrive(queues, arrivals, requests)
            steps += 1
            continue
        if queues[queue, DUE] >= NEVER:
            now = end
            break
        now = queues[queue, DUE]
        steps += 1
        amount = min(requests.size, queues[queue, WAITING])
        if requests.lump <= requests.batch:
            amount = max(amount, queues[queue, SIZE])
        wait, oldest = now - queues[queue, TIME], queues[earliest(queues, TIME), TIME]
        if requests.is_produce:
            amount = take(queues, queue, amount, arrivals, requests)
        row = min(int(queues[tail, ROW]), arrivals.shape[0] - 1)
        counted = counted_of(amount, arrivals[row, INFLATION] * queues[queue, IDLE], requests)
        record(samples, counted, now)
        delay = pause(samples, limit, now)
        chance = drawn(chance)
        queues[queue, READY] = queues[queue, DUE] = now + delay + TURNAROUND_MS * chance * SCALE
        queues[queue, IDLE] = 0.0
        if not requests.is_produce:
            if delay > 0.0:
                record(samples, -counted, now)
                continue
            amount = cut(amount, queues[queue, WAITING], requests)
            amount = take(queues, queue, amount, arrivals, requests)
        until = min(now, end)
        late += max(0.0, until - max(since, oldest + LATE_MS))
        very_late += max(0.0, until - max(since, oldest + VERY_LATE_MS))
        worst, since, served = max(worst, wait), now, served + amount
        if now - oldest >= LATE_MS:
            late_served += amount
        if wait >= LATE_MS:
            delayed, last_late = delayed + amount, now
        settle(queues, queue, samples, arrivals, requests)
    is_unfinished = last_late >= end
    return Waits(late, very_late, worst, served, delayed, late_served, is_unfinished, now, steps)


@cache
def compiled() -> Callable[..., Waits]:
    """Return :func:`replay`, compiled, or read from where Numba keeps compiled code; without Numba the function itself."""
    if not HAS_COMPILER:
        return replay
    # It takes half a second to load, and most plans delay no client.
    numba = importlib.import_module("numba")
    register: Callable[..., object] = importlib.import_module("numba.extending").register_jitable
    for function in _COMPILED_FUNCTIONS:
        _ = register(function)
    try:
        return _tried(numba.njit(cache=True)(replay))
    except (EOFError, OSError, RuntimeError, pickle.UnpicklingError):
        # There is no such place, it is full, or what it has is damaged.
        return _tried(numba.njit(replay))


def _tried(function: Callable[..., Waits]) -> Callable[..., Waits]:
    """Return a function that has compiled itself: at its first call."""
    requests = RequestShape(
        is_produce=True, size=1.0, each=1.0, batch=1.0, lump=1.0, overhead=1.0, connections=1
    )
    _ = function(np.ones((1, RESUME + 1)), requests, 1.0, 1, 1)
    return function
