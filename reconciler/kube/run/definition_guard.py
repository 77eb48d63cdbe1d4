"""Guards of the operator's removals: what a reconciliation might remove, and whether the definition of ClientQuota is being deleted.

``kubectl delete crd`` deletes every ClientQuota of the cluster at once. Such a deletion expresses no intent about
limits, so nothing is removed from Kafka while the definition is being deleted or does not exist.
"""

import logging
from collections.abc import Callable
from typing import Final

from reconciler.errors import Forbidden, KubernetesError, NotFound
from reconciler.kube.api.client import KubernetesApi
from reconciler.kube.api.custom_resources import parsed
from reconciler.kube.api.resource_paths import CLIENT_QUOTA_DEFINITION, DEFINITIONS
from reconciler.kube.records.finalizers import deletion_has_effect
from reconciler.kube.watch.resource_cache import ResourceCache
from reconciler.quota.entity import Entity
from reconciler.quota.keys import COLUMN_OF, COLUMNS, Key
from reconciler.quota.ownership import NO_RECORD, OwnershipRecords
from reconciler.quota.planner.desired_state import ResolvedClaims
from reconciler.quota.planner.plan import Plan, QuotaChange
from reconciler.quota.planner.removal_guard import counts_as_removal
from reconciler.quota.policy import Policy

BEING_DELETED: Final = (
    f"the definition {CLIENT_QUOTA_DEFINITION} is being deleted or does not exist, so no limit is removed from Kafka;"
    " apply the definitions again once it is deleted and restore the documents from git; remaining documents are deleted"
    " after the deletion timeout, or at once by kquota operator release, and their limits stay"
)
UNREAD: Final = f"the API server did not report whether the definition {CLIENT_QUOTA_DEFINITION} is being deleted; removals wait until it does"

_LOG: Final = logging.getLogger("reconciler.kube")


class DefinitionGuard:
    """Withholds removals while the definition of ClientQuota is being deleted.

    Args:
        cache: The cached documents.
    """

    def __init__(self, api: KubernetesApi, cache: ResourceCache) -> None:
        self._api, self._cache = api, cache
        self._forbidden = False

    async def refusal(self, name: str, plan: Plan) -> str:
        """Return why no removal of a plan is allowed now; "" = allowed.

        Sends one request if a removal belongs to a document that is deleted or being deleted, otherwise none. Without
        permission to read the definition removals are allowed and only the removal guard bounds them.

        Args:
            name: Name of the QuotaCluster.
        """
        if not any(self._is_of_deleted_document(name, change) for change in plan.changes):
            return ""
        try:
            definition = await self._api.get(DEFINITIONS, None, CLIENT_QUOTA_DEFINITION)
        except NotFound:
            return BEING_DELETED
        except Forbidden as error:
            if not self._forbidden:
                _LOG.warning("%s; the removal guard alone bounds removals", error)
            self._forbidden = True
            return ""
        except KubernetesError as error:
            _LOG.warning("%s: %s", name, error)
            return UNREAD
        return BEING_DELETED if parsed(definition).is_terminating else ""

    def _is_of_deleted_document(self, name: str, change: QuotaChange) -> bool:
        if not counts_as_removal(change):
            return False
        obj = None if change.owner is None else self._cache.of(name).get(change.owner.document)
        return obj is None or obj.is_terminating


def at_risk(
    owned: OwnershipRecords,
    settled: ResolvedClaims,
    policy: Policy,
    *,
    is_missing: Callable[[str], bool],
) -> frozenset[Entity]:
    """Return the entities of which an owned value might be removed: it is not declared any more and not frozen.

    A value stays if its document was deleted and retains it. An orphaned value stays unless its document had no
    deletionPolicy and the policy is now Sync.

    Args:
        settled: The resolved claims of all documents.
        policy: The policy in force.
        is_missing: Whether a document neither exists nor was observed to be deleted.
    """
    desired, entities = settled.desired, set[Entity]()
    frozen = desired.frozen
    for subject, record in owned.records.items():
        limits = desired.limits.get(subject)
        if limits is not None and not any(
            applied is not None and limit is None
            for applied, limit in zip(record.applied, limits, strict=True)
        ):
            continue
        for key, owner in record.pairs():
            stays_orphaned = (subject, key) in owned.orphaned and not (
                policy is Policy.SYNC and owner.deletion_policy is None
            )
            if (
                not stays_orphaned
                and owner.document not in frozen
                and (limits is None or limits[COLUMN_OF[key]] is None)
                and (
                    owner.document in desired.documents
                    or deletion_has_effect(owner.deletion_policy, policy)
                    or is_missing(owner.document)
                )
            ):
                entities.add(subject)
    # The end of a document with an end brings back the value from before, which may be none.
    entities.update(
        pair[0]
        for pair, override in owned.overrides.items()
        if override.document and override.document not in frozen and pair not in desired.temporary
    )
    return frozenset(entities)


def is_recorded(owned: OwnershipRecords, settled: ResolvedClaims) -> bool:
    """Whether the documents declare exactly the owned values, so that only drift from them can be written.

    Args:
        owned: The records, of which no value is at risk.
        settled: The resolved claims of all documents.
    """
    desired = settled.desired

    def agrees(subject: Entity, key: Key) -> bool:
        record, column = owned.records.get(subject, NO_RECORD), COLUMN_OF[key]
        limit, owner = desired.limits[subject][column], record.owners[column]
        declaration = desired.claim(subject, key)
        return limit is None or (
            limit == record.applied[column]
            and declaration is not None
            and owner is not None
            and owner.document == declaration.document
            and owner.deletion_policy is declaration.deletion_policy
        )

    is_settled = not (owned.intents or owned.overrides or desired.temporary)
    return is_settled and all(agrees(subject, key) for subject in desired.limits for key in COLUMNS)
