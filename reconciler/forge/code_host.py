"""What GitHub and GitLab have in common: an API with a path for each repository, and fields that differ only in their names."""

import base64
from dataclasses import dataclass
from typing import Final, Protocol

from reconciler.errors import ForgeError
from reconciler.forge.drift_issue import Issue
from reconciler.forge.pull_request import PullRequest
from reconciler.forge.rest_client import Json, RestClient, optional_text, required_field
from reconciler.forge.sticky_comment import Comment

REGULAR_FILES: Final = frozenset({"100644", "100755"})
"""Modes of files in a Git tree; symbolic links and submodules have others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFields:
    """Paths of fields in a host's JSON."""

    number: str  # number of an issue or a pull request, as its users see it
    author: str
    body: str  # text of an issue or a pull request; that of a comment is `body` on every host
    url: str
    # Values of `state` of a pull request that is neither merged nor closed.
    open_states: frozenset[str]

    def comment(self, document: Json) -> Comment:
        """Return a comment."""
        return Comment(
            id=required_field(document, "id", int),
            author=optional_text(document, self.author),
            body=optional_text(document, "body"),
            url=optional_text(document, self.url),
        )

    def issue(self, document: Json) -> Issue:
        """Return an issue."""
        return Issue(
            number=required_field(document, self.number, int),
            author=optional_text(document, self.author),
            title=optional_text(document, "title"),
            body=optional_text(document, self.body),
            url=optional_text(document, self.url),
        )

    def pull(self, document: Json) -> PullRequest:
        """Return a pull request."""
        return PullRequest(
            number=required_field(document, self.number, int),
            author=optional_text(document, self.author),
            body=optional_text(document, self.body),
            is_open=required_field(document, "state", str) in self.open_states,
            url=optional_text(document, self.url),
        )


class HostedRepository(Protocol):
    """One repository of a host: the client of its API, and its path there."""

    client: RestClient
    path: str

    async def own_name(self) -> str:
        """Return the account of the token."""


class RepositoryPart:
    """Comments or branches of one repository, written with the account of its token."""

    def __init__(self, host: HostedRepository) -> None:
        self._host = host

    async def own_name(self) -> str:
        """Return the account of the token."""
        return await self._host.own_name()


class RepositoryBranches(RepositoryPart):
    """Branches of one repository.

    ``base``: the branch that pull requests are merged into; "" = the default branch.
    """

    def __init__(self, host: HostedRepository, base: str) -> None:
        super().__init__(host)
        self._base = base

    async def base_branch(self) -> str:
        """Return the base branch; also checks that the repository exists."""
        repository = await self._host.client.get(self._host.path)
        default = required_field(repository, "default_branch", str)
        return self._base or default


def blob_text(blob: Json) -> str:
    """Return the text of a file, as both hosts send it; what is not UTF-8 is replaced."""
    try:
        return base64.b64decode(required_field(blob, "content", str)).decode("utf-8", "replace")
    except ValueError as error:
        raise ForgeError("the host sent a file that is not base64") from error
