"""Which project file and brokers a command uses: parent folders, variables of the environment, --command-config."""

import os
from pathlib import Path

import pytest

from reconciler.app.clusters.project_files import search_path
from tests.cli.brokers import SandboxThread
from tests.cli.projects import CLUSTER, PROJECT, project, quota
from tests.git.commits import git

VARIABLES = ("KQUOTA_PROJECT", "KQUOTA_CLUSTER", "KQUOTA_BOOTSTRAP_SERVERS")
NOWHERE = "127.0.0.1:1"


def commit_all(folder: Path) -> None:
    """Everything in the folder, in one commit."""
    git(folder, "add", "--all", "--force")
    git(folder, "commit", "--quiet", "--message", "all")


@pytest.fixture(autouse=True)
def no_variables(monkeypatch):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def below(folder, sandbox, monkeypatch) -> Path:
    """The working directory is two folders below the project file of a work tree."""
    git(folder, "init", "--quiet")
    project(folder, sandbox.bootstrap, quota("a"))
    inner = folder / "teams" / "payments"
    inner.mkdir(parents=True)
    monkeypatch.chdir(inner)
    return inner


def test_the_nearest_project_file_is_used(kquota, below):
    project(below, NOWHERE, quota("a"), name="near")
    assert "near" in kquota("validate", "--cluster", "nowhere").err


def test_the_search_ends_at_the_root_of_the_work_tree(kquota, below, monkeypatch):
    checkout = below / "checkout"
    checkout.mkdir()
    git(checkout, "init", "--quiet")
    monkeypatch.chdir(checkout)
    ran = kquota("plan")
    assert ran.code == 1
    assert "no project file kquota.yaml" in ran.err
    assert "up to the root of the git work tree" in ran.err


def test_a_folder_of_another_user_ends_the_search(tmp_path, monkeypatch):
    git(tmp_path, "init", "--quiet")
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    assert search_path(inner) == tuple(
        map(Path, ("kquota.yaml", "../kquota.yaml", "../../kquota.yaml"))
    )
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    assert search_path(inner) == (Path("kquota.yaml"),)


def test_with_a_trusted_revision_the_nearest_project_file_of_that_revision_is_used(
    kquota, below, sandbox
):
    """A file that the head adds in a closer folder does not hide the trusted one."""
    top = below.parents[1]
    commit_all(top)
    base = git(top, "rev-parse", "HEAD").strip()
    with SandboxThread() as evil:
        project(below, evil.bootstrap, quota("a"))
        ran = kquota("plan", "--config-from", base)
        assert ran.code == 0, ran.err
        assert evil.sandbox.values() == {}
    assert "../../kquota.yaml" in ran.err or "1 to create" in ran.out


def test_environment_variables_set_the_project_the_cluster_and_the_brokers(
    kquota, folder, sandbox, monkeypatch
):
    text = PROJECT + "".join(
        "---\n" + CLUSTER.format(name=name, bootstrap=at)
        for name, at in (("near", sandbox.bootstrap), ("far", NOWHERE))
    )
    (folder / "other.yaml").write_text(text)
    monkeypatch.setenv("KQUOTA_PROJECT", "other.yaml")
    monkeypatch.setenv("KQUOTA_CLUSTER", "near")
    assert kquota("describe").out == "No quotas.\n"
    monkeypatch.delenv("KQUOTA_PROJECT")
    monkeypatch.setenv("KQUOTA_BOOTSTRAP_SERVERS", sandbox.bootstrap)
    assert kquota("describe").out == "No quotas.\n"


def test_an_option_takes_precedence_over_a_variable_that_contradicts_it(
    kquota, folder, sandbox, monkeypatch
):
    project(folder, sandbox.bootstrap, quota("a"))
    monkeypatch.setenv("KQUOTA_CLUSTER", "unknown")
    monkeypatch.setenv("KQUOTA_BOOTSTRAP_SERVERS", NOWHERE)
    for typed in (
        ["--all"],
        ["--cluster", "prod"],
        ["--project", "kquota.yaml", "--cluster", "prod"],
    ):
        ran = kquota("plan", *typed)
        assert (ran.code, ran.err) == (0, "")
    monkeypatch.setenv("KQUOTA_PROJECT", "missing.yaml")
    assert kquota("describe", "--bootstrap-server", sandbox.bootstrap).code == 0


def test_contradictory_variables_are_an_error_that_names_them(kquota, folder, monkeypatch):
    monkeypatch.setenv("KQUOTA_PROJECT", "kquota.yaml")
    monkeypatch.setenv("KQUOTA_BOOTSTRAP_SERVERS", NOWHERE)
    ran = kquota("describe")
    assert ran.code == 1
    assert "KQUOTA_BOOTSTRAP_SERVERS" in ran.err
    assert "KQUOTA_PROJECT" in ran.err


@pytest.mark.parametrize("command", ["apply --yes quotas", "plan quotas", "drift", "describe"])
def test_brokers_in_a_variable_do_not_replace_a_project_that_is_found(
    kquota, folder, sandbox, monkeypatch, command
):
    """Its guards, policy and expected cluster id would be left out silently, and another cluster be written."""
    project(folder, NOWHERE, quota("a"))
    (folder / ".git").mkdir()
    monkeypatch.setenv("KQUOTA_BOOTSTRAP_SERVERS", sandbox.bootstrap)
    for place in (folder, folder / "quotas"):
        monkeypatch.chdir(place)
        ran = kquota(*command.split())
        assert ran.code == 1
        assert "KQUOTA_BOOTSTRAP_SERVERS names brokers" in ran.err
        assert "kquota.yaml is a project" in ran.err
    assert sandbox.values() == {}
    assert not (folder / ".kquota").exists()
    assert kquota("describe", "--bootstrap-server", sandbox.bootstrap).code == 0


def test_a_command_config_is_added_to_the_settings_of_the_project(kquota, folder, sandbox):
    project(folder, sandbox.bootstrap, quota("a"))
    (folder / "more.properties").write_text("security.protocol=SSL\n")
    ran = kquota("plan", "--command-config", "more.properties", "--timeout", "2s")
    assert (
        ran.code == 1
    )  # the sandbox uses no TLS, so the setting was used, at the project's brokers
    assert "prod" in ran.err or sandbox.bootstrap in ran.err
    (folder / "more.properties").write_text(f"client.id=me\nbootstrap.servers={NOWHERE}\n")
    ran = kquota("plan", "--command-config", "more.properties")
    assert ran.code == 0, ran.err
    assert "1 to create" in ran.out
    assert "bootstrap.servers of more.properties is not used" in ran.err


def test_without_a_project_a_command_config_provides_the_brokers(kquota, folder, sandbox):
    (folder / "client.properties").write_text(f"bootstrap.servers={sandbox.bootstrap}\n")
    assert kquota("describe", "--command-config", "client.properties").out == "No quotas.\n"


def test_with_a_trusted_revision_a_command_config_is_read_from_the_revision(
    kquota, folder, sandbox
):
    project(folder, sandbox.bootstrap, quota("a"))
    (folder / "client.properties").write_text("client.id=me\n")
    git(folder, "init", "--quiet")
    commit_all(folder)
    base = git(folder, "rev-parse", "HEAD").strip()
    (folder / "client.properties").write_text("security.protocol=SSL\n")
    ran = kquota("plan", "--config-from", base, "--command-config", "client.properties")
    assert ran.code == 0, ran.err
    (folder / "new.properties").write_text("client.id=me\n")
    ran = kquota("plan", "--config-from", base, "--command-config", "new.properties")
    assert ran.code == 1
    assert "the file of the checkout is not trusted" in ran.err
