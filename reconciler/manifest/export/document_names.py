"""Names of documents from their entities: readable, deterministic and unique."""

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

from reconciler.quota.entity import Entity, parts
from reconciler.quota.entity_forms import name_key

_LABEL: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
_WORDS: Final[Mapping[str, str]] = {"user": "user", "client-id": "client", "ip": "ip"}


def document_name(subject: Entity) -> str:
    """Return the ``metadata.name`` for an entity; different entities have different names.

    Slots become ``user.NAME``, ``client.NAME``, ``ip.NAME`` or ``default-user`` and so on. A name that is no
    DNS label is converted to one, and a last label with 64 bits of a digest of the whole entity is added. Entities
    with plain names never get a name of this form, because their last label would be a slot's.
    """
    name, exact = _readable(subject)
    return name if exact else f"{name}.{_digest(subject)}"


def document_names(
    subjects: Iterable[Entity], existing_names: Iterable[str] = ()
) -> dict[Entity, str]:
    """Return the names of several entities, with a digest only if two readable names are equal.

    Args:
        subjects: All entities, in any order; the names do not depend on it.
    """
    other_names = frozenset(existing_names)
    groups: dict[str, list[tuple[Entity, bool]]] = defaultdict(list)
    for subject in subjects:
        name, exact = _readable(subject)
        groups[name].append((subject, exact))
    names: dict[Entity, str] = {}
    for name, members in groups.items():
        for subject, exact in members:
            is_alone = (len(members) == 1 or exact) and name not in other_names
            names[subject] = name if is_alone else f"{name}.{_digest(subject)}"
    return names


def label(text: str) -> str:
    """Return a DNS label similar to a text; the text itself if it is one."""
    if _LABEL.fullmatch(text):
        return text
    dns_label = re.sub(r"[^a-z0-9]+", "-", text.lower())[:40].strip("-")
    return dns_label or "name"


def _readable(subject: Entity) -> tuple[str, bool]:
    """Return a readable name, and whether no other entity has it as its exact name."""
    labels: list[str] = []
    exact = True
    for kind, name in parts(subject):
        if name is None:
            labels.append(f"default-{_WORDS[kind]}")
            continue
        text = name.replace(".", "-") if kind == "ip" else name
        word = label(text)
        exact = exact and word == text
        labels += [_WORDS[kind], word]
    return ".".join(labels), exact


def _digest(subject: Entity) -> str:
    return "x" + hashlib.sha256(name_key(subject)).hexdigest()[:16]
