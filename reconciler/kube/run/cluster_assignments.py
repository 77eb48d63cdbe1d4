"""Assigns each Kafka cluster id to one QuotaCluster, also across restarts: two would overwrite each other's limits."""

from reconciler.errors import InventoryLocked
from reconciler.kube.api.custom_resources import Resource
from reconciler.kube.watch.resource_cache import ResourceCache


class ClusterAssignments:
    """Assigns Kafka cluster ids. An assignment lasts until its QuotaCluster is deleted or connects to another cluster.

    Args:
        cache: The QuotaClusters and their statuses, which survive a restart.
    """

    def __init__(self, cache: ResourceCache) -> None:
        self._cache = cache
        self._names: dict[str, str] = {}

    def check(self, cluster_id: str, name: str) -> None:
        """Assign a Kafka cluster to the calling QuotaCluster.

        Raises:
            InventoryLocked: Another one manages it.
        """
        if self.of(cluster_id, name) != name:
            raise InventoryLocked(
                f"Kafka cluster {cluster_id} is already managed by another QuotaCluster",
                hint="delete one of the two QuotaClusters",
            )

    def of(self, cluster_id: str, name: str) -> str:
        """Return the QuotaCluster that manages this Kafka cluster; the caller if there is none yet.

        Args:
            name: The QuotaCluster that is connected to the cluster and calls.
        """
        self._names = {
            assigned_id: cluster_name
            for assigned_id, cluster_name in self._names.items()
            if cluster_name in self._cache.clusters
            and (cluster_name != name or assigned_id == cluster_id)
        }
        return self._names.setdefault(cluster_id, self._before(cluster_id, name))

    def forget(self, name: str) -> None:
        """Forget a deleted QuotaCluster."""
        self._names = {
            assigned_id: cluster_name
            for assigned_id, cluster_name in self._names.items()
            if cluster_name != name
        }

    def _before(self, cluster_id: str, name: str) -> str:
        """Return the oldest QuotaCluster with this cluster id in its status, else ``name``."""
        candidates = [
            cluster_obj
            for cluster_obj in self._cache.clusters.values()
            if cluster_obj.status.get("clusterId") == cluster_id
        ]
        return min(candidates, key=_age).name if candidates else name


def _age(obj: Resource) -> tuple[float, str]:
    return obj.created, obj.name
