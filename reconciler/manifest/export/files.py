"""Selects the file of an exported document: by team, and within the team by form, by prefix or by entity. Pure."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct

from reconciler.errors import QuotaValueError
from reconciler.manifest.export.document_names import label
from reconciler.quota.entity import Entity
from reconciler.quota.patterns import EntityForm, form
from reconciler.quota.planner.desired_state import Declaration

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
