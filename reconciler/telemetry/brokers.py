"""Which broker a target is, moment by moment: from app-info or the rule of the mapping; nothing is guessed."""

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from reconciler.telemetry.codes import is_whole
from reconciler.telemetry.fates import Fate, Tally
from reconciler.telemetry.targets import Target

MAX_ID = 2**31


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """A time in which a target was seen with one id and no other.

    Attributes:
        broker: The id.
        from_ms: First sight.
        to_ms: Last sight.
    """

    broker: str
    from_ms: int
    to_ms: int


class Identities:
    """Who each target is over a day.

    A target that ``telemetry.brokerId`` names is that broker. Else app-info of the same job says it; where that job has
    none, app-info of the same instance.

    A target keeps its id before the first and after the last sight of the day. If it changes, because an address
    was given to another broker, nothing is known between the last sight of one id and the first of the next.

    Args:
        sightings: ``(target, milliseconds, id)`` in any order; several replicas may have seen the same.
        tally: Where ids that are none are counted.
    """

    def __init__(self, sightings: Iterable[tuple[Target, int, float]], tally: Tally) -> None:
        known = tuple(sightings)
        shared = _shared(target for target, _, _ in known)
        seen: dict[Target, list[tuple[int, int]]] = {}
        for target, ts, value in known:
            if not is_whole(value, MAX_ID):
                tally.add(Fate.BAD_BROKER_ID)
                continue
            whole = Target(target.instance)
            for whose in {target} if target.broker and whole in shared else {target, whole}:
                seen.setdefault(whose, []).append((ts, int(value)))
        self._stretches: Mapping[Target, tuple[Stretch, ...]] = {
            target: _stretches(sorted(found)) for target, found in seen.items()
        }
        self._starts = {
            target: [one.from_ms for one in found] for target, found in self._stretches.items()
        }

    def knows(self, target: Target) -> bool:
        """Whether anything says who a target is."""
        return bool(target.broker) or self._named(target) in self._stretches

    def of(self, target: Target, ts_ms: int) -> str | Fate:
        """The broker that a target is at a moment, or why that is not known."""
        if target.broker:
            return target.broker
        named = self._named(target)
        found = self._stretches.get(named)
        if found is None:
            return Fate.BROKER_UNKNOWN
        at = bisect_right(self._starts[named], ts_ms) - 1
        if at < 0:
            return found[0].broker
        if ts_ms <= found[at].to_ms or at == len(found) - 1:
            return found[at].broker
        return Fate.BROKER_CHANGED

    def _named(self, target: Target) -> Target:
        return target if target in self._stretches else Target(target.instance)


def _shared(targets: Iterable[Target]) -> set[Target]:
    """Instances that several brokers are behind."""
    named: dict[str, set[str]] = {}
    for one in targets:
        if one.broker:
            named.setdefault(one.instance, set()).add(one.broker)
    return {Target(instance) for instance, several in named.items() if len(several) > 1}


def _stretches(seen: list[tuple[int, int]]) -> tuple[Stretch, ...]:
    made: list[Stretch] = []
    for ts, number in seen:
        broker = str(number)
        if made and made[-1].broker == broker:
            made[-1] = Stretch(broker=broker, from_ms=made[-1].from_ms, to_ms=ts)
        else:
            made.append(Stretch(broker=broker, from_ms=ts, to_ms=ts))
    return tuple(made)
