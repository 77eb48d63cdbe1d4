"""One deadline for a whole HTTP exchange of the standard library, whose timeouts restart with every byte.

A peer that sends a byte now and then keeps ``urllib`` waiting indefinitely. Here a timer shuts the socket down: the
reading thread sees the end of the stream, and the caller gets a deadline error.
"""

import contextlib
import socket
import threading
from typing import Self


class HttpDeadline:
    """The deadline of one exchange. Use it as a context around everything that is sent and read."""

    def __init__(self, seconds: float) -> None:
        self.passed = False  # whether the time was up before the context ended
        self._socket: socket.socket | None = None
        self._lock = threading.Lock()
        self._timer = threading.Timer(seconds, self._end)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()

    def watch(self, opened: socket.socket) -> None:
        """Shut this socket down at the deadline.

        Raises:
            TimeoutError: The deadline has passed.
        """
        with self._lock:
            self._socket = opened
            if self.passed:
                raise TimeoutError("the deadline has passed")

    def _end(self) -> None:
        with self._lock:
            self.passed = True
            if self._socket is not None:
                with contextlib.suppress(OSError):  # it is closed already
                    # Not ``SSLSocket.shutdown``, which would take the TLS state from the reading thread.
                    socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
