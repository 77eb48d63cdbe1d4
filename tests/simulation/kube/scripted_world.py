"""A fixed history of user actions in a simulation of operators, with faults that a test chooses."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from msgspec.structs import replace

from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from reconciler.quota.policy import DeletionPolicy, DriftMode, Policy, Rules
from reconciler.reconcile import NewOverride
from tests.reconcile.scenarios import OPEN
from tests.simulation.kube.api_network import ApiNetwork
from tests.simulation.kube.logins import FIRST_PASSWORD, FIRST_USER
from tests.simulation.kube.operator_world import OperatorWorld
from tests.simulation.kube.people import run_override
from tests.simulation.kube.resources import NAME_OF, TEAM, client_quota
from tests.simulation.scenario import Scenario

PRODUCED, CONSUMED = Key.PRODUCER_BYTE_RATE, Key.CONSUMER_BYTE_RATE
STEP_SECONDS = 15.0

Step = Callable[[OperatorWorld], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """A fixed history of user actions.

    Attributes:
        steps: The actions, in their order.
        policy: The policy of the QuotaCluster.
        has_login: Whether the operator logs in with a Secret.
    """

    steps: tuple[Step, ...]
    policy: Policy = Policy.SYNC
    has_login: bool = False


def declare(
    user: str,
    values: dict[Key, float],
    policy: DeletionPolicy | None = DeletionPolicy.DELETE,
    *,
    suspended: bool = False,
) -> Step:
    """Create or change a document."""
    obj = client_quota(entity(user=user), values, policy=policy, suspended=suspended)
    return lambda world: ignored(world.server.put("author", "clientquotas", obj))


def delete(user: str) -> Step:
    """Delete a document."""
    place = "clientquotas", TEAM, NAME_OF[entity(user=user)]
    return lambda world: world.server.remove("author", place)


def configure(**fields: object) -> Step:
    """Write the QuotaCluster."""
    return lambda world: world.configure(**fields)


def override(value: float | None) -> Step:
    """Set an override of two minutes."""

    def step(world: OperatorWorld) -> None:
        subject = entity(user="alice")
        order = NewOverride(
            entity=subject,
            key=PRODUCED,
            value=value,
            until=world.clock.now() + 120.0,
            principal="oncall",
            reason="scripted",
        )
        run_override(world, order, (subject, PRODUCED))

    return step


def end_override(world: OperatorWorld) -> None:
    """End the override."""
    run_override(world, None, (entity(user="alice"), PRODUCED))


def log_in(deed: str) -> Step:
    """Change the login."""
    return lambda world: ignored(getattr(world.logins, deed)())


def ignored(_: object) -> None:
    """Do nothing."""


class ScriptedWorld(OperatorWorld):
    """A fixed history of user actions with one operator and one fault of its watch."""

    def __init__(self, story: Story, spoil: Callable[[ApiNetwork], None]) -> None:
        self.story = story
        scenario = Scenario(
            seed=1,
            world="operator",
            days=STEP_SECONDS * (len(story.steps) + 3) / 86_400,
            actors=("operators", "script"),
            faults=(),
        )
        super().__init__(scenario)
        rules = Rules(policy=story.policy, sync_confirmed=True, drift=DriftMode.CORRECT)
        self.settings = replace(
            self.settings,
            rules=rules,
            guards=OPEN,
            interval=60.0,
            election_pace=6.0,
            removals=10_000,
        )
        self.laws.rules, self.laws.max_removals = rules, 10_000
        self.replicas = ("operator-a",)
        spoil(self.api)

    def first_users(self) -> dict[str, str]:
        return {FIRST_USER: FIRST_PASSWORD} if self.story.has_login else {}

    def change_documents(self, chance: object) -> None:
        """Do nothing: the script declares all documents."""

    async def script(self) -> None:
        """Run the user actions."""
        for step in self.story.steps:
            await asyncio.sleep(STEP_SECONDS)
            step(self)

    programs: ClassVar = {"operators": OperatorWorld.operate, "script": script}
