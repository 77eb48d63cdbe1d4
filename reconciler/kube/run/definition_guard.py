"""Guards of the operator's removals: whether a reconciliation may remove, and whether the definition of ClientQuota is being deleted.

``kubectl delete crd`` deletes every ClientQuota of the cluster at once. Such a deletion expresses no intent about
limits, so nothing is removed from Kafka while the definition is being deleted or does not exist.
"""

import logging
from typing import Final

from reconciler.errors import Forbidden, KubernetesError, NotFound
from reconciler.kube.api.client import KubernetesApi
from reconciler.kube.api.custom_resources import parsed
from reconciler.kube.api.resource_paths import CLIENT_QUOTA_DEFINITION, DEFINITIONS
from reconciler.kube.watch.resource_cache import ResourceCache
from reconciler.quota.keys import COLUMN_OF, COLUMNS
from reconciler.quota.ownership import NO_RECORD, OwnershipRecords
from reconciler.quota.planner.desired_state import ResolvedClaims
from reconciler.quota.planner.plan import Plan, QuotaChange
from reconciler.quota.planner.removal_guard import counts_as_removal
from reconciler.quota.policy import Policy, Rules

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


def might_remove(owned: OwnershipRecords, settled: ResolvedClaims, policy: Policy) -> bool:
    """Whether an owned value is no longer declared and not frozen.

    An orphaned value stays, too, unless its document had no deletionPolicy and the policy is now Sync.

    Args:
        settled: The resolved claims of all documents.
        policy: The policy in force.
    """
    desired = settled.desired
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
            ):
                return True
    # The end of a document with an end brings back the value from before, which may be none.
    return any(
        override.document and override.document not in frozen and pair not in desired.temporary
        for pair, override in owned.overrides.items()
    )


def is_recorded(owned: OwnershipRecords, settled: ResolvedClaims, rules: Rules) -> bool:
    """Whether the documents declare exactly the owned values, so that only drift from them can be written.

    Args:
        settled: The resolved claims of all documents.
        rules: The rules of the QuotaCluster.
    """
    desired = settled.desired
    if owned.intents or owned.overrides or desired.temporary:
        return False
    for subject, limits in desired.limits.items():
        record = owned.records.get(subject, NO_RECORD)
        for key, limit, applied, owner in zip(
            COLUMNS, limits, record.applied, record.owners, strict=True
        ):
            if limit is None:
                continue
            declaration = desired.claim(subject, key)
            declared_by = (
                None if declaration is None else (declaration.document, declaration.deletion_policy)
            )
            recorded_for = None if owner is None else (owner.document, owner.deletion_policy)
            if limit != applied or declared_by != recorded_for:
                return False
    return not might_remove(owned, settled, rules.in_force)
