"""Which receivers are due: once per drift, again after a while, and recovery only for receivers of the drift."""

import json

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
        '{"kind": "kquota-told", "format": 1, "sent": []}',
        '{"kind": "kquota-notifications", "format": 2, "sent": []}',
        '{"kind": "kquota-notifications", "format": 1}',
        '{"kind": "kquota-notifications", "format": 1, "sent": [{"receiver": "x"}]}',
        '{"kind": "kquota-notifications", "format": 1, "sent": [], "more": 1}',
        '{"kind": "kquota-notifications", "format": 1, "sent": [], "sent": []}',
    ],
)
def test_a_damaged_state_is_refused_with_its_path(text):
    with pytest.raises(ConfigError, match=r"told\.json"):
        read_notification_state(text, location="told.json")


MESSAGE = {"digest": "d", "sent_at": 1.0, "since": 0.5, "pairs": 2}


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        ({"digest": None}, "digest should be str, not null"),
        ({"sent_at": True}, "sent_at should be float, not bool"),
        ({"sent_at": -1}, "sent_at should be float >= 0"),
        ({"since": 10**400}, "since "),
        ({"pairs": 1.5}, "pairs should be int, not float"),
        ({"more": 1}, "should be an object without the unknown field 'more'"),
    ],
)
def test_an_edited_message_is_refused_with_its_place(edit, words):
    def text(message):
        row = {"receiver": "hook", "cluster": "eu", "message": message}
        return json.dumps({"kind": "kquota-notifications", "format": 1, "sent": [row]})

    (key,) = read_notification_state(text(MESSAGE), location="told.json").entries
    assert key == ("hook", "eu")
    with pytest.raises(ConfigError, match=rf"told\.json: sent\[0\]\.message.{words}"):
        read_notification_state(text(MESSAGE | edit), location="told.json")
