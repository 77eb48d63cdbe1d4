"""`kquota drift --notify`: observations by a timer, their notification state, and secrets that are not printed."""

import json
import stat

import pytest

from tests.cli.projects import project, quota
from tests.servers.inbox import Inbox

USER_A = (("user", "a"),)
PLACE = "/services/T0SECRET"
WEBHOOK = ("drift", "--notify", "webhook=env:HOOK")


@pytest.fixture
def inbox():
    with Inbox() as running:
        yield running


@pytest.fixture
def applied(kquota, folder, sandbox, inbox, monkeypatch):
    """A project with one document, applied, and receivers in the environment."""
    project(folder, sandbox.bootstrap, quota("a"))
    assert kquota("apply", "--yes").code == 0
    monkeypatch.setenv("HOOK", inbox.url(PLACE))
    monkeypatch.setenv("WORD", "kept-between-us")
    return folder


def drifted(sandbox, value: float = 5000.0) -> None:
    sandbox.seed({USER_A: {"producer_byte_rate": value}})


def test_drift_is_reported_once_for_many_runs_and_then_its_end(kquota, applied, sandbox, inbox):
    assert kquota(*WEBHOOK).code == 0
    assert inbox.posts == []
    drifted(sandbox)
    for _ in range(3):
        assert kquota(*WEBHOOK).code == 0
    assert [post.json["event"] for post in inbox.posts] == ["began"]
    drifted(sandbox, 6000.0)
    assert kquota(*WEBHOOK).code == 0
    drifted(sandbox, 10485760.0)
    assert kquota(*WEBHOOK).code == 0
    assert [post.json["event"] for post in inbox.posts] == ["began", "changed", "ended"]
    began = inbox.posts[0]
    assert began.json["pairs"][0]["entityText"] == "user=a"
    assert began.json["cluster"] == "prod"


def test_lost_records_are_no_recovery(kquota, applied, sandbox, inbox):
    """What was applied is not known then, so the end of drift is not either."""
    drifted(sandbox)
    assert kquota(*WEBHOOK).code == 0
    records = applied / ".kquota/inventory.json"
    content = records.read_bytes()
    records.unlink()
    for output in ((), ("--format", "json")):
        ran = kquota(*WEBHOOK, *output)
        assert ran.code == 0
        assert "there are no ownership records of prod, so drift cannot be determined" in ran.err
    assert [post.json["event"] for post in inbox.posts] == ["began"]
    records.write_bytes(content)
    drifted(sandbox, 10485760.0)
    assert kquota(*WEBHOOK).code == 0
    assert [post.json["event"] for post in inbox.posts] == ["began", "ended"]


def test_each_receiver_gets_its_own_format(kquota, applied, sandbox, inbox):
    (applied / "slack").write_text(inbox.url("/slack") + "\n")
    drifted(sandbox)
    ran = kquota(*WEBHOOK, "--notify", "slack=file:slack")
    assert ran.code == 0
    by_path = {post.path: post for post in inbox.posts}
    assert by_path[PLACE].json["event"] == "began"
    assert by_path["/slack"].json["text"].startswith(":warning: prod: 1 quota ")


def test_a_message_that_was_not_accepted_is_an_error_and_is_sent_again(
    kquota, applied, sandbox, inbox
):
    drifted(sandbox)
    inbox.status = 404
    ran = kquota(*WEBHOOK, "--detailed-exitcode")
    assert ran.code == 1
    assert "webhook=env:HOOK: http://127.0.0.1" in ran.err
    assert "answered 404" in ran.err
    assert "user=a" in ran.out
    assert "T0SECRET" not in ran.out + ran.err
    inbox.status = 200
    assert kquota(*WEBHOOK, "--detailed-exitcode").code == 2
    assert [post.json["event"] for post in inbox.posts] == ["began", "began"]


def test_the_notification_state_is_private_contains_no_secret_and_its_path_is_configurable(
    kquota, applied, sandbox
):
    drifted(sandbox)
    assert kquota(*WEBHOOK, "--notify-state", "told.json").code == 0
    memory = applied / "told.json"
    assert "T0SECRET" not in memory.read_text()
    assert json.loads(memory.read_text())["sent"][0]["receiver"] == "webhook=env:HOOK"
    assert not (applied / ".kquota/notified.json").exists()
    assert stat.S_IMODE((applied / ".kquota").stat().st_mode) == 0o700


def test_a_damaged_notification_state_is_named_and_nothing_is_sent(kquota, applied, sandbox, inbox):
    drifted(sandbox)
    (applied / "told.json").write_text("{")
    ran = kquota(*WEBHOOK, "--notify-state", "told.json")
    assert (ran.code, inbox.posts) == (1, [])
    assert "told.json" in ran.err


CONTRADICTIONS = [
    (("--notify", "slack=https://hooks.slack.com/T0SECRET"), "not the secret itself"),
    (("--notify", "https://hooks.slack.com/T0SECRET"), "SHAPE=env:NAME"),
    (("--notify", "pager=env:HOOK"), "shapes are webhook, slack"),
    (
        ("--notify", "slack=env:NOWHERE"),
        "--notify slack: the environment variable NOWHERE is not set",
    ),
    (("--notify", "slack=file:nowhere"), "--notify slack: nowhere cannot be read"),
    (("--notify", "slack=env:WORD"), "does not contain the URL"),
    (("--notify-state", "told.json"), "needs --notify"),
    (("--interval", "1m"), "--interval needs --watch"),
    (("--confirm-after", "3"), "--confirm-after needs --watch"),
    (("--correct-drift",), "--correct-drift needs --watch"),
    (("--metrics-address", ":0"), "--metrics-address needs --watch"),
    (("--metrics-entity-labels",), "needs --metrics-address"),
    (("--watch", "--detailed-exitcode"), "cannot be combined with --watch"),
    (("--watch", "--correct-drift", "--read-only"), "cannot be combined with --read-only"),
    (("--watch", "--metrics-address", "nowhere"), "not a listen address"),
]
"""Options of `kquota drift`, and words of their refusal."""


def test_contradictory_options_are_refused_before_anything_is_sent_and_show_no_secret(
    kquota, applied, inbox
):
    for arguments, words in CONTRADICTIONS:
        ran = kquota("drift", *arguments)
        assert ran.code == 1, arguments
        assert words in ran.err
        assert "T0SECRET" not in ran.err
    assert inbox.posts == []


def test_unencrypted_connections_cause_warnings(kquota, applied, monkeypatch):
    monkeypatch.setenv("OPEN", "http://receiver.example/T0SECRET")
    ran = kquota("drift", "--notify", "webhook=env:OPEN")
    assert ran.code == 0
    assert "webhook=env:OPEN: messages to http://receiver.example are not encrypted" in ran.err
    assert "T0SECRET" not in ran.err


def test_a_missing_extra_is_named_with_the_install_command(kquota, applied, monkeypatch):
    monkeypatch.setattr("reconciler.base.installation.MODULES", {"http": ("no_such_module",)})
    ran = kquota(*WEBHOOK)
    assert ran.code == 1
    assert "--notify needs no_such_module" in ran.err
    assert "pip install '.[http]'" in ran.err


def test_a_correction_that_the_project_does_not_allow_is_refused(kquota, folder, sandbox):
    for more, why in (
        ("  policy: Observe\n", "its policy is Observe"),
        ("  suspend: true\n", "it is suspended"),
    ):
        project(folder, sandbox.bootstrap, quota("a"), more=more)
        ran = kquota("drift", "--watch", "--correct-drift")
        assert ran.code == 1
        assert why in ran.err
