"""A TCP forwarder on loopback that can be cut: one process loses the API server, others keep it."""

import contextlib
import socket
import threading
import time
from pathlib import Path
from typing import Self

BLOCK = 65536


class Forwarder:
    """Forwards a free port to another one between `__enter__` and `__exit__`; can refuse, drop and delay."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._server = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._cut = False
        self._delay = 0.0

    @property
    def port(self) -> int:
        """The port for clients."""
        return int(self._server.getsockname()[1])

    def __enter__(self) -> Self:
        self._listener = threading.Thread(target=self._accept, daemon=True)
        self._listener.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End and close every connection: an open socket would fail a later test."""
        self._cut = True
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)  # wakes accept
        self._server.close()
        self._listener.join()
        self.cut()
        for thread in self._threads:
            thread.join()

    def cut(self) -> None:
        """End all connections; new ones end at once."""
        self._cut = True
        for end in list(self._open):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def drop(self) -> None:
        """End all connections; new ones are forwarded."""
        self.cut()
        self._cut = False

    def heal(self) -> None:
        """Forward again without delay."""
        self._cut, self._delay = False, 0.0

    def delay(self, seconds: float) -> None:
        """Delay every block of either direction by this time."""
        self._delay = seconds

    def kubeconfig(self, original: Path) -> Path:
        """A copy of a kubeconfig with the address of this forwarder."""
        path = original.with_name(f"through-{self.port}-{original.name}")
        text = original.read_text(encoding="utf-8").replace(f":{self._to}", f":{self.port}")
        path.write_text(text, encoding="utf-8")
        return path

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
                self._open = [end for end in self._open if end.fileno() >= 0] + [near, far]
                connection = threading.Thread(target=self._forward, args=(near, far), daemon=True)
                self._threads = [thread for thread in self._threads if thread.is_alive()]
                self._threads.append(connection)
                connection.start()

    def _forward(self, near: socket.socket, far: socket.socket) -> None:
        with near, far:
            back = threading.Thread(target=self._pump, args=(far, near), daemon=True)
            back.start()
            self._pump(near, far)
            back.join()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while block := source.recv(BLOCK):
                if self._delay:
                    time.sleep(self._delay)
                sink.sendall(block)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
