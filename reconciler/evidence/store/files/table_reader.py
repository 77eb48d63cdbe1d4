"""Reads files of a store through Arrow's file systems: a folder, S3, GCS and Azure take the same path.

Python workers of Spark read with it, too. Credentials and endpoints come from the environment variables of the stores'
own tools (``AWS_…``, ``GOOGLE_…``, ``AZURE_STORAGE_…``).
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

import pyarrow as pa
from pyarrow import fs

from reconciler.base.redaction import redact_urls
from reconciler.errors import LakeDamaged, LakeError
from reconciler.evidence.store.files import address
from reconciler.evidence.store.files.address import LakeAddress

A = TypeVar("A")
B = TypeVar("B")

AT_ONCE: Final = 8
"""Number of files that are read at the same time."""


def each(work: Callable[[A], B], arguments: Sequence[A]) -> list[B]:
    """Apply ``work`` to the arguments concurrently; return the results in order, or raise the first error."""
    if len(arguments) < 2:
        return [work(argument) for argument in arguments]
    with ThreadPoolExecutor(min(AT_ONCE, len(arguments))) as pool:
        return list(pool.map(work, arguments))


T = TypeVar("T")

CONNECT_SECONDS: Final = 5
REQUEST_SECONDS: Final = 60

PLAIN_HTTP: Final = "AWS_ALLOW_HTTP"
"""Environment variable that must be ``true`` for a server on ``http://``, such as a development server."""

ACCOUNTS: Final = ("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_ACCOUNT_NAME")
"""Environment variables with the storage account for ``az://CONTAINER/…``."""

_BY_WORDS: Final[tuple[tuple[str, str, str], ...]] = (
    (
        "ACCESS_DENIED",
        "may not be used",
        "check the credentials and their rights; object stores also answer so for a missing file where they may not be listed",
    ),
    ("Permission denied", "may not be read", "check who owns the files"),
    ("NO_SUCH_BUCKET", "there is no such bucket", "create it, or check the address"),
    (
        "NETWORK_CONNECTION",
        "could not be reached",
        "check address, network and, for own servers, AWS_ENDPOINT_URL",
    ),
)


class StoredFile(NamedTuple):
    """The content of a file, and its version if it was asked for."""

    content: bytes
    version: str | None = None


class TableReader:
    """Files by their path below the root; segments are separated by ``/``."""

    def __init__(self, at: LakeAddress) -> None:
        """Open the store at an address.

        Raises:
            LakeError: The folder is missing, or the environment is incomplete.
        """
        self.at = at
        self._files, self._root = file_system(at)

    @property
    def redacted_address(self) -> str:
        """Its address for display, without credentials."""
        return self.at.redacted_text

    def display_path(self, path: str) -> str:
        """Return the address of a file for display."""
        return f"{self.at.redacted_text.removesuffix('/')}/{path}"

    def paths(self, prefix: str) -> list[str]:
        """Return the paths of all files below a folder, sorted; none if it does not exist.

        Raises:
            LakeError: The store denies access or does not answer.
        """
        selector = fs.FileSelector(f"{self._root}/{prefix}", allow_not_found=True, recursive=True)
        found_paths = self._asked(prefix, lambda: self._files.get_file_info(selector))
        if not found_paths and self.at.scheme != address.FOLDER:
            self._check_bucket()
        cut = len(self._root) + 1
        return sorted(info.path[cut:] for info in found_paths if info.type == fs.FileType.File)

    def open(self, path: str) -> pa.NativeFile:
        """Open a file for random access.

        Raises:
            LakeDamaged: The file does not exist.
            LakeError: The store denies access or does not answer.
        """
        return self._asked(path, lambda: self._files.open_input_file(f"{self._root}/{path}"))

    def version_of(self, file: pa.NativeFile) -> str:
        """Return a text that differs for each object at a path; "" in a folder, where it stays the file that was opened."""
        is_object = self.at.scheme != address.FOLDER
        return repr(sorted((file.metadata() or {}).items())) if is_object else ""

    def known_failure(self, error: Exception, path: str) -> LakeError | None:
        """Return the error to report for an exception of Arrow that is about the store and not about a file's content."""
        text = str(error)
        where = self.display_path(path)
        if isinstance(error, FileNotFoundError):
            return LakeDamaged("is not there", path=where)
        for words, message, hint in _BY_WORDS:
            if words in text:
                return LakeError(message, path=where, hint=hint)
        return None

    def failure(self, error: Exception, path: str) -> LakeError:
        """Return the error to report for an exception of Arrow."""
        if (known_error := self.known_failure(error, path)) is not None:
            return known_error
        first = redact_urls(str(error).strip().partition("\n")[0])[:300]
        return LakeError(
            f"cannot be read: {first or type(error).__name__}", path=self.display_path(path)
        )

    def _asked(self, path: str, act: Callable[[], T]) -> T:
        try:
            return act()
        except (OSError, pa.ArrowException) as error:
            raise self.failure(error, path) from error

    def _check_bucket(self) -> None:
        bucket = self._root.partition("/")[0]
        info = self._asked("", lambda: self._files.get_file_info(bucket))
        if info.type == fs.FileType.NotFound:
            raise LakeError(
                "there is no such bucket",
                path=self.redacted_address,
                hint="create it, or check the address",
            )


def file_system(at: LakeAddress) -> tuple[fs.FileSystem, str]:
    """Return the file system and the path of the root in it.

    Raises:
        LakeError: The folder is missing, or the environment is incomplete.
    """
    match at.scheme:
        case "s3":
            return _s3(at), at.root
        case "gs":
            return fs.GcsFileSystem(), at.root
        case "az":
            account = next((os.environ[name] for name in ACCOUNTS if os.environ.get(name)), "")
            if not account:
                raise LakeError(
                    "no storage account is known", path=at.redacted_text, hint=f"set {ACCOUNTS[0]}"
                )
            return fs.AzureFileSystem(account), at.root
        case _:
            folder = Path(at.root or "/")
            if not folder.is_dir():
                raise LakeError(
                    "is a file and not a folder" if folder.exists() else "there is no such folder",
                    path=at.redacted_text,
                    hint="create it, or check the address",
                )
            return fs.LocalFileSystem(), at.root


def _s3(at: LakeAddress) -> fs.S3FileSystem:
    endpoint = os.environ.get("AWS_ENDPOINT_URL", "")
    scheme, _, host = endpoint.rpartition("://")
    if scheme == "http" and os.environ.get(PLAIN_HTTP, "").lower() not in {"1", "true"}:
        raise LakeError(
            "is http:// and not https://",
            path=at.redacted_text,
            hint=f"set {PLAIN_HTTP}=true if that is meant",
        )
    return fs.S3FileSystem(
        region=os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION"),
        endpoint_override=host or None,
        scheme=scheme or "https",
        connect_timeout=CONNECT_SECONDS,
        request_timeout=REQUEST_SECONDS,
    )
