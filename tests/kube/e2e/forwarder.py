"""A TCP forwarder on loopback that can be cut: the way of one process to an API server that others still reach."""

import contextlib
import socket
import threading
from pathlib import Path
from typing import Self

BLOCK = 65536


class Forwarder:
    """Forwards a free port to another one between `__enter__` and `__exit__`."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._server = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._cut = False

    @property
    def port(self) -> int:
        """Where clients connect to."""
        return int(self._server.getsockname()[1])

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.cut()
        self._server.close()

    def cut(self) -> None:
        """Ends all connections; new ones are ended at once."""
        self._cut = True
        for one in list(self._open):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def kubeconfig(self, original: Path) -> Path:
        """A copy of a kubeconfig that leads through here."""
        made = original.with_name(f"through-{self.port}-{original.name}")
        text = original.read_text(encoding="utf-8").replace(f":{self._to}", f":{self.port}")
        made.write_text(text, encoding="utf-8")
        return made

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._server.accept()
                if self._cut:
                    near.close()
                    continue
                far = socket.create_connection(("127.0.0.1", self._to))
                self._open += [near, far]
                for pair in ((near, far), (far, near)):
                    threading.Thread(target=self._pump, args=pair, daemon=True).start()

    @staticmethod
    def _pump(source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while block := source.recv(BLOCK):
                sink.sendall(block)
        for one in (source, sink):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
