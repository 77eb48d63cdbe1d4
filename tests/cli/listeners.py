"""An attacker's server for tests: accepts connections, records what it receives, sends no response."""

import socket
import threading
from typing import Self

from tests.servers.processes import HANG_SECONDS


class Listener:
    """Listens between `__enter__` and `__exit__`."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self.received: list[bytes] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(HANG_SECONDS)

    @property
    def address(self) -> str:
        host, port = self._socket.getsockname()
        return f"{host}:{port}"

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(60)
                try:
                    self.received.append(connection.recv(65536))
                except OSError:
                    self.received.append(b"")
