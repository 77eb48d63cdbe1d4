"""The state machine of one broker connection, without I/O: bytes in, events and bytes out. Time is an argument.

The states and their transitions::

    CONNECTING --start()--> API_VERSIONS --answer--> HANDSHAKE --authenticate()--> AUTHENTICATING --> READY
                                 |                   (waits for a mechanism)                        ^   |
                                 '--answer, without SASL--------------------------------------------'   |
                                                                                  reauthenticate()      |
                            READY <-- REAUTHENTICATING (drains, then handshake and tokens) <------------'
    every state --fault, end of stream, close()--> CLOSED

Invariants: responses arrive in the order of requests (a broker handles one request per connection at a time), so a
wrong correlation id makes all later data unusable; a broker that throttles does not read from this connection for a
while, so nothing is sent to it meanwhile (KIP-219); a session that may expire is re-authenticated on the same
connection, with no other request in flight (KIP-368). A caller that no longer needs a response abandons its slot: the
response still arrives in order, and is dropped.

Tokens are not stored; no ``repr`` and no error shows one.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final, TypeAlias

from msgspec import Struct

from reconciler.errors import ClientError, ConnectError, FrameTooLarge, ProtocolError
from reconciler.wire import frames, handshake
from reconciler.wire.apis import API_VERSIONS, SASL_AUTHENTICATE, SASL_HANDSHAKE, KafkaApi
from reconciler.wire.frames import DEFAULT_LIMIT, FrameBuffer
from reconciler.wire.messages import api_versions, sasl_authenticate, sasl_handshake
from reconciler.wire.messages.api_versions import OfferedVersions, choose, read_offered
from reconciler.wire.primitives import WireReader
from reconciler.wire.sasl import DeferredStep, Mechanism
from reconciler.wire.session_events import (
    Event,
    Negotiated,
    ReplyReceived,
    SessionAuthenticated,
    SessionClosed,
    SessionState,
    WorkNeeded,
)

MAX_IN_FLIGHT: Final = 5
"""Maximum requests in flight; more would only wait in the broker's socket buffer."""

FIRST_ASKED: Final = 3
"""First requested version of ApiVersions; Kafka 2.4 has it. A higher one costs a round trip where it is refused."""

_MAX_CORRELATION_ID: Final = 2**31 - 1

_Then: TypeAlias = Callable[[bytes, int, float], list[Event]]
"""Handles the response to a request of the session itself: body, version, time."""


class _PendingRequest(Struct, frozen=True, kw_only=True):
    """A request in flight; ``then`` is set for requests of the session itself."""

    correlation_id: int
    api: KafkaApi
    version: int
    then: _Then | None = None


# No I/O and no library of others in this package: docs/adr/protocol-codec.md.
class BrokerSession:
    """The client side of one connection.

    Data to send is collected in ``bytes_to_send``; check it after every call. Calls that are not allowed in
    the current state are errors of the caller and raise ``RuntimeError``.

    Attributes:
        offered: The versions that the broker offers; None before negotiation.
        not_before: Time before which nothing may be sent, because the broker throttles.
        reauthenticate_at: Time at which to call ``reauthenticate``, None for never.
        expires_at: Time at which the broker ends the session otherwise, None for never.
    """

    def __init__(
        self,
        *,
        client_id: str,
        software_name: str,
        software_version: str,
        uses_sasl: bool,
        limit: int = DEFAULT_LIMIT,
    ) -> None:
        """Create an unconnected session.

        Args:
            client_id: The client-id that brokers log and apply quotas to.
            software_name, software_version: See ``api_versions.ApiVersionsRequest``.
            uses_sasl: True if the listener authenticates by SASL.
            limit: Largest response accepted, in bytes; a lower limit of the API has priority.
        """
        self._client_id = client_id
        self._request = api_versions.ApiVersionsRequest(
            software_name=software_name, software_version=software_version
        )
        self._uses_sasl = uses_sasl
        self._limit = limit
        self._buffer = FrameBuffer(limit=frames.answer_limit(API_VERSIONS, limit))
        self._in_flight: deque[_PendingRequest] = deque()
        self._abandoned: set[int] = set()
        self._next_correlation_id = 0
        self._outgoing: list[bytes] = []
        self._has_received = False
        self._has_replied = False
        self._has_been_refused = False
        self._draining_for: Mechanism | None = None
        self._awaits_token: Mechanism | None = None
        self._fraction = 1.0
        self.state = SessionState.CONNECTING
        self.offered: OfferedVersions | None = None
        self.not_before = 0.0
        self.reauthenticate_at: float | None = None
        self.expires_at: float | None = None

    def __repr__(self) -> str:
        return f"Session({self.state.value}, {len(self._in_flight)} in flight)"

    # ---- state for the caller ---------------------------------------------------------------

    @property
    def is_closed(self) -> bool:
        """Whether the session has ended."""
        return self.state is SessionState.CLOSED

    def version(self, api: KafkaApi) -> int:
        """Return the version of ``api`` to use on this connection.

        Raises:
            UnsupportedVersion: Client and broker share none.
        """
        if self.offered is None:
            raise RuntimeError("the broker has not yet sent its API versions")
        return choose(api, self.offered)

    def can_send(self, now: float) -> bool:
        """Whether a request may be sent now: ready, not throttled, not too many in flight."""
        return (
            self.state is SessionState.READY
            and now >= self.not_before
            and len(self._in_flight) < MAX_IN_FLIGHT
        )

    def bytes_to_send(self) -> bytes:
        """Return all bytes to be written since the last call."""
        outgoing = b"".join(self._outgoing)
        self._outgoing.clear()
        return outgoing

    # ---- actions of the caller --------------------------------------------------------------

    def start(self) -> None:
        """Request the broker's API versions, once connected."""
        self._expect(SessionState.CONNECTING)
        self.state = SessionState.API_VERSIONS
        self._ask_versions(FIRST_ASKED)

    def authenticate(self, mechanism: Mechanism, *, fraction: float) -> None:
        """Start the SASL exchange.

        Args:
            fraction: When to re-authenticate, as a part of the session's lifetime; Java chooses it at random from 0.85
                to 0.95, so that clients do not re-authenticate all at once.
        """
        self._expect(SessionState.HANDSHAKE)
        self.state = SessionState.AUTHENTICATING
        self._fraction = fraction
        self._handshake(mechanism)

    def reauthenticate(self, mechanism: Mechanism, *, fraction: float) -> None:
        """Stop new requests, wait for pending responses, then authenticate again."""
        self._expect(SessionState.READY)
        self.state = SessionState.REAUTHENTICATING
        self._fraction = fraction
        if self._in_flight:
            self._draining_for = mechanism
        else:
            self._handshake(mechanism)

    def resume(self, token: bytes) -> None:
        """Send the token of a ``WorkNeeded`` event; ignored if the session is closed."""
        if self.is_closed:
            return
        mechanism, self._awaits_token = self._awaits_token, None
        if mechanism is None:
            raise RuntimeError("no token is awaited")
        self._send_token(mechanism, token)

    def send(self, api: KafkaApi, version: int, body: bytes, *, now: float) -> int:
        """Queue a request; its correlation id is returned in the ``ReplyReceived``."""
        if not self.can_send(now):
            raise RuntimeError("this session takes no request now; check can_send() first")
        return self._send(api, version, body)

    def abandon(self, correlation_id: int) -> None:
        """Drop the response to a request when it arrives; unknown and answered ids are ignored."""
        if any(slot.correlation_id == correlation_id for slot in self._in_flight):
            self._abandoned.add(correlation_id)

    def close(self, error: ClientError) -> SessionClosed:
        """End the session for ``error``; closing it again lists no unanswered requests."""
        self.state = SessionState.CLOSED
        unanswered = tuple(
            slot.correlation_id
            for slot in self._in_flight
            if slot.then is None and slot.correlation_id not in self._abandoned
        )
        self._in_flight.clear()
        self._outgoing.clear()
        self._draining_for = self._awaits_token = None
        self.reauthenticate_at = self.expires_at = None
        return SessionClosed(error=error, unanswered=unanswered)

    def end_of_stream(self) -> SessionClosed:
        """End the session because the peer closed the connection, with a hint at the cause."""
        hint = handshake.hang_up_hint(
            self.state,
            has_received=self._has_received,
            expects_sasl=self._uses_sasl or self._has_replied,
        )
        return self.close(
            ConnectError(f"the broker closed the connection while {self.state.value}", hint=hint)
        )

    # ---- received bytes ---------------------------------------------------------------------

    def get_buffer(self) -> memoryview:
        """Return the buffer for the next bytes from the peer; never empty."""
        return self._buffer.get_buffer()

    def buffer_updated(self, count: int, *, now: float) -> list[Event]:
        """Return the events of ``count`` more bytes; a ``SessionClosed`` is always the last event."""
        return [] if self.is_closed else self._take(self._buffer.buffer_updated(count), now)

    def feed(self, stream: bytes, *, now: float) -> list[Event]:
        """Return the events of ``stream``, for callers without a buffered protocol."""
        return [] if self.is_closed else self._take(self._buffer.feed(stream), now)

    def _take(self, complete: list[bytes | bytearray], now: float) -> list[Event]:
        events: list[Event] = []
        for frame in complete:
            events += self._answer(frame, now)
            if events and isinstance(events[-1], SessionClosed):
                return events
        failure = self._buffer.failure
        if failure is not None:
            if isinstance(failure, FrameTooLarge) and not failure.hint:
                failure.hint = frames.size_hint(failure.limit, self._limit)
            events.append(self.close(failure))
        return events

    def _answer(self, frame: bytes | bytearray, now: float) -> list[Event]:
        """Return the events of one frame; an error in it ends the session."""
        self._has_received = True
        if not self._in_flight:
            return [self.close(ProtocolError("the peer sent an answer without a request"))]
        slot = self._in_flight[0]
        try:
            frames.check_answer(slot.api, frame, limit=self._limit)
            body, throttle_time_ms = self._open(slot, frame, now)
            _ = self._in_flight.popleft()
            self._limit_frames()
            if slot.then is not None:
                return slot.then(body, slot.version, now)
        except ClientError as error:
            error.api = error.api or slot.api.name
            return [self.close(error)]
        self._has_replied = True
        if self._draining_for is not None and not self._in_flight:
            mechanism, self._draining_for = self._draining_for, None
            self._handshake(mechanism)
        if slot.correlation_id in self._abandoned:
            self._abandoned.remove(slot.correlation_id)
            return []
        return [ReplyReceived(slot.correlation_id, slot.api, slot.version, body, throttle_time_ms)]

    def _limit_frames(self) -> None:
        """Set the limit of the next frame to that of the largest pending response."""
        due = (API_VERSIONS, *(slot.api for slot in self._in_flight))
        self._buffer.limit = max(frames.answer_limit(api, self._limit) for api in due)

    def _open(
        self, slot: _PendingRequest, frame: bytes | bytearray, now: float
    ) -> tuple[bytes, int]:
        """Return body and throttle time of the response to ``slot``."""
        correlation_id = frames.correlation_id_of(frame)
        if correlation_id != slot.correlation_id:
            raise ProtocolError(
                f"expected the response to {slot.correlation_id}, received one to {correlation_id}"
            )
        body = frames.response_body(slot.api, slot.version, frame)
        if not slot.api.begins_with_throttle(slot.version):
            return body, 0
        return body, self._throttle(WireReader(body, flexible=False).int32(), now)

    def _throttle(self, throttle_time_ms: int, now: float) -> int:
        """Record a throttle time; a negative one counts as none."""
        if throttle_time_ms > 0:
            self.not_before = max(self.not_before, now + throttle_time_ms / 1000)
        return max(0, throttle_time_ms)

    # ---- the way to READY: `then` of the session's own requests --------------------------------

    def _negotiate(self, body: bytes, version: int, now: float) -> list[Event]:
        answer = api_versions.decode_response(version, body)
        lower = handshake.lower_version(
            answer, requested_version=version, is_retry=self._has_been_refused
        )
        if lower is not None:
            self._has_been_refused = True
            self._ask_versions(lower)
            return []
        self.offered = read_offered(answer)
        _ = self._throttle(answer.throttle_time_ms, now)
        if self._uses_sasl:
            self.state = SessionState.HANDSHAKE
        else:
            self.state = SessionState.READY
        return [Negotiated(offered=self.offered)]

    def _begin_exchange(
        self, mechanism: Mechanism, body: bytes, version: int, _now: float
    ) -> list[Event]:
        handshake.check_handshake(sasl_handshake.decode_response(version, body), mechanism)
        self._send_token(mechanism, mechanism.start())
        return []

    def _continue_exchange(
        self, mechanism: Mechanism, body: bytes, version: int, now: float
    ) -> list[Event]:
        answer = sasl_authenticate.decode_response(version, body)
        token = handshake.next_token(answer, mechanism)
        if isinstance(token, DeferredStep):
            self._awaits_token = mechanism
            return [WorkNeeded(work=token)]
        if token is not None:
            self._send_token(mechanism, token)
            return []
        self.reauthenticate_at, self.expires_at = handshake.renewal(
            answer.session_lifetime_ms, fraction=self._fraction, now=now
        )
        self.state = SessionState.READY
        return [SessionAuthenticated(lifetime_ms=answer.session_lifetime_ms)]

    # ---- sending ----------------------------------------------------------------------------

    def _expect(self, state: SessionState) -> None:
        if self.state is not state:
            raise RuntimeError(
                f"this needs a session that is {state.value}, not {self.state.value}"
            )

    def _ask_versions(self, version: int) -> None:
        body = api_versions.encode_request(version, self._request)
        _ = self._send(API_VERSIONS, version, body, then=self._negotiate)

    def _handshake(self, mechanism: Mechanism) -> None:
        version = self.version(SASL_HANDSHAKE)
        body = sasl_handshake.encode_request(
            version, sasl_handshake.SaslHandshakeRequest(mechanism=mechanism.name)
        )
        then = partial(self._begin_exchange, mechanism)
        _ = self._send(SASL_HANDSHAKE, version, body, then=then)

    def _send_token(self, mechanism: Mechanism, token: bytes) -> None:
        version = self.version(SASL_AUTHENTICATE)
        body = sasl_authenticate.encode_request(
            version, sasl_authenticate.SaslAuthenticateRequest(token=token)
        )
        then = partial(self._continue_exchange, mechanism)
        _ = self._send(SASL_AUTHENTICATE, version, body, then=then)

    def _send(self, api: KafkaApi, version: int, body: bytes, *, then: _Then | None = None) -> int:
        correlation_id = self._next_correlation_id
        frame = frames.encode_request(
            api, version, correlation_id=correlation_id, client_id=self._client_id, body=body
        )
        self._next_correlation_id = (correlation_id + 1) & _MAX_CORRELATION_ID
        self._in_flight.append(
            _PendingRequest(correlation_id=correlation_id, api=api, version=version, then=then)
        )
        self._limit_frames()
        self._outgoing.append(frame)
        return correlation_id
