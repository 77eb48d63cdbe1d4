"""``${env:X}``, ``${file:/p:key}`` and ``${directory:/p:key}`` in configuration values, limited by an allow-list.

The forms and their meaning are those of Kafka's EnvVarConfigProvider, FileConfigProvider and
DirectoryConfigProvider (KIP-421, KIP-297, KIP-614). Unlike in Kafka, a reference that cannot be resolved is an
error and is never passed on as text. Text of other forms, ``${unknown:x}`` too, is not changed.

Files are read from the disk, unless the caller trusts some places more than others: a pull request's checkout, for
example, must not supply the certificate authority of its trusted configuration.
"""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

from msgspec import Struct

from reconciler.base import properties
from reconciler.errors import ConfigError

_REFERENCE: Final = re.compile(r"\$\{(env|file|directory):(?:([^}]*?):)?([^}:]*)\}")


class ConfigFiles(Protocol):
    """Reads the files in settings: key stores, certificate authorities, and targets of references."""

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
        """Return the bytes of a file, at most 4 MiB."""
        return properties.read_bytes(path)

    def list_folder(self, path: Path) -> Sequence[Path] | None:
        """Return the files of a folder, sorted; ``None`` if the path is not a folder."""
        return sorted(path.iterdir()) if path.is_dir() else None


DISK: Final = DiskFiles()


class AllowedReferences(Struct, frozen=True, kw_only=True):
    """What references may read.

    Attributes:
        variables: Pattern that the whole name of an environment variable must match; None = no variable.
        paths: Files, and directories with everything below them, that may be read. Links are resolved before the
            comparison.
    """

    variables: str | None = None
    paths: tuple[Path, ...] = ()
    files: ConfigFiles = DISK

    def variable(self, name: str) -> bool:
        """Whether this environment variable may be read."""
        return self.variables is not None and re.fullmatch(self.variables, name) is not None

    def path(self, path: Path) -> bool:
        """Whether this file may be read."""
        real = path.resolve()
        return any(real.is_relative_to(root.resolve()) for root in self.paths)


NOTHING: Final = AllowedReferences()


def anything_in(files: ConfigFiles) -> AllowedReferences:
    """Return the permission for everything, with another reader of files."""
    return AllowedReferences(variables=".*", paths=(Path("/"),), files=files)


ANYTHING: Final = anything_in(DISK)
"""For files that the user of the program wrote or selected."""


def resolve(
    value: str,
    *,
    allowed: AllowedReferences,
    key: str,
    location: str = "",
    environment: Mapping[str, str] | None = None,
    values: list[str] | None = None,
) -> str:
    """Return ``value`` with its references replaced, once: replaced text is not searched again.

    Args:
        allowed: What may be read.
        environment: Used instead of the process's own.
        values: Receives the text of each reference, because it may be a secret under any key.

    Raises:
        ConfigError: A reference is not allowed, or its target does not exist.
    """
    variables = os.environ if environment is None else environment

    def replaced(match: re.Match[str]) -> str:
        provider, path, name = match.group(1), match.group(2) or "", match.group(3)
        try:
            if provider == "env":
                text = _variable(name, allowed, variables)
            else:
                file = Path(path) / name if provider == "directory" else Path(path)
                text = _from_path(provider, file, name, allowed)
        except ConfigError as error:
            raise ConfigError(
                f"{key}: ${{{provider}:...}} {error.message}",
                key=key,
                location=location,
                hint=error.hint,
            ) from None
        if values is not None:
            values.append(text)
        return text

    end = value.rfind("}") + 1  # Each reference before it has an end, so no search for one fails.
    return _REFERENCE.sub(replaced, value[:end]) + value[end:]


def _variable(name: str, allowed: AllowedReferences, variables: Mapping[str, str]) -> str:
    if not allowed.variable(name):
        raise ConfigError(f"may not read the environment variable {name} here", hint=_HINT)
    if name not in variables:
        raise ConfigError(f"refers to the environment variable {name}, which is not set")
    return variables[name]


def _from_path(provider: str, path: Path, name: str, allowed: AllowedReferences) -> str:
    if not path.is_absolute():
        raise ConfigError(
            "needs an absolute path", hint="${file:/path:key} or ${directory:/path:file}"
        )
    if provider == "directory" and ("/" in name or name in {"", ".", ".."}):
        raise ConfigError("needs the plain name of a file in the directory")
    if not allowed.path(path):
        raise ConfigError(f"may not read {path} here", hint=_HINT)
    if provider == "directory":
        return properties.decoded(allowed.files.read(path))
    content = properties.decoded(allowed.files.read(path))
    pairs = {pair.key: pair.value for pair in properties.parse(content, location=str(path))}
    if name not in pairs:
        raise ConfigError(f"refers to the key {name}, which {path} does not contain")
    return pairs[name]


_HINT: Final = "references may only read allowed sources; use the value itself, or allow the source"
