"""The effect of each policy, drift mode and deletionPolicy in each state: the whole table, stored in tests/golden."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from reconciler.quota.entity import DEFAULT, entity
from reconciler.quota.keys import Key
from reconciler.quota.ownership import Owner, OwnershipRecords, Recorded
from reconciler.quota.patterns import EntityForm, EntityPattern, NamePattern
from reconciler.quota.planner.comparison import compare
from reconciler.quota.planner.desired_state import Declaration, merge
from reconciler.quota.policy import (
    STRICTNESS,
    Action,
    Cause,
    DeclarationEnd,
    DeletionPolicy,
    DriftMode,
    IgnoreRule,
    Policy,
    Rules,
)
from reconciler.quota.state import QuotaState, limits_of
from tests.policies import PERMISSIONS, REMOVING

GOLDEN = Path(__file__).parent.parent / "golden" / "policy_table.txt"
SUBJECT, KEY = entity(user="alice"), Key.PRODUCER_BYTE_RATE

# state -> desired, applied, live
STATES: dict[Cause, tuple[float | None, float | None, float | None]] = {
    Cause.IN_SYNC: (1.0, 1.0, 1.0),
    Cause.ADOPT: (1.0, None, 1.0),
    Cause.CREATE: (1.0, None, None),
    Cause.TAKEOVER: (1.0, None, 2.0),
    Cause.SPEC: (1.0, 2.0, 2.0),
    Cause.CONVERGED: (1.0, 2.0, 1.0),
    Cause.DRIFT: (1.0, 1.0, 2.0),
    Cause.SPEC_OVER_DRIFT: (1.0, 2.0, 3.0),
    Cause.PRUNE: (None, 1.0, 1.0),
    Cause.CHANGED_BY_ANOTHER: (None, 1.0, 2.0),
    Cause.GONE: (None, 1.0, None),
    Cause.UNMANAGED: (None, None, 1.0),
}
COLUMNS = {
    **{str(policy): Rules(policy=policy) for policy in STRICTNESS[:-1]},
    "Sync?": Rules(policy=Policy.SYNC),
    "Sync": Rules(policy=Policy.SYNC, sync_confirmed=True),
    "Upsert+force": Rules(policy=Policy.UPSERT, force=True),
    "Sync+partial": Rules(policy=Policy.SYNC, sync_confirmed=True, complete=False),
    "Upsert+files": Rules(policy=Policy.UPSERT, configured=False),
    "Sync+files": Rules(policy=Policy.SYNC, sync_confirmed=True, configured=False),
}
Rows = dict[tuple[str, ...], tuple[str, ...]]
LABELS = (2, 3, 2, 3)
HEAD = """\
# What is done about one pair. Written by `python -m tests.quota.test_policy`, read by people, compared by the tests.
# document: of the record; lives = it still exists and does not name the pair. Sync? = not confirmed. force = --force.
# Sync+partial = not every document was read. +files = files without a project, so that gone = not among them.
# nothing = not even reported.
"""


def cell(cause: Cause, rules: Rules, document: str, text: str, frozen: bool) -> str:
    """The planner's decision about the one pair."""
    want, applied, live = STATES[cause]
    policy = None if text == "unset" else DeletionPolicy(text)
    spoken = (
        []
        if want is None
        else [
            Declaration(
                document="team/one",
                entity=SUBJECT,
                limits=limits_of({KEY: want}),
                deletion_policy=policy,
            )
        ]
    )
    if document == "lives" and want is None:
        elsewhere = limits_of({Key.REQUEST_PERCENTAGE: 1.0})
        spoken = [Declaration(document="team/one", entity=SUBJECT, limits=elsewhere)]
    owned = OwnershipRecords(cluster_id="c")
    if applied is not None:
        owner = Owner(document="team/one", deletion_policy=policy)
        owned = owned.with_changes([Recorded(entity=SUBJECT, key=KEY, value=applied, owner=owner)])
    state = QuotaState() if live is None else QuotaState(limits={SUBJECT: limits_of({KEY: live})})
    plan = compare(
        desired=merge(spoken, frozen=("team/one",) if frozen else ()),
        owned=owned,
        live=state,
        rules=rules,
    )
    for change in plan.changes:
        if change.pair == (SUBJECT, KEY):
            return change.action
    return next(
        (str(finding.action) for finding in plan.findings if finding.pair == (SUBJECT, KEY)),
        "nothing",
    )


def lines() -> Iterator[str]:
    """The table; labels without effect are folded into ``any``."""
    head = ("state", "document", "deletionPolicy", "frozen", "drift")
    yield from HEAD.splitlines()
    yield _line(head, COLUMNS)
    for cause in STATES:
        rows: Rows = {}
        for document, deletion_policy, frozen, drift in itertools.product(
            ("lives", "gone"), ("unset", "Retain", "Delete"), ("no", "yes"), DriftMode
        ):
            rows[document, deletion_policy, frozen, str(drift)] = tuple(
                cell(cause, replace(rules, drift=drift), document, deletion_policy, frozen == "yes")
                for rules in COLUMNS.values()
            )
        for place in reversed(range(4)):
            rows = _folded(rows, place)
        for labels, cells in rows.items():
            yield _line((str(cause), *labels), cells)


def _folded(rows: Rows, place: int) -> Rows:
    """Merge rows with the same result that differ in one label only."""
    grouped: dict[tuple[str, ...], Rows] = {}
    for labels, cells in rows.items():
        other_labels = (*labels[:place], *labels[place + 1 :])
        grouped.setdefault(other_labels, {})[labels] = cells
    folded_rows: Rows = {}
    for other_labels, variants in grouped.items():
        if len(variants) == LABELS[place] and len(set(variants.values())) == 1:
            folded_rows[*other_labels[:place], "any", *other_labels[place:]] = next(
                iter(variants.values())
            )
        else:
            folded_rows |= variants
    return folded_rows


def _line(labels: tuple[str, ...], cells: object) -> str:
    words = [label.ljust(width) for label, width in zip(labels, (18, 10, 16, 8, 10), strict=True)]
    return ("".join(words) + "".join(str(value).ljust(13) for value in cells)).rstrip()


def test_every_combination_gives_the_result_of_the_committed_table():
    assert list(lines()) == GOLDEN.read_text().splitlines()


# -- rules --------------------------------------------------------------------------------------------


def test_sync_acts_as_upsert_until_it_is_confirmed():
    assert Rules(policy=Policy.SYNC).in_force is Policy.UPSERT
    assert Rules(policy=Policy.SYNC, sync_confirmed=True).in_force is Policy.SYNC
    assert Rules(policy=Policy.OBSERVE, sync_confirmed=True).in_force is Policy.OBSERVE


def test_only_observe_leaves_the_records_unchanged():
    assert [policy for policy in Policy if not Rules(policy=policy).may_record] == [Policy.OBSERVE]


def test_a_pair_with_an_unknown_outcome_is_kept():
    rules = Rules(policy=Policy.SYNC, sync_confirmed=True)
    assert rules.permits(Cause.PRUNE) is Action.ORPHAN
    assert rules.permits(Cause.PRUNE, DeclarationEnd.UNSET) is Action.WRITE


@pytest.mark.parametrize("policy", sorted(REMOVING))
@pytest.mark.parametrize("fate", list(DeclarationEnd))
def test_an_orphaned_pair_that_is_kept_waits_for_no_document(policy, fate):
    full = Rules(policy=policy, sync_confirmed=True)
    partial = replace(full, complete=False)
    permitted = full.permits(Cause.PRUNE, fate, is_orphaned=True)
    stays = permitted is Action.ORPHAN
    assert partial.permits(Cause.PRUNE, fate, is_orphaned=True) is (
        Action.ORPHAN if stays else Action.REPORT
    )
    assert partial.permits(Cause.PRUNE, fate) is Action.REPORT


def test_without_a_scope_every_entity_is_in_scope():
    assert Rules().in_scope(SUBJECT)
    defaults = Rules(scope=(EntityPattern(forms=frozenset({EntityForm.DEFAULT_USER})),))
    assert defaults.in_scope(entity(user=DEFAULT))
    assert not defaults.in_scope(SUBJECT)


def test_an_ignore_rule_applies_to_its_entities_and_keys_until_its_end():
    alice = EntityPattern(user=NamePattern(exact="alice"))
    rule = IgnoreRule(entities=alice, reason="migration", keys=frozenset({KEY}), until=10.0)
    rules = Rules(ignore=(rule,))
    assert rules.ignored(SUBJECT, KEY, 9.9) is rule
    assert rules.ignored(SUBJECT, KEY, 10.0) is None
    assert rules.ignored(SUBJECT, Key.CONSUMER_BYTE_RATE, 9.9) is None
    assert rules.ignored(entity(user="bob"), KEY, 9.9) is None
    forever = IgnoreRule(entities=alice, reason="for good")
    assert Rules(ignore=(forever,)).ignored(SUBJECT, Key.CONSUMER_BYTE_RATE, 1e12) is forever


def test_the_table_of_the_tests_has_each_policy_from_the_strictest_to_the_loosest():
    assert tuple(PERMISSIONS) == STRICTNESS
    assert sorted(PERMISSIONS.values()) == list(PERMISSIONS.values())


if __name__ == "__main__":
    _ = GOLDEN.write_text("\n".join(lines()) + "\n")
