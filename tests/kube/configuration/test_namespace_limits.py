"""The oldest documents of each namespace are reconciled; documents beyond the limit declare nothing and report it."""

import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.kube.api.custom_resources import FINALIZER, REQUESTED_AT
from reconciler.kube.configuration.namespace_limits import (
    LABEL_SIZE,
    NamespaceLimits,
    NamespaceUse,
    excerpt,
    size_of,
)
from reconciler.kube.records.finalizers import removing
from reconciler.kube.status.eligibility import assess_eligibility
from reconciler.kube.status.reasons import Reason
from reconciler.kube.watch.resource_cache import ResourceCache
from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from tests.kube.worlds import observe_listing, resource, seen

RATE = Key.PRODUCER_BYTE_RATE
FEW = NamespaceLimits(documents=3, size=100)


def served(limits, documents):
    """The law: the longest sequence of oldest documents that is within both limits."""
    size, names = 0, set()
    for number, (name, (_, bytes_)) in enumerate(
        sorted(documents.items(), key=lambda item: (item[1][0], item[0]))
    ):
        size += bytes_
        if number >= limits.documents or size > limits.size:
            break
        names.add(name)
    return names


NAMES = st.sampled_from([f"t/{letter}" for letter in "abcdefgh"])
STEPS = st.lists(
    st.one_of(
        st.tuples(NAMES, st.integers(0, 4), st.integers(1, 60)),
        st.tuples(NAMES, st.none(), st.none()),
    ),
    max_size=40,
)


@given(STEPS)
def test_the_oldest_documents_within_both_limits_are_served_after_any_history(steps):
    use, documents = NamespaceUse(FEW), {}
    for name, created, size in steps:
        before = served(FEW, documents)
        if created is None:
            documents.pop(name, None)
            moved = use.remove(name)
        else:
            documents[name] = created, size
            moved = use.put(name, created=created, size=size)
        after = served(FEW, documents)
        assert {key for key in documents if use.serves(key)} == after
        assert moved == (before ^ after) - {name}
        assert len(use) == len(documents)


def quota(name, *, user=None, created="2024-01-01T00:00:00Z", namespace="team", **spec):
    obj = resource(
        name, entity(user=user or name), {RATE: 1}, created=created, namespace=namespace, **spec
    )
    obj["metadata"]["labels"] = {"owner": "x" * 60}
    return obj


def at(second):
    return f"2024-01-01T00:00:{second:02}Z"


def test_a_document_beyond_the_limit_is_stored_as_a_marked_excerpt():
    cache = ResourceCache(NamespaceLimits(documents=1))
    _ = cache.observe(seen(quota("old", created=at(1))))
    assert cache.observe(seen(quota("new", user="x" * 512, created=at(2)))) == {"prod"}
    obj = cache.of("prod")["team/new"]
    assert "the oldest 1 ClientQuotas" in obj.excess
    assert memory_of(kept(obj)) < 2000
    assert obj.spec == {"clusterRef": {"name": "prod"}}
    assert cache.of("prod")["team/old"].excess == ""


def test_the_oldest_documents_are_served_for_any_order_of_a_listing():
    cache = ResourceCache(NamespaceLimits(documents=2))
    _ = observe_listing(cache, [quota(f"q-{n}", created=at(9 - n)) for n in range(9)], version="9")
    names = {name for name, obj in cache.of("prod").items() if not obj.excess}
    assert names == {"team/q-8", "team/q-7"}


def test_one_namespace_does_not_reduce_the_limit_of_another():
    cache = ResourceCache(NamespaceLimits(documents=1))
    for number in range(5):
        _ = cache.observe(seen(quota(f"q-{number}", created=at(number), namespace="greedy")))
    _ = cache.observe(seen(quota("mine", created=at(30), namespace="other")))
    assert cache.of("prod")["other/mine"].excess == ""


def test_the_size_counts_as_well_as_the_number_of_documents():
    cache = ResourceCache(NamespaceLimits(size=3000))
    for number in range(4):
        _ = cache.observe(seen(quota(f"q-{number}", user="x" * 500, created=at(number))))
    sizes = [size_of(seen(quota("q-0", user="x" * 500)))] * 4
    assert sizes[0] * 4 > 2500
    names = [name for name, obj in cache.of("prod").items() if not obj.excess]
    assert len(names) == 3000 // sizes[0]


def test_an_excerpt_becomes_a_document_when_there_is_space_and_a_listing_contains_it():
    cache = ResourceCache(NamespaceLimits(documents=1))
    first, second = quota("a", created=at(1)), quota("b", created=at(2))
    _ = cache.observe(seen(first))
    _ = cache.observe(seen(second))
    _ = cache.forget(seen(first))
    assert observe_listing(cache, [second], version="2") == {"prod"}
    assert cache.of("prod")["team/b"].spec == second["spec"]
    assert cache.of("prod")["team/b"].excess == ""


def test_a_repeated_event_in_a_full_namespace_triggers_nothing():
    cache = ResourceCache(NamespaceLimits(documents=1))
    _ = cache.observe(seen(quota("a", created=at(1))))
    _ = cache.observe(seen(quota("b", created=at(2))))
    assert cache.observe(seen(quota("b", created=at(2)))) == frozenset()
    assert cache.observe(seen(quota("c", created=at(3)))) == {"prod"}
    assert cache.observe(seen(quota("a", created=at(1)))) == frozenset()


def test_a_document_beyond_the_limit_is_marked_before_it_is_validated():
    obj = replace(seen(quota("a", namespace="team")), excess="too much")
    standing = assess_eligibility(obj, {})
    assert (standing.reason, standing.claim, standing.freezes) == (
        Reason.NAMESPACE_LIMIT,
        None,
        True,
    )
    assert standing.messages == ("too much",)
    obj = replace(obj, deleted_at=1.0)
    assert assess_eligibility(obj, {}).reason is Reason.DELETING


@pytest.mark.parametrize("limits", [{"documents": 0}, {"size": 0}])
def test_a_limit_of_zero_is_rejected(limits):
    with pytest.raises(ValueError, match="at least 1"):
        NamespaceLimits(**limits)


def test_the_reconcile_request_annotation_is_truncated_to_the_size_of_its_status_field():
    cache = ResourceCache()
    obj = quota("a")
    obj["metadata"]["annotations"] = {REQUESTED_AT: "r" * 250_000, "other": "x" * 250_000}
    _ = cache.observe(seen(obj))
    assert cache.of("prod")["team/a"].requested_at == "r" * 128


def test_many_events_in_a_full_namespace_are_processed_in_short_steps():
    """Each document is moved at most once by an event of another one; no event sorts or counts all of them."""
    limits = NamespaceLimits(documents=500)
    use = NamespaceUse(limits)
    moved = 0
    for number in reversed(range(5000)):
        moved += len(use.put(f"t/{number:05}", created=float(number), size=100))
    assert moved == 5000 - 500
    assert sum(use.serves(f"t/{number:05}") for number in range(5000)) == 500


def memory_of(value):
    """Bytes of a value and of everything that it contains, without duplicates."""
    sizes, todo = {}, [value]
    while todo:
        item = todo.pop()
        if id(item) not in sizes:
            sizes[id(item)] = sys.getsizeof(item)
            if isinstance(item, dict):
                todo += [*item.keys(), *item.values()]
            elif isinstance(item, list):
                todo += item
    return sum(sizes.values())


def kept(obj):
    """What a document keeps of its author's choice."""
    return {"kept": [obj.spec, obj.status, obj.labels, obj.requested_at, obj.excess]}


def crowded(what, count):
    """A document with a large number of elements in an unrestricted field."""
    obj = quota("q-0")
    names = [f"a/{number:x}" for number in range(count)]
    obj["metadata"][what] = names if what == "finalizers" else dict.fromkeys(names, "")
    return json.loads(json.dumps(obj))


@pytest.mark.parametrize("what", ["labels", "finalizers", "annotations"])
@pytest.mark.parametrize("count", [100, 20_000])
def test_the_counted_size_of_a_document_bounds_its_memory(what, count):
    obj = seen(crowded(what, count))
    assert memory_of(kept(obj)) < 2 * size_of(obj) + 8 * 1024


@pytest.mark.parametrize("what", ["labels", "finalizers", "annotations"])
def test_an_excerpt_is_small_for_any_document(what):
    obj = crowded(what, 20_000)
    obj["metadata"].setdefault("finalizers", []).append(FINALIZER)
    cache = ResourceCache(NamespaceLimits(size=1))
    cache.observe(seen(obj))
    cached_obj = cache.of("prod")["team/q-0"]
    assert cached_obj.excess
    assert memory_of(kept(cached_obj)) < 8 * 1024
    assert cached_obj.has_finalizer


@pytest.mark.parametrize("count", [0, 31, 32, 20_000])
def test_the_finalizer_is_removed_at_any_position(count):
    names = [f"a/{number:x}" for number in range(count)]
    obj = quota("q-0")
    obj["metadata"]["finalizers"] = [*names, FINALIZER, "b/last"]
    once = seen(obj)
    for form in (once, excerpt(once, FEW)):
        place = f"/metadata/finalizers/{count}"
        assert removing(form) == [
            {"op": "test", "path": place, "value": FINALIZER},
            {"op": "remove", "path": place},
        ]
    # A later response of the API server replaces the known state of its place.
    obj["metadata"]["finalizers"] = [FINALIZER, *names]
    assert removing(seen(obj))[0]["path"] == "/metadata/finalizers/0"


def test_a_usual_number_of_labels_counts_by_its_text():
    few, many = quota("q-0"), quota("q-0")
    few["metadata"]["labels"] = {f"l{number}": "" for number in range(10, 42)}
    many["metadata"]["labels"] = {f"l{number}": "" for number in range(10, 43)}
    text = len(json.dumps("l42")) + len(':"",')
    assert size_of(seen(many)) - size_of(seen(few)) == text + LABEL_SIZE
    assert 10_000 * size_of(seen(few)) < NamespaceLimits().size
