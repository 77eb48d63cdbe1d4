"""Which QuotaCluster looks after which Kafka cluster: one, and after a restart the same, or two would fight over every limit."""

from reconciler.kube.api.custom_resources import Obj, created_of, name_of, status_of
from reconciler.kube.watch.resource_cache import ResourceCache


class ClusterAssignments:
    """Decides by cluster id. The one that had it keeps it until it is deleted or looks after another one.

    Args:
        cache: The QuotaClusters and their statuses, which outlive a process.
    """

    def __init__(self, cache: ResourceCache) -> None:
        self._cache = cache
        self._names: dict[str, str] = {}

    def of(self, cluster_id: str, name: str) -> str:
        """The QuotaCluster that looks after this Kafka cluster.

        Args:
            cluster_id: Whose id.
            name: The QuotaCluster that was answered by it, and asks.
        """
        self._names = {
            assigned_id: keeper
            for assigned_id, keeper in self._names.items()
            if keeper in self._cache.clusters and (keeper != name or assigned_id == cluster_id)
        }
        return self._names.setdefault(cluster_id, self._before(cluster_id, name))

    def forget(self, name: str) -> None:
        """A QuotaCluster is gone."""
        self._names = {
            assigned_id: keeper for assigned_id, keeper in self._names.items() if keeper != name
        }

    def _before(self, cluster_id: str, name: str) -> str:
        """Who had it by the statuses, the oldest first; the caller if none had it."""
        had = [
            cluster_obj
            for cluster_obj in self._cache.clusters.values()
            if status_of(cluster_obj).get("clusterId") == cluster_id
        ]
        return name_of(min(had, key=_age)) if had else name


def _age(obj: Obj) -> tuple[float, str]:
    return created_of(obj), name_of(obj)
