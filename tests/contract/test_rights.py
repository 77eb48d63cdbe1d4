"""Required rights, and the response for other users, on every target."""

import pytest

from reconciler.wire.apis import (
    DESCRIBE_CLUSTER,
    DESCRIBE_CONFIGS,
    DESCRIBE_USER_SCRAM_CREDENTIALS,
    METADATA,
)
from reconciler.wire.messages import (
    describe_cluster,
    describe_configs,
    describe_user_scram_credentials,
    metadata,
)
from tests.contract.expectations import CONSUMER, OK, PRODUCER, USER
from tests.contract.raw import RawConnection
from tests.contract.targets import Target

DENIED = (31, "Cluster authorization failed.")
BITS = {"admin": 8096, "planner": 1280, "applier": 3328, "alice": 0}
NOT_ASKED = -(2**31)
NEVER_SECONDS = 0.3
CALLBACK = "client.quota.callback.class"


def scram(
    connection: RawConnection, users: tuple[str, ...] | None
) -> describe_user_scram_credentials.DescribeUserScramCredentialsResponse:
    body = describe_user_scram_credentials.encode_request(
        0, describe_user_scram_credentials.DescribeUserScramCredentialsRequest(users=users)
    )
    answer = connection.ask(DESCRIBE_USER_SCRAM_CREDENTIALS, 0, body)
    return describe_user_scram_credentials.decode_response(0, answer)


def knows_scram(target: Target) -> bool:
    return target.expected({"3.4": False, "all": True})


@pytest.mark.parametrize("validate_only", [True, False])
def test_a_principal_that_may_not_alter_is_rejected_for_every_entry(
    empty: Target, *, validate_only: bool
) -> None:
    alterations = (
        (USER, ((PRODUCER, 1.0),)),
        ((("user", ""),), ((PRODUCER, -1.0),)),
        (USER, ((CONSUMER, 1.0),)),
    )
    for user in ("alice", "planner"):
        with empty.login(user) as connection:
            answer = connection.alter(*alterations, validate_only=validate_only)
            assert [parts for parts, _, _ in answer.results] == [parts for parts, _ in alterations]
            assert {(code, words) for _, code, words in answer.results} == {DENIED}
            assert connection.alter(validate_only=validate_only).results == ()
    with empty.connect() as connection:
        assert connection.quotas() == {}


def test_a_principal_that_may_not_describe_is_rejected_once(empty: Target) -> None:
    with empty.login("alice") as connection:
        assert connection.describe().verdict == (31, None)
        assert connection.describe([("", 9, None)]).verdict == (31, None)


def test_the_right_to_alter_includes_describe(empty: Target) -> None:
    with empty.login("applier") as connection:
        assert connection.verdicts((USER, ((PRODUCER, 1.0),))) == {USER: OK}
        connection.settled({USER: {PRODUCER: 1.0}})
    with empty.login("planner") as connection:
        connection.settled({USER: {PRODUCER: 1.0}})


@pytest.mark.parametrize("user", BITS)
def test_rights_are_reported_as_bits(target: Target, user: str) -> None:
    with target.login(user) as connection:
        for included, expected in ((True, BITS[user]), (False, NOT_ASKED)):
            body = describe_cluster.encode_request(
                0, describe_cluster.DescribeClusterRequest(include_operations=included)
            )
            answer = describe_cluster.decode_response(0, connection.ask(DESCRIBE_CLUSTER, 0, body))
            assert answer.operations == expected
            body = metadata.encode_request(
                9, metadata.MetadataRequest(include_cluster_operations=included)
            )
            response = metadata.decode_response(9, connection.ask(METADATA, 9, body))
            assert response.operations == expected


def configs(connection: RawConnection, *names: str) -> tuple[describe_configs.ConfigsResult, ...]:
    resources = tuple(
        describe_configs.ConfigResource(
            resource_type=4, name=name, keys=(CALLBACK, "quota.window.num")
        )
        for name in names
    )
    body = describe_configs.encode_request(
        4, describe_configs.DescribeConfigsRequest(resources=resources)
    )
    return describe_configs.decode_response(4, connection.ask(DESCRIBE_CONFIGS, 4, body)).results


def test_settings_of_a_broker_require_the_right_to_describe_configs(target: Target) -> None:
    with target.login("planner") as connection:
        own, default, unexpected, nobody = configs(connection, "1", "", "9", "abc")
    assert (own.error_code, own.error_message) == (0, "")
    assert {setting.name: setting.value for setting in own.settings} == {
        CALLBACK: None,
        "quota.window.num": "11",
    }
    assert {setting.source for setting in own.settings} == {5}
    assert default.settings == ()
    assert (unexpected.error_code, unexpected.error_message) == (
        42,
        "Unexpected broker id, expected 1 or empty string, but received 9",
    )
    assert (nobody.error_code, nobody.error_message) == (
        42,
        "Broker id must be an integer, but it is: abc",
    )
    with target.login("alice") as connection:
        (refused,) = configs(connection, "1")
    assert (refused.error_code, refused.error_message) == DENIED


def test_scram_users_require_the_right_to_describe(target: Target) -> None:
    if not knows_scram(target):
        with target.connect() as connection:
            assert DESCRIBE_USER_SCRAM_CREDENTIALS.key not in connection.offered()
        return
    with target.login("planner") as connection:
        for everybody in (None, ()):
            answer = scram(connection, everybody)
            assert (answer.error_code, answer.error_message) == (0, "")
            assert {user.name for user in answer.users} == set(target.users)
            for user in answer.users:
                iterations = {
                    credential.mechanism: credential.iterations for credential in user.credentials
                }
                assert iterations == {1: 4096, 2: 4096}
        answer = scram(connection, ("alice", "nobody", "bob", "bob"))
        verdicts = {user.name: (user.error_code, user.error_message) for user in answer.users}
        assert verdicts == {
            "alice": (0, ""),
            "nobody": (91, "Attempt to describe a user credential that does not exist: nobody"),
            "bob": (
                92,
                "Cannot describe SCRAM credentials for the same user twice in a single request: bob",
            ),
        }


def test_scram_users_are_denied_without_the_right_and_null_is_never_answered(
    target: Target,
) -> None:
    """Brokers fail on the null while they format the refusal, so clients send an empty list."""
    if not knows_scram(target):
        return
    with target.login("alice") as connection:
        assert scram(connection, ()).error_code == 31
        answer = scram(connection, ("bob",))
        assert (answer.error_code, answer.error_message) == (31, None)
        assert [(user.name, user.error_code) for user in answer.users] == [("", 31)]
        connection.socket.settimeout(NEVER_SECONDS)
        with pytest.raises(TimeoutError):
            scram(connection, None)
