"""Connected clients, one per QuotaCluster: created on first use, replaced when credentials change, closed at the end.

Credentials are checked on every call, so a rotated Secret is used from the next reconciliation on, without a restart.
New ones are tried before the old session is closed: a version that the broker refuses is remembered and not tried
again for a while, because brokers may count failures. A Secret that no longer lists the QuotaCluster ends the session
at once.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Final, Self

from msgspec import Struct
from msgspec.structs import replace

from reconciler.base.protocols import Clock
from reconciler.base.redaction import QuietRepr
from reconciler.client import ClientConfig, ClientEvents, QuotaClient
from reconciler.errors import (
    AuthenticationError,
    ClientError,
    ConfigError,
    CredentialsError,
    KquotaError,
    NotFound,
    TlsError,
)
from reconciler.kube.api.client import KubernetesApi
from reconciler.kube.api.resource_paths import SECRETS
from reconciler.kube.configuration.credentials import (
    NONE,
    Credentials,
    SecretState,
    SecretWithdrawn,
    client_config,
    granted_credentials,
)
from reconciler.kube.configuration.operator_settings import OperatorSettings
from reconciler.manifest.project.cluster import QuotaCluster
from reconciler.metrics import Metrics

REFUSED_AGAIN_SECONDS: Final = 600.0
"""Seconds before refused credentials are tried again, unless they change."""

TRIAL_SECONDS: Final = 20.0
"""Seconds for trying new credentials; without an answer the reconciliation continues with the old ones."""

_log = logging.getLogger("reconciler.kube")


class _ClientSession(QuietRepr, Struct, kw_only=True):
    """A client and its inputs."""

    client: QuotaClient
    config: ClientConfig
    properties: Mapping[str, str]
    state: SecretState
    rejected_at: float = 0.0
    refused_at: float | None = None


class SessionKeeper:
    """Keeps a client per QuotaCluster, for one reconciliation of it at a time. Use it as a context, or close it.

    Args:
        api: Reads Secrets.
        settings: Namespace of the Secrets, and whether references are allowed.
        metrics: Receives each request to a broker; ``None`` = no metrics.
    """

    def __init__(
        self,
        api: KubernetesApi,
        *,
        settings: OperatorSettings,
        clock: Clock,
        metrics: Metrics | None = None,
    ) -> None:
        self._api = api
        self._settings = settings
        self._clock = clock
        self._metrics = metrics
        self._sessions: dict[str, _ClientSession] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every client."""
        clients = [session.client for session in self._sessions.values()]
        self._sessions = {}
        _ = await asyncio.gather(*(client.close() for client in clients), return_exceptions=True)

    async def forget(self, name: str) -> None:
        """Close the client of a deleted QuotaCluster."""
        session = self._sessions.pop(name, None)
        if session is not None:
            await session.client.close()

    def state(self, name: str) -> SecretState:
        """Return the state of a cluster's credentials; empty before its first session."""
        session = self._sessions.get(name)
        return SecretState() if session is None else session.state

    async def for_(self, cluster: QuotaCluster) -> QuotaClient:
        """Return a client with the newest credentials that work.

        Raises:
            SecretWithdrawn: The Secret does not list the QuotaCluster, or no longer; an open session is closed.
            CredentialsError: There is no session, and the Secret or one of its keys is missing or unusable.
            ConfigError: A property of the QuotaCluster is unusable.
            AuthenticationError: The broker refused these credentials recently, and there are no others.
            KubernetesError: There is no session, and the Secret cannot be read.
        """
        session = self._sessions.get(cluster.name)
        if session is not None and session.properties != cluster.properties:
            await self.forget(cluster.name)
            session = None
        try:
            credentials = await self._credentials(cluster)
        except SecretWithdrawn:
            await self.forget(cluster.name)
            raise
        except KquotaError as error:
            if session is None:
                raise
            # Missing briefly or permanently: the session still works, and the status reports the problem.
            if not error.retriable:
                session.state = replace(session.state, problem=error)
        else:
            if session is None:
                session = self._sessions[cluster.name] = self._begun(cluster, credentials)
            elif session.state != SecretState(version=credentials.version):
                await self._rotate(cluster, session, credentials)
        if session.client.other_cluster is not None:
            # Another cluster answers, now or when the session began. The id that the cluster must have, by its
            # spec or records, is checked before each write.
            await self._reconnect(cluster, session)
        return await self._unless_refused(cluster, session)

    # ---- making -----------------------------------------------------------------------------

    def _begun(self, cluster: QuotaCluster, credentials: Credentials) -> _ClientSession:
        config = self._config(cluster, credentials)
        return _ClientSession(
            client=self._client(cluster, config),
            config=config,
            properties=cluster.properties,
            state=SecretState(version=credentials.version),
        )

    async def _rotate(
        self, cluster: QuotaCluster, session: _ClientSession, credentials: Credentials
    ) -> None:
        """Give a session new credentials, or note why they cannot be used."""
        now = self._clock.monotonic()
        is_rejected = session.state.rejected_version == credentials.version
        if is_rejected and now - session.rejected_at < REFUSED_AGAIN_SECONDS:
            return
        try:
            config = self._config(cluster, credentials)
            if replace(config, warnings=()) == replace(session.config, warnings=()):
                # Labels or an unused key changed.
                session.state = SecretState(version=credentials.version)
                return
            client = await self._tried(cluster, config)
        except (CredentialsError, ConfigError, AuthenticationError, TlsError) as error:
            _log.warning("%s: new credentials cannot be used: %s", cluster.name, error)
            session.rejected_at = now
            session.state = replace(
                session.state, rejected_version=credentials.version, problem=error
            )
        except ClientError as error:
            # No broker answered, so the credentials are untested; the next reconciliation tries again.
            _log.warning("%s: new credentials could not be tried: %s", cluster.name, error)
        else:
            await session.client.close()
            session.client, session.config, session.refused_at = client, config, None
            session.state = SecretState(version=credentials.version)
            _log.info("%s: new credentials are in use", cluster.name)

    async def _tried(self, cluster: QuotaCluster, config: ClientConfig) -> QuotaClient:
        """Return a client that got a response with this configuration."""
        client = self._client(cluster, config)
        try:
            _ = await client.cluster(timeout=TRIAL_SECONDS)
        except BaseException:
            await client.close()
            raise
        return client

    async def _unless_refused(self, cluster: QuotaCluster, session: _ClientSession) -> QuotaClient:
        """Return the client, unless its login was refused recently; later a new client tries the same credentials.

        Raises:
            AuthenticationError: It was refused recently.
        """
        refusal = session.client.login_error
        if refusal is None:
            session.refused_at = None
            return session.client
        now = self._clock.monotonic()
        if session.refused_at is None:
            session.refused_at = now
        if now - session.refused_at < REFUSED_AGAIN_SECONDS:
            raise refusal
        await self._reconnect(cluster, session)
        return session.client

    async def _reconnect(self, cluster: QuotaCluster, session: _ClientSession) -> None:
        """Replace the client of a session by a new one with the same credentials."""
        await session.client.close()
        session.client = self._client(cluster, session.config)
        session.refused_at = None

    def _config(self, cluster: QuotaCluster, credentials: Credentials) -> ClientConfig:
        config = client_config(
            cluster, credentials, allow_references=self._settings.allow_references
        )
        for warning in config.warnings:
            _log.warning("%s: %s", cluster.name, warning)
        return config

    def _client(self, cluster: QuotaCluster, config: ClientConfig) -> QuotaClient:
        metrics = self._metrics
        if metrics is None:
            return QuotaClient(config, clock=self._clock)
        events = ClientEvents(
            response=lambda response: metrics.kafka(cluster.name, response.api, response.seconds)
        )
        return QuotaClient(config, events=events, clock=self._clock)

    async def _credentials(self, cluster: QuotaCluster) -> Credentials:
        if cluster.secret_name is None:
            return NONE
        namespace = self._settings.operator_namespace
        try:
            secret = await self._api.get(SECRETS, namespace, cluster.secret_name)
        except NotFound:
            raise CredentialsError(
                f"there is no Secret {namespace}/{cluster.secret_name}",
                hint="create it in the operator's own namespace; Secrets elsewhere are not read",
            ) from None
        return granted_credentials(secret, cluster.name)
