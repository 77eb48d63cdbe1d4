"""Overrides: temporary values of limits, above their ownership records."""

from dataclasses import dataclass

from reconciler.quota.entity import Entity
from reconciler.quota.keys import Key, same_value


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """A temporary value of a pair, above its record, until a time."""

    entity: Entity
    key: Key
    value: float | None  # the temporary value; None = not set
    until: float  # seconds since the epoch
    author: str  # the person who requested it
    reason: str
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

    def in_force(self, now: float, declared: float | None) -> bool:
        """Whether it still replaces the declared value."""
        return now < self.until and (
            not self.ends_with_document or same_value(self.key, declared, self.declared)
        )

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
