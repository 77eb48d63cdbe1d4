"""One apply, start to end: prepare, compare with what was approved, show, ask, apply, tell, keep the outcome."""

import asyncio
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from reconciler.cli import showing
from reconciler.cli.console import Console
from reconciler.cli.exits import Exit
from reconciler.cli.orders import Limits, orders_for, origin_of
from reconciler.cli.outcomes import keep_outcome
from reconciler.cli.planning import Sources, Task, prepared_for
from reconciler.cli.principals import with_users
from reconciler.cli.running import run
from reconciler.cli.where import Target
from reconciler.cli.world import Records, World, world
from reconciler.errors import Interrupted, KquotaError, Refused, UsageError
from reconciler.quota.policy import STRICTNESS
from reconciler.quota.report import Outcome
from reconciler.reconcile import (
    Orders,
    Prepared,
    SavedPlan,
    check_digest,
    check_fresh,
    check_same_effect,
    observe,
    trusted,
)
from reconciler.reconcile import apply as apply_prepared
from reconciler.reconcile.observe import rules_for
from reconciler.reconcile.validate import validate
from reconciler.render.units import count


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
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
        out: Where the outcome goes.
        output: ``text`` or ``json``.
        command: What runs, for locks and the audit log.
        next_words: The command that goes on after a run that was not complete, without the options of the cluster.
        verbose: Print long lists whole.
        gathered: With several clusters and JSON: where outcomes go, to be shown as one document at the end.
    """

    target: Target
    task: Task | None
    saved: SavedPlan | None
    limits: Limits
    sources: Sources
    yes: bool
    expect_digest: str | None
    max_age: float
    pace: bool
    out: Path | None
    output: str
    command: str = "apply"
    next_words: tuple[str, ...] = ("plan",)
    verbose: bool = False
    gathered: list[tuple[Target, Outcome | None]] | None = None


def apply_one(console: Console, wanted: Wanted) -> Exit:
    """Apply to one cluster.

    Raises:
        Refused: A guard, the policy or a scope says no; nothing was written.
        StalePlan: The saved plan no longer fits; nothing was written.
        Interrupted: Somebody asked to stop; what was done has been told.
        UsageError: The question was answered with no.
    """
    task = wanted.task
    records = Records(none=wanted.sources.no_inventory) if task is None else task.records

    async def work() -> Outcome | None:
        async with world(
            console, wanted.target, records, command=wanted.command, writes=True
        ) as outside:
            if task is None:
                orders, prepared = await _trusted(wanted, outside)
            else:
                orders = replace(task.orders, own_principal=outside.own_principal)
                prepared = await prepared_for(task, outside)
                _check_approved(wanted, outside, prepared)
                if wanted.output == "text":
                    prepared = await with_users(task, prepared, outside.client)
            return await carry_out(console, wanted, outside, orders, prepared)

    return told_outcome(console, wanted, run(work()))


async def carry_out(
    console: Console, wanted: Wanted, outside: World, orders: Orders, prepared: Prepared
) -> Outcome | None:
    """Show, ask, apply; ``None`` where there was nothing to do."""
    shown = prepared.preview
    idle = not (prepared.plan.changes or prepared.plan.bookkeeping or prepared.override_changes)
    if wanted.output == "text":
        if wanted.saved is not None and not wanted.verbose:
            showing.show_summary(console, shown)
        else:
            plan = showing.Shown(target=wanted.target, preview=shown)
            showing.show_plans(console, [plan], "text", verbose=wanted.verbose)
        console.flush()
    if not shown.violations and not prepared.plan.conflicts:
        if idle:
            return None
        if prepared.plan.changes and not wanted.yes and not await asked(console, wanted.target):
            raise UsageError("nothing was done, as you said")
    return await _applied(console, wanted, outside, orders, prepared)


async def _applied(
    console: Console, wanted: Wanted, outside: World, orders: Orders, prepared: Prepared
) -> Outcome:
    """Apply, with the outcome on disk from before the first request, so that a run that is killed can be undone."""
    early: list[Path] = []

    def keep(unended: Outcome) -> None:
        kept = keep_outcome(console, wanted.target, unended, wanted.out)
        if kept is not None:
            early.append(kept)

    try:
        return await apply_prepared(outside.ports, orders, prepared, before_sending=keep)
    except Interrupted as stopped:
        if isinstance(stopped.outcome, Outcome):
            told_outcome(console, wanted, stopped.outcome)
        raise
    except KquotaError as error:
        for kept in early:  # nothing was sent, so there is nothing to undo
            kept.unlink(missing_ok=True)
        if early:
            many = count(len(prepared.plan.changes), "change")
            error.reword(f"0 applied, {many} not sent: {error.message}")
            error.hint = f"{error.hint}; next: `{_next_command(wanted)}`".removeprefix("; ")
        raise


def told_outcome(console: Console, wanted: Wanted, outcome: Outcome | None) -> Exit:
    """Keep an outcome on disk, then print it; a reader who went away must not cost the file."""
    kept = None if outcome is None else keep_outcome(console, wanted.target, outcome, wanted.out)
    if wanted.gathered is None:
        showing.show_outcome(console, outcome, wanted.output, verbose=wanted.verbose)
    else:
        wanted.gathered.append((wanted.target, outcome))
    if outcome is None:
        return Exit.DONE
    if not (outcome.complete or outcome.interrupted):
        console.note(f"next: {_next_command(wanted)}")
    if kept is not None and any(pair.word in {"APPLIED", "UNKNOWN"} for pair in outcome.pairs):
        undo = wanted.target.command("rollback", str(kept), chooses_cluster=False)
        console.note(f"to undo this: {undo}")
    return Exit.DONE if outcome.complete else Exit.ERROR


def _next_command(wanted: Wanted) -> str:
    return wanted.target.command(*wanted.next_words)


def _check_approved(wanted: Wanted, outside: World, prepared: Prepared) -> None:
    """Nothing, if what would be done is what was approved.

    Raises:
        StalePlan: It is not.
    """
    if wanted.saved is not None:
        now = outside.ports.clock.now()
        check_fresh(wanted.saved, prepared.seen, now=now, max_age=wanted.max_age)
        check_same_effect(wanted.saved, prepared, digest=wanted.expect_digest)
    elif wanted.expect_digest is not None:
        check_digest(prepared, wanted.expect_digest)


async def _trusted(wanted: Wanted, outside: World) -> tuple[Orders, Prepared]:
    """A saved plan without its documents; connection, guards and policy are still our own."""
    saved = wanted.saved
    assert saved is not None  # noqa: S101 - checked where the option was read
    target = wanted.target
    orders = orders_for(
        target, wanted.limits, complete=True, removals_known=True, origin=origin_of(target)
    )
    orders = replace(orders, pace=wanted.pace, own_principal=outside.own_principal)
    seen = await observe(outside.ports, orders)
    check_fresh(saved, seen, now=outside.ports.clock.now(), max_age=wanted.max_age)
    prepared = trusted(saved, seen, orders)
    if wanted.expect_digest is not None:
        check_digest(prepared, wanted.expect_digest)
    in_force = rules_for(orders, seen).in_force
    if STRICTNESS.index(saved.policy) > STRICTNESS.index(in_force):
        raise Refused(
            f"the plan was made under {saved.policy}, but {in_force} is in force for {target.shown}",
            hint="plan again under the policy in force",
        )
    verdict = await validate(outside.ports, orders, seen, prepared.plan.changes)
    return orders, replace(prepared, preview=replace(prepared.preview, verdict=verdict))


async def asked(console: Console, target: Target) -> bool:
    """Whether a person says yes; Ctrl-C at the question is heard at once."""
    loop, answered = asyncio.get_running_loop(), asyncio.Event()
    console.question(f"Apply this to {target.shown}?")
    loop.add_reader(sys.stdin.fileno(), answered.set)
    try:
        await answered.wait()
    finally:
        loop.remove_reader(sys.stdin.fileno())
    return console.answer()
