"""The pictures of docs/pull-requests.md, light and dark: `python -m tests.render.pictures` generates them."""

import tempfile
from pathlib import Path

from msgspec.structs import replace

from reconciler.quota.entity import DEFAULT, Entity, entity
from reconciler.quota.keys import Key
from reconciler.quota.ownership import DriftObserved, Owner, OwnershipRecords, Recorded
from reconciler.quota.planner.desired_state import Declaration, merge
from reconciler.quota.policy import DeletionPolicy
from reconciler.quota.results.report import ValidationResult
from reconciler.quota.state import QuotaState, limits_of
from reconciler.render.page.cluster import ClusterPage
from tests.render.pages import looked, page
from tests.render.previews import NOW
from tests.servers.chromium import Browser, chromium

FOLDER = Path(__file__).parents[2] / "docs" / "pictures"
SIZE = (1200, 1180)
RATE, CONSUME, SHARE, CONNECT = (
    Key.PRODUCER_BYTE_RATE,
    Key.CONSUMER_BYTE_RATE,
    Key.REQUEST_PERCENTAGE,
    Key.CONNECTION_CREATION_RATE,
)
MIB = 1048576.0
TEAMS = {
    "payments": ("checkout", "ledger", "fraud", "refunds"),
    "analytics": ("etl", "dashboards", "features"),
    "platform": ("mirror", "audit", "metrics"),
}


def made_up() -> ClusterPage:
    """A synthetic company of three teams: a few changes, one drift, one undeclared limit."""
    live: dict[Entity, dict[Key, float]] = {}
    documents: list[Declaration] = []
    records: list[object] = []
    number = 0
    for team, services in TEAMS.items():
        for service in services:
            number += 1
            subject = entity(user=f"svc-{service}")
            values = {RATE: 10 * MIB * number, CONSUME: 20 * MIB * number}
            live[subject] = dict(values)
            owner = Owner(document=f"{team}/{service}", since=NOW - 90 * 86400)
            records += [
                Recorded(entity=subject, key=key, value=value, owner=owner)
                for key, value in values.items()
            ]
            documents.append(declared(team, service, subject, values, 12 * number))
    declarations = {document.document: document for document in documents}
    for name, key, value in (
        ("payments/checkout", RATE, 25 * MIB),
        ("payments/fraud", CONSUME, 30 * MIB),
        ("analytics/etl", SHARE, 150.0),
        ("platform/mirror", RATE, 160 * MIB),
    ):
        declaration = declarations[name]
        values = dict(zip(Key, declaration.limits, strict=True)) | {key: value}
        declarations[name] = replace(
            declaration, limits=limits_of({k: v for k, v in values.items() if v is not None})
        )
    batch = entity(user="svc-etl", client_id="nightly")
    declarations["analytics/nightly"] = declared("analytics", "nightly", batch, {RATE: 5 * MIB}, 90)
    drifted, legacy = entity(user="svc-audit"), entity(user="svc-legacy")
    live[drifted][RATE] = 900 * MIB
    live[legacy] = {RATE: 4 * MIB}
    live[entity(client_id="consumer-1")] = {CONSUME: 2 * MIB}
    live[entity(user=DEFAULT)] = {RATE: MIB, CONSUME: 2 * MIB}
    live[entity(ip="10.20.0.7")] = {CONNECT: 25.0}
    retained = Owner(document="payments/legacy", deletion_policy=DeletionPolicy.RETAIN)
    records += [
        DriftObserved(entity=drifted, key=RATE, at=NOW - 9 * 3600),
        Recorded(entity=legacy, key=RATE, value=4 * MIB, owner=retained),
    ]
    owned = OwnershipRecords(cluster_id="lkc-7Qw2").with_changes(records)
    state = QuotaState(limits={subject: limits_of(values) for subject, values in live.items()})
    new_page = looked(merge(declarations.values()), owned, state)
    preview = replace(new_page.preview, verdict=ValidationResult(source="broker"), snapshot_at=None)
    return replace(new_page, preview=preview)


def declared(
    team: str, service: str, subject: Entity, values: dict[Key, float], line: int
) -> Declaration:
    """A document of a team."""
    return Declaration(
        document=f"{team}/{service}",
        entity=subject,
        limits=limits_of(values),
        path=f"quotas/{team}.yaml",
        line=line,
        lines=(line + 7, line + 8, line + 9, 0, 0),
    )


def take(browser: Browser, html: Path, name: str) -> None:
    """Take a picture of one page in both schemes."""
    for scheme in ("light", "dark"):
        browser.emulate(scheme=scheme, motion="reduce")
        browser.open(html)
        browser.picture(FOLDER / f"{name}-{scheme}.png")


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, chromium(SIZE) as browser:
        html = Path(folder) / "plan.html"
        html.write_text(page(made_up()), encoding="utf-8")
        take(browser, html, "plan")


if __name__ == "__main__":
    main()
