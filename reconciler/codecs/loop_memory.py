"""The stored state of loops between processes: removal counts, corrections of drift, and the state of ``kquota watch``."""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct, field

from reconciler.codecs.reader import DocumentReader, load
from reconciler.errors import QuotaValueError
from reconciler.quota.drift_tracker import CorrectionHistory
from reconciler.quota.entity import Entity
from reconciler.quota.entity_forms import entity_slots, read_slots
from reconciler.quota.keys import COLUMNS, Key, read_key_columns
from reconciler.quota.planner.removal_guard import RemovalCount
from reconciler.render.json_values import Json, dump

KIND: Final = "kquota-watch"
FORMAT: Final = 1


def removal_rows(counts: Sequence[RemovalCount]) -> list[Json]:
    """Return ``[[at, count, tenant], …]``."""
    return [[count.at, count.count, count.tenant] for count in counts]


def read_removals(rows: DocumentReader) -> tuple[RemovalCount, ...]:
    """Read what :func:`removal_rows` wrote."""
    return rows.rows(_read_removal)


def _read_removal(row: DocumentReader) -> RemovalCount:
    at, count, tenant = row.array(3)
    return RemovalCount(at=at.number(), count=count.amount(), tenant=tenant.text())


def correction_rows(histories: Sequence[CorrectionHistory]) -> list[Json]:
    """Return ``[[slots, key, document, limits, expected, [[at, value], …]], …]``."""
    return [
        [
            entity_slots(history.entity),
            history.key.value,
            history.document,
            list(history.limits),
            history.expected,
            [list(correction) for correction in history.corrections],
        ]
        for history in histories
    ]


def read_corrections(rows: DocumentReader) -> tuple[CorrectionHistory, ...]:
    """Read what :func:`correction_rows` wrote."""
    return rows.rows(_read_correction)


def _read_correction(row: DocumentReader) -> CorrectionHistory:
    """Read one row. The limits of a row from before a key was added are fewer: that key had no limit."""
    slots, key, document, limits, expected, corrections = row.array(6)
    values = limits.array(*range(1, len(COLUMNS) + 1))
    return CorrectionHistory(
        entity=_read_entity(slots),
        key=key.word(Key),
        document=document.text(),
        limits=read_key_columns([value.optional(DocumentReader.number) for value in values]),
        expected=expected.optional(DocumentReader.number),
        corrections=corrections.rows(_read_moment),
    )


def _read_entity(slots: DocumentReader) -> Entity:
    try:
        return read_slots([slot.value for slot in slots.items()])
    except QuotaValueError as error:
        slots.fail(f"the slots of an entity: {error}")


def _read_moment(row: DocumentReader) -> tuple[float, float | None]:
    at, value = row.array(2)
    return at.number(), value.optional(DocumentReader.number)


class WatchStateContent(Struct, frozen=True, kw_only=True, gc=False):
    """The stored state of ``kquota watch``."""

    commit: str = ""  # the applied revision, "" if there never was one
    refused_commit: str = ""  # the newest revision that was refused and not replaced since, or ""
    removals: Mapping[str, Sequence[RemovalCount]] = field(
        default_factory=dict[str, Sequence[RemovalCount]]
    )


def watch_state_text(content: WatchStateContent) -> str:
    """Return the state as text."""
    removals: dict[str, Json] = {
        name: removal_rows(counts) for name, counts in content.removals.items()
    }
    return dump(
        {
            "kind": KIND,
            "format": FORMAT,
            "commit": content.commit,
            "refused": content.refused_commit,
            "removals": removals,
        }
    )


def read_watch_state(text: str | bytes, *, location: str) -> WatchStateContent:
    """Read a stored state."""
    top = load(text, kind=KIND, format_version=FORMAT, location=location)
    fields = top.fields("kind", "format", "commit", "refused", "removals")
    return WatchStateContent(
        commit=fields["commit"].text(),
        refused_commit=fields["refused"].text(),
        removals={name: read_removals(rows) for name, rows in fields["removals"].pairs()},
    )
