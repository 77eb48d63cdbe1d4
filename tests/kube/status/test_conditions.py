"""Conditions: which exist, when their times change, the length of messages, and the condition of each error."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler import errors
from reconciler.base.escaping import escaped_lines
from reconciler.kube.api.custom_resources import condition_of
from reconciler.kube.status.conditions import MOST_CHARACTERS, bounded, conditions, trouble_of
from reconciler.kube.status.reasons import Reason
from tests.kube.scenarios import ERRORS

NOW, LATER = 1_704_067_200.0, 1_704_070_800.0
THEN = "2024-01-01T00:00:00Z"


def conditions_by_type(reason, previous=(), now=NOW, **more):
    items = conditions(reason, "words", generation=3, previous=previous, now=now, **more)
    return {condition["type"]: condition for condition in items}


@given(st.sampled_from(Reason), st.sampled_from(Reason))
def test_a_transition_time_changes_with_the_condition_status_only(first, second):
    before = conditions_by_type(first, drifted="", conflict="")
    after = conditions_by_type(
        second, previous=before.values(), now=LATER, drifted="x", conflict=""
    )
    for kind, condition in after.items():
        flipped = kind not in before or before[kind]["status"] != condition["status"]
        assert (condition["lastTransitionTime"] == THEN) != flipped


@given(st.sampled_from(Reason), st.sampled_from(["", "x", None]), st.sampled_from(["", "x", None]))
def test_conditions_built_again_are_equal(reason, drifted, conflict):
    before = conditions_by_type(reason, drifted=drifted, conflict=conflict)
    again = conditions_by_type(reason, before.values(), LATER, drifted=drifted, conflict=conflict)
    assert again == before


@given(st.sampled_from(Reason))
def test_reconciling_and_stalled_exist_only_while_true(reason):
    by_type = conditions_by_type(reason)
    assert list(by_type)[:4] == ["Ready", "Drifted", "Conflict", "Paused"]
    assert ("Reconciling" in by_type, "Stalled" in by_type) == (reason.reconciling, reason.stalled)


def test_a_condition_without_a_comparison_is_unknown_or_unchanged_if_the_cluster_was_unreachable():
    before = conditions_by_type(Reason.DRIFTED, drifted="x was applied", conflict="")
    unknown = conditions_by_type(Reason.SUSPENDED, before.values(), LATER)
    assert (unknown["Drifted"]["status"], unknown["Drifted"]["reason"]) == (
        "Unknown",
        "NotCompared",
    )
    after = conditions_by_type(Reason.BROKER_UNAVAILABLE, before.values(), LATER, keep=True)
    assert after["Drifted"] == before["Drifted"]
    assert (
        conditions_by_type(Reason.BROKER_UNAVAILABLE, keep=True)["Drifted"]["status"] == "Unknown"
    )


def test_a_malformed_time_is_replaced():
    before = [{"type": "Ready", "status": "True", "lastTransitionTime": "yesterday"}]
    assert conditions_by_type(Reason.SYNCED, before)["Ready"]["lastTransitionTime"] == THEN


@given(st.text(max_size=3000), st.integers(60, 2000))
def test_truncated_messages_are_marked(text, most):
    sentence, text = bounded(text, most), escaped_lines(text)
    assert len(sentence) <= most
    if len(text) <= most:
        assert sentence == text
    else:
        assert sentence.endswith("characters more)")
        assert text.startswith(sentence[: most - 40])


def test_messages_of_conditions_are_bounded():
    items = conditions(
        Reason.INVALID, "x" * 50_000, generation=1, previous=(), now=NOW, drifted="y" * 50_000
    )
    assert max(len(condition["message"]) for condition in items) == MOST_CHARACTERS


def test_a_missing_condition_is_an_empty_object():
    assert condition_of({}, "Ready") == {}
    assert condition_of({"conditions": [None, 5]}, "Ready") == {}


# ---- errors ------------------------------------------------------------------------------------


@pytest.mark.parametrize("reason", ERRORS)
def test_each_error_has_its_row(reason):
    assert trouble_of(ERRORS[reason]).reason is reason


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (errors.RequestTimeout("late", phase="request"), Reason.BROKER_UNAVAILABLE),
        (errors.DnsError("no such host"), Reason.BROKER_UNAVAILABLE),
        (errors.ControllerUnavailable("no controller"), Reason.BROKER_UNAVAILABLE),
        (errors.InventoryLocked("held"), Reason.OTHER_QUOTA_CLUSTER),
        (errors.ConfigError("no such property"), Reason.INVALID),
        (errors.BrokerError("code 35", code=35), Reason.FAILED),
        (errors.DecodeError("leftover"), Reason.FAILED),
        (errors.EncodeError("too long"), Reason.FAILED),
        (errors.StalePlan("changed"), Reason.PENDING),
        (errors.Interrupted("stopped"), Reason.PENDING),
        (errors.KubernetesConflict("409"), Reason.KUBERNETES_UNAVAILABLE),
        (errors.NotFound("404"), Reason.KUBERNETES_REFUSED),
        (errors.QuotaValueError("odd"), Reason.FAILED),
    ],
    ids=lambda value: getattr(value, "value", type(value).__name__),
)
def test_subclasses_of_an_error_have_the_same_reason(error, reason):
    assert trouble_of(error).reason is reason


def _tree(kind):
    yield kind
    for subclass in kind.__subclasses__():
        yield from _tree(subclass)


def test_retriable_errors_are_never_shown_as_stalled_and_final_ones_always():
    """The row agrees with the class about retries; except for a lock, whose holder must end first."""
    for kind in _tree(errors.KquotaError):
        error = kind.__new__(kind)
        Exception.__init__(error, "x")
        error.message, error.hint, error.reason = "x", "", ""
        row = trouble_of(error).reason
        if kind.retriable and kind is not errors.InventoryLocked:
            assert row.reconciling, kind
        if row.reconciling and not kind.retriable:
            assert kind in {errors.Interrupted, errors.LeaseLost}, kind


def test_the_message_for_administrators_contains_the_hint():
    trouble = trouble_of(errors.ConfigError("wrong", hint="correct it"))
    assert trouble.message == "wrong; correct it"
