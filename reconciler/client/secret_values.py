"""The secrets of a configuration, and their removal from errors."""

import re
from collections.abc import Iterable, Iterator

from reconciler.base.redaction import SCRUBBED, SecretScrubber
from reconciler.base.secret import Secret
from reconciler.client.configuration.keys import KEYS, ValueKind
from reconciler.client.configuration.settings import ClientSettings
from reconciler.errors import ConfigError

_SHORTEST = 4
_HINT = f"{SCRUBBED} replaces the value of ${{...}}; check the key that uses it"


def secrets_of(settings: ClientSettings) -> tuple[Secret, ...]:
    """Return every secret of the settings, so that it can be removed from a peer's messages."""
    return tuple(dict.fromkeys(_secrets(settings)))


def _secrets(settings: ClientSettings) -> Iterator[Secret]:
    for key, setting in settings.entries.items():
        if KEYS[key].kind is not ValueKind.HIDDEN or not setting.text.strip():
            continue
        if key == "sasl.jaas.config":
            from reconciler.client.auth import jaas

            try:
                yield from jaas.parse(setting.text).secrets
            except ConfigError:
                # Without SASL the entry is not used, so it may be malformed: then all of it is hidden.
                yield Secret(setting.text)
        elif key == "proxy.url":
            yield from (Secret(part) for part in re.split(r"[/:@]+", setting.text)[1:-2])
        else:
            yield Secret(setting.text)


def hide_values(error: ConfigError, values: Iterable[str]) -> None:
    """Remove the text of references from an error, under whichever key they were used.

    The text is usually a secret. In a wrong key, the error would quote it as the invalid value.
    """
    long: set[str] = set()
    before = (error.message, error.hint, error.where)
    for value in values:
        for text in (value, *re.split(r"[\s,]+", value)):
            spellings = {text, text.strip(), text.lower(), text.upper()}
            long |= {spelling for spelling in spellings if len(spelling) >= _SHORTEST}
            for short in spellings - long - {""}:
                error.message = error.message.replace(repr(short), SCRUBBED)
    scrub = SecretScrubber(long)
    error.message, error.hint, error.where = map(scrub, (error.message, error.hint, error.where))
    error.args = (error.message,)
    if before != (error.message, error.hint, error.where):
        error.hint = error.hint or _HINT
