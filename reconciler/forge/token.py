"""The token of a code host: a text that nothing prints. Only the type lives here.

The client has a type of the same kind; neighbours do not import each other, and ten lines are cheaper than a floor.
"""

from typing import Never, final

from reconciler.base.redaction import SCRUBBED as _HIDDEN
from reconciler.base.redaction import SecretScrubber, remember
from reconciler.errors import UsageError


@final
class ForgeToken:
    """A token that ``str``, ``repr``, ``format``, ``pickle`` and tracebacks of values never show.

    Args:
        text: As it came from the environment; blanks around it are taken off.

    Raises:
        UsageError: It is empty, or holds what no header may hold. The message does not show it.
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text.strip()
        if not self._text:
            raise UsageError("the token is empty")
        if not (self._text.isascii() and self._text.isprintable() and " " not in self._text):
            raise UsageError("the token holds characters that no token has (a line break?)")
        remember(self._text)

    def reveal(self) -> str:
        """The text itself, for the one header that carries it."""
        return self._text

    def hidden_in(self, text: str) -> str:
        """Words of a stranger without the token in them."""
        return SecretScrubber((self._text,))(text)

    def __repr__(self) -> str:
        return f"Token({_HIDDEN})"

    def __str__(self) -> str:
        return _HIDDEN

    def __format__(self, spec: str) -> str:
        return format(_HIDDEN, spec)

    def __reduce_ex__(self, protocol: object) -> Never:
        raise TypeError("a Token is never pickled or copied")

    def __copy__(self) -> Never:
        raise TypeError("a Token is never copied")

    def __deepcopy__(self, memo: object) -> Never:
        raise TypeError("a Token is never copied")
