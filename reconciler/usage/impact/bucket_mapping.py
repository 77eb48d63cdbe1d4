"""Which recorded series determine the use of a bucket after a change of limits: exactly, as a bound, or not at all.

A broker records groups, not clients, so a change of limits regroups traffic whose parts were not recorded. Each old
bucket stands for all the clients that it *can* contain: one by one if an entity names them, and once for "any other
name", since limits do not distinguish unnamed clients. Then a new bucket is

- EXACT if it consists of whole old buckets: its series is their sum, moment by moment;
- BOUND if it gets only a part of some old bucket: the sum is an upper bound of its use;
- NOT_IDENTIFIABLE if there is not even a bound for any one tenant;
- NO_DATA if no bucket with one of its clients was recorded.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
from typing import Final

from reconciler.quota.entity import ABSENT, DEFAULT, Entity, sort_key
from reconciler.usage.tags import Bucket, GroupKind, KeyLimits, bucket_of, limit_of, tags_of


class Identifiability(StrEnum):
    """How far the recorded series determine the use of a bucket."""

    EXACT = "exact"
    BOUND = "bound"
    NOT_IDENTIFIABLE = "not identifiable"
    NO_DATA = "no data"


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedBucket:
    """One bucket after the change, on one broker."""

    bucket: Bucket  # the bucket; with `any_name`, an empty name of its kind means every other name
    any_name: bool  # whether this is any of the many buckets with a name that has no row of its own
    answer: Identifiability
    # Recorded old buckets, sorted; their sum is its series, or a bound of it.
    parts: tuple[Bucket, ...]
    limit: float | None  # in Kafka's unit, None = unlimited
    source: Entity | None
    # Whether its clients get another limit or share it with other clients than before.
    changed: bool
    # Whether the only change is that clients may leave it: same limit, no new clients, never worse.
    relieved: bool
    reason: str  # one sentence, "" if the answer is exact


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketRegrouping:
    """The effect of changed limits of one key on the buckets of one broker."""

    # Every bucket after the change, sorted by name; those with `any_name` last.
    mapped: tuple[MappedBucket, ...]
    # Buckets without a limit before and after that will be counted under other tags: their history ends.
    flipped: tuple[Bucket, ...]
    # Series that the limits before cannot have produced: older limits, a kind of level that a broker before 4.2
    # remembers, a clock. Buckets that may share a client with them are not identifiable.
    unexplained: tuple[Bucket, ...]

    @property
    def changed(self) -> tuple[MappedBucket, ...]:
        """The buckets that a preview reports; their parts are the series to read.

        Without buckets that are only relieved: removing one user from a group relieves every client id.
        """
        return tuple(
            mapped_bucket
            for mapped_bucket in self.mapped
            if mapped_bucket.changed and not mapped_bucket.relieved
        )


UNKNOWN_USERS: Final = "the users behind the client ids are not recorded"
UNKNOWN_CLIENTS: Final = "the client ids of these users are not recorded one by one"
ONLY_PARTLY: Final = "what was recorded holds other clients too"
HISTORY_BREAKS: Final = "a series with the same names was recorded under other limits"
NOTHING_SEEN: Final = "no such client was seen"
CUSTOM_CALLBACK: Final = "a custom quota callback decides what is counted together"


def regroup(
    before: KeyLimits, after: KeyLimits, seen_buckets: Iterable[Bucket], *, blind: str = ""
) -> BucketRegrouping:
    """Map the traffic of each bucket to the buckets after the change.

    Args:
        before: The limits of one key under which all series were recorded.
        after: The limits after the change.
        seen_buckets: Buckets with any sample on this broker.
        blind: Why no mapping is valid (:data:`CUSTOM_CALLBACK`), "" = it is valid.
    """
    old = sorted(set(seen_buckets))
    population = _ClientPopulation(before, after, old)
    parts_by_image: defaultdict[Bucket, dict[Bucket, bool]] = defaultdict(dict)
    flipped: list[Bucket] = []
    unexplained: list[Bucket] = []
    for bucket in old:
        images = population.images(bucket)
        if not images:
            unexplained.append(bucket)
            continue
        is_complete = len(images) == 1 and not any(map(population.is_open, images))
        for image in images:
            parts_by_image[image][bucket] = is_complete
        if images != {bucket} and not any(
            limit_of(*pair) for pair in [(before, bucket), *((after, image) for image in images)]
        ):
            flipped.append(bucket)
    limited_entities = {
        effective_limit[0] for bucket in old if (effective_limit := limit_of(before, bucket))
    }
    limited_entities |= {
        effective_limit[0]
        for image in parts_by_image
        if (effective_limit := limit_of(after, image))
    }
    for subject in population.changed:  # a changed limit is reported, with or without samples
        image = population.bucket_of_entity(subject)
        effective_limit = limit_of(after, image)
        if not population.is_open(image) or limited_entities.isdisjoint(
            (subject, effective_limit[0] if effective_limit else subject)
        ):
            _ = parts_by_image[image]
    for image, parts in parts_by_image.items():
        population.add_unnamed_clients(image, parts, parts_by_image)
    judge = _EvidenceJudge(before, after, population, tuple(unexplained), blind)
    mapped = (judge.mapped(image, parts) for image, parts in parts_by_image.items())
    return BucketRegrouping(
        mapped=tuple(
            sorted(mapped, key=lambda mapped_bucket: (mapped_bucket.any_name, mapped_bucket.bucket))
        ),
        flipped=tuple(flipped),
        unexplained=tuple(unexplained),
    )


class _ClientPopulation:
    """The clients that a bucket can contain: those that an entity names, and one placeholder for all others."""

    def __init__(self, before: KeyLimits, after: KeyLimits, old: Collection[Bucket]) -> None:
        self.before, self.after = before, after
        entities = before.limits.keys() | after.limits.keys()
        self.user = _unused_name(
            chain((entity[0] for entity in entities), (bucket.user for bucket in old))
        )
        self.client = _unused_name(
            chain((entity[1] for entity in entities), (bucket.client_id for bucket in old))
        )
        self.address = _unused_name(
            chain((entity[2] for entity in entities), (bucket.ip for bucket in old))
        )
        self.changed = sorted(
            (
                entity
                for entity in entities
                if before.limits.get(entity) != after.limits.get(entity)
            ),
            key=sort_key,
        )
        self.clients_of: defaultdict[str, set[str]] = defaultdict(set)
        self.users_of: defaultdict[str, set[str]] = defaultdict(set)
        self.clients_of_all: set[str] = set()
        for user, client, _ in entities:
            if isinstance(user, str) and isinstance(client, str):
                self.clients_of[user].add(client)
                self.users_of[client].add(user)
            elif user is DEFAULT and isinstance(client, str):
                self.clients_of_all.add(client)
        # Users that had their own entity for all client ids were never counted by client id.
        self.new_users = _wide(after) - _wide(before)

    def clients(self, user: str) -> set[str]:
        """Return client ids of a user that may be counted differently from unnamed ones."""
        user_entity = Entity((user, ABSENT, ABSENT))
        if user_entity in self.before.limits and user_entity in self.after.limits:
            return self.clients_of[user]
        return self.clients_of[user] | self.clients_of_all

    def users(self, client_id: str) -> set[str]:
        """Return users of a client id that may be counted differently from unnamed ones."""
        return self.users_of[client_id] | self.new_users

    def images(self, old: Bucket) -> set[Bucket]:
        """Return the buckets in which its clients will be counted; empty if it cannot contain any."""
        if old.kind is GroupKind.IP:
            return {old}
        return {
            tags_of(self.after, user, client)
            for user, client in self._clients_in(old)
            if tags_of(self.before, user, client) == old
        }

    def _clients_in(self, old: Bucket) -> Iterator[tuple[str, str]]:
        match old.kind:
            case GroupKind.USER:
                for client in (self.client, "", *self.clients(old.user)):
                    yield old.user, client
            case GroupKind.PAIR:
                yield old.user, old.client_id
            case _:  # by client id, or without one
                for user in (self.user, *self.users(old.client_id)):
                    yield user, old.client_id

    def is_open(self, image: Bucket) -> bool:
        """Whether a bucket represents many buckets."""
        return image.user == self.user or image.client_id == self.client or image.ip == self.address

    def bucket_of_entity(self, subject: Entity) -> Bucket:
        """Return the bucket in which a client of this entity will be counted."""
        user, client, ip = (
            slot if isinstance(slot, str) else placeholder
            for slot, placeholder in zip(
                subject, (self.user, self.client, self.address), strict=True
            )
        )
        return bucket_of(ip=ip) if subject[2] is not ABSENT else tags_of(self.after, user, client)

    def add_unnamed_clients(
        self,
        image: Bucket,
        parts: dict[Bucket, bool],
        parts_by_image: dict[Bucket, dict[Bucket, bool]],
    ) -> None:
        """Add to a named bucket what unnamed clients may contribute: any of them may have this name."""
        if self.is_open(image):
            return
        users = (image.user, self.user) if image.user else ("",)
        clients = (image.client_id, self.client) if image.client_id else ("",)
        for near in (bucket_of(user, client) for user in users for client in clients):
            if near == image or near not in parts_by_image:
                continue
            for old in parts_by_image[near]:
                if not self._is_known(old, image):
                    _ = parts.setdefault(old, False)

    def _is_known(self, old: Bucket, image: Bucket) -> bool:
        """Whether the client of this name was considered separately."""
        if old.kind is GroupKind.USER:
            return image.client_id in self.clients(old.user)
        return image.user in self.users(old.client_id)


def _wide(rules: KeyLimits) -> set[str]:
    return {
        user
        for user, client, _ in rules.limits
        if isinstance(user, str) and not isinstance(client, str)
    }


def _unused_name(names: Iterable[object]) -> str:
    """Return a placeholder that is not a name of any client."""
    used_names = set(names)
    placeholder = "\0"
    while placeholder in used_names:
        placeholder += "\0"
    return placeholder


class _EvidenceJudge:
    """Determines how far the recorded series support each new bucket."""

    def __init__(
        self,
        before: KeyLimits,
        after: KeyLimits,
        population: _ClientPopulation,
        unexplained: tuple[Bucket, ...],
        blind: str,
    ) -> None:
        self.before, self.after, self.population = before, after, population
        self.unexplained, self.blind = unexplained, blind

    def mapped(self, image: Bucket, parts: dict[Bucket, bool]) -> MappedBucket:
        answer, reason = self._answer(image, parts)
        effective_limit = limit_of(self.after, image)
        source, limit = effective_limit or (None, None)
        same_limit = self._limit_before(image) == limit
        return MappedBucket(
            bucket=self._without_placeholders(image),
            any_name=self.population.is_open(image),
            answer=answer,
            parts=tuple(sorted(parts)),
            limit=limit,
            source=source,
            changed=parts != {image: True} or not same_limit,
            relieved=parts == {image: False} and same_limit,
            reason=reason,
        )

    def _answer(self, image: Bucket, parts: dict[Bucket, bool]) -> tuple[Identifiability, str]:
        if self.blind:
            return Identifiability.NOT_IDENTIFIABLE, self.blind
        if any(_may_share(image, bucket, self.population) for bucket in self.unexplained):
            return Identifiability.NOT_IDENTIFIABLE, HISTORY_BREAKS
        if not parts:
            return Identifiability.NO_DATA, NOTHING_SEEN
        if not self.population.is_open(image):
            exact = all(parts.values())
            return (Identifiability.EXACT, "") if exact else (Identifiability.BOUND, ONLY_PARTLY)
        if image.user in ("", self.population.user):
            return Identifiability.NOT_IDENTIFIABLE, UNKNOWN_USERS
        return Identifiability.BOUND, UNKNOWN_CLIENTS

    def _limit_before(self, bucket: Bucket) -> float | None:
        effective_limit = limit_of(self.before, bucket)
        return effective_limit[1] if effective_limit else None

    def _without_placeholders(self, image: Bucket) -> Bucket:
        return Bucket(
            kind=image.kind,
            user="" if image.user == self.population.user else image.user,
            client_id="" if image.client_id == self.population.client else image.client_id,
            ip="" if image.ip == self.population.address else image.ip,
        )


def _may_share(first: Bucket, second: Bucket, population: _ClientPopulation) -> bool:
    """Whether a client can be in both, according to their names."""
    if (first.kind is GroupKind.IP) != (second.kind is GroupKind.IP):
        return False
    return all(
        first_name == second_name
        or "" in (first_name, second_name)
        or placeholder in (first_name, second_name)
        for first_name, second_name, placeholder in (
            (first.user, second.user, population.user),
            (first.client_id, second.client_id, population.client),
            (first.ip, second.ip, population.address),
        )
    )
