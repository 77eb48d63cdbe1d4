"""The pull request of recommendations, on both hosts: opened, updated, closed; commits of other authors stay."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.errors import ForgeError, UsageError
from reconciler.forge.github_pulls import GitHubPulls
from reconciler.forge.gitlab_merge_requests import GitLabMergeRequests
from reconciler.forge.marker import Marker
from reconciler.forge.pull_request import (
    BranchState,
    Commit,
    Proposal,
    ProposedFiles,
    PullRequest,
    update_pull_request,
)
from tests.forge.git_store import GitStore
from tests.forge.github_api import BOT, Account, Refusal
from tests.forge.gitlab_api import GitLabMergeRequest
from tests.hypothesis_profiles import count_examples

MARK = "# Proposed by kquota"
BRANCH = "kquota/recommendations-prod"
RIGHTS = frozenset({"contents: write", "pull-requests: write", "issues: write"})
PROD = "proposals/prod.yaml"


def file(rate: int = 5000, evidence: str = "Monday") -> str:
    return f"{MARK}; evidence of {evidence}.\n---\n# Evidence: {evidence}\nlimits: {{producerByteRate: {rate}}}\n"


def proposal(label: str = "prod", /, **files: str) -> Proposal:
    """The files of clusters by name; the text names them."""
    return Proposal(
        marker=Marker(kind="recommendations", label=label),
        proposed=ProposedFiles(
            folder="proposals",
            files={f"{name}.yaml": text for name, text in files.items()},
            mark=MARK,
        ),
        title="Recommended",
        body=f"Recommended: {sorted(files.items())}",
        ended="Nothing is left.",
    )


@dataclass
class Site:
    """A code host of the tests: `update(proposal)` runs against it."""

    name: str
    api: Any
    update: Callable[..., Any]

    @property
    def git(self) -> GitStore:
        return self.api.git

    @property
    def writes(self) -> list[str]:
        return [
            f"{request.method} {request.path}"
            for request in self.api.requests
            if request.method != "GET"
        ]

    @property
    def cards(self) -> list[Any]:
        """All pull requests, oldest first, with `state`, `text` and `author`."""
        if self.name == "github":
            return [
                SimpleNamespace(state=pull.state, text=pull.body, author=pull.author)
                for pull in self.api.pulls.values()
            ]
        return [
            SimpleNamespace(state=pull.state, text=pull.description, author=pull.author)
            for pull in self.api.opened
        ]

    @property
    def comments(self) -> list[str]:
        return [
            comment.body
            for comment in (self.api.comments if self.name == "github" else self.api.notes)
        ]

    def close(self) -> None:
        """A person closes or merges the newest pull request."""
        card = [*self.api.pulls.values()][-1] if self.name == "github" else self.api.opened[-1]
        card.state = "closed"

    def proposes(self, author: str, text: str) -> None:
        """A person opens a pull request of the branch."""
        if self.name == "github":
            pull = self.api.pull(30, sha="e" * 40, branch=BRANCH)
            pull.author, pull.body = author, text
        else:
            self.api.opened.append(GitLabMergeRequest(30, author, BRANCH, "main", "x", text))


@pytest.fixture(params=["github", "gitlab"])
def site(request, api, at_github, gitlab_api, at_gitlab) -> Site:
    api.pulls.clear()
    api.accounts["ghs_workflow"] = Account(BOT, RIGHTS, is_app=True)
    if request.param == "github":

        def update(new: Proposal, base: str = "") -> Any:
            return at_github(lambda host: update_pull_request(GitHubPulls(host, base), new))

        return Site("github", api, update)

    def update_there(new: Proposal, base: str = "") -> Any:
        return at_gitlab(lambda host: update_pull_request(GitLabMergeRequests(host, base), new))

    return Site("gitlab", gitlab_api, update_there)


def test_the_first_recommendation_opens_a_pull_request_with_its_files_only(site: Site) -> None:
    main = site.git.branches["main"]
    assert site.update(proposal(prod=file())).action == "opened"
    (card,) = site.cards
    assert card.state in {"open", "opened"}
    assert card.text.startswith("<!-- kquota:recommendations:prod -->\n<!-- kquota:state:")
    assert "Recommended: [('prod'" in card.text
    assert site.git.branches["main"] == main
    assert site.git.files(site.git.branches[BRANCH]) == site.git.files(main) | {PROD: file()}
    assert site.git.history(BRANCH)[0].parents == (main,)


def test_new_evidence_for_the_same_limits_writes_nothing(site: Site) -> None:
    site.update(proposal(prod=file()))
    before = site.writes
    assert site.update(proposal(prod=file(evidence="Tuesday"))).action == "unchanged"
    assert site.writes == before


def test_changed_limits_are_pushed_to_the_branch_and_replace_text_and_files(site: Site) -> None:
    site.update(proposal(prod=file(), old=file()))
    assert site.update(proposal(prod=file(6000), new=file())).action == "updated"
    (card,) = site.cards
    assert "6000" in card.text
    assert "old" not in card.text
    newest, first, _main = site.git.history(BRANCH)
    texts = site.git.files(site.git.branches[BRANCH])
    assert {path for path in texts if "proposals" in path} == {PROD, "proposals/new.yaml"}
    assert newest.parents == (next(i for i, c in site.git.commits.items() if c == first),)
    assert site.update(proposal(prod=file(6000), new=file())).action == "unchanged"


def test_without_recommendations_the_pull_request_is_closed_and_may_be_opened_again(
    site: Site,
) -> None:
    assert site.update(proposal()).action == "nothing"
    assert site.writes == []
    site.update(proposal(prod=file()))
    assert site.update(proposal()).action == "closed"
    assert site.comments == ["Nothing is left."]
    assert [card.state for card in site.cards] == ["closed"]
    assert BRANCH not in site.git.branches
    assert site.update(proposal(prod=file())).action == "opened"
    assert len(site.cards) == 2


def test_a_closed_pull_request_is_not_opened_again_for_the_same_limits(site: Site) -> None:
    site.update(proposal(prod=file()))
    site.close()
    before = site.writes
    assert site.update(proposal(prod=file(evidence="Tuesday"))).action == "answered"
    assert site.writes == before
    assert site.update(proposal(prod=file(7000))).action == "opened"
    assert site.git.text(BRANCH, PROD) == file(7000)
    assert len(site.git.history(BRANCH)) == 2, "the old branch is replaced: it starts at main again"


def test_a_merge_settles_a_recommendation_and_its_files_are_removed_when_nothing_is_recommended(
    site: Site,
) -> None:
    site.update(proposal(prod=file()))
    site.git.commit("main", {PROD: file()})
    site.close()
    assert site.update(proposal(prod=file(evidence="Tuesday"))).action == "nothing"
    assert BRANCH not in site.git.branches
    assert site.update(proposal()).action == "opened"
    assert site.git.text(BRANCH, PROD) is None
    assert site.git.text(BRANCH, "kquota.yaml") is not None


@pytest.mark.parametrize("how", ["on top", "amended", "at first"])
def test_a_branch_with_foreign_commits_is_not_changed(site: Site, how: str) -> None:
    if how != "at first":
        site.update(proposal(prod=file()))
    message = site.git.history(BRANCH)[0].message if how == "amended" else "by hand"
    start = "" if BRANCH in site.git.branches else site.git.branches["main"]
    site.git.commit(BRANCH, {PROD: file(1)}, message, start)
    head, before = site.git.branches[BRANCH], site.writes
    for new in (proposal(prod=file(6000)), proposal()):
        with pytest.raises(ForgeError, match="is not from kquota post recommendations") as error:
            site.update(new)
        assert "delete the branch, or choose another --label" in error.value.hint
    assert site.git.branches[BRANCH] == head
    assert site.writes == before


@pytest.mark.parametrize("text", ["mine", "<!-- kquota:recommendations:prod -->\nmine"])
def test_a_foreign_pull_request_is_not_changed(site: Site, text: str) -> None:
    site.proposes("mallory", text)
    with pytest.raises(ForgeError, match="was opened by mallory"):
        site.update(proposal(prod=file()))
    assert site.writes == []


def test_a_foreign_file_is_not_replaced(site: Site) -> None:
    site.git.commit("main", {PROD: "kind: ClientQuota\n"})
    with pytest.raises(
        ForgeError, match=r"proposals/prod\.yaml in the repository is not from kquota"
    ):
        site.update(proposal(prod=file()))
    assert site.writes == []


def test_a_branch_that_was_deleted_is_written_again(site: Site) -> None:
    site.update(proposal(prod=file()))
    del site.git.branches[BRANCH]
    assert site.update(proposal(prod=file())).action == "updated"
    assert site.git.text(BRANCH, PROD) == file()


def test_labels_have_their_own_branches_and_pull_requests(site: Site) -> None:
    for label in ("prod", "staging", ""):
        assert site.update(proposal(label, **{label or "prod": file()})).action == "opened"
    assert len(site.cards) == 3
    assert {"kquota/recommendations", "kquota/recommendations-staging"} < site.git.branches.keys()


@pytest.mark.parametrize("base", ["gone", BRANCH])
def test_an_invalid_base_branch_is_an_error(site: Site, base: str) -> None:
    with pytest.raises(ForgeError, match="base branch") as error:
        site.update(proposal(prod=file()), base=base)
    assert "--base" in error.value.hint
    assert site.writes == []


def test_the_pull_request_is_opened_against_a_configured_base(site: Site) -> None:
    start = site.git.branches["main"]
    site.git.commit("stable", {"x": "y"}, start=start)
    assert site.update(proposal(prod=file()), base="stable").action == "opened"
    assert site.git.text(BRANCH, "x") == "y"


def test_a_protected_branch_is_named(site: Site) -> None:
    site.api.protected.add(BRANCH)
    with pytest.raises(ForgeError) as error:
        site.update(proposal(prod=file()))
    assert error.value.status in {403, 422}
    assert "must not be protected" in error.value.hint
    assert site.cards == []


def test_a_rate_limit_is_waited_for(site: Site, clock) -> None:
    waiting = [Refusal(429, "slow down", {"Retry-After": "7"})]
    site.api.faults.append(
        lambda request: waiting.pop() if waiting and request.method == "POST" else None
    )
    began = clock.now()
    assert site.update(proposal(prod=file())).action == "opened"
    assert clock.now() - began >= 7


def test_a_lost_response_does_not_open_two_pull_requests(site: Site, monkeypatch) -> None:
    """The host opens the pull request and then fails."""
    answered = site.api.answer
    lost = []

    def answer(request):
        result = answered(request)
        if (
            request.method == "POST"
            and request.path.endswith(("pulls", "merge_requests"))
            and not lost
        ):
            lost.append(request)
            return 502, {}, {"message": "bad gateway"}
        return result

    site.api.answer = answer
    assert site.update(proposal(prod=file())).action == "opened"
    assert len(lost) == len(site.cards) == 1


@pytest.mark.parametrize("label", ["a b", "a/b", "..", "a..b", "x.lock", "-x", "x.", "é", "a~1"])
def test_a_label_that_is_invalid_in_a_branch_name_is_refused(label: str) -> None:
    with pytest.raises(UsageError, match="cannot be part of the name of a branch"):
        proposal(label, prod=file())


@pytest.mark.parametrize(
    "folder",
    [
        "",
        ".",
        "..",
        "/x",
        "../x",
        "x/../y",
        ".github/workflows",
        "x/.git",
        "x//y",
        "x/",
        "~",
        "a b",
    ],
)
def test_a_folder_that_is_not_for_recommendations_is_refused(folder: str) -> None:
    with pytest.raises(UsageError, match="not a folder for recommendations"):
        ProposedFiles(folder=folder, files={}, mark=MARK)


@pytest.mark.parametrize(
    "name",
    ["kquota.yaml", ".gitlab-ci.yaml", "x.yml", "../x.yaml", "a/b.yaml", "X.yaml", "x.yaml\n"],
)
def test_a_file_name_that_is_not_a_cluster_name_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="is not the name of a file of recommendations"):
        ProposedFiles(folder="proposals", files={name: file()}, mark=MARK)
    with pytest.raises(UsageError, match="does not begin with"):
        ProposedFiles(folder="proposals", files={"prod.yaml": "kind: ClientQuota\n"}, mark=MARK)


# ---- laws --------------------------------------------------------------------------------------


class MemoryHost:
    """A host in memory that records every commit."""

    def __init__(self, files: dict[str, str]) -> None:
        self.states = {"main": BranchState(commit="m", message="", files=files)}
        self.commits: list[Commit] = []
        self.open: list[PullRequest] = []

    async def own_name(self) -> str:
        return "bot"

    async def base_branch(self) -> str:
        return "main"

    async def state(self, branch: str, folder: str) -> BranchState | None:
        return self.states.get(branch)

    async def write(self, commit: Commit) -> None:
        self.commits.append(commit)
        files = dict(self.states["main" if commit.is_new else commit.branch].files)
        for path, text in commit.changes.items():
            if text is None:
                del files[path]
            else:
                files[path] = text
        self.states[commit.branch] = BranchState(
            commit=f"c{len(self.commits)}", message=commit.message, files=files
        )

    async def drop(self, branch: str) -> None:
        del self.states[branch]

    async def pulls(self, branch: str, base: str) -> AsyncIterator[PullRequest]:
        for pull in self.open:
            yield pull

    async def propose(self, branch: str, base: str, title: str, body: str) -> PullRequest:
        self.open = [PullRequest(number=1, author="bot", body=body, is_open=True)]
        return self.open[0]

    async def change_pull(self, pull: PullRequest, title: str, body: str) -> PullRequest:
        self.open = [replace(pull, body=body)]
        return self.open[0]

    async def end_pull(self, pull: PullRequest, body: str, comment: str) -> None:
        self.open = []


NAMES = st.sampled_from(["prod", "staging", "dev", "kquota", "a.b"])
PATHS = st.one_of(
    NAMES.map(lambda name: f"proposals/{name}.yaml"),
    st.sampled_from(
        ["proposals/.x.yaml", "proposals/README.yaml", "quotas/prod.yaml", "kquota.yaml"]
    ),
)
TEXTS = st.one_of(st.integers(1, 3).map(file), st.just("kind: ClientQuota\n"))
RUNS = st.lists(
    st.dictionaries(NAMES.filter(lambda name: name != "kquota"), st.integers(1, 3).map(file)),
    min_size=1,
    max_size=4,
)


@settings(max_examples=count_examples(150))
@given(remote=st.dictionaries(PATHS, TEXTS), runs=RUNS)
def test_only_files_of_kquota_in_the_folder_are_ever_written(
    remote: dict[str, str], runs: list[dict[str, str]]
) -> None:
    host = MemoryHost(remote)
    for files in runs:
        new = proposal("prod", **files)
        try:
            result = asyncio.run(update_pull_request(host, new))
        except ForgeError:
            assert any(not remote.get(path, MARK).startswith(MARK) for path in new.proposed.texts)
            continue
        assert asyncio.run(update_pull_request(host, new)).action in {"unchanged", "nothing"}
        if result.action in {"opened", "updated"}:
            branch_files = host.states[BRANCH].files
            assert new.proposed.texts.items() <= branch_files.items()
    for commit in host.commits:
        assert commit.branch == BRANCH
        assert commit.changes
        for path in commit.changes:
            folder, _, name = path.rpartition("/")
            assert folder == "proposals"
            assert not name.startswith(".")
            assert name != "kquota.yaml"
            assert remote.get(path, MARK).startswith(MARK)
