"""Documents of recommendations keep their content and the owner of each pair, and load and plan without error."""

import json
from pathlib import Path

import pytest

from reconciler.app.recorded_use import recommendation
from reconciler.evidence.output.recommended_documents import DeclaredDocuments, documents
from reconciler.manifest.loader import load_files
from reconciler.quota.planner.desired_state import Declaration
from reconciler.quota.policy import DeletionPolicy
from reconciler.usage.tags import bucket_of
from tests.cli.conftest import Run
from tests.cli.consoles import Screen
from tests.cli.recommendations import EVIDENCE, manifest, project, quota, row

ALICE = '[["user", "alice"]]'
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
