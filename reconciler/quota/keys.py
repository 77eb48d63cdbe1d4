"""Quota keys: unit, number type, entity type and bounds of each key, checks of a value, and values as display text.

Sources: org.apache.kafka.server.config.QuotaConfig (4.3) for names and types,
ClientQuotaControlManager.validateQuotaKeyValue (3.5 to 4.4) for the rules.
"""

import math
from collections.abc import Iterable, Sequence
from enum import StrEnum
from sys import float_info
from typing import Annotated, Final, Literal, NamedTuple, TypeAlias, TypeVar

from msgspec import Meta

from reconciler.errors import QuotaValueError

EPSILON: Final = 1e-6
"""Maximum distance from a whole number that Kafka accepts for an integral key (ClientQuotaControlManager, 3.5+)."""

LONG_MAX: Final = 9_223_372_036_854_775_807
"""Long.MAX_VALUE. As a float64 it is 2^63, the number that the broker compares with and stores."""

INT_MAX: Final = 2_147_483_647

_WHOLE: Final = Meta(ge=-(2**53), le=2**53)
_FINITE: Final = Meta(ge=-float_info.max, le=float_info.max)

SetValue: TypeAlias = (
    Annotated[int, _WHOLE]
    | Annotated[float, _FINITE]
    | Literal["NaN", "Infinity", "-Infinity", "-0.0"]
)
"""A quota value that is set, in a JSON document; JSON has no number for the words."""

WrittenValue: TypeAlias = SetValue | None
"""A quota value in a JSON document, as ``json_values.written_value`` returns it."""

_T = TypeVar("_T")


class Key(StrEnum):
    """The keys that a manifest may declare, with Kafka's names, in column order.

    A new key is the last one, because stored rows have this order: see :func:`read_key_columns`.
    """

    PRODUCER_BYTE_RATE = "producer_byte_rate"
    CONSUMER_BYTE_RATE = "consumer_byte_rate"
    REQUEST_PERCENTAGE = "request_percentage"
    CONTROLLER_MUTATION_RATE = "controller_mutation_rate"
    CONNECTION_CREATION_RATE = "connection_creation_rate"


class KeyDefinition(NamedTuple):
    """Meaning and allowed values of one key."""

    key: Key  # Kafka's name
    field: str
    # Display text; every limit is per broker except the mutation rate (per active controller).
    unit: str
    is_integer: bool  # only whole numbers (Kafka's LONG and INT)
    # Largest legal value, as the float64 that the broker compares with; None = no bound.
    maximum: float | None
    on_ip: bool = False  # valid for ip entities only; otherwise for user and client-id ones
    # Smaller values are probably a mistake in the unit; guards refuse them. 0 = no such bound.
    slip: float = 0
    is_bytes: bool = False  # displayed with binary prefixes


COLUMNS: Final[tuple[Key, ...]] = tuple(Key)
"""Column order of :data:`reconciler.quota.state.Limits`."""

COLUMN_OF: Final[dict[Key, int]] = {key: column for column, key in enumerate(COLUMNS)}
"""Column of each key in a row of limits."""

KeyColumns: TypeAlias = tuple[_T, _T, _T, _T, _T]
"""One value for each key, in column order."""


def key_columns(values: Iterable[_T]) -> KeyColumns[_T]:
    """Return one value for each key as a tuple of fixed length.

    Raises:
        ValueError: There are fewer or more values than keys.
    """
    producer, consumer, request, mutation, connection = values
    return producer, consumer, request, mutation, connection


def read_key_columns(row: Sequence[_T | None]) -> KeyColumns[_T | None]:
    """Return the columns of a stored row. A row from before a key was added is shorter; that key is not set.

    Raises:
        ValueError: There are more values than keys.
    """
    return key_columns([*row, *[None] * (len(COLUMNS) - len(row))])


RULES: Final[dict[Key, KeyDefinition]] = {
    rule.key: rule
    for rule in (
        KeyDefinition(
            key=Key.PRODUCER_BYTE_RATE,
            field="producerByteRate",
            unit="bytes/s per broker",
            is_integer=True,
            maximum=float(LONG_MAX),
            slip=1024,
            is_bytes=True,
        ),
        KeyDefinition(
            key=Key.CONSUMER_BYTE_RATE,
            field="consumerByteRate",
            unit="bytes/s per broker",
            is_integer=True,
            maximum=float(LONG_MAX),
            slip=1024,
            is_bytes=True,
        ),
        KeyDefinition(
            key=Key.REQUEST_PERCENTAGE,
            field="requestPercentage",
            unit="% of one thread per broker",
            is_integer=False,
            maximum=None,
            slip=1,
        ),
        KeyDefinition(
            key=Key.CONTROLLER_MUTATION_RATE,
            field="controllerMutationRate",
            unit="partition mutations/s at the active controller",
            is_integer=False,
            maximum=None,
        ),
        KeyDefinition(
            key=Key.CONNECTION_CREATION_RATE,
            field="connectionCreationRate",
            unit="connections/s per broker",
            is_integer=True,
            maximum=float(INT_MAX),
            on_ip=True,
            slip=1,
        ),
    )
}
FIELDS: Final[dict[str, Key]] = {rule.field: rule.key for rule in RULES.values()}

CLIENT_KEYS: Final = tuple(key for key in COLUMNS if not RULES[key].on_ip)
"""Keys of user and client-id entities."""

IP_KEYS: Final = tuple(key for key in COLUMNS if RULES[key].on_ip)
"""Keys of ip entities."""


def check_value(key: Key, value: float) -> float:
    """Return the value as the float64 that Kafka will store.

    Raises:
        QuotaValueError: NaN, an infinity, zero or less, a fraction of an integral key, above the broker's
            maximum, or an integer without an exact float64. 9223372036854775807 is the one
            exception: it means 2^63, the broker's maximum.
    """
    rule = RULES[key]
    number = float(value) if not isinstance(value, int) or abs(value) < 2**1023 else math.inf
    if not math.isfinite(number):
        raise QuotaValueError(f"{rule.field} must be a finite number")
    if number <= 0:
        # Kafka before 3.5 stored 0: throttle times are divided by it, and no connection is accepted.
        raise QuotaValueError(
            f"{rule.field} must be greater than 0; omit it for no limit"
            " (0 is not that: brokers that have it stored hold clients back as much as they can)"
        )
    if rule.is_integer and not number.is_integer():
        raise QuotaValueError(f"{rule.field} must be a whole number ({rule.unit})")
    if rule.maximum is not None and number > rule.maximum:
        raise QuotaValueError(
            f"{rule.field} is above the broker's maximum of {_spell(rule.maximum)}"
        )
    if isinstance(value, int) and int(number) != value and value != LONG_MAX:
        raise QuotaValueError(
            f"{rule.field}: {value} has no exact float64; the nearest is {int(number)}"
        )
    return number


def same_value(key: Key, first: float | None, second: float | None) -> bool:
    """Whether two values of a key mean the same limit; ``None`` is "not set".

    Exact on float64, but a value of an integral key within 1e-6 of a whole number equals that number:
    Kafka accepts and stores 1000000.0000005 and enforces 1000000. NaN, which brokers up to 4.3 accept, equals NaN.
    """
    if first == second or first is None or second is None:
        return first == second
    if first % 1 == second % 1 == 0:  # most are whole
        return False
    values = canonical_value(key, first), canonical_value(key, second)
    return values[0] == values[1] or (math.isnan(first) and math.isnan(second))


def canonical_value(key: Key, value: float | None) -> float | None:
    """Return the number that stands for all values of the same limit."""
    if value is None or value % 1 == 0:  # whole: most are
        return None if value is None else value + 0.0
    if not math.isfinite(value):
        return value
    return whole_if_near(value) if RULES[key].is_integer else value + 0.0


def whole_if_near(value: float) -> float:
    """Return the nearest whole number if it is within Kafka's epsilon, else the value."""
    nearest = float(round(value))
    return nearest if abs(value - nearest) <= EPSILON else value


def _spell(value: float) -> str:
    return str(LONG_MAX if value == float(LONG_MAX) else int(value))


UNSET: Final = "-"
"""Text of a value that is not set; never 0, which has another meaning in Kafka."""

BINARY: Final = (("TiB/s", 2**40), ("GiB/s", 2**30), ("MiB/s", 2**20), ("KiB/s", 2**10))
DECIMAL: Final = (("TB/s", 10**12), ("GB/s", 10**9), ("MB/s", 10**6), ("kB/s", 10**3))


def number(value: float | None) -> str:
    """Return the exact value: whole numbers without a point, 2^63 as Kafka's 9223372036854775807."""
    if value is None:
        return UNSET
    if value == float(LONG_MAX):
        return str(LONG_MAX)
    if math.isfinite(value) and float(value).is_integer() and abs(value) < 1e21:
        return str(int(value))
    return repr(value)


def byte_rate(value: float) -> str:
    """Return ``10 MiB/s``, ``20 MB/s`` or ``≈ 9.54 MiB/s``: in the unit in which the number is round, if there is one."""
    # Brokers before 4.4 store infinities and NaN; tools that write the metadata log directly do too.
    if not math.isfinite(value):
        return f"{number(value)} B/s"
    for name, size in (*BINARY, *DECIMAL):
        scaled = value / size
        if scaled >= 1 and scaled * 4 == math.floor(scaled * 4) and scaled < 1024:
            return f"{scaled:g} {name}"
    for name, size in BINARY:
        if value >= size:
            return (
                f"≈ {value / size:.3g} {name}"
                if value < 999.5 * size  # beyond, three digits would be written 1e+03
                else f"≈ {value / size:.0f} {name}"
            )
    return f"{number(value)} B/s"


def quantity(key: Key, value: float | None) -> str:
    """Return a value as display text without its exact number: ``10 MiB/s``, ``50.5 %``, ``10/s``."""
    if value is None:
        return "no limit"
    if RULES[key].is_bytes:
        return "2^63, the maximum" if value == float(LONG_MAX) else byte_rate(value)
    return f"{number(value)} %" if key is Key.REQUEST_PERCENTAGE else f"{number(value)}/s"


def limit(key: Key, value: float | None) -> str:
    """Return the exact number and, for large byte rates, a rounded one: ``10485760 (10 MiB/s)``."""
    if value is None:
        return UNSET
    if RULES[key].is_bytes:
        return (
            f"{number(value)} ({quantity(key, value)})" if value >= 1000 else f"{number(value)} B/s"
        )
    return quantity(key, value)
