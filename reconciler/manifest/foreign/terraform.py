"""Quota resources of the Terraform provider Mongey/kafka, as ``terraform show -json`` prints them.

Source: kafka/resource_kafka_quota.go, kafka_quotas.go and resource_kafka_quota_composite.go of
Mongey/terraform-provider-kafka: ``kafka_quota`` has one slot; ``kafka_quota_composite`` has two ``entity`` blocks, a
user and a client-id. No name or an empty one is the default.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from reconciler.errors import ManifestErrors, Problem
from reconciler.manifest.foreign.collector import FileLine, Files, ImportCollector
from reconciler.manifest.foreign.document_tree import DocumentTree, documents, limits
from reconciler.manifest.foreign.json_nodes import looks_like_json
from reconciler.quota.entity import DEFAULT, ENTITY_TYPES, Slot

TYPE: Final = "kafka_quota"
COMPOSITE: Final = "kafka_quota_composite"
_TYPES: Final = (TYPE, COMPOSITE)
_PAIR: Final = ("client-id", "user")


def read(files: Files, collector: ImportCollector) -> None:
    """Read every quota resource of a state or a plan."""
    for path, text in files:
        if not looks_like_json(text):
            message = "not JSON; terraform show -json prints the resources of .tf files"
            raise ManifestErrors([Problem(path, 1, 1, message)])
        for document in documents(path, text):
            _read_document(document, collector)


def _read_document(document: DocumentTree, collector: ImportCollector) -> None:
    values = document.get("values") or document.get("planned_values")
    if values is None:
        raise document.wrong("not what terraform show -json prints: it has no values")
    root = values.get("root_module")
    for resource in _managed_resources(root) if root is not None else ():
        type_ = resource.text_field("type") or ""
        if type_ not in _TYPES:
            collector.skip(resource, type_, resource.text_field("name") or "")
            continue
        with collector.entry():
            attributes = resource.need("values")
            slots = _slots(resource, attributes)
            quota_limits = limits(attributes.get("config"), live=True)
            collector.add(FileLine(resource.path, resource.line), quota_limits, slots)


def _managed_resources(module: DocumentTree) -> Iterator[DocumentTree]:
    resources, modules = module.get("resources"), module.get("child_modules")
    for resource in resources.items() if resources is not None else ():
        if resource.text_field("mode") == "managed":
            yield resource
    for inner in modules.items() if modules is not None else ():
        yield from _managed_resources(inner)


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
