"""A quota store that describes only some entities; the others are as the last complete describe returned them."""

import asyncio
from collections.abc import Collection, Mapping, MutableMapping, Sequence
from typing import Final

from reconciler.base.protocols import Progress
from reconciler.ports import QuotaStore
from reconciler.quota.cluster import Cluster, ClusterDescription, Visibility
from reconciler.quota.entity import Entity
from reconciler.quota.filters import ALL, Filter, exactly
from reconciler.quota.ip_aliases import is_named_ip
from reconciler.quota.outcome import Alteration, Result
from reconciler.quota.planner.effects import ladders
from reconciler.quota.state import QuotaState

MOST_DESCRIBED: Final = 64
"""Maximum number of entities that are described one by one; for more a complete describe costs less."""


class PartialStore:
    """Answers a complete describe from a known state, refreshed for some entities. Implements ``ports.QuotaStore``.

    Args:
        store: The store of the cluster.
        cluster: Id and brokers of the cluster.
        known_quotas: The quotas of the last complete describe, with the writes since.
        entities: The entities that may be written.
    """

    def __init__(
        self,
        store: QuotaStore,
        cluster: Cluster,
        known_quotas: QuotaState,
        entities: Collection[Entity],
    ) -> None:
        self._store, self._cluster, self._entities = store, cluster, tuple(entities)
        self._unused: QuotaState | None = known_quotas
        self._quotas = known_quotas

    async def is_confirmed(self) -> bool:
        """Whether the entities, and all entities that their clients can fall back to, are unchanged in Kafka.

        A named ip address needs a complete describe, because any other entity may be another spelling of it.

        Raises:
            ClientError: The cluster cannot be queried.
        """
        related = {
            candidate
            for entity in self._entities
            for wider_entities in ladders(entity)
            for candidate in (entity, *wider_entities)
        }
        if len(related) > MOST_DESCRIBED or any(map(is_named_ip, self._entities)):
            return False
        current = await self._described(related)
        quotas = self._quotas
        return all(
            quotas.limits.get(entity) == current.limits.get(entity)
            and quotas.foreign_values.get(entity) == current.foreign_values.get(entity)
            for entity in related
        )

    async def cluster(self) -> Cluster:
        """Return id and brokers of the cluster."""
        return self._cluster

    async def observe(self, *, scram_users: bool = False) -> ClusterDescription:
        """Return the known state the first time; later a complete observation, which checks whether a plan still fits."""
        quotas, self._unused = self._unused, None
        if quotas is None:
            return await self._store.observe(scram_users=scram_users)
        return ClusterDescription(cluster=self._cluster, quotas=quotas, scram_users=frozenset())

    async def describe(self, filter_: Filter, *, node: int | None = None) -> QuotaState:
        """Return the known state with the entities refreshed if ``filter_`` matches everything, else query the cluster."""
        if filter_ != ALL or node is not None:
            return await self._store.describe(filter_, node=node)
        current, quotas = await self._described(self._entities), self._quotas
        limits, foreign_values = dict(quotas.limits), dict(quotas.foreign_values)
        for entity in self._entities:
            _ = limits.pop(entity, None)
            _ = foreign_values.pop(entity, None)
        return QuotaState(
            limits=limits | dict(current.limits),
            foreign_values=foreign_values | dict(current.foreign_values),
            foreign_entities=quotas.foreign_entities,
        )

    async def alter(
        self,
        alterations: Sequence[Alteration],
        *,
        validate_only: bool = False,
        progress: Progress | None = None,
        results: MutableMapping[Entity, Result] | None = None,
    ) -> Mapping[Entity, Result]:
        """Send alterations."""
        return await self._store.alter(
            alterations, validate_only=validate_only, progress=progress, results=results
        )

    async def wait_visible(
        self,
        expected: Sequence[Alteration],
        *,
        timeout: float,  # noqa: ASYNC109 - as the port has it
    ) -> Visibility:
        """Poll every live broker."""
        return await self._store.wait_visible(expected, timeout=timeout)

    async def _described(self, entities: Collection[Entity]) -> QuotaState:
        """Describe entities concurrently, one filter for each."""
        states = await asyncio.gather(
            *(self._store.describe(exactly(entity)) for entity in entities)
        )
        return QuotaState(
            limits={entity: limits for state in states for entity, limits in state.limits.items()},
            foreign_values={
                entity: values
                for state in states
                for entity, values in state.foreign_values.items()
            },
        )
