"""A scripted peer for session tests: reads the session's requests, and responds like a broker."""

from collections.abc import Sequence

from reconciler.wire import frames
from reconciler.wire.apis import (
    API_VERSIONS,
    APIS,
    BY_KEY,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    KafkaApi,
)
from reconciler.wire.frames import FrameBuffer
from reconciler.wire.messages import api_versions, sasl_authenticate, sasl_handshake
from reconciler.wire.messages.api_versions import ApiRange
from reconciler.wire.session import BrokerSession
from reconciler.wire.session_events import Event

EVERYTHING = api_versions.ApiVersionsResponse(
    error_code=0,
    apis=tuple(ApiRange(api_key=api.key, lowest=api.lowest, highest=api.highest) for api in APIS),
)


def new_session(*, uses_sasl: bool = False, limit: int = 100 * 1024 * 1024) -> BrokerSession:
    return BrokerSession(
        client_id="tests",
        software_name="kquota",
        software_version="1.0",
        uses_sasl=uses_sasl,
        limit=limit,
    )


def sent(session: BrokerSession) -> list[tuple[KafkaApi, int, int, bytes]]:
    """API, version, correlation id and body of every request that the session writes."""
    requests = []
    for frame in FrameBuffer().feed(session.bytes_to_send()):
        header, body = frames.decode_request(bytes(frame))
        assert header.client_id == "tests"
        api = BY_KEY[header.api_key]
        requests.append((api, header.api_version, header.correlation_id, body))
    return requests


def ready(*, now: float = 0.0, limit: int = 100 * 1024 * 1024) -> BrokerSession:
    """A session without SASL that is ready."""
    session = new_session(limit=limit)
    session.start()
    ((_, version, correlation_id, _),) = sent(session)
    session.feed(versions_answer(version, correlation_id), now=now)
    return session


def versions_answer(
    version: int, correlation_id: int, answer: api_versions.ApiVersionsResponse = EVERYTHING
) -> bytes:
    return frames.encode_response(
        API_VERSIONS,
        version,
        correlation_id=correlation_id,
        body=api_versions.encode_response(version, answer),
    )


def handshake_answer(correlation_id: int, code: int = 0, mechanisms: Sequence[str] = ()) -> bytes:
    body = sasl_handshake.encode_response(
        1, sasl_handshake.SaslHandshakeResponse(error_code=code, mechanisms=tuple(mechanisms))
    )
    return frames.encode_response(SASL_HANDSHAKE, 1, correlation_id=correlation_id, body=body)


def token_answer(correlation_id: int, answer: sasl_authenticate.SaslAuthenticateResponse) -> bytes:
    return frames.encode_response(
        SASL_AUTHENTICATE,
        2,
        correlation_id=correlation_id,
        body=sasl_authenticate.encode_response(2, answer),
    )


def feed(session: BrokerSession, stream: bytes, *, now: float = 0.0, piece: int = 0) -> list[Event]:
    """Events of ``stream``, received ``piece`` bytes at a time through the buffer; 0 is all at once."""
    events: list[Event] = []
    while stream:
        room = session.get_buffer()
        size = min(len(room), piece or len(stream), len(stream))
        room[:size] = stream[:size]
        events += session.buffer_updated(size, now=now)
        stream = stream[size:]
    return events
