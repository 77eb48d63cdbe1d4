"""A cluster's quotas as JSON: the output of ``describe --format json`` and ``snapshot``. Writer and reader.

Lossless for every possible describe: foreign entity types and keys, the default besides the literal
name ``<default>``, values that no manifest may contain.
"""

from collections.abc import Mapping
from typing import Final, Literal

from msgspec import UNSET, Struct, UnsetType

from reconciler.codecs.reader import Document, edited, typed
from reconciler.errors import QuotaValueError
from reconciler.quota.entity import Entity, EntityParts, from_parts, parts, parts_text
from reconciler.quota.keys import COLUMNS, Key, SetValue
from reconciler.quota.state import ForeignValues, Limits, QuotaState, limits_of, set_values
from reconciler.render.json_values import read_set_value, written_set_value

KIND: Final = "kquota-state"
FORMAT: Final = 1


class StateEntry(Struct, frozen=True, kw_only=True, gc=False, forbid_unknown_fields=True):
    """The values of one entity, of any types."""

    entity: EntityParts
    text: str = ""  # the entity for people; not read
    values: dict[str, SetValue]


class StateFile(Document, frozen=True, kw_only=True, tag=KIND):
    """The document."""

    cluster_id: str
    entries: list[StateEntry]
    foreign: list[StateEntry]
    format: Literal[1]
    taken_at: str | UnsetType = UNSET


def state_document(state: QuotaState, *, cluster_id: str, taken_at: str) -> StateFile:
    """Return the document of a state.

    Args:
        state: The quotas.
        cluster_id: The cluster.
        taken_at: Time such as ``2025-11-21T12:00:00Z``; "" omits it, so that documents can be compared as bytes.
    """
    return StateFile(
        cluster_id=cluster_id,
        entries=[
            _entry(
                parts(subject),
                {
                    **{key.value: value for key, value in set_values(state.limits[subject])},
                    **dict(state.foreign_values.get(subject, ())),
                },
            )
            for subject in state.entities()
        ],
        foreign=[
            _entry(entity_parts, dict(values)) for entity_parts, values in state.foreign_entities
        ],
        format=FORMAT,
        taken_at=taken_at or UNSET,
    )


def _entry(entity_parts: EntityParts, values: Mapping[str, float]) -> StateEntry:
    return StateEntry(
        entity=entity_parts,
        text=parts_text(entity_parts),
        values={name: written_set_value(values[name]) for name in sorted(values)},
    )


def read_state(text: str, *, location: str) -> tuple[str, str, QuotaState]:
    """Read cluster id, time ("" if omitted) and quotas of a document.

    Raises:
        ConfigError: It is damaged, or an entity occurs twice.
    """
    file = typed(text, StateFile, format_version=FORMAT, location=location)
    limits: dict[Entity, Limits] = {}
    foreign_values: dict[Entity, ForeignValues] = {}
    for at, entry in enumerate(file.entries):
        try:
            subject = from_parts(entry.entity)
        except QuotaValueError as error:
            raise edited(f"entries[{at}].entity: {error}", location) from error
        if subject in limits:
            raise edited(
                f"entries[{at}].entity should be an entity that occurs only once", location
            )
        values = _values(entry)
        limits[subject] = limits_of({Key(name): values.pop(name) for name in _KEYS & values.keys()})
        if values:
            foreign_values[subject] = tuple(sorted(values.items()))
    foreign = ((entry.entity, tuple(sorted(_values(entry).items()))) for entry in file.foreign)
    state = QuotaState(
        limits=limits,
        foreign_values=foreign_values,
        foreign_entities=tuple(sorted(foreign, key=repr)),
    )
    return file.cluster_id, file.taken_at or "", state


_KEYS: Final = frozenset(map(str, COLUMNS))


def _values(entry: StateEntry) -> dict[str, float]:
    return {name: read_set_value(value) for name, value in entry.values.items()}
