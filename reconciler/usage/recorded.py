"""Under which limits a window was recorded, as far as that decides who was counted with whom: which series hold whom all through.

A window can span many looks. Numbers decide nothing here, and with one kind of level in use neither do names; so of all
looks only one is needed for each way of counting, and there are few. Where there are too many, nothing is known.
"""

from collections.abc import Collection, Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from reconciler.quota.keys import COLUMNS, Key
from reconciler.quota.state import State
from reconciler.usage.buckets import Answer, regroup
from reconciler.usage.tags import Book, Bucket, book, limit_of

MOST_WAYS: Final = 24
"""So many ways of counting in one window are looked at, for each key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """The limits of a window.

    Attributes:
        states: For each way of counting that was seen at least one state, in any order; numbers are those of one look.
        beyond: Keys that were counted in more than :data:`MOST_WAYS` ways: not all of them are in ``states``.
    """

    states: tuple[State, ...] = ()
    beyond: frozenset[Key] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """The limits of one key in a window.

    Attributes:
        books: Of each look that is kept; those that limit nobody are left out, for then brokers record nobody.
        beyond: Whether there were more ways of counting than these.
    """

    books: tuple[Book, ...] = ()
    beyond: bool = False

    def broken(self, now: Book, buckets: Collection[Bucket]) -> set[Bucket]:
        """Buckets of one broker that the limits of today would fill with other clients than those that were recorded."""
        if self.beyond:
            return set(buckets)
        found: set[Bucket] = set()
        told: set[Hashable] = {_grouping(now)}
        for one in self.books:
            if _grouping(one) in told:
                continue
            told.add(_grouping(one))
            whole = {
                image.bucket
                for image in regroup(one, now, buckets).mapped
                if image.parts == (image.bucket,)
                and image.answer is Answer.EXACT
                and not image.any_name
            }
            found |= set(buckets) - whole
        return found

    def otherwise(self, now: Book, buckets: Iterable[Bucket]) -> int:
        """How many buckets were held to another limit than today's in any of the looks that are kept."""
        return sum(
            any(limit_of(book, one) != limit_of(now, one) for book in self.books) for one in buckets
        )


def past(recorded: Recorded | None, key: Key) -> Past:
    """What a window says of one key; ``None`` = its limits were those of today."""
    if recorded is None:
        return Past()
    books = (book(one, key) for one in recorded.states)
    return Past(books=tuple(one for one in books if one.limits), beyond=key in recorded.beyond)


def _grouping(rules: Book) -> Hashable:
    """What decides under which tags a client is counted: the kinds of level, and with several of them who has a limit."""
    return rules.in_use if len(rules.in_use) < 2 else frozenset(rules.limits)


def ways(state: State) -> Iterator[tuple[Key, Hashable]]:
    """The way in which each key's clients are counted; a key that nobody has a limit of is not counted at all."""
    foreign = {name for _, values in state.foreign_entities for name, _ in values}
    for key in COLUMNS:
        rules = book(state, key)
        if rules.limits or str(key) in foreign:
            yield key, (_grouping(rules), str(key) in foreign)


class Ways:
    """Which of many looks have to be kept, look by look."""

    def __init__(self) -> None:
        self._seen: dict[Key, set[Hashable]] = {}
        self.beyond: set[Key] = set()

    def add(self, state: State) -> bool:
        """Whether a state counts clients of any key in a way that none before did, and is to be kept."""
        new = False
        for key, way in ways(state):
            seen = self._seen.setdefault(key, set())
            if way in seen:
                continue
            if len(seen) == MOST_WAYS:
                self.beyond.add(key)
                continue
            seen.add(way)
            new = True
        return new
