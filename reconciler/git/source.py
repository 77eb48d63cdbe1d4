"""The source of commits: a folder or a URL, without credentials in messages or command lines."""

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self
from urllib.parse import unquote, urlsplit, urlunsplit

from reconciler.base.redaction import remember
from reconciler.errors import GitError

_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_SCP: Final = re.compile(
    r"(?:[^/:@\s]+@)?[^/:@\s]{2,}:(?!:)"
)  # git@host:path; one letter would be a drive
_TRANSPORTS: Final = ("https", "http", "ssh", "git", "file")


@dataclass(frozen=True, slots=True, kw_only=True)
class GitSource:
    """A repository to fetch from."""

    address: str  # the address for git; never contains a password
    # `Authorization` for an https address with a user and a password or token; hidden.
    header: str = field(default="", repr=False)

    @classmethod
    def of(cls, text: str, *, start: Path) -> Self:
        """Parse a source, as ``git clone`` would.

        Args:
            text: A folder, ``https://…``, ``ssh://…``, ``git@host:path`` or ``file://…``.

        Raises:
            GitError: It is none of these; the text is not quoted if it may contain a password.
        """
        if not text or text.startswith("-") or not text.isprintable():
            raise GitError("this is not a valid repository URL")
        if _URL.match(text):
            return cls._of_url(text)
        folder = (start / text).absolute()
        if not folder.is_dir():
            if _SCP.match(text):
                return cls(address=text)
            if "::" in text:
                raise GitError("programs as transports (NAME::ADDRESS) are not run")
            raise GitError(
                f"there is no folder {folder}", hint="name a clone, a bare repository or a URL"
            )
        return cls(address=str(folder))

    @classmethod
    def _of_url(cls, text: str) -> Self:
        parts = urlsplit(text)
        if parts.scheme not in _TRANSPORTS:
            raise GitError(
                f"repositories are not fetched by {parts.scheme}://",
                hint=f"known are {', '.join(_TRANSPORTS)} and user@host:path",
            )
        if parts.password is None and not (parts.username and parts.scheme in {"http", "https"}):
            return cls(address=text)
        if parts.scheme != "https":
            raise GitError(
                f"a password in a {parts.scheme}:// URL is visible on the network or in the process list",
                hint="use https, or an ssh key",
            )
        credentials = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
        header = "Authorization: Basic " + base64.b64encode(credentials.encode()).decode("ascii")
        remember(unquote(parts.password or ""), header.rpartition(" ")[2])
        bare = parts.netloc.rpartition("@")[2]
        return cls(address=urlunsplit(parts._replace(netloc=bare)), header=header)

    @property
    def variables(self) -> Mapping[str, str]:
        """The git settings with the credentials: passed in the environment, which other users cannot read."""
        if not self.header:
            return {}
        parts = urlsplit(self.address)
        return {f"http.{parts.scheme}://{parts.netloc}/.extraHeader": self.header}
