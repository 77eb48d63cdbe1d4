"""A webhook receiver on loopback, in a thread: keeps every POST, responds with a configurable status."""

import http.server
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

from tests.servers.prometheus import until


@dataclass(frozen=True, slots=True, kw_only=True)
class Post:
    """A received POST request."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The parsed body."""
        return json.loads(self.body)


class Inbox:
    """A receiver as a context manager. `status` may be changed at any time."""

    def __init__(self, *, status: int = 200) -> None:
        """Bind a free port."""
        self.status = status
        self.posts: list[Post] = []
        inbox = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:  # the name is http.server's
                size = int(self.headers.get("Content-Length", "0"))
                inbox.posts.append(
                    Post(path=self.path, headers=dict(self.headers), body=self.rfile.read(size))
                )
                self.send_response(inbox.status)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"ok")

            def log_message(self, *_: object) -> None:
                """Log nothing."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return self._server.server_port

    def url(self, path: str) -> str:
        """Return the URL of a path."""
        return f"http://127.0.0.1:{self.port}{path}"

    def wait(self, predicate: Callable[[Post], object], *, seconds: float, doing: str) -> float:
        """Wait until a matching POST was received; return the seconds that it took."""
        return until(
            lambda: any(predicate(post) for post in self.posts),
            seconds=seconds,
            doing=doing,
            details=lambda: (
                f"{len(self.posts)} arrived: {[post.body[:200] for post in self.posts[-3:]]}"
            ),
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
