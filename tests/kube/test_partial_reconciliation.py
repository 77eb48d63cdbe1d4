"""A partial reconciliation ends in the state of a complete one; its cost does not depend on the number of documents."""

import asyncio
import copy
from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from reconciler.app.loop.cluster_loop import LoopOutcome, LoopTrigger
from reconciler.kube.api.custom_resources import FINALIZER
from reconciler.kube.records import record_index
from reconciler.kube.records.record_index import size_of
from reconciler.kube.records.stored_records import part_of
from reconciler.metrics import reconciliation_values
from reconciler.quota.entity import ABSENT, DEFAULT, Entity, entity
from reconciler.quota.keys import Key
from reconciler.quota.policy import Policy
from tests.kube.worlds import KubeWorld, resource, seen

ENTITIES: tuple[Entity, ...] = (
    entity(user="u"),
    entity(user="v"),
    entity(user="u", client_id="c"),
    entity(client_id="c"),
    (DEFAULT, ABSENT, ABSENT),
    entity(ip="10.0.0.1"),
)
VALUES = (2048, 4096, 8192)


class WatchedWorld(KubeWorld):
    """A world whose watch reports changes of users, and whose reconciliations are requested for single documents."""

    def declare(self, name: str, subject: Entity, value: int, **spec: Any) -> str:
        """Create a document, or change it; only its limits if its entity differs."""
        document = f"team/{name}"
        present = self.objects.get(document)
        if present is not None and present["metadata"].get("deletionTimestamp"):
            return document
        key = Key.CONNECTION_CREATION_RATE if subject[2] else Key.PRODUCER_BYTE_RATE
        obj = resource(name, subject, {key: value}, **spec)
        if present is not None:
            obj["spec"]["entity"] = present["spec"]["entity"]
            obj["metadata"]["uid"] = present["metadata"]["uid"]
            obj["spec"]["limits"] = dict.fromkeys(present["spec"]["limits"], value)
        self.put(obj)
        self.tell(document)
        return document

    def remove(self, name: str) -> str:
        """Delete a document, or mark it for deletion if it has a finalizer."""
        document = f"team/{name}"
        obj = self.objects.get(document)
        if obj is None or obj["metadata"].get("deletionTimestamp"):
            return document
        gone = copy.deepcopy(obj)
        has_finalizer = FINALIZER in obj["metadata"].get("finalizers", ())
        self.delete(document, finalizer=has_finalizer)
        if has_finalizer:
            self.tell(document)
        else:
            _ = self.cache.forget(seen(gone))
        return document

    def tell(self, document: str) -> None:
        """Report a document to the watch."""
        _ = self.cache.observe(seen(copy.deepcopy(self.objects[document])))

    def reconcile(self, **trigger: Any) -> LoopOutcome:
        """One reconciliation; a listing only on its request."""
        self.api.calls.clear()
        self.kafka.requests.clear()
        outcome = asyncio.run(self.reconciled(LoopTrigger(**trigger)))
        for document, obj in list(self.cache.of("prod").items()):
            if document not in self.objects:
                # Its finalizer was removed, and the watch reports the end; no other object ever has its uid.
                self._deleted_uids.add(obj.uid)
                _ = self.cache.forget(obj)
        return outcome

    @property
    def is_partial(self) -> bool:
        """Whether the last reconciliation read no records."""
        return not any(call[:2] == ("list", "configmaps") for call in self.api.calls)

    def snapshot(self) -> dict[str, Any]:
        """The broker's quotas, records, statuses and events."""
        stored, owned = self.load()
        statuses = {document: obj.get("status") for document, obj in self.objects.items()}
        cluster = copy.deepcopy(self.obj.get("status", {}))
        return {
            "live": self.kafka.truth.limits,
            "records": owned,
            "uids": stored.uids,
            "memory": stored.memory,
            "statuses": statuses,
            "finalizers": {
                document: obj["metadata"].get("finalizers")
                for document, obj in self.objects.items()
            },
            "cluster": cluster,
            "counts": self.counts(),
            "events": self.happenings(),
        }

    def happenings(self) -> Counter[tuple[str, str]]:
        """The events so far, each as its object and its reason."""
        return Counter((event["regarding"]["name"], event["reason"]) for event in self.api.events)

    def counts(self) -> dict[str, int]:
        """The counts in the metrics."""
        report = self.reports[-1]
        if report.preview is None or report.live is None:
            return {}
        plan, foreign = report.preview.plan, reconciliation_values.foreign_pairs(report.live)
        states = reconciliation_values.states(report, plan, foreign=foreign)
        return {**states, "documents": plan.documents, "live": len(report.live.limits)}


UNMANAGED = {
    entity(user="v"): {Key.PRODUCER_BYTE_RATE: 4096.0},
    entity(user="unmanaged"): {Key.PRODUCER_BYTE_RATE: 4096.0, Key.REQUEST_PERCENTAGE: 50.0},
}


def worlds(**spec: Any) -> tuple[WatchedWorld, WatchedWorld]:
    """Two equal worlds: in the first one reconciliations may be partial, in the second one all are complete."""
    both = WatchedWorld(**spec), WatchedWorld(**spec)
    for world in both:
        for number in range(2):
            world.put(
                resource(
                    f"other{number}", entity(user=f"other{number}"), {Key.PRODUCER_BYTE_RATE: 2048}
                )
            )
        _ = world.turn(resync=True)
    return both


names = st.sampled_from(("a", "b", "c"))
actions = st.one_of(
    st.tuples(
        st.just("declare"),
        names,
        st.sampled_from(ENTITIES),
        st.sampled_from(VALUES),
        st.sampled_from(({}, {"deletionPolicy": "Delete"}, {"suspend": True})),
    ),
    st.tuples(st.just("remove"), names),
    st.tuples(st.just("foreign"), names, st.sampled_from(VALUES)),
)


def act(world: WatchedWorld, action: tuple[Any, ...]) -> str:
    """Execute an action; return its document."""
    match action:
        case ("declare", name, subject, value, spec):
            return world.declare(name, subject, value, **spec)
        case ("remove", name):
            return world.remove(name)
        case (_, name, value):
            # Another writer changes the pair of a document right before the document changes, too.
            document = f"team/{name}"
            if document in world.objects:
                limits = world.objects[document]["spec"]["entity"]
                if limits == {"user": {"name": "u"}}:
                    world.kafka.write(entity(user="u"), Key.PRODUCER_BYTE_RATE, value + 1.0)
                    return world.declare(name, entity(user="u"), value)
            return document


@settings(suppress_health_check=list(HealthCheck))
@given(
    steps=st.lists(st.lists(actions, min_size=1, max_size=3), min_size=1, max_size=6),
    policy=st.sampled_from(tuple(map(str, reversed(Policy)))),
    drift=st.sampled_from(({}, {"driftDetection": "Disabled"}, {"driftDetection": "Correct"})),
    live=st.sampled_from(({}, UNMANAGED)),
)
@example(
    steps=[
        [
            ("declare", "c", entity(user="u"), 2048, {"suspend": True}),
            ("declare", "b", entity(user="u"), 2048, {}),
        ],
        [("remove", "b")],
        [("declare", "a", entity(user="u"), 2048, {"suspend": True})],
        [("declare", "a", entity(user="u"), 2048, {})],
    ],
    policy="Sync",
    drift={},
    live={},
)
@example(
    steps=[
        [("declare", "b", entity(user="u"), 2048, {})],
        [("remove", "b"), ("declare", "b", entity(user="u"), 2048, {})],
    ],
    policy="Upsert",
    drift={},
    live={},
)
@example(
    steps=[
        [("declare", "c", entity(user="u"), 4096, {})],
        [("foreign", "c", 2048)],
        [("declare", "c", entity(user="u"), 4096, {})],
    ],
    policy="CreateOnly",
    drift={},
    live={},
)
def test_a_partial_reconciliation_gives_the_result_of_a_complete_one(
    steps: list[list[tuple[Any, ...]]],
    policy: str,
    drift: dict[str, str],
    live: dict[Entity, dict[Key, float]],
) -> None:
    partial, complete = worlds(
        confirm_after=2,
        guards=None,
        policy=policy,
        live=live,
        expectedClusterId="fake-cluster",
        confirmSync="fake-cluster",
        **drift,
    )
    for step in steps:
        documents = [
            tuple(dict.fromkeys(act(world, action) for action in step))
            for world in (partial, complete)
        ]
        assert documents[0] == documents[1]
        outcome = partial.reconcile(keys=documents[0])
        # A listing has no order, so that everything is compared.
        expected = complete.reconcile(keys=(*documents[1], "listing"))
        assert not complete.is_partial
        assert (outcome.retry, outcome.confirm) == (expected.retry, expected.confirm)
        assert partial.snapshot() == complete.snapshot()
        if outcome.retry or outcome.confirm:
            for world in (partial, complete):
                world.clock.advance(3.0)
                _ = world.reconcile(retry=True)
            assert partial.snapshot() == complete.snapshot()


def requests_of(count: int, *, deletes: bool) -> Counter[tuple[str, str] | str]:
    """The requests of one changed or deleted document among this number."""
    world = WatchedWorld(guards=None)
    for number in range(count):
        world.put(
            resource(
                f"user{number}",
                entity(user=f"user{number}"),
                {Key.PRODUCER_BYTE_RATE: 2048},
                deletionPolicy="Delete",
            )
        )
    for _ in range(2):
        _ = world.turn(resync=True)
    document = (
        world.remove("user3") if deletes else world.declare("user3", entity(user="user3"), 4096)
    )
    outcome = world.reconcile(keys=(document,))
    assert not outcome.retry
    assert world.is_partial
    assert deletes != (document in world.objects)
    return Counter(call[:2] for call in world.api.calls) + Counter(world.kafka.requests)


@pytest.mark.parametrize("deletes", [False, True])
def test_a_change_needs_the_same_requests_for_any_number_of_documents(deletes: bool) -> None:
    requests = requests_of(5, deletes=deletes)
    assert requests == requests_of(60, deletes=deletes)
    assert sum(request[0] == "list" for request in requests) == deletes
    assert requests.total() <= 16 + deletes
    assert requests["describe"] == 6
    assert requests["alter"] == 1


def change(world: WatchedWorld) -> LoopOutcome:
    """Change one document."""
    return world.reconcile(keys=(world.declare("other0", entity(user="other0"), 5000),))


def test_after_a_failure_or_a_foreign_write_and_for_other_keys_the_reconciliation_is_complete() -> (
    None
):
    world, _ = worlds()
    _ = change(world)
    assert world.is_partial
    _ = world.reconcile(keys=("prod",))
    assert not world.is_partial
    _ = change(world)
    assert world.is_partial
    _ = world.reconcile(keys=("team/other0",), retry=True)
    assert not world.is_partial
    world.kafka.faults.rejected[entity(user="other0")] = (42, "INVALID_REQUEST", "no")
    _ = world.reconcile(keys=(world.declare("other0", entity(user="other0"), 6000),))
    assert world.is_partial
    world.kafka.faults.rejected.clear()
    _ = change(world)
    assert not world.is_partial


def test_budgets_count_all_entities_so_every_reconciliation_is_complete() -> None:
    world, _ = worlds(budgets=[{"name": "broker", "limits": {"producerByteRate": "1Gi"}}])
    _ = change(world)
    assert not world.is_partial


SHARED = entity(user="shared")
RATE = {Key.PRODUCER_BYTE_RATE: 2048}


def world_of_one() -> WatchedWorld:
    """A world with a document whose deletion removes its limit."""
    world, _ = worlds()
    _ = world.reconcile(keys=(world.declare("a", SHARED, 2048, deletionPolicy="Delete"),))
    return world


def lists_everything(world: WatchedWorld) -> bool:
    """Whether the last reconciliation listed all documents."""
    return ("list", "clientquotas", "", "") in world.api.calls


def test_many_deletions_at_once_are_reconciled_without_all_others() -> None:
    world, names = WatchedWorld(guards=None), [f"user{number}" for number in range(200)]
    for name in names:
        world.put(resource(name, entity(user=name), RATE))
    for _ in range(2):
        _ = world.turn(resync=True)
    outcome = world.reconcile(keys=tuple(map(world.remove, names[:150])))
    assert (outcome.retry, world.is_partial, lists_everything(world)) == (False, True, False)
    assert len(world.owned.orphaned) == 150
    assert world.kafka.requests.count("describe") < 10


def test_only_the_reconciliation_of_a_deletion_reports_that_the_limits_stay() -> None:
    world, _ = worlds()
    _ = world.reconcile(keys=(world.remove("other1"),))
    assert world.is_partial
    assert world.happenings() == {("other1", "Orphaned"): 1}
    _ = change(world)
    assert world.is_partial
    assert world.happenings() == {("other1", "Orphaned"): 1}


def test_a_claim_that_was_not_observed_yet_keeps_the_limit_of_a_deleted_document() -> None:
    world = world_of_one()
    world.api.memory = copy.deepcopy(world.api.objects)  # of an API server that lags behind
    world.put(resource("unseen", SHARED, RATE))
    sent = len(world.kafka.sent)
    _ = world.reconcile(keys=(world.remove("a"),))
    assert not world.is_partial
    assert lists_everything(world)
    assert len(world.kafka.sent) == sent
    assert world.reason("team/unseen") == "Synced"


def test_a_document_that_was_resumed_and_not_observed_yet_keeps_the_limit_of_a_deleted_one() -> (
    None
):
    world = world_of_one()
    _ = world.reconcile(keys=(world.declare("b", SHARED, 2048, suspend=True),))
    world.put(resource("b", SHARED, RATE))
    sent = len(world.kafka.sent)
    _ = world.reconcile(keys=(world.remove("a"),))
    assert not world.is_partial
    assert len(world.kafka.sent) == sent
    assert world.reason("team/b") == "Synced"


def test_documents_of_the_entity_for_another_cluster_do_not_matter_to_a_removal() -> None:
    world = world_of_one()
    world.put(resource("elsewhere", SHARED, RATE, cluster="other"))
    _ = world.reconcile(keys=(world.remove("a"),))
    assert world.is_partial
    assert SHARED not in world.kafka.truth.limits


def test_a_removal_is_complete_where_a_document_of_its_entity_selects_clusters() -> None:
    world, selecting = world_of_one(), resource("selecting", SHARED, RATE)
    selecting["spec"]["clusterSelector"] = {"matchLabels": {"zone": "b"}}
    del selecting["spec"]["clusterRef"]
    world.put(selecting)
    world.tell("team/selecting")
    _ = world.reconcile(keys=(world.remove("a"),))
    assert not world.is_partial
    assert SHARED not in world.kafka.truth.limits


def test_a_removal_is_complete_where_the_definition_has_no_selectable_fields() -> None:
    world = world_of_one()
    world.api.has_selectable_fields = False
    _ = world.reconcile(keys=(world.remove("a"),))
    assert not world.is_partial
    assert SHARED not in world.kafka.truth.limits


def test_a_partial_reconciliation_refuses_what_has_no_room_in_the_records_as_a_complete_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = WatchedWorld(guards=None)
    first = world.declare("first", entity(user="user"), 2048)
    _ = world.turn(resync=True)
    monkeypatch.setattr(record_index, "SHARE", size_of(entity(user="user"), "team/first", 1))
    neighbour = next(
        entity(user=f"user-{number}")
        for number in range(99)
        if part_of(entity(user=f"user-{number}"), "salt") == part_of(entity(user="user"), "salt")
    )
    second = world.declare("second", neighbour, 2048)
    _ = world.reconcile(keys=(second,))
    assert world.is_partial
    assert world.reason(second) == "NamespaceLimit"
    _ = world.reconcile(keys=(world.declare("first", entity(user="user"), 4096),))
    assert world.is_partial
    assert world.reason(first) == "Synced"
    statuses = {name: world.status(name) for name in (first, second)}
    _ = world.turn(resync=True)
    assert {name: world.status(name) for name in (first, second)} == statuses
    assert world.live().keys() == {entity(user="user")}
