"""Reads large text files in blocks, plain or gzip; a truncated file is reported, not raised."""

import codecs
import gzip
import zlib
from pathlib import Path
from typing import IO, Final, Self

from reconciler.errors import TelemetryError

BLOCK: Final = 1 << 20


class TextFile:
    """A UTF-8 file as a context manager; ``.gz`` is decompressed.

    Attributes:
        truncated: Whether the file ended in the middle of a character or of the compressed data.
    """

    def __init__(self, path: Path) -> None:
        self.truncated = False
        self._path = path
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._ended = False
        self._file: IO[bytes] | gzip.GzipFile | None = None

    def __enter__(self) -> Self:
        try:
            self._file = (
                gzip.open(self._path) if self._path.suffix == ".gz" else self._path.open("rb")
            )
        except OSError as wrong:
            raise self._unreadable(wrong) from wrong
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def read(self, size: int = BLOCK) -> str:
        """Return the next characters; "" at the end.

        Raises:
            TelemetryError: The file cannot be read, or is not UTF-8.
        """
        assert self._file is not None, "used outside its context"  # noqa: S101 - our own slip
        while not self._ended:
            try:
                block = self._file.read(size)
            except EOFError:
                block, self.truncated = b"", True
            except (OSError, zlib.error) as wrong:
                raise self._unreadable(wrong) from wrong
            self._ended = not block
            try:
                text = self._decoder.decode(block, final=False)
            except UnicodeDecodeError as wrong:
                raise TelemetryError("is not UTF-8 text", location=str(self._path)) from wrong
            if text:
                return text
        pending, _ = self._decoder.getstate()
        self.truncated = self.truncated or bool(pending)
        return ""

    def _unreadable(self, wrong: BaseException) -> TelemetryError:
        return TelemetryError(f"cannot be read: {wrong}", location=str(self._path))
