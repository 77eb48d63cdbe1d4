"""Converts errors of object stores to :class:`LakeError`: a sentence, the file and a hint, without credentials."""

from typing import Final

from obstore import exceptions

from reconciler.base.redaction import redact_urls
from reconciler.errors import LakeConflict, LakeDamaged, LakeError

EXCEPTIONS: Final = (exceptions.BaseError, OSError, ValueError)
"""All exceptions that obstore raises; for some errors these are Python's classes, such as FileNotFoundError."""

RIGHTS: Final = "check the credentials and their rights; object stores also answer so for a missing file where they may not be listed"

_NO_BUCKET: Final = "NoSuchBucket"

_BY_CLASS: Final[tuple[tuple[type[Exception], str, str], ...]] = (
    (PermissionError, "may not be used", RIGHTS),
    (exceptions.PermissionDeniedError, "may not be used", RIGHTS),
    (exceptions.UnauthenticatedError, "may not be used without valid credentials", RIGHTS),
    (exceptions.InvalidPathError, "is not a valid path of a store", ""),
    (ValueError, "is not a valid path of a store", ""),
    (exceptions.NotSupportedError, "cannot be done by this kind of store", ""),
)
_BY_WORDS: Final[tuple[tuple[str, str, str], ...]] = (
    # LocalFileSystem and HTTP use one class for nearly all errors.
    ("Permission denied", "may not be read", "check who owns the files"),
    (
        "Unable to canonicalize filesystem root",
        "there is no such folder",
        "create it, or check the address",
    ),
    (_NO_BUCKET, "there is no such bucket", "create it, or check the address"),
    ("Account must be specified", "no storage account is known", "set AZURE_STORAGE_ACCOUNT_NAME"),
    (
        "builder error",
        "is http:// and not https://",
        "set AWS_ALLOW_HTTP=true (or AZURE_ALLOW_HTTP, GOOGLE_ALLOW_HTTP) if that is meant",
    ),
    (
        "error sending request",
        "could not be reached",
        "check address, network and, for own servers, AWS_ENDPOINT_URL",
    ),
    ("timed out", "did not answer in time", "check the network, then try again"),
    (
        "Metadata",
        "no credentials were found",
        "set those of the store in the environment, for example AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    ),
)


_TOO_SHORT: Final = (
    "Requested range was invalid",
    "Invalid range",
    "416 Range Not Satisfiable",
    "InvalidRange",
)


def is_absence(error: Exception) -> bool:
    """Whether the error means that the file does not exist."""
    missing = isinstance(error, FileNotFoundError | exceptions.NotFoundError)
    return missing and _NO_BUCKET not in str(error)


def storage_error(error: Exception, path: str) -> LakeError:
    """Return the error to report.

    Args:
        error: The exception of obstore.
        path: The file, without credentials.
    """
    if isinstance(
        error, exceptions.AlreadyExistsError | exceptions.PreconditionError | FileExistsError
    ):
        return LakeConflict("it exists already", path=path)
    error_text = str(error)
    if is_absence(error) or any(words in error_text for words in _TOO_SHORT):
        words = "is not there" if is_absence(error) else "is shorter than it should be"
        return LakeDamaged(words, path=path)
    for words, message, hint in _BY_WORDS:
        if words in error_text:
            return LakeError(message, path=path, hint=hint)
    for kind, message, hint in _BY_CLASS:
        if isinstance(error, kind):
            return LakeError(message, path=path, hint=hint)
    first = redact_urls(error_text.strip().partition("\n")[0])[:300]
    return LakeError(f"the store refused: {first or type(error).__name__}", path=path)
