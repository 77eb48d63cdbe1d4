"""The cache: what wakes a cluster, what was deleted, and what a complete listing replaces."""

from reconciler.kube.cache import NOT_KEPT, Cache, slim


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


def quota_cluster(name, *, uid="c1", generation=1):
    return {"metadata": {"name": name, "uid": uid, "generation": generation}, "spec": {}}


def test_a_new_document_wakes_its_cluster_and_the_same_again_does_not():
    cache = Cache()
    assert cache.seen(quota("a")) == {"prod"}
    assert cache.seen(quota("a")) == frozenset()
    assert list(cache.of("prod")) == ["team/a"]


def test_a_change_of_the_status_alone_wakes_nobody_and_is_kept():
    cache = Cache()
    _ = cache.seen(quota("a"))
    assert cache.seen(quota("a", status={"entity": "user=a"})) == frozenset()
    assert cache.of("prod")["team/a"]["status"] == {"entity": "user=a"}


def test_a_label_wakes_the_cluster_because_guards_may_ask_for_it():
    cache = Cache()
    _ = cache.seen(quota("a"))
    assert cache.seen(quota("a", labels={"owner": "team-a"})) == {"prod"}
    assert cache.seen(quota("a", labels={"owner": "team-a"})) == frozenset()


def test_spec_deletion_request_and_finalizer_wake_the_cluster():
    cache = Cache()
    _ = cache.seen(quota("a"))
    assert cache.seen(quota("a", generation=2))
    assert cache.seen(quota("a", generation=2, annotations={"kafka-quotas.io/requestedAt": "now"}))
    assert cache.seen(quota("a", generation=2, finalizers=["kafka-quotas.io/release"]))
    assert cache.seen(quota("a", generation=2, deletionTimestamp="2026-01-01T00:00:00Z"))


def test_a_deleted_document_departs_once():
    cache = Cache()
    _ = cache.seen(quota("a", status={"entity": "user=a"}))
    assert cache.gone(quota("a")) == {"prod"}
    assert cache.gone(quota("a")) == frozenset()
    departed = cache.take_departed("prod")
    assert departed["team/a"]["status"] == {"entity": "user=a"}
    assert cache.take_departed("prod") == {}
    assert cache.document_count == 0


def test_a_document_deleted_and_made_again_between_two_looks_departs_and_arrives():
    cache = Cache()
    _ = cache.seen(quota("a", uid="u1"))
    assert cache.seen(quota("a", uid="u2", cluster="test")) == {"prod", "test"}
    assert list(cache.take_departed("prod")) == ["team/a"]
    assert list(cache.of("test")) == ["team/a"]
    assert cache.of("prod") == {}


def test_a_complete_listing_replaces_what_was_there():
    cache = Cache()
    _ = cache.seen(quota("a"))
    _ = cache.seen(quota("b"))
    assert cache.listed([quota("b"), quota("c")]) == {"prod"}
    assert sorted(cache.of("prod")) == ["team/b", "team/c"]
    assert list(cache.take_departed("prod")) == ["team/a"]


def test_a_listing_of_one_namespace_leaves_the_others_alone():
    cache = Cache()
    _ = cache.seen(quota("a", namespace="one"))
    _ = cache.seen(quota("a", namespace="one-more"))
    _ = cache.listed([], namespace="one")
    assert list(cache.of("prod")) == ["one-more/a"]


def test_documents_of_missing_clusters_are_known():
    cache = Cache()
    _ = cache.seen(quota("a"))
    _ = cache.seen(quota("b", cluster="test"))
    _ = cache.cluster_seen(quota_cluster("prod"))
    assert {name: list(documents) for name, documents in cache.lost().items()} == {
        "test": ["team/b"]
    }


def test_clusters_wake_by_their_spec_and_when_they_go():
    cache = Cache()
    assert cache.cluster_seen(quota_cluster("prod")) == {"prod"}
    assert cache.cluster_seen(quota_cluster("prod")) == frozenset()
    assert cache.cluster_seen(quota_cluster("prod", generation=2)) == {"prod"}
    assert cache.clusters_listed([quota_cluster("test")]) == {"prod", "test"}
    assert cache.cluster_gone("prod") == frozenset()
    assert cache.cluster_gone("test") == {"test"}


def test_what_nobody_reads_is_not_kept():
    obj = quota("a", managedFields=[{}], annotations={NOT_KEPT: "{}", "mine": "kept"})
    assert slim(obj)["metadata"]["annotations"] == {"mine": "kept"}
    assert "managedFields" not in slim(obj)["metadata"]
    assert "managedFields" in obj["metadata"]
