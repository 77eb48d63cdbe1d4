"""`kquota post recommendations`: from files of `recommend` to a pull request, on both hosts; refusals, bad input."""

import pytest

from reconciler.app.recorded_use.recommended_files import put
from reconciler.evidence.render.report_json import report_document
from reconciler.render.json_values import dump
from reconciler.usage.reports.usage import UsageReport
from tests.cli.recommendations import EVIDENCE, quota, row
from tests.forge.github_api import Account, GitHubApi
from tests.forge.gitlab_api import GitLabApi
from tests.forge.test_pull_request import BRANCH, RIGHTS

WORDS = ("recommendations.json", "--folder", "proposals", "--label", "prod")


def recommended(folder, rate: int = 5000) -> None:
    """The files of `recommend --out proposals --format json > recommendations.json`."""
    put({folder / "proposals" / "prod.yaml": quota("alices", f"producerByteRate: {rate}")})
    report = UsageReport(evidence=(EVIDENCE,), recommendations=(row(target=rate),))
    (folder / "recommendations.json").write_text(dump(report_document(report)))


@pytest.fixture
def api(folder, monkeypatch):
    recommended(folder)
    with GitHubApi() as running:
        running.accounts["app"] = Account("my-app[bot]", RIGHTS, is_app=True)
        monkeypatch.setenv("GITHUB_TOKEN", "app")
        monkeypatch.setenv("GITHUB_API_URL", running.url)
        monkeypatch.setenv("GITHUB_REPOSITORY", running.repository)
        yield running
    assert running.complaints == []


@pytest.fixture
def gitlab(folder, monkeypatch):
    recommended(folder)
    with GitLabApi() as running:
        monkeypatch.setenv("GITLAB_TOKEN", "glpat-bot")
        monkeypatch.setenv("CI_API_V4_URL", running.url)
        monkeypatch.setenv("CI_PROJECT_ID", running.project)
        yield running
    assert running.complaints == []


def test_a_pull_request_is_updated_by_the_nightly_runs(kquota, folder, api) -> None:
    words = ("post", "recommendations", "github", *WORDS, "--author", "my-app[bot]", "--required")
    ran = kquota(*words)
    assert (ran.code, ran.out) == (0, "")
    assert "pull request 1 opened https://github.com/octo/quotas/pull/1" in ran.err
    pull = api.pulls[1]
    assert pull.title == "Recommended Kafka quotas: prod"
    assert "alice" in pull.body
    assert (
        api.git.text(BRANCH, "proposals/prod.yaml") == (folder / "proposals/prod.yaml").read_text()
    )
    assert "unchanged" in kquota(*words).err
    recommended(folder, 4000)
    assert "pull request 1 updated" in kquota(*words).err
    (folder / "proposals" / "prod.yaml").unlink()
    (folder / "recommendations.json").write_text(
        dump(report_document(UsageReport(evidence=(EVIDENCE,))))
    )
    assert "pull request 1 closed: nothing is recommended any more" in kquota(*words).err
    assert "no pull request: nothing is recommended" in kquota(*words).err


def test_a_merge_request_is_updated_too(kquota, folder, gitlab) -> None:
    words = ("post", "recommendations", "gitlab", *WORDS, "--required")
    assert "opened https://gitlab.example/-/merge_requests/" in kquota(*words).err
    gitlab.opened[0].state = "closed"
    assert "was merged or closed with the same recommendation" in kquota(*words).err
    recommended(folder, 4000)
    assert "opened" in kquota(*words).err
    assert len(gitlab.opened) == 2


def test_an_unexpected_author_is_reported(kquota, api) -> None:
    ran = kquota("post", "recommendations", "github", *WORDS)
    assert ran.code == 0
    assert "pass --author my-app[bot]" in ran.err
    again = kquota("post", "recommendations", "github", *WORDS, "--required")
    assert again.code == 1
    assert "was opened by my-app[bot]" in again.err


@pytest.mark.parametrize("token", [None, "unknown", "ghs_workflow"])
def test_a_host_that_refuses_is_a_warning_unless_posting_is_required(
    kquota, api, monkeypatch, token
) -> None:
    """A missing token, an invalid one, and one without write access."""
    if token is None:
        monkeypatch.delenv("GITHUB_TOKEN")
    else:
        monkeypatch.setenv("GITHUB_TOKEN", token)
    ran = kquota("post", "recommendations", "github", *WORDS)
    assert ran.code == 0
    assert "posting failed" in ran.err
    assert "hint" in ran.err
    assert kquota("post", "recommendations", "github", *WORDS, "--required").code == 1
    assert BRANCH not in api.git.branches


def test_a_branch_with_foreign_commits_is_reported_with_the_next_step(kquota, api) -> None:
    words = ("post", "recommendations", "github", *WORDS, "--author", "my-app[bot]")
    kquota(*words)
    api.git.commit(BRANCH, {"x": "y"})
    ran = kquota(*words, "--required")
    assert ran.code == 1
    assert "is not from kquota post recommendations, so nothing is changed" in ran.err
    assert "delete the branch, or choose another --label" in ran.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("recommendations.json",), "--folder"),
        (("missing.json", "--folder", "proposals"), "missing.json"),
        (("recommendations.json", "--folder", "nowhere"), "has no file of kquota spark recommend"),
        (("recommendations.json", "--folder", "."), "not a folder for recommendations"),
        ((*WORDS[:3], "--label", "a b"), "cannot be part of the name of a branch"),
        ((*WORDS[:3], "--label", "x" * 101), "101 characters"),
        ((*WORDS, "--repo", "x"), "is not a repository"),
        ((*WORDS, "--api-url", "http://example.com"), "unencrypted"),
    ],
)
def test_invalid_options_are_an_error(kquota, api, words, message) -> None:
    ran = kquota("post", "recommendations", "github", *words)
    assert ran.code == 1
    assert message in ran.err
    assert api.requests == []
