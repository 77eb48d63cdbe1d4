"""Requests of any API of Kafka's protocol, as bytes, for APIs without a module here.

The connection handles what every request needs: version selection, headers, deadlines, throttling, retries,
re-authentication. The bodies of request and response are the caller's.
"""

from collections.abc import Callable
from dataclasses import dataclass

from reconciler.client.network.requests import GOOD, ClientRequest, ResponseStatus
from reconciler.wire.apis import API_VERSIONS, SASL_AUTHENTICATE, SASL_HANDSHAKE, KafkaApi

_OF_THE_CONNECTION = frozenset({API_VERSIONS.key, SASL_HANDSHAKE.key, SASL_AUTHENTICATE.key})


@dataclass(frozen=True, slots=True, kw_only=True)
class RawRequest:
    """One request by its API key. Kafka's message definitions have the details of each API.

    Attributes:
        api_key: Number of the API.
        versions: Lowest and highest version that ``body`` supports and the caller can read.
        body: The request without its header: bytes, or a function of the version.
        flexible_from: ``flexibleVersions`` of the definition; decides the headers. None = no version is flexible.
        throttled_from: First version whose response begins with ``throttle_time_ms``; None if it is at another position
            or absent: then throttling by this API is not detected.
        error_code: Returns the error code of a response by version and body. With it, transient codes (7, 41, 129 and,
            twice, -1) are retried, and any other code except 0 is a ``BrokerError``.
        is_repeatable: Whether the request may be sent again after a lost response, such as a read.
        name: For errors and events; "" = ``API`` and its number.

    Raises:
        ValueError: The versions are not ascending, or the API is reserved for the connection (ApiVersions and SASL).
    """

    api_key: int
    versions: tuple[int, int]
    body: bytes | Callable[[int], bytes]
    flexible_from: int | None
    throttled_from: int | None = 0
    error_code: Callable[[int, bytes], int] | None = None
    is_repeatable: bool = False
    name: str = ""

    def __post_init__(self) -> None:
        if self.api_key in _OF_THE_CONNECTION:
            raise ValueError(f"API {self.api_key} belongs to the connection, which sends it itself")
        _ = self.api

    @property
    def api(self) -> KafkaApi:
        """The row of this API for the protocol's table."""
        lowest, highest = self.versions
        return KafkaApi(
            key=self.api_key,
            name=self.name or f"API {self.api_key}",
            lowest=lowest,
            highest=highest,
            floor=lowest,
            flexible_from=self.flexible_from,
            since="",
            throttled_from=self.throttled_from,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RawResponse:
    """A response as received.

    Attributes:
        version: The negotiated version.
        body: Everything after the header.
    """

    version: int
    body: bytes


def client_request(raw: RawRequest) -> ClientRequest[RawResponse]:
    """Return the request for the connections."""
    body, error_code = raw.body, raw.error_code

    def encode(version: int) -> bytes:
        return body if isinstance(body, bytes) else body(version)

    def verdict(response: RawResponse) -> ResponseStatus:
        if error_code is None:
            return GOOD
        return ResponseStatus(code=error_code(response.version, response.body))

    return ClientRequest(
        api=raw.api,
        encode=encode,
        decode=lambda version, content: RawResponse(version=version, body=content),
        verdict=verdict,
        right="",
        repeatable=raw.is_repeatable,
    )
