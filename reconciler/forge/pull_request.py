"""One pull request per label with files of recommendations: opened, updated, closed. Independent of the code host."""

import json
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from reconciler.errors import ForgeError, UsageError
from reconciler.forge.marker import Marker, fingerprint, state_of, with_state

PullRequestAction = Literal["opened", "updated", "unchanged", "answered", "closed", "nothing"]

_FILE: Final = re.compile(r"[a-z0-9][a-z0-9.-]{0,252}\.yaml")
_FOLDER: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*")
_BRANCH_END: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
PROJECT_FILE: Final = "kquota.yaml"
TRAILER: Final = "Kquota-Files: "


@dataclass(frozen=True, slots=True, kw_only=True)
class PullRequest:
    """A pull request or merge request from a branch of the same repository."""

    number: int
    author: str
    body: str
    is_open: bool  # whether it is neither merged nor closed
    url: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PullRequestResult:
    """The result for the pull request; ``pull`` is ``None`` if there is none."""

    action: PullRequestAction
    pull: PullRequest | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchState:
    """The last commit of a branch."""

    commit: str
    message: str
    # Text of each YAML file directly in the folder, by path; no links, no folders.
    files: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedFiles:
    """The complete files of one folder of a repository; nothing else is ever written there.

    Raises:
        UsageError: The folder is the root, is hidden or leads elsewhere, or a file is not one of a cluster.
    """

    folder: str  # the folder, from the root of the repository
    files: Mapping[str, str]
    mark: str  # the first line of each of these files; files without it belong to other authors

    def __post_init__(self) -> None:
        if not _FOLDER.fullmatch(self.folder):
            raise UsageError(
                f"{self.folder!r} is not a folder for recommendations in a repository",
                hint="name a folder below the root, such as proposals, without hidden parts or `..`",
            )
        for name, text in self.files.items():
            if not _FILE.fullmatch(name) or name == PROJECT_FILE:
                raise UsageError(f"{name!r} is not the name of a file of recommendations")
            if not text.startswith(self.mark):
                raise UsageError(f"{self.folder}/{name} does not begin with {self.mark!r}")

    @property
    def texts(self) -> dict[str, str]:
        """The texts by path in the repository."""
        return {f"{self.folder}/{name}": text for name, text in self.files.items()}

    def own(self, state: BranchState) -> dict[str, str]:
        """Return the files of earlier recommendations in a branch.

        Raises:
            ForgeError: A file of another author is where a file of recommendations belongs.
        """
        own_files: dict[str, str] = {}
        for path, text in state.files.items():
            folder, _, name = path.rpartition("/")
            if folder != self.folder or not _FILE.fullmatch(name) or name == PROJECT_FILE:
                continue
            if text.startswith(self.mark):
                own_files[path] = text
            elif name in self.files:
                raise ForgeError(
                    f"{path} in the repository is not from kquota spark recommend, so it is not replaced",
                    hint="choose another folder with --folder, or move the file away",
                )
        return own_files


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """A commit to write."""

    branch: str
    parent: str  # the commit that it follows: the last one of the branch, or of the base branch
    is_new: bool
    message: str
    before: Mapping[str, str]  # the own files at `parent`, by path
    changes: Mapping[str, str | None]  # new texts by path; None = the file is removed


class PullRequestHost(Protocol):
    """Branches and pull requests of one repository."""

    async def own_name(self) -> str:
        """Return the account of the token."""

    async def base_branch(self) -> str:
        """Return the branch that pull requests are merged into."""

    async def state(self, branch: str, folder: str) -> BranchState | None:
        """Return the last commit of a branch with the YAML files of a folder; ``None`` = there is no such branch."""

    async def write(self, commit: Commit) -> None:
        """Write a commit; never replace one that another person wrote meanwhile."""

    async def drop(self, branch: str) -> None:
        """Delete a branch."""

    def pulls(self, branch: str, base: str) -> AsyncIterator[PullRequest]:
        """Yield open and ended pull requests of a branch of this repository, newest first."""

    async def propose(self, branch: str, base: str, title: str, body: str) -> PullRequest:
        """Open a pull request."""

    async def change_pull(self, pull: PullRequest, title: str, body: str) -> PullRequest:
        """Replace title and text."""

    async def end_pull(self, pull: PullRequest, body: str, comment: str) -> None:
        """Add a comment, replace the text, and close without a merge."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """What the pull request should be.

    Raises:
        UsageError: The label cannot be part of the name of a branch.
    """

    marker: Marker
    proposed: ProposedFiles
    title: str
    body: str  # its text without marker and fingerprint
    ended: str  # the comment, and the text, when nothing is recommended any more

    def __post_init__(self) -> None:
        label = self.marker.label
        if label and (not _BRANCH_END.fullmatch(label) or ".." in label or label.endswith(".lock")):
            raise UsageError(
                f"the label {label!r} cannot be part of the name of a branch",
                hint="use letters, digits, `.`, `-` and `_`: --label prod",
            )

    @property
    def branch(self) -> str:
        """The branch of the pull request."""
        return "kquota/recommendations" + (f"-{self.marker.label}" if self.marker.label else "")

    @property
    def message(self) -> str:
        """The message of a commit; its last line shows later that nothing was added to the commit."""
        return f"{self.title}\n\n{_trailer(self.proposed.texts)}"


async def update_pull_request(host: PullRequestHost, proposal: Proposal) -> PullRequestResult:
    """Open, update or close the pull request.

    Files count as changed if their documents changed; comments, such as the window of the evidence, do not count. A
    pull request that was closed or merged is the answer to its recommendation, so the same one is not opened again.

    Raises:
        ForgeError: The host refuses, or the branch has commits of other authors.
    """
    branch, proposed = proposal.branch, proposal.proposed
    base_name = await host.base_branch()
    base = await host.state(base_name, proposed.folder)
    if base is None or base_name == branch:
        raise ForgeError(
            f"the base branch {base_name!r} does not exist, or is the branch of recommendations",
            hint="choose the branch that pull requests are merged into with --base",
        )
    own_base = proposed.own(base)
    head = await host.state(branch, proposed.folder)
    if head is not None:
        _check_own(head, proposal)
    open_pull, ended_pull = await _own_pulls(host, proposal, base_name)
    if _same_documents(proposed.texts, own_base):
        return await _end(host, proposal, open_pull, head)
    facts = json.dumps([_documents(proposed.texts), _documents(own_base)], sort_keys=True)
    body = f"{with_state(proposal.marker, facts)}\n{proposal.body}"
    if open_pull is None:
        if ended_pull is not None and state_of(ended_pull.body) == fingerprint(facts):
            return PullRequestResult(action="answered", pull=ended_pull)
        if head is not None:
            await host.drop(branch)
        await _write(host, proposal, base, own_base, is_new=True)
        return PullRequestResult(action="opened", pull=await _open(host, proposal, base_name, body))
    own_head = own_base if head is None else proposed.own(head)
    is_written = head is not None and _same_documents(proposed.texts, own_head)
    if is_written and state_of(open_pull.body) == fingerprint(facts):
        return PullRequestResult(action="unchanged", pull=open_pull)
    if not is_written:
        await _write(host, proposal, head or base, own_head, is_new=head is None)
    pull = await host.change_pull(open_pull, proposal.title, body)
    return PullRequestResult(action="updated", pull=pull)


async def _own_pulls(
    host: PullRequestHost, proposal: Proposal, base: str
) -> tuple[PullRequest | None, PullRequest | None]:
    """Return our open pull request and the newest of ours that ended.

    Raises:
        ForgeError: Another person has an open pull request of the branch.
    """
    pulls = [pull async for pull in host.pulls(proposal.branch, base)]
    own_name = (await host.own_name()).casefold() if pulls else ""
    own_pulls = [
        pull
        for pull in pulls
        if pull.author.casefold() == own_name and proposal.marker.begins(pull.body)
    ]
    open_pulls = [pull for pull in pulls if pull.is_open]
    for pull in open_pulls:
        if pull not in own_pulls:
            raise ForgeError(
                f"pull request {pull.number} of the branch {proposal.branch} was opened by {pull.author},"
                " or its text was replaced, so nothing is changed",
                hint="close it and delete its branch, or choose another --label",
            )
    ended_pulls = [pull for pull in own_pulls if not pull.is_open]
    return next(iter(open_pulls), None), next(iter(ended_pulls), None)


async def _end(
    host: PullRequestHost, proposal: Proposal, pull: PullRequest | None, head: BranchState | None
) -> PullRequestResult:
    if pull is not None:
        body = f"{with_state(proposal.marker, '')}\n{proposal.ended}"
        await host.end_pull(pull, body, proposal.ended)
    if head is not None:
        await host.drop(proposal.branch)
    return PullRequestResult(action="nothing" if pull is None else "closed", pull=pull)


async def _write(
    host: PullRequestHost,
    proposal: Proposal,
    parent: BranchState,
    before: Mapping[str, str],
    *,
    is_new: bool,
) -> None:
    texts = proposal.proposed.texts
    changes: dict[str, str | None] = {
        path: text for path, text in texts.items() if before.get(path) != text
    }
    changes |= dict.fromkeys(before.keys() - texts.keys())
    try:
        await host.write(
            Commit(
                branch=proposal.branch,
                parent=parent.commit,
                is_new=is_new,
                message=proposal.message,
                before=before,
                changes=changes,
            )
        )
    except ForgeError as error:
        if error.status in {400, 403, 409, 422} and not error.may_work_later:
            error.hint = (
                f"the token needs the right to push to {proposal.branch} (on GitHub `permissions: contents: write`), the branch"
                " must not be protected, and another run of the same --label must not write to it at the same time"
            )
        raise


async def _open(host: PullRequestHost, proposal: Proposal, base: str, body: str) -> PullRequest:
    try:
        return await host.propose(proposal.branch, base, proposal.title, body)
    except ForgeError as error:
        if not error.unsure:
            raise
        pull, _ = await _own_pulls(host, proposal, base)
        return pull or await host.propose(proposal.branch, base, proposal.title, body)


def _check_own(head: BranchState, proposal: Proposal) -> None:
    """Check that the last commit of the branch is one of ours with nothing added.

    Raises:
        ForgeError: Another person committed to the branch.
    """
    if head.message.rstrip().rpartition("\n")[2] != _trailer(proposal.proposed.own(head)):
        raise ForgeError(
            f"the last commit {head.commit[:12]} of the branch {proposal.branch} is not from kquota post recommendations,"
            " so nothing is changed",
            hint="merge or close its pull request and delete the branch, or choose another --label",
        )


def _trailer(files: Mapping[str, str]) -> str:
    return TRAILER + fingerprint(json.dumps(dict(files), sort_keys=True))


def _documents(files: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the lines of each file that are not comments."""
    return {
        path: [line for line in text.splitlines() if not line.startswith("#")]
        for path, text in files.items()
    }


def _same_documents(files: Mapping[str, str], before: Mapping[str, str]) -> bool:
    return _documents(files) == _documents(before)
