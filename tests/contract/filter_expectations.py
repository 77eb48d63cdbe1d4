"""Filters of DescribeClientQuotas as data: those that all versions refuse, and those that they answer."""

from reconciler.wire.messages.describe_client_quotas import Component
from tests.contract.expectations import CONNECTION, PRODUCER, invalid
from tests.contract.raw import Names, Quotas, Verdict

EXACT, DEFAULT, ANY = 0, 1, 2
_IP_COMBINED = (
    "Invalid entity filter component combination."
    " IP filter component should not be used with user or clientId filter component."
)
_EXACT_NULL = "Request specified MATCH_TYPE_EXACT, but set match string to null."
REFUSED_FILTERS: list[tuple[str, tuple[Component, ...], Verdict]] = [
    ("empty type", (("", EXACT, "a"),), invalid("Invalid empty entity type.")),
    (
        "empty type twice",
        (("", EXACT, "a"), ("", EXACT, "a")),
        invalid("Invalid empty entity type."),
    ),
    ("unknown type", (("group", EXACT, "a"),), (35, "Unsupported entity type group")),
    ("unknown type, any", (("group", ANY, None),), (35, "Unsupported entity type group")),
    ("unknown type before its match", (("group", 9, None),), (35, "Unsupported entity type group")),
    (
        "unknown type twice",
        (("group", EXACT, "a"), ("group", EXACT, "a")),
        (35, "Unsupported entity type group"),
    ),
    ("type in capitals", (("User", ANY, None),), (35, "Unsupported entity type User")),
    (
        "type twice",
        (("user", EXACT, "a"), ("user", ANY, None)),
        invalid("Entity type user cannot appear more than once in the filter."),
    ),
    ("exact without a name", (("user", EXACT, None),), invalid(_EXACT_NULL)),
    ("exact ip without a name", (("ip", EXACT, None),), invalid(_EXACT_NULL)),
    (
        "default with a name",
        (("user", DEFAULT, "a"),),
        invalid("Request specified MATCH_TYPE_DEFAULT, but also specified a match string."),
    ),
    (
        "default with an empty name",
        (("user", DEFAULT, ""),),
        invalid("Request specified MATCH_TYPE_DEFAULT, but also specified a match string."),
    ),
    (
        "any with a name",
        (("user", ANY, "a"),),
        invalid("Request specified MATCH_TYPE_SPECIFIED, but also specified a match string."),
    ),
    ("match type 3", (("user", 3, None),), invalid("Unknown match type 3")),
    ("match type 3 with a name", (("user", 3, "a"),), invalid("Unknown match type 3")),
    ("match type -1", (("user", -1, None),), invalid("Unknown match type -1")),
    ("ip and user", (("ip", ANY, None), ("user", ANY, None)), invalid(_IP_COMBINED)),
    ("user and ip", (("user", ANY, None), ("ip", ANY, None)), invalid(_IP_COMBINED)),
    ("client-id and ip", (("client-id", EXACT, "c"), ("ip", EXACT, "::1")), invalid(_IP_COMBINED)),
    (
        "all three",
        (("ip", ANY, None), ("user", ANY, None), ("client-id", ANY, None)),
        invalid(_IP_COMBINED),
    ),
    (
        "unknown type before the combination",
        (("user", ANY, None), ("ip", ANY, None), ("group", ANY, None)),
        (35, "Unsupported entity type group"),
    ),
    ("an earlier component first", (("user", EXACT, None), ("", ANY, None)), invalid(_EXACT_NULL)),
    (
        "a match before a later duplicate",
        (("user", EXACT, None), ("user", ANY, None)),
        invalid(_EXACT_NULL),
    ),
    (
        "match type before a later type",
        (("user", 3, None), ("group", ANY, None)),
        invalid("Unknown match type 3"),
    ),
    (
        "a match before the combination",
        (("user", EXACT, None), ("ip", ANY, None)),
        invalid(_EXACT_NULL),
    ),
]

MATCHED: Quotas = {
    names: {CONNECTION if names[0][0] == "ip" else PRODUCER: float(place + 1)}
    for place, names in enumerate(
        (
            (("user", "u1"),),
            (("user", "u2"),),
            (("user", None),),
            (("user", "<default>"),),
            (("client-id", "c1"),),
            (("client-id", None),),
            (("client-id", "c1"), ("user", "u1")),
            (("client-id", "c2"), ("user", "u1")),
            (("client-id", None), ("user", "u1")),
            (("client-id", "c1"), ("user", None)),
            (("client-id", None), ("user", None)),
            (("ip", "10.0.0.1"),),
            (("ip", "::1"),),
            (("ip", None),),
        )
    )
}
FILTERS: list[tuple[tuple[Component, ...], bool]] = [
    (components, strict)
    for strict in (False, True)
    for components in (
        (),
        *(
            ((kind, how, name),)
            for kind, names in (
                ("user", ("u1", "<default>", "", "nobody", "U1")),
                ("client-id", ("c1",)),
                ("ip", ("::1", "0:0:0:0:0:0:0:1", "10.0.0.0/8")),
            )
            for how, name in ((DEFAULT, None), (ANY, None), *((EXACT, name) for name in names))
        ),
        *(
            (
                ("user", u, "u1" if u == EXACT else None),
                ("client-id", c, "c1" if c == EXACT else None),
            )
            for u in (EXACT, DEFAULT, ANY)
            for c in (EXACT, DEFAULT, ANY)
        ),
        (("client-id", ANY, None), ("user", EXACT, "u1")),
    )
]


def selects(components: tuple[Component, ...], names: Names, *, strict: bool) -> bool:
    """Whether a describe lists the entity: open filters ignore other types, strict ones forbid them."""
    named = dict(names)
    if strict and set(named) != {kind for kind, _, _ in components}:
        return False
    return all(
        kind in named and {EXACT: named[kind] == name, DEFAULT: named[kind] is None, ANY: True}[how]
        for kind, how, name in components
    )
