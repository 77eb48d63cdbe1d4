from reconciler.wire import scram_credentials
from reconciler.wire.scram_credentials import DescribeUserScramCredentialsRequest


def test_null_asks_for_all_users_and_an_empty_list_for_none() -> None:
    assert scram_credentials.encode_request(0, DescribeUserScramCredentialsRequest(users=None)) == b"\x00\x00"
    assert scram_credentials.encode_request(0, DescribeUserScramCredentialsRequest(users=())) == b"\x01\x00"
