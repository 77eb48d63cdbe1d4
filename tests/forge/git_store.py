"""Commits, trees and files in memory, with branches: the repository of the fake code hosts."""

import hashlib
import json
from dataclasses import dataclass


@dataclass(frozen=True)
class StoredCommit:
    message: str
    tree: str
    parents: tuple[str, ...]


FILES = {
    ".github/workflows/quotas.yml": "on: push\n",
    "kquota.yaml": "kind: QuotaProject\n",
    "quotas/alice.yaml": "kind: ClientQuota\n",
}
"""The first commit of main: a workflow, a project file and a manifest."""


class GitStore:
    """Objects by id, branches by name; the branch main exists."""

    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}
        self.trees: dict[str, dict[str, tuple[str, str]]] = {}
        self.commits: dict[str, StoredCommit] = {}
        self.branches: dict[str, str] = {}
        self.commit("main", dict(FILES), "begin")

    def commit(
        self, branch: str, changes: dict[str, str | None], message: str = "by hand", start: str = ""
    ) -> str:
        """Commit changes to a branch, or to a new one from `start` (a commit), and return the id."""
        parent = self.branches.get(branch, start)
        files = self.files(parent) if parent else {}
        for path, text in changes.items():
            if text is None:
                del files[path]
            else:
                files[path] = text
        self.branches[branch] = self.add_commit(
            message, self.tree_of(files), (parent,) if parent else ()
        )
        return self.branches[branch]

    def add_commit(self, message: str, tree: str, parents: tuple[str, ...]) -> str:
        commit = StoredCommit(message, tree, parents)
        sha = _digest("commit", [message, tree, parents, len(self.commits)])
        self.commits[sha] = commit
        return sha

    def tree_of(self, files: dict[str, str]) -> str:
        """Store the trees and blobs of files by path; return the id of the root."""
        entries: dict[str, tuple[str, str]] = {}
        folders: dict[str, dict[str, str]] = {}
        for path, text in files.items():
            name, slash, below = path.partition("/")
            if slash:
                folders.setdefault(name, {})[below] = text
            else:
                sha = _digest("blob", text)
                self.blobs[sha] = text.encode()
                entries[name] = ("blob", sha)
        for name, inner in folders.items():
            entries[name] = ("tree", self.tree_of(inner))
        sha = _digest("tree", sorted(entries.items()))
        self.trees[sha] = entries
        return sha

    def files(self, commit_or_tree: str) -> dict[str, str]:
        """Texts by path of a commit or a tree."""
        commit = self.commits.get(commit_or_tree)
        texts: dict[str, str] = {}
        for name, (kind, sha) in self.trees[commit.tree if commit else commit_or_tree].items():
            if kind == "blob":
                texts[name] = self.blobs[sha].decode()
            else:
                texts |= {f"{name}/{path}": text for path, text in self.files(sha).items()}
        return texts

    def text(self, branch: str, path: str) -> str | None:
        """A file of a branch."""
        return self.files(self.branches[branch]).get(path)

    def history(self, branch: str) -> list[StoredCommit]:
        """The commits of a branch along first parents, newest first."""
        commits = []
        sha = self.branches.get(branch)
        while sha:
            commits.append(self.commits[sha])
            sha = next(iter(commits[-1].parents), None)
        return commits


def _digest(kind: str, value: object) -> str:
    return hashlib.sha256(f"{kind} {json.dumps(value)}".encode()).hexdigest()[:40]
