"""--config-from: the trusted configuration of a revision; offline plans, and records in a git ref."""

import json
import subprocess

import pytest

from tests.cli.projects import manifests, project, quota


def git(folder, *words: str) -> str:
    settings = ("-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false")
    done = subprocess.run(
        ["git", *settings, *words], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def commit(folder) -> str:
    git(folder, "add", "kquota.yaml", "quotas")
    git(folder, "commit", "-q", "-m", "x")
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture
def repository(kquota, folder, sandbox):
    """A project in git; the first commit declares a and b, and was applied without an inventory."""
    git(folder, "init", "-q", "-b", "main")
    project(folder, sandbox.bootstrap, quota("a"), quota("b", more="  deletionPolicy: Delete\n"))
    first = commit(folder)
    assert kquota("apply", "--yes", "--no-inventory").code == 0
    return first


def test_the_base_revision_decides_the_connection_and_the_permissions(
    kquota, folder, sandbox, repository
):
    text = (folder / "kquota.yaml").read_text()
    evil = text.replace(sandbox.bootstrap, "127.0.0.1:1") + "  guards: {maxRemovals: 999}\n"
    (folder / "kquota.yaml").write_text(evil + "  properties: {sasl.password: hush-hush}\n")
    manifests(folder, quota("a", "{producerByteRate: 20Mi}"), quota("b"))
    commit(folder)
    ran = kquota("plan", "--config-from", repository, "--detailed-exitcode")
    assert ran.code == 2
    assert "user=a" in ran.out
    assert f"spec.bootstrapServers: {sandbox.bootstrap} -> 127.0.0.1:1" in ran.err
    assert "maxRemovals" in ran.err
    assert "hush-hush" not in ran.err


def test_properties_files_come_from_the_base_revision_too(kquota, folder, sandbox, repository):
    (folder / "client.properties").write_text("client.id=base\n")
    (folder / "kquota.yaml").write_text(
        (folder / "kquota.yaml").read_text() + "  propertiesFile: client.properties\n"
    )
    git(folder, "add", "client.properties")
    base = commit(folder)
    (folder / "client.properties").write_text("security.protocol=SASL_SSL\n")
    assert kquota("plan", "--config-from", base).code == 0
    assert kquota("plan").code == 1


def test_changes_of_the_head_are_shown_in_comments_and_saved_plans(
    kquota, folder, sandbox, repository
):
    text = (folder / "kquota.yaml").read_text()
    (folder / "kquota.yaml").write_text(text + "  guards: {maxRemovals: 999}\n")
    comment = kquota("plan", "--config-from", repository, "--format", "markdown", "--out", "p.json")
    assert "maxRemovals" in comment.out
    (message,) = [
        warning
        for warning in json.loads((folder / "p.json").read_text())["warnings"]
        if "999" in warning
    ]
    assert "this change is ignored: QuotaCluster/" in message


def test_a_project_file_that_is_missing_at_the_base_is_not_trusted(kquota, folder, repository):
    (folder / "new.yaml").write_text((folder / "kquota.yaml").read_text())
    git(folder, "add", "new.yaml")
    commit(folder)
    ran = kquota("plan", "--project", "new.yaml", "--config-from", repository)
    assert ran.code == 1
    assert "no configuration to trust" in ran.err
    assert "merge the project file first" in ran.err


def test_an_invalid_project_file_of_the_head_has_no_effect(kquota, folder, repository):
    (folder / "kquota.yaml").write_text("kind: [")
    ran = kquota("plan", "--config-from", repository)
    assert ran.code == 0
    assert "head revision cannot be used" in ran.err


def test_an_offline_plan_uses_a_snapshot_instead_of_the_cluster(
    kquota, folder, sandbox, repository
):
    assert kquota("snapshot", "--taken-at", "--out", "s.json").code == 0
    manifests(folder, quota("a", "{producerByteRate: 0.5}"))
    assert kquota("plan", "--offline", "--snapshot", "s.json").code == 1
    manifests(folder, quota("a", "{producerByteRate: 20Mi}"), quota("b"))
    ran = kquota("plan", "--offline", "--snapshot", "s.json", "--detailed-exitcode")
    assert ran.code == 2
    assert "sandbox" in ran.out.splitlines()[0]
    assert kquota("plan", "--offline", "--snapshot", "quotas/all.yaml").code == 1
    assert kquota("plan", "--offline", "--validate", "broker").code == 1


def test_records_in_a_git_ref_are_written_and_shared(kquota, folder, sandbox, repository):
    text = (folder / "kquota.yaml").read_text()
    where = "  manifests: [quotas]\n"
    with_ref = text.replace(where, where + "  inventory: {gitRef: refs/kquota/inventory}\n")
    (folder / "kquota.yaml").write_text(with_ref)
    assert kquota("apply", "--yes").code == 0
    assert "refs/kquota/inventory/" in git(folder, "for-each-ref")
    assert "2 managed quota keys" in kquota("drift").out
    assert not (folder / ".kquota/inventory.json").exists()
