"""Hostile commits and refs, small in the repository, with the memory of the operator's pod."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.app.loop.projects import cluster, quota
from tests.cli.projects import PROJECT
from tests.git.commits import git, repository
from tests.limits.process_limits import Prepared, assert_bounded

MIB = 2**20
LARGE = 140 * MIB
PROGRAM = """
import sys
from pathlib import Path
from reconciler.app.clusters.trusted_files import TrustedFiles
from reconciler.app.watch.revision import RevisionPaths, read_revision
from reconciler.errors import KquotaError
from reconciler.git.refs import GitRefs
from reconciler.git.repository import Repository
def main(top):
    top = Path(top)
    try:
        if GitRefs(top=top).read("refs/kquota/abc") is None:
            read_revision(Repository(top=top).tree(), RevisionPaths())
    except KquotaError as error:
        sys.exit(str(error))
"""
TEXT = PROJECT + cluster(more="  properties: {ssl.truststore.location: stores/ca.pem}\n")


@pytest.fixture(scope="module")
def program() -> Iterator[Prepared]:
    with Prepared(PROGRAM) as prepared:
        yield prepared


def blob(top: Path, content: bytes) -> str:
    file = top / "content"
    file.write_bytes(content)
    return git(top, "-c", "core.compression=1", "hash-object", "-w", str(file))


def tree(top: Path, *entries: tuple[str, str, str]) -> str:
    """A tree of `(kind, object id, name)`."""
    modes = {"blob": "100644", "link": "120000", "tree": "040000"}
    lines = top / "entries"
    lines.write_text(
        "".join(
            f"{modes[kind]} {kind.replace('link', 'blob')} {oid}\t{name}\n"
            for kind, oid, name in entries
        )
    )
    return git(top, "-c", f"alias.build=!git mktree < '{lines}'", "build")


def commit(top: Path, root: str, ref: str = "refs/heads/main") -> None:
    git(top, "update-ref", ref, git(top, "commit-tree", root, "-m", "hostile"))


def project(top: Path) -> tuple[str, str, str]:
    return "blob", blob(top, TEXT.encode()), "kquota.yaml"


def names_of_one_file(top: Path) -> None:
    large = blob(top, b"#" * 20 * MIB)
    folder = tree(top, *(("blob", large, f"q{n}.yaml") for n in range(30)))
    commit(top, tree(top, project(top), ("tree", folder, "quotas")))


def one_large_file(top: Path) -> None:
    folder = tree(top, ("blob", blob(top, b"\0" * LARGE), "a.yaml"))
    commit(top, tree(top, project(top), ("tree", folder, "quotas")))


def large_project_file(top: Path) -> None:
    commit(top, tree(top, ("blob", blob(top, b"\0" * LARGE), "kquota.yaml")))


def large_link(top: Path) -> None:
    folder = tree(top, ("link", blob(top, b"a" * LARGE), "a.yaml"))
    commit(top, tree(top, project(top), ("tree", folder, "quotas")))


def large_trust_store(top: Path) -> None:
    folder = tree(top, ("blob", blob(top, quota("a").encode()), "a.yaml"))
    stores = tree(top, ("blob", blob(top, b"\0" * LARGE), "ca.pem"))
    commit(top, tree(top, project(top), ("tree", folder, "quotas"), ("tree", stores, "stores")))


def hundred_million_names(top: Path) -> None:
    root = tree(top, ("blob", blob(top, b""), "a.yaml"))
    for _ in range(8):
        root = tree(top, *(("tree", root, f"folder-{n}") for n in range(10)))
    commit(top, root)


def large_records(top: Path) -> None:
    root = tree(top, ("blob", blob(top, b"\0" * LARGE), "inventory.json"))
    commit(top, root, "refs/kquota/abc")


ATTACKS: dict[Callable[[Path], None], str] = {
    names_of_one_file: "larger than 268435456 bytes together",
    one_large_file: "quotas/a.yaml:0:0: is larger than the 67108864 bytes",
    large_project_file: "kquota.yaml is too large",
    large_link: "quotas/a.yaml is too large",
    large_trust_store: "stores/ca.pem is too large",
    hundred_million_names: "git ls-tree -r",
    large_records: "git cat-file blob",
}


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_a_commit_that_is_too_large_is_refused_with_little_memory(
    attack: Callable[[Path], None], program: Prepared, tmp_path: Path
) -> None:
    top = repository(tmp_path / "top")
    attack(top)
    assert_bounded(program.run(str(top)), words=ATTACKS[attack])
