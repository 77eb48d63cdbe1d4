"""A connected client for one target: warnings, patience and the expected cluster id in one place."""

import contextlib
from collections.abc import AsyncIterator

from reconciler.cli.context.cluster_targets import ClusterTarget
from reconciler.cli.context.connection import connection_events
from reconciler.cli.framework.console import Console
from reconciler.client import QuotaClient
from reconciler.errors import WrongCluster
from reconciler.quota.cluster import Cluster


@contextlib.asynccontextmanager
async def connected(console: Console, target: ClusterTarget) -> AsyncIterator[QuotaClient]:
    """A client for the target; it is closed at the end, whatever happens.

    Raises:
        ConfigError: Its settings are wrong.
    """
    async with QuotaClient(
        target.client_config(console), events=connection_events(console)
    ) as client:
        yield client


async def expected_cluster(client: QuotaClient, target: ClusterTarget) -> Cluster:
    """Who answers, if it is who should.

    Raises:
        WrongCluster: The cluster id is not the expected one.
        ClientError: No broker answers.
    """
    cluster = await client.cluster()
    expected = target.settings.expected_cluster_id
    if expected is not None and cluster.id != expected:
        raise WrongCluster(
            f"{target.display_name}: cluster {cluster.id} answers, but {expected} is expected",
            expected=expected,
            actual=cluster.id,
            hint="correct bootstrapServers or expectedClusterId; nothing was changed",
        )
    return cluster
