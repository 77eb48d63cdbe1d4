"""One session over one transport: negotiates, logs in, pipelines requests, passes each caller its response.

The protocol's rules are in ``wire.session``; this module has time, threads and callers. Cancelling a caller abandons
its slot and keeps the connection open; a request that times out closes it, because responses come in order
and no later one can be expected.
"""

import asyncio
import random
from typing import Final, TypeVar

import reconciler
from reconciler.base.protocols import Clock
from reconciler.client.client_config import ClientConfig
from reconciler.client.events import (
    Authenticated,
    ClientEvents,
    Disconnected,
    RequestSent,
    ResponseReceived,
    Throttled,
    emit,
)
from reconciler.client.network.login import Login
from reconciler.client.network.requests import ClientRequest, RequestFailed, add_node
from reconciler.client.network.transport import Transport
from reconciler.errors import (
    AuthenticationError,
    ClientError,
    ConnectError,
    ProtocolError,
    RequestTimeout,
    UnsupportedVersion,
)
from reconciler.wire import session_events as sessions
from reconciler.wire.handshake import ListenerHint
from reconciler.wire.messages.api_versions import OfferedVersions
from reconciler.wire.sasl import DeferredStep
from reconciler.wire.session import BrokerSession
from reconciler.wire.session_events import ReplyReceived, SessionState

Answer = TypeVar("Answer")

SOFTWARE: Final = "kafka-quota-reconciler"
OFF_LOOP_BYTES: Final = 1_000_000
"""Larger responses are decoded in a thread: 1 MB takes about 10 ms."""


class Connection:
    """An open connection, created by :func:`~reconciler.client.network.connector.connect`."""

    def __init__(
        self, config: ClientConfig, *, login: Login, events: ClientEvents, clock: Clock
    ) -> None:
        self.address = config.bootstrap[0]  # the dialed address
        # Id of the broker that advertises this address, once a Metadata response has it.
        self.node_id: int | None = None
        self._config = config
        self._login = login
        self._events = events
        self._clock = clock
        self._transport: Transport | None = None
        self._session = BrokerSession(
            client_id=config.client_id,
            software_name=SOFTWARE,
            software_version=reconciler.__version__,
            uses_sasl=login.is_needed,
            limit=config.frame_limit,
        )
        self._replies: dict[int, asyncio.Future[ReplyReceived]] = {}
        self._sent_at: dict[int, float] = {}
        self._changed = asyncio.Event()  # replaced with each change
        self._error: ClientError | None = None
        self._used = clock.monotonic()
        self._login_task: asyncio.Task[None] | None = None
        self._steps: set[asyncio.Task[None]] = set()
        self.scrubbed = login.scrubbed

    # ---- state ------------------------------------------------------------------------------

    @property
    def node(self) -> str:
        """``host:port``."""
        return str(self.address)

    @property
    def offered(self) -> OfferedVersions:
        """The versions that the broker offers."""
        return self._session.offered or OfferedVersions(ranges={})

    @property
    def is_open(self) -> bool:
        """Whether requests can be sent."""
        return self._error is None

    @property
    def is_fresh(self) -> bool:
        """Whether it was used recently and its login has not expired."""
        now = self._clock.monotonic()
        ends = self._session.expires_at
        return now - self._used < self._config.idle_seconds and (ends is None or now < ends)

    async def ask(self, ask: ClientRequest[Answer], *, seconds: float) -> Answer:
        """Send one request and return the decoded response.

        Args:
            seconds: Timeout, the wait for a free slot included.

        Raises:
            RequestFailed: No usable response was received; ``written`` is whether a byte may have been sent.
            UnsupportedVersion: This broker does not offer the API.
        """
        correlation_id: int | None = None
        try:
            async with asyncio.timeout(seconds):
                await self._turn(seconds)
                correlation_id = self._send(ask, self._session.version(ask.api))
                reply = await self._replies[correlation_id]
        except TimeoutError:
            raise self._timeout_error(ask, correlation_id, seconds) from None
        except UnsupportedVersion as error:
            raise add_node(error, self.node, self.scrubbed) from None
        except asyncio.CancelledError:
            self._abandon(correlation_id)
            raise
        return await self._decode(ask, reply)

    async def close(self, reason: str = "") -> None:
        """Close the connection; requests in flight fail. Without a reason it is just not needed any more."""
        if self._error is None:
            error = ConnectError(reason or "closed by this client", node=self.node)
            self._end(self._session.close(error), reason=reason)
        tasks = [*self._steps, *([] if self._login_task is None else [self._login_task])]
        tasks = [task for task in tasks if task is not asyncio.current_task()]
        for task in tasks:
            _ = task.cancel()
        _ = await asyncio.gather(*tasks, return_exceptions=True)

    # ---- setting up -------------------------------------------------------------------------

    async def begin(self, transport: Transport) -> None:
        """Negotiate and log in.

        Raises:
            RequestFailed: The peer closed the connection or violated the protocol.
            AuthenticationError: The broker refused the credentials.
        """
        self._transport = transport
        self._session.start()
        self._flush()
        await self._until(SessionState.HANDSHAKE, SessionState.READY)
        if self._session.state is SessionState.HANDSHAKE:
            stepper = await self._login.stepper()
            self._session.authenticate(stepper, fraction=_fraction())
            self._flush()
            await self._until(SessionState.READY)

    async def _until(self, *states: SessionState) -> None:
        while self._session.state not in states:
            self._check()
            await self._changed.wait()
        self._check()

    # ---- a turn, a request, an answer -------------------------------------------------------

    async def _turn(self, seconds: float) -> None:
        """Wait until a request may be sent."""
        until = self._clock.monotonic() + seconds
        while True:
            self._check()
            now = self._clock.monotonic()
            due = self._session.reauthenticate_at
            if due is not None and now >= due and self._session.state is SessionState.READY:
                await self._authenticate_again()
            elif self._session.can_send(now):
                return
            elif self._session.state is SessionState.READY and now < self._session.not_before:
                wait = self._session.not_before - now
                if self._session.not_before >= until:
                    raise RequestFailed(self._throttle_error(wait), is_written=False)
                await self._clock.sleep(wait)
            else:
                await self._changed.wait()

    async def _authenticate_again(self) -> None:
        """Re-authenticate on this connection; one task does it for all waiting requests."""
        if self._login_task is None or self._login_task.done():
            self._login_task = asyncio.get_running_loop().create_task(self._log_in_again())
        await asyncio.shield(self._login_task)

    async def _log_in_again(self) -> None:
        try:
            stepper = await self._login.stepper()
            self._check()
            self._session.reauthenticate(stepper, fraction=_fraction())
            self._flush()
            async with asyncio.timeout(self._config.request_seconds):
                await self._until(SessionState.READY)
        except RequestFailed:
            return  # the waiting caller gets the same error
        except (TimeoutError, ClientError) as error:
            cause = (
                f"failed: {error.message}" if isinstance(error, ClientError) else "got no answer"
            )
            failure = ConnectError(f"re-authentication {cause}", node=self.node)
            self._end(self._session.close(failure))

    def _send(self, ask: ClientRequest[Answer], version: int) -> int:
        body = ask.encode(version)
        now = self._clock.monotonic()
        number = self._session.send(ask.api, version, body, now=now)
        self._replies[number] = asyncio.get_running_loop().create_future()
        self._sent_at[number] = self._used = now
        self._flush()
        emit(
            self._events.request,
            RequestSent(node=self.node, api=ask.api.name, version=version, bytes=len(body)),
        )
        return number

    async def _decode(self, ask: ClientRequest[Answer], reply: ReplyReceived) -> Answer:
        try:
            if len(reply.body) > OFF_LOOP_BYTES:
                return await asyncio.to_thread(ask.decode, reply.version, reply.body)
            return ask.decode(reply.version, reply.body)
        except ProtocolError as error:
            error.api = ask.api.name
            self._end(self._session.close(error))
            raise RequestFailed(
                add_node(error, self.node, self.scrubbed), is_written=True
            ) from None

    def _timeout_error(
        self, ask: ClientRequest[Answer], correlation_id: int | None, seconds: float
    ) -> RequestFailed:
        error = RequestTimeout(
            f"{self.node} did not answer {ask.api.name} within {seconds:.1f} s",
            phase="request",
            node=self.node,
            api=ask.api.name,
            hint="raise request.timeout.ms if the broker is only slow",
        )
        if correlation_id is not None:
            self._abandon(correlation_id)
            self._end(self._session.close(error))
        return RequestFailed(error, is_written=correlation_id is not None)

    def _throttle_error(self, wait: float) -> RequestTimeout:
        return RequestTimeout(
            f"{self.node} throttles this client for another {wait:.1f} s, longer than the deadline",
            phase="throttled",
            node=self.node,
            hint="a quota throttles this client: see request_percentage of its user and client-id",
        )

    def _abandon(self, correlation_id: int | None) -> None:
        if correlation_id is not None:
            _ = self._replies.pop(correlation_id, None)
            _ = self._sent_at.pop(correlation_id, None)
            self._session.abandon(correlation_id)

    def _check(self) -> None:
        if self._error is not None:
            raise RequestFailed(self._error, is_written=False)

    # ---- TransportReceiver ------------------------------------------------------------------

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the buffer for the next bytes."""
        del sizehint  # the session has the frame's size
        return self._session.get_buffer()

    def buffer_updated(self, count: int) -> None:
        """Process ``count`` bytes that were written into the last buffer."""
        if self._session.state is SessionState.CLOSED:
            return
        for event in self._session.buffer_updated(count, now=self._clock.monotonic()):
            self._take(event)
        self._flush()
        self._wake()

    def transport_lost(self, error: ClientError) -> None:
        """End the session after the transport was lost."""
        if self._error is not None:
            return
        closed = self._session.end_of_stream()
        transport = self._transport
        if self._config.tls is not None and transport is not None and not transport.received:
            # TLS 1.3 reports a refused certificate only after the handshake, if at all.
            error.hint = error.hint or ListenerHint.NO_ANSWER_OVER_TLS
        error.hint = error.hint or closed.error.hint
        self._end(sessions.SessionClosed(error=error, unanswered=closed.unanswered))

    def _take(self, event: sessions.Event) -> None:
        match event:
            case ReplyReceived():
                self._answer(event)
            case sessions.SessionClosed(error=AuthenticationError() as error) if (
                self._login_task is not None
            ):
                # A failed re-authentication is not final: only a new login decides.
                error_cause = ConnectError(f"re-authentication failed: {error.message}")
                self._end(sessions.SessionClosed(error=error_cause, unanswered=event.unanswered))
            case sessions.SessionClosed():
                self._end(event)
            case sessions.SessionAuthenticated(lifetime_ms=lifetime):
                login_event = Authenticated(
                    node=self.node,
                    mechanism=self._config.sasl.mechanism if self._config.sasl else "",
                    lifetime=lifetime / 1000,
                    again=self._login_task is not None,
                )
                emit(self._events.authenticated, login_event)
            case sessions.WorkNeeded(work=work):
                task = asyncio.get_running_loop().create_task(self._work(work))
                self._steps.add(task)
                task.add_done_callback(self._steps.discard)
            case sessions.Negotiated():
                pass

    async def _work(self, work: DeferredStep) -> None:
        """Compute a token in a thread, because PBKDF2 takes long."""
        token = await asyncio.to_thread(work.run)
        if self._error is None:
            self._session.resume(token)
            self._flush()

    def _answer(self, reply: ReplyReceived) -> None:
        now = self._clock.monotonic()
        self._used = now
        waiting = self._replies.pop(reply.correlation_id, None)
        event = ResponseReceived(
            node=self.node,
            api=reply.api.name,
            seconds=now - self._sent_at.pop(reply.correlation_id, now),
            bytes=len(reply.body),
        )
        emit(self._events.response, event)
        if reply.throttle_time_ms > 0:
            throttle_event = Throttled(
                node=self.node, api=reply.api.name, seconds=reply.throttle_time_ms / 1000
            )
            emit(self._events.throttled, throttle_event)
        if waiting is not None and not waiting.done():
            waiting.set_result(reply)

    def _end(self, closed: sessions.SessionClosed, *, reason: str | None = None) -> None:
        """End the connection with its first error; every caller whose request was sent gets it."""
        if self._error is not None:
            return
        self._error = add_node(closed.error, self.node, self.scrubbed)
        for number in list(self._replies):
            waiting = self._replies.pop(number)
            if not waiting.done():
                waiting.set_exception(RequestFailed(self._error, is_written=True))
                _ = waiting.exception()  # retrieved here: the caller may be cancelled
        self._sent_at.clear()
        if self._transport is not None:
            self._transport.close()
            message = self._error.message if reason is None else reason
            emit(self._events.disconnected, Disconnected(node=self.node, reason=message))
        self._wake()

    def _flush(self) -> None:
        outgoing = self._session.bytes_to_send()
        if outgoing and self._transport is not None:
            self._transport.write(outgoing)

    def _wake(self) -> None:
        """Wake all tasks that wait for a change."""
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


def _fraction() -> float:
    """Return 85 to 95 % of the session's life, as in Java, so that clients do not re-authenticate all at once."""
    return random.uniform(0.85, 0.95)  # noqa: S311 - spread, not secrecy
