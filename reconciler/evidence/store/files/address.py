"""Addresses of stores: a folder, or a bucket of an object store, and their text without credentials."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from reconciler.base.redaction import redact_url
from reconciler.errors import LakeError

FOLDER: Final = "file"

SCHEMES: Final[dict[str, str]] = {
    "file": FOLDER,
    "s3": "s3",
    "s3a": "s3",
    "gs": "gs",
    "az": "az",
}
"""Accepted schemes and their canonical form."""

KNOWN: Final = "a folder, file://, s3://, gs:// or az://"

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?=//|/)")


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeAddress:
    """The address of a store."""

    scheme: str  # one of the values of `SCHEMES`
    # For folders an absolute path, otherwise bucket and folder, without a trailing slash.
    root: str
    redacted_text: str  # the whole address for display, without credentials


def parsed(uri: str) -> LakeAddress:
    """Parse an address.

    Raises:
        LakeError: It is empty, has an unknown scheme or no bucket, or contains credentials.
    """
    if not uri.strip():
        raise LakeError("the address is empty", hint=f"give {KNOWN}")
    match = _SCHEME.match(uri)
    if match is None:
        folder = str(Path(uri).expanduser().absolute())
        return LakeAddress(scheme=FOLDER, root=folder.rstrip("/"), redacted_text=folder)
    scheme = SCHEMES.get(match[1].lower())
    redacted = redact_url(uri)
    if scheme is None:
        raise LakeError(f"{match[1]}:// is not known here", path=redacted, hint=f"give {KNOWN}")
    parts = urlsplit(uri)
    if scheme == FOLDER:
        if parts.netloc not in {"", "localhost"}:
            raise LakeError(
                "a file address names no host", path=redacted, hint="write file:///FOLDER"
            )
        folder = unquote(parts.path)
        return LakeAddress(scheme=FOLDER, root=folder.rstrip("/"), redacted_text=folder)
    if not parts.hostname:
        raise LakeError("the bucket is missing", path=redacted, hint=f"{scheme}://NAME/FOLDER")
    if parts.query or parts.username:
        raise LakeError(
            "the address must not contain credentials",
            path=redacted,
            hint="object stores take them from the environment, for example AWS_ACCESS_KEY_ID",
        )
    if ":" not in parts.netloc:
        redacted = uri  # a bucket and folder, in which "@" is an ordinary character
    return LakeAddress(
        scheme=scheme, root=uri[match.end() + 2 :].rstrip("/"), redacted_text=redacted.rstrip("/")
    )
