"""Quota resources of the Terraform provider Mongey/kafka: ``.tf`` files, or ``terraform show -json``.

Source: kafka/resource_kafka_quota.go, kafka_quotas.go and resource_kafka_quota_composite.go of
Mongey/terraform-provider-kafka: ``kafka_quota`` has one slot; ``kafka_quota_composite`` has two ``entity`` blocks, a
user and a client-id. No name or an empty one is the default. Every other type that begins with ``kafka_quota`` is
listed, because it may contain unknown quotas. Nothing is evaluated: a resource with variables, ``count``
or ``for_each`` is listed; ``terraform show -json`` expands it.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from reconciler.errors import ManifestErrors, Problem
from reconciler.manifest.foreign import hcl
from reconciler.manifest.foreign.collector import FileLine, Files, ImportCollector, ImportedLimit
from reconciler.manifest.foreign.document_tree import DocumentTree, documents, limits, only_cluster
from reconciler.manifest.foreign.json_nodes import looks_like_json
from reconciler.quota.entity import DEFAULT, ENTITY_TYPES, Slot

TYPE: Final = "kafka_quota"
COMPOSITE: Final = "kafka_quota_composite"
_PAIR: Final = ("client-id", "user")
_EXPANDS: Final = ("count", "for_each")
_SHOW: Final = "terraform show -json has it expanded"
_UNALIASED: Final = "kafka"


def read(files: Files, collector: ImportCollector, *, cluster: str | None) -> None:
    """Read every quota resource; those of other types are skipped.

    Args:
        files: HCL, or the JSON of a state or plan.
        cluster: Only resources with this ``provider`` (``kafka.prod``); ``None`` = there must be only one.
    """
    located_resources: list[tuple[str, hcl.ResourceBlock]] = []
    providers: dict[str, FileLine] = {}
    for path, text in files:
        if looks_like_json(text):
            _read_shown(path, text, collector)
            continue
        for resource in hcl.resources(text, path):
            if resource.type.startswith(TYPE):
                located_resources.append((path, resource))
                _ = providers.setdefault(_provider(resource), FileLine(path, resource.line))
    if located_resources or cluster is not None:
        only_cluster(providers, cluster, "provider")
    for path, resource in located_resources:
        if cluster is None or _provider(resource) == cluster:
            with collector.entry():
                _read_written(path, resource, collector)


def _provider(resource: hcl.ResourceBlock) -> str:
    provider = resource.attributes.get("provider")
    return _UNALIASED if provider is None else _value_text(provider)


def _value_text(value: hcl.Value) -> str:
    match value:
        case hcl.HclLiteral(text=text):
            return text
        case hcl.HclExpression(text=words):
            return words.replace(" . ", ".")
        case hcl.HclObject():
            return "{…}"


# ---- HCL ------------------------------------------------------------------------------------


def _read_written(path: str, resource: hcl.ResourceBlock, collector: ImportCollector) -> None:
    expands = [name for name in _EXPANDS if name in resource.attributes]
    if expands:
        line = resource.attributes[expands[0]].line
        raise _wrong(
            path, line, f"{resource.type}.{resource.name} is made by {expands[0]}; {_SHOW}"
        )
    if any(block.startswith("dynamic") for block in resource.blocks):
        raise _wrong(
            path, resource.line, f"{resource.type}.{resource.name} has a dynamic block; {_SHOW}"
        )
    if resource.type == COMPOSITE:
        pairs = [
            _written_slot(path, resource, entity, "type", "name") for entity in resource.entities
        ]
        slots = _composite(path, resource.line, pairs)
    elif resource.type == TYPE:
        slots = _slots(
            path, *_written_slot(path, resource, resource.attributes, "entity_type", "entity_name")
        )
    else:
        raise _unknown_type_error(path, resource.line, resource.type, resource.name)
    config = resource.attributes.get("config")
    if config is not None and not isinstance(config, hcl.HclObject):
        raise _wrong(path, config.line, f"config would have to be evaluated; {_SHOW}")
    quota_limits: list[ImportedLimit] = []
    for key, value in config.entries if config is not None else ():
        if isinstance(value, hcl.HclLiteral):
            quota_limits.append(ImportedLimit(key=key, text=value.text, line=value.line))
        elif _value_text(value) != "null":
            with collector.entry():
                _ = _literal(path, value)
    if quota_limits or config is None or not config.entries:
        collector.add(FileLine(path, resource.line), quota_limits, slots)


def _written_slot(
    path: str,
    resource: hcl.ResourceBlock,
    attributes: Mapping[str, hcl.Value],
    kind_key: str,
    name_key: str,
) -> tuple[int, str, str]:
    """Return line, type and name of an entity; "" is the default."""
    kind, name = attributes.get(kind_key), attributes.get(name_key)
    if kind is None:
        raise _wrong(path, resource.line, f"{resource.type}.{resource.name} has no {kind_key}")
    if isinstance(name, hcl.HclExpression) and name.text == "null":
        name = None
    return kind.line, _literal(path, kind), "" if name is None else _literal(path, name)


def _composite(path: str, line: int, pairs: list[tuple[int, str, str]]) -> Mapping[str, Slot]:
    if tuple(sorted(kind for _, kind, _ in pairs)) != _PAIR:
        raise _wrong(path, line, f"{COMPOSITE} needs two entities, one user and one client-id")
    return {kind: name or DEFAULT for _, kind, name in pairs}


def _unknown_type_error(path: str, line: int, kind: str, name: str) -> ManifestErrors:
    return _wrong(path, line, f"{kind}.{name} is not a supported type; declare its quotas by hand")


def _literal(path: str, value: hcl.Value) -> str:
    if not isinstance(value, hcl.HclLiteral):
        raise _wrong(path, value.line, f"{_value_text(value)} would have to be evaluated; {_SHOW}")
    return value.text


def _slots(path: str, line: int, kind: str, name: str) -> Mapping[str, Slot]:
    if kind not in ENTITY_TYPES:
        raise _wrong(
            path, line, f"{kind!r} is not an entity type; there is {', '.join(ENTITY_TYPES)}"
        )
    return {kind: name or DEFAULT}


def _wrong(path: str, line: int, message: str) -> ManifestErrors:
    return ManifestErrors([Problem(path, line, 0, message)])


# ---- terraform show -json -------------------------------------------------------------------


def _read_shown(path: str, text: str, collector: ImportCollector) -> None:
    for document in documents(path, text):
        values = document.get("values") or document.get("planned_values")
        if values is None:
            raise document.wrong("not what terraform show -json prints: it has no values")
        root = values.get("root_module")
        for resource in _managed_resources(root) if root is not None else ():
            with collector.entry():
                attributes = resource.need("values")
                slots = _shown_slots(path, resource, attributes)
                quota_limits = limits(attributes.get("config"), live=True)
                collector.add(FileLine(path, resource.line), quota_limits, slots)


def _shown_slots(path: str, resource: DocumentTree, attributes: DocumentTree) -> Mapping[str, Slot]:
    type_ = resource.text_field("type") or ""
    if type_ == COMPOSITE:
        pairs = []
        for entity in attributes.need("entity").items():
            kind = entity.need("type")
            pairs.append((kind.line, kind.text(), entity.text_field("name") or ""))
        return _composite(path, resource.line, pairs)
    if type_ != TYPE:
        raise _unknown_type_error(path, resource.line, type_, resource.text_field("name") or "")
    kind = attributes.need("entity_type")
    return _slots(path, kind.line, kind.text(), attributes.text_field("entity_name") or "")


def _managed_resources(module: DocumentTree) -> Iterator[DocumentTree]:
    resources, modules = module.get("resources"), module.get("child_modules")
    for resource in resources.items() if resources is not None else ():
        if (resource.text_field("type") or "").startswith(TYPE) and resource.text_field(
            "mode"
        ) == "managed":
            yield resource
    for inner in modules.items() if modules is not None else ():
        yield from _managed_resources(inner)
