"""A Kafka controller's checks of alterations, in its order and with its messages. Pure.

Source: ``ClientQuotaControlManager`` of the line's newest release, and its broker's responses. The order within one
alteration: duplicate entity or key; every part of the entity; the combination of parts; the address; then each
operation, in the order of Java's hash map. Removals are not checked. Only actual changes become records.
"""

import math
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from msgspec import Struct

from reconciler.quota.keys import EPSILON, LONG_MAX
from reconciler.sandbox.broker_rules.hash_order import hash_ordered
from reconciler.sandbox.broker_rules.image import (
    NO_VALUES,
    Image,
    Names,
    QuotaRecord,
    Values,
    java_text,
    names_of,
    same_double,
)
from reconciler.sandbox.broker_rules.ip_literals import is_literal, is_scoped_by_name, may_be_name
from reconciler.sandbox.broker_rules.profiles import INTEGRAL_CONFIGS, IP_CONFIGS, BrokerProfile
from reconciler.wire.error_codes import INVALID_REQUEST, POLICY_VIOLATION, UNKNOWN_SERVER_ERROR
from reconciler.wire.messages.alter_client_quotas import Alteration, Operation
from reconciler.wire.messages.entry_layout import Part

MAX_RECORDS: Final = 10_000
"""``QuorumController.MAX_RECORDS_PER_USER_OP``, and the maximum of one atomic batch."""

SCRAM_MECHANISMS: Final = frozenset({"SCRAM-SHA-256", "SCRAM-SHA-512"})


class BrokerFailure(Struct, frozen=True, kw_only=True):
    """An error code with the broker's message."""

    code: int
    message: str | None


TOO_MANY: Final = BrokerFailure(
    code=POLICY_VIOLATION, message="Request parameters do not satisfy the configured policy."
)
"""The generic message of the code: failures of the whole request lose their own message."""

BATCH_FAILED: Final = BrokerFailure(
    code=UNKNOWN_SERVER_ERROR,
    message="The server experienced an unexpected error when processing the request.",
)


class AlterationVerdicts(Struct, frozen=True, kw_only=True):
    """A controller's decision about one request."""

    # The result of each entity, None for success. An entity that occurs twice in the request gets the result that it
    # was ignored, although its first alteration is applied.
    results: dict[Names, BrokerFailure | None]
    # The records to apply atomically; empty if the whole request failed.
    records: tuple[QuotaRecord, ...]
    # Why the whole request failed; then every entry of the request gets this.
    request_failure: BrokerFailure | None = None


def names_to_resolve(alterations: Iterable[Alteration]) -> frozenset[str]:
    """Return names of ip entities that are not literal addresses, so that they must be resolved."""
    return frozenset(
        name
        for parts, _ in alterations
        for kind, name in parts
        if kind == "ip" and name is not None and (may_be_name(name) or is_scoped_by_name(name))
    )


def alter(
    profile: BrokerProfile,
    image: Image,
    alterations: Sequence[Alteration],
    *,
    resolvable: Collection[str],
    validate_only: bool,
) -> AlterationVerdicts:
    """Return the active controller's verdicts on one request.

    Args:
        alterations: As on the wire, duplicates and invalid ones included.
        resolvable: Those of :func:`names_to_resolve` that could be resolved.
        validate_only: Whether the request only validates; the caller drops the records.
    """
    results: dict[Names, BrokerFailure | None] = {}
    records: list[QuotaRecord] = []
    for parts, operations in alterations:
        names = names_of(parts)
        if names in results or len({key for key, _ in operations}) < len(operations):
            # A duplicate key is reported with the message for a duplicate entity.
            results[names] = BrokerFailure(
                code=INVALID_REQUEST, message=f"Ignoring duplicate entity {java_text(parts)}"
            )
            continue
        failure = _entity_failure(profile, parts, resolvable) or _first_wrong(
            profile, dict(parts), operations
        )
        results[names] = failure
        if failure is None:
            records += _changes(names, image.values.get(names, NO_VALUES), operations)
    too_many = len(records) > MAX_RECORDS
    if too_many and profile.records_in_validation:
        return AlterationVerdicts(results=results, records=(), request_failure=TOO_MANY)
    if too_many and not validate_only:
        return AlterationVerdicts(results=results, records=(), request_failure=BATCH_FAILED)
    return AlterationVerdicts(results=results, records=tuple(records))


def _changes(
    names: Names, present: Values, operations: Sequence[Operation]
) -> Iterable[QuotaRecord]:
    for key, value in operations:
        if (key in present) if value is None else not same_double(present.get(key), value):
            yield QuotaRecord(names=names, key=key, value=value)


def _entity_failure(
    profile: BrokerProfile, parts: Sequence[Part], resolvable: Collection[str]
) -> BrokerFailure | None:
    """Return the entity's failure: each part, then the combination, then the address."""
    names_by_type = dict(parts)
    if not names_by_type:
        return _invalid("Invalid empty client quota entity")
    for kind in hash_ordered(names_by_type, capacity=len(parts)):
        if kind not in profile.entity_types:
            return _invalid(f"Unhandled client quota entity type: {kind}")
        if names_by_type[kind] == "":
            return _invalid(f"Empty {kind} not supported")
    return _ip_failure(names_by_type, resolvable) if "ip" in names_by_type else None


def _ip_failure(
    names_by_type: dict[str, str | None], resolvable: Collection[str]
) -> BrokerFailure | None:
    if len(names_by_type) > 1:
        return _invalid(
            "Invalid quota entity combination, "
            "IP entity shouldnot be combined with User or ClientId"  # Kafka's spelling
        )
    address = names_by_type["ip"]
    if address is None or is_literal(address) or address in resolvable:
        return None
    return _invalid(f"{address} is not a valid IP or resolvable host.")


def _first_wrong(
    profile: BrokerProfile, names_by_type: dict[str, str | None], operations: Sequence[Operation]
) -> BrokerFailure | None:
    """Return the failure of the first invalid operation, in the order of Java's map; removals cannot fail."""
    values = dict(operations)
    for key in hash_ordered(values, capacity=len(operations)):
        value = values[key]
        failure = None if value is None else _value_failure(profile, names_by_type, key, value)
        if failure is not None:
            return failure
    return None


def _value_failure(
    profile: BrokerProfile, names_by_type: dict[str, str | None], key: str, value: float
) -> BrokerFailure | None:
    if key not in (IP_CONFIGS if "ip" in names_by_type else profile.client_keys):
        if profile.knows_scram_keys and key in SCRAM_MECHANISMS and "user" in names_by_type:
            return BrokerFailure(
                code=UNKNOWN_SERVER_ERROR,
                message="Unexpected config type STRING should be Long or Double",
            )
        return _invalid(f"Invalid configuration key {key}")
    words = _number_failure(profile, key, value) if profile.checks_numbers else _near(key, value)
    return None if words is None else _invalid(words)


def _number_failure(profile: BrokerProfile, key: str, value: float) -> str | None:
    """``validateQuotaKeyValue`` from 3.5 on. Every comparison with NaN is false, so NaN passes."""
    if profile.refuses_non_finite and not math.isfinite(value):
        return f"Quota {key} must be a finite number"
    if value <= 0:
        return f"Quota {key} must be greater than 0"
    if key not in INTEGRAL_CONFIGS:
        return None
    kind, maximum = INTEGRAL_CONFIGS[key]
    if value > maximum:
        return f"Proposed value for {key} is too large for {kind}."
    if math.isfinite(value) and math.fmod(value, 1.0) > EPSILON:
        return f"{key} cannot be a fractional value."
    return None


def _near(key: str, value: float) -> str | None:
    """Up to 3.4: an integral key needs a whole number just below; Java's cast saturates and maps NaN to 0.

    So -1 is refused and -0.0000005 is not, and an INT key has the range of a LONG.
    """
    if key not in INTEGRAL_CONFIGS or math.isnan(value):
        return None
    bound = float(LONG_MAX)
    integer = float(math.trunc(min(max(value + EPSILON, -bound), bound)))
    if abs(integer - value) > EPSILON:
        return f"Configuration {key} must be a Long value"
    return None


def _invalid(message: str) -> BrokerFailure:
    return BrokerFailure(code=INVALID_REQUEST, message=message)
