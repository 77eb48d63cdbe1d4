"""Commits for tests: real repositories with an author of their own."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

IDENTITY = {
    "GIT_AUTHOR_NAME": "A",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "A",
    "GIT_COMMITTER_EMAIL": "a@example.org",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
}


def git(directory: Path, *arguments: str) -> str:
    outer = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    done = subprocess.run(
        ["git", *arguments],
        cwd=directory,
        env=outer | IDENTITY,
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()


def repository(folder: Path) -> Path:
    """An empty repository with a work tree, on branch main."""
    folder.mkdir(parents=True)
    git(folder, "init", "--quiet", "-b", "main")
    return folder


def commit(folder: Path, files: Mapping[str, str | None], message: str = "change") -> str:
    """Write files, or remove those with text ``None``, and return the id of the commit."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if text is None:
            path.unlink()
        else:
            path.write_text(text)
    git(folder, "add", "-A")
    git(folder, "commit", "--quiet", "--allow-empty", "-m", message)
    return git(folder, "rev-parse", "HEAD")
