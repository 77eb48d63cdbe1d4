"""A malicious checkout: links to devices and to files outside, pipes without a writer."""

import os

import pytest

from tests.cli.projects import project, quota
from tests.cli.test_revisions import commit, git


@pytest.fixture
def repository(folder, sandbox, monkeypatch):
    """A project in git, with a private file outside of the repository."""
    (folder / "secret.yaml").write_text(quota("leaked"))
    top = folder / "repo"
    top.mkdir()
    git(top, "init", "-q", "-b", "main")
    project(top, sandbox.bootstrap, quota("a"))
    commit(top)
    monkeypatch.chdir(top)
    return top


@pytest.mark.parametrize("target", ["/dev/zero", "/proc/self/environ", "../../secret.yaml"])
def test_manifests_outside_the_repository_are_an_error(kquota, repository, target):
    (repository / "quotas" / "x.yaml").symlink_to(target)
    for command in ("plan", "validate", "apply --yes"):
        ran = kquota(*command.split())
        assert ran.code == 1, command
        assert "quotas/x.yaml" in ran.out + ran.err
        assert "outside" in ran.out + ran.err
        assert "leaked" not in ran.out


def test_a_folder_that_links_to_proc_is_one_problem(kquota, repository):
    (repository / "quotas" / "x").symlink_to("/proc")
    ran = kquota("plan")
    assert ran.code == 1
    assert len(ran.err) < 1000


def test_a_project_file_that_is_a_device_is_an_error(kquota, repository):
    (repository / "kquota.yaml").unlink()
    (repository / "kquota.yaml").symlink_to("/dev/zero")
    ran = kquota("plan")
    assert ran.code == 1
    assert "it is a device, not a regular file" in ran.err
    ran = kquota("plan", "--config-from", "refs/heads/main")
    assert ran.code == 0
    assert "project file of the head revision cannot be used" in ran.err


def test_a_project_file_of_the_machine_is_not_shown_as_one_of_the_head(kquota, repository, folder):
    text = (repository / "kquota.yaml").read_text()
    (folder / "other.yaml").write_text(text + "  guards: {maxRemovals: 424242}\n")
    (repository / "kquota.yaml").unlink()
    (repository / "kquota.yaml").symlink_to(folder / "other.yaml")
    ran = kquota("plan", "--config-from", "refs/heads/main")
    assert ran.code == 0
    assert "424242" not in ran.out + ran.err
    assert "which is outside" in ran.err


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_pipes_and_devices_are_refused_for_every_file_that_is_read(kquota, repository, kind):
    for name in ("x.yaml", "x.json", "x.csv"):
        if kind == "pipe":
            os.mkfifo(repository / name)
        else:
            (repository / name).symlink_to("/dev/zero")
    for command in (
        "plan x.yaml",
        "plan --offline --snapshot x.json",
        "plan --principals x.csv",
        "apply x.json --yes",
        "rollback x.json --yes",
        "import --cluster prod --from terraform x.json",
        "post github x.json --summary",
    ):
        ran = kquota(*command.split())
        assert ran.code == 1, command
        assert f"it is a {kind}, not a regular file" in ran.err or "which is outside" in ran.err
        assert "Traceback" not in ran.err
