"""Access to the files in client settings: key stores, certificate authorities, and targets of references.

Files are read from the disk, unless the caller trusts some places more than others: a pull request's
checkout, for example, must not supply the certificate authority of its trusted configuration.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from reconciler.base import properties


class ConfigFiles(Protocol):
    """Reads the files in settings."""

    def read(self, path: Path) -> bytes:
        """Return the bytes of a file, at most 4 MiB.

        Raises:
            ConfigError: It cannot be read.
        """
        ...

    def list_folder(self, path: Path) -> Sequence[Path] | None:
        """Return the files of a folder, sorted; ``None`` if the path is not a folder.

        Raises:
            ConfigError: The folder cannot be listed.
        """
        ...


class DiskFiles:
    """The files of this machine. Implements ``ConfigFiles``."""

    def read(self, path: Path) -> bytes:
        """Return the bytes of a file, at most 4 MiB.

        Raises:
            ConfigError: It cannot be read.
        """
        return properties.read_bytes(path)

    def list_folder(self, path: Path) -> Sequence[Path] | None:
        """Return the files of a folder, sorted; ``None`` if the path is not a folder."""
        return sorted(path.iterdir()) if path.is_dir() else None
