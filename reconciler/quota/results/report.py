"""What the readers of a run are given: a preview before anything is sent, an outcome afterwards. Values only.

What may be large is left out of ``repr``: asyncio builds the repr of a finished task, result included, when it
restores the handler of Ctrl-C, and 30,000 changes would cost more there than in all the rest of a run.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from reconciler.errors import KquotaError
from reconciler.quota.cluster import Visibility
from reconciler.quota.drift_tracker import DriftObservation
from reconciler.quota.entity import Entity
from reconciler.quota.outcome import Applied, Held, Rejected, Result
from reconciler.quota.ownership import Pair
from reconciler.quota.planner.guards import Violation
from reconciler.quota.planner.impact import Impact
from reconciler.quota.planner.plan import Plan, QuotaChange
from reconciler.quota.planner.preconditions import Preconditions
from reconciler.quota.policy import DriftMode, Policy
from reconciler.quota.results.expired_overrides import ExpiredOverride
from reconciler.quota.rule_warnings import RuleWarning
from reconciler.quota.state import QuotaState


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOrigin:
    """Who made something, and from what. For people; nothing branches on it.

    Attributes:
        author: A person or a pipeline.
        commit: Commit of the manifests, "" outside a repository.
        cluster: Name of the cluster in the project or in Kubernetes, "" where only its address is known.
        tool_version: Version of this program.
    """

    author: str = ""
    commit: str = ""
    cluster: str = ""
    tool_version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationResult:
    """What the broker (or its rules) said about all changes, without changing anything.

    Attributes:
        source: ``broker``, ``sandbox 4.x`` or ``none``.
        rejections: Entities that would be refused, and the words.
        reason: Why it is not the broker's own verdict, or "".
    """

    source: str
    rejections: Mapping[Entity, Rejected] = field(default_factory=dict[Entity, Rejected])
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """A plan with everything that a reviewer needs.

    Attributes:
        plan: What would be done.
        preconditions: What it stands on.
        violations: What guards say against it.
        verdict: What the broker says to it.
        impact: What it means for clients; ``None`` where there is no live state to compare with.
        warnings: Sentences about the run as a whole.
        advice: Doubtful rules, with their places; accepted ones, too.
        changed_documents: Documents that the proposal changes, as ``namespace/name``; ``None`` = not compared.
        policy: The policy in force.
        drift_mode: What is done about drift.
        created_at: When the cluster was looked at, in seconds since the epoch.
        snapshot_at: When the snapshot was taken that stands for the cluster; ``None`` = the cluster was asked.
        origin: Who made it.
    """

    plan: Plan = field(repr=False)
    preconditions: Preconditions = field(repr=False)
    violations: tuple[Violation, ...] = ()
    verdict: ValidationResult
    impact: Impact | None = field(default=None, repr=False)
    warnings: tuple[str, ...] = ()
    advice: tuple[RuleWarning, ...] = ()
    changed_documents: frozenset[str] | None = field(default=None, repr=False)
    policy: Policy
    drift_mode: DriftMode
    created_at: float
    snapshot_at: float | None = None
    origin: RunOrigin = RunOrigin()

    @property
    def errored(self) -> bool:
        """Whether something is wrong with the plan itself: a conflict, or the broker would refuse a change."""
        return bool(self.plan.conflicts or self.verdict.rejections)

    @property
    def is_quiet(self) -> bool:
        """Whether there is nothing to say: no change, no drift, no refusal, no warning."""
        return not (
            self.plan.changes or self.plan.drift or self.violations or self.warnings or self.errored
        )

    @property
    def open_advice(self) -> tuple[RuleWarning, ...]:
        """Doubtful rules that neither their document nor the project accepts."""
        return tuple(warning for warning in self.advice if not warning.accepted)

    @property
    def touched_documents(self) -> frozenset[str]:
        """Documents that the proposal changes; where they were not compared, those that the plan writes for."""
        if self.changed_documents is not None:
            return self.changed_documents
        claims = (change.claim for change in self.plan.changes)
        return frozenset(claim.document for claim in claims if claim is not None)

    @property
    def applyable(self) -> bool:
        """Whether ``apply`` would do something and nothing forbids it."""
        return bool(self.plan.changes) and not self.violations and not self.plan.conflicts


class PairVisibility(StrEnum):
    """What the last look at the cluster showed of a pair. *Visible*, never *enforced*."""

    VISIBLE = "visible"
    NOT_YET = "not yet visible"
    CHANGED = "changed by another meanwhile"
    UNCHECKED = "not looked at"


@dataclass(frozen=True, slots=True, kw_only=True)
class PairOutcome:
    """What became of one change.

    Attributes:
        change: The change.
        result: What became of its entity in that pass; ``None`` = it was not sent.
        visibility: What the last look showed.
        observed_value: The live value at that look.
    """

    change: QuotaChange
    result: Result | None
    visibility: PairVisibility = PairVisibility.UNCHECKED
    observed_value: float | None = None

    @property
    def status_text(self) -> str:
        """``APPLIED``, ``REJECTED``, ``HELD``, ``UNKNOWN`` or ``NOT SENT``."""
        match self.result:
            case None:
                return "NOT SENT"
            case Applied():
                return "APPLIED"
            case Rejected():
                return "REJECTED"
            case Held():
                return "HELD"
            case _:
                return "UNKNOWN"

    @property
    def is_done(self) -> bool:
        """Whether it was applied and seen."""
        return isinstance(self.result, Applied) and self.visibility is PairVisibility.VISIBLE


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a plan.

    Attributes:
        cluster_id: Which cluster.
        digest: Of the plan.
        pairs: One per change, in plan order.
        visibility: What the brokers showed; ``None`` where nothing had to be looked for.
        bookkeeping: How many records changed without a write to the cluster.
        adopted: How many of them adopt a value that is live as declared.
        recorded: Whether the inventory knows all this.
        interrupted: Whether a stop was requested.
        failure: Why sending, looking or recording broke off, or "".
        started_at: Seconds since the epoch.
        ended_at: Seconds since the epoch.
        origin: Who applied it.
    """

    cluster_id: str
    digest: str
    pairs: tuple[PairOutcome, ...] = field(default=(), repr=False)
    visibility: Visibility | None = None
    bookkeeping: int = 0
    adopted: int = 0
    recorded: bool = True
    interrupted: bool = False
    failure: str = ""
    started_at: float = 0.0
    ended_at: float = 0.0
    origin: RunOrigin = RunOrigin()

    @property
    def complete(self) -> bool:
        """Whether every change was applied, seen and recorded."""
        return (
            all(pair.is_done for pair in self.pairs)
            and self.recorded
            and not self.interrupted
            and not self.failure
        )

    def count(self, word: str) -> int:
        """How many changes ended with this word."""
        return sum(pair.status_text == word for pair in self.pairs)


@dataclass(frozen=True, slots=True, kw_only=True)
class WithheldChange:
    """One change that a guard did not let a loop send.

    Attributes:
        change: The change.
        violations: What was said against it; never empty.
    """

    change: QuotaChange
    violations: tuple[Violation, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciliation:
    """One pass of a loop over one cluster: what it saw, what it did, what it left, and why.

    Statuses, metrics, events and messages are readings of it.

    Attributes:
        cluster: Name of the QuotaCluster.
        preview: What was found; ``None`` where the pass failed before there was a plan.
        outcome: What became of what was sent; ``None`` where nothing was to be sent.
        withheld: What guards did not let through, in plan order.
        waiting: Drift that would be corrected but not yet, or no longer: seen too rarely, corrected too often.
        observations: Drifted pairs with their past; kept up by the caller that runs the loop.
        expired_overrides: Overrides that have ended and whose value is still live after the pass.
        live: What the cluster had at the last look of this pass; ``None`` where it was not asked.
        drift_since: When drift was first seen, per pair, as the records had it before this pass.
        error: Why the pass broke off.
        started_at: Seconds since the epoch.
        ended_at: Seconds since the epoch.
    """

    cluster: str
    preview: Preview | None = field(default=None, repr=False)
    outcome: Outcome | None = field(default=None, repr=False)
    withheld: tuple[WithheldChange, ...] = field(default=(), repr=False)
    waiting: tuple[QuotaChange, ...] = field(default=(), repr=False)
    observations: tuple[DriftObservation, ...] = field(default=(), repr=False)
    expired_overrides: tuple[ExpiredOverride, ...] = field(default=(), repr=False)
    live: QuotaState | None = field(default=None, repr=False)
    drift_since: Mapping[Pair, float] = field(default_factory=dict[Pair, float], repr=False)
    error: KquotaError | None = None
    started_at: float = 0.0
    ended_at: float = 0.0

    @property
    def in_order(self) -> bool:
        """Whether everything was compared and nothing is left undone: a successful sync."""
        return (
            self.error is None
            and self.preview is not None
            and not self.withheld
            and (self.outcome is None or self.outcome.complete)
        )
