"""What a client learns of a cluster beside its quotas: its brokers, the rights of the principal, which brokers show a change."""

from collections.abc import Mapping
from dataclasses import dataclass

from reconciler.quota.state import QuotaState


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One broker in Metadata."""

    id: int
    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Who answered.

    Attributes:
        id: The cluster id; never "".
        nodes: Live brokers, sorted by id.
        rights: ``DescribeConfigs``, ``AlterConfigs``, ... that our principal has on the cluster resource;
            ``None`` where the broker would not say (no Describe right, or older than 2.8).
        version_hint: The Kafka line that the offered API versions point to, e.g. ``4.1+``; for people.
        behaves_as: The sandbox profile whose rules are nearest (``3.4``, ``3.9``, ``4.x``).
    """

    id: str
    nodes: tuple[Node, ...]
    rights: frozenset[str] | None
    version_hint: str
    behaves_as: str

    @property
    def may_alter(self) -> bool:
        """Whether validate-only and alter are allowed, as far as the broker said."""
        return self.rights is not None and "AlterConfigs" in self.rights


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDescription:
    """A cluster and what it holds, as one broker answered at one moment.

    Attributes:
        cluster: Who answered.
        quotas: Everything that it has; never partial.
        scram_users: Names of its SCRAM users; empty where they were not asked for or the broker would not say.
    """

    cluster: Cluster
    quotas: QuotaState
    scram_users: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Visibility:
    """What each broker in Metadata showed at the end of a wait.

    Attributes:
        visible: Ids of brokers that show everything that was expected.
        lagging: Ids of brokers that answered but did not show it before the deadline.
        unreachable: Id -> why, for brokers that could not be asked.
    """

    visible: tuple[int, ...]
    lagging: tuple[int, ...]
    unreachable: Mapping[int, str]

    @property
    def everywhere(self) -> bool:
        """Whether every live broker showed it; unreachable ones are not live."""
        return not self.lagging and bool(self.visible)
