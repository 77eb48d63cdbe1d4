"""One pass, read: what it means for each pair. Filed by pair, so that five thousand statuses are made from it quickly.

Sentences speak of the pair alone. What it waits for, who has it instead and who wrote last are told without a name
where tenants share the cluster.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeVar

from reconciler.kube.conditions import Trouble, trouble_of
from reconciler.kube.reasons import Reason
from reconciler.kube.resources import time_text
from reconciler.quota.change import Change, Finding
from reconciler.quota.claims import Settled
from reconciler.quota.guards import Guard, Violation
from reconciler.quota.keys import COLUMN_OF, Key, same_value
from reconciler.quota.outcome import Applied, Held, Rejected, Unknown
from reconciler.quota.owned import NO_RECORD, Owned, Pair
from reconciler.quota.policy import Action, Cause, DriftMode, Policy
from reconciler.quota.report import PairOutcome, Pass, Seen, Withheld
from reconciler.quota.vigil import Sighting
from reconciler.render.names import escaped
from reconciler.render.units import number

_T = TypeVar("_T", Change, Finding)

_NO_RIGHT: Final = frozenset({29, 30, 31})
"""TOPIC_, GROUP_ and CLUSTER_AUTHORIZATION_FAILED: a right of ours is missing, the document is in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyReading:
    """What a pass means for one pair.

    Attributes:
        reason: Which row of the table.
        cause: Why the present difference exists, or ``InSync``.
        message: A sentence; "" where there is nothing to say.
        result: Outcome of the write of this pass, as ``status.keys`` has it; "" = nothing was written.
        live: The value last seen; ``None`` = not set.
        drifts: Whether somebody else changed it, corrected or not.
    """

    reason: Reason
    cause: str = "InSync"
    message: str = ""
    result: str = ""
    live: float | None = None
    drifts: bool = False


class Reading:
    """A pass, filed by pair.

    Args:
        report: The pass; one that broke off before it had a plan reads as trouble and nothing else.
        settled: Who asks for what and does not get it.
        owned: The records after the pass.
    """

    def __init__(self, report: Pass, *, settled: Settled, owned: Owned) -> None:
        self.report, self.settled, self.owned = report, settled, owned
        self.trouble: Trouble | None = None if report.error is None else trouble_of(report.error)
        plan = None if report.preview is None else report.preview.plan
        self._changes: dict[Pair, Change] = _filed(plan.changes if plan else ())
        self._findings: dict[Pair, Finding] = _filed(plan.findings if plan else ())
        self._waiting: dict[Pair, Change] = _filed(report.waiting)
        self._outcomes: dict[Pair, PairOutcome] = {
            (one.change.entity, one.change.key): one
            for one in (() if report.outcome is None else report.outcome.pairs)
        }
        self._withheld: dict[Pair, Withheld] = {
            (one.change.entity, one.change.key): one for one in report.withheld
        }

    @property
    def compared(self) -> bool:
        """Whether there was a plan, so that each pair can be spoken of."""
        return self.report.preview is not None

    @cached_property
    def sightings(self) -> Mapping[Pair, Sighting]:
        """Drift with its past."""
        return {(one.entity, one.key): one for one in self.report.sightings}

    @property
    def observes(self) -> bool:
        """Whether the policy in force writes nothing."""
        preview = self.report.preview
        return preview is not None and preview.policy is Policy.OBSERVE

    def live(self, pair: Pair) -> float | None:
        """The value last seen."""
        if self.report.live is not None:
            return self.report.live.value(*pair)
        outcome = self._outcomes.get(pair)
        if outcome is not None and outcome.seen is not Seen.UNCHECKED:
            return outcome.found
        change, finding = self._changes.get(pair), self._findings.get(pair)
        if change is not None:
            return change.before
        return self.applied(pair) if finding is None else finding.live

    def applied(self, pair: Pair) -> float | None:
        """The value last applied."""
        return self.owned.records.get(pair[0], NO_RECORD).applied[COLUMN_OF[pair[1]]]

    def of(self, pair: Pair, document: str, *, tenanted: bool) -> KeyReading:
        """What the pass means for a pair of a document.

        Args:
            pair: The pair.
            document: Who asks.
            tenanted: Whether other namespaces' documents must not be named.
        """
        live = self.live(pair)
        rival = self.settled.losses.get(document, {}).get(pair)
        if rival is not None:
            message = f"{_named(rival, document, tenanted=tenanted)} has it"
            return KeyReading(reason=Reason.CONFLICT, cause="Conflict", message=message, live=live)
        withheld, finding = self._withheld.get(pair), self._findings.get(pair)
        if withheld is not None:
            return _withheld_reading(withheld, live)
        if pair in self._waiting:
            return self._drifting(pair, live)
        if pair in self._changes:
            return self._changed(self._changes[pair], live)
        return self._quiet(pair, live) if finding is None else self._found(finding, live)

    # ---- changes -----------------------------------------------------------------------------

    def _changed(self, change: Change, live: float | None) -> KeyReading:
        outcome = self._outcomes.get((change.entity, change.key))
        if outcome is None or outcome.result is None:
            return self._not_sent(change, live)
        return self._sent(outcome, live)

    def _sent(self, outcome: PairOutcome, live: float | None) -> KeyReading:
        cause = outcome.change.cause
        drifts = cause is Cause.DRIFT

        def reading(reason: Reason, message: str, result: str) -> KeyReading:
            return KeyReading(
                reason=reason,
                cause=cause.value,
                message=message,
                result=result,
                live=live,
                drifts=drifts,
            )

        match outcome.result, outcome.seen:
            case Applied() | Unknown(), Seen.VISIBLE:
                return self._done(outcome, live)
            case Rejected(code=code, message=words, name=name), _:
                reason = (
                    Reason.AUTHORIZATION_FAILED if code in _NO_RIGHT else Reason.BROKER_REJECTED
                )
                return reading(reason, escaped(words or name), "Rejected")
            case Held(), _:
                return reading(
                    Reason.HELD, "waits for other limits that have to be in force first", "Held"
                )
            case Applied(), Seen.CHANGED:
                message = (
                    f"written, and changed by somebody else right afterwards to {number(live)}"
                )
                return KeyReading(
                    reason=Reason.DRIFTED,
                    cause=Cause.DRIFT.value,
                    message=message,
                    result="Applied",
                    live=live,
                    drifts=True,
                )
            case Applied(), _:
                return reading(
                    Reason.VERIFY_TIMEOUT,
                    "acknowledged, not yet visible on every live broker",
                    "Applied",
                )
            case _:
                return reading(
                    Reason.OUTCOME_UNKNOWN,
                    "the broker's answer got lost; the write may still land",
                    "Unknown",
                )

    def _done(self, outcome: PairOutcome, live: float | None) -> KeyReading:
        overriding = outcome.change.cause is Cause.OVERRIDE
        return KeyReading(
            reason=Reason.OVERRIDE_ACTIVE if overriding else Reason.SYNCED,
            cause=Cause.OVERRIDE.value if overriding else Cause.IN_SYNC.value,
            message=_OVERRIDDEN if overriding else "",
            result="Applied",
            live=live,
        )

    def _not_sent(self, change: Change, live: float | None) -> KeyReading:
        reason = Reason.PENDING if self.trouble is None else self.trouble.reason
        return KeyReading(
            reason=reason,
            cause=change.cause.value,
            message="not written yet",
            live=live,
            drifts=change.cause is Cause.DRIFT,
        )

    # ---- findings ----------------------------------------------------------------------------

    def _found(self, one: Finding, live: float | None) -> KeyReading:
        pair = one.entity, one.key
        if one.action in {Action.RECORD, Action.ORPHAN}:
            return KeyReading(reason=Reason.SYNCED, live=live)
        if one.ignored:
            return KeyReading(
                reason=Reason.SYNCED, cause=one.cause.value, message=one.note, live=live
            )
        if one.cause is Cause.DRIFT:
            return self._drifting(pair, live)
        reason, message = self._left_alone(one)
        return KeyReading(reason=reason, cause=one.cause.value, message=message, live=live)

    def _left_alone(self, one: Finding) -> tuple[Reason, str]:
        """What is reported and not written, but for drift."""
        agrees = one.cause in {Cause.ADOPT, Cause.CONVERGED}
        unsettled = agrees or (one.entity, one.key) in self.owned.intents
        removal = one.cause in {Cause.PRUNE, Cause.GONE}
        cases: tuple[tuple[bool, Reason, str], ...] = (
            (one.cause is Cause.OVERRIDE and one.action is Action.NOTHING, Reason.OVERRIDE_ACTIVE, _OVERRIDDEN),
            (one.cause is Cause.FROZEN, Reason.CONFLICT, "another document has it that is suspended or cannot be used"),
            (one.cause is Cause.CHANGED_BY_ANOTHER, Reason.POLICY_RESTRICTED,
             "no longer declared, but somebody else changed it since, so it is not removed"),
            (self.observes and agrees, Reason.SYNCED, "as declared; nothing is recorded under Observe"),
            (self.observes, Reason.OBSERVE_ONLY, _difference(one)),
            (unsettled, Reason.OUTCOME_UNKNOWN, "an earlier write may still land"),
            (removal and not self._is_complete, Reason.HELD, "not every document was read, so nothing is removed"),
        )  # fmt: skip
        found = ((reason, words) for holds, reason, words in cases if holds)
        return next(found, (Reason.POLICY_RESTRICTED, _difference(one)))

    @property
    def _is_complete(self) -> bool:
        preview = self.report.preview
        return preview is not None and preview.plan.complete

    def _drifting(self, pair: Pair, live: float | None) -> KeyReading:
        seen = self.sightings.get(pair)
        message = f"{number(self.applied(pair))} was applied, {_found_text(live)} is live"
        if seen is not None and seen.fought:
            message += f"; {_fight(seen)}"
        return KeyReading(
            reason=Reason.FOUGHT_OVER if seen is not None and seen.fought else Reason.DRIFTED,
            cause=Cause.DRIFT.value,
            message=message,
            live=live,
            drifts=True,
        )

    def _quiet(self, pair: Pair, live: float | None) -> KeyReading:
        """Nothing was said of it: in sync, or drift that nobody wants to hear of, or that does not count yet."""
        applied, preview = self.applied(pair), self.report.preview
        twins = () if preview is None else preview.plan.shadowing_twins
        shadowed = [twin.shadow_message for twin in twins if twin.entity == pair[0]]
        if shadowed:
            return KeyReading(
                reason=Reason.TWIN_SPELLING,
                cause=Cause.IN_SYNC.value,
                message=escaped("; ".join(shadowed)),
                live=live,
            )
        if applied is None or same_value(pair[1], applied, live):
            return KeyReading(reason=Reason.SYNCED, live=live)
        disabled = preview is not None and preview.drift_mode is DriftMode.DISABLED
        message = "changed by somebody else; driftDetection is Disabled" if disabled else ""
        return KeyReading(reason=Reason.SYNCED, cause=Cause.DRIFT.value, message=message, live=live)


_OVERRIDDEN: Final = "an override is in force"


def _filed(found: Iterable[_T]) -> dict[Pair, _T]:
    return {(one.entity, one.key): one for one in found}


def _withheld_reading(one: Withheld, live: float | None) -> KeyReading:
    guards = {violation.guard for violation in one.violations}
    if Guard.TWIN_SPELLING in guards:
        reason = Reason.TWIN_SPELLING
    elif one.change.cause is Cause.TAKEOVER:
        reason = Reason.TAKEOVER_PENDING
    else:
        reason = Reason.GUARD_REFUSED
    said = dict.fromkeys(
        f"{violation.message} (allowed with {violation.allow_with})" for violation in one.violations
    )
    return KeyReading(
        reason=reason,
        cause=one.change.cause.value,
        message=escaped("; ".join(said)),
        live=live,
        drifts=one.change.cause is Cause.DRIFT,
    )


def violation_text(violation: Violation) -> str:
    """What a guard says, and the field of the QuotaCluster that allows it; flags of the command line help nobody here."""
    field = violation.allow_with.partition(" or ")[0]
    allowed = f" (allowed with spec.{field})" if field.startswith("guards.") else ""
    return violation.message + allowed


def _named(rival: str, document: str, *, tenanted: bool) -> str:
    """The document that won, as far as the loser's author may know it."""
    if tenanted and rival.partition("/")[0] != document.partition("/")[0]:
        return "another document"
    return f"ClientQuota {rival}"


def _fight(seen: Sighting) -> str:
    """When we wrote the value back, and over what each time."""
    times = ", ".join(
        f"{time_text(at)} over {_found_text(value)}"
        for at, value in zip(seen.corrected_at, seen.overwritten, strict=True)
    )
    told = f" ({times})" if times else ""
    return f"it was written back {seen.corrections} times{told} and changed again each time"


def _found_text(live: float | None) -> str:
    return "nothing" if live is None else number(live)


def _difference(one: Finding) -> str:
    wanted = "no value" if one.desired is None else number(one.desired)
    return f"{wanted} is declared, {_found_text(one.live)} is live"


def key_text(key: Key, message: str) -> str:
    """One key's part of a message about a whole document."""
    return f"{key}: {message}" if message else str(key)
