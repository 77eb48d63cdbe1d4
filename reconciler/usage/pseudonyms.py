"""Names behind a keyed hash: reports that may be shown outside, in which the same client still has one name.

A keyed hash (HMAC-SHA-256) and not a plain one: user names are few and guessable, so whoever has the page could try them
all. Without the key nobody can; with it the owner can look a name up.
"""

import hmac
from dataclasses import fields, is_dataclass, replace
from ipaddress import IPv6Address
from typing import Any, Final, TypeVar

from reconciler.errors import QuotaValueError
from reconciler.quota.entity import ENTITY_TYPES, Entity, Slot
from reconciler.usage.findings import Evidence, Simulation
from reconciler.usage.reports import UsageReport
from reconciler.usage.tables import entity_text, read_entity
from reconciler.usage.tags import Bucket

T = TypeVar("T")

LEAST_KEY_BYTES: Final = 16
_DIGITS: Final = 12
_DOCUMENTATION: Final = int(IPv6Address("2001:db8::"))
"""Addresses become some of those that nobody has (RFC 3849), so that they stay addresses."""


class Pseudonyms:
    """Pseudonyms under one key; equal names of one kind have equal ones.

    Args:
        key: At least 16 bytes, kept secret.

    Raises:
        QuotaValueError: The key is shorter.
    """

    __slots__ = ("_key",)

    def __init__(self, key: bytes) -> None:
        if len(key) < LEAST_KEY_BYTES:
            raise QuotaValueError(f"a key for pseudonyms has at least {LEAST_KEY_BYTES} bytes")
        self._key = key

    def name(self, kind: str, name: str) -> str:
        """The pseudonym of a name: ``user-1a2b…``; "" stays.

        Args:
            kind: ``user``, ``client-id``, ``ip``, or any other word that keeps kinds apart.
            name: The name.
        """
        if not name:
            return ""
        digest = hmac.digest(self._key, f"{kind}\0{name}".encode(), "sha256")
        if kind == "ip":
            return str(IPv6Address(_DOCUMENTATION | int.from_bytes(digest[:12], "big")))
        return f"{kind}-{digest.hex()[:_DIGITS]}"

    def bucket(self, bucket: Bucket) -> Bucket:
        """The same bucket with other names."""
        return replace(
            bucket,
            user=self.name("user", bucket.user),
            client_id=self.name("client-id", bucket.client_id),
            ip=self.name("ip", bucket.ip),
        )

    def source(self, entity_json: str) -> str:
        """The same entity with other names; defaults stay, "" stays."""
        if not entity_json:
            return ""
        slots: list[Slot] = [
            self.name(kind, slot) if isinstance(slot, str) else slot
            for kind, slot in zip(ENTITY_TYPES, read_entity(entity_json), strict=True)
        ]
        user, client_id, ip = slots
        return entity_text(Entity((user, client_id, ip)))

    def report(self, report: UsageReport) -> UsageReport:
        """The same report without a real name; sentences, which may hold some, are withheld and counted."""
        return replace(_walked(self, report), notes=_withheld(report.notes))


def _walked(names: Pseudonyms, value: T) -> T:
    """A value with every bucket, source and cluster id replaced, however deep."""
    made: Any = value
    if isinstance(value, Bucket):
        made = names.bucket(value)
    elif isinstance(value, tuple):
        made = tuple(_walked(names, one) for one in value)
    elif is_dataclass(value) and not isinstance(value, type):
        made = replace(
            value, **{one.name: _field(names, one.name, getattr(value, one.name)) for one in fields(value)}
        )  # fmt: skip
        if isinstance(made, Evidence):
            made = replace(made, source="", partial=_withheld(made.partial))
        elif isinstance(made, Simulation):
            # Flipped and unexplained are tuples of cluster, type and bucket: the cluster stands there without a field's name.
            made = replace(
                made,
                notes=_withheld(made.notes),
                flipped=tuple((names.name("cluster", one[0]), *one[1:]) for one in made.flipped),
                unexplained=tuple((names.name("cluster", one[0]), *one[1:]) for one in made.unexplained),
            )  # fmt: skip
    result: T = made
    return result


def _field(names: Pseudonyms, name: str, value: object) -> object:
    if isinstance(value, str) and name == "cluster_id":
        return names.name("cluster", value)
    if isinstance(value, str) and name == "source_entity":
        return names.source(value)
    return _walked(names, value)


def _withheld(sentences: tuple[str, ...]) -> tuple[str, ...]:
    return (f"{len(sentences)} withheld, because it may name somebody",) if sentences else ()
