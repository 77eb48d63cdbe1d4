"""Paths, folders and globs: on disk, and over the names of a revision."""

import os
from pathlib import Path

import pytest

from reconciler.manifest.files import (
    may_hold_matches,
    read_blobs,
    read_paths,
    select,
    unmatched_problem,
)
from tests.manifest.file_texts import files_of, problems_of

NAMES = (
    "kquota.yaml",
    "quotas/a.yaml",
    "quotas/b.yml",
    "quotas/c.txt",
    "quotas/team/d.yaml",
    "quotas/team/deep/e.yaml",
    "quotas/.hidden.yaml",
    "quotas/.git/f.yaml",
    "other/g.yaml",
    "quotas/[x].yaml",
    "other/[z-a].yaml",
)
PICKS = {
    "quotas": [
        "quotas/[x].yaml",
        "quotas/a.yaml",
        "quotas/b.yml",
        "quotas/team/d.yaml",
        "quotas/team/deep/e.yaml",
    ],
    "./quotas/": [
        "quotas/[x].yaml",
        "quotas/a.yaml",
        "quotas/b.yml",
        "quotas/team/d.yaml",
        "quotas/team/deep/e.yaml",
    ],
    "quotas/a.yaml": ["quotas/a.yaml"],
    "quotas/c.txt": ["quotas/c.txt"],
    "quotas/*.yaml": ["quotas/[x].yaml", "quotas/a.yaml"],
    "quotas/*": ["quotas/[x].yaml", "quotas/a.yaml", "quotas/b.yml", "quotas/c.txt"],
    "quotas/**/*.yaml": [
        "quotas/[x].yaml",
        "quotas/a.yaml",
        "quotas/team/d.yaml",
        "quotas/team/deep/e.yaml",
    ],
    "quotas/**": [
        "quotas/[x].yaml",
        "quotas/a.yaml",
        "quotas/b.yml",
        "quotas/c.txt",
        "quotas/team/d.yaml",
        "quotas/team/deep/e.yaml",
    ],
    "**/e.yaml": ["quotas/team/deep/e.yaml"],
    "quotas/?.y*ml": ["quotas/a.yaml", "quotas/b.yml"],
    "quotas/[ab].*": ["quotas/a.yaml", "quotas/b.yml"],
    "quotas/[!ab].*": ["quotas/c.txt"],
    "quotas/team/../a.yaml": ["quotas/a.yaml"],
    "quota": [],
    "quotas/*.json": [],
    "nowhere/**": [],
    "other/[z-a].yaml": ["other/[z-a].yaml"],
    "other/[f-a].yaml": [],
    "other/[!z-a].yaml": [],
    "other/[a--b].yaml": [],
    "other/[[&&~~||g].yaml": ["other/g.yaml"],
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in NAMES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"# {name}\n", encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(("pattern", "picked"), PICKS.items())
def test_a_pattern_selects_files_among_names(pattern: str, picked: list[str]) -> None:
    selected = select([pattern], NAMES)
    assert list(selected.names) == picked
    assert list(selected.unmatched) == ([] if picked else [pattern])


@pytest.mark.parametrize(("pattern", "picked"), PICKS.items())
def test_a_pattern_selects_the_same_files_on_disk(
    pattern: str, picked: list[str], tree: Path
) -> None:
    texts = read_paths([pattern], tree)
    assert [name for name, _ in files_of(texts)] == picked
    assert [str(problem) for problem in problems_of(texts)] == (
        [] if picked else [f"{pattern}:0:0: {unmatched_problem(pattern).message}"]
    )


@pytest.mark.parametrize(("pattern", "picked"), PICKS.items())
def test_a_pattern_selects_the_same_files_of_a_revision(pattern: str, picked: list[str]) -> None:
    texts = read_blobs(
        [pattern],
        NAMES,
        lambda names: {name: len(name) for name in names},
        lambda names: {name: name.encode() for name in names},
    )
    assert files_of(texts) == tuple((name, name) for name in picked)


def test_every_path_that_matches_nothing_is_reported(tree: Path) -> None:
    texts = read_paths(["a", "quotas", "b/*.yaml"], tree)
    assert [problem.path for problem in problems_of(texts)] == ["a", "b/*.yaml"]
    assert files_of(texts)


def test_invalid_utf8_is_reported_with_its_place(tree: Path) -> None:
    (tree / "quotas/a.yaml").write_bytes(b"a: b\nc: \xff\n")
    texts = read_paths(["quotas/a.yaml"], tree)
    assert [str(problem) for problem in problems_of(texts)] == [
        "quotas/a.yaml:2:4: byte 0xFF is not UTF-8"
    ]


def test_a_large_file_is_not_read(tree: Path) -> None:
    texts = read_paths(["quotas/a.yaml"], tree, max_file_bytes=5)
    assert "larger than the 5 bytes" in problems_of(texts)[0].message
    read: list[str] = []
    blobs = read_blobs(
        ["a", "b"],
        ["a", "b"],
        lambda names: {"a": 6, "b": 5},
        lambda names: {name: name.encode() for name in names if not read.append(name)},
        max_file_bytes=5,
    )
    assert "larger than the 5 bytes" in problems_of(blobs)[0].message
    assert read == ["b"]


def test_too_many_files_are_refused_before_they_are_read(tree: Path) -> None:
    assert "more than the 2" in problems_of(read_paths(["quotas"], tree, max_files=2))[0].message
    assert (
        "more than the 2"
        in read_blobs(["quotas"], NAMES, dict.fromkeys, dict.fromkeys, max_files=2)
        .problems[0]
        .message
    )


def test_a_linked_folder_is_followed_once_and_circular_links_end(tree: Path) -> None:
    (tree / "quotas/linked").symlink_to(tree / "other")
    (tree / "other/loop").symlink_to(tree / "quotas")
    (tree / "other/self").symlink_to(tree / "other")
    names = [name for name, _ in files_of(read_paths(["quotas"], tree))]
    assert "quotas/linked/g.yaml" in names
    assert len(names) == len(set(names)) == 7


def test_a_folder_that_cannot_be_listed_is_reported(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scandir = os.scandir

    def refusing(path: str) -> object:
        if str(path).endswith("team"):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    texts = read_paths(["quotas"], tree)
    assert "folder cannot be listed: Permission denied" in problems_of(texts)[0].message


@pytest.mark.parametrize(
    ("pattern", "folder", "may"),
    [
        ("quotas", "quotas/team", True),
        ("quotas", "quotas-old", False),
        ("quotas", "quotas/.cache", False),
        (".", "vendor", True),
        ("*.yaml", "vendor", False),
        ("*/all.yaml", "vendor", True),
        ("teams/*/all.yaml", "teams/a", True),
        ("teams/*/all.yaml", "other/a", False),
        ("teams/**/*.yaml", "teams/a/b/c", True),
    ],
)
def test_a_folder_is_searched_only_where_a_pattern_can_match_below_it(
    pattern: str, folder: str, may: bool
) -> None:
    assert may_hold_matches(folder, [pattern]) is may
