"""Strimzi's ``KafkaUser`` (``spec.quotas``) and ``Kafka`` (``spec.kafka.quotas`` of type ``kafka``: the default user).

Source: user-operator and cluster-operator of strimzi/strimzi-kafka-operator (2026-08-22). The user of a KafkaUser
with TLS authentication is ``CN=`` and its name; of any other its name. The label ``strimzi.io/cluster`` (for a Kafka
its own name) is the cluster of a resource.
"""

from collections.abc import Iterator
from typing import Final

from reconciler.manifest.foreign.collector import Files, ImportCollector
from reconciler.manifest.foreign.document_tree import (
    DocumentTree,
    all_documents,
    limits,
    only_cluster,
)
from reconciler.quota.entity import DEFAULT
from reconciler.quota.keys import Key

API: Final = "kafka.strimzi.io/"
LABEL: Final = "strimzi.io/cluster"
_LISTS: Final = ("List", "KafkaUserList", "KafkaList")
_KINDS: Final = ("KafkaUser", "Kafka")
_TLS: Final = ("tls", "tls-external")
_KEYS: Final = {
    "producerByteRate": str(Key.PRODUCER_BYTE_RATE),
    "consumerByteRate": str(Key.CONSUMER_BYTE_RATE),
    "requestPercentage": str(Key.REQUEST_PERCENTAGE),
    "controllerMutationRate": str(Key.CONTROLLER_MUTATION_RATE),
}


def read(files: Files, collector: ImportCollector, cluster: str | None) -> None:
    """Read the quotas of every KafkaUser and Kafka.

    Args:
        cluster: Only resources of this Strimzi cluster; ``None`` = there must be only one.
    """
    cluster_resources: list[tuple[str, DocumentTree]] = []
    places: dict[str, DocumentTree] = {}
    for document in all_documents(files):
        for resource in _resources(document):
            with collector.entry():
                if not _is_read(resource):
                    collector.skip(resource, resource.text_field("kind") or "", _name(resource))
                    continue
                collector.understand(resource)
                of = _cluster(resource)
                if _quotas(resource) is None:
                    continue
                cluster_resources.append((of, resource))
                if of:
                    _ = places.setdefault(of, resource)
    only_cluster(places, cluster, "Strimzi cluster")
    for of, resource in cluster_resources:
        if cluster is None or of == cluster:
            with collector.entry():
                _read_resource(resource, collector)


def _resources(document: DocumentTree) -> Iterator[DocumentTree]:
    if not document.is_mapping:
        return
    items = document.get("items")
    if document.text_field("kind") in _LISTS and items is not None:
        for item in items.items():
            yield from _resources(item)
    else:
        yield document


def _is_read(resource: DocumentTree) -> bool:
    return (resource.text_field("apiVersion") or "").startswith(API) and resource.text_field(
        "kind"
    ) in _KINDS


def _name(resource: DocumentTree) -> str:
    name = resource.find("metadata", "name")
    return "" if name is None else name.text()


def _cluster(resource: DocumentTree) -> str:
    if resource.text_field("kind") == "Kafka":
        return resource.need("metadata").need("name").text()
    label = resource.find("metadata", "labels", LABEL)
    return "" if label is None else label.text()


def _quotas(resource: DocumentTree) -> DocumentTree | None:
    return (
        resource.find("spec", "quotas")
        if resource.text_field("kind") == "KafkaUser"
        else resource.find("spec", "kafka", "quotas")
    )


def _read_resource(resource: DocumentTree, collector: ImportCollector) -> None:
    quotas = _quotas(resource)
    assert quotas is not None  # noqa: S101 - read() keeps only those that have them
    if resource.text_field("kind") == "KafkaUser":
        _read_user(resource, quotas, collector)
    else:
        _read_kafka(quotas, collector)


def _read_user(user: DocumentTree, quotas: DocumentTree, collector: ImportCollector) -> None:
    name = user.need("metadata").need("name").text()
    kind = user.find("spec", "authentication", "type")
    tls = kind is not None and kind.text() in _TLS
    collector.add(quotas, limits(quotas, _KEYS), {"user": f"CN={name}" if tls else name})


def _read_kafka(quotas: DocumentTree, collector: ImportCollector) -> None:
    kind = quotas.need("type")
    if kind.text() != "kafka":
        raise kind.wrong(
            f"quotas of type {kind.text()!r} belong to a plugin of the broker; Kafka has no such limits"
        )
    quota_limits = [limit for limit in limits(quotas, _KEYS) if limit.key != "type"]
    collector.add(quotas, quota_limits, {"user": DEFAULT})
