"""The oldest documents of each namespace are reconciled; documents beyond the limit declare nothing and report it."""

import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.kube.configuration.namespace_limits import (
    NamespaceLimits,
    NamespaceUse,
    size_of,
)
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
