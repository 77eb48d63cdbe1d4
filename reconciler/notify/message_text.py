"""A message as text: a headline and one line per pair, for people."""

from typing import Final

from reconciler.base.escaping import escaped
from reconciler.notify.message import DriftedPair, DriftEvent, Message
from reconciler.quota.entity_forms import entity_text
from reconciler.render.units import age, count, instant, limit

MOST_LINES: Final = 20
"""Maximum number of pairs in the text; the rest is counted."""

LONGEST_NAME: Final = 120
MOST_TIMES: Final = 3
"""Maximum number of shown corrections of one pair, the newest ones."""

_CHANGES: Final = {
    DriftEvent.BEGAN: "changed outside kquota",
    DriftEvent.CHANGED: "changed outside kquota, and not the same as before",
    DriftEvent.REMINDED: "still not as applied",
}


def headline(message: Message) -> str:
    """Return the message in one line."""
    cluster = escaped(message.drift.cluster)
    if message.event is DriftEvent.ENDED:
        lasted = age(max(message.at - message.since, 0.0))
        return f"{cluster}: {count(message.resolved, 'quota')} restored after {lasted}"
    pairs = message.drift.pairs
    expired = sum(pair.is_expired_override for pair in pairs)
    parts = [
        f"{count(number, 'quota')} {words}"
        for number, words in (
            (len(pairs) - expired, _CHANGES[message.event]),
            (expired, "with the value of an override that has ended"),
        )
        if number
    ]
    return f"{cluster}: {', '.join(parts)}"


def lines(message: Message) -> list[str]:
    """Return one line per pair, at most ``MOST_LINES``, and how many more there are."""
    pairs = message.drift.pairs
    visible_lines = [_line(drifted) for drifted in pairs[:MOST_LINES]]
    if len(pairs) > MOST_LINES:
        visible_lines.append(f"and {len(pairs) - MOST_LINES} more")
    return visible_lines


def _line(drifted: DriftedPair) -> str:
    name = entity_text(drifted.entity)
    if len(name) > LONGEST_NAME:
        name = name[: LONGEST_NAME - 1] + "…"
    values = f"{limit(drifted.key, drifted.expected)} -> {limit(drifted.key, drifted.live)}"
    since = "override ended" if drifted.is_expired_override else "since"
    return f"{name} {drifted.key.value}: {values}, {since} {instant(drifted.since)}{_correction_history(drifted)}"


def _correction_history(drifted: DriftedPair) -> str:
    """Return how often another writer reverted corrections: values and times help to identify it."""
    if not drifted.corrections_stopped:
        return ""
    undone = ", ".join(
        f"{limit(drifted.key, value)} at {instant(at)}"
        for at, value in drifted.corrections[-MOST_TIMES:]
    )
    return f"; corrections were reverted repeatedly ({undone}) and are stopped"
