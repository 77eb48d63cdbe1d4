"""The parts of GitHub's API for Git objects, references and the writing of pull requests, for `GitHubApi`."""

import base64
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

if TYPE_CHECKING:
    from tests.forge.github_api import Account, GitHubApi


@dataclass(frozen=True)
class Refusal(Exception):
    """An error response."""

    status: int
    message: str
    headers: dict[str, str] = field(default_factory=dict)
    errors: tuple[dict, ...] = ()


@dataclass(frozen=True)
class ApiRequest:
    """A received request."""

    method: str
    path: str
    query: dict[str, str]
    body: Any
    headers: dict[str, str]


Answer = tuple[int, dict[str, str], Any]


def git_answer(
    api: "GitHubApi", request: ApiRequest, account: "Account", steps: list[str]
) -> Answer:
    """The response to a request below `/git/`."""
    if request.method != "GET":
        api.check_right(account, "contents: write")
    if steps[0] in {"ref", "refs"}:
        return _reference(api, request, steps[1:])
    return _read_object(api, steps) if request.method == "GET" else _new_object(api, request, steps)


def _reference(api: "GitHubApi", request: ApiRequest, steps: list[str]) -> Answer:
    branches, body = api.git.branches, request.body
    branch = unquote(steps[0]) if steps else body["ref"].removeprefix("refs/")
    branch = branch.removeprefix("heads/")
    if request.method != "GET" and branch in api.protected:
        raise Refusal(422, "Protected branch update failed")
    if request.method == "POST":
        if branch in branches:
            raise Refusal(422, "Reference already exists")
        branches[branch] = body["sha"]
    elif branch not in branches:
        raise (
            Refusal(404, "Not Found") if request.method == "GET" else Refusal(422, "No reference")
        )
    elif request.method == "DELETE":
        del branches[branch]
        for pull in api.pulls.values():
            if (pull.head_branch, pull.head_repo) == (branch, api.repository):
                pull.state = "closed"
        return 204, {}, None
    elif request.method == "PATCH":
        if body.get("force") or branches[branch] not in api.git.commits[body["sha"]].parents:
            raise Refusal(422, "Update is not a fast forward")
        branches[branch] = body["sha"]
    return 201 if request.method == "POST" else 200, {}, _ref(api, branch)


def _read_object(api: "GitHubApi", steps: list[str]) -> Answer:
    store = api.git
    match steps:
        case ["commits", sha]:
            return 200, {}, _commit(api, sha)
        case ["trees", sha]:
            return 200, {}, _tree(api, sha)
        case ["blobs", sha]:
            blob = {
                "content": base64.encodebytes(store.blobs[sha]).decode(),
                "encoding": "base64",
                "sha": sha,
                "size": len(store.blobs[sha]),
                "url": f"{api.url}/blobs/{sha}",
            }
            return 200, {}, blob
        case _:
            raise Refusal(404, "Not Found")


def _new_object(api: "GitHubApi", request: ApiRequest, steps: list[str]) -> Answer:
    store, body = api.git, request.body
    if steps == ["commits"]:
        sha = store.add_commit(body["message"], body["tree"], tuple(body["parents"]))
        return 201, {}, _commit(api, sha)
    assert steps == ["trees"]
    files = store.files(body["base_tree"])
    for entry in body["tree"]:
        assert (entry["mode"], entry["type"]) == ("100644", "blob")
        if "content" in entry:
            files[entry["path"]] = entry["content"]
        else:
            assert entry["sha"] is None
            del files[entry["path"]]
    return 201, {}, _tree(api, store.tree_of(files))


def pull_answer(api: "GitHubApi", request: ApiRequest, account: "Account", number: str) -> Answer:
    """The response to a request that opens (no number) or changes a pull request."""
    api.check_right(account, "pull-requests: write")
    body = request.body
    if number:
        pull = api.pulls[int(number)]
        pull.state = body.get("state", pull.state)
        pull.title = body.get("title", pull.title)
        pull.body = api.text_of(request, "body", "PullRequest")
        return 200, {}, api.pull_json(pull)
    branch = body["head"]
    opened = [
        pull
        for pull in api.pulls.values()
        if (pull.head_branch, pull.head_repo, pull.state) == (branch, api.repository, "open")
    ]
    if opened or branch not in api.git.branches or body["base"] not in api.git.branches:
        errors = ({"resource": "PullRequest", "code": "custom", "message": "it cannot be opened"},)
        raise Refusal(422, "Validation Failed", errors=errors)
    text = api.text_of(request, "body", "PullRequest")
    pull = api.pull(max(api.pulls, default=0) + 1, sha=api.git.branches[branch], branch=branch)
    pull.author, pull.title, pull.body, pull.base = account.login, body["title"], text, body["base"]
    return 201, {}, api.pull_json(pull)


def _ref(api: "GitHubApi", branch: str) -> dict:
    sha = api.git.branches[branch]
    url = f"{api.url}/git/commits/{sha}"
    return {"ref": f"refs/heads/{branch}", "object": {"type": "commit", "sha": sha, "url": url}}


def _commit(api: "GitHubApi", sha: str) -> dict:
    commit = api.git.commits[sha]
    parents = [
        {"sha": parent, "url": api.url, "html_url": "https://github.com/octo/quotas"}
        for parent in commit.parents
    ]
    tree = {"sha": commit.tree, "url": api.url}
    return {"sha": sha, "message": commit.message, "tree": tree, "parents": parents}


def _tree(api: "GitHubApi", sha: str) -> dict:
    store = api.git
    entries = [
        {
            "path": name,
            "mode": api.modes.get(name, "100644") if kind == "blob" else "040000",
            "type": kind,
            "sha": inner,
            "url": api.url,
        }
        for name, (kind, inner) in store.trees[sha].items()
    ]
    return {"sha": sha, "url": api.url, "tree": entries, "truncated": api.is_truncated}
