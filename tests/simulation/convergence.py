"""Differences between documents, the brokers' log and the ownership records after the faults have ended."""

from collections.abc import Collection, Iterator, Mapping
from itertools import chain

from reconciler.quota.entity import Entity
from reconciler.quota.keys import COLUMNS
from reconciler.quota.ownership import Owner, Pair
from reconciler.quota.planner.desired_state import Declaration
from reconciler.quota.policy import DeletionPolicy, DriftMode
from tests.policies import SWEEPING
from tests.simulation.laws import Laws


def difference(
    laws: Laws, documents: Mapping[str, Declaration], *, retained: Collection[str] = ()
) -> str:
    """Return the first difference; "" = none. Limits that ``retained`` documents own may remain.

    Quota keys of suspended documents are frozen, with their records and overrides.
    """
    suspended = {document.entity for document in documents.values() if document.suspended}
    names = {document.document for document in documents.values() if document.suspended}
    frozen_pairs = {pair for pair, _, owner in _recorded(laws) if owner.document in names}
    declared = {
        (document.entity, key): value
        for document in documents.values()
        for key, value in zip(COLUMNS, document.limits, strict=True)
        if value is not None
        and not document.suspended
        # Until its owner is resumed, no other document changes it.
        and (document.entity, key) not in frozen_pairs
    }
    problems = _differences(laws, declared, set(_frozen(laws, documents)))
    problems = chain(problems, _silent(laws, documents, suspended, declared, retained))
    return next(problems, "")


def _differences(laws: Laws, declared: Mapping[Pair, float], frozen: set[Pair]) -> Iterator[str]:
    if laws.records.intents:
        yield f"writes of unknown outcome: {list(laws.records.intents)}"
    overrides = [pair for pair in laws.records.overrides if pair not in frozen]
    if overrides:
        yield f"overrides: {overrides}"
    for pair, value in declared.items():
        is_left_alone = laws.rules.drift is DriftMode.WARN and pair in laws.foreign_pairs
        if laws.live(pair) != value and not is_left_alone:
            yield f"{pair[0]} {pair[1]} is {laws.live(pair)}, declared {value}"


def _silent(
    laws: Laws,
    documents: Mapping[str, Declaration],
    suspended: set[Entity],
    declared: Mapping[Pair, float],
    retained: Collection[str],
) -> Iterator[str]:
    """Yield owned values that are no longer declared and still live."""
    for pair, value, owner in _recorded(laws):
        is_silent = (
            pair not in declared and pair[0] not in suspended and owner.document not in retained
        )
        if is_silent and laws.live(pair) == value and _is_removable(laws, documents, pair, owner):
            yield f"{pair[0]} {pair[1]} is recorded as ours, not declared, and still {value}"


def _frozen(laws: Laws, documents: Mapping[str, Declaration]) -> Iterator[Pair]:
    """Yield quota keys that a suspended document declares or owns."""
    suspended = {name: document for name, document in documents.items() if document.suspended}
    for document in suspended.values():
        for key, value in zip(COLUMNS, document.limits, strict=True):
            if value is not None:
                yield document.entity, key
    for pair, _, owner in _recorded(laws):
        if owner.document in suspended:
            yield pair


def _recorded(laws: Laws) -> Iterator[tuple[Pair, float | None, Owner]]:
    for entity, record in laws.records.records.items():
        for key, value, owner in zip(COLUMNS, record.applied, record.owners, strict=True):
            if owner is not None:
                yield (entity, key), value, owner


def _is_removable(
    laws: Laws, documents: Mapping[str, Declaration], pair: Pair, owner: Owner
) -> bool:
    """Whether the removal of its declaration must remove the value."""
    if not owner.document or pair in laws.records.orphaned:
        return False
    if owner.document in documents or owner.deletion_policy is DeletionPolicy.DELETE:
        return True
    return owner.deletion_policy is None and laws.rules.in_force in SWEEPING
