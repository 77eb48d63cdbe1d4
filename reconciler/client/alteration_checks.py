"""What is refused before anything is sent, because a broker would do something surprising with it.

Sources: ClientQuotaControlManager 3.5 to 4.4. The same entity twice in one request commits the first and
reports an error; the same key twice reports the wrong error; NaN is stored and stops every connection.
"""

import math
from collections.abc import Sequence
from typing import Final

from reconciler.errors import EncodeError, QuotaValueError
from reconciler.quota.entity import ABSENT, Entity, EntityParts, is_legal, parts
from reconciler.quota.outcome import Alteration, OpenAlteration
from reconciler.wire.primitives import encode_string

_SHOWN: Final = 80


def check_alterations(alterations: Sequence[Alteration], *, validate_only: bool = False) -> None:
    """See that every alteration means one thing only.

    Args:
        alterations: What is to be sent.
        validate_only: Values are left to the broker: nothing is changed, whatever it says.

    Raises:
        QuotaValueError: An entity or a key is given twice, an entity is empty, mixes ip with another type or
            has a name that Kafka cannot carry, there is no operation, or a value is not finite and above 0.
    """
    seen_entities: set[Entity] = set()
    for alteration in alterations:
        subject = alteration.entity
        text = _entity_text(parts(subject))
        if subject in seen_entities:
            raise QuotaValueError(f"{text} is given twice in one call")
        seen_entities.add(subject)
        _check_entity(subject)
        _check_operations(alteration.operations, text, checks_values=not validate_only)


def check_open_alterations(
    alterations: Sequence[OpenAlteration], *, validate_only: bool = False
) -> None:
    """The same for entities of any types; types and names are left to the broker.

    Raises:
        QuotaValueError: An entity, a type of an entity or a key is given twice, an entity is empty, there is no
            operation, or a value is not finite and above 0.
    """
    seen_entities: set[frozenset[tuple[str, str | None]]] = set()
    for alteration in alterations:
        text, types = _entity_text(alteration.entity), [kind for kind, _ in alteration.entity]
        if not types or len(set(types)) < len(types):
            raise QuotaValueError(f"an entity needs each type once, not {text or 'no type'}")
        if frozenset(alteration.entity) in seen_entities:
            raise QuotaValueError(f"{text} is given twice in one call")
        seen_entities.add(frozenset(alteration.entity))
        _check_operations(alteration.operations, text, checks_values=not validate_only)


def _check_entity(subject: Entity) -> None:
    if not is_legal(subject):
        raise QuotaValueError(
            "an entity needs a user, a client-id or an ip"
            if all(slot is ABSENT for slot in subject)
            else f"{_entity_text(parts(subject))}: ip cannot be combined with user or client-id"
        )
    for kind, name in parts(subject):
        if name == "":
            raise QuotaValueError(f"the {kind} name is empty; brokers refuse that")
        try:
            _ = encode_string(name or "", flexible=False)
        except EncodeError as error:
            raise QuotaValueError(f"the {kind} name: {error.message}") from None


def _check_operations(
    operations: Sequence[tuple[str, float | None]], entity: str, *, checks_values: bool
) -> None:
    if not operations:
        raise QuotaValueError(f"{entity} has no operation")
    keys: set[str] = set()
    for key, value in operations:
        if key in keys:
            raise QuotaValueError(f"{entity}: {key} is given twice")
        keys.add(key)
        if checks_values and value is not None and not (math.isfinite(value) and value > 0):
            raise QuotaValueError(f"{entity}: {key} must be a finite number above 0, not {value}")


def _entity_text(entity_parts: EntityParts) -> str:
    return ",".join(
        f"{kind}={'<default>' if name is None else ascii(name[:_SHOWN])}"
        for kind, name in entity_parts
    )
