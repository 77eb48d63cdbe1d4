"""Passes for tests: what each field of one means is said by its arguments."""

from reconciler.errors import KquotaError
from reconciler.quota.basis import Basis
from reconciler.quota.change import Change, Finding, Plan
from reconciler.quota.entity import entity
from reconciler.quota.guards import Guard, Violation
from reconciler.quota.keys import Key
from reconciler.quota.outcome import Applied, Held, Rejected, Result, Unknown
from reconciler.quota.policy import Action, Cause, DriftMode, Policy
from reconciler.quota.report import Outcome, PairOutcome, Pass, Preview, Seen, Verdict, Withheld
from reconciler.quota.vigil import Sighting

ALICE, BOB = entity(user="alice"), entity(user="bob")
RATE = Key.PRODUCER_BYTE_RATE
NOW = 1_700_000_000.0
REJECTED = Rejected(code=42, name="INVALID_REQUEST", message="no")
HELD = Held(waits_for=(ALICE,))
UNKNOWN = Unknown(why="no answer")
APPLIED = Applied()


def change(cause: Cause = Cause.CREATE, *, after: float | None = 2.0, before: float | None = None) -> Change:  # fmt: skip
    return Change(entity=ALICE, key=RATE, before=before, after=after, cause=cause)


def finding(cause: Cause, action: Action = Action.REPORT, *, ignored: bool = False) -> Finding:
    return Finding(entity=BOB, key=RATE, desired=1.0, applied=1.0, live=2.0, cause=cause, action=action,
                   ignored=ignored)  # fmt: skip


def preview(*changes: Change, findings: tuple[Finding, ...] = (), **plan) -> Preview:
    return Preview(
        plan=Plan(cluster_id="c", changes=changes, findings=findings, **plan),
        basis=Basis(),
        verdict=Verdict(source="none"),
        policy=Policy.UPSERT,
        drift_mode=DriftMode.WARN,
        created_at=NOW,
    )


def outcome(*results: tuple[Change, Result | None], seen: Seen = Seen.VISIBLE, **more) -> Outcome:
    pairs = tuple(PairOutcome(change=one, result=result, seen=seen) for one, result in results)
    return Outcome(cluster_id="c", digest="sha256:0", pairs=pairs, **more)


def withheld(one: Change, *guards: Guard) -> Withheld:
    said = tuple(Violation(guard=guard, message="no") for guard in guards)
    return Withheld(change=one, violations=said)


def sighting(*, confirmed: bool = True, fought: bool = False, user: str = "alice") -> Sighting:
    return Sighting(entity=entity(user=user), key=RATE, expected=1.0, live=2.0, since=NOW, confirmed=confirmed,
                    fought=fought)  # fmt: skip


def passed(error: KquotaError | None = None, *, cluster: str = "prod", **more) -> Pass:
    if error is None:
        more.setdefault("preview", preview())
    return Pass(cluster=cluster, error=error, started_at=NOW, ended_at=NOW + 3.0, **more)
