"""Single pairs in the comparison: crashes, orphans, frozen and contested pairs, ignore rules, overrides."""

import pytest
from msgspec.structs import replace

from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from reconciler.quota.overrides import Override
from reconciler.quota.ownership import (
    NOBODY,
    SETTLING_SECONDS,
    DriftObserved,
    Intent,
    IntentEnded,
    IntentStarted,
    Orphaned,
    OverrideEnded,
    OverrideSet,
    OverrideWritten,
    Owner,
    OwnershipRecords,
    RecordDropped,
    Recorded,
)
from reconciler.quota.patterns import EVERYTHING, EntityPattern, NamePattern
from reconciler.quota.planner.comparison import (
    NOTE_CONTESTED,
    NOTE_EDITED,
    NOTE_FROZEN,
    NOTE_NOT_READ,
    compare,
)
from reconciler.quota.planner.desired_state import Declaration, merge
from reconciler.quota.planner.permitted_plan import NOTE_FORCED, NOTE_INCOMPLETE, NOTE_UNSETTLED
from reconciler.quota.planner.plan import Finding, Plan, QuotaChange
from reconciler.quota.planner.temporary_limits import without_refused
from reconciler.quota.policy import (
    Action,
    Cause,
    DeletionPolicy,
    DriftMode,
    IgnoreRule,
    Policy,
    Rules,
)
from reconciler.quota.results.report import PairOutcome, PairVisibility, expired_overrides
from reconciler.quota.state import Applied, QuotaState, limits_of
from reconciler.reconcile import ownership_records
from tests.policies import CHANGING, CREATING

ALICE, KEY, OTHER_KEY = entity(user="alice"), Key.PRODUCER_BYTE_RATE, Key.CONSUMER_BYTE_RATE
PAIR = (ALICE, KEY)
ONE = Owner(document="team/one", since=1.0)
GONE = Owner(document="team/gone", since=1.0)
NOW = 1_000.0
SYNC = Rules(policy=Policy.SYNC, sync_confirmed=True)


def wants(
    value: float, *, document: str = "team/one", line: int = 1, **more: object
) -> Declaration:
    return Declaration(
        document=document,
        entity=ALICE,
        limits=limits_of({KEY: value}),
        path="a.yaml",
        line=line,
        **more,
    )


def has(value: float | None) -> QuotaState:
    return QuotaState() if value is None else QuotaState(limits={ALICE: limits_of({KEY: value})})


def owns(*changes: object) -> OwnershipRecords:
    return OwnershipRecords(cluster_id="c").with_changes(changes)


def applied(value: float, owner: Owner = ONE) -> Recorded:
    return Recorded(entity=ALICE, key=KEY, value=value, owner=owner)


def intended(value: float | None, owner: Owner = ONE, at: float = 0.0) -> IntentStarted:
    return IntentStarted(entity=ALICE, key=KEY, intent=Intent(value=value, owner=owner, at=at))


def override(value: float | None = 50.0, until: float = NOW + 1, **more: object) -> OverrideSet:
    settings = {"author": "eve", "reason": "incident", **more}
    return OverrideSet(
        override=Override(entity=ALICE, key=KEY, value=value, until=until, **settings)
    )


def plan(
    *documents: Declaration,
    live: float | None = None,
    owned: OwnershipRecords | None = None,
    rules: Rules | None = None,
    frozen: tuple[str, ...] = (),
    now: float = NOW,
) -> Plan:
    return compare(
        desired=merge(documents, frozen=frozen),
        owned=owned or owns(),
        live=has(live),
        rules=rules or Rules(),
        now=now,
    )


def only_change(new_plan: Plan) -> QuotaChange:
    (change,) = new_plan.changes
    assert new_plan.findings == ()
    return change


def only_finding(new_plan: Plan) -> Finding:
    (finding,) = new_plan.findings
    assert new_plan.changes == ()
    return finding


# -- values of a change and a finding -----------------------------------------------------------------


def test_a_takeover_shows_the_value_from_before_and_the_document():
    new_plan = plan(wants(5.0), live=7.0)
    change = only_change(new_plan)
    assert (change.before, change.after, change.cause) == (7.0, 5.0, Cause.TAKEOVER)
    assert change.claim is not None
    assert change.claim.place(KEY) == "a.yaml:1"
    assert change.owner == Owner(document="team/one", since=NOW)
    assert change.applied is None


def test_a_pair_keeps_the_start_of_its_ownership_while_it_is_owned():
    change = only_change(plan(wants(5.0), live=1.0, owned=owns(applied(1.0))))
    assert (change.owner, change.applied) == (ONE, 1.0)


def test_a_removal_names_the_owner_of_the_pair():
    new_plan = plan(live=1.0, owned=owns(applied(1.0)), rules=SYNC)
    assert (only_change(new_plan).owner, only_change(new_plan).claim) == (ONE, None)


# -- record changes -----------------------------------------------------------------------------------


def test_a_pair_with_the_declared_value_is_adopted_without_a_write():
    new_plan = plan(wants(5.0), live=5.0)
    assert new_plan.bookkeeping == (
        Recorded(entity=ALICE, key=KEY, value=5.0, owner=Owner(document="team/one", since=NOW)),
    )
    assert only_finding(new_plan).cause is Cause.ADOPT


def test_the_record_of_a_pair_that_disappeared_is_removed():
    new_plan = plan(owned=owns(applied(5.0)))
    assert new_plan.bookkeeping == (RecordDropped(entity=ALICE, key=KEY),)
    assert only_finding(new_plan).cause is Cause.GONE


@pytest.mark.parametrize(
    "other_declaration",
    [wants(5.0, document="team/renamed"), wants(5.0, deletion_policy=DeletionPolicy.DELETE)],
)
def test_another_document_or_deletion_policy_is_recorded_without_a_finding(other_declaration):
    new_plan = plan(other_declaration, live=5.0, owned=owns(applied(5.0)))
    assert (new_plan.changes, new_plan.findings, new_plan.in_sync) == ((), (), 1)
    (record,) = new_plan.bookkeeping
    assert record == Recorded(
        entity=ALICE,
        key=KEY,
        value=5.0,
        owner=Owner(
            document=other_declaration.document,
            deletion_policy=other_declaration.deletion_policy,
            since=1.0,
        ),
    )


def test_the_deletion_policy_that_was_recorded_last_applies():
    owner = Owner(document="team/gone", deletion_policy=DeletionPolicy.DELETE)
    assert only_change(plan(live=1.0, owned=owns(applied(1.0, owner)))).cause is Cause.PRUNE


def test_drift_that_ended_is_recorded():
    owned = owns(applied(5.0), DriftObserved(entity=ALICE, key=KEY, at=3.0))
    new_plan = plan(wants(5.0), live=5.0, owned=owned)
    assert new_plan.bookkeeping == (DriftObserved(entity=ALICE, key=KEY, at=None),)


def test_drift_is_reported_with_the_time_of_its_first_observation():
    rules = Rules(drift=DriftMode.WARN)
    fresh = plan(wants(5.0), live=6.0, owned=owns(applied(5.0)), rules=rules)
    assert only_finding(fresh).since == NOW
    owned = owns(applied(5.0), DriftObserved(entity=ALICE, key=KEY, at=3.0))
    older = plan(wants(5.0), live=6.0, owned=owned, rules=rules)
    assert only_finding(older).since == 3.0
    assert older.drift == older.findings


def test_corrected_drift_is_reported_as_drift():
    rules = Rules(drift=DriftMode.CORRECT)
    new_plan = plan(wants(5.0), live=6.0, owned=owns(applied(5.0)), rules=rules)
    assert new_plan.drift == new_plan.changes == (only_change(new_plan),)


# -- near whole numbers -------------------------------------------------------------------------------


def test_a_nearly_whole_live_value_is_in_sync_and_rewritten_only_with_its_pair():
    near = 5.000_000_5
    assert plan(wants(5.0), live=near, owned=owns(applied(5.0))).in_sync == 1
    change = only_change(plan(wants(6.0), live=near, owned=owns(applied(5.0))))
    assert (change.cause, change.before, change.after) == (Cause.SPEC, near, 6.0)


# -- intents: a crash before or after sending ---------------------------------------------------------


def test_a_crash_before_sending_is_resumed():
    new_plan = plan(wants(5.0), live=1.0, owned=owns(applied(1.0), intended(5.0)))
    assert only_change(new_plan).cause is Cause.SPEC


def test_a_crash_after_sending_loses_no_ownership():
    new_plan = plan(wants(5.0), live=5.0, owned=owns(applied(1.0), intended(5.0)))
    assert (new_plan.changes, new_plan.findings, new_plan.in_sync) == ((), (), 1)
    assert new_plan.bookkeeping == (applied(5.0),)
    created = plan(live=5.0, owned=owns(intended(5.0, GONE)), rules=SYNC)
    assert only_change(created).cause is Cause.PRUNE


def test_the_owner_of_a_live_value_is_the_document_of_its_intent():
    new_plan = plan(
        live=5.0, owned=owns(applied(1.0, GONE), intended(5.0, ONE)), frozen=("team/one",)
    )
    assert only_finding(new_plan).cause is Cause.FROZEN
    assert only_finding(new_plan).owner == ONE


def test_a_removal_before_the_crash_is_not_drift():
    new_plan = plan(wants(5.0), owned=owns(applied(5.0), intended(None)))
    assert only_change(new_plan).cause is Cause.CREATE
    gone = plan(owned=owns(applied(5.0), intended(None)))
    assert gone.bookkeeping == (RecordDropped(entity=ALICE, key=KEY),)


@pytest.mark.parametrize(
    ("documents", "live", "owned"),
    [
        ((wants(5.0),), 5.0, (applied(5.0),)),
        ((wants(5.0),), 5.0, ()),
        ((wants(5.0),), 5.0, (applied(4.0),)),
        ((), None, (applied(5.0),)),
        ((), None, ()),
    ],
)
def test_nothing_is_recorded_while_an_earlier_write_may_still_land(documents, live, owned):
    late = owns(*owned, intended(9.0, at=NOW - SETTLING_SECONDS + 1))
    new_plan = plan(*documents, live=live, owned=late)
    assert (new_plan.changes, new_plan.bookkeeping) == ((), ())
    assert {finding.note for finding in new_plan.findings} <= {NOTE_UNSETTLED}
    over = owns(*owned, intended(9.0, at=NOW - SETTLING_SECONDS))
    assert plan(*documents, live=live, owned=over).bookkeeping != ()


# -- orphans ------------------------------------------------------------------------------------------


def test_a_retained_pair_is_orphaned_once_and_listed_in_every_plan():
    first = plan(live=5.0, owned=owns(applied(5.0, GONE)))
    assert first.bookkeeping == (Orphaned(entity=ALICE, key=KEY),)
    second = plan(live=5.0, owned=owns(applied(5.0, GONE), *first.bookkeeping))
    assert second.bookkeeping == ()
    assert first.orphans == first.findings
    assert second.orphans == second.findings
    assert only_finding(second).action is Action.ORPHAN
    assert (only_finding(first).is_new, only_finding(second).is_new) == (True, False)


def test_a_limit_whose_document_asked_for_it_is_left_as_asked():
    owner = replace(GONE, deletion_policy=DeletionPolicy.RETAIN)
    finding = only_finding(plan(live=5.0, owned=owns(applied(5.0, owner)), rules=SYNC))
    assert (finding.action, finding.is_new) == (Action.ORPHAN, True)
    assert "Retain" in finding.note


def test_a_limit_that_left_the_scope_is_released_and_not_called_one_of_a_deleted_document():
    """Its document may exist, and the scope would refuse it again."""
    scope = (EntityPattern(user=NamePattern(exact="bob")),)
    released = plan(live=5.0, owned=owns(applied(5.0)), rules=replace(SYNC, scope=scope))
    assert released.bookkeeping == (Orphaned(entity=ALICE, key=KEY),)
    finding = only_finding(released)
    assert (finding.action, finding.is_new) == (Action.ORPHAN, False)
    assert "scope" in finding.note


def test_an_intent_left_by_a_crash_is_recorded_and_orphaned():
    owned = owns(intended(5.0, GONE))
    first = plan(live=5.0, owned=owned)
    assert first.bookkeeping == (applied(5.0, GONE), Orphaned(entity=ALICE, key=KEY))
    after = owned.with_changes(first.bookkeeping)
    assert (after.intents, after.orphaned) == ({}, {PAIR})
    assert plan(live=5.0, owned=after).bookkeeping == ()


@pytest.mark.parametrize("rules", [Rules(), SYNC])
def test_a_pair_with_an_abandoned_removal_remains(rules):
    owner = replace(GONE, deletion_policy=DeletionPolicy.DELETE)
    owned = owns(applied(5.0, owner), Orphaned(entity=ALICE, key=KEY))
    assert only_finding(plan(live=5.0, owned=owned, rules=rules)).action is Action.ORPHAN


def test_an_orphan_that_is_declared_again_is_owned_again():
    new_plan = plan(wants(5.0), live=5.0, owned=owns(applied(5.0), Orphaned(entity=ALICE, key=KEY)))
    assert new_plan.bookkeeping == (applied(5.0),)


# -- frozen and contested pairs -----------------------------------------------------------------------


@pytest.mark.parametrize("live", [None, 1.0, 5.0, 9.0])
@pytest.mark.parametrize("rules", [SYNC, replace(SYNC, force=True)])
def test_a_suspended_document_keeps_its_pairs_unchanged(live, rules):
    for owned in (owns(), owns(applied(1.0))):
        new_plan = plan(wants(5.0, suspended=True), live=live, owned=owned, rules=rules)
        assert only_finding(new_plan).cause is Cause.FROZEN
        assert (only_finding(new_plan).note, new_plan.bookkeeping) == (NOTE_FROZEN, ())


def test_a_frozen_document_freezes_its_recorded_pairs_even_against_another_claim():
    new_plan = plan(
        wants(9.0, document="team/two"), live=5.0, owned=owns(applied(5.0)), frozen=("team/one",)
    )
    assert only_finding(new_plan).cause is Cause.FROZEN
    assert "team/one, which is suspended or invalid, owns it" in only_finding(new_plan).note


def test_a_frozen_document_without_a_record_does_not_stop_another_claim():
    new_plan = plan(wants(5.0, suspended=True), wants(9.0, document="team/two"), live=7.0)
    assert only_change(new_plan).after == 9.0


@pytest.mark.parametrize("owned", [owns(), owns(applied(5.0)), owns(applied(4.0))])
def test_a_pair_claimed_by_two_documents_is_neither_written_nor_removed(owned):
    documents = (wants(1.0), wants(2.0, document="team/two", line=9))
    new_plan = plan(*documents, live=5.0, owned=owned, rules=replace(SYNC, force=True))
    assert (only_finding(new_plan).cause, only_finding(new_plan).note) == (
        Cause.FROZEN,
        NOTE_CONTESTED,
    )
    assert len(new_plan.conflicts) == 1
    assert plan(*documents, rules=SYNC).findings == ()


# -- kept values --------------------------------------------------------------------------------------


def test_without_a_complete_listing_nothing_is_removed_and_the_note_gives_the_reason():
    partial = replace(SYNC, complete=False)
    new_plan = plan(live=5.0, owned=owns(applied(5.0)), rules=partial)
    assert (only_finding(new_plan).note, new_plan.complete) == (NOTE_INCOMPLETE, False)
    gone = plan(owned=owns(applied(5.0)), rules=partial)
    assert (only_finding(gone).cause, gone.bookkeeping) == (Cause.GONE, ())


def test_without_a_project_the_note_distinguishes_a_file_that_was_not_read_from_an_edited_entity():
    files = Rules(policy=Policy.UPSERT, configured=False)
    edited = replace(wants(5.0), entity=entity(user="bob"))
    for documents, note in (((), NOTE_NOT_READ), ((edited,), NOTE_EDITED)):
        new_plan = plan(*documents, live=5.0, owned=owns(applied(5.0)), rules=files)
        assert [finding.note for finding in new_plan.findings] == [note]
        assert [change.entity for change in new_plan.changes] == [
            document.entity for document in documents
        ]


def test_a_pair_changed_by_another_writer_is_removed_only_with_force():
    owned = owns(applied(5.0))
    assert only_finding(plan(live=6.0, owned=owned, rules=SYNC)).cause is Cause.CHANGED_BY_ANOTHER
    forced = plan(live=6.0, owned=owned, rules=replace(SYNC, force=True))
    assert (only_change(forced).cause, only_change(forced).before) == (
        Cause.CHANGED_BY_ANOTHER,
        6.0,
    )


# -- ignore rules -------------------------------------------------------------------------------------


def test_an_ignored_difference_is_not_written_and_shows_the_reason():
    rule = IgnoreRule(entities=EVERYTHING, reason="migration", until=NOW + 1)
    new_plan = plan(wants(5.0), live=7.0, rules=Rules(ignore=(rule,)))
    finding = only_finding(new_plan)
    assert (finding.cause, finding.note, finding.ignored) == (
        Cause.TAKEOVER,
        "ignored: migration",
        True,
    )
    assert all(finding.ignored for finding in new_plan.findings)
    assert (new_plan.restricted, new_plan.drift) == ((), ())
    expired = replace(rule, until=NOW)
    assert only_change(plan(wants(5.0), live=7.0, rules=Rules(ignore=(expired,)))).after == 5.0


def test_ignored_drift_is_not_reported_as_drift():
    rules = Rules(ignore=(IgnoreRule(entities=EVERYTHING, reason="migration"),))
    new_plan = plan(wants(5.0), live=6.0, owned=owns(applied(5.0)), rules=rules)
    assert all(finding.ignored for finding in new_plan.findings)
    assert new_plan.drift == ()


def test_an_ignored_pair_is_still_adopted():
    rules = Rules(ignore=(IgnoreRule(entities=EVERYTHING, reason="migration"),))
    assert len(plan(wants(5.0), live=5.0, rules=rules).bookkeeping) == 1


# -- overrides ----------------------------------------------------------------------------------------


OVER = NOW  # An override whose time is over.


def test_an_override_is_written_above_the_record_and_shows_the_declared_value():
    owned = owns(applied(5.0), override(50.0, before=5.0, applied=5.0))
    change = only_change(plan(wants(5.0), live=5.0, owned=owned))
    assert (change.cause, change.after, change.note) == (
        Cause.OVERRIDE,
        50.0,
        "override by eve until 1970-01-01 00:16 UTC: incident",
    )
    assert change.claim is not None
    assert change.claim.limits[0] == 5.0
    assert (change.owner, change.keeps_record) == (ONE, True)


def test_a_live_override_is_listed_without_a_change():
    owned = owns(applied(5.0), override(50.0, before=5.0, applied=50.0))
    new_plan = plan(wants(5.0), live=50.0, owned=owned)
    finding = only_finding(new_plan)
    assert (finding.cause, finding.action, finding.desired) == (Cause.OVERRIDE, Action.NOTHING, 5.0)
    assert (new_plan.bookkeeping, new_plan.restricted) == ((), ())


def test_an_override_that_landed_before_a_crash_is_recorded_above_the_record():
    written = OverrideWritten(entity=ALICE, key=KEY, value=50.0)
    begun = (applied(5.0), override(50.0, before=5.0, applied=5.0))
    crashed = owns(*begun, intended(50.0, NOBODY))
    assert plan(wants(5.0), live=50.0, owned=crashed).bookkeeping == (written,)
    assert plan(wants(5.0), live=50.0, owned=owns(*begun)).bookkeeping == (written,)
    unset = owns(applied(5.0), override(None, before=5.0, applied=5.0), intended(None, NOBODY))
    removed = plan(wants(5.0), owned=unset).bookkeeping
    assert removed == (OverrideWritten(entity=ALICE, key=KEY, value=None),)
    late = owns(*begun, intended(9.0, at=NOW))
    assert plan(wants(5.0), live=50.0, owned=late).bookkeeping == ()


def test_a_write_of_a_document_that_lands_under_an_override_leaves_the_record():
    owned = owns(applied(5.0), override(50.0, before=5.0, applied=5.0), intended(9.0))
    new_plan = plan(wants(9.0), live=9.0, owned=owned)
    assert (only_change(new_plan).cause, only_change(new_plan).after) == (Cause.OVERRIDE, 50.0)
    assert new_plan.bookkeeping == (OverrideWritten(entity=ALICE, key=KEY, value=9.0),)


def test_an_override_changed_by_another_writer_is_drift():
    owned = owns(applied(5.0), override(50.0, before=5.0, applied=50.0))
    finding = only_finding(plan(wants(5.0), live=60.0, owned=owned))
    assert (finding.cause, finding.action, finding.of_override) == (
        Cause.DRIFT,
        Action.REPORT,
        True,
    )
    corrected = plan(wants(5.0), live=60.0, owned=owned, rules=Rules(drift=DriftMode.CORRECT))
    change = only_change(corrected)
    assert (change.cause, change.after, change.keeps_record) == (Cause.DRIFT, 50.0, True)


@pytest.mark.parametrize("policy", list(Policy))
@pytest.mark.parametrize("live", [None, 5.0])
def test_an_override_begins_where_a_document_with_its_value_would_be_written(policy, live):
    owned = owns(override(50.0, before=live, applied=live))
    new_plan = plan(live=live, owned=owned, rules=Rules(policy=policy, sync_confirmed=True))
    if policy in (CREATING if live is None else CHANGING):
        assert only_change(new_plan).after == 50.0
    else:
        assert only_finding(new_plan).cause is Cause.OVERRIDE
        assert new_plan.restricted == new_plan.findings


def test_an_override_is_not_written_outside_the_scope():
    rules = Rules(scope=(EntityPattern(user=NamePattern(exact="bob")),))
    owned = owns(override(50.0, before=5.0, applied=5.0))
    assert only_finding(plan(live=5.0, owned=owned, rules=rules)).cause is Cause.OVERRIDE


def test_an_override_in_force_takes_precedence_over_a_suspended_document():
    owned = owns(applied(5.0), override(50.0, before=5.0, applied=5.0))
    assert only_change(plan(live=5.0, owned=owned, frozen=("team/one",))).cause is Cause.OVERRIDE


def test_an_override_may_remove_a_limit():
    owned = owns(applied(5.0), override(None, before=5.0, applied=5.0))
    change = only_change(plan(wants(5.0), live=5.0, owned=owned))
    assert (change.cause, change.after, change.keeps_record) == (Cause.OVERRIDE, None, True)


@pytest.mark.parametrize("policy", sorted(CREATING))
def test_after_an_override_the_declared_value_is_written(policy):
    owned = owns(applied(5.0), override(50.0, until=OVER, before=5.0, applied=50.0))
    rules = Rules(
        policy=policy, sync_confirmed=True, ignore=(IgnoreRule(entities=EVERYTHING, reason="x"),)
    )
    change = only_change(plan(wants(6.0), live=50.0, owned=owned, rules=rules))
    assert (change.cause, change.after, change.keeps_record) == (Cause.ENDED, 6.0, False)
    # Also where another writer changed the value meanwhile.
    assert only_change(plan(wants(6.0), live=60.0, owned=owned)).after == 6.0


def test_under_observe_the_end_of_an_override_is_reported():
    owned = owns(applied(5.0), override(50.0, until=OVER, before=5.0, applied=50.0))
    observed = plan(wants(5.0), live=50.0, owned=owned, rules=Rules(policy=Policy.OBSERVE))
    assert only_finding(observed).cause is Cause.ENDED
    assert observed.bookkeeping == ()


WITHOUT_DECLARATION = {
    "deleted": ((), (), ()),
    "an orphan": ((), (), (Orphaned(entity=ALICE, key=KEY),)),
    "suspended": ((wants(9.0, suspended=True),), (), ()),
    "invalid or not granted": ((), ("team/one",), ()),
    "declared twice": ((wants(9.0), wants(8.0, document="team/two")), (), ()),
}
"""Why no document says what a limit should be: the documents, the frozen ones, and more records."""


@pytest.mark.parametrize("case", WITHOUT_DECLARATION.values(), ids=WITHOUT_DECLARATION)
@pytest.mark.parametrize(
    "rules", [Rules(policy=policy, sync_confirmed=True) for policy in sorted(CREATING)], ids=str
)
@pytest.mark.parametrize(
    ("record", "value", "before"),
    [((applied(5.0),), 50.0, 5.0), ((applied(5.0),), 50.0, 7.0), ((), 50.0, None), ((), None, 7.0)],
    ids=["applied", "drifted before", "created", "removed"],
)
def test_without_a_declaration_the_value_from_before_an_override_returns_with_its_record(
    record, value, before, rules, case
):
    documents, frozen, marks = case
    ended = override(value, until=OVER, before=before, applied=value)
    owned = owns(*record, *(marks if record else ()), ended)
    new_plan = plan(*documents, live=value, owned=owned, rules=rules, frozen=frozen)
    change = only_change(new_plan)
    assert (change.cause, change.after, change.keeps_record) == (Cause.ENDED, before, True)
    assert new_plan.bookkeeping == ()
    records = ownership_records.results(
        [PairOutcome(change=change, result=Applied(), visibility=PairVisibility.VISIBLE)],
        until=NOW,
    )
    never = owns(*record, *(marks if record else ()))
    assert owned.with_changes(records) == never


def test_no_other_document_decides_what_follows_an_override_of_a_suspended_owner():
    ended = override(50.0, until=OVER, before=5.0, applied=50.0)
    by_another = wants(9.0, document="team/two")
    new_plan = plan(by_another, live=50.0, owned=owns(applied(5.0), ended), frozen=("team/one",))
    assert (only_change(new_plan).after, new_plan.pending) == (5.0, ())


@pytest.mark.parametrize("case", WITHOUT_DECLARATION.values(), ids=WITHOUT_DECLARATION)
def test_the_end_of_an_override_leaves_a_value_that_another_writer_set(case):
    documents, frozen, marks = case
    ended = override(50.0, until=OVER, before=5.0, applied=50.0)
    new_plan = plan(*documents, live=60.0, owned=owns(applied(5.0), *marks, ended), frozen=frozen)
    assert (new_plan.changes, new_plan.findings) == ((), ())
    assert new_plan.bookkeeping == (OverrideEnded(entity=ALICE, key=KEY),)


def test_an_override_that_was_never_written_ends_with_the_value_that_it_replaced():
    """The value of an earlier override is still live."""
    ended = override(60.0, until=OVER, before=7.0, applied=50.0)
    assert only_change(plan(live=50.0, owned=owns(applied(7.0), ended))).after == 7.0
    assert only_change(plan(wants(5.0), live=50.0, owned=owns(applied(7.0), ended))).after == 5.0


def test_the_declared_value_that_is_live_at_the_end_of_an_override_is_recorded():
    ended = override(50.0, until=OVER, before=5.0, applied=50.0)
    over = OverrideEnded(entity=ALICE, key=KEY)
    assert plan(wants(6.0), live=6.0, owned=owns(applied(5.0), ended)).bookkeeping[:1] == (over,)
    for record in ((), (applied(5.0),)):
        bookkeeping = plan(wants(6.0), live=6.0, owned=owns(*record, ended)).bookkeeping
        assert bookkeeping == (over, applied(6.0, replace(ONE, since=1.0 if record else NOW)))
    assert plan(wants(5.0), live=5.0, owned=owns(applied(5.0), ended)).bookkeeping == (over,)


@pytest.mark.parametrize("live", [None, 7.0])
def test_an_override_that_is_over_stays_recorded_while_its_write_may_still_land(live):
    started = intended(50.0, NOBODY, at=NOW - 64.0)
    ended = override(until=NOW - 1.0, before=live, applied=live)
    waiting = plan(live=live, owned=owns(ended, started))
    assert waiting.changes == waiting.bookkeeping == ()
    # It arrives, and is reverted.
    landed = only_change(plan(live=50.0, owned=owns(ended, started)))
    assert (landed.after, landed.cause) == (live, Cause.ENDED)


def test_a_rollback_ends_when_its_document_changes():
    rollback = override(5.0, before=5.0, applied=5.0, declared=50.0, ends_with_document=True)
    owned = owns(applied(5.0), rollback)
    assert only_finding(plan(wants(50.0), live=5.0, owned=owned)).cause is Cause.OVERRIDE
    change = only_change(plan(wants(20.0), live=5.0, owned=owned))
    assert (change.cause, change.after) == (Cause.ENDED, 20.0)


def test_a_rollback_ends_with_its_document_but_not_with_files_that_do_not_include_it():
    rollback = override(5.0, before=5.0, applied=5.0, declared=50.0, ends_with_document=True)
    owned = owns(applied(5.0), rollback)
    assert plan(live=5.0, owned=owned).bookkeeping == (OverrideEnded(entity=ALICE, key=KEY),)
    for rules in (Rules(configured=False), Rules(complete=False)):
        assert only_finding(plan(live=5.0, owned=owned, rules=rules)).cause is Cause.OVERRIDE


def test_what_is_declared_anew_under_an_override_is_pending_against_the_value_from_before():
    without = plan(wants(6.0), live=5.0, owned=owns(applied(5.0)))
    for until in (NOW + 1, OVER):
        owned = owns(applied(5.0), override(50.0, until=until, before=5.0, applied=50.0))
        (pending,) = plan(wants(6.0), live=50.0, owned=owned).pending
        assert (pending.before, pending.after, pending.cause) == (5.0, 6.0, Cause.SPEC)
        assert plan(wants(6.0), live=50.0, owned=owned).reviewed == without.reviewed
        assert plan(wants(5.0), live=50.0, owned=owned).pending == ()
    # What was applied, and drifted before the override, is no news.
    drifted = owns(applied(5.0), override(50.0, before=7.0, applied=50.0))
    assert plan(wants(5.0), live=50.0, owned=drifted).pending == ()


def test_what_a_rollback_took_back_is_not_pending():
    rollback = override(5.0, before=5.0, applied=5.0, declared=50.0, ends_with_document=True)
    owned = owns(applied(5.0), rollback)
    assert plan(wants(50.0), live=5.0, owned=owned).pending == ()
    assert len(plan(wants(20.0), live=5.0, owned=owned).pending) == 1


def test_an_expired_intent_has_no_influence_on_a_live_value():
    over = NOW - SETTLING_SECONDS
    contradicted = owns(intended(5.0, GONE, at=over))
    first = plan(live=3.0, owned=contradicted, rules=SYNC)
    assert (first.changes, only_finding(first).cause) == ((), Cause.UNMANAGED)
    assert first.bookkeeping == (IntentEnded(entity=ALICE, key=KEY),)
    after = contradicted.with_changes(first.bookkeeping)
    equal = plan(live=5.0, owned=after, rules=SYNC)
    assert (equal.changes, only_finding(equal).cause) == ((), Cause.UNMANAGED)


def test_under_observe_an_intent_is_evaluated_and_remains_recorded():
    owned = owns(intended(5.0, GONE, at=NOW - SETTLING_SECONDS))
    new_plan = plan(live=3.0, owned=owned, rules=Rules(policy=Policy.OBSERVE))
    assert (only_finding(new_plan).cause, new_plan.bookkeeping) == (Cause.UNMANAGED, ())


# -- documents with an end ----------------------------------------------------------------------------

RAISE = "team/raise"


def raises(value: float = 50.0, until: float = NOW + 60, **more: object) -> Declaration:
    return wants(value, document=RAISE, line=9, until=until, **more)


def begun(before: float | None = 5.0, declared: float | None = None) -> OverrideSet:
    """The record of a document with an end that was written."""
    settings = {"author": "", "reason": "", "document": RAISE, "declared": declared}
    return override(50.0, NOW + 60, before=before, applied=50.0, **settings)


def over(record: OverrideSet) -> OverrideSet:
    """The record with an end that is over."""
    return OverrideSet(override=replace(record.override, until=NOW))


def test_a_document_with_an_end_is_written_above_the_record_and_reviewed():
    new_plan = plan(wants(5.0), raises(), live=5.0, owned=owns(applied(5.0)))
    change = only_change(new_plan)
    assert (change.cause, change.before, change.after) == (Cause.TEMPORARY, 5.0, 50.0)
    assert change.claim is not None
    assert (change.claim.document, change.claim.place(KEY)) == (RAISE, "a.yaml:9")
    assert new_plan.reviewed == (change,)
    assert change.keeps_record
    assert "team/raise until 1970-01-01 00:17 UTC" in change.note
    (record,) = new_plan.bookkeeping
    assert isinstance(record, OverrideSet)
    assert (record.override.before, record.override.applied) == (5.0, 5.0)


def test_a_document_with_an_end_that_is_live_needs_no_write_and_keeps_its_record():
    owned = owns(applied(5.0), begun(declared=5.0))
    new_plan = plan(wants(5.0), raises(), live=50.0, owned=owned)
    assert only_finding(new_plan).action is Action.NOTHING
    assert new_plan.bookkeeping == ()


def test_a_limit_that_is_live_as_a_document_with_an_end_declares_it_is_recorded_above_the_record():
    new_plan = plan(raises(5.0), live=5.0, owned=owns(applied(5.0)))
    assert [type(record) for record in new_plan.bookkeeping] == [OverrideSet, OverrideWritten]
    assert new_plan.changes == ()


def test_a_changed_document_with_an_end_keeps_the_value_from_before_it():
    owned = owns(applied(5.0), begun())
    new_plan = plan(wants(5.0), raises(70.0), live=50.0, owned=owned)
    assert only_change(new_plan).after == 70.0
    (record,) = new_plan.bookkeeping
    assert isinstance(record, OverrideSet)
    assert (record.override.before, record.override.value) == (5.0, 70.0)


@pytest.mark.parametrize(
    ("documents", "after"),
    [
        ((wants(5.0), raises(until=NOW)), 5.0),
        ((wants(7.0), raises(until=NOW)), 7.0),
        ((raises(until=NOW),), 5.0),
        ((wants(5.0),), 5.0),
    ],
    ids=["over", "declared anew", "undeclared below", "deleted"],
)
def test_at_the_end_of_a_document_the_declared_value_or_the_one_from_before_returns(
    documents, after
):
    is_over = len(documents) == 2 or documents[0].until is not None
    owned = owns(applied(5.0), over(begun()) if is_over else begun())
    change = only_change(plan(*documents, live=50.0, owned=owned))
    assert (change.cause, change.after) == (Cause.ENDED, after)
    assert not change.is_reviewed


def test_the_declared_value_follows_a_temporary_limit_that_another_writer_overwrote():
    owned = owns(applied(5.0), over(begun()))
    assert only_change(plan(wants(5.0), live=9.0, owned=owned)).after == 5.0


def test_a_clock_that_is_behind_does_not_begin_a_document_again_whose_end_was_carried_out():
    owned = owns(applied(5.0), over(begun()))
    ended = plan(wants(5.0), live=50.0, owned=owned)
    owned = owned.with_changes(
        [*ended.bookkeeping, OverrideWritten(entity=ALICE, key=KEY, value=5.0)]
    )
    owned = owned.with_changes([OverrideEnded(entity=ALICE, key=KEY)])
    assert owned.latest_end == NOW
    behind = plan(wants(5.0), raises(until=NOW), live=5.0, owned=owned, now=NOW - 30)
    assert (behind.changes, behind.findings) == ((), ())
    assert only_change(plan(wants(5.0), raises(), live=5.0, owned=owned)).after == 50.0


def test_a_temporary_limit_that_another_writer_overwrote_is_drift_and_keeps_the_value_from_before():
    owned = owns(applied(5.0), begun(declared=5.0))
    new_plan = plan(wants(5.0), raises(), live=9.0, owned=owned)
    finding = only_finding(new_plan)
    assert (finding.cause, finding.of_override, new_plan.bookkeeping) == (Cause.DRIFT, True, ())
    assert finding.desired == 50.0
    later = plan(wants(5.0), raises(until=NOW + 90), live=9.0, owned=owned)
    (record,) = later.bookkeeping
    assert isinstance(record, OverrideSet)
    assert record.override.until == NOW + 90


def test_the_end_of_a_document_is_written_outside_the_scope():
    rules = Rules(scope=(EntityPattern(user=NamePattern(exact="bob")),))
    owned = owns(applied(5.0), over(begun()))
    assert only_change(plan(live=50.0, owned=owned, rules=rules)).after == 5.0


def test_a_document_with_an_end_that_another_writer_overwrote_leaves_nothing_to_undo():
    new_plan = plan(live=9.0, owned=owns(over(begun(before=None))))
    assert new_plan.changes == ()
    assert OverrideEnded(entity=ALICE, key=KEY) in new_plan.bookkeeping


@pytest.mark.parametrize(
    ("documents", "frozen", "rules"),
    [
        ((wants(5.0), raises(suspended=True)), (), Rules()),
        ((wants(5.0),), (RAISE,), Rules()),
        ((wants(5.0),), (), Rules(complete=False)),
        ((wants(5.0),), (), Rules(configured=False)),
        ((wants(5.0), raises(), replace(raises(60.0), document="team/second")), (), Rules()),
    ],
    ids=["suspended", "invalid", "not read", "not among the files", "in conflict"],
)
def test_a_document_with_an_end_that_cannot_be_used_stays_in_force_until_its_end(
    documents, frozen, rules
):
    owned = owns(applied(5.0), begun())
    before_end = plan(*documents, live=50.0, owned=owned, frozen=frozen, rules=rules)
    assert before_end.changes == ()
    owned = owns(applied(5.0), over(begun()))
    ended = plan(*documents[:1], live=50.0, owned=owned, frozen=frozen, rules=rules)
    assert only_change(ended).after == 5.0


def test_the_override_of_a_person_is_above_a_document_with_an_end_which_follows_it():
    by_person = override(80.0, before=5.0, applied=80.0)
    owned = owns(applied(5.0), by_person)
    below = plan(wants(5.0), raises(), live=80.0, owned=owned)
    assert (below.changes, [change.cause for change in below.pending]) == ((), [Cause.TEMPORARY])
    new_plan = plan(wants(5.0), raises(), live=80.0, owned=owns(applied(5.0), over(by_person)))
    change, (pending,) = only_change(new_plan), new_plan.pending
    assert (change.cause, change.after, change.is_reviewed) == (Cause.ENDED, 50.0, False)
    assert (change.keeps_record, change.ends_layer) == (True, False)
    assert (pending.cause, pending.before, pending.after) == (Cause.TEMPORARY, 5.0, 50.0)
    (record,) = new_plan.bookkeeping
    assert isinstance(record, OverrideSet)
    assert record.override.before == 5.0


@pytest.mark.parametrize("live", [80.0, 50.0], ids=["another value", "its value"])
@pytest.mark.parametrize("documents", [(raises(),), (wants(50.0),)], ids=["temporary", "lasting"])
def test_a_refused_value_that_follows_a_temporary_limit_leaves_the_value_from_before(
    documents, live
):
    """Also where the temporary limit had that value, so that nothing would be written."""
    owned = owns(applied(5.0), over(override(live, before=5.0, applied=live)))
    new_plan = plan(*documents, live=live, owned=owned)
    assert len(new_plan.pending) == 1
    permitted = without_refused(new_plan, new_plan.pending, owned, now=NOW)
    (change,) = permitted.changes
    assert (change.cause, change.before, change.after) == (Cause.ENDED, live, 5.0)
    assert (change.claim, change.owner, change.keeps_record) == (None, ONE, True)
    assert (permitted.pending, permitted.bookkeeping, permitted.findings) == ((), (), ())


def test_what_follows_a_temporary_limit_is_expected_where_its_end_is_late():
    owned = owns(applied(5.0), over(override(80.0, before=5.0, applied=80.0)))
    rules = Rules(policy=Policy.OBSERVE)
    new_plan = plan(wants(5.0), raises(), live=80.0, owned=owned, rules=rules)
    (late,) = expired_overrides(new_plan, owned, now=NOW)
    assert (late.expected, late.live) == (50.0, 80.0)


def test_another_end_of_a_document_in_force_is_reviewed():
    owned = owns(applied(5.0), begun())
    new_plan = plan(wants(5.0), raises(until=NOW + 9e6), live=50.0, owned=owned)
    assert new_plan.changes == ()
    (pending,) = new_plan.pending
    assert (pending.cause, pending.before, pending.after) == (Cause.TEMPORARY, 5.0, 50.0)
    assert pending.claim is not None
    assert pending.claim.until == NOW + 9e6
    refused = without_refused(new_plan, [pending], owned, now=NOW)
    assert (refused.changes, refused.bookkeeping) == ((), ())


def test_a_document_with_an_end_does_not_begin_where_a_suspended_one_owns_the_limit():
    owner = wants(5.0, suspended=True)
    finding = only_finding(plan(owner, raises(), live=5.0, owned=owns(applied(5.0))))
    assert finding.cause is Cause.FROZEN
    # One that is in force stays until its end.
    assert plan(owner, raises(), live=50.0, owned=owns(applied(5.0), begun())).changes == ()


def test_a_document_with_an_end_does_not_begin_where_an_ignore_rule_covers_the_limit():
    rules = Rules(ignore=(IgnoreRule(entities=EVERYTHING, reason="agreed"),))
    finding = only_finding(plan(raises(), live=5.0, rules=rules))
    assert (finding.cause, finding.ignored) == (Cause.TEMPORARY, True)


def test_a_document_with_an_end_that_was_never_written_leaves_nothing_behind():
    unwritten = replace(begun().override, applied=5.0)
    owned = owns(applied(5.0), OverrideSet(override=unwritten))
    new_plan = plan(wants(7.0), live=5.0, owned=owned)
    assert (only_change(new_plan).cause, new_plan.pending) == (Cause.SPEC, ())
    assert new_plan.bookkeeping == (OverrideEnded(entity=ALICE, key=KEY),)
    renamed = plan(replace(raises(), document="team/second"), live=5.0, owned=owned)
    assert only_change(renamed).cause is Cause.TEMPORARY
    assert [type(item) for item in renamed.bookkeeping] == [OverrideEnded, OverrideSet]


def test_a_rollback_ends_when_the_document_with_an_end_below_it_changes_or_goes():
    rollback = override(5.0, before=5.0, applied=5.0, declared=90.0, ends_with_document=True)
    owned = owns(applied(5.0), rollback)
    assert plan(wants(5.0), raises(90.0), live=5.0, owned=owned).changes == ()
    assert only_change(plan(wants(5.0), raises(20.0), live=5.0, owned=owned)).after == 20.0
    gone = plan(wants(5.0), live=5.0, owned=owned)
    assert OverrideEnded(entity=ALICE, key=KEY) in gone.bookkeeping


def test_an_orphan_under_a_document_with_an_end_is_an_orphan_again():
    owned = owns(applied(5.0, GONE), Orphaned(entity=ALICE, key=KEY), over(begun()))
    assert only_change(plan(raises(until=NOW), live=50.0, owned=owned)).after == 5.0
    assert owned.orphaned == {PAIR}


def test_an_end_on_five_hundred_lasting_documents_writes_nothing_now_and_asks_for_removals_later():
    """The record keeps its owner, which declares the pair for now only."""
    owned = owns(applied(5.0))
    now = plan(wants(5.0, until=NOW + 60), live=5.0, owned=owned)
    assert now.changes == ()
    records = owned.with_changes(now.bookkeeping)
    lapsed = wants(5.0, until=NOW)
    records = records.with_changes([over(OverrideSet(override=records.overrides[PAIR]))])
    ended = plan(lapsed, live=5.0, owned=records)
    assert ended.changes == ()
    removal = only_change(plan(lapsed, live=5.0, owned=records.with_changes(ended.bookkeeping)))
    assert (removal.cause, removal.is_reviewed) == (Cause.PRUNE, True)


@pytest.mark.parametrize("policy", list(Policy))
@pytest.mark.parametrize("live", [None, 5.0])
def test_a_document_with_an_end_begins_where_another_one_would_be_written(policy, live):
    rules = Rules(policy=policy, sync_confirmed=True)
    begins = bool(plan(raises(), live=live, rules=rules).changes)
    lasting = plan(wants(50.0), live=live, rules=rules)
    assert begins == bool(lasting.changes)


def test_documents_with_an_end_of_two_tenants_and_two_of_one_are_in_conflict():
    lasting, above = wants(5.0, tenant="a"), raises(tenant="a")
    assert merge([lasting, above]).conflicts == ()
    assert merge([replace(lasting, tenant="b"), above]).conflicts
    assert merge([above, replace(above, document="team/second")]).conflicts
    assert not merge([replace(lasting, tenant="b"), above], now=NOW + 60).conflicts


@pytest.mark.parametrize(
    ("owner", "rules", "is_removed"),
    [
        (Owner(document="team/one", deletion_policy=DeletionPolicy.DELETE), SYNC, True),
        (Owner(document="team/one", deletion_policy=DeletionPolicy.RETAIN), SYNC, False),
        (Owner(document="team/one"), SYNC, True),
        (Owner(document="team/one"), Rules(policy=Policy.UPSERT), False),
        (Owner(document="team/one"), Rules(policy=Policy.CREATE_ONLY), False),
        (Owner(document="team/one"), replace(SYNC, complete=False), False),
    ],
)
def test_force_is_named_only_where_it_removes_what_another_writer_changed(owner, rules, is_removed):
    owned = owns(applied(5.0, owner))
    finding = only_finding(plan(live=6.0, owned=owned, rules=rules))
    assert (finding.cause, finding.note == NOTE_FORCED) == (Cause.CHANGED_BY_ANOTHER, is_removed)
    forced = plan(live=6.0, owned=owned, rules=replace(rules, force=True))
    assert bool(forced.changes) == is_removed


def test_what_an_end_writes_with_this_plan_is_pending_and_not_delayed():
    approved = QuotaChange(entity=ALICE, key=KEY, before=1.0, after=5.0, cause=Cause.SPEC)
    later = replace(approved, key=OTHER_KEY, after=7.0)
    ended = replace(approved, before=9.0, cause=Cause.ENDED)
    new_plan = Plan(cluster_id="c", changes=(ended,), pending=(approved, later))
    assert (new_plan.reviewed, new_plan.delayed) == ((approved, later), (later,))
    assert (ended.document, ended.namespace) == ("", "")


def test_a_change_belongs_to_the_document_that_declares_it_or_else_to_its_owner():
    declared = QuotaChange(
        entity=ALICE, key=KEY, before=1.0, after=5.0, cause=Cause.SPEC, claim=wants(5.0), owner=GONE
    )
    assert (declared.document, declared.namespace) == ("team/one", "team")
    removed = replace(declared, after=None, claim=None)
    assert (removed.document, removed.namespace) == ("team/gone", "team")
