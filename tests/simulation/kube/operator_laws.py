"""Invariants of a simulation of operators, in addition to ``tests.simulation.laws``.

They are checked on the brokers' log, the objects of the API server and standard output of the operators only.
"""

import math
from collections.abc import Mapping
from typing import Any

from reconciler.quota.keys import COLUMNS
from reconciler.quota.ownership import OwnershipRecords, Pair
from reconciler.quota.planner.desired_state import Declaration
from reconciler.quota.policy import DeletionPolicy, Rules
from reconciler.sandbox.broker_rules.image import Image
from tests.policies import REMOVING
from tests.simulation.brokers import Commit
from tests.simulation.kube.api_server import ApiWrite, Obj
from tests.simulation.kube.resources import (
    FINALIZER,
    document_of,
    effective_policy,
    entity_of,
    is_terminating,
    values_of,
)
from tests.simulation.laws import LATE_SECONDS, STALE_SECONDS, LawBroken, Laws, Run, recorded_value

VIEW_SECONDS = 600.0
"""Maximum age of the document version that a value is written for: watches lag and requests are retried."""

LISTED_SECONDS = 300.0
"""Maximum age of the list that a removal is based on: from the list until the write is committed."""

SHOWN_SECONDS = 240.0
"""Maximum age of the observation that a status shows."""

LARGEST_STEP = 31.0
"""More than any step of a clock, in seconds."""

BOUND = frozenset({"update", "apply", "patch"})


class OperatorLaws(Laws):
    """The laws of a simulation of operators."""

    def __init__(self, rules: Rules, image: Image, *, max_removals: int = 10_000) -> None:
        super().__init__(rules, image, max_removals=max_removals, writers=("operator",))
        self.unconfirmed: dict[Pair, float] = {}
        self.recorded_uids: Mapping[str, str] = {}
        self.overridden_at: dict[Pair, float] = {}
        self.valued_at: dict[Pair, float] = {}
        self.documents: Mapping[str, Declaration] = {}
        self.unseen: set[str] = set()
        self.specified_at: dict[tuple[str, int], float] = {}
        self.released_by: dict[str, str] = {}
        self.marked: dict[str, tuple[str, float]] = {}
        self.unserved_at = -math.inf

    # -- events --------------------------------------------------------------------------------------

    def documents_changed(self, at: float, documents: Mapping[str, Declaration]) -> None:
        """Record the declared documents from now on."""
        for run in self.runs:
            if not run.process and run.ended is None:
                run.ended = at
        self.documents = documents
        self.began(Run(process="", started=at, documents=documents))

    def intended_by(self, at: float, process: str) -> None:
        """Record that a process begins to write; its earlier writes may still be committed."""
        self.ended(at, process)
        self.runs.append(Run(process=process, started=at, documents=self.documents))

    def ended(self, at: float, process: str) -> None:
        """Record that a process sends no more writes."""
        for run in self.runs:
            if run.process == process and run.ended is None:
                run.ended = at

    def written(self, write: ApiWrite) -> None:
        """Check a write of an operator to an object."""
        if write.before is not None and write.verb in BOUND and not write.is_bound:
            raise LawBroken(f"a write that is not bound to a version: {write.verb} {write.place}")
        if write.place[0] != "clientquotas" or write.before is None:
            return
        if write.after is not None and write.after.get("status") != write.before.get("status"):
            self._lawful_status(write.at, write.after)
        released = FINALIZER in write.before["metadata"].get("finalizers", ()) and (
            write.after is None or FINALIZER not in write.after["metadata"].get("finalizers", ())
        )
        if released and is_terminating(write.before):
            self._lawful_release(write.at, write.before)
            self.released_by[write.before["metadata"]["uid"]] = write.writer

    def specified(self, at: float, obj: Obj) -> None:
        """Record the time of the specification that an object has now."""
        metadata = obj["metadata"]
        _ = self.specified_at.setdefault((metadata["uid"], metadata["generation"]), at)

    def cluster_changed(self, at: float, obj: Obj | None) -> None:
        """Record whether the QuotaCluster exists and is not suspended."""
        if obj is None or obj["spec"].get("suspend", False):
            self.unserved_at = math.inf
        elif self.unserved_at == math.inf:
            self.unserved_at = at

    def uids_recorded(self, at: float, uids: Mapping[str, str]) -> None:
        """Record the uids that records have of documents; one that vanishes marks its document as deleted."""
        for document, uid in self.recorded_uids.items():
            if uids.get(document) != uid:
                self.marked[document] = uid, at
        self.recorded_uids = uids

    def recorded_as(self, at: float, process: str, owned: OwnershipRecords) -> None:
        self.valued_at |= {
            (entity, key): at
            for entity, record in owned.records.items()
            for key, _ in record.pairs()
            if recorded_value(owned, (entity, key)) != recorded_value(self.records, (entity, key))
        }
        if self.is_own(process):
            self._lawful_overrides(at, process, owned)
            for pair, intent in owned.intents.items():
                if intent.value is not None and intent != self.records.intents.get(pair):
                    self._lawful_owner(pair, intent.owner.document, process)
        for pair in owned.overrides:
            self.overridden_at[pair] = at
        super().recorded_as(at, process, owned)
        for pair in list(self.ours):
            record = owned.records.get(pair[0])
            is_recorded = record is not None and any(key is pair[1] for key, _ in record.pairs())
            removed = self.removed_at.get(pair)
            if is_recorded or pair in owned.intents or pair in owned.overrides:
                continue
            if removed is not None and at > removed + LATE_SECONDS:
                self.ours.pop(pair)
                del self.removed_at[pair]

    # -- laws ----------------------------------------------------------------------------------------

    def _lawful_intent(
        self, owned: OwnershipRecords, pair: Pair, value: float | None, process: str
    ) -> None:
        """Check in addition that it does not return to a declaration that is older than the recorded one.

        A declaration of the recorded value that began after it was recorded does not count: a reconciliation that began
        before it may still write its intents, part by part.
        """
        super()._lawful_intent(owned, pair, value, process)
        recorded = recorded_value(owned, pair)
        if recorded is None:
            return
        intended_at = self._declared_at(pair, value)
        recorded_at = self._declared_at(pair, recorded, until=self.valued_at.get(pair, math.inf))
        if intended_at is not None and recorded_at is not None and intended_at < recorded_at:
            raise LawBroken(
                f"an older declaration replaces a recorded one: {pair[0]} {pair[1]} {recorded} -> {value}, by {process}"
            )

    def _lawful_overrides(self, at: float, process: str, owned: OwnershipRecords) -> None:
        """Check that an override of a declared quota key ends by its time or a command alone."""
        for pair, override in self.records.overrides.items():
            is_declared = all(
                run.declared(pair)
                for run in self.runs
                if not run.process and (run.ended is None or run.ended > at - VIEW_SECONDS)
            )
            if pair not in owned.overrides and override.until > at + LARGEST_STEP and is_declared:
                raise LawBroken(
                    f"an override is lost: {pair[0]} {pair[1]} {override.value}, by {process}"
                )

    def _lawful_owner(self, pair: Pair, document: str, process: str) -> None:
        """Check that a value is not written for a document that the same process has released."""
        uid = self.recorded_uids.get(document, "")
        if self.released_by.get(uid) == process and pair not in self.records.overrides:
            raise LawBroken(
                f"a value is written for a released document: {pair[0]} {pair[1]}, {document} by {process}"
            )

    def _declared_at(
        self, pair: Pair, value: float | None, *, until: float = math.inf
    ) -> float | None:
        """Return the start of the last state of the documents that declared the value; ``None`` = never lately."""
        return max(
            (
                run.started
                for run in self.runs
                if not run.process and run.started <= until and value in run.values(pair)
            ),
            default=None,
        )

    def _lawful_status(self, at: float, obj: Obj) -> None:
        """Check that Ready is true only if the spec is live, or was when it was observed."""
        status = obj["status"]
        ready = condition(status, "Ready")
        entity, document = entity_of(obj), document_of(obj)
        is_compared = condition(status, "Drifted").get("status") != "Unknown"
        if not is_compared or ready.get("status") != "True" or ready.get("reason") != "Synced":
            for pair in [pair for pair in self.unconfirmed if pair[0] == entity]:
                del self.unconfirmed[pair]
        if ready.get("status") != "True" or ready.get("reason") != "Synced":
            return
        if status.get("observedGeneration") != obj["metadata"]["generation"]:
            return
        self._lawful_claim(at, obj)
        status_values = {item["key"]: item.get("live") for item in status.get("keys", ())}
        for key, value in values_of(obj).items():
            pair = entity, key
            # Drift counts only after two observations, so not immediately after a change of leaders.
            since = self.unconfirmed.setdefault(pair, at) if status_values.get(key) != value else at
            if status_values.get(key) == value:
                _ = self.unconfirmed.pop(pair, None)
            live = self.values_between(pair, at - SHOWN_SECONDS, at)
            if status_values.get(key) not in live or at - since > SHOWN_SECONDS:
                raise LawBroken(
                    f"a status says Ready and the value is not live: {document} {key} {value}, shown {status_values.get(key)},"
                    f" live {self.live(pair)}"
                )

    def _lawful_claim(self, at: float, obj: Obj) -> None:
        """Check that each value of a specification which is called Ready was live since it was written.

        A value that the records had applied before may be absent: drift counts only after two observations.
        """
        metadata = obj["metadata"]
        since = self.specified_at.get((metadata["uid"], metadata["generation"]), at)
        for key, value in values_of(obj).items():
            pair = entity_of(obj), key
            record = self.records.records.get(pair[0])
            is_recorded = record is not None and record.applied[COLUMNS.index(key)] == value
            if is_recorded or pair in self.overridden or self._is_frozen(pair):
                continue
            if value not in self.values_between(pair, since - STALE_SECONDS, at):
                raise LawBroken(
                    f"a status says Ready and the value was never live: {document_of(obj)} {key} {value}"
                )

    def _lawful_release(self, at: float, obj: Obj) -> None:
        """Check that a document is released only if its limits are removed, retained by its policy, or not its own.

        While its QuotaCluster is suspended or deleted, it is also released once the records mark it as deleted.
        """
        document = document_of(obj)
        if effective_policy_of(obj, self.rules) is DeletionPolicy.RETAIN:
            return
        uid = obj["metadata"]["uid"]
        marked_uid, marked_at = self.marked.get(document, ("", at))
        if self.recorded_uids.get(document) != uid and (
            # It never owned anything, or the records mark it as deleted because nothing could be removed then.
            marked_uid != uid or marked_at < self.unserved_at + LISTED_SECONDS
        ):
            return
        for entity, record in self.records.records.items():
            for key, owner in record.pairs():
                pair = entity, key
                value = record.applied[COLUMNS.index(key)]
                if owner.document != document or pair in self.records.orphaned:
                    continue
                # The end of an override removes the limit of its document.
                if owner.deletion_policy is DeletionPolicy.RETAIN or pair in self.records.overrides:
                    continue
                # The operator may have seen the value of another writer, who then wrote this one: the next pass removes it.
                was_other = self.values_between(pair, at - STALE_SECONDS, at) - {None, value}
                if self.live(pair) == value and not was_other and not self._is_frozen(pair):
                    raise LawBroken(
                        f"a document is released and its limit is still there: {document} {key} {value}, recorded as ours"
                    )

    def _is_frozen(self, pair: Pair) -> bool:
        return self.rules.in_force not in REMOVING or not self.rules.in_scope(pair[0])

    # -- state ---------------------------------------------------------------------------------------

    def _lately(self, commit: Commit) -> list[Run]:
        return [
            run for run in self.runs if run.ended is None or run.ended > commit.at - VIEW_SECONDS
        ]

    def _requested_removal(self, commit: Commit, pair: Pair, where: str) -> None:
        if self._was_overridden(commit, pair):
            return
        since = commit.at - LISTED_SECONDS
        declared = [run for run in self.runs if not run.process]
        if all(run.declared(pair) for run in declared if run.ended is None or run.ended > since):
            raise LawBroken(f"a declared value is removed: {where}")
        super()._requested_removal(commit, pair, where)

    def _asked(self, commit: Commit, pair: Pair, value: float) -> bool:
        return self._was_overridden(commit, pair) or super()._asked(commit, pair, value)

    def _was_overridden(self, commit: Commit, pair: Pair) -> bool:
        """Whether an override or its end may have caused the write."""
        at = self.overridden_at.get(pair)
        return pair in self.records.overrides or (at is not None and at > commit.at - VIEW_SECONDS)

    def _recorded_since(self, at: float, process: str) -> float:
        return at - LISTED_SECONDS


def condition(status: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    """Return a condition of a status, empty if there is none."""
    for candidate in status.get("conditions", ()):
        if candidate["type"] == kind:
            return dict(candidate)
    return {}


def effective_policy_of(obj: Obj, rules: Rules) -> DeletionPolicy:
    """Return the effective deletion policy of a document's last spec."""
    policy = obj["spec"].get("deletionPolicy")
    return effective_policy(None if policy is None else DeletionPolicy(policy), rules)
