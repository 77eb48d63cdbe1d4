"""The formats of a message: the fields for each receiver, and escaped names in all of them."""

import json
import re
from dataclasses import replace

import pytest

from reconciler.app.requests import NOTIFICATION_SHAPES
from reconciler.notify.endpoint import endpoint
from reconciler.notify.message import DriftEvent
from reconciler.notify.message_text import LONGEST_NAME, MOST_LINES, headline, lines
from reconciler.notify.shapes import SHAPES, MessageShape, request_of
from tests.notify.receivers import ALICE, BOB, KEY, NOW, Got, is_signed, message, named

SIGNED = endpoint("hook", "https://example.com/in", key=KEY)
UNSIGNED = endpoint("hook", "https://example.com/in")


def got(request) -> Got:
    return Got(path="/", headers=dict(request.headers), body=request.body)


def test_the_webhook_is_signed_over_time_and_body():
    sent = got(request_of(MessageShape.WEBHOOK, message(ALICE), SIGNED, at=NOW))
    assert is_signed(sent)
    assert sent.headers["X-Kquota-Event"] == "drift.began"
    assert sent.headers["X-Kquota-Delivery"] == sent.json["id"]
    assert not is_signed(sent, key="another")
    assert not is_signed(sent, now=NOW + 301)
    assert not is_signed(replace(sent, body=sent.body.replace(b"alice", b"mallo")))
    later = got(request_of(MessageShape.WEBHOOK, message(ALICE), SIGNED, at=NOW + 9))
    assert later.headers["X-Kquota-Signature"] != sent.headers["X-Kquota-Signature"]
    moved = sent.headers["X-Kquota-Signature"].replace(f"t={NOW:.0f}", f"t={NOW + 9:.0f}")
    assert not is_signed(replace(sent, headers={"X-Kquota-Signature": moved}))


def test_the_command_offers_every_format():
    assert NOTIFICATION_SHAPES == tuple(SHAPES) == tuple(MessageShape)


@pytest.mark.parametrize("shape", SHAPES)
def test_with_a_key_exactly_the_documented_formats_are_signed(shape):
    request = request_of(shape, message(ALICE), SIGNED, at=NOW)
    assert ("X-Kquota-Signature" in request.headers) == SHAPES[shape].is_signed


@pytest.mark.parametrize("shape", SHAPES)
def test_without_a_key_no_format_has_a_signature(shape):
    request = request_of(shape, message(ALICE), UNSIGNED, at=NOW)
    assert "X-Kquota-Signature" not in request.headers


def test_a_cloud_event_has_the_attributes_of_the_specification():
    sent = got(
        request_of(MessageShape.CLOUDEVENTS, message(ALICE, cluster="pröd/a b"), SIGNED, at=NOW)
    )
    envelope = sent.json
    assert sent.headers["Content-Type"] == "application/cloudevents+json; charset=utf-8"
    assert is_signed(sent)
    assert envelope["specversion"] == "1.0"
    assert envelope["type"] == "io.kafka-quotas.drift.began.v1"
    assert envelope["source"] == "/kafka-quotas/clusters/pr%C3%B6d%2Fa%20b"
    assert envelope["time"] == "2023-11-14T22:13:20Z"
    assert envelope["subject"] == "id-1"
    assert envelope["data"]["event"] == "began"
    assert envelope["id"] == envelope["data"]["id"]
    for name in envelope.keys() - {"data"}:
        assert re.fullmatch(r"[a-z0-9]{1,20}", name)
        assert envelope[name]
        assert isinstance(envelope[name], str)


def test_a_slack_message_has_a_line_and_a_block():
    text = json.loads(request_of(MessageShape.SLACK, message(ALICE, BOB), UNSIGNED, at=NOW).body)[
        "text"
    ]
    assert text.splitlines() == [
        ":warning: prod: 2 quotas changed outside kquota",
        "```",
        "user=alice producer_byte_rate: 1048576 (1 MiB/s) -&gt; 7 B/s, since 2023-11-14T22:12:20Z",
        "user=bob request_percentage: 50 % -&gt; -, since 2023-11-14T22:03:20Z",
        "```",
    ]
    over = json.loads(
        request_of(MessageShape.SLACK, message(event=DriftEvent.ENDED), UNSIGNED, at=NOW).body
    )["text"]
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
    text = json.loads(request_of(MessageShape.SLACK, new_message, UNSIGNED, at=NOW).body)["text"]
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
