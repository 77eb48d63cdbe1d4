"""Drift over time, as a loop sees it: how often in a row, for how long, how often corrected, and whether another writer undoes it."""

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final, TypeAlias

from reconciler.errors import QuotaValueError
from reconciler.quota.entity import Entity, sort_key
from reconciler.quota.keys import COLUMN_OF, Key
from reconciler.quota.ownership import Pair
from reconciler.quota.planner.plan import Finding, Plan, QuotaChange
from reconciler.quota.state import NO_LIMITS, Limits

CONFIRM_AFTER: Final = 2
"""Looks in a row: one alone may be a broker that lags behind our own write."""

WINDOW_SECONDS: Final = 3600.0
MAX_CORRECTIONS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftObservation:
    """One drifted pair, as the last look showed it and the looks before it remember it.

    Attributes:
        entity: Whose quota.
        key: Which key.
        expected: What we applied last.
        live: What was found; ``None`` = it was removed.
        since: When it was first seen, in seconds since the epoch.
        observation_count: How many looks in a row saw it.
        confirmed: Whether that is enough to speak of it.
        corrections: How often the pair was corrected within the window.
        fought: Whether another writer undid our corrections so often that we stopped correcting.
        document: Whose the pair is; "" for an override.
        corrected_at: When each of these corrections was made, in seconds since the epoch, oldest first.
        overwritten: The foreign value that each of them replaced, in the same order.
    """

    entity: Entity
    key: Key
    expected: float | None
    live: float | None
    since: float
    observation_count: int = 1
    confirmed: bool = True
    corrections: int = 0
    fought: bool = False
    document: str = ""
    corrected_at: tuple[float, ...] = ()
    overwritten: tuple[float | None, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectionHistory:
    """The corrections of one pair within the window, as a process that starts anew has to know them.

    Attributes:
        entity: Whose quota.
        key: Which key.
        document: Whose the pair is; "" for an override.
        limits: What that document declares.
        expected: What was set.
        corrections: When, in seconds since the epoch, and the foreign value that was replaced; oldest first.
    """

    entity: Entity
    key: Key
    document: str
    limits: Limits
    expected: float | None
    corrections: tuple[tuple[float, float | None], ...]


_Correction: TypeAlias = tuple[float, float | None]
"""When, and what had been there instead."""

_Asked: TypeAlias = tuple[str, Limits, float | None]
"""What the pair is to be and by whose word: with another one, everything begins anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _PairHistory:
    """What is remembered of one pair; ``observation_count`` is 0 while it does not drift."""

    claimed: _Asked
    observation_count: int = 0
    since: float = 0.0
    live: float | None = None
    fought: bool = False
    corrections: tuple[_Correction, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftTracker:
    """What a loop remembers of drift from one look to the next. Immutable: each look makes a new one.

    Only drift is remembered: what a document asks for anew is none, nor is what an ignore rule covers or what is
    frozen. Whether a value differs, and from what, is the planner's word; overrides are in it already.

    Attributes:
        confirm_after: So many looks in a row make drift confirmed; only confirmed drift is corrected.
        window: Seconds over which corrections of a pair are counted.
        max_corrections: So many corrections of one pair are made within the window.

    Raises:
        QuotaValueError: A number is NaN or below what it can mean.
    """

    confirm_after: int = CONFIRM_AFTER
    window: float = WINDOW_SECONDS
    max_corrections: int = MAX_CORRECTIONS
    _pairs: Mapping[Pair, _PairHistory] = field(
        default_factory=dict[Pair, _PairHistory], repr=False
    )

    def __post_init__(self) -> None:
        if self.confirm_after < 1 or self.max_corrections < 0 or not 0 < self.window < math.inf:
            raise QuotaValueError(
                "a vigil needs at least one look, a window of some seconds and no negative count of corrections,"
                f" not {self.confirm_after}, {self.window} and {self.max_corrections}"
            )

    def after(
        self,
        plan: Plan,
        *,
        corrected: Collection[Pair] = (),
        now: float,
        first_seen: Mapping[Pair, float] = MappingProxyType({}),
    ) -> "DriftTracker":
        """What is remembered after one more look.

        Args:
            plan: What the look found, with what was corrected still among the changes.
            corrected: The pairs whose correction was sent, whatever was answered.
            now: When, in seconds since the epoch.
            first_seen: When drift was first seen, from the records: they outlive the process.
        """
        pairs: dict[Pair, _PairHistory] = {}
        for drifted in plan.drift:
            pair = drifted.entity, drifted.key
            pairs[pair] = self._observe(
                drifted, now, first_seen.get(pair), corrected=pair in corrected
            )
        for pair, memory in self._pairs.items():
            if pair not in pairs and (corrections := self._recent(memory, now)):
                pairs[pair] = _PairHistory(claimed=memory.claimed, corrections=corrections)
        return replace(self, _pairs=pairs)

    def corrects(self, change: QuotaChange, now: float) -> bool:
        """Whether this drift may be corrected by the pass that found it."""
        before = self._history_of(change)
        return before.observation_count + 1 >= self.confirm_after and not self._is_spent(
            before, now
        )

    @property
    def histories(self) -> tuple[CorrectionHistory, ...]:
        """The pairs that were corrected within the window, by entity and column."""
        corrected = [pair for pair, memory in self._pairs.items() if memory.corrections]
        corrected.sort(key=lambda pair: (sort_key(pair[0]), COLUMN_OF[pair[1]]))
        return tuple(self._correction_history(pair, self._pairs[pair]) for pair in corrected)

    def with_histories(self, histories: Iterable[CorrectionHistory]) -> "DriftTracker":
        """The same with corrections of an earlier process, where this one knows nothing of a pair."""
        pairs = {
            (history.entity, history.key): _PairHistory(
                claimed=(history.document, history.limits, history.expected),
                corrections=history.corrections,
            )
            for history in histories
        }
        return replace(self, _pairs={**pairs, **self._pairs})

    def _correction_history(self, pair: Pair, memory: _PairHistory) -> CorrectionHistory:
        document, limits, expected = memory.claimed
        return CorrectionHistory(
            entity=pair[0],
            key=pair[1],
            document=document,
            limits=limits,
            expected=expected,
            corrections=memory.corrections,
        )

    @property
    def observations(self) -> tuple[DriftObservation, ...]:
        """The pairs that drifted at the last look, by entity and column."""
        drifting = [pair for pair, memory in self._pairs.items() if memory.observation_count]
        drifting.sort(key=lambda pair: (sort_key(pair[0]), COLUMN_OF[pair[1]]))
        return tuple(self._observation(pair, self._pairs[pair]) for pair in drifting)

    def _observe(
        self, drifted: Finding | QuotaChange, now: float, recorded: float | None, *, corrected: bool
    ) -> _PairHistory:
        before = self._history_of(drifted)
        corrections = self._recent(before, now)
        live = _live(drifted)
        return replace(
            before,
            observation_count=before.observation_count + 1,
            since=before.since
            if before.observation_count
            else now
            if recorded is None
            else recorded,
            live=live,
            fought=not corrected and bool(corrections) and self._is_spent(before, now),
            corrections=(*corrections, (now, live)) if corrected else corrections,
        )

    def _history_of(self, drifted: Finding | QuotaChange) -> _PairHistory:
        """What earlier looks saw of this very drift; nothing if the pair is to be something else by now."""
        claimed = _claimed_value(drifted)
        memory = self._pairs.get((drifted.entity, drifted.key))
        return (
            memory
            if memory is not None and memory.claimed == claimed
            else _PairHistory(claimed=claimed)
        )

    def _recent(self, memory: _PairHistory, now: float) -> tuple[_Correction, ...]:
        return tuple(
            correction for correction in memory.corrections if correction[0] > now - self.window
        )

    def _is_spent(self, memory: _PairHistory, now: float) -> bool:
        return len(self._recent(memory, now)) >= self.max_corrections

    def _observation(self, pair: Pair, memory: _PairHistory) -> DriftObservation:
        document, _, expected = memory.claimed
        return DriftObservation(
            entity=pair[0],
            key=pair[1],
            expected=expected,
            live=memory.live,
            since=memory.since,
            observation_count=memory.observation_count,
            confirmed=memory.observation_count >= self.confirm_after,
            corrections=len(memory.corrections),
            fought=memory.fought,
            document=document,
            corrected_at=tuple(at for at, _ in memory.corrections),
            overwritten=tuple(value for _, value in memory.corrections),
        )


def _claimed_value(drifted: Finding | QuotaChange) -> _Asked:
    limits = NO_LIMITS if drifted.claim is None else drifted.claim.limits
    document = drifted.claim.document if drifted.claim is not None else ""
    if isinstance(drifted, QuotaChange):
        return document, limits, drifted.after
    # A crash right after a write leaves an intent and no record; what is declared is what was applied then.
    return document, limits, drifted.desired if drifted.applied is None else drifted.applied


def _live(drifted: Finding | QuotaChange) -> float | None:
    return drifted.before if isinstance(drifted, QuotaChange) else drifted.live
