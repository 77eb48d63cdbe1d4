"""The fields of both hosts, read from documents of the same kinds."""

import pytest

from reconciler.errors import ForgeError
from reconciler.forge import github, gitlab
from reconciler.forge.code_host import HostFields
from reconciler.forge.drift_issue import Issue
from reconciler.forge.rest_client import Json
from reconciler.forge.sticky_comment import Comment

GITHUB: dict[str, Json] = {
    "id": 900,
    "number": 7,
    "title": "Drift",
    "body": "text",
    "state": "open",
    "user": {"login": "kquota[bot]"},
    "html_url": "https://github.example/7",
}
GITLAB: dict[str, Json] = {
    "id": 900,
    "iid": 7,
    "title": "Drift",
    "body": "note",
    "description": "text",
    "state": "opened",
    "author": {"username": "kquota[bot]"},
    "web_url": "https://gitlab.example/7",
}
HOSTS = [(github.FIELDS, GITHUB), (gitlab.FIELDS, GITLAB)]


@pytest.mark.parametrize(("fields", "document"), HOSTS)
def test_issues_have_the_number_that_users_see(fields: HostFields, document: dict[str, Json]):
    url = document.get("html_url") or document["web_url"]
    assert isinstance(url, str)
    assert fields.issue(document) == Issue(
        number=7, author="kquota[bot]", title="Drift", body="text", url=url
    )


def test_a_comment_is_identified_by_its_id_and_a_note_of_gitlab_has_no_address():
    comment = github.FIELDS.comment(GITHUB)
    assert comment == Comment(
        id=900, author="kquota[bot]", body="text", url="https://github.example/7"
    )
    note = {name: value for name, value in GITLAB.items() if name != "web_url"}
    assert gitlab.FIELDS.comment(note) == Comment(id=900, author="kquota[bot]", body="note")


@pytest.mark.parametrize(("fields", "document"), HOSTS)
def test_deleted_accounts_have_no_name_and_documents_without_a_number_are_refused(
    fields: HostFields, document: dict[str, Json]
):
    deleted = {**document, "user": None, "author": None}
    assert fields.issue(deleted).author == ""
    without = {name: value for name, value in document.items() if name not in {"number", "iid"}}
    with pytest.raises(ForgeError, match=r"has no (number|iid)"):
        fields.issue(without)
    with pytest.raises(ForgeError, match="has no id"):
        fields.comment({**document, "id": True})
