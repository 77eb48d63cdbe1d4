"""A tenant's objects never name another tenant's documents or entities, in any field, event or message."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.quota.entity import DEFAULT, entity
from reconciler.quota.planner.guards import Guards
from reconciler.reconcile import NewOverride
from tests.hypothesis_profiles import count_examples
from tests.kube.worlds import KubeWorld, resource
from tests.reconcile.scenarios import OPEN, RATE, SHARE

MINE, THEIRS = "mine", "rivalspace"
SHARED = entity(user="shared")
OWN = {
    MINE: (entity(user="me"), entity(user="me", client_id="app")),
    THEIRS: (entity(user="rivaluser"), entity(user="rivaluser", client_id="rivalapp")),
}
WORDS = ("rival",)
"""Every name of the other tenant contains it."""

TENANTS = [
    {
        "namespaces": [namespace],
        "priority": priority,
        "entities": [
            {"user": {"prefix": ""} if namespace == THEIRS else {"exact": "me"}},
            {"user": {"exact": "shared"}},
        ],
        "allow": ["Delete", "Suspend"],
    }
    for namespace, priority in ((MINE, 5), (THEIRS, 1))
]
TENANTS[1]["entities"] = [
    {"user": {"prefix": "rival"}},
    {"user": {"exact": "shared"}},
    {"forms": ["defaultUser"]},
]


@st.composite
def quotas(draw):
    documents = []
    for namespace in (MINE, THEIRS):
        for number in range(draw(st.integers(1, 3))):
            subject = draw(st.sampled_from([*OWN[namespace], SHARED, entity(user=DEFAULT)]))
            prefix = "rival" if namespace == THEIRS else "doc"
            keys = draw(st.sets(st.sampled_from([RATE, SHARE]), min_size=1))
            documents.append(
                resource(
                    f"{prefix}-{number}",
                    subject,
                    {key: draw(st.sampled_from([50, 5000, 5_000_000])) for key in keys},
                    namespace=namespace,
                    created=draw(st.sampled_from(["2024-01-01T00:00:00Z", "2025-01-01T00:00:00Z"])),
                    **draw(st.sampled_from([{}, {"suspend": True}, {"deletionPolicy": "Delete"}])),
                )
            )
    return documents


FAULTS = st.sampled_from(["none", "reject", "meddle", "delete", "lag", "lost"])


@settings(max_examples=count_examples(80))
@given(quotas(), FAULTS, st.sampled_from([OPEN, None, Guards(max_removals=0)]), st.booleans())
def test_no_text_of_a_tenant_names_the_other_tenant(documents, fault, guards, observes):
    world = KubeWorld(
        {SHARED: {RATE: 77.0}},
        guards=guards,
        tenants=TENANTS,
        policy="Observe" if observes else "Upsert",
    )
    world.put(*documents)
    if fault == "reject":
        world.kafka.faults.rejected[OWN[THEIRS][1]] = (42, "INVALID_REQUEST", "rivalapp: no")
    if fault == "lag":
        world.kafka.faults.lag[1] = float("inf")
    if fault == "lost":
        world.kafka.faults.unknown[OWN[THEIRS][1]] = "lost"
    world.run()
    if fault == "meddle":
        world.kafka.write(SHARED, RATE, 88.0)
    if fault == "delete":
        world.delete(max(world.objects), finalizer=True)
    world.run()
    texts = {name: json.dumps(world.status(name)) for name in world.objects}
    for name, event in world.happened:
        texts[name] = texts.get(name, "") + event.note
    for name, text in texts.items():
        if name.startswith(f"{MINE}/"):
            assert not any(word in text for word in WORDS), text


@given(
    live=st.sampled_from([None, 777.0]),
    declared=st.sampled_from([None, 777.0, 5000.0]),
    override=st.sampled_from([None, 4444.0]),
    drifted=st.booleans(),
)
def test_a_document_without_a_grant_shows_nothing_of_the_entity(live, declared, override, drifted):
    """Else a namespace could list the clients of others, with their limits, by documents for guessed names."""
    subject = OWN[THEIRS][0]

    def status(*, alone: bool) -> object:
        world = KubeWorld({} if alone or live is None else {subject: {RATE: live}}, tenants=TENANTS)
        world.put(resource("spy", subject, {RATE: 5000}, namespace=MINE))
        if alone:
            world.run()
        else:
            if declared is not None:
                world.put(resource("rival", subject, {RATE: declared}, namespace=THEIRS))
            overrides = NewOverride(
                entity=subject,
                key=RATE,
                value=override,
                until=world.clock.now() + 3600.0,
                principal="rival",
                reason="rival",
            )
            world.run(overrides=() if override is None else (overrides,))
            if drifted:
                world.kafka.write(subject, RATE, 88.0)
        world.run()
        return world.status(f"{MINE}/spy")

    assert status(alone=False) == status(alone=True)


def test_with_tenants_a_competing_document_is_named_only_within_the_namespace():
    world = KubeWorld(tenants=TENANTS)
    world.put(
        resource(
            "a", SHARED, {RATE: 5000, SHARE: 50}, namespace=MINE, created="2025-01-01T00:00:00Z"
        ),
        resource("b", SHARED, {RATE: 5000}, namespace=MINE),
        resource("c", SHARED, {SHARE: 50}, namespace=THEIRS),
    )
    world.run()
    message = world.condition("mine/a")["message"]
    assert message == (
        "producer_byte_rate: ClientQuota mine/b has it; request_percentage: another document has it"
    )
