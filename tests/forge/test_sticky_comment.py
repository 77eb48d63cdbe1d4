"""One comment per label: identified by marker and author on any page, kept, renewed or left out as requested."""

import pytest

from reconciler.errors import ForgeError, UsageError
from reconciler.forge.sticky_comment import Marker, fingerprint, post, state_of, with_state
from tests.forge.github_api import BOT, Account, Refusal

PROD = Marker(kind="plan", label="prod")


def text(words: str, marker: Marker = PROD) -> str:
    return f"{marker.line}\n{words}\n"


@pytest.fixture
def posted(at_github):
    """`posted("words")`: the result of a comment on pull request 7."""

    def run(words, *, marker=PROD, **more):
        return at_github(
            lambda host: post(host.comments_of(7), marker, text(words, marker)), **more
        )

    return run


def test_the_first_comment_is_created_and_later_ones_replace_its_text(api, posted):
    assert posted("one").action == "created"
    assert posted("two").action == "updated"
    assert posted("two").action == "unchanged"
    assert api.bodies(7) == [text("two")]
    assert len(api.sent("PATCH")) == 1


def test_the_comment_is_found_on_a_later_page(api, posted):
    for number in range(75):
        api.comment(7, "someone", f"chatter {number}")
    posted("one")
    for number in range(75):
        api.comment(7, "someone", f"more chatter {number}")
    assert posted("two").action == "updated"
    assert api.bodies(7).count(text("two")) == 1


def test_a_copy_of_the_marker_by_another_author_is_ignored(api, posted):
    api.comment(7, "mallory", text("mine"))
    api.comment(7, BOT, f"quoted:\n{text('x')}")
    api.comment(7, BOT, text("other label", Marker(kind="plan", label="prod2")))
    assert posted("one").action == "created"
    assert api.bodies(7)[0] == text("mine")
    assert len(api.bodies(7)) == 4


def test_each_label_and_kind_has_its_own_comment(api, posted):
    posted("plan")
    posted("stage", marker=Marker(kind="plan", label="stage"))
    posted("outcome", marker=Marker(kind="outcome", label="prod"))
    assert len(api.bodies(7)) == 3


def test_duplicate_comments_of_concurrent_runs_are_deleted_except_one(api, posted):
    first = api.comment(7, BOT, text("one"))
    api.comment(7, BOT, text("one"))
    assert posted("two").note.id == first.id
    assert api.bodies(7) == [text("two")]


@pytest.mark.parametrize("landed", [True, False])
def test_a_lost_response_does_not_create_two_comments(api, posted, landed):
    def fault(request):
        if request.method == "POST" and len(api.sent("POST")) == 1:
            if landed:
                api.comment(7, BOT, request.body["body"])
            return Refusal(502, "lost")
        return None

    api.faults.append(fault)
    posted("one")
    assert api.bodies(7) == [text("one")]


def test_a_comment_that_was_deleted_concurrently_causes_no_error(api, posted):
    api.comment(7, BOT, text("one"))
    api.comment(7, BOT, text("one"))
    api.fail_once(Refusal(404, "Not Found"), method="DELETE")
    assert posted("two").action == "updated"


def test_a_personal_token_finds_the_comment_of_its_user(api, posted):
    api.accounts["ghp_me"] = Account("Octo-Cat")
    api.comment(7, BOT, text("the bot's"))
    assert posted("one", who="ghp_me").action == "created"
    assert posted("two", who="ghp_me").action == "updated"
    assert api.bodies(7) == [text("the bot's"), text("two")]


def test_a_custom_app_finds_its_comment_by_the_configured_author(api, posted):
    api.accounts["ghs_app"] = Account("my-app[bot]", is_app=True)
    posted("one", who="ghs_app", author="my-app[bot]")
    assert posted("two", who="ghs_app", author="my-app[bot]").action == "updated"


@pytest.mark.parametrize(("who", "status"), [("ghs_reader", 403), ("ghs_unknown", 401)])
def test_a_token_without_rights_is_refused_and_no_comment_is_created(api, posted, who, status):
    api.accounts["ghs_reader"] = Account(BOT, rights=frozenset({"contents: read"}), is_app=True)
    with pytest.raises(ForgeError) as caught:
        posted("one", who=who)
    assert caught.value.status == status
    assert who not in f"{caught.value} {caught.value.hint}"
    assert api.bodies(7) == []


def test_a_response_without_an_id_is_refused(api, posted):
    api.fail_once(Refusal(201, "no id here"), method="POST")
    with pytest.raises(ForgeError, match="field `id`"):
        posted("one")


def test_a_text_without_its_marker_is_rejected(at_github):
    with pytest.raises(ValueError, match="marker"):
        at_github(lambda host: post(host.comments_of(7), PROD, "hello"))


@pytest.mark.parametrize(
    "label", ["", "prod", "a-->b", "a--!>b", "@team\n<b>", "ä \u202e", "a/b c"]
)
def test_a_label_cannot_break_out_of_its_marker(label):
    line = Marker(kind="plan", label=label).line
    inside = line.removeprefix("<!-- ").removesuffix(" -->")
    assert "--" not in inside
    assert ">" not in inside
    assert "\n" not in line
    assert line.isascii()
    assert Marker(kind="plan", label=label).begins(f"{line}\r\nx")


def test_different_labels_have_different_markers_and_long_ones_are_refused():
    labels = ["a", "A", "a ", "a%20", "a-", "a%2D", ""]
    assert len({Marker(kind="plan", label=label).line for label in labels}) == len(labels)
    with pytest.raises(UsageError):
        Marker(kind="plan", label="x" * 101)


def test_the_fingerprint_is_in_the_second_line():
    body = with_state(PROD, "facts") + "\nwords"
    assert PROD.begins(body)
    assert state_of(body) == fingerprint("facts") == state_of(body.replace("\n", "\r\n"))
    assert state_of("words") == state_of(PROD.line) == state_of(f"{PROD.line}\nwords") == ""
