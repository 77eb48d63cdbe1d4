"""Tests of following a branch: a commit is accepted or refused completely; until then the last accepted one applies."""

import asyncio
import logging
import shutil
from pathlib import Path

import pytest

from reconciler.app.loop.cluster_loop import LoopOutcome, LoopTrigger
from reconciler.app.watch.revision import Revision, RevisionPaths
from reconciler.app.watch.service import BranchFollower, BranchMirror
from reconciler.app.watch.state_file import WatchState
from reconciler.git.repository import CommitTree
from tests.app.loop.projects import Origin, cluster, quota
from tests.fakes.clock import FakeClock
from tests.fakes.telemetry import RecordedTelemetry
from tests.git.commits import commit, git

BROKEN = "nonsense: {"


class Following:
    """A follower with its dependencies; `restarted()` is a new process."""

    def __init__(self, folder: Path, places: RevisionPaths | None = None) -> None:
        self.folder = folder
        self.places = places or RevisionPaths()
        self.origin = Origin(folder)
        self.telemetry = RecordedTelemetry()
        self.taken: list[Revision] = []
        self.clock = FakeClock()
        self.restarted()

    def restarted(self) -> None:
        self.state = WatchState(self.folder / "watch.json")
        self.follower = BranchFollower(
            self.origin.mirror,
            self.places,
            state=self.state,
            take=self.taken.append,
            telemetry=self.telemetry,
            clock=self.clock,
        )

    def look(self) -> LoopOutcome:
        return asyncio.run(self.follower.work(LoopTrigger()))

    def restore(self) -> None:
        asyncio.run(self.follower.restore())

    @property
    def in_force(self) -> str:
        return self.follower.in_force.commit if self.follower.in_force else ""


@pytest.fixture
def watched(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Following:
    caplog.set_level(logging.INFO, "reconciler")
    return Following(tmp_path)


class OffLoopMirror:
    """A mirror whose git commands must not run in the thread of an event loop. Implements ``BranchMirror``."""

    def __init__(self, mirror: BranchMirror) -> None:
        self._mirror = mirror
        self.commands: list[str] = []

    @property
    def display_name(self) -> str:
        return self._mirror.display_name

    async def fetch(self) -> str:
        return await self._mirror.fetch()

    def tree(self, commit: str) -> CommitTree:
        self._run("tree")
        return self._mirror.tree(commit)

    def keep(self, commit: str) -> None:
        self._run("keep")
        self._mirror.keep(commit)

    def has(self, commit: str) -> bool:
        self._run("has")
        return self._mirror.has(commit)

    def follows(self, newer: str, older: str) -> bool:
        self._run("follows")
        return self._mirror.follows(newer, older)

    def _run(self, command: str) -> None:
        self.commands.append(command)
        with pytest.raises(RuntimeError, match="no running event loop"):
            asyncio.get_running_loop()


def test_the_event_loop_does_not_wait_for_git(watched: Following):
    mirror = watched.origin.mirror = OffLoopMirror(watched.origin.mirror)
    watched.restarted()
    for name in ("alice", "bob"):
        watched.origin.commit(quota(name))
        watched.look()
    watched.restarted()
    watched.restore()
    assert set(mirror.commands) == {"tree", "keep", "has", "follows"}


def messages_of(caplog: pytest.LogCaptureFixture, level: int) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == level]


def test_an_invalid_commit_is_refused_as_a_whole_and_the_last_valid_one_stays_in_force(
    watched: Following, caplog
):
    good = watched.origin.commit(quota("alice"))
    watched.look()
    bad = watched.origin.commit(quota("alice", "{producerByteRate: 20Mi}"), quota("bob"), BROKEN)
    assert watched.look() == LoopOutcome()
    watched.look()
    assert watched.in_force == good == watched.state.now.commit
    assert watched.follower.refused == bad == watched.state.now.refused_commit
    assert len(watched.taken) == 1
    assert watched.telemetry.revisions[-1] == ("prod", good, True)
    errors = messages_of(caplog, logging.ERROR)
    assert errors[0] == f"{bad[:12]} is refused; {good[:12]} stays in force"
    assert len(errors) == 2, "each problem once, for any number of polls"
    assert "quotas/all.yaml:" in errors[1]


def test_a_secret_file_that_appears_later_needs_no_new_commit(
    watched: Following, tmp_path: Path, caplog
):
    secret = tmp_path / "secret.properties"
    settings = f"  properties: {{client.id: '${{file:{secret}:id}}'}}\n"
    good = watched.origin.commit(quota("alice"), clusters=cluster(more=settings))
    for _ in range(2):
        watched.look()
    assert watched.in_force == ""
    errors = messages_of(caplog, logging.ERROR)
    assert len(errors) == 2, "each problem once, for any number of polls"
    secret.write_text("id=kquota\n")
    watched.look()
    assert watched.in_force == good
    assert watched.follower.refused == ""


def test_a_restart_continues_with_the_last_valid_commit_even_if_the_source_is_unavailable(
    watched: Following, tmp_path: Path
):
    good = watched.origin.commit(quota("alice"))
    watched.look()
    watched.origin.commit(BROKEN)
    watched.look()
    watched.origin.top.rename(tmp_path / "away")
    watched.restarted()
    watched.restore()
    assert watched.in_force == good
    assert watched.telemetry.revisions[-1] == ("prod", good, True)
    assert watched.look().retry
    assert watched.in_force == good


@pytest.mark.parametrize("is_mirror_lost", [False, True])
def test_a_rewritten_history_comes_into_force_with_a_warning(
    watched: Following, caplog, is_mirror_lost
):
    watched.origin.commit(quota("alice"))
    good = watched.origin.commit(quota("alice"), quota("bob"))
    watched.look()
    if is_mirror_lost:
        shutil.rmtree(watched.origin.mirror.folder)
    git(watched.origin.top, "reset", "--quiet", "--hard", "HEAD~1")
    forced = watched.origin.commit(quota("carol"))
    watched.look()
    assert watched.in_force == forced
    assert messages_of(caplog, logging.WARNING) == [
        f"the history of the branch was rewritten: it no longer contains {good[:12]}; {forced[:12]} replaces it"
    ]


def test_a_changed_trusted_file_is_reloaded_without_a_commit(tmp_path: Path, caplog):
    caplog.set_level(logging.INFO, "reconciler")
    trusted = tmp_path / "trusted.yaml"
    watched = Following(tmp_path, RevisionPaths(trusted=trusted))
    good = watched.origin.commit(quota("alice"))
    text = (watched.origin.top / "kquota.yaml").read_text()
    trusted.write_text(text)
    watched.look()
    trusted.write_text(text + "  policy: Observe\n")
    watched.look()
    assert [revision.commit for revision in watched.taken] == [good, good]
    assert not watched.taken[1].has_settings_of(watched.taken[0])
    assert f"{good[:12]} stays in force; its settings were reloaded" in messages_of(
        caplog, logging.INFO
    )
    trusted.unlink()
    watched.look()
    assert watched.follower.refused == good
    assert watched.in_force == good
    trusted.write_text(text)
    watched.look()
    assert watched.follower.refused == ""


def test_names_in_problems_cannot_forge_log_lines(watched: Following, caplog):
    commit(watched.origin.top, {"kquota.yaml": "a\x1b[31m: {\n"})
    watched.look()
    assert all("\x1b" not in record.getMessage() for record in caplog.records)


def test_a_lost_mirror_waits_for_the_branch(watched: Following, caplog):
    good = watched.origin.commit(quota("alice"))
    watched.look()
    shutil.rmtree(watched.origin.mirror.folder)
    watched.restarted()
    watched.restore()
    assert watched.follower.in_force is None
    assert "no longer in the mirror" in messages_of(caplog, logging.WARNING)[-1]
    watched.look()
    assert watched.in_force == good


def test_a_last_valid_commit_that_became_invalid_is_reported(watched: Following, caplog):
    watched.origin.commit(quota("alice"))
    watched.look()
    watched.places = RevisionPaths(folder="elsewhere")
    watched.restarted()
    watched.restore()
    assert watched.follower.in_force is None
    assert "can no longer be used" in messages_of(caplog, logging.ERROR)[0]


def test_a_branch_that_was_moved_back_is_reported_as_such(watched: Following, caplog):
    first = watched.origin.commit(quota("alice"))
    second = watched.origin.commit(quota("bob"))
    watched.look()
    git(watched.origin.top, "reset", "--quiet", "--hard", first)
    watched.look()
    assert watched.in_force == first
    assert messages_of(caplog, logging.WARNING) == [
        f"the branch was moved back from {second[:12]} to {first[:12]}, an earlier commit"
    ]
