"""The static rules of a ClientQuota that a JSON Schema cannot express: one table, each rule in CEL and in Python.

``cel`` is the text in ``crds/`` (a test compares them), so the API server enforces the same table.
``broken`` is the same rule in Python: ``None`` for a valid value, else the message with numbers.
Both get only values that the schema accepted. A rule without CEL is about a fact that JSON has already lost:
Kubernetes turns 9007199254740993 into a float64 before any rule runs.
"""

import ipaddress
import re
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from typing import Any, Final, TypeAlias

from msgspec import Struct

from reconciler.errors import QuotaValueError
from reconciler.manifest import quantity
from reconciler.manifest.schema_names import QUOTA
from reconciler.quota.entity import MAX_DECLARED_NAME_BYTES
from reconciler.quota.keys import CLIENT_KEYS, FIELDS, IP_KEYS, LONG_MAX, RULES, Key, check_value

# A document as JSON that its schema has accepted, so its types are certain.
Json: TypeAlias = Any
Broken: TypeAlias = Callable[[Json], str | None]


class StaticRule(Struct, frozen=True, kw_only=True, gc=False):
    """One rule."""

    id: str  # stable name, for tests and documentation
    kind: str
    at: tuple[str, ...]  # path of its value; `*` is every item of a list
    cel: str  # the rule as the API server evaluates it; "" if CEL cannot express it
    message: str  # the message of the API server
    message_cel: str  # what the API server evaluates for a message that quotes the value
    # The rule in Python. None for transition rules, which compare two versions of a resource, and where the schema of
    # files has the pattern of quantities.
    broken: Broken | None


def canonical_ip(text: str) -> bool:
    """Whether a text is an IP literal in the one allowed spelling (RFC 5952), without zone.

    An IPv4-mapped IPv6 address is refused: Java reads it as the IPv4 address, so it would be a second entity
    for the same connections (java.net.InetAddress.getByName; Kubernetes' CEL library does the same).
    """
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address) and (address.ipv4_mapped or address.scope_id):
        return False
    return str(address) == text


_TIME: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?(?:[Zz]|[+-][0-9]{2}:[0-9]{2})"
)
UNTIL_CEL: Final = "timestamp(self).getFullYear() > 0"
UNTIL_MESSAGE: Final = "must be a time that exists"


def seconds_of(text: str) -> float | None:
    """Return the seconds since the epoch of an RFC 3339 time, ``None`` if the text is not one."""
    if not _TIME.fullmatch(text):
        return None
    try:
        return datetime.fromisoformat(text.upper()).timestamp()
    except ValueError:
        return None


def time_broken(text: Json) -> str | None:
    """Return what is wrong with the text of a time; ``None`` = nothing."""
    if seconds_of(text) is not None:
        return None
    return f'{text!r} is not a time; write for example "2035-12-31T00:00:00Z", in quotes'


def _ip_broken(slot: Json) -> str | None:
    name = slot.get("name")
    if name is None or canonical_ip(name):
        return None
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return f"{name!r} is not an IP address; only literal addresses are allowed, no host names or networks"
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    if mapped:
        return f"{name!r} is an IPv4-mapped IPv6 address; write {mapped}"
    if "%" in name:
        return f"{name!r} has an IPv6 zone, which brokers do not use; remove it"
    return f"{name!r} is not in canonical form; write {address}"


def _name_too_long(slot: Json) -> str | None:
    length = len(slot.get("name", "").encode("utf-8", "surrogatepass"))
    if length <= MAX_DECLARED_NAME_BYTES:
        return None
    return (
        f"a name of {length} bytes cannot be declared; {MAX_DECLARED_NAME_BYTES} bytes are allowed"
    )


def exactly_one_field(first: str, second: str) -> Broken:
    """Return the rule that exactly one of two fields is present."""

    def broken(value: Json) -> str | None:
        if (first in value) != (second in value):
            return None
        return f"{'only one of' if first in value else 'needs'} {first} {'and' if first in value else 'or'} {second}"

    return broken


def _shape_broken(entity: Json) -> str | None:
    if "ip" in entity:
        other_slots = [slot for slot in ("user", "clientId") if slot in entity]
        return f"ip cannot be combined with {' and '.join(other_slots)}" if other_slots else None
    return None if entity else "needs a user, a clientId or both, or an ip alone"


def _carrier_broken(spec: Json) -> str | None:
    on_ip = "ip" in spec["entity"]
    wrong = [field for field in spec["limits"] if RULES[FIELDS[field]].on_ip != on_ip]
    if not wrong:
        return None
    return (
        f"{_ON_IP}, not {', '.join(wrong)}"
        if on_ip
        else f"{', '.join(wrong)} is for an ip, not for user or clientId"
    )


def _cluster_limits_broken(spec: Json) -> str | None:
    """Check that clusterLimits has a selector and only keys for the form of entity."""
    if "clusterLimits" not in spec:
        return None
    if "clusterSelector" not in spec:
        return "clusterLimits needs clusterSelector; with clusterRef use limits"
    for index, item in enumerate(spec["clusterLimits"]):
        message = _carrier_broken({"entity": spec["entity"], "limits": item["limits"]})
        if message is not None:
            return f"clusterLimits[{index}]: {message}"
    return None


def _requirement_broken(requirement: Json) -> str | None:
    compares, operator = requirement["operator"] in {"In", "NotIn"}, requirement["operator"]
    if compares == bool(requirement.get("values")):
        return None
    return (
        f"operator {operator} needs values" if compares else f"operator {operator} takes no values"
    )


def rate(key: Key, value: Json) -> float:
    """Return the float64 of a limit in a manifest.

    Args:
        value: ``str`` for a quantity, else the number in the document.

    Raises:
        QuotaValueError: The value is invalid; the message has a valid one if it is known.
    """
    rule = RULES[key]
    if not rule.is_integer:
        return check_value(key, _exact(value))
    if isinstance(value, float):
        raise QuotaValueError(f"{rule.field} must be a whole number without a point, or a quantity")
    number = quantity.manifest_whole(value) if isinstance(value, str) else value
    if number > LONG_MAX:
        raise QuotaValueError(f"{rule.field} is above the broker's maximum of {LONG_MAX}")
    return check_value(key, number)


def _exact(value: float) -> float:
    """Return the float64 of a huge whole number; other values unchanged, for ``check_value``.

    Converted are numbers that equal a float64, or its shortest spelling: the API server stores 2^64 as a float64
    and returns it as 18446744073709552000 (Go's encoding/json, like every writer of shortest digits).
    """
    if not isinstance(value, int) or -(2**53) <= value <= 2**53:
        return value
    try:
        number = float(value)
    except OverflowError:
        return value
    return number if value in {int(number), int(Decimal(repr(number)))} else value


def _rate_broken(key: Key) -> Broken:
    def broken(value: Json) -> str | None:
        try:
            rate(key, value)
        except QuotaValueError as error:
            return error.message
        return None

    return broken


# The API server quotes the pattern of a schema as its whole answer. The same pattern in a rule has a message.
IS_QUANTITY: Final = f"string(self).matches(r'{quantity.MANIFEST_PATTERN}')"
_WITHOUT_BYTE: Final = "string(self).replace(' ', '').upperAscii().find('^[0-9.]+[KMGTP]')"


def _quantity_message(message: str) -> str:
    """Return in CEL what `quantity` says of a number with a unit, such as ``20MB``; of another value the message."""
    return (
        f"isQuantity(string(self)) || !string(self).matches(r'^({quantity.WITH_UNIT.pattern})$') ? "
        f"'{message}, not ' + string(self) : '\\'' + string(self) + '\\' is not a quantity; write ' + "
        f"(string(self).matches('[kmgtpKMGTP]i') ? {_WITHOUT_BYTE} + 'i' : {_WITHOUT_BYTE}.replace('K', 'k') + "
        f"' (powers of 1000) or ' + {_WITHOUT_BYTE} + 'i (powers of 1024)')"
    )


# Under the pattern every quantity is a whole number. Kubernetes' isInteger is used only for decimal suffixes: it
# returns false for 1Pi and for text of 19 digits, because it ignores the arbitrary-precision form.
_LONG: Final = (
    "type(self) == int ? self > 0 && (self == 9223372036854775807 || "
    "(self <= 9223372036854774784 && int(double(self)) == self)) : "
    f"{IS_QUANTITY} && ("
    "string(self).matches('^[0-9]+$') ? int(string(self)) > 0 && (int(string(self)) == 9223372036854775807 || "
    "(int(string(self)) <= 9223372036854774784 && int(double(int(string(self)))) == int(string(self)))) : "
    "string(self).endsWith('i') ? quantity(string(self)).isGreaterThan(quantity('0')) && "
    "quantity(string(self)).isLessThan(quantity('9223372036854775807')) : "
    "isQuantity(string(self)) && quantity(string(self)).isInteger() && quantity(string(self)).asInteger() > 0 && "
    "quantity(string(self)).asInteger() <= 9223372036854774784 && "
    "int(double(quantity(string(self)).asInteger())) == quantity(string(self)).asInteger())"
)
_INT: Final = (
    f"type(self) == int ? self > 0 && self <= 2147483647 : {IS_QUANTITY} && "
    "quantity(string(self)).isGreaterThan(quantity('0')) && "
    "quantity(string(self)).compareTo(quantity('2147483647')) <= 0"
)
_RATES: Final = {
    None: ("", "must be a number that float64 holds"),
    float(LONG_MAX): (
        _LONG,
        "must be a whole number or a quantity such as 10Mi, from 1 to 9223372036854775807 and exact in float64",
    ),
    2147483647.0: (_INT, "must be a whole number or a quantity such as 2k, from 1 to 2147483647"),
}
"""By the maximum of a key: the rule of its limits in CEL, and its message."""

_ON_IP: Final = f"an ip supports only {', '.join(RULES[key].field for key in IP_KEYS)}"


def _carrier(limits: str) -> str:
    """Return in CEL that an ip has only the keys of an ip, and another entity none of them."""
    return "has(self.entity.ip) ? " + " : ".join(
        " && ".join(f"!has({limits}.{RULES[key].field})" for key in keys)
        for keys in (CLIENT_KEYS, IP_KEYS)
    )


class RuleScope(Struct, frozen=True, gc=False):
    """The place of a group of rules; ``rule`` creates one of them."""

    kind: str
    at: tuple[str, ...]

    def rule(self, name: str, cel: str, message: str, broken: Broken | None) -> StaticRule:
        """Return a rule at this place."""
        return StaticRule(
            id=name,
            kind=self.kind,
            at=("spec", *self.at),
            cel=cel,
            message=message,
            message_cel=_quantity_message(message) if IS_QUANTITY in cel else "",
            broken=broken,
        )


def rate_rule(kind: str, at: tuple[str, ...], name: str, key: Key) -> StaticRule:
    """Return the rule that the field of a key has a value that a limit may have."""
    place = RuleScope(kind, (*at, RULES[key].field))
    return place.rule(name, *_RATES[RULES[key].maximum], _rate_broken(key))


_ONE_OF: Final = "exactly one of name and default is needed"
_ONE_CLUSTER: Final = "exactly one of clusterRef and clusterSelector is needed"
_CLUSTER_LIMITS: Final = ("clusterLimits", "*")
_REQUIREMENTS: Final = (
    ("clusterSelector", "matchExpressions", "*"),
    (*_CLUSTER_LIMITS, "clusterSelector", "matchExpressions", "*"),
)


def _name(prefix: str, at: tuple[str, ...]) -> str:
    """Return the name of a rule that applies at several places: with a prefix below clusterLimits."""
    return f"cluster-limits-{prefix}" if at[0] == "clusterLimits" else prefix


QUOTA_RULES: Final[tuple[StaticRule, ...]] = (
    RuleScope(QUOTA, ()).rule(
        "limits-carrier",
        _carrier("self.limits"),
        f"{_ON_IP}; user and clientId support the other keys",
        _carrier_broken,
    ),
    RuleScope(QUOTA, ()).rule(
        "one-cluster",
        "has(self.clusterRef) != has(self.clusterSelector)",
        _ONE_CLUSTER,
        exactly_one_field("clusterRef", "clusterSelector"),
    ),
    RuleScope(QUOTA, ()).rule(
        "cluster-kind-immutable",
        "has(self.clusterRef) == has(oldSelf.clusterRef)",
        "clusterRef and clusterSelector cannot replace each other; create another ClientQuota",
        None,
    ),
    RuleScope(QUOTA, ()).rule(
        "cluster-limits",
        "!has(self.clusterLimits) || (has(self.clusterSelector) && "
        f"self.clusterLimits.all(item, {_carrier('item.limits')}))",
        f"clusterLimits needs clusterSelector; {_ON_IP}, user and clientId support the other keys",
        _cluster_limits_broken,
    ),
    RuleScope(QUOTA, ("until",)).rule("until", UNTIL_CEL, UNTIL_MESSAGE, time_broken),
    RuleScope(QUOTA, _CLUSTER_LIMITS).rule(
        "cluster-limits-one-of",
        "has(self.clusterRef) != has(self.clusterSelector)",
        _ONE_CLUSTER,
        exactly_one_field("clusterRef", "clusterSelector"),
    ),
    *(
        RuleScope(QUOTA, at).rule(
            _name("selector-values", at),
            "self.operator in ['In', 'NotIn'] ? has(self.values) && size(self.values) > 0 : !has(self.values) || size(self.values) == 0",
            "In and NotIn need values; Exists and DoesNotExist take none",
            _requirement_broken,
        )
        for at in _REQUIREMENTS
    ),
    RuleScope(QUOTA, ("clusterRef",)).rule(
        "cluster-immutable",
        "self == oldSelf",
        "clusterRef cannot be changed; create another ClientQuota",
        None,
    ),
    RuleScope(QUOTA, ("entity",)).rule(
        "entity-shape",
        "has(self.ip) ? !has(self.user) && !has(self.clientId) : has(self.user) || has(self.clientId)",
        "needs a user, a clientId or both, or an ip alone",
        _shape_broken,
    ),
    RuleScope(QUOTA, ("entity",)).rule(
        "entity-immutable",
        "self == oldSelf",
        "entity cannot be changed; create another ClientQuota",
        None,
    ),
    *(
        RuleScope(QUOTA, ("entity", slot)).rule(
            f"{slot}-one-of",
            "has(self.name) != has(self.default)",
            _ONE_OF,
            exactly_one_field("name", "default"),
        )
        for slot in ("user", "clientId", "ip")
    ),
    *(
        RuleScope(QUOTA, ("entity", slot)).rule(
            f"{slot}-length",
            f"!has(self.name) || size(bytes(self.name)) <= {MAX_DECLARED_NAME_BYTES}",
            f"a name of more than {MAX_DECLARED_NAME_BYTES} bytes cannot be declared",
            _name_too_long,
        )
        for slot in ("user", "clientId")
    ),
    RuleScope(QUOTA, ("entity", "ip")).rule(
        "ip-canonical",
        "!has(self.name) || (isIP(self.name) && ip.isCanonical(self.name))",
        "must be a literal IP address in canonical form (RFC 5952 for IPv6)",
        _ip_broken,
    ),
    *(
        rate_rule(QUOTA, (*at, "limits"), _name(f"rate-{rule.field}", (*at, "limits")), key)
        for at in ((), _CLUSTER_LIMITS)
        for key, rule in RULES.items()
    ),
)
"""Every rule of a ClientQuota, in the order of the fields."""
