"""Temporary limits: values of limits until a time, above their ownership records."""

from datetime import UTC, datetime
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from reconciler.quota.entity import Entity
from reconciler.quota.keys import Key, same_value

LAST_MOMENT: Final = 253_402_300_799.0
"""The end of the year 9999, in seconds since the epoch."""


class Override(Struct, frozen=True, kw_only=True, gc=False):
    """A temporary value of a pair, above its record, until a time: of a person, or of a document with an end."""

    entity: Entity
    key: Key
    value: float | None  # the temporary value; None = not set
    until: float  # seconds since the epoch
    author: str = ""  # the person who requested it; "" = a document declares it
    reason: str = ""
    document: str = (
        ""  # `namespace/name` of the document that declares it; "" = a person requested it
    )
    # The live value when it began, which returns at the end if no document declares the pair; None = not set.
    before: float | None = None
    # The live value that it wrote last, or when it began: another live value is that of another writer.
    applied: float | None = None
    declared: float | None = None  # the declared value when it began
    # For a rollback: whether a change of the declared value ends it early.
    ends_with_document: bool = False

    @property
    def pair(self) -> tuple[Entity, Key]:
        """Entity and key."""
        return self.entity, self.key

    @property
    def words(self) -> str:
        """Who set it, until when and why; an end is written by whatever runs next."""
        end = f"{datetime.fromtimestamp(min(self.until, LAST_MOMENT), UTC):%Y-%m-%d %H:%M} UTC"
        if not self.document:
            return f"override by {self.author} until {end}: {self.reason}"
        return f"by {self.document} until {end}; the first apply or loop after that ends it"

    def begun(self, earlier: "Override | None", live: float | None) -> "Override":
        """Return it with what it finds: at its end, the value from before it returns.

        One that replaces another keeps the value from before that one, unless another writer replaced it meanwhile.

        Args:
            earlier: The one that it replaces, if any.
            live: The live value.
        """
        before = live if earlier is None or not earlier.has_written(live) else earlier.before
        return replace(self, before=before, applied=live)

    def in_force(self, now: float, declared: float | None) -> bool:
        """Whether it still replaces the declared value."""
        return now < self.until and (
            not self.ends_with_document or same_value(self.key, declared, self.declared)
        )

    @property
    def is_written(self) -> bool:
        """Whether its value was written or found live."""
        return same_value(self.key, self.value, self.applied)

    def has_written(self, live: float | None) -> bool:
        """Whether a live value is its own or, as long as that was not written, the one that it found."""
        return any(same_value(self.key, live, value) for value in (self.value, self.applied))

    def is_news(self, declared: float | None, applied: float | None) -> bool:
        """Whether a declared value is neither the one that returns nor one that was applied: no guard has judged it yet.

        What a rollback took back was judged when it was applied.
        """
        if self.ends_with_document and same_value(self.key, declared, self.declared):
            return False
        return declared is not None and not any(
            same_value(self.key, declared, value) for value in (self.before, applied)
        )
