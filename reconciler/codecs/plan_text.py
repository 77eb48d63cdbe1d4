"""The text of a plan document: read quickly where it is exactly what the writer writes.

A plan of 30,000 changes has 30 MB. Each row of a change that was read is written again as text and compared with the
text of the document, which is a third faster than building and comparing values. A document with any other layout is
read by ``plan.py`` as any JSON.
"""

from functools import lru_cache
from json.encoder import encode_basestring_ascii as quoted
from typing import Final

from reconciler.base import bounded_json
from reconciler.base.output_text import json_text
from reconciler.codecs.plan_rows import ChangeReader, ChangeRow
from reconciler.errors import QuotaValueError
from reconciler.quota.entity import Entity, level
from reconciler.quota.entity_forms import entity_json, entity_text
from reconciler.quota.ownership import Owner
from reconciler.quota.planner.impact import Effect
from reconciler.quota.planner.plan import QuotaChange
from reconciler.quota.planner.preconditions import Precondition
from reconciler.render.cause_text import REASONS
from reconciler.render.json_values import text_of, value_text

_IMPACT_START: Final = '\n  "impact": {'
_IMPACT_END: Final = "},\n"
_CHANGES_START: Final = '\n  "changes": [\n    '
_CHANGES_END: Final = "\n  ]"
_NEXT_ROW: Final = ",\n    "


def split_changes(
    text: str, *, reads_impact: bool = True
) -> tuple[str, tuple[ChangeRow, ...]] | None:
    """Return a document without its changes, and the changes; ``None`` if its text is not that of the writer.

    Args:
        text: The document.
        reads_impact: Whether the document keeps its impact; else the impact only has to be JSON, and becomes ``{}``.
    """
    if len(text) > bounded_json.DOCUMENT:
        return None
    parts = _top_level_parts(text, _CHANGES_START, _CHANGES_END)
    changes = None if parts is None else read_change_texts(parts[1])
    if parts is None or changes is None:
        return None
    fields = f'{parts[0]}"changes": []{parts[2]}'
    try:
        return (fields if reads_impact else _without_impact(fields)), changes
    except bounded_json.InvalidJson:
        return None


def read_change_texts(text: str) -> tuple[ChangeRow, ...] | None:
    """Return the changes whose rows are exactly this text; ``None`` if the writer would write another text.

    A text that equals the writer's has no duplicate names, unknown fields or wrong types, so nothing else is checked.

    Args:
        text: The text of the rows, between the brackets of the array.
    """
    try:
        rows = bounded_json.parse(f"[{text}]", most_bytes=bounded_json.DOCUMENT, checks_depth=False)
        changes = tuple(map(ChangeReader().read, rows))
        written = _NEXT_ROW.join(change_text(*change) for change in changes)
    except (TypeError, ValueError, KeyError, OverflowError, QuotaValueError):
        return None
    return changes if written == text or json_text(written) == text else None


def change_text(change: QuotaChange, effect: Effect | None, precondition: Precondition) -> str:
    """Return the result of :func:`change_row` as ``text_of`` writes it, in a third of the time."""
    entity, key, claim, owner = change.entity, change.key, change.claim, change.owner
    entity_value, text = _entity_texts(entity)
    after, before = value_text(change.after), value_text(change.before)
    document = file = line = selection = limits = ""
    if claim is None:
        document = file = line = "null"
    else:
        document, file, line = quoted(claim.document), quoted(claim.path), str(claim.line_of(key))
        if name := claim.selection_of(key):
            selection = f'"selection":{quoted(name)},'
    if effect is not None:
        limits = (
            f'"effect":{{"after":{value_text(effect.after)},"before":{value_text(effect.before)}'
            f',"direction":"{effect.direction}","factor":{"null" if effect.factor is None else repr(effect.factor)}}},'
        )
    record = "null"
    if precondition.applied is not None or precondition.document:
        record = f'{{"document":{quoted(precondition.document)},"value":{value_text(precondition.applied)}}}'
    return (
        f'{{"actions":["{change.action}"],"after":{after},"before":{before},"cause":"{change.cause}"'
        f',"document":{document},{limits}"entity":{entity_value},"file":{file},"key":"{key}"'
        f',"level":{level(entity)},"line":{line},"note":{quoted(change.note)}'
        f',"owner":{"null" if owner is None else _owner_text(owner)},"reason":{quoted(REASONS[change.cause])}'
        f',"record":{record},{selection}"text":{text}}}'
    )


@lru_cache(maxsize=64)  # rows about one entity follow one another
def _entity_texts(entity: Entity) -> tuple[str, str]:
    return text_of(entity_json(entity)), quoted(entity_text(entity))


@lru_cache(maxsize=64)
def _owner_text(owner: Owner) -> str:
    return text_of(
        {
            "document": owner.document,
            "deletionPolicy": None if owner.deletion_policy is None else str(owner.deletion_policy),
            "since": owner.since,
        }
    )


def _without_impact(text: str) -> str:
    """Return a document with an empty impact.

    Raises:
        InvalidJson: Its impact is not JSON.
    """
    parts = _top_level_parts(text, _IMPACT_START, _IMPACT_END)
    if parts is None:
        return text
    _ = bounded_json.parse(f"{{{parts[1]}}}", most_bytes=bounded_json.DOCUMENT, checks_depth=False)
    return f'{parts[0]}"impact": {{}},\n{parts[2]}'


def _top_level_parts(text: str, start: str, end: str) -> tuple[str, str, str] | None:
    """Return the text before a field of the document, its own, and the text after it; ``None`` if it has another form."""
    before, has_start, tail = text.partition(start)
    inner, has_end, after = tail.partition(end)
    if not has_start or not has_end:
        return None
    try:
        # The text before it is the document without this field only if its braces are closed except for the first.
        fields: object = bounded_json.parse(
            before.removesuffix(",") + "}", most_bytes=bounded_json.DOCUMENT
        )
    except bounded_json.InvalidJson:
        return None
    return (before, inner, after) if isinstance(fields, dict) else None
