"""A revision that decides about trust names exactly one commit, independent of tags and branches of the same name."""

import asyncio
import hashlib
from pathlib import Path

import pytest

from reconciler.errors import GitError
from reconciler.git.mirror import GitMirror, GitSource
from reconciler.git.refs import GitRefs
from reconciler.git.repository import Repository, exact_commit
from tests.git.commits import commit, git, repository


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone whose remote branch main has one commit; a later malicious one is on no branch of the remote."""
    origin = repository(tmp_path / "origin")
    commit(origin, {"kquota.yaml": "good"})
    git(tmp_path, "clone", "--quiet", str(origin), "clone")
    return tmp_path / "clone"


def exact(clone: Path, revision: str, **options: bool) -> str:
    return exact_commit(Repository.around(clone), revision, option="--config-from", **options)


def test_full_ids_and_full_names_are_resolved_even_if_other_refs_have_the_same_name(clone: Path):
    good = git(clone, "rev-parse", "HEAD")
    evil = commit(clone, {"kquota.yaml": "evil"})
    for name in ("origin/main", "refs/remotes/origin/main", good):
        git(clone, "update-ref", f"refs/tags/{name}", evil)
        git(clone, "update-ref", f"refs/heads/{name}", evil)
    assert exact(clone, "refs/remotes/origin/main") == good
    assert exact(clone, good) == good
    assert exact(clone, good.upper()) == good
    assert exact(clone, "refs/tags/origin/main") == evil


def test_the_full_name_of_an_annotated_tag_resolves_to_its_commit(clone: Path):
    git(clone, "tag", "-a", "-m", "x", "v1")
    assert exact(clone, "refs/tags/v1") == git(clone, "rev-parse", "HEAD")
    assert exact(clone, git(clone, "rev-parse", "v1")) == git(clone, "rev-parse", "HEAD")


@pytest.mark.parametrize(
    ("revision", "words", "instead"),
    [
        ("origin/main", "a tag or branch of the same name", "refs/remotes/origin/main"),
        ("main", "a tag or branch of the same name", "refs/heads/main"),
        ("heads/main", "same name", "refs/heads/main"),
        ("HEAD", "the revision under review", "git rev-parse HEAD"),
        ("HEAD~1", "neither a full commit id", "refs/remotes/origin/BRANCH"),
        ("refs/remotes/origin/main~0", "there is no ref", "takes no ~"),
        ("refs/remotes/origin/main@{0}", "there is no ref", "git for-each-ref"),
        ("no-such", "neither a full commit id", "git rev-parse --verify"),
        ("-x", "neither a full commit id", "git rev-parse --verify"),
        ("", "neither a full commit id", "git rev-parse --verify"),
    ],
)
def test_a_short_name_is_refused_with_the_full_name_to_write(clone, revision, words, instead):
    with pytest.raises(GitError) as refused:
        exact(clone, revision)
    assert words in str(refused.value)
    assert instead in refused.value.hint


def test_an_ambiguous_name_is_refused_with_all_its_refs(clone: Path):
    git(clone, "tag", "origin/main")
    with pytest.raises(GitError) as refused:
        exact(clone, "origin/main")
    assert "refs/remotes/origin/main or refs/tags/origin/main" in str(refused.value)
    assert "write refs/remotes/origin/main" in refused.value.hint


def test_an_abbreviated_id_is_refused(clone: Path):
    full = git(clone, "rev-parse", "HEAD")
    for length in (7, 12, 39):
        with pytest.raises(GitError, match="not a full commit id") as refused:
            exact(clone, full[:length])
        assert "git rev-parse --verify" in refused.value.hint


def test_an_id_of_forty_digits_is_an_abbreviation_in_a_sha256_repository(tmp_path: Path):
    clone = tmp_path / "longer"
    clone.mkdir()
    git(clone, "init", "--quiet", "--object-format=sha256", "-b", "main")
    full = commit(clone, {"a": "x"})
    assert exact(clone, full) == full
    with pytest.raises(GitError, match="not a full commit id"):
        exact(clone, full[:40])


def test_a_branch_with_the_name_of_a_longer_id_is_not_used_as_one(clone: Path):
    name = hashlib.sha256(b"x").hexdigest()
    git(clone, "update-ref", f"refs/heads/{name}", "HEAD")
    with pytest.raises(GitError, match="is a short name"):
        exact(clone, name)


# -- other ways to replace objects or refs of the repository ------------------------------------------


def test_a_bare_repository_among_the_files_of_a_checkout_is_not_a_repository(tmp_path: Path):
    clone = repository(tmp_path / "clone")
    good = commit(clone, {"project/kquota.yaml": "good"})
    evil = repository(tmp_path / "evil")
    commit(evil, {"kquota.yaml": "evil"})
    git(evil, "update-ref", "refs/remotes/origin/main", "HEAD")
    (evil / ".git").rename(clone / "project" / "sub")
    git(clone / "project" / "sub", "config", "core.bare", "false")
    git(clone / "project" / "sub", "config", "core.worktree", "..")
    with pytest.raises(GitError, match="bare repository"):
        Repository.around(clone / "project" / "sub")
    assert Repository.around(clone / "project").commit() == good


def test_a_mirror_is_used_because_it_is_named(tmp_path: Path):
    origin = repository(tmp_path / "origin")
    newest = commit(origin, {"kquota.yaml": "x"})
    mirror = GitMirror(folder=tmp_path / "mirror", source=GitSource.of(str(origin), start=tmp_path))
    assert asyncio.run(mirror.fetch()) == newest
    assert mirror.tree(newest).read(["kquota.yaml"]) == {"kquota.yaml": b"x"}
    assert mirror.has(newest)


REF = "refs/kquota/inventory/AAAA"


@pytest.mark.parametrize("kind", ["heads", "tags"])
def test_a_branch_with_the_name_of_the_records_ref_is_not_used_as_it(tmp_path, kind):
    origin = tmp_path / "origin"
    origin.mkdir()
    git(origin, "init", "--quiet", "--bare", "-b", "main")
    clone = repository(tmp_path / "clone")
    git(clone, "remote", "add", "origin", str(origin))
    refs = GitRefs(top=clone)
    true = refs.write(REF, b"true", expected=None, message="x")
    forged = commit(clone, {"inventory.json": "forged"})
    git(clone, "push", "--quiet", "origin", f"{forged}:refs/{kind}/{REF}")
    with pytest.raises(GitError, match=f"has refs/{kind}/{REF}, which git takes for") as refused:
        refs.read(REF)
    assert refused.value.hint == f"delete it: git push origin :refs/{kind}/{REF}"
    git(clone, "push", "--quiet", "origin", f":refs/{kind}/{REF}")
    assert refs.read(REF) == (true, b"true")
