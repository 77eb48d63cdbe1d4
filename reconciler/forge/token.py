"""The token of a code host, as it comes from the environment."""

from reconciler.base.redaction import remember
from reconciler.base.secret import Secret
from reconciler.errors import UsageError


def forge_token(text: str) -> Secret:
    """A token that may stand in a header; logs of this process hide it from now on.

    Args:
        text: As it came from the environment; blanks around it are taken off.

    Raises:
        UsageError: It is empty, or holds what no header may hold. The message does not show it.
    """
    text = text.strip()
    if not text:
        raise UsageError("the token is empty")
    if not (text.isascii() and text.isprintable() and " " not in text):
        raise UsageError("the token holds characters that no token has (a line break?)")
    remember(text)
    return Secret(text)
