"""The request for SCRAM users and the evaluation of its response. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from reconciler.client.network.requests import ClientRequest, ResponseStatus
from reconciler.errors import BrokerError
from reconciler.wire.apis import DESCRIBE_USER_SCRAM_CREDENTIALS
from reconciler.wire.error_codes import RESOURCE_NOT_FOUND, error_code
from reconciler.wire.messages import describe_user_scram_credentials

ScramResponse: TypeAlias = describe_user_scram_credentials.DescribeUserScramCredentialsResponse

_MECHANISMS: Final = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramCredential:
    """One SCRAM credential of a user; Kafka never returns the other fields."""

    mechanism: str
    iterations: int


def request(users: tuple[str, ...]) -> ClientRequest[ScramResponse]:
    """Return the request for these users; () = all."""
    return ClientRequest(
        api=DESCRIBE_USER_SCRAM_CREDENTIALS,
        encode=lambda version: describe_user_scram_credentials.encode_request(
            version,
            describe_user_scram_credentials.DescribeUserScramCredentialsRequest(users=users),
        ),
        decode=describe_user_scram_credentials.decode_response,
        verdict=lambda answer: ResponseStatus(code=answer.error_code, message=answer.error_message),
        right="Describe",
    )


def credentials_of(
    answer: ScramResponse, scrubbed: Callable[[str], str]
) -> Mapping[str, tuple[ScramCredential, ...]]:
    """Return credentials by user, sorted; users that do not exist are omitted.

    Raises:
        BrokerError: The broker refused one of the users for a reason other than a missing credential.
    """
    credentials_by_user: dict[str, tuple[ScramCredential, ...]] = {}
    for user in answer.users:
        if user.error_code == RESOURCE_NOT_FOUND:
            continue
        if user.error_code:
            code = error_code(user.error_code)
            words = scrubbed(user.error_message or code.sentence)
            raise BrokerError(
                f"SCRAM user {user.name!a}: {code}, {words}",
                code=user.error_code,
                api=DESCRIBE_USER_SCRAM_CREDENTIALS.name,
            )
        credentials_by_user[user.name] = tuple(
            ScramCredential(
                mechanism=_MECHANISMS.get(credential.mechanism, f"UNKNOWN({credential.mechanism})"),
                iterations=credential.iterations,
            )
            for credential in user.credentials
        )
    return dict(sorted(credentials_by_user.items()))
