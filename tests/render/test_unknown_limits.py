"""A law of all outputs: where a live limit has an entity type that Kafka does not define, exactly its clients have unknown limits.

``resolve`` and its texts, the impact and the warnings of a plan, the clients of the page, and the what-if simulation are
compared with a second reading of which clients a limit may match, over a small world of clients.
"""

from itertools import product

from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.quota.entity import ABSENT, DEFAULT, Entity, entity, entity_text
from reconciler.quota.keys import COLUMNS, RULES, Key
from reconciler.quota.planner.effects import Direction, fallbacks, unranked_limits
from reconciler.quota.planner.impact import assess, own_entity
from reconciler.quota.planner.plan import Plan, QuotaChange, apply_to
from reconciler.quota.policy import Cause, DriftMode, Policy
from reconciler.quota.precedence import Principal, resolve
from reconciler.quota.results.report import Preview, ValidationResult
from reconciler.quota.state import QuotaState
from reconciler.render.cluster_state import (
    principal_text,
    resolutions_document,
    resolutions_text,
    unknown_warnings,
)
from reconciler.render.impact_rows import client_section, warning_sentences
from reconciler.usage.impact.bucket_mapping import Identifiability
from reconciler.usage.impact.query import FOREIGN_ENTITIES, ImpactRequest, impact_query
from reconciler.usage.samples import KEY_OF, QuotaType
from reconciler.usage.tags import Bucket, GroupKind, bucket_of
from tests.quota.strategies import foreign_entities, numbers

NAMED_USERS, NAMED_CLIENTS = ("alice", "bob"), ("etl-1", "etl", "web")
USERS, CLIENTS = (*NAMED_USERS, "stranger"), (*NAMED_CLIENTS, "etl-9", "we", "x", "stranger")
CLIENT_WORLD = [
    Principal(user=user, client_id=client_id)
    for user, client_id in product((None, *USERS), (None, "", *CLIENTS))
    if user is not None or client_id
]
"""Clients that an entity or a prefix names, and of every kind one that neither names."""

ADDRESS_WORLD = [
    Principal(ip=ip, user=user, client_id=client_id)
    for ip, user, client_id in product(
        ("10.0.0.1", "10.0.0.2"), (None, *USERS), (None, "", *CLIENTS)
    )
]
ENTITIES = [
    entity(user=user, client_id=client_id)
    for user, client_id in product(
        (ABSENT, DEFAULT, *NAMED_USERS), (ABSENT, DEFAULT, *NAMED_CLIENTS)
    )
    if (user, client_id) != (ABSENT, ABSENT)
] + [entity(ip=DEFAULT), entity(ip="10.0.0.1")]

kafka_states = st.lists(
    st.tuples(st.sampled_from(ENTITIES), st.sampled_from(COLUMNS), numbers), max_size=8
).map(
    lambda values: QuotaState().with_values(
        [value for value in values if RULES[value[1]].on_ip == (value[0][2] is not ABSENT)]
    )
)


def may_match(parts, client: Principal) -> bool:
    """Second reading: a name matches itself, a default every name, a prefix what begins with it, any other type all."""
    for kind, name in parts:
        text = {
            "user": client.user,
            "client-id": client.client_id,
            "client-id-prefix": client.client_id,
            "ip": client.ip,
        }
        if kind == "client-id-prefix":
            if not client.client_id or client.client_id[: len(name)] != name:
                return False
        elif kind != "team" and (not text[kind] or (name is not None and name != text[kind])):
            return False
    return True


def belongs(subject: Entity, client: Principal) -> bool:
    return all(
        slot is ABSENT or (bool(name) and slot in (DEFAULT, name))
        for slot, name in zip(subject, (client.user, client.client_id, client.ip), strict=True)
    )


def possible_values(state: QuotaState, client: Principal, key: Key) -> set[float | None]:
    """What the limit of a client may be: Kafka's answer, and each foreign limit that may win over it."""
    ranked = replace(state, foreign_entities=())
    return {resolve(ranked, client, [key]).limit(key)} | {
        dict(values)[key]
        for parts, values in state.foreign_entities
        if key in dict(values) and may_match(parts, client)
    }


def is_unknown(state: QuotaState, client: Principal, key: Key) -> bool:
    return len(possible_values(state, client, key)) > 1


@given(kafka_states, foreign_entities)
def test_resolve_reports_exactly_the_unknown_limits(state, foreign) -> None:
    state = replace(state, foreign_entities=foreign)
    for client in CLIENT_WORLD[:: len(foreign) + 3] + ADDRESS_WORLD[:: len(foreign) + 17]:
        resolution = resolve(state, client)
        unknown = [
            limit.key for limit in resolution.effective if is_unknown(state, client, limit.key)
        ]
        assert [limit.key for limit in resolution.effective if not limit.is_known] == unknown
        (document,) = resolutions_document([resolution], cluster_id="c", overrides={})["clients"]
        rows = document["limits"].items()
        assert [key for key, row in rows if not row["known"]] == unknown
        assert all(row["value"] is None for row in document["limits"].values() if not row["known"])
        lines = resolutions_text([resolution]).splitlines()
        assert [line.split()[0] for line in lines if " unknown " in line] == unknown
        sentences = unknown_warnings([resolution])
        for key in COLUMNS:
            text = f"{principal_text(client)}: the effective {key} is unknown"
            assert any(text in sentence for sentence in sentences) == (key in unknown)


plans = st.tuples(kafka_states, kafka_states, foreign_entities)


def plan_between(before: QuotaState, after: QuotaState) -> Plan:
    pairs = {(subject, key) for state in (before, after) for subject, key, _ in state.pairs()}
    return Plan(
        cluster_id="c",
        changes=tuple(
            QuotaChange(
                entity=subject,
                key=key,
                before=before.value(subject, key),
                after=after.value(subject, key),
                cause=Cause.SPEC,
            )
            for subject, key in sorted(pairs, key=str)
            if before.value(subject, key) != after.value(subject, key)
        ),
    )


@given(plans)
def test_the_impact_of_a_plan_is_unknown_for_exactly_the_clients_with_an_unknown_limit(
    case,
) -> None:
    before, after, foreign = case
    live = replace(before, foreign_entities=foreign)
    plan = plan_between(before, after)
    later = apply_to(live, plan.changes)
    world = [*CLIENT_WORLD, *ADDRESS_WORLD]
    impact = assess(plan, live, known_principals=world)
    preview = Preview(
        plan=plan,
        fallbacks=fallbacks(plan.changes, live),
        impact=impact,
        verdict=ValidationResult(source="none"),
        policy=Policy.UPSERT,
        drift_mode=DriftMode.WARN,
        created_at=0.0,
    )
    section = client_section(preview, live, max_rows=10_000)
    page_rows = {(row.entity, row.key): row for row in section.rows}
    for affected in impact.affected:
        row = page_rows[entity_text(own_entity(affected.principal)), affected.key]
        sides = [is_unknown(state, affected.principal, affected.key) for state in (live, later)]
        assert (affected.direction is Direction.UNKNOWN) == any(sides)
        assert [value == "unknown" for value in (row.before, row.after)] == sides
        if any(sides):
            assert (affected.factor, affected.moved) == (None, False)
    for effect in impact.effects:
        change = effect.change
        user, client_id, ip = (
            slot if isinstance(slot, str) else "stranger" if slot is DEFAULT else None
            for slot in change.entity
        )
        client = Principal(user=user, client_id=client_id, ip=ip)
        foreign_values = possible_values(QuotaState(foreign_entities=foreign), client, change.key)
        certain = foreign_values - {None} <= {effect.before} & {effect.after}
        assert (effect.direction is Direction.UNKNOWN) == (not certain)


@given(plans)
def test_a_plan_warns_of_exactly_the_foreign_limits_that_may_meet_a_changed_limit(case) -> None:
    before, after, foreign = case
    live = replace(before, foreign_entities=foreign)
    changes = plan_between(before, after).changes
    expected = {
        (parts, key)
        for parts, values in foreign
        for key in COLUMNS
        if key in dict(values)
        for change in changes
        if change.key is key
        and any(
            belongs(change.entity, client) and may_match(parts, client)
            for client in (*CLIENT_WORLD, *ADDRESS_WORLD)
        )
    }
    assert set(unranked_limits(live, changes)) == expected
    assert sum("unknown" in text for text in warning_sentences(live, changes)) == len(expected)


def in_bucket(bucket: Bucket, any_name: bool, client: Principal) -> bool:
    if bucket.kind is GroupKind.IP:
        return bool(client.ip) and (any_name or bucket.ip == client.ip)
    return all(
        name == text or (not name and (any_name or kind_has is False))
        for name, text, kind_has in (
            (bucket.user, client.user, bucket.kind in (GroupKind.USER, GroupKind.PAIR)),
            (bucket.client_id, client.client_id, bucket.kind in (GroupKind.CLIENT, GroupKind.PAIR)),
        )
    )


BUCKETS = [
    *(bucket_of(user) for user in USERS),
    *(bucket_of("", client_id) for client_id in CLIENTS),
    *(bucket_of(user, client_id) for user, client_id in product(USERS, CLIENTS)),
]


@given(plans, st.lists(st.sampled_from(BUCKETS), unique=True, max_size=8))
def test_the_simulation_has_no_figure_for_exactly_the_buckets_of_these_clients(
    case, buckets
) -> None:
    before, after, foreign = case
    assume(foreign)
    by_type = {QuotaType.PRODUCE: {"1": buckets}, QuotaType.REQUEST: {"1": buckets}}

    def requests(foreign) -> dict[tuple[object, ...], ImpactRequest]:
        old, new = (replace(state, foreign_entities=foreign) for state in (before, after))
        query = impact_query("c", old, new, by_type, frozenset(QuotaType))
        return {
            (row.quota_type, row.bucket, row.any_name, row.broker_id): row for row in query.requests
        }

    ranked, answered = requests(()), requests(foreign)
    assert ranked.keys() == answered.keys()
    for name, request in answered.items():
        key = KEY_OF[request.quota_type]
        is_blind = any(
            key in dict(values) and may_match(parts, client)
            for parts, values in foreign
            for client in (*CLIENT_WORLD, *ADDRESS_WORLD)
            if in_bucket(request.bucket, request.any_name, client)
        )
        if is_blind:
            assert (request.answer, request.parts, request.reason) == (
                Identifiability.NOT_IDENTIFIABLE,
                (),
                FOREIGN_ENTITIES,
            )
        else:
            assert request == ranked[name]


def test_the_world_of_clients_has_one_for_every_entity() -> None:
    for subject in ENTITIES:
        assert any(belongs(subject, client) for client in (*CLIENT_WORLD, *ADDRESS_WORLD))
    assert own_entity(Principal(user="alice")) == entity(user="alice")
