"""JSON files of the lake: strict reading, with the format, its version, and errors that name the file."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from reconciler.base import bounded_json
from reconciler.codecs.reader import DocumentReader
from reconciler.errors import ConfigError, LakeDamaged, QuotaValueError
from reconciler.usage.tables import SCHEMA_VERSION

MOST_BYTES: Final = 4 * 1024 * 1024
"""Maximum size of a manifest or of ``LATEST.json``: 250 bytes per file; a year of evidence has 1,500 files."""


@contextmanager
def damage_located(path: str) -> Iterator[None]:
    """Convert errors about fields to :class:`LakeDamaged` with the path of the file.

    Raises:
        LakeDamaged: A field has a wrong value.
    """
    try:
        yield
    except ConfigError as error:
        hint = "a newer version may have written it: upgrade kquota; otherwise it was damaged"
        raise LakeDamaged(error.message, path=path, hint=hint) from error
    except QuotaValueError as error:
        raise LakeDamaged(str(error), path=path) from error


def opened(content: bytes, path: str, format_name: str, format_version: int) -> DocumentReader:
    """Parse a file and check its format.

    Raises:
        LakeDamaged: The content is not JSON, not an object, too large, or has a duplicate name; or the format is
            different or newer.
    """
    try:
        document = bounded_json.parse(content, most_bytes=MOST_BYTES, pairs=bounded_json.unique)
    except bounded_json.InvalidJson as error:
        message = f"is not JSON ({error})" if content else "is empty"
        raise LakeDamaged(message, path=path, hint="it was cut off or damaged") from error
    if not isinstance(document, dict):
        raise LakeDamaged("is not a JSON object", path=path)
    top = DocumentReader(document)
    with damage_located(path):
        actual_name, actual_version = top["format"].text(), top["format_version"].amount()
    if actual_name != format_name:
        raise LakeDamaged(f"is {actual_name!r} and not {format_name!r}", path=path)
    if actual_version > format_version:
        raise LakeDamaged(
            f"is of format version {actual_version}; this program reads up to {format_version}",
            path=path,
            hint="upgrade kquota",
        )
    return top


def schema_version(top: DocumentReader, path: str) -> int:
    """Return the schema version of the tables: the current or the previous one.

    Raises:
        LakeDamaged: The version is newer or older.
    """
    version = top["schema_version"].amount()
    if SCHEMA_VERSION - 1 <= version <= SCHEMA_VERSION:
        return version
    raise LakeDamaged(
        f"was written with schema version {version}; this program reads {SCHEMA_VERSION - 1} and {SCHEMA_VERSION}",
        path=path,
        hint="upgrade kquota here, or everywhere it writes to this place at once"
        if version > SCHEMA_VERSION
        else "make it again with kquota spark ingest",
    )
