"""The trusted configuration is one tree: a head revision, a tag or a branch cannot replace any part of it."""

import json

import pytest

from reconciler.base.clock import SystemClock
from reconciler.codecs.plan import document_digest
from tests.cli.listeners import Listener
from tests.cli.projects import project, quota
from tests.cli.test_revisions import commit, git


@pytest.fixture
def attacker():
    """A server of an attacker."""
    with Listener() as running:
        yield running


@pytest.fixture
def clone(folder, sandbox, monkeypatch):
    """A clone of a repository whose branch main connects to the sandbox."""
    origin = folder / "origin"
    origin.mkdir()
    git(origin, "init", "-q", "-b", "main")
    project(origin, sandbox.bootstrap, quota("a"))
    commit(origin)
    git(folder, "clone", "-q", str(origin), "clone")
    monkeypatch.chdir(folder / "clone")
    return folder / "clone"


def test_a_tag_with_the_name_of_the_base_branch_does_not_decide_where_to_connect(
    kquota, clone, attacker
):
    project(clone, attacker.address, quota("a"))
    commit(clone)
    git(clone, "tag", "origin/main")
    git(clone, "reset", "-q", "--hard", "refs/remotes/origin/main")
    refused = kquota("plan", "--config-from", "origin/main")
    assert refused.code == 1
    assert "refs/remotes/origin/main or refs/tags/origin/main" in refused.err
    assert "write refs/remotes/origin/main, or the full commit id" in refused.err
    assert kquota("plan", "--config-from", "refs/remotes/origin/main").code == 0
    assert attacker.received == []


def test_every_command_that_takes_a_trusted_revision_refuses_a_short_name(kquota, clone):
    for command in ("plan", "validate", "drift", "apply --yes"):
        ran = kquota(*command.split(), "--config-from", "main")
        assert ran.code == 1, command
        assert "--config-from 'main' is a short name" in ran.err


def test_a_submodule_does_not_define_its_own_trusted_revision(
    kquota, clone, folder, attacker, monkeypatch
):
    submodule = folder / "other"
    submodule.mkdir()
    git(submodule, "init", "-q", "-b", "main")
    project(submodule, attacker.address, quota("a"))
    commit(submodule)
    git(
        clone,
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "--quiet",
        "add",
        str(submodule),
        "kafka",
    )
    commit(clone)
    for revision in ("refs/remotes/origin/main", git(submodule, "rev-parse", "HEAD")):
        for command in ("plan", "validate", "drift", "apply --yes"):
            words = (*command.split(), "--config-from", revision)
            monkeypatch.chdir(clone)
            from_outside = kquota(*words, "--project", "kafka/kquota.yaml")
            monkeypatch.chdir(clone / "kafka")
            for refused in (from_outside, kquota(*words)):
                assert refused.code == 1, words
                assert f"kafka is a submodule of {clone}" in refused.err
                assert "clone their repository by itself" in refused.err
    assert attacker.received == []


@pytest.mark.parametrize("ci", ["true", "1", "False", "0", ""])
def test_a_plan_in_ci_reports_that_it_trusts_its_whole_checkout(kquota, clone, monkeypatch, ci):
    monkeypatch.setenv("CI", ci)
    in_ci = ci in {"true", "1"}
    ran = kquota("plan", "--format", "json", "--out", "p.json")
    assert ran.code == 0
    assert ("CI is set without --config-from" in ran.err) is in_ci
    assert ("--config-from refs/remotes/origin/main" in ran.err) is in_ci
    for text in (ran.out, (clone / "p.json").read_text()):
        warnings = json.loads(text)["warnings"]
        assert any("CI is set without --config-from" in warning for warning in warnings) is in_ci
    ran = kquota("plan", "--config-from", git(clone, "rev-parse", "HEAD"))
    assert "without --config-from" not in ran.err


def test_a_plan_in_ci_with_addresses_as_options_trusts_the_options(
    kquota, clone, sandbox, monkeypatch
):
    monkeypatch.setenv("CI", "true")
    (clone / "kquota.yaml").unlink()
    for where in (("--bootstrap-server", sandbox.bootstrap), ("--offline",)):
        ran = kquota("plan", "quotas", "--no-inventory", *where)
        assert ran.code == 0
        assert "without --config-from" not in ran.err


# -- saved plans ------------------------------------------------------------------------------------------


def edited(clone, created, *, sealed: bool) -> None:
    """The saved plan with another time; `sealed` with a matching digest."""
    plan = json.loads((clone / "p.json").read_text())
    plan["created"] = created
    if sealed:
        plan["documentDigest"] = document_digest(plan["digest"], created)
    (clone / "p.json").write_text(json.dumps(plan))


def test_a_saved_plan_with_an_edited_time_is_refused(kquota, clone, sandbox):
    assert kquota("plan", "--out", "p.json").code == 0
    edited(clone, 4102444800, sealed=False)
    ran = kquota("apply", "p.json", "--yes", "--max-age", "1m")
    assert ran.code == 1
    assert "its time and its digests do not match" in ran.err
    assert sandbox.values() == {}


def test_a_plan_from_the_future_is_stale(kquota, clone, sandbox):
    assert kquota("plan", "--out", "p.json").code == 0
    for ahead, code in ((601 + 60, 4), (500, 0)):
        edited(clone, SystemClock().now() + ahead, sealed=True)
        ran = kquota("apply", "p.json", "--yes", "--max-age", "1m")
        assert ran.code == code, ran.err
        assert ("in the future" in ran.err) is (code == 4)


def test_files_that_contain_user_names_are_private(kquota, clone, sandbox):
    assert kquota("plan", "--out", "p.json").code == 0
    assert kquota("apply", "--yes", "--out", "o.json").code == 0
    assert kquota("snapshot", "--out", "s.json").code == 0
    assert kquota("plan", "--page", "r.html").code == 0
    names = [clone / name for name in ("p.json", "o.json", "s.json", "r.html")]
    assert {path.stat().st_mode & 0o777 for path in names} == {0o600}
    state = clone / ".kquota"
    assert any((state / "outcomes").iterdir())
    for path in (state, *state.rglob("*")):
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path


def test_outcomes_without_records_are_in_a_private_folder(kquota, clone, sandbox):
    assert kquota("apply", "--yes", "--no-inventory").code == 0
    assert (clone / ".kquota").stat().st_mode & 0o777 == 0o700
