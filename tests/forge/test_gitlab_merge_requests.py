"""Recommendations on GitLab: many files, forks, merge requests whose branch a merge deletes."""

import pytest

from reconciler.errors import ForgeError
from reconciler.forge.gitlab_merge_requests import GitLabMergeRequests
from reconciler.forge.pull_request import update_pull_request
from tests.forge.gitlab_api import GitLabMergeRequest
from tests.forge.test_pull_request import BRANCH, PROD, file, proposal


@pytest.fixture
def update(at_gitlab):
    def run(new, **more):
        return at_gitlab(
            lambda host: update_pull_request(GitLabMergeRequests(host, ""), new), **more
        )

    return run


def test_a_folder_with_many_files_is_read_completely(gitlab_api, update) -> None:
    files = {f"c{number:02}": file(number) for number in range(35)}
    assert update(proposal(**files)).action == "opened"
    assert update(proposal(**files)).action == "unchanged"
    del files["c34"]
    assert update(proposal(**files)).action == "updated"
    assert gitlab_api.git.text(BRANCH, "proposals/c34.yaml") is None


def test_a_merge_deletes_the_branch_and_a_fork_is_ignored(gitlab_api, update) -> None:
    fork = GitLabMergeRequest(3, "mallory", BRANCH, "main", "x", "y", source_project=9)
    gitlab_api.opened.append(fork)
    assert update(proposal(prod=file())).action == "opened"
    (request,) = [
        sent for sent in gitlab_api.requests if sent.path.endswith("/merge_requests") and sent.body
    ]
    assert request.body["remove_source_branch"] is True
    assert fork.description == "y"


def test_a_read_only_token_writes_nothing(gitlab_api, update) -> None:
    with pytest.raises(ForgeError) as error:
        update(proposal(prod=file()), who="glpat-reader")
    assert error.value.status == 403
    assert PROD not in gitlab_api.git.files(gitlab_api.git.branches["main"])
    assert BRANCH not in gitlab_api.git.branches
