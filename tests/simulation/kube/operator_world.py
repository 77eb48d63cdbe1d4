"""A simulation of operators: two replicas, an API server, brokers, users of both; checked by the laws until it converges."""

import asyncio
import contextvars
import random
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar

from reconciler.errors import KquotaError, TaskDied
from reconciler.kube.api.resource_paths import CLIENT_QUOTA_DEFINITION
from reconciler.kube.records.config_maps import read
from reconciler.quota.keys import Key
from reconciler.quota.policy import DeletionPolicy
from tests.policies import CHANGING
from tests.simulation import actors
from tests.simulation.brokers import CLUSTER_ID, Commit
from tests.simulation.convergence import difference
from tests.simulation.kube.api_faults import API_TABLE, LEASE_FAULTS
from tests.simulation.kube.api_network import ApiNetwork
from tests.simulation.kube.api_server import ApiServer, ApiWrite, Obj, Place
from tests.simulation.kube.command_line import CommandLine, break_glass, pipeline
from tests.simulation.kube.lease_time import LeaseTime
from tests.simulation.kube.logins import (
    FIRST_PASSWORD,
    FIRST_USER,
    SPEC,
    LoginLaws,
    Logins,
    reveals_password,
    security,
)
from tests.simulation.kube.operator_laws import OperatorLaws, condition
from tests.simulation.kube.operators import Candidate, run_operator
from tests.simulation.kube.people import (
    administrator,
    edit_status,
    night_shift,
    request_reconciliation,
)
from tests.simulation.kube.resources import (
    CLUSTER,
    ENTITIES,
    FINALIZER,
    NAME_OF,
    TEAM,
    client_quota,
    declarations,
    document_of,
    is_terminating,
    quota_cluster,
)
from tests.simulation.plan_laws import PlanLaws
from tests.simulation.processes import CURRENT, ProcessKilled, SimulatedProcess
from tests.simulation.scenario import KEYS, Scenario
from tests.simulation.world import LONG_INTERVAL, World

REPLICAS = ("operator-a", "operator-b")
LEASE_CHECK_SECONDS = 2.0
"""Interval at which it is checked whether the time of the candidates may stand still."""

RETRY_SECONDS = 900.0
"""Time after the last fault in which retries have released every deleted document, without a resync."""

RESYNC_INTERVALS = 1.2
"""Time within which a resync begins, in intervals of the loop."""

RESTART_SECONDS = (1.0, 1.0, 10.0, 40.0)
"""Times until a pod restarts."""


class OperatorWorld(World):
    """A running simulation of operators."""

    fault_table: ClassVar[Mapping[str, Callable[[Any], None]]] = API_TABLE
    client_keys = KEYS
    healed_interval = LONG_INTERVAL
    laws: OperatorLaws

    def __init__(self, scenario: Scenario) -> None:
        super().__init__(scenario)
        self.replicas = REPLICAS
        self.laws = OperatorLaws(
            self.settings.rules, self.brokers.image, max_removals=self.settings.removals
        )
        self.plan_laws = PlanLaws(self.laws, self.brokers)
        self.server = ApiServer(self.clock.now)
        self.api = ApiNetwork(self.loop, self.server, scenario.chance("api"))
        self.server.on_write, self.server.on_post = self._on_write, self._on_post
        self.server.on_repetition = self._on_repetition
        self.lease_time = LeaseTime(self.loop)
        self._undisturbed_at = 0.0
        self._lease_check: asyncio.TimerHandle | None = None
        self.clock_steps: dict[str, float] = {}
        self.stops: dict[str, asyncio.Event] = {}
        self.candidates: dict[str, Candidate] = {}
        self.writes = 0
        self.at_rest = False
        self.logins = Logins(self.server, self.users) if self.users else None
        self.login_laws = LoginLaws()
        self.api.on_secret = self.login_laws.secret_read
        self.brokers.on_request = self._on_request
        self.command_line = CommandLine(self)
        self.file_laws = self.command_line.laws
        self.entities = tuple(
            entity for entity in ENTITIES if entity not in self.command_line.entities
        )

    def first_users(self) -> dict[str, str]:
        has_login = self.scenario.chance("login").random() < 0.4
        return {FIRST_USER: FIRST_PASSWORD} if has_login else {}

    # -- operators -----------------------------------------------------------------------------------

    async def operate(self) -> None:
        """Start all replicas."""
        for replica in self.replicas:
            self._start(replica)

    def _start(self, replica: str) -> None:
        if self.calm:
            return
        process = self.process(replica)
        self.trace(process.name, "starts")
        self.disturb(self.loop.time())
        stop = self.stops[process.name] = asyncio.Event()
        task = process.start(run_operator(self, process, replica, stop))
        task.add_done_callback(partial(self._operator_ended, process))

    def _operator_ended(self, process: SimulatedProcess, task: asyncio.Task[None]) -> None:
        if self.calm or not process.alive:
            return
        error = None if task.cancelled() else task.exception()
        cause = error.reason if isinstance(error, TaskDied) else error
        if cause is not None and not isinstance(cause, KquotaError | ProcessKilled):
            self._break(f"an operator died: {type(cause).__name__}: {cause}")
        process.kill()

    def _on_kill(self, process: SimulatedProcess) -> None:
        self.trace(process.name, "is gone")
        self.go_on(process)
        self.laws.ended(self.clock.now(), process.name)
        self.command_line.ended(process)
        replica = process.name.rpartition("-")[0]
        if replica in self.replicas:
            self.disturb(self.loop.time())
            _ = self.stops.pop(process.name, None)
            wait = self.scenario.chance(f"restart {process.name}").choice(RESTART_SECONDS)
            self.loop.call_later(wait, self._start, replica)

    def pause(self, process: SimulatedProcess, until: float) -> None:
        """Pause a process until a time of the loop."""
        if process.paused_calls is None:
            process.paused_calls = []
            self.loop.hold = _hold
            self.trace(process.name, "is paused")
            self.loop.call_at(until, self.go_on, process)

    def go_on(self, process: SimulatedProcess) -> None:
        """Resume a paused process."""
        calls, process.paused_calls = process.paused_calls, None
        if calls is not None:
            self.trace(process.name, "goes on")
            self.loop.go_on(calls)

    def begins(self, fault: str, until: float) -> None:
        if fault in LEASE_FAULTS:
            self.disturb(until)

    def disturb(self, until: float) -> None:
        """Let the time of the candidates pass at least until a time of the loop."""
        self.lease_time.go_on()
        self._undisturbed_at = max(self._undisturbed_at, until)
        if self._lease_check is None:
            self._lease_check = self.loop.call_later(
                LEASE_CHECK_SECONDS, self._rest_lease, context=contextvars.Context()
            )

    def _rest_lease(self) -> None:
        """Let the time of the candidates stand still if one leads, the others stand by, and nothing disturbs them."""
        candidates = [
            candidate for name, candidate in self.candidates.items() if self.processes[name].alive
        ]
        leaders = [candidate for candidate in candidates if candidate.leading]
        is_quiet = (
            self.loop.time() > self._undisturbed_at + LEASE_CHECK_SECONDS
            and len(candidates) == len(self.replicas)
            and [leader.fence_seconds for leader in leaders] == [0.0]
            and not self.api.lease_requests
        )
        self._lease_check = None
        if is_quiet:
            self.lease_time.stop()
        elif not self.calm:
            self._lease_check = self.loop.call_later(LEASE_CHECK_SECONDS, self._rest_lease)

    def alters(self, process: SimulatedProcess, candidate: Candidate) -> None:
        """Check that a process which is about to alter quotas is the only leader, and may use its Secret."""
        self.judge(self.login_laws.alters, process.name)
        if not candidate.leading:
            self._break(f"a deposed leader alters quotas: {process.name}")
        for name, other_candidate in self.candidates.items():
            if (
                other_candidate is not candidate
                and self.processes[name].alive
                and other_candidate.leading
            ):
                self._break(f"two leaders: {process.name} alters quotas and {name} leads")

    def audited(self, process: SimulatedProcess, content: bytes) -> None:
        """Check the lines of the audit log that a process printed."""
        at = self.clock.now()
        if b'"INTENDED"' in content:
            self.laws.intended_by(at, process.name)
        self.judge(self.laws.audited, at, process.name, content)

    # -- users ---------------------------------------------------------------------------------------

    def foreign_value(self, key: Key, chance: random.Random) -> float:
        return self.value(key, chance)

    def change_documents(self, chance: random.Random) -> None:
        for _ in range(chance.choice((1, 1, 2, 4, 8))):
            entity = chance.choice(self.entities)
            place = "clientquotas", TEAM, NAME_OF[entity]
            present = self.server.objects.get(place)
            if present is not None and chance.random() < 0.3:
                self.trace("author", "deletes %s", place[2])
                self.server.remove("author", place)
                continue
            values = {
                key: self.value(key, chance)
                for key in self.keys_of(entity)
                if chance.random() < 0.7
            }
            policy = chance.choice((None, DeletionPolicy.DELETE, DeletionPolicy.RETAIN))
            suspended = chance.random() < 0.05
            if not values or (present is not None and is_terminating(present)):
                continue
            self.trace(
                "author",
                "declares %s %s %s, %s%s",
                place[2],
                entity,
                values,
                policy,
                ", suspended" if suspended else "",
            )
            obj = client_quota(entity, values, policy=policy, suspended=suspended)
            _ = self.server.put("author", "clientquotas", obj)
        self.command_line.pushed()

    # -- the run -------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        definition = {"metadata": {"name": CLIENT_QUOTA_DEFINITION}}
        _ = self.server.put("admin", "customresourcedefinitions", definition)
        if self.logins is not None:
            self.logins.restore()
        self.configure()
        super()._prepare()

    def configure(self, **fields: object) -> None:
        """Write the QuotaCluster, with the given fields of its spec replaced."""
        obj = quota_cluster(self.settings, self.guards)
        login = SPEC if self.logins is not None else {}
        spec = {**obj["spec"], **login, **fields}
        _ = self.server.put("admin", "quotaclusters", {**obj, "spec": spec})
        self.trace("admin", "configures %s %s", CLUSTER, fields)

    def _heal(self) -> None:
        super()._heal()
        self.api.heal()
        self.clock_steps.clear()
        if self.logins is not None:
            self.logins.restore()
        self.configure()
        for process in self.running():
            self.go_on(process)

    async def _comes_to_rest(self) -> None:
        retried_at = self.loop.time() + RETRY_SECONDS
        end = self.loop.time() + self.rest_seconds
        await asyncio.sleep(61.0)  # A command that began before may still write.
        while problem := self._problem():
            if self.loop.time() > end:
                self._break(
                    f"not as declared {self.rest_seconds:.0f} s after the last fault: {problem}"
                )
            if self.laws.records.overrides:
                retried_at = self.loop.time() + RETRY_SECONDS
            if self.loop.time() > retried_at and (leaving := self._leaving()):
                self._break(
                    f"a deletion is not tried again within {RETRY_SECONDS:.0f} s: {leaving}"
                )
            await asyncio.sleep(61.0)
        self.trace("world", "everything is as declared")
        resync_seconds = RESYNC_INTERVALS * self.settings.interval
        await asyncio.sleep(resync_seconds + 120.0)
        while (
            self._withheld()
        ):  # Removals of unmanaged limits wait until those of the last hour are forgotten.
            if self.loop.time() > end:
                self._break("removals are withheld for longer than the guard counts them")
            await asyncio.sleep(resync_seconds + 120.0)
        self.at_rest = True
        await asyncio.sleep(resync_seconds)
        self.at_rest = False
        reasons = self._reasons()
        edit_status(self, self.scenario.chance("edit at rest"))
        await asyncio.sleep(10.0)
        request_reconciliation(self)  # It compares no statuses; the next resync does.
        await asyncio.sleep(resync_seconds + 120.0)
        if self._reasons() != reasons:
            self._break(f"an edited status stays: {self._reasons()}, before {reasons}")

    def _withheld(self) -> int:
        """Return how many changes the QuotaCluster shows as withheld."""
        status = self.server.objects["quotaclusters", "", CLUSTER].get("status", {})
        return int(status.get("counts", {}).get("withheld", 0))

    def _reasons(self) -> dict[str, str]:
        """Return the reason that each document shows."""
        return {
            document_of(obj): condition(obj.get("status", {}), "Ready").get("reason", "")
            for obj in self.server.of("clientquotas")
        }

    def _problem(self) -> str:
        """Return the first problem after the faults; "" = none."""
        if leaving := self._leaving():
            return f"deleted and still there: {leaving}"
        if self.logins is not None and self.login_laws.last_user != self.logins.user:
            return f"the login is {self.login_laws.last_user}, not {self.logins.user}"
        now = self.clock.now()
        begun = [pair for pair, each in self.laws.records.overrides.items() if each.until > now]
        if begun:
            return f"overrides are in force: {begun}"
        if self.settings.rules.in_force not in CHANGING:
            return ""
        problem = difference(self.laws, self.laws.documents, retained=self.laws.unseen)
        return problem or next(self._unready(), "")

    def _leaving(self) -> list[str]:
        """Return the documents that are being deleted."""
        return [document_of(obj) for obj in self.server.of("clientquotas") if is_terminating(obj)]

    def _unready(self) -> Any:
        for obj in self.server.of("clientquotas"):
            ready = condition(obj.get("status", {}), "Ready")
            generation = obj.get("status", {}).get("observedGeneration")
            if generation != obj["metadata"]["generation"]:
                yield f"{document_of(obj)} has no status of its newest spec"
            elif ready.get("status") != "True" and ready.get("reason") != "Suspended":
                yield f"{document_of(obj)} is {ready.get('reason')}: {ready.get('message')}"
            elif ready.get("status") == "True" and not _is_compared(obj):
                yield f"{document_of(obj)} does not say whether it has drifted"

    # -- checks --------------------------------------------------------------------------------------

    def _on_request(self, process: str, user: str) -> None:
        self.login_laws.requested(self.clock.now(), process, user)

    def _on_commit(self, commit: Commit) -> None:
        super()._on_commit(commit)
        self.judge(self.command_line.laws.committed, commit)
        if self.logins is not None and self.laws.is_own(commit.writer):
            self.judge(self.login_laws.committed, commit.at, commit.writer, commit.user)

    def _on_write(self, write: ApiWrite) -> None:
        plural, _, name = write.place
        if self.calm:
            return
        if plural == "leases":
            self._lease_written(write)
            return
        is_operator = write.writer.rpartition("-")[0] in self.replicas
        if is_operator:
            self.writes += 1
            self.trace(write.writer, "%s %s %s%s", write.verb, plural, name, _shown(write))
            if self.at_rest and plural != "configmaps" and not _is_refreshed(write):
                self._break(f"writes although nothing has changed: {write.verb} {plural} {name}")
            self.judge(self.laws.written, write)
            if self.logins is not None and write.after and reveals_password(write.after):
                self._break(f"a password is written: {write.verb} {plural} {name}")
        if plural == "configmaps":
            self._recorded(write)
        if plural == "quotaclusters":
            self.laws.cluster_changed(write.at, write.after)
        if plural == "clientquotas" and (not is_operator or write.after is None):
            self._documents_changed(write)

    def _lease_written(self, write: ApiWrite) -> None:
        """Check that a Lease gets another holder only when no other process leads by it."""
        before, after = (
            None if obj is None else obj["spec"]["holderIdentity"]
            for obj in (write.before, write.after)
        )
        if before == after or not after:
            return
        for name, candidate in self.candidates.items():
            if name != write.writer and self.processes[name].alive and candidate.leads_on:
                self._break(f"two leaders: {write.writer} takes the Lease and {name} leads")

    def _recorded(self, write: ApiWrite) -> None:
        """Check written records. At rest only expired counts of removals and corrections may change."""
        stored = read(CLUSTER_ID, list(self.server.of("configmaps")))
        owned = stored.owned
        self.laws.uids_recorded(write.at, stored.uids)
        if self.at_rest and owned != self.laws.records:
            self._break("records are written although nothing has changed")
        self.judge(self.laws.recorded_as, write.at, write.writer, owned)

    def _documents_changed(self, write: ApiWrite) -> None:
        if write.after is not None:
            self.laws.specified(write.at, write.after)
        if write.after is None and write.before is not None:
            document = document_of(write.before)
            finalizers = write.before["metadata"].get("finalizers", ())
            if FINALIZER not in finalizers:
                self.laws.unseen.add(document)
        declared = declarations(self.server.of("clientquotas"))
        self.laws.documents_changed(write.at, declared)

    def _on_repetition(self, writer: str, verb: str, place: Place) -> None:
        """Check that a status is not requested again when everything is at rest."""
        if self.at_rest and verb == "apply" and place[0] == "clientquotas" and not self.calm:
            self._break(f"a status is written again although nothing has changed: {place[2]}")

    def _on_post(self, writer: str, plural: str) -> None:
        if self.at_rest and not self.calm:
            self._break(f"writes although nothing has changed: {writer} posts {plural}")


def _hold(handle: asyncio.Handle) -> bool:
    process = handle._context.get(CURRENT)  # type: ignore[attr-defined]
    if process is None or process.paused_calls is None:
        return False
    process.paused_calls.append(handle)
    return True


def _is_compared(obj: Obj) -> bool:
    return condition(obj["status"], "Drifted").get("status") != "Unknown"


def _shown(write: ApiWrite) -> str:
    """Summarize a write for the trace."""
    if write.place[0] == "clientquotas" and write.after is not None:
        if write.verb == "apply":
            ready = condition(write.after["status"], "Ready")
            return f": {ready.get('status')} {ready.get('reason')} of generation {write.after['status'].get('observedGeneration')}"
        return f": finalizers {write.after['metadata'].get('finalizers')}"
    return "" if write.after is not None else ": gone"


TIMES = frozenset({"lastSuccessfulSyncTime", "nextSyncTime"})


def _is_refreshed(write: ApiWrite) -> bool:
    """Whether a write changes only times of a status."""
    if write.verb != "apply" or write.before is None or write.after is None:
        return False
    before, after = (
        {name: value for name, value in obj.get("status", {}).items() if name not in TIMES}
        for obj in (write.before, write.after)
    )
    return before == after


OperatorWorld.programs = {
    "operators": OperatorWorld.operate,
    "author": actors.author,
    "override": night_shift,
    "admin": administrator,
    "foreign": actors.foreign_writer,
    "security": security,
    "apply": pipeline,
    "break glass": break_glass,
}
