"""What a broker would say to alterations, asked offline: the rules of a line, applied to plain values. Pure."""

from collections.abc import Collection, Mapping, Sequence

from reconciler.quota.entity import Entity, parts
from reconciler.quota.outcome import Alteration, Applied, Rejected
from reconciler.sandbox.broker_rules.alterations import BrokerFailure, alter
from reconciler.sandbox.broker_rules.image import EMPTY
from reconciler.sandbox.broker_rules.ip_literals import LOCAL_NAMES
from reconciler.sandbox.broker_rules.profiles import BrokerProfile
from reconciler.wire.error_codes import error_code


def validate(
    profile: BrokerProfile,
    alterations: Sequence[Alteration],
    *,
    resolvable: Collection[str] = LOCAL_NAMES,
) -> Mapping[Entity, Applied | Rejected]:
    """What a broker of that line would answer to each entity, as validate-only does.

    Every entity is judged as if it stood in a request of its own, so that the
    limit of 10,000 records per request never shows: how a plan is cut into requests is its sender's affair.
    Nothing that brokers check depends on what the cluster holds.

    Args:
        profile: The line whose rules and words count.
        alterations: What would be sent; an entity that is given twice is refused as brokers refuse it.
        resolvable: Host names of ip entities that count as known; there is no look-up.
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
            resolvable=resolvable,
            validate_only=True,
        )
        (failure,) = verdicts.results.values()
        results[subject] = Applied() if failure is None else _rejected(failure)
    return results


def _rejected(failure: BrokerFailure) -> Rejected:
    code = error_code(failure.code)
    return Rejected(code=code.number, name=code.name, message=failure.message or code.sentence)
