"""The API server over one keep-alive connection: JSON in, JSON out, nothing else between a test and it.

kubectl takes 50 ms a call and has opinions; several hundred dry runs want neither.
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
    """The API server answered with a status of 400 or more, where a test counted on success."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the API server said: the HTTP status, the parsed JSON, and the text it came as."""

    status: int
    text: str

    @property
    def ok(self) -> bool:
        """Whether the status is below 400."""
        return self.status < 400

    @property
    def body(self) -> Any:
        """The JSON; None for an answer that is none (`/readyz`, `/metrics`)."""
        try:
            return json.loads(self.text)
        except ValueError:
            return None

    @property
    def message(self) -> str:
        """The server's sentence of a refusal, else the whole text."""
        body = self.body
        return str(body["message"]) if isinstance(body, dict) and "message" in body else self.text

    def need(self) -> Any:
        """The JSON of a success.

        Raises:
            ApiRefused: the status is 400 or more.
        """
        if not self.ok:
            raise ApiRefused(f"{self.status}: {self.message}")
        return self.body


class Api:
    """One connection as one user. Not for several threads: take one each."""

    def __init__(self, url: str, tls: ssl.SSLContext, *, token: str | None = None) -> None:
        """Connects at the first call; `token` is a bearer token, else the TLS identity counts."""
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
        """One request; any status is an answer.

        Args:
            method: GET, POST, PUT, PATCH or DELETE.
            path: From the root, for example `/api/v1/namespaces`.
            body: Sent as JSON; text and bytes are sent as they are.
            kind: The content type of the body: `JSON`, `MERGE_PATCH`, `JSON_PATCH`, `APPLY_PATCH`.
            query: Parameters, for example `{"dryRun": "All"}`.

        Raises:
            OSError, http.client.HTTPException: there is no server, or it went away.
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
        """GET."""
        return self.call("GET", path, query=query)

    def close(self) -> None:
        """Closes the connection; the next call opens another."""
        self._connection.close()

    def _exchange(
        self, method: str, target: str, content: bytes | None, headers: Mapping[str, str]
    ) -> Answer:
        self._connection.request(method, target, body=content, headers=dict(headers))
        response = self._connection.getresponse()
        return Answer(status=response.status, text=response.read().decode("utf-8", "replace"))
