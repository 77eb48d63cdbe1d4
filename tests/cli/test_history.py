"""kquota history lists outcomes; kquota rollback --last undoes the newest."""

import shlex

import pytest

from tests.cli.projects import manifests, project, quota

USER_A = (("user", "a"),)


@pytest.fixture
def twice(kquota, folder, sandbox):
    """A project that was applied twice: 10 MiB/s, then 20 MiB/s."""
    project(folder, sandbox.bootstrap, quota("a"))
    assert kquota("apply", "--yes").code == 0
    manifests(folder, quota("a", "{producerByteRate: 20Mi}"))
    assert kquota("apply", "--yes").code == 0
    return folder


def test_outcomes_are_listed_the_newest_first_and_damaged_ones_are_named(kquota, twice):
    newest, oldest = sorted((twice / ".kquota/outcomes").glob("*.json"), reverse=True)
    oldest.write_text("{")
    lines = kquota("history").out.splitlines()
    assert [line.split()[-1] for line in lines[1:]] == [
        str(path.relative_to(twice)) for path in (newest, oldest)
    ]
    assert "1 of 1 applied" in lines[1]
    assert "cannot be read" in lines[2]


def test_a_mistyped_cluster_or_project_is_no_empty_history(kquota, twice):
    for words, problem in (
        (("--cluster", "x"), "no QuotaCluster has the name 'x'"),
        (("--project", "x/kquota.yaml"), "there is no project file x/kquota.yaml"),
    ):
        ran = kquota("history", *words)
        assert (ran.code, problem in ran.err) == (1, True), ran.err
    assert kquota("history", "--cluster", "prod").code == 0


def test_the_last_apply_that_wrote_something_is_undone_and_named(kquota, twice, sandbox):
    newest = max((twice / ".kquota/outcomes").glob("*.json"))
    assert "Nothing to do" in kquota("apply", "--yes").out
    ran = kquota("rollback", "--last", "--yes")
    assert ran.code == 0, ran.err
    assert f"restoring the limits from before .kquota/outcomes/{newest.name}\n" in ran.err
    assert sandbox.values()[USER_A]["producer_byte_rate"] == 10 * 2**20


def test_the_last_apply_is_undone_also_if_its_outcome_has_a_file_of_its_own(kquota, twice, sandbox):
    manifests(twice, quota("a", "{producerByteRate: 30Mi}"))
    assert kquota("apply", "--yes", "--out", "outcome.json").code == 0
    assert len(kquota("history").out.splitlines()) == 1 + 3
    assert kquota("rollback", "--last", "--yes").code == 0
    assert sandbox.values()[USER_A]["producer_byte_rate"] == 20 * 2**20


def test_the_changes_of_a_killed_run_are_unknown_in_its_history(kquota, twice):
    newest = max((twice / ".kquota/outcomes").glob("*.json"))
    for old, new in (
        ('"outcome":"APPLIED"', '"outcome":"UNKNOWN"'),
        (
            '"seen":"visible","text":"user=a"',
            '"seen":"not looked at","text":"user=a","why":"killed"',
        ),
        ('"found":20971520', '"found":null'),
    ):
        assert old in newest.read_text()
        newest.write_text(newest.read_text().replace(old, new))
    assert "0 of 1 applied, 1 unknown" in kquota("history").out


def test_the_hint_of_history_undoes_the_newest_outcome_of_the_listed_cluster(
    kquota, twice, sandbox
):
    """Outcomes of a second cluster are newer."""
    newest = max((twice / ".kquota/outcomes").glob("*.json"))
    newest.with_name("2999-01-01T000000Z-two.json").write_text(
        newest.read_text().replace('"before":10485760', '"before":5242880')
    )
    ran = kquota("history", "--cluster", "prod")
    _, _, command = ran.err.strip().rpartition("kquota ")
    ran = kquota(*shlex.split(command), "--yes")
    assert ran.code == 0, ran.err
    assert sandbox.values()[USER_A]["producer_byte_rate"] == 10 * 2**20


def test_history_says_which_command_each_outcome_is_of(kquota, twice):
    override = ("override", "user=a", "producer_byte_rate=5Mi", "--for", "1h", "--reason", "x")
    assert kquota(*override, "--yes").code == 0
    assert kquota("rollback", "--last", "--yes").code == 0
    lines = kquota("history").out.splitlines()
    assert lines[0].split()[:2] == ["started", "command"]
    assert [line.split()[1] for line in lines[1:]] == ["rollback", "override", "apply", "apply"]


def test_the_hint_of_history_works_from_any_folder(kquota, twice, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path.parent)
    ran = kquota("history", "--project", str(twice / "kquota.yaml"))
    _, _, command = ran.err.strip().rpartition("kquota ")
    assert kquota(*shlex.split(command), "--yes").code == 0


@pytest.mark.parametrize("words", [(), ("--last", "x.json")])
def test_a_rollback_needs_a_file_or_last(kquota, twice, words):
    ran = kquota("rollback", "--yes", *words)
    assert ran.code == 1
    assert "kquota history lists the outcomes" in ran.err


def test_without_outcomes_last_says_where_those_of_pipelines_are(kquota, folder, sandbox):
    project(folder, sandbox.bootstrap)
    ran = kquota("rollback", "--last", "--yes")
    assert ran.code == 1
    assert "there is no outcome in .kquota/outcomes" in ran.err
