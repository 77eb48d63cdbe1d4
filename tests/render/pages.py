"""Pages for tests: one with all parts and hostile names, and one with a given number of entities."""

import random

from msgspec.structs import replace

from reconciler.app.html_page import page_files
from reconciler.quota.entity import DEFAULT, entity
from reconciler.quota.keys import Key
from reconciler.quota.ownership import DriftObserved, Owner, OwnershipRecords, Recorded
from reconciler.quota.planner.comparison import compare
from reconciler.quota.planner.desired_state import Declaration, merge
from reconciler.quota.planner.effects import fallbacks
from reconciler.quota.planner.guards import Guards, check
from reconciler.quota.planner.impact import assess, principals_with_quotas
from reconciler.quota.policy import Policy, Rules
from reconciler.quota.results.report import Preview, RunOrigin, ValidationResult
from reconciler.quota.rule_warnings import warnings
from reconciler.quota.state import QuotaState, limits_of
from reconciler.render.page.cluster import ClusterPage, clusters_html
from reconciler.render.recorded_use import RecordedUse, ToleranceViolation, UseRow
from tests.render.previews import (
    ALICE,
    DRIFTED,
    GONE,
    KEPT,
    LITERAL,
    NIGHT,
    NOW,
    RATE,
    STRANGER,
    sample,
)

HOSTILE = (
    "</script><script>window.broken=1</script>",
    "<!--<script>",
    "<img src=x onerror=window.broken=2>",
    "a\u2028b\u2029c",
    "\u202etxt.exe",
    "{{script}}",
    '"><svg onload=window.broken=3>',
    "&lt;b&gt;&amp;",
    "\ud800lone",
    "__proto__",
    "constructor",
)
LIVE = QuotaState(
    limits={
        ALICE: limits_of({RATE: 5_000_000.0}),
        GONE: limits_of({RATE: 5000.0}),
        DRIFTED: limits_of({RATE: 77.0}),
        KEPT: limits_of({RATE: 6000.0}),
        STRANGER: limits_of({RATE: 7000.0}),
        LITERAL: limits_of({RATE: 4096.0}),
        NIGHT: limits_of({RATE: 9999.0}),
    },
    foreign_values={ALICE: (("made_up_rate", 3.0),)},
    foreign_entities=(((("client-id-prefix", "<x>"),), (("producer_byte_rate", 1.0),)),),
)


def look(name: str = "prod") -> ClusterPage:
    """A page with all parts."""
    return ClusterPage(name=name, preview=sample(), live=LIVE)


def page(*looks: ClusterPage) -> str:
    """The page of these values."""
    return clusters_html(looks or (look(),), page_files(), made_at=NOW, tool_version="1.0")


def recorded(*names: str) -> RecordedUse:
    """The impact of recorded use on some users, the last one unknown."""
    rows = [
        UseRow(
            bucket=f"user={name}",
            limit_name="produce",
            before="20 MiB/s",
            after="10 MiB/s",
            description=f"throttled 10 min a day ({name})",
            broker="broker 2; throttled on 1 of 3",
            mark="!" if name != names[-1] else "?",
        )
        for name in names
    ]
    return RecordedUse(
        headline=f"{names[0]} will be worse off",
        evidence=(f"14 d until yesterday; {names[0]}",),
        rows=tuple(rows),
        left_out=3,
        refusals=(
            ToleranceViolation(
                entity=None, key=RATE, message=f"user={names[0]}: worst delay 3 min"
            ),
        ),
        notes=(f"a note on {names[0]}",),
    )


def hostile_look() -> ClusterPage:
    """Every hostile name as user, client id, document, path and sentence."""
    live = QuotaState(
        limits={
            **{entity(user=name): limits_of({RATE: 5000.0}) for name in HOSTILE},
            **{entity(client_id=name): limits_of({RATE: 6000.0}) for name in HOSTILE},
        }
    )
    desired = merge(
        Declaration(
            document=f"team/{name}",
            entity=entity(user=name, client_id=name),
            limits=limits_of({RATE: 4000.0}),
            path=f"quotas/{name}.yaml",
            line=1,
        )
        for name in HOSTILE
    )
    new_page = looked(
        desired, OwnershipRecords(cluster_id=HOSTILE[0]), live, warnings=HOSTILE, name=HOSTILE[0]
    )
    return replace(new_page, recorded=recorded(*HOSTILE))


def looked(
    desired, owned, live, *, warnings: tuple[str, ...] = (), name: str = "prod"
) -> ClusterPage:
    """A plan for an empty cluster, as from the use case."""
    plan = compare(desired=desired, owned=owned, live=live, rules=Rules(), now=NOW)
    preview = Preview(
        plan=plan,
        fallbacks=fallbacks(plan.changes, live),
        violations=check(plan, Guards(), live),
        verdict=ValidationResult(source="sandbox 4.x", reason="our principal may not alter"),
        impact=assess(plan, live, known_principals=principals_with_quotas(live)),
        advice=advice(desired, live),
        warnings=warnings,
        policy=Policy.UPSERT,
        drift_mode=Rules().drift,
        created_at=NOW,
        snapshot_at=NOW - 7200,
        origin=RunOrigin(
            author="ci", commit="0123456789abcdef", cluster="prod", tool_version="1.0"
        ),
    )
    return ClusterPage(name=name, preview=preview, live=live, owned=owned)


advice = warnings


def large_look(amount: int) -> ClusterPage:
    """A given number of owned entities, a tenth of them changed, some with drift, some without an owner."""
    chance = random.Random(7)
    live, desired, records = {}, [], []
    for number in range(amount - 3):
        user = f"user-{number:05d}"
        client = chance.choice(("etl", "checkout", "web"))
        subject = entity(user=user, client_id=client) if number % 3 == 0 else entity(user=user)
        value = float(chance.randrange(16, 4000)) * 65536
        document, owner = f"team-{number % 40}/{user}", Owner(document=f"team-{number % 40}/{user}")
        live[subject] = limits_of({RATE: value, Key.CONSUMER_BYTE_RATE: 2 * value})
        desired.append(
            Declaration(
                document=document,
                entity=subject,
                limits=limits_of(
                    {
                        RATE: value * (0.5 if number % 30 == 0 else 1.5)
                        if number % 10 == 0
                        else value,
                        Key.CONSUMER_BYTE_RATE: 2 * value,
                    }
                ),
                path=f"quotas/team-{number % 40}.yaml",
                line=10 * number + 1,
                lines=(10 * number + 6, 10 * number + 7, 0, 0, 0),
            )
        )
        records.append(Recorded(entity=subject, key=RATE, value=value, owner=owner))
        applied = 5000.0 if number % 400 == 1 else 2 * value
        records.append(
            Recorded(entity=subject, key=Key.CONSUMER_BYTE_RATE, value=applied, owner=owner)
        )
        if number % 400 == 1:
            desired[-1] = replace(
                desired[-1], limits=limits_of({RATE: value, Key.CONSUMER_BYTE_RATE: applied})
            )
            records.append(
                DriftObserved(entity=subject, key=Key.CONSUMER_BYTE_RATE, at=NOW - 3600 - number)
            )
    live[entity(user=DEFAULT)] = limits_of({RATE: 1048576.0})
    live[entity(client_id="checkout")] = limits_of({RATE: 2_000_000.0})
    live[entity(ip="10.0.0.7")] = limits_of({Key.CONNECTION_CREATION_RATE: 20.0})
    owned = OwnershipRecords(cluster_id="lkc-1").with_changes(records)
    return looked(merge(desired), owned, QuotaState(limits=live))
