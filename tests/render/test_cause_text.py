"""Every finding has one section, and every cause a sentence."""

import pytest

from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from reconciler.quota.planner.plan import Finding
from reconciler.quota.policy import Action, Cause
from reconciler.render.cause_text import REASONS, SECTIONS, section_of


@pytest.mark.parametrize(
    ("cause", "action", "ignored", "section"),
    [
        (Cause.DRIFT, Action.REPORT, False, "drift"),
        (Cause.DRIFT, Action.REPORT, True, "ignored"),
        (Cause.PRUNE, Action.ORPHAN, False, "orphans"),
        (Cause.PRUNE, Action.REPORT, False, "notRemoved"),
        (Cause.CHANGED_BY_ANOTHER, Action.REPORT, False, "changedByAnother"),
        (Cause.CHANGED_BY_ANOTHER, Action.ORPHAN, False, "orphans"),
        (Cause.CREATE, Action.REPORT, False, "restricted"),
        (Cause.SPEC, Action.REPORT, False, "restricted"),
        (Cause.TAKEOVER, Action.REPORT, False, "restricted"),
        (Cause.ADOPT, Action.RECORD, False, "recorded"),
        (Cause.GONE, Action.RECORD, False, "recorded"),
        (Cause.OVERRIDE, Action.NOTHING, False, "overrides"),
        (Cause.OVERRIDE, Action.REPORT, False, "restricted"),
        (Cause.UNMANAGED, Action.REPORT, False, "unmanaged"),
        (Cause.FROZEN, Action.REPORT, False, "frozen"),
    ],
)
def test_each_finding_is_in_one_section(cause, action, ignored, section):
    finding = Finding(
        entity=entity(user="a"),
        key=Key.PRODUCER_BYTE_RATE,
        desired=None,
        applied=None,
        live=None,
        cause=cause,
        action=action,
        ignored=ignored,
    )
    assert section_of(finding) == section
    assert section in {kind.name for kind in SECTIONS}


def test_every_cause_has_a_sentence():
    assert set(REASONS) == set(Cause)
