"""A commit is read completely or refused."""

import asyncio
from pathlib import Path

import pytest

from reconciler.app.notices import NoticeLog
from reconciler.app.watch.revision import Revision, RevisionPaths, check_clients
from reconciler.client import ClientConfig
from reconciler.errors import ConfigError, GitError, ManifestErrors
from reconciler.quota.entity import entity
from tests.app.loop.projects import Origin, cluster, quota
from tests.git.commits import commit, git
from tests.servers.certs import Authority

ALICE = entity(user="alice")


def config_of(revision: Revision) -> ClientConfig:
    return revision.targets["prod"].client_config(NoticeLog())


def read(origin: Origin, places: RevisionPaths | None = None) -> Revision:
    return asyncio.run(origin.revision(places))


@pytest.mark.parametrize("name", ["../outside", "/absolute", "a/../../b"])
def test_paths_outside_the_repository_are_refused(name: str):
    with pytest.raises(ConfigError):
        RevisionPaths(folder=name)
    with pytest.raises(ConfigError):
        RevisionPaths(project=name)


def test_every_problem_of_a_commit_is_reported_together(tmp_path: Path):
    origin = Origin(tmp_path)
    origin.commit(
        quota("alice", "{producerByteRate: -1}"),
        quota("twice", entity="{user: {name: bob}}"),
        quota("again", entity="{user: {name: bob}}"),
    )
    with pytest.raises(ManifestErrors) as caught:
        read(origin)
    words = [problem.message for problem in caught.value.problems]
    assert sum("producerByteRate must be greater than 0" in word for word in words) == 1
    assert sum("producer_byte_rate of " in word for word in words) == 2


def test_a_project_without_manifests_is_a_problem(tmp_path: Path):
    origin = Origin(tmp_path)
    commit(origin.top, {"kquota.yaml": cluster()})
    with pytest.raises(ManifestErrors, match="no manifests are configured for prod"):
        read(origin)


def test_records_in_a_git_ref_are_refused_for_watch(tmp_path: Path):
    origin = Origin(tmp_path)
    project = (
        "apiVersion: kafka-quotas.io/v1alpha1\nkind: QuotaProject\n"
        "spec: {manifests: [quotas], inventory: {gitRef: refs/kquota}}\n"
    )
    commit(origin.top, {"kquota.yaml": project + cluster(), "quotas/a.yaml": quota("alice")})
    with pytest.raises(ManifestErrors, match=r"inventory\.gitRef is for CI jobs"):
        read(origin)


def test_a_project_file_that_is_not_text_is_a_problem(tmp_path: Path):
    origin = Origin(tmp_path)
    (origin.top / "kquota.yaml").write_bytes(b"\xff\xfe")
    git(origin.top, "add", "-A")
    git(origin.top, "commit", "-qm", "binary")
    with pytest.raises(ManifestErrors, match="not UTF-8"):
        read(origin)


def test_a_folder_that_git_does_not_list_is_no_deletion_of_its_documents(tmp_path: Path):
    origin = Origin(tmp_path)
    origin.commit(quota("alice"))
    quotas = origin.top / "quotas"
    (origin.top / "other").mkdir()
    (origin.top / "other/bob.yaml").write_text(quota("bob"))
    (quotas / "linked").symlink_to("../other")
    git(origin.top, "add", "-A")
    git(origin.top, "commit", "-qm", "link")
    with pytest.raises(GitError, match="other is not a file of commit"):
        read(origin)
    (quotas / "linked").unlink()
    git(origin.top, "add", "-A")
    head = git(origin.top, "rev-parse", "HEAD").strip()
    git(origin.top, "update-index", "--add", "--cacheinfo", f"160000,{head},quotas/sub")
    git(origin.top, "commit", "-qm", "submodule")
    with pytest.raises(GitError, match="quotas/sub is not a file of commit"):
        read(origin)
    git(origin.top, "rm", "--cached", "-q", "quotas/sub")
    git(origin.top, "update-index", "--add", "--cacheinfo", f"160000,{head},sub")
    git(origin.top, "commit", "-qm", "beside the manifests")
    assert set(read(origin).desired["prod"].limits) == {ALICE}


def test_a_trusted_file_takes_precedence_over_the_branch(tmp_path: Path):
    origin = Origin(tmp_path)
    origin.commit(quota("alice"), clusters=cluster(bootstrap="evil.example.org:9092"))
    trusted = tmp_path / "etc" / "kquota.yaml"
    trusted.parent.mkdir()
    trusted.write_text((origin.top / "kquota.yaml").read_text().replace("evil", "good"))
    revision = read(origin, RevisionPaths(trusted=trusted))
    assert str(config_of(revision).bootstrap[0]) == "good.example.org:9092"
    assert set(revision.desired["prod"].limits) == {ALICE}
    trusted.unlink()
    with pytest.raises(ConfigError, match="cannot be read"):
        read(origin, RevisionPaths(trusted=trusted))


def test_client_properties_come_from_the_commit_unless_they_are_absolute_or_trusted(tmp_path: Path):
    origin = Origin(tmp_path)
    named = cluster(more="  propertiesFile: client.properties\n")
    origin.commit(quota("alice"), clusters=named, client_properties="client.id=from-commit\n")
    assert config_of(read(origin)).client_id == "from-commit"
    (tmp_path / "client.properties").write_text("client.id=from-machine\n")
    trusted = tmp_path / "trusted.yaml"
    trusted.write_text((origin.top / "kquota.yaml").read_text())
    of_machine = read(origin, RevisionPaths(trusted=trusted))
    assert config_of(of_machine).client_id == "from-machine"
    absolute = cluster(more=f"  propertiesFile: {tmp_path}/client.properties\n")
    origin.commit(quota("alice"), clusters=absolute)
    assert config_of(read(origin)).client_id == "from-machine"
    origin.commit(quota("alice"), clusters=cluster(more="  propertiesFile: gone.properties\n"))
    with pytest.raises(ConfigError, match=r"gone.properties: is not in the repository"):
        check_clients(read(origin))


SSL = "  properties: {{security.protocol: SSL, ssl.truststore.location: {name}}}\n"


def test_a_file_in_the_settings_is_of_the_commit(tmp_path: Path, monkeypatch):
    """It starts from the folder of the project, whatever the working directory is."""
    authority = Authority.make(tmp_path / "authority").certificate_file.read_text()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ca.pem").write_text("another authority")
    origin = Origin(tmp_path, within="kafka/")
    clusters, places = cluster(more=SSL.format(name="ca.pem")), RevisionPaths(folder="kafka")
    origin.commit(quota("alice"), clusters=clusters)
    with pytest.raises(ConfigError, match=r"is not in the repository at"):
        check_clients(read(origin, places))
    origin.commit(quota("alice"), clusters=clusters, ca_pem=authority)
    first = read(origin, places)
    check_clients(first)
    origin.commit(quota("bob"), clusters=clusters, ca_pem=authority)
    (origin.top / "README").write_text("no setting")
    git(origin.top, "add", "README")
    origin.commit(quota("bob"), clusters=clusters, ca_pem=authority)
    assert read(origin, places).has_settings_of(first)
    origin.commit(quota("bob"), clusters=clusters, ca_pem=authority + "\n")
    assert not read(origin, places).has_settings_of(first)
    origin.commit(quota("bob"), clusters=cluster(more=SSL.format(name="../../ca.pem")))
    with pytest.raises(ConfigError, match=r"leads out of the repository"):
        read(origin, places)


def test_a_file_in_the_settings_of_a_trusted_project_is_beside_it(tmp_path: Path, monkeypatch):
    authority = Authority.make(tmp_path / "authority").certificate_file.read_text()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ca.pem").write_text("another authority")
    origin = Origin(tmp_path)
    origin.commit(quota("alice"), clusters=cluster(more=SSL.format(name="ca.pem")))
    (tmp_path / "etc").mkdir()
    trusted = tmp_path / "etc" / "kquota.yaml"
    trusted.write_text((origin.top / "kquota.yaml").read_text())
    (tmp_path / "etc" / "ca.pem").write_text(authority)
    check_clients(read(origin, RevisionPaths(trusted=Path("etc/kquota.yaml"))))


def test_a_revision_detects_whether_documents_or_settings_changed(tmp_path: Path):
    origin = Origin(tmp_path)
    origin.commit(quota("alice"))
    first = read(origin)
    origin.commit(quota("alice"), quota("bob"))
    second = read(origin)
    assert second.has_settings_of(first)
    assert not second.has_settings_of(None)
    origin.commit(quota("alice"), clusters=cluster(more="  policy: Observe\n"))
    assert not read(origin).has_settings_of(second)


def test_secrets_of_a_revision_are_not_shown(tmp_path: Path):
    origin = Origin(tmp_path)
    origin.commit(quota("alice"), clusters=cluster(more="  properties: {sasl.password: hunter2}\n"))
    assert "hunter2" not in repr(read(origin))
