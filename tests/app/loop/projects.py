"""Repositories for tests of the loops: a project of one or more clusters, and ClientQuota documents."""

from pathlib import Path

from reconciler.app.watch.revision import Revision, RevisionPaths, read_revision
from reconciler.git.mirror import GitMirror, GitSource
from tests.cli.projects import CLUSTER, PROJECT, quota
from tests.git.commits import commit, repository

__all__ = ["Origin", "cluster", "quota"]


def cluster(name: str = "prod", bootstrap: str = "127.0.0.1:9", more: str = "") -> str:
    """One QuotaCluster; `more` is merged into its spec."""
    return "---\n" + CLUSTER.format(name=name, bootstrap=bootstrap) + more


class Origin:
    """A repository to which users push, and its mirror."""

    def __init__(self, folder: Path, *, within: str = "") -> None:
        self.top = repository(folder / "origin")
        self.within = within
        self.mirror = GitMirror(
            folder=folder / "mirror.git", source=GitSource(address=str(self.top))
        )

    def commit(self, *documents: str, clusters: str | None = None, **files: str | None) -> str:
        """A commit of a whole project; further files by name, with `_` for `.`."""
        project = PROJECT + (cluster() if clusters is None else clusters)
        named_texts = {name.replace("_", "."): text for name, text in files.items()}
        texts = {"kquota.yaml": project, "quotas/all.yaml": "".join(documents)} | named_texts
        return commit(self.top, {self.within + name: text for name, text in texts.items()})

    async def revision(self, places: RevisionPaths | None = None) -> Revision:
        """The newest commit as a revision."""
        return read_revision(self.mirror.tree(await self.mirror.fetch()), places or RevisionPaths())
