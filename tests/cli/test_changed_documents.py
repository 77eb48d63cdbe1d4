"""Warnings of a proposal are listed for documents that it changes, and counted for others. They are accepted if the
trusted configuration or the document itself gives a reason."""

import json
from pathlib import Path

import pytest

from tests.cli.projects import manifests, project, quota
from tests.cli.test_revisions import commit, git

ODD = "{user: {name: odd-*}}"
OTHER = "{user: {name: other-*}}"


@pytest.fixture
def base(folder, sandbox) -> str:
    """A repository whose base revision has two documents with a warning each."""
    project(folder, sandbox.bootstrap)
    manifests(folder, quota("odd", entity=ODD), quota("other", entity=OTHER))
    git(folder, "init", "-q", "-b", "main")
    return commit(folder)


def proposal(kquota, base: str) -> tuple[str, dict]:
    """The comment and the saved plan."""
    ran = kquota("plan", "--config-from", base, "--format", "markdown", "--out", "p.json")
    assert ran.code == 0, ran.err
    return ran.out, json.loads(Path("p.json").read_text())


def test_only_documents_that_the_pull_request_changes_have_their_warnings_listed(
    kquota, folder, base
):
    manifests(
        folder, quota("odd", "{producerByteRate: 20Mi}", entity=ODD), quota("other", entity=OTHER)
    )
    text, plan = proposal(kquota, base)
    assert plan["changedDocuments"] == ["team/odd"]
    assert "user 'odd-&#42;': Kafka has no wildcards" in text
    assert "user 'other-" not in text
    assert "warnings about other documents 1" in text


def test_a_moved_document_is_compared_with_the_merge_base_and_not_with_the_newest_base(
    kquota, folder, base
):
    git(folder, "checkout", "-q", "-b", "change")
    manifests(folder, quota("odd", entity=ODD), quota("other", entity=OTHER), quota("third"))
    commit(folder)
    git(folder, "checkout", "-q", "main")
    manifests(
        folder, quota("odd", entity=ODD), quota("other", "{producerByteRate: 1Mi}", entity=OTHER)
    )
    newest = commit(folder)
    git(folder, "checkout", "-q", "change")
    _, plan = proposal(kquota, newest)
    assert plan["changedDocuments"] == ["team/third"]


def test_a_document_accepts_its_warning_by_an_annotation(kquota, folder, base):
    odd = quota("odd", "{producerByteRate: 20Mi}", entity=ODD).replace(
        "  name: odd\n",
        "  name: odd\n  annotations: {kafka-quotas.io/accept-wildcard: a literal name}\n",
        1,
    )
    manifests(folder, odd, quota("other", entity=OTHER))
    text, plan = proposal(kquota, base)
    assert "Kafka has no wildcards" not in text
    assert "accepted warnings 1" in text
    assert {row["accepted"] for row in plan["advice"]} == {"a literal name", ""}


ACCEPTED = "  acceptedWarnings: [{warning: wildcard, document: team/*, reason: INC-7}]\n"


def test_only_the_trusted_project_file_accepts_warnings(kquota, folder, base):
    path = folder / "kquota.yaml"
    path.write_text(path.read_text().replace("spec:\n", f"spec:\n{ACCEPTED}", 1))
    manifests(
        folder, quota("odd", "{producerByteRate: 20Mi}", entity=ODD), quota("other", entity=OTHER)
    )
    text, _ = proposal(kquota, base)
    assert "user 'odd-&#42;': Kafka has no wildcards" in text
    text, _ = proposal(kquota, commit(folder))
    assert "Kafka has no wildcards" not in text
    assert "accepted warnings 2" in text
    assert "wildcards" not in kquota("validate").err + kquota("validate").out


def test_without_a_trusted_revision_warnings_cover_the_documents_of_the_planned_changes(
    kquota, folder, base
):
    ran = kquota("plan", "--out", "p.json")
    assert ran.code == 0
    assert json.loads((folder / "p.json").read_text())["changedDocuments"] is None
