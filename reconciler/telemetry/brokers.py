"""Which broker an instance is, moment by moment: from app-info or the rule of the mapping; nothing is guessed."""

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from reconciler.telemetry.codes import is_whole
from reconciler.telemetry.fates import Fate, Tally

MAX_ID = 2**31


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """A time in which an instance was seen with one id and no other.

    Attributes:
        broker: The id.
        from_ms: First sight.
        to_ms: Last sight.
    """

    broker: str
    from_ms: int
    to_ms: int


class Identities:
    """Who each instance is over a day.

    An instance keeps its id before the first and after the last sight of the day. If it changes, because an address
    was given to another broker, nothing is known between the last sight of one id and the first of the next.

    Args:
        sightings: ``(instance, milliseconds, id)`` in any order; several replicas may have seen the same.
        tally: Where ids that are none are counted.
    """

    def __init__(self, sightings: Iterable[tuple[str, int, float]], tally: Tally) -> None:
        seen: dict[str, list[tuple[int, int]]] = {}
        for instance, ts, value in sightings:
            if is_whole(value, MAX_ID):
                seen.setdefault(instance, []).append((ts, int(value)))
            else:
                tally.add(Fate.BAD_BROKER_ID)
        self._stretches: Mapping[str, tuple[Stretch, ...]] = {
            instance: _stretches(sorted(found)) for instance, found in seen.items()
        }
        self._starts = {
            instance: [one.from_ms for one in found] for instance, found in self._stretches.items()
        }

    def of(self, instance: str, ts_ms: int) -> str | Fate:
        """The broker that an instance is at a moment, or why that is not known."""
        found = self._stretches.get(instance)
        if found is None:
            return Fate.BROKER_UNKNOWN
        at = bisect_right(self._starts[instance], ts_ms) - 1
        if at < 0:
            return found[0].broker
        if ts_ms <= found[at].to_ms or at == len(found) - 1:
            return found[at].broker
        return Fate.BROKER_CHANGED


def _stretches(seen: list[tuple[int, int]]) -> tuple[Stretch, ...]:
    made: list[Stretch] = []
    for ts, number in seen:
        broker = str(number)
        if made and made[-1].broker == broker:
            made[-1] = Stretch(broker=broker, from_ms=made[-1].from_ms, to_ms=ts)
        else:
            made.append(Stretch(broker=broker, from_ms=ts, to_ms=ts))
    return tuple(made)
