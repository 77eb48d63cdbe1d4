"""The driver of sequences: reconciliations of a cluster in memory."""

import asyncio
import contextlib
from collections.abc import Mapping

from msgspec.structs import replace

from reconciler.codecs.outcome import outcome_document, read_undo
from reconciler.errors import ManifestErrors, PlanRefused, StalePlan
from reconciler.quota.entity import DEFAULT, Entity, entity
from reconciler.quota.keys import COLUMN_OF, Key
from reconciler.quota.ownership import OwnershipRecords
from reconciler.quota.patterns import EntityPattern, NamePattern
from reconciler.quota.planner.desired_state import Declaration, DesiredState, merge
from reconciler.quota.planner.plan import QuotaChange
from reconciler.quota.policy import DeletionPolicy, DriftMode, Policy, Rules
from reconciler.quota.results.report import Reconciliation
from reconciler.quota.state import limits_of
from reconciler.reconcile import (
    NewOverride,
    ReconcileOptions,
    SavedPlan,
    apply,
    check_approved,
    observe,
    prepare,
    rollback_orders,
)
from reconciler.reconcile.drift import as_applied, correctable_pairs, observe_drift
from reconciler.render.json_values import dump
from tests.policies import CHANGING
from tests.reconcile import scenarios
from tests.sequences.commands import Command, Seen
from tests.sequences.model import NARROW, WIDER, Document, State

KEY = Key.PRODUCER_BYTE_RATE
ENTITIES: Mapping[str, Entity] = {
    "alice": entity(user="alice"),
    "alice/shop": entity(user="alice", client_id="shop"),
    "bob": entity(user="bob"),
    "anyone": entity(user=DEFAULT),
}
SUBJECT_OF = {subject: name for name, subject in ENTITIES.items()}
ALICE = EntityPattern(user=NamePattern(exact="alice"))
HOUR = 3600.0


def records_of(owned: OwnershipRecords) -> dict[str, tuple[float, str, bool] | None]:
    """The records of the four entities."""
    column = COLUMN_OF[KEY]
    records: dict[str, tuple[float, str, bool] | None] = dict.fromkeys(WIDER)
    for subject, record in owned.records.items():
        applied, owner = record.applied[column], record.owners[column]
        if applied is not None and owner is not None:
            name = owner.document.removeprefix("team/")
            records[SUBJECT_OF[subject]] = (applied, name, (subject, KEY) in owned.orphaned)
    return records


def declaration(name: str, document: Document) -> Declaration:
    """A document as the loader returns it."""
    return Declaration(
        document=f"team/{name}",
        entity=ENTITIES[document.subject],
        limits=limits_of({KEY: document.value}),
        deletion_policy=None if document.deletion == "unset" else DeletionPolicy(document.deletion),
        suspended=document.is_suspended,
    )


class MemoryDriver:
    """Reconciliations of a cluster in memory, as the commands make them.

    Args:
        runner: The event loop, which many drivers share.
    """

    def __init__(self, runner: asyncio.Runner) -> None:
        self.runner = runner
        self.world = scenarios.World()
        self.saved: SavedPlan | None = None
        self.changes: tuple[QuotaChange, ...] = ()
        self.desired = DesiredState()
        self.options = ReconcileOptions()

    def run(self, command: Command, state: State) -> None:
        """Run a command on the documents and rules of a state."""
        self.desired, self.options = self.desired_of(state), self.options_of(state)
        work = getattr(self, command.name, None)
        if work is not None:
            with contextlib.suppress(ManifestErrors, PlanRefused, StalePlan):
                self.runner.run(work(*command.arguments, **dict(command.options)))

    def desired_of(self, state: State) -> DesiredState:
        """The documents of a state."""
        return merge(declaration(*item) for item in state.documents.items())

    def options_of(self, state: State) -> ReconcileOptions:
        """The rules of a state."""
        is_sync = state.policy in {"Sync", "Unconfirmed"}
        rules = Rules(
            policy=Policy.SYNC if is_sync else Policy(state.policy),
            sync_confirmed=state.policy == "Sync",
            scope=(ALICE,) if state.scope == NARROW else (),
        )
        return replace(self.world.orders, rules=rules, assess=False, advise=False)

    def limits(self) -> Mapping[str, Seen]:
        """The limits as they are."""
        loading = self.world.inventory.load(self.world.cluster.cluster_id)
        records = records_of(self.runner.run(loading))
        live = self.world.cluster.truth
        return {
            name: Seen(live.value(subject, KEY), records[name])
            for name, subject in ENTITIES.items()
        }

    async def write(self, subject: str, value: float | None) -> None:
        """Another writer sets or removes a limit."""
        self.world.cluster.write(ENTITIES[subject], KEY, value)

    async def apply(self, *, corrects: bool = False) -> None:
        """Apply the documents."""
        drift = DriftMode.CORRECT if corrects else DriftMode.WARN
        await self._apply(replace(self.options, rules=replace(self.options.rules, drift=drift)))

    async def _apply(self, options: ReconcileOptions) -> None:
        await self._send(options, self.desired)

    async def _send(
        self, options: ReconcileOptions, desired: DesiredState, *, is_kept: bool = True
    ) -> None:
        prepared = await prepare(self.world.ports, options, desired)
        outcome = await apply(self.world.ports, options, prepared)
        if is_kept and outcome.pairs:
            text = dump(outcome_document(outcome))
            self.changes = read_undo(text, location="outcome.json").changes

    async def save_plan(self) -> None:
        """Save a plan for review."""
        self.saved = None
        prepared = await prepare(self.world.ports, self.options, self.desired)
        self.saved = None if prepared.plan.conflicts else prepared.preview

    async def apply_saved(self) -> None:
        """Apply the saved plan if it still has the same effect."""
        if self.saved is None:
            return
        prepared = await prepare(self.world.ports, self.options, self.desired)
        now = self.world.ports.clock.now()
        check_approved(self.saved, prepared.preview, now=now)
        await self._apply(self.options)

    async def correct(self) -> None:
        """Correct drift, as the watcher does."""
        if self.options.rules.policy not in CHANGING:
            return
        observed = await observe_drift(
            self.world.ports, self.options, self.desired, cluster="prod", notes=True
        )
        pairs = self.corrected_pairs(observed)
        if pairs:
            rules = replace(self.options.rules, policy=Policy.UPSERT, drift=DriftMode.CORRECT)
            options = replace(
                self.options, rules=rules, only=lambda subject, key: (subject, key) in pairs
            )
            await self._send(options, self.desired, is_kept=False)

    def corrected_pairs(self, observed: Reconciliation) -> frozenset[tuple[Entity, Key]]:
        """The pairs that a correction writes."""
        assert observed.preview is not None
        return correctable_pairs(observed.preview.plan, self.desired, observed.expired_overrides)

    async def override(self, subject: str, value: float | None) -> None:
        """Begin a temporary limit."""
        begun = NewOverride(
            entity=ENTITIES[subject],
            key=KEY,
            value=value,
            until=self.world.ports.clock.now() + HOUR,
            principal="eve",
            reason="INC-1",
        )
        await self._begin((begun,))

    async def roll_back(self) -> None:
        """Restore what was there before the last command that wrote to the cluster."""
        now = self.world.ports.clock.now()
        await self._begin(rollback_orders(self.changes, now=now, principal="eve", reason="undo"))

    async def _begin(self, begun: tuple[NewOverride, ...]) -> None:
        pairs = {(item.entity, item.key) for item in begun}
        options = replace(
            self.options, overrides=begun, only=lambda subject, key: (subject, key) in pairs
        )
        if begun and self.options.rules.policy is not Policy.OBSERVE:
            await self._send_temporary(options)

    async def end(self, subject: str) -> None:
        """End a temporary limit."""
        pair = ENTITIES[subject], KEY
        owned = await self.world.inventory.load(self.world.cluster.cluster_id)
        if pair in owned.overrides and self.options.rules.policy is not Policy.OBSERVE:
            options = replace(
                self.options,
                ended=frozenset([pair]),
                only=lambda subject, key: (subject, key) == pair,
            )
            await self._send_temporary(options)

    async def _send_temporary(self, options: ReconcileOptions) -> None:
        """Begin or end with the documents; in their place with what was applied, where they contradict each other."""
        desired = self.desired
        if desired.conflicts:
            options = replace(options, rules=replace(options.rules, complete=False))
            desired = as_applied(await observe(self.world.ports, options))
        await self._send(options, desired)
