"""Budgets: whether what limits promise together fits into what a broker can carry, or a tenant or group may use.

Promised is the sum of all limits that clients can use at the same time on one broker. Kafka applies each limit on every
broker by itself, so every broker has to carry the whole sum. Of each limit counts:

- a limit of named entities: once, because all its clients share it;
- a default limit: once for each known client that it applies to, at least for the assumed number of clients, and once if
  there is none of both: the next client that comes may use it;
- a client-id limit that a limit of all users overrides: not at all, because it applies to nobody.

So a client counts with its closest limit alone. Clients without a limit are no part of the sum; their number is reported.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from enum import StrEnum
from heapq import nlargest
from math import fsum, inf
from typing import Final, NamedTuple, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from reconciler.errors import QuotaValueError
from reconciler.quota.entity import ABSENT, DEFAULT, Entity
from reconciler.quota.keys import COLUMN_OF, RULES, Key, quantity
from reconciler.quota.ownership import OwnershipRecords
from reconciler.quota.patterns import EntityPattern
from reconciler.quota.planner.plan import Plan, QuotaChange, apply_to
from reconciler.quota.precedence import Principal, resolve
from reconciler.quota.state import QuotaState

SHOWN_SHARES: Final = 5
"""The number of the largest shares that a report names."""

ROUNDING: Final = 1 + 1e-9
"""Tolerance for sums of float64."""


class BudgetMode(StrEnum):
    """What to do about a plan that exceeds a budget."""

    REPORT = "Report"
    WARN = "Warn"
    REFUSE = "Refuse"


class BudgetMeasure(StrEnum):
    """What is compared with a budget."""

    PROMISED = "Promised"  # the sum of the limits
    OBSERVED = "Observed"  # recorded use after the change


class Budget(Struct, frozen=True, kw_only=True, gc=False):
    """What some limits of a key may promise together on one broker.

    Raises:
        QuotaValueError: A number is not above zero.
    """

    name: str
    key: Key
    amount: float  # in the unit of the key, per broker
    overcommit: float = (
        1.0  # the factor by which more may be promised, because clients do not peak together
    )
    mode: BudgetMode = BudgetMode.REPORT
    basis: BudgetMeasure = BudgetMeasure.PROMISED
    namespaces: frozenset[str] = (
        frozenset()
    )  # limits of documents of these namespaces only; empty = all
    entities: tuple[EntityPattern, ...] = ()  # limits of these entities only; empty = all
    assumed_clients: int = 0  # the least number of clients of each default limit

    def __post_init__(self) -> None:
        for name, number in (("limits", self.amount), ("overcommit", self.overcommit)):
            if not 0 < number < inf:
                raise QuotaValueError(
                    f"budget {self.name}: {name} must be a number above 0, not {number}"
                )

    @property
    def allowed(self) -> float:
        """The most that may be promised."""
        return self.amount * self.overcommit

    @property
    def scope(self) -> str:
        """Whose limits it counts, in words."""
        whose = f"namespace {', '.join(sorted(self.namespaces))}" if self.namespaces else ""
        return whose or ("some entities" if self.entities else "the cluster")


class Share(NamedTuple):
    """What one limit contributes to a sum."""

    entity: Entity
    limit: float
    clients: int  # how many clients may use it at the same time, each for itself

    @property
    def amount(self) -> float:
        """Its part of the sum."""
        return self.limit * self.clients


class BudgetUse(Struct, frozen=True, kw_only=True, gc=False):
    """One budget and what a plan makes of it."""

    budget: Budget
    before: float  # promised, or observed, before the plan
    after: float
    basis: BudgetMeasure  # the basis of both
    note: str = ""  # why it is not the configured one, or what the figures do not show
    largest: tuple[Share, ...] = ()  # the largest shares after the plan, the largest first
    # Of these, limits that are far above recorded use, with that use: they could give room.
    spare: tuple[tuple[Entity, float], ...] = ()
    unlimited: int = 0  # known clients without a limit after the plan
    counted: frozenset[Entity] = (
        frozenset()
    )  # the entities of the limits that it counts after the plan
    # The largest raises without which the rest fits, with the largest value that still fits; None = no value does.
    raised_by: tuple[tuple[QuotaChange, float | None], ...] = ()

    @property
    def is_exceeded(self) -> bool:
        """Whether more is promised than allowed."""
        return self.after > self.budget.allowed * ROUNDING

    @property
    def is_worse(self) -> bool:
        """Whether the plan exceeds it, or exceeds it by more than before."""
        return self.is_exceeded and self.after > self.before * ROUNDING

    @property
    def is_refused(self) -> bool:
        """Whether it refuses the plan: never by another basis than the configured one."""
        is_judged = self.basis is self.budget.basis
        return self.is_worse and is_judged and self.budget.mode is BudgetMode.REFUSE

    @property
    def is_warning(self) -> bool:
        """Whether people are warned of it."""
        return self.is_exceeded and self.budget.mode is not BudgetMode.REPORT

    @property
    def words(self) -> str:
        """The budget and its use as a clause."""
        key, budget = self.budget.key, self.budget
        verb = "promised" if self.basis is BudgetMeasure.PROMISED else "observed"
        return (
            f"budget {budget.name} allows {quantity(key, budget.allowed)} of {key} per broker for {budget.scope};"
            f" {quantity(key, self.after)} would be {verb}, {quantity(key, self.before)} before"
        )


Documents: TypeAlias = Callable[[Entity, Key], str]
"""Returns the document of a limit, `namespace/name`; "" = none."""


def budget_uses(
    plan: Plan,
    budgets: Iterable[Budget],
    live: QuotaState,
    *,
    owned: OwnershipRecords,
    principals: Iterable[Principal],
) -> tuple[BudgetUse, ...]:
    """Return the promised use of each budget before and after a plan, in the order of the budgets.

    Args:
        live: All live limits, below temporary ones.
        owned: The records with the documents of the limits.
        principals: The known clients.
    """
    budgets = tuple(budgets)
    if not budgets:
        return ()
    changes = plan.reviewed
    after, clients = apply_to(live, changes), tuple(principals)
    keys = frozenset(budget.key for budget in budgets)
    named = [_clients_by_default(state, clients, keys) for state in (live, after)]
    recorded, planned = _documents(owned), _documents(owned.with_changes(plan.bookkeeping), changes)
    uses: list[BudgetUse] = []
    for budget in budgets:
        old = _shares(budget, live, named[0], recorded)
        new = _shares(budget, after, named[1], planned)
        total = _total(new)
        uses.append(
            BudgetUse(
                budget=budget,
                before=_total(old),
                after=total,
                basis=BudgetMeasure.PROMISED,
                note="" if budget.basis is BudgetMeasure.PROMISED else "no recorded use was read",
                largest=tuple(nlargest(SHOWN_SHARES, new.values(), key=lambda share: share.amount)),
                unlimited=named[1].unlimited[budget.key],
                counted=frozenset(new),
                raised_by=tuple(_raised_by(budget, changes, old, new, total)),
            )
        )
    return tuple(uses)


class _KnownClients(NamedTuple):
    """The known clients of a state: of each default limit, and without a limit."""

    by_limit: Mapping[tuple[Entity, Key], int]
    unlimited: Counter[Key]


def _clients_by_default(
    state: QuotaState, principals: Iterable[Principal], keys: Collection[Key]
) -> _KnownClients:
    buckets: set[tuple[Entity, Key, tuple[str, ...]]] = set()
    unlimited = Counter[Key]()
    for principal in principals:
        for effective in resolve(state, principal, keys).effective:
            source = effective.source
            if source is None:
                unlimited[effective.key] += 1
            elif DEFAULT in source:
                buckets.add((source, effective.key, effective.bucket))
    return _KnownClients(Counter((source, key) for source, key, _ in buckets), unlimited)


def _documents(owned: OwnershipRecords, changes: Iterable[QuotaChange] = ()) -> Documents:
    """Return the function that names the document of a limit after some changes."""
    changed = {
        change.pair: "" if change.claim is None else change.claim.document for change in changes
    }

    def document_of(entity: Entity, key: Key) -> str:
        if (name := changed.get((entity, key))) is not None:
            return name
        owner = owned.owner_of((entity, key))
        return "" if owner is None else owner.document

    return document_of


def _shares(
    budget: Budget, state: QuotaState, clients: _KnownClients, document_of: Documents
) -> Mapping[Entity, Share]:
    """Return what each limit of a state contributes to a budget."""
    key, column = budget.key, COLUMN_OF[budget.key]
    shares: dict[Entity, Share] = {}
    for entity, limits in state.limits.items():
        value = limits[column]
        if value is None or not _counts(budget, entity, document_of):
            continue
        is_of_client_id = entity[0] is ABSENT and entity[1] is not ABSENT
        if is_of_client_id and any(state.value(wider, key) is not None for wider in _above(entity)):
            continue
        amount = 1
        if DEFAULT in entity:
            amount = max(clients.by_limit.get((entity, key), 0), budget.assumed_clients, 1)
        shares[entity] = Share(entity, value, amount)
    return shares


def _total(shares: Mapping[Entity, Share]) -> float:
    """Return the sum of shares, which their order does not change."""
    return fsum(share.amount for share in shares.values())


def _above(of_client_id: Entity) -> tuple[Entity, ...]:
    """Return the limits of all users that override a limit of a client-id alone: every client has a user."""
    client_ids = dict.fromkeys((of_client_id[1], DEFAULT, ABSENT))
    return tuple(Entity((DEFAULT, client_id, ABSENT)) for client_id in client_ids)


def _counts(budget: Budget, entity: Entity, document_of: Documents) -> bool:
    """Whether a budget counts the limit of an entity."""
    if budget.entities and not any(pattern.matches(entity) for pattern in budget.entities):
        return False
    if not budget.namespaces:
        return True
    return document_of(entity, budget.key).partition("/")[0] in budget.namespaces


def _raised_by(
    budget: Budget,
    changes: Iterable[QuotaChange],
    old: Mapping[Entity, Share],
    new: Mapping[Entity, Share],
    total: float,
) -> Iterator[tuple[QuotaChange, float | None]]:
    """Yield the largest raises without which the rest fits, with the largest value of each that fits beside the others.

    So one large request does not hold back the small ones of others. A removal raises a sum where its clients fall back to
    a larger limit; then all changes of the key are named.
    """
    own = [change for change in changes if change.key is budget.key]
    raises = {
        change: new[entity].amount - (old[entity].amount if entity in old else 0.0)
        for change in own
        if (entity := change.entity) in new
    }
    raising = [change for change in own if raises.get(change, 0.0) > 0]
    raising.sort(key=lambda change: -raises[change])
    excess = total - max(budget.allowed, _total(old))
    for change in raising or own:
        if excess <= 0 and raising:
            break
        excess -= raises.get(change, 0.0)
        share = new.get(change.entity)
        fits = 0.0 if share is None else share.limit - (total - budget.allowed) / share.clients
        if RULES[budget.key].is_integer:
            fits = float(fits // 1)
        yield change, fits if fits > 0 else None


def observed(use: BudgetUse, *, before: float, after: float, note: str = "") -> BudgetUse:
    """Return the use of a budget by recorded use, in place of what limits promise.

    The values that fit are those of the promised sum, which says nothing of recorded use; they are left out.
    """
    return replace(
        use,
        before=before,
        after=after,
        basis=BudgetMeasure.OBSERVED,
        note=note,
        raised_by=tuple((change, None) for change, _ in use.raised_by),
    )


def with_note(uses: Iterable[BudgetUse], note: str) -> tuple[BudgetUse, ...]:
    """Return the uses with the reason why those that ask for recorded use are promised sums."""
    return tuple(
        replace(use, note=note) if use.basis is not use.budget.basis else use for use in uses
    )


def budget_warnings(uses: Iterable[BudgetUse]) -> Iterator[str]:
    """Yield a sentence for each budget that is exceeded, unless it only reports, or refuses the plan."""
    yield from (use.words for use in uses if use.is_warning and not use.is_refused)
