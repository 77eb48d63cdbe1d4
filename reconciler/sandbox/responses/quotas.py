"""Responses to DescribeClientQuotas and AlterClientQuotas: decodes, applies the rules, encodes."""

import asyncio
import socket
from collections.abc import Iterable

from msgspec.structs import replace

from reconciler.sandbox.authorizer import Operation
from reconciler.sandbox.broker_rules import alterations as rules
from reconciler.sandbox.broker_rules import describe_filters
from reconciler.sandbox.broker_rules.alterations import AlterationVerdicts, BrokerFailure
from reconciler.sandbox.broker_rules.image import Names, scatter_key
from reconciler.sandbox.broker_rules.ip_literals import LOCAL_NAMES, is_scoped_by_name
from reconciler.sandbox.faults import Refuse
from reconciler.sandbox.request import CLUSTER_DENIED, SandboxRequest
from reconciler.wire.error_codes import CLUSTER_AUTHORIZATION_FAILED, NONE
from reconciler.wire.messages import alter_client_quotas, describe_client_quotas
from reconciler.wire.messages.alter_client_quotas import Alteration, Result


async def resolvable(names: Iterable[str]) -> frozenset[str]:
    """Return those of ``names`` that resolve; local names need no lookup."""
    resolved_names: set[str] = set()
    for name in sorted(names):
        if is_scoped_by_name(name):
            has_known_zone = name.strip("[]").partition("%")[2] in interfaces()
        else:
            has_known_zone = name.rstrip(".").lower() in LOCAL_NAMES or await system_resolver(name)
        if has_known_zone:
            resolved_names.add(name)
    return frozenset(resolved_names)


def interfaces() -> frozenset[str]:
    """Return the names of the network interfaces of this machine."""
    try:
        return frozenset(name for _, name in socket.if_nameindex())
    except OSError:
        return frozenset()


async def system_resolver(name: str) -> bool:
    """Whether the system finds an address for ``name``."""
    try:
        return bool(await asyncio.get_running_loop().getaddrinfo(name, None))
    except (socket.gaierror, UnicodeError):
        return False


def describe_answer(call: SandboxRequest) -> bytes:
    """Return one snapshot of this broker's image; a refusal has a code for the whole and no entries."""
    request = describe_client_quotas.decode_request(call.version, call.body)
    authorizer = call.cluster.settings.authorizer
    failure = call.failure
    if failure is None and not authorizer.allows(call.principal, Operation.DESCRIBE_CONFIGS):
        failure = BrokerFailure(code=CLUSTER_AUTHORIZATION_FAILED, message=None)
    failure = failure or describe_filters.check(
        request.components, call.cluster.settings.profile.entity_types
    )
    if failure is not None:
        return describe_client_quotas.encode_response(
            call.version,
            entries=None,
            throttle_time_ms=call.throttle_ms,
            error_code=failure.code,
            error_message=failure.message,
        )
    image = call.cluster.before if call.stale else call.broker.visible_image
    entries = describe_filters.matching(image, request.components, strict=request.strict)
    return describe_client_quotas.encode_response(
        call.version,
        entries=sorted(entries, key=lambda entry: scatter_key(entry[0])),
        throttle_time_ms=call.throttle_ms,
        error_message="",  # a broker's success has empty words, not null
    )


async def alter_answer(call: SandboxRequest) -> bytes:
    """Return one result per entity, and apply the records unless the request only validates."""
    request = alter_client_quotas.decode_request(call.version, call.body)
    settings = call.cluster.settings
    if not settings.authorizer.allows(call.principal, Operation.ALTER_CONFIGS):
        denied = BrokerFailure(code=CLUSTER_AUTHORIZATION_FAILED, message=CLUSTER_DENIED)
        return _answer(call, _everyone(request.alterations, denied))
    refusals = {e.names: e for e in call.effects if isinstance(e, Refuse) and e.names is not None}
    resolvable_names = await resolvable(rules.names_to_resolve(request.alterations))
    verdicts = rules.alter(
        settings.profile,
        call.cluster.image,
        request.alterations,
        resolvable=resolvable_names,
        validate_only=request.validate_only,
    )
    verdicts = _with_refusals(verdicts, refusals)
    request_failure = call.failure or verdicts.request_failure
    if not request.validate_only and (call.refusal is None or call.refusal.applied):
        call.cluster.commit(verdicts.records)
    if request_failure is not None:
        return _answer(call, _everyone(request.alterations, request_failure))
    return _answer(call, _results_by_entity(verdicts.results))


def _with_refusals(
    verdicts: AlterationVerdicts, refusals: dict[Names, Refuse]
) -> AlterationVerdicts:
    """Replace the verdicts on single entities by faults; their records are dropped unless ``applied``."""
    if not refusals:
        return verdicts
    results = {
        names: refusals[names].failure if names in refusals else result
        for names, result in verdicts.results.items()
    }
    records = tuple(
        record
        for record in verdicts.records
        if record.names not in refusals or refusals[record.names].applied
    )
    return replace(verdicts, results=results, records=records)


def _everyone(alterations: Iterable[Alteration], failure: BrokerFailure) -> list[Result]:
    """Copy a failure of the whole request into every requested entry, duplicates included."""
    return [(parts, failure.code, failure.message) for parts, _ in alterations]


def _results_by_entity(results: dict[Names, BrokerFailure | None]) -> list[Result]:
    return [
        (names, NONE, None) if failure is None else (names, failure.code, failure.message)
        for names, failure in sorted(results.items(), key=lambda item: scatter_key(item[0]))
    ]


def _answer(call: SandboxRequest, results: list[Result]) -> bytes:
    return alter_client_quotas.encode_response(
        call.version, results=results, throttle_time_ms=call.throttle_ms
    )
