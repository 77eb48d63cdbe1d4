"""Types of option values that click does not have: durations, entities, ``key=value`` limits."""

import re
from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from reconciler.errors import QuotaValueError, UsageError
from reconciler.quota.entity_forms import read_entity
from reconciler.quota.keys import FIELDS, RULES, Key, check_value

F = TypeVar("F", bound=Callable[..., Any])
Parsed = TypeVar("Parsed")

_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_DECIMAL: Final = re.compile(r"(0|[1-9][0-9]{0,15})(\.[0-9]{1,30})?")
_STEP: Final = re.compile(r"([0-9]{1,6})(ms|s|m|h|d)")

LONGEST_DAYS: Final = 36_500
"""Longest duration in days: a time that is so far away can still be written in every output."""

LONGEST_REASON: Final = 512
"""Maximum characters of a reason, as the status of a ClientQuota shows them."""


class DurationParameter(click.ParamType[float]):
    """A duration such as ``90s``, ``2h``, ``1h30m`` or ``7d``; converted to seconds, above zero."""

    name = "duration"

    def __init__(self, *, max_days: int = LONGEST_DAYS) -> None:
        self._max_days = max_days

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the duration in seconds."""
        if isinstance(value, float):
            return value
        text = str(value)
        steps = _STEP.findall(text)
        seconds = sum(int(count) * _UNITS[unit] for count, unit in steps)
        if "".join(map("".join, steps)) != text or seconds <= 0:
            self.fail(f"{text!r} is not a duration; examples: 90s, 2h, 1h30m, 7d", param, ctx)
        if seconds > self._max_days * _UNITS["d"]:
            self.fail(f"{text!r} is longer than {self._max_days}d", param, ctx)
        return float(seconds)


DURATION: Final = DurationParameter()
"""A duration of at most :data:`LONGEST_DAYS` days."""


class ReasonParameter(click.ParamType[str]):
    """The reason of an override: a text of at most :data:`LONGEST_REASON` characters, not blank."""

    name = "text"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> str:
        """Return the reason without blanks around it."""
        text = str(value).strip()
        if not text:
            self.fail("it is empty; give a reason such as INC-1234", param, ctx)
        if len(text) > LONGEST_REASON:
            self.fail(
                f"it has {len(text)} characters; at most {LONGEST_REASON} are stored", param, ctx
            )
        return text


class _NamesOfKafka(click.ParamType[Parsed]):
    """UTF-8 text: one name, or an entity as in every output (``user=alice,client-id=<default>``)."""

    name = "entity"

    def __init__(self, read: Callable[[str], Parsed]) -> None:
        self._read = read

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> Parsed:
        text = str(value)
        try:
            _ = text.encode("utf-8")
            return self._read(text)
        except UnicodeEncodeError:
            self.fail(f"{text!r} is not UTF-8 text, which Kafka requires for names", param, ctx)
        except QuotaValueError as error:
            self.fail(str(error), param, ctx)


ENTITY: Final = _NamesOfKafka(read_entity)
"""An entity with Kafka's entity types."""

NAME: Final = _NamesOfKafka(str)
"""A single name, as it is."""


def key_named(name: str, *, hint: str = "") -> Key:
    """Return the key with this name of Kafka or of the manifest field.

    Raises:
        UsageError: There is none.
    """
    names = {key.value: key for key in Key} | FIELDS
    if name not in names:
        raise UsageError(f"unknown key {name!r}", hint=f"the keys are {', '.join(Key)}{hint}")
    return names[name]


def _decimal(text: str) -> float:
    """Return the value of a key that takes fractions and no suffix: 5Mi would be five million percent.

    Raises:
        QuotaValueError: The text is not a plain decimal number.
    """
    if _DECIMAL.fullmatch(text) is None:
        raise QuotaValueError(f"{text[:64]!r} is not a decimal number without suffix, such as 50.5")
    return float(text)


def limit(text: str) -> tuple[Key, float]:
    """Parse ``key=value``: a key by Kafka's name or the manifest field, and a value as in a manifest.

    Raises:
        UsageError: The text is not of that form, the key is unknown, or Kafka would refuse the value.
    """
    name, equals, right = text.partition("=")
    example = "; for example producer_byte_rate=10Mi"
    if not equals:
        raise UsageError(
            f"{text!r} is not of the form key=value", hint=f"the keys are {', '.join(Key)}{example}"
        )
    key = key_named(name, hint=example)

    from reconciler.manifest.quantity import manifest_whole  # imports the YAML reader

    try:
        exact = manifest_whole(right) if RULES[key].is_integer else _decimal(right)
        return key, check_value(key, exact)
    except QuotaValueError as error:
        raise UsageError(f"{name}: {error.message}", hint=error.hint) from error
