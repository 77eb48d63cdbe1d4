"""Documents of recommendations keep their content and the owner of each pair, and load and plan without error."""

import json
from pathlib import Path

import pytest

from reconciler.app.recorded_use import recommendation
from reconciler.evidence.output.recommended_documents import DeclaredDocuments, documents
from reconciler.manifest.loader import load_files
from reconciler.quota.planner.desired_state import Declaration
from reconciler.quota.policy import DeletionPolicy
from reconciler.usage.samples import QuotaType
from reconciler.usage.tags import bucket_of
from tests.cli.conftest import Run
from tests.cli.consoles import Screen
from tests.cli.recommendations import EVIDENCE, manifest, project, quota, row

ALICE = '[["user", "alice"]]'
FETCH = QuotaType.FETCH
NOTHING = DeclaredDocuments(cluster="prod")


def declared(screen: Screen | None = None) -> DeclaredDocuments:
    """The declarations of this project for prod."""
    targets = recommendation._targets(None)
    return recommendation.declared((screen or Screen()).console, targets["prod"])


def by_name(text: str) -> dict[str, Declaration]:
    """The documents of a text by name."""
    loaded = load_files([("new", text)], clusters={"prod": {}}).checked()
    return {declaration.document: declaration for declaration in loaded.of("prod")}


def planned(kquota: Run) -> dict[tuple[str, str], float]:
    """The changes of the project's manifests for an empty cluster."""
    ran = kquota("plan", "--offline", "--no-inventory", "--format", "json")
    assert ran.code == 0, ran.err
    changes = json.loads(ran.out)["changes"]
    return {(json.dumps(change["entity"]), change["key"]): change["after"] for change in changes}


def test_a_replaced_document_keeps_its_other_fields(folder: Path) -> None:
    metadata = (
        "  namespace: payments\n"
        "  labels: {kafka-quotas.io/tier: gold, team: payments}\n"
        '  annotations:\n    approved-by: "bea: yes\\nreally"\n    true-story: "true"\n'
    )
    project(folder)
    text = quota(
        "alices",
        "producerByteRate: 10000, consumerByteRate: 20Ki",
        metadata=metadata,
        spec="  deletionPolicy: Retain\n  suspend: true\n",
    )
    manifest(folder, "a.yaml", "# ours\n", text)
    declarations = declared()
    new_text = documents([row()], declarations, EVIDENCE)
    assert "replaces the suspended document payments/alices in quotas/a.yaml:3" in new_text
    (declaration,) = by_name(new_text).values()
    assert declaration.document == "payments/alices"
    assert declaration.labels == (("kafka-quotas.io/tier", "gold"), ("team", "payments"))
    assert declaration.limits == (5000.0, 20480.0, None, None, None)
    assert (declaration.deletion_policy, declaration.suspended) == (DeletionPolicy.RETAIN, True)
    assert dict(declaration.annotations) == {
        "approved-by": "bea: yes\nreally",
        "true-story": "true",
    }


def test_defaults_that_grants_add_are_not_written_into_a_document(folder: Path) -> None:
    grants = (
        "  tenants:\n    - namespaces: [default]\n      entities: [{user: {prefix: al}}]\n"
        "      paths: [quotas]\n"
    )
    project(folder, grants=grants)
    text = quota("alices", "producerByteRate: 10000", spec="  deletionPolicy: Delete\n")
    manifest(folder, "a.yaml", text)
    screen = Screen()
    declarations = declared(screen)
    assert "is not granted" in screen.words
    (declaration,) = by_name(documents([row()], declarations, EVIDENCE)).values()
    assert declaration.deletion_policy is DeletionPolicy.DELETE


def test_a_limit_is_written_into_the_document_that_declares_it(kquota: Run, folder: Path) -> None:
    project(folder)
    manifest(folder, "a.yaml", quota("writes", "producerByteRate: 10000"))
    manifest(folder, "b.yaml", quota("reads", "consumerByteRate: 10000"))
    rows = [row(), row(kind=FETCH, target=7_000), row(kind=QuotaType.REQUEST, target=3_000_000)]
    for proposals in (rows, rows[:1], rows[1:2]):
        text = documents(proposals, declared(), EVIDENCE)
        by_file = {"writes": "a.yaml", "reads": "b.yaml"}
        for part in text.split("---\n")[1:]:
            (name,) = (name for name in by_file if f"\n  name: {name}\n" in part)
            manifest(folder, by_file[name], "---\n", part)
        limits = planned(kquota)
        assert limits[ALICE, "producer_byte_rate"] == (5000 if rows[0] in proposals else 10_000)
        assert limits[ALICE, "consumer_byte_rate"] == (7000 if rows[1] in proposals else 10_000)
        assert limits.get((ALICE, "request_percentage")) == (3 if rows[2] in proposals else None)
        assert text.count("kind: ClientQuota") == min(2, len(proposals))
        assert ("best case of a consumer" in text) is (rows[1] in proposals)
        manifest(folder, "a.yaml", quota("writes", "producerByteRate: 10000"))
        manifest(folder, "b.yaml", quota("reads", "consumerByteRate: 10000"))


def test_an_active_document_is_preferred_unless_a_suspended_one_declares_the_limit(
    folder: Path,
) -> None:
    project(folder)
    manifest(
        folder,
        "a.yaml",
        quota("asleep", "producerByteRate: 1, consumerByteRate: 2", spec="  suspend: true\n"),
    )
    manifest(folder, "b.yaml", quota("awake", "producerByteRate: 10000"))
    rows = [row(), row(kind=FETCH), row(kind=QuotaType.REQUEST, target=3_000_000)]
    name = by_name(documents(rows, declared(), EVIDENCE))
    assert name["default/awake"].limits == (5000.0, None, 3.0, None, None)
    assert name["default/asleep"].limits == (1.0, 5000.0, None, None, None)


def test_a_new_document_does_not_reuse_the_name_of_another_even_a_suspended_one(
    kquota: Run, folder: Path
) -> None:
    project(folder)
    bob = quota("user.bob", "producerByteRate: 10000", spec="  suspend: true\n")
    manifest(folder, "a.yaml", bob)
    text = documents([row(bucket_of("bob"))], declared(), EVIDENCE)
    assert list(by_name(text)) == ["default/user.bob-2"]
    manifest(folder, "b.yaml", text)
    assert planned(kquota) == {('[["user", "bob"]]', "producer_byte_rate"): 5000}


@pytest.mark.parametrize(
    "name", ["a\nkind: x", "a\u2028---\u2028b", "\x85# a", 'a"}\n---\nb', "\x1b[31m"]
)
def test_a_client_name_cannot_end_its_comment(name: str) -> None:
    text = documents([row(bucket_of(name, name))], NOTHING, EVIDENCE)
    (declaration,) = by_name(text).values()
    assert declaration.entity[:2] == (name, name)
    assert text.count("\n---") == 0
    assert all(line.isprintable() for line in text.splitlines())


def test_a_project_without_manifests_has_no_documents(kquota: Run, folder: Path) -> None:
    project(folder, manifests="")
    screen = Screen()
    declarations = declared(screen)
    assert declarations == NOTHING
    assert "prod: the project names no manifests, so nothing is declared yet" in screen.words
    text = documents([row()], declarations, EVIDENCE)
    assert "a new document" in text
    project(folder)
    manifest(folder, "prod.yaml", text)
    assert planned(kquota) == {(ALICE, "producer_byte_rate"): 5000}
