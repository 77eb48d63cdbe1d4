"""The output of ``rpk cluster quotas describe --format json|yaml`` (and input of ``rpk cluster quotas import``).

Source: src/go/rpk/pkg/cli/cluster/quotas of redpanda-data/redpanda (2024-12-20). rpk prints a default as the name
``<default>``, which equals that of an entity with this name; it is read as the default, with a note.
"""

from typing import Final

from reconciler.manifest.foreign.collector import Files, ImportCollector, ImportedLimit
from reconciler.manifest.foreign.document_tree import DocumentTree, all_documents
from reconciler.quota.entity import DEFAULT, ENTITY_TYPES, Slot

_DEFAULT: Final = "<default>"


def read(files: Files, collector: ImportCollector) -> None:
    """Read every quota."""
    for document in all_documents(files):
        if document.is_mapping and not list(document.fields()):
            collector.understand(document)
            continue  # the output of rpk without quotas
        for quota in document.need("quotas").items():
            with collector.entry():
                _read_quota(quota, collector)


def _read_quota(quota: DocumentTree, collector: ImportCollector) -> None:
    entity_parts = tuple(
        (part.need("type").text(), _name(part)) for part in quota.need("entity").items()
    )
    values = quota.get("values")
    quota_limits = [
        ImportedLimit(
            key=value.need("key").text(),
            text=value.need("value").scalar_text(),
            line=value.need("value").line,
            live=True,
        )
        for value in (values.items() if values is not None else ())
    ]
    foreign = sorted({kind for kind, _ in entity_parts} - set(ENTITY_TYPES))
    if foreign:
        collector.lose(
            quota, f"{foreign[0]} is an entity type that manifests do not know", entity_parts
        )
        return
    slots: dict[str, Slot] = dict(entity_parts)
    if len(slots) < len(entity_parts):
        collector.lose(quota, "an entity type is given twice", entity_parts)
        return
    if None in slots.values():
        collector.note(
            quota,
            f"rpk prints a default and the name {_DEFAULT} alike; taken for the default",
            entity_parts,
        )
    collector.add(quota, quota_limits, slots)


def _name(part: DocumentTree) -> str | None:
    name = part.need("name").text()
    return DEFAULT if name == _DEFAULT else name
