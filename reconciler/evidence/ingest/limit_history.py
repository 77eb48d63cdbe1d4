"""The limits over a day from quota snapshots: known, changed between two snapshots, or unknown."""

import hashlib
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from reconciler.evidence.store.snapshot_import import LimitSnapshot
from reconciler.quota.state import QuotaState
from reconciler.usage.samples import KEY_OF, QuotaType, ValueState, limit_state, limit_units
from reconciler.usage.tags import Bucket, GroupKind, KeyLimits, book, bucket_of, limit_of, tags_of

_NO_LIMIT: Final = 2**31 - 1
"""Kafka's value for an ip without a limit (``UnlimitedConnectionCreationRate``), the largest 32-bit integer."""


class UnknownLimit(Enum):
    """Why a limit is unknown."""

    CHANGED = "changed"  # two consecutive snapshots differ, and the time is between them
    UNSEEN = "unseen"  # no snapshot before it, or an invalid value


class RequestQuotaCover(Enum):
    """Special cases of the request quota that applies to the clients of a bucket."""

    NONE = "none"  # there is no request quota
    PARTS = "parts"  # several request buckets may apply to some of the clients


Covering = RequestQuotaCover | Bucket | UnknownLimit
"""A bucket applies to all clients."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitPeriod:
    """A period in which the same snapshots apply; ends where the next one starts."""

    from_ms: int  # Start
    states: tuple[QuotaState, ...]  # empty = no snapshot yet; one = known; two = one of them


class LimitHistory:
    """Limits over time.

    A snapshot applies until the next one. If two consecutive snapshots differ, either may apply between them. Where
    both give the same limit for a bucket, that limit is known.

    Args:
        snapshots: Snapshots in any order; if empty, all limits are unknown.
    """

    def __init__(self, snapshots: Iterable[LimitSnapshot]) -> None:
        self.spans = _spans(
            sorted(snapshots, key=lambda snapshot: (snapshot.observed_ms, snapshot.snapshot_id))
        )
        self._starts = [limit_period.from_ms for limit_period in self.spans]
        self._books: dict[tuple[int, QuotaType], tuple[KeyLimits, ...]] = {}
        self._names: dict[int, str] = {}

    def at(self, ts_ms: int) -> int:
        """Return the index in :attr:`spans` of a time."""
        return bisect_right(self._starts, ts_ms) - 1

    def digest(self, from_ms: int, to_ms: int) -> str:
        """Return a digest that differs if limits, or the times of their changes, in a time range differ.

        A snapshot with the same limits as the one before has no effect, so frequent snapshots cause no new assembly.
        """
        spans = self.spans[self.at(from_ms) : self.at(to_ms - 1) + 1]
        parts = [
            (max(span.from_ms, from_ms), [self._name(state) for state in span.states])
            for span in spans
        ]
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]

    def _name(self, state: QuotaState) -> str:
        if id(state) not in self._names:
            text = "\n".join(sorted(map(repr, state.limits.items())))
            digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
            self._names[id(state)] = digest
        return self._names[id(state)]

    def measured(self, span: int, kind: QuotaType) -> bool | None:
        """Whether brokers record metrics of this quota type; they do not if there is no limit of it.

        True if all snapshots of the span have a limit of the type; ``None`` without a snapshot. If only one of two
        snapshots has one, it may have been removed at any time between them, so the result is False.
        """
        return _everywhere(rules.measured for rules in self._of(span, kind))

    def is_ip_counted(self, span: int, ip: Bucket) -> bool | None:
        """Whether brokers record an ip, which needs an own or default limit; result as for :meth:`measured`."""
        return _everywhere(_counts(rules, ip) for rules in self._of(span, QuotaType.IP))

    def limit(self, span: int, kind: QuotaType, bucket: Bucket) -> int | UnknownLimit | None:
        """Return the limit of a bucket in units; ``None`` = unlimited."""
        possible_limits = {_limit(kind, rules, bucket) for rules in self._of(span, kind)}
        if len(possible_limits) > 1:
            return UnknownLimit.CHANGED
        return next(iter(possible_limits), UnknownLimit.UNSEEN)

    def request(self, span: int, bucket: Bucket) -> Covering:
        """Return the request quota that applies to the clients of a bucket."""
        possible_covers = {_covering(rules, bucket) for rules in self._of(span, QuotaType.REQUEST)}
        if len(possible_covers) > 1:
            return UnknownLimit.CHANGED
        return next(iter(possible_covers), UnknownLimit.UNSEEN)

    def _of(self, span: int, kind: QuotaType) -> tuple[KeyLimits, ...]:
        if (span, kind) not in self._books:
            states = self.spans[span].states
            self._books[span, kind] = tuple(book(state, KEY_OF[kind]) for state in states)
        return self._books[span, kind]


def _everywhere(answers: Iterable[bool]) -> bool | None:
    unique_answers = tuple(answers)
    return all(unique_answers) if unique_answers else None


def _counts(rules: KeyLimits, ip: Bucket) -> bool:
    """Whether Kafka records an ip: it does not if the limit is the maximum of a 32-bit integer."""
    effective_limit = limit_of(rules, ip)
    return effective_limit is not None and effective_limit[1] < _NO_LIMIT


def _spans(snapshots: Sequence[LimitSnapshot]) -> tuple[LimitPeriod, ...]:
    periods = [LimitPeriod(from_ms=0, states=())]
    for number, snapshot in enumerate(snapshots):
        if number:
            before = snapshots[number - 1]
            if before.state.limits == snapshot.state.limits:
                continue
            if snapshot.observed_ms > before.observed_ms + 1:
                periods.append(
                    LimitPeriod(
                        from_ms=before.observed_ms + 1, states=(before.state, snapshot.state)
                    )
                )
        periods.append(LimitPeriod(from_ms=snapshot.observed_ms, states=(snapshot.state,)))
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
    """Whether a client may be counted in both buckets."""
    return all(
        not first_name or not second_name or first_name == second_name
        for first_name, second_name in (
            (first.user, second.user),
            (first.client_id, second.client_id),
        )
    )
