"""Checks of alterations before anything is sent, for cases in which a broker reacts unexpectedly.

Sources: ClientQuotaControlManager 3.5 to 4.4. The same entity twice in one request commits the first and
reports an error; the same key twice reports the wrong error; NaN is stored and stops every connection.
"""

import math
from collections.abc import Sequence
from typing import Final

from reconciler.errors import EncodeError, QuotaValueError
from reconciler.quota.entity import ABSENT, EntityParts, is_legal, parts
from reconciler.quota.entity_forms import parts_text
from reconciler.quota.outcome import Alteration, OpenAlteration
from reconciler.wire.primitives import encode_string

_SHOWN: Final = 80


def check_alterations(alterations: Sequence[Alteration], *, validate_only: bool = False) -> None:
    """Check that every alteration is unambiguous and valid.

    Args:
        validate_only: Values are not checked here: the broker checks them, and nothing is changed.

    Raises:
        QuotaValueError: An entity or a key is repeated, an entity is empty, mixes ip with another type or has a name
            that Kafka cannot encode, there is no operation, or a value is not finite and above 0.
    """
    for subject in (alteration.entity for alteration in alterations):
        entity_parts = parts(subject)
        if not is_legal(subject):
            raise QuotaValueError(
                "an entity needs a user, a client-id or an ip"
                if all(slot is ABSENT for slot in subject)
                else f"{_shorten(entity_parts)}: ip cannot be combined with user or client-id"
            )
        for kind, name in entity_parts:
            if name == "":
                raise QuotaValueError(f"the {kind} name is empty; brokers refuse that")
    check_open_alterations(
        [
            OpenAlteration(parts(alteration.entity), alteration.operations)
            for alteration in alterations
        ],
        validate_only=validate_only,
    )


def check_open_alterations(
    alterations: Sequence[OpenAlteration], *, validate_only: bool = False
) -> None:
    """Check alterations of entities of any types; the broker checks which types exist, and empty names.

    Raises:
        QuotaValueError: An entity, a type of an entity or a key is repeated, an entity is empty, Kafka cannot encode a
            type or a name, there is no operation, or a value is not finite and above 0.
    """
    seen_entities: set[frozenset[tuple[str, str | None]]] = set()
    for alteration in alterations:
        entity_parts = alteration.entity
        types = {kind for kind, _ in entity_parts}
        if not types or len(types) < len(entity_parts):
            raise QuotaValueError(
                f"an entity needs each type once, not {_shorten(entity_parts) or 'no type'}"
            )
        for kind, name in entity_parts:
            _check_text(f"the entity type {kind[:_SHOWN]!a}", kind)
            _check_text(f"the {kind[:_SHOWN]} name", name or "")
        if frozenset(entity_parts) in seen_entities:
            raise QuotaValueError(f"{_shorten(entity_parts)} is given twice in one call")
        seen_entities.add(frozenset(entity_parts))
        _check_operations(alteration, checks_values=not validate_only)


def _check_text(meaning: str, text: str) -> None:
    """Check the length: Kafka's protocol has no string of more than 32,767 bytes, in any version."""
    try:
        _ = encode_string(text, flexible=False)
    except EncodeError as error:
        raise QuotaValueError(f"{meaning}: {error.message}") from None


def _check_operations(alteration: OpenAlteration, *, checks_values: bool) -> None:
    if not alteration.operations:
        raise QuotaValueError(f"{_shorten(alteration.entity)} has no operation")
    keys: set[str] = set()
    for key, value in alteration.operations:
        if key in keys:
            raise QuotaValueError(f"{_shorten(alteration.entity)}: {key} is given twice")
        keys.add(key)
        if checks_values and value is not None and not (math.isfinite(value) and value > 0):
            raise QuotaValueError(
                f"{_shorten(alteration.entity)}: {key} must be a finite number above 0, not {value}"
            )


def _shorten(entity_parts: EntityParts) -> str:
    return parts_text(tuple((kind[:_SHOWN], name and name[:_SHOWN]) for kind, name in entity_parts))
