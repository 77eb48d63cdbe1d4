"""The limits under which a window was recorded, as far as they determine grouping: which series had the same clients throughout.

A window can span many snapshots. Values of limits do not affect grouping, and if only one kind of level is in use neither
do names; so one snapshot per way of counting is enough. With too many ways, grouping is unknown.
"""

from collections.abc import Collection, Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from reconciler.quota.keys import COLUMNS, Key
from reconciler.quota.precedence import unranked_parts
from reconciler.quota.state import QuotaState
from reconciler.usage.impact.bucket_mapping import Identifiability, regroup
from reconciler.usage.tags import Bucket, KeyLimits, book, limit_of

MOST_WAYS: Final = 24
"""Maximum number of ways of counting in one window, for each key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedLimits:
    """The limits of a window."""

    # At least one state for each way of counting, in any order, each with the values of one snapshot.
    states: tuple[QuotaState, ...] = ()
    # Keys with more than `MOST_WAYS` ways of counting: not all are in `states`.
    beyond: frozenset[Key] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyLimitHistory:
    """The limits of one key in a window."""

    # Limits of each kept snapshot; those without any limit are dropped, because brokers then record no use.
    books: tuple[KeyLimits, ...] = ()
    beyond: bool = False  # whether there were more ways of counting than these

    def broken(self, now: KeyLimits, buckets: Collection[Bucket]) -> set[Bucket]:
        """Return buckets of one broker that would contain other clients under current limits than were recorded."""
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
        """Return the number of buckets that had another limit than now in any kept snapshot."""
        return sum(
            any(limit_of(book, bucket) != limit_of(now, bucket) for book in self.books)
            for bucket in buckets
        )


def past(recorded: RecordedLimits | None, key: Key) -> KeyLimitHistory:
    """Return the history of one key in a window; ``None`` = its limits were the current ones."""
    if recorded is None:
        return KeyLimitHistory()
    books = (book(state, key) for state in recorded.states)
    return KeyLimitHistory(
        books=tuple(recorded_book for recorded_book in books if recorded_book.limits),
        beyond=key in recorded.beyond,
    )


def _grouping(rules: KeyLimits) -> Hashable:
    """Return what determines the tags of a client: the kinds of level, and with several of them the entities that have a limit."""
    return rules.in_use if len(rules.in_use) < 2 else frozenset(rules.limits)


def ways(state: QuotaState) -> Iterator[tuple[Key, Hashable]]:
    """Return the way of counting of each key; a key without any limit is not counted."""
    for key in COLUMNS:
        rules, foreign = book(state, key), unranked_parts(key, (state,))
        if rules.limits or foreign:
            yield key, (_grouping(rules), foreign)


class CountingWays:
    """Selects the snapshots to keep, one by one."""

    def __init__(self) -> None:
        self._seen: dict[Key, set[Hashable]] = {}
        self.beyond: set[Key] = set()

    def add(self, state: QuotaState) -> bool:
        """Whether a state counts clients of any key in a new way and must be kept."""
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
