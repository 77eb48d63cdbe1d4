"""One issue during drift: opened once, changed only with the facts, closed on recovery, a new one afterwards."""

import pytest

from reconciler.errors import ForgeError
from reconciler.forge.sticky_comment import Marker, update_issue, with_state
from tests.forge.github_api import BOT, Refusal

PROD = Marker(kind="drift", label="prod")


def body(facts: str, words: str = "words") -> str:
    return f"{with_state(PROD, facts)}\n{words}\n"


@pytest.fixture
def drift_issue(api, at_github):
    """`drift_issue("facts")`, `drift_issue(None)` after recovery; returns what was done."""

    def run(facts, words="words", title="drift"):
        recovered = None if facts is not None else "all is well"
        return at_github(
            lambda host: update_issue(
                host, PROD, title=title, body=body(facts or "", words), recovered=recovered
            )
        ).action

    return run


def test_an_issue_is_opened_once_and_changed_only_with_the_facts(drift_issue, api):
    assert drift_issue("a") == "opened"
    assert drift_issue("a", "other words") == "unchanged"
    assert drift_issue("a b") == "updated"
    assert drift_issue("a b", title="another") == "updated"
    assert [issue.body for issue in api.issues] == [body("a b")]


def test_an_issue_is_closed_on_recovery_with_a_comment_and_a_new_one_is_opened_later(
    drift_issue, api
):
    assert drift_issue(None) == "nothing"
    drift_issue("a")
    assert drift_issue(None) == "closed"
    assert drift_issue(None) == "nothing"
    assert [comment.body for comment in api.comments] == ["all is well"]
    assert drift_issue("a") == "opened"
    assert len(api.issues) == 2


def test_issues_of_other_authors_and_labels_are_not_changed(api, at_github):
    api.issue("mallory", "drift", body("a"))
    api.issue(BOT, "drift", with_state(Marker(kind="drift", label="stage"), "a") + "\nx")
    update = at_github(
        lambda host: update_issue(host, PROD, title="t", body=body("b"), recovered=None)
    )
    assert update.action == "opened"
    assert (
        at_github(
            lambda host: update_issue(host, PROD, title="t", body=body(""), recovered="ok")
        ).action
        == "closed"
    )
    assert [issue.state for issue in api.issues] == ["open", "open", "closed"]


def test_duplicate_issues_are_closed_except_one(api, at_github):
    for _ in range(3):
        api.issue(BOT, "t", body("a"))
    update = at_github(
        lambda host: update_issue(host, PROD, title="t", body=body("b"), recovered=None)
    )
    assert update.action == "updated"
    assert [issue.state for issue in api.issues] == ["open", "closed", "closed"]


def test_a_lost_response_does_not_open_two_issues(api, at_github):
    def fault(request):
        if request.method == "POST" and len(api.sent("POST")) == 1:
            api.issue(BOT, "t", request.body["body"])
            return Refusal(504, "lost")
        return None

    api.faults.append(fault)
    at_github(lambda host: update_issue(host, PROD, title="t", body=body("a"), recovered=None))
    assert len(api.issues) == 1


def test_a_refusal_is_reported(api, at_github):
    api.fail_once(Refusal(410, "Issues are disabled for this repo"))
    with pytest.raises(ForgeError, match="410"):
        at_github(lambda host: update_issue(host, PROD, title="t", body=body("a"), recovered=None))


def test_a_body_without_a_fingerprint_is_rejected(at_github):
    with pytest.raises(ValueError, match="fingerprint"):
        at_github(
            lambda host: update_issue(host, PROD, title="t", body=PROD.line + "\n", recovered=None)
        )
