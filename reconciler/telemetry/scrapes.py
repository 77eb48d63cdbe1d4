"""Which scrapes of a day count: the broker of each, one replica per broker and hour, none sooner than the window is over."""

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Final, NamedTuple

from reconciler.telemetry.brokers import Identities
from reconciler.telemetry.fates import Fate
from reconciler.telemetry.targets import Origin
from reconciler.usage.samples import LEAST_STEP_MS
from reconciler.usage.series import thinned

HOUR_MS: Final = 3_600_000


LIVE_MS: Final = 300_000
"""Two instances that answer side by side for longer are both alive: a series that is gone goes on for so long in range queries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the points of one scrape belong.

    Attributes:
        row: The kept moment of a broker (:attr:`Scrapes.moments`); ``None`` = none.
        fate: Why it is none, or what is odd about it; ``None`` = nothing.
        spare: The kept moment that it would be, were its series not seen by the chosen replica.
    """

    row: int | None = None
    fate: Fate | None = None
    spare: int | None = None


class Moment(NamedTuple):
    """A scrape of a broker that counts."""

    broker: str
    ts_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Scrapes:
    """The scrapes of all brokers on one day.

    Attributes:
        moments: Kept scrapes that succeeded, sorted by broker and time; the place in this list is the *row* of a moment.
        rows: The rows of each broker, ascending.
        failed: Scrapes that failed and are not beside one that succeeded, by broker, ascending.
        places: Where the points of each scrape belong.
        surmised: Rows of moments that no ``up`` tells of: some point was there.
        contested: Broker ids that several brokers have, and the instances of these.
    """

    moments: tuple[Moment, ...]
    rows: Mapping[str, range]
    failed: Mapping[str, tuple[int, ...]]
    places: Mapping[tuple[Origin, int], Place]
    surmised: frozenset[int] = frozenset()
    contested: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])


@dataclass(slots=True)
class _Hour:
    """What one origin saw of a broker within an hour."""

    answered: list[int] = field(default_factory=list[int])
    failed: list[int] = field(default_factory=list[int])


def chosen(
    asked: Mapping[Origin, Mapping[int, bool]],
    read: Mapping[Origin, Iterable[int]],
    identities: Identities,
    step_ms: int,
    *,
    surmised: Collection[Origin],
    alike: Callable[[Origin, Origin, int], bool | None],
) -> Scrapes:
    """The scrapes that count.

    Args:
        asked: When each origin was scraped, and whether it answered.
        read: When each origin has points of use or of the broker.
        identities: Who the targets are.
        step_ms: Usual distance of two scrapes; points within half of it belong to a scrape.
        surmised: Origins of which only their points tell when they answered.
        alike: Whether two origins of different instances can be the same broker in an hour (since the epoch), by what
            they recorded; ``None`` = nothing that could be compared.
    """
    hours: dict[tuple[str, int], dict[Origin, _Hour]] = {}
    unknown: dict[tuple[Origin, int], Fate] = {}
    for origin, scrapes in asked.items():
        for ts, up in scrapes.items():
            broker = identities.of(origin.target, ts)
            if isinstance(broker, Fate):
                unknown[origin, ts] = broker
                continue
            hour = hours.setdefault((broker, ts // HOUR_MS), {}).setdefault(origin, _Hour())
            (hour.answered if up else hour.failed).append(ts)
    contested = _contested(hours, alike)
    answered: dict[str, list[int]] = {}
    failed: dict[str, list[int]] = {}
    dropped: dict[tuple[Origin, int], Fate] = {}
    guessed: set[Moment] = set()
    for (broker, _), everybody in hours.items():
        rivals = contested.get(broker, frozenset())
        seen = {
            origin: one for origin, one in everybody.items() if origin.target.instance not in rivals
        }
        taken = _taken(seen)
        for origin, one in everybody.items():
            if origin in taken:
                answered.setdefault(broker, []).extend(one.answered)
                failed.setdefault(broker, []).extend(one.failed)
                if origin in surmised:
                    guessed.update(Moment(broker, ts) for ts in one.answered)
            else:
                twin = any(other.target == origin.target for other in taken)
                fate = Fate.OTHER_REPLICA if twin else Fate.OTHER_INSTANCE
                fate = fate if origin in seen else Fate.TWO_BROKERS
                dropped.update(((origin, ts), fate) for ts in one.answered)
    moments, rows = _kept(answered)
    placing = _Placing(
        moments,
        rows,
        asked=asked,
        unknown=unknown,
        dropped=dropped,
        identities=identities,
        step_ms=step_ms,
    )
    return Scrapes(
        moments=moments,
        rows=rows,
        failed={
            broker: _apart(sorted(set(found)), [moments[row].ts_ms for row in rows.get(broker, ())])
            for broker, found in failed.items()
        },
        places={
            (origin, ts): placing.of(origin, ts) for origin, times in read.items() for ts in times
        },
        surmised=frozenset(row for row, one in enumerate(moments) if one in guessed),
        contested={broker: tuple(sorted(several)) for broker, several in contested.items()},
    )


def _contested(
    hours: Mapping[tuple[str, int], Mapping[Origin, _Hour]],
    alike: Callable[[Origin, Origin, int], bool | None],
) -> dict[str, frozenset[str]]:
    """Instances that cannot be the one broker whose id they have, by id.

    Two clusters that no label tells apart, or an exporter that gives every broker the same id, would otherwise be
    mixed into one. They are alive side by side and their series are not alike. One broker may be scraped under two
    names; under three hardly.
    """
    found: dict[str, frozenset[str]] = {}
    for (broker, hour), seen in hours.items():
        spans = {
            one: (min(of.answered), max(of.answered)) for one, of in seen.items() if of.answered
        }
        names: set[str] = set()
        unlike: set[str] = set()
        for one, other in combinations(sorted(spans), 2):
            both = {one.target.instance, other.target.instance}
            together = min(spans[one][1], spans[other][1]) - max(spans[one][0], spans[other][0])
            if len(both) < 2 or together < LIVE_MS:
                continue
            same = alike(one, other, hour)
            if same is not None:
                names |= both
                unlike |= set() if same else both
        rivals = names if len(names) > 2 else unlike
        if rivals:
            found[broker] = found.get(broker, frozenset()) | rivals
    return found


def _taken(seen: Mapping[Origin, _Hour]) -> set[Origin]:
    """The origins whose scrapes count in an hour: the one that saw most, and others that do not overlap it.

    Replicas overlap for the whole hour. An instance that was replaced does not: its successor begins when it ended.
    """
    order = sorted(seen, key=lambda one: (-len(seen[one].answered), -len(seen[one].failed), one))
    spans: list[tuple[int, int]] = []
    taken: set[Origin] = set()
    for origin in order:
        times = seen[origin].answered
        if not times:
            if not taken:
                taken.add(origin)
            break
        begin, end = min(times), max(times)
        if all(end < other_begin or other_end < begin for other_begin, other_end in spans):
            spans.append((begin, end))
            taken.add(origin)
    return taken


def _kept(answered: Mapping[str, Sequence[int]]) -> tuple[tuple[Moment, ...], dict[str, range]]:
    moments: list[Moment] = []
    rows: dict[str, range] = {}
    for broker in sorted(answered):
        begin = len(moments)
        moments.extend(Moment(broker, ts) for ts in thinned(sorted(set(answered[broker]))))
        if len(moments) > begin:
            rows[broker] = range(begin, len(moments))
    return tuple(moments), rows


def _apart(times: Sequence[int], others: Sequence[int]) -> tuple[int, ...]:
    """Those of ``times`` that stand clear of each other and of all ``others``, as thinning does it."""
    return tuple(
        ts
        for ts in thinned(times)
        if (near := _nearest(others, ts)) is None or abs(near - ts) >= LEAST_STEP_MS
    )


def _nearest(times: Sequence[int], ts: int) -> int | None:
    at = bisect_left(times, ts)
    return min(times[max(0, at - 1) : at + 1], key=lambda one: abs(one - ts), default=None)


class _Placing:
    """Finds the place of a scrape's points."""

    def __init__(
        self,
        moments: Sequence[Moment],
        rows: Mapping[str, range],
        *,
        asked: Mapping[Origin, Mapping[int, bool]],
        unknown: Mapping[tuple[Origin, int], Fate],
        dropped: Mapping[tuple[Origin, int], Fate],
        identities: Identities,
        step_ms: int,
    ) -> None:
        self._row = {moment: row for row, moment in enumerate(moments)}
        self._kept = {
            broker: [moments[row].ts_ms for row in found] for broker, found in rows.items()
        }
        self._answers = {
            origin: sorted(ts for ts, up in scrapes.items() if up)
            for origin, scrapes in asked.items()
        }
        self._asked = asked
        self._unknown = unknown
        self._dropped = dropped
        self._identities = identities
        self._reach = step_ms // 2

    def of(self, origin: Origin, ts: int) -> Place:
        up = self._asked.get(origin, {}).get(ts)
        if up is None:
            return self._beside(origin, ts)
        unknown = self._unknown.get((origin, ts))
        if unknown is not None:
            return Place(fate=unknown)
        return self._at(origin, ts) if up else Place(fate=Fate.SCRAPE_FAILED)

    def _beside(self, origin: Origin, ts: int) -> Place:
        """Points with times of their own: they belong to the scrape that is near."""
        found = self._identities.of(origin.target, ts)
        if isinstance(found, Fate):
            return Place(fate=found)
        near = _nearest(self._answers.get(origin, ()), ts)
        if near is None or abs(near - ts) > self._reach or (origin, near) in self._unknown:
            return Place(fate=Fate.UNALIGNED)
        place = self._at(origin, near)
        return Place(
            row=place.row,
            fate=place.fate or (None if place.row is None else Fate.SNAPPED),
            spare=place.spare,
        )

    def _at(self, origin: Origin, ts: int) -> Place:
        broker = self._identities.of(origin.target, ts)
        assert isinstance(broker, str)  # noqa: S101 - unknown ones were sorted out before
        fate = self._dropped.get((origin, ts))
        if fate is not None:
            near = _nearest(self._kept.get(broker, ()), ts)
            is_near = near is not None and abs(near - ts) <= self._reach
            spare = self._row[Moment(broker, near)] if near is not None and is_near else None
            return Place(fate=fate, spare=spare)
        row = self._row.get(Moment(broker, ts))
        return Place(row=row, fate=None if row is not None else Fate.THINNED)
