"""Guards: each alone, at its bound and over it, all together; overrides are exempt."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.errors import QuotaValueError
from reconciler.quota.entity import DEFAULT, Entity, entity
from reconciler.quota.keys import Key
from reconciler.quota.patterns import EVERYTHING, EntityPattern, NamePattern
from reconciler.quota.planner.desired_state import Declaration
from reconciler.quota.planner.effects import PlanEffects
from reconciler.quota.planner.guards import (
    ALLOWED_WITH,
    Guard,
    Guards,
    NewlyUnlimited,
    Protection,
    Violation,
    check,
    override_violations,
)
from reconciler.quota.planner.plan import Plan, QuotaChange
from reconciler.quota.planner.value_ranges import ValueRange
from reconciler.quota.policy import Cause
from reconciler.quota.state import QuotaState, limits_of

RATE, SHARE, CONNECTIONS = (
    Key.PRODUCER_BYTE_RATE,
    Key.REQUEST_PERCENTAGE,
    Key.CONNECTION_CREATION_RATE,
)
MUTATIONS = Key.CONTROLLER_MUTATION_RATE
ALICE = entity(user="alice")
OFF = Guards(
    max_removals=10**6,
    max_removed_percent=100.0,
    max_change_factor=math.inf,
    protect_defaults=False,
    allow_small_values=True,
    allow_empty=True,
)


def change(
    before: float | None,
    after: float | None,
    *,
    subject: Entity = ALICE,
    key: Key = RATE,
    cause: Cause = Cause.SPEC,
    declared: bool = True,
) -> QuotaChange:
    claim = Declaration(
        document="t/one",
        entity=subject,
        limits=limits_of({key: after or 1.0}),
        path="a.yaml",
        line=7,
    )
    return QuotaChange(
        entity=subject,
        key=key,
        before=before,
        after=after,
        cause=cause,
        claim=claim if declared and after is not None else None,
    )


def removals(count: int) -> tuple[QuotaChange, ...]:
    return tuple(change(1e6, None, subject=entity(user=f"u{n}")) for n in range(count))


def broken(
    guards: Guards, *changes: QuotaChange, live: QuotaState | None = None, **plan: object
) -> list[Guard]:
    """The guards that a plan violates; the live state is that before the changes."""
    before = QuotaState().with_values(
        (change.entity, change.key, change.before) for change in changes
    )
    new_plan = Plan(cluster_id="c", changes=changes, **plan)
    return [violation.guard for violation in check(new_plan, guards, live or before)]


@pytest.mark.parametrize("origin", ["those of the plan", "of another state", "of other changes"])
def test_effects_that_are_known_are_used_if_they_are_those_of_the_plan(origin):
    live = QuotaState().with_values([(ALICE, RATE, 1e6)])
    too_much = change(1e6, 1e9)
    plan_effects = PlanEffects(
        QuotaState() if origin == "of another state" else live,
        () if origin == "of other changes" else (too_much,),
    )
    violations = check(Plan(cluster_id="c", changes=(too_much,)), Guards(), live, plan_effects)
    assert Guard.MAX_CHANGE_FACTOR in [violation.guard for violation in violations]


def test_ten_removals_are_allowed_and_eleven_are_refused():
    guards = Guards()
    assert broken(guards, *removals(10)) == []
    assert broken(guards, *removals(11)) == [Guard.MAX_REMOVALS]
    assert broken(replace(guards, max_removals=11), *removals(11)) == []


def test_the_percentage_of_removals_is_checked_from_twenty_owned_pairs():
    guards = replace(OFF, max_removed_percent=20.0)
    assert broken(guards, *removals(19), owned_pairs=19) == []
    assert broken(guards, *removals(4), owned_pairs=20) == []
    assert broken(guards, *removals(5), owned_pairs=20) == [Guard.MAX_REMOVED_SHARE]
    assert broken(guards, *removals(5), owned_pairs=0) == []


@pytest.mark.parametrize(
    ("before", "after", "refused"),
    [
        (1e6, 1e7, False),
        (1e7, 1e6, False),
        (1e6, 1.01e7, True),
        (1.01e7, 1e6, True),
        (None, 1e9, False),
        (1e9, None, False),
        (0.0, 1e6, True),
        (math.nan, 1e6, True),
    ],
)
def test_a_limit_may_become_ten_times_larger_or_smaller(before, after, refused):
    guards = replace(OFF, max_change_factor=10.0)
    assert broken(guards, change(before, after)) == [Guard.MAX_CHANGE_FACTOR] * refused


def test_a_factor_of_ten_is_allowed_despite_binary_rounding():
    guards = replace(OFF, max_change_factor=10.0)
    for before, after in ((0.7, 7.0), (7.0, 0.7)):
        assert broken(guards, change(before, after, key=SHARE)) == []


ANYONE = entity(user=DEFAULT)
FACTORS = replace(OFF, max_change_factor=Guards().max_change_factor)
"""Guards with the factor only."""


def default_of(value: float) -> QuotaState:
    return QuotaState(limits={ANYONE: limits_of({RATE: value})})


BATCH = ValueRange(
    entities=EntityPattern(user=NamePattern(exact="alice")), key=RATE, minimum=1e8, maximum=5e8
)


def test_a_range_of_the_entity_approves_a_change_into_it_and_one_from_it_to_a_default():
    guards = replace(FACTORS, bounds=(BATCH,))
    assert broken(guards, change(None, 2e8), live=default_of(1e3)) == []
    assert broken(guards, change(1e3, 2e8)) == []
    live = QuotaState(limits={ALICE: limits_of({RATE: 2e8}), ANYONE: limits_of({RATE: 1e3})})
    assert broken(guards, change(2e8, None), live=live) == []
    bob = change(None, 2e8, subject=entity(user="bob"))
    assert broken(guards, bob, live=default_of(1e3)) == [Guard.MAX_CHANGE_FACTOR]
    outside = change(None, 6e8)
    assert broken(guards, outside, live=default_of(1e3)) == [
        Guard.BOUNDS_RANGE,
        Guard.MAX_CHANGE_FACTOR,
    ]


def test_a_range_of_a_tenant_approves_values_declared_by_its_documents():
    granted = replace(BATCH, namespaces=frozenset({"t"}))
    foreign = replace(BATCH, namespaces=frozenset({"other"}))
    new_change = change(None, 2e8)
    assert broken(replace(FACTORS, granted=(granted,)), new_change, live=default_of(1e3)) == []
    refused = broken(replace(FACTORS, granted=(foreign,)), new_change, live=default_of(1e3))
    assert refused == [Guard.MAX_CHANGE_FACTOR]


SLIPS = (1e3, 1024.0, 1e6, 1024.0**2, 1e9, 1024.0**3, 8e3, 8 * 1024.0)
"""Between bytes, kilobytes, megabytes and gigabytes of both kinds; and bits with a prefix."""
_values = st.floats(min_value=1.0, max_value=1e15)
_live = st.one_of(
    st.builds(default_of, _values),
    st.builds(
        lambda own, wide: QuotaState(
            limits={ALICE: limits_of({RATE: own}), ANYONE: limits_of({RATE: wide})}
        ),
        _values,
        _values,
    ),
)
_ranges = st.one_of(
    st.just(()),
    st.builds(
        lambda least, width: (replace(BATCH, minimum=least, maximum=least * width),),
        _values,
        st.floats(min_value=1.0, max_value=1e7),
    ),
    st.builds(lambda most: (replace(BATCH, minimum=None, maximum=most),), _values),
    st.builds(lambda least: (ValueRange(entities=EVERYTHING, key=RATE, minimum=least),), _values),
    st.just((ValueRange(entities=EVERYTHING, key=RATE, minimum=1.0, maximum=900.0),)),
)


@given(live=_live, bounds=_ranges, value=_values, slip=st.sampled_from(SLIPS))
def test_a_value_and_its_unit_slip_are_never_both_allowed_for_clients_with_a_limit(
    live, bounds, value, slip
):
    """For an exception from a default and for a changed value, with any ranges."""
    guards = replace(FACTORS, bounds=bounds)
    before = live.value(ALICE, RATE)

    def passes(after: float) -> bool:
        return after == before or not broken(guards, change(before, after), live=live)

    assert not (passes(value) and passes(value * slip))


def test_the_removal_of_the_last_limit_of_clients_is_refused_only_if_configured():
    refusing = replace(OFF, newly_unlimited=NewlyUnlimited.REFUSE)
    assert broken(OFF, change(1e6, None)) == []
    assert broken(refusing, change(1e6, None)) == [Guard.NEWLY_UNLIMITED]
    live = QuotaState(
        limits={ALICE: limits_of({RATE: 1e6}), entity(user=DEFAULT): limits_of({RATE: 1e6})}
    )
    assert broken(refusing, change(1e6, None), live=live) == []
    assert broken(refusing, change(1e6, 2e6)) == []
    assert broken(refusing, change(None, 2e6)) == []


@pytest.mark.parametrize(
    ("key", "subject", "slip"),
    [
        (RATE, ALICE, 1024.0),
        (Key.CONSUMER_BYTE_RATE, ALICE, 1024.0),
        (SHARE, ALICE, 1.0),
        (CONNECTIONS, entity(ip="::1"), 1.0),
        (MUTATIONS, ALICE, 0.0),
    ],
)
def test_values_that_look_like_a_unit_slip_are_refused(key, subject, slip):
    guards = replace(OFF, allow_small_values=False)
    assert broken(guards, change(None, slip or 0.01, key=key, subject=subject)) == []
    if slip:
        small = change(None, slip - 0.5, key=key, subject=subject)
        assert broken(guards, small) == [Guard.BOUNDS_UNIT]
        assert broken(OFF, small) == []


def test_an_override_is_judged_by_its_value_alone():
    guards = replace(OFF, allow_small_values=False, protect_defaults=True, max_change_factor=2.0)
    slip = replace(change(5e6, 5.0), cause=Cause.OVERRIDE, claim=None)
    violations = override_violations((slip, change(None, 5.0)), guards)
    assert [item.guard for item in violations] == [Guard.BOUNDS_UNIT]
    assert check(Plan(cluster_id="c", changes=(slip,)), guards, QuotaState()) == ()


def test_a_minimum_replaces_the_guard_against_unit_slips_and_a_maximum_does_not():
    guards = replace(OFF, allow_small_values=False)
    low = ValueRange(entities=EVERYTHING, key=RATE, minimum=100.0)
    high = ValueRange(entities=EVERYTHING, key=RATE, maximum=5e6)
    assert broken(replace(guards, bounds=(low,)), change(None, 100.0)) == []
    assert broken(replace(guards, bounds=(low,)), change(None, 99.0)) == [Guard.BOUNDS_RANGE]
    assert broken(replace(guards, bounds=(high,)), change(None, 100.0)) == [Guard.BOUNDS_UNIT]
    assert broken(replace(guards, bounds=(high,)), change(None, 5e6)) == []
    assert broken(replace(guards, bounds=(high,)), change(None, 5e6 + 1)) == [Guard.BOUNDS_RANGE]


def test_the_first_bound_for_entity_and_key_applies():
    bob = EntityPattern(user=NamePattern(exact="bob"))
    bounds = (
        ValueRange(entities=bob, key=RATE, maximum=1.0),
        ValueRange(entities=EVERYTHING, key=SHARE, maximum=1.0),
        ValueRange(entities=EVERYTHING, key=RATE, maximum=5e6),
        ValueRange(entities=EVERYTHING, key=RATE, maximum=1.0),
    )
    assert broken(replace(OFF, bounds=bounds), change(None, 4e6)) == []
    assert broken(replace(OFF, bounds=bounds), change(None, 6e6)) == [Guard.BOUNDS_RANGE]


@pytest.mark.parametrize(
    "subject",
    [entity(user=DEFAULT), entity(user="alice", client_id=DEFAULT), entity(client_id=DEFAULT)],
)
@pytest.mark.parametrize(("before", "after"), [(None, 1e6), (1e6, 2e6), (1e6, None)])
def test_defaults_are_protected_against_any_change(subject, before, after):
    guards = replace(OFF, protect_defaults=True)
    assert broken(guards, change(before, after, subject=subject)) == [Guard.PROTECTED]
    assert broken(OFF, change(before, after, subject=subject)) == []


def test_a_user_with_the_name_of_the_default_is_not_protected():
    named = entity(user="<default>")
    assert broken(replace(OFF, protect_defaults=True), change(None, 1e6, subject=named)) == []


ADMINS = Protection(entities=EntityPattern(user=NamePattern(prefix="admin-")), reason="platform's")


@pytest.mark.parametrize(("before", "after"), [(None, 1e6), (1e6, 2e6), (1e6, None)])
def test_protected_entities_are_not_changed(before, after):
    guards = replace(OFF, protected=(ADMINS,))
    protected_change = change(before, after, subject=entity(user="admin-a", client_id="app"))
    (violation,) = check(
        Plan(cluster_id="c", changes=(protected_change, change(before, after))),
        guards,
        QuotaState(),
    )
    assert violation == Violation(
        guard=Guard.PROTECTED_ENTITIES,
        message=f"{protected_change.action} on a protected entity: platform's",
        entity=protected_change.entity,
        key=RATE,
        place="" if after is None else "a.yaml:7",
        cause=protected_change.cause,
    )
    assert broken(OFF, protected_change) == []


def test_of_two_protections_the_first_gives_the_reason():
    silent = Protection(entities=EVERYTHING)
    protected_change = change(None, 1e6, subject=entity(user="admin-a"))
    for order, words in (((silent, ADMINS), ""), ((ADMINS, silent), ": platform's")):
        plan = Plan(cluster_id="c", changes=(protected_change,))
        (violation,) = check(plan, replace(OFF, protected=order), QuotaState())
        assert violation.message == f"create on a protected entity{words}"


def test_a_plan_without_documents_is_refused_while_pairs_are_owned():
    guards = replace(OFF, allow_empty=False)
    assert broken(guards, owned_pairs=1) == [Guard.EMPTY_DESIRED]
    assert broken(guards, owned_pairs=0) == []
    assert broken(guards, owned_pairs=1, documents=1) == []
    assert broken(guards, owned_pairs=1, desired_pairs=1) == []
    assert broken(OFF, owned_pairs=1) == []


def test_all_violations_are_reported_in_a_fixed_order():
    changes = (
        *removals(5),
        change(1e6, 1e8, subject=entity(user="x")),
        change(None, 5.0, subject=entity(user="y", client_id=DEFAULT)),
        change(None, 9e9, subject=entity(client_id="c")),
    )
    guards = Guards(
        max_removals=4,
        newly_unlimited=NewlyUnlimited.REFUSE,
        bounds=(
            ValueRange(
                entities=EntityPattern(client_id=NamePattern(exact="c")), key=RATE, maximum=1e9
            ),
        ),
        protected=(Protection(entities=EntityPattern(client_id=NamePattern(exact="c"))),),
    )
    broken_guards = broken(guards, *changes, owned_pairs=20)
    assert broken_guards == [
        Guard.EMPTY_DESIRED,
        Guard.MAX_REMOVALS,
        Guard.MAX_REMOVED_SHARE,
        Guard.PROTECTED,
        Guard.PROTECTED_ENTITIES,
        Guard.BOUNDS_UNIT,
        Guard.BOUNDS_RANGE,
        *[Guard.NEWLY_UNLIMITED] * 5,
        Guard.MAX_CHANGE_FACTOR,
    ]


def test_every_violation_names_the_setting_that_allows_it():
    assert set(ALLOWED_WITH) == set(Guard)
    for guard in Guard:
        violation = Violation(guard=guard, message="m")
        assert violation.allow_with
        assert "--" not in violation.setting
    removals = Violation(guard=Guard.MAX_REMOVALS, message="m")
    assert removals.allow_with == "guards.maxRemovals or --max-removals N"


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_removals": -1},
        {"max_removed_percent": math.nan},
        {"max_change_factor": math.nan},
        {"max_change_factor": 0.5},
    ],
)
def test_guards_with_invalid_bounds_are_rejected(wrong: dict[str, float]) -> None:
    with pytest.raises(QuotaValueError, match="must be a number of at least"):
        Guards(**wrong)


def test_a_number_that_violates_a_guard_is_shown_with_enough_digits():
    slip = change(None, 0.9999999, subject=entity(user="a"), key=Key.REQUEST_PERCENTAGE)
    (violation,) = check(
        Plan(cluster_id="c", changes=(slip,)), replace(OFF, allow_small_values=False), QuotaState()
    )
    assert "0.9999999 % is below 1 %" in violation.message
    jump = change(1e6, 1.0000001e7, subject=entity(user="a"))
    guards = replace(OFF, max_change_factor=10.0)
    live = QuotaState(limits={entity(user="a"): limits_of({RATE: 1e6})})
    (violation,) = check(Plan(cluster_id="c", changes=(jump,)), guards, live)
    assert "a factor of 10.000001, 10 is allowed" in violation.message
