"""Branches, commits and pull requests of recommendations on GitHub, by its API alone: no checkout, no git."""

from collections.abc import AsyncIterator, Mapping
from urllib.parse import quote

from reconciler.errors import ForgeError
from reconciler.forge.code_host import REGULAR_FILES, RepositoryBranches, blob_text
from reconciler.forge.github import FIELDS
from reconciler.forge.pull_request import BranchState, Commit, PullRequest
from reconciler.forge.rest_client import Json, optional_text, required_field


class GitHubPulls(RepositoryBranches):
    """One repository; a ``pull_request.PullRequestHost``."""

    async def state(self, branch: str, folder: str) -> BranchState | None:
        """Return the last commit of a branch with the YAML files of a folder."""
        try:
            ref = await self._host.client.get(self._git("ref", f"heads/{branch}"))
        except ForgeError as error:
            if error.status == 404:
                return None
            raise
        sha = required_field(ref, "object.sha", str)
        commit = await self._host.client.get(self._git("commits", sha))
        return BranchState(
            commit=sha,
            message=optional_text(commit, "message"),
            files=await self._files(required_field(commit, "tree.sha", str), folder),
        )

    async def write(self, commit: Commit) -> None:
        """Write a commit. A branch that moved meanwhile is not replaced: GitHub refuses."""
        parent = await self._host.client.get(self._git("commits", commit.parent))
        entries: list[Json] = [_tree_entry(path, text) for path, text in commit.changes.items()]
        tree = await self._send(
            "trees", {"base_tree": required_field(parent, "tree.sha", str), "tree": entries}
        )
        written = await self._send(
            "commits", {"message": commit.message, "tree": tree, "parents": [commit.parent]}
        )
        if commit.is_new:
            body: dict[str, Json] = {"ref": f"refs/heads/{commit.branch}", "sha": written}
            await self._host.client.send("POST", f"{self._host.path}/git/refs", body)
        else:
            path = self._git("refs", f"heads/{commit.branch}")
            await self._host.client.send("PATCH", path, {"sha": written, "force": False})

    async def drop(self, branch: str) -> None:
        """Delete a branch."""
        try:
            await self._host.client.send("DELETE", self._git("refs", f"heads/{branch}"))
        except ForgeError as error:
            if error.status not in {404, 422}:  # 422: "Reference does not exist"
                raise

    async def pulls(self, branch: str, base: str) -> AsyncIterator[PullRequest]:
        """All pull requests of a branch of this repository, newest first."""
        repository = self._host.path.removeprefix("/repos/")
        query = {"state": "all", "sort": "created", "direction": "desc", "base": base}
        query["head"] = f"{repository.partition('/')[0]}:{branch}"
        async for pull in self._host.client.items(f"{self._host.path}/pulls", query=query):
            is_own_branch = optional_text(pull, "head.ref") == branch
            head_repository = optional_text(pull, "head.repo.full_name")
            if is_own_branch and head_repository.casefold() == repository.casefold():
                yield FIELDS.pull(pull)

    async def propose(self, branch: str, base: str, title: str, body: str) -> PullRequest:
        """Open a pull request."""
        fields: dict[str, Json] = {"title": title, "head": branch, "base": base, "body": body}
        try:
            return FIELDS.pull(
                await self._host.client.send("POST", f"{self._host.path}/pulls", fields)
            )
        except ForgeError as error:
            if error.status == 403 and not error.may_work_later:
                error.hint = (
                    "the job needs `permissions: pull-requests: write`, and the setting `Allow GitHub Actions to create and"
                    " approve pull requests` of the repository; the token of an app needs only the right itself"
                )
            raise

    async def _send(self, kind: str, body: Mapping[str, Json]) -> str:
        """Create a Git object and return its id."""
        answer = await self._host.client.send("POST", f"{self._host.path}/git/{kind}", body)
        return required_field(answer, "sha", str)

    async def _files(self, tree: str, folder: str) -> dict[str, str]:
        for name in folder.split("/"):
            subtrees = [
                required_field(entry, "sha", str)
                for entry in await self._entries(tree)
                if optional_text(entry, "path") == name and optional_text(entry, "type") == "tree"
            ]
            if not subtrees:
                return {}
            (tree,) = subtrees
        texts: dict[str, str] = {}
        for entry in await self._entries(tree):
            name = optional_text(entry, "path")
            if name.endswith(".yaml") and optional_text(entry, "mode") in REGULAR_FILES:
                blob = await self._host.client.get(
                    self._git("blobs", required_field(entry, "sha", str))
                )
                texts[f"{folder}/{name}"] = blob_text(blob)
        return texts

    async def _entries(self, tree: str) -> list[Json]:
        answer = await self._host.client.get(self._git("trees", tree))
        entries = answer.get("tree") if isinstance(answer, dict) else None
        if not isinstance(entries, list) or (
            isinstance(answer, dict) and answer.get("truncated") is True
        ):
            raise ForgeError(f"the host did not list the tree {tree} completely")
        return entries

    def _git(self, kind: str, name: str) -> str:
        return f"{self._host.path}/git/{kind}/{quote(name, safe='')}"


def _tree_entry(path: str, text: str | None) -> dict[str, Json]:
    entry: dict[str, Json] = {"path": path, "mode": "100644", "type": "blob"}
    return entry | ({"sha": None} if text is None else {"content": text})
