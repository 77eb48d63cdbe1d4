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


def test_the_start_of_drift_is_read_from_the_records():
    vigil = DriftTracker().after(plan(drifted()), now=NOW, first_seen={(ALICE, RATE): NOW - 3600})
    assert vigil.observations[0].since == NOW - 3600
    assert vigil.after(plan(drifted()), now=NOW + 60).observations[0].since == NOW - 3600


def test_a_pair_whose_corrections_are_all_reverted_is_not_corrected_until_the_window_ends():
    vigil = DriftTracker(confirm_after=1, max_corrections=2, window=3600)
    vigil = corrected(corrected(vigil, 7.0, NOW), None, NOW + 60)
    assert not vigil.corrects(correction(9.0), NOW + 120)
    (observation,) = vigil.after(plan(correction(9.0)), now=NOW + 120).observations
    assert observation.corrections_stopped
    assert (observation.key, observation.expected, observation.live) == (RATE, 100.0, 9.0)
    assert [value for _, value in observation.corrections] == [7.0, None]
    assert vigil.corrects(correction(9.0), NOW + 3600)
    (later,) = vigil.after(plan(correction(9.0)), now=NOW + 3600).observations
    assert (later.corrections_stopped, len(later.corrections)) == (False, 1)


def test_observations_of_this_process_take_precedence_over_stored_history():
    earlier = corrected(DriftTracker(confirm_after=1, max_corrections=2), 7.0, NOW)
    present = corrected(DriftTracker(confirm_after=1, max_corrections=2), 8.0, NOW + 60)
    assert present.with_histories(earlier.histories).histories == present.histories
    assert DriftTracker().histories == ()


def test_the_last_allowed_correction_does_not_stop_corrections():
    vigil = corrected(DriftTracker(confirm_after=1, max_corrections=2), 7.0, NOW)
    last = vigil.after(plan(correction()), corrected={(ALICE, RATE)}, now=NOW + 60)
    (observation,) = last.observations
    assert (len(observation.corrections), observation.corrections_stopped) == (2, False)


def test_without_allowed_corrections_none_is_reported_as_stopped():
    vigil = DriftTracker(max_corrections=0).after(plan(drifted()), now=NOW)
    assert not vigil.corrects(correction(), NOW)
    assert not vigil.observations[0].corrections_stopped


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
        assert [at for at, _ in observation.corrections] == within
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
