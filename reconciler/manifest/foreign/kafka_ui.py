"""The response of kafka-ui to ``GET /api/clusters/NAME/clientquotas``: a JSON list.

Source: contract-typespec/api/quotas.tsp and ClientQuotaService of kafbat/kafka-ui (2026-07-31). A slot that is null is
either absent or the default; the response does not distinguish them. So a record without names is listed, and so are
equal records; one with only a user or only a client-id is read as exactly that, with a note.
"""

from collections import Counter
from typing import Final

from reconciler.manifest.foreign.collector import Files, ImportCollector, Parts
from reconciler.manifest.foreign.document_tree import DocumentTree, documents, limits

_FIELDS: Final = (("user", "user"), ("clientId", "client-id"), ("ip", "ip"))


def read(files: Files, collector: ImportCollector) -> None:
    """Read every record."""
    for path, text in files:
        records: list[tuple[DocumentTree, Parts]] = []
        for document in documents(path, text):
            for record in document.items():
                with collector.entry():
                    records.append((record, _entity_parts(record)))
        entity_counts = Counter(entity_parts for _, entity_parts in records)
        for record, entity_parts in records:
            with collector.entry():
                _read_record(record, entity_parts, collector, alike=entity_counts[entity_parts] > 1)


def _entity_parts(record: DocumentTree) -> Parts:
    return tuple(
        (kind, name) for field, kind in _FIELDS if (name := record.text_field(field)) is not None
    )


def _read_record(
    record: DocumentTree, entity_parts: Parts, collector: ImportCollector, *, alike: bool
) -> None:
    if not entity_parts:
        collector.lose(record, "a default of some type; the answer does not say of which")
        return
    if alike:
        collector.lose(
            record,
            "several records are identical, because the response does not contain defaults",
            entity_parts,
        )
        return
    if {kind for kind, _ in entity_parts} in ({"user"}, {"client-id"}):
        collector.note(
            record,
            "imported unchanged; kafka-ui shows the same if the other part is a default",
            entity_parts,
        )
    collector.add(record, limits(record.get("quotas"), live=True), dict(entity_parts))
