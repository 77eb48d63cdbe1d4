"""Under which limits a window was recorded, as far as that decides who was counted with whom: which series hold whom all through.

A window can span many looks. Numbers decide nothing here, and with one kind of level in use neither do names; so of all
looks only one is needed for each way of counting, and there are few. Where there are too many, nothing is known.
"""

from collections.abc import Collection, Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from reconciler.quota.keys import COLUMNS, Key
from reconciler.quota.state import QuotaState
from reconciler.usage.impact.bucket_mapping import Identifiability, regroup
from reconciler.usage.tags import Bucket, KeyLimits, book, limit_of

MOST_WAYS: Final = 24
"""So many ways of counting in one window are looked at, for each key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedLimits:
    """The limits of a window.

    Attributes:
        states: For each way of counting that was seen at least one state, in any order; numbers are those of one look.
        beyond: Keys that were counted in more than :data:`MOST_WAYS` ways: not all of them are in ``states``.
    """

    states: tuple[QuotaState, ...] = ()
    beyond: frozenset[Key] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyLimitHistory:
    """The limits of one key in a window.

    Attributes:
        books: Of each look that is kept; those that limit no client are left out, for then brokers record no use.
        beyond: Whether there were more ways of counting than these.
    """

    books: tuple[KeyLimits, ...] = ()
    beyond: bool = False

    def broken(self, now: KeyLimits, buckets: Collection[Bucket]) -> set[Bucket]:
        """Buckets of one broker that the limits of today would fill with other clients than those that were recorded."""
        if self.beyond:
            return set(buckets)
        broken_buckets: set[Bucket] = set()
        seen_groupings: set[Hashable] = {_grouping(now)}
        for recorded_book in self.books:
            if _grouping(recorded_book) in seen_groupings:
                continue
            seen_groupings.add(_grouping(recorded_book))
            affected_buckets = {
                image.bucket
                for image in regroup(recorded_book, now, buckets).mapped
                if image.parts == (image.bucket,)
                and image.answer is Identifiability.EXACT
                and not image.any_name
            }
            broken_buckets |= set(buckets) - affected_buckets
        return broken_buckets

    def otherwise(self, now: KeyLimits, buckets: Iterable[Bucket]) -> int:
        """How many buckets were held to another limit than today's in any of the looks that are kept."""
        return sum(
            any(limit_of(book, bucket) != limit_of(now, bucket) for book in self.books)
            for bucket in buckets
        )


def past(recorded: RecordedLimits | None, key: Key) -> KeyLimitHistory:
    """What a window says of one key; ``None`` = its limits were those of today."""
    if recorded is None:
        return KeyLimitHistory()
    books = (book(state, key) for state in recorded.states)
    return KeyLimitHistory(
        books=tuple(recorded_book for recorded_book in books if recorded_book.limits),
        beyond=key in recorded.beyond,
    )


def _grouping(rules: KeyLimits) -> Hashable:
    """What decides under which tags a client is counted: the kinds of level, and with several of them who has a limit."""
    return rules.in_use if len(rules.in_use) < 2 else frozenset(rules.limits)


def ways(state: QuotaState) -> Iterator[tuple[Key, Hashable]]:
    """The way in which each key's clients are counted; a key without any limit is not counted at all."""
    foreign = {name for _, values in state.foreign_entities for name, _ in values}
    for key in COLUMNS:
        rules = book(state, key)
        if rules.limits or str(key) in foreign:
            yield key, (_grouping(rules), str(key) in foreign)


class CountingWays:
    """Which of many looks have to be kept, look by look."""

    def __init__(self) -> None:
        self._seen: dict[Key, set[Hashable]] = {}
        self.beyond: set[Key] = set()

    def add(self, state: QuotaState) -> bool:
        """Whether a state counts clients of any key in a way that none before did, and is to be kept."""
        new = False
        for key, way in ways(state):
            seen_ways = self._seen.setdefault(key, set())
            if way in seen_ways:
                continue
            if len(seen_ways) == MOST_WAYS:
                self.beyond.add(key)
                continue
            seen_ways.add(way)
            new = True
        return new
