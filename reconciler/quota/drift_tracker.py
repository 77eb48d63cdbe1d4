"""Drift over several reconciliations: consecutive observations, duration, corrections, and conflicts with another writer."""

import math
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Final

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
    """The drift of one pair at the last observation, with its history; the tracker also keeps that of drift that ended."""

    entity: Entity
    key: Key
    document: str = ""  # the document that owns the pair; "" for an override
    limits: Limits = NO_LIMITS  # the limits that the document declares
    expected: float | None  # the value that kquota applied last
    live: float | None = None  # the live value; None = removed
    since: float = 0.0  # time of the first observation, in seconds since the epoch
    # Consecutive observations that saw it; 0 while the pair does not drift.
    observation_count: int = 0
    confirmed: bool = False  # whether `observation_count` reaches the threshold for confirmed drift
    # Whether corrections stopped because another writer undid as many of them as the window allows.
    corrections_stopped: bool = False
    # Time in seconds since the epoch of each correction within the window, and the foreign value that it replaced; oldest first.
    corrections: tuple[tuple[float, float | None], ...] = ()


class CorrectionHistory(Struct, frozen=True, kw_only=True, gc=False):
    """The corrections of one pair within the window, as a restarted process needs them."""

    entity: Entity
    key: Key
    document: str  # the document that owns the pair; "" for an override
    limits: Limits  # the limits that the document declares
    expected: float | None  # the value that the corrections set
    # Time in seconds since the epoch and the foreign value that was replaced; oldest first.
    corrections: tuple[tuple[float, float | None], ...]


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
    # The pairs that drifted at the last observation, or were corrected within the window.
    _pairs: Mapping[Pair, DriftObservation] = field(default_factory=dict[Pair, DriftObservation])

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
        pairs = {
            drifted.pair: self._observe(
                drifted, now, first_seen.get(drifted.pair), corrected=drifted.pair in corrected
            )
            for drifted in plan.drift
        }
        for pair, before in self._pairs.items():
            if pair not in pairs and (corrections := self._recent(before, now)):
                # A drift that comes again is a new one, with these corrections.
                pairs[pair] = replace(
                    before,
                    live=None,
                    since=0.0,
                    observation_count=0,
                    confirmed=False,
                    corrections_stopped=False,
                    corrections=corrections,
                )
        return replace(self, _pairs=pairs)

    def corrects(self, change: QuotaChange, now: float) -> bool:
        """Whether the reconciliation that observed this drift may correct it."""
        before = self._before(change)
        return before.observation_count + 1 >= self.confirm_after and not self._is_spent(
            before, now
        )

    @property
    def histories(self) -> tuple[CorrectionHistory, ...]:
        """Pairs that were corrected within the window, by entity and column."""
        return tuple(
            CorrectionHistory(
                entity=each.entity,
                key=each.key,
                document=each.document,
                limits=each.limits,
                expected=each.expected,
                corrections=each.corrections,
            )
            for each in self._sorted()
            if each.corrections
        )

    def with_histories(self, histories: Iterable[CorrectionHistory]) -> "DriftTracker":
        """Return the tracker with corrections of an earlier process, for pairs that it has no history of."""
        pairs = {
            (history.entity, history.key): DriftObservation(
                entity=history.entity,
                key=history.key,
                document=history.document,
                limits=history.limits,
                expected=history.expected,
                corrections=history.corrections,
            )
            for history in histories
        }
        return replace(self, _pairs={**pairs, **self._pairs})

    @property
    def observations(self) -> tuple[DriftObservation, ...]:
        """Pairs that drifted at the last observation, by entity and column."""
        return tuple(each for each in self._sorted() if each.observation_count)

    def _sorted(self) -> list[DriftObservation]:
        return sorted(
            self._pairs.values(), key=lambda each: (sort_key(each.entity), COLUMN_OF[each.key])
        )

    def _observe(
        self, drifted: Finding | QuotaChange, now: float, recorded: float | None, *, corrected: bool
    ) -> DriftObservation:
        before = self._before(drifted)
        corrections = self._recent(before, now)
        live = drifted.before if isinstance(drifted, QuotaChange) else drifted.live
        # What an earlier process recorded was an observation, too.
        count = max(before.observation_count, int(recorded is not None)) + 1
        first_seen = now if recorded is None else recorded
        return replace(
            before,
            observation_count=count,
            confirmed=count >= self.confirm_after,
            since=before.since if before.observation_count else first_seen,
            live=live,
            corrections_stopped=not corrected and bool(corrections) and self._is_spent(before, now),
            corrections=(*corrections, (now, live)) if corrected else corrections,
        )

    def _before(self, drifted: Finding | QuotaChange) -> DriftObservation:
        """Return the last observation of this drift; a new one if the document, its limits or the expected value changed."""
        claim = drifted.claim
        if isinstance(drifted, QuotaChange):
            expected = drifted.after
        else:
            # A crash right after a write leaves an intent and no record; then the declared value is the one that was applied.
            is_desired = drifted.of_override or drifted.applied is None
            expected = drifted.desired if is_desired else drifted.applied
        new = DriftObservation(
            entity=drifted.entity,
            key=drifted.key,
            document="" if claim is None else claim.document,
            limits=NO_LIMITS if claim is None else claim.limits,
            expected=expected,
        )
        before = self._pairs.get(drifted.pair, new)
        is_same = (before.document, before.limits, before.expected) == (
            new.document,
            new.limits,
            new.expected,
        )
        return before if is_same else new

    def _recent(
        self, before: DriftObservation, now: float
    ) -> tuple[tuple[float, float | None], ...]:
        return tuple(each for each in before.corrections if each[0] > now - self.window)

    def _is_spent(self, before: DriftObservation, now: float) -> bool:
        return len(self._recent(before, now)) >= self.max_corrections
