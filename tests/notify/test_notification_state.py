"""Which receivers are due: once per drift, again after a while, and recovery only for receivers of the drift."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.errors import ConfigError
from reconciler.notify.message import DriftEvent
from reconciler.notify.notification_state import (
    NotificationState,
    notification_state_text,
    read_notification_state,
)
from tests.notify.receivers import ALICE, BOB, NOW, drift

DAY = 86_400.0


def due(state: NotificationState, *pairs, now: float = NOW):
    return state.due("hook", drift(*pairs), now=now, remind_after=DAY)


def after(*looks):
    """The notification state after observations, each reported if due: `(now, pairs)`."""
    state = NotificationState()
    for now, pairs in looks:
        message = due(state, *pairs, now=now)
        state = state if message is None else state.after("hook", message)
    return state


def test_new_drift_is_reported_once_and_again_when_it_changes_or_after_a_day():
    assert due(NotificationState(), ALICE).event is DriftEvent.BEGAN
    state = after((NOW, [ALICE]))
    assert due(state, ALICE, now=NOW + DAY - 1) is None
    assert due(state, ALICE, now=NOW + DAY).event is DriftEvent.REMINDED
    assert due(state, ALICE, BOB).event is DriftEvent.CHANGED
    assert due(state, BOB).event is DriftEvent.CHANGED


def test_recovery_is_reported_once_with_the_drift_and_its_duration():
    state = after((NOW, [ALICE, BOB]))
    message = due(state, now=NOW + 100)
    assert (message.event, message.resolved, message.since) == (DriftEvent.ENDED, 2, NOW - 600)
    assert due(state.after("hook", message), now=NOW + 200) is None
    assert due(NotificationState(), now=NOW) is None


def test_new_drift_after_a_recovery_is_reported_again():
    state = after((NOW, [ALICE]), (NOW + 1, []))
    assert due(state, ALICE, now=NOW + 2).event is DriftEvent.BEGAN


def test_receivers_and_clusters_have_separate_states():
    state = after((NOW, [ALICE]))
    assert state.due("other", drift(ALICE), now=NOW, remind_after=DAY).event is DriftEvent.BEGAN
    elsewhere = drift(ALICE, cluster="test")
    assert state.due("hook", elsewhere, now=NOW, remind_after=DAY).event is DriftEvent.BEGAN
    assert state.due("hook", drift(cluster="test"), now=NOW, remind_after=DAY) is None


@given(
    st.lists(
        st.tuples(st.floats(0, 3 * DAY), st.sampled_from([(), (ALICE,), (BOB,), (ALICE, BOB)])),
        max_size=12,
    )
)
def test_the_state_survives_the_process_and_no_digest_is_reported_twice_within_a_day(steps):
    state, now, last = NotificationState(), NOW, {}
    for wait, pairs in steps:
        now += wait
        message = due(state, *pairs, now=now)
        if message is not None:
            if message.event is not DriftEvent.ENDED:
                assert message.digest not in last or now - last[message.digest] >= DAY
                last = {message.digest: now}
            else:
                last = {}
            state = state.after("hook", message)
        state = read_notification_state(notification_state_text(state), location="told.json")
        assert (due(state, *pairs, now=now) is None) or not pairs


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        '{"kind": "kquota-told", "format": 2, "told": []}',
        '{"kind": "kquota-told", "format": 1}',
        '{"kind": "kquota-told", "format": 1, "told": [{"receiver": "x"}]}',
        '{"kind": "kquota-told", "format": 1, "told": [], "more": 1}',
    ],
)
def test_a_damaged_state_is_refused_with_its_path(text):
    with pytest.raises(ConfigError, match=r"told\.json"):
        read_notification_state(text, location="told.json")
