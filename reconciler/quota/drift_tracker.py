"""Drift over several reconciliations: consecutive observations, duration, corrections, and conflicts with another writer."""

import math
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.errors import QuotaValueError
from reconciler.quota.entity import Entity, sort_key
from reconciler.quota.keys import COLUMN_OF, Key
from reconciler.quota.ownership import Pair
from reconciler.quota.planner.plan import Finding, Plan, QuotaChange
from reconciler.quota.state import NO_LIMITS, Limits

CONFIRM_AFTER: Final = 2
"""Consecutive observations; a single one may come from a broker that lags behind kquota's write."""

WINDOW_SECONDS: Final = 3600.0
MAX_CORRECTIONS: Final = 3


class DriftObservation(Struct, frozen=True, kw_only=True, gc=False):
    """The drift of one pair at the last observation, with its history."""

    entity: Entity
    key: Key
    expected: float | None  # the value that kquota applied last
    live: float | None  # the live value; None = removed
    since: float  # time of the first observation, in seconds since the epoch
    observation_count: int = 1  # consecutive observations that saw it
    confirmed: bool = True  # whether `observation_count` reaches the threshold for confirmed drift
    corrections: int = 0  # number of corrections of the pair within the window
    # Whether corrections stopped because another writer undid as many of them as the window allows.
    corrections_stopped: bool = False
    document: str = ""  # the document that owns the pair; "" for an override
    # Time of each correction, in seconds since the epoch, oldest first.
    corrected_at: tuple[float, ...] = ()
    # The foreign value that each correction replaced, in the same order.
    overwritten: tuple[float | None, ...] = ()


class CorrectionHistory(Struct, frozen=True, kw_only=True, gc=False):
    """The corrections of one pair within the window, as a restarted process needs them."""

    entity: Entity
    key: Key
    document: str  # the document that owns the pair; "" for an override
    limits: Limits  # the limits that the document declares
    expected: float | None  # the value that the corrections set
    # Time in seconds since the epoch and the foreign value that was replaced; oldest first.
    corrections: tuple[tuple[float, float | None], ...]


_Correction: TypeAlias = tuple[float, float | None]
"""Time in seconds since the epoch, and the value that was replaced."""

_ClaimedValue: TypeAlias = tuple[str, Limits, float | None]
"""Document, its limits and the expected value; if any of them changes, the history starts again."""


class _PairHistory(Struct, frozen=True, kw_only=True, gc=False):
    """History of one pair; ``observation_count`` is 0 while it does not drift."""

    claimed: _ClaimedValue
    observation_count: int = 0
    since: float = 0.0
    live: float | None = None
    corrections_stopped: bool = False
    corrections: tuple[_Correction, ...] = ()


class DriftTracker(Struct, frozen=True, kw_only=True, gc=False):
    """The drift that a loop remembers between observations. Immutable: each observation returns a new tracker.

    Tracks only drift: not new declarations, pairs under an ignore rule or frozen pairs. The planner decides whether a
    value differs and from what; overrides are already included.

    Raises:
        QuotaValueError: A count is too small, or the window is not positive and finite.
    """

    # Consecutive observations that confirm drift; only confirmed drift is corrected.
    confirm_after: int = CONFIRM_AFTER
    window: float = WINDOW_SECONDS  # seconds over which the corrections of a pair are counted
    # Maximum number of corrections of one pair within the window.
    max_corrections: int = MAX_CORRECTIONS
    _pairs: Mapping[Pair, _PairHistory] = field(default_factory=dict[Pair, _PairHistory])

    def __post_init__(self) -> None:
        if self.confirm_after < 1 or self.max_corrections < 0 or not 0 < self.window < math.inf:
            raise QuotaValueError(
                "confirm_after must be at least 1, window positive and finite, and max_corrections not negative,"
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
        """Return the tracker after one more observation.

        Args:
            plan: The plan of the observation; corrected pairs are still among its changes.
            corrected: The pairs whose correction was sent, whatever its result.
            now: Time of the observation, in seconds since the epoch.
            first_seen: When drift was first seen, from the records, which outlive the process.
        """
        pairs: dict[Pair, _PairHistory] = {}
        for drifted in plan.drift:
            pair = drifted.pair
            pairs[pair] = self._observe(
                drifted, now, first_seen.get(pair), corrected=pair in corrected
            )
        for pair, history in self._pairs.items():
            if pair not in pairs and (corrections := self._recent(history, now)):
                pairs[pair] = _PairHistory(claimed=history.claimed, corrections=corrections)
        return replace(self, _pairs=pairs)

    def corrects(self, change: QuotaChange, now: float) -> bool:
        """Whether the reconciliation that observed this drift may correct it."""
        before = self._history_of(change)
        return before.observation_count + 1 >= self.confirm_after and not self._is_spent(
            before, now
        )

    @property
    def histories(self) -> tuple[CorrectionHistory, ...]:
        """Pairs that were corrected within the window, by entity and column."""
        corrected = [pair for pair, history in self._pairs.items() if history.corrections]
        corrected.sort(key=lambda pair: (sort_key(pair[0]), COLUMN_OF[pair[1]]))
        return tuple(self._correction_history(pair, self._pairs[pair]) for pair in corrected)

    def with_histories(self, histories: Iterable[CorrectionHistory]) -> "DriftTracker":
        """Return the tracker with corrections of an earlier process, for pairs that it has no history of."""
        pairs = {
            (history.entity, history.key): _PairHistory(
                claimed=(history.document, history.limits, history.expected),
                corrections=history.corrections,
            )
            for history in histories
        }
        return replace(self, _pairs={**pairs, **self._pairs})

    def _correction_history(self, pair: Pair, history: _PairHistory) -> CorrectionHistory:
        document, limits, expected = history.claimed
        return CorrectionHistory(
            entity=pair[0],
            key=pair[1],
            document=document,
            limits=limits,
            expected=expected,
            corrections=history.corrections,
        )

    @property
    def observations(self) -> tuple[DriftObservation, ...]:
        """Pairs that drifted at the last observation, by entity and column."""
        drifting = [pair for pair, history in self._pairs.items() if history.observation_count]
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
            # What an earlier process recorded was an observation, too.
            observation_count=max(before.observation_count, int(recorded is not None)) + 1,
            since=before.since
            if before.observation_count
            else now
            if recorded is None
            else recorded,
            live=live,
            corrections_stopped=not corrected and bool(corrections) and self._is_spent(before, now),
            corrections=(*corrections, (now, live)) if corrected else corrections,
        )

    def _history_of(self, drifted: Finding | QuotaChange) -> _PairHistory:
        """Return the history of this drift; empty if the document, its limits or the expected value changed."""
        claimed = _claimed_value(drifted)
        history = self._pairs.get(drifted.pair)
        return (
            history
            if history is not None and history.claimed == claimed
            else _PairHistory(claimed=claimed)
        )

    def _recent(self, history: _PairHistory, now: float) -> tuple[_Correction, ...]:
        return tuple(
            correction for correction in history.corrections if correction[0] > now - self.window
        )

    def _is_spent(self, history: _PairHistory, now: float) -> bool:
        return len(self._recent(history, now)) >= self.max_corrections

    def _observation(self, pair: Pair, history: _PairHistory) -> DriftObservation:
        document, _, expected = history.claimed
        return DriftObservation(
            entity=pair[0],
            key=pair[1],
            expected=expected,
            live=history.live,
            since=history.since,
            observation_count=history.observation_count,
            confirmed=history.observation_count >= self.confirm_after,
            corrections=len(history.corrections),
            corrections_stopped=history.corrections_stopped,
            document=document,
            corrected_at=tuple(at for at, _ in history.corrections),
            overwritten=tuple(value for _, value in history.corrections),
        )


def _claimed_value(drifted: Finding | QuotaChange) -> _ClaimedValue:
    limits = NO_LIMITS if drifted.claim is None else drifted.claim.limits
    document = drifted.claim.document if drifted.claim is not None else ""
    if isinstance(drifted, QuotaChange):
        return document, limits, drifted.after
    # A crash right after a write leaves an intent and no record; then the declared value is the one that was applied.
    is_desired = drifted.of_override or drifted.applied is None
    return document, limits, drifted.desired if is_desired else drifted.applied


def _live(drifted: Finding | QuotaChange) -> float | None:
    return drifted.before if isinstance(drifted, QuotaChange) else drifted.live
