"""One connection of the sandbox: reads and answers one request at a time, like a broker's processor.

A request that cannot be parsed, an API that the profile does not offer and a version out of range close the
connection without a response; only ApiVersions is answered in any version (KIP-511).
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from msgspec import Struct

from reconciler.errors import ProtocolError
from reconciler.quota.precedence import ANONYMOUS
from reconciler.sandbox.cluster import SandboxBroker, SandboxCluster
from reconciler.sandbox.faults import (
    CutAfter,
    CutBefore,
    Delay,
    Effect,
    Faults,
    Hold,
    Slow,
    Throttle,
    Truncate,
    WrongCorrelation,
)
from reconciler.sandbox.request import NeverAnswered, SandboxRequest
from reconciler.sandbox.responses.cluster_info import (
    api_versions_answer,
    api_versions_out_of_turn,
    describe_cluster_answer,
    metadata_answer,
    scram_users_answer,
)
from reconciler.sandbox.responses.configs import describe_configs_answer
from reconciler.sandbox.responses.quotas import alter_answer, describe_answer
from reconciler.sandbox.sasl_session import (
    SaslReply,
    SaslSession,
    SaslStage,
    refused_authenticate,
    refused_handshake,
)
from reconciler.sandbox.settings import Listener
from reconciler.wire import frames
from reconciler.wire.apis import (
    ALTER_CLIENT_QUOTAS,
    API_VERSIONS,
    BY_KEY,
    DESCRIBE_CLIENT_QUOTAS,
    DESCRIBE_CLUSTER,
    DESCRIBE_CONFIGS,
    DESCRIBE_USER_SCRAM_CREDENTIALS,
    METADATA,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
)
from reconciler.wire.frames import RequestHeader

_SHORT: Final = {
    "commonName": "CN",
    "countryName": "C",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}
"""Keywords of RFC 2253 by OpenSSL's long names; Java writes other attributes by their OIDs."""

_SPECIAL: Final = frozenset(',+"\\<>;=')


def distinguished_name(subject: Sequence[Sequence[tuple[str, Any]]]) -> str:
    """Return the subject of ``SSLSocket.getpeercert``, most specific part first, as ``CN=alice,O=Acme``."""
    return ",".join(
        "+".join(f"{_SHORT.get(kind, kind)}={_escape(str(value))}" for kind, value in part)
        for part in reversed(subject)
    )


def _escape(value: str) -> str:
    text = "".join(f"\\{char}" if char in _SPECIAL else char for char in value)
    if text.startswith(("#", " ")):
        text = f"\\{text}"
    return f"{text[:-1]}\\ " if text.endswith(" ") and len(text) > 1 else text


MAX_REQUEST: Final = 100 * 1024 * 1024
"""``socket.request.max.bytes``: a larger request closes the connection."""

MAX_BEFORE_AUTHENTICATION: Final = 524_288
"""``sasl.server.max.receive.size``."""

_ANSWERS: Final[dict[int, Callable[[SandboxRequest], bytes]]] = {
    METADATA.key: metadata_answer,
    API_VERSIONS.key: api_versions_answer,
    DESCRIBE_CONFIGS.key: describe_configs_answer,
    DESCRIBE_CLIENT_QUOTAS.key: describe_answer,
    DESCRIBE_USER_SCRAM_CREDENTIALS.key: scram_users_answer,
    DESCRIBE_CLUSTER.key: describe_cluster_answer,
}
_SLOW_ANSWERS: Final[dict[int, Callable[[SandboxRequest], Awaitable[bytes]]]] = {
    ALTER_CLIENT_QUOTAS.key: alter_answer
}


class _ConnectionClosed(Exception):
    """The broker closes the connection now."""


class ServerConnection(Struct, kw_only=True):
    """A client's connection to one listener of one broker."""

    cluster: SandboxCluster
    broker: SandboxBroker
    listener: Listener
    faults: Faults
    clock: Callable[[], float]
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def serve(self) -> None:
        """Answer requests until either side closes."""
        settings = self.cluster.settings
        session = None
        if self.listener.protocol.uses_sasl:
            session = SaslSession(
                mechanisms=self.listener.mechanisms,
                users=settings.users,
                lifetime=settings.session_lifetime,
                clock=self.clock,
            )
        with contextlib.suppress(
            _ConnectionClosed, ProtocolError, ConnectionError, asyncio.IncompleteReadError
        ):
            while True:
                await self._serve_request(await self._read_frame(session), session)

    async def _read_frame(self, session: SaslSession | None) -> bytes:
        unknown = session is not None and session.stage is not SaslStage.KNOWN
        head = await self.reader.readexactly(frames.LENGTH_BYTES)
        limit = MAX_BEFORE_AUTHENTICATION if unknown else MAX_REQUEST
        return await self.reader.readexactly(frames.frame_size(head, limit=limit))

    async def _serve_request(self, frame: bytes, session: SaslSession | None) -> None:
        header, body = frames.decode_request(frame)
        effects = self.faults.effects_for(header.api_key, self.broker.node)
        for effect in effects:
            if isinstance(effect, Delay):
                await asyncio.sleep(effect.seconds)
            if isinstance(effect, Hold) and not effect.executed:
                _ = await effect.until.wait()
        if any(isinstance(effect, CutBefore) for effect in effects):
            raise _ConnectionClosed
        if session is not None:
            reply = await self._reply_with_sasl(header, body, session, effects)
        else:
            reply = await self._reply(header, body, self._certificate_principal(), effects)
        await self._send(header, reply.body, effects)
        if reply.closes:
            raise _ConnectionClosed

    async def _reply_with_sasl(
        self, header: RequestHeader, body: bytes, session: SaslSession, effects: tuple[Effect, ...]
    ) -> SaslReply:
        """Handle a request on a SASL listener, depending on the stage of authentication."""
        self._check_version(header)
        if session.expired and header.api_key != SASL_HANDSHAKE.key:
            raise _ConnectionClosed
        if header.api_key == SASL_HANDSHAKE.key:
            return session.handshake(header.api_version, body)
        if header.api_key == SASL_AUTHENTICATE.key:
            reply = session.authenticate(header.api_version, body)
            if reply is None:
                raise _ConnectionClosed
            if reply.wrong:
                await asyncio.sleep(self.cluster.settings.failed_authentication_delay)
            return reply
        if session.stage is SaslStage.KNOWN:
            return await self._reply(header, body, session.principal, effects)
        if header.api_key != API_VERSIONS.key or session.stage is SaslStage.GREETED:
            raise _ConnectionClosed
        if session.stage is SaslStage.CHOSEN:
            return SaslReply(body=api_versions_out_of_turn(header.api_version), closes=True)
        lowest, highest = self._offered_versions(API_VERSIONS.key)
        if lowest <= header.api_version <= highest:
            session.stage = SaslStage.GREETED
        return await self._reply(header, body, ANONYMOUS, effects)

    async def _reply(
        self, header: RequestHeader, body: bytes, principal: str, effects: tuple[Effect, ...]
    ) -> SaslReply:
        self._check_version(header)
        key, version = header.api_key, header.api_version
        if key == SASL_HANDSHAKE.key:
            return SaslReply(body=refused_handshake(version))
        if key == SASL_AUTHENTICATE.key:
            return SaslReply(body=refused_authenticate(version))
        call = SandboxRequest(
            cluster=self.cluster,
            broker=self.broker,
            listener=self.listener.name,
            principal=principal,
            version=version,
            body=body,
            effects=effects,
        )
        try:
            if key in _SLOW_ANSWERS:
                return SaslReply(body=await _SLOW_ANSWERS[key](call))
            return SaslReply(body=_ANSWERS[key](call))
        except NeverAnswered:
            while await self.reader.read(65_536):
                pass  # further input is ignored
            raise _ConnectionClosed from None

    def _check_version(self, header: RequestHeader) -> None:
        """Close the connection if the profile does not offer the API or version."""
        lowest, highest = self._offered_versions(header.api_key)
        if header.api_key != API_VERSIONS.key and not lowest <= header.api_version <= highest:
            raise _ConnectionClosed

    def _offered_versions(self, key: int) -> tuple[int, int]:
        offered = self.cluster.settings.profile.versions.get(key)
        if offered is None:
            raise _ConnectionClosed
        return offered

    def _certificate_principal(self) -> str:
        """Return the principal of the client's certificate, if it sent one."""
        certificate = self.writer.get_extra_info("peercert")
        return distinguished_name(certificate["subject"]) if certificate else ANONYMOUS

    async def _send(self, header: RequestHeader, body: bytes, effects: tuple[Effect, ...]) -> None:
        correlation_id = header.correlation_id
        for effect in effects:
            if isinstance(effect, WrongCorrelation):
                correlation_id = (correlation_id + effect.by) & 0x7FFF_FFFF
        api = BY_KEY[header.api_key]
        version = header.api_version
        frame = frames.encode_response(api, version, correlation_id=correlation_id, body=body)
        if any(isinstance(effect, CutAfter) for effect in effects):
            raise _ConnectionClosed
        for effect in effects:
            if isinstance(effect, Hold) and effect.executed:
                _ = await effect.until.wait()
            if isinstance(effect, Truncate):
                self.writer.write(frame[: effect.keep])
                await self.writer.drain()
                raise _ConnectionClosed
            if isinstance(effect, Slow):
                frame = await self._drip(frame, effect)
        self.writer.write(frame)
        await self.writer.drain()
        for effect in effects:
            if isinstance(effect, Throttle):
                await asyncio.sleep(effect.milliseconds / 1000)

    async def _drip(self, frame: bytes, slow: Slow) -> bytes:
        """Send all but the last piece, slowly; return the rest."""
        while len(frame) > slow.size:
            self.writer.write(frame[: slow.size])
            await self.writer.drain()
            frame = frame[slow.size :]
            await asyncio.sleep(slow.seconds)
        return frame
