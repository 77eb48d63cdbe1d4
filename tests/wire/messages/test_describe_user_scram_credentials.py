from reconciler.wire.messages import describe_user_scram_credentials
from reconciler.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
)


def test_null_requests_all_users_and_an_empty_list_none() -> None:
    assert (
        describe_user_scram_credentials.encode_request(
            0, DescribeUserScramCredentialsRequest(users=None)
        )
        == b"\x00\x00"
    )
    assert (
        describe_user_scram_credentials.encode_request(
            0, DescribeUserScramCredentialsRequest(users=())
        )
        == b"\x01\x00"
    )
