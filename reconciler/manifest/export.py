"""Names and files of exported documents: readable, deterministic and unique names; a file by team, and within the team by form, by prefix or by entity. Pure."""

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct

from reconciler.errors import QuotaValueError
from reconciler.quota.entity import Entity, name_key, parts
from reconciler.quota.patterns import EntityForm, form
from reconciler.quota.planner.desired_state import Declaration

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
    return re.sub(r"[^a-z0-9]+", "-", text.lower())[:40].strip("-") or "name"


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


FORM_FILES: Final[Mapping[EntityForm, str]] = {
    EntityForm.USER: "users",
    EntityForm.USER_CLIENT_ID: "users-with-client-ids",
    EntityForm.USER_DEFAULT_CLIENT_ID: "users-with-default-client-id",
    EntityForm.CLIENT_ID: "client-ids",
    EntityForm.IP: "ips",
    EntityForm.DEFAULT_USER: "defaults",
    EntityForm.DEFAULT_USER_CLIENT_ID: "defaults",
    EntityForm.DEFAULT_USER_DEFAULT_CLIENT_ID: "defaults",
    EntityForm.DEFAULT_CLIENT_ID: "defaults",
    EntityForm.DEFAULT_IP: "defaults",
}
"""The file of each form of entity, without its extension."""

MIN_SHARED: Final = 2
"""Minimum number of entities with a common prefix for a separate file."""

_PREFIX: Final = re.compile(r"[^-_.:/@=,]+(?=[-_.:/@=,])")
_NAMESPACE: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")


class Split(StrEnum):
    """What determines the file of a document within the folder of its team."""

    FORM = "form"
    PREFIX = "prefix"
    ENTITY = "entity"


class Team(Struct, frozen=True, kw_only=True, gc=False):
    """A group of users (or of client-ids without a user).

    Raises:
        QuotaValueError: The prefix is empty or the namespace is not a DNS label.
    """

    prefix: str
    namespace: str  # the namespace of their documents, and the name of their folder

    def __post_init__(self) -> None:
        if not self.prefix:
            raise QuotaValueError("the prefix of a team may not be empty")
        if not _NAMESPACE.fullmatch(self.namespace):
            raise QuotaValueError(
                f"{self.namespace!r} is not a namespace: small letters, digits and dashes"
            )


def team_of(subject: Entity, teams: Iterable[Team]) -> Team | None:
    """Return the team with the longest matching prefix; ``None`` = none."""
    name = _name(subject)
    return max(
        (team for team in teams if name.startswith(team.prefix)),
        key=lambda team: len(team.prefix),
        default=None,
    )


def file_names(
    declarations: Sequence[Declaration], split: Split, teams: Sequence[Team] = ()
) -> tuple[str, ...]:
    """Return the file of each declaration, relative to the folder of the export.

    Args:
        teams: Their documents are in a folder of the team.
    """
    shared = Counter(_prefix(declaration.entity) for declaration in declarations)

    def stem(declaration: Declaration) -> str:
        if split is Split.ENTITY:
            return declaration.document.rpartition("/")[2]
        prefix = _prefix(declaration.entity)
        if split is Split.PREFIX and prefix and shared[prefix] >= MIN_SHARED:
            return label(prefix)
        return FORM_FILES[form(declaration.entity)]

    def folder(declaration: Declaration) -> str:
        team = team_of(declaration.entity, teams)
        return "" if team is None else f"{team.namespace}/"

    return tuple(f"{folder(declaration)}{stem(declaration)}.yaml" for declaration in declarations)


def _name(subject: Entity) -> str:
    """Return the name of the entity's user, else of its client-id, else ""."""
    user, client_id, _ = subject
    return user if isinstance(user, str) else client_id if isinstance(client_id, str) else ""


def _prefix(subject: Entity) -> str:
    """Return the part of this name before its first separator; "" = there is none."""
    match = _PREFIX.match(_name(subject))
    return "" if match is None else match[0]
