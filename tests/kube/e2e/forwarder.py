"""A TCP forwarder on loopback that can be cut: the way of one process to an API server that others still reach."""

import contextlib
import socket
import threading
import time
from pathlib import Path
from typing import Self

BLOCK = 65536


class Forwarder:
    """Forwards a free port to another one between `__enter__` and `__exit__`; may refuse, drop and delay."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._server = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._cut = False
        self._delay = 0.0

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

    def drop(self) -> None:
        """Ends all connections; new ones are forwarded."""
        self.cut()
        self._cut = False

    def heal(self) -> None:
        """Forwards at once again."""
        self._cut, self._delay = False, 0.0

    def delay(self, seconds: float) -> None:
        """Every block of either direction waits so long before it is passed on."""
        self._delay = seconds

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
                try:
                    far = socket.create_connection(("127.0.0.1", self._to))
                except OSError:
                    near.close()
                    continue
                self._open = [one for one in self._open if one.fileno() >= 0] + [near, far]
                for pair in ((near, far), (far, near)):
                    threading.Thread(target=self._pump, args=pair, daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while block := source.recv(BLOCK):
                if self._delay:
                    time.sleep(self._delay)
                sink.sendall(block)
        for one in (source, sink):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
