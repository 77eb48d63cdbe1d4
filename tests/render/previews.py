"""One complete preview and one complete outcome with hostile names, compared with files in tests/golden/render."""

import os
from pathlib import Path

from msgspec.structs import replace

from reconciler.quota.entity import DEFAULT, entity
from reconciler.quota.keys import Key
from reconciler.quota.overrides import Override
from reconciler.quota.ownership import DriftObserved, OverrideSet, Owner, OwnershipRecords, Recorded
from reconciler.quota.planner.comparison import compare
from reconciler.quota.planner.desired_state import Declaration, merge
from reconciler.quota.planner.effects import fallbacks
from reconciler.quota.planner.guards import Guards, check
from reconciler.quota.planner.impact import UnmatchedClientId, assess
from reconciler.quota.planner.temporary_limits import below_overrides
from reconciler.quota.policy import DeletionPolicy, Policy, Rules
from reconciler.quota.precedence import principals_with_quotas
from reconciler.quota.results.report import (
    Outcome,
    PairOutcome,
    PairVisibility,
    Preview,
    RunOrigin,
    ValidationResult,
)
from reconciler.quota.rule_warnings import warnings
from reconciler.quota.state import (
    Applied,
    Held,
    QuotaState,
    Rejected,
    Unknown,
    Visibility,
    limits_of,
)

GOLDEN = Path(__file__).parents[1] / "golden" / "render"
RATE, CONSUME, SHARE = Key.PRODUCER_BYTE_RATE, Key.CONSUMER_BYTE_RATE, Key.REQUEST_PERCENTAGE
NOW = 1_763_726_400.0

ALICE, ALICE_SHOP, ANYONE = (
    entity(user="alice"),
    entity(user="alice", client_id="shop"),
    entity(user=DEFAULT),
)
EVIL = entity(user="a|b`c\n::set-output name=x::@team <b>\u202e\x1b[31m##[x]")
LITERAL, GONE, DRIFTED = entity(user="<default>"), entity(user="gone"), entity(user="drifted")
KEPT, STRANGER, NIGHT = entity(user="kept"), entity(client_id="stranger"), entity(user="night")


def declare(subject, values, *, line=3, document="", policy=None) -> Declaration:
    name = document or f"team/{subject[0]}"
    return Declaration(
        document=name,
        entity=subject,
        limits=limits_of(values),
        path=f"quotas/{len(name)}.yaml",
        line=line,
        lines=tuple(line + 5 + at if limits_of(values)[at] else 0 for at in range(5)),
        deletion_policy=policy,
    )


def sample() -> Preview:
    """A preview with every kind of entry."""
    desired = merge(
        [
            declare(ALICE, {RATE: 10485760.0, SHARE: 50.5}),
            declare(ALICE_SHOP, {RATE: 20_000_000.0}),
            declare(ANYONE, {RATE: 1048576.0}),
            declare(EVIL, {CONSUME: 2.0**63}, document="team/e\nvil|@all"),
            declare(LITERAL, {RATE: 4096.0}),
            declare(DRIFTED, {RATE: 2048.0}),
            declare(NIGHT, {RATE: 2048.0}),
        ]
    )
    owner = Owner(document="team/gone", since=1.0)
    owned = OwnershipRecords(cluster_id="lkc-1").with_changes(
        [
            Recorded(entity=GONE, key=RATE, value=5000.0, owner=owner),
            Recorded(entity=DRIFTED, key=RATE, value=2048.0, owner=Owner(document="team/drifted")),
            DriftObserved(entity=DRIFTED, key=RATE, at=NOW - 7200),
            Recorded(
                entity=KEPT,
                key=RATE,
                value=6000.0,
                owner=Owner(document="team/kept", deletion_policy=DeletionPolicy.RETAIN),
            ),
            OverrideSet(
                override=Override(
                    entity=NIGHT,
                    key=RATE,
                    value=9999.0,
                    until=NOW + 600,
                    author="me",
                    reason="load @test",
                    before=2048.0,
                    applied=9999.0,
                )
            ),
        ]
    )
    live = QuotaState(
        limits={
            ALICE: limits_of({RATE: 5_000_000.0}),
            GONE: limits_of({RATE: 5000.0}),
            DRIFTED: limits_of({RATE: 77.0}),
            KEPT: limits_of({RATE: 6000.0}),
            STRANGER: limits_of({RATE: 7000.0}),
            LITERAL: limits_of({RATE: 4096.0}),
            NIGHT: limits_of({RATE: 9999.0}),
        }
    )
    plan = compare(
        desired=desired,
        owned=owned,
        live=live,
        rules=Rules(policy=Policy.SYNC, sync_confirmed=True),
        now=NOW,
    )
    below = below_overrides(live, owned)
    return Preview(
        plan=plan,
        fallbacks=fallbacks(plan.reviewed, below),
        violations=check(plan, Guards(), below),
        verdict=ValidationResult(
            source="broker",
            rejections={
                EVIL: Rejected(code=42, name="INVALID_REQUEST", message="no | `way`\n@team")
            },
        ),
        impact=replace(
            assess(plan, live, known_principals=principals_with_quotas(live)),
            unmatched=(UnmatchedClientId(entity=ALICE_SHOP, total=2, example="shop-1"),),
        ),
        warnings=("something @to know",),
        advice=warnings(desired, live),
        policy=Policy.SYNC,
        drift_mode=Rules().drift,
        created_at=NOW,
        origin=RunOrigin(author="ci", commit="abcdef", cluster="prod", tool_version="1.0"),
    )


def empty() -> Preview:
    """A preview without changes."""
    full = sample()
    plan = replace(full.plan, changes=(), findings=(), in_sync=7)
    return replace(
        full,
        plan=plan,
        fallbacks=(),
        violations=(),
        verdict=ValidationResult(source="none", reason="there is nothing to validate"),
        impact=None,
        warnings=(),
        advice=(),
    )


def result() -> Outcome:
    """An outcome with every text and every colour."""
    changes = sample().plan.changes
    ends = [
        (Applied(), PairVisibility.VISIBLE),
        (Applied(), PairVisibility.CHANGED),
        (
            Rejected(code=42, name="INVALID_REQUEST", message="no | `way`\n@team"),
            PairVisibility.UNCHECKED,
        ),
        (Held(waits_for=(ALICE, EVIL)), PairVisibility.UNCHECKED),
        (Unknown(reason="the connection was lost"), PairVisibility.NOT_YET),
        (None, PairVisibility.UNCHECKED),
    ]
    pairs = tuple(
        PairOutcome(
            change=change, result=ends[at % 6][0], visibility=ends[at % 6][1], observed_value=33.0
        )
        for at, change in enumerate(changes)
    )
    return Outcome(
        cluster_id="lkc-1",
        digest=sample().digest,
        pairs=pairs,
        visibility=Visibility(visible=(1, 2), lagging=(3,), unreachable={4: "refused\n"}),
        bookkeeping=2,
        failure="no broker answers",
        started_at=NOW,
        ended_at=NOW + 2,
        origin=RunOrigin(author="ci", commit="abcdef", cluster="prod", tool_version="1.0"),
    )


def golden(name: str, text: str) -> None:
    """Compare the text with that of the file; GOLDEN=write writes the file instead."""
    path = GOLDEN / name
    if os.environ.get("GOLDEN") == "write":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")
