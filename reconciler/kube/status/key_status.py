"""Indexes one reconciliation by pair, so that thousands of statuses are computed from it quickly.

Messages are about the pair alone. Where tenants share the cluster they contain no names of other owners or writers.
"""

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from reconciler.base.escaping import escaped
from reconciler.kube.api.custom_resources import time_text
from reconciler.kube.status.conditions import ReconcileFailure, trouble_of
from reconciler.kube.status.reasons import Reason
from reconciler.quota.drift_tracker import DriftObservation
from reconciler.quota.entity import LEVEL_NAMES, entity_text, level
from reconciler.quota.keys import same_value
from reconciler.quota.ownership import OwnershipRecords, Pair
from reconciler.quota.planner.desired_state import Losses
from reconciler.quota.planner.guards import Violation
from reconciler.quota.planner.plan import TEMPORARY, Finding, QuotaChange
from reconciler.quota.planner.removal_guard import NONE_IS_MADE, REMOVAL_GUARDS
from reconciler.quota.policy import Action, Cause, DriftMode, Policy
from reconciler.quota.results.report import (
    PairOutcome,
    PairVisibility,
    Reconciliation,
    WithheldChange,
)
from reconciler.quota.state import Applied, Held, Rejected, Unknown
from reconciler.render.units import number

_T = TypeVar("_T", QuotaChange, Finding)


class KeyStatus(Struct, frozen=True, kw_only=True):
    """The result of a reconciliation for one pair."""

    reason: Reason
    cause: str = "InSync"  # why the present difference exists, or `InSync`
    message: str = ""  # a sentence; may be empty
    # Outcome of the write of this reconciliation, as in `status.keys`; "" = nothing was written.
    result: str = ""
    live: float | None = None  # the last observed value; None = not set
    drifts: bool = False  # whether another writer changed it, corrected or not
    # Whether it differs from what was applied, and an earlier leader's write may be the reason.
    is_settling: bool = False


class KeyStatusIndex:
    """A reconciliation, indexed by pair.

    Args:
        report: The reconciliation; one that failed before it had a plan only has ``failure``.
        losses: The pairs that documents declare and lose.
        owned: The records after the reconciliation.
    """

    def __init__(self, report: Reconciliation, *, losses: Losses, owned: OwnershipRecords) -> None:
        self.report, self.losses, self.owned = report, losses, owned
        self.failure: ReconcileFailure | None = (
            None if report.error is None else trouble_of(report.error)
        )
        plan = None if report.preview is None else report.preview.plan
        self._changes: dict[Pair, QuotaChange] = _filed(plan.changes if plan else ())
        self._findings: dict[Pair, Finding] = _filed(plan.findings if plan else ())
        self._waiting: dict[Pair, QuotaChange] = _filed(report.waiting)
        self._outcomes: dict[Pair, PairOutcome] = {
            pair_outcome.change.pair: pair_outcome
            for pair_outcome in (() if report.outcome is None else report.outcome.pairs)
        }
        self._withheld: dict[Pair, WithheldChange] = {
            withheld.change.pair: withheld for withheld in report.withheld
        }

    @property
    def compared(self) -> bool:
        """Whether there was a plan, so that each pair has a status."""
        return self.report.preview is not None

    @cached_property
    def observations_by_key(self) -> Mapping[Pair, DriftObservation]:
        """Drift observations by pair."""
        return {
            (observation.entity, observation.key): observation
            for observation in self.report.observations
        }

    def live(self, pair: Pair) -> float | None:
        """Return the last observed value."""
        if self.report.live is not None:
            return self.report.live.value(*pair)
        outcome = self._outcomes.get(pair)
        if outcome is not None and outcome.visibility is not PairVisibility.UNCHECKED:
            return outcome.observed_value
        change, finding = self._changes.get(pair), self._findings.get(pair)
        if change is not None:
            return change.before
        return self.applied(pair) if finding is None else finding.live

    def applied(self, pair: Pair) -> float | None:
        """Return the last applied value."""
        return self.owned.applied_value(pair)

    def of(self, pair: Pair, document: str, *, tenanted: bool) -> KeyStatus:
        """Return the status of a pair of a document.

        Args:
            tenanted: Whether documents of other namespaces must not be named.
        """
        live = self.live(pair)
        winner = self.losses.get(document, {}).get(pair)
        if winner is not None:
            message = f"{_winner_text(winner, document, tenanted=tenanted)} has it"
            return KeyStatus(reason=Reason.CONFLICT, cause="Conflict", message=message, live=live)
        withheld, finding = self._withheld.get(pair), self._findings.get(pair)
        if withheld is not None:
            return _withheld_reading(withheld, live)
        if pair in self._waiting:
            return self._drifting(pair, live)
        if pair in self._changes:
            return self._changed(self._changes[pair], live, document, tenanted=tenanted)
        return (
            self._quiet(pair, live)
            if finding is None
            else self._own_temporary(self._status_of_finding(finding, live), pair, document)
        )

    def _own_temporary(self, status: KeyStatus, pair: Pair, document: str) -> KeyStatus:
        """Return the status of a temporary limit as that of its own document: it is in sync until its end."""
        override = self.owned.overrides.get(pair)
        is_own = override is not None and override.document == document
        if override is None or not is_own or status.reason is not Reason.OVERRIDE_ACTIVE:
            return status
        return replace(
            status,
            reason=Reason.SYNCED,
            cause=Cause.TEMPORARY.value,
            message=f"until {time_text(override.until)}",
        )

    # ---- changes -----------------------------------------------------------------------------

    def _changed(
        self, change: QuotaChange, live: float | None, document: str, *, tenanted: bool
    ) -> KeyStatus:
        outcome = self._outcomes.get(change.pair)
        if outcome is None or outcome.result is None:
            return self._not_sent(change, live)
        status = self._own_temporary(self._status_of_outcome(outcome, live), change.pair, document)
        if not isinstance(outcome.result, Held):
            return status
        names = dict.fromkeys(
            self._obstacle_text((entity, change.key), document, tenanted=tenanted)
            for entity in outcome.result.waits_for
        )
        return replace(status, message=escaped(f"waits for {', '.join(names)}"))

    def _obstacle_text(self, pair: Pair, document: str, *, tenanted: bool) -> str:
        """Return the entity that a held change waits for, as far as its author may see it, and who refuses it."""
        withheld, outcome = self._withheld.get(pair), self._outcomes.get(pair)
        change = self._changes.get(pair) if withheld is None else withheld.change
        owners = () if change is None else (change.claim, change.owner)
        namespaces = {owner.document.partition("/")[0] for owner in owners if owner is not None}
        entity = pair[0]
        is_shown = not tenanted or document.partition("/")[0] in namespaces
        text = (
            entity_text(entity)
            if is_shown or not any(isinstance(name, str) for name in entity)
            else f"a limit of another namespace ({LEVEL_NAMES[level(entity)]})"
        )
        if withheld is not None:
            return f"{text}, which a guard refuses"
        is_rejected = outcome is not None and isinstance(outcome.result, Rejected)
        return f"{text}, which the broker refuses" if is_rejected else text

    def _status_of_outcome(self, outcome: PairOutcome, live: float | None) -> KeyStatus:
        change = outcome.change
        cause, result = change.cause, "Applied"
        match outcome.result, outcome.visibility:
            case Applied() | Unknown(), PairVisibility.VISIBLE:
                overriding = change.is_temporary and cause is not Cause.ENDED
                reason = Reason.OVERRIDE_ACTIVE if overriding else Reason.SYNCED
                message = _OVERRIDDEN if overriding else ""
                cause = Cause.OVERRIDE if overriding else Cause.IN_SYNC
            case Rejected() as rejection, _:
                lacks = rejection.lacks_permission
                reason = Reason.AUTHORIZATION_FAILED if lacks else Reason.BROKER_REJECTED
                message, result = escaped(rejection.message or rejection.name), "Rejected"
            case Held(), _:
                reason, message, result = Reason.HELD, "", "Held"
            case Applied(), PairVisibility.CHANGED:
                reason, cause = Reason.DRIFTED, Cause.DRIFT
                message = (
                    f"written, and changed by another writer right afterwards to {number(live)}"
                )
            case Applied(), _:
                reason = Reason.OUTCOME_UNKNOWN
                message = "accepted, not yet shown by every live broker"
            case _:
                reason, result = Reason.OUTCOME_UNKNOWN, "Unknown"
                message = "no response from the broker; the write may still take effect"
        return KeyStatus(
            reason=reason,
            cause=cause.value,
            message=message,
            result=result,
            live=live,
            drifts=cause is Cause.DRIFT,
        )

    def _not_sent(self, change: QuotaChange, live: float | None) -> KeyStatus:
        reason = Reason.PENDING if self.failure is None else self.failure.reason
        return KeyStatus(
            reason=reason,
            cause=change.cause.value,
            message="not written yet",
            live=live,
            drifts=change.cause is Cause.DRIFT,
        )

    # ---- findings ----------------------------------------------------------------------------

    def _status_of_finding(self, finding: Finding, live: float | None) -> KeyStatus:
        pair = finding.pair
        if finding.action in {Action.RECORD, Action.ORPHAN}:
            return KeyStatus(reason=Reason.SYNCED, live=live)
        if finding.ignored:
            return KeyStatus(
                reason=Reason.SYNCED, cause=finding.cause.value, message=finding.note, live=live
            )
        if finding.cause is Cause.DRIFT:
            return self._drifting(pair, live)
        reason, message = self._reason_left_unchanged(finding)
        return KeyStatus(reason=reason, cause=finding.cause.value, message=message, live=live)

    def _reason_left_unchanged(self, finding: Finding) -> tuple[Reason, str]:
        """Return reason and message of a finding that is reported and not written, except drift."""
        preview = self.report.preview
        observes = preview is not None and preview.policy is Policy.OBSERVE
        is_complete = preview is not None and preview.plan.complete
        agrees = finding.cause in {Cause.ADOPT, Cause.CONVERGED}
        unsettled = agrees or finding.pair in self.owned.intents
        removal = finding.cause in {Cause.PRUNE, Cause.GONE}
        cases: tuple[tuple[bool, Reason, str], ...] = (
            (
                finding.cause in TEMPORARY and finding.action is Action.NOTHING,
                Reason.OVERRIDE_ACTIVE,
                _OVERRIDDEN,
            ),
            (
                finding.cause is Cause.FROZEN,
                Reason.CONFLICT,
                "another document, which is suspended or invalid, owns it",
            ),
            (
                finding.cause is Cause.CHANGED_BY_ANOTHER,
                Reason.POLICY_RESTRICTED,
                "no longer declared, but another writer changed it since, so it is not removed",
            ),
            (
                observes and agrees,
                Reason.SYNCED,
                "as declared; nothing is recorded under Observe",
            ),
            (observes, Reason.OBSERVE_ONLY, _difference(finding)),
            (unsettled, Reason.OUTCOME_UNKNOWN, "an earlier write may still take effect"),
            (
                removal and not is_complete,
                Reason.HELD,
                "not every document was read, so nothing is removed",
            ),
        )
        matches = ((reason, words) for holds, reason, words in cases if holds)
        return next(matches, (Reason.POLICY_RESTRICTED, _difference(finding)))

    def _drifting(self, pair: Pair, live: float | None) -> KeyStatus:
        observation = self.observations_by_key.get(pair)
        message = drift_text(self.applied(pair), live)
        is_fought_over = observation is not None and observation.corrections_stopped
        if observation is not None and is_fought_over:
            message += f"; it was corrected {len(observation.corrections)} times and changed again each time"
        return KeyStatus(
            reason=Reason.FOUGHT_OVER if is_fought_over else Reason.DRIFTED,
            cause=Cause.DRIFT.value,
            message=message,
            live=live,
            drifts=True,
        )

    def _quiet(self, pair: Pair, live: float | None) -> KeyStatus:
        """Return the status of a pair without change or finding: in sync, or drift that is not counted or not reported."""
        applied, preview = self.applied(pair), self.report.preview
        if applied is None or same_value(pair[1], applied, live):
            return KeyStatus(reason=Reason.SYNCED, live=live)
        disabled = preview is not None and preview.drift_mode is DriftMode.DISABLED
        words = "changed by another writer; driftDetection is Disabled"
        words = words if disabled else f"{drift_text(applied, live)}; it is compared again soon"
        status = KeyStatus(reason=Reason.SYNCED, cause=Cause.DRIFT.value, live=live)
        return replace(status, message=words, is_settling=not disabled)


TOO_MANY_REMOVALS: Final = f"too many removals were asked for within an hour; {NONE_IS_MADE} until guards.approvedRemovals has the namespace"
_OVERRIDDEN: Final = "an override is in force"


def _filed(items: Iterable[_T]) -> dict[Pair, _T]:
    return {item.pair: item for item in items}


def _withheld_reading(withheld: WithheldChange, live: float | None) -> KeyStatus:
    sentences = dict.fromkeys(
        # Thousands of documents may wait: without a number that changes with each reconciliation.
        TOO_MANY_REMOVALS if violation.guard in REMOVAL_GUARDS else violation_text(violation)
        for violation in withheld.violations
    )
    return KeyStatus(
        reason=Reason.GUARD_REFUSED,
        cause=withheld.change.cause.value,
        message=escaped("; ".join(sentences)),
        live=live,
        drifts=withheld.change.cause is Cause.DRIFT,
    )


def violation_text(violation: Violation) -> str:
    """Return the message of a guard, with the setting by which the owner of the QuotaCluster allows the change."""
    setting = violation.setting.replace("guards.", "spec.guards.")
    owner = "the owner of the QuotaCluster allows it with "
    return violation.message + (f" ({owner}{setting})" if "spec." in setting else "")


def _winner_text(winner: str, document: str, *, tenanted: bool) -> str:
    """Return the winning document as far as the loser's author may see it."""
    if tenanted and winner.partition("/")[0] != document.partition("/")[0]:
        return "another document"
    return f"ClientQuota {winner}"


def drift_text(applied: float | None, live: float | None) -> str:
    """Return how a live value differs from the one applied last."""
    return f"{number(applied)} was applied, {_finding_text(live)} is live"


def _finding_text(live: float | None) -> str:
    return "nothing" if live is None else number(live)


def _difference(finding: Finding) -> str:
    desired_text = "no value" if finding.desired is None else number(finding.desired)
    return f"{desired_text} is declared, {_finding_text(finding.live)} is live"
