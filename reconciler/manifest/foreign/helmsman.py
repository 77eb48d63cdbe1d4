"""Configurations of the quota enforcer of kafka-helmsman, with its defaults and its overrides by cluster.

Read in kafka_quota_enforcer and kafka_enforcer_common (BaseCommand, ClusterEntities) of teslamotors/kafka-helmsman
(2025-11-10). A file is a configuration (``quotas`` or ``quotasFile``, ``defaults``) or the list that ``quotasFile``
names; no file is opened from here, so both are handed in. Later wins: defaults, defaults of the cluster, the quota,
the quota's override for the cluster.
"""

from collections.abc import Iterable
from typing import Final

from reconciler.manifest.foreign.gathering import Files, Gathering
from reconciler.manifest.foreign.trees import Tree, documents, given, only_cluster
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


def read(files: Files, found: Gathering, *, cluster: str | None) -> None:
    """Gather every quota.

    Args:
        files: The configuration, the list that it names, or both.
        found: Where the quotas go.
        cluster: Whose overrides count; ``None`` = these are not files for several clusters.

    Raises:
        ManifestErrors: A text is neither YAML nor JSON, there is more than one configuration, its list is missing, or
            the files are for several clusters and none is chosen.
    """
    lists: list[Tree] = []
    configuration: Tree | None = None
    for path, text in files:
        for document in documents(path, text):
            if document.is_list:
                lists.append(document)
            elif configuration is not None:
                raise document.wrong("a second configuration; hand in one at a time")
            else:
                configuration = document
    defaults = None
    if configuration is not None:
        defaults = configuration.get("defaults")
        quotas = configuration.get("quotas")
        if quotas is not None:
            lists.append(quotas)
        elif not lists:
            named = configuration.need("quotasFile")
            raise named.wrong("the quotas stand in a file of their own; hand that in, too")
    quotas_of = [one for several in lists for one in several.items()]
    _check_cluster(quotas_of, defaults, cluster)
    for one in quotas_of:
        with found.entry():
            _read_quota(one, defaults, cluster, found)


def _check_cluster(quotas: Iterable[Tree], defaults: Tree | None, chosen: str | None) -> None:
    places: dict[str, str] = {}
    for one in (*quotas, *([defaults] if defaults is not None else ())):
        clusters = one.get(_CLUSTERS) if one.is_mapping else None
        for name, _ in clusters.fields() if clusters is not None else ():
            _ = places.setdefault(name, f"{one.path}:{one.line}")
    if chosen is not None or places:
        only_cluster(places, chosen, "cluster of the enforcer", must_choose=True)


def _read_quota(one: Tree, defaults: Tree | None, cluster: str | None, found: Gathering) -> None:
    layers = [defaults, _of_cluster(defaults, cluster), one]
    if cluster is not None:
        clusters = one.get(_CLUSTERS)
        if clusters is None:
            raise one.wrong("has no clusters, which the enforcer refuses")
        named = dict(clusters.fields())
        if cluster not in named:
            return
        layers.append(named[cluster])
    fields: dict[str, Tree] = {}
    for layer in layers:
        if layer is not None and not layer.is_null:
            fields.update(layer.fields())
    _ = fields.pop(_CLUSTERS, None)
    user, client_id = (_slot(fields.pop(name, None)) for name in _SLOTS)
    if user is ABSENT and client_id is ABSENT:
        raise one.wrong("neither principal nor client")
    rates = [given(name, value, _KEYS) for name, value in fields.items() if not value.is_null]
    found.add(one.path, one.line, rates, user=user, client_id=client_id)


def _of_cluster(defaults: Tree | None, cluster: str | None) -> Tree | None:
    return None if defaults is None or cluster is None else defaults.dig(_CLUSTERS, cluster)


def _slot(found: Tree | None) -> Slot:
    if found is None or found.is_null:
        return ABSENT
    name = found.text()
    return DEFAULT if name == _DEFAULT else name
