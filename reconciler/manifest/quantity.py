"""Kubernetes quantities, exact: text to number and number to text.

The grammar is that of apimachinery's resource.ParseQuantity: digits with an optional point, then a binary suffix
(Ki to Ei), a decimal one (n, u, m, k to E) or an exponent. Nothing is rounded here; Kubernetes itself rounds up
below 1e-9 and limits values to 2^63-1, so manifests accept only the part of the grammar where it does neither
(:data:`MANIFEST_PATTERN`).
"""

import re
from fractions import Fraction
from typing import Final

from reconciler.errors import QuotaValueError
from reconciler.quota.keys import LONG_MAX

BINARY: Final[dict[str, int]] = {
    suffix: 1024**power for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)
}
DECIMAL: Final[dict[str, Fraction]] = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
}
_FACTORS: Final[dict[str, Fraction]] = DECIMAL | {
    suffix: Fraction(factor) for suffix, factor in BINARY.items()
}

MAX_LENGTH: Final = 64
_GRAMMAR: Final = re.compile(
    r"([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))(?:([KMGTPE]i|[numkMGTPE])|[eE]([+-]?[0-9]{1,2}))?"
)

WITH_UNIT: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?) *([kmgtpKMGTP])(i?)(?:b|B?(?:/s)?|Bps)")
"""A number as people write byte rates; not ``Mbps`` and ``Mb/s``, which are rates of bits."""

MANIFEST_PATTERN: Final = (
    r"^((0|[1-9][0-9]{0,18})"
    r"|(0|[1-9][0-9]{0,14})(\.(5|25|75|125|375|625|875))?(Ki|Mi|Gi|Ti|Pi|Ei)"
    r"|(0|[1-9][0-9]{0,14})(\.[0-9]{1,3})?(k|M|G|T|P|E)"
    r"|(0|[1-9][0-9]{0,14})[eE][0-9]{1,2})$"
)
"""The quantities that a manifest may contain: always whole numbers, which every part of Kubernetes reads
in the same way. So no sign, no leading zeros, no ``m``, no negative exponent, and decimals only if
the suffix makes them whole: ``1.5Mi``, ``0.25Gi``, ``1.125k``.
"""

_MANIFEST: Final = re.compile(MANIFEST_PATTERN[:-1] + r"\Z")
_AT_MAXIMUM: Final = f"is at or above the broker's maximum; to set the maximum, write {LONG_MAX}"


def parse(text: str) -> Fraction:
    """Return the exact value of a quantity.

    Raises:
        QuotaValueError: The text is not a quantity.
    """
    match = _GRAMMAR.fullmatch(text) if len(text) <= MAX_LENGTH else None
    if match is None:
        raise QuotaValueError(f"{text[:MAX_LENGTH]!r} is not a quantity; write {_spellings(text)}")
    digits, suffix, exponent = match.groups()
    power = int(exponent or "0")
    scale = Fraction(10**power) if power >= 0 else Fraction(1, 10**-power)
    return Fraction(digits) * _FACTORS[suffix or ""] * scale


def _spellings(text: str) -> str:
    """Return what may be written in place of a number with a unit, such as ``10MB`` or ``10 MiB/s``."""
    match = WITH_UNIT.fullmatch(text) if len(text) <= MAX_LENGTH else None
    if match is None:
        return "a whole number, or a number with Ki, Mi, Gi, Ti, Pi, Ei, m, k, M, G, T, P or E"
    number, letter, is_binary = match[1], match[2].upper(), match[3]
    if is_binary:
        return f"{number}{letter}i"
    decimal = "k" if letter == "K" else letter
    return f"{number}{decimal} (powers of 1000) or {number}{letter}i (powers of 1024)"


def parse_integer(text: str) -> int:
    """Return the value of a quantity that is a whole number.

    Raises:
        QuotaValueError: The text is not a quantity, or not a whole number.
    """
    exact = parse(text)
    if exact.denominator != 1:
        raise QuotaValueError(f"{text} is {decimal_text(exact)}, which is not a whole number")
    return exact.numerator


def whole_number(value: str | int) -> int:
    """Return a whole number that a project states, which may be written as a quantity.

    Raises:
        QuotaValueError: It is a text, and not a quantity of a whole number.
    """
    return parse_integer(value) if isinstance(value, str) else value


def manifest_whole(text: str) -> int:
    """Return the whole number of a manifest's quantity.

    Raises:
        QuotaValueError: Outside :data:`MANIFEST_PATTERN`, or at least 2^63-1 but not written as this number: Kubernetes
            reduces every larger quantity to it without an error.
    """
    if len(text) > MAX_LENGTH or _MANIFEST.match(text) is None:
        raise QuotaValueError(_outside_pattern(text))
    # Most quantities are digits and a binary suffix; the exact computation takes ten times as long.
    factor = BINARY.get(text[-2:])
    value = int(text[:-2]) * factor if factor and text[:-2].isdecimal() else parse_integer(text)
    if value >= LONG_MAX and text != str(LONG_MAX):
        raise QuotaValueError(f"{text} {_AT_MAXIMUM}")
    return value


def _outside_pattern(text: str) -> str:
    try:
        value = parse_integer(text)
    except QuotaValueError as error:
        return error.message
    if value <= 0:
        return f"{text} is not greater than 0; omit the field for no limit, which 0 is not"
    return (
        f"{text!r} is read differently by different YAML parsers; write {spell(value)}"
        if value < LONG_MAX
        else f"{text} {_AT_MAXIMUM}"
    )


def decimal_text(exact: Fraction) -> str:
    """Return the shortest exact decimal, or the fraction if there is none."""
    denominator, places = exact.denominator, 0
    while exact.denominator > 1 and 10**places % denominator and places <= MAX_LENGTH:
        places += 1
    if 10**places % denominator:
        return str(exact)
    sign, digits = ("-" if exact < 0 else ""), str(abs(exact.numerator) * 10**places // denominator)
    if places == 0:
        return sign + digits
    digits = digits.rjust(places + 1, "0")
    return f"{sign}{digits[:-places]}.{digits[-places:]}"


def spell(value: int) -> str:
    """Return the shortest text of a whole number: ``10Mi`` for 10485760, ``20M``, or the digits.

    Binary suffixes win a tie. Always in :data:`MANIFEST_PATTERN`.
    """
    if value <= 0 or value == LONG_MAX:
        return str(value)
    suffixed = (
        f"{value // factor}{suffix}"
        for suffix, factor in (BINARY | _SPELLED).items()
        if value % factor == 0
    )
    spellings = [str(value), *filter(_MANIFEST.match, suffixed)]
    return min(spellings, key=lambda text: (len(text), not text.endswith("i")))


_SPELLED: Final = {suffix: DECIMAL[suffix].numerator for suffix in "MGTPE"}
"""Decimal suffixes that are usual for byte rates; 5000 stays 5000."""
