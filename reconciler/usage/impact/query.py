"""The query of a plan on recorded use: its future rows with all facts that need no sample, and the series to read.

Only changes of a plan are queried. Every changed pair gets a row, including pairs without samples and limits that apply to
no client.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from reconciler.quota.entity import ABSENT, DEFAULT, Entity, EntityParts, canonical_text, sort_key
from reconciler.quota.keys import COLUMNS, Key
from reconciler.quota.precedence import may_share_client, unranked_parts
from reconciler.quota.state import QuotaState
from reconciler.usage.impact.bucket_mapping import (
    CUSTOM_CALLBACK,
    HISTORY_BREAKS,
    NOTHING_SEEN,
    BucketRegrouping,
    Identifiability,
    MappedBucket,
    regroup,
)
from reconciler.usage.impact.recorded_limits import KeyLimitHistory, RecordedLimits, past
from reconciler.usage.samples import KEY_OF, QuotaType, ValueState, limit_state, limit_units
from reconciler.usage.tags import Bucket, GroupKind, KeyLimits, book, bucket_of, limit_of

NOT_MEASURED: Final = "the brokers had no quota of this kind, so they recorded no use"
NO_LIMITED_CLIENT: Final = "no client that was seen is held to this limit, before or after"
FOREIGN_ENTITIES: Final = "entities of an unknown type may decide what is counted together"
INVALID_LIMIT: Final = "a limit that is not above zero, or not a number, cannot be simulated"


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketInput:
    """An old bucket to read, and its current limit in units; ``None`` = unlimited."""

    bucket: Bucket
    limit: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ImpactRequest:
    """A future row with all facts that need no sample."""

    quota_type: QuotaType
    bucket: Bucket
    any_name: bool  # whether it represents many buckets whose names are unknown
    broker_id: str  # the broker; "" = no broker recorded it
    answer: Identifiability  # how far the parts determine the use of the bucket
    parts: tuple[BucketInput, ...]  # buckets to read; empty if there can be no figure
    # The lowest current limit of the parts; None = unlimited, or not a number.
    before_units: int | None
    after_units: int | None
    source_entity: str  # the entity of the new limit (`canonical_text`)
    reason: str  # one sentence, "" if the answer is exact


@dataclass(frozen=True, slots=True, kw_only=True)
class ImpactQuery:
    """The query of a plan on the evidence of one cluster."""

    cluster_id: str
    requests: tuple[ImpactRequest, ...]  # the future rows, in the order of `impact_row`
    # Number of buckets without limits that will be counted under other tags: their history ends.
    flipped: int = 0
    unexplained: int = 0  # number of series that the current limits cannot have produced
    notes: tuple[str, ...] = ()

    @property
    def reads(self) -> dict[QuotaType, tuple[Bucket, ...]]:
        """The buckets whose series are needed, by type, sorted."""
        buckets_by_type: dict[QuotaType, set[Bucket]] = {}
        for request in self.requests:
            if request.parts:
                buckets_by_type.setdefault(request.quota_type, set()).update(
                    part.bucket for part in request.parts
                )
        return {
            kind: tuple(sorted(buckets_by_type[kind]))
            for kind in QuotaType
            if kind in buckets_by_type
        }


def impact_query(
    cluster_id: str,
    before: QuotaState,
    after: QuotaState,
    buckets_by_type: Mapping[QuotaType, Mapping[str, Collection[Bucket]]],
    measured: Collection[QuotaType],
    *,
    callback: str | None = None,
    recorded: RecordedLimits | None = None,
) -> ImpactQuery:
    """Determine what to read to compute the effect of a change of limits.

    Args:
        before: The current limits.
        after: The limits after the change.
        buckets_by_type: The buckets that each broker recorded, by type.
        measured: The types that brokers measured.
        callback: A custom quota callback of the brokers; ``None`` or "" = Kafka's own rules.
        recorded: The limits under which the series were recorded; ``None`` = the current ones.
    """
    requests: list[ImpactRequest] = []
    flipped: set[tuple[QuotaType, Bucket]] = set()
    unexplained: set[tuple[QuotaType, Bucket]] = set()
    notes: list[str] = []
    changed = _changed(before, after)
    for kind in QuotaType:
        key = KEY_OF[kind]
        if key not in changed:
            continue
        change = _KeyChange(
            kind=kind,
            before=book(before, key),
            after=book(after, key),
            past=past(recorded, key),
            blind=CUSTOM_CALLBACK if callback else "",
            unranked=unranked_parts(key, (before, after, *(recorded.states if recorded else ()))),
            subjects=changed[key],
        )
        by_broker = dict(buckets_by_type.get(kind, {})) if kind in measured else {}
        groups = {broker: change.regrouped(by_broker[broker]) for broker in sorted(by_broker)} or {
            "": change.regrouped(())
        }
        rows = change.rows(groups, NOTHING_SEEN if kind in measured else NOT_MEASURED)
        requests += rows
        for regrouping in groups.values():
            flipped.update((kind, bucket) for bucket in regrouping.flipped)
            unexplained.update((kind, bucket) for bucket in regrouping.unexplained)
        notes += change.notes(rows)
    return ImpactQuery(
        cluster_id=cluster_id,
        requests=tuple(sorted(requests, key=_order)),
        flipped=len(flipped),
        unexplained=len(unexplained),
        notes=tuple(notes),
    )


def _order(request: ImpactRequest) -> tuple[QuotaType, Bucket, bool, str]:
    """Return the sort key of ``impact_row``."""
    return request.quota_type, request.bucket, request.any_name, request.broker_id


def _changed(before: QuotaState, after: QuotaState) -> dict[Key, tuple[Entity, ...]]:
    """Return the entities whose limit of a key changes, sorted. NaN equals itself."""
    changed_entities: defaultdict[Key, list[Entity]] = defaultdict(list)
    entities = before.limits.keys() | after.limits.keys()
    differ = [
        entity for entity in entities if before.limits.get(entity) != after.limits.get(entity)
    ]
    for subject in sorted(differ, key=sort_key):
        for key in COLUMNS:
            values = {repr(side.value(subject, key)) for side in (before, after)}
            if len(values) > 1:
                changed_entities[key].append(subject)
    return {key: tuple(subjects) for key, subjects in changed_entities.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class _KeyChange:
    """The change of one key."""

    kind: QuotaType
    before: KeyLimits
    after: KeyLimits
    past: KeyLimitHistory
    blind: str
    unranked: frozenset[EntityParts]
    subjects: tuple[Entity, ...]

    def regrouped(self, buckets: Collection[Bucket]) -> BucketRegrouping:
        """Map the buckets of one broker to those after the change."""
        regrouping = regroup(self.before, self.after, buckets, blind=self.blind)
        broken = self.past.broken(self.before, buckets)
        if not broken:
            return regrouping
        return replace(
            regrouping,
            mapped=tuple(
                replace(
                    mapped_bucket, answer=Identifiability.NOT_IDENTIFIABLE, reason=HISTORY_BREAKS
                )
                if broken.intersection(mapped_bucket.parts)
                and mapped_bucket.answer is not Identifiability.NOT_IDENTIFIABLE
                else mapped_bucket
                for mapped_bucket in regrouping.mapped
            ),
        )

    def rows(self, groups: Mapping[str, BucketRegrouping], unseen: str) -> list[ImpactRequest]:
        """Return the rows of every broker, then rows without a broker, then rows for entities that have none."""
        reported_buckets: list[tuple[str, MappedBucket]] = []
        silent: dict[tuple[Bucket, bool], MappedBucket] = {}
        seen_keys: set[tuple[Bucket, bool]] = set()
        for broker, group in groups.items():
            for mapped_bucket in group.mapped:
                if broker and mapped_bucket.answer is not Identifiability.NO_DATA:
                    seen_keys.add(_bucket_key(mapped_bucket))
            for mapped_bucket in group.changed:
                if broker and mapped_bucket.answer is not Identifiability.NO_DATA:
                    reported_buckets.append((broker, mapped_bucket))
                else:
                    _ = silent.setdefault(_bucket_key(mapped_bucket), mapped_bucket)
        reported_buckets += [
            ("", mapped_bucket)
            for bucket_key, mapped_bucket in silent.items()
            if bucket_key not in seen_keys
            and (
                mapped_bucket.answer is not Identifiability.NO_DATA
                or self._sources(mapped_bucket).intersection(self.subjects)
            )
        ]
        reported_buckets += self._without_effect(reported_buckets, groups)
        requests = [
            self._row(mapped_bucket, broker, unseen) for broker, mapped_bucket in reported_buckets
        ]
        reported = {
            subject
            for _, mapped_bucket in reported_buckets
            for subject in self._sources(mapped_bucket)
        }
        reason = unseen if unseen == NOT_MEASURED else NO_LIMITED_CLIENT
        requests += [
            self._without_data(entity, reason) for entity in self.subjects if entity not in reported
        ]
        return requests if self.blind else list(map(self._ranked, requests))

    def _ranked(self, request: ImpactRequest) -> ImpactRequest:
        """Return a request without figures if an entity of another type may match a client of its bucket."""
        subject = request.bucket.entity
        if not any(may_share_client(entity_parts, subject) for entity_parts in self.unranked):
            return request
        return replace(
            request, answer=Identifiability.NOT_IDENTIFIABLE, parts=(), reason=FOREIGN_ENTITIES
        )

    def _without_effect(
        self,
        reported_buckets: Iterable[tuple[str, MappedBucket]],
        groups: Mapping[str, BucketRegrouping],
    ) -> list[tuple[str, MappedBucket]]:
        """Return unchanged buckets whose effective limit is replaced by an equal one."""
        remaining_subjects = set(self.subjects)
        for _, mapped_bucket in reported_buckets:
            remaining_subjects -= self._sources(mapped_bucket)
        return [
            (broker, mapped_bucket)
            for broker, group in groups.items()
            for mapped_bucket in group.mapped
            if broker
            and remaining_subjects
            and not (mapped_bucket.changed and not mapped_bucket.relieved)
            and mapped_bucket.answer is not Identifiability.NO_DATA
            and not remaining_subjects.isdisjoint(self._sources(mapped_bucket))
        ]

    def _row(self, mapped_bucket: MappedBucket, broker: str, unseen: str) -> ImpactRequest:
        limits = [self._now(part) for part in mapped_bucket.parts] or [
            self._now(_representative_bucket(mapped_bucket))
        ]
        after, valid = self._units(mapped_bucket.limit)
        answer, reason = (
            mapped_bucket.answer,
            unseen if mapped_bucket.answer is Identifiability.NO_DATA else mapped_bucket.reason,
        )
        if answer is not Identifiability.NO_DATA and not (valid and all(ok for _, ok in limits)):
            answer, reason = (
                Identifiability.NOT_IDENTIFIABLE,
                reason if self.blind else INVALID_LIMIT,
            )
        readable = answer in (Identifiability.EXACT, Identifiability.BOUND)
        return ImpactRequest(
            quota_type=self.kind,
            bucket=mapped_bucket.bucket,
            any_name=mapped_bucket.any_name,
            broker_id=broker,
            answer=answer,
            parts=tuple(
                BucketInput(bucket=part, limit=units)
                for part, (units, _) in zip(mapped_bucket.parts, limits, strict=False)
                if readable
            ),
            before_units=min((units for units, _ in limits if units is not None), default=None),
            after_units=after,
            source_entity=canonical_text(mapped_bucket.source),
            reason=reason,
        )

    def _without_data(self, subject: Entity, reason: str) -> ImpactRequest:
        """Return the row of an entity that no row of a broker covers."""
        user, client, ip = (slot if isinstance(slot, str) else "" for slot in subject)
        bucket = Bucket(
            kind=_KIND_OF[tuple(slot is not ABSENT for slot in subject)],
            user=user,
            client_id=client,
            ip=ip,
        )
        placeholder_bucket = _stand_in(bucket)
        effective_limit = limit_of(self.after, placeholder_bucket)
        return ImpactRequest(
            quota_type=self.kind,
            bucket=bucket,
            any_name=DEFAULT in subject,
            broker_id="",
            answer=Identifiability.NO_DATA,
            parts=(),
            before_units=self._now(placeholder_bucket)[0],
            after_units=self._units(effective_limit[1] if effective_limit else None)[0],
            source_entity=canonical_text(effective_limit[0] if effective_limit else None),
            reason=reason,
        )

    def _sources(self, mapped_bucket: MappedBucket) -> set[Entity]:
        """Return the entities of its limits: of the bucket before and after, and of its parts."""
        representative_bucket = _representative_bucket(mapped_bucket)
        effective_limits = [
            limit_of(self.before, representative_bucket),
            limit_of(self.after, representative_bucket),
        ]
        effective_limits += [limit_of(self.before, part) for part in mapped_bucket.parts]
        return {source[0] for source in effective_limits if source}

    def _now(self, bucket: Bucket) -> tuple[int | None, bool]:
        effective_limit = limit_of(self.before, bucket)
        return self._units(effective_limit[1] if effective_limit else None)

    def _units(self, value: float | None) -> tuple[int | None, bool]:
        """Return a limit in units, and whether it can be simulated."""
        if value is not None and limit_state(self.kind, value) is ValueState.INVALID:
            return None, False
        return limit_units(self.kind, value), True

    def notes(self, rows: Collection[ImpactRequest]) -> list[str]:
        """Return sentences about the type as a whole."""
        key = KEY_OF[self.kind]
        sentences: list[str] = []
        if self.before.measured and not self.after.measured:
            sentences.append(
                f"no {key} is left after this change: brokers stop recording {self.kind}"
            )
        touched = {part.bucket for row in rows for part in row.parts} | {
            row.bucket for row in rows if row.broker_id and not row.any_name
        }
        differing_count = self.past.otherwise(self.before, touched)
        if differing_count:
            sentences.append(
                f"{key}: {differing_count} of {len(touched)} buckets were recorded under another limit than today's"
            )
        return sentences


_KIND_OF: Final[dict[tuple[bool, ...], GroupKind]] = {
    (True, True, False): GroupKind.PAIR,
    (True, False, False): GroupKind.USER,
    (False, True, False): GroupKind.CLIENT,
    (False, False, True): GroupKind.IP,
}


def _bucket_key(mapped_bucket: MappedBucket) -> tuple[Bucket, bool]:
    return mapped_bucket.bucket, mapped_bucket.any_name


def _representative_bucket(mapped_bucket: MappedBucket) -> Bucket:
    return _stand_in(mapped_bucket.bucket) if mapped_bucket.any_name else mapped_bucket.bucket


def _stand_in(bucket: Bucket) -> Bucket:
    """Replace each empty name of the bucket's kind with a name that no client has."""
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
"""A name that no entity has: Kafka's tools cannot write it."""
