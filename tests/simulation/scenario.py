"""The scenario of a simulation, derived from its seed: configuration, actors, faults; and its smaller variants."""

import random
from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from reconciler.quota.entity import ABSENT, DEFAULT, Entity, entity
from reconciler.quota.keys import Key
from reconciler.quota.patterns import EVERYTHING, EntityForm, EntityPattern, NamePattern
from reconciler.quota.planner.guards import Guards, NewlyUnlimited, Protection
from reconciler.quota.planner.value_ranges import ValueRange
from reconciler.quota.policy import STRICTNESS, DriftMode, IgnoreRule, Policy, Rules
from tests.reconcile.scenarios import OPEN

EPOCH = 1_700_000_000.0
"""Seconds since the epoch at which every world begins."""

ACTORS = ("watch", "apply", "override", "foreign", "author")
FAULTS = (
    "kill",
    "power",
    "disk full",
    "interrupt",
    "lag",
    "stop",
    "restart",
    "failover",
    "cut",
    "partition",
    "isolation",
    "misdirection",
    "slow",
    "lost request",
    "lost answer",
    "delayed answer",
    "throttle",
    "refusal",
)

OPERATOR_ACTORS = (
    "operators",
    "author",
    "override",
    "admin",
    "foreign",
    "security",
    "apply",
    "break glass",
)
OPERATOR_FAULTS = (
    "kill",
    "terminate",
    "pause",
    "clock step",
    "lag",
    "stop",
    "restart",
    "failover",
    "cut",
    "partition",
    "slow",
    "lost request",
    "lost answer",
    "delayed answer",
    "throttle",
    "refusal",
    "api outage",
    "api isolation",
    "api error",
    "api lost answer",
    "api slow",
    "watch drop",
    "watch lag",
    "compaction",
    "cache lag",
    "lease isolation",
)
GIT_FAULTS = (*FAULTS, "fetch failure", "slow fetch", "mirror lost")
WORLDS = {
    "watch": (ACTORS, FAULTS),
    "git": (ACTORS, GIT_FAULTS),
    "operator": (OPERATOR_ACTORS, OPERATOR_FAULTS),
}
"""Kind of world -> actors and faults."""

FEW_REMOVALS = 2
"""The number of removals that the guard allows in some worlds."""

FEW_VALUES = (100_000.0, 200_000.0, 300_000.0)
MANY_VALUES = tuple(100_000.0 + 1_000.0 * number for number in range(200))
"""With few values different writers often choose the same; with many a value identifies its writer."""

IN_SCOPE: tuple[Entity, ...] = tuple(
    entity(user=user, client_id=client)
    for user in (ABSENT, DEFAULT, "alice", "bob")
    for client in (ABSENT, DEFAULT, "app")
    if (user, client) != (ABSENT, ABSENT)
)
ADDRESSES: tuple[Entity, ...] = (entity(ip="10.0.0.1"), entity(ip=DEFAULT))
OUT_OF_SCOPE: tuple[Entity, ...] = (entity(user="carol"), entity(user="carol", client_id="app"))
KEYS = (Key.PRODUCER_BYTE_RATE, Key.CONSUMER_BYTE_RATE)
MORE_KEYS = (*KEYS, Key.REQUEST_PERCENTAGE)
"""Keys of worlds without operators."""

DISTANT_VALUES = (500.0, 2_000.0, 100_000.0, 150_000.0, 1_500_000.0, 20_000_000.0)
"""Values of worlds with guards: some look like a wrong unit, some are more than a factor of ten apart."""

NEAR = 5e-7
"""A difference that does not count for whole keys, and counts for percentages."""
SCOPE_OF_TEAM = (
    EntityPattern(user=NamePattern(exact="alice")),
    EntityPattern(user=NamePattern(exact="bob")),
    EntityPattern(
        forms=frozenset(
            {
                EntityForm.DEFAULT_USER,
                EntityForm.DEFAULT_USER_CLIENT_ID,
                EntityForm.DEFAULT_USER_DEFAULT_CLIENT_ID,
                EntityForm.CLIENT_ID,
                EntityForm.DEFAULT_CLIENT_ID,
                EntityForm.IP,
                EntityForm.DEFAULT_IP,
            }
        )
    ),
)
"""All entities except those of other users."""


class Scenario(Struct, frozen=True, kw_only=True, gc=False):
    """A simulated world.

    Attributes:
        seed: Determines all random choices.
        world: Kind of world: ``watch`` and commands, or operators.
        days: Duration of actors and faults in days; 0 = by the seed.
        actors: Names of the actors.
        faults: Kinds of faults.
    """

    seed: int
    world: str = "watch"
    days: float = 0.0
    actors: tuple[str, ...] = ACTORS
    faults: tuple[str, ...] = FAULTS

    def chance(self, name: str) -> random.Random:
        """Return random numbers for one purpose, independent of other actors and faults."""
        return random.Random(f"{self.seed} {name}")

    @property
    def seconds(self) -> float:
        """Duration of the faults in seconds: ``days``, or by the seed from five minutes to a week."""
        if self.days:
            return self.days * 86_400
        return self.chance("length").choice(
            (300.0, 300.0, 600.0, 600.0, 1_200.0, 3_600.0, 7 * 86_400.0)
        )

    @property
    def command(self) -> str:
        """The command that repeats it."""
        words = [f"make simulate SEED={self.seed}"]
        if self.world != "watch":
            words.append(f"WORLD={self.world}")
        if self.days:
            words.append(f"DAYS={self.days:g}")
        actors, faults = WORLDS[self.world]
        absent = [name for name in (*actors, *faults) if name not in (*self.actors, *self.faults)]
        if absent:
            words.append(f"WITHOUT='{','.join(absent)}'")
        return " ".join(words)

    def without(self, name: str) -> "Scenario":
        """Return the scenario without an actor or a fault."""
        return replace(
            self,
            actors=tuple(actor for actor in self.actors if actor != name),
            faults=tuple(fault for fault in self.faults if fault != name),
        )

    def smaller(self) -> Iterator["Scenario"]:
        """Yield scenarios that have one actor or fault less, or are shorter.

        Long ones become shorter first, because each trial takes time. Without operators no document becomes Ready, which
        says nothing about the law that was violated.
        """
        if self.seconds > 3_600:
            yield replace(self, days=printed_days(self.seconds / 2))
        for name in (*self.faults, *self.actors):
            if name != "operators":
                yield self.without(name)
        if self.seconds > 120:
            yield replace(self, days=printed_days(self.seconds / 2))
            yield replace(self, days=printed_days(self.seconds * 0.8))


def printed_days(seconds: float) -> float:
    """Return seconds as days, as exactly as a command prints them, so that it repeats the same world."""
    return float(f"{seconds / 86_400:.4g}")


def scenario_of(seed: int, world: str, *, days: float = 0.0) -> Scenario:
    """Return the scenario with all actors and faults of its kind of world."""
    actors, faults = WORLDS[world]
    return Scenario(seed=seed, world=world, days=days, actors=actors, faults=faults)


class Settings(Struct, frozen=True, kw_only=True, gc=False):
    """The configuration of the product in a simulation.

    Attributes:
        rules: Policy, drift, scope.
        interval: Interval of the loop in seconds.
        event_rate: Mean seconds between events of one actor.
        fault_rate: Mean seconds between faults.
        guards: The guards until the faults are over, except the number of removals; then everything is permitted.
        removals: Maximum number of removals of a command, and of a loop within an hour, until the faults are over.
        values: Values that documents, overrides and the other writer choose from.
        election_pace: Factor by which the times of the leader election exceed the defaults.
        declares_everything: Whether at first documents declare every quota key, so that guards by share apply.
    """

    rules: Rules
    interval: float
    event_rate: float
    fault_rate: float
    removals: int = 10_000
    guards: Guards = OPEN
    values: tuple[float, ...] = FEW_VALUES
    election_pace: float = 1.0
    declares_everything: bool = False


def settings_of(scenario: Scenario) -> Settings:
    """Derive the configuration from the seed."""
    chance = scenario.chance("settings")
    policy = chance.choice(
        [
            policy
            for policy in reversed(STRICTNESS)
            for _ in range(3 if policy in {Policy.SYNC, Policy.UPSERT} else 1)
        ]
    )
    scoped = chance.random() < 0.5
    rules = Rules(
        policy=policy,
        sync_confirmed=chance.random() < 0.9,
        drift=chance.choice((DriftMode.CORRECT, DriftMode.CORRECT, DriftMode.WARN)),
        scope=SCOPE_OF_TEAM if scoped else (),
    )
    long = scenario.seconds > 10_000
    guards = OPEN
    if scenario.world == "watch":
        rules = replace(rules, ignore=_ignored(scenario))
        guards = _guards(scenario.chance("guards"))
    elif (guard_chance := scenario.chance("guards")).random() < 0.3:
        guards = replace(
            OPEN,
            max_change_factor=guard_chance.choice((3.0, 10.0)),
            newly_unlimited=guard_chance.choice(tuple(NewlyUnlimited)),
            protect_defaults=guard_chance.random() < 0.3,
        )
    return Settings(
        rules=rules,
        guards=guards,
        interval=chance.choice((1_800.0, 3_600.0) if long else (30.0, 60.0, 120.0)),
        event_rate=chance.choice((14_400.0, 43_200.0) if long else (20.0, 60.0, 180.0)),
        fault_rate=chance.choice((7_200.0, 21_600.0) if long else (10.0, 30.0, 120.0)),
        removals=scenario.chance("guard").choice((10_000, 10_000, 10_000, FEW_REMOVALS)),
        values=_values(scenario, guards),
        election_pace=scenario.chance("election").choice((1.0, 2.0, 2.0, 4.0)),
        declares_everything=scenario.world == "watch"
        and scenario.chance("first documents of all").random() < 0.3,
    )


def _values(scenario: Scenario, guards: Guards) -> tuple[float, ...]:
    """Return the values that writers choose from. A QuotaCluster cannot permit all small values."""
    if guards is OPEN:
        return scenario.chance("values").choice((FEW_VALUES, MANY_VALUES))
    return DISTANT_VALUES if scenario.world == "watch" else DISTANT_VALUES[1:]


def _ignored(scenario: Scenario) -> tuple[IgnoreRule, ...]:
    """Return rules that ignore differences of some quota keys; all end before the faults do."""
    chance = scenario.chance("ignore")
    if chance.random() < 0.6:
        return ()
    until = EPOCH + scenario.seconds * chance.uniform(0.3, 0.9)
    keys = chance.choice((frozenset[Key](), frozenset({Key.PRODUCER_BYTE_RATE})))
    entities = EntityPattern(user=NamePattern(prefix=chance.choice(("alice", "b", "carol"))))
    return (IgnoreRule(entities=entities, reason="simulated", keys=keys, until=until),)


def _guards(chance: random.Random) -> Guards:
    """Return guards that refuse some changes; most worlds have none."""
    if chance.random() < 0.6:
        return OPEN
    alice = EntityPattern(user=NamePattern(exact="alice"))
    app = EntityPattern(
        forms=frozenset({EntityForm.USER_CLIENT_ID, EntityForm.DEFAULT_USER_CLIENT_ID}),
        client_id=NamePattern(exact="app"),
    )
    bounds = [
        ValueRange(entities=entities, key=key, minimum=minimum, maximum=maximum)
        for entities in (app, EVERYTHING)
        for key in KEYS
        for minimum, maximum in (
            chance.choice(((None, None), (None, 2_000_000.0), (1_500.0, 200_000.0))),
        )
    ]
    return Guards(
        max_removed_percent=chance.choice((10.0, 25.0, 50.0, 100.0)),
        max_change_factor=chance.choice((3.0, 10.0, 1e9)),
        newly_unlimited=chance.choice(tuple(NewlyUnlimited)),
        protect_defaults=chance.random() < 0.3,
        allow_small_values=chance.random() < 0.3,
        allow_empty=chance.random() < 0.3,
        bounds=tuple(chance.choices(bounds, k=2)),
        protected=tuple(
            Protection(entities=entities, reason=reason)
            for entities, reason in ((app, "first"), (alice, "second"))
            if chance.random() < 0.3
        ),
    )
