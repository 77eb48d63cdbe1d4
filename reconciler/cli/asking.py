"""A connected client for one target: warnings, patience and the expected cluster id in one place."""

import contextlib
from collections.abc import AsyncIterator

from reconciler.cli.connection import telling
from reconciler.cli.console import Console
from reconciler.cli.where import Target
from reconciler.client import QuotaClient
from reconciler.errors import WrongCluster
from reconciler.ports import Cluster


@contextlib.asynccontextmanager
async def connected(console: Console, target: Target) -> AsyncIterator[QuotaClient]:
    """A client for the target; it is closed at the end, whatever happens.

    Raises:
        ConfigError: Its settings are wrong.
    """
    async with QuotaClient(target.client_config(console), events=telling(console)) as client:
        yield client


async def expected_cluster(client: QuotaClient, target: Target) -> Cluster:
    """Who answers, if it is who should.

    Raises:
        WrongCluster: The cluster id is not the expected one.
        ClientError: Nobody answers.
    """
    found = await client.cluster()
    expected = target.settings.expected_cluster_id
    if expected is not None and found.id != expected:
        raise WrongCluster(
            f"{target.shown}: cluster {found.id} answers, but {expected} is expected",
            expected=expected,
            found=found.id,
            hint="correct bootstrapServers or expectedClusterId; nothing was changed",
        )
    return found
