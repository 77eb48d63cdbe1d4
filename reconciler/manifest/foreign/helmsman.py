"""Configurations of the quota enforcer of kafka-helmsman, with its defaults and its overrides by cluster.

Source: kafka_quota_enforcer and kafka_enforcer_common (BaseCommand, ClusterEntities) of teslamotors/kafka-helmsman
(2025-11-10). A file is a configuration (``quotas`` or ``quotasFile``, ``defaults``) or the list in
``quotasFile``; both must be passed in, because no file is opened here. Later values win: defaults, defaults of the
cluster, the quota, the quota's override for the cluster.
"""

from collections.abc import Iterable
from typing import Final

from reconciler.manifest.foreign.collector import Files, ImportCollector
from reconciler.manifest.foreign.document_tree import (
    DocumentTree,
    all_documents,
    only_cluster,
    read_limit,
)
from reconciler.quota.entity import ABSENT, DEFAULT, Slot
from reconciler.quota.keys import Key

_CLUSTERS: Final = "clusters"
_DEFAULT: Final = "<default>"
_SLOTS: Final = ("principal", "client")
_KEYS: Final = {
    "producer-byte-rate": str(Key.PRODUCER_BYTE_RATE),
    "consumer-byte-rate": str(Key.CONSUMER_BYTE_RATE),
    "request-percentage": str(Key.REQUEST_PERCENTAGE),
}


def read(files: Files, collector: ImportCollector, *, cluster: str | None) -> None:
    """Read every quota.

    Args:
        files: The configuration, its list of quotas, or both.
        cluster: Cluster whose overrides apply; ``None`` = these are not files for several clusters.

    Raises:
        ManifestErrors: There are several configurations, or the file of the quotas is missing.
    """
    lists: list[DocumentTree] = []
    configuration: DocumentTree | None = None
    for document in all_documents(files):
        if document.is_list:
            lists.append(document)
        elif configuration is not None:
            raise document.wrong("several configurations; pass one at a time")
        else:
            configuration = document
    defaults = None
    if configuration is not None:
        defaults = configuration.get("defaults")
        quotas = configuration.get("quotas")
        if quotas is not None:
            lists.append(quotas)
        elif not lists:
            quotas_file = configuration.need("quotasFile")
            raise quotas_file.wrong("the quotas are in a separate file; pass it, too")
    quotas_of = [quota for quota_list in lists for quota in quota_list.items()]
    _check_cluster(quotas_of, defaults, cluster)
    for quota in quotas_of:
        with collector.entry():
            _read_quota(quota, defaults, cluster, collector)


def _check_cluster(
    quotas: Iterable[DocumentTree], defaults: DocumentTree | None, cluster: str | None
) -> None:
    places: dict[str, DocumentTree] = {}
    for quota in (*quotas, *([defaults] if defaults is not None else ())):
        clusters = quota.get(_CLUSTERS) if quota.is_mapping else None
        for name, _ in clusters.fields() if clusters is not None else ():
            _ = places.setdefault(name, quota)
    if cluster is not None or places:
        only_cluster(places, cluster, "cluster of the enforcer", must_choose=True)


def _read_quota(
    quota: DocumentTree,
    defaults: DocumentTree | None,
    cluster: str | None,
    collector: ImportCollector,
) -> None:
    layers = [defaults, _of_cluster(defaults, cluster), quota]
    if cluster is not None:
        clusters = quota.get(_CLUSTERS)
        if clusters is None:
            raise quota.wrong("has no clusters, which the enforcer refuses")
        quotas_by_cluster = dict(clusters.fields())
        if cluster not in quotas_by_cluster:
            return
        layers.append(quotas_by_cluster[cluster])
    fields: dict[str, DocumentTree] = {}
    for layer in layers:
        if layer is not None and not layer.is_null:
            fields.update(layer.fields())
    _ = fields.pop(_CLUSTERS, None)
    user, client_id = (_slot(fields.pop(name, None)) for name in _SLOTS)
    if user is ABSENT and client_id is ABSENT:
        raise quota.wrong("neither principal nor client")
    rates = [read_limit(name, value, _KEYS) for name, value in fields.items() if not value.is_null]
    collector.add(quota, rates, {"user": user, "client-id": client_id})


def _of_cluster(defaults: DocumentTree | None, cluster: str | None) -> DocumentTree | None:
    return None if defaults is None or cluster is None else defaults.find(_CLUSTERS, cluster)


def _slot(value: DocumentTree | None) -> Slot:
    if value is None or value.is_null:
        return ABSENT
    name = value.text()
    return DEFAULT if name == _DEFAULT else name
