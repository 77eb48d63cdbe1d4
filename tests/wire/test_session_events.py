from reconciler.errors import ConnectError
from reconciler.wire.apis import DESCRIBE_CLUSTER
from reconciler.wire.session_events import ReplyReceived, SessionClosed, SessionState


def test_a_reply_shows_its_size_and_not_its_bytes() -> None:
    reply = ReplyReceived(correlation_id=1, api=DESCRIBE_CLUSTER, version=2, body=b"secret")
    assert repr(reply) == "Reply(DescribeCluster v2, 6 bytes)"


def test_states_have_readable_names() -> None:
    assert [state.value for state in SessionState][-3:] == ["ready", "re-authenticating", "closed"]


def test_a_closed_session_has_its_error_and_the_unanswered_requests() -> None:
    end = SessionClosed(error=ConnectError("gone"), unanswered=(3, 4))
    assert (str(end.error), end.unanswered) == ("gone", (3, 4))
