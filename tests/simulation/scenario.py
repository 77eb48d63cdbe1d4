"""What happens in a world, drawn from its seed: the configuration, the actors, the faults. And how a failing one is made smaller."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

from reconciler.quota.entity import ABSENT, DEFAULT, Entity, entity
from reconciler.quota.keys import Key
from reconciler.quota.patterns import EntityForm, EntityPattern, NamePattern
from reconciler.quota.policy import DriftMode, Policy, Rules

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
    "slow",
    "lost request",
    "lost answer",
    "delayed answer",
    "throttle",
    "refusal",
)

OPERATOR_ACTORS = ("operators", "author", "override", "admin", "foreign")
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
)
WORLDS = {"watch": (ACTORS, FAULTS), "operator": (OPERATOR_ACTORS, OPERATOR_FAULTS)}
"""Who is there and what goes wrong, by kind of world."""

FEW_REMOVALS = 2
"""The budget of removals of some worlds."""

VALUES = (100_000.0, 200_000.0, 300_000.0)
IN_SCOPE: tuple[Entity, ...] = tuple(
    entity(user=user, client_id=client)
    for user in (ABSENT, DEFAULT, "alice", "bob")
    for client in (ABSENT, DEFAULT, "app")
    if (user, client) != (ABSENT, ABSENT)
)
ADDRESSES: tuple[Entity, ...] = (entity(ip="10.0.0.1"), entity(ip=DEFAULT))
OUT_OF_SCOPE: tuple[Entity, ...] = (entity(user="carol"), entity(user="carol", client_id="app"))
KEYS = (Key.PRODUCER_BYTE_RATE, Key.CONSUMER_BYTE_RATE)
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
"""Everything but other users."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One world.

    Attributes:
        seed: Decides everything else.
        world: Which programs run: ``watch`` and commands, or operators.
        days: How long actors and faults are at work.
        actors: Who is there.
        faults: What goes wrong.
    """

    seed: int
    world: str = "watch"
    days: float = 0.0
    actors: tuple[str, ...] = ACTORS
    faults: tuple[str, ...] = FAULTS

    def chance(self, name: str) -> random.Random:
        """Random numbers for one purpose; another actor or fault does not change them."""
        return random.Random(f"{self.seed} {name}")

    @property
    def seconds(self) -> float:
        """Length of the time with faults: from the scenario or, by the seed, from five minutes to a day."""
        if self.days:
            return self.days * 86_400
        return self.chance("length").choice(
            (300.0, 300.0, 600.0, 600.0, 1_200.0, 3_600.0, 86_400.0)
        )

    @property
    def command(self) -> str:
        """How to run it again."""
        words = [f"make simulate SEED={self.seed}"]
        if self.world != "watch":
            words.append(f"WORLD={self.world}")
        if self.days:
            words.append(f"DAYS={self.days:.4g}")
        actors, faults = WORLDS[self.world]
        absent = [name for name in (*actors, *faults) if name not in (*self.actors, *self.faults)]
        if absent:
            words.append(f"WITHOUT='{','.join(absent)}'")
        return " ".join(words)

    def without(self, name: str) -> "Scenario":
        """The same without an actor or a fault."""
        return replace(
            self,
            actors=tuple(actor for actor in self.actors if actor != name),
            faults=tuple(fault for fault in self.faults if fault != name),
        )

    def smaller(self) -> Iterator["Scenario"]:
        """Scenarios that are simpler in one respect."""
        for name in (*self.faults, *self.actors):
            yield self.without(name)
        if self.seconds > 120:
            yield replace(self, days=self.seconds / 2 / 86_400)
            yield replace(self, days=self.seconds * 0.8 / 86_400)


def scenario_of(seed: int, world: str, *, days: float = 0.0) -> Scenario:
    """A world with everything that is there and goes wrong in one of its kind."""
    actors, faults = WORLDS[world]
    return Scenario(seed=seed, world=world, days=days, actors=actors, faults=faults)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How the product is configured in a world.

    Attributes:
        rules: Policy, drift, scope.
        interval: Of the loop, in seconds.
        event_rate: Mean seconds between events of one actor.
        fault_rate: Mean seconds between faults.
        removals: Most removals of a command, and of a loop within its window.
        election_pace: How much slower than by default the Lease is renewed.
    """

    rules: Rules
    interval: float
    event_rate: float
    fault_rate: float
    removals: int = 10_000
    election_pace: float = 1.0


def settings_of(scenario: Scenario) -> Settings:
    """The configuration of a world."""
    chance = scenario.chance("settings")
    policy = chance.choice(
        (
            Policy.SYNC,
            Policy.SYNC,
            Policy.SYNC,
            Policy.UPSERT,
            Policy.UPSERT,
            Policy.UPSERT,
            Policy.CREATE_ONLY,
            Policy.OBSERVE,
        )
    )
    scoped = chance.random() < 0.5
    rules = Rules(
        policy=policy,
        sync_confirmed=chance.random() < 0.9,
        drift=chance.choice((DriftMode.CORRECT, DriftMode.CORRECT, DriftMode.WARN)),
        scope=SCOPE_OF_TEAM if scoped else (),
        exclusive=scoped and chance.random() < 0.3,
    )
    long = scenario.seconds > 10_000
    return Settings(
        rules=rules,
        interval=chance.choice((600.0, 1_800.0) if long else (30.0, 60.0, 120.0)),
        event_rate=chance.choice((3_600.0, 7_200.0) if long else (20.0, 60.0, 180.0)),
        fault_rate=chance.choice((1_200.0, 3_600.0) if long else (10.0, 30.0, 120.0)),
        removals=scenario.chance("guard").choice((10_000, 10_000, 10_000, FEW_REMOVALS)),
        election_pace=10.0 if long else scenario.chance("election").choice((1.0, 3.0, 3.0, 6.0)),
    )
