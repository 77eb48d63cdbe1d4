"""Addresses of stores: their parts, their text without credentials, and the form that Spark uses."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from reconciler.base.redaction import redact_url
from reconciler.errors import LakeError

FOLDER: Final = "file"
MEMORY: Final = "memory"
WEB: Final = ("https", "http")

SCHEMES: Final[dict[str, str]] = {
    "file": FOLDER,
    "memory": MEMORY,
    "s3": "s3",
    "s3a": "s3",
    "gs": "gs",
    "az": "az",
    "https": "https",
    "http": "http",
}
"""Accepted schemes and their canonical form."""

KNOWN: Final = "a folder, file://, s3://, gs://, az://, memory://, or https:// for reading"

ACCOUNTS: Final = ("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_ACCOUNT_NAME")
"""Environment variables with the storage account for ``az://CONTAINER/…``, as object store clients use them."""

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?=//|/)")


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeAddress:
    """The address of a store."""

    scheme: str  # one of the values of `SCHEMES`
    # For folders an absolute path, otherwise the text after the scheme, without a trailing slash.
    root: str
    redacted_text: str  # the whole address for display, without credentials

    def spark(self, path: str, environ: Mapping[str, str] = os.environ) -> str:
        """Return the URI of a file for Spark; nothing is escaped, because Hadoop takes names literally.

        Raises:
            LakeError: Spark cannot read from this address.
        """
        match self.scheme:
            case "file":
                return f"file://{self.root}/{path}"
            case "s3":
                return f"s3a://{self.root}/{path}"
            case "gs":
                return f"gs://{self.root}/{path}"
            case "az":
                account = next(
                    (environ[variable] for variable in ACCOUNTS if environ.get(variable)), ""
                )
                if not account:
                    raise LakeError(
                        "no storage account is known",
                        path=self.redacted_text,
                        hint=f"set {ACCOUNTS[0]}",
                    )
                container, _, below = self.root.partition("/")
                object_path = f"{below}/{path}" if below else path
                return f"abfss://{container}@{account}.dfs.core.windows.net/{object_path}"
            case _:
                raise LakeError(
                    "Spark cannot read from here",
                    path=self.redacted_text,
                    hint="keep the tables in a folder, s3://, gs:// or az://",
                )


def parsed(uri: str) -> LakeAddress:
    """Parse an address.

    Raises:
        LakeError: It is empty, has an unknown scheme or no bucket, or contains credentials where none may be.
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
    if scheme == MEMORY:
        return LakeAddress(scheme=MEMORY, root="", redacted_text="memory://")
    parts = urlsplit(uri)
    if scheme == FOLDER:
        if parts.netloc not in {"", "localhost"}:
            raise LakeError(
                "a file address names no host", path=redacted, hint="write file:///FOLDER"
            )
        folder = unquote(parts.path)
        return LakeAddress(scheme=FOLDER, root=folder.rstrip("/"), redacted_text=folder)
    if not parts.hostname:
        raise LakeError(
            "the bucket or host is missing", path=redacted, hint=f"{scheme}://NAME/FOLDER"
        )
    if parts.query or parts.username:
        raise LakeError(
            "the address must not contain credentials",
            path=redacted,
            hint="object stores take them from the environment, for example AWS_ACCESS_KEY_ID; web addresses need none",
        )
    if scheme not in WEB and ":" not in parts.netloc:
        redacted = uri  # a bucket and folder, in which "@" is an ordinary character
    return LakeAddress(
        scheme=scheme, root=uri[match.end() + 2 :].rstrip("/"), redacted_text=redacted.rstrip("/")
    )
