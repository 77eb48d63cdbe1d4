"""Reads files that the trusted configuration refers to, at its revision or outside of the work tree, never from the head.

With ``--config-from`` the author of a change wrote the files of the work tree. A path of the trusted configuration in
the work tree therefore means the file of the trusted revision; links of the work tree are not followed. Without a
trusted revision the checkout is trusted, and a path means a file of the disk.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from reconciler.base import bounded_json, properties
from reconciler.base.regular_files import is_inside
from reconciler.errors import ConfigError, GitError

if TYPE_CHECKING:
    from reconciler.git.repository import CommitTree

_MAX_LINKS: Final = 40
"""Maximum number of links that Linux follows (ELOOP)."""


# One class reads whatever the trusted configuration names: docs/adr/trusted-revision.md.
class TrustedFiles(Struct, frozen=True, kw_only=True):
    """The files of one trusted revision, and those outside of its work tree. Implements ``client.ConfigFiles``."""

    tree: "CommitTree"
    revision: str  # the revision as typed
    is_bare: bool = False  # whether there is no checkout, so that no relative path leads out of it

    def check_inside(self, name: str, place: str) -> None:
        """Check the place of a relative path.

        Raises:
            ConfigError: It leads out of a repository without a checkout.
        """
        if self.is_bare and not is_inside(os.path.normpath(place), self.tree.top):
            raise ConfigError(
                f"{name} leads out of the repository",
                hint="name a file of the repository, or one of this machine by its absolute path",
            )

    def name_of(self, path: Path) -> str | None:
        """Return the name of a path in the tree; ``None`` if it is outside of the work tree.

        Raises:
            ConfigError: It is outside, but its path leads through the work tree, whose links the head revision decides.
        """
        absolute = Path(os.path.normpath(path.absolute()))
        if is_inside(absolute, self.tree.top):
            return absolute.relative_to(self.tree.top).as_posix()
        if _enters(absolute, self.tree.top):
            raise ConfigError(
                f"leads through the checkout {self.tree.top}, whose links are not trusted with --config-from",
                location=str(path),
                hint="name it by its path in the repository, or keep it outside of the checkout",
            )
        return None

    def read(self, path: Path) -> bytes:
        """Return the bytes of a file, at most 4 MiB.

        Raises:
            ConfigError: The trusted revision does not contain it, or it cannot be read.
        """
        name = self.name_of(path)
        if name is None:
            return properties.read_bytes(Path(os.path.normpath(path.absolute())))
        content = self.content(name, max_bytes=properties.MAX_BYTES)
        if content is None:
            raise ConfigError(
                f"is not in the repository at {self.revision}; the file of the checkout is not trusted",
                location=str(path),
                hint="merge the file first, or name one outside of the repository by its absolute path",
            )
        return content

    def list_folder(self, path: Path) -> Sequence[Path] | None:
        """Return the files of a folder, sorted; ``None`` if the path is not a folder."""
        name = self.name_of(path)
        if name is None:
            return sorted(path.iterdir()) if path.is_dir() else None
        below = f"{name}/"
        names = sorted(entry for entry in self.tree.entries if entry.startswith(below))
        return [
            self.tree.top / entry for entry in names if "/" not in entry.removeprefix(below)
        ] or None

    def content(self, name: str, *, max_bytes: int = bounded_json.DOCUMENT) -> bytes | None:
        """Return the bytes of a file of the tree; ``None`` if it has no such file.

        Raises:
            ConfigError: It cannot be read, or is a link out of the repository.
        """
        if name not in self.tree.entries:
            return None
        try:
            return self.tree.read([name], max_bytes=max_bytes)[name]
        except GitError as error:
            raise ConfigError(error.message, location=name, hint=error.hint) from error


def _enters(path: Path, top: Path) -> bool:
    """Whether an absolute path leads through a folder when its links are followed one by one."""
    pending = list(reversed(path.parts[1:]))
    at = Path(path.anchor)
    links = 0
    while pending and links <= _MAX_LINKS:
        step = pending.pop()
        if step == "..":
            at = at.parent
            continue
        at /= step
        if is_inside(at, top):
            return True
        try:
            target = at.readlink()
        except OSError:
            continue
        links += 1
        pending.extend(reversed(target.parts[1:] if target.is_absolute() else target.parts))
        at = Path(target.anchor) if target.is_absolute() else at.parent
    return False
