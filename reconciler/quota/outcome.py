"""What happened to each operation that was to be sent: applied, rejected, held or unknown."""

from dataclasses import dataclass
from typing import Final, TypeAlias

from reconciler.quota.entity import Entity, EntityParts

MAX_OPERATIONS: Final = 2_000
"""Operations a request; the broker's limit is 10,000 resulting records (QuorumController.MAX_RECORDS_PER_USER_OP)."""

MAX_ENTITIES: Final = 1_000
"""Entities a request, so that one answer stays small."""


@dataclass(frozen=True, slots=True)
class Alteration:
    """The operations for one entity in one request.

    Attributes:
        entity: Whose quotas change.
        operations: ``(key, value)``; ``None`` removes the key. A key stands at most once.
    """

    entity: Entity
    operations: tuple[tuple[str, float | None], ...]


@dataclass(frozen=True, slots=True)
class OpenAlteration:
    """The operations for one entity of any types, which the broker judges (KIP-546).

    Attributes:
        entity: ``(type, name)`` of each part, ``None`` for the default.
        operations: ``(key, value)``; ``None`` removes the key. A key stands at most once.
    """

    entity: EntityParts
    operations: tuple[tuple[str, float | None], ...]


@dataclass(frozen=True, slots=True)
class Applied:
    """The controller acknowledged it (or, for validate-only, would have)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """The broker refused it.

    Attributes:
        code: Kafka's error code.
        name: Its name, for example ``INVALID_REQUEST``.
        message: The broker's own words, or ours where it sent none.
    """

    code: int
    name: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """Not sent, because other operations of this plan must be in force first.

    Attributes:
        waits_for: The entities whose operations are missing, sorted.
    """

    waits_for: tuple[Entity, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """Sent, but no usable answer came: it may or may not be in force.

    Attributes:
        reason: One sentence.
    """

    reason: str


Result: TypeAlias = Applied | Rejected | Held | Unknown
