"""Texts for recorded use in every output: buckets, rates and limits with units, lengths of time, shares."""

from datetime import UTC, datetime
from typing import Final

from reconciler.base.escaping import quoted
from reconciler.quota.entity import entity_text, read_canonical
from reconciler.render.units import UNSET, quantity
from reconciler.usage.samples import DAY_MS, KEY_OF, MILLION, QuotaType, in_kafka_units
from reconciler.usage.tags import Bucket, GroupKind

_TYPES: Final[dict[QuotaType, str]] = {
    QuotaType.REQUEST: "request time",
    QuotaType.CONTROLLER_MUTATION: "partition mutations",
    QuotaType.IP: "connections",
}
_LENGTHS: Final = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"))


def type_text(kind: QuotaType) -> str:
    """Return the name of a quota type: its word, unless that would not be understood."""
    return _TYPES.get(kind, kind.value)


def bucket_text(bucket: Bucket, *, any_name: bool = False) -> str:
    """Return the clients that are counted together: ``user=alice,client-id=app``; names are quoted.

    Args:
        any_name: Whether empty names mean any other name.
    """
    match bucket.kind:
        case GroupKind.NONE:
            return "clients without a client id"
        case GroupKind.IP:
            return f"ip={_name(bucket.ip, any_name)}"
        case GroupKind.USER:
            return f"user={_name(bucket.user, any_name)}"
        case GroupKind.CLIENT:
            return f"client-id={_name(bucket.client_id, any_name)}"
        case GroupKind.PAIR:
            return (
                f"user={_name(bucket.user, any_name)},client-id={_name(bucket.client_id, any_name)}"
            )


def _name(name: str, any_name: bool) -> str:  # noqa: FBT001 - private, two call shapes
    return "any other" if any_name and not name else quoted(name)


def source_text(entity_json: str) -> str:
    """Return an entity from its canonical JSON; "" = no limit."""
    return entity_text(read_canonical(entity_json)) if entity_json else "no limit"


def units_text(kind: QuotaType, units: int | None) -> str:
    """Format a limit or a rate: ``10 MiB/s``, ``50 %``, ``5/s``; ``None`` = no limit."""
    return quantity(KEY_OF[kind], None if units is None else in_kafka_units(kind, units))


def length_text(length_ms: int | None, *, unlike: int | None = None) -> str:
    """Format a length of time with at most two parts: ``2 h 5 min``, ``45 s``, ``2.5 s``, ``0 s``; ``None`` = unknown.

    Args:
        length_ms: Milliseconds.
        unlike: A length to distinguish from. If both would read the same and differ, all parts are shown:
          ``1 min 900 ms`` beside ``1 min``.
    """
    if length_ms is None:
        return UNSET
    if unlike not in {None, length_ms} and length_text(length_ms) == length_text(unlike):
        return _whole_length(length_ms)
    if 0 < length_ms < 10_000:  # whole seconds would halve a delay of 1,999 ms
        return f"{length_ms} ms" if length_ms < 1_000 else f"{length_ms // 100 / 10:g} s"
    parts: list[str] = []
    remainder = length_ms
    for size, name in _LENGTHS:
        amount, remainder = divmod(remainder, size)
        if amount:
            parts.append(f"{amount:,} {name}")
        elif parts:
            break  # "2 d 5 s" would suggest too much precision
        if len(parts) == 2:
            break
    return " ".join(parts) or "0 s"


def _whole_length(length_ms: int) -> str:
    parts: list[str] = []
    remainder = length_ms
    for size, name in (*_LENGTHS, (1, "ms")):
        amount, remainder = divmod(remainder, size)
        if amount:
            parts.append(f"{amount:,} {name}")
    return " ".join(parts)


SHORT_MS: Final = DAY_MS // 2
"""Figures from less recorded time are shown as a part of that time, not per day."""


def per_day_ms(length_ms: int | None, covered_ms: int) -> int | None:
    """Return a length of time per day of evidence, rounded up; ``None`` if it is unknown or without evidence."""
    if length_ms is None or covered_ms <= 0:
        return None
    return -(-length_ms * DAY_MS // covered_ms)


def per_day_text(length_ms: int | None, covered_ms: int) -> str:
    """Return ``12 min a day``, or ``2 min of the 5 min recorded`` for a recording too short for a figure per day."""
    daily = per_day_ms(length_ms, covered_ms)
    if length_ms is None or daily is None:
        return UNSET
    if covered_ms < SHORT_MS:
        return f"{length_text(length_ms)} of the {length_text(covered_ms)} recorded"
    return f"{length_text(daily)} a day"


def between_text(least_ms: int | None, most_ms: int | None) -> str:
    """Return ``between 3 min and 8 min``; only the first length if there is no second one, or both read the same."""
    least, most = length_text(least_ms), length_text(most_ms)
    return least if most_ms is None or most == least else f"between {least} and {most}"


def between_per_day_text(least_ms: int | None, most_ms: int | None, covered_ms: int) -> str:
    """Return ``between 3 min and 8 min a day``; see :func:`between_text` and :func:`per_day_text`."""
    most = per_day_text(most_ms, covered_ms)
    if least_ms is None or most_ms is None or most == per_day_text(least_ms, covered_ms):
        return per_day_text(least_ms, covered_ms)
    least_length = least_ms if covered_ms < SHORT_MS else per_day_ms(least_ms, covered_ms)
    return f"between {length_text(least_length)} and {most}"


def share_text(ppm: int | None) -> str:
    """Format millionths as per cent: ``12 %``, ``1.2 %``, ``< 0.01 %``; always rounded down, so that less than the whole is never ``100 %``."""
    if ppm is None:
        return UNSET
    if ppm < 0:
        return f"-{share_text(-ppm)}"
    if 0 < ppm < 100:
        return "< 0.01 %"
    if abs(ppm - MILLION) < MILLION // 100:
        rounded = (
            ppm // 1_000 * 1_000
        )  # near 100 % a tenth of a per cent shows whether anything is missing or too much
    elif ppm >= MILLION // 10:
        rounded = ppm // 10_000 * 10_000
    else:
        digit = 10 ** max(0, len(str(ppm)) - 2)
        rounded = ppm // digit * digit
    integer_part, fraction = divmod(rounded, 10_000)
    return (
        f"{integer_part}.{fraction:04}".rstrip("0").rstrip(".") + " %"
        if fraction
        else f"{integer_part} %"
    )


def moment_text(at_ms: int) -> str:
    """Return ``2026-11-21 18:30 UTC``."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")


def axis_text(at_ms: int) -> str:
    """Return ``11-21``, a day of an axis, or a time of a day: ``18:30``."""
    pattern = "%H:%M" if at_ms % DAY_MS else "%m-%d"
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime(pattern)
