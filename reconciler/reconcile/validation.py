"""Validates a plan with the broker (validate-only) if the credential permits it, else with Kafka's rules; changes nothing.

Validate-only needs AlterConfigs, which may also change broker configurations. So ``auto`` uses it only if the
credential already has this right, and the source of the validation is always reported.
"""

from collections.abc import Mapping, Sequence

from reconciler.errors import AuthorizationError, PlanRefused
from reconciler.quota.entity import Entity
from reconciler.quota.planner.plan import QuotaChange
from reconciler.quota.planner.send_order import batches, chunks
from reconciler.quota.results.report import ValidationResult
from reconciler.quota.state import Alteration, Rejected, Result, Unknown
from reconciler.reconcile.observation import Observation
from reconciler.reconcile.options import ReconcileOptions, ReconcilePorts, ValidationMode


async def validate(
    ports: ReconcilePorts,
    options: ReconcileOptions,
    observation: Observation,
    changes: Sequence[QuotaChange],
) -> ValidationResult:
    """Validate all changes, chunk by chunk.

    Raises:
        AuthorizationError: Mode ``broker``, and the principal lacks the right.
        PlanRefused: Mode ``sandbox``, and its rules are not available.
        ClientError: The broker could not answer.
    """
    if options.validation is ValidationMode.NONE or not changes:
        return ValidationResult(
            source="none", reason="" if changes else "there is nothing to validate"
        )
    if options.validation is ValidationMode.SANDBOX or observation.cluster is None:
        return _by_rules(ports, options, observation, changes, reason="")
    if options.validation is ValidationMode.BROKER:
        return await _by_broker(ports, changes)
    if not observation.cluster.may_alter:
        reason = (
            "the credential lacks the AlterConfigs permission"
            if observation.cluster.rights
            else "the broker does not report the permissions of the principal"
        )
        return _by_rules(ports, options, observation, changes, reason=reason)
    try:
        return await _by_broker(ports, changes)
    except AuthorizationError as error:
        return _by_rules(ports, options, observation, changes, reason=str(error))


def _passes(changes: Sequence[QuotaChange]) -> tuple[tuple[Alteration, ...], ...]:
    """Return lists without an entity twice: validation needs no levels, only phases and ends of overrides apart."""
    alterations_by_kind: dict[tuple[bool, bool], list[Alteration]] = {}
    for batch in batches(changes):
        kind = batch.removes, batch.ends_overrides
        alterations_by_kind.setdefault(kind, []).extend(batch.alterations)
    return tuple(tuple(alterations) for alterations in alterations_by_kind.values())


async def _by_broker(ports: ReconcilePorts, changes: Sequence[QuotaChange]) -> ValidationResult:
    rejections: dict[Entity, Rejected] = {}
    reason = ""
    done_count, requests = 0, [chunk for each in _passes(changes) for chunk in chunks(each)]
    total = sum(map(len, requests))
    for chunk in requests:
        ports.progress("validate", done_count, total)
        results = await ports.store.alter(chunk, validate_only=True)
        rejections |= _rejections(results)
        unknown = next((result for result in results.values() if isinstance(result, Unknown)), None)
        reason = reason or (f"no verdict on some entities: {unknown.reason}" if unknown else "")
        done_count += len(chunk)
    ports.progress("validate", total, total)
    return ValidationResult(source="broker", rejections=rejections, reason=reason)


def _by_rules(
    ports: ReconcilePorts,
    options: ReconcileOptions,
    observation: Observation,
    changes: Sequence[QuotaChange],
    *,
    reason: str,
) -> ValidationResult:
    if ports.validator is None:
        if options.validation is ValidationMode.SANDBOX:
            raise PlanRefused("the sandbox's rules are not available")
        return ValidationResult(source="none", reason=reason or "no rules are available")
    line = observation.cluster.behaves_as if observation.cluster is not None else "4.x"
    rejections: dict[Entity, Rejected] = {}
    for alterations in _passes(changes):
        rejections |= _rejections(ports.validator(line, alterations))
    return ValidationResult(source=f"sandbox {line}", rejections=rejections, reason=reason)


def _rejections(results: Mapping[Entity, Result]) -> dict[Entity, Rejected]:
    return {entity: result for entity, result in results.items() if isinstance(result, Rejected)}
