"""Batches, chunks and dependencies; the safety law itself is in test_order_law, visibility and shuffling are here."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.quota.entity import DEFAULT, entity, level, sort_key
from reconciler.quota.keys import Key
from reconciler.quota.planner.plan import QuotaChange
from reconciler.quota.planner.send_order import (
    MAX_OPERATIONS,
    SendSchedule,
    batches,
    chunks,
)
from reconciler.quota.policy import Cause
from reconciler.quota.state import Alteration, Applied, Held, QuotaState, Rejected, Result, Unknown
from tests.hypothesis_profiles import count_examples
from tests.quota.log_model import (
    CHANCES,
    PLANS,
    Log,
    as_ends,
    breaches,
    changes_between,
    ends_of,
    split,
)
from tests.quota.log_model import drive as send_plan
from tests.quota.reference import may_match_same

RATE, SHARE = Key.PRODUCER_BYTE_RATE, Key.REQUEST_PERCENTAGE
REFUSED = Rejected(code=42, name="INVALID_REQUEST", message="no")
LOST = Unknown(reason="cut off")
ALICE = entity(user="alice")


def change(subject, before, after, key=RATE) -> QuotaChange:
    return QuotaChange(entity=subject, key=key, before=before, after=after, cause=Cause.SPEC)


# -- batches and chunks -------------------------------------------------------------------------------


@given(PLANS, st.randoms())
def test_batches_contain_every_change_once_with_complete_entities_in_order(plan, random):
    changes = list(as_ends(changes_between(*plan), random))
    random.shuffle(changes)
    new_batches = batches(changes)
    turns = {batch.position for batch in new_batches}
    assert len(turns) == len(new_batches)
    for batch in new_batches:
        subjects = [alteration.entity for alteration in batch.alterations]
        assert subjects == sorted(set(subjects), key=sort_key)
        assert {level(subject) for subject in subjects} == {batch.level}
        values = [value for alteration in batch.alterations for _, value in alteration.operations]
        assert {value is None for value in values} == {batch.removes}
    sent = [
        (alteration.entity, key, value)
        for batch in new_batches
        for alteration in batch.alterations
        for key, value in alteration.operations
    ]
    assert sorted(map(repr, sent)) == sorted(
        repr((item.entity, str(item.key), item.after)) for item in changes
    )


@given(st.lists(st.integers(1, 5), max_size=60), st.integers(0, 2))
def test_chunks_stay_within_bounds_in_order_and_never_split_an_entity(sizes, repeat):
    sizes = sizes * 10**repeat
    alterations = [
        Alteration(entity(user=str(n)), ((str(RATE), 1.0),) * size) for n, size in enumerate(sizes)
    ]
    new_alterations = list(chunks(alterations))
    assert [alteration for chunk in new_alterations for alteration in chunk] == alterations
    for chunk in new_alterations:
        assert chunk
        assert sum(len(alteration.operations) for alteration in chunk) <= MAX_OPERATIONS
    for first, second in itertools.pairwise(new_alterations):
        operations = sum(len(alteration.operations) for alteration in first)
        assert operations + len(second[0].operations) > MAX_OPERATIONS


def test_a_chunk_is_full_when_another_entity_has_too_many_operations_for_it():
    for operations in (1, 2, 3):
        most = MAX_OPERATIONS // operations
        many = [
            Alteration(entity(user=str(n)), ((str(RATE), 1.0),) * operations)
            for n in range(most + 1)
        ]
        assert [len(chunk) for chunk in chunks(many)] == [most, 1]


def test_an_entity_larger_than_a_chunk_is_sent_alone():
    large = Alteration(ALICE, ((str(RATE), 1.0),) * (MAX_OPERATIONS + 1))
    small = Alteration(entity(user="bob"), ((str(RATE), 1.0),))
    assert list(chunks([large, small])) == [(large,), (small,)]


# -- dependencies -------------------------------------------------------------------------------------


def test_an_entity_with_an_unknown_outcome_gets_no_second_write_and_a_rejected_one_does():
    for result, obstacles in ((LOST, {(ALICE, SHARE): (ALICE,)}), (REFUSED, {})):
        schedule = SendSchedule(
            [change(ALICE, None, 1.0), change(ALICE, 5.0, None, SHARE)], live=QuotaState()
        )
        sets, removals = schedule.batches
        schedule.settle(sets.alterations[0], result)
        assert schedule.find_held(removals) == obstacles


def test_a_change_that_was_never_settled_holds_later_ones():
    everybody = entity(user=DEFAULT)
    schedule = SendSchedule(
        [change(everybody, None, 1.0), change(ALICE, 5.0, None)], live=QuotaState()
    )
    sets, removals = schedule.batches
    assert schedule.find_held(sets) == {}
    assert schedule.find_held(removals) == {(ALICE, RATE): (everybody,)}
    # A second call gives the same result, and the delay had a reason.
    schedule.settle(sets.alterations[0], Applied())
    assert schedule.find_held(removals) == {(ALICE, RATE): (everybody,)}


@pytest.mark.parametrize("result", [REFUSED, LOST, Applied()])
@pytest.mark.parametrize("cause", [Cause.SPEC, Cause.ENDED])
def test_the_end_of_an_override_waits_for_what_is_unsure_or_ends_an_override(result, cause):
    default = entity(user=DEFAULT)
    end = replace(change(ALICE, 500.0, None), cause=Cause.ENDED)
    schedule = SendSchedule(
        [replace(change(default, 5.0, 6.0), cause=cause), end], live=QuotaState()
    )
    sets, removals = schedule.batches
    schedule.settle(sets.alterations[0], result)
    goes_on = result == REFUSED and cause is Cause.SPEC
    assert schedule.find_held(removals) == ({} if goes_on else {(ALICE, RATE): (default,)})


def test_the_end_of_an_override_waits_for_no_other_key_of_its_entity():
    default = entity(user=DEFAULT)
    end = replace(change(ALICE, 500.0, None, SHARE), cause=Cause.ENDED)
    schedule = SendSchedule(
        [change(default, 5.0, 6.0), change(ALICE, 5.0, None), end], live=QuotaState()
    )
    sets, removals, ends = schedule.batches
    schedule.settle(sets.alterations[0], REFUSED)
    assert schedule.find_held(removals) == {(ALICE, RATE): (default,)}
    assert schedule.find_held(ends) == {}


# -- the law once more: brokers that lag, any order within a batch, senders that stop ------------------


@dataclass(frozen=True)
class Run:
    """The course of one run: visibility on brokers, order of requests, end."""

    looks: Sequence[bool]
    shuffled: Random
    stop_after: int | None


RUNS = st.builds(
    Run,
    looks=st.lists(st.booleans(), max_size=8),
    shuffled=st.randoms(),
    stop_after=st.none() | st.integers(0, 9),
)


def drive(before, changes, chances, run) -> tuple[Log, dict]:
    log = Log([{(subject, key): value for subject, key, value in before.pairs()}], chances)
    results: dict[tuple[bool, object, str], Result] = {}
    schedule, looks = SendSchedule(changes, live=before), iter(run.looks)
    for batch in schedule.batches[: run.stop_after]:
        if schedule.not_yet_visible(batch) and next(looks, True):
            schedule.mark_visible()
        waiting, free = split(batch, schedule.find_held(batch))
        for alteration, result in waiting:
            results[batch.removes, alteration.entity, alteration.operations[0][0]] = result
            schedule.settle(alteration, result)
        for alteration in run.shuffled.sample(free, len(free)):
            result = log.send(alteration)
            schedule.settle(alteration, result)
            for key, _ in alteration.operations:
                results[batch.removes, alteration.entity, key] = result
    log.land(everything=True)
    return log, results


@settings(max_examples=count_examples(150))
@given(PLANS, CHANCES, RUNS)
def test_the_order_law_holds_with_lagging_brokers_and_stopped_senders(plan, chances, run):
    changes = changes_between(*plan)
    log, results = drive(plan[0], changes, chances, run)
    assert breaches(changes, log) == []
    for (removes, subject, key), result in results.items():
        if isinstance(result, Held):
            assert result.waits_for
            assert all(may_match_same(subject, obstacle) for obstacle in result.waits_for)
            # Each wait has a reason: some entity that it waits for failed or is not visible.
            reasons = [
                results.get((turn, obstacle, key))
                for obstacle in result.waits_for
                for turn in (False, True)
            ]
            failed = any(isinstance(reason, Held | Rejected | Unknown) for reason in reasons)
            assert failed or (removes and not all(run.looks))


@settings(max_examples=count_examples(300))
@given(PLANS, CHANCES, st.randoms())
def test_the_order_law_holds_with_withheld_changes(plan, chances, random):
    """In place of some of them overrides end."""
    changes = as_ends(changes_between(*plan), random)
    withheld = [change for change in changes if random.random() < 0.4]
    in_place = [
        replace(change, after=after, cause=Cause.ENDED)
        for change in withheld
        if (after := random.choice((None, 1.0, 2.0, 3.0))) != change.before
        and random.random() < 0.4
    ]

    sent = [*(change for change in changes if change not in withheld), *in_place]
    log, _ = send_plan(plan[0], sent, chances, withheld=withheld)
    assert breaches(changes, log, ends=ends_of(sent)) == []
