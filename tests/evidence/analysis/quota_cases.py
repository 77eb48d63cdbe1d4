"""Generated limits and clients for both engines, and limits as rows of the tables. A case is a separate cluster."""

import datetime as dt
import math
import random
from collections.abc import Iterator

from reconciler.quota.entity import (
    ABSENT,
    DEFAULT,
    Entity,
    canonical_parts_text,
    canonical_text,
    entity,
    kinds,
)
from reconciler.quota.keys import COLUMNS, RULES
from reconciler.quota.patterns import FORMS
from reconciler.quota.precedence import Principal
from reconciler.quota.state import QuotaState, limits_of
from reconciler.usage.samples import TYPE_OF, ValueState, limit_state, limit_units

DAY = dt.date(2026, 11, 1)
DAY_MS = 1_793_491_200_000

USERS = ("alice", "<default>", "", "zoë 日本", 'a"b\\', "User:x")
CLIENTS = ("app", "<default>", "", "producer-1", "alice")
ADDRESSES = ("10.0.0.1", "::1", "10.0.0.2", "")
VALUES = (
    1.0,
    2.0,
    1000.0,
    1e6,
    1_000_000.000_000_5,
    0.5,
    1e12,
    9_999_999_999_999.0,
    1e13,
    1e20,
    float(2**63),
    math.inf,
    -math.inf,
    math.nan,
    0.0,
    -1.0,
    2.5e-7,
)

Row = tuple[object, ...]


def states(draw: random.Random) -> QuotaState:
    """Possible states of a cluster: any mix of levels, invalid stored values, foreign types."""
    users, clients = draw.sample(USERS, 3), draw.sample(CLIENTS, 3)
    shapes = draw.sample(sorted(FORMS), draw.randint(0, len(FORMS)))
    limits = {}
    for user, client, ip in shapes:
        for _ in range(draw.randint(1, 3)):
            subject = entity(
                user={"named": draw.choice(users), "default": DEFAULT, "absent": ABSENT}[user],
                client_id={"named": draw.choice(clients), "default": DEFAULT, "absent": ABSENT}[
                    client
                ],
                ip={"named": draw.choice(ADDRESSES), "default": DEFAULT, "absent": ABSENT}[ip],
            )
            fitting = [key for key in COLUMNS if RULES[key].on_ip == (subject[2] is not ABSENT)]
            keys = draw.sample(fitting, draw.randint(1, len(fitting)))
            limits[subject] = limits_of({key: draw.choice(VALUES) for key in keys})
    foreign = (((("client-id-prefix", "a"),), (("producer_byte_rate", 1.0),)),)
    strange = dict.fromkeys(list(limits)[:1], (("tenant_rate", 7.0),))
    return QuotaState(
        limits=limits,
        foreign_values=strange if draw.random() < 0.3 else {},
        foreign_entities=foreign if draw.random() < 0.3 else (),
    )


def clients(draw: random.Random) -> list[Principal]:
    """Clients that some limits name and foreign_rows do not, without duplicates."""
    principals = {
        Principal(
            user=draw.choice((*USERS, "nobody", "")) or None,
            client_id=draw.choice((*CLIENTS, "other", "")) or None,
            ip=draw.choice((*ADDRESSES, "10.9.9.9", "", "", "")) or None,
        )
        for _ in range(12)
    }
    return sorted(principals, key=repr)


def entry_rows(
    cluster_id: str, state: QuotaState, *, snapshot_id: str = "s1", at_ms: int = DAY_MS
) -> Iterator[Row]:
    """A state as rows of ``quota_entry``, foreign keys and types included."""
    look = (cluster_id, snapshot_id, at_ms)
    day = dt.date(1970, 1, 1) + dt.timedelta(days=at_ms // 86_400_000)
    for subject, key, value in state.pairs():
        units = limit_units(TYPE_OF[key], value) if _finite(key, value) else None
        yield (
            *look,
            *_slots(subject),
            canonical_text(subject),
            str(key),
            value,
            units,
            str(limit_state(TYPE_OF[key], value)),
            "describe",
            day,
        )
    foreign_rows = [
        (*_slots(subject), canonical_text(subject), name, value)
        for subject, values in state.foreign_values.items()
        for name, value in values
    ]
    foreign_rows += [
        ("foreign", "foreign", "foreign", "", "", "", canonical_parts_text(named), name, value)
        for named, values in state.foreign_entities
        for name, value in values
    ]
    for columns in foreign_rows:
        yield (*look, *columns, None, "finite", "describe", day)


def _finite(key: object, value: float) -> bool:
    return limit_state(TYPE_OF[key], value) is ValueState.FINITE


def _slots(subject: Entity) -> tuple[str, ...]:
    return (*kinds(subject), *(slot if isinstance(slot, str) else "" for slot in subject))
