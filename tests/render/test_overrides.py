"""Overrides as a table and as a document."""

from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from reconciler.quota.overrides import Override
from reconciler.render.cluster_state import overrides_document, overrides_text
from reconciler.render.table import Style

NOW = 1_700_000_000.0
PLAIN = Style(colour=False, width=0)


def override(**changes: object) -> Override:
    fields: dict[str, object] = {
        "entity": entity(user="alice"),
        "key": Key.PRODUCER_BYTE_RATE,
        "value": 1_048_576.0,
        "declared": None,
        "before": 5.0,
        "until": NOW + 7_200,
        "author": "night \x1b[31mshift",
        "reason": "INC-1\nforged row",
    }
    return Override(**(fields | changes))


def test_a_row_shows_end_and_author_and_cannot_forge_markup() -> None:
    text = overrides_text([override()], now=NOW, style=PLAIN)
    heads, *rows = text.splitlines()
    assert heads.split() == [
        "ENTITY",
        "KEY",
        "VALUE",
        "DECLARED",
        "WHEN",
        "IT",
        "BEGAN",
        "UNTIL",
        "WHO",
        "REASON",
    ]
    assert len(rows) == 1
    assert "2023-11-15T00:13:20Z, 2 h left" in rows[0]
    assert "not declared" in rows[0]
    assert "\x1b" not in text


def test_an_override_that_ended_is_shown_as_ended() -> None:
    ended = override(until=NOW, value=None)
    assert "expired, not reverted" in overrides_text([ended], now=NOW, style=PLAIN)
    assert "unset" in overrides_text([ended], now=NOW, style=PLAIN)
    (row,) = overrides_document([ended], cluster_id="lkc-1", now=NOW)["overrides"]
    assert row["expired"] is True
    assert row["value"] is None
