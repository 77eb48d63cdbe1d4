"""Conditions: which exist, when their times change, the length of messages, and the condition of each error."""

import pytest

from reconciler import errors
from reconciler.kube.status.conditions import MOST_CHARACTERS, conditions, trouble_of
from reconciler.kube.status.reasons import Reason
from tests.kube.scenarios import ERRORS

NOW, LATER = 1_704_067_200.0, 1_704_070_800.0
THEN = "2024-01-01T00:00:00Z"


def conditions_by_type(reason, previous=(), now=NOW, **more):
    items = conditions(reason, "words", generation=3, previous=previous, now=now, **more)
    return {condition["type"]: condition for condition in items}


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


def test_messages_of_conditions_are_bounded():
    items = conditions(
        Reason.INVALID, "x" * 50_000, generation=1, previous=(), now=NOW, drifted="y" * 50_000
    )
    assert max(len(condition["message"]) for condition in items) == MOST_CHARACTERS


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
