"""The drivers of sequences: reconciliations of a cluster in memory, and the command line on a broker."""

import asyncio
import contextlib
import io
import itertools
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace

from reconciler.app.clusters.targets import target
from reconciler.app.loop.cluster_loop import LoopTrigger
from reconciler.app.loop.service import NoWatchMetrics
from reconciler.app.requests import TargetRequest
from reconciler.app.watch.drift import DriftWatchOptions, DriftWork
from reconciler.base.clock import SystemClock
from reconciler.cli import main
from reconciler.errors import ManifestErrors, PlanRefused, StalePlan, UsageError
from reconciler.inventory.file import FileInventory, RecordsFile
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
from tests.cli.projects import PROJECT, manifests, quota
from tests.reconcile import scenarios
from tests.sequences.commands import Command, Seen
from tests.sequences.model import NARROW, WIDER, Document, State
from tests.servers import raw_quotas

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
        self.changes: list[QuotaChange] = []
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
        await self._send(options, self.desired, is_kept=True)

    async def _send(
        self, options: ReconcileOptions, desired: DesiredState, *, is_kept: bool = False
    ) -> None:
        prepared = await prepare(self.world.ports, options, desired)
        outcome = await apply(self.world.ports, options, prepared)
        if is_kept and outcome.pairs:
            self.changes = [item.change for item in outcome.pairs]

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
        if self.options.rules.policy in {Policy.OBSERVE, Policy.CREATE_ONLY}:
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
            await self._send(options, self.desired)

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
        """Restore what was there before the last apply."""
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


CLUSTER = """\
---
apiVersion: kafka-quotas.io/v1alpha1
kind: QuotaCluster
metadata: {{name: prod}}
spec:
  bootstrapServers: 127.0.0.1:{port}
  expectedClusterId: {cluster_id}
  policy: {policy}
  guards: {{maxRemovals: 100, maxRemovedPercent: 100, protectDefaults: false}}
"""
IN_YAML = {
    "alice": "{user: {name: alice}}",
    "alice/shop": "{user: {name: alice}, clientId: {name: shop}}",
    "bob": "{user: {name: bob}}",
    "anyone": "{user: {default: true}}",
}
RAW = {
    "alice": raw_quotas.entity(user="alice"),
    "alice/shop": raw_quotas.entity(user="alice", client_id="shop"),
    "bob": raw_quotas.entity(user="bob"),
    "anyone": raw_quotas.entity(user=None),
}
EXPECTED_CODES = frozenset({0, 2, 3, 4})
TYPED = {
    "alice": "user=alice",
    "alice/shop": "user=alice,client-id=shop",
    "bob": "user=bob",
    "anyone": "user=<default>",
}


class CommandLineDriver:
    """The command line in this process, in a folder of a project that is rewritten for each command.

    Args:
        folder: An empty folder, which is the current one.
        port: The port of a broker without quotas.
        cluster_id: Its cluster id.
    """

    def __init__(self, folder: Path, port: int, cluster_id: str) -> None:
        self.folder, self.port, self.cluster_id = folder, port, cluster_id
        (folder / "quotas").mkdir()

    def run(self, command: Command, state: State) -> None:
        """Run a command on the documents and rules of a state."""
        is_sync = state.policy in {"Sync", "Unconfirmed"}
        policy = "Sync" if is_sync else state.policy
        text = CLUSTER.format(port=self.port, cluster_id=self.cluster_id, policy=policy)
        if state.policy == "Sync":
            text += f"  confirmSync: {self.cluster_id}\n"
        if state.scope == NARROW:
            text += "  scope: [{user: {exact: alice}}]\n"
        (self.folder / "kquota.yaml").write_text(PROJECT + text, encoding="utf-8")
        manifests(self.folder, *(self._document(*item) for item in state.documents.items()))
        work = getattr(self, command.name, None)
        if work is not None:
            work(*command.arguments, **dict(command.options))

    @classmethod
    def factory(
        cls, folder: Path, monkeypatch: pytest.MonkeyPatch, port: int, cluster_id: str
    ) -> Callable[[], "CommandLineDriver"]:
        """Return a function that returns a driver on a cleared broker, with a folder of its own as the current one."""
        monkeypatch.delenv("CI", raising=False)
        numbers = itertools.count()

        def start() -> CommandLineDriver:
            raw_quotas.clear(port)
            own = folder / str(next(numbers))
            own.mkdir()
            monkeypatch.chdir(own)
            return cls(own, port, cluster_id)

        return start

    def _document(self, name: str, document: Document) -> str:
        more = "" if document.deletion == "unset" else f"  deletionPolicy: {document.deletion}\n"
        more += "  suspend: true\n" if document.is_suspended else ""
        limits = f"{{producerByteRate: {document.value:.0f}}}"
        return quota(name, limits, entity=IN_YAML[document.subject], more=more)

    def kquota(self, *words: str) -> int:
        """Run a command line; return its exit code."""
        output = io.StringIO()
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            code = main.main([*words])
        text = output.getvalue()
        assert code in EXPECTED_CODES or "set the same quota key" in text, (
            f"{words}: {code}: {text}"
        )
        return code

    def limits(self) -> Mapping[str, Seen]:
        """The limits as the broker shows them, and the records in the project's file."""
        live = raw_quotas.describe(self.port)
        inventory = FileInventory(
            RecordsFile(self.folder / ".kquota/inventory.json"), clock=SystemClock()
        )
        records = records_of(asyncio.run(inventory.load(self.cluster_id)))
        return {name: Seen(live.get(raw, {}).get(KEY), records[name]) for name, raw in RAW.items()}

    def write(self, subject: str, value: float | None) -> None:
        """Another writer sets or removes a limit."""
        raw_quotas.set_quotas(self.port, {RAW[subject]: {KEY: value}})

    def apply(self, *, corrects: bool = False) -> None:
        """`kquota apply`."""
        more = ["--correct-drift"] if corrects else []
        self.kquota("apply", "--yes", "--allow-empty", "--out", "outcome.json", *more)

    def save_plan(self) -> None:
        """`kquota plan --out`."""
        (self.folder / "plan.json").unlink(missing_ok=True)
        self.kquota("plan", "--allow-empty", "--out", "plan.json")

    def apply_saved(self) -> None:
        """`kquota apply plan.json`."""
        if (self.folder / "plan.json").exists():
            self.kquota("apply", "plan.json", "--yes", "--allow-empty")

    def correct(self) -> None:
        """One observation of `kquota drift --watch --correct-drift`."""
        watching = DriftWatchOptions(interval=None, confirm_after=1, correct=True, read_only=False)

        async def observe() -> None:
            with contextlib.suppress(UsageError):  # the policy corrects nothing
                work = DriftWork(
                    target(TargetRequest()),
                    watching,
                    telemetry=NoWatchMetrics(),
                    clock=SystemClock(),
                )
                cluster = work.watched_cluster()
                await cluster.work(LoopTrigger())
                await cluster.close()

        asyncio.run(observe())

    def override(self, subject: str, value: float | None) -> None:
        """`kquota override`."""
        typed = "unset" if value is None else f"{value:.0f}"
        words = ("--for", "1h", "--reason", "INC-1", "--new-entity", "--yes")
        self.kquota("override", TYPED[subject], f"{KEY}={typed}", *words)

    def end(self, subject: str) -> None:
        """`kquota override end`."""
        self.kquota("override", "end", TYPED[subject], "--yes")

    def roll_back(self) -> None:
        """`kquota rollback` of the last apply."""
        if (self.folder / "outcome.json").exists():
            self.kquota("rollback", "outcome.json", "--reason", "undo", "--yes")
