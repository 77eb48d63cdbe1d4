"""The result of each operation of a plan: applied, rejected, held or unknown."""

from typing import Final, TypeAlias

from msgspec import Struct

from reconciler.quota.entity import Entity, EntityParts

# Larger requests were measured and not taken: docs/adr/request-size.md.
MAX_OPERATIONS: Final = 2_000
"""Operations per request; the broker's limit is 10,000 resulting records (QuorumController.MAX_RECORDS_PER_USER_OP)."""


_NO_PERMISSION: Final = frozenset({29, 30, 31})
"""TOPIC_, GROUP_ and CLUSTER_AUTHORIZATION_FAILED."""


class Alteration(Struct, frozen=True, gc=False):
    """The operations for one entity in one request.

    Attributes:
        entity: The entity whose quotas change.
        operations: ``(key, value)``; ``None`` removes the key. Each key occurs at most once.
    """

    entity: Entity
    operations: tuple[tuple[str, float | None], ...]


class OpenAlteration(Struct, frozen=True, gc=False):
    """The operations for one entity of any types, which the broker checks (KIP-546).

    Attributes:
        entity: ``(type, name)`` of each part, ``None`` for the default.
        operations: ``(key, value)``; ``None`` removes the key. Each key occurs at most once.
    """

    entity: EntityParts
    operations: tuple[tuple[str, float | None], ...]


# Four outcomes, no boolean: docs/adr/operation-outcomes.md.
class Applied(Struct, frozen=True, gc=False):
    """The controller acknowledged the operation (or, for validate-only, would have)."""


class Rejected(Struct, frozen=True, kw_only=True, gc=False):
    """The broker refused the operation.

    Attributes:
        code: Kafka's error code.
        name: Name of the error code, for example ``INVALID_REQUEST``.
        message: The broker's message, or a message of kquota if the broker sent none.
    """

    code: int
    name: str
    message: str

    @property
    def lacks_permission(self) -> bool:
        """Whether the principal of kquota lacks a permission, so that no document is at fault."""
        return self.code in _NO_PERMISSION


class Held(Struct, frozen=True, kw_only=True, gc=False):
    """Not sent, because other operations of this plan must take effect first.

    Attributes:
        waits_for: The entities whose operations did not take effect, sorted.
    """

    waits_for: tuple[Entity, ...]


class Unknown(Struct, frozen=True, kw_only=True, gc=False):
    """Sent without a usable response: the operation may or may not have taken effect.

    Attributes:
        reason: One sentence.
    """

    reason: str


Result: TypeAlias = Applied | Rejected | Held | Unknown
