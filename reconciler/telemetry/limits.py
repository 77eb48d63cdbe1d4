"""The limits in force over a day, as looks at them tell: known, changed somewhere between two looks, or never looked at."""

import hashlib
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from reconciler.quota.state import State
from reconciler.usage.samples import KEY_OF, QuotaType, ValueState, limit_state, limit_units
from reconciler.usage.tags import Book, Bucket, GroupKind, book, bucket_of, limit_of, tags_of

_NO_LIMIT: Final = 2**31 - 1
"""Kafka's word for an address without a limit (`UnlimitedQuota`); connection rates are whole numbers of 32 bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What a cluster was seen to have.

    Attributes:
        observed_ms: When.
        snapshot_id: Which look.
        state: All its quotas.
    """

    observed_ms: int
    snapshot_id: str
    state: State = field(repr=False)


class Doubt(Enum):
    """Why a limit is not known."""

    CHANGED = "changed"  # two looks differ, and the moment lies between them
    UNSEEN = "unseen"  # nobody looked before, or the value is none that can be computed with


class Cover(Enum):
    """What is known of the request quota that holds the clients of a bucket."""

    NONE = "none"  # there is no request quota at all
    PARTS = "parts"  # several buckets may hold some of them


Covering = Cover | Bucket | Doubt
"""A bucket: it holds all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A time in which the same looks hold.

    Attributes:
        from_ms: Its begin; it ends where the next one begins.
        states: None = nobody looked before; one = known; two = either.
    """

    from_ms: int
    states: tuple[State, ...]


class Limits:
    """Limits over time.

    A look holds until the next one. Where two looks differ, what was between them is not known: either may hold. That
    may be the same for a bucket, and then it is known for that bucket.

    Args:
        looks: In any order; none = nothing is known.
    """

    def __init__(self, looks: Iterable[Look]) -> None:
        self.spans = _spans(sorted(looks, key=lambda one: (one.observed_ms, one.snapshot_id)))
        self._starts = [one.from_ms for one in self.spans]
        self._books: dict[tuple[int, QuotaType], tuple[Book, ...]] = {}

    def at(self, ts_ms: int) -> int:
        """Which of :attr:`spans` a moment lies in."""
        return bisect_right(self._starts, ts_ms) - 1

    def measured(self, span: int, kind: QuotaType) -> bool | None:
        """Whether brokers count by this type at all: without any limit of it they count nobody.

        True where every look that bounds the span saw a limit; ``None`` where nobody looked. A limit that one of two
        looks did not see may have gone at any time between them, so that is no.
        """
        return _everywhere(rules.measured for rules in self._of(span, kind))

    def counted(self, span: int, ip: Bucket) -> bool | None:
        """Whether brokers count an address: only under a limit of its own or the default's. As :meth:`measured`."""
        return _everywhere(_counts(rules, ip) for rules in self._of(span, QuotaType.IP))

    def limit(self, span: int, kind: QuotaType, bucket: Bucket) -> int | Doubt | None:
        """The limit that a bucket is held to, in units; ``None`` = unlimited."""
        found = {_limit(kind, rules, bucket) for rules in self._of(span, kind)}
        if len(found) > 1:
            return Doubt.CHANGED
        return next(iter(found), Doubt.UNSEEN)

    def request(self, span: int, bucket: Bucket) -> Covering:
        """Which request quota the clients of a bucket are held to."""
        found = {_covering(rules, bucket) for rules in self._of(span, QuotaType.REQUEST)}
        if len(found) > 1:
            return Doubt.CHANGED
        return next(iter(found), Doubt.UNSEEN)

    def _of(self, span: int, kind: QuotaType) -> tuple[Book, ...]:
        known = self._books.get((span, kind))
        if known is None:
            known = tuple(book(one, KEY_OF[kind]) for one in self.spans[span].states)
            self._books[span, kind] = known
        return known


def _everywhere(answers: Iterable[bool]) -> bool | None:
    several = tuple(answers)
    return all(several) if several else None


def _counts(rules: Book, ip: Bucket) -> bool:
    """Kafka counts an address unless its limit is the largest of a whole number, which stands for none."""
    found = limit_of(rules, ip)
    return found is not None and found[1] < _NO_LIMIT


def _spans(looks: Sequence[Look]) -> tuple[Span, ...]:
    found = [Span(from_ms=0, states=())]
    for number, look in enumerate(looks):
        if number:
            before = looks[number - 1]
            if before.state.limits == look.state.limits:
                continue
            if look.observed_ms > before.observed_ms + 1:
                found.append(
                    Span(from_ms=before.observed_ms + 1, states=(before.state, look.state))
                )
        found.append(Span(from_ms=look.observed_ms, states=(look.state,)))
    return tuple(found)


def _limit(kind: QuotaType, rules: Book, bucket: Bucket) -> int | Doubt | None:
    found = limit_of(rules, bucket)
    if found is None:
        return None
    if limit_state(kind, found[1]) is ValueState.INVALID:
        return Doubt.UNSEEN
    return limit_units(kind, found[1])


def _covering(rules: Book, bucket: Bucket) -> Covering:
    if not rules.measured:
        return Cover.NONE
    match bucket.kind:
        case GroupKind.PAIR:
            return tags_of(rules, bucket.user, bucket.client_id)
        case GroupKind.USER if rules.in_use == {GroupKind.USER}:
            return bucket_of(bucket.user)
        case GroupKind.CLIENT if rules.in_use == {GroupKind.CLIENT}:
            return bucket_of("", bucket.client_id)
        case _:
            return Cover.PARTS


def may_share(one: Bucket, other: Bucket) -> bool:
    """Whether some client may be counted in both."""
    return all(
        not mine or not yours or mine == yours
        for mine, yours in ((one.user, other.user), (one.client_id, other.client_id))
    )


def relevant(looks: Iterable[Look], from_ms: int, to_ms: int) -> tuple[Look, ...]:
    """The looks that decide what holds in a span of time: those in it, the last one before and the first one after."""
    order = sorted(looks, key=lambda one: (one.observed_ms, one.snapshot_id))
    before = [one for one in order if one.observed_ms <= from_ms][-1:]
    within = [one for one in order if from_ms < one.observed_ms < to_ms]
    after = [one for one in order if one.observed_ms >= to_ms][:1]
    return (*before, *within, *after)


class Digests:
    """Short names of what looks tell of spans of time. Each state is looked through once, however many days it holds.

    Args:
        looks: All looks; they must not change meanwhile.
    """

    def __init__(self, looks: Sequence[Look]) -> None:
        self._looks = tuple(looks)
        self._names: dict[int, str] = {}

    def of(self, from_ms: int, to_ms: int) -> str:
        """Other limits in this span, or other moments at which they changed, have another name.

        Looks that saw the same as the one before do not count, so that looking often makes nothing anew.
        """
        told = hashlib.sha256()
        for span in Limits(relevant(self._looks, from_ms, to_ms)).spans:
            if span.from_ms < to_ms:
                names = [self._name(one) for one in span.states]
                told.update(repr((max(span.from_ms, from_ms), names)).encode())
        return told.hexdigest()[:16]

    def _name(self, state: State) -> str:
        known = self._names.get(id(state))
        if known is None:
            text = "\n".join(sorted(map(repr, state.limits.items())))
            known = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
            self._names[id(state)] = known
        return known
