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


def test_a_document_deleted_and_created_again_between_two_observations_is_reported_as_both():
    cache = prod_cache()
    _ = cache.observe(seen(quota("a", uid="u1", status=RECORDS)))
    assert cache.observe(seen(quota("a", uid="u2", cluster="test"))) == {"prod", "test"}
    assert list(cache.take_departed("prod")) == ["team/a"]
    assert list(cache.of("test")) == ["team/a"]
    assert cache.of("prod") == {}


def test_a_complete_listing_replaces_the_stored_documents():
    cache = prod_cache()
    _ = cache.observe(seen(quota("a", status=RECORDS)))
    _ = cache.observe(seen(quota("b", uid="u2")))
    assert observe_listing(cache, [quota("b", uid="u2"), quota("c", uid="u3")]) == {"prod"}
    assert sorted(cache.of("prod")) == ["team/b", "team/c"]
    assert list(cache.take_departed("prod")) == ["team/a"]


def test_a_listing_of_one_namespace_does_not_change_the_others():
    cache = ResourceCache()
    _ = cache.observe(seen(quota("a", namespace="one")))
    _ = cache.observe(seen(quota("a", namespace="one-more")))
    _ = observe_listing(cache, [], namespace="one")
    assert list(cache.of("prod")) == ["one-more/a"]


def test_documents_of_missing_clusters_are_stored():
    cache = ResourceCache()
    _ = cache.observe(seen(quota("a")))
    _ = cache.observe(seen(quota("b", cluster="test")))
    _ = cache.cluster_seen(seen(quota_cluster("prod")))
    assert {
        name: list(documents) for name, documents in cache.documents_without_cluster().items()
    } == {"test": ["team/b"]}


def test_clusters_are_triggered_by_their_spec_and_their_deletion():
    cache = ResourceCache()
    assert cache.cluster_seen(seen(quota_cluster("prod"))) == {"prod"}
    assert cache.cluster_seen(seen(quota_cluster("prod"))) == frozenset()
    assert cache.cluster_seen(seen(quota_cluster("prod", generation=2))) == {"prod"}
    assert cache.clusters_listed([seen(quota_cluster("test"))]) == {"prod", "test"}
    assert cache.cluster_gone(seen(quota_cluster("prod"))) == frozenset()
    assert cache.cluster_gone(seen(quota_cluster("test"))) == {"test"}


def test_a_listing_older_than_an_event_reverts_nothing():
    cache = ResourceCache()
    _ = cache.observe(seen(quota("a", resourceVersion="7", generation=1)))
    _ = cache.observe(seen(quota("a", resourceVersion="12", generation=2)))
    _ = cache.observe(seen(quota("new", uid="u2", resourceVersion="13")))
    _ = cache.forget(seen(quota("old", uid="u3", resourceVersion="14")))
    older = [quota("a", resourceVersion="7"), quota("old", uid="u3", resourceVersion="3")]
    assert observe_listing(cache, older, version="10") == frozenset()
    assert sorted(cache.of("prod")) == ["team/a", "team/new"]
    assert cache.of("prod")["team/a"].generation == 2
    assert cache.take_departed("prod") == {}


def test_a_document_missing_in_a_newer_listing_is_deleted():
    cache = ResourceCache()
    _ = cache.observe(seen(quota("a", resourceVersion="12")))
    assert observe_listing(cache, [], version="12") == {"prod"}
    assert not cache.of("prod")


def test_an_event_older_than_the_response_to_a_write_reverts_no_status():
    cache = ResourceCache()
    _ = cache.observe(seen(quota("a", resourceVersion="9", status={"entity": "user=a"})))
    _ = cache.observe(seen(quota("a", resourceVersion="8")))
    assert cache.of("prod")["team/a"].status == {"entity": "user=a"}


def test_a_late_deletion_event_keeps_a_document_that_was_created_later():
    cache = prod_cache()
    _ = cache.observe(seen(quota("a", uid="u1", resourceVersion="5", status=RECORDS)))
    _ = cache.observe(seen(quota("a", uid="u2", resourceVersion="9")))
    assert cache.forget(seen(quota("a", uid="u1", resourceVersion="8"))) == frozenset()
    assert list(cache.of("prod")) == ["team/a"]
    assert list(cache.take_departed("prod")) == ["team/a"]


def test_a_deleted_quota_cluster_does_not_return_by_an_older_listing():
    cache = ResourceCache()
    cluster = quota_cluster("prod")
    cluster["metadata"]["resourceVersion"] = "5"
    _ = cache.cluster_seen(seen(cluster))
    assert cache.cluster_gone(seen(cluster)) == {"prod"}
    assert cache.clusters_listed([seen(cluster)], version="6") == frozenset()
    again = quota_cluster("prod", uid="c2")
    again["metadata"]["resourceVersion"] = "9"
    assert cache.cluster_seen(seen(again)) == {"prod"}
    assert cache.cluster_gone(seen(cluster)) == frozenset()
    assert cache.clusters_listed([], version="8") == frozenset()
    assert list(cache.clusters) == ["prod"]


def test_a_repeated_version_is_not_parsed_again():
    cache = prod_cache()
    _ = cache.observe(seen(quota("a", resourceVersion="5", status=RECORDS)))
    before = cache.of("prod")["team/a"]
    assert cache.observe(seen(quota("a", resourceVersion="5", status=RECORDS))) == frozenset()
    assert cache.of("prod")["team/a"] is before
    assert cache.observe(seen(quota("a", resourceVersion="6", generation=2))) == {"prod"}
    assert cache.of("prod")["team/a"] is not before
