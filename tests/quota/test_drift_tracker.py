"""Drift over time: consecutive observations, corrections within a window, and repeated changes by another writer."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.errors import QuotaValueError
from reconciler.quota.drift_tracker import DriftTracker
from reconciler.quota.entity import Entity, entity
from reconciler.quota.keys import Key
from reconciler.quota.ownership import Owner
from reconciler.quota.planner.desired_state import Declaration
from reconciler.quota.planner.plan import Finding, Plan, QuotaChange
from reconciler.quota.policy import Action, Cause
from reconciler.quota.state import limits_of

ALICE, BOB = entity(user="alice"), entity(user="bob")
RATE, SHARE = Key.PRODUCER_BYTE_RATE, Key.REQUEST_PERCENTAGE
NOW = 1_700_000_000.0


def claim(value: float, document: str = "team/alice") -> Declaration:
    return Declaration(document=document, entity=ALICE, limits=limits_of({RATE: value}))


def drifted(
    live: float | None = 7.0,
    *,
    value: float = 100.0,
    subject: Entity = ALICE,
    key: Key = RATE,
    document: str = "team/alice",
    **more,
) -> Finding:
    fields = {
        "entity": subject,
        "key": key,
        "desired": value,
        "applied": value,
        "live": live,
        "cause": Cause.DRIFT,
        "action": Action.REPORT,
        "claim": claim(value, document),
        "owner": Owner(document=document),
    }
    return Finding(**(fields | more))


def correction(live: float | None = 7.0, *, value: float = 100.0, **more) -> QuotaChange:
    fields = {
        "entity": ALICE,
        "key": RATE,
        "before": live,
        "after": value,
        "cause": Cause.DRIFT,
        "claim": claim(value),
        "owner": Owner(document="team/alice"),
        "applied": value,
    }
    return QuotaChange(**(fields | more))


def plan(*items: Finding | QuotaChange) -> Plan:
    return Plan(
        cluster_id="c",
        findings=tuple(item for item in items if isinstance(item, Finding)),
        changes=tuple(item for item in items if isinstance(item, QuotaChange)),
    )


def corrected(vigil: DriftTracker, live: float | None, now: float, **more) -> DriftTracker:
    """An observation that finds drift and corrects it, and one that finds it corrected."""
    after = vigil.after(plan(correction(live, **more)), corrected={(ALICE, RATE)}, now=now)
    return after.after(plan(), now=now)


def test_drift_is_confirmed_after_the_configured_number_of_consecutive_observations():
    vigil = DriftTracker(confirm_after=3)
    observations = []
    for look in range(4):
        vigil = vigil.after(plan(drifted()), now=NOW + look)
        observations.append(
            (vigil.observations[0].observation_count, vigil.observations[0].confirmed)
        )
    assert observations == [(1, False), (2, False), (3, True), (4, True)]


def test_an_observation_without_drift_resets_the_count():
    vigil = DriftTracker(confirm_after=2).after(plan(drifted()), now=NOW).after(plan(), now=NOW)
    assert vigil.observations == ()
    again = vigil.after(plan(drifted()), now=NOW + 60)
    assert (again.observations[0].observation_count, again.observations[0].since) == (1, NOW + 60)


def test_another_foreign_value_is_the_same_drift():
    vigil = (
        DriftTracker().after(plan(drifted(7.0)), now=NOW).after(plan(drifted(None)), now=NOW + 60)
    )
    (observation,) = vigil.observations
    assert (
        observation.observation_count,
        observation.since,
        observation.live,
        observation.expected,
    ) == (2, NOW, None, 100.0)
    assert observation.document == "team/alice"


def test_the_start_of_drift_is_read_from_the_records():
    vigil = DriftTracker().after(plan(drifted()), now=NOW, first_seen={(ALICE, RATE): NOW - 3600})
    assert vigil.observations[0].since == NOW - 3600
    assert vigil.after(plan(drifted()), now=NOW + 60).observations[0].since == NOW - 3600


def test_ignored_frozen_and_newly_declared_differences_are_not_drift():
    vigil = DriftTracker().after(
        plan(
            drifted(ignored=True),
            drifted(cause=Cause.FROZEN, subject=BOB),
            correction(cause=Cause.SPEC_OVER_DRIFT),
            correction(cause=Cause.SPEC, entity=BOB),
        ),
        now=NOW,
    )
    assert vigil.observations == ()


def test_a_changed_document_resets_the_count():
    vigil = DriftTracker().after(plan(drifted()), now=NOW)
    for other_finding in (drifted(value=200.0), drifted(document="team/other")):
        (observation,) = vigil.after(plan(other_finding), now=NOW + 60).observations
        assert (observation.observation_count, observation.since) == (1, NOW + 60)


def test_drift_observations_have_the_order_of_a_plan():
    findings = [
        drifted(subject=BOB),
        drifted(key=SHARE),
        drifted(subject=entity(user="alice", client_id="shop")),
        drifted(),
    ]
    vigil = DriftTracker().after(plan(*findings), now=NOW)
    assert [(observation.entity, observation.key) for observation in vigil.observations] == [
        (entity(user="alice", client_id="shop"), RATE),
        (ALICE, RATE),
        (ALICE, SHARE),
        (BOB, RATE),
    ]


def test_after_a_crash_without_a_record_the_declared_value_counts_as_applied():
    vigil = DriftTracker().after(plan(drifted(applied=None)), now=NOW)
    assert vigil.observations[0].expected == 100.0


def test_an_override_is_tracked_as_in_the_plan():
    # Overridden to 50 and found at 7: the planner reports drift from the override's value.
    reported = drifted(desired=100.0, applied=50.0)
    assert DriftTracker().after(plan(reported), now=NOW).observations[0].expected == 50.0
    alone = correction(value=50.0, claim=None, owner=Owner(document=""))
    (observation,) = DriftTracker().after(plan(alone), now=NOW).observations
    assert (observation.expected, observation.document) == (50.0, "")


def test_only_confirmed_drift_is_corrected():
    vigil = DriftTracker(confirm_after=2)
    assert not vigil.corrects(correction(), NOW)
    assert vigil.after(plan(correction()), now=NOW).corrects(correction(), NOW + 60)


def test_with_confirmation_after_one_observation_drift_is_corrected_at_once():
    assert DriftTracker(confirm_after=1).corrects(correction(), NOW)


def test_corrections_are_counted_even_if_drift_does_not_return():
    vigil = DriftTracker(confirm_after=1, max_corrections=5)
    vigil = corrected(corrected(vigil, 7.0, NOW), 8.0, NOW + 60)
    assert vigil.observations == ()
    (observation,) = vigil.after(plan(correction(9.0)), now=NOW + 120).observations
    assert (observation.corrections, observation.corrected_at) == (2, (NOW, NOW + 60))
    assert observation.overwritten == (7.0, 8.0)
    assert not observation.corrections_stopped


def test_a_pair_whose_corrections_are_all_reverted_is_not_corrected_until_the_window_ends():
    vigil = DriftTracker(confirm_after=1, max_corrections=2, window=3600)
    vigil = corrected(corrected(vigil, 7.0, NOW), None, NOW + 60)
    assert not vigil.corrects(correction(9.0), NOW + 120)
    (observation,) = vigil.after(plan(correction(9.0)), now=NOW + 120).observations
    assert observation.corrections_stopped
    assert (observation.key, observation.expected, observation.live, observation.overwritten) == (
        RATE,
        100.0,
        9.0,
        (7.0, None),
    )
    assert vigil.corrects(correction(9.0), NOW + 3600)
    (later,) = vigil.after(plan(correction(9.0)), now=NOW + 3600).observations
    assert (later.corrections_stopped, later.corrections) == (False, 1)


def test_the_count_of_corrections_survives_the_process():
    settings = {"confirm_after": 1, "max_corrections": 2, "window": 3600}
    tracker = corrected(corrected(DriftTracker(**settings), 7.0, NOW), 8.0, NOW + 60)
    (history,) = tracker.histories
    assert (history.entity, history.key, history.document) == (ALICE, RATE, "team/alice")
    restarted = DriftTracker(**settings).with_histories([history])
    assert restarted.histories == (history,)
    assert not restarted.corrects(correction(9.0), NOW + 120)
    assert restarted.corrects(correction(9.0), NOW + 3660)


def test_observations_of_this_process_take_precedence_over_stored_history():
    earlier = corrected(DriftTracker(confirm_after=1, max_corrections=2), 7.0, NOW)
    present = corrected(DriftTracker(confirm_after=1, max_corrections=2), 8.0, NOW + 60)
    assert present.with_histories(earlier.histories).histories == present.histories
    assert DriftTracker().histories == ()


def test_the_last_allowed_correction_does_not_stop_corrections():
    vigil = corrected(DriftTracker(confirm_after=1, max_corrections=2), 7.0, NOW)
    last = vigil.after(plan(correction()), corrected={(ALICE, RATE)}, now=NOW + 60)
    assert (last.observations[0].corrections, last.observations[0].corrections_stopped) == (
        2,
        False,
    )


def test_a_changed_document_allows_corrections_again():
    vigil = DriftTracker(confirm_after=1, max_corrections=1)
    vigil = corrected(vigil, 7.0, NOW)
    assert not vigil.corrects(correction(), NOW + 1)
    assert vigil.corrects(correction(value=200.0), NOW + 1)
    (observation,) = vigil.after(plan(correction(value=200.0)), now=NOW + 1).observations
    assert (observation.corrections_stopped, observation.corrections) == (False, 0)


def test_without_allowed_corrections_none_is_reported_as_stopped():
    vigil = DriftTracker(max_corrections=0).after(plan(drifted()), now=NOW)
    assert not vigil.corrects(correction(), NOW)
    assert not vigil.observations[0].corrections_stopped


def test_the_size_of_the_state_is_bounded():
    vigil = corrected(DriftTracker(confirm_after=1, window=60), 7.0, NOW)
    assert vigil != DriftTracker(confirm_after=1, window=60)
    assert vigil.after(plan(), now=NOW + 60) == DriftTracker(confirm_after=1, window=60)


@pytest.mark.parametrize(
    "wrong",
    [
        {"confirm_after": 0},
        {"max_corrections": -1},
        {"window": 0.0},
        {"window": math.nan},
        {"window": math.inf},
    ],
)
def test_an_invalid_drift_tracker_is_rejected(wrong: dict):
    with pytest.raises(QuotaValueError):
        DriftTracker(**wrong)


LOOKS = st.lists(
    st.tuples(st.sampled_from([None, 7.0, 8.0, "in sync", "new value"]), st.floats(1.0, 100.0)),
    max_size=40,
)


@given(LOOKS, st.integers(1, 4), st.integers(0, 3), st.floats(10.0, 500.0))
def test_a_pair_is_never_corrected_unconfirmed_or_too_often(
    looks: list, confirm_after: int, most: int, window: float
):
    vigil = DriftTracker(confirm_after=confirm_after, window=window, max_corrections=most)
    now, value, in_a_row = NOW, 100.0, 0
    times: list[float] = []
    for look, passed in looks:
        now += passed
        if look == "new value":
            value, in_a_row, times = value + 1.0, 0, []
            vigil = vigil.after(plan(), now=now)
            continue
        if look == "in sync":
            in_a_row, vigil = 0, vigil.after(plan(), now=now)
            assert vigil.observations == ()
            continue
        in_a_row += 1
        change = correction(look, value=value)
        sent = vigil.corrects(change, now)
        if sent:
            times.append(now)
        within = [at for at in times if at > now - window]
        assert not sent or (in_a_row >= confirm_after and len(within) <= most)
        vigil = vigil.after(plan(change), corrected={(ALICE, RATE)} if sent else (), now=now)
        (observation,) = vigil.observations
        assert (observation.observation_count, observation.confirmed) == (
            in_a_row,
            in_a_row >= confirm_after,
        )
        assert list(observation.corrected_at) == within
        assert observation.corrections_stopped == (not sent and 0 < most <= len(within))


@given(LOOKS, st.integers(1, 4))
def test_after_a_restart_recorded_drift_counts_as_one_observation(looks: list, confirm_after: int):
    recorded: dict = {}
    for index, (look, _) in enumerate(looks):
        now = NOW + index
        vigil = DriftTracker(
            confirm_after=confirm_after
        )  # a process that lives for one observation
        if look in ("in sync", "new value"):
            recorded.clear()
            continue
        vigil = vigil.after(plan(drifted(look)), now=now, first_seen=recorded)
        assert vigil.observations[0].observation_count == (2 if recorded else 1)
        recorded.setdefault((ALICE, RATE), now)
        assert vigil.observations[0].since == recorded[ALICE, RATE]
