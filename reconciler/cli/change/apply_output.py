"""Shows an apply on a console: plans, one question, outcomes. ``override`` and ``rollback`` use it, too."""

import asyncio
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from reconciler.app.change.apply import ApplyRun
from reconciler.app.change.plan import ClusterPlan
from reconciler.app.clusters.targets import ClusterTarget
from reconciler.app.event_loop import run
from reconciler.app.fleet import ClusterResult, outcome_of_error, preview_row, rows_of
from reconciler.app.notices import Notices
from reconciler.app.requests import CONCURRENCY
from reconciler.cli import output
from reconciler.cli.framework.commands import ExitCode, worst
from reconciler.cli.framework.console import Console
from reconciler.cli.output import code_of_fleet, work_on
from reconciler.codecs.outcome import outcome_document
from reconciler.errors import Interrupted, PlanRefused, UsageError
from reconciler.quota.policy import REMOVING
from reconciler.quota.results.report import Outcome
from reconciler.reconcile.sender import STOP_GRACE_SECONDS
from reconciler.render.fleet_summary import FleetRow
from reconciler.render.json_values import Json
from reconciler.render.terminal import outcome_text
from reconciler.render.units import count

STOPPING: Final = f"stopping after the current request, within {STOP_GRACE_SECONDS:g} s; a second signal ends at once"

OpenRun = Callable[[Notices, ClusterTarget], AbstractAsyncContextManager[ApplyRun]]
"""``open_run(notices, target)``: one cluster with its plan, ready to be applied inside the context."""

Prepared = ClusterResult[ApplyRun]
Applied = ClusterResult[Outcome]


class ApplyOutput(Struct, frozen=True, kw_only=True):
    """How an apply is confirmed and displayed."""

    output: str  # `text` or `json`
    yes: bool
    verbose: bool = False
    concurrency: int = CONCURRENCY
    continue_on_error: bool = True


def apply_all(
    console: Console, targets: Sequence[ClusterTarget], open_run: OpenRun, display: ApplyOutput
) -> ExitCode:
    """Plan all clusters, ask once before the first write, write, report.

    Raises:
        KquotaError: The error of the only cluster.
        UsageError: The question was answered with no, or ``--stop-on-error`` applies; nothing was written.
        Interrupted: The run was interrupted; the outcomes so far were reported.
    """
    begun: list[ApplyRun] = []

    def announce_stop() -> None:
        if any(apply.outcome_path is not None for apply in begun):
            console.note(STOPPING)

    return run(_apply_all(console, targets, open_run, display, begun), on_stop=announce_stop)


async def _apply_all(
    console: Console,
    targets: Sequence[ClusterTarget],
    open_run: OpenRun,
    display: ApplyOutput,
    begun: list[ApplyRun],
) -> ExitCode:
    is_alone = len(targets) == 1
    async with AsyncExitStack() as stack:

        async def prepare(notices: Notices, target: ClusterTarget) -> ApplyRun:
            apply = await stack.enter_async_context(open_run(notices, target))
            if not is_alone:
                await apply.disconnect()
            return apply

        prepared = await work_on(console, targets, prepare, concurrency=display.concurrency)
        runs = [result.value for result in prepared if result.value is not None]
        writing = [run for run in runs if not run.is_refused and run.prepared.plan.changes]
        asks = bool(writing) and not display.yes
        if display.output == "text":
            _show_plans(console, runs, display)
        elif asks:  # The document goes to standard output; the question needs its plan.
            _show_plans(console.for_messages(), runs, display)
        _check_all(console, prepared, display)
        if asks and not await _confirm(console, writing):
            _show_no_outcomes(console, prepared, display)
            raise UsageError("apply cancelled; nothing was written")
        applied = await _apply_prepared(console, runs, display, begun, is_alone=is_alone)
        return _report(console, prepared, applied, display)


def _show_plans(console: Console, runs: Sequence[ApplyRun], display: ApplyOutput) -> None:
    views = [
        ClusterPlan(target=apply.target, prepared=apply.prepared, preview=apply.preview)
        for apply in runs
    ]
    output.show_plans(console, views, "text", verbose=display.verbose)
    console.flush()


def _check_all(console: Console, prepared: Sequence[Prepared], display: ApplyOutput) -> None:
    """Check that every cluster can be written to, unless ``--continue-on-error`` applies.

    Raises:
        UsageError: A cluster has no plan or a refused one; the table or document of all clusters is shown before.
    """
    if display.continue_on_error or len(prepared) == 1:
        return
    names = [
        result.target.display_name
        for result in prepared
        if result.value is None or result.value.is_refused or result.value.preview.errored
    ]
    if names:
        if display.output == "text":
            output.show_fleet_summary(console, rows_of(prepared, _unwritten_row))
        _show_no_outcomes(console, prepared, display)
        raise UsageError(
            f"nothing was written to any cluster: no plan, or a refused one, for {', '.join(names)}",
            hint="correct the errors, or pass --continue-on-error to write to the other clusters",
        )


def _show_no_outcomes(console: Console, prepared: Sequence[Prepared], display: ApplyOutput) -> None:
    """Print the JSON document of a run over several clusters that wrote nothing."""
    if len(prepared) > 1 and display.output == "json":
        _show_documents(console, ())


async def _apply_prepared(
    console: Console,
    runs: Sequence[ApplyRun],
    display: ApplyOutput,
    begun: list[ApplyRun],
    *,
    is_alone: bool,
) -> tuple[Applied, ...]:
    """Write to each cluster that has a plan; return the results.

    Args:
        begun: Receives each run that begins to write.

    Raises:
        KquotaError: The error of the only cluster.
    """
    by_target = {id(apply.target): apply for apply in runs}

    async def write(notices: Notices, target: ClusterTarget) -> Outcome:
        apply = by_target[id(target)]
        apply.notices = notices
        begun.append(apply)
        try:
            return await apply.apply()
        except PlanRefused as refused:
            if display.output == "text":
                refused.violations = ()  # The plan that was shown lists them.
            raise
        except asyncio.CancelledError:
            if apply.outcome_path is not None:
                undo = _undo_command(apply)
                console.note(f"changes may have been made without a result; to undo them: {undo}")
            if is_alone:
                raise
            # Outcomes of other clusters may still have to be shown.
            raise Interrupted(
                "interrupted", hint="run kquota plan to see the current state"
            ) from None
        finally:
            if not is_alone:
                await apply.disconnect()

    try:
        return await work_on(
            console,
            [apply.target for apply in runs],
            write,
            concurrency=display.concurrency,
            is_failed=lambda result: not _is_complete(result),
            stops_on_failure=not display.continue_on_error,
            is_alone=is_alone,
        )
    except Interrupted as stopped:
        if isinstance(stopped.outcome, Outcome):
            _show_outcomes(console, [(runs[0], stopped.outcome)], display, ())
        raise


def _report(
    console: Console, prepared: Sequence[Prepared], applied: Sequence[Applied], display: ApplyOutput
) -> ExitCode:
    """Show the outcomes; return the exit code with the highest precedence.

    Raises:
        Interrupted: The run was interrupted.
    """
    runs = [result.value for result in prepared if result.value is not None]
    outcomes = [
        (apply, outcome)
        for apply, result in zip(runs, applied, strict=True)
        if (outcome := _outcome_of(result)) is not None
    ]
    _show_outcomes(
        console, outcomes, display, _rows(prepared, applied) if len(prepared) > 1 else ()
    )
    for result in applied:
        if isinstance(result.error, Interrupted):
            raise result.error
    is_open = any(apply.open_writes for apply, _ in outcomes)
    return worst(
        [
            ExitCode.ERROR if is_open else ExitCode.DONE,
            code_of_fleet(prepared, lambda _: ExitCode.DONE),
            code_of_fleet(applied, _code),
        ]
    )


def _code(outcome: Outcome) -> ExitCode:
    return ExitCode.DONE if outcome.complete else ExitCode.ERROR


def _is_complete(result: Applied) -> bool:
    return result.value is not None and result.value.complete


def _outcome_of(result: Applied) -> Outcome | None:
    if isinstance(result.error, Interrupted) and isinstance(result.error.outcome, Outcome):
        return result.error.outcome
    return result.value


def _show_outcomes(
    console: Console,
    outcomes: Sequence[tuple[ApplyRun, Outcome]],
    display: ApplyOutput,
    rows: Sequence[FleetRow],
) -> None:
    """Print outcomes, and the commands that continue and undo them.

    Args:
        rows: All clusters of a run over several.

    Raises:
        OSError: Standard output cannot be written; the outcomes are messages, because what was changed must be known.
    """
    try:
        if display.output == "text":
            _show_texts(console, outcomes, display, rows)
        elif rows:
            _show_documents(console, outcomes)
        else:
            console.document(outcome_document(outcomes[0][1]))
        console.flush()
    except OSError:
        _show_texts(console.for_messages(), outcomes, display, rows)
        raise
    finally:
        for apply, outcome in outcomes:
            _show_next_commands(console, apply, outcome)


def _show_documents(console: Console, outcomes: Sequence[tuple[ApplyRun, Outcome]]) -> None:
    documents: list[Json] = [
        {"cluster": apply.target.display_name, "outcome": outcome_document(outcome)}
        for apply, outcome in outcomes
    ]
    console.document({"kind": "kquota-outcomes", "format": 1, "outcomes": documents})


def _show_texts(
    console: Console,
    outcomes: Sequence[tuple[ApplyRun, Outcome]],
    display: ApplyOutput,
    rows: Sequence[FleetRow],
) -> None:
    for apply, outcome in outcomes:
        if not apply.is_idle:  # Its plan already says that there is nothing to do.
            if rows:
                console.fact(f"\n== {apply.target.display_name}")
            text = outcome_text(outcome, style=console.style, verbose=display.verbose)
            console.fact("\n" + text)
    output.show_fleet_summary(console, rows)


def _show_next_commands(console: Console, apply: ApplyRun, outcome: Outcome) -> None:
    if writes := apply.open_writes:
        console.error(
            f"{apply.target.display_name}: {count(writes, 'earlier write')} may still take effect, so another value may follow"
        )
    if writes or not (outcome.complete or outcome.interrupted):
        console.note(f"to continue: {apply.next_command}")
    # A rollback removes what was created.
    if (
        apply.outcome_path is not None
        and apply.preview.policy in REMOVING
        and any(pair.status_text in {"APPLIED", "UNKNOWN"} for pair in outcome.pairs)
    ):
        console.note(f"to undo this: {_undo_command(apply)}")


def _undo_command(apply: ApplyRun) -> str:
    return apply.target.command(
        "rollback", str(apply.out_path or apply.outcome_path), chooses_cluster=False
    )


def _unwritten_row(result: Prepared, apply: ApplyRun) -> FleetRow:
    return replace(preview_row(result, apply.preview), changes=0)


def _rows(prepared: Sequence[Prepared], applied: Sequence[Applied]) -> list[FleetRow]:
    by_target = {id(result.target): result for result in applied}

    def row(result: Prepared, apply: ApplyRun) -> FleetRow:
        written = by_target[id(result.target)]
        outcome = _outcome_of(written)
        total_result = replace(
            result, error=written.error, seconds=result.seconds + written.seconds
        )
        cells = preview_row(total_result, apply.preview, outcome)
        if written.error is None or outcome is not None:
            return cells
        result_word = cells.outcome if apply.is_refused else outcome_of_error(total_result)
        return replace(cells, outcome=result_word, changes=None)

    return rows_of(prepared, row)


async def _confirm(console: Console, runs: Sequence[ApplyRun]) -> bool:
    """Whether the user confirms; Ctrl-C at the question takes effect at once."""
    loop, answered = asyncio.get_running_loop(), asyncio.Event()
    if len(runs) == 1:
        console.question(f"Apply this to {runs[0].target.display_name}?")
    else:
        changes = sum(len(apply.prepared.plan.changes) for apply in runs)
        console.question(f"Apply {count(changes, 'change')} to {len(runs)} clusters?")
    loop.add_reader(sys.stdin.fileno(), answered.set)
    try:
        await answered.wait()
    finally:
        loop.remove_reader(sys.stdin.fileno())
    return console.answer()
