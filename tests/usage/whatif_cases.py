"""Generated what-if cases: a fleet of known clients under limits, records of its brokers, a change of limits.

Generated from a number, so that tests of every engine use the same cases.
"""

from dataclasses import dataclass
from random import Random

from reconciler.quota.entity import ABSENT, DEFAULT, Entity, is_legal
from reconciler.quota.keys import Key
from reconciler.quota.state import QuotaState
from reconciler.usage.impact.query import ImpactQuery, impact_query
from reconciler.usage.impact.recorded_limits import RecordedLimits
from reconciler.usage.samples import KEY_OF, MAX_UNITS, Cadence, Censored, QuotaType
from reconciler.usage.tags import Bucket, book, bucket_of, tags_of
from tests.usage.reference import Sample, summed

CADENCE = Cadence(step_ms=30_000, max_gap_ms=150_000)
START_MS = 1_700_000_000_000
USERS = ("alice", "bob", "zoë 50%")
CLIENTS = ("app", "job", "", 'a"b')
ADDRESSES = ("10.0.0.1", "10.0.0.2")
_SLOTS = [
    (*USERS, DEFAULT, ABSENT),
    ("app", "job", 'a"b', DEFAULT, ABSENT),
    (*ADDRESSES, DEFAULT, ABSENT),
]
ENTITIES = [
    subject
    for user in _SLOTS[0]
    for client in _SLOTS[1]
    for ip in _SLOTS[2]
    if is_legal(subject := Entity((user, client, ip)))
]
ODD_LIMITS = (1.0, 0.4, float(MAX_UNITS), float("inf"), float("nan"), 0.0, -5.0, 9.2e18)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One case: limits, recorded use under them, and new limits; some cases had other limits in between."""

    cluster_id: str
    before: QuotaState
    after: QuotaState
    observed_buckets: dict[QuotaType, dict[str, list[Bucket]]]
    measured: frozenset[QuotaType]
    series: dict[QuotaType, dict[Bucket, dict[str, list[Sample]]]]
    recorded: RecordedLimits | None = None

    @property
    def question(self) -> ImpactQuery:
        """The query for the change."""
        return impact_query(
            self.cluster_id,
            self.before,
            self.after,
            self.observed_buckets,
            self.measured,
            recorded=self.recorded,
        )


def case(number: int, *, length: int = 12) -> Case:
    """The case of this number; samples have gaps, irregular steps, censored times, and rates up to the cap."""
    draw = Random(number)
    before = _limits(draw, QuotaState(), draw.randrange(9))
    after = _limits(draw, before, draw.randrange(1, 5))
    measured = frozenset(kind for kind in QuotaType if draw.random() < 0.9)
    series: dict[QuotaType, dict[Bucket, dict[str, list[Sample]]]] = {}
    observed_buckets: dict[QuotaType, dict[str, list[Bucket]]] = {}
    for kind in QuotaType:
        rules = book(before, KEY_OF[kind])
        for broker in map(str, range(1, 1 + draw.randrange(4))):
            moments = _moments(draw, length)
            parts: dict[Bucket, list[list[Sample]]] = {}
            for _ in range(draw.randrange(5)):
                if kind is QuotaType.IP:
                    bucket = bucket_of(ip=draw.choice(ADDRESSES))
                else:
                    bucket = tags_of(rules, draw.choice(USERS), draw.choice(CLIENTS))
                parts.setdefault(bucket, []).append(_samples(draw, moments))
            if draw.random() < 0.1:  # recorded under limits without a record
                parts.setdefault(bucket_of("alice", "old"), []).append(_samples(draw, moments))
            observed_buckets.setdefault(kind, {})[broker] = sorted(parts)
            for bucket, each in parts.items():
                series.setdefault(kind, {}).setdefault(bucket, {})[broker] = list(summed(each))
    return Case(
        cluster_id=f"cluster-{number}",
        before=before,
        after=after,
        observed_buckets=observed_buckets,
        measured=measured,
        series=series,
        recorded=_recorded(Random(-1 - number), before),
    )


def _recorded(draw: Random, before: QuotaState) -> RecordedLimits | None:
    """Every third case had other limits in between, occasionally too many."""
    if draw.random() < 2 / 3:
        return None
    then = tuple(_limits(draw, before, draw.randrange(3)) for _ in range(draw.randrange(3)))
    beyond = {key for key in Key if draw.random() < 0.03}
    return RecordedLimits(states=(*then, before), beyond=frozenset(beyond))


def _limits(draw: Random, state: QuotaState, changes: int) -> QuotaState:
    values: list[tuple[Entity, Key, float | None]] = []
    for _ in range(changes):
        kind = draw.choice((QuotaType.PRODUCE, QuotaType.PRODUCE, *QuotaType))
        subjects = [
            subject for subject in ENTITIES if (subject[2] is not ABSENT) == (kind is QuotaType.IP)
        ]
        limit: float | None = (
            draw.choice((None, *ODD_LIMITS)) if draw.random() < 0.3 else draw.uniform(0.5, 3000)
        )
        values.append((draw.choice(subjects), KEY_OF[kind], limit))
    return state.with_values(values)


def _moments(draw: Random, length: int) -> list[tuple[int, int]]:
    """The scrape times of a broker, and the time that each sample covers."""
    ts, moments = START_MS, []
    for _ in range(length):
        distance = draw.choice(
            (30_000, 30_000, 30_000, 60_000, 12_345, 999, 150_000, 150_001, 900_000)
        )
        ts += distance
        moments.append((ts, distance if distance <= CADENCE.max_gap_ms else CADENCE.step_ms))
    return moments


def _samples(draw: Random, moments: list[tuple[int, int]]) -> list[Sample]:
    top = draw.choice((50, 2_000, 2_000_000_000, MAX_UNITS))
    has_throttle_time = draw.random() < 0.7
    samples = []
    for ts, dt in moments:
        if draw.random() < 0.1:
            continue
        throttle = draw.choice((0, 0, 0, 250)) if has_throttle_time else None
        calm = (Censored.NO,) * 9 if draw.random() < 0.8 else (Censored.UNKNOWN, Censored.YES)
        rate = draw.choice((0, top, draw.randrange(top + 1)))
        samples.append(Sample(ts, dt, rate, throttle, draw.choice(calm)))
    return samples
