"""Previews of any content, without meaning: every field has several values, the odd ones among them."""

import math
from collections.abc import Callable
from random import Random
from typing import Any, TypeVar

from hypothesis import strategies as st

from reconciler.quota.entity import Entity, level
from reconciler.quota.keys import Key
from reconciler.quota.ownership import Owner
from reconciler.quota.planner.desired_state import Declaration, DeclarationConflict
from reconciler.quota.planner.effects import Direction, Effect, Fallback, change_factor
from reconciler.quota.planner.guards import Guard, Violation
from reconciler.quota.planner.impact import (
    AffectedPrincipal,
    Impact,
    ShadowedLimit,
    UnmatchedClientId,
)
from reconciler.quota.planner.plan import Finding, Plan, QuotaChange
from reconciler.quota.policy import Action, Cause, DeletionPolicy, DriftMode, Policy
from reconciler.quota.precedence import EffectiveLimit, Principal, UnrankedLimit, bucket
from reconciler.quota.results.report import Preview, RunOrigin, ValidationResult
from reconciler.quota.rule_warnings import RuleWarning, WarningKind
from reconciler.quota.state import NO_LIMITS, Rejected
from tests.quota.strategies import ENTITIES

T = TypeVar("T")

NUMBERS = (0.0, -0.0, 1.5, 2.0, 2.0**53, 2.0**60, 1e300, 1e-7, math.inf, -math.inf, math.nan)
VALUES = (None, *NUMBERS)
NAMES = ("team/a", 'x"\\\n\u2028é\x7f', "##[x]", "a:b", "\ud800")
PLACES = ("", "quotas/a.yaml:5", 'x"\né:7', "a:b:3")
TIMES = (0.0, 1.0, 1_763_726_400.25)


class OddValues:
    """Chooses the parts of a preview."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def _one(self, *values: T) -> T:
        return self._random.choice(values)

    def _few(self, new: Callable[[], T]) -> tuple[T, ...]:
        return tuple(new() for _ in range(self._random.randint(0, 2)))

    def _entity(self) -> Entity:
        return self._one(*ENTITIES)

    def _key(self) -> Key:
        return self._one(*Key)

    def claim(self, subject: Entity) -> Declaration:
        return Declaration(
            document=self._one(*NAMES),
            entity=subject,
            limits=NO_LIMITS,
            path=self._one(*NAMES),
            line=self._one(1, 9),
            lines=tuple(self._one(0, 8) for _ in Key),
            selections=tuple(self._one("", *NAMES) for _ in Key),
            until=self._one(None, *TIMES),
        )

    def owner(self) -> Owner:
        return Owner(
            document=self._one(*NAMES),
            deletion_policy=self._one(None, *DeletionPolicy),
            since=self._one(*TIMES),
        )

    def change(self) -> QuotaChange:
        subject = self._entity()
        before, after = self._random.sample(VALUES, 2)
        while before == after:
            after = self._one(*VALUES)
        return QuotaChange(
            entity=subject,
            key=self._key(),
            before=before,
            after=after,
            cause=self._one(*Cause),
            claim=self._one(None, self.claim(subject)),
            owner=self._one(None, self.owner()),
            applied=self._one(*VALUES),
            recorded=self._one(None, Owner(document=self._one(*NAMES))),
            note=self._one("", *NAMES),
            of_override=self._one(True, False),
        )

    def effect(self, change: QuotaChange) -> Effect:
        before, after = self._one(*VALUES), self._one(*VALUES)
        factor = change_factor(before, after)
        return Effect(change, self._one(*Direction), before, after, factor)

    def finding(self) -> Finding:
        subject = self._entity()
        return Finding(
            entity=subject,
            key=self._key(),
            desired=self._one(*VALUES),
            applied=self._one(*VALUES),
            live=self._one(*VALUES),
            cause=self._one(*Cause),
            action=self._one(*Action),
            claim=self._one(None, self.claim(subject)),
            owner=self._one(None, Owner(document=self._one(*NAMES))),
            since=self._one(None, *TIMES),
            note=self._one("", *NAMES),
            ignored=self._one(True, False),
            is_new=self._one(True, False),
            of_override=self._one(True, False),
        )

    def _conflict(self) -> DeclarationConflict:
        subject = self._entity()
        claims = (self.claim(subject), self.claim(subject))
        return DeclarationConflict(entity=subject, key=self._key(), claims=claims)

    def _violation(self) -> Violation:
        return Violation(
            guard=self._one(*Guard),
            message=self._one(*NAMES),
            entity=self._one(None, self._entity()),
            key=self._one(None, self._key()),
            place=self._one(*PLACES),
            cause=self._one(None, *Cause),
        )

    def _warning(self) -> RuleWarning:
        return RuleWarning(
            claim=self.claim(self._entity()),
            kind=self._one(*WarningKind),
            message=self._one(*NAMES),
            key=self._one(None, self._key()),
            accepted=self._one("", "it is known"),
        )

    def _effective(self, key: Key, principal: Principal) -> EffectiveLimit:
        source = self._one(None, self._entity())
        types = (("client-id-prefix", "etl-"), ("user", None))
        return EffectiveLimit(
            key=key,
            value=self._one(*VALUES),
            source=source,
            level=0 if source is None else level(source),
            bucket=() if source is None else bucket(source, principal),
            overridden=(),
            unranked=self._few(lambda: UnrankedLimit(entity=types, value=self._one(*NUMBERS))),
        )

    def _affected(self) -> AffectedPrincipal:
        key = self._key()
        principal = Principal(
            user=self._one(None, *NAMES), client_id=self._one(None, "c"), ip=self._one(None, "::1")
        )
        before, after = self._effective(key, principal), self._effective(key, principal)
        return AffectedPrincipal(principal=principal, key=key, before=before, after=after)

    def _shadow(self) -> ShadowedLimit:
        return ShadowedLimit(entity=self._entity(), key=self._key(), by=self._entity())

    def _unmatched(self) -> UnmatchedClientId:
        return UnmatchedClientId(entity=self._entity(), total=2, example=self._one(*NAMES))

    def _impact(self, changes: tuple[QuotaChange, ...]) -> Impact:
        return Impact(
            effects=tuple(map(self.effect, changes)),
            affected=self._few(self._affected),
            affected_count=9,
            shadows=self._few(self._shadow),
            new_shadows=self._few(self._shadow),
            silent=self._few(self._key),
            principal_count=self._one(0, 7),
            unmatched=self._few(self._unmatched),
        )

    def _rejection(self) -> tuple[Entity, Rejected]:
        rejected = Rejected(code=self._one(-1, 42), name="REFUSED", message=self._one(*NAMES))
        return self._entity(), rejected

    def preview(self) -> Preview:
        changes = self._few(self.change)
        return Preview(
            plan=Plan(
                cluster_id=self._one("", *NAMES),
                changes=changes,
                pending=self._few(self.change),
                findings=self._few(self.finding),
                conflicts=self._few(self._conflict),
                desired_pairs=3,
                in_sync=2,
                owned_pairs=8,
                removals_known=self._one(True, False),
                complete=self._one(True, False),
            ),
            fallbacks=self._few(lambda: Fallback(self._entity(), self._key(), self._one(*NUMBERS))),
            violations=self._few(self._violation),
            verdict=ValidationResult(
                source=self._one("broker", "none"),
                rejections=dict(self._few(self._rejection)),
                reason=self._one("", *NAMES),
            ),
            impact=self._one(None, self._impact(changes)),
            warnings=self._few(lambda: self._one(*NAMES)),
            advice=self._few(self._warning),
            changed_documents=self._one(None, frozenset(), frozenset(("b", "a"))),
            selection=self._few(lambda: self._one(*NAMES)),
            policy=self._one(*Policy),
            drift_mode=self._one(*DriftMode),
            created_at=self._one(*TIMES),
            snapshot_at=self._one(None, *TIMES),
            origin=RunOrigin(author=self._one("", *NAMES), commit="abc", tool_version="1.0"),
        )


ODD_VALUES = st.builds(OddValues, st.randoms(use_true_random=False))


def places(value: Any, way: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """All paths in a document, without the path of the whole."""
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    return [path for name, item in items for path in ((*way, name), *places(item, (*way, name)))]


def at_place(document: Any, way: tuple[Any, ...]) -> Any:
    """The value at a path."""
    for step in way:
        document = document[step]
    return document
