"""Single pairs in the comparison: crashes, orphans, frozen and contested pairs, ignore rules, overrides."""

from dataclasses import replace

import pytest

from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from reconciler.quota.outcome import Applied
from reconciler.quota.ownership import (
    SETTLING_SECONDS,
    DriftObserved,
    Intent,
    IntentEnded,
    IntentStarted,
    Orphaned,
    Override,
    OverrideEnded,
    OverrideSet,
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
    NOTE_INCOMPLETE,
    NOTE_NOT_READ,
    NOTE_PRUNED_NEXT,
    NOTE_UNSETTLED,
    compare,
)
from reconciler.quota.planner.desired_state import Declaration, merge
from reconciler.quota.planner.plan import Finding, Plan, QuotaChange
from reconciler.quota.policy import (
    Action,
    Cause,
    DeletionPolicy,
    DriftMode,
    IgnoreRule,
    Policy,
    Rules,
)
from reconciler.quota.results.report import PairOutcome, PairVisibility
from reconciler.quota.state import QuotaState, limits_of
from reconciler.reconcile import ownership_records

ALICE, KEY, OTHER_KEY = entity(user="alice"), Key.PRODUCER_BYTE_RATE, Key.CONSUMER_BYTE_RATE
PAIR = (ALICE, KEY)
ONE = Owner(document="team/one", since=1.0)
GONE = Owner(document="team/gone", since=1.0)
NOW = 1_000.0
SYNC = Rules(policy=Policy.SYNC, sync_confirmed=True)
EXCLUSIVE = replace(SYNC, exclusive=True, scope=(EVERYTHING,))


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
) -> Plan:
    return compare(
        desired=merge(documents, frozen=frozen),
        owned=owned or owns(),
        live=has(live),
        rules=rules or Rules(),
        now=NOW,
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
    [
        wants(5.0, document="team/renamed"),
        wants(5.0, deletion_policy=DeletionPolicy.DELETE),
    ],
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


@pytest.mark.parametrize("rules", [Rules(), SYNC, EXCLUSIVE])
def test_a_pair_with_an_abandoned_removal_remains(rules):
    owner = replace(GONE, deletion_policy=DeletionPolicy.DELETE)
    owned = owns(applied(5.0, owner), Orphaned(entity=ALICE, key=KEY))
    assert only_finding(plan(live=5.0, owned=owned, rules=rules)).action is Action.ORPHAN


def test_an_orphan_that_is_declared_again_is_owned_again():
    new_plan = plan(wants(5.0), live=5.0, owned=owns(applied(5.0), Orphaned(entity=ALICE, key=KEY)))
    assert new_plan.bookkeeping == (applied(5.0),)


# -- frozen and contested pairs -----------------------------------------------------------------------


@pytest.mark.parametrize("live", [None, 1.0, 5.0, 9.0])
@pytest.mark.parametrize("rules", [EXCLUSIVE, replace(EXCLUSIVE, force=True)])
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
    new_plan = plan(*documents, live=5.0, owned=owned, rules=replace(EXCLUSIVE, force=True))
    assert (only_finding(new_plan).cause, only_finding(new_plan).note) == (
        Cause.FROZEN,
        NOTE_CONTESTED,
    )
    assert len(new_plan.conflicts) == 1
    assert plan(*documents, rules=EXCLUSIVE).findings == ()


# -- kept values --------------------------------------------------------------------------------------


def test_without_a_complete_listing_nothing_is_removed_and_the_note_gives_the_reason():
    partial = replace(EXCLUSIVE, complete=False)
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


def test_exclusive_removes_unmanaged_pairs_in_scope_only_and_never_orphans():
    assert only_change(plan(live=5.0, rules=EXCLUSIVE)).cause is Cause.UNMANAGED
    elsewhere = replace(EXCLUSIVE, scope=(EntityPattern(user=NamePattern(exact="bob")),))
    new_plan = plan(live=5.0, rules=elsewhere)
    assert (new_plan.unmanaged, new_plan.changes) == (new_plan.findings, ())
    retained = Owner(document="team/gone", deletion_policy=DeletionPolicy.RETAIN)
    orphan = plan(live=5.0, owned=owns(applied(5.0, retained)), rules=EXCLUSIVE)
    assert orphan.orphans == orphan.findings


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
    assert (new_plan.ignored, new_plan.restricted, new_plan.drift) == (new_plan.findings, (), ())
    expired = replace(rule, until=NOW)
    assert only_change(plan(wants(5.0), live=7.0, rules=Rules(ignore=(expired,)))).after == 5.0


def test_ignored_drift_is_not_reported_as_drift():
    rules = Rules(ignore=(IgnoreRule(entities=EVERYTHING, reason="migration"),))
    new_plan = plan(wants(5.0), live=6.0, owned=owns(applied(5.0)), rules=rules)
    assert (new_plan.drift, new_plan.ignored) == ((), new_plan.findings)


def test_an_ignored_pair_is_still_adopted():
    rules = Rules(ignore=(IgnoreRule(entities=EVERYTHING, reason="migration"),))
    assert len(plan(wants(5.0), live=5.0, rules=rules).bookkeeping) == 1


# -- overrides ----------------------------------------------------------------------------------------


def test_an_override_replaces_the_declared_value_and_shows_both():
    new_plan = plan(wants(5.0), live=5.0, owned=owns(applied(5.0), override(50.0)))
    change = only_change(new_plan)
    assert (change.cause, change.after, change.note) == (
        Cause.OVERRIDE,
        50.0,
        "override by eve: incident",
    )
    assert change.claim is not None
    assert change.claim.limits[0] == 5.0
    assert change.owner == ONE


def test_a_live_override_is_listed_without_a_change():
    new_plan = plan(wants(5.0), live=50.0, owned=owns(applied(50.0), override(50.0)))
    finding = only_finding(new_plan)
    assert (finding.cause, finding.action, finding.desired) == (Cause.OVERRIDE, Action.NOTHING, 5.0)
    assert (new_plan.bookkeeping, new_plan.restricted) == ((), ())


def test_an_override_that_landed_before_a_crash_is_recorded():
    new_plan = plan(wants(5.0), live=50.0, owned=owns(applied(5.0), intended(50.0), override(50.0)))
    assert new_plan.bookkeeping == (applied(50.0),)
    unnoticed = plan(wants(5.0), live=50.0, owned=owns(applied(5.0), override(50.0)))
    assert unnoticed.bookkeeping == (applied(50.0),)
    removed = plan(wants(5.0), owned=owns(applied(5.0), intended(None), override(None)))
    assert removed.bookkeeping == (RecordDropped(entity=ALICE, key=KEY),)
    late = owns(applied(5.0), intended(9.0, at=NOW), override(50.0))
    assert plan(wants(5.0), live=50.0, owned=late).bookkeeping == ()


def test_an_override_changed_by_another_writer_is_drift():
    owned = owns(applied(50.0), override(50.0))
    new_plan = plan(wants(5.0), live=60.0, owned=owned)
    assert (only_finding(new_plan).cause, only_finding(new_plan).action) == (
        Cause.DRIFT,
        Action.REPORT,
    )
    corrected = plan(wants(5.0), live=60.0, owned=owned, rules=Rules(drift=DriftMode.CORRECT))
    assert (only_change(corrected).cause, only_change(corrected).after) == (Cause.DRIFT, 50.0)


def test_an_override_is_written_under_every_policy_but_observe():
    owned = owns(applied(5.0), override(50.0))
    for policy in Policy:
        new_plan = plan(wants(5.0), live=5.0, owned=owned, rules=Rules(policy=policy))
        if policy is Policy.OBSERVE:
            assert (only_finding(new_plan).cause, new_plan.restricted) == (
                Cause.OVERRIDE,
                new_plan.findings,
            )
        else:
            assert only_change(new_plan).after == 50.0


def test_an_override_in_force_takes_precedence_over_a_suspended_document():
    new_plan = plan(live=5.0, owned=owns(applied(5.0), override(50.0)), frozen=("team/one",))
    assert only_change(new_plan).cause is Cause.OVERRIDE


def test_an_override_may_remove_a_limit():
    new_plan = plan(wants(5.0), live=5.0, owned=owns(applied(5.0), override(None)))
    assert (only_change(new_plan).cause, only_change(new_plan).after) == (Cause.OVERRIDE, None)


def test_after_an_override_the_declared_value_is_written():
    owned = owns(applied(50.0), override(50.0, until=NOW))
    change = only_change(plan(wants(5.0), live=50.0, owned=owned))
    assert (change.cause, change.after) == (Cause.OVERRIDE_EXPIRED, 5.0)
    observed = plan(wants(5.0), live=50.0, owned=owned, rules=Rules(policy=Policy.OBSERVE))
    assert only_finding(observed).cause is Cause.OVERRIDE_EXPIRED
    assert observed.bookkeeping == ()


@pytest.mark.parametrize(
    ("owner", "before_owner", "kept_owner"),
    [
        (ONE, ONE, ONE),
        (ONE, None, None),
        (Owner(document=""), ONE, ONE),
        (Owner(document="team/two"), ONE, Owner(document="team/two")),
    ],
)
@pytest.mark.parametrize("declared", [7.0, 5.0, None])
def test_a_retained_limit_keeps_its_owner_when_an_override_ends(
    owner, declared, before_owner, kept_owner
):
    """A document that is deleted during an override leaves a limit that is recorded as its own, as without it."""
    before = 7.0
    ended = override(50.0, until=NOW, before=before, declared=declared, before_owner=before_owner)
    change = only_change(plan(live=50.0, owned=owns(applied(50.0, owner), ended)))
    assert (change.cause, change.after) == (Cause.OVERRIDE_EXPIRED, before)
    assert (change.owner if change.keeps_owner else None) == kept_owner


@pytest.mark.parametrize(
    ("value", "before", "before_owner"),
    [(50.0, 5.0, ONE), (50.0, 7.0, None), (50.0, None, None), (None, 5.0, ONE)],
)
def test_an_override_of_a_frozen_document_ends_with_the_value_that_it_replaced(
    value, before, before_owner
):
    """A namespace could keep a raised limit for good, by a document that is suspended or exceeds its grant."""
    record = () if value is None else (applied(value),)
    ended = override(value, until=NOW, before=before, declared=5.0, before_owner=before_owner)
    suspended = wants(9.0, suspended=True)
    new_plan = plan(suspended, live=value, owned=owns(*record, ended))
    change = only_change(new_plan)
    assert (change.cause, change.after) == (Cause.OVERRIDE_EXPIRED, before)
    assert (change.keeps_owner, new_plan.bookkeeping) == (before_owner is not None, ())
    observe = Rules(policy=Policy.OBSERVE)
    observed = plan(suspended, live=value, owned=owns(*record, ended), rules=observe)
    assert only_finding(observed).cause is Cause.OVERRIDE_EXPIRED


@pytest.mark.parametrize(
    ("live", "ended"),
    [
        (60.0, override(50.0, until=NOW, before=5.0)),  # another writer changed it
        (50.0, override(50.0, until=NOW, before=50.0)),
        (50.0, override(50.0, until=NOW, before=5.0, ends_with_document=True)),
        (60.0, override(60.0, until=NOW, before=5.0)),  # of another writer: it was never applied
    ],
)
def test_a_frozen_pair_without_the_value_of_an_override_stays_as_it_is(live, ended):
    new_plan = plan(live=live, owned=owns(applied(50.0), ended), frozen=("team/one",))
    assert (only_finding(new_plan).cause, new_plan.bookkeeping) == (Cause.FROZEN, ())


def test_a_value_restored_over_a_frozen_document_without_a_recorded_result_is_not_owned():
    ended = override(50.0, until=NOW, before=7.0, declared=5.0)
    restored = intended(7.0, Owner(document=""), at=NOW)
    suspended = wants(9.0, suspended=True)
    new_plan = plan(suspended, live=7.0, owned=owns(applied(50.0), ended, restored))
    assert new_plan.changes == ()
    owned = owns(applied(50.0), ended, restored).with_changes(new_plan.bookkeeping)
    assert (owned.records, owned.intents, owned.overrides) == ({}, {}, {})


def test_an_expired_override_of_an_undeclared_pair_restores_the_earlier_value():
    alone = Owner(document="")
    owned = owns(applied(50.0, alone), override(50.0, until=NOW, before=7.0))
    change = only_change(plan(live=50.0, owned=owned, rules=EXCLUSIVE))
    assert (change.cause, change.after) == (Cause.OVERRIDE_EXPIRED, 7.0)
    nothing = owns(applied(50.0, alone), override(50.0, until=NOW, before=None))
    assert only_change(plan(live=50.0, owned=nothing)).after is None


@pytest.mark.parametrize("deletion_policy", [None, *DeletionPolicy])
@pytest.mark.parametrize("policy", [Policy.CREATE_ONLY, Policy.UPSERT, Policy.SYNC])
@pytest.mark.parametrize("exists", [False, True])
@pytest.mark.parametrize(
    ("before", "is_owned"), [(7.0, True), (7.0, False), (None, False)], ids=str
)
def test_an_expired_override_of_a_limit_that_is_not_declared_restores_what_it_replaced(
    deletion_policy, policy, exists, before, is_owned
):
    """Its removal is that of the next run, as without the override: what holds a removal keeps no override."""
    owner = Owner(document="team/one", deletion_policy=deletion_policy)
    ended = override(50.0, until=NOW, before=before, before_owner=owner if is_owned else None)
    owned = owns(applied(50.0, owner), ended)
    documents = (replace(wants(5.0), limits=limits_of({OTHER_KEY: 5.0})),) if exists else ()
    rules = Rules(policy=policy, sync_confirmed=True)
    new_plan = plan(*documents, live=50.0, owned=owned, rules=rules)
    change = next(change for change in new_plan.changes if change.key is KEY)
    assert (change.cause, change.after) == (Cause.OVERRIDE_EXPIRED, before)
    assert new_plan.bookkeeping == ()
    records = ownership_records.results(
        [PairOutcome(change=change, result=Applied(), visibility=PairVisibility.VISIBLE)], now=NOW
    )
    after = owned.with_changes(records)
    assert after.overrides == {}
    never = owns(applied(before, owner)) if is_owned else owns()
    assert after.records.keys() == never.records.keys()
    next_plan, expected = (
        plan(*documents, live=before, owned=records_now, rules=rules)
        for records_now in (after, never)
    )
    assert next_plan.changes == expected.changes
    assert next_plan.findings == expected.findings
    assert bool(change.note) == any(later.cause is Cause.PRUNE for later in next_plan.changes)


def test_the_end_of_an_override_announces_no_removal_that_an_ignore_rule_prevents():
    owner = replace(GONE, deletion_policy=DeletionPolicy.DELETE)
    owned = owns(applied(50.0, owner), override(50.0, until=NOW, before=7.0, before_owner=owner))
    rule = IgnoreRule(entities=EVERYTHING, reason="migration")
    assert only_change(plan(live=50.0, owned=owned)).note == NOTE_PRUNED_NEXT
    assert only_change(plan(live=50.0, owned=owned, rules=Rules(ignore=(rule,)))).note == ""


def test_a_limit_that_a_chain_of_overrides_replaced_and_set_again_has_its_owner_again():
    alone = Owner(document="")
    ended = override(7.0, until=NOW, before=7.0, before_owner=GONE)
    restored = plan(live=7.0, owned=owns(applied(7.0, alone), ended))
    assert restored.bookkeeping[1:] == (applied(7.0, GONE),)
    changed = plan(live=7.0, owned=owns(applied(9.0, alone), ended))
    assert changed.bookkeeping[1:] == (RecordDropped(entity=ALICE, key=KEY),)


def test_an_override_equal_to_the_value_of_another_writer_does_not_make_it_owned():
    begun = plan(
        live=60.0, owned=owns(applied(50.0, GONE), override(60.0, before=60.0)), rules=SYNC
    )
    assert (begun.changes, begun.bookkeeping) == ((), ())
    over = owns(applied(50.0, GONE), override(60.0, until=NOW, before=60.0))
    ended = plan(live=60.0, owned=over, rules=SYNC)
    assert only_finding(ended).cause is Cause.CHANGED_BY_ANOTHER
    assert ended.bookkeeping == (OverrideEnded(entity=ALICE, key=KEY),)


def test_an_expired_override_with_a_foreign_value_ends_without_a_write():
    owned = owns(applied(50.0), override(50.0, until=NOW))
    new_plan = plan(wants(5.0), live=60.0, owned=owned)
    assert only_change(new_plan).cause is Cause.SPEC_OVER_DRIFT
    assert new_plan.bookkeeping == (OverrideEnded(entity=ALICE, key=KEY),)
    alone = owns(applied(50.0, Owner(document="")), override(50.0, until=NOW))
    freed = plan(live=60.0, owned=alone)
    assert (freed.changes, freed.findings) == ((), ())
    assert freed.bookkeeping == (
        OverrideEnded(entity=ALICE, key=KEY),
        RecordDropped(entity=ALICE, key=KEY),
    )
    never = plan(owned=owns(override(50.0, until=NOW)))
    assert never.bookkeeping == (OverrideEnded(entity=ALICE, key=KEY),)


@pytest.mark.parametrize(
    ("documents", "owner", "frozen"),
    [
        ((), Owner(document=""), ()),
        ((), GONE, ()),
        ((), ONE, ("team/one",)),
        ((wants(9.0, suspended=True),), ONE, ()),
    ],
    ids=["no document", "deleted", "unreadable", "suspended"],
)
@pytest.mark.parametrize("before", [None, 7.0])
@pytest.mark.parametrize("is_rollback", [False, True])
def test_an_expired_override_that_was_never_written_reverts_the_override_that_it_replaced(
    before, is_rollback, documents, owner, frozen
):
    never_written = override(
        60.0,
        until=NOW,
        before=before,
        ends_with_document=is_rollback,
        earlier_values=(None, 50.0),
    )
    owned = owns(applied(50.0, owner), never_written)
    change = only_change(plan(*documents, live=50.0, owned=owned, frozen=frozen))
    assert (change.cause, change.before, change.after) == (Cause.OVERRIDE_EXPIRED, 50.0, before)
    # The same value of another writer stays.
    owned = owns(applied(40.0, owner), never_written)
    assert plan(*documents, live=50.0, owned=owned, frozen=frozen).changes == ()


def test_the_declared_value_follows_a_chain_of_overrides_whose_last_was_never_written():
    chain = override(60.0, until=NOW, before=7.0, earlier_values=(50.0,))
    change = only_change(plan(wants(5.0), live=50.0, owned=owns(applied(50.0), chain)))
    assert (change.cause, change.after) == (Cause.OVERRIDE_EXPIRED, 5.0)
    changed = only_change(plan(wants(5.0), live=50.0, owned=owns(applied(60.0), chain)))
    assert changed.cause is Cause.SPEC_OVER_DRIFT


@pytest.mark.parametrize("live", [None, 7.0])
def test_an_expired_override_stays_recorded_while_its_write_may_still_land(live):
    started = intended(50.0, Owner(document=""), at=NOW - 64.0)
    expired = override(until=NOW - 1.0, before=live)
    waiting = plan(live=live, owned=owns(expired, started))
    assert waiting.changes == waiting.bookkeeping == ()
    # It arrives, and is reverted.
    landed = only_change(plan(live=50.0, owned=owns(expired, started)))
    assert (landed.after, landed.cause) == (live, Cause.OVERRIDE_EXPIRED)


def test_an_expired_override_that_was_never_applied_keeps_an_equal_value_of_another_writer():
    owned = owns(override(50.0, until=NOW, before=None))
    new_plan = plan(live=50.0, owned=owned, rules=SYNC)
    assert (new_plan.changes, only_finding(new_plan).cause) == ((), Cause.UNMANAGED)
    assert new_plan.bookkeeping == (OverrideEnded(entity=ALICE, key=KEY),)
    taken_away = owns(override(None, until=NOW, before=7.0))
    assert only_change(plan(owned=taken_away)).after == 7.0


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


def test_a_pair_that_only_an_override_set_is_never_pruned():
    new_plan = plan(live=50.0, owned=owns(applied(50.0, Owner(document=""))), rules=SYNC)
    assert only_finding(new_plan).action is Action.ORPHAN


def test_a_new_override_of_an_unowned_pair_is_owned_by_the_override_alone():
    change = only_change(plan(live=5.0, owned=owns(override(50.0))))
    assert change.owner == Owner(document="", since=NOW)


def test_a_rollback_ends_when_its_document_changes():
    owned = owns(applied(5.0), override(5.0, declared=50.0, ends_with_document=True))
    rollback_plan = plan(wants(50.0), live=5.0, owned=owned)
    assert only_finding(rollback_plan).cause is Cause.OVERRIDE
    changed = plan(wants(20.0), live=5.0, owned=owned)
    assert (only_change(changed).cause, only_change(changed).after) == (
        Cause.OVERRIDE_EXPIRED,
        20.0,
    )


def test_a_rollback_of_a_deleted_document_keeps_its_value():
    owned = owns(
        applied(5.0, GONE), override(5.0, declared=50.0, before=50.0, ends_with_document=True)
    )
    new_plan = plan(live=5.0, owned=owned)
    assert only_finding(new_plan).action is Action.ORPHAN
    assert OverrideEnded(entity=ALICE, key=KEY) in new_plan.bookkeeping
