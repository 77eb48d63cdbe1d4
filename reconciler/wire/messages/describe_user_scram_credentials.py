"""DescribeUserScramCredentials (key 50), version 0: which users have SCRAM credentials (KIP-554)."""

from msgspec import Struct

from reconciler.wire.apis import DESCRIBE_USER_SCRAM_CREDENTIALS


class DescribeUserScramCredentialsRequest(Struct, frozen=True):
    """The requested users; None means all."""

    users: tuple[str, ...] | None = None


class CredentialInfo(Struct, frozen=True):
    """One credential: mechanism 1 is SCRAM-SHA-256, 2 is SCRAM-SHA-512; PBKDF2 iterations."""

    mechanism: int
    iterations: int


class ScramUser(Struct, frozen=True):
    """One user; code 91 means unknown, 92 requested twice."""

    name: str
    error_code: int = 0
    error_message: str | None = None
    credentials: tuple[CredentialInfo, ...] = ()


class DescribeUserScramCredentialsResponse(Struct, frozen=True):
    """Users in the broker's order, with one error code for the whole request and one per user."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    users: tuple[ScramUser, ...] = ()


def encode_request(version: int, request: DescribeUserScramCredentialsRequest) -> bytes:
    """Encode the body of a request."""
    writer = DESCRIBE_USER_SCRAM_CREDENTIALS.writer(version)
    writer.nullable_structures(request.users, writer.string)
    return writer.complete()


def decode_request(version: int, body: bytes) -> DescribeUserScramCredentialsRequest:
    """Decode a request body."""
    reader = DESCRIBE_USER_SCRAM_CREDENTIALS.request_reader(version, body)
    return reader.complete(
        DescribeUserScramCredentialsRequest(
            users=reader.nullable_structures(reader.string, least_size=2)
        )
    )


def encode_response(version: int, response: DescribeUserScramCredentialsResponse) -> bytes:
    """Encode the body of a response."""
    writer = DESCRIBE_USER_SCRAM_CREDENTIALS.writer(version)

    def write_credential(credential: CredentialInfo) -> None:
        writer.int8(credential.mechanism)
        writer.int32(credential.iterations)

    def write_user(user: ScramUser) -> None:
        writer.string(user.name)
        writer.int16(user.error_code)
        writer.nullable_string(user.error_message)
        writer.structures(user.credentials, write_credential)

    writer.int32(response.throttle_time_ms)
    writer.int16(response.error_code)
    writer.nullable_string(response.error_message)
    writer.structures(response.users, write_user)
    return writer.complete()


def decode_response(version: int, body: bytes) -> DescribeUserScramCredentialsResponse:
    """Decode a response body."""
    reader = DESCRIBE_USER_SCRAM_CREDENTIALS.answer_reader(version, body)

    def read_user() -> ScramUser:
        return ScramUser(
            name=reader.string(),
            error_code=reader.int16(),
            error_message=reader.nullable_string(),
            credentials=reader.structures(
                lambda: CredentialInfo(mechanism=reader.int8(), iterations=reader.int32()),
                least_size=6,
            ),
        )

    return reader.complete(
        DescribeUserScramCredentialsResponse(
            throttle_time_ms=reader.int32(),
            error_code=reader.int16(),
            error_message=reader.nullable_string(),
            users=reader.structures(read_user, least_size=6),
        )
    )
