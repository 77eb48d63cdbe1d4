"""Ranges of values that the trusted side sets for some entities, and which changes such a range approves."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from reconciler.quota.keys import Key
from reconciler.quota.patterns import EVERYTHING, EntityPattern
from reconciler.quota.planner.plan import QuotaChange

UNIT_STEP: Final = 1000.0
"""The smallest slip between two prefixes of a unit: 10^3. The others are 1024, 10^6, 1024^2 and so on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueRange:
    """The range of values that some entities may have for a key.

    Attributes:
        entities: For which entities.
        key: Which key.
        minimum: Smallest value; ``None`` = no bound. A minimum replaces the guard against slips of the unit.
        maximum: Largest value; ``None`` = no bound.
        namespaces: For documents of these namespaces; empty = for all.
    """

    entities: EntityPattern
    key: Key
    minimum: float | None = None
    maximum: float | None = None
    namespaces: frozenset[str] = frozenset()

    def covers(self, change: QuotaChange) -> bool:
        """Whether the range is about the quota that a change writes."""
        return (
            self.key is change.key
            and self.entities.matches(change.entity)
            and (not self.namespaces or _namespace(change) in self.namespaces)
        )

    def approves(self, value: float) -> bool:
        """Whether the trusted side has approved this value for these entities, however far it is from another one.

        Only a range for named entities approves, and only if its ends are less than :data:`UNIT_STEP` apart: then a
        value and its slip are never both within it.
        """
        return (
            self.entities != EVERYTHING
            and self.minimum is not None
            and self.maximum is not None
            and self.maximum < UNIT_STEP * self.minimum
            and self.minimum <= value <= self.maximum
        )


def range_of(change: QuotaChange, ranges: Iterable[ValueRange]) -> ValueRange:
    """The first range that covers a change, or one without bounds."""
    return next(
        (value_range for value_range in ranges if value_range.covers(change)), _UNBOUND[change.key]
    )


def is_approved(
    change: QuotaChange, ranges: Iterable[ValueRange], granted: Iterable[ValueRange]
) -> bool:
    """Whether a range approves the step between a change's value and any other: its new value, or the one it removes.

    Args:
        change: One change of a plan.
        ranges: Those of the guards.
        granted: Those of the tenants.
    """
    value = change.before if change.after is None else change.after
    return value is not None and any(
        range_of(change, ranges_of_key).approves(value) for ranges_of_key in (ranges, granted)
    )


def _namespace(change: QuotaChange) -> str:
    """The namespace of the document that declares a change, or of the removed one that did."""
    document = (
        change.claim.document
        if change.claim is not None
        else change.owner.document
        if change.owner is not None
        else ""
    )
    return document.partition("/")[0]


_UNBOUND: Final = {key: ValueRange(entities=EVERYTHING, key=key) for key in Key}
