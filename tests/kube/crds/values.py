"""Values of a field of a CRD for validation: at and beside its bounds, of other types, in unusual notations."""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

from tests.manifest.samples import ODD_NAMES

NUMBERS = (
    -1,
    0,
    1,
    5.0,
    0.5,
    1e3,
    2.5e-9,
    100,
    100.5,
    1000001,
    2**31 - 1,
    2**31,
    2**53,
    2**53 + 1,
    2**53 + 2,
    2**63 - 1024,
    2**63 - 1,
    2**63,
    2**64,
    1.7e308,
    5e-324,
    -0.0,
    1e19,
    10**22,
)
QUANTITIES = (
    "",
    "0",
    "1",
    "-1",
    "+1",
    "010",
    "1.0",
    "1.5",
    "0.5Ki",
    "1.5Mi",
    "0.1Ki",
    "1.125k",
    "1.1234k",
    "10Mi",
    "10mi",
    "20MB",
    "10 MiB/s",
    "3m",
    "3000m",
    "1e3",
    "1E3",
    "1e99",
    "1e-3",
    "1e+3",
    "0e5",
    "0Ki",
    "0.0k",
    "7Ei",
    "8Ei",
    "7.99999E",
    "9E",
    "9.3E",
    "1Pi",
    "9223372036854775807",
    "9223372036854775808",
    "9223372036854774784",
    "9223372036854775806",
    "2147483647",
    "2147483648",
    "2Gi",
    "2.147483647G",
    "2.147483648G",
    "9007199254740993",
    "9007199254740992",
    "999999999999999Ei",
    " 5",
    "5 ",
    "5\n",
    "10Mi\n",
    "٣",
    "1_000",
    "0x10",
    "1" * 19,
    "1" * 20,
    "1" * 64,
    "1" * 65,
    "0.875Ei",
)
TIMES = (
    "2026-12-31T00:00:00Z",
    "2026-12-31t00:00:00z",
    "2026-12-31T00:00:00+01:00",
    "2026-12-31T00:00:00-23:59",
    "2026-12-31T00:00:00.123456Z",
    "2026-12-31T00:00:00.1234567Z",
    "2026-12-31T00:00:00",
    "2026-12-31",
    "tomorrow",
    "2026-02-30T00:00:00Z",
    "2026-12-31T24:00:00Z",
    "2026-12-31T23:59:60Z",
    "2026-12-31T00:00:00+24:00",
    "2026-12-31T00:00:00+00:60",
    "2026-12-31T00:00:00+0100",
    "2026-12-31 00:00:00Z",
    "0000-01-01T00:00:00Z",
    "0001-01-01T00:00:00+14:00",
    "9999-12-31T23:59:59-14:00",
    "2026-12-31T00:00:00Z\n",
    "2026-12-31T00:00Z",
    "2026-13-01T00:00:00Z",
    "2024-02-29T12:00:00.5Z",
    "2023-02-29T12:00:00Z",
    "2026-12-31T00:00:00.Z",
    "2026-12-31T00:00:00,5Z",
    "1969-12-31T23:59:59Z",
    "20261231T000000Z",
    "2026-1-1T00:00:00Z",
)
ADDRESSES = (
    "10.0.0.7",
    "::1",
    "2001:db8::1",
    "2001:DB8::1",
    "0:0:0:0:0:0:0:1",
    "::ffff:1.2.3.4",
    "::ffff:102:304",
    "fe80::1%eth0",
    "010.0.0.1",
    "10.1",
    "10.0.0.0/8",
    "host.example",
    "::",
    "1:0:0:2:0:0:0:3",
    "1:2:3:0:5:6:7:8",
    "::1.2.3.4",
    "::102:304",
    "10.0.0.7\n",
    " 10.0.0.7",
    "64:ff9b::1.2.3.4",
    "64:ff9b::102:304",
    "255.255.255.255",
    "256.0.0.1",
    "1:2:3:4:5:6:7::",
    "1:2:3:4:5:6:7:0",
    "0.0.0.1",
    "[::1]",
    "::FFFF:1.2.3.4",
    "1::0:0:2",
    "ff02::1",
)
DURATIONS = (
    "90s",
    "1h30m",
    "5ms",
    "0s",
    "",
    "90",
    "1d",
    "1.5h",
    "-1s",
    "1h ",
    "1h\n",
    "9999999s",
    "1m" * 16,
    "1m" * 17,
)
RESOURCE_NAMES = (
    "a",
    "a.b-c.d",
    "A",
    "a_b",
    "-a",
    "a-",
    "a..b",
    ".a",
    "a\n",
    "a b",
    "é",
    "x" * 63,
    "x" * 64,
    "x" * 253,
    "x" * 254,
)
WORDS = (
    *ODD_NAMES,
    "",
    "true",
    "Sync",
    "Delete",
    "user",
    "sync",
    " Sync",
    "Sync\n",
    "x" * 65,
    "é" * 256,
    "é" * 257,
    "x" * 511 + "é",
    "😀" * 128,
    "😀" * 129,
    "😀" * 300,
)
OTHER_TYPES = (
    None,
    True,
    False,
    0,
    1,
    "a",
    "true",
    (),
    ("a",),
    {},
    {"a": 1},
    {"name": "a"},
    {"default": True},
)


def _lengths(node: Mapping[str, Any]) -> tuple[str, ...]:
    """Texts of maximum length and one longer, in characters of one byte and of several."""
    most = node.get("maxLength", 0)
    if not 0 < most <= 40_000:
        return ()
    return ("a" * most, "a" * (most + 1), "é" * most, "é" * (most + 1), "é" * (most // 2))


def _bounds(node: Mapping[str, Any]) -> tuple[float, ...]:
    numbers: list[float] = []
    for word in ("minimum", "maximum"):
        if word in node:
            edge = node[word]
            numbers += [edge - 1, edge, edge + 1, edge + 0.5, edge - 0.5]
    return tuple(numbers)


def texts(node: Mapping[str, Any]) -> tuple[str, ...]:
    """Test texts for a field."""
    pattern = node.get("pattern", "")
    if node.get("format") == "date-time":
        special: Sequence[str] = TIMES
    elif "ms|s|m|h" in pattern:
        special = DURATIONS
    elif "Ki|Mi" in pattern or node.get("x-kubernetes-int-or-string"):
        special = QUANTITIES
    elif pattern:
        special = RESOURCE_NAMES
    elif node.get("maxLength") == 45:
        special = ADDRESSES
    else:
        special = WORDS
    return (*special, *node.get("enum", ()), *_lengths(node))


def values_of_interest(node: Mapping[str, Any]) -> tuple[Any, ...]:
    """Every single test value for a field; those of another type last."""
    kind = node.get("type", "")
    number = kind in {"integer", "number"} or "x-kubernetes-int-or-string" in node
    text = kind == "string" or "x-kubernetes-int-or-string" in node
    return (
        *((*NUMBERS, *_bounds(node)) if number else ()),
        *(texts(node) if text else ()),
        *OTHER_TYPES,
    )


def values(node: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    """Values at and beside the bounds of a field; about half of them are invalid."""
    single = st.sampled_from(values_of_interest(node))
    if "properties" in node:
        parts = {name: values(child) for name, child in node["properties"].items()}
        some = st.fixed_dictionaries({}, optional=parts)
        single = st.one_of(some, some, single)
    elif "additionalProperties" in node:
        single |= st.dictionaries(
            st.sampled_from(ODD_NAMES), values(node["additionalProperties"]), max_size=3
        )
    elif "items" in node:
        item = values(node["items"])
        several = st.lists(item, max_size=3)
        single = st.one_of(several, several, item.map(lambda value: [value, value]), single)
    return single.map(own)


def own(value: Any) -> Any:
    """A value that later changes may modify; tuples represent lists."""
    return list(value) if isinstance(value, tuple) else copy.deepcopy(value)
