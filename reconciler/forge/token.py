"""The token of a code host, from the environment."""

from reconciler.base.redaction import remember
from reconciler.base.secret import Secret
from reconciler.errors import UsageError


def forge_token(text: str) -> Secret:
    """Validate a token for a header; logs of this process hide it from now on.

    Args:
        text: The value of the environment variable; surrounding blanks are removed.

    Raises:
        UsageError: It is empty, or contains characters that are invalid in a header. The message does not show it.
    """
    text = text.strip()
    if not text:
        raise UsageError("the token is empty")
    if not (text.isascii() and text.isprintable() and " " not in text):
        raise UsageError("the token contains invalid characters (a line break?)")
    remember(text)
    return Secret(text)
