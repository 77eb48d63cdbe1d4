"""One apply, start to end: prepare, compare with what was approved, show, ask, apply, report, keep the outcome."""

import asyncio
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from reconciler.app.event_loop import run
from reconciler.cli.change.outcome_files import keep_outcome
from reconciler.cli.context.cluster_targets import ClusterTarget
from reconciler.cli.context.plan_preparation import (
    InventoryOptions,
    PlanTask,
    prepared_for,
)
from reconciler.cli.context.reconcile_options import (
    PlanLimitOptions,
    orders_for,
    origin_of,
)
from reconciler.cli.context.runtime import RecordOptions, Runtime, world
from reconciler.cli.framework.console import Console
from reconciler.cli.framework.exit_codes import ExitCode
from reconciler.cli.output import plans
from reconciler.errors import Interrupted, KquotaError, PlanRefused, UsageError
from reconciler.quota.policy import STRICTNESS
from reconciler.quota.results.report import Outcome
from reconciler.reconcile import (
    PreparedPlan,
    ReconcileOptions,
    SavedPlan,
    check_digest,
    check_fresh,
    check_same_effect,
    observe,
    trusted,
)
from reconciler.reconcile import apply as apply_prepared
from reconciler.reconcile.observation import rules_for
from reconciler.reconcile.validation import validate
from reconciler.render.units import count


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyRequest:
    """One apply as it was typed.

    Attributes:
        target: The cluster.
        task: Documents and orders; ``None`` with ``--trust-plan``.
        saved: A saved plan.
        limits: Options about the plan's limits, for a trusted plan.
        sources: Options about records.
        yes: Do not ask.
        expect_digest: The approved effect.
        max_age: Oldest saved plan, in seconds.
        pace: Wait after each request until it is visible.
        outcome_path: Where the outcome goes.
        output: ``text`` or ``json``.
        command: What runs, for locks and the audit log.
        next_words: The command that goes on after a run that was not complete, without the options of the cluster.
        verbose: Print long lists whole.
        gathered: With several clusters and JSON: where outcomes go, to be shown as one document at the end.
    """

    target: ClusterTarget
    task: PlanTask | None
    saved: SavedPlan | None
    limits: PlanLimitOptions
    sources: InventoryOptions
    yes: bool
    expect_digest: str | None
    max_age: float
    pace: bool
    outcome_path: Path | None
    output: str
    command: str = "apply"
    next_words: tuple[str, ...] = ("plan",)
    verbose: bool = False
    gathered: list[tuple[ClusterTarget, Outcome | None]] | None = None


def apply_to_cluster(console: Console, request: ApplyRequest) -> ExitCode:
    """Apply to one cluster.

    Raises:
        Refused: A guard, the policy or a scope says no; nothing was written.
        StalePlan: The saved plan no longer fits; nothing was written.
        Interrupted: The run was asked to stop; what was done has been reported.
        UsageError: The question was answered with no.
    """
    task = request.task
    records = RecordOptions(none=request.sources.no_inventory) if task is None else task.records

    async def work() -> Outcome | None:
        async with world(
            console, request.target, records, command=request.command, writes=True
        ) as runtime:
            if task is None:
                orders, prepared = await _trusted(request, runtime)
            else:
                orders = replace(task.orders, own_principal=runtime.own_principal)
                prepared = await prepared_for(task, runtime)
                _check_approved(request, runtime, prepared)
            return await carry_out(console, request, runtime, orders, prepared)

    return report_outcome(console, request, run(work()))


async def carry_out(
    console: Console,
    request: ApplyRequest,
    runtime: Runtime,
    orders: ReconcileOptions,
    prepared: PreparedPlan,
) -> Outcome | None:
    """Show, ask, apply; ``None`` where there was nothing to do."""
    preview = prepared.preview
    idle = not (prepared.plan.changes or prepared.plan.bookkeeping or prepared.override_changes)
    if request.output == "text":
        if request.saved is not None and not request.verbose:
            plans.show_summary(console, preview)
        else:
            plan = plans.PlanWithEvidence(target=request.target, preview=preview)
            plans.show_plans(console, [plan], "text", verbose=request.verbose)
        console.flush()
    if not preview.violations and not prepared.plan.conflicts:
        if idle:
            return None
        if prepared.plan.changes and not request.yes and not await confirm(console, request.target):
            raise UsageError("apply cancelled; nothing was written")
    return await _applied(console, request, runtime, orders, prepared)


async def _applied(
    console: Console,
    request: ApplyRequest,
    runtime: Runtime,
    orders: ReconcileOptions,
    prepared: PreparedPlan,
) -> Outcome:
    """Apply, with the outcome on disk from before the first request, so that a run that is killed can be undone."""
    early: list[Path] = []

    def keep(unended: Outcome) -> None:
        outcome_path = keep_outcome(console, request.target, unended, request.outcome_path)
        if outcome_path is not None:
            early.append(outcome_path)

    try:
        return await apply_prepared(runtime.ports, orders, prepared, before_sending=keep)
    except Interrupted as stopped:
        if isinstance(stopped.outcome, Outcome):
            report_outcome(console, request, stopped.outcome)
        raise
    except KquotaError as error:
        for path in early:  # nothing was sent, so there is nothing to undo
            path.unlink(missing_ok=True)
        if early:
            many = count(len(prepared.plan.changes), "change")
            error.reword(f"0 applied, {many} not sent: {error.message}")
            error.hint = f"{error.hint}; next: `{_next_command(request)}`".removeprefix("; ")
        raise


def report_outcome(console: Console, request: ApplyRequest, outcome: Outcome | None) -> ExitCode:
    """Keep an outcome on disk, then print it; a reader who went away must not cost the file."""
    outcome_path = (
        None
        if outcome is None
        else keep_outcome(console, request.target, outcome, request.outcome_path)
    )
    if request.gathered is None:
        plans.show_outcome(console, outcome, request.output, verbose=request.verbose)
    else:
        request.gathered.append((request.target, outcome))
    if outcome is None:
        return ExitCode.DONE
    if not (outcome.complete or outcome.interrupted):
        console.note(f"next: {_next_command(request)}")
    if outcome_path is not None and any(
        pair.status_text in {"APPLIED", "UNKNOWN"} for pair in outcome.pairs
    ):
        undo = request.target.command("rollback", str(outcome_path), chooses_cluster=False)
        console.note(f"to undo this: {undo}")
    return ExitCode.DONE if outcome.complete else ExitCode.ERROR


def _next_command(wanted: ApplyRequest) -> str:
    return wanted.target.command(*wanted.next_words)


def _check_approved(request: ApplyRequest, runtime: Runtime, prepared: PreparedPlan) -> None:
    """Nothing, if what would be done is what was approved.

    Raises:
        StalePlan: It is not.
    """
    if request.saved is not None:
        now = runtime.ports.clock.now()
        check_fresh(request.saved, prepared.observation, now=now, max_age=request.max_age)
        check_same_effect(request.saved, prepared, digest=request.expect_digest)
    elif request.expect_digest is not None:
        check_digest(prepared, request.expect_digest)


async def _trusted(
    request: ApplyRequest, runtime: Runtime
) -> tuple[ReconcileOptions, PreparedPlan]:
    """A saved plan without its documents; connection, guards and policy are still our own."""
    saved = request.saved
    assert saved is not None  # noqa: S101 - checked where the option was read
    target = request.target
    orders = orders_for(
        target, request.limits, complete=True, removals_known=True, origin=origin_of(target)
    )
    orders = replace(orders, pace=request.pace, own_principal=runtime.own_principal)
    observation = await observe(runtime.ports, orders)
    check_fresh(saved, observation, now=runtime.ports.clock.now(), max_age=request.max_age)
    prepared = trusted(saved, observation, orders)
    if request.expect_digest is not None:
        check_digest(prepared, request.expect_digest)
    in_force = rules_for(orders, observation).in_force
    if STRICTNESS.index(saved.policy) > STRICTNESS.index(in_force):
        raise PlanRefused(
            f"the plan was made under {saved.policy}, but {in_force} is in force for {target.display_name}",
            hint="plan again under the policy in force",
        )
    verdict = await validate(runtime.ports, orders, observation, prepared.plan.changes)
    return orders, replace(prepared, preview=replace(prepared.preview, verdict=verdict))


async def confirm(console: Console, target: ClusterTarget) -> bool:
    """Whether a person says yes; Ctrl-C at the question is heard at once."""
    loop, answered = asyncio.get_running_loop(), asyncio.Event()
    console.question(f"Apply this to {target.display_name}?")
    loop.add_reader(sys.stdin.fileno(), answered.set)
    try:
        await answered.wait()
    finally:
        loop.remove_reader(sys.stdin.fileno())
    return console.answer()
