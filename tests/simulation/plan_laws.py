"""Laws of plans and outcomes: each plan follows the rules, and each outcome reports the result of each change."""

from collections import Counter, deque
from collections.abc import Collection, Sequence
from itertools import product

from reconciler.quota.entity import Entity
from reconciler.quota.keys import Key
from reconciler.quota.ownership import Pair
from reconciler.quota.planner.guards import Guard, Guards
from reconciler.quota.planner.plan import QuotaChange
from reconciler.quota.planner.removal_guard import RemovalCount
from reconciler.quota.results.report import Outcome, Preview, Reconciliation, WithheldChange
from reconciler.quota.state import Alteration, QuotaState, Visibility
from tests.simulation.brokers import SimulatedBrokers
from tests.simulation.guard_model import refusal_of, refusals
from tests.simulation.hold_model import HoldModel
from tests.simulation.laws import CLIENTS, NAMES, LawBroken, Laws, names_of
from tests.simulation.plan_model import SETTLING, PlanInputs, PlanModel, whole

HOUR = 3_600.0
TENANTS, LEAST_OWNED = 5, 20

OF_REMOVALS = frozenset({Guard.MAX_REMOVALS, Guard.MAX_REMOVED_SHARE})

LONGEST_LAG = 70.0
"""Seconds for which a stopped broker shows an earlier state, and some more."""


class PlanLaws:
    """The laws of plans and outcomes of one world.

    Args:
        laws: The history of the world.
        brokers: Its brokers.
    """

    def __init__(self, laws: Laws, brokers: SimulatedBrokers) -> None:
        self._laws, self._brokers = laws, brokers
        self._holds = HoldModel(dict(CLIENTS))
        self._recent: deque[tuple[object, ...]] = deque(maxlen=3)

    def prepared(self, inputs: PlanInputs, preview: Preview, guards: Guards) -> None:
        """Check a plan and the violations of its guards, unless one of the last had the same inputs and result."""
        owned, rules = inputs.owned, inputs.rules
        compared = (
            *(inputs.documents, owned, inputs.live, rules, inputs.only),
            *(guards, preview.plan, preview.violations),
            # What depends on the time of the describe:
            [inputs.at < override.until for override in owned.overrides.values()],
            [inputs.at < intent.at + SETTLING for intent in owned.intents.values()],
            [rule.until is None or inputs.at < rule.until for rule in rules.ignore],
        )
        if compared in self._recent:
            return
        self._recent.append(compared)
        model = PlanModel(inputs)
        problem = model.contradiction(preview.plan)
        if problem:
            raise LawBroken(f"a plan against the rules: {problem}")
        self.guarded(inputs, preview, guards, model.owned_pairs)

    def guarded(
        self,
        inputs: PlanInputs,
        preview: Preview,
        guards: Guards,
        owned_pairs: int,
        *,
        unknown: Collection[str] = (),
    ) -> None:
        """Check the violations of the guards by a plan, except those of guards whose value is unknown."""
        overrides = inputs.owned.overrides
        expected = refusals(preview.plan, guards, inputs.live, owned_pairs, overrides)
        actual = {refusal_of(violation) for violation in preview.violations}
        expected, actual = (
            {refusal for refusal in refused if refusal[0] not in unknown}
            for refused in (expected, actual)
        )
        if actual != expected:
            raise LawBroken(
                f"guards against the rules: refused {sorted(map(str, actual - expected))},"
                f" not refused {sorted(map(str, expected - actual))}"
            )

    def applied(
        self,
        inputs: PlanInputs,
        outcome: Outcome,
        withheld: Collection[WithheldChange],
        sent: Sequence[Alteration] = (),
    ) -> None:
        """Check the order in which a plan was sent."""
        now = outcome.started_at
        open_writes = [
            (pair, intent)
            for pair, intent in inputs.owned.intents.items()
            if now < intent.at + SETTLING
            and whole(pair[1], intent.value) != whole(pair[1], inputs.live.value(*pair))
        ]

        def is_overridden(pair: Pair) -> bool:
            """Whether a change waits for the end of an override: it would not be sent, so nothing waits for it."""
            override = inputs.owned.overrides.get(pair)
            return override is not None and now < override.until

        problem = self._holds.contradiction(
            outcome.pairs,
            live=inputs.live,
            open_writes=open_writes,
            withheld=[each.change for each in withheld if not is_overridden(each.change.pair)],
            sent=sent,
        )
        if problem:
            raise LawBroken(f"a plan is sent against the order: {problem}")

    def alters(
        self,
        alterations: Sequence[Alteration],
        unseen: Sequence[Alteration],
        described: QuotaState | None = None,
    ) -> None:
        """Check that removals are not sent before every broker shows the sets that they rely on.

        Args:
            alterations: What is about to be sent.
            unseen: What was acknowledged and may not be visible everywhere.
            described: The quotas that the process described before.
        """
        for removal, change in product(alterations, unseen):
            removed_keys = {key for key, value in removal.operations if value is None}
            set_keys = {key for key, value in change.operations if value is not None}
            if any(
                self._holds.concerns(
                    change.entity,
                    removal.entity,
                    self._limited(Key(key), removal, described or QuotaState()),
                )
                for key in removed_keys & set_keys
            ):
                raise LawBroken(
                    f"a removal of {removal.entity} is sent before every broker shows {change.entity}"
                )

    def _limited(self, key: Key, removal: Alteration, described: QuotaState) -> Collection[Entity]:
        """Return the entities with a limit of the key, but for the removed one.

        A limit that another writer removed after the describe counts: the process cannot know.
        """
        values = self._brokers.image.values
        return {
            entity
            for entities in CLIENTS.values()
            for entity in entities
            if entity != removal.entity
            and (
                key in values.get(names_of(entity), {})
                or (described.value(entity, key) is not None and self._is_of_another((entity, key)))
            )
        }

    def _is_of_another(self, pair: Pair) -> bool:
        """Whether another writer changed the quota key last."""
        changes = self._laws.timeline.get(pair)
        return bool(changes) and not self._laws.is_own(changes[-1][2])

    def accepted(self, preview: Preview) -> None:
        """Check that no guard refuses what a command applied."""
        if preview.violations:
            raise LawBroken(
                f"a command applies a plan that a guard refuses: {preview.violations[0].message}"
            )

    def withheld(
        self,
        inputs: PlanInputs,
        reconciliation: Reconciliation,
        counts: Sequence[RemovalCount],
        guards: Guards,
    ) -> None:
        """Check that a loop withholds all removals of a tenant exactly if they are too many.

        Args:
            inputs: The inputs of the plan.
            reconciliation: Its result.
            counts: The removals that were counted before it.
            guards: The guards.
        """
        recent = {
            row.tenant: row.count for row in counts if row.at > reconciliation.started_at - HOUR
        }
        owned = Counter(owner.document.partition("/")[0] for _, owner in inputs.owned.owners())
        # The loop counts a removal of unknown outcome once, unless its process has ended meanwhile.
        requested = Counter(
            _tenant_of(change)
            for change in _removals_of(reconciliation)
            if change.pair not in inputs.owned.intents
        )
        excessive = {
            tenant
            for tenant, number in requested.items()
            for earlier in (recent.get(tenant, 0),)
            if _is_excessive(number + earlier, owned[tenant] + earlier, guards.max_removals, guards)
        }
        remaining = sum(number for tenant, number in requested.items() if tenant not in excessive)
        if _is_excessive(remaining, owned.total(), TENANTS * guards.max_removals, guards):
            excessive = set(requested)
        withheld = {
            withheld.change.pair: {violation.guard for violation in withheld.violations}
            for withheld in reconciliation.withheld
        }
        for change in _removals_of(reconciliation):
            if change.pair in inputs.owned.intents:
                continue
            tenant, refusals = _tenant_of(change), withheld.get(change.pair, set())
            if tenant in excessive and requested[tenant] and not refusals:
                raise LawBroken(
                    f"a removal is made although {tenant!r} asks for too many: {change}"
                )
            if tenant not in excessive and refusals & OF_REMOVALS and not inputs.owned.intents:
                raise LawBroken(f"a removal is withheld although {tenant!r} asks for few: {change}")

    def visible(
        self,
        began: float,
        nodes: frozenset[int],
        expected: Sequence[Alteration],
        visibility: Visibility,
    ) -> None:
        """Check what a wait says about the brokers that ran all the time."""
        named = {*visibility.visible, *visibility.lagging, *visibility.unreachable}
        missing = (nodes & self._brokers.running()) - named
        if missing:
            raise LawBroken(f"a wait for visibility does not mention running brokers: {missing}")
        for node in visibility.visible:
            image = self._brokers.cluster.brokers[node].visible_image
            for alteration in expected:
                names = NAMES.get(alteration.entity) or names_of(alteration.entity)
                values = image.values.get(names, {})
                for key, value in alteration.operations:
                    pair = alteration.entity, Key(key)
                    is_disturbed = any(
                        at > began - LONGEST_LAG
                        and whole(pair[1], changed) != whole(pair[1], value)
                        for at, changed, _ in self._laws.timeline[pair]
                    )
                    if not is_disturbed and whole(pair[1], values.get(key)) != whole(
                        pair[1], value
                    ):
                        raise LawBroken(
                            f"a broker counts as showing what it does not show: {node},"
                            f" {alteration.entity} {key} -> {value}"
                        )


def _is_excessive(number: int, owned: int, most: int, guards: Guards) -> bool:
    share = 100 * number > guards.max_removed_percent * owned
    return number > most or (number > 0 and owned >= LEAST_OWNED and share)


def _is_of_override(change: QuotaChange) -> bool:
    """Whether the change begins, corrects or ends an override, whose removals no guard counts."""
    return change.of_override or change.cause.value in {"Override", "Ended"}


def _removals_of(reconciliation: Reconciliation) -> list[QuotaChange]:
    """Return the planned removals that the guard counts."""
    plan = () if reconciliation.preview is None else reconciliation.preview.plan.changes
    waiting = set(reconciliation.waiting)
    return [
        change
        for change in plan
        if change.removes and not _is_of_override(change) and change not in waiting
    ]


def _tenant_of(change: QuotaChange) -> str:
    return "" if change.owner is None else change.owner.document.partition("/")[0]
