"""Validates alterations offline by the rules of a release line. Pure."""

from collections.abc import Mapping, Sequence

from reconciler.quota.entity import Entity, parts
from reconciler.quota.state import Alteration, Applied, Rejected
from reconciler.sandbox.broker_rules.alterations import BrokerFailure, alter
from reconciler.sandbox.broker_rules.image import EMPTY
from reconciler.sandbox.broker_rules.ip_literals import LOCAL_NAMES
from reconciler.sandbox.broker_rules.profiles import BrokerProfile
from reconciler.wire.error_codes import error_code


def validate(
    profile: BrokerProfile, alterations: Sequence[Alteration]
) -> Mapping[Entity, Applied | Rejected]:
    """Return the response of a broker of that line for each entity, as validate-only does.

    Every entity is validated in a separate request, so the limit of 10,000 records per request does not apply: the
    sender divides a plan into requests. No check of brokers depends on the cluster's present quotas. A duplicate entity
    is refused as brokers refuse it; no name of an ip entity is looked up.
    """
    alterations_by_entity: dict[Entity, list[Alteration]] = {}
    for alteration in alterations:
        alterations_by_entity.setdefault(alteration.entity, []).append(alteration)
    results: dict[Entity, Applied | Rejected] = {}
    for subject, entity_alterations in alterations_by_entity.items():
        entity_parts = parts(subject)
        verdicts = alter(
            profile,
            EMPTY,
            [(entity_parts, alteration.operations) for alteration in entity_alterations],
            resolvable=LOCAL_NAMES,
            validate_only=True,
        )
        (failure,) = verdicts.results.values()
        results[subject] = Applied() if failure is None else _rejection(failure)
    return results


def _rejection(failure: BrokerFailure) -> Rejected:
    code = error_code(failure.code)
    return Rejected(code=code.number, name=code.name, message=failure.message or code.sentence)
