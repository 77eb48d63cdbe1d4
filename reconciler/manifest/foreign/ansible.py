"""Tasks of the Ansible module ``kafka_quotas`` in playbooks, roles and blocks.

Source: library/kafka_quotas.py and module_utils/kafka_lib_quotas.py of StephenSorriaux/ansible-kafka-admin
(2026-03-25). ``<default>`` is the module's mark of a default; a user with this name is not possible. An empty name
counts as none. Only Ansible can expand templates; they are listed.
"""

from collections.abc import Iterator
from typing import Final

from reconciler.manifest.foreign.collector import Files, ImportCollector
from reconciler.manifest.foreign.document_tree import DocumentTree, all_documents, limits
from reconciler.quota.entity import ABSENT, DEFAULT, Slot
from reconciler.quota.keys import Key

MODULE: Final = "kafka_quotas"
_DEFAULT: Final = "<default>"
_KEYS: Final = {
    str(key): str(key)
    for key in (Key.PRODUCER_BYTE_RATE, Key.CONSUMER_BYTE_RATE, Key.REQUEST_PERCENTAGE)
}
_ACTIONS: Final = ("action", "local_action")
_TURNS: Final = ("loop", "with_items", "with_dict", "with_list", "with_subelements")


def read(files: Files, collector: ImportCollector) -> None:
    """Read the entries of every task."""
    for document in all_documents(files):
        for task, call in _tasks(document):
            with collector.entry():
                _read_task(task, call, collector)


def _tasks(tree: DocumentTree) -> Iterator[tuple[DocumentTree, DocumentTree]]:
    """Yield every mapping that calls the module, with its arguments."""
    if tree.is_list:
        for task in tree.items():
            yield from _tasks(task)
    elif tree.is_mapping:
        for name, value in tree.fields():
            if _is_module(name) or (name in _ACTIONS and _calls(value)):
                yield tree, value
            else:
                yield from _tasks(value)


def _is_module(name: str) -> bool:
    """Whether the name is the module's, with or without a collection prefix."""
    return name.rpartition(".")[2] == MODULE


def _calls(value: DocumentTree) -> bool:
    return value.is_mapping and _is_module(value.text_field("module") or "")


def _read_task(task: DocumentTree, call: DocumentTree, collector: ImportCollector) -> None:
    for name, value in task.fields():
        if name == "when":
            collector.note(value, "the task has a condition, which is ignored (assumed true)")
        elif name in _TURNS:
            collector.note(value, f"the task has {name}, which only Ansible can expand")
    entries = call.need("entries")
    if not entries.is_list:
        raise entries.wrong(
            "entries is not a list; if it is a template, let Ansible expand it first"
        )
    for entry in entries.items():
        with collector.entry():
            entity = entry.need("entity")
            other_names = [name for name, _ in entity.fields() if name not in {"user", "client"}]
            if other_names:
                raise entity.wrong(f"the module has no entity type {other_names[0]}")
            quota_limits = limits(entry.get("quotas"), _KEYS)
            collector.add(
                entry,
                quota_limits,
                {"user": _slot(entity, "user"), "client-id": _slot(entity, "client")},
            )


def _slot(entity: DocumentTree, field: str) -> Slot:
    value = entity.get(field)
    name = value.text() if value is not None else ""
    if value is not None and ("{{" in name or "{%" in name):
        raise value.wrong("a template; let Ansible expand it first")
    if not name:
        return ABSENT
    return DEFAULT if name == _DEFAULT else name
