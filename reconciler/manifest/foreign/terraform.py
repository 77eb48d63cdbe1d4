"""Quota resources of the Terraform provider Mongey/kafka: what ``terraform show -json`` prints, or ``terraform.tfstate``.

Source: kafka/resource_kafka_quota.go, kafka_quotas.go and resource_kafka_quota_composite.go of
Mongey/terraform-provider-kafka: ``kafka_quota`` has one slot; ``kafka_quota_composite`` has two ``entity`` blocks, a
user and a client-id. No name or an empty one is the default.
"""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from reconciler.errors import ManifestErrors, Problem
from reconciler.manifest.foreign.collector import Files, ImportCollector
from reconciler.manifest.foreign.document_tree import DocumentTree, documents, limits, only_cluster
from reconciler.manifest.foreign.json_nodes import looks_like_json
from reconciler.quota.entity import DEFAULT, ENTITY_TYPES, Slot

TYPE: Final = "kafka_quota"
COMPOSITE: Final = "kafka_quota_composite"
_TYPES: Final = (TYPE, COMPOSITE)
_PAIR: Final = ("client-id", "user")


class _QuotaResource(NamedTuple):
    tree: DocumentTree
    attributes: DocumentTree
    provider: str  # "" if the format does not say it


def read(files: Files, collector: ImportCollector, cluster: str | None) -> None:
    """Read every quota resource.

    Args:
        cluster: Only resources of a state file with this ``provider``; ``None`` = there must be only one.

    Raises:
        ManifestErrors: A text is no JSON of Terraform, or the resources are of several providers.
    """
    resources: list[_QuotaResource] = []
    for path, text in files:
        if not looks_like_json(text):
            message = "not JSON; terraform show -json prints the resources of .tf files"
            raise ManifestErrors([Problem(path, 1, 1, message)])
        for document in documents(path, text):
            resources += _resources(document, collector)
    places = {resource.provider: resource.tree for resource in reversed(resources)}
    if resources or cluster is not None:
        only_cluster(places, cluster, "provider")
    for resource in resources:
        collector.understand(resource.tree)
        if cluster in {None, resource.provider}:
            with collector.entry():
                slots = _slots(resource.tree, resource.attributes)
                quota_limits = limits(resource.attributes.get("config"), live=True)
                collector.add(resource.tree, quota_limits, slots)


def _resources(document: DocumentTree, collector: ImportCollector) -> Iterator[_QuotaResource]:
    stored = document.get("resources")
    values = document.get("values") or document.get("planned_values")
    root = None if values is None else values.get("root_module")
    if stored is None and values is None:
        raise document.wrong(
            "neither what terraform show -json prints nor a state file of Terraform 0.12 or newer"
        )
    for resource in _managed_resources(stored, root):
        kind = resource.text_field("type") or ""
        if kind not in _TYPES:
            collector.skip(resource, kind, resource.text_field("name") or "")
            continue
        with collector.entry():
            if stored is None:
                yield _QuotaResource(resource, resource.need("values"), "")
                continue
            for instance in resource.need("instances").items():
                if instance.get("deposed") is None:  # else Terraform has replaced it
                    provider = resource.text_field("provider") or ""
                    yield _QuotaResource(resource, instance.need("attributes"), provider)


def _managed_resources(
    stored: DocumentTree | None, module: DocumentTree | None
) -> Iterator[DocumentTree]:
    resources = stored if module is None else module.get("resources")
    modules = None if module is None else module.get("child_modules")
    for resource in resources.items() if resources is not None else ():
        if resource.text_field("mode") == "managed":
            yield resource
    for inner in modules.items() if modules is not None else ():
        yield from _managed_resources(None, inner)


def _slots(resource: DocumentTree, attributes: DocumentTree) -> Mapping[str, Slot]:
    if resource.text_field("type") == COMPOSITE:
        entities = list(attributes.need("entity").items())
        pairs = [(entity.need("type").text(), entity.text_field("name")) for entity in entities]
        if tuple(sorted(kind for kind, _ in pairs)) != _PAIR:
            raise resource.wrong(f"{COMPOSITE} needs two entities, one user and one client-id")
        return {kind: name or DEFAULT for kind, name in pairs}
    kind = attributes.need("entity_type")
    if kind.text() not in ENTITY_TYPES:
        raise kind.wrong(
            f"{kind.text()!r} is not an entity type; there is {', '.join(ENTITY_TYPES)}"
        )
    return {kind.text(): attributes.text_field("entity_name") or DEFAULT}
