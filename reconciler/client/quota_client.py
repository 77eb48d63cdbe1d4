"""``QuotaClient``: a Kafka cluster as far as quotas go. Implements ``ports.QuotaStore``.

async with QuotaClient(ClientConfig.from_properties("client.properties")) as client:
    state = await client.describe()
"""

import asyncio
import math
from collections.abc import Awaitable, Collection, Iterable, Mapping, MutableMapping, Sequence
from typing import Any, Final, Self, TypeAlias

from reconciler.base.backoff import Deadline
from reconciler.base.clock import SystemClock
from reconciler.base.protocols import Clock, Progress
from reconciler.client import cluster_info, visibility
from reconciler.client.alteration_sender import (
    AlterationSender,
    check_alterations,
    check_open_alterations,
)
from reconciler.client.client_config import ClientConfig
from reconciler.client.cluster_info import ScramCredential, ScramResponse
from reconciler.client.events import SILENT, ClientEvents
from reconciler.client.network.cluster import ClusterConnections
from reconciler.client.network.requests import ClientRequest, ResponseStatus
from reconciler.client.wire_translation import LAYOUT, filter_request, state_of
from reconciler.errors import (
    AuthenticationError,
    ClientError,
    QuotaValueError,
    UnsupportedVersion,
    WrongCluster,
)
from reconciler.quota.entity import Entity, EntityParts
from reconciler.quota.keys import COLUMNS, Key
from reconciler.quota.precedence import Principal, Resolution, resolve_all
from reconciler.quota.state import (
    ALL,
    Alteration,
    Cluster,
    ClusterDescription,
    Filter,
    Node,
    OpenAlteration,
    QuotaState,
    Result,
    Visibility,
)
from reconciler.wire.apis import DESCRIBE_CLIENT_QUOTAS, DESCRIBE_CLUSTER
from reconciler.wire.messages import describe_client_quotas

DescribeResponse: TypeAlias = describe_client_quotas.DescribeClientQuotasResponse

VISIBLE_SECONDS: Final = 30.0
SCRAM_SECONDS: Final = 10.0
"""Maximum wait of an observation for the list of SCRAM users, which is optional."""


class QuotaClient:
    """Describes, resolves and alters client quotas. Safe for many tasks of one loop, not for many threads.

    Args:
        config: How to reach the cluster.
        events: Callbacks for connections, requests, retries.
        clock: Clock; tests pass a fake.
    """

    def __init__(
        self, config: ClientConfig, *, events: ClientEvents = SILENT, clock: Clock | None = None
    ) -> None:
        self._clock: Clock = SystemClock() if clock is None else clock
        self._most_entities = config.most_entities
        self._connections = ClusterConnections(config, events=events, clock=self._clock)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections; the client may be used again and then reconnects."""
        await self._connections.close()

    @property
    def login_error(self) -> AuthenticationError | None:
        """The final refusal of this client's login; ``None`` without one."""
        return self._connections.login_error

    @property
    def other_cluster(self) -> WrongCluster | None:
        """Set after the addresses led to another cluster than before: a client never changes its cluster."""
        return self._connections.other_cluster

    async def cluster(self, *, timeout: float | None = None) -> Cluster:
        """Return cluster id, live brokers and the principal's rights, requested again.

        Args:
            timeout: Total seconds; None = ``default.api.timeout.ms``.

        Raises:
            ClientError: No usable response was received.
        """
        deadline = self._connections.deadline(timeout)
        is_new = await self._connections.open({cluster_info.CLUSTER: math.inf}, deadline)
        return await self._cluster(deadline, is_new=is_new)

    async def observe(
        self, *, scram_users: bool = False, timeout: float | None = None
    ) -> ClusterDescription:
        """Return the cluster, all its quotas and, on request, its SCRAM users; one round trip for all of them.

        On a new connection the requests are sent together with Metadata, right after the login.

        Args:
            scram_users: Whether to request SCRAM users, for at most 10 s; without a response there are none.
            timeout: Total seconds; None = ``default.api.timeout.ms``.

        Raises:
            ClientError: As for :meth:`cluster` and :meth:`describe`.
        """
        deadline = self._connections.deadline(timeout)
        describe, users = self._describe_request(ALL), cluster_info.scram_request(())
        requests: dict[ClientRequest[Any], float] = {
            cluster_info.CLUSTER: math.inf,
            describe: math.inf,
        }
        if scram_users:
            requests[users] = SCRAM_SECONDS
        is_new = await self._connections.open(requests, deadline)
        cluster = asyncio.create_task(self._cluster(deadline, is_new=is_new))
        quotas = asyncio.create_task(self._describe_by(describe, ALL, None, deadline))
        names = asyncio.create_task(self._scram_names(users if scram_users else None, deadline))
        _ = await asyncio.gather(cluster, quotas, names, return_exceptions=True)
        return ClusterDescription(
            cluster=cluster.result(), quotas=quotas.result(), scram_users=names.result()
        )

    async def _cluster(self, deadline: Deadline, *, is_new: bool) -> Cluster:
        """Return the identity of the cluster; a connection that was just opened has requested Metadata already."""
        offered = await self._connections.offered(deadline)
        calls: list[Awaitable[Any]] = [] if is_new else [self._connections.refresh(deadline)]
        if offered.offers(DESCRIBE_CLUSTER):
            calls.append(self._connections.call(cluster_info.CLUSTER, deadline=deadline))
        answers = await asyncio.gather(*calls)
        hint, profile = cluster_info.release_line(offered)
        return Cluster(
            id=self._connections.cluster_id,
            nodes=self._connections.nodes,
            rights=cluster_info.rights(
                answers[-1].operations if offered.offers(DESCRIBE_CLUSTER) else 0
            ),
            version_hint=hint,
            behaves_as=profile,
        )

    async def _scram_names(
        self, request: ClientRequest[ScramResponse] | None, deadline: Deadline
    ) -> frozenset[str]:
        """Return the names of all SCRAM users; empty without a request and after an error: a plan does not need them."""
        if request is None:
            return frozenset()
        try:
            seconds = deadline.within(self._clock.monotonic(), SCRAM_SECONDS)
            own_deadline = self._connections.deadline(seconds)
            answer = await self._connections.call(request, deadline=own_deadline)
        except ClientError:
            return frozenset()
        return frozenset(user.name for user in answer.users if not user.error_code)

    async def describe(
        self, filter_: Filter = ALL, *, node: int | None = None, timeout: float | None = None
    ) -> QuotaState:
        """Return one consistent snapshot of the quotas of any broker (or of ``node``); never partial.

        Args:
            filter_: The entities to return; the default is everything.
            node: Id of the broker; None = any.
            timeout: Total seconds; None = ``default.api.timeout.ms``.

        Raises:
            AuthorizationError: The principal lacks DescribeConfigs on the cluster.
            UnsupportedVersion: The broker is older than Kafka 2.6.
            ClientError: No usable response was received.
        """
        return await self._describe(filter_, node, self._connections.deadline(timeout))

    async def resolve(
        self,
        principals: Iterable[Principal],
        *,
        keys: Collection[Key] = COLUMNS,
        timeout: float | None = None,
    ) -> Mapping[Principal, Resolution | QuotaValueError]:
        """Return effective limits of many clients from one describe: value, source and overridden limits, per key.

        Kafka planned a request for this (KIP-546) and never released it. It assumes Kafka's own rules:
        see :meth:`quota_callback`.

        Args:
            principals: Clients as the broker identifies them.
            keys: The keys to resolve.
            timeout: Total seconds.

        Returns:
            One item per principal, in the order of ``principals``; an error for one that cannot be a client.

        Raises:
            ClientError: As for :meth:`describe`.
        """
        return resolve_all(await self.describe(timeout=timeout), principals, keys)

    async def alter(
        self,
        alterations: Sequence[Alteration],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
        progress: Progress | None = None,
        results: MutableMapping[Entity, Result] | None = None,
    ) -> Mapping[Entity, Result]:
        """Send alterations in chunks, one after the other; return exactly one result per entity.

        Args:
            alterations: The changes; each entity occurs at most once.
            validate_only: Only validate on the controller; values are not checked before sending.
            timeout: Total seconds; None gives each request its own 90.
            progress: Called after each chunk with ``"alter"`` or ``"validate"``, entities done and in total.
            results: Filled during the call, so that it is complete also if the caller is cancelled:
                an entity that is not in it was not sent. The same mapping is returned.

        Raises:
            QuotaValueError: An alteration is ambiguous or invalid; nothing was sent.
            AuthorizationError: The principal lacks AlterConfigs on the cluster; nothing was changed.
            ClientError: Nothing was sent. Later errors become ``Unknown`` in the results.
        """
        return await AlterationSender(
            self._connections,
            check_alterations(alterations, validate_only=validate_only),
            validate_only=validate_only,
            results={} if results is None else results,
            progress=progress,
        ).run(timeout)

    async def alter_open(
        self,
        alterations: Sequence[OpenAlteration],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> Mapping[EntityParts, Result]:
        """Alter entities of any types: the broker checks types and names (KIP-546). Arguments and errors as in :meth:`alter`."""
        return await AlterationSender(
            self._connections,
            check_open_alterations(alterations, validate_only=validate_only),
            validate_only=validate_only,
            results={},
            progress=None,
        ).run(timeout)

    async def wait_visible(
        self, expected: Sequence[Alteration], *, timeout: float = VISIBLE_SECONDS
    ) -> Visibility:
        """Poll every live broker with exact filters until each shows all of ``expected``, or until the deadline.

        Args:
            expected: In the order of sending. Brokers replay changes in order, so the last few are sufficient.
            timeout: Seconds.

        Raises:
            ClientError: The list of brokers is not available.
        """
        deadline = self._connections.deadline(timeout)

        async def live(until: Deadline) -> Sequence[Node]:
            return (await self._connections.refresh(until)).nodes

        watch = visibility.VisibilityWait(
            expected=expected,
            describe=self._describe,
            live=live,
            deadline=deadline,
            clock=self._clock,
        )
        return await watch.run()

    async def scram_users(
        self, names: Iterable[str] | None = None, *, timeout: float | None = None
    ) -> Mapping[str, tuple[ScramCredential, ...]]:
        """Return SCRAM users with their mechanisms; users that do not exist are omitted.

        Args:
            names: The users; None = all.
            timeout: Total seconds.

        Raises:
            AuthorizationError: The principal lacks Describe on the cluster.
            BrokerError: The broker refused one of the users for a reason other than a missing credential.
        """
        # An empty list means all users, as null does. Null with a missing right is never answered: the
        # broker fails while it builds the refusal (observed on 4.4.0, DescribeUserScramCredentialsRequest).
        requested_users = () if names is None else tuple(dict.fromkeys(names))
        if names is not None and not requested_users:
            return {}
        ask = cluster_info.scram_request(requested_users)
        answer = await self._connections.call(ask, deadline=self._connections.deadline(timeout))
        return cluster_info.credentials_of(answer, self._connections.login.scrubbed)

    async def quota_callback(self, *, timeout: float | None = None) -> str | None:
        """Return ``client.quota.callback.class`` of a broker; with such a class it does not use Kafka's own rules (KIP-257).

        Raises:
            AuthorizationError: The principal lacks DescribeConfigs on the cluster.
            ClientError: No usable response was received.
        """
        deadline = self._connections.deadline(timeout)
        nodes = (await self._connections.refresh(deadline)).nodes
        node_id = nodes[0].id
        answer = await self._connections.call(
            cluster_info.callback_request(node_id), deadline=deadline, node=node_id
        )
        return cluster_info.callback_class(answer)

    async def _describe(self, filter_: Filter, node: int | None, deadline: Deadline) -> QuotaState:
        return await self._describe_by(self._describe_request(filter_), filter_, node, deadline)

    def _describe_request(self, filter_: Filter) -> ClientRequest[DescribeResponse]:
        request = filter_request(filter_)
        return ClientRequest(
            api=DESCRIBE_CLIENT_QUOTAS,
            encode=lambda version: describe_client_quotas.encode_request(version, request),
            decode=lambda version, body: describe_client_quotas.decode_response(
                version, body, LAYOUT, most_entities=self._most_entities
            ),
            verdict=lambda answer: ResponseStatus(
                code=answer.error_code, message=answer.error_message
            ),
            right="DescribeConfigs",
        )

    async def _describe_by(
        self,
        request: ClientRequest[DescribeResponse],
        filter_: Filter,
        node: int | None,
        deadline: Deadline,
    ) -> QuotaState:
        try:
            answer = await self._connections.call(request, deadline=deadline, node=node)
        except UnsupportedVersion as error:
            error.hint = error.hint or "client quotas need brokers of Kafka 2.6 or later (KIP-546)"
            raise
        return state_of(answer, filter_)
