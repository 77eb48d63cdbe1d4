"""Which broker a target is, moment by moment: from app-info or the rule of the mapping; nothing is guessed."""

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from reconciler.evidence.ingest.assembly.row_codes import is_whole
from reconciler.evidence.ingest.dialects.targets import ScrapeTarget
from reconciler.evidence.ingest.drop_reasons import DropCounts, DropReason

MAX_ID = 2**31


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentityPeriod:
    """A time in which a target was seen with one id and no other.

    Attributes:
        broker: The id.
        from_ms: First sight.
        to_ms: Last sight.
    """

    broker: str
    from_ms: int
    to_ms: int


class BrokerIdentities:
    """Who each target is over a day.

    A target that ``telemetry.brokerId`` names is that broker. Else app-info of the same job says it; where that job has
    none, app-info of the same instance.

    A target keeps its id before the first and after the last sight of the day. If it changes, because an address
    was given to another broker, nothing is known between the last sight of one id and the first of the next.

    Args:
        sightings: ``(target, milliseconds, id)`` in any order; several replicas may have seen the same.
        tally: Where ids that are none are counted.
    """

    def __init__(
        self, sightings: Iterable[tuple[ScrapeTarget, int, float]], tally: DropCounts
    ) -> None:
        known_sightings = tuple(sightings)
        shared = _shared(target for target, _, _ in known_sightings)
        sightings_by_target: dict[ScrapeTarget, list[tuple[int, int]]] = {}
        for target, ts, value in known_sightings:
            if not is_whole(value, MAX_ID):
                tally.add(DropReason.BAD_BROKER_ID)
                continue
            instance_target = ScrapeTarget(target.instance)
            for whose in (
                {target}
                if target.broker and instance_target in shared
                else {target, instance_target}
            ):
                sightings_by_target.setdefault(whose, []).append((ts, int(value)))
        self._stretches: Mapping[ScrapeTarget, tuple[IdentityPeriod, ...]] = {
            target: _stretches(sorted(target_sightings))
            for target, target_sightings in sightings_by_target.items()
        }
        self._starts = {
            target: [period.from_ms for period in periods]
            for target, periods in self._stretches.items()
        }

    def knows(self, target: ScrapeTarget) -> bool:
        """Whether anything says who a target is."""
        return bool(target.broker) or self._known_target(target) in self._stretches

    def of(self, target: ScrapeTarget, ts_ms: int) -> str | DropReason:
        """The broker that a target is at a moment, or why that is not known."""
        if target.broker:
            return target.broker
        known_target = self._known_target(target)
        periods = self._stretches.get(known_target)
        if periods is None:
            return DropReason.BROKER_UNKNOWN
        at = bisect_right(self._starts[known_target], ts_ms) - 1
        if at < 0:
            return periods[0].broker
        if ts_ms <= periods[at].to_ms or at == len(periods) - 1:
            return periods[at].broker
        return DropReason.BROKER_CHANGED

    def _known_target(self, target: ScrapeTarget) -> ScrapeTarget:
        return target if target in self._stretches else ScrapeTarget(target.instance)


def _shared(targets: Iterable[ScrapeTarget]) -> set[ScrapeTarget]:
    """Instances that several brokers are behind."""
    jobs_by_instance: dict[str, set[str]] = {}
    for target in targets:
        if target.broker:
            jobs_by_instance.setdefault(target.instance, set()).add(target.broker)
    return {ScrapeTarget(instance) for instance, jobs in jobs_by_instance.items() if len(jobs) > 1}


def _stretches(sightings: list[tuple[int, int]]) -> tuple[IdentityPeriod, ...]:
    periods: list[IdentityPeriod] = []
    for ts, number in sightings:
        broker = str(number)
        if periods and periods[-1].broker == broker:
            periods[-1] = IdentityPeriod(broker=broker, from_ms=periods[-1].from_ms, to_ms=ts)
        else:
            periods.append(IdentityPeriod(broker=broker, from_ms=ts, to_ms=ts))
    return tuple(periods)
