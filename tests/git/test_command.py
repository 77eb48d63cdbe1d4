"""The environment and arguments that git receives."""

from pathlib import Path

import pytest

from reconciler.errors import GitError
from reconciler.git.command import environment, run
from reconciler.git.refs import GitRefs
from tests.git.commits import repository


def test_variables_that_redirect_git_are_removed_and_the_others_are_kept():
    variables = environment(
        {
            "PATH": "/bin",
            "HOME": "/home/me",
            "GIT_DIR": "/elsewhere",
            "GIT_INDEX_FILE": "/elsewhere/index",
            "GIT_EXTERNAL_DIFF": "rm",
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "safe.directory",
            "GIT_CONFIG_VALUE_0": "*",
            "GIT_TERMINAL_PROMPT": "1",
        }
    )
    assert not {"GIT_DIR", "GIT_INDEX_FILE", "GIT_EXTERNAL_DIFF"} & variables.keys()
    assert variables["PATH"] == "/bin"
    assert variables["HOME"] == "/home/me"
    assert variables["GIT_CONFIG_KEY_0"] == "safe.directory"
    assert variables["GIT_TERMINAL_PROMPT"] == "0"


def test_a_directory_outside_any_repository_is_reported(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    with pytest.raises(GitError, match="not inside a git repository") as caught:
        run(tmp_path, ("rev-parse", "--show-toplevel"))
    assert "clone" in caught.value.hint


def test_a_missing_git_command_is_reported_with_the_next_step(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(GitError, match="git command is not installed") as caught:
        run(tmp_path, ("status",))
    assert "install git" in caught.value.hint


def test_a_missing_directory_is_not_reported_as_a_missing_git(tmp_path: Path):
    with pytest.raises(GitError, match="does not exist"):
        run(tmp_path / "gone", ("status",))


def test_input_and_output_that_are_larger_than_a_pipe_are_passed_at_the_same_time(tmp_path: Path):
    run(tmp_path, ("init", "--quiet"))
    names = b"".join(b"%040x\n" % number for number in range(50_000))
    _, answer = run(tmp_path, ("cat-file", "--batch-check"), content=names)
    assert answer == names.replace(b"\n", b" missing\n")
    with pytest.raises(GitError, match="cat-file --batch-check is longer than 1000 bytes"):
        run(tmp_path, ("cat-file", "--batch-check"), content=names, max_output=1000)


def test_a_committed_folder_that_looks_like_a_bare_repository_is_not_used_as_one(tmp_path: Path):
    """Its settings would determine how the records are fetched: `core.sshCommand` is any program."""
    clone, witness = repository(tmp_path / "clone"), tmp_path / "executed"
    planted = clone / "infra"
    (planted / "objects").mkdir(parents=True)
    (planted / "refs").mkdir()
    (planted / "HEAD").write_text("ref: refs/heads/main\n")
    (planted / "config").write_text(
        f"[core]\n\tbare = false\n\tworktree = {clone}\n\tsshCommand = touch {witness} ;\n"
        '[remote "origin"]\n\turl = ssh://example.org/x\n'
    )
    with pytest.raises(GitError, match="is a bare repository"):
        GitRefs(top=planted).read("refs/kquota/inventory")
    assert not witness.exists()
    with pytest.raises(GitError, match="is a bare repository"):
        run(planted, ("rev-parse", "--show-toplevel"))
