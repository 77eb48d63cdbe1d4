"""One comment per label: found by marker and own author on any page, kept, renewed or left out as asked."""

import pytest

from reconciler.errors import ForgeError, UsageError
from reconciler.forge.github import PullComments
from reconciler.forge.gitlab import MergeRequestNotes
from reconciler.forge.marker import Marker, fingerprint, state_of, with_state
from reconciler.forge.sticky_comment import post
from tests.forge.github_api import BOT, Account, Refusal

PROD = Marker(kind="plan", label="prod")


def text(words: str, marker: Marker = PROD) -> str:
    return f"{marker.line}\n{words}\n"


@pytest.fixture
def posted(at_github):
    """`posted("words", method=…)`: what became of a comment on pull request 7."""

    def run(words, *, method="update", is_quiet=False, marker=PROD, **more):
        return at_github(
            lambda host: post(
                PullComments(host, 7), marker, text(words, marker), method=method, is_quiet=is_quiet
            ),
            **more,
        )

    return run


def test_the_first_comment_is_written_and_later_ones_replace_its_text(api, posted):
    assert posted("one").action == "created"
    assert posted("two").action == "updated"
    assert posted("two").action == "unchanged"
    assert api.bodies(7) == [text("two")]
    assert len(api.sent("PATCH")) == 1


def test_it_is_found_on_a_later_page(api, posted):
    for number in range(75):
        api.comment(7, "someone", f"chatter {number}")
    posted("one")
    for number in range(75):
        api.comment(7, "someone", f"more chatter {number}")
    assert posted("two").action == "updated"
    assert api.bodies(7).count(text("two")) == 1


def test_a_copy_of_the_marker_by_somebody_else_is_left_alone(api, posted):
    api.comment(7, "mallory", text("mine"))
    api.comment(7, BOT, f"quoted:\n{text('x')}")
    api.comment(7, BOT, text("other label", Marker(kind="plan", label="prod2")))
    assert posted("one").action == "created"
    assert api.bodies(7)[0] == text("mine")
    assert len(api.bodies(7)) == 4


def test_each_label_and_kind_has_its_own(api, posted):
    posted("plan")
    posted("stage", marker=Marker(kind="plan", label="stage"))
    posted("outcome", marker=Marker(kind="outcome", label="prod"))
    assert len(api.bodies(7)) == 3


def test_recreate_writes_a_new_one_first_and_takes_the_old_away(api, posted):
    posted("one")
    api.comment(7, "someone", "chatter")
    assert posted("two", method="recreate").action == "created"
    assert api.bodies(7) == ["chatter", text("two")]
    api.fail_once(Refusal(422, "no"), method="POST")
    with pytest.raises(ForgeError):
        posted("three", method="recreate")
    assert api.bodies(7)[-1] == text("two")


def test_on_change_begins_nothing_for_nothing_and_keeps_what_there_is(api, posted):
    assert posted("nothing", method="on-change", is_quiet=True).action == "nothing"
    assert api.bodies(7) == []
    assert posted("something", method="on-change").action == "created"
    assert posted("nothing", method="on-change", is_quiet=True).action == "updated"


def test_never_asks_nobody(api, posted):
    assert posted("one", method="never").action == "nothing"
    assert api.requests == []


def test_twins_of_two_runs_at_once_become_one(api, posted):
    first = api.comment(7, BOT, text("one"))
    api.comment(7, BOT, text("one"))
    assert posted("two").note.id == first.id
    assert api.bodies(7) == [text("two")]


@pytest.mark.parametrize("landed", [True, False])
def test_a_lost_answer_does_not_make_two_comments(api, posted, landed):
    def fault(request):
        if request.method == "POST" and len(api.sent("POST")) == 1:
            if landed:
                api.comment(7, BOT, request.body["body"])
            return Refusal(502, "lost")
        return None

    api.faults.append(fault)
    posted("one")
    assert api.bodies(7) == [text("one")]


def test_a_comment_that_somebody_took_away_meanwhile_is_no_fault(api, posted):
    api.comment(7, BOT, text("one"))
    api.comment(7, BOT, text("one"))
    api.fail_once(Refusal(404, "Not Found"), method="DELETE")
    assert posted("two").action == "updated"


def test_a_token_of_a_person_finds_its_own(api, posted):
    api.accounts["ghp_me"] = Account("Octo-Cat")
    api.comment(7, BOT, text("the bot's"))
    assert posted("one", who="ghp_me").action == "created"
    assert posted("two", who="ghp_me").action == "updated"
    assert api.bodies(7) == [text("the bot's"), text("two")]


def test_an_app_of_ones_own_is_named(api, posted):
    api.accounts["ghs_app"] = Account("my-app[bot]", is_app=True)
    posted("one", who="ghs_app", author="my-app[bot]")
    assert posted("two", who="ghs_app", author="my-app[bot]").action == "updated"


@pytest.mark.parametrize(("who", "status"), [("ghs_reader", 403), ("ghs_unknown", 401)])
def test_a_token_without_rights_is_refused_and_nothing_is_there(api, posted, who, status):
    api.accounts["ghs_reader"] = Account(BOT, rights=frozenset({"contents: read"}), is_app=True)
    with pytest.raises(ForgeError) as caught:
        posted("one", who=who)
    assert caught.value.status == status
    assert who not in f"{caught.value} {caught.value.hint}"
    assert api.bodies(7) == []


def test_a_text_over_the_limit_is_refused_by_the_host(posted):
    with pytest.raises(ForgeError, match="body is too long"):
        posted("x" * 65_536)


def test_an_answer_without_its_facts_is_refused(api, posted):
    api.fail_once(Refusal(201, "no id here"), method="POST")
    with pytest.raises(ForgeError, match="no id"):
        posted("one")


def test_a_text_without_its_marker_is_our_own_fault(at_github):
    with pytest.raises(ValueError, match="marker"):
        at_github(
            lambda host: post(PullComments(host, 7), PROD, "hello", method="update", is_quiet=False)
        )


@pytest.mark.parametrize(
    "label", ["", "prod", "a-->b", "a--!>b", "@team\n<b>", "ä \u202e", "a/b c"]
)
def test_no_label_gets_out_of_its_marker(label):
    line = Marker(kind="plan", label=label).line
    inside = line.removeprefix("<!-- ").removesuffix(" -->")
    assert "--" not in inside
    assert ">" not in inside
    assert "\n" not in line
    assert line.isascii()
    assert Marker(kind="plan", label=label).begins(f"{line}\r\nx")


def test_labels_differ_where_they_differ_and_are_short():
    labels = ["a", "A", "a ", "a%20", "a-", "a%2D", ""]
    assert len({Marker(kind="plan", label=label).line for label in labels}) == len(labels)
    with pytest.raises(UsageError):
        Marker(kind="plan", label="x" * 101)


def test_a_fingerprint_stands_in_the_second_line():
    body = with_state(PROD, "facts") + "\nwords"
    assert PROD.begins(body)
    assert state_of(body) == fingerprint("facts") == state_of(body.replace("\n", "\r\n"))
    assert state_of("words") == state_of(PROD.line) == state_of(f"{PROD.line}\nwords") == ""


def test_gitlab_notes_behave_the_same(gitlab_api, at_gitlab):
    def run(words, method="update", is_quiet=False, **more):
        return at_gitlab(
            lambda host: post(
                MergeRequestNotes(host, 7), PROD, text(words), method=method, is_quiet=is_quiet
            ),
            **more,
        )

    for number in range(40):
        gitlab_api.note(7, "someone", f"chatter {number}")
    gitlab_api.note(7, "mallory", text("mine"))
    gitlab_api.note(7, "project_1_bot", text("a system's"), system=True)
    assert run("one").action == "created"
    assert run("two").action == "updated"
    assert run("two").action == "unchanged"
    assert run("three", method="recreate").action == "created"
    bodies = [
        note.body for note in gitlab_api.notes if note.author == "project_1_bot" and not note.system
    ]
    assert bodies == [text("three")]
    assert [note.body for note in gitlab_api.notes if note.author == "mallory"] == [text("mine")]
    with pytest.raises(ForgeError, match="403"):
        run("four", who="glpat-reader")
