"""The safety law: with rejected, unknown or late results, no client ever has a limit that is in no plan.

In every state of the log each limit is its value from before the plan or from after it. The law itself is
tested too: a plan exists that detects a schedule with swapped phases, and one for each dropped rule about waiting.
"""

import itertools
from collections.abc import Callable, Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.quota.entity import ABSENT, DEFAULT, Entity, entity
from reconciler.quota.keys import Key
from reconciler.quota.ownership import Pair
from reconciler.quota.planner import send_order
from reconciler.quota.planner.plan import QuotaChange
from reconciler.quota.planner.send_order import SendBatch, SendSchedule
from reconciler.quota.policy import Cause
from reconciler.quota.state import Applied, Held, QuotaState
from tests.hypothesis_profiles import count_examples
from tests.quota.log_model import (
    ALL_WELL,
    CHANCES,
    FATES,
    PLANS,
    REFUSED,
    SEATS,
    Chances,
    as_ends,
    breaches,
    changes_between,
    drive,
    ends_of,
    is_harmless,
    split,
    with_distinct_values,
)

RATE = Key.PRODUCER_BYTE_RATE


@settings(max_examples=count_examples(400))
@given(PLANS, CHANCES)
def test_in_every_state_of_the_log_each_limit_has_its_value_from_before_or_after(plan, chances):
    changes = changes_between(*plan)
    log, _ = drive(plan[0], changes, chances)
    assert breaches(changes, log) == []


@given(PLANS)
def test_without_failures_nothing_is_held_and_the_target_is_reached(plan):
    before, after = plan
    log, results = drive(before, changes_between(before, after))
    assert {type(result) for result in results.values()} <= {Applied}
    assert log.states[-1] == {(subject, key): value for subject, key, value in after.pairs()}


@given(PLANS, CHANCES, st.randoms())
def test_every_change_has_exactly_one_result(plan, chances, random):
    changes = as_ends(changes_between(*plan), random)
    _, results = drive(plan[0], changes, chances)
    assert set(results) == {(change.entity, change.key) for change in changes}


# -- progress -----------------------------------------------------------------------------------------

REFUSALS = st.lists(st.sampled_from(("applied", "rejected")), max_size=16)
PLANS_OF_CLIENTS = PLANS.map(lambda plan: with_distinct_values(*map(without_empty_names, plan)))


def without_empty_names(state: QuotaState) -> QuotaState:
    """Entities with an empty name apply to no client, so no limit tells whether they had to wait."""
    return QuotaState(limits={name: row for name, row in state.limits.items() if "" not in name})


@settings(max_examples=count_examples(600))
@given(PLANS_OF_CLIENTS, REFUSALS, st.randoms())
def test_whatever_is_withheld_or_rejected_all_is_sent_that_breaks_no_limit(plan, fates, random):
    before, after = plan
    changes = changes_between(before, after)
    withheld = [change for change in changes if random.random() < 0.3]
    sent = [change for change in changes if change not in withheld]
    log, _ = drive(before, sent, Chances(fates), withheld=withheld)
    assert [
        waiting
        for waiting, values in log.held_states
        if is_harmless(waiting, values, before, after)
    ] == []
    assert breaches(changes, log) == []


def test_a_refused_default_holds_no_closer_limit():
    """A guard that protects defaults may refuse one for years."""
    before, after = having({USER: 5.0}), having({USER: 6.0, EVERY_USER: 1.0})
    changes = changes_between(before, after)
    withheld = [change for change in changes if change.entity == EVERY_USER]
    sent = [change for change in changes if change.entity == USER]
    assert drive(before, sent, withheld=withheld)[1] == {(USER, RATE): Applied()}


def test_a_held_key_holds_no_other_key_of_its_entity():
    other_key = Key.CONSUMER_BYTE_RATE
    changes = [
        QuotaChange(entity=PAIR, key=RATE, before=None, after=3.0, cause=Cause.SPEC),
        QuotaChange(entity=USER, key=RATE, before=None, after=4.0, cause=Cause.SPEC),
        QuotaChange(entity=USER, key=other_key, before=None, after=4.0, cause=Cause.SPEC),
    ]
    _, results = drive(having({}), changes, Chances(["rejected"]))
    assert results[USER, RATE] == Held(waits_for=(PAIR,))
    assert results[USER, other_key] == Applied()


# -- ends of overrides ------------------------------------------------------------------------------


@settings(max_examples=count_examples(400))
@given(PLANS, CHANCES, st.randoms())
def test_a_limit_is_at_most_besides_the_one_that_the_ends_of_overrides_alone_give(
    plan, chances, random
):
    changes = as_ends(changes_between(*plan), random)
    log, _ = drive(plan[0], changes, chances)
    assert breaches(changes, log, ends=ends_of(changes)) == []


@settings(max_examples=count_examples(400))
@given(PLANS, CHANCES, st.randoms())
def test_only_clients_of_an_end_and_of_another_change_that_did_not_succeed_meet_a_third_limit(
    plan, chances, random
):
    changes = as_ends(changes_between(*plan), random)
    log, results = drive(plan[0], changes, chances)
    for client, key, _ in breaches(changes, log):
        matching = [
            change for change in changes if change.key is key and change.entity in SEATS[client]
        ]
        undone = [change for change in matching if not isinstance(results[change.pair], Applied)]
        assert ends_of(matching)
        assert len(ends_of(undone)) < len(undone)


def test_a_refused_closer_limit_leaves_its_clients_the_declared_limit_that_ends_an_override():
    """The end waits for no declaration; until the closer limit is written, these clients have what their user has."""
    before, after = having({USER: 50.0}), having({USER: 20.0, PAIR: 3.0})
    changes = tuple(
        replace(change, cause=Cause.ENDED) if change.entity == USER else change
        for change in changes_between(before, after)
    )
    log, results = drive(before, changes, Chances(["rejected"]))
    assert results[USER, RATE] == Applied()
    assert {value for *_, value in breaches(changes, log)} == {20.0}
    assert breaches(changes, drive(before, changes)[0]) == []


def test_a_limit_that_the_end_of_an_override_removes_hides_no_refused_limit():
    """Its removal does not wait, so a wider limit that is not hidden any more would apply."""
    app = entity(client_id="app")
    before, after = having({PAIR: 1.0}), having({USER: 4.0, app: 2.0})
    changes = tuple(
        replace(change, cause=Cause.ENDED) if change.removes else change
        for change in changes_between(before, after)
    )
    log, results = drive(before, changes, Chances(["rejected"]))
    assert results[app, RATE] == Held(waits_for=(USER,))
    assert breaches(changes, log, ends=ends_of(changes)) == []


@given(PLANS, st.randoms())
def test_if_all_succeeds_ends_of_overrides_keep_the_order_of_all_changes(plan, random):
    changes = as_ends(changes_between(*plan), random)
    log, results = drive(plan[0], changes)
    assert {type(result) for result in results.values()} <= {Applied}
    assert breaches(changes, log) == []


@settings(max_examples=count_examples(200))
@given(PLANS, st.randoms())
def test_no_refused_change_holds_the_end_of_an_override(plan, random):
    """The author of a refused limit would otherwise decide when an override ends."""
    changes = as_ends(changes_between(*plan), random)
    withheld = [
        change for change in changes if change.cause is not Cause.ENDED and random.random() < 0.3
    ]
    schedule = SendSchedule([c for c in changes if c not in withheld], live=plan[0])
    for change in withheld:
        schedule.withhold(change)
    for batch in schedule.batches:
        schedule.mark_visible()
        waiting, free = split(batch, schedule.find_held(batch))
        assert not (batch.ends_overrides and waiting)
        for alteration, result in waiting:
            schedule.settle(alteration, result)
        for alteration in free:
            is_refused = not batch.ends_overrides and random.random() < 0.3
            schedule.settle(alteration, REFUSED if is_refused else Applied())


@given(PLANS, CHANCES)
def test_from_every_state_of_an_interrupted_run_the_next_run_reaches_the_target_within_the_law(
    plan, chances
):
    before, after = plan
    log, _ = drive(before, changes_between(before, after), chances)
    stopped = before.with_values(
        (change.entity, change.key, log.states[-1].get(change.pair))
        for change in changes_between(before, after)
    )
    remaining_changes = changes_between(stopped, after)
    again, _ = drive(stopped, remaining_changes)
    assert again.states[-1] == {(subject, key): value for subject, key, value in after.pairs()}
    assert breaches(remaining_changes, again) == []


# -- tests of the law itself ------------------------------------------------------------------------

PAIR = entity(user="alice", client_id="app")
USER = entity(user="alice")
EVERY_USER = entity(user=DEFAULT)


def having(values: Mapping[Entity, float]) -> QuotaState:
    return QuotaState(
        limits={subject: (value, None, None, None, None) for subject, value in values.items()}
    )


NEW_USER_RULE = (having({USER: 1.0}), having({EVERY_USER: 2.0}))
CLOSER_AND_CLOSER = (having({EVERY_USER: 1.0}), having({EVERY_USER: 1.0, USER: 2.0, PAIR: 3.0}))
WIDER_AND_WIDER = (having({EVERY_USER: 1.0, USER: 2.0, PAIR: 3.0}), having({EVERY_USER: 1.0}))


def in_order(turn: Callable[[SendBatch], tuple[bool, int]]) -> Callable[..., tuple[SendBatch, ...]]:
    original = send_order.batches
    return lambda changes: tuple(sorted(original(changes), key=turn))


@pytest.mark.parametrize(
    ("turn", "plan"),
    [
        pytest.param(
            lambda batch: (not batch.removes, batch.level), NEW_USER_RULE, id="removals first"
        ),
        pytest.param(
            lambda batch: (batch.removes, -batch.level), CLOSER_AND_CLOSER, id="widest set first"
        ),
        pytest.param(
            lambda batch: (batch.removes, batch.level), WIDER_AND_WIDER, id="closest removal first"
        ),
    ],
)
def test_another_order_breaks_the_law_without_any_failure(monkeypatch, turn, plan):
    changes = changes_between(*plan)
    assert breaches(changes, drive(plan[0], changes)[0]) == []
    monkeypatch.setattr(send_order, "batches", in_order(turn))
    assert breaches(changes, drive(plan[0], changes)[0]) != []


class HoldsNoSets(SendSchedule):
    def find_held(self, batch: SendBatch) -> Mapping[Pair, tuple[Entity, ...]]:
        return super().find_held(batch) if batch.removes else {}


class HoldsNoRemovals(SendSchedule):
    def find_held(self, batch: SendBatch) -> Mapping[Pair, tuple[Entity, ...]]:
        return {} if batch.removes else super().find_held(batch)


@pytest.mark.parametrize(
    ("careless", "plan"),
    [
        pytest.param(HoldsNoSets, CLOSER_AND_CLOSER, id="a set that does not wait"),
        pytest.param(HoldsNoRemovals, NEW_USER_RULE, id="a removal that does not wait for a set"),
        pytest.param(
            HoldsNoRemovals, WIDER_AND_WIDER, id="a removal that does not wait for a removal"
        ),
    ],
)
def test_without_waiting_the_law_is_broken(careless, plan):
    changes = changes_between(*plan)

    def broken(schedule: Callable[..., SendSchedule]) -> bool:
        return any(
            breaches(changes, drive(plan[0], changes, Chances(fates), schedule=schedule)[0])
            for fates in itertools.product(FATES, repeat=len(changes))
        )

    assert broken(careless)
    assert not broken(SendSchedule)


# -- dependencies -----------------------------------------------------------------------------------


def test_a_waiting_change_names_the_changes_that_it_waits_for():
    changes = changes_between(*CLOSER_AND_CLOSER)
    _, results = drive(CLOSER_AND_CLOSER[0], changes, Chances(["rejected"]))
    assert results[USER, RATE] == Held(waits_for=(PAIR,))


def test_changes_that_match_no_common_client_do_not_wait():
    other_entity = entity(user="bob")
    before, after = having({}), having({PAIR: 1.0, other_entity: 2.0})
    _, results = drive(before, changes_between(before, after), Chances(["rejected"]))
    assert results[other_entity, RATE] == Applied()


def test_a_removal_waits_until_the_limits_that_it_relies_on_are_visible():
    schedule = SendSchedule(changes_between(*NEW_USER_RULE), live=NEW_USER_RULE[0])
    sets, removals = schedule.batches
    (creation,) = sets.alterations
    schedule.settle(creation, Applied())
    assert schedule.not_yet_visible(removals) == (creation,)
    assert schedule.find_held(removals) == {(USER, RATE): (EVERY_USER,)}
    schedule.mark_visible()
    assert schedule.not_yet_visible(removals) == ()
    assert schedule.find_held(removals) == {}


def test_sets_are_sent_closest_level_first_and_removals_widest_level_first():
    everything = [
        entity(user=user, client_id=client)
        for user in ("u", DEFAULT, ABSENT)
        for client in ("c", DEFAULT, ABSENT)
        if (user, client) != (ABSENT, ABSENT)
    ]
    everything += [entity(ip="10.0.0.1"), entity(ip=DEFAULT)]
    full = QuotaState(
        limits={
            subject: (1.0, None, None, None, None)
            if subject[2] is ABSENT
            else (None, None, None, None, 1.0)
            for subject in everything
        }
    )
    empty = QuotaState()
    assert [batch.level for batch in send_order.batches(changes_between(empty, full))] == list(
        range(1, 11)
    )
    assert [batch.level for batch in send_order.batches(changes_between(full, empty))] == list(
        range(10, 0, -1)
    )
    assert drive(full, changes_between(full, empty), ALL_WELL)[0].states[-1] == {}
