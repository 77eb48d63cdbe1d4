"""Fetching a span of time from a Prometheus: window by window, several queries at once, split where one is too large, resumable."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from reconciler.errors import TelemetryError
from reconciler.telemetry.dialects import Dialects
from reconciler.telemetry.matchers import Matcher, selector
from reconciler.telemetry.prometheus import Prometheus, TooLarge, TooSlow
from reconciler.telemetry.series import PARTIAL, Counts, Series, Word

WINDOW_MS: Final = 7_200_000
"""What one chunk covers: a block of Prometheus' storage."""

LEAST_WINDOW_MS: Final = 60_000
"""Shorter spans are not asked for; from here on series are split by a label."""

PARALLEL: Final = 4
"""Queries under way at once; a Prometheus runs 20 in all by default."""

_AT_ONCE: Final = 20
"""Selectors of one question about labels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Series that are asked for together.

    Attributes:
        metric: Name.
        matchers: Conditions on labels.
        without: Labels that series do not have: of single topics nothing is asked, where only totals are read.
    """

    metric: str
    matchers: tuple[Matcher, ...] = ()
    without: tuple[str, ...] = ()

    @property
    def selector(self) -> str:
        """As it stands in a query. The name is a label here, so that any name can be asked for."""
        name = Matcher(label="__name__", operator="=", value=self.metric)
        absent = (Matcher(label=one, operator="=", value="") for one in self.without)
        return selector("", (name, *self.matchers, *absent))


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Everything of one window.

    Attributes:
        from_ms: Inclusive.
        to_ms: Exclusive; where to go on from once this chunk is kept.
        series: Stretches; one series may be there several times, with other times.
        partial: Whether something is missing: the server warned, or a part of its answer cannot be read.
    """

    from_ms: int
    to_ms: int
    series: tuple[Series, ...]
    partial: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Discovered:
    """What a source has that any dialect knows.

    Attributes:
        labels: Metric name -> names of the labels that its series have.
        series: Labels of each series, ``__name__`` included, but those with a label that no dialect reads.
        partial: Whether the server warned that something is missing.
    """

    labels: dict[str, frozenset[str]]
    series: tuple[dict[str, str], ...]
    partial: bool = False


async def discovered(
    server: Prometheus,
    dialects: Dialects,
    matchers: tuple[Matcher, ...],
    from_ms: int,
    to_ms: int,
) -> Discovered:
    """Which known metrics there are, and with which labels.

    Raises:
        TelemetryError: The server refuses, or does not answer.
    """
    warned = server.counts[Word.WARNINGS]
    fitting = selector("", matchers) if matchers else '{__name__!=""}'
    names = await server.names([fitting], from_ms, to_ms)
    known = [name for name in names if dialects.interesting(name)]
    if not known:
        return Discovered(
            labels={name: frozenset() for name in names}, series=(),
            partial=server.counts[Word.WARNINGS] > warned,
        )  # fmt: skip
    asked = [
        Wanted(metric=name, matchers=matchers, without=dialects.excluded(name)).selector
        for name in known
        if any(one.wanted(name) for one in dialects.all)
    ]
    found: dict[frozenset[tuple[str, str]], dict[str, str]] = {}
    for at in range(0, len(asked), _AT_ONCE):
        for one in await _series_of(server, asked[at : at + _AT_ONCE], from_ms, to_ms):
            found[frozenset(one.items())] = one
    labels: dict[str, set[str]] = {name: set() for name in known}
    for one in found.values():
        labels.setdefault(one.get("__name__", ""), set()).update(set(one) - {"__name__"})
    return Discovered(
        labels={name: frozenset(several) for name, several in labels.items()},
        series=tuple(found.values()),
        partial=server.counts[Word.WARNINGS] > warned,
    )


async def _series_of(
    server: Prometheus, asked: Sequence[str], from_ms: int, to_ms: int
) -> list[dict[str, str]]:
    """Labels of series, some of them twice; in halves of the selectors, then of time, where that is too much at once."""
    try:
        return list(await server.series(asked, from_ms, to_ms))
    except TooLarge:
        half, middle = len(asked) // 2, (from_ms + to_ms) // 2
        if half:
            parts = [(asked[:half], from_ms, to_ms), (asked[half:], from_ms, to_ms)]
        elif to_ms - from_ms >= 2 * LEAST_WINDOW_MS:
            parts = [(asked, from_ms, middle), (asked, middle, to_ms)]
        else:
            raise
    server.counts.add(Word.SPLITS)
    found: list[dict[str, str]] = []
    for part in parts:
        found += await _series_of(server, *part)
    return found


async def chunks(
    server: Prometheus,
    wanted: Sequence[Wanted],
    from_ms: int,
    to_ms: int,
    *,
    window_ms: int = WINDOW_MS,
    parallel: int = PARALLEL,
) -> AsyncGenerator[Chunk, None]:
    """All samples of a span, in chunks in the order of time; the next is fetched while one is worked on.

    To go on after an interruption, begin at the ``to_ms`` of the last chunk that was kept: windows lie on multiples
    of ``window_ms``, so the same chunks come again.

    Raises:
        TelemetryError: The server refuses; or one series alone is too large for it.
        TelemetryAway: It does not answer any more.
    """
    fetch = _Fetch(server, asyncio.Semaphore(parallel))
    spans = list(_spans(from_ms, to_ms, window_ms))
    ahead: asyncio.Task[Chunk] | None = None
    try:
        for at, span in enumerate(spans):
            task = ahead or asyncio.create_task(fetch.window(wanted, *span))
            ahead = task
            chunk = await task
            following = spans[at + 1] if at + 1 < len(spans) else None
            ahead = asyncio.create_task(fetch.window(wanted, *following)) if following else None
            yield chunk
    finally:
        if ahead is not None:
            ahead.cancel()
            await asyncio.gather(ahead, return_exceptions=True)


def _spans(from_ms: int, to_ms: int, window_ms: int) -> list[tuple[int, int]]:
    found = []
    while from_ms < to_ms:
        end = min(to_ms, (from_ms // window_ms + 1) * window_ms)
        found.append((from_ms, end))
        from_ms = end
    return found


class _Fetch:
    def __init__(self, server: Prometheus, places: asyncio.Semaphore) -> None:
        self._server = server
        self._places = places

    async def window(self, wanted: Sequence[Wanted], from_ms: int, to_ms: int) -> Chunk:
        before = _missing(self._server.counts)
        tasks = [asyncio.create_task(self._series(one, from_ms, to_ms)) for one in wanted]
        try:
            found = await asyncio.gather(*tasks)
        except BaseException:
            for one in tasks:
                one.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            raise
        return Chunk(
            from_ms=from_ms, to_ms=to_ms, series=tuple(one for part in found for one in part),
            partial=_missing(self._server.counts) > before,
        )  # fmt: skip

    async def _series(self, wanted: Wanted, from_ms: int, to_ms: int) -> list[Series]:
        """The series of one metric; in halves of time, then of a label's values, where that is too much at once."""
        try:
            async with self._places:
                return list(await self._server.raw(wanted.selector, from_ms, to_ms))
        except TooLarge as large:
            halved = to_ms - from_ms >= 2 * LEAST_WINDOW_MS
            if isinstance(large, TooSlow) and not halved:
                raise  # a server that cannot give one minute is away
            self._server.counts.add(Word.SPLITS)
            if halved:
                middle = (from_ms + to_ms) // 2
                parts = [(wanted, from_ms, middle), (wanted, middle, to_ms)]
            else:
                parts = [
                    (one, from_ms, to_ms)
                    for one in await self._halves(wanted, from_ms, to_ms, large)
                ]
        found: list[Series] = []
        for one, start, end in parts:
            found += await self._series(one, start, end)
        return found

    async def _halves(
        self, wanted: Wanted, from_ms: int, to_ms: int, large: TooLarge
    ) -> tuple[Wanted, Wanted]:
        """The same series as two sets that nothing can fall between: those with one of some values, and all others.

        Raises:
            TelemetryError: There is only one series.
        """
        async with self._places:
            labels = await self._server.series([wanted.selector], from_ms, to_ms)
        values: dict[str, set[str]] = {}
        for one in labels:
            for name in one:
                values.setdefault(name, set())
        for name, several in values.items():
            several.update(one.get(name, "") for one in labels)
        name = max(sorted(values), key=lambda one: len(values[one]), default="")
        if not name or len(values[name]) < 2:
            raise TelemetryError(
                f"a single series of {wanted.metric} over {(to_ms - from_ms) // 1000} s is more than the server gives"
                f" ({large.message})",
                where=self._server.shown, status=large.status, hint=large.hint,
            ) from large  # fmt: skip
        several_values = sorted(values[name])
        first = several_values[: len(several_values) // 2]
        expression = "|".join(_literal(one) for one in first)
        return (
            replace(
                wanted,
                matchers=(*wanted.matchers, Matcher(label=name, operator="=~", value=expression)),
            ),
            replace(
                wanted,
                matchers=(*wanted.matchers, Matcher(label=name, operator="!~", value=expression)),
            ),
        )


def _missing(counts: Counts) -> int:
    """How often something was there that could not be had."""
    return sum(counts[word] for word in PARTIAL)


def _literal(text: str) -> str:
    """A text as an expression of RE2 that fits itself alone; ``re.escape`` escapes more than RE2 takes."""
    return "".join(f"\\{one}" if one in r"\.+*?()|[]{}^$" else one for one in text)
