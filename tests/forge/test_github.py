"""The pull request of a head, found by repository and commit only; and the base of the review of a merge."""

import io
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.errors import ConfigError, ForgeError, UsageError
from reconciler.forge.github import GitHub, PullRequestHead, checked_repository, workflow_name
from reconciler.forge.reviewed_plan import MAX_PLAN_BYTES, read_artifact, reviewed_plan
from tests.forge.github_api import Refusal, zipped

SHA, OTHER, MERGE = "a" * 40, "b" * 40, "c" * 40
FORK = PullRequestHead(repository="mallory/quotas", sha=OTHER)


def test_a_pull_request_is_found_by_head_repository_and_commit(api, at_github):
    api.pull(8, sha=OTHER, repo="mallory/quotas", branch="x")
    api.pull(9, sha=OTHER, repo=None)
    api.pull(10, sha=OTHER, repo="alice/quotas")
    for head in (FORK, PullRequestHead(repository="Mallory/Quotas", sha=OTHER, branch="x")):
        assert at_github(lambda host, head=head: host.pull_of(head)) == 8


@pytest.mark.parametrize("state", ["closed", "moved on", "two"])
def test_a_head_without_exactly_one_open_pull_request_has_no_pull_request(api, at_github, state):
    pull = api.pull(8, sha=OTHER, repo="mallory/quotas")
    if state == "closed":
        pull.state = "closed"
    elif state == "moved on":
        pull.sha = "d" * 40
    else:
        api.pull(9, sha=OTHER, repo="mallory/quotas")
    with pytest.raises(ForgeError):
        at_github(lambda host: host.pull_of(FORK))


def test_a_number_that_does_not_belong_to_the_head_is_refused(api, at_github):
    api.pull(8, sha=OTHER, repo="mallory/quotas")
    at_github(lambda host: host.check_pull(8, FORK))
    with pytest.raises(ForgeError, match="does not have the head"):
        at_github(lambda host: host.check_pull(7, FORK))


@pytest.mark.parametrize("text", ["", "x", "a/b/c", "../x", "a/..", "a/b?c", "a b/c", "a/b\n"])
def test_a_malformed_repository_never_becomes_part_of_an_address(text):
    with pytest.raises(UsageError):
        checked_repository(text)
    with pytest.raises(UsageError):
        PullRequestHead(repository=text, sha=SHA)


@pytest.mark.parametrize("sha", ["", "abc", "A" * 40, "a" * 39, "a" * 41, "../" + "a" * 37])
def test_a_malformed_commit_is_refused(sha):
    with pytest.raises(UsageError):
        PullRequestHead(repository="a/b", sha=sha)


@pytest.mark.parametrize("name", ["", "plan", "a/b.yml", "../x.yaml/.."])
def test_a_malformed_workflow_is_refused(name):
    with pytest.raises(UsageError):
        workflow_name(name)


# ---- what was reviewed -------------------------------------------------------------------------


def reviewed(host: GitHub):
    async def work():
        number, head = await host.pull_merged_as(MERGE)
        return number, await reviewed_plan(host, number, head, workflow="plan.yml", artifact="p")

    return work()


@pytest.fixture
def merged(api):
    """Pull request 7, squashed into MERGE; with other runs and pull requests."""
    api.pull(6, sha=OTHER).merged_as = OTHER
    api.pulls[7].merged_as = MERGE
    api.pulls[7].state = "closed"
    api.run("plan.yml", SHA, artifacts={"p": zipped(plan_json="old")})
    api.run("other.yml", SHA, artifacts={"p": zipped(plan_json="other workflow")})
    api.run("plan.yml", OTHER, artifacts={"p": zipped(plan_json="other head")})
    return api


def test_the_newest_successful_run_of_that_head_contains_the_reviewed_plan(merged, at_github):
    merged.run(
        "plan.yml", SHA, artifacts={"q": zipped(plan_json="q"), "p": zipped(plan_json="new")}
    )
    merged.run("plan.yml", SHA, artifacts={"p": zipped(plan_json="failed")}, conclusion="failure")
    merged.run("plan.yml", SHA, artifacts={"p": zipped(plan_json="by hand")}, event="push")
    assert at_github(reviewed) == (7, "new")


@pytest.mark.parametrize(
    "origin",
    [
        {"repo": "mallory/quotas"},
        {"repo": None},
        {"branch": "copy"},
        {"pulls": (8,)},
        {"pulls": (8, 9)},
    ],
)
def test_a_newer_run_of_another_pull_request_with_the_same_head_commit_was_not_reviewed(
    merged, at_github, origin
):
    """A fork that opens a pull request with the same commit could otherwise block every apply."""
    merged.run("plan.yml", SHA, artifacts={"p": zipped(plan_json="other")}, **origin)
    assert at_github(reviewed) == (7, "old")


def test_the_plan_of_a_run_of_a_fork_was_not_reviewed(merged, at_github):
    """A fork may change its workflow, and so write a plan that is bound to the cluster."""
    merged.pulls[7].head_repo = "mallory/quotas"
    merged.run("plan.yml", SHA, artifacts={"p": zipped(plan_json="x")}, repo="mallory/quotas")
    with pytest.raises(ForgeError, match="from the fork mallory/quotas") as caught:
        at_github(reviewed)
    assert "--expect-digest" in caught.value.hint


def test_a_pull_request_listed_by_the_run_is_sufficient(merged, at_github):
    merged.run("plan.yml", SHA, artifacts={"p": zipped(plan_json="new")}, pulls=(6, 7))
    assert at_github(reviewed) == (7, "new")


def test_a_run_of_a_deleted_fork_was_not_reviewed(merged, at_github):
    merged.pulls[7].head_repo = None
    merged.runs[0].repo = None
    with pytest.raises(ForgeError, match="there is no reviewed plan"):
        at_github(reviewed)


@pytest.mark.parametrize(
    "what", ["no run", "no artifact", "expired", "no pull request", "no rights"]
)
def test_a_merge_without_a_review_is_reported(merged, at_github, what):
    if what == "no run":
        merged.runs.clear()
    elif what == "no artifact":
        merged.run("plan.yml", SHA)
    elif what == "expired":
        merged.run("plan.yml", SHA, artifacts={"p": zipped(plan_json="x")}, expired=True)
    elif what == "no pull request":
        merged.pulls[7].merged_as = ""
    else:
        merged.fail_once(Refusal(403, "Resource not accessible by integration"), path="actions")
    with pytest.raises(ForgeError) as caught:
        at_github(reviewed)
    assert caught.value.hint


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"PK\x03\x04 cut off",
        zipped(other="x"),
        zipped(plan_json="x", more="y"),
        zipped(**{"../plan_json": "x"}),
        zipped(plan_json="x" * (MAX_PLAN_BYTES + 1)),
        zipped(plan_json="x" * 100)[:60],
    ],
    ids=["empty", "torn", "another name", "two files", "a way up", "a bomb", "cut off"],
)
def test_a_zip_with_anything_beside_one_plan_is_refused(content):
    with pytest.raises(ConfigError):
        read_artifact(content, location="artifact")


def test_a_zip_with_one_plan_is_opened():
    assert read_artifact(zipped(plan_json="{}"), location="artifact") == "{}"


def zip_of(method: int) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", method) as archive:
        archive.writestr("plan.json", "{}" * 50)
    return target.getvalue()


@given(
    st.sampled_from([0, 8, 12, 14]),
    st.lists(st.tuples(st.integers(0, 10_000), st.binary(min_size=1, max_size=1)), max_size=4),
)
def test_a_damaged_zip_is_refused_in_words_whatever_its_bytes_say(method, damage):
    """Only stored and deflated files are opened: a damaged bzip2 or LZMA file may request any memory."""
    content = bytearray(zip_of(method))
    for at, byte in damage:
        content[at % len(content)] = byte[0]
    try:
        text = read_artifact(bytes(content), location="artifact")
    except ConfigError:
        return
    assert len(text) <= MAX_PLAN_BYTES
    assert damage or method in {0, 8}
