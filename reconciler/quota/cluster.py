"""Description of a cluster besides its quotas: brokers, rights of the principal, visibility of a change on each broker."""

from collections.abc import Mapping
from dataclasses import dataclass

from reconciler.quota.state import QuotaState


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One broker of a Metadata response."""

    id: int
    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A cluster as one broker described it.

    Attributes:
        id: The cluster id; never "".
        nodes: Live brokers, sorted by id.
        rights: ``DescribeConfigs``, ``AlterConfigs``, ... that the principal has on the cluster resource;
            ``None`` if the broker does not return them (no Describe right, or older than 2.8).
        version_hint: The Kafka release line that the offered API versions suggest, e.g. ``4.1+``; for display only.
        behaves_as: The sandbox profile with the nearest rules (``3.4``, ``3.9``, ``4.x``).
    """

    id: str
    nodes: tuple[Node, ...]
    rights: frozenset[str] | None
    version_hint: str
    behaves_as: str

    @property
    def may_alter(self) -> bool:
        """Whether the returned rights include AlterConfigs, which validate-only and alter requests need."""
        return self.rights is not None and "AlterConfigs" in self.rights


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDescription:
    """A cluster with its quotas and SCRAM users, as one broker described them at one time.

    Attributes:
        quotas: All its quotas; never partial.
        scram_users: Names of its SCRAM users; empty if they were not requested or the broker did not return them.
    """

    cluster: Cluster
    quotas: QuotaState
    scram_users: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Visibility:
    """What each broker of the Metadata response showed at the end of a wait.

    Attributes:
        visible: Ids of brokers that show everything that was expected.
        lagging: Ids of brokers that answered but did not show it before the deadline.
        unreachable: Reason by id, for brokers that could not be queried.
    """

    visible: tuple[int, ...]
    lagging: tuple[int, ...]
    unreachable: Mapping[int, str]

    @property
    def everywhere(self) -> bool:
        """Whether at least one broker shows the change and none lags; unreachable brokers do not count."""
        return not self.lagging and bool(self.visible)
