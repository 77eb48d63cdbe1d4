"""Plan, drift and correction judge each pair alike: one model, written from docs/semantics.md, decides for all of them."""

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.quota.entity import Entity
from reconciler.quota.keys import COLUMNS, Key, same_value
from reconciler.quota.patterns import EntityPattern, NamePattern
from reconciler.quota.planner.comparison import compare
from reconciler.quota.planner.plan import Plan
from reconciler.quota.policy import Action, Cause, DriftMode, Policy, Rules
from reconciler.reconcile import Observation, ReconcileOptions
from reconciler.reconcile.drift import correctable_pairs, preview_against_records
from tests.hypothesis_profiles import count_examples
from tests.quota.strategies import FEW, NOW, World, worlds

MANY = settings(max_examples=count_examples(200))
ALICE_ONLY = EntityPattern(user=NamePattern(exact="alice"))
SCOPED_WORLDS = st.builds(
    lambda world, scope: replace(world, rules=replace(world.rules, scope=scope, ignore=())),
    worlds(overrides=False),
    st.sampled_from([(), (ALICE_ONLY,)]),
)
CORRECTING = {"policy": Policy.UPSERT, "drift": DriftMode.CORRECT}


class PairModel:
    """What the documents, the records and the cluster say of one pair."""

    def __init__(self, world: World, subject: Entity, key: Key) -> None:
        observation = observation_of(world)
        owned = observation.settlement.owned
        claims = [
            claim
            for claim in world.desired.claims.get(subject, ())
            if claim.limits[COLUMNS.index(key)] is not None
        ]
        self.key = key
        self.declared = claims[0].limits[COLUMNS.index(key)] if len(claims) == 1 else None
        self.applied = owned.applied_value((subject, key))
        self.live = world.live.value(subject, key)
        record = owned.records.get(subject)
        self.owner = None if record is None else record.owners[COLUMNS.index(key)]
        self.is_orphan = (subject, key) in owned.orphaned
        self.in_scope = not world.rules.scope or subject[0] == "alice"
        self.is_frozen = self.owner is not None and self.owner.document in world.desired.frozen

    @property
    def is_changed(self) -> bool:
        """A limit in scope that kquota applied and another writer changed."""
        is_as_applied = same_value(self.key, self.applied, self.live)
        return self.owner is not None and self.in_scope and not is_as_applied

    @property
    def has_drifted(self) -> bool:
        """A document declares it, no suspended one owns it, and the live value is not the declared one."""
        return (
            self.is_changed
            and not self.is_frozen
            and self.declared is not None
            and not same_value(self.key, self.declared, self.live)
        )


def observation_of(world: World) -> Observation:
    return Observation(cluster=None, cluster_id="c", live=world.live, owned=world.owned, at=NOW)


def plan_of(world: World, **rules: object) -> Plan:
    return compare(
        desired=world.desired,
        owned=world.owned,
        live=world.live,
        rules=replace(world.rules, **rules),
        now=NOW,
    )


def drift_of(world: World, *, documents: bool) -> Plan:
    rules = replace(world.rules, policy=Policy.OBSERVE, drift=DriftMode.WARN)
    return preview_against_records(
        observation_of(world),
        ReconcileOptions(rules=rules, assess=False),
        world.desired if documents else None,
    ).plan


def models_of(world: World) -> dict[tuple[Entity, Key], PairModel]:
    """The model of each pair without a write of unknown outcome, on which the next describe decides."""
    models = {
        (subject, key): PairModel(world, subject, key)
        for subject in {*FEW, *world.owned.records, *world.live.limits, *world.desired.limits}
        for key in COLUMNS
    }
    intents = world.owned.intents
    return {pair: model for pair, model in models.items() if pair not in intents}


@MANY
@given(SCOPED_WORLDS)
def test_plan_and_drift_agree_on_every_pair(world):
    models = models_of(world)
    expected = {pair for pair, model in models.items() if model.has_drifted}
    over_drift = {Cause.DRIFT, Cause.SPEC_OVER_DRIFT}
    plan = plan_of(world, policy=Policy.UPSERT, drift=DriftMode.WARN)
    in_plan = {item.pair for item in (*plan.changes, *plan.findings) if item.cause in over_drift}
    in_scope = {pair for pair in in_plan if world.rules.in_scope(pair[0])}
    assert in_scope & models.keys() == expected
    observed = {item.pair for item in drift_of(world, documents=True).drift}
    assert observed & models.keys() == expected


@MANY
@given(SCOPED_WORLDS)
def test_drift_without_documents_is_every_owned_limit_in_scope_that_another_writer_changed(world):
    models = models_of(world)
    observed = {item.pair for item in drift_of(world, documents=False).drift} & models.keys()
    assert observed == {
        pair for pair, model in models.items() if model.is_changed and not model.is_orphan
    }


@MANY
@given(SCOPED_WORLDS)
def test_a_correction_writes_what_an_apply_with_correction_writes_because_of_drift(world):
    pairs = correctable_pairs(drift_of(world, documents=True), world.desired, ())
    models = models_of(world)
    plan = plan_of(world, **CORRECTING)
    corrected = {change.pair: change for change in plan.changes if change.cause is Cause.DRIFT}
    assert pairs & models.keys() == corrected.keys() & models.keys()
    for pair in pairs & models.keys():
        model, change = models[pair], corrected[pair]
        assert model.has_drifted
        assert same_value(model.key, change.after, model.declared)
        assert same_value(model.key, model.applied, model.declared)


@MANY
@given(SCOPED_WORLDS, st.sampled_from(Policy), st.booleans())
def test_nothing_is_written_outside_the_scope_and_what_was_owned_there_is_released(
    world, policy, force
):
    rules = Rules(
        policy=policy,
        sync_confirmed=True,
        scope=(ALICE_ONLY,),
        drift=DriftMode.CORRECT,
        force=force,
    )
    plan = compare(desired=world.desired, owned=world.owned, live=world.live, rules=rules, now=NOW)
    assert all(change.entity[0] == "alice" for change in plan.changes)
    world = replace(world, rules=rules)
    models = models_of(world)
    for finding in plan.findings:
        model = models.get(finding.pair)
        if model is None or model.in_scope or finding.cause is not Cause.PRUNE:
            continue
        assert finding.action is Action.ORPHAN or policy is not Policy.SYNC
        if finding.action is Action.ORPHAN:
            assert "scope" in finding.note
