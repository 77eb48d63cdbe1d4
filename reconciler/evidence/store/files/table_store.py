"""Writes files of a store whole, each only over the version that was read; the only module that imports ``obstore``.

Arrow's file systems could write, too, but complete an upload even when the writer raises, so a file could be replaced
by its beginning.
"""

import contextlib
import fcntl
import logging
import os
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

import obstore
from obstore import exceptions
from obstore.store import AzureStore, GCSStore, S3Store

from reconciler.base.durable_files import remove_drafts, replace_file, sync_folder
from reconciler.base.redaction import redact_urls
from reconciler.errors import LakeConflict, LakeDamaged, LakeError
from reconciler.evidence.store.files import address
from reconciler.evidence.store.files.address import LakeAddress
from reconciler.evidence.store.files.table_reader import (
    CONNECT_SECONDS,
    PLAIN_HTTP,
    REQUEST_SECONDS,
    StoredFile,
    TableReader,
)

if TYPE_CHECKING:
    from obstore.store import ClientConfig, ObjectStore, RetryConfig

LOCK: Final = ".lock"
"""Name of the lock file beside a file in a folder; engines that list folders skip names that begin with a dot."""

FILE_MODE: Final = 0o644
"""Workers of other accounts read the tables; who may do so is decided by the folders, made with the umask."""

LOCKED_FOR: Final = 300.0
"""Seconds to wait for the lock, which is held while one file is written."""

TELL_AFTER: Final = 5.0
PAUSE: Final = 0.02

_LOG: Final = logging.getLogger("reconciler.lake")

WHOLE: Final = timedelta(minutes=10)
"""Timeout of one request with its body: a day of a large cluster over a slow connection."""

TRIES: Final = 4
TRIED_FOR: Final = timedelta(seconds=45)

_ERRORS: Final = (exceptions.BaseError, OSError, ValueError)
"""All exceptions that obstore raises; for some errors these are Python's classes."""

_WORDS: Final = (("NoSuchBucket", "NO_SUCH_BUCKET"), ("sending request", "NETWORK_CONNECTION"))
"""Words of obstore, and those of Arrow for the same."""

_CONFLICTS: Final = (exceptions.AlreadyExistsError, exceptions.PreconditionError)


class TableStore(TableReader):
    """Files that are read, and written whole."""

    def __init__(self, at: LakeAddress) -> None:
        """Open the store; errors as for :class:`~reconciler.evidence.store.files.table_reader.TableReader`."""
        super().__init__(at)
        self._objects = None if at.scheme == address.FOLDER else _object_store(at)

    def version(self, path: str) -> str | None:
        """Return the version of a file, for :meth:`put`; ``None`` if it does not exist.

        Raises:
            LakeError: The store denies access or does not answer.
        """
        try:
            if self._objects is None:
                return _version_text(self._disk_path(path).stat())
            return obstore.head(self._objects, path)["e_tag"]
        except (FileNotFoundError, exceptions.NotFoundError):
            return None
        except _ERRORS as error:
            raise self._refusal(error, path) from error

    def stored(self, path: str) -> StoredFile | None:
        """Return a file whole, with the version that :meth:`put` replaces; ``None`` if it does not exist.

        Raises:
            LakeError: The store denies access or does not answer.
        """
        try:
            if self._objects is None:
                with self._disk_path(path).open("rb") as file:
                    return StoredFile(file.read(), _version_text(os.fstat(file.fileno())))
            result = obstore.get(self._objects, path)
            return StoredFile(result.bytes().to_bytes(), result.meta["e_tag"])
        except (FileNotFoundError, exceptions.NotFoundError):
            return None
        except _ERRORS as error:
            raise self._refusal(error, path) from error

    def content(self, path: str) -> bytes:
        """Return the content of a file.

        Raises:
            LakeDamaged: It does not exist.
            LakeError: It cannot be read.
        """
        if (stored := self.stored(path)) is None:
            raise LakeDamaged("is not there", path=self.display_path(path))
        return stored.content

    def put(self, path: str, content: bytes, *, after: str | None) -> None:
        """Write a file whole, even if the process is killed.

        Args:
            after: The version that it replaces; ``None`` if the file must not exist.

        Raises:
            LakeConflict: The file has another version.
            LakeError: The file cannot be written.
        """
        try:
            if self._objects is None:
                self._put_on_disk(self._disk_path(path), content, after)
            else:
                is_new = after is None
                _ = obstore.put(
                    self._objects, path, content, mode="create" if is_new else {"e_tag": after}
                )
        except _CONFLICTS as error:
            # If a response is lost, the client's retry of the same request conflicts with its own first attempt.
            stored = self.stored(path)
            if stored is None or stored.content != content:
                raise self._conflict(path) from error
        except _ERRORS as error:
            raise self._refusal(error, path) from error

    def _refusal(self, error: Exception, path: str) -> LakeError:
        """Return the error to report for a read or write that failed."""
        if isinstance(error, OSError) and error.strerror:
            return LakeError(
                f"cannot be read or replaced: {error.strerror}",
                path=self.display_path(path),
                hint="analyses write their results to the lake, too: check its rights and free space",
            )
        text = redact_urls(str(error))
        if isinstance(error, exceptions.PermissionDeniedError | exceptions.UnauthenticatedError):
            text = "ACCESS_DENIED"
        for words, word in _WORDS:
            if words in text:
                text = word
        return self.failure(OSError(text), path)

    def _conflict(self, path: str) -> LakeConflict:
        return LakeConflict(
            "another writer replaced it meanwhile",
            path=self.display_path(path),
            hint="run it again; it includes the other writer's change",
        )

    def _disk_path(self, path: str) -> Path:
        return Path(self.at.root or "/") / path

    def _put_on_disk(self, path: Path, content: bytes, after: str | None) -> None:
        _make_folders(path.parent)
        with _locked(path.with_name(LOCK)):
            try:
                actual = _version_text(path.stat())
            except FileNotFoundError:
                actual = None
            if actual != after:
                raise self._conflict(str(path.relative_to(self.at.root or "/")))
            remove_drafts(path)
            replace_file(path, content, mode=FILE_MODE)


def opened(uri: str, *, create: bool = False) -> TableStore:
    """Open the store at an address.

    Args:
        uri: A folder, ``file://``, ``s3://``, ``gs://`` or ``az://``.
        create: Whether to create a missing folder.

    Raises:
        LakeError: The scheme is unknown, the folder is missing, or the environment is incomplete.
    """
    at = address.parsed(uri)
    if create and at.scheme == address.FOLDER:
        try:
            Path(at.root or "/").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LakeError(
                f"cannot be created: {error.strerror}", path=at.redacted_text
            ) from error
    return TableStore(at)


_KINDS: Final[dict[str, type[S3Store] | type[GCSStore] | type[AzureStore]]] = {
    "s3": S3Store,
    "gs": GCSStore,
    "az": AzureStore,
}


def _object_store(at: LakeAddress) -> "ObjectStore":
    client: ClientConfig = {
        "connect_timeout": timedelta(seconds=CONNECT_SECONDS),
        "timeout": WHOLE,
        "read_timeout": timedelta(seconds=REQUEST_SECONDS),
    }
    retries: RetryConfig = {"max_retries": TRIES, "retry_timeout": TRIED_FOR}
    # Options that are set here override the environment variables that obstore reads.
    if os.environ.get(PLAIN_HTTP, "").lower() in {"1", "true"}:
        client["allow_http"] = True
    try:
        return _KINDS[at.scheme].from_url(
            f"{at.scheme}://{at.root}", client_options=client, retry_config=retries
        )
    except _ERRORS as error:
        raise LakeError(
            f"cannot be opened: {redact_urls(str(error).splitlines()[0])[:300]}",
            path=at.redacted_text,
        ) from error


def _version_text(stat: os.stat_result) -> str:
    """Return a text that differs for each file that was ever renamed to a name."""
    return f"{stat.st_ino}-{stat.st_mtime_ns}-{stat.st_size}"


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock of the operating system, which releases it when its holder ends in any way.

    Raises:
        LakeError: Another process holds it for longer than :data:`LOCKED_FOR`.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
    try:
        _lock(handle, path)
        yield
    finally:
        os.close(handle)


def _lock(handle: int, path: Path) -> None:
    begin, is_told = time.monotonic(), False
    while True:
        try:
            return fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            waited = time.monotonic() - begin
            if waited > LOCKED_FOR:
                raise LakeError(
                    f"is locked by another process for more than {LOCKED_FOR:g} seconds",
                    path=str(path),
                    hint="end the process that has this file open, which may be stopped; the lock ends with it",
                ) from error
        if waited > TELL_AFTER and not is_told:
            is_told = True
            _LOG.warning("waiting for another process that has locked %s", path)
        time.sleep(PAUSE)


def _make_folders(folder: Path) -> None:
    missing = [parent for parent in (folder, *folder.parents) if not parent.is_dir()]
    for missing_folder in reversed(missing):
        missing_folder.mkdir(exist_ok=True)
        sync_folder(missing_folder.parent)
