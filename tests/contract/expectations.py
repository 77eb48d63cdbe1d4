"""The behaviour of each Kafka version as data: rows with a request and the response by version.

Columns: `3.4` is 3.4.1, `3.9` is 3.9.1, `4.0-4.3` is 4.0.1 and 4.3.1, `4.x` is 4.4.0 and each other 4 without a
column, `all` is every version without one. All values were observed on those brokers.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from reconciler.wire.messages.alter_client_quotas import Alteration, Operation
from tests.contract.raw import Names, Quotas, Verdict

PRODUCER, CONSUMER = "producer_byte_rate", "consumer_byte_rate"
REQUEST, MUTATION = "request_percentage", "controller_mutation_rate"
CONNECTION = "connection_creation_rate"
OK: Verdict = (0, None)
USER: Names = (("user", "value"),)
IP: Names = (("ip", "10.0.0.1"),)
OWNERS: Mapping[str, Names] = {
    PRODUCER: USER,
    CONSUMER: USER,
    REQUEST: USER,
    MUTATION: USER,
    CONNECTION: IP,
}

Table = Mapping[str, Verdict]


def invalid(message: str) -> Verdict:
    return 42, message


def everywhere(verdict: Verdict) -> Table:
    return {"all": verdict}


# ---- values (ClientQuotaControlManager.validateQuotaKeyValue) -------------------------------------


def _finite(key: str) -> Verdict:
    return invalid(f"Quota {key} must be a finite number")


def _positive(key: str) -> Verdict:
    return invalid(f"Quota {key} must be greater than 0")


def _near(key: str) -> Verdict:
    return invalid(f"Configuration {key} must be a Long value")


def _large(key: str) -> Verdict:
    kind = "an INT" if key == CONNECTION else "a LONG"
    return invalid(f"Proposed value for {key} is too large for {kind}.")


def _fraction(key: str) -> Verdict:
    return invalid(f"{key} cannot be a fractional value.")


def _integral(key: str) -> list[tuple[float, Table]]:
    """Bytes per second and connections per second."""
    near, positive, fraction = _near(key), _positive(key), _fraction(key)
    return [
        (math.nan, {"all": OK, "4.0-4.3": OK, "4.x": _finite(key)}),
        (math.inf, {"3.4": near, "all": _large(key), "4.0-4.3": _large(key), "4.x": _finite(key)}),
        (-math.inf, {"3.4": near, "all": positive, "4.0-4.3": positive, "4.x": _finite(key)}),
        (0.0, {"3.4": OK, "all": positive}),
        (-0.0, {"3.4": OK, "all": positive}),
        (-5e-7, {"3.4": OK, "all": positive}),
        (-1.0, {"3.4": near, "all": positive}),
        (1e-7, everywhere(OK)),
        (2e-6, {"3.4": near, "all": fraction}),
        (0.5, {"3.4": near, "all": fraction}),
        (0.999999, {"3.4": near, "all": fraction}),
        (0.9999990000001, {"3.4": OK, "all": fraction}),
        (0.9999999, {"3.4": OK, "all": fraction}),
        (1.0, everywhere(OK)),
        (1.0000005, everywhere(OK)),
        (1.000001, everywhere(OK)),
        (1.0000011, {"3.4": near, "all": fraction}),
        (1.5, {"3.4": near, "all": fraction}),
        (2.0**31 - 1, everywhere(OK)),
        (2.0**53, everywhere(OK if key != CONNECTION else _large(key)) | {"3.4": OK}),
        (2.0**63, everywhere(OK if key != CONNECTION else _large(key)) | {"3.4": OK}),
        (2.0**63 + 4096, {"3.4": near, "all": _large(key)}),
        (1e300, {"3.4": near, "all": _large(key)}),
        (2.0**31, everywhere(OK if key != CONNECTION else _large(key)) | {"3.4": OK}),
        (2.0**31 - 5e-7, {"3.4": OK, "all": fraction if key != CONNECTION else _large(key)}),
    ]


def _double(key: str) -> list[tuple[float, Table]]:
    """Shares of a thread and mutations per second: anything above zero."""
    positive = _positive(key)
    accepted = (1e-7, 2e-6, 0.5, 0.9999999, 1.0, 1.5, 100.0, 2.0**31, 2.0**63, 1e300)
    return [
        (math.nan, {"all": OK, "4.0-4.3": OK, "4.x": _finite(key)}),
        (math.inf, {"all": OK, "4.0-4.3": OK, "4.x": _finite(key)}),
        (-math.inf, {"3.4": OK, "all": positive, "4.0-4.3": positive, "4.x": _finite(key)}),
        (0.0, {"3.4": OK, "all": positive}),
        (-0.0, {"3.4": OK, "all": positive}),
        (-1.0, {"3.4": OK, "all": positive}),
        *((value, everywhere(OK)) for value in accepted),
    ]


VALUES: list[tuple[str, float, Table]] = [
    (key, value, table)
    for key in OWNERS
    for value, table in (_double(key) if key in (REQUEST, MUTATION) else _integral(key))
]

# ---- alterations of one entity ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One alteration, its response, and the stored value."""

    name: str
    parts: Names
    operations: tuple[Operation, ...] = ((PRODUCER, 1.0),)
    verdict: Table
    stored: Mapping[str, float] | None = None


_COMBINED = invalid(
    "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId"
)


def _row(
    name: str, parts: Names, verdict: Verdict | Table, *operations: Operation, stored: bool = False
) -> Row:
    row_operations = operations or ((PRODUCER, 1.0),)
    table = verdict if isinstance(verdict, Mapping) else everywhere(verdict)
    values = {key: value for key, value in row_operations if value is not None} if stored else None
    return Row(name=name, parts=parts, operations=row_operations, verdict=table, stored=values)


ENTITIES = [
    _row("no part", (), invalid("Invalid empty client quota entity")),
    _row(
        "no part and no operation",
        (),
        invalid("Invalid empty client quota entity"),
        (PRODUCER, None),
    ),
    _row("unknown type", (("group", "x"),), invalid("Unhandled client quota entity type: group")),
    _row("type in capitals", (("User", "x"),), invalid("Unhandled client quota entity type: User")),
    _row("empty type", (("", "x"),), invalid("Unhandled client quota entity type: ")),
    _row(
        "unknown type with empty name",
        (("group", ""),),
        invalid("Unhandled client quota entity type: group"),
    ),
    _row(
        "user and unknown type",
        (("group", "x"), ("user", "a")),
        invalid("Unhandled client quota entity type: group"),
    ),
    _row(
        "empty user and unknown type",
        (("group", "x"), ("user", "")),
        invalid("Empty user not supported"),
    ),
    _row("empty user", (("user", ""),), invalid("Empty user not supported")),
    _row("empty client-id", (("client-id", ""),), invalid("Empty client-id not supported")),
    _row(
        "user with empty client-id",
        (("client-id", ""), ("user", "a")),
        invalid("Empty client-id not supported"),
    ),
    _row("empty ip", (("ip", ""),), invalid("Empty ip not supported"), (CONNECTION, 1.0)),
    _row("ip and user", (("ip", "1.2.3.4"), ("user", "a")), _COMBINED, (CONNECTION, 1.0)),
    _row("ip and client-id", (("client-id", "a"), ("ip", "1.2.3.4")), _COMBINED, (CONNECTION, 1.0)),
    _row(
        "default ip and default user", (("ip", None), ("user", None)), _COMBINED, (CONNECTION, 1.0)
    ),
    _row(
        "all three",
        (("client-id", "c"), ("ip", "1.2.3.4"), ("user", "a")),
        _COMBINED,
        (CONNECTION, 1.0),
    ),
    _row("bad ip and user", (("ip", "nope/24"), ("user", "a")), _COMBINED, (CONNECTION, 1.0)),
    _row(
        "ip and unknown type",
        (("group", "x"), ("ip", "1.2.3.4")),
        invalid("Unhandled client quota entity type: group"),
    ),
    *(
        _row(f"legal: {names}", names, OK, (PRODUCER, 1.0), stored=True)
        for names in (
            (("user", "alice"),),
            (("user", None),),
            (("user", "<default>"),),
            (("client-id", "app"),),
            (("client-id", None),),
            (("client-id", "app"), ("user", "alice")),
            (("client-id", None), ("user", "alice")),
            (("client-id", "app"), ("user", None)),
            (("client-id", None), ("user", None)),
            (("client-id", "<default>"), ("user", "<default>")),
            (("user", "CN=a,O=b c,C=\u00e9"),),
            (("user", "User:alice"),),
            (("user", " alice "),),
            (("user", "Alice"),),
            (("user", "*"),),
            (("user", '\u0436\u00e9\u65e5\U0001f389 "quoted" a=b,c\n\t\x00\\'),),
            (("user", "e\u0301"),),
            (("user", "x" * 32_767),),
            (("client-id", "\u65e5" * 10_922),),
        )
    ),
    _row("legal: ip default", (("ip", None),), OK, (CONNECTION, 1.0), stored=True),
]

SCOPED = ("::1%lo", "[::1%lo]")
"""Addresses with the name of an interface that every test machine has."""

RESOLVED = (
    "10.0.0.1",
    "10.1",
    "1",
    "127",
    "0",
    "4294967295",
    "1.16777215",
    "1.2.65535",
    "010.0.0.1",
    "1.2.3.0004",
    "::1",
    "[::1]",
    "0:0:0:0:0:0:0:1",
    "::",
    "::ffff:1.2.3.4",
    "::1.2.3.4",
    "1:2:3:4:5:6:1.2.3.4",
    "1:2:3:4:5:6:7::",
    "::1%1",
    "::ffff:010.1.2.3",
    "::01.2.3.4",
    "0000::1",
    "::00001",
    "2001:DB8::A",
    "localhost",
    *SCOPED,
)
UNRESOLVED = (
    "no.such.host.invalid",
    "256.1.1.1",
    "1.2.3.4.5",
    "10.0.0.0/8",
    " 10.0.0.1",
    "10.0.0.1 ",
    "0x7f000001",
    "127.0.0.1:80",
    "fe80::1%nope",
    "[10.0.0.1]",
    "4294967296",
    "1.16777216",
    "1.2.65536",
    "1..2",
    ".",
    "1.2.3.",
    "a b",
    "-",
    "1:2:3:4:5:6:7:8:9",
    "[::1",
    "::1]",
    "\u0661.\u0662.\u0663.\u0664",
    "00000000000000000001",
    "::12345",
    "1::2::3",
    "::1.2.3",
    "+1",
    "-1",
    "*",
    "<default>",
    "1.-2.3.4",
    "1.2.3.+4",
    "1.0x10",
)

_SCRAM = {
    "3.4": (-1, "Unexpected config type STRING should be Long or Double"),
    "all": invalid("Invalid configuration key SCRAM-SHA-256"),
}
KEYS = [
    _row("unknown key", USER, invalid("Invalid configuration key unheard_of"), ("unheard_of", 1.0)),
    _row("empty key", USER, invalid("Invalid configuration key "), ("", 1.0)),
    _row(
        "unknown key before its value",
        USER,
        invalid("Invalid configuration key unheard_of"),
        ("unheard_of", -1.0),
    ),
    _row(
        "key of an ip on a user",
        USER,
        invalid(f"Invalid configuration key {CONNECTION}"),
        (CONNECTION, 1.0),
    ),
    *(
        _row(f"{key} on an ip", IP, invalid(f"Invalid configuration key {key}"), (key, 1.0))
        for key in (PRODUCER, CONSUMER, REQUEST, MUTATION)
    ),
    _row(
        "ip before key",
        (("ip", "10.0.0.0/8"),),
        invalid("10.0.0.0/8 is not a valid IP or resolvable host."),
        (PRODUCER, 1.0),
    ),
    _row("SCRAM mechanism of a user", USER, _SCRAM, ("SCRAM-SHA-256", 1.0)),
    _row(
        "SCRAM mechanism of a client-id",
        (("client-id", "a"),),
        invalid("Invalid configuration key SCRAM-SHA-512"),
        ("SCRAM-SHA-512", 1.0),
    ),
    _row("removed key that is not set", USER, OK, (PRODUCER, None)),
    _row("removed key that does not exist", USER, OK, ("unheard_of", None)),
    _row("removed empty key", USER, OK, ("", None)),
    _row("removed key of an ip", USER, OK, (CONNECTION, None)),
    _row(
        "removal at a bad address",
        (("ip", "nope/1"),),
        invalid("nope/1 is not a valid IP or resolvable host."),
        (CONNECTION, None),
    ),
    _row(
        "one bad key spoils the rest",
        USER,
        invalid("Invalid configuration key zz"),
        (PRODUCER, 1.0),
        ("zz", 1.0),
    ),
    _row(
        "two of one bucket as they came",
        USER,
        invalid("Invalid configuration key zz"),
        ("zz", 1.0),
        ("yy", 1.0),
    ),
    _row(
        "two of one bucket the other way",
        USER,
        invalid("Invalid configuration key yy"),
        ("yy", 1.0),
        ("zz", 1.0),
    ),
    _row(
        "the first failure in hash order",
        USER,
        invalid("Invalid configuration key zz"),
        (REQUEST, 5.0),
        ("zz", 1.0),
        (PRODUCER, 0.5),
    ),
    _row(
        "same key twice",
        USER,
        invalid("Ignoring duplicate entity ClientQuotaEntity(entries={user=value})"),
        (PRODUCER, 1.0),
        (PRODUCER, 2.0),
    ),
    _row(
        "same key set and removed",
        USER,
        invalid("Ignoring duplicate entity ClientQuotaEntity(entries={user=value})"),
        (PRODUCER, 1.0),
        (PRODUCER, None),
    ),
    _row(
        "same bad key twice",
        USER,
        invalid("Ignoring duplicate entity ClientQuotaEntity(entries={user=value})"),
        ("zz", 0.0),
        ("zz", 0.0),
    ),
]

# ---- several alterations in one request -------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request on an empty cluster: the response for each entity, and the stored quotas."""

    name: str
    alterations: tuple[Alteration, ...]
    verdicts: Mapping[Names, Verdict]
    stored: Quotas


def _user(name: str | None) -> Names:
    return (("user", name),)


_TWICE = invalid("Ignoring duplicate entity ClientQuotaEntity(entries={user=twice})")
_PAIR: Names = (("client-id", None), ("user", "a"))
REQUESTS = [
    Request(name="none", alterations=(), verdicts={}, stored={}),
    Request(name="no operations", alterations=((USER, ()),), verdicts={USER: OK}, stored={}),
    Request(
        name="a refused entity stands aside",
        alterations=(
            (_user("good"), ((PRODUCER, 6.0),)),
            (_user(""), ((PRODUCER, 6.0),)),
            (_user("better"), ((PRODUCER, 7.0), (CONSUMER, 8.0))),
        ),
        verdicts={
            _user("good"): OK,
            _user(""): invalid("Empty user not supported"),
            _user("better"): OK,
        },
        stored={_user("good"): {PRODUCER: 6.0}, _user("better"): {PRODUCER: 7.0, CONSUMER: 8.0}},
    ),
    Request(
        name="the same entity twice keeps the first",
        alterations=((_user("twice"), ((PRODUCER, 1.0),)), (_user("twice"), ((CONSUMER, 2.0),))),
        verdicts={_user("twice"): _TWICE},
        stored={_user("twice"): {PRODUCER: 1.0}},
    ),
    Request(
        name="three times keeps the first",
        alterations=tuple((_user("twice"), ((key, 1.0),)) for key in (PRODUCER, CONSUMER, REQUEST)),
        verdicts={_user("twice"): _TWICE},
        stored={_user("twice"): {PRODUCER: 1.0}},
    ),
    Request(
        name="the same entity twice, the first refused",
        alterations=((_user("twice"), ((PRODUCER, 1.5),)), (_user("twice"), ((CONSUMER, 2.0),))),
        verdicts={_user("twice"): _TWICE},
        stored={},
    ),
    Request(
        name="the same entity twice, a key twice in the first",
        alterations=(
            (_user("twice"), ((PRODUCER, 1.0), (PRODUCER, 1.0))),
            (_user("twice"), ((CONSUMER, 2.0),)),
        ),
        verdicts={_user("twice"): _TWICE},
        stored={},
    ),
    Request(
        name="a pair twice, spelt in both orders",
        alterations=(
            ((("user", "a"), ("client-id", None)), ((PRODUCER, 1.0),)),
            ((("client-id", None), ("user", "a")), ((PRODUCER, 2.0),)),
        ),
        verdicts={
            _PAIR: invalid(
                "Ignoring duplicate entity ClientQuotaEntity(entries={client-id=null, user=a})"
            )
        },
        stored={_PAIR: {PRODUCER: 1.0}},
    ),
    Request(
        name="a type twice keeps the last name",
        alterations=(((("user", "a"), ("user", "b")), ((PRODUCER, 7.0),)),),
        verdicts={_user("b"): OK},
        stored={_user("b"): {PRODUCER: 7.0}},
    ),
    Request(
        name="a type twice makes a duplicate",
        alterations=(
            ((("user", "a"), ("user", "twice")), ((PRODUCER, 7.0),)),
            (_user("twice"), ((PRODUCER, 8.0),)),
        ),
        verdicts={_user("twice"): _TWICE},
        stored={_user("twice"): {PRODUCER: 7.0}},
    ),
    Request(
        name="two spellings of one address are two entities",
        alterations=(
            ((("ip", "::1"),), ((CONNECTION, 1.0),)),
            ((("ip", "0:0:0:0:0:0:0:1"),), ((CONNECTION, 2.0),)),
            ((("ip", None),), ((CONNECTION, 3.0),)),
        ),
        verdicts={(("ip", "::1"),): OK, (("ip", "0:0:0:0:0:0:0:1"),): OK, (("ip", None),): OK},
        stored={
            (("ip", "::1"),): {CONNECTION: 1.0},
            (("ip", "0:0:0:0:0:0:0:1"),): {CONNECTION: 2.0},
            (("ip", None),): {CONNECTION: 3.0},
        },
    ),
    Request(
        name="the default, the name <default> and another spelling are three",
        alterations=(
            (_user(None), ((PRODUCER, 1.0),)),
            (_user("<default>"), ((PRODUCER, 2.0),)),
            (_user("<DEFAULT>"), ((PRODUCER, 3.0),)),
        ),
        verdicts={_user(None): OK, _user("<default>"): OK, _user("<DEFAULT>"): OK},
        stored={
            _user(None): {PRODUCER: 1.0},
            _user("<default>"): {PRODUCER: 2.0},
            _user("<DEFAULT>"): {PRODUCER: 3.0},
        },
    ),
]
