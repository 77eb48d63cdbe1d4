"""Checks settings of a file or mapping against the table of keys, without defaults or meaning.

The result still has one entry per key, each with its place, so that later errors can show both.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from msgspec import Struct, structs

from reconciler.base.secret import Secret
from reconciler.client.configuration import references
from reconciler.client.configuration.keys import (
    FOREIGN,
    IGNORED_ALOUD,
    IGNORED_PREFIXES,
    KEYS,
    REFUSED,
    KeyRule,
    ValueKind,
)
from reconciler.client.configuration.references import ConfigFiles
from reconciler.errors import ConfigError

_SWITCHES: Final = {"true": True, "false": False}
_SETTING_NAME: Final = re.compile(r"[a-z][a-z0-9_]*(?:\.[a-z0-9_]+)+")
_PROTECTION: Final = ("security.", "ssl.", "sasl.")
_MAX_MILLIS: Final = 2**31 - 1


class Setting(Struct, frozen=True, kw_only=True):
    """One value with its name and place as configured. The text may be a secret: not in ``repr``."""

    name: str
    text: str
    location: str

    def __repr__(self) -> str:
        return f"Setting(name={self.name!r}, where={self.location!r})"

    def error(self, message: str, *, hint: str = "") -> ConfigError:
        """Return an error with the name and place of this setting."""
        return ConfigError(
            f"{self.name}: {message}", key=self.name, location=self.location, hint=hint
        )


class ClientSettings(Struct, frozen=True, kw_only=True):
    """Settings by canonical key, warnings about the keys, and the reader of their files."""

    entries: Mapping[str, Setting]
    warnings: tuple[str, ...]
    location: str
    files: ConfigFiles = references.DISK

    def __contains__(self, key: str) -> bool:
        return key in self.entries

    def text(self, key: str) -> str | None:
        """Return the text without blanks at both ends, as Kafka does for every type except passwords."""
        setting = self.entries.get(key)
        return None if setting is None else setting.text.strip()

    def lowered(self, key: str, default: str) -> str:
        """Return a choice in lower case."""
        text = self.text(key)
        return default if text is None else text.lower()

    def secret(self, key: str) -> Secret | None:
        """Return a password, blanks included."""
        setting = self.entries.get(key)
        return None if setting is None else Secret(setting.text)

    def items(self, key: str) -> tuple[str, ...]:
        """Return the parts of a comma separated list, without empty ones."""
        return tuple(part for raw in (self.text(key) or "").split(",") if (part := raw.strip()))

    def seconds(self, key: str, default: float) -> float:
        """Return a time in seconds; the setting is in milliseconds."""
        setting = self.entries.get(key)
        return default if setting is None else _parse_integer(setting) / 1000

    def count(self, key: str, default: int) -> int:
        """Return a whole number."""
        setting = self.entries.get(key)
        return default if setting is None else _parse_integer(setting)

    def switch(self, key: str, *, default: bool) -> bool:
        """Return true or false."""
        return _SWITCHES.get(self.lowered(key, ""), default)

    def error(self, key: str, message: str, *, hint: str = "") -> ConfigError:
        """Return an error about a key, whether it is set or not."""
        setting = self.entries.get(key)
        if setting is not None:
            return setting.error(message, hint=hint)
        return ConfigError(f"{key}: {message}", key=key, location=self.location, hint=hint)


def collect(
    settings: Iterable[Setting],
    *,
    allowed: references.AllowedReferences,
    location: str = "",
    values: list[str] | None = None,
) -> ClientSettings:
    """Check names, resolve references and check the values of all settings.

    A later setting replaces an earlier one of the same name, as in a Java properties file.

    Args:
        allowed: What references may read.
        location: The file or "", for errors about missing keys.
        values: Receives the text of every reference.

    Raises:
        ConfigError: A key is refused, or unknown and about TLS or a login; an alias contradicts its canonical name, a reference cannot be resolved, or a
            value cannot be read.
    """
    last = {setting.name: setting for setting in settings}
    warnings: list[str] = []
    entries: dict[str, Setting] = {}
    for setting in last.values():
        if setting.name in REFUSED and setting.text.strip():
            raise setting.error(f"is not supported: {REFUSED[setting.name]}")
        rule = KEYS.get(setting.name)
        if rule is None:
            warnings.extend(unknown_key_warning(setting))
            continue
        if rule.kind is ValueKind.IGNORED:
            warnings.extend(_ignored_aloud(setting))
            continue
        text = references.resolve(
            setting.text,
            allowed=allowed,
            key=setting.name,
            location=setting.location,
            values=values,
        )
        resolved = structs.replace(setting, text=text)
        _check(rule, resolved)
        duplicate = entries.setdefault(rule.name, resolved)
        if duplicate.text != resolved.text:
            raise resolved.error(f"contradicts {duplicate.name}, which means the same")
    return ClientSettings(
        entries=entries, warnings=tuple(warnings), location=location, files=allowed.files
    )


def _ignored_aloud(setting: Setting) -> Iterator[str]:
    """Yield a warning if an ignored key selects how a connection is protected."""
    reason = IGNORED_ALOUD.get(setting.name)
    if reason is not None and setting.text.strip():
        place = f"{setting.location}: " if setting.location else ""
        yield f"{place}{setting.name} is ignored: {reason}"


def unknown_key_warning(setting: Setting) -> Iterator[str]:
    """Yield the warning for an unknown key.

    Raises:
        ConfigError: It is, or is near to, a key about TLS or a login: without it the connection would be less protected.
    """
    place = f"{setting.location}: " if setting.location else ""
    if setting.name in REFUSED or setting.name.startswith(IGNORED_PREFIXES):
        return  # A refused key without a value has no effect.
    owner = FOREIGN.get(setting.name)
    if owner is not None:
        yield f"{place}{setting.name} is a {owner} setting and has no effect here"
        return
    import difflib

    near = difflib.get_close_matches(setting.name, KEYS, n=1, cutoff=0.75)
    if (near[0] if near else setting.name).startswith(_PROTECTION):
        hint = f"did you mean {near[0]}?" if near else "remove it, or correct its name"
        raise ConfigError(
            f"unknown key {setting.name!r}", key=setting.name, location=setting.location, hint=hint
        )
    if not near and not _SETTING_NAME.fullmatch(setting.name):
        # A line of a password that was broken in two may look like a key.
        yield f"{place}a key that is not a setting name is ignored; it is not shown, because it may be a secret"
        return
    suffix = f"; did you mean {near[0]}?" if near else ""
    yield f"{place}unknown key {setting.name!r} is ignored{suffix}"


def _check(rule: KeyRule, setting: Setting) -> None:
    lowered = setting.text.strip().lower()
    if rule.choices and lowered not in rule.choices:
        choices_text = ", ".join(choice or '""' for choice in rule.choices)
        raise setting.error(f"{setting.text.strip()!r} is not one of {choices_text}")
    if rule.kind in {ValueKind.MILLIS, ValueKind.COUNT}:
        number = _parse_integer(setting)
        least = 1 if rule.kind is ValueKind.COUNT else 0
        if not least <= number <= _MAX_MILLIS:
            raise setting.error(f"{number} is not between {least} and {_MAX_MILLIS}")
    if rule.kind is ValueKind.SWITCH and lowered not in _SWITCHES:
        raise setting.error(f"{setting.text.strip()!r} must be true or false")


def _parse_integer(setting: Setting) -> int:
    try:
        return int(setting.text.strip(), 10)
    except ValueError:
        raise setting.error(f"{setting.text.strip()!r} is not a whole number") from None
