"""Recommendations on GitHub: requests and responses as in GitHub's description, links and forks, missing rights."""

import asyncio

import pytest

from reconciler.errors import ForgeError
from reconciler.forge.github import GitHub, github
from reconciler.forge.github_pulls import GitHubPulls
from reconciler.forge.pull_request import update_pull_request
from reconciler.forge.rest_client import forge_token
from tests.forge import openapi
from tests.forge.github_api import BOT, Account, GitHubApi, Refusal
from tests.forge.test_pull_request import BRANCH, PROD, RIGHTS, file, proposal


@pytest.fixture
def update(api, at_github):
    api.pulls.clear()
    api.accounts["ghs_workflow"] = Account(BOT, RIGHTS, is_app=True)
    return lambda new: at_github(lambda host: update_pull_request(GitHubPulls(host, ""), new))


LIFE = ["opened", "updated", "unchanged", "closed", "opened"]


def through_its_life(update) -> list[str]:
    """All states of a pull request."""
    runs = (
        proposal(prod=file(), old=file()),
        proposal(prod=file()),
        proposal(prod=file()),
        proposal(),
        proposal(prod=file(9)),
    )
    return [update(new).action for new in runs]


def test_a_pull_request_is_opened_updated_and_closed(update) -> None:
    assert through_its_life(update) == LIFE


@pytest.mark.integration
def test_requests_and_responses_match_the_published_description(clock) -> None:
    """The description comes from npm."""
    with GitHubApi(openapi.github()) as described:
        described.accounts["ghs_workflow"] = Account(BOT, RIGHTS, is_app=True)

        async def updated(new):
            token = forge_token("ghs_workflow")
            async with github(described.url, token, clock=clock, version="test") as client:
                host = GitHubPulls(GitHub(client, described.repository), "")
                return await update_pull_request(host, new)

        deeds = through_its_life(lambda new: asyncio.run(updated(new)))
    assert described.complaints == []
    assert deeds == LIFE


def test_a_link_is_not_a_file_and_a_truncated_list_is_refused(api, update) -> None:
    api.git.commit("main", {PROD: "../kquota.yaml"})
    api.modes["prod.yaml"] = "120000"
    assert update(proposal(other=file())).action == "opened"
    api.is_truncated = True
    with pytest.raises(ForgeError, match="did not list the tree"):
        update(proposal(other=file()))


def test_a_pull_request_of_a_fork_with_the_same_branch_is_ignored(api, update) -> None:
    pull = api.pull(5, sha="b" * 40, branch=BRANCH, repo="octo/fork")
    pull.body = "<!-- kquota:recommendations:prod -->\nx"
    assert update(proposal(prod=file())).action == "opened"
    assert api.pulls[5].body == "<!-- kquota:recommendations:prod -->\nx"


def test_a_token_without_the_right_to_write_or_propose_is_reported_with_the_needed_right(
    api, update
) -> None:
    api.accounts["ghs_workflow"] = Account(BOT, is_app=True)
    with pytest.raises(ForgeError) as error:
        update(proposal(prod=file()))
    assert (error.value.status, "contents: write" in error.value.hint) == (403, True)
    api.accounts["ghs_workflow"] = Account(BOT, frozenset({"contents: write"}), is_app=True)
    with pytest.raises(ForgeError) as error:
        update(proposal(prod=file()))
    assert "Allow GitHub Actions to create and approve pull requests" in error.value.hint
    api.accounts["ghs_workflow"] = Account(BOT, RIGHTS, is_app=True)
    assert update(proposal(prod=file())).action == "opened", "the remaining branch is our own"


def test_a_concurrent_commit_is_not_replaced(api, update) -> None:
    update(proposal(prod=file()))
    raced = []

    def race(request) -> Refusal | None:
        if request.method == "PATCH" and "/git/refs/" in request.path and not raced:
            raced.append(api.git.commit(BRANCH, {"x": "of a person"}))
        return None

    api.faults.append(race)
    with pytest.raises(ForgeError, match="not a fast forward"):
        update(proposal(prod=file(6000)))
    assert api.git.branches[BRANCH] == raced[0]
