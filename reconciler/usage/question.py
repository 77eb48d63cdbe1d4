"""What a plan asks of recorded use: the rows to come, all that is known of them without a sample, and the series to read.

Only what a plan changes is asked for. Every pair that changes is spoken of: where nothing was seen, or nobody is held to
a limit, a row says that.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from reconciler.quota.entity import ABSENT, DEFAULT, Entity, sort_key
from reconciler.quota.keys import COLUMNS, Key
from reconciler.quota.state import State
from reconciler.usage.buckets import (
    CUSTOM_CALLBACK,
    FOREIGN_ENTITIES,
    HISTORY_BREAKS,
    NOTHING_SEEN,
    Answer,
    Mapped,
    Regrouping,
    regroup,
)
from reconciler.usage.recorded import Past, Recorded, past
from reconciler.usage.samples import (
    KEY_OF,
    QuotaType,
    ValueState,
    limit_state,
    limit_units,
)
from reconciler.usage.tables import entity_text
from reconciler.usage.tags import Book, Bucket, GroupKind, book, bucket_of, limit_of

NOT_MEASURED: Final = "the brokers had no quota of this kind, so they recorded nobody's use"
NOBODY_HELD: Final = "no client that was seen is held to this limit, before or after"
INVALID_LIMIT: Final = "a limit that is not above zero, or not a number, cannot be simulated"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fed:
    """An old bucket that is to be read, and the limit that it has today in units; ``None`` = unlimited."""

    bucket: Bucket
    limit: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One row to come: everything about it that needs no sample.

    Attributes:
        quota_type: What is limited.
        bucket: Who, after the change.
        any_name: Whether it speaks of many buckets that only traffic will name.
        broker_id: Where; "" = no broker saw it.
        answer: How far the parts say what the bucket will use.
        parts: What has to be read; nothing where no figure could come of it.
        before_units: The lowest limit of the parts today; ``None`` = unlimited, or no number.
        after_units: The limit to come.
        source_entity: Whose limit that will be (:func:`entity_json`).
        why: One sentence, "" where the answer is exact.
    """

    quota_type: QuotaType
    bucket: Bucket
    any_name: bool
    broker_id: str
    answer: Answer
    parts: tuple[Fed, ...]
    before_units: int | None
    after_units: int | None
    source_entity: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a plan asks of the evidence of one cluster.

    Attributes:
        cluster_id: Which cluster.
        asked: The rows to come, sorted as :func:`judged` gives them.
        flipped: Buckets without limits that will be counted under other tags: their history ends.
        unexplained: Series that the limits of today cannot have made.
        notes: Sentences about whole types.
    """

    cluster_id: str
    asked: tuple[Asked, ...]
    flipped: tuple[tuple[str, QuotaType, Bucket], ...] = ()
    unexplained: tuple[tuple[str, QuotaType, Bucket], ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def reads(self) -> dict[QuotaType, tuple[Bucket, ...]]:
        """The buckets whose series are needed, by type, sorted; nothing else has to be read."""
        found: dict[QuotaType, set[Bucket]] = {}
        for one in self.asked:
            if one.parts:
                found.setdefault(one.quota_type, set()).update(part.bucket for part in one.parts)
        return {kind: tuple(sorted(found[kind])) for kind in QuotaType if kind in found}


def entity_json(subject: Entity | None) -> str:
    """An entity as canonical JSON, the same for every engine; "" = nobody."""
    return entity_text(subject)


def asked(
    cluster_id: str,
    before: State,
    after: State,
    seen: Mapping[QuotaType, Mapping[str, Collection[Bucket]]],
    measured: Collection[QuotaType],
    *,
    callback: str | None = None,
    recorded: Recorded | None = None,
) -> Question:
    """What has to be read to tell what a change of limits does.

    Args:
        cluster_id: Which cluster.
        before: The limits of today.
        after: The limits to come.
        seen: Which buckets each broker recorded, by type.
        measured: The types that the brokers measured at all.
        callback: A custom quota callback of the brokers; ``None`` or "" = Kafka's own rules.
        recorded: The limits under which the series were recorded, all through; ``None`` = those of today.
    """
    found: list[Asked] = []
    flipped: set[tuple[str, QuotaType, Bucket]] = set()
    unexplained: set[tuple[str, QuotaType, Bucket]] = set()
    notes: list[str] = []
    changed = _changed(before, after)
    for kind in QuotaType:
        key = KEY_OF[kind]
        if key not in changed:
            continue
        change = _Change(
            kind=kind,
            before=book(before, key),
            after=book(after, key),
            past=past(recorded, key),
            blind=_blind(
                str(key), (before, after, *(recorded.states if recorded else ())), callback
            ),
            subjects=changed[key],
        )
        by_broker = dict(seen.get(kind, {})) if kind in measured else {}
        groups = {broker: change.regrouped(by_broker[broker]) for broker in sorted(by_broker)} or {
            "": change.regrouped(())
        }
        rows = change.rows(groups, NOTHING_SEEN if kind in measured else NOT_MEASURED)
        found += rows
        for one in groups.values():
            flipped.update((cluster_id, kind, bucket) for bucket in one.flipped)
            unexplained.update((cluster_id, kind, bucket) for bucket in one.unexplained)
        notes += change.notes(rows)
    return Question(
        cluster_id=cluster_id,
        asked=tuple(sorted(found, key=_order)),
        flipped=tuple(sorted(flipped)),
        unexplained=tuple(sorted(unexplained)),
        notes=tuple(notes),
    )


def _order(one: Asked) -> tuple[QuotaType, Bucket, bool, str]:
    """The key of ``impact_row``."""
    return one.quota_type, one.bucket, one.any_name, one.broker_id


def _changed(before: State, after: State) -> dict[Key, tuple[Entity, ...]]:
    """Whose limit of which key changes, sorted by entity. What is not a number equals itself."""
    found: defaultdict[Key, list[Entity]] = defaultdict(list)
    entities = before.limits.keys() | after.limits.keys()
    differ = [one for one in entities if before.limits.get(one) != after.limits.get(one)]
    for subject in sorted(differ, key=sort_key):
        for key in COLUMNS:
            values = {repr(side.value(subject, key)) for side in (before, after)}
            if len(values) > 1:
                found[key].append(subject)
    return {key: tuple(subjects) for key, subjects in found.items()}


def _blind(key: str, states: Iterable[State], callback: str | None) -> str:
    """Why nothing can be said of who is counted with whom, "" = it can."""
    if callback:
        return CUSTOM_CALLBACK
    foreign = (values for state in states for _, values in state.foreign_entities)
    return FOREIGN_ENTITIES if any(key == name for one in foreign for name, _ in one) else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    """The change of one key."""

    kind: QuotaType
    before: Book
    after: Book
    past: Past
    blind: str
    subjects: tuple[Entity, ...]

    def regrouped(self, buckets: Collection[Bucket]) -> Regrouping:
        """What becomes of the buckets of one broker."""
        found = regroup(self.before, self.after, buckets, blind=self.blind)
        broken = self.past.broken(self.before, buckets)
        if not broken:
            return found
        return replace(
            found,
            mapped=tuple(
                replace(one, answer=Answer.NOT_IDENTIFIABLE, why=HISTORY_BREAKS)
                if broken.intersection(one.parts) and one.answer is not Answer.NOT_IDENTIFIABLE
                else one
                for one in found.mapped
            ),
        )

    def rows(self, groups: Mapping[str, Regrouping], unseen: str) -> list[Asked]:
        """The rows of every broker, then those that no broker has, then what no row has spoken of."""
        told: list[tuple[str, Mapped]] = []
        silent: dict[tuple[Bucket, bool], Mapped] = {}
        heard: set[tuple[Bucket, bool]] = set()
        for broker, group in groups.items():
            for one in group.mapped:
                if broker and one.answer is not Answer.NO_DATA:
                    heard.add(_who(one))
            for one in group.changed:
                if broker and one.answer is not Answer.NO_DATA:
                    told.append((broker, one))
                else:
                    _ = silent.setdefault(_who(one), one)
        told += [
            ("", one)
            for who, one in silent.items()
            if who not in heard
            and (one.answer is not Answer.NO_DATA or self._sources(one).intersection(self.subjects))
        ]
        told += self._without_effect(told, groups)
        found = [self._row(one, broker, unseen) for broker, one in told]
        spoken_of = {subject for _, one in told for subject in self._sources(one)}
        nobody = unseen if unseen == NOT_MEASURED else NOBODY_HELD
        found += [self._unheard(one, nobody) for one in self.subjects if one not in spoken_of]
        return found

    def _without_effect(
        self, told: Iterable[tuple[str, Mapped]], groups: Mapping[str, Regrouping]
    ) -> list[tuple[str, Mapped]]:
        """Buckets for which nothing changes though the limit that holds for them does: it gives way to an equal one."""
        left = set(self.subjects)
        for _, one in told:
            left -= self._sources(one)
        return [
            (broker, one)
            for broker, group in groups.items()
            for one in group.mapped
            if broker
            and left
            and not (one.changed and not one.relieved)
            and one.answer is not Answer.NO_DATA
            and not left.isdisjoint(self._sources(one))
        ]

    def _row(self, one: Mapped, broker: str, unseen: str) -> Asked:
        limits = [self._now(part) for part in one.parts] or [self._now(_named(one))]
        after, valid = self._units(one.limit)
        answer, why = one.answer, unseen if one.answer is Answer.NO_DATA else one.why
        if answer is not Answer.NO_DATA and not (valid and all(ok for _, ok in limits)):
            answer, why = Answer.NOT_IDENTIFIABLE, why if self.blind else INVALID_LIMIT
        readable = answer in (Answer.EXACT, Answer.BOUND)
        return Asked(
            quota_type=self.kind,
            bucket=one.bucket,
            any_name=one.any_name,
            broker_id=broker,
            answer=answer,
            parts=tuple(
                Fed(bucket=part, limit=units)
                for part, (units, _) in zip(one.parts, limits, strict=False)
                if readable
            ),
            before_units=min((units for units, _ in limits if units is not None), default=None),
            after_units=after,
            source_entity=entity_json(one.source),
            why=why,
        )

    def _unheard(self, subject: Entity, why: str) -> Asked:
        """A pair that no row of a broker speaks of."""
        user, client, ip = (slot if isinstance(slot, str) else "" for slot in subject)
        bucket = Bucket(kind=_KIND_OF[tuple(slot is not ABSENT for slot in subject)], user=user, client_id=client, ip=ip)  # fmt: skip
        held = _stand_in(bucket)
        found = limit_of(self.after, held)
        return Asked(
            quota_type=self.kind,
            bucket=bucket,
            any_name=DEFAULT in subject,
            broker_id="",
            answer=Answer.NO_DATA,
            parts=(),
            before_units=self._now(held)[0],
            after_units=self._units(found[1] if found else None)[0],
            source_entity=entity_json(found[0] if found else None),
            why=why,
        )

    def _sources(self, one: Mapped) -> set[Entity]:
        """Whose limits it speaks of: those of the bucket before and after, and those of its parts."""
        own = _stand_in(one.bucket) if one.any_name else one.bucket
        found = [limit_of(self.before, own), limit_of(self.after, own)]
        found += [limit_of(self.before, part) for part in one.parts]
        return {source[0] for source in found if source}

    def _now(self, bucket: Bucket) -> tuple[int | None, bool]:
        found = limit_of(self.before, bucket)
        return self._units(found[1] if found else None)

    def _units(self, value: float | None) -> tuple[int | None, bool]:
        """A limit in units, and whether it is one that arithmetic can use."""
        if value is not None and limit_state(self.kind, value) is ValueState.INVALID:
            return None, False
        return limit_units(self.kind, value), True

    def notes(self, rows: Collection[Asked]) -> list[str]:
        """What there is to say of the type as a whole."""
        key = KEY_OF[self.kind]
        found: list[str] = []
        if self.before.measured and not self.after.measured:
            found.append(f"no {key} is left after this change: brokers stop recording {self.kind}")
        touched = {part.bucket for row in rows for part in row.parts} | {row.bucket for row in rows if row.broker_id and not row.any_name}  # fmt: skip
        others = self.past.otherwise(self.before, touched)
        if others:
            found.append(
                f"{key}: {others} of {len(touched)} buckets were recorded under another limit than today's"
            )
        return found


_KIND_OF: Final[dict[tuple[bool, ...], GroupKind]] = {
    (True, True, False): GroupKind.PAIR,
    (True, False, False): GroupKind.USER,
    (False, True, False): GroupKind.CLIENT,
    (False, False, True): GroupKind.IP,
}


def _who(one: Mapped) -> tuple[Bucket, bool]:
    return one.bucket, one.any_name


def _named(one: Mapped) -> Bucket:
    return _stand_in(one.bucket) if one.any_name else one.bucket


def _stand_in(bucket: Bucket) -> Bucket:
    """The same with a name that nobody has wherever its kind wants one."""
    match bucket.kind:
        case GroupKind.USER:
            return bucket_of(bucket.user or NOBODY)
        case GroupKind.CLIENT:
            return bucket_of("", bucket.client_id or NOBODY)
        case GroupKind.PAIR:
            return bucket_of(bucket.user or NOBODY, bucket.client_id or NOBODY)
        case GroupKind.IP:
            return bucket_of(ip=bucket.ip or NOBODY)
        case GroupKind.NONE:
            return bucket


NOBODY: Final = "\0" * 3
"""A name that no entity has: Kafka's own tools cannot write it."""
