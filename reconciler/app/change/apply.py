"""Applies to one cluster in two steps: a plan with the records locked, then the writes. A person may decide in between.

An outcome is written before the first request, as if the run ended there, and replaced at the end of the run, so that
``kquota rollback`` can undo a killed run.
"""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.app.change.outcome_files import save_outcome
from reconciler.app.change.plan_preparation import (
    check_piped,
    prepare_task,
    task_for,
)
from reconciler.app.clusters.runtime import Runtime, open_runtime
from reconciler.app.clusters.targets import ClusterTarget
from reconciler.app.notices import Notices
from reconciler.app.requests import PlanRequest, RecordUse
from reconciler.base.text_files import write_text
from reconciler.codecs.outcome import OutcomeWriter
from reconciler.errors import Interrupted, KquotaError, ManifestErrors, PlanRefused, StalePlan
from reconciler.quota.results.report import Outcome, Preview
from reconciler.reconcile import (
    PreparedPlan,
    ReconcileOptions,
    SavedPlan,
    check_approved,
    check_digest,
)
from reconciler.reconcile import apply as apply_prepared
from reconciler.render.units import count

Prepare: TypeAlias = Callable[[Runtime], Awaitable[tuple[ReconcileOptions, PreparedPlan]]]
"""``prepare(runtime)`` returns the options of a run and its plan."""


class ApplyRun(Struct, kw_only=True, dict=True):
    """One cluster between its plan and its outcome; its records are locked."""

    target: ClusterTarget
    next_command: str  # the command to run after an incomplete run
    prepared: PreparedPlan
    notices: Notices
    out_path: Path | None  # further file of the outcome, which the user names
    outcome_path: Path | None = None  # file in the project's folder; None = not written (yet)
    _options: ReconcileOptions
    _runtime: Runtime
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

    @cached_property
    def open_writes(self) -> int:
        """The number of earlier writes that may still take effect at the end of the run, and that it does not repeat."""
        only, observation = self._options.only, self.prepared.observation
        written = {change.pair: change.after for change in self.prepared.plan.changes}
        return sum(
            (only is None or only(*pair)) and (pair not in written or written[pair] != intent.value)
            for pair, intent in observation.unsettled(self._runtime.ports.clock.now()).items()
        )

    async def apply(self) -> Outcome:
        """Send, verify, record, and save the outcome.

        The outcome is written before the first request, so that a killed run can be undone.

        Raises:
            PlanRefused: A guard refuses; nothing was written.
            Interrupted: The run was stopped; its ``outcome`` has what was done.
            KquotaError: Nothing was sent, for example because records or outcome cannot be written.
        """
        if self.is_idle and not self.is_refused:
            return await self._end_idle()
        try:
            outcome = await apply_prepared(
                self._runtime.ports, self._options, self.prepared, before_sending=self._save
            )
        except Interrupted as stopped:
            if isinstance(stopped.outcome, Outcome):
                self._replace(stopped.outcome)
            raise
        except (PlanRefused, ManifestErrors, StalePlan):
            raise
        except KquotaError as error:
            if self.outcome_path is not None:  # nothing was sent, so there is nothing to undo
                for path in filter(None, (self.outcome_path, self.out_path)):
                    path.unlink(missing_ok=True)
            if self.prepared.plan.changes:
                many = count(len(self.prepared.plan.changes), "change")
                error.reword(f"0 applied, {many} not sent: {error.message}")
            error.hint = f"{error.hint}; next: `{self.next_command}`".removeprefix("; ")
            raise
        self._replace(outcome)
        return outcome

    async def _end_idle(self) -> Outcome:
        ports, plan = self._runtime.ports, self.prepared.plan
        await ports.inventory.write(plan.cluster_id, ())  # only records that are taken over change
        now = ports.clock.now()
        outcome = Outcome(
            cluster_id=plan.cluster_id,
            digest=self.preview.digest,
            started_at=now,
            ended_at=now,
            origin=self._options.origin,
        )
        self._save(outcome)
        return outcome

    async def disconnect(self) -> None:
        """Close the connections until the next request; the records stay locked."""
        await self._runtime.client.close()

    def _save(self, outcome: Outcome) -> None:
        self.outcome_path = save_outcome(self.target, outcome, self.outcome_path, self._writer)
        if self.out_path is not None:
            write_text(self.out_path, self._writer.pieces(outcome), private=True)

    def _replace(self, outcome: Outcome) -> None:
        """Replace the outcome from before the first request, which remains if that is impossible."""
        try:
            self._save(outcome)
        except KquotaError as error:
            self.notices.warning(
                f"{error.message}; it still contains every change of this run with an unknown outcome"
            )


@contextlib.asynccontextmanager
async def apply_run(
    notices: Notices,
    target: ClusterTarget,
    *,
    request: PlanRequest,
    saved: SavedPlan | None,
    expect_digest: str | None,
    max_age: float,
    out_path: Path | None,
) -> AsyncIterator[ApplyRun]:
    """Prepare the plan of one cluster, ready to be applied inside the context.

    Args:
        saved: A saved plan that must still have the same effect; ``None`` = apply the manifests.
        expect_digest: Digest of the approved effect; ``None`` = any.
        max_age: Maximum age of a saved plan, in seconds.
        out_path: A further file of the outcome, beside that in the project's folder.

    Raises:
        StalePlan: The saved plan no longer fits, or another effect was approved.
        ManifestErrors: A document is invalid.
        ClientError: The cluster cannot be queried.
    """
    task = task_for(notices, target, request)
    check_piped(task)

    async def prepare(runtime: Runtime) -> tuple[ReconcileOptions, PreparedPlan]:
        prepared = await prepare_task(task, runtime)
        if saved is not None:
            now = runtime.ports.clock.now()
            check_approved(saved, prepared.preview, now=now, max_age=max_age, digest=expect_digest)
        elif expect_digest is not None:
            check_digest(prepared.preview, expect_digest)
        return replace(task.options, own_principal=runtime.own_principal), prepared

    async with prepared_run(
        notices,
        target,
        request.records,
        prepare,
        command="apply",
        next_command=target.command(
            "apply" if saved is None else "plan", *request.options, *request.paths
        ),
        out_path=out_path,
    ) as run:
        yield run


@contextlib.asynccontextmanager
async def prepared_run(
    notices: Notices,
    target: ClusterTarget,
    records: RecordUse,
    prepare: Prepare,
    *,
    command: str,
    next_command: str,
    out_path: Path | None = None,
) -> AsyncIterator[ApplyRun]:
    """Lock the records, connect a client, and make a plan with ``prepare``.

    Args:
        command: Name of the command, for the lock and the outcome.
        out_path: A further file of the outcome, beside that in the project's folder.
    """
    async with open_runtime(notices, target, records, command=command, writes=True) as runtime:
        options, prepared = await prepare(runtime)
        yield ApplyRun(
            target=target,
            next_command=next_command,
            prepared=prepared,
            notices=notices,
            _options=replace(options, origin=replace(options.origin, command=command)),
            _runtime=runtime,
            out_path=out_path,
        )
