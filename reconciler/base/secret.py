"""A secret text that cannot be printed by accident."""

from typing import Never, final

from reconciler.base.redaction import SCRUBBED as _HIDDEN
from reconciler.base.redaction import SecretScrubber


@final
class Secret:
    """A text that ``str``, ``repr``, ``format`` and tracebacks never show.

    Only :meth:`reveal` returns it, at the one place that sends it. It cannot be pickled or copied, so it does not
    reach another process or a dump. Equality compares the texts.
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the text itself."""
        return self._text

    def hidden_in(self, text: str) -> str:
        """Return a peer's text, of any length, without this secret."""
        return SecretScrubber((self._text,))(text)

    def __bool__(self) -> bool:
        return bool(self._text)

    def __eq__(self, value: object) -> bool:
        return isinstance(value, Secret) and self._text == value._text

    def __hash__(self) -> int:
        return hash((Secret, self._text))

    def __str__(self) -> str:
        return _HIDDEN

    def __repr__(self) -> str:
        return f"Secret({_HIDDEN})"

    def __format__(self, spec: str) -> str:
        return format(_HIDDEN, spec)

    def __reduce_ex__(self, protocol: object) -> Never:
        raise TypeError("a Secret is never pickled or copied; pass on the value that holds it")

    def __copy__(self) -> Never:
        raise TypeError("a Secret is never copied; share the one that you have")

    def __deepcopy__(self, memo: object) -> Never:
        raise TypeError("a Secret is never copied; share the one that you have")


def scrubbed(text: str, *secrets: Secret | None, limit: int = 300) -> str:
    """Hide every occurrence of the secrets, on one line, cut to ``limit`` characters.

    For messages of peers (token endpoints, TLS libraries) that error messages quote; see :class:`redaction.SecretScrubber`.
    """
    scrub = SecretScrubber(secret.reveal() for secret in secrets if secret is not None)
    line = " ".join("".join(c if c.isprintable() else " " for c in scrub(text)).split())
    return line if len(line) <= limit else f"{line[:limit]}..."
