"""Corrections of drift as JSON and back, for the first ConfigMap of a cluster id."""

import json
import math
from collections.abc import Sequence

from reconciler.base import bounded_json
from reconciler.quota.drift_tracker import CorrectionHistory
from reconciler.quota.entity_forms import entity_slots, read_slots
from reconciler.quota.keys import Key
from reconciler.quota.state import Limits


def corrections_text(histories: Sequence[CorrectionHistory]) -> str:
    """The rows as text."""
    rows = [
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
    return json.dumps(rows, separators=(",", ":"))


def read_corrections(text: object) -> tuple[CorrectionHistory, ...]:
    """The corrections of a text.

    Raises:
        ValueError: It is not what :func:`corrections_text` writes (also QuotaValueError).
    """
    match text:
        case str():
            rows = bounded_json.parse(text, most_bytes=bounded_json.DOCUMENT)
        case _:
            rows = None
    return tuple(map(_history, _items(rows, "a list of corrections")))


def _history(row: object) -> CorrectionHistory:
    match row:
        case [slots, str(key), str(document), limits, expected, corrections]:
            return CorrectionHistory(
                entity=read_slots(_items(slots, "the slots of an entity")),
                key=Key(key),
                document=document,
                limits=_limits(limits),
                expected=_value(expected),
                corrections=tuple(map(_correction, _items(corrections, "a list of corrections"))),
            )
        case _:
            raise ValueError(f"{row!r} should be a row of six")


def _correction(row: object) -> tuple[float, float | None]:
    match row:
        case [int() | float() as at, value]:
            return _number(at), _value(value)
        case _:
            raise ValueError(f"{row!r} should be a time and a value")


def _items(value: object, meaning: str) -> list[object]:
    match value:
        case list():
            return value
        case _:
            raise ValueError(f"{value!r} should be {meaning}")


def _limits(values: object) -> Limits:
    match values:
        case [producer, consumer, request, mutation, connection_rate]:
            return (
                _value(producer),
                _value(consumer),
                _value(request),
                _value(mutation),
                _value(connection_rate),
            )
        case _:
            raise ValueError(f"{values!r} should be a value for each key")


def _value(value: object) -> float | None:
    return None if value is None else _number(value)


def _number(value: object) -> float:
    match value:
        case bool():
            pass
        case int() | float() if math.isfinite(value):
            return float(value)
        case _:
            pass
    raise ValueError(f"{value!r} should be a number")
