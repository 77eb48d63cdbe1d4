"""What ``rpk cluster quotas describe --format json|yaml`` prints (and ``rpk cluster quotas import`` takes).

Read in src/go/rpk/pkg/cli/cluster/quotas of redpanda-data/redpanda (2024-12-20). rpk prints a default as the name
``<default>``, so it cannot be told from an entity of that name; it is taken for the default, and that is said.
"""

from typing import Final

from reconciler.manifest.foreign.gathering import Files, Gathering, Given
from reconciler.manifest.foreign.trees import Tree, documents
from reconciler.quota.entity import ABSENT, DEFAULT, ENTITY_TYPES, Slot

_DEFAULT: Final = "<default>"


def read(files: Files, found: Gathering, *, cluster: str | None) -> None:  # noqa: ARG001 - one signature for all
    """Gather every quota.

    Raises:
        ManifestErrors: A text is neither YAML nor JSON, or has no list of quotas.
    """
    for path, text in files:
        for document in documents(path, text):
            if document.is_mapping and not list(document.fields()):
                continue  # what rpk prints where there is none
            for one in document.need("quotas").items():
                with found.entry():
                    _read_quota(one, found)


def _read_quota(one: Tree, found: Gathering) -> None:
    named = tuple((part.need("type").text(), _name(part)) for part in one.need("entity").items())
    values = one.get("values")
    given = [
        Given(
            key=value.need("key").text(),
            text=value.need("value").spelled(),
            line=value.need("value").line,
            live=True,
        )
        for value in (values.items() if values is not None else ())
    ]
    foreign = sorted({kind for kind, _ in named} - set(ENTITY_TYPES))
    if foreign:
        found.lose(
            one.path, one.line, f"{foreign[0]} is an entity type that manifests do not know", named
        )
        return
    slots: dict[str, Slot] = dict(named)
    if len(slots) < len(named):
        found.lose(one.path, one.line, "an entity type stands twice", named)
        return
    if None in slots.values():
        found.note(
            one.path,
            one.line,
            f"rpk prints a default and the name {_DEFAULT} alike; taken for the default",
            named,
        )
    found.add(
        one.path,
        one.line,
        given,
        user=slots.get("user", ABSENT),
        client_id=slots.get("client-id", ABSENT),
        ip=slots.get("ip", ABSENT),
    )


def _name(part: Tree) -> str | None:
    name = part.need("name").text()
    return DEFAULT if name == _DEFAULT else name
