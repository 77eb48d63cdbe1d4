"""A cluster of which some entities alone are described: the rest is as a complete describe showed it before."""

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
"""Entities that are described one by one; for more of them a complete describe costs less."""


class PartialStore:
    """A store that answers a complete describe from a known state, renewed for some entities. Implements ``ports.QuotaStore``.

    Args:
        store: The cluster.
        cluster: Who answers.
        known_quotas: What the last complete describe showed, with what was written since.
        entities: What may be written.
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
        """Whether the entities, and all that their clients can fall back to, still are as they are known.

        Another spelling of an address may be among all the others, so a named address needs a complete describe.

        Raises:
            ClientError: The cluster cannot be asked.
        """
        related = {
            candidate
            for entity in self._entities
            for ladder in ladders(entity)
            for candidate in (entity, *ladder)
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
        """Who answers."""
        return self._cluster

    async def observe(self, *, scram_users: bool = False) -> ClusterDescription:
        """The known state at first; a second observation is a complete one, because it asks whether a plan still fits."""
        quotas, self._unused = self._unused, None
        if quotas is None:
            return await self._store.observe(scram_users=scram_users)
        return ClusterDescription(cluster=self._cluster, quotas=quotas, scram_users=frozenset())

    async def describe(self, filter_: Filter, *, node: int | None = None) -> QuotaState:
        """The known state with the entities as they are now, where everything is asked for."""
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
        """Some entities, each by a filter of its own; they go out together."""
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
