"""A client that refuses nothing: the project's codec, one blocking connection, any request.

`QuotaClient` never sends what Kafka refuses, so the contract uses this client to test refusals.
"""

import socket
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Self

from reconciler.wire import frames
from reconciler.wire.apis import (
    ALTER_CLIENT_QUOTAS,
    API_VERSIONS,
    DESCRIBE_CLIENT_QUOTAS,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    KafkaApi,
)
from reconciler.wire.messages import (
    alter_client_quotas,
    api_versions,
    describe_client_quotas,
    sasl_authenticate,
    sasl_handshake,
)
from reconciler.wire.messages.alter_client_quotas import (
    Alteration,
    AlterClientQuotasResponse,
    Result,
)
from reconciler.wire.messages.describe_client_quotas import Component
from reconciler.wire.messages.entry_layout import EntryLayout, Part

SECONDS = 60.0
VISIBLE_SECONDS = 120.0
PACE_SECONDS = 0.01
LAYOUT = EntryLayout(
    slots=("user", "client-id", "ip"),
    columns=(
        "producer_byte_rate",
        "consumer_byte_rate",
        "request_percentage",
        "controller_mutation_rate",
        "connection_creation_rate",
    ),
)

Names = tuple[Part, ...]
Quotas = dict[Names, dict[str, float]]
Verdict = tuple[int, str | None]


class Closed(Exception):
    """The broker closed the connection instead of responding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """A response of DescribeClientQuotas; `quotas` is empty with an error."""

    throttle_time_ms: int
    verdict: Verdict
    quotas: Quotas


class RawConnection(AbstractContextManager["RawConnection"]):
    """One connection to a port on loopback."""

    def __init__(self, port: int, *, seconds: float = SECONDS, host: str = "127.0.0.1") -> None:
        self.socket = socket.create_connection((host, port), timeout=seconds)
        self.count = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, frame: bytes) -> None:
        self.socket.sendall(frame)

    def receive(self) -> bytes:
        """One frame without its length.

        Raises:
            Closed: The broker closed the connection.
        """
        return self._exactly(frames.frame_size(self._exactly(frames.LENGTH_BYTES)))

    def ask(
        self, api: KafkaApi, version: int, body: bytes, *, client_id: str | None = "raw"
    ) -> bytes:
        """Send one request; return the body of the response."""
        self.count += 1
        self.send(
            frames.encode_request(
                api, version, correlation_id=self.count, client_id=client_id, body=body
            )
        )
        frame = self.receive()
        assert frames.correlation_id_of(frame) == self.count
        return frames.response_body(api, version, frame)

    def api_versions(
        self, version: int, request: api_versions.ApiVersionsRequest
    ) -> api_versions.ApiVersionsResponse:
        body = api_versions.encode_request(version, request)
        answer = self.ask(API_VERSIONS, version, body)
        return api_versions.decode_response(version, answer)

    def offered(self) -> dict[int, tuple[int, int]]:
        """API key -> lowest and highest version."""
        answer = self.api_versions(0, api_versions.ApiVersionsRequest())
        return {api.api_key: (api.lowest, api.highest) for api in answer.apis}

    def plain(self, user: str, password: str) -> sasl_authenticate.SaslAuthenticateResponse:
        """Authenticates with SASL PLAIN."""
        handshake = self.handshake("PLAIN")
        assert handshake.error_code == 0
        return self.token(f"\0{user}\0{password}".encode())

    def handshake(self, mechanism: str) -> sasl_handshake.SaslHandshakeResponse:
        body = sasl_handshake.encode_request(
            1, sasl_handshake.SaslHandshakeRequest(mechanism=mechanism)
        )
        return sasl_handshake.decode_response(1, self.ask(SASL_HANDSHAKE, 1, body))

    def token(self, token: bytes) -> sasl_authenticate.SaslAuthenticateResponse:
        body = sasl_authenticate.encode_request(
            2, sasl_authenticate.SaslAuthenticateRequest(token=token)
        )
        return sasl_authenticate.decode_response(2, self.ask(SASL_AUTHENTICATE, 2, body))

    def alter(
        self, *alterations: Alteration, validate_only: bool = False, version: int = 1
    ) -> AlterClientQuotasResponse:
        """One AlterClientQuotas request, empty ones included."""
        if alterations:
            body = alter_client_quotas.encode_request(
                version, alterations, validate_only=validate_only
            )
        else:
            body = b"\x01" + bytes((validate_only,)) + b"\x00"
            assert version == 1
        answer = self.ask(ALTER_CLIENT_QUOTAS, version, body)
        return alter_client_quotas.decode_response(version, answer)

    def verdicts(
        self, *alterations: Alteration, validate_only: bool = False
    ) -> dict[Names, Verdict]:
        """The response for each entity; two responses for one entity are a failure."""
        return by_entity(self.alter(*alterations, validate_only=validate_only).results)

    def describe(
        self, components: Sequence[Component] = (), *, strict: bool = False, version: int = 1
    ) -> Described:
        request = describe_client_quotas.DescribeClientQuotasRequest(
            components=tuple(components), strict=strict
        )
        body = describe_client_quotas.encode_request(version, request)
        answer = self.ask(DESCRIBE_CLIENT_QUOTAS, version, body)
        return described(version, answer)

    def quotas(self) -> Quotas:
        """All quotas that this broker shows."""
        answer = self.describe()
        assert answer.verdict[0] == 0, answer.verdict
        return answer.quotas

    def settled(self, expected: Quotas) -> None:
        """Returns once the broker shows exactly `expected`; NaN counts as equal to itself."""
        expected_texts, deadline = text_of(expected), time.monotonic() + VISIBLE_SECONDS
        never = threading.Event()
        while (texts := text_of(self.quotas())) != expected_texts:
            assert time.monotonic() < deadline, f"{texts} is not {expected_texts}"
            never.wait(PACE_SECONDS)  # an acknowledged change is not yet visible

    def _exactly(self, count: int) -> bytes:
        parts = bytearray()
        while len(parts) < count:
            try:
                part = self.socket.recv(count - len(parts))
            except ConnectionResetError as reset:
                raise Closed from reset
            if not part:
                raise Closed
            parts += part
        return bytes(parts)


def described(version: int, answer: bytes) -> Described:
    """The rows of the project's decoder as plain dictionaries."""
    response = describe_client_quotas.decode_response(version, answer, LAYOUT)
    assert not response.foreign_values
    assert not response.foreign_entities
    quotas: Quotas = {}
    for key, row in response.entries.items():
        names = tuple(
            sorted(
                (kind, slot)
                for kind, slot in zip(LAYOUT.slots, key, strict=True)
                if slot is not False
            )
        )
        quotas[names] = {
            column: value
            for column, value in zip(LAYOUT.columns, row, strict=True)
            if value is not None
        }
    return Described(
        throttle_time_ms=response.throttle_time_ms,
        verdict=(response.error_code, response.error_message),
        quotas=quotas,
    )


def by_entity(results: Iterable[Result]) -> dict[Names, Verdict]:
    verdicts: dict[Names, Verdict] = {}
    for parts, code, message in results:
        assert parts not in verdicts, f"{parts} has two responses"
        verdicts[parts] = (code, message)
    return verdicts


def text_of(quotas: Quotas) -> list[str]:
    return sorted(f"{names!r} {sorted(values.items())!r}" for names, values in quotas.items())
