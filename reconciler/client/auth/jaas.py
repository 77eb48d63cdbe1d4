"""Parser of ``sasl.jaas.config``: one login module with its options.

Kafka reads the value with Java's StreamTokenizer (``org.apache.kafka.common.security.JaasConfig``, 4.3):
words may contain letters, ``- _ $`` and, after the first character, digits and dots; quoted texts have double or
single quotes and C-like escapes; ``//`` and ``/* */`` are comments. A bare number is not a word, so
``password=1234`` is an error in Kafka as well.
"""

import re
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from reconciler.base.secret import Secret
from reconciler.errors import ConfigError

KEY: Final = "sasl.jaas.config"
_OPTION_NAMES: Final = """
awsProfileName awsRoleArn awsRoleSessionName clientId clientSecret doNotPrompt keyTab
oauth.client.id oauth.client.secret oauth.scope oauth.token.endpoint.uri password principal
refreshKrb5Config renewTGT scope serviceName storeKey ticketCache tokenauth useKeyTab username
useTicketCache
"""
OPTIONS: Final = frozenset(_OPTION_NAMES.split())
"""Options whose names may be shown in messages. Any other word may be a piece of a password without quotes."""

_SECRET_OPTION: Final = re.compile(r"password|secret|token|assertion|credential", re.IGNORECASE)
_FLAGS: Final = frozenset({"required", "requisite", "sufficient", "optional"})
_ESCAPES: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_TOKEN: Final = re.compile(
    r"""(?P<skip>[\x00-\x20]+|//[^\r\n]*|/\*.*?\*/|/[^\r\n]*)
      |(?P<quoted>"(?:[^"\\\r\n]|\\.)*"|'(?:[^'\\\r\n]|\\.)*')
      |(?P<word>[A-Za-z_$\u00a0-\uffff][A-Za-z0-9_$.\-\u00a0-\uffff]*)
      |(?P<number>[0-9.\-][0-9.\-A-Za-z_$]*)
      |(?P<sign>.)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\([0-3][0-7]{2}|[0-7]{1,2}|.)", re.DOTALL)


class LoginModule(Struct, frozen=True, kw_only=True):
    """One login module. All option values are treated as secrets."""

    name: str
    flag: str
    options: dict[str, Secret]

    @property
    def short_name(self) -> str:
        """The class without its package."""
        return self.name.rpartition(".")[2]

    @property
    def secrets(self) -> tuple[Secret, ...]:
        """The values that no message may show: of options with secret names, and of unknown options."""
        return tuple(
            value
            for name, value in self.options.items()
            if name not in OPTIONS or _SECRET_OPTION.search(name)
        )

    def text(self, option: str) -> str | None:
        """Return the value of an option that is not a secret."""
        value = self.options.get(option)
        return None if value is None else value.reveal()


class _JaasToken(Struct, frozen=True):
    kind: str
    text: str


def parse(text: str, *, location: str = "") -> LoginModule:
    """Parse the one login module of ``sasl.jaas.config``.

    Raises:
        ConfigError: The text is not one module, a flag, options and a semicolon. The message contains no other words of
            the text than names in :data:`OPTIONS`: if a quote is missing, any other word may belong to a password.
    """
    tokens = list(_tokens(text, location))
    name, flag = (_expect_word(tokens, at, location) for at in (0, 1))
    if flag.lower() not in _FLAGS:
        raise _error("the login module needs a flag such as required after it", location)
    options: dict[str, Secret] = {}
    at = 2
    while at < len(tokens) and tokens[at] != _JaasToken("sign", ";"):
        key = _expect_word(tokens, at, location)
        option = key if key in OPTIONS else f"option {len(options) + 1}"
        if at + 2 >= len(tokens) or tokens[at + 1] != _JaasToken("sign", "="):
            raise _error(
                f"{option} has no value; a value with spaces or special characters must be quoted",
                location,
            )
        value = tokens[at + 2]
        if value.kind not in {"word", "quoted"}:
            raise _error(f"the value of {option} must be quoted", location)
        options[key] = Secret(value.text)
        at += 3
    if at >= len(tokens):
        raise _error("the entry must end with a semicolon", location)
    if at + 1 < len(tokens):
        raise _error(
            "more than one login module is given; Kafka clients take exactly one", location
        )
    return LoginModule(name=name, flag=flag.lower(), options=options)


def _tokens(text: str, location: str) -> Iterator[_JaasToken]:
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or ""
        lexeme = match.group()
        if kind == "skip":
            if lexeme.startswith("/*") and (len(lexeme) < 4 or not lexeme.endswith("*/")):
                # Searching the end from each such place would take quadratic time.
                raise _error("a comment is opened and not closed", location)
            continue
        if kind == "sign" and lexeme in "\"'":
            raise _error("a quote is opened and not closed on the same line", location)
        yield _JaasToken(kind, _unquote(lexeme) if kind == "quoted" else lexeme)


def _unquote(token: str) -> str:
    def replaced(match: re.Match[str]) -> str:
        escaped = match.group(1)
        if escaped[0] in "01234567":
            return chr(int(escaped, 8))
        return _ESCAPES.get(escaped, escaped)

    return _ESCAPE.sub(replaced, token[1:-1])


def _expect_word(tokens: list[_JaasToken], at: int, location: str) -> str:
    if at >= len(tokens) or tokens[at].kind not in {"word", "quoted"}:
        expected = (
            ("a login module class", "a flag such as required")[at] if at < 2 else "an option"
        )
        raise _error(f"{expected} is expected at token {at + 1}", location)
    return tokens[at].text


def _error(message: str, location: str) -> ConfigError:
    return ConfigError(
        f"{KEY}: {message}",
        key=KEY,
        location=location,
        hint='for example: org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p";',
    )
