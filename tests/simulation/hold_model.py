"""An independent implementation of the order of a plan: which changes had to wait, from the results of all changes."""

from collections.abc import Collection, Iterator, Sequence

from reconciler.quota.entity import Entity
from reconciler.quota.ownership import Intent, Pair
from reconciler.quota.planner.plan import QuotaChange
from reconciler.quota.results.report import PairOutcome
from reconciler.quota.state import Alteration, Applied, Held, QuotaState, Unknown, set_values

Clients = dict[Entity, tuple[str, ...]]
Levels = dict[str, tuple[Entity, ...]]


class HoldModel:
    """The rules about waiting, for the clients of a simulation.

    Args:
        clients: Client -> the entities that can apply to it, closest first.
    """

    def __init__(self, clients: Levels) -> None:
        self._clients = clients

    def meets(self, first: Entity, second: Entity) -> bool:
        """Whether both can apply to one client."""
        return any(first in entities and second in entities for entities in self._clients.values())

    def is_closer(self, first: Entity, second: Entity) -> bool:
        """Whether both can apply to one client, and the first has precedence."""
        return any(
            first in entities
            and second in entities
            and entities.index(first) < entities.index(second)
            for entities in self._clients.values()
        )

    def contradiction(
        self,
        outcomes: Collection[PairOutcome],
        *,
        live: QuotaState,
        open_writes: Collection[tuple[Pair, Intent]],
        withheld: Collection[QuotaChange],
        sent: Sequence[Alteration] = (),
    ) -> str:
        """Return a change that was sent although it had to wait, or that waits for nothing; "" = none.

        Args:
            outcomes: The result of each change.
            live: The limits before the first of them.
            open_writes: Earlier writes that may still take effect.
            withheld: Changes that a guard withheld; in place of one an override may have ended.
            sent: All alterations in the order of sending.
        """
        problem = self._wrong_turn(outcomes, sent)
        if problem:
            return problem
        planned = {(o.change.entity, o.change.key): o.change.after for o in outcomes}
        obstacles = [
            pair
            for pair, intent in open_writes
            if pair not in planned or planned[pair] != intent.value
        ]
        # A limit that an earlier write may still remove hides no other.
        removed = {
            pair for pair, intent in open_writes if pair in obstacles and intent.value is None
        }
        certain = {
            (subject, key)
            for subject, limits in live.limits.items()
            for key, _ in set_values(limits)
            if (subject, key) not in removed
        }
        for outcome in outcomes:
            change, result = outcome.change, outcome.result
            if result is None:
                continue
            reasons = self._reasons(change, outcomes, obstacles, withheld, certain)
            must_wait = next(reasons, "")
            if must_wait and not isinstance(result, Held):
                return f"{change.entity} {change.key} -> {change.after} was sent and had to wait for {must_wait}"
            if isinstance(result, Held) and not (
                must_wait or self._may_wait(change, outcomes, withheld)
            ):
                return f"{change.entity} {change.key} waits for nothing"
        return ""

    def _wrong_turn(self, outcomes: Collection[PairOutcome], sent: Sequence[Alteration]) -> str:
        """Return a change that was sent before one that it relies on."""
        turns = {
            (alteration.entity, key, value): turn
            for turn, alteration in enumerate(sent)
            for key, value in alteration.operations
        }
        changes = [
            (turn, outcome.change)
            for outcome in outcomes
            for change in (outcome.change,)
            if (turn := turns.get((change.entity, str(change.key), change.after))) is not None
        ]
        for turn, change in changes:
            for later_turn, later in changes:
                if later_turn > turn and self._precedes(later, change):
                    return f"{change.entity} -> {change.after} was sent before {later.entity} -> {later.after}"
        return ""

    def _reasons(
        self,
        change: QuotaChange,
        outcomes: Collection[PairOutcome],
        obstacles: Collection[Pair],
        withheld: Collection[QuotaChange],
        certain: Collection[Pair],
    ) -> Iterator[str]:
        limited = self._limited(change, outcomes, certain)
        for entity, key in obstacles:
            if entity == change.entity or (
                key == change.key and self.concerns(entity, change.entity, limited)
            ):
                yield f"an earlier write to {entity}"
        for outcome in outcomes:
            earlier = outcome.change
            if isinstance(outcome.result, Applied):
                continue
            is_unsure = isinstance(outcome.result, Unknown) and _turn(change) > _turn(earlier)
            if is_unsure and earlier.entity == change.entity:
                yield f"the write of {earlier.key} of unknown outcome"
            # The end of an override undoes what the product did: what others do not get done does not delay it.
            goes_on = _ends_override(change) and not (
                _ends_override(earlier) or isinstance(outcome.result, Unknown)
            )
            is_concerned = self.concerns(earlier.entity, change.entity, limited)
            if self._precedes(earlier, change) and is_concerned and not goes_on:
                yield f"{earlier.entity} -> {earlier.after}"
        for earlier in () if _ends_override(change) else withheld:
            if self._precedes(earlier, change) and self.concerns(
                earlier.entity, change.entity, limited
            ):
                yield f"{earlier.entity} -> {earlier.after}, which is withheld"

    def _limited(
        self, change: QuotaChange, outcomes: Collection[PairOutcome], certain: Collection[Pair]
    ) -> frozenset[Entity]:
        """Return the entities that certainly have a limit of the key when the change is sent."""
        limited = {subject for subject, key in certain if key is change.key}
        for outcome in outcomes:
            earlier = outcome.change
            if earlier.key is change.key and self._precedes(earlier, change):
                if earlier.removes and isinstance(outcome.result, Applied | Unknown):
                    limited.discard(earlier.entity)
                elif isinstance(outcome.result, Applied) and not earlier.removes:
                    limited.add(earlier.entity)
        return frozenset(limited - ({change.entity} if change.removes else set()))

    def concerns(self, entity: Entity, changed: Entity, limited: Collection[Entity]) -> bool:
        """Whether a client of both has no limit that wins over the wider of the two."""
        for entities in self._clients.values():
            if entity in entities and changed in entities:
                wider = max(entities.index(entity), entities.index(changed))
                if not any(closer in limited for closer in entities[:wider]):
                    return True
        return False

    def _precedes(self, earlier: QuotaChange, change: QuotaChange) -> bool:
        """Whether a change relies on an earlier one."""
        if earlier.key is not change.key or earlier.entity == change.entity:
            return False
        if not change.removes:
            return not earlier.removes and self.is_closer(earlier.entity, change.entity)
        if not earlier.removes:
            return self.meets(earlier.entity, change.entity)
        return self.is_closer(change.entity, earlier.entity)

    def _may_wait(
        self,
        change: QuotaChange,
        outcomes: Collection[PairOutcome],
        withheld: Collection[QuotaChange],
    ) -> bool:
        """Whether a client that is none of these may have to wait, or a removal until an acknowledged change is visible."""
        ends = _ends_override(change)
        waited_for = [
            item.change
            for item in outcomes
            if (change.removes or not isinstance(item.result, Applied))
            and (
                not ends
                or _ends_override(item.change)
                or isinstance(item.result, Applied | Unknown)
            )
        ]
        return any(
            self._precedes(earlier, change)
            for earlier in (*waited_for, *(() if ends else withheld))
        )


def _turn(change: QuotaChange) -> tuple[bool, bool]:
    """Return the turn of a change among those of its entity."""
    return change.removes, _ends_override(change)


def _ends_override(change: QuotaChange) -> bool:
    return change.cause.value == "Ended"
