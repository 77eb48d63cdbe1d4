"""Stores files in a folder, memory, or an object store; the only module that imports ``obstore``.

Commits depend on an atomic "create unless it exists": a hard link on a disk, ``If-None-Match: *`` in object stores.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

import obstore
from obstore.store import AzureStore, GCSStore, HTTPStore, LocalStore, MemoryStore, S3Store

from reconciler.errors import LakeConflict, LakeDamaged, LakeError
from reconciler.evidence.store.files import address, local_files, storage_errors

if TYPE_CHECKING:
    from obstore.store import ClientConfig, ObjectStore, RetryConfig

CONNECT: Final = timedelta(seconds=5)
WHOLE: Final = timedelta(minutes=10)
"""Timeout of one request with its body: a day of a large cluster over a slow connection."""
SILENCE: Final = timedelta(seconds=60)
PLAIN_HTTP: Final = ("AWS_ALLOW_HTTP", "AZURE_ALLOW_HTTP", "GOOGLE_ALLOW_HTTP")
"""Environment variables, one of which must be set for object stores on ``http://``, such as development servers."""
PIECE: Final = 256 * 1024
"""Bytes of a file that are read at once."""

TRIES: Final = 4
TRIED_FOR: Final = timedelta(seconds=45)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """A file in a listing."""

    path: str
    size: int  # Bytes
    modified_ms: int  # time of the last write by the store's clock


class FileStore:
    """Files by path; segments are separated by ``/`` and are never ``..``."""

    def __init__(self, at: address.LakeAddress, objects: "ObjectStore") -> None:
        self._at = at
        self._objects = objects
        self._folder = Path(at.root or "/") if at.scheme == address.FOLDER else None

    @property
    def redacted_address(self) -> str:
        """Its address for display, without credentials."""
        return self._at.redacted_text

    @property
    def folder(self) -> Path | None:
        """Its path on the local disk; ``None`` for other stores."""
        return self._folder

    def display_path(self, path: str) -> str:
        """Return the address of a file for display."""
        return f"{self._at.redacted_text.removesuffix('/')}/{path}"

    def uri(self, path: str) -> str:
        """Return the URI of a file for Spark.

        Raises:
            LakeError: Spark cannot read from this address.
        """
        return self._at.spark(path)

    def find(self, path: str, *, max_bytes: int | None = None) -> bytes | None:
        """Return the content of a file; ``None`` if it does not exist.

        Args:
            max_bytes: Maximum size; more bytes are never read, whatever size the store reports.

        Raises:
            LakeDamaged: The file is larger.
            LakeError: The store denies access or does not answer.
        """
        try:
            response = obstore.get(self._objects, path)
            if max_bytes is None:
                return bytes(response.bytes())
            parts, size = [], 0
            for part in response.stream(min_chunk_size=PIECE):
                size += len(part)
                if size > max_bytes:
                    raise LakeDamaged(
                        f"has more than {max_bytes:,} bytes", path=self.display_path(path)
                    )
                parts.append(bytes(part))
            return b"".join(parts)
        except storage_errors.EXCEPTIONS as error:
            if storage_errors.is_absence(error):
                return None
            raise storage_errors.storage_error(error, self.display_path(path)) from error

    def get(self, path: str, *, max_bytes: int | None = None) -> bytes:
        """Return the content of a file; arguments as in :meth:`find`.

        Raises:
            LakeDamaged: The file does not exist or is larger.
            LakeError: The store denies access or does not answer.
        """
        content = self.find(path, max_bytes=max_bytes)
        if content is None:
            raise LakeDamaged("is not there", path=self.display_path(path))
        return content

    def get_range(self, path: str, start: int, end: int) -> bytes:
        """Return a byte range of a file, ``end`` exclusive; shorter if the file ends before.

        Raises:
            LakeDamaged: The file does not exist or ends before ``start``.
            LakeError: The store denies access or does not answer.
        """
        if start >= end:
            return b""
        try:
            return bytes(obstore.get_range(self._objects, path, start=start, end=end))
        except storage_errors.EXCEPTIONS as error:
            raise storage_errors.storage_error(error, self.display_path(path)) from error

    def put(self, path: str, content: bytes, *, create: bool = False) -> None:
        """Write a file atomically, even if the process is killed.

        Args:
            create: Whether the file must not exist.

        Raises:
            LakeConflict: The file exists (``create``); in object stores only if its content differs.
            LakeError: The file cannot be written.
        """
        self._must_write(path)
        try:
            if self._folder is not None:
                local_files.write(self._folder / path, content, create=create)
            elif create:
                _ = obstore.put(self._objects, path, content, mode="create")
            else:
                _ = obstore.put(self._objects, path, content)
        except storage_errors.EXCEPTIONS as error:
            storage_failure = storage_errors.storage_error(error, self.display_path(path))
            # If a response is lost, the client's retry of the same request conflicts with its own first attempt.
            if isinstance(storage_failure, LakeConflict) and self.find(path) == content:
                return
            raise storage_failure from error

    def stored(self, prefix: str = "") -> tuple[StoredFile, ...]:
        """Return all files below a folder, sorted by path; empty if the folder does not exist.

        Raises:
            LakeError: The store denies access, cannot list (web addresses), or does not answer.
        """
        if self._at.scheme in address.WEB:
            raise LakeError("files of a web address cannot be listed", path=self.redacted_address)
        try:
            listing = obstore.list(self._objects, prefix or None, chunk_size=1000)
            stored_files = [
                StoredFile(
                    path=record["path"],
                    size=record["size"],
                    modified_ms=int(record["last_modified"].timestamp() * 1000),
                )
                for chunk in listing
                for record in chunk
            ]
        except storage_errors.EXCEPTIONS as error:
            raise storage_errors.storage_error(error, self.display_path(prefix)) from error
        return tuple(sorted(stored_files, key=lambda file: file.path))

    def paths(self, prefix: str = "") -> list[str]:
        """Return the paths of all files below a folder, sorted.

        Raises:
            LakeError: As in :meth:`stored`.
        """
        return [file.path for file in self.stored(prefix)]

    def delete(self, paths: Iterable[str]) -> None:
        """Remove files; missing files are ignored.

        Raises:
            LakeError: A file cannot be removed.
        """
        sorted_paths = sorted(set(paths))
        if not sorted_paths:
            return
        self._must_write(sorted_paths[0])
        if self._folder is not None:
            for path in sorted_paths:
                local_files.remove(self._folder / path, self._folder)
            return
        try:
            obstore.delete(self._objects, sorted_paths)
        except storage_errors.EXCEPTIONS as error:
            if not storage_errors.is_absence(error):
                raise storage_errors.storage_error(
                    error, self.display_path(sorted_paths[0])
                ) from error
            if len(sorted_paths) > 1:
                for path in sorted_paths:
                    self.delete([path])

    def _must_write(self, path: str) -> None:
        if self._at.scheme in address.WEB:
            raise LakeError(
                "a web address is only read",
                path=self.display_path(path),
                hint="write to the folder or bucket behind it",
            )
        if path.startswith("/") or any(part in {"", ".", ".."} for part in path.split("/")):
            raise LakeError("is not a valid path of a store", path=path)


def opened(uri: str, *, create: bool = False) -> FileStore:
    """Open the store at an address.

    Credentials and endpoints of object stores come from the environment variables of their own tools (``AWS_…``,
    ``GOOGLE_…``, ``AZURE_STORAGE_…``).

    Args:
        uri: A folder, ``file://``, ``memory://`` (a new one each time), ``s3://``, ``gs://``, ``az://``, ``https://``.
        create: Whether to create a missing folder.

    Raises:
        LakeError: The scheme is unknown, the folder is missing, or the environment is incomplete.
    """
    at = address.parsed(uri)
    if at.scheme == address.MEMORY:
        return FileStore(at, MemoryStore())
    if at.scheme == address.FOLDER:
        return FileStore(at, _folder(at, create=create))
    client: ClientConfig = {"connect_timeout": CONNECT, "timeout": WHOLE, "read_timeout": SILENCE}
    retries: RetryConfig = {"max_retries": TRIES, "retry_timeout": TRIED_FOR}
    # Options that are set here override the environment variables that obstore reads.
    if at.scheme == "http" or any(
        os.environ.get(name, "").lower() in {"1", "true"} for name in PLAIN_HTTP
    ):
        client["allow_http"] = True
    full = f"{at.scheme}://{at.root}"
    try:
        return FileStore(
            at, _OBJECTS[at.scheme].from_url(full, client_options=client, retry_config=retries)
        )
    except storage_errors.EXCEPTIONS as error:
        raise storage_errors.storage_error(error, at.redacted_text) from error


_OBJECTS: Final[dict[str, type[S3Store] | type[GCSStore] | type[AzureStore] | type[HTTPStore]]] = {
    "s3": S3Store,
    "gs": GCSStore,
    "az": AzureStore,
    "https": HTTPStore,
    "http": HTTPStore,
}


def _folder(at: address.LakeAddress, *, create: bool) -> LocalStore:
    folder = Path(at.root or "/")
    try:
        if create:
            folder.mkdir(parents=True, exist_ok=True)
        if not folder.is_dir():
            raise LakeError(
                "is a file and not a folder" if folder.exists() else "there is no such folder",
                path=at.redacted_text,
                hint="create it, or check the address",
            )
        return LocalStore(folder)
    except OSError as error:
        raise local_files.storage_error(folder, error) from error
    except storage_errors.EXCEPTIONS as error:
        raise storage_errors.storage_error(error, at.redacted_text) from error
