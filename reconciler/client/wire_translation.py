"""Translates between quota values and protocol messages. Pure: no connection, no clock.

The decoder returns the types of ``quota.state``, so a large response is used without a copy; only
entities of types that Kafka does not combine are moved.
"""

from collections.abc import Callable, Mapping
from typing import Final, TypeVar, cast

from reconciler.errors import ProtocolError, TooManyItems
from reconciler.quota.entity import ENTITY_TYPES, Entity, is_legal, parts
from reconciler.quota.keys import COLUMNS
from reconciler.quota.state import (
    ANY,
    Alteration,
    Applied,
    Filter,
    ForeignEntity,
    ForeignValues,
    Limits,
    OpenAlteration,
    QuotaState,
    Rejected,
    Result,
    set_values,
)
from reconciler.wire.error_codes import NONE, error_code
from reconciler.wire.messages import describe_client_quotas
from reconciler.wire.messages.alter_client_quotas import Alteration as WireAlteration
from reconciler.wire.messages.alter_client_quotas import AlterClientQuotasResponse
from reconciler.wire.messages.entry_layout import EntryLayout, Part

Subject = TypeVar("Subject")
"""The caller's key of an entity: an ``Entity``, or its parts."""

MAX_STRANGE: Final = 10_000
"""Maximum entities with types that Kafka does not combine; they are stored verbatim, which needs more memory."""

APPLIED: Final = Applied()

LAYOUT: Final = EntryLayout(slots=ENTITY_TYPES, columns=tuple(str(key) for key in COLUMNS))


def filter_request(filter_: Filter) -> describe_client_quotas.DescribeClientQuotasRequest:
    """Return the message for a filter."""
    return describe_client_quotas.DescribeClientQuotasRequest(
        components=tuple(
            (component.entity_type, describe_client_quotas.ANY, None)
            if component.match is ANY
            else (component.entity_type, describe_client_quotas.DEFAULT, None)
            if component.match is None
            else (component.entity_type, describe_client_quotas.EXACT, str(component.match))
            for component in filter_.components
        ),
        strict=filter_.strict,
    )


def state_of(
    answer: describe_client_quotas.DescribeClientQuotasResponse, filter_: Filter
) -> QuotaState:
    """Return the state in a response, limited to the filter.

    Brokers of other vendors may return more than requested (KIP-546 allows it), so the filter is applied again.

    Raises:
        TooManyItems: Too many entities combine types that Kafka does not combine.
    """
    # Only here entities are cast without a check: the decoder returns the same tuples as
    # ``quota``, and 100,000 checks would take longer than the decoding.
    limits = cast("dict[Entity, Limits]", answer.entries)
    foreign_values = cast("dict[Entity, ForeignValues]", answer.foreign_values)
    illegal_entities = [
        candidate for candidate in limits if candidate[2] is not False and not is_legal(candidate)
    ]
    if len(illegal_entities) > MAX_STRANGE:
        raise TooManyItems(
            f"the answer has {len(illegal_entities)} entities with both an ip and a user or client-id, the limit is"
            f" {MAX_STRANGE}",
            hint="no quota of Kafka applies to them; remove them with kafka-configs",
        )
    foreign: list[ForeignEntity] = list(answer.foreign_entities)
    for subject in illegal_entities:
        known_values = tuple((str(key), value) for key, value in set_values(limits.pop(subject)))
        unknown_values = foreign_values.pop(subject, ())
        foreign.append(
            (tuple(sorted(parts(subject))), tuple(sorted(known_values + unknown_values)))
        )
    if filter_.components or filter_.strict:
        for subject in [candidate for candidate in limits if not filter_.matches(candidate)]:
            del limits[subject]
            _ = foreign_values.pop(subject, None)
        foreign = [entry for entry in foreign if filter_.matches_parts(entry[0])]
    return QuotaState(
        limits=limits,
        foreign_values=foreign_values,
        foreign_entities=tuple(sorted(foreign, key=str)),
    )


def alteration_request(alteration: Alteration | OpenAlteration) -> WireAlteration:
    """Return the message for one entity, its parts sorted by type: the order in which Kafka answers."""
    if isinstance(alteration, OpenAlteration):
        return tuple(sorted(alteration.entity)), alteration.operations
    return tuple(sorted(parts(alteration.entity))), alteration.operations


def results_of(
    answer: AlterClientQuotasResponse,
    entity_by_parts: Mapping[tuple[Part, ...], Subject],
    scrubbed: Callable[[str], str] = str,
) -> dict[Subject, Result]:
    """Return results by entity.

    Match results by entity, never by position: Kafka answers in hash order, collapses duplicate entities (and
    commits the first), and has no error for the whole request.

    Args:
        entity_by_parts: Every entity of the request by its parts, sorted by type.

    Raises:
        ProtocolError: The response has an entity that was not requested, or one twice.
    """
    results: dict[Subject, Result] = {}
    for entity_parts, code, words in answer.results:
        subject = entity_by_parts.get(entity_parts)
        if subject is None:
            raise ProtocolError(
                f"the broker answered for an entity that was not asked for: {entity_parts!r}"
            )
        if subject in results:
            raise ProtocolError(f"the broker answered twice for {entity_parts!r}")
        results[subject] = APPLIED if code == NONE else rejection(code, scrubbed(words or ""))
    return results


def rejection(code: int, words: str | None) -> Rejected:
    """Return a refusal with the broker's message, or the table's sentence if it sent none."""
    error = error_code(code)
    return Rejected(code=code, name=error.name, message=words or error.sentence)
