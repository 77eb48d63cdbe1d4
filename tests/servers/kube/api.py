"""A minimal client of the API server: JSON over one keep-alive connection.

kubectl takes 50 ms per call and validates on the client, which is unsuitable for several hundred dry runs.
"""

import http.client
import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit

CALL_SECONDS = 60.0
JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"  # JSON is YAML


class ApiRefused(Exception):
    """The API server responded with a status of 400 or more to a call that must succeed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A response of the API server: HTTP status and text."""

    status: int
    text: str

    @property
    def ok(self) -> bool:
        """Whether the status is below 400."""
        return self.status < 400

    @property
    def body(self) -> Any:
        """The parsed JSON; None for other content (`/readyz`, `/metrics`)."""
        try:
            return json.loads(self.text)
        except ValueError:
            return None

    @property
    def message(self) -> str:
        """The message of an error response, else the whole text."""
        body = self.body
        return str(body["message"]) if isinstance(body, dict) and "message" in body else self.text

    def need(self) -> Any:
        """Return the JSON of a success.

        Raises:
            ApiRefused: The status is 400 or more.
        """
        if not self.ok:
            raise ApiRefused(f"{self.status}: {self.message}")
        return self.body


class Api:
    """A connection of one user; not thread-safe."""

    def __init__(self, url: str, tls: ssl.SSLContext, *, token: str | None = None) -> None:
        """Connect at the first call; authenticate with the bearer `token`, else with the TLS identity."""
        where = urlsplit(url)
        self._connection = http.client.HTTPSConnection(
            where.hostname or "", where.port, context=tls, timeout=CALL_SECONDS
        )
        self._headers = {"Accept": JSON} | ({"Authorization": f"Bearer {token}"} if token else {})

    def call(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        kind: str = JSON,
        query: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send a request; return the response with any status.

        Args:
            method: GET, POST, PUT, PATCH or DELETE.
            path: From the root, for example `/api/v1/namespaces`.
            body: Sent as JSON; text and bytes are sent unchanged.
            kind: The content type of the body: `JSON`, `MERGE_PATCH`, `JSON_PATCH`, `APPLY_PATCH`.
            query: Parameters, for example `{"dryRun": "All"}`.

        Raises:
            OSError, http.client.HTTPException: the connection is refused or lost.
        """
        target = path if not query else f"{path}?{urlencode(query)}"
        sent = body if body is None or isinstance(body, str | bytes) else json.dumps(body)
        content = sent.encode() if isinstance(sent, str) else sent
        headers = self._headers | ({"Content-Type": kind} if content is not None else {})
        idle = self._connection.sock is not None
        try:
            return self._exchange(method, target, content, headers)
        except (http.client.RemoteDisconnected, ConnectionError, ssl.SSLEOFError):
            self.close()
            if not idle:
                raise
            return self._exchange(method, target, content, headers)  # it was closed while idle
        except BaseException:
            self.close()
            raise

    def get(self, path: str, **query: str) -> Answer:
        """Send a GET request."""
        return self.call("GET", path, query=query)

    def close(self) -> None:
        """Close the connection; the next call opens a new one."""
        self._connection.close()

    def _exchange(
        self, method: str, target: str, content: bytes | None, headers: Mapping[str, str]
    ) -> Answer:
        self._connection.request(method, target, body=content, headers=dict(headers))
        response = self._connection.getresponse()
        return Answer(status=response.status, text=response.read().decode("utf-8", "replace"))
