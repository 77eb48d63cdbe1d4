"""An independent implementation of the rules of a plan: each quota key, from documents, records and one describe.

It shares no code with the planner, and goes through one quota key after the other. Docs: ``docs/semantics.md``.
"""

from collections import defaultdict
from collections.abc import Collection
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from reconciler.quota.entity import ABSENT, DEFAULT, Entity
from reconciler.quota.keys import COLUMN_OF, COLUMNS, Key
from reconciler.quota.overrides import Override
from reconciler.quota.ownership import Intent, OwnershipRecords, Pair
from reconciler.quota.planner.desired_state import Declaration
from reconciler.quota.planner.plan import Plan
from reconciler.quota.policy import DeletionPolicy, DriftMode, Policy, Rules
from reconciler.quota.state import QuotaState
from tests.policies import CHANGING, CREATING, REMOVING, SWEEPING

SETTLING = 65.0
WHOLE_KEYS = frozenset(
    {Key.PRODUCER_BYTE_RATE, Key.CONSUMER_BYTE_RATE, Key.CONNECTION_CREATION_RATE}
)
WRITTEN_UNDER = {
    "Create": CREATING,
    "Ended": CREATING,
    "Takeover": CHANGING,
    "Spec": CHANGING,
    "SpecOverDrift": CHANGING,
}
"""Cause -> the policies that write."""


def whole(key: Key, value: float | None) -> float | None:
    """Return the value that Kafka enforces: whole keys are rounded within 1e-6."""
    if value is None or key not in WHOLE_KEYS or abs(value - round(value)) > 1e-6:
        return value
    return float(round(value))


UNDECLARED = {
    (False, False): "",
    (True, False): "Gone",
    (False, True): "Unmanaged",
    (True, True): "Prune",
}
"""Whether it is recorded and live -> row of a quota key that no document declares."""

DECLARED = {
    (True, True, True): "InSync",
    (False, True, False): "Converged",
    (True, False, False): "Drift",
    (False, False, True): "Spec",
    (False, False, False): "SpecOverDrift",
}
"""Whether D = L, D = V, L = V -> row of a declared and recorded quota key."""

SEND_LEVELS = {
    form: number
    for number, form in enumerate(
        ("nnx", "ndx", "nxx", "dnx", "ddx", "dxx", "xnx", "xdx", "xxn", "xxd"), start=1
    )
}
"""Named, default and absent user, client-id, ip -> level, closest first."""


class Decision(NamedTuple):
    """What a plan does with a quota key: cause, action, the value after a write, whether a rule ignores it."""

    cause: str
    action: str
    after: float | None = None
    is_ignored: bool = False


class OwnedValue(NamedTuple):
    """A record: the value, its document, its deletionPolicy, whether it is an orphan."""

    value: float
    document: str
    deletion_policy: DeletionPolicy | None
    is_orphan: bool


class PlanInputs(Struct, frozen=True, kw_only=True, gc=False):
    """What a plan is computed from.

    Attributes:
        documents: All documents that were read.
        owned: The records, with the overrides that begin and end with this plan.
        live: The quotas of one describe.
        rules: The rules.
        at: Time of the describe in seconds since the epoch.
        only: Quota keys that may be written; ``None`` = all.
    """

    documents: Collection[Declaration]
    owned: OwnershipRecords
    live: QuotaState
    rules: Rules
    at: float
    only: frozenset[Pair] | None = None

    @property
    def policy(self) -> Policy:
        """The effective policy."""
        is_unconfirmed = self.rules.policy is Policy.SYNC and not self.rules.sync_confirmed
        return Policy.UPSERT if is_unconfirmed else self.rules.policy

    def pairs(self) -> set[Pair]:
        """Return every quota key that occurs in one of the inputs."""
        rows = [(document.entity, document.limits) for document in self.documents]
        rows += self.live.limits.items()
        rows += [(entity, record.applied) for entity, record in self.owned.records.items()]
        return {
            (entity, key)
            for entity, limits in rows
            for key, value in zip(COLUMNS, limits, strict=True)
            if value is not None
        }.union(self.owned.intents, self.owned.overrides)


class _DocumentIndex:
    """The documents of a plan: their names, the suspended ones, and those that declare each quota key."""

    def __init__(self, documents: Collection[Declaration]) -> None:
        self.names = {document.document for document in documents}
        self.entities = {(document.document, document.entity) for document in documents}
        self.suspended = {document.document for document in documents if document.suspended}
        self.claims: dict[Pair, list[Declaration]] = defaultdict(list)
        for document in documents:
            for key, value in zip(COLUMNS, document.limits, strict=True):
                if value is not None:
                    self.claims[document.entity, key].append(document)


class PairDecision:
    """The decision about one quota key, and its record afterwards.

    Args:
        inputs: The inputs.
        documents: Its documents.
        pair: The quota key.

    Attributes:
        decision: What the plan does; ``None`` = it does not mention the quota key.
        settled: The record after the describe has settled its intent.
        record: The record after the plan's record changes.
        has_override: Whether its override is still recorded.
        settled_above: The value that its override wrote last, after the describe has settled its intent.
        written_above: The same after the plan's record changes.
    """

    def __init__(self, inputs: PlanInputs, documents: _DocumentIndex, pair: Pair) -> None:
        self.inputs, self.documents, self.pair = inputs, documents, pair
        entity, key = pair
        column = COLUMN_OF[key]
        stored = stored_value(inputs.owned, pair)
        record = inputs.owned.records.get(entity)
        self.live = inputs.live.limits[entity][column] if entity in inputs.live.limits else None
        self.applied = None if stored is None else stored.value
        self.owner = None if record is None else record.owners[column]
        self.is_orphan = pair in inputs.owned.orphaned
        self.pending: Intent | None = None
        intent = inputs.owned.intents.get(pair)
        override = inputs.owned.overrides.get(pair)
        self.settled_above = None if override is None else override.applied
        if override is not None and intent is not None and self.same(intent.value, self.live):
            self.settled_above = intent.value
        elif intent is not None and self.same(intent.value, self.live):
            if intent.value is None or intent.owner.document:
                self.applied = intent.value
                self.owner = None if intent.value is None else intent.owner
            self.is_orphan = self.is_orphan and intent.value is not None
        elif intent is not None and intent.at + SETTLING > inputs.at:
            # A time in the future is that of a clock which ran ahead.
            self.pending = replace(intent, at=min(intent.at, inputs.at))
            self.owner = self.owner or (intent.owner if intent.owner.document else None)
        self.settled: OwnedValue | None = None
        if self.applied is not None and self.owner is not None:
            owner = self.owner.document, self.owner.deletion_policy
            self.settled = OwnedValue(self.applied, *owner, self.is_orphan)
        self.record = self.settled
        claims = documents.claims.get(pair, [])
        active = [document for document in claims if not document.suspended]
        self.is_halted = len(active) < len(claims)
        self.is_contested = len(active) > 1
        self.claim = active[0] if len(active) == 1 else None
        self.declared = None if self.claim is None else self.claim.limits[column]
        self.cause = self._cause()
        self.decision: Decision | None = None
        self.written_above = self.settled_above
        self.has_override = override is not None
        self._decide(override)
        if inputs.policy not in CREATING:
            self.record, self.has_override = stored, override is not None

    def same(self, first: float | None, second: float | None) -> bool:
        """Whether two values are one limit."""
        return whole(self.pair[1], first) == whole(self.pair[1], second)

    def _cause(self) -> str:
        """Return the row of the three-way table; "" = nothing is known of the quota key."""
        declared, applied, live = self.declared, self.applied, self.live
        if declared is None:
            is_recorded = applied is not None or (live is None and self.pending is not None)
            cause = UNDECLARED[is_recorded, live is not None]
            is_changed = cause == "Prune" and not self.same(live, applied)
            return "ChangedByAnother" if is_changed else cause
        if applied is None:
            present = "Adopt" if self.same(declared, live) else "Takeover"
            return "Create" if live is None else present
        return DECLARED[
            self.same(declared, applied), self.same(declared, live), self.same(applied, live)
        ]

    def _decide(self, override: Override | None) -> None:
        is_owner_frozen = self.owner is not None and self.owner.document in self.documents.suspended
        is_frozen = is_owner_frozen or (self.is_halted and self._is_unclaimed())
        if override is not None:
            self._decide_override(override, None if is_frozen else self.declared)
        elif is_frozen or (self.is_contested and self.cause):
            self.decision = Decision("Frozen", "report")
        elif self.cause:
            self._act(self.cause, self.declared)

    def _is_unclaimed(self) -> bool:
        """Whether no active document declares it, and no other write than that of a document was recorded."""
        name = "" if self.owner is None else self.owner.document
        return self.declared is None and (self.applied is None or name != "")

    def _decide_override(self, override: Override, declared: float | None) -> None:
        if declared is None:
            self.claim = None
        is_listed = self._is_listed() or (
            self.owner is not None and self.owner.document in self.documents.names
        )
        is_known = declared is not None or (is_listed and self.inputs.rules.complete)
        is_changed = (
            override.ends_with_document and is_known and not self.same(override.declared, declared)
        )
        if self.inputs.at < override.until and not is_changed:
            self._override(override)
        else:
            self._end_override(override, declared)

    def _action(self, cause: str) -> str:
        """Return what the rules permit; outside of the scope nothing is written."""
        action = self._permitted(cause)
        is_outside = not self.inputs.rules.in_scope(self.pair[0])
        return "report" if action == "write" and is_outside and cause != "Ended" else action

    def _permitted(self, cause: str) -> str:
        policy, rules = self.inputs.policy, self.inputs.rules
        if cause in WRITTEN_UNDER:
            return "write" if policy in WRITTEN_UNDER[cause] else "report"
        if cause == "Drift" and rules.drift is DriftMode.DISABLED:
            return "nothing"
        if cause == "Prune" or (cause == "ChangedByAnother" and rules.force):
            removal = self._removal()
            stays_orphan = cause == "Prune" and self.is_orphan and removal == "orphan"
            return removal if rules.complete or stays_orphan else "report"
        is_over = cause == "Gone" and rules.complete and not self._is_unread()
        is_recorded = cause in {"Adopt", "Converged"} or is_over
        if is_recorded and policy in CREATING:
            return "record"
        is_correction = cause == "Drift" and rules.drift is DriftMode.CORRECT and policy in CHANGING
        return "write" if is_correction else "report"

    def _is_listed(self) -> bool:
        """Whether a document that was not read does not exist."""
        return self.inputs.rules.configured

    def _is_present(self, name: str) -> bool:
        """Whether the document was read; among files that were given, another document may have its name."""
        of_entity = (name, self.pair[0]) in self.documents.entities
        return of_entity or (self._is_listed() and name in self.documents.names)

    def _is_unread(self) -> bool:
        """Whether it has a document of which the files that were given say nothing."""
        name = "" if self.owner is None else self.owner.document
        is_known = self._is_listed() or self.is_orphan or self._is_present(name)
        return bool(name) and not is_known

    def _removal(self) -> str:
        """Return what becomes of a recorded value that no document declares."""
        policy, owner = self.inputs.policy, self.owner
        if owner is None or not owner.document:
            return "orphan"
        if self._is_unread():
            return "report"
        if not self.inputs.rules.in_scope(self.pair[0]):
            return "orphan"
        if self._is_present(owner.document) and not self.is_orphan:
            return "write" if policy in REMOVING else "report"
        if owner.deletion_policy is DeletionPolicy.DELETE and not self.is_orphan:
            return "write" if policy in REMOVING else "report"
        return "write" if owner.deletion_policy is None and policy in SWEEPING else "orphan"

    def _act(self, cause: str, after: float | None) -> None:
        if cause == "InSync":
            assert self.claim is not None
            owner = (self.claim.document, self.claim.deletion_policy)
            recorded = self.record[1:3] if self.record is not None else None
            if (self.is_orphan or recorded != owner) and self.pending is None:
                self._set_record(self.declared)
            return
        action = self._action(cause)
        is_ignored = any(
            rule.entities.matches(self.pair[0])
            and (not rule.keys or self.pair[1] in rule.keys)
            and (rule.until is None or self.inputs.at < rule.until)
            for rule in self.inputs.rules.ignore
        )
        if is_ignored and action in {"write", "report"}:
            self.decision = Decision(cause, "report", is_ignored=True)
        elif action == "write":
            self.decision = Decision(cause, "write", after)
        elif action == "record" and self.pending is not None:
            self.decision = Decision(cause, "report")
        elif action != "nothing":
            self.decision = Decision(cause, action)
            if action == "record":
                self._set_record(self.declared)
            elif action == "orphan" and self.record is not None:
                self.record = self.record._replace(is_orphan=True)

    def _set_record(self, value: float | None) -> None:
        owner = self.claim or self.owner
        name = owner.document if owner is not None else ""
        policy = owner.deletion_policy if owner is not None else None
        self.record = None if value is None else OwnedValue(value, name, policy, is_orphan=False)

    def _override(self, override: Override) -> None:
        value = override.value
        policy_of = "Create" if self.live is None else "Takeover"
        if self.same(value, self.live):
            self.decision = Decision("Override", "nothing")
            if self.pending is None:
                self.written_above = value
        elif self.same(value, self.settled_above):
            self._act("Drift", value)
        elif self._action(policy_of) == "write":
            self.decision = Decision("Override", "write", value)
        else:
            self.decision = Decision("Override", "report")

    def _end_override(self, override: Override, declared: float | None) -> None:
        is_own = any(self.same(self.live, value) for value in (override.value, self.settled_above))
        after = override.before if is_own else self.live
        if declared is not None:
            after = declared
        if not self.same(after, self.live):
            action = self._action("Ended")
            self.decision = Decision("Ended", action, after if action == "write" else None)
            return
        self.has_override = self.pending is not None
        if declared is not None:
            is_recorded = self.applied is not None
            cause = "Converged" if is_recorded else "Adopt"
            self._act("InSync" if self.same(self.applied, self.live) else cause, declared)


def stored_value(owned: OwnershipRecords, pair: Pair) -> OwnedValue | None:
    """Return the record of a quota key."""
    record, column = owned.records.get(pair[0]), COLUMN_OF[pair[1]]
    if record is None or (owner := record.owners[column]) is None:
        return None
    value = record.applied[column]
    assert value is not None
    return OwnedValue(value, owner.document, owner.deletion_policy, pair in owned.orphaned)


class PlanModel:
    """The decisions about all quota keys of a plan.

    Args:
        inputs: The inputs.
    """

    def __init__(self, inputs: PlanInputs) -> None:
        self.inputs = inputs
        documents = _DocumentIndex(inputs.documents)
        self.decisions = {pair: PairDecision(inputs, documents, pair) for pair in inputs.pairs()}

    @property
    def owned_pairs(self) -> int:
        """Number of owned quota keys before the plan."""
        return sum(stored_value(self.inputs.owned, pair) is not None for pair in self.decisions)

    def contradiction(self, plan: Plan) -> str:
        """Return the first quota key for which the plan differs from this reading of the rules; "" = none."""
        inputs = self.inputs
        planned: dict[Pair, Decision] = {
            finding.pair: Decision(
                str(finding.cause), str(finding.action), is_ignored=finding.ignored
            )
            for finding in plan.findings
        }
        for change in plan.changes:
            planned[change.pair] = Decision(str(change.cause), "write", change.after)
        owned = inputs.owned.with_changes(plan.bookkeeping)
        if inputs.policy not in CREATING and plan.bookkeeping:
            return f"records change under Observe: {plan.bookkeeping[0]}"
        for pair, expected in self.decisions.items():
            is_open = inputs.only is None or pair in inputs.only
            decision = expected.decision
            if decision is not None and decision.action == "write" and not is_open:
                decision = None
            actual = planned.pop(pair, None)
            if actual != decision:
                return f"{pair[0]} {pair[1]}: planned {actual}, the rules say {decision}"
            problem = self._record_problem(pair, expected, owned, is_open=is_open)
            if problem:
                return f"{pair[0]} {pair[1]}: {problem}"
        if planned:
            return f"planned without a reason: {planned}"
        levels = [SEND_LEVELS[_form(change.entity)] for change in plan.changes]
        return "" if levels == sorted(levels) else f"changes of the levels {levels}, not sorted"

    def _record_problem(
        self, pair: Pair, expected: PairDecision, owned: OwnershipRecords, *, is_open: bool
    ) -> str:
        """Return how the records after a plan differ from this reading of the rules; "" = not at all."""
        record = expected.record if is_open else expected.settled
        recorded = stored_value(owned, pair), owned.intents.get(pair)
        if self.inputs.policy in CREATING and recorded != (record, expected.pending):
            return f"records {recorded}, the rules say {record}, {expected.pending}"
        override = owned.overrides.get(pair)
        if is_open and (override is not None) != expected.has_override:
            return "its override is recorded against the rules"
        above = expected.written_above if is_open else expected.settled_above
        if (
            self.inputs.policy in CREATING
            and override
            and not expected.same(override.applied, above)
        ):
            return f"above {override.applied}, the rules say {above}"
        return ""


def _form(entity: Entity) -> str:
    return "".join("x" if slot is ABSENT else "d" if slot is DEFAULT else "n" for slot in entity)
