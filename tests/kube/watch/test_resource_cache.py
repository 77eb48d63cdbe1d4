"""The cache: changes that trigger a cluster, deletions, and replacement by a complete listing."""

from reconciler.kube.watch.resource_cache import ResourceCache
from tests.kube.worlds import observe_listing, seen


def quota(
    name, *, cluster="prod", uid="u1", generation=1, namespace="team", status=None, **metadata
):
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": uid,
            "generation": generation,
            **metadata,
        },
        "spec": {"clusterRef": {"name": cluster}},
        **({"status": status} if status else {}),
    }


RECORDS = {"keys": [{"key": "producer_byte_rate", "applied": 1}]}


def quota_cluster(name, *, uid="c1", generation=1):
    return {"metadata": {"name": name, "uid": uid, "generation": generation}, "spec": {}}


def prod_cache():
    cache = ResourceCache()
    _ = cache.cluster_seen(seen(quota_cluster("prod")))
    return cache


def test_a_new_document_triggers_its_cluster_and_a_repeated_event_does_not():
    cache = ResourceCache()
    assert cache.observe(seen(quota("a"))) == {"prod"}
    assert cache.observe(seen(quota("a"))) == frozenset()
    assert list(cache.of("prod")) == ["team/a"]


def test_a_change_of_the_status_alone_triggers_nothing_and_is_stored():
    cache = ResourceCache()
    _ = cache.observe(seen(quota("a")))
    assert cache.observe(seen(quota("a", status={"entity": "user=a"}))) == frozenset()
    assert cache.of("prod")["team/a"].status == {"entity": "user=a"}


def test_a_label_triggers_the_cluster_because_guards_may_require_it():
    cache = ResourceCache()
    _ = cache.observe(seen(quota("a")))
    assert cache.observe(seen(quota("a", labels={"owner": "team-a"}))) == {"prod"}
    assert cache.observe(seen(quota("a", labels={"owner": "team-a"}))) == frozenset()


def test_spec_deletion_request_and_finalizer_trigger_the_cluster():
    cache = ResourceCache()
    _ = cache.observe(seen(quota("a")))
    assert cache.observe(seen(quota("a", generation=2)))
    assert cache.observe(
        seen(quota("a", generation=2, annotations={"kafka-quotas.io/requestedAt": "now"}))
    )
    assert cache.observe(seen(quota("a", generation=2, finalizers=["kafka-quotas.io/release"])))
    assert cache.observe(seen(quota("a", generation=2, deletionTimestamp="2026-01-01T00:00:00Z")))


def test_a_deleted_document_is_reported_as_deleted_once():
    cache = prod_cache()
    _ = cache.observe(seen(quota("a", status=RECORDS)))
    _ = cache.observe(seen(quota("b", uid="u2", cluster="nowhere")))
    assert cache.forget(seen(quota("a"))) == {"prod"}
    assert cache.forget(seen(quota("a"))) == frozenset()
    assert cache.forget(seen(quota("b", uid="u2"))) == {"nowhere"}
    assert cache.take_departed("nowhere") == {}, "no reconciliation would ever process it"
    departed = cache.take_departed("prod")
    assert list(departed) == ["team/a"]
    assert departed["team/a"].status == RECORDS
    assert cache.take_departed("prod") == {}
    assert len(cache._originals) == 0


def test_nothing_is_stored_about_changes_that_another_operator_reconciles():
    cache = prod_cache()
    foreign = quota_cluster("theirs")
    _ = cache.cluster_seen(seen({**foreign, "spec": {"operatorClass": "blue"}}))
    assert (cache.is_own("prod"), cache.is_own("theirs"), cache.is_own("none")) == (
        True,
        False,
        False,
    )
    for name in ("prod", "theirs"):
        _ = cache.observe(seen(quota("a", cluster=name, uid=f"u-{name}")))
        _ = cache.forget(seen(quota("a", cluster=name, uid=f"u-{name}")))
    assert list(cache.take_departed("prod")) == ["team/a"]
    assert cache.take_changed("prod") == {"team/a"}
    assert cache.take_departed("theirs") == {}
    assert cache.take_changed("theirs") == frozenset()


def test_a_listing_of_one_namespace_does_not_change_the_others():
    cache = ResourceCache()
    _ = cache.observe(seen(quota("a", namespace="one")))
    _ = cache.observe(seen(quota("a", namespace="one-more")))
    _ = observe_listing(cache, [], namespace="one")
    assert list(cache.of("prod")) == ["one-more/a"]


def test_clusters_are_triggered_by_their_spec_and_their_deletion():
    cache = ResourceCache()
    assert cache.cluster_seen(seen(quota_cluster("prod"))) == {"prod"}
    assert cache.cluster_seen(seen(quota_cluster("prod"))) == frozenset()
    assert cache.cluster_seen(seen(quota_cluster("prod", generation=2))) == {"prod"}
    assert cache.clusters_listed([seen(quota_cluster("test"))]) == {"prod", "test"}
    assert cache.cluster_gone(seen(quota_cluster("prod"))) == frozenset()
    assert cache.cluster_gone(seen(quota_cluster("test"))) == {"test"}


def test_a_repeated_version_is_not_parsed_again():
    cache = prod_cache()
    _ = cache.observe(seen(quota("a", resourceVersion="5", status=RECORDS)))
    before = cache.of("prod")["team/a"]
    assert cache.observe(seen(quota("a", resourceVersion="5", status=RECORDS))) == frozenset()
    assert cache.of("prod")["team/a"] is before
    assert cache.observe(seen(quota("a", resourceVersion="6", generation=2))) == {"prod"}
    assert cache.of("prod")["team/a"] is not before
