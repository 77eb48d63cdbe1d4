"""Label matchers in PromQL syntax."""

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from reconciler.errors import TelemetryError

_NAME: Final = re.compile(r"\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*(=~|!~|!=|=)\s*")
_QUOTED: Final = re.compile(r"`([^`]*)`|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'")
_ESCAPE: Final = re.compile(
    r"\\(?:[abfnrtv\\\"']|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7]{2})"
)
"""The escapes of PromQL; each has the same meaning in Python."""

_HINT: Final = 'write it as in PromQL, such as cluster="orders",job=~"kafka.*"'


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelMatcher:
    """A condition on one label."""

    label: str  # its name; an absent label equals an empty one
    # `=`, `!=`, `=~` or `!~`; expressions are anchored at both ends, as in Prometheus.
    operator: str
    value: str
    _pattern: re.Pattern[str] | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.operator.endswith("~"):
            return
        try:
            pattern = re.compile(self.value, re.DOTALL)
        except (re.error, OverflowError, RecursionError) as wrong:
            raise TelemetryError(
                f"{self.value!r} is not a regular expression: {wrong}", hint=_HINT
            ) from wrong
        object.__setattr__(self, "_pattern", pattern)

    def fits(self, labels: Mapping[str, str]) -> bool:
        """Whether a series with these labels matches."""
        actual_value = labels.get(self.label, "")
        is_match = (
            self._pattern.fullmatch(actual_value) is not None
            if self._pattern is not None
            else actual_value == self.value
        )
        return is_match is not self.operator.startswith("!")

    def __str__(self) -> str:
        return f"{self.label}{self.operator}{quoted(self.value)}"


def quoted(text: str) -> str:
    """Return a PromQL string literal."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def fits(matchers: tuple[LabelMatcher, ...], labels: Mapping[str, str]) -> bool:
    """Whether a series matches all matchers; without matchers, every series does."""
    return all(matcher.fits(labels) for matcher in matchers)


def selector(metric: str, matchers: tuple[LabelMatcher, ...]) -> str:
    """Return a PromQL selector."""
    return f"{metric}{{{','.join(str(matcher) for matcher in matchers)}}}"


def parsed(text: str) -> tuple[LabelMatcher, ...]:
    """Parse matchers such as ``cluster="orders",job=~"kafka.*"``, with or without braces.

    Raises:
        TelemetryError: The text is invalid.
    """
    inner = text.strip()
    if inner.startswith("{") and inner.endswith("}"):
        inner = inner[1:-1]
    matchers: list[LabelMatcher] = []
    at = 0
    while inner[at:].strip():
        name_match = _NAME.match(inner, at)
        value = name_match and _QUOTED.match(inner, name_match.end())
        if name_match is None or value is None:
            raise TelemetryError(
                f"label matchers cannot be read from {inner[at : at + 40]!r} on", hint=_HINT
            )
        raw = value[1] if value[1] is not None else _unescaped(value[0])
        matchers.append(LabelMatcher(label=name_match[1], operator=name_match[2], value=raw))
        remaining_text = inner[value.end() :]
        stripped = remaining_text.lstrip()
        if stripped and not stripped.startswith(","):
            raise TelemetryError(
                f"expected a comma between two matchers, found {stripped[:20]!r}", hint=_HINT
            )
        at = len(inner) - len(stripped) + (1 if stripped else 0)
    return tuple(matchers)


def _unescaped(literal: str) -> str:
    if "\\" in _ESCAPE.sub("", literal):
        raise TelemetryError(f"{literal} has an escape that PromQL does not know", hint=_HINT)
    try:
        text = _ESCAPE.sub(lambda escape: ast.literal_eval(f'"{escape[0]}"'), literal[1:-1])
        _ = text.encode()
    except (SyntaxError, ValueError):
        raise TelemetryError(
            f"{literal} in a label matcher has an escape that is no character", hint=_HINT
        ) from None
    return text
