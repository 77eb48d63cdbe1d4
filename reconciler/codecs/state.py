"""A cluster's quotas as JSON: the output of ``describe --format json`` and ``snapshot``. Writer and reader.

Lossless for every possible describe: foreign entity types and keys, the default besides the literal
name ``<default>``, values that no manifest may contain.
"""

from typing import Final

from reconciler.codecs.reader import DocumentReader, load
from reconciler.quota.entity import Entity
from reconciler.quota.entity_forms import entity_json, entity_text, parts_text
from reconciler.quota.keys import COLUMNS, Key
from reconciler.quota.state import (
    ForeignEntity,
    ForeignValues,
    Limits,
    QuotaState,
    limits_of,
    set_values,
)
from reconciler.render.json_values import Json, value_json

KIND: Final = "kquota-state"
FORMAT: Final = 1


def state_document(state: QuotaState, *, cluster_id: str, taken_at: str) -> dict[str, Json]:
    """Return the document of a state.

    Args:
        taken_at: Time such as ``2025-11-21T12:00:00Z``; "" omits it, so that documents can be compared as bytes.
    """
    document: dict[str, Json] = {
        "kind": KIND,
        "format": FORMAT,
        "clusterId": cluster_id,
        "entries": [
            {
                "entity": entity_json(subject),
                "text": entity_text(subject),
                "values": {
                    **{key.value: value_json(value) for key, value in set_values(limits)},
                    **{name: value_json(value) for name, value in foreign},
                },
            }
            for subject, limits, foreign in (
                (subject, state.limits[subject], state.foreign_values.get(subject, ()))
                for subject in state.entities()
            )
        ],
        "foreign": [
            {
                "entity": [[kind, name] for kind, name in entity_parts],
                "text": parts_text(entity_parts),
                "values": {name: value_json(value) for name, value in values},
            }
            for entity_parts, values in state.foreign_entities
        ],
    }
    return document | ({"takenAt": taken_at} if taken_at else {})


def read_state(text: str, *, location: str) -> tuple[str, str, QuotaState]:
    """Read cluster id, time ("" if omitted) and quotas of a document."""
    top = load(text, kind=KIND, format_version=FORMAT, location=location)
    fields = top.fields("kind", "format", "clusterId", "entries", "foreign", optional=("takenAt",))
    limits: dict[Entity, Limits] = {}
    foreign_values: dict[Entity, ForeignValues] = {}
    for item in fields["entries"].items():
        entry = item.fields("entity", "values", optional=("text",))
        subject = entry["entity"].entity()
        if subject in limits:
            entry["entity"].fail("an entity that occurs only once")
        known_values, foreign = _values(entry["values"])
        limits[subject] = known_values
        if foreign:
            foreign_values[subject] = foreign
    taken_at = fields["takenAt"].text() if "takenAt" in fields else ""
    state = QuotaState(
        limits=limits,
        foreign_values=foreign_values,
        foreign_entities=tuple(
            sorted((_foreign(item) for item in fields["foreign"].items()), key=repr)
        ),
    )
    return fields["clusterId"].text(), taken_at, state


def _values(reader: DocumentReader) -> tuple[Limits, ForeignValues]:
    values = {name: item.set_value() for name, item in reader.pairs()}
    known_values = {Key(name): value for name, value in values.items() if name in set(COLUMNS)}
    return limits_of(known_values), tuple(
        sorted((n, v) for n, v in values.items() if n not in known_values)
    )


def _foreign(reader: DocumentReader) -> ForeignEntity:
    entry = reader.fields("entity", "values", optional=("text",))
    values = {name: item.set_value() for name, item in entry["values"].pairs()}
    return entry["entity"].parts(), tuple(sorted(values.items()))
