"""The comparison of desired, owned and live state, pair by pair: every difference, whatever may be written.

The rows of the three-way table are in ``three_way_table.py``, those of temporary limits in ``temporary_limits.py``. What the
policy, the scope and ignore rules permit is decided afterwards (``permitted_plan.py``). These steps come before the table:

- the describe settles intents of unknown outcome (``intent_settlement.py``);
- a temporary limit replaces the declared value; the record below it stays;
- a pair of a frozen document, and a pair that two documents claim, is reported and never written or pruned.
"""

from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from reconciler.quota.entity import Entity, sort_key
from reconciler.quota.keys import COLUMNS
from reconciler.quota.ownership import NO_RECORD, NOBODY, OwnershipRecords
from reconciler.quota.planner.desired_state import Declaration, DesiredState
from reconciler.quota.planner.intent_settlement import settle_intents
from reconciler.quota.planner.permitted_plan import PlanDraft
from reconciler.quota.planner.plan import Plan, QuotaChange
from reconciler.quota.planner.temporary_limits import Layer, difference_under, news, of_document
from reconciler.quota.planner.three_way_table import Difference, PairView, declaration_end
from reconciler.quota.policy import Cause, DeclarationEnd, Rules
from reconciler.quota.state import NO_LIMITS, QuotaState

NOTE_NOT_READ: Final = "its document is not among the files of this run; only a project has a complete list of documents"
NOTE_EDITED: Final = "a document of its name has another entity; without a project the limit stays"
NOTE_FROZEN: Final = "its document is suspended or invalid"
NOTE_CONTESTED: Final = "two documents declare it"


def compare(
    *,
    desired: DesiredState,
    owned: OwnershipRecords,
    live: QuotaState,
    rules: Rules,
    now: float = 0.0,
) -> Plan:
    """Return the plan for one cluster: every difference, as far as the rules permit to write it.

    Args:
        desired: All documents. Pairs in conflict are not changed.
        live: The live quotas from one describe.
        rules: Policy, drift mode, scope and other rules, from the trusted configuration.
        now: Seconds since the epoch, for temporary limits, ignore rules, drift times and intents of unknown outcome.
    """
    settlement = settle_intents(owned, live, now=now)
    comparison = _Comparison(desired, settlement.owned, live, rules, now)
    draft = PlanDraft(settlement.owned, rules, now)
    for record_change in settlement.changes:
        draft.record(record_change)
    for difference in comparison.differences():
        draft.take(difference)
    pairs = desired.pair_count
    owned_elsewhere = owned.pair_count - settlement.owned.pair_count if settlement.changes else 0
    return Plan(
        cluster_id=owned.cluster_id,
        changes=tuple(draft.changes),
        pending=tuple(comparison.pending),
        findings=tuple(draft.findings),
        bookkeeping=tuple(draft.bookkeeping),
        conflicts=desired.conflicts,
        documents=len(desired.documents),
        desired_pairs=pairs,
        in_sync=pairs - comparison.out_of_sync + draft.in_sync,
        # Entities in sync are skipped, because all their pairs are declared and owned.
        owned_pairs=pairs
        + owned_elsewhere
        + comparison.owned_elsewhere
        + sum(settlement.owned.elsewhere.owned.values()),
        removals_known=rules.removals_known,
        complete=rules.complete,
        ended=frozenset(declaration.document for declaration in desired.ended),
    )


class _Comparison:
    """State of one comparison. The loop visits only entities that may be out of sync.

    Attributes:
        pending: What documents declare anew under temporary limits.
        out_of_sync: Number of declared pairs that were visited.
        owned_elsewhere: Number of owned pairs without a declaration, less that of declared ones without a record.
    """

    def __init__(
        self,
        desired: DesiredState,
        owned: OwnershipRecords,
        live: QuotaState,
        rules: Rules,
        now: float,
    ) -> None:
        self.desired, self.owned, self.live, self.now = desired, owned, live, now
        self.is_complete, self.is_whole = rules.complete, rules.configured
        self.pending: list[QuotaChange] = []
        self.out_of_sync = 0
        self.owned_elsewhere = 0
        self.contested = {(item.entity, item.key) for item in desired.conflicts}
        # Entities with an intent, drift time, orphan, temporary limit or frozen pair are always compared in full.
        marks = (owned.intents, owned.drift_since, owned.orphaned, owned.overrides)
        self.special: set[Entity] = {
            pair[0] for pairs in (*marks, desired.halted, desired.temporary) for pair in pairs
        }

    def differences(self) -> Iterator[Difference]:
        """Compare every entity that may be out of sync, sorted."""
        for subject in sorted(self._find_out_of_sync(), key=sort_key):
            yield from self._compare_entity(subject)

    def _find_out_of_sync(self) -> set[Entity]:
        """Return the entities that may be out of sync and need a full comparison."""
        records, live, special = self.owned.records, self.live.limits, self.special
        record_of, limits_of = records.get, live.get
        out_of_sync: list[Entity] = []
        for subject, claims in self.desired.claims.items():
            claim = claims[0]
            record = record_of(subject, NO_RECORD)
            if (
                record.applied == (desired_limits := claim.limits)
                and limits_of(subject) == desired_limits
                and (owner := record.sole) is not None
                and owner.document == claim.document
                and owner.deletion_policy is claim.deletion_policy
                and len(claims) == 1
                and not (special and subject in special)
            ):
                continue
            out_of_sync.append(subject)
        # Every entity in sync has a record and is live; if a map has more entities than that, the rest is compared too.
        in_sync = len(self.desired.claims) - len(out_of_sync)
        known_entities = set(out_of_sync)
        for entities in (records, live):
            if len(entities) > in_sync + sum(subject in entities for subject in known_entities):
                declared = self.desired.claims.keys()
                known_entities.update(subject for subject in entities if subject not in declared)
        known_entities.update(special)
        return known_entities

    def _compare_entity(self, subject: Entity) -> Iterator[Difference]:
        desired_limits = self.desired.limits.get(subject, NO_LIMITS)
        live_limits = self.live.limits.get(subject, NO_LIMITS)
        record = self.owned.records.get(subject, NO_RECORD)
        self.owned_elsewhere += desired_limits.count(None) - record.applied.count(None)
        rare = subject in self.special
        rows = zip(COLUMNS, desired_limits, live_limits, record.applied, record.owners, strict=True)
        for key, declared, live, applied, owner in rows:
            if declared is None and live is None and applied is None and not rare:
                continue
            self.out_of_sync += declared is not None
            intent = self.owned.intents.get((subject, key)) if rare else None
            intended = None if intent is None or intent.owner == NOBODY else intent.owner
            view = PairView(
                entity=subject,
                key=key,
                declared=declared,
                applied=applied,
                live=live,
                intent=intent,
                claim=self.desired.claim(subject, key) if declared is not None else None,
                owner=owner or intended,
                recorded=owner,
                is_orphaned=rare and (subject, key) in self.owned.orphaned,
                now=self.now,
            )
            layer = self._layer(view) if rare else None
            if layer is None:
                yield from self._compare_pair(view)
            else:
                yield from self._compare_under(view, layer)

    def _compare_pair(self, view: PairView) -> Iterator[Difference]:
        cause = view.cause
        if self._is_frozen(view):
            yield Difference(view=view, cause=Cause.FROZEN, note=_frozen_note(view))
        elif cause is not None and view.pair in self.contested:
            yield Difference(view=view, cause=Cause.FROZEN, note=NOTE_CONTESTED)
        elif cause is not None:
            yield self._difference(view, cause)

    def _difference(self, view: PairView, cause: Cause) -> Difference:
        """Return the difference of a row of the table."""
        end = declaration_end(view, self.desired, is_whole=self.is_whole)
        note = ""
        is_undeclared = cause in {Cause.PRUNE, Cause.GONE}
        if is_undeclared and end is DeclarationEnd.NOT_READ and view.owner is not None:
            was_read = view.owner.document in self.desired.documents
            note = NOTE_EDITED if was_read else NOTE_NOT_READ
        return Difference(view=view, cause=cause, after=view.declared, end=end, note=note)

    def _is_frozen(self, view: PairView) -> bool:
        """Whether a frozen document is the recorded owner, or the only document that declares the pair."""
        document = "" if view.owner is None else view.owner.document
        undeclared = view.declared is None and (view.applied is None or document != "")
        return document in self.desired.frozen or (undeclared and view.pair in self.desired.halted)

    def _layer(self, view: PairView) -> Layer | None:
        """Return the temporary limits of a pair, recorded and declared; ``None`` = there are none."""
        recorded = self.owned.overrides.get(view.pair)
        declared = self.desired.temporary.get(view.pair)
        if declared is not None and declared.has_ended(max(self.now, self.owned.latest_end)):
            declared = None
        owner = "" if view.owner is None else view.owner.document
        begun = "" if recorded is None else recorded.document
        if owner in self.desired.frozen and declared is not None and declared.document != begun:
            declared = None  # It begins where a lasting document would be written.
        if recorded is None:
            return None if declared is None else _layer_of(declared, view)
        document = recorded.document or owner
        is_kept = bool(recorded.document) and (
            document in self.desired.frozen or view.pair in self.contested
        )
        is_read = self.is_complete and (self.is_whole or document in self.desired.documents)
        return Layer(
            first=recorded,
            is_recorded=True,
            declared=declared,
            is_decided=is_read and not is_kept,
        )

    def _compare_under(self, view: PairView, layer: Layer) -> Iterator[Difference]:
        """Compare a pair under a temporary limit; documents that cannot be used declare nothing."""
        if layer.never_began:
            yield Difference(view=view, cause=Cause.ENDED, after=view.live)
            if layer.declared is None:
                yield from self._compare_pair(view)
                return
            layer = _layer_of(layer.declared, view)
        view = view.without_claim() if self._is_frozen(view) else view
        self.pending.extend(news(view, layer))
        end = declaration_end(view, self.desired, is_whole=self.is_whole)
        difference = replace(difference_under(view, layer), end=end)
        yield difference
        if difference.is_over and view.declared is not None:
            yield from self._compare_pair(view)  # The record below is in charge again.


def _layer_of(declared: Declaration, view: PairView) -> Layer:
    """Return the layer of a document with an end that begins."""
    first = of_document(declared, view, None)
    return Layer(first=first, is_recorded=False, declared=declared)


def _frozen_note(view: PairView) -> str:
    """Return why a pair is frozen; a pair that another document declares is frozen by its recorded owner."""
    if view.claim is None or view.owner is None:
        return NOTE_FROZEN
    return f"{view.owner.document}, which is suspended or invalid, owns it until it is deleted"
