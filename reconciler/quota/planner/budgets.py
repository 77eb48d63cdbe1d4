"""Budgets: whether what limits promise together fits into what a broker can carry, or a tenant or group may use.

Promised is the sum of all limits that clients can use at the same time on one broker. Kafka applies each limit on every
broker by itself, so every broker has to carry the whole sum. Of each limit counts:

- a limit of named entities: once, because all its clients share it;
- a default limit: once for each known client that it applies to, at least for the assumed number of clients, and once if
  there is none of both: the next client that comes may use it;
- a client-id limit that a limit of all users overrides: not at all, because it applies to no client.

So a client counts with its closest limit alone. Clients without a limit are no part of the sum; their number is reported.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import partial
from heapq import nlargest
from math import floor, fsum, inf
from typing import Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from reconciler.errors import QuotaValueError
from reconciler.quota.entity import ABSENT, DEFAULT, Entity, parts
from reconciler.quota.keys import COLUMN_OF, RULES, Key, quantity
from reconciler.quota.ownership import OwnershipRecords
from reconciler.quota.patterns import EntityPattern
from reconciler.quota.planner.desired_state import DesiredState
from reconciler.quota.planner.plan import Plan, QuotaChange, apply_to
from reconciler.quota.planner.temporary_limits import below_overrides, with_larger_values
from reconciler.quota.precedence import (
    Principal,
    closer_for_all,
    may_share_client,
    principals_with_quotas,
    resolve,
)
from reconciler.quota.state import NO_LIMITS, QuotaState

SHOWN_SHARES: Final = 5  # the largest shares that a report names

ROUNDING: Final = 1 + 1e-9  # tolerance for sums of float64


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
    # The factor by which more may be promised, because clients do not peak together.
    overcommit: float = 1.0
    mode: BudgetMode = BudgetMode.REPORT
    basis: BudgetMeasure = BudgetMeasure.PROMISED
    # Limits of documents of these namespaces only; empty = all.
    namespaces: frozenset[str] = frozenset()
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
        some = "some entities" if self.entities else ""
        whose = f"namespace {', '.join(sorted(self.namespaces))}" if self.namespaces else ""
        return " of ".join(filter(None, (some, whose))) or "the cluster"

    @property
    def is_whole(self) -> bool:
        """Whether it counts all limits of the cluster."""
        return not (self.namespaces or self.entities)


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
    # The entities of the limits that it counts after the plan.
    counted: frozenset[Entity] = frozenset()
    # The largest raises without which the rest fits (of one by recorded use, all), with the largest value that still fits;
    # None = no value does.
    raised_by: tuple[tuple[QuotaChange, float | None], ...] = ()

    @property
    def is_exceeded(self) -> bool:
        """Whether more is promised than allowed."""
        return self.after > self.budget.allowed * ROUNDING

    @property
    def is_worse(self) -> bool:
        """Whether the plan exceeds it, or exceeds it by more than before; recorded use does not show a raise, so any is worse."""
        is_raised = self.basis is BudgetMeasure.OBSERVED and bool(self.raised_by)
        return self.is_exceeded and (is_raised or self.after > self.before * ROUNDING)

    @property
    def is_judged(self) -> bool:
        """Whether its figures have the configured basis; others refuse nothing and raise no alert."""
        return self.basis is self.budget.basis

    @property
    def is_refused(self) -> bool:
        """Whether it refuses the plan."""
        return self.is_worse and self.is_judged and self.budget.mode is BudgetMode.REFUSE

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


def budget_uses(
    plan: Plan,
    budgets: Sequence[Budget],
    live: QuotaState,
    *,
    desired: DesiredState,
    owned: OwnershipRecords,
    logins: Iterable[Principal],
) -> tuple[BudgetUse, ...]:
    """Return the promised use of each budget before and after a plan, in the order of the budgets.

    A pair under a temporary limit counts with the larger of both values: each is in force at some time.

    Args:
        live: All live limits, temporary ones included.
        desired: The documents, to which limits belong by their namespaces.
        owned: The records with the documents of the limits.
        logins: Known clients beside those that have a limit of their own.
    """
    if not budgets:
        return ()
    below, changes = below_overrides(live, owned), plan.reviewed
    states = (
        with_larger_values(live, below, owned.overrides),
        with_larger_values(
            apply_to(live, plan.changes),
            apply_to(below, changes),
            {*owned.overrides, *(item.pair for item in plan.changes if item.is_temporary)},
        ),
    )
    clients = [principals_with_quotas(state).union(logins) for state in states]
    keys = tuple(dict.fromkeys(budget.key for budget in budgets))
    clients_by_state = [_known_clients(*each, keys) for each in zip(states, clients, strict=True)]
    by_namespace = {budget.key for budget in budgets if budget.namespaces}

    def namespace_of(entity: Entity, key: Key, *, is_after: bool) -> str:
        """Return the namespace of the document that owns a limit before, or declares it after; "" of neither, or if no budget asks."""
        sources = desired.claim(entity, key), owned.owner_of((entity, key))
        names = [each.document for each in sources if each and key in by_namespace] or [""]
        return names[0 if is_after else -1].partition("/")[0]

    promises = {
        key: [
            tuple(_promises(state, key, of_state, partial(namespace_of, is_after=bool(at))))
            for at, (state, of_state) in enumerate(zip(states, clients_by_state, strict=True))
        ]
        for key in keys
    }
    return tuple(
        _use(budget, promises[budget.key], clients_by_state[1].unlimited[budget.key], changes)
        for budget in budgets
    )


class _KnownClients(NamedTuple):
    """The known clients of a state: of each default limit, and without a limit."""

    by_limit: Mapping[tuple[Entity, Key], int]
    unlimited: Counter[Key]


class _Promise(NamedTuple):
    """A limit that applies to a client."""

    entity: Entity
    limit: float
    clients: int  # the known clients of a default limit
    namespace: str  # of its document


def _known_clients(
    state: QuotaState, principals: Iterable[Principal], keys: Collection[Key]
) -> _KnownClients:
    buckets: set[tuple[Entity, Key, tuple[str, ...]]] = set()
    unlimited = Counter[Key]()
    columns = [COLUMN_OF[key] for key in keys]
    for principal in principals:
        user, client_id, ip = principal.user, principal.client_id, principal.ip
        own = state.limits.get(
            Entity((user or ABSENT, client_id or ABSENT, ip or ABSENT)), NO_LIMITS
        )
        if None not in [own[column] for column in columns]:
            continue  # Its own limits win, and they are no defaults.
        for effective in resolve(state, principal, keys).effective:
            source = effective.source
            if source is None:
                unlimited[effective.key] += 1
            elif DEFAULT in source:
                buckets.add((source, effective.key, effective.bucket))
    return _KnownClients(Counter((source, key) for source, key, _ in buckets), unlimited)


def _promises(
    state: QuotaState,
    key: Key,
    clients: _KnownClients,
    namespace_of: Callable[[Entity, Key], str],
) -> Iterator[_Promise]:
    """Yield the limits of a key, without those of a client-id that a limit of all users overrides."""
    column = COLUMN_OF[key]
    for entity, limits in state.limits.items():
        value = limits[column]
        if value is None:
            continue
        is_of_client_id = entity[0] is ABSENT and entity[1] is not ABSENT
        if is_of_client_id and any(
            state.value(closer, key) is not None for closer in closer_for_all(entity)
        ):
            continue
        number = clients.by_limit.get((entity, key), 0) if DEFAULT in entity else 1
        yield _Promise(entity, value, number, namespace_of(entity, key))


def _shares(budget: Budget, promises: Iterable[_Promise]) -> Mapping[Entity, Share]:
    """Return what each limit contributes to a budget."""
    return {
        entity: Share(
            entity,
            value,
            max(number, budget.assumed_clients, 1) if DEFAULT in entity else 1,
        )
        for entity, value, number, namespace in promises
        if (not budget.namespaces or namespace in budget.namespaces)
        and (not budget.entities or any(pattern.matches(entity) for pattern in budget.entities))
    }


def _use(
    budget: Budget,
    promises: Sequence[Sequence[_Promise]],
    unlimited: int,
    changes: Sequence[QuotaChange],
) -> BudgetUse:
    old, new = (_shares(budget, of_state) for of_state in promises)
    use = BudgetUse(
        budget=budget,
        before=_total(old),
        after=_total(new),
        basis=BudgetMeasure.PROMISED,
        note="" if budget.basis is BudgetMeasure.PROMISED else "no recorded use was read",
        largest=tuple(nlargest(SHOWN_SHARES, new.values(), key=lambda share: share.amount)),
        unlimited=unlimited if budget.is_whole else 0,
        counted=frozenset(new),
    )
    if not (use.is_worse or budget.basis is BudgetMeasure.OBSERVED):
        return use
    return replace(use, raised_by=tuple(_raised_by(use, changes, old, new)))


def _total(shares: Mapping[Entity, Share]) -> float:
    """Return the sum of shares, which their order does not change."""
    try:
        return fsum(share.amount for share in shares.values())
    except OverflowError:
        return inf


def _raised_by(
    use: BudgetUse,
    changes: Iterable[QuotaChange],
    old: Mapping[Entity, Share],
    new: Mapping[Entity, Share],
) -> Iterator[tuple[QuotaChange, float | None]]:
    """Yield the largest raises without which the rest fits, with the largest value of each that fits beside the others.

    The namespace that raises most in all gives way first: neither one large request nor many hold back those of others. If
    that is not enough, removals raise the sum, because their clients fall back to a default; never a limit that becomes
    smaller. For recorded use all raises are yielded.
    """
    own = [change for change in changes if change.key is use.budget.key]
    amounts = {entity: share.amount for entity, share in old.items()}
    grown = {
        entity: share.amount - amounts.get(entity, 0.0)
        for entity, share in new.items()
        if share.amount > amounts.get(entity, 0.0)
    }
    excess, most = use.after, max(use.budget.allowed, use.before)
    if use.budget.basis is BudgetMeasure.OBSERVED:
        most = -inf  # what is recorded is compared later
    raising = [change for change in own if change.entity in grown]
    of_namespace = dict.fromkeys((change.namespace for change in raising), 0.0)
    for change in raising:
        of_namespace[change.namespace] += grown[change.entity]
    raising.sort(key=lambda change: (-of_namespace[change.namespace], -grown[change.entity]))
    for change in raising:
        if excess <= most:
            return
        excess -= grown[change.entity]
        share = new[change.entity]
        yield change, _fitting(change, share.limit - (use.after - most) / share.clients)
    if excess > most:
        defaults = [parts(entity) for entity in grown if DEFAULT in entity]
        for change in own:
            if change.removes and any(may_share_client(each, change.entity) for each in defaults):
                yield change, None


def _fitting(change: QuotaChange, value: float) -> float | None:
    """Return the largest value of a raise that fits, in digits that people write; ``None`` = none above the one before."""
    if not value > (change.before or 0.0):
        return None
    unit = 1.0 if RULES[change.key].is_integer else 1000.0
    return floor(value * unit) / unit or None


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


def budget_warnings(uses: Iterable[BudgetUse]) -> Iterator[str]:
    """Yield a sentence for each budget that is exceeded, unless it only reports or refuses, and for each that counts nothing."""
    for use in uses:
        if use.is_warning and not use.is_refused:
            yield use.words
        if not (use.before or use.after or use.budget.is_whole):
            yield f"budget {use.budget.name} counts no limit: no {use.budget.key} of {use.budget.scope} is declared"
