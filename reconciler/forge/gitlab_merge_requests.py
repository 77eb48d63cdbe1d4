"""Branches, commits and merge requests of recommendations on GitLab, by its API alone: no checkout, no git."""

from collections.abc import AsyncIterator
from urllib.parse import quote

from reconciler.errors import ForgeError
from reconciler.forge.code_host import REGULAR_FILES, RepositoryBranches, blob_text
from reconciler.forge.gitlab import FIELDS
from reconciler.forge.pull_request import BranchState, Commit, PullRequest
from reconciler.forge.rest_client import Json, optional_text, required_field


class GitLabMergeRequests(RepositoryBranches):
    """One project; a ``pull_request.PullRequestHost``."""

    async def state(self, branch: str, folder: str) -> BranchState | None:
        """Return the last commit of a branch with the YAML files of a folder."""
        try:
            answer = await self._host.client.get(self._branch(branch))
        except ForgeError as error:
            if error.status == 404:
                return None
            raise
        commit = required_field(answer, "commit.id", str)
        return BranchState(
            commit=commit,
            message=optional_text(answer, "commit.message"),
            files=await self._files(commit, folder),
        )

    async def write(self, commit: Commit) -> None:
        """Write a commit at the end of the branch, or of a new one."""
        fields: dict[str, Json] = {
            "branch": commit.branch,
            "commit_message": commit.message,
            "actions": [
                _action(path, text, exists=path in commit.before)
                for path, text in commit.changes.items()
            ],
        }
        if commit.is_new:
            fields["start_sha"] = commit.parent
        await self._host.client.send("POST", f"{self._host.path}/repository/commits", fields)

    async def drop(self, branch: str) -> None:
        """Delete a branch."""
        try:
            await self._host.client.send("DELETE", self._branch(branch))
        except ForgeError as error:
            if error.status != 404:
                raise

    async def pulls(self, branch: str, base: str) -> AsyncIterator[PullRequest]:
        """All merge requests of a branch of this project, newest first."""
        query = {"state": "all", "order_by": "created_at", "sort": "desc", "scope": "all"}
        query |= {"source_branch": branch, "target_branch": base}
        async for pull in self._host.client.items(f"{self._host.path}/merge_requests", query=query):
            if pull.get("source_project_id") == pull.get("target_project_id"):
                yield FIELDS.pull(pull)

    async def propose(self, branch: str, base: str, title: str, body: str) -> PullRequest:
        """Open a merge request; a merge deletes the branch."""
        fields: dict[str, Json] = {
            "source_branch": branch,
            "target_branch": base,
            "title": title,
            "description": body,
            "remove_source_branch": True,
        }
        path = f"{self._host.path}/merge_requests"
        return FIELDS.pull(await self._host.client.send("POST", path, fields))

    async def _files(self, commit: str, folder: str) -> dict[str, str]:
        texts: dict[str, str] = {}
        query = {"path": folder, "ref": commit}
        entries = self._host.client.items(f"{self._host.path}/repository/tree", query=query)
        try:
            blobs = {
                required_field(entry, "path", str): required_field(entry, "id", str)
                async for entry in entries
                if optional_text(entry, "mode") in REGULAR_FILES
                and optional_text(entry, "name").endswith(".yaml")
            }
        except ForgeError as error:
            if error.status == 404:  # there is no such folder
                return {}
            raise
        for path, sha in blobs.items():
            blob = await self._host.client.get(f"{self._host.path}/repository/blobs/{sha}")
            texts[path] = blob_text(blob)
        return texts

    def _branch(self, name: str) -> str:
        return f"{self._host.path}/repository/branches/{quote(name, safe='')}"


def _action(path: str, text: str | None, *, exists: bool) -> dict[str, Json]:
    if text is None:
        return {"action": "delete", "file_path": path}
    return {"action": "update" if exists else "create", "file_path": path, "content": text}
