"""The limits in force over a day, as looks at them show: known, changed somewhere between two looks, or never looked at."""

import hashlib
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from reconciler.quota.state import QuotaState
from reconciler.usage.samples import KEY_OF, QuotaType, ValueState, limit_state, limit_units
from reconciler.usage.tags import Bucket, GroupKind, KeyLimits, book, bucket_of, limit_of, tags_of

_NO_LIMIT: Final = 2**31 - 1
"""Kafka's word for an address without a limit (`UnlimitedQuota`); connection rates are whole numbers of 32 bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitSnapshot:
    """What a cluster was seen to have."""

    observed_ms: int
    snapshot_id: str
    state: QuotaState = field(repr=False)


class UnknownLimit(Enum):
    """Why a limit is not known."""

    CHANGED = "changed"  # two looks differ, and the moment lies between them
    UNSEEN = "unseen"  # no look before it, or a value that cannot be computed with


class RequestQuotaCover(Enum):
    """What is known of the request quota that holds the clients of a bucket."""

    NONE = "none"  # there is no request quota at all
    PARTS = "parts"  # several buckets may hold some of them


Covering = RequestQuotaCover | Bucket | UnknownLimit
"""A bucket: it holds all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitPeriod:
    """A time in which the same looks hold.

    Attributes:
        from_ms: Its begin; it ends where the next one begins.
        states: None = no look before it; one = known; two = either.
    """

    from_ms: int
    states: tuple[QuotaState, ...]


class LimitHistory:
    """Limits over time.

    A look holds until the next one. Where two looks differ, what was between them is not known: either may hold. That
    may be the same for a bucket, and then it is known for that bucket.

    Args:
        looks: In any order; none = nothing is known.
    """

    def __init__(self, looks: Iterable[LimitSnapshot]) -> None:
        self.spans = _spans(
            sorted(looks, key=lambda snapshot: (snapshot.observed_ms, snapshot.snapshot_id))
        )
        self._starts = [limit_period.from_ms for limit_period in self.spans]
        self._books: dict[tuple[int, QuotaType], tuple[KeyLimits, ...]] = {}

    def at(self, ts_ms: int) -> int:
        """Which of :attr:`spans` a moment lies in."""
        return bisect_right(self._starts, ts_ms) - 1

    def measured(self, span: int, kind: QuotaType) -> bool | None:
        """Whether brokers count by this type at all: without any limit of it they count no client.

        True where every look that bounds the span saw a limit; ``None`` where there is no look. A limit that one of two
        looks did not see may have gone at any time between them, so that is no.
        """
        return _everywhere(rules.measured for rules in self._of(span, kind))

    def is_ip_counted(self, span: int, ip: Bucket) -> bool | None:
        """Whether brokers count an address: only under a limit of its own or the default's. As :meth:`measured`."""
        return _everywhere(_counts(rules, ip) for rules in self._of(span, QuotaType.IP))

    def limit(self, span: int, kind: QuotaType, bucket: Bucket) -> int | UnknownLimit | None:
        """The limit that a bucket is held to, in units; ``None`` = unlimited."""
        possible_limits = {_limit(kind, rules, bucket) for rules in self._of(span, kind)}
        if len(possible_limits) > 1:
            return UnknownLimit.CHANGED
        return next(iter(possible_limits), UnknownLimit.UNSEEN)

    def request(self, span: int, bucket: Bucket) -> Covering:
        """Which request quota the clients of a bucket are held to."""
        possible_covers = {_covering(rules, bucket) for rules in self._of(span, QuotaType.REQUEST)}
        if len(possible_covers) > 1:
            return UnknownLimit.CHANGED
        return next(iter(possible_covers), UnknownLimit.UNSEEN)

    def _of(self, span: int, kind: QuotaType) -> tuple[KeyLimits, ...]:
        cached_books = self._books.get((span, kind))
        if cached_books is None:
            cached_books = tuple(book(state, KEY_OF[kind]) for state in self.spans[span].states)
            self._books[span, kind] = cached_books
        return cached_books


def _everywhere(answers: Iterable[bool]) -> bool | None:
    unique_answers = tuple(answers)
    return all(unique_answers) if unique_answers else None


def _counts(rules: KeyLimits, ip: Bucket) -> bool:
    """Kafka counts an address unless its limit is the largest of a whole number, which stands for none."""
    effective_limit = limit_of(rules, ip)
    return effective_limit is not None and effective_limit[1] < _NO_LIMIT


def _spans(looks: Sequence[LimitSnapshot]) -> tuple[LimitPeriod, ...]:
    periods = [LimitPeriod(from_ms=0, states=())]
    for number, look in enumerate(looks):
        if number:
            before = looks[number - 1]
            if before.state.limits == look.state.limits:
                continue
            if look.observed_ms > before.observed_ms + 1:
                periods.append(
                    LimitPeriod(from_ms=before.observed_ms + 1, states=(before.state, look.state))
                )
        periods.append(LimitPeriod(from_ms=look.observed_ms, states=(look.state,)))
    return tuple(periods)


def _limit(kind: QuotaType, rules: KeyLimits, bucket: Bucket) -> int | UnknownLimit | None:
    effective_limit = limit_of(rules, bucket)
    if effective_limit is None:
        return None
    if limit_state(kind, effective_limit[1]) is ValueState.INVALID:
        return UnknownLimit.UNSEEN
    return limit_units(kind, effective_limit[1])


def _covering(rules: KeyLimits, bucket: Bucket) -> Covering:
    if not rules.measured:
        return RequestQuotaCover.NONE
    match bucket.kind:
        case GroupKind.PAIR:
            return tags_of(rules, bucket.user, bucket.client_id)
        case GroupKind.USER if rules.in_use == {GroupKind.USER}:
            return bucket_of(bucket.user)
        case GroupKind.CLIENT if rules.in_use == {GroupKind.CLIENT}:
            return bucket_of("", bucket.client_id)
        case _:
            return RequestQuotaCover.PARTS


def may_share(first: Bucket, second: Bucket) -> bool:
    """Whether some client may be counted in both."""
    return all(
        not first_name or not yours or first_name == yours
        for first_name, yours in ((first.user, second.user), (first.client_id, second.client_id))
    )


def relevant(looks: Iterable[LimitSnapshot], from_ms: int, to_ms: int) -> tuple[LimitSnapshot, ...]:
    """The looks that decide what holds in a span of time: those in it, the last one before and the first one after."""
    order = sorted(looks, key=lambda snapshot: (snapshot.observed_ms, snapshot.snapshot_id))
    before = [snapshot for snapshot in order if snapshot.observed_ms <= from_ms][-1:]
    within = [snapshot for snapshot in order if from_ms < snapshot.observed_ms < to_ms]
    after = [snapshot for snapshot in order if snapshot.observed_ms >= to_ms][:1]
    return (*before, *within, *after)


class LimitDigests:
    """Short names of what looks show of spans of time. Each state is looked through once, however many days it holds.

    Args:
        looks: All looks; they must not change meanwhile.
    """

    def __init__(self, looks: Sequence[LimitSnapshot]) -> None:
        self._looks = tuple(looks)
        self._names: dict[int, str] = {}

    def of(self, from_ms: int, to_ms: int) -> str:
        """Other limits in this span, or other moments at which they changed, have another name.

        Looks that saw the same as the one before do not count, so that looking often makes nothing anew.
        """
        digest = hashlib.sha256()
        for span in LimitHistory(relevant(self._looks, from_ms, to_ms)).spans:
            if span.from_ms < to_ms:
                names = [self._name(state) for state in span.states]
                digest.update(repr((max(span.from_ms, from_ms), names)).encode())
        return digest.hexdigest()[:16]

    def _name(self, state: QuotaState) -> str:
        cached_name = self._names.get(id(state))
        if cached_name is None:
            text = "\n".join(sorted(map(repr, state.limits.items())))
            cached_name = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
            self._names[id(state)] = cached_name
        return cached_name
