"""Would the broker accept all of this? Asked of the broker if we may, else of its rules; nothing changes.

Validate-only needs AlterConfigs, which may also change broker configurations. So ``auto`` never asks for a right
that the credential does not have already, and the source of a verdict is always told.
"""

from collections.abc import Mapping, Sequence

from reconciler.errors import AuthorizationError, Refused
from reconciler.quota.change import Change
from reconciler.quota.entity import Entity
from reconciler.quota.order import batches, chunks
from reconciler.quota.outcome import Alteration, Rejected, Result, Unknown
from reconciler.quota.report import Verdict
from reconciler.reconcile.observe import Observation
from reconciler.reconcile.orders import Orders, Ports, Validation


async def validate(
    ports: Ports, orders: Orders, seen: Observation, changes: Sequence[Change]
) -> Verdict:
    """The verdict on all changes, chunk by chunk.

    Raises:
        AuthorizationError: ``broker`` was asked for and we may not.
        Refused: ``sandbox`` was asked for and is not at hand.
        ClientError: The broker was asked and could not answer.
    """
    if orders.validation is Validation.NONE or not changes:
        return Verdict(source="none", why="" if changes else "there is nothing to validate")
    if orders.validation is Validation.SANDBOX or seen.cluster is None:
        return _by_rules(ports, orders, seen, changes, why="")
    if orders.validation is Validation.BROKER:
        return await _by_broker(ports, changes)
    if not seen.cluster.may_alter:
        why = (
            "the credential has no AlterConfigs right"
            if seen.cluster.rights
            else "the broker does not tell our rights"
        )
        return _by_rules(ports, orders, seen, changes, why=why)
    try:
        return await _by_broker(ports, changes)
    except AuthorizationError as error:
        return _by_rules(ports, orders, seen, changes, why=str(error))


def requests(changes: Sequence[Change]) -> tuple[tuple[Alteration, ...], ...]:
    """All changes as requests; an entity that is set and removed from stands once in each pass."""
    return tuple(chunk for batch in _passes(changes) for chunk in chunks(batch))


def _passes(changes: Sequence[Change]) -> tuple[tuple[Alteration, ...], ...]:
    """Sets, then removals: validating needs no levels, so each pass is one list."""
    made: dict[bool, list[Alteration]] = {}
    for batch in batches(changes):
        made.setdefault(batch.removes, []).extend(batch.alterations)
    return tuple(tuple(alterations) for alterations in made.values())


async def _by_broker(ports: Ports, changes: Sequence[Change]) -> Verdict:
    refused: dict[Entity, Rejected] = {}
    why = ""
    done, asked = 0, requests(changes)
    total = sum(map(len, asked))
    for chunk in asked:
        ports.progress("validate", done, total)
        results = await ports.store.alter(chunk, validate_only=True)
        refused |= _refused(results)
        unknown = next((one for one in results.values() if isinstance(one, Unknown)), None)
        why = why or (f"no verdict on some entities: {unknown.why}" if unknown else "")
        done += len(chunk)
    ports.progress("validate", total, total)
    return Verdict(source="broker", refused=refused, why=why)


def _by_rules(
    ports: Ports, orders: Orders, seen: Observation, changes: Sequence[Change], *, why: str
) -> Verdict:
    if ports.validator is None:
        if orders.validation is Validation.SANDBOX:
            raise Refused("the rules of the sandbox are not at hand here")
        return Verdict(source="none", why=why or "no rules are at hand")
    line = seen.cluster.behaves_as if seen.cluster is not None else "4.x"
    refused: dict[Entity, Rejected] = {}
    for alterations in _passes(changes):
        refused |= _refused(ports.validator(line, alterations))
    return Verdict(source=f"sandbox {line}", refused=refused, why=why)


def _refused(results: Mapping[Entity, Result]) -> dict[Entity, Rejected]:
    return {entity: one for entity, one in results.items() if isinstance(one, Rejected)}
