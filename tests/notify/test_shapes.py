"""The formats of a message: the fields for each receiver, and escaped names in all of them."""

import json

import pytest
from msgspec.structs import replace

from reconciler.app.requests import NOTIFICATION_SHAPES
from reconciler.notify.message import DriftEvent
from reconciler.notify.message_text import LONGEST_NAME, MOST_LINES, headline, lines
from reconciler.notify.shapes import SHAPES, MessageShape
from tests.notify.receivers import ALICE, BOB, message, named


def test_the_webhook_has_event_and_identity_in_its_headers():
    request = SHAPES[MessageShape.WEBHOOK](message(ALICE))
    assert request.headers["X-Kquota-Event"] == "drift.began"
    assert request.headers["X-Kquota-Delivery"] == json.loads(request.body)["id"]


def test_the_command_offers_every_format():
    assert NOTIFICATION_SHAPES == tuple(SHAPES) == tuple(MessageShape)


def test_a_slack_message_has_a_line_and_a_block():
    text = json.loads(SHAPES[MessageShape.SLACK](message(ALICE, BOB)).body)["text"]
    assert text.splitlines() == [
        ":warning: prod: 2 quotas changed outside kquota",
        "```",
        "user=alice producer_byte_rate: 1048576 (1 MiB/s) -&gt; 7 B/s, since 2023-11-14T22:12:20Z",
        "user=bob request_percentage: 50 % -&gt; -, since 2023-11-14T22:03:20Z",
        "```",
    ]
    over = json.loads(SHAPES[MessageShape.SLACK](message(event=DriftEvent.ENDED)).body)["text"]
    assert over == ":white_check_mark: prod: 2 quotas restored after 10 min"


@pytest.mark.parametrize(
    "name",
    [
        "<!channel>",
        "@all",
        "```\n@here",
        "<https://evil.example|click>",
        "\u202egpj",
        "a\nb",
        "&lt;",
    ],
)
def test_names_are_not_markup_in_slack(name):
    new_message = message(named(name), cluster=name)
    text = json.loads(SHAPES[MessageShape.SLACK](new_message).body)["text"]
    head, fence, *block, end = text.split("\n")
    assert (fence, end) == ("```", "```")
    assert len(block) == 1
    for line in (head, *block):
        assert not set(line) & set("<>`\u202e")
        assert "@a" not in line
        assert "@h" not in line


def test_the_number_and_length_of_lines_is_limited():
    displayed_lines = lines(message(*(named(f"u{number:03}") for number in range(MOST_LINES + 5))))
    assert len(displayed_lines) == MOST_LINES + 1
    assert displayed_lines[-1] == "and 5 more"
    assert len(lines(message(named("x" * 5000)))[0]) < LONGEST_NAME + 100
    assert (
        "corrections were reverted repeatedly"
        in lines(message(replace(ALICE, corrections_stopped=True)))[0]
    )


@pytest.mark.parametrize("event", [DriftEvent.CHANGED, DriftEvent.REMINDED])
def test_every_event_has_its_own_text(event):
    assert headline(message(ALICE, event=event)) != headline(message(ALICE))
