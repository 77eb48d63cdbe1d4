"""The core's verdict on a pair, asked once per pattern of a pair: no Spark here, and no rule of the plan either.

Of a pair, the comparison only looks at which values are there, which of them are the same limit, and at a dozen facts
(:data:`FLAGS`, owners, rules). So pairs that agree in all of that have one verdict. A fleet of millions of pairs has
some hundred patterns; for each, the smallest world that shows it is built and handed to ``quota.plan.compare``.
"""

from dataclasses import dataclass
from typing import Final

from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from reconciler.quota.ownership import (
    SETTLING_SECONDS,
    Intent,
    Override,
    Owner,
    OwnershipRecord,
    OwnershipRecords,
)
from reconciler.quota.patterns import EVERYTHING, EntityPattern, NamePattern
from reconciler.quota.planner.comparison import compare
from reconciler.quota.planner.desired_state import (
    Declaration,
    DeclarationConflict,
    DesiredState,
)
from reconciler.quota.planner.plan import Finding, QuotaChange
from reconciler.quota.policy import DeletionPolicy, DriftMode, IgnoreRule, Policy, Rules
from reconciler.quota.state import NO_LIMITS, Limits, QuotaState

VALUES: Final = ("declared", "applied", "live", "intended", "override", "override_before")
"""The values of a pair in the order of the pattern. Each is ``-`` (absent) or the place of the first that is the same limit."""

FLAGS: Final = (
    "contested",
    "halted",
    "intends",
    "may_land",
    "orphaned",
    "overridden",
    "over",
    "ends_with_document",
    "declared_as_then",
    "in_scope",
    "ignored",
)
"""Facts about a pair, ``1`` or ``0`` each, in the order of the pattern."""

NOBODY: Final = "----"
"""The owner of what has none; else whether its document is named, exists, is frozen, and its deletionPolicy."""

_SUBJECT: Final = entity(user="u")
_KEY: Final = Key.PRODUCER_BYTE_RATE
_NOW: Final = 1000.0
_POLICIES: Final = {"R": DeletionPolicy.RETAIN, "D": DeletionPolicy.DELETE, ".": None}
_NOT_IT: Final = EntityPattern(user=NamePattern(exact="another user"))
_CLAIM: Final = "claim"
_OWNERS: Final = ("record", "intent")


@dataclass(frozen=True, slots=True, kw_only=True)
class PatternDecision:
    """What the core does about pairs of one pattern.

    Attributes:
        pattern: Which.
        kind: ``change``, ``finding`` or ``none``.
        cause: The row of the three-way table, "" for ``none``.
        action: ``create``, ``update`` or ``remove`` of a change; the action of a finding; "" for ``none``.
        after: Which of :data:`VALUES` is written; "" = none is.
        document: Where the document's name stands: ``claim``, ``record``, ``intent`` or "".
        in_sync: Whether it counts as in sync.
        ignored: Whether an ignore rule acts on it.
    """

    pattern: str
    kind: str
    cause: str
    action: str
    after: str
    document: str
    in_sync: bool
    ignored: bool


def rules_code(rules: Rules) -> str:
    """The part of a pattern that is the same for a whole cluster."""
    truths = (rules.exclusive, bool(rules.scope), rules.complete, rules.force)
    return f"{rules.in_force}/{rules.drift}/{''.join(str(int(truth)) for truth in truths)}"


def decide(pattern: str) -> PatternDecision:
    """The core's own verdict.

    Args:
        pattern: Rules, values, flags, owner of the record and of the intent, with bars between.
    """
    world = _PatternExample(pattern)
    plan = compare(
        desired=world.desired, owned=world.owned, live=world.live, rules=world.rules, now=_NOW
    )
    in_sync = bool(plan.in_sync)
    plan_entries: tuple[QuotaChange | Finding, ...] = (*plan.changes, *plan.findings)
    for plan_entry in plan_entries:
        return _decision(pattern, world, plan_entry, in_sync=in_sync)
    return PatternDecision(
        pattern=pattern,
        kind="none",
        cause="",
        action="",
        after="",
        document="",
        in_sync=in_sync,
        ignored=False,
    )


def _decision(
    pattern: str, world: "_PatternExample", plan_entry: QuotaChange | Finding, *, in_sync: bool
) -> PatternDecision:
    is_change = isinstance(plan_entry, QuotaChange)
    after = plan_entry.after if isinstance(plan_entry, QuotaChange) else None
    claimant = plan_entry.claim or plan_entry.owner
    return PatternDecision(
        pattern=pattern,
        kind="change" if is_change else "finding",
        cause=str(plan_entry.cause),
        action=str(plan_entry.action),
        after="" if after is None else world.place(after),
        document=claimant.document if claimant is not None else "",
        in_sync=in_sync,
        ignored=isinstance(plan_entry, Finding) and plan_entry.ignored,
    )


class _PatternExample:
    """The smallest world with a pair of a pattern.

    Numbers of one limit differ by less than what Kafka distinguishes, so that a verdict says which of them it took.
    """

    def __init__(self, pattern: str) -> None:
        rules, values, flags, owner, intent_owner = pattern.split("|")
        self._values = dict(zip(VALUES, map(_number, values, range(len(VALUES))), strict=True))
        self._flags = {name: flag == "1" for name, flag in zip(FLAGS, flags, strict=True)}
        self._codes = dict(zip(_OWNERS, (owner, intent_owner), strict=True))
        self.rules = self._rules(rules)
        self.desired = self._desired()
        self.owned = self._owned()
        live_value = self._values["live"]
        self.live = (
            QuotaState() if live_value is None else QuotaState(limits={_SUBJECT: _only(live_value)})
        )

    def place(self, value: float) -> str:
        """Which of the values that is."""
        return next(name for name, number in self._values.items() if number == value)

    def _rules(self, code: str) -> Rules:
        policy, drift, truths = code.split("/")
        exclusive, scoped, complete, force = (digit == "1" for digit in truths)
        return Rules(
            policy=Policy(policy),
            sync_confirmed=True,
            drift=DriftMode(drift),
            exclusive=exclusive,
            scope=((EVERYTHING if self._flags["in_scope"] else _NOT_IT),) if scoped else (),
            ignore=(IgnoreRule(entities=EVERYTHING, reason="said so"),)
            if self._flags["ignored"]
            else (),
            complete=complete,
            force=force,
        )

    def _desired(self) -> DesiredState:
        declared_value, flags = self._values["declared"], self._flags
        claims: tuple[Declaration, ...] = ()
        if declared_value is not None:
            claims = (Declaration(document=_CLAIM, entity=_SUBJECT, limits=_only(declared_value)),)
        elif flags["contested"]:
            claims = tuple(
                Declaration(document=name, entity=_SUBJECT, limits=_only(1.0))
                for name in (_CLAIM, "other claim")
            )
        owners = [(name, code) for name, code in self._codes.items() if code[0] == "d"]
        frozen = frozenset(name for name, code in owners if code[2] == "f")
        pair = (_SUBJECT, _KEY)
        return DesiredState(
            limits={_SUBJECT: _only(declared_value)} if claims else {},
            claims={_SUBJECT: claims} if claims else {},
            conflicts=(DeclarationConflict(entity=_SUBJECT, key=_KEY, claims=claims),)
            if flags["contested"]
            else (),
            documents=frozenset(
                (
                    *(claim.document for claim in claims),
                    *(name for name, code in owners if code[1] == "x"),
                )
            )
            | frozen,
            frozen=frozen,
            halted=frozenset({pair} if flags["halted"] else ()),
        )

    def _owned(self) -> OwnershipRecords:
        pair, flags, values = (_SUBJECT, _KEY), self._flags, self._values
        applied, owner = values["applied"], self._owner("record")
        intent_owner = self._owner("intent")
        at = _NOW - (SETTLING_SECONDS / 2 if flags["may_land"] else 2 * SETTLING_SECONDS)
        declared = values["declared"]
        return OwnershipRecords(
            cluster_id="c",
            records={}
            if applied is None or owner is None
            else {_SUBJECT: OwnershipRecord(_only(applied), (owner, None, None, None, None))},
            intents={pair: Intent(value=values["intended"], owner=intent_owner, at=at)}
            if flags["intends"] and intent_owner is not None
            else {},
            orphaned=frozenset({pair} if flags["orphaned"] else ()),
            overrides={
                pair: Override(
                    entity=_SUBJECT,
                    key=_KEY,
                    value=values["override"],
                    until=_NOW + (-1 if flags["over"] else 1),
                    author="",
                    reason="",
                    before=values["override_before"],
                    declared=declared if flags["declared_as_then"] else (declared or 0.0) + 1.0,
                    ends_with_document=flags["ends_with_document"],
                )
            }
            if flags["overridden"]
            else {},
        )

    def _owner(self, which: str) -> Owner | None:
        code = self._codes[which]
        if code == NOBODY:
            return None
        return Owner(document=which if code[0] == "d" else "", deletion_policy=_POLICIES[code[3]])


def _number(place: str, at: int) -> float | None:
    """Whole numbers for limits that differ, with a mark below Kafka's epsilon for where it stands."""
    return None if place == "-" else 1000.0 * (1 + int(place)) + at * 1e-8


def _only(value: float | None) -> Limits:
    return NO_LIMITS if value is None else (value, None, None, None, None)
