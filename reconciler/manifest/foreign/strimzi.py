"""Strimzi's ``KafkaUser`` (``spec.quotas``) and ``Kafka`` (``spec.kafka.quotas`` of type ``kafka``: the default user).

Read in user-operator and cluster-operator of strimzi/strimzi-kafka-operator (2026-08-22). The user of a KafkaUser
with TLS authentication is ``CN=`` and its name; of any other its name. The label ``strimzi.io/cluster`` (for a Kafka
its own name) says which cluster a resource is for.
"""

from collections.abc import Iterator
from typing import Final

from reconciler.manifest.foreign.gathering import Files, Gathering
from reconciler.manifest.foreign.trees import Tree, documents, limits, only_cluster
from reconciler.quota.entity import DEFAULT
from reconciler.quota.keys import Key

API: Final = "kafka.strimzi.io/"
LABEL: Final = "strimzi.io/cluster"
_LISTS: Final = ("List", "KafkaUserList", "KafkaList")
_TLS: Final = ("tls", "tls-external")
_KEYS: Final = {
    "producerByteRate": str(Key.PRODUCER_BYTE_RATE),
    "consumerByteRate": str(Key.CONSUMER_BYTE_RATE),
    "requestPercentage": str(Key.REQUEST_PERCENTAGE),
    "controllerMutationRate": str(Key.CONTROLLER_MUTATION_RATE),
}


def read(files: Files, found: Gathering, *, cluster: str | None) -> None:
    """Gather the quotas of every KafkaUser and Kafka; other resources are passed over.

    Args:
        files: The files.
        found: Where the quotas go.
        cluster: Only what is for this Strimzi cluster; ``None`` = there must be only one.

    Raises:
        ManifestErrors: A text is neither YAML nor JSON, or there are several clusters and none is chosen.
    """
    chosen: list[tuple[str, Tree]] = []
    places: dict[str, str] = {}
    for path, text in files:
        for document in documents(path, text):
            for one in _resources(document):
                with found.entry():
                    of = _cluster(one)
                    if _quotas(one) is None:
                        continue
                    chosen.append((of, one))
                    if of:
                        _ = places.setdefault(of, f"{path}:{one.line}")
    only_cluster(places, cluster, "Strimzi cluster")
    for of, one in chosen:
        if cluster is None or of == cluster:
            with found.entry():
                _read_resource(one, found)


def _resources(document: Tree) -> Iterator[Tree]:
    if not document.is_mapping:
        return
    items = document.get("items")
    if document.named("kind") in _LISTS and items is not None:
        for one in items.items():
            yield from _resources(one)
    elif (document.named("apiVersion") or "").startswith(API) and document.named(
        "kind"
    ) in _READERS:
        yield document


def _cluster(one: Tree) -> str:
    if one.named("kind") == "Kafka":
        return one.need("metadata").need("name").text()
    label = one.dig("metadata", "labels", LABEL)
    return "" if label is None else label.text()


def _quotas(one: Tree) -> Tree | None:
    return one.dig("spec", "quotas") if one.named("kind") == "KafkaUser" else one.dig("spec", "kafka", "quotas")  # fmt: skip


def _read_resource(one: Tree, found: Gathering) -> None:
    quotas = _quotas(one)
    assert quotas is not None  # noqa: S101 - read() keeps only those that have them
    _READERS[one.named("kind") or ""](one, quotas, found)


def _read_user(one: Tree, quotas: Tree, found: Gathering) -> None:
    name = one.need("metadata").need("name").text()
    kind = one.dig("spec", "authentication", "type")
    tls = kind is not None and kind.text() in _TLS
    found.add(one.path, quotas.line, limits(quotas, _KEYS), user=f"CN={name}" if tls else name)


def _read_kafka(one: Tree, quotas: Tree, found: Gathering) -> None:
    kind = quotas.need("type")
    if kind.text() != "kafka":
        raise kind.wrong(
            f"quotas of type {kind.text()!r} belong to a plugin of the broker; Kafka has no such limits"
        )
    given = [one for one in limits(quotas, _KEYS) if one.key != "type"]
    found.add(one.path, quotas.line, given, user=DEFAULT)


_READERS: Final = {"KafkaUser": _read_user, "Kafka": _read_kafka}
