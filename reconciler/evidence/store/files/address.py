"""Where tables are kept, as an address: its parts, how it is shown without secrets, and how Spark calls it."""

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
"""What may be typed, and what it means."""

KNOWN: Final = "a folder, file://, s3://, gs://, az://, memory://, or https:// for reading"

ACCOUNTS: Final = ("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_ACCOUNT_NAME")
"""Where object stores look for the account of ``az://CONTAINER/…``."""

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?=//|/)")


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeAddress:
    """A place for files.

    Attributes:
        scheme: One of the values of :data:`SCHEMES`.
        root: An absolute path for folders, else what follows the scheme, without a slash at its end. Of a web
            address it may hold a password: show :attr:`redacted_text` instead.
        redacted_text: The whole for people, without credentials.
    """

    scheme: str
    root: str
    redacted_text: str

    def spark(self, path: str, environ: Mapping[str, str] = os.environ) -> str:
        """What Spark reads this file as; Hadoop takes names as they are, so nothing is escaped.

        Raises:
            LakeError: Spark cannot read from here.
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
    """The address as it was typed.

    Raises:
        LakeError: It is empty, of an unknown scheme, or names no bucket.
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
    if parts.query or (parts.username and scheme not in WEB):
        raise LakeError(
            "credentials do not belong into this address",
            path=redacted,
            hint="object stores take them from the environment, for example AWS_ACCESS_KEY_ID",
        )
    if scheme not in WEB and ":" not in parts.netloc:
        redacted = uri  # A bucket and a folder, in which "@" is a letter as any other.
    return LakeAddress(
        scheme=scheme, root=uri[match.end() + 2 :].rstrip("/"), redacted_text=redacted.rstrip("/")
    )
