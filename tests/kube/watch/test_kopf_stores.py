"""Kopf may remember nothing on our objects, and copies none of them to compare it."""

from reconciler.kube.watch.kopf_import import kopf
from reconciler.kube.watch.kopf_stores import NoDifferences, NoProgress
from reconciler.kube.watch.kopf_watcher import settings

BODY = kopf.Body({"metadata": {"name": "a", "annotations": {"x": "y"}}, "spec": {"z": 1}})


def test_nothing_is_compared_and_nothing_is_remembered():
    store, patch = NoDifferences(), kopf.Patch()
    essence = store.build(body=BODY)
    store.store(body=BODY, patch=patch, essence=essence)
    assert essence == {}
    assert store.fetch(body=BODY) is None
    assert patch == {}


def test_no_progress_is_written_read_or_taken_out():
    store, patch = NoProgress(), kopf.Patch()
    store.store(key="k", record={"started": "now"}, body=BODY, patch=patch)
    store.touch(body=BODY, patch=patch, value="now")
    store.purge(key="k", body=BODY, patch=patch)
    assert patch == {}
    assert store.fetch(key="k", body=BODY) is None
    essence = {"spec": {"z": 1}}
    assert store.clear(essence=essence) is essence


def test_the_watcher_has_these_stores():
    stores = settings().persistence
    assert isinstance(stores.diffbase_storage, NoDifferences)
    assert isinstance(stores.progress_storage, NoProgress)
