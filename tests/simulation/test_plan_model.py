"""The independent implementations of the rules: planner, guards and order agree with them; a changed plan does not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.quota.entity import DEFAULT, Entity, entity
from reconciler.quota.keys import Key
from reconciler.quota.overrides import Override
from reconciler.quota.ownership import (
    NOBODY,
    Intent,
    IntentStarted,
    Orphaned,
    OverrideSet,
    Owner,
    OwnershipRecords,
    Recorded,
)
from reconciler.quota.patterns import EntityPattern, NamePattern
from reconciler.quota.planner.comparison import compare
from reconciler.quota.planner.desired_state import Declaration, merge
from reconciler.quota.planner.guards import Guards, NewlyUnlimited, Protection, check
from reconciler.quota.planner.plan import QuotaChange
from reconciler.quota.planner.temporary_limits import below_overrides
from reconciler.quota.policy import Cause, DeletionPolicy, DriftMode, IgnoreRule, Policy, Rules
from reconciler.quota.results.report import PairOutcome
from reconciler.quota.state import (
    Alteration,
    Applied,
    Held,
    QuotaState,
    Rejected,
    Unknown,
    limits_of,
)
from tests.quota.log_model import CHANCES, CROWD, as_ends, changes_between, drive, states
from tests.simulation.guard_model import refusal_of, refusals
from tests.simulation.hold_model import HoldModel
from tests.simulation.laws import CLIENTS
from tests.simulation.plan_model import PlanInputs, PlanModel
from tests.simulation.scenario import NEAR

NOW = 1_000.0
ALICE, APP, ANYONE = (
    entity(user="alice"),
    entity(user="alice", client_id="app"),
    entity(user=DEFAULT),
)
KEYS = (Key.PRODUCER_BYTE_RATE, Key.REQUEST_PERCENTAGE)
VALUES = st.sampled_from((500.0, 2_000.0, 2_000.0 + NEAR, 90_000.0))
NOTHING = st.none() | VALUES
OF_ALICE = EntityPattern(user=NamePattern(exact="alice"))
OWNERS = st.builds(
    Owner,
    document=st.sampled_from(("team/a", "team/b")),
    deletion_policy=st.sampled_from((None, *DeletionPolicy)),
)
RULES = st.builds(
    Rules,
    policy=st.sampled_from(Policy),
    sync_confirmed=st.booleans(),
    drift=st.sampled_from(DriftMode),
    scope=st.sampled_from(((), (OF_ALICE,))),
    ignore=st.sampled_from(
        tuple(
            tuple(IgnoreRule(entities=OF_ALICE, reason="r", until=until) for until in untils)
            for untils in ((), (None,), (NOW,), (NOW + 1,))
        )
    ),
    complete=st.booleans(),
    configured=st.booleans(),
    force=st.booleans(),
)


@st.composite
def record_changes(draw: st.DrawFn, subject: Entity, key: Key):
    """Return changes that make the records of one quota key."""
    value, pair = draw(NOTHING), {"entity": subject, "key": key}
    changes: list[object] = []
    if value is not None:
        changes.append(Recorded(**pair, value=value, owner=draw(OWNERS)))
        changes += [Orphaned(**pair)] * draw(st.integers(0, 1))
    if draw(st.booleans()):
        at = NOW - draw(st.sampled_from((0.0, 64.0, 65.0, 400.0, -30.0)))
        intent = Intent(value=draw(NOTHING), owner=draw(OWNERS | st.just(NOBODY)), at=at)
        changes.append(IntentStarted(**pair, intent=intent))
    if draw(st.booleans()):
        override = Override(
            **pair,
            value=draw(NOTHING),
            until=NOW + draw(st.sampled_from((-1.0, 0.0, 1.0))),
            author="a",
            reason="r",
            before=draw(NOTHING),
            declared=draw(NOTHING),
            applied=draw(NOTHING),
            ends_with_document=draw(st.booleans()),
        )
        changes.append(OverrideSet(override=override))
    return changes


@st.composite
def declarations(draw: st.DrawFn):
    """Return documents of up to three names, of which two may declare one quota key."""
    return [
        Declaration(
            document=name,
            entity=draw(st.sampled_from((ALICE, APP, ANYONE))),
            limits=limits_of({key: draw(VALUES) for key in keys}),
            deletion_policy=draw(st.sampled_from((None, *DeletionPolicy))),
            suspended=draw(st.integers(0, 5)) == 0,
        )
        for name in draw(st.sets(st.sampled_from(("team/a", "team/b", "team/c"))))
        if (keys := draw(st.sets(st.sampled_from(KEYS), min_size=1)))
    ]


@st.composite
def inputs(draw: st.DrawFn) -> PlanInputs:
    changes: list[object] = []
    values: dict[Entity, dict[Key, float]] = {}
    for subject in draw(st.sets(st.sampled_from((ALICE, APP, ANYONE)))):
        for key in KEYS:
            changes += draw(record_changes(subject, key))
            live = draw(NOTHING)
            if live is not None:
                values.setdefault(subject, {})[key] = live
    return PlanInputs(
        documents=draw(declarations()),
        owned=OwnershipRecords(cluster_id="c").with_changes(changes),
        live=QuotaState(limits={subject: limits_of(row) for subject, row in values.items()}),
        rules=draw(RULES),
        at=NOW,
    )


def plan_of(facts: PlanInputs):
    return compare(
        desired=merge(facts.documents),
        owned=facts.owned,
        live=facts.live,
        rules=facts.rules,
        now=facts.at,
    )


@given(inputs())
def test_planner_and_model_agree(facts):
    plan, model = plan_of(facts), PlanModel(facts)
    assert model.contradiction(plan) == ""
    assert plan.owned_pairs == model.owned_pairs


GUARDS = st.builds(
    Guards,
    max_removals=st.integers(0, 2),
    max_change_factor=st.sampled_from((1.5, 4.0, 100.0)),
    newly_unlimited=st.sampled_from(NewlyUnlimited),
    protect_defaults=st.booleans(),
    allow_small_values=st.booleans(),
    allow_empty=st.booleans(),
    protected=st.sampled_from(((), (Protection(entities=OF_ALICE, reason="r"),))),
)


@given(inputs(), GUARDS)
def test_guards_and_model_agree(facts, guards):
    plan = plan_of(facts)
    overrides, below = facts.owned.overrides, below_overrides(facts.live, facts.owned)
    violations = {refusal_of(item) for item in check(plan, guards, below)}
    owned_pairs = PlanModel(facts).owned_pairs
    assert violations == refusals(plan, guards, facts.live, owned_pairs, overrides)


def declares(subject: Entity, value: float, *, suspended: bool = False) -> Declaration:
    limits = limits_of({KEYS[0]: value})
    return Declaration(document="team/a", entity=subject, limits=limits, suspended=suspended)


CREATED = PlanInputs(
    documents=(declares(ALICE, 1.0), replace(declares(ANYONE, 2.0), document="team/b")),
    owned=OwnershipRecords(cluster_id="c"),
    live=QuotaState(),
    rules=Rules(),
    at=NOW,
)
ADOPTED = replace(CREATED, live=QuotaState(limits={ALICE: limits_of({KEYS[0]: 1.0})}))


@pytest.mark.parametrize(
    ("facts", "tampered"),
    [
        (CREATED, lambda plan: replace(plan, changes=plan.changes[:1])),
        (CREATED, lambda plan: replace(plan, changes=plan.changes[::-1])),
        (
            CREATED,
            lambda plan: replace(
                plan, changes=(replace(plan.changes[0], after=9.0), *plan.changes[1:])
            ),
        ),
        (
            CREATED,
            lambda plan: replace(
                plan, changes=(replace(plan.changes[0], cause=Cause.SPEC), *plan.changes[1:])
            ),
        ),
        (ADOPTED, lambda plan: replace(plan, bookkeeping=())),
        (ADOPTED, lambda plan: replace(plan, findings=())),
        (replace(ADOPTED, rules=Rules(policy=Policy.OBSERVE)), lambda _: plan_of(ADOPTED)),
    ],
    ids=["missing", "unsorted", "value", "cause", "record", "finding", "Observe"],
)
def test_a_plan_against_the_rules_is_seen(facts, tampered):
    model = PlanModel(facts)
    assert model.contradiction(plan_of(facts)) == ""
    assert model.contradiction(tampered(plan_of(facts))) != ""


HOLDS = HoldModel(
    {**CLIENTS, "alice/app": (*CLIENTS["alice/app"],), "alice/stranger": CLIENTS["alice/stranger"]}
)


@given(states(CROWD), states(CROWD), CHANCES, st.randoms())
def test_order_and_model_agree(before, after, chances, random):
    changes = as_ends(changes_between(before, after), random)
    _, results = drive(before, changes, chances)
    outcomes = [
        PairOutcome(change=change, result=results[change.entity, change.key]) for change in changes
    ]
    assert HOLDS.contradiction(outcomes, live=before, open_writes=(), withheld=()) == ""


def outcome(
    subject: Entity,
    after: float | None,
    result: object,
    key: Key = KEYS[0],
    cause: Cause = Cause.SPEC,
):
    change = QuotaChange(entity=subject, key=key, before=5.0, after=after, cause=cause)
    return PairOutcome(change=change, result=result)


def end(subject: Entity, after: float | None, result: object):
    return outcome(subject, after, result, cause=Cause.ENDED)


REFUSED = Rejected(code=42, name="INVALID_REQUEST", message="no")
LOST, WAITED, DONE = Unknown(reason="lost"), Held(waits_for=(ALICE,)), Applied()
EARLIER = Intent(value=9.0, owner=Owner(document="team/a"), at=NOW)


@pytest.mark.parametrize(
    ("first", "second"),
    [((APP, None), (ALICE, None)), ((ALICE, 1.0), (APP, 1.0)), ((APP, None), (ALICE, 1.0))],
    ids=["closer removal", "wider set", "removal before a set"],
)
def test_a_change_that_is_sent_before_one_that_it_relies_on_is_seen(first, second):
    outcomes = [outcome(subject, after, DONE) for subject, after in (first, second)]
    sent = [Alteration(subject, ((str(KEYS[0]), after),)) for subject, after in (first, second)]
    assert (
        HOLDS.contradiction(
            outcomes, live=QuotaState(), open_writes=(), withheld=(), sent=sent[::-1]
        )
        == ""
    )
    assert (
        HOLDS.contradiction(outcomes, live=QuotaState(), open_writes=(), withheld=(), sent=sent)
        != ""
    )


@pytest.mark.parametrize(
    ("outcomes", "open_writes", "withheld"),
    [
        ([outcome(APP, 1.0, REFUSED), outcome(ALICE, 2.0, DONE)], (), ()),
        ([outcome(APP, None, DONE), outcome(ALICE, None, LOST)], (), ()),
        ([outcome(APP, 1.0, LOST), outcome(ANYONE, None, DONE)], (), ()),
        ([outcome(APP, 1.0, LOST), outcome(APP, None, DONE, KEYS[1])], (), ()),
        ([outcome(ALICE, 1.0, DONE)], (((APP, KEYS[0]), EARLIER),), ()),
        ([outcome(ALICE, 1.0, DONE, KEYS[1])], (((ALICE, KEYS[0]), EARLIER),), ()),
        ([outcome(ALICE, 1.0, DONE)], (), (outcome(APP, 2.0, None).change,)),
        ([outcome(ALICE, 1.0, WAITED), outcome(APP, 1.0, DONE)], (), ()),
        ([outcome(entity(ip="10.0.0.1"), 1.0, WAITED), outcome(ALICE, 1.0, REFUSED)], (), ()),
        ([outcome(ANYONE, 1.0, REFUSED), end(ALICE, None, WAITED)], (), ()),
        ([end(ALICE, None, WAITED)], (), (outcome(ANYONE, 2.0, None).change,)),
        ([outcome(ANYONE, 1.0, LOST), end(ALICE, None, DONE)], (), ()),
        ([end(APP, 1.0, REFUSED), end(ALICE, 2.0, DONE)], (), ()),
    ],
    ids=[
        "set after a refused closer one",
        "removal after a lost wider one",
        "removal after a lost set",
        "entity of unknown outcome",
        "earlier write",
        "earlier write of another key",
        "withheld",
        "waits for what was applied",
        "address waits for a user",
        "end of an override waits for a refused set",
        "end of an override waits for a withheld set",
        "end of an override after a lost set",
        "end of an override after a refused closer end",
    ],
)
def test_a_plan_that_is_sent_against_the_order_is_seen(outcomes, open_writes, withheld):
    assert (
        HOLDS.contradiction(outcomes, live=QuotaState(), open_writes=open_writes, withheld=withheld)
        != ""
    )
