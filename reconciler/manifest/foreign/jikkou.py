"""Jikkou's ``KafkaClientQuota`` resources, alone or in a list.

Source: providers/jikkou-provider-kafka of streamthoughts/jikkou (2026-08-07, after v1.1.0): the type of a quota
determines which slots count and which are defaults; the names of the other slots are ignored.
"""

from typing import Final

from reconciler.manifest.foreign.collector import Files, ImportCollector
from reconciler.manifest.foreign.document_tree import DocumentTree, all_documents, limits
from reconciler.quota.entity import ABSENT, DEFAULT, Slot
from reconciler.quota.keys import Key

API: Final = "kafka.jikkou.io/"
KIND: Final = "KafkaClientQuota"
_DELETE: Final = "jikkou.io/delete"
_KEYS: Final = {
    "producerByteRate": str(Key.PRODUCER_BYTE_RATE),
    "consumerByteRate": str(Key.CONSUMER_BYTE_RATE),
    "requestPercentage": str(Key.REQUEST_PERCENTAGE),
}
_NAMED: Final = True
_TYPES: Final[dict[str, tuple[bool | None, bool | None]]] = {
    "USER": (_NAMED, ABSENT),
    "USERS_DEFAULT": (DEFAULT, ABSENT),
    "USER_CLIENT": (_NAMED, _NAMED),
    "USER_ALL_CLIENTS": (_NAMED, DEFAULT),
    "CLIENT": (ABSENT, _NAMED),
    "CLIENTS_DEFAULT": (ABSENT, DEFAULT),
}
"""Type to the form of user and client-id."""


def read(files: Files, collector: ImportCollector) -> None:
    """Read every quota."""
    for document in all_documents(files):
        with collector.entry():
            kind = document.text_field("kind") or ""
            is_of_kafka = (document.text_field("apiVersion") or "").startswith(API)
            if is_of_kafka and kind == f"{KIND}List":
                collector.understand(document)
                for resource in document.need("items").items():
                    with collector.entry():
                        _read_resource(resource, collector)
            elif is_of_kafka and kind == KIND:
                _read_resource(document, collector)
            else:
                collector.skip(document, kind, _name(document))


def _name(document: DocumentTree) -> str:
    name = document.find("metadata", "name")
    return "" if name is None else name.text()


def _read_resource(resource: DocumentTree, collector: ImportCollector) -> None:
    mark = resource.find("metadata", "annotations", _DELETE)
    if mark is not None and mark.scalar_text() == "true":
        collector.note(resource, f"marked with {_DELETE}, so it is not declared")
        return
    spec = resource.need("spec")
    kind = spec.need("type")
    forms = _TYPES.get(kind.text())
    if forms is None:
        raise kind.wrong(f"{kind.text()!r} is not a quota type; there is {', '.join(_TYPES)}")
    entity = spec.get("entity")
    user = _slot(entity, spec, "user", forms[0])
    client_id = _slot(entity, spec, "clientId", forms[1])
    ignored = [
        field
        for field, form in zip(("user", "clientId"), forms, strict=True)
        if form is not _NAMED and entity is not None and entity.text_field(field)
    ]
    if ignored:
        collector.note(spec, f"entity.{ignored[0]} is ignored, as Jikkou does for {kind.text()}")
    collector.add(spec, limits(spec.get("configs"), _KEYS), {"user": user, "client-id": client_id})


def _slot(entity: DocumentTree | None, spec: DocumentTree, field: str, form: bool | None) -> Slot:  # noqa: FBT001 - a row of the table
    if form is None:
        return DEFAULT
    if form is False:
        return ABSENT
    value = entity.get(field) if entity is not None else None
    if value is None:
        raise (spec if entity is None else entity).wrong(f"entity.{field} is missing")
    name = value.text()
    if "{{" in name or "{%" in name:
        raise value.wrong("a template; let Jikkou render it first")
    return name
