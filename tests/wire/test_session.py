"""The connection's state machine, driven by byte strings and numbers for time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.errors import (
    AuthenticationError,
    BrokerError,
    ClientError,
    DecodeError,
    FrameTooLarge,
    ProtocolError,
    UnsupportedVersion,
)
from reconciler.wire import frames
from reconciler.wire.apis import (
    API_VERSIONS,
    CLUSTER_BYTES,
    DESCRIBE_CLIENT_QUOTAS,
    DESCRIBE_CLUSTER,
    GREETING_BYTES,
    METADATA,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
)
from reconciler.wire.messages import (
    api_versions,
    describe_client_quotas,
    describe_cluster,
    sasl_authenticate,
    sasl_handshake,
)
from reconciler.wire.sasl import DeferredStep
from reconciler.wire.sasl.oauthbearer import OAuthBearerClient
from reconciler.wire.sasl.plain import PlainClient
from reconciler.wire.sasl.scram import SHA_256, ScramClient, ScramServer, make_credential
from reconciler.wire.session import MAX_IN_FLIGHT, BrokerSession
from reconciler.wire.session_events import (
    Event,
    ReplyReceived,
    SessionAuthenticated,
    SessionClosed,
    SessionState,
    WorkNeeded,
)
from tests.wire import broker

PASSWORD = "correct horse"  # noqa: S105
PLAIN = PlainClient(user="alice", password=PASSWORD)


def cluster_answer(correlation_id: int, throttle_time_ms: int = 0) -> bytes:
    body = describe_cluster.encode_response(
        2,
        describe_cluster.DescribeClusterResponse(cluster_id="c", throttle_time_ms=throttle_time_ms),
    )
    return frames.encode_response(DESCRIBE_CLUSTER, 2, correlation_id=correlation_id, body=body)


def ask(session: BrokerSession, now: float = 0.0) -> int:
    version = session.version(DESCRIBE_CLUSTER)
    body = describe_cluster.encode_request(version, describe_cluster.DescribeClusterRequest())
    return session.send(DESCRIBE_CLUSTER, version, body, now=now)


def ask_for_quotas(session: BrokerSession) -> int:
    version = session.version(DESCRIBE_CLIENT_QUOTAS)
    return session.send(DESCRIBE_CLIENT_QUOTAS, version, b"", now=0.0)


def only(events: list[Event]) -> Event:
    (event,) = events
    return event


def closed(events: list[Event]) -> SessionClosed:
    event = only(events)
    assert isinstance(event, SessionClosed)
    return event


def authenticating(
    mechanism: object = PLAIN, *, fraction: float = 0.9
) -> tuple[BrokerSession, int]:
    """A session whose handshake is sent, and its correlation id."""
    session = broker.new_session(uses_sasl=True)
    session.start()
    ((_, version, correlation_id, _),) = broker.sent(session)
    session.feed(broker.versions_answer(version, correlation_id), now=0.0)
    session.authenticate(mechanism, fraction=fraction)
    ((api, version, correlation_id, body),) = broker.sent(session)
    assert (api, version) == (SASL_HANDSHAKE, 1)
    assert sasl_handshake.decode_request(1, body).mechanism == mechanism.name
    return session, correlation_id


def token_of(session: BrokerSession) -> tuple[int, bytes]:
    """Correlation id and token of the session's only SaslAuthenticate."""
    ((api, version, correlation_id, body),) = broker.sent(session)
    assert api is SASL_AUTHENTICATE
    return correlation_id, sasl_authenticate.decode_request(version, body).token


def authenticated(lifetime_ms: int, *, fraction: float = 0.9, now: float = 100.0) -> BrokerSession:
    session, correlation_id = authenticating(fraction=fraction)
    session.feed(broker.handshake_answer(correlation_id), now=now)
    correlation_id, _ = token_of(session)
    answer = sasl_authenticate.SaslAuthenticateResponse(session_lifetime_ms=lifetime_ms)
    event = only(session.feed(broker.token_answer(correlation_id, answer), now=now))
    assert event == SessionAuthenticated(lifetime_ms=lifetime_ms)
    return session


# ---- negotiation ----------------------------------------------------------------------------


@pytest.mark.parametrize("highest", [3, 2])
def test_a_second_rejection_is_final(highest: int) -> None:
    session = broker.new_session()
    session.start()
    refusal = api_versions.ApiVersionsResponse(
        error_code=35, apis=(api_versions.ApiRange(api_key=18, lowest=0, highest=highest),)
    )
    events = session.feed(broker.versions_answer(3, 0, refusal), now=0.0)
    events = events or session.feed(broker.versions_answer(2, 1, refusal), now=0.0)
    assert isinstance(closed(events).error, UnsupportedVersion)


def test_another_error_in_the_negotiation_is_a_broker_error() -> None:
    session = broker.new_session()
    session.start()
    answer = api_versions.ApiVersionsResponse(error_code=129, apis=())
    error = closed(session.feed(broker.versions_answer(3, 0, answer), now=0.0)).error
    assert isinstance(error, BrokerError)
    assert (error.code, error.api) == (129, "ApiVersions")
    assert "REBOOTSTRAP_REQUIRED (129)" in error.message


def test_an_unreadable_negotiation_ends_the_session() -> None:
    session = broker.new_session()
    session.start()
    frame = frames.encode_response(API_VERSIONS, 3, correlation_id=0, body=b"\x00\x00\x07")
    event = closed(session.feed(frame, now=0.0))
    assert isinstance(event.error, DecodeError)
    assert event.error.api == "ApiVersions"
    assert event.unanswered == ()


def test_versions_are_unknown_before_the_negotiation() -> None:
    with pytest.raises(RuntimeError, match="not yet sent"):
        broker.new_session().version(METADATA)


# ---- requests and replies -------------------------------------------------------------------


def test_at_most_five_requests_are_in_flight() -> None:
    session = broker.ready()
    for _ in range(MAX_IN_FLIGHT):
        ask(session)
    assert not session.can_send(0.0)
    with pytest.raises(RuntimeError, match="takes no request now"):
        ask(session)
    assert repr(session) == "Session(ready, 5 in flight)"


def test_the_response_to_an_abandoned_request_is_dropped_in_order() -> None:
    session = broker.ready()
    first, second = ask(session), ask(session)
    session.abandon(first)
    session.abandon(12345)
    assert len(session._in_flight) == 2
    events = session.feed(cluster_answer(first) + cluster_answer(second), now=0.0)
    reply = only(events)
    assert isinstance(reply, ReplyReceived)
    assert reply.correlation_id == second
    session.abandon(first)
    assert session.end_of_stream().unanswered == ()


def test_a_wrong_correlation_id_ends_the_session_and_all_requests() -> None:
    session = broker.ready()
    first, second, third = ask(session), ask(session), ask(session)
    session.abandon(second)
    event = closed(session.feed(cluster_answer(third), now=0.0))
    assert isinstance(event.error, ProtocolError)
    assert event.unanswered == (first, third)
    assert session.state is SessionState.CLOSED
    assert session.is_closed


def test_an_unrequested_response_ends_the_session() -> None:
    session = broker.ready()
    event = closed(session.feed(cluster_answer(9), now=0.0))
    assert "without a request" in event.error.message


def test_replies_before_an_error_are_returned_and_none_after_it() -> None:
    session = broker.ready()
    first, second = ask(session), ask(session)
    stream = cluster_answer(first) + b"\xff\xff\xff\xff" + cluster_answer(second)
    reply, end = session.feed(stream, now=0.0)
    assert isinstance(reply, ReplyReceived)
    assert isinstance(end, SessionClosed)
    assert (reply.correlation_id, end.unanswered) == (first, (second,))
    assert session.feed(cluster_answer(second), now=0.0) == []
    assert session.buffer_updated(4, now=0.0) == []


@pytest.mark.parametrize("piece", [0, 1, 7, 70_000])
def test_the_events_are_the_same_for_any_division_of_the_stream(piece: int) -> None:
    session = broker.ready()
    first = ask(session)
    entries = [((("user", f"u{n}"),), (("producer_byte_rate", 1.0),)) for n in range(1800)]
    second = session.send(DESCRIBE_CLIENT_QUOTAS, 1, b"", now=0.0)
    third = ask(session)
    body = describe_client_quotas.encode_response(1, entries=entries)
    large = frames.encode_response(DESCRIBE_CLIENT_QUOTAS, 1, correlation_id=second, body=body)
    assert len(large) > 65536
    stream = cluster_answer(first) + large + cluster_answer(third)
    events = broker.feed(session, stream, piece=piece)
    assert [event.correlation_id for event in events if isinstance(event, ReplyReceived)] == [
        first,
        second,
        third,
    ]
    assert isinstance(events[1], ReplyReceived)
    assert events[1].body == body
    assert repr(events[1]) == f"Reply(DescribeClientQuotas v1, {len(body)} bytes)"


@given(st.binary(max_size=200), st.integers(1, 50))
def test_random_bytes_raise_no_exception(noise: bytes, piece: int) -> None:
    session = broker.ready()
    ask(session)
    events = broker.feed(session, noise, piece=piece)
    assert all(isinstance(event, ReplyReceived | SessionClosed) for event in events)


# ---- throttling -----------------------------------------------------------------------------


def test_a_throttled_connection_sends_nothing_until_the_throttle_time_has_passed() -> None:
    session = broker.ready()
    reply = only(session.feed(cluster_answer(ask(session), 1500), now=10.0))
    assert isinstance(reply, ReplyReceived)
    assert reply.throttle_time_ms == 1500
    assert session.not_before == 11.5
    assert [session.can_send(now) for now in (10.0, 11.4, 11.5)] == [False, False, True]
    with pytest.raises(RuntimeError):
        ask(session, now=11.0)


# ---- authentication -------------------------------------------------------------------------


def test_scram_delegates_its_computation_and_accepts_the_result() -> None:
    credential = make_credential(SHA_256, password=PASSWORD, salt=b"salt", iterations=4096)
    server = ScramServer(SHA_256, lookup={"alice": credential}.get, nonce="server")
    client = ScramClient(SHA_256, user="alice", password=PASSWORD, nonce="client")
    session, correlation_id = authenticating(client)
    session.feed(broker.handshake_answer(correlation_id), now=0.0)
    correlation_id, token = token_of(session)
    first = sasl_authenticate.SaslAuthenticateResponse(token=server.receive(token))
    event = only(session.feed(broker.token_answer(correlation_id, first), now=0.0))
    assert isinstance(event, WorkNeeded)
    assert isinstance(event.work, DeferredStep)
    assert session.bytes_to_send() == b""
    session.resume(event.work.run())
    correlation_id, token = token_of(session)
    final = sasl_authenticate.SaslAuthenticateResponse(token=server.receive(token))
    assert session.feed(broker.token_answer(correlation_id, final), now=0.0) == [
        SessionAuthenticated(lifetime_ms=0)
    ]
    with pytest.raises(RuntimeError, match="no token is awaited"):
        session.resume(b"again")


def test_a_token_after_the_end_is_ignored() -> None:
    session, _ = authenticating()
    session.end_of_stream()
    session.resume(b"late")
    assert session.bytes_to_send() == b""


def test_a_rejected_bearer_token_is_acknowledged_and_its_reason_reported() -> None:
    session, correlation_id = authenticating(OAuthBearerClient(token="abc"))  # noqa: S106
    session.feed(broker.handshake_answer(correlation_id), now=0.0)
    correlation_id, token = token_of(session)
    assert token == b"n,,\x01auth=Bearer abc\x01\x01"
    challenge = sasl_authenticate.SaslAuthenticateResponse(token=b'{"status":"invalid_token"}')
    assert session.feed(broker.token_answer(correlation_id, challenge), now=0.0) == []
    correlation_id, token = token_of(session)
    assert token == b"\x01"
    refusal = sasl_authenticate.SaslAuthenticateResponse(error_code=58, error_message="no")
    error = closed(session.feed(broker.token_answer(correlation_id, refusal), now=0.0)).error
    assert isinstance(error, AuthenticationError)
    assert error.message == "OAUTHBEARER failed: no (invalid_token)"


def refusal_of(answer: sasl_authenticate.SaslAuthenticateResponse) -> ClientError:
    session, correlation_id = authenticating()
    session.feed(broker.handshake_answer(correlation_id), now=0.0)
    correlation_id, _ = token_of(session)
    return closed(session.feed(broker.token_answer(correlation_id, answer), now=0.0)).error


def test_a_wrong_password_is_reported_with_the_message_of_the_broker_and_final() -> None:
    error = refusal_of(
        sasl_authenticate.SaslAuthenticateResponse(
            error_code=58, error_message="Invalid username or password"
        )
    )
    assert isinstance(error, AuthenticationError)
    assert error.message == "PLAIN failed: Invalid username or password"
    assert not error.retriable


def test_an_error_unrelated_to_the_credentials_is_a_broker_error() -> None:
    error = refusal_of(sasl_authenticate.SaslAuthenticateResponse(error_code=-1))
    assert isinstance(error, BrokerError)
    assert not isinstance(error, AuthenticationError)


def test_a_listener_without_sasl_is_reported() -> None:
    session, correlation_id = authenticating()
    error = closed(session.feed(broker.handshake_answer(correlation_id, 34), now=0.0)).error
    assert isinstance(error, AuthenticationError)
    assert "does not use SASL" in error.message


def test_another_handshake_error_is_a_broker_error() -> None:
    session, correlation_id = authenticating()
    error = closed(session.feed(broker.handshake_answer(correlation_id, -1), now=0.0)).error
    assert isinstance(error, BrokerError)


def test_no_repr_contains_a_secret() -> None:
    session, correlation_id = authenticating()
    session.feed(broker.handshake_answer(correlation_id), now=0.0)
    assert PASSWORD not in repr(session) + repr(PLAIN)
    assert PASSWORD.encode() in session.bytes_to_send()
    assert PASSWORD not in repr(session.end_of_stream())


# ---- re-authentication ----------------------------------------------------------------------


def test_reauthentication_holds_new_requests_waits_for_pending_ones_and_starts() -> None:
    session = authenticated(60_000)
    first, second = ask(session), ask(session)
    assert len(broker.sent(session)) == 2
    session.reauthenticate(PLAIN, fraction=0.85)
    assert session.state is SessionState.REAUTHENTICATING
    assert not session.can_send(0.0)
    assert session.bytes_to_send() == b""
    assert len(session.feed(cluster_answer(first), now=150.0)) == 1
    assert session.bytes_to_send() == b""
    session.abandon(second)
    assert session.feed(cluster_answer(second), now=150.0) == []
    ((api, _, correlation_id, _),) = broker.sent(session)
    assert api is SASL_HANDSHAKE
    session.feed(broker.handshake_answer(correlation_id), now=150.0)
    correlation_id, _ = token_of(session)
    answer = sasl_authenticate.SaslAuthenticateResponse(session_lifetime_ms=100_000)
    stream = broker.token_answer(correlation_id, answer)
    assert session.feed(stream, now=151.0) == [SessionAuthenticated(lifetime_ms=100_000)]
    assert session.state is SessionState.READY
    assert session.reauthenticate_at == 236.0
    assert session.feed(cluster_answer(ask(session)), now=152.0)


def test_reauthentication_of_an_idle_session_starts_immediately() -> None:
    session = authenticated(60_000)
    session.reauthenticate(PLAIN, fraction=0.9)
    ((api, _, _, _),) = broker.sent(session)
    assert api is SASL_HANDSHAKE
    assert "credentials" in session.end_of_stream().error.hint


# ---- ends -----------------------------------------------------------------------------------


def test_a_call_in_the_wrong_state_raises_a_runtime_error() -> None:
    session = broker.ready()
    for call in (
        session.start,
        lambda: session.authenticate(PLAIN, fraction=0.9),
        lambda: broker.new_session().reauthenticate(PLAIN, fraction=0.9),
    ):
        with pytest.raises(RuntimeError, match="needs a session that is"):
            call()


def test_a_close_after_the_first_request_gives_a_hint_about_sasl() -> None:
    session = broker.ready()
    correlation_id = ask(session)
    event = session.end_of_stream()
    assert "SASL" in event.error.hint
    assert event.unanswered == (correlation_id,)


def test_before_negotiation_a_peer_may_send_only_a_small_frame() -> None:
    session = broker.new_session()
    session.start()
    head = (GREETING_BYTES + 1).to_bytes(4, "big")
    error = closed(session.feed(head, now=0.0)).error
    assert isinstance(error, FrameTooLarge)
    assert error.limit == GREETING_BYTES


def test_a_response_has_its_own_limit_also_while_a_larger_one_is_pending() -> None:
    session = broker.ready()
    first = ask(session)
    ask_for_quotas(session)
    body = first.to_bytes(4, "big") + bytes(CLUSTER_BYTES)
    error = closed(session.feed(len(body).to_bytes(4, "big") + body, now=0.0)).error
    assert isinstance(error, FrameTooLarge)
    assert (error.size, error.limit) == (len(body), CLUSTER_BYTES)


def test_without_a_pending_response_only_a_small_frame_is_accepted() -> None:
    session = broker.ready()
    error = closed(session.feed((GREETING_BYTES + 1).to_bytes(4, "big"), now=0.0)).error
    assert isinstance(error, FrameTooLarge)


def test_a_limit_below_that_of_small_frames_applies_from_the_start() -> None:
    session = broker.new_session(limit=100)
    session.start()
    error = closed(session.feed(b"\x00\x00\x00\x65", now=0.0)).error
    assert isinstance(error, FrameTooLarge)
