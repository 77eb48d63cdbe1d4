"""Results of a run: a preview before sending, an outcome afterwards, a reconciliation of a loop. Values only."""

from collections import Counter
from collections.abc import Collection, Mapping
from enum import StrEnum
from functools import cached_property
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.base.redaction import QuietRepr
from reconciler.errors import KquotaError
from reconciler.quota.drift_tracker import DriftObservation
from reconciler.quota.entity import Entity
from reconciler.quota.overrides import Override
from reconciler.quota.ownership import OverrideEnded, Owner, OwnershipRecords, Pair
from reconciler.quota.planner.budgets import BudgetUse, budget_warnings
from reconciler.quota.planner.effects import Fallback
from reconciler.quota.planner.guards import Guard, Violation, budget_violations
from reconciler.quota.planner.impact import Impact
from reconciler.quota.planner.plan import Plan, QuotaChange
from reconciler.quota.policy import Cause, DriftMode, Policy
from reconciler.quota.results.effect_digest import effect_digest
from reconciler.quota.rule_warnings import RuleWarning
from reconciler.quota.state import Applied, Held, QuotaState, Rejected, Result, Unknown, Visibility

_NAMES: Final = {"author": "who", "tool_version": "toolVersion"}
"""Fields that documents name otherwise."""


class RunOrigin(
    Struct, frozen=True, kw_only=True, gc=False, rename=_NAMES, forbid_unknown_fields=True
):
    """Author and source of a plan or run. For display only."""

    author: str = ""  # a person or a pipeline
    command: str = ""  # `apply`, `override` or `rollback`; "" = a plan, or a run of a loop
    commit: str = ""  # commit of the manifests, "" outside a repository
    # Name of the cluster in the project or in Kubernetes, "" if only its address is known.
    cluster: str = ""
    tool_version: str = ""  # version of kquota


class ValidationResult(Struct, frozen=True, kw_only=True, gc=False):
    """The answer to a validation of all changes by a broker or its simulated rules, without changing anything."""

    source: str  # `broker`, `sandbox 4.x` or `none`
    # Entities that would be refused, with the error.
    rejections: Mapping[Entity, Rejected] = field(default_factory=dict[Entity, Rejected])
    reason: str = ""  # why the broker did not validate, or ""


class Preview(QuietRepr, Struct, frozen=True, kw_only=True, dict=True):
    """A plan with its checks, impact and warnings for a reviewer."""

    plan: Plan
    # Live limits that clients of removals fall back to, sorted.
    fallbacks: tuple[Fallback, ...] = ()
    violations: tuple[Violation, ...] = ()  # violations of guards
    budgets: tuple[BudgetUse, ...] = ()  # the use of each budget before and after the plan
    verdict: ValidationResult = ValidationResult(source="none")  # the broker's validation
    # The effect on clients; None if there is no live state to compare with.
    impact: Impact | None = None
    warnings: tuple[str, ...] = ()  # sentences about the run as a whole
    # Warnings about rules, with their places; accepted ones included.
    advice: tuple[RuleWarning, ...] = ()
    # Documents that the proposal changes, as `namespace/name`; None = not compared.
    changed_documents: frozenset[str] | None = None
    # Paths and options that were typed and decide which plan it is; a saved plan is recomputed with them.
    selection: tuple[str, ...] = ()
    policy: Policy  # the effective policy
    drift_mode: DriftMode  # how drift is treated
    created_at: float  # when the cluster was described, in seconds since the epoch
    # Time of the snapshot that replaces the cluster; None = the cluster was described.
    snapshot_at: float | None = None
    origin: RunOrigin = RunOrigin()  # author and source

    @cached_property
    def digest(self) -> str:
        """The digest of what a reviewer approves."""
        return effect_digest(self.plan.cluster_id, self.plan.reviewed, self.fallbacks)

    @property
    def errored(self) -> bool:
        """Whether the plan has a conflict or the broker would refuse a change."""
        return bool(self.plan.conflicts or self.verdict.rejections)

    @property
    def is_quiet(self) -> bool:
        """Whether there is nothing to report: no change, no drift, no refusal, no warning."""
        return not (
            self.plan.changes
            or self.plan.pending
            or self.plan.drift
            or self.violations
            or self.warnings
            or self.errored
        )

    @property
    def open_advice(self) -> tuple[RuleWarning, ...]:
        """Warnings about rules that neither their document nor the project accepts."""
        return tuple(warning for warning in self.advice if not warning.accepted)

    @cached_property
    def touched_documents(self) -> frozenset[str]:
        """Documents that the proposal changes; if not compared, the documents of the plan's changes."""
        if self.changed_documents is not None:
            return self.changed_documents
        claims = (change.claim for change in self.plan.changes)
        return frozenset(claim.document for claim in claims if claim is not None)

    def with_budgets(self, uses: tuple[BudgetUse, ...]) -> "Preview":
        """Return it with budgets that are compared with other figures, such as recorded use."""
        replaced = set(budget_warnings(self.budgets))
        violations = (item for item in self.violations if item.guard is not Guard.BUDGET)
        warnings = (warning for warning in self.warnings if warning not in replaced)
        return replace(
            self,
            budgets=uses,
            violations=(*violations, *budget_violations(uses)),
            warnings=(*warnings, *budget_warnings(uses)),
        )

    @property
    def applyable(self) -> bool:
        """Whether ``apply`` would send changes and no guard or conflict forbids it."""
        return bool(self.plan.changes) and not self.violations and not self.plan.conflicts


class PairVisibility(StrEnum):
    """What the last describe showed of a pair. *Visible* does not mean *enforced*."""

    VISIBLE = "visible"
    NOT_YET = "not yet visible"
    CHANGED = "changed by another meanwhile"
    UNCHECKED = "not looked at"


_WORDS: Final[Mapping[type, str]] = {
    type(None): "NOT SENT",
    Applied: "APPLIED",
    Rejected: "REJECTED",
    Held: "HELD",
    Unknown: "UNKNOWN",
}


class PairOutcome(Struct, frozen=True, kw_only=True, gc=False):
    """The outcome of one change."""

    change: QuotaChange
    result: Result | None  # result of the operation; None = not sent
    visibility: PairVisibility = PairVisibility.UNCHECKED  # what the last describe showed
    observed_value: float | None = None  # the live value in that describe

    @property
    def status_text(self) -> str:
        """``APPLIED``, ``REJECTED``, ``HELD``, ``UNKNOWN`` or ``NOT SENT``."""
        return _WORDS[type(self.result)]

    @property
    def is_done(self) -> bool:
        """Whether it was applied and is visible."""
        return isinstance(self.result, Applied) and self.visibility is PairVisibility.VISIBLE


class Outcome(QuietRepr, Struct, frozen=True, kw_only=True, dict=True):
    """The outcome of a plan."""

    cluster_id: str
    digest: str  # digest of the plan
    pairs: tuple[PairOutcome, ...] = ()  # one per change, in plan order
    # What the brokers showed; None if nothing had to be verified.
    visibility: Visibility | None = None
    bookkeeping: int = 0  # number of records that changed without a write to the cluster
    adopted: int = 0  # number of those that adopt a live value equal to the declared one
    recorded: bool = True  # whether the inventory contains all of this
    interrupted: bool = False  # whether a stop was requested
    failure: str = ""  # why sending, verifying or recording failed, or ""
    started_at: float = 0.0  # seconds since the epoch
    ended_at: float = 0.0  # seconds since the epoch
    origin: RunOrigin = RunOrigin()  # author and source

    @property
    def complete(self) -> bool:
        """Whether every change was applied, is visible and was recorded."""
        return not self.troubled and self.recorded and not self.interrupted and not self.failure

    @cached_property
    def troubled(self) -> tuple[PairOutcome, ...]:
        """The changes that were not applied or are not visible, in plan order."""
        return tuple(pair for pair in self.pairs if not pair.is_done)

    @property
    def is_applied(self) -> bool:
        """Whether the cluster acknowledged every change, although some may not be visible yet."""
        return self.count("APPLIED") == len(self.pairs)

    def count(self, word: str) -> int:
        """Return the number of changes with this ``status_text``."""
        return self._counts[word]

    @cached_property
    def _counts(self) -> Counter[str]:
        return Counter(pair.status_text for pair in self.pairs)


class WithheldChange(Struct, frozen=True, kw_only=True, gc=False):
    """One change that a guard did not let a loop send."""

    change: QuotaChange
    violations: tuple[Violation, ...]  # the violations of guards; never empty


class ExpiredOverride(Struct, frozen=True, kw_only=True, gc=False):
    """One override that has ended and whose value is still live."""

    override: Override  # the recorded override
    expected: float | None  # the value that should be live now; None = not set
    live: float | None  # the live value; None = not set
    document: str  # `namespace/name` of the owner of the pair; "" = no document

    @property
    def pair(self) -> Pair:
        """Entity and key."""
        return self.override.entity, self.override.key


def expired_overrides(
    plan: Plan, owned: OwnershipRecords, *, now: float, reverted: Collection[Pair] = ()
) -> tuple[ExpiredOverride, ...]:
    """Return the expired overrides that a plan reports or reverts, in plan order; without ignored pairs.

    A rollback that ends early has not expired: its document changed, which is for an apply.

    Args:
        plan: The comparison of one observation.
        owned: The records that the plan was computed from.
        now: Seconds since the epoch.
        reverted: Pairs that were written since.
    """
    ended, overrides = Cause.ENDED, owned.overrides
    rows: list[tuple[Pair, float | None, float | None, Owner | None]] = []
    for finding in plan.findings_for(ended):
        pair = finding.pair
        expected = overrides[pair].before if finding.desired is None else finding.desired
        if not finding.ignored:
            rows.append((pair, expected, finding.live, finding.owner))
    for change in plan.changes:
        pair = change.pair
        if change.cause is ended and pair not in reverted:
            rows.append((pair, change.after, change.before, change.owner))
    return tuple(
        ExpiredOverride(
            override=overrides[pair],
            expected=expected,
            live=live,
            document="" if owner is None else owner.document,
        )
        for pair, expected, live, owner in rows
        if overrides[pair].until <= now
    )


class Reconciliation(QuietRepr, Struct, frozen=True, kw_only=True):
    """One reconciliation of a loop over one cluster: what it observed, sent and withheld, and why.

    Statuses, metrics, events and messages are derived from it.
    """

    cluster: str  # name of the QuotaCluster
    # The plan with its checks; None if the reconciliation failed before.
    preview: Preview | None = None
    # Outcome of the sent changes; None if there were none to send.
    outcome: Outcome | None = None
    # Changes that guards withheld, in plan order.
    withheld: tuple[WithheldChange, ...] = ()
    # Drift that is not corrected: not confirmed yet, or corrected too often.
    waiting: tuple[QuotaChange, ...] = ()
    # Drifted pairs with their history; maintained by the caller that runs the loop.
    observations: tuple[DriftObservation, ...] = ()
    # Overrides that have ended and whose value is still live after the reconciliation.
    expired_overrides: tuple[ExpiredOverride, ...] = ()
    # The quotas in its last describe; None if the cluster was not described.
    live: QuotaState | None = None
    # When drift was first seen, per pair, from the records before this reconciliation.
    drift_since: Mapping[Pair, float] = field(default_factory=dict[Pair, float])
    error: KquotaError | None = None  # why the reconciliation failed
    started_at: float = 0.0  # seconds since the epoch
    ended_at: float = 0.0  # seconds since the epoch

    @property
    def has_restored_owned(self) -> bool:
        """Whether an override ended and its record is in charge again: the next one may have to remove the limit."""
        pairs = () if self.outcome is None else self.outcome.pairs
        records = () if self.preview is None else self.preview.plan.bookkeeping
        return any(
            pair.change.cause is Cause.ENDED and pair.change.keeps_record and pair.is_done
            for pair in pairs
        ) or any(isinstance(change, OverrideEnded) for change in records)

    @property
    def is_finished(self) -> bool:
        """Whether all was done that guards and the broker permit: a retry would change nothing.

        A refused document does not age the last success: it waits for a person, and its own status says so.
        """
        if self.error is not None or self.preview is None:
            return False
        outcome = self.outcome
        if outcome is None or outcome.complete:
            return True
        refused = [pair for pair in outcome.troubled if isinstance(pair.result, Rejected)]
        waiting = [pair for pair in outcome.troubled if isinstance(pair.result, Held)]
        return (
            bool(refused or self.withheld)
            and len(refused) + len(waiting) == len(outcome.troubled)
            and not any(
                isinstance(p.result, Rejected) and p.result.lacks_permission for p in refused
            )
            and outcome.recorded
            and not outcome.interrupted
            and not outcome.failure
        )

    @property
    def in_order(self) -> bool:
        """Whether everything was compared and nothing is left to do: a successful sync."""
        return (
            self.error is None
            and self.preview is not None
            and not self.withheld
            and (self.outcome is None or self.outcome.complete)
        )
