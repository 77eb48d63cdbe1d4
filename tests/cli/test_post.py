"""`kquota post`: comments and issues for plans, outcomes and drift; hostile names, invalid documents, refusals."""

import html
import json
import re

import pytest

from reconciler.codecs.drift import drift_document
from reconciler.codecs.outcome import outcome_document
from reconciler.codecs.plan import saved_plan
from reconciler.render.cause_text import counts
from reconciler.render.json_values import dump
from tests.forge.github_api import BOT, Account, GitHubApi, Refusal, zipped
from tests.forge.test_github_runner import read_outputs
from tests.render.markdown.test_plan import long
from tests.render.previews import NOW, result, sample

SHA, MERGE = "a" * 40, "c" * 40


@pytest.fixture
def api(folder, monkeypatch):
    with GitHubApi() as running:
        running.pull(7, sha=SHA)
        monkeypatch.setenv("GITHUB_TOKEN", "ghs_workflow")
        monkeypatch.setenv("GITHUB_API_URL", running.url)
        monkeypatch.setenv("GITHUB_REPOSITORY", running.repository)
        monkeypatch.setenv("GITHUB_OUTPUT", str(folder / "output"))
        monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(folder / "summary"))
        yield running
    assert running.complaints == []


def saved(folder, document, name="plan.json") -> str:
    (folder / name).write_text(dump(document))
    return name


def plan_json(preview) -> dict:
    """A saved plan, to be edited."""
    return json.loads(dump(saved_plan(preview)))


@pytest.fixture
def plan(folder) -> str:
    return saved(folder, saved_plan(sample()))


def drift(folder, *, has_drift=True, records_known=True) -> str:
    findings = [finding for finding in sample().plan.findings if finding.cause.value == "Drift"]
    assert findings
    document = drift_document(
        findings if has_drift else [],
        cluster_id="lkc-1",
        now=NOW,
        owned_pairs=3,
        records_known=records_known,
    )
    return saved(folder, document, "drift.json")


def test_a_plan_becomes_comment_summary_outputs_and_annotations(kquota, folder, api, plan):
    ran = kquota(
        "post",
        "github",
        plan,
        "--pull",
        "7",
        "--label",
        "prod",
        "--summary",
        "--outputs",
        "--annotations",
        "--path-prefix",
        "infra",
        "--details-url",
        "https://ci.example/run/1",
    )
    assert ran.code == 0
    (body,) = api.bodies(7)
    assert body.startswith("<!-- kquota:plan:prod -->\n### ⛔ Refused: Kafka quotas of prod\n")
    assert "producer_byte_rate" in body
    assert (folder / "summary").read_text() == body + "\n"
    assert "[run](https://ci.example/run/1)" in body
    outputs = read_outputs((folder / "output").read_text())
    numbers = counts(sample())
    assert outputs["has-changes"] == "true"
    assert {outputs[name] for name in ("create", "update", "remove")} == {
        str(numbers[name]) for name in ("create", "update", "remove")
    }
    assert outputs["drift"] == "1"
    assert outputs["digest"] == sample().digest
    assert outputs["comment-id"] == str(api.comments[0].id)
    assert re.search(
        r"^::error title=Kafka quotas prod,file=infra/quotas/\d+.yaml,line=\d+::",
        ran.out,
        re.MULTILINE,
    )
    assert "comment created" in ran.err


def test_names_cannot_forge_markup_in_any_output(kquota, folder, api, plan):
    ran = kquota(
        "post", "github", plan, "--pull", "7", "--summary", "--annotations", "--label", "@all -->"
    )
    (body,) = api.bodies(7)
    outside = html.unescape(re.sub(r"<code>.*?</code>", "", re.sub(r"`[^`\n]*`", "", body)))
    assert not re.search(r"[@#!~$]\w", outside)
    assert "\u202e" not in body + ran.out + ran.err
    for line in ran.out.splitlines():
        assert re.match(r"::(error|warning|notice) title=[^,:]*(,file=[^,:]*(,line=\d+)?)?::", line)
        assert "##[" not in line


def test_a_comment_is_one_screen_and_the_summary_fills_the_space_that_the_runner_accepts(
    kquota, folder, api
):
    document = plan_json(long(300))
    for row in document["changes"]:
        row["note"] = "\u5927" * 60
    saved(folder, document)
    limit, space = 1024 * 1024, 30_000
    (folder / "summary").write_text("x" * (limit - space))
    assert kquota("post", "github", "plan.json", "--pull", "7", "--summary").code == 0
    (body,) = api.bodies(7)
    assert body.count("user-") == 25
    assert "… and 275 more changes." in body
    summary = (folder / "summary").read_bytes()
    assert limit - space / 5 < len(summary) <= limit
    assert 25 < summary.count(b"user-") < 300


def test_one_sentence_over_the_limit_is_not_posted_and_not_fatal(kquota, folder, api):
    document = plan_json(sample())
    document["validation"] |= {"source": "sandbox 4.x", "reason": "x" * 100_000}
    saved(folder, document)
    assert kquota("post", "github", "plan.json", "--pull", "7", "--required").code == 0
    assert "Too long to show here" in api.bodies(7)[0]


@pytest.mark.parametrize("source", ["broker", "sandbox 4.x, approved by security"])
def test_a_plan_of_a_fork_claims_nothing_about_a_broker_or_a_merge(kquota, folder, api, source):
    """The run of a fork may write any document, also one that is bound to the cluster."""
    api.pull(9, sha="b" * 40, repo="mallory/quotas")
    document = plan_json(long(2))
    document["validation"] |= {"source": source, "reason": ""}
    name = saved(folder, document)
    assert kquota("post", "github", name, "--pull", "7").code == 0
    assert "Validated by" in api.bodies(7)[0]
    assert "`kquota apply` makes 2 changes" in api.bodies(7)[0]
    assert kquota("post", "github", name, *FORK).code == 0
    (body,) = api.bodies(9)
    assert body.startswith(
        "<!-- kquota:plan:prod -->\n### ⚠️ Not verified: Kafka quotas of prod\n\n**Not verified: "
    )
    assert "Validated by" not in body
    assert "approved" not in body
    assert "`kquota apply` makes" not in body
    assert "nothing is applied from this plan" in body


def test_a_comment_about_a_fork_links_to_no_page_and_names_the_head_of_the_event(kquota, api, plan):
    api.pull(9, sha="b" * 40, repo="mallory/quotas")
    page = ("--artifact-url", "https://evil.example/page.html")
    assert kquota("post", "github", plan, *FORK, *page).code == 0
    (body,) = api.bodies(9)
    assert "evil.example" not in body
    assert f"commit `{'b' * 12}`" in body


def test_an_address_that_could_break_out_of_its_link_is_refused(kquota, api, plan):
    for option in ("--details-url", "--artifact-url"):
        for url in ("javascript:alert(1)", "https://x/)[a](b", "https://x/ y", "http://"):
            ran = kquota("post", "github", plan, "--pull", "7", option, url)
            assert ran.code == 1, (option, url)
            assert f"{option} https://..." in ran.err
    assert api.comments == []


FORK = ("--head-repo", "mallory/quotas", "--sha", "b" * 40, "--label", "prod", "--required")


def failed(folder, command: str) -> str:
    words = ["All 14 changes applied by the platform team; approved by security. Please merge."]
    document = {
        "kind": "kquota-failure",
        "format": 1,
        "command": command,
        "exitCode": 1,
        "messages": words,
    }
    return saved(folder, document)


@pytest.mark.parametrize("what", ["outcome", "failed apply", "drift"])
def test_a_run_of_a_fork_posts_no_fact_about_a_cluster(kquota, folder, api, what):
    api.pull(9, sha="b" * 40, repo="mallory/quotas")
    document = {
        "outcome": lambda: saved(folder, outcome_document(result())),
        "failed apply": lambda: failed(folder, "apply"),
        "drift": lambda: drift(folder),
    }[what]()
    ran = kquota("post", "github", document, *FORK, "--summary", "--outputs")
    assert ran.code == 1
    assert "can only post a plan or a failed plan" in ran.err
    assert api.comments == []
    assert not (folder / "summary").exists()
    assert not (folder / "output").exists()


def test_a_failure_of_a_fork_names_its_origin(kquota, folder, api):
    api.pull(9, sha="b" * 40, repo="mallory/quotas")
    assert kquota("post", "github", failed(folder, "plan"), *FORK).code == 0
    (body,) = api.bodies(9)
    assert body.startswith("<!-- kquota:plan:prod -->\n")
    assert "Not verified" in body
    assert "mallory/quotas" in html.unescape(body)


def test_a_document_cannot_choose_where_it_is_posted(kquota, folder, api):
    """An artifact that names another pull request has unknown fields, so it is refused."""
    saved(folder, plan_json(sample()) | {"pull": 7, "pullRequest": 7})
    api.pull(9, sha="b" * 40, repo="mallory/quotas")
    ran = kquota("post", "github", "plan.json", "--head-repo", "mallory/quotas", "--sha", "b" * 40)
    assert ran.code == 1
    assert "unknown field" in ran.err
    assert api.comments == []


def test_a_document_without_a_pull_request_is_no_silent_success(kquota, api, plan):
    ran = kquota("post", "github", plan, "--required")
    assert ran.code == 0
    assert "no comment: --pull and --sha are not given" in ran.err
    assert api.comments == []


def test_a_number_that_does_not_match_the_head_posts_nothing(kquota, api, plan):
    api.pull(9, sha="b" * 40, repo="mallory/quotas")
    words = (
        "post",
        "github",
        plan,
        "--pull",
        "7",
        "--head-repo",
        "mallory/quotas",
        "--sha",
        "b" * 40,
    )
    ran = kquota(*words)
    assert ran.code == 0
    assert "does not have the head" in ran.err
    assert kquota(*words, "--required").code == 1
    assert api.comments == []


def test_a_run_that_is_started_again_does_not_replace_the_comment_about_a_newer_commit(
    kquota, api, plan
):
    words = ("post", "github", plan, "--pull", "7", "--sha", SHA, "--label", "prod")
    assert kquota(*words).code == 0
    (body,) = api.bodies(7)
    assert f"commit `{SHA[:12]}`" in body
    api.pulls[7].sha = "d" * 40
    ran = kquota(*words, "--title", "old")
    assert ran.code == 0
    assert f"does not have the head {SHA}" in ran.err
    assert api.bodies(7) == [body]


def test_a_host_that_refuses_is_a_warning_unless_posting_is_required(kquota, folder, api, plan):
    api.accounts["ghs_workflow"] = Account(BOT, rights=frozenset(), is_app=True)
    ran = kquota("post", "github", plan, "--pull", "7", "--outputs")
    assert ran.code == 0
    assert "posting failed" in ran.err
    assert "pull-requests: write" in ran.err
    assert "comment-id" not in read_outputs((folder / "output").read_text())
    assert kquota("post", "github", plan, "--pull", "7", "--required").code == 1


@pytest.mark.parametrize("token", [None, "", "  "])
def test_without_a_token_no_request_is_sent(kquota, api, plan, monkeypatch, token):
    monkeypatch.delenv("GITHUB_TOKEN")
    if token is not None:
        monkeypatch.setenv("GITHUB_TOKEN", token)
    ran = kquota("post", "github", plan, "--pull", "7")
    assert (ran.code, api.requests) == (0, [])
    assert "GITHUB_TOKEN is not set" in ran.err


def test_the_token_is_in_no_output(kquota, api, plan, monkeypatch):
    monkeypatch.setenv("GITHUB_TOKEN", "ghs_planted")
    monkeypatch.setenv("KQUOTA_DEBUG", "1")
    api.fail_once(Refusal(422, "what is ghs_planted?"))
    ran = kquota("post", "github", plan, "--pull", "7", "--required", "--summary", "--annotations")
    assert ran.code == 1
    assert "ghs_planted" not in ran.out + ran.err


BROKEN = {
    "edited": (
        lambda text: text.replace('"after":10485760', '"after":10485761'),
        1,
        "do not edit it",
    ),
    "cut off": (lambda text: text[: len(text) // 2], 1, "not a complete JSON document"),
    "another format": (lambda text: text.replace('"format": 1', '"format": 2'), 4, "format"),
    "another kind": (
        lambda text: text.replace('"kind": "kquota-plan"', '"kind": "x"'),
        1,
        "not a plan",
    ),
    "a list": (lambda text: f"[{text}]", 1, "not a plan"),
    "deep": (lambda text: "[" * 200_000, 1, "not a complete JSON document"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_malformed_document_is_reported_and_not_posted(kquota, folder, api, plan, name):
    change, code, says = BROKEN[name]
    (folder / plan).write_text(change((folder / plan).read_text()))
    ran = kquota("post", "github", plan, "--pull", "7", "--summary", "--outputs", "--annotations")
    assert ran.code == code
    assert says in ran.err
    assert "Traceback" not in ran.err
    assert ran.out == ""
    assert api.requests == []
    assert not (folder / "summary").exists()


def test_a_document_of_another_run_is_limited_to_five_megabytes(kquota, folder, api, plan):
    (folder / plan).write_text((folder / plan).read_text() + " " * (5 * 1024 * 1024))
    ran = kquota("post", "github", plan, "--head-repo", "octo/quotas", "--sha", SHA)
    assert ran.code == 1
    assert "larger than 5242880 bytes" in ran.err
    assert api.requests == []
    assert kquota("post", "github", plan, "--pull", "7", "--required").code == 0


@pytest.mark.parametrize(
    "words",
    [
        ("--sha", SHA),
        ("--head-repo", "a/b"),
        ("--pull", "0"),
        ("--issue",),
        ("--repo", "../x", "--pull", "7"),
        ("--api-url", "http://api.example", "--pull", "7"),
        ("--label", "x" * 101),
    ],
)
def test_invalid_options_are_an_error(kquota, api, folder, words):
    saved(folder, saved_plan(sample()))
    ran = kquota("post", "github", "plan.json", *words)
    assert ran.code == 1
    assert "Traceback" not in ran.err
    assert api.comments == []


def test_an_unexpected_author_is_reported(kquota, api, plan):
    api.accounts["ghs_workflow"] = Account("my-app[bot]", is_app=True)
    ran = kquota("post", "github", plan, "--pull", "7")
    assert "--author my-app[bot]" in ran.err


def test_a_failure_replaces_an_older_plan(kquota, folder, api, plan):
    kquota("post", "github", plan, "--pull", "7", "--label", "prod")
    messages = [
        "error: quotas/a.yaml:3:1: no `such` <b>thing</b> @team",
        "",
        "</pre>",
        "::error::x\u202e",
    ]
    document = {
        "kind": "kquota-failure",
        "format": 1,
        "command": "plan",
        "exitCode": 1,
        "messages": messages,
    }
    saved(folder, document, "failure.json")
    words = (
        "post",
        "github",
        "failure.json",
        "--pull",
        "7",
        "--label",
        "prod",
        "--summary",
        "--required",
    )
    assert kquota(*words).code == 0
    (body,) = api.bodies(7)
    assert "Planning failed" in body
    assert body.count("</pre>") == 1
    assert "@team" not in body
    assert "producer_byte_rate" not in body
    saved(
        folder,
        document | {"command": "apply", "exitCode": 4, "messages": ["x" * 1000] * 200},
        "failure.json",
    )
    assert kquota(*words).code == 0
    assert "no longer fits" in api.bodies(7)[1]
    assert len(api.bodies(7)[1]) <= 65_536
    saved(folder, document | {"command": "rm"}, "failure.json")
    assert kquota(*words).code == 1


def test_an_outcome_has_its_own_comment(kquota, folder, api, plan):
    kquota("post", "github", plan, "--pull", "7", "--label", "prod")
    saved(folder, outcome_document(result()), "outcome.json")
    ran = kquota(
        "post",
        "github",
        "outcome.json",
        "--pull",
        "7",
        "--label",
        "prod",
        "--outputs",
        "--required",
    )
    assert ran.code == 0
    assert len(api.bodies(7)) == 2
    assert "applied and shown by the brokers" in api.bodies(7)[1]
    assert "@team" not in api.bodies(7)[1]
    assert read_outputs((folder / "output").read_text())["complete"] == "false"


def test_a_report_without_records_leaves_the_issue_as_it_is(kquota, folder, api):
    words = ("post", "github", drift(folder), "--issue", "--label", "prod", "--required")
    assert kquota(*words).code == 0
    body = api.issues[0].body
    drift(folder, has_drift=False, records_known=False)
    ran = kquota(*words)
    assert ran.code == 0
    assert "no ownership records" in ran.err
    (issue,) = api.issues
    assert (issue.state, issue.body) == ("open", body)


def test_the_reviewed_plan_is_downloaded_and_checked(kquota, folder, api, plan):
    api.pulls[7].merged_as = MERGE
    text = (folder / plan).read_text()
    run = api.run("plan.yml", SHA, artifacts={"kquota-plan-prod": zipped(plan_json=text)})
    words = (
        "post",
        "reviewed",
        "--commit",
        MERGE,
        "--workflow",
        "plan.yml",
        "--artifact",
        "kquota-plan-prod",
        "--out",
        "reviewed.json",
    )
    ran = kquota(*words)
    assert (ran.code, ran.out) == (0, sample().digest + "\n")
    assert (folder / "reviewed.json").read_text() == text
    assert (folder / "reviewed.json").stat().st_mode & 0o777 == 0o600
    (folder / "reviewed.json").unlink()
    for artifact in (
        zipped(plan_json=text.replace('"after":1', '"after":2', 1)),
        zipped(plan_json=text[:-20]),
        zipped(plan_json="{}"),
        b"",
    ):
        run.artifacts["kquota-plan-prod"] = artifact
        assert kquota(*words).code == 1
    run.artifacts.clear()
    assert kquota(*words).code == 1
    assert not (folder / "reviewed.json").exists()


def plans_of(*names: str) -> dict[str, object]:
    rows = [
        {"cluster": name, "result": "ok", "changes": 0, "drift": 0, "refused": 0} for name in names
    ]
    plans = [{"cluster": name, "plan": plan_json(sample())} for name in names]
    return {"kind": "kquota-plans", "format": 1, "plans": plans, "summary": rows}


def test_many_clusters_have_one_comment_with_outputs(kquota, folder, api):
    plans = plans_of("eu", "us")
    unreachable = dict.fromkeys(("changes", "drift", "refused"))
    plans["summary"].append({"cluster": "lost", "result": "unreachable"} | unreachable)
    ran = kquota("post", "github", saved(folder, plans), "--pull", "7", "--outputs")
    assert ran.code == 0
    (body,) = api.bodies(7)
    assert body.startswith(
        "<!-- kquota:plan: -->\n### ⚠️ Needs attention: Kafka quotas of 3 clusters\n"
    )
    assert "| `lost` | unreachable | - | - | - |" in body
    assert body.index("<summary>eu</summary>") < body.index("<summary>us</summary>")
    outputs = read_outputs((folder / "output").read_text())
    assert (outputs["clusters"], outputs["changed-clusters"]) == ("3", "2")
    assert (outputs["has-changes"], outputs["errored"]) == ("true", "true")


def test_outside_of_a_workflow_its_files_are_not_written(kquota, api, plan, monkeypatch):
    monkeypatch.delenv("GITHUB_STEP_SUMMARY")
    monkeypatch.delenv("GITHUB_OUTPUT")
    assert kquota("post", "github", plan, "--summary").code == 1
    assert kquota("post", "github", plan, "--outputs").code == 1


def test_drift_without_an_issue_is_only_printed(kquota, folder, api):
    assert kquota("post", "github", drift(folder), "--outputs", "--summary").code == 0
    assert api.requests == []
    assert read_outputs((folder / "output").read_text()) == {"drift": "1", "has-drift": "true"}
