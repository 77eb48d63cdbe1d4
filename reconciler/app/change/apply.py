"""Applies to one cluster in two steps: a plan with the records locked, then the writes. A person may decide in between.

An outcome is written before the first request, as if the run ended there, and replaced at the end of the run, so that
``kquota rollback`` can undo a killed run.
"""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, TypeAlias

from reconciler.app.change.plan_preparation import (
    PlanTask,
    address_commands,
    check_piped,
    prepare_task,
    record_options,
    task_for,
)
from reconciler.app.change.reconcile_options import origin_of, reconcile_options
from reconciler.app.clusters.runtime import RecordOptions, Runtime, open_runtime
from reconciler.app.clusters.state_files import own_path
from reconciler.app.clusters.targets import ClusterTarget
from reconciler.app.notices import Notices, TextReceiver
from reconciler.app.requests import PlanLimits, RecordSource
from reconciler.base.durable_files import PRIVATE
from reconciler.base.text_files import write_text
from reconciler.codecs.outcome import OutcomeWriter
from reconciler.errors import Interrupted, KquotaError, PlanRefused
from reconciler.quota.policy import STRICTNESS
from reconciler.quota.results.report import Outcome, Preview
from reconciler.reconcile import (
    PreparedPlan,
    ReconcileOptions,
    SavedPlan,
    check_digest,
    check_fresh,
    check_same_effect,
    observe,
    trust_plan,
)
from reconciler.reconcile import apply as apply_prepared
from reconciler.reconcile.observation import rules_for
from reconciler.reconcile.validation import validate
from reconciler.render.units import count, instant

Prepare: TypeAlias = Callable[[Runtime], Awaitable[tuple[ReconcileOptions, PreparedPlan]]]
"""``prepare(runtime)`` returns the options of a run and its plan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyRequest:
    """An apply, apart from its cluster."""

    # Manifests, relative to the current folder; empty = those of the project.
    paths: tuple[str, ...] = ()
    limits: PlanLimits
    sources: RecordSource
    # A saved plan that must still have the same effect; None = apply the manifests.
    saved: SavedPlan | None = None
    # Whether the saved plan is applied without recomputing it from the documents.
    is_trusted: bool = False
    expect_digest: str | None = None  # digest of the approved effect; None = any
    max_age: float = 86_400.0  # maximum age of a saved plan, in seconds
    pace: bool = False  # wait after each request until it is visible
    outcome_path: Path | None = None  # file of the outcome; None = named by time and cluster


@dataclass(slots=True, kw_only=True)
class ApplyRun:
    """One cluster between its plan and its outcome; its records are locked."""

    target: ClusterTarget
    next_command: str  # the command to run after an incomplete run
    prepared: PreparedPlan
    notices: Notices
    outcome_path: Path | None = None  # file of the outcome; None = not written (yet)
    _options: ReconcileOptions
    _runtime: Runtime
    _forgets: bool
    _file: Path | None
    _early: list[Path] = field(default_factory=list)
    _writer: OutcomeWriter = field(default_factory=OutcomeWriter)

    @property
    def preview(self) -> Preview:
        """The plan for readers."""
        return self.prepared.preview

    @property
    def is_refused(self) -> bool:
        """Whether a guard or a conflict stops the whole plan."""
        return bool(self.preview.violations or self.prepared.plan.conflicts)

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to write, neither to the cluster nor to the records."""
        plan = self.prepared.plan
        return not (plan.changes or plan.bookkeeping or self.prepared.override_changes)

    async def apply(self) -> Outcome | None:
        """Send, verify, record; return ``None`` if there is nothing to do.

        The outcome is written before the first request, so that a killed run can be undone.

        Raises:
            PlanRefused: A guard refuses; nothing was written.
            Interrupted: The run was stopped; its ``outcome`` has what was done.
        """
        if self.is_idle and not self.is_refused:
            if self._forgets:
                await self._runtime.ports.inventory.write(self.prepared.plan.cluster_id, ())
            return None
        try:
            outcome = await apply_prepared(
                self._runtime.ports, self._options, self.prepared, before_sending=self._keep_early
            )
        except Interrupted as stopped:
            if isinstance(stopped.outcome, Outcome):
                self._keep(stopped.outcome)
            raise
        except KquotaError as error:
            for path in self._early:  # nothing was sent, so there is nothing to undo
                path.unlink(missing_ok=True)
            if self._early:
                many = count(len(self.prepared.plan.changes), "change")
                error.reword(f"0 applied, {many} not sent: {error.message}")
                error.hint = f"{error.hint}; next: `{self.next_command}`".removeprefix("; ")
            raise
        self._keep(outcome)
        return outcome

    async def disconnect(self) -> None:
        """Close the connections until the next request; the records stay locked."""
        await self._runtime.client.close()

    def _keep_early(self, interrupted: Outcome) -> None:
        path = self._written(interrupted)
        if path is not None:
            self._early.append(path)

    def _keep(self, outcome: Outcome) -> None:
        self.outcome_path = self._written(outcome)

    def _written(self, outcome: Outcome) -> Path | None:
        path = self._early[-1] if self._early else self._file
        return keep_outcome(self.notices, self.target, outcome, path, self._writer)


@contextlib.asynccontextmanager
async def apply_run(
    notices: Notices, target: ClusterTarget, request: ApplyRequest
) -> AsyncIterator[ApplyRun]:
    """Prepare the plan of one cluster, ready to be applied inside the context.

    Raises:
        StalePlan: The saved plan no longer fits, or another effect was approved.
        ManifestErrors: A document is invalid.
        ClientError: The cluster cannot be queried.
    """
    saved = request.saved
    task: PlanTask | None = None
    if not request.is_trusted:
        task = task_for(notices, target, request.paths, request.limits, request.sources)
        check_piped(task, request.paths)
        task = replace(task, options=replace(task.options, pace=request.pace))

    async def prepare(runtime: Runtime) -> tuple[ReconcileOptions, PreparedPlan]:
        if task is None:
            return await _trust_saved_plan(target, request, runtime)
        prepared = await prepare_task(task, runtime)
        _check_approved(request, runtime, prepared)
        return replace(task.options, own_principal=runtime.own_principal), prepared

    records = record_options(request.sources) if task is None else task.records
    words = ("apply" if saved is None else "plan", *request.paths)
    async with prepared_run(
        notices,
        target,
        records,
        prepare,
        command="apply",
        next_command=target.command(*words),
        outcome_path=request.outcome_path,
    ) as run:
        yield run


@contextlib.asynccontextmanager
async def prepared_run(
    notices: Notices,
    target: ClusterTarget,
    records: RecordOptions,
    prepare: Prepare,
    *,
    command: str,
    next_command: str,
    outcome_path: Path | None = None,
) -> AsyncIterator[ApplyRun]:
    """Lock the records, connect a client, and make a plan with ``prepare``.

    Args:
        command: Name of the command, for locks and the audit log.
        outcome_path: File of the outcome; ``None`` = named by time and cluster.
    """
    async with open_runtime(notices, target, records, command=command, writes=True) as runtime:
        options, prepared = await prepare(runtime)
        yield ApplyRun(
            target=target,
            next_command=next_command,
            prepared=prepared,
            notices=notices,
            _options=options,
            _runtime=runtime,
            _forgets=bool(records.forgets),
            _file=outcome_path,
        )


def _check_approved(request: ApplyRequest, runtime: Runtime, prepared: PreparedPlan) -> None:
    """Check that the plan has the approved effect.

    Raises:
        StalePlan: It has another effect.
    """
    if request.saved is not None:
        now = runtime.ports.clock.now()
        check_fresh(request.saved, prepared.observation, now=now, max_age=request.max_age)
        check_same_effect(request.saved, prepared, digest=request.expect_digest)
    elif request.expect_digest is not None:
        check_digest(prepared, request.expect_digest)


async def _trust_saved_plan(
    target: ClusterTarget, request: ApplyRequest, runtime: Runtime
) -> tuple[ReconcileOptions, PreparedPlan]:
    """Return a saved plan without its documents; connection, guards and policy are the trusted ones."""
    saved = request.saved
    if saved is None:
        raise PlanRefused("a trusted apply needs a saved plan")
    options = reconcile_options(
        target, request.limits, complete=True, removals_known=True, origin=origin_of(target)
    )
    options = replace(options, pace=request.pace, own_principal=runtime.own_principal)
    observation = await observe(runtime.ports, options)
    check_fresh(saved, observation, now=runtime.ports.clock.now(), max_age=request.max_age)
    if request.expect_digest is not None:
        check_digest(saved, request.expect_digest)
    in_force = rules_for(options, observation).in_force
    if STRICTNESS.index(saved.policy) > STRICTNESS.index(in_force):
        raise PlanRefused(
            f"the plan was computed with policy {saved.policy}, but the policy in force for {target.display_name} is {in_force}",
            hint="plan again under the policy in force",
        )
    # The guards check the plan in a thread while the broker validates it; their input does not change.
    prepared, verdict = await asyncio.gather(
        asyncio.to_thread(trust_plan, saved, observation, options),
        validate(runtime.ports, options, observation, saved.plan.changes),
    )
    prepared = replace(prepared, preview=replace(prepared.preview, verdict=verdict))
    return options, address_commands(prepared, target, runtime)


OUTCOME_FOLDER: Final = ".kquota/outcomes"
MOST_OUTCOMES: Final = 50
"""Maximum number of outcomes per cluster; older ones are deleted."""

_TIME: Final = "????-??-??T??????Z"
"""Prefix of the name of an outcome, as a glob."""


def keep_outcome(
    notices: TextReceiver,
    target: ClusterTarget,
    outcome: Outcome,
    outcome_path: Path | None,
    writer: OutcomeWriter,
) -> Path | None:
    """Write an outcome that changes something; return ``None`` with a warning if it could not be written.

    Args:
        outcome_path: The file, also that of an earlier outcome of the same run; ``None`` = a new one below the
            project's folder, named by time and cluster.
    """
    if outcome_path is None and not outcome.pairs:
        return None
    created: Path | None = None
    try:
        path = outcome_path or (created := _created_file(target, outcome))
        write_text(path, writer.text(outcome), private=True)
        if created is not None:
            _forget_old(created)
    except (OSError, KquotaError) as error:
        if created is not None:
            created.unlink(missing_ok=True)
        notices.warning(f"the outcome file could not be written: {error}")
        return None
    return path


def _created_file(target: ClusterTarget, outcome: Outcome) -> Path:
    """Create the file of a new outcome; outcomes of one cluster and second are named by consecutive seconds."""
    for seconds in itertools.count():
        when = instant(outcome.started_at + seconds).replace(":", "")
        name = f"{OUTCOME_FOLDER}/{when}-{target.name or 'cluster'}.json"
        path = own_path(target.root, name, content_name="outcomes")
        path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            path.touch(mode=PRIVATE, exist_ok=False)
            return path
    raise AssertionError("one of the seconds is free")


def _forget_old(path: Path) -> None:
    cluster = path.name[len(_TIME) :]
    for old in sorted(path.parent.glob(f"{_TIME}{cluster}"))[:-MOST_OUTCOMES]:
        old.unlink(missing_ok=True)
