"""An independent implementation of the rules of a plan: each quota key, from documents, records and one describe.

It shares no code with the planner, and goes through one quota key after the other. Docs: ``docs/semantics.md``.
"""

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import NamedTuple

from reconciler.quota.entity import ABSENT, DEFAULT, Entity
from reconciler.quota.keys import COLUMN_OF, COLUMNS, Key
from reconciler.quota.ownership import Intent, Override, OwnershipRecords, Pair
from reconciler.quota.planner.desired_state import Declaration
from reconciler.quota.planner.plan import Plan
from reconciler.quota.policy import DeletionPolicy, DriftMode, Policy, Rules
from reconciler.quota.state import QuotaState

SETTLING = 65.0
WHOLE_KEYS = frozenset(
    {Key.PRODUCER_BYTE_RATE, Key.CONSUMER_BYTE_RATE, Key.CONNECTION_CREATION_RATE}
)
RANKS = {Policy.OBSERVE: 0, Policy.CREATE_ONLY: 1, Policy.UPSERT: 2, Policy.SYNC: 3}
WRITTEN_FROM = {
    "Create": RANKS[Policy.CREATE_ONLY],
    "Override": RANKS[Policy.CREATE_ONLY],
    "OverrideExpired": RANKS[Policy.CREATE_ONLY],
    "Takeover": RANKS[Policy.UPSERT],
    "Spec": RANKS[Policy.UPSERT],
    "SpecOverDrift": RANKS[Policy.UPSERT],
}
"""Cause -> the strictest policy that writes."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanInputs:
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
    def rank(self) -> int:
        """The effective policy as a number."""
        is_unconfirmed = self.rules.policy is Policy.SYNC and not self.rules.sync_confirmed
        return RANKS[Policy.UPSERT if is_unconfirmed else self.rules.policy]

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
        if intent is not None and self.same(intent.value, self.live):
            self.applied = intent.value
            self.owner = None if intent.value is None else intent.owner
            self.is_orphan = self.is_orphan and intent.value is not None
        elif intent is not None and intent.at + SETTLING > inputs.at:
            # A time in the future is that of a clock which ran ahead.
            self.pending = replace(intent, at=min(intent.at, inputs.at))
            self.owner = self.owner or intent.owner
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
        override = inputs.owned.overrides.get(pair)
        self.has_override = override is not None
        self._decide(override)
        if not inputs.rank:
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
        if override is not None and self.inputs.at < override.until:
            is_rollback_over = override.ends_with_document and override.declared != self.declared
            if not is_rollback_over:
                self._override(override)
                return
        is_owner_frozen = self.owner is not None and self.owner.document in self.documents.suspended
        is_of_override = (
            self.applied is not None and self.owner is not None and not self.owner.document
        )
        is_undeclared = self.declared is None and not is_of_override
        is_frozen = is_owner_frozen or (self.is_halted and is_undeclared)
        if is_frozen and override is not None and self._is_left_behind(override):
            action = self._action("OverrideExpired")
            after = override.before if action == "write" else None
            self.decision = Decision("OverrideExpired", action, after)
        elif is_frozen or (self.is_contested and self.cause):
            self.decision = Decision("Frozen", "report")
        elif override is not None:
            self._end_override(override)
        elif self.cause:
            self._act(self.cause, self.declared)

    def _action(self, cause: str) -> str:
        rank, rules = self.inputs.rank, self.inputs.rules
        if cause in WRITTEN_FROM:
            return "write" if rank >= WRITTEN_FROM[cause] else "report"
        if cause == "Drift" and rules.drift is DriftMode.DISABLED:
            return "nothing"
        if cause == "Prune" or (cause == "ChangedByAnother" and rules.force):
            removal = self._removal()
            stays_orphan = cause == "Prune" and self.is_orphan and removal == "orphan"
            return removal if rules.complete or stays_orphan else "report"
        is_over = cause == "Gone" and rules.complete and not self._is_unread()
        is_recorded = cause in {"Adopt", "Converged"} or is_over
        if is_recorded and rank:
            return "record"
        is_correction = cause == "Drift" and rules.drift is DriftMode.CORRECT and rank >= 2
        is_exclusive = (
            cause == "Unmanaged"
            and rules.exclusive
            and rules.complete
            and rules.configured
            and rank == RANKS[Policy.SYNC]
            and any(pattern.matches(self.pair[0]) for pattern in rules.scope)
        )
        return "write" if is_correction or is_exclusive else "report"

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
        rank, owner = self.inputs.rank, self.owner
        if owner is None or not owner.document:
            return "orphan"
        if self._is_present(owner.document) and not self.is_orphan:
            return "write" if rank >= 2 else "report"
        if self._is_unread():
            return "report"
        if owner.deletion_policy is DeletionPolicy.DELETE and not self.is_orphan:
            return "write" if rank >= 2 else "report"
        return "write" if owner.deletion_policy is None and rank == 3 else "orphan"

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
        if self.same(value, self.live):
            is_own = not self.same(value, override.before) and not self.same(value, self.applied)
            if is_own and self.pending is None:
                self._set_record(value)
            self.decision = Decision("Override", "nothing")
        elif value is not None and self.same(value, self.applied):
            self._act("Drift", value)
        elif self._action("Override") == "write":
            self.decision = Decision("Override", "write", value)
        else:
            self.decision = Decision("Override", "report")

    def _end_override(self, override: Override) -> None:
        after = self._value_after(override)
        if not self.same(after, self.live):
            action = self._action("OverrideExpired")
            self.decision = Decision(
                "OverrideExpired", action, after if action == "write" else None
            )
            return
        is_settled = self.pending is None
        self.has_override = not is_settled
        is_of_override = self.owner is not None and not self.owner.document
        if is_of_override and self.declared is None and is_settled:
            owner = override.before_owner
            is_restored = self.same(self.live, self.applied) and self.same(
                self.live, override.before
            )
            self.record = None
            if owner is not None and is_restored and self.live is not None:
                self.record = OwnedValue(
                    self.live, owner.document, owner.deletion_policy, is_orphan=False
                )
        elif self.cause:
            self._act(self.cause, self.declared)

    def _is_of_override(self, override: Override) -> bool:
        """Whether the live value is that of the override, or one that is recorded and of an override which it replaced."""
        is_recorded = self.same(self.live, self.applied)
        return self.same(self.live, override.value) or (
            is_recorded and any(self.same(self.live, value) for value in override.earlier_values)
        )

    def _is_left_behind(self, override: Override) -> bool:
        """Whether an ended override, or one that it replaced, was applied in place of another value, and was no rollback."""
        is_new = self._is_of_override(override) and not self.same(self.live, override.before)
        is_rollback = override.ends_with_document and self.same(self.live, override.value)
        return (
            is_new and not is_rollback and (self.live is None or self.same(self.applied, self.live))
        )

    def _value_after(self, override: Override) -> float | None:
        """Return the value that follows an override; the live one if nothing has to be written for it."""
        if self.declared is not None:
            return self.declared if self._is_of_override(override) else self.live
        return override.before if self._is_left_behind(override) else self.live


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
        if not inputs.rank and plan.bookkeeping:
            return f"records change under Observe: {plan.bookkeeping[0]}"
        for pair, expected in self.decisions.items():
            is_open = inputs.only is None or pair in inputs.only
            decision = expected.decision
            if decision is not None and decision.action == "write" and not is_open:
                decision = None
            actual = planned.pop(pair, None)
            if actual != decision:
                return f"{pair[0]} {pair[1]}: planned {actual}, the rules say {decision}"
            record = expected.record if is_open else expected.settled
            stored = stored_value(owned, pair)
            recorded = stored, owned.intents.get(pair)
            if inputs.rank and recorded != (record, expected.pending):
                return f"{pair[0]} {pair[1]}: records {recorded}, the rules say {record}, {expected.pending}"
            if is_open and (pair in owned.overrides) != expected.has_override:
                return f"{pair[0]} {pair[1]}: its override is recorded against the rules"
        if planned:
            return f"planned without a reason: {planned}"
        levels = [SEND_LEVELS[_form(change.entity)] for change in plan.changes]
        return "" if levels == sorted(levels) else f"changes of the levels {levels}, not sorted"


def _form(entity: Entity) -> str:
    return "".join("x" if slot is ABSENT else "d" if slot is DEFAULT else "n" for slot in entity)
