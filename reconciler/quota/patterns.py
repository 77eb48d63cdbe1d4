"""Patterns over entities, for grants, scopes, ignore rules and bounds."""

from enum import StrEnum
from typing import Final

from msgspec import Struct

from reconciler.errors import QuotaValueError
from reconciler.quota.entity import SHAPES, Entity, canonical_address, kinds


class EntityForm(StrEnum):
    """The ten shapes of an entity, as manifests and grants spell them; in the order of their levels."""

    USER_CLIENT_ID = "user+clientId"
    USER_DEFAULT_CLIENT_ID = "user+defaultClientId"
    USER = "user"
    DEFAULT_USER_CLIENT_ID = "defaultUser+clientId"
    DEFAULT_USER_DEFAULT_CLIENT_ID = "defaultUser+defaultClientId"
    DEFAULT_USER = "defaultUser"
    CLIENT_ID = "clientId"
    DEFAULT_CLIENT_ID = "defaultClientId"
    IP = "ip"
    DEFAULT_IP = "defaultIp"


FORMS: Final = dict(zip(SHAPES, EntityForm, strict=True))
"""The form of each shape: both are in the order of the levels."""

USER_FORMS: Final = frozenset(
    {EntityForm.USER, EntityForm.USER_CLIENT_ID, EntityForm.USER_DEFAULT_CLIENT_ID}
)
"""Forms that a pattern of user names covers if it lists none: the user, alone or with a client-id."""


def form(subject: Entity) -> EntityForm:
    """Return the shape of an entity."""
    return FORMS[kinds(subject)]


class NamePattern(Struct, frozen=True, kw_only=True, gc=False):
    """One exact name, or every name that begins with a prefix; exactly one of the two."""

    exact: str | None = None
    prefix: str | None = None

    def __post_init__(self) -> None:
        if (self.exact is None) == (self.prefix is None):
            raise QuotaValueError("a name pattern has exactly one of exact and prefix")

    def matches(self, name: str) -> bool:
        """Whether the name matches."""
        return name == self.exact if self.prefix is None else name.startswith(self.prefix)

    def matches_address(self, name: str) -> bool:
        """Whether an ip matches, in any spelling: brokers apply a limit to the address, however its name is spelled."""
        if self.matches(name):
            return True
        address = canonical_address(name)
        if address is None:
            return False
        exact = self.exact
        return self.matches(address) if exact is None else address == canonical_address(exact)


class EntityPattern(Struct, frozen=True, kw_only=True, gc=False):
    """A set of entities by form and names.

    Without ``forms``, a ``user`` pattern covers the user alone and with any client-id, the default client-id included:
    it affects no other user. A bare ``client_id`` pattern covers bare client-ids, an ``ip`` pattern named ips.
    Default forms affect every client without a more specific quota, so each must be listed.
    """

    # The shapes that are covered; empty = implied by the names.
    forms: frozenset[EntityForm] = frozenset()
    user: NamePattern | None = None  # pattern of a named user; None = any
    client_id: NamePattern | None = None  # pattern of a named client-id; None = any
    ip: NamePattern | None = None  # pattern of a named ip; None = any

    def __post_init__(self) -> None:
        if not self.forms and self.user is None and self.client_id is None and self.ip is None:
            raise QuotaValueError(
                "an entity pattern needs at least one of forms, user, clientId and ip"
            )

    @property
    def covered_forms(self) -> frozenset[EntityForm]:
        """The forms listed, or those that the names imply."""
        if self.forms:
            return self.forms
        implied: set[EntityForm] = set()
        if self.user is not None:
            implied |= USER_FORMS if self.client_id is None else {EntityForm.USER_CLIENT_ID}
        elif self.client_id is not None:
            implied.add(EntityForm.CLIENT_ID)
        if self.ip is not None:
            implied.add(EntityForm.IP)
        return frozenset(implied)

    def matches(self, subject: Entity) -> bool:
        """Whether the entity matches the pattern."""
        if form(subject) not in self.covered_forms:
            return False
        user, client_id, ip = subject
        return (
            (self.user is None or not isinstance(user, str) or self.user.matches(user))
            and (
                self.client_id is None
                or not isinstance(client_id, str)
                or self.client_id.matches(client_id)
            )
            and (self.ip is None or not isinstance(ip, str) or self.ip.matches_address(ip))
        )


EVERYTHING: Final = EntityPattern(forms=frozenset(EntityForm))
"""Matches every entity."""
