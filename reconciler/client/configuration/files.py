"""Where the files that client settings name are read: key stores, authorities, and what references point to.

Settings are read from the disk as they are, unless the caller trusts some places more than others: a pull request's
checkout, for example, must not bring the authority that its trusted configuration names.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from reconciler.base import properties


class ConfigFiles(Protocol):
    """Reads files that settings name."""

    def read(self, path: Path) -> bytes:
        """The bytes of a file, at most 4 MiB.

        Raises:
            ConfigError: It cannot be read.
        """
        ...

    def list_folder(self, path: Path) -> Sequence[Path] | None:
        """The files of a folder, sorted; ``None`` where the path is no folder.

        Raises:
            ConfigError: The folder cannot be listed.
        """
        ...


class DiskFiles:
    """The files of this machine. Implements ``ConfigFiles``."""

    def read(self, path: Path) -> bytes:
        """The bytes of a file, at most 4 MiB.

        Raises:
            ConfigError: It cannot be read.
        """
        return properties.read_bytes(path)

    def list_folder(self, path: Path) -> Sequence[Path] | None:
        """The files of a folder, sorted; ``None`` where the path is no folder."""
        return sorted(path.iterdir()) if path.is_dir() else None
