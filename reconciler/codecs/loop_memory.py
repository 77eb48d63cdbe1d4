"""The stored state of loops between processes: removal counts, corrections of drift, and the state of ``kquota watch``."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Final, Literal, TypeAlias

from msgspec import Meta, Struct, field

from reconciler.codecs.reader import Document, decoded, edited, typed, values_of
from reconciler.errors import QuotaValueError
from reconciler.quota.drift_tracker import CorrectionHistory
from reconciler.quota.entity import read_slots
from reconciler.quota.keys import COLUMNS, Key, WrittenValue, read_key_columns
from reconciler.quota.ownership import Moment
from reconciler.quota.planner.removal_guard import RemovalCount
from reconciler.render.json_values import dump, read_value, row_text, written_value

KIND: Final = "kquota-watch"
FORMAT: Final = 1

_Slot: TypeAlias = str | bool | None


class CorrectionRow(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The corrections of one pair. A row from before a key was added has fewer limits: that key had none."""

    entity: tuple[_Slot, _Slot, _Slot]
    key: Key
    document: str
    limits: Annotated[list[WrittenValue], Meta(min_length=1, max_length=len(COLUMNS))]
    expected: WrittenValue
    corrections: list[tuple[Moment, WrittenValue]]

    def history(self) -> CorrectionHistory:
        """Return the corrections.

        Raises:
            QuotaValueError: The entity cannot be.
        """
        return CorrectionHistory(
            entity=read_slots(self.entity),
            key=self.key,
            document=self.document,
            limits=read_key_columns([read_value(value) for value in self.limits]),
            expected=read_value(self.expected),
            corrections=tuple((at, read_value(value)) for at, value in self.corrections),
        )


def corrections_text(histories: Sequence[CorrectionHistory]) -> str:
    """Return corrections as text."""
    return row_text(
        [
            CorrectionRow(
                (history.entity[0], history.entity[1], history.entity[2]),
                history.key,
                history.document,
                list(map(written_value, history.limits)),
                written_value(history.expected),
                [(at, written_value(value)) for at, value in history.corrections],
            )
            for history in histories
        ]
    )


def read_corrections(text: str, *, location: str) -> tuple[CorrectionHistory, ...]:
    """Read what :func:`corrections_text` returned.

    Raises:
        ConfigError: It is damaged.
    """
    try:
        rows = decoded(text, list[CorrectionRow], location)
        return values_of("", rows, CorrectionRow.history)
    except QuotaValueError as error:
        raise edited(str(error), location) from error


def removals_text(counts: Sequence[RemovalCount]) -> str:
    """Return counts of removals as text."""
    return row_text(counts)


def read_removals(text: str, *, location: str) -> tuple[RemovalCount, ...]:
    """Read what :func:`removals_text` returned.

    Raises:
        ConfigError: It is damaged.
    """
    return decoded(text, tuple[RemovalCount, ...], location)


class WatchStateContent(Document, frozen=True, kw_only=True, tag=KIND):
    """The stored state of ``kquota watch``."""

    commit: str = ""  # the applied revision, "" if there never was one
    format: Literal[1] = FORMAT
    refused_commit: str = ""  # the newest revision that was refused and not replaced since, or ""
    # Counts of removals by cluster.
    removals: Mapping[str, tuple[RemovalCount, ...]] = field(
        default_factory=dict[str, tuple[RemovalCount, ...]]
    )


def watch_state_text(content: WatchStateContent) -> str:
    """Return the state as text."""
    return dump(content)


def read_watch_state(text: str, *, location: str) -> WatchStateContent:
    """Read a stored state.

    Raises:
        ConfigError: It is damaged.
    """
    return typed(text, WatchStateContent, format_version=FORMAT, location=location)
