"""Command-line runs beside operators: ``kquota apply`` and ``kquota override`` against the brokers, with a file of records.

The operators are another writer for them, and they are another writer for the operators. Each side has its own records,
audit log and laws. In half of the worlds the commands read the documents that the operators have, as during a migration; in
the others they have manifests for entities of their own.
"""

import asyncio
from typing import TYPE_CHECKING, Any, cast

from reconciler.quota.entity import Entity
from reconciler.quota.planner.desired_state import Declaration
from reconciler.quota.results.report import Outcome
from tests.simulation import actors
from tests.simulation.kube.resources import ENTITIES
from tests.simulation.laws import Laws
from tests.simulation.plan_laws import PlanLaws
from tests.simulation.processes import SimulatedProcess
from tests.simulation.world import Documents, World

if TYPE_CHECKING:
    from tests.simulation.kube.operator_world import OperatorWorld

WRITERS = ("apply", "override")
"""Prefixes of the names of processes that run commands."""


class CommandLine:
    """What command-line runs see of a simulation of operators; what is not defined here is that of the world.

    Attributes:
        laws: The laws of their records, audit log and writes.
        entities: The entities that their manifests declare; () = they read the documents of the operators.
        documents: Their documents, by name.
    """

    begin, end, documents_read = World.begin, World.end, World.documents_read
    _change_document, _declare = World._change_document, World._declare

    def __init__(self, world: "OperatorWorld") -> None:
        self._world = world
        settings, image = world.settings, world.brokers.image
        self.laws = Laws(settings.rules, image, max_removals=settings.removals, writers=WRITERS)
        self.plan_laws = PlanLaws(self.laws, world.brokers)
        self.last_outcome: Outcome | None = None
        has_manifests = world.scenario.chance("command line").random() < 0.5
        self.entities: tuple[Entity, ...] = ENTITIES[::3] if has_manifests else ()
        self._manifests: dict[str, Declaration] = {}
        self._chance = world.scenario.chance("pushes")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._world, name)

    @property
    def documents(self) -> Documents:
        return self._manifests if self.entities else dict(self._world.laws.documents)

    @property
    def is_absent(self) -> bool:
        """Whether no command runs: worlds with a login have none."""
        return self._world.logins is not None

    def pushed(self) -> None:
        """Often run ``kquota apply`` when documents have changed, at the same time as the operators reconcile them."""
        runs = "apply" in self.scenario.actors and not self.is_absent and self.loop.time() > 0
        if runs and self._chance.random() < 0.5:
            process = self.process("apply")
            waits = self._chance.choice((0.0, 0.0, 0.2, 1.0))
            _ = process.start(actors.command(cast("World", self), process, waits=waits))

    def ended(self, process: SimulatedProcess) -> None:
        """Record that a process sends no more writes."""
        for run in self.laws.runs:
            if run.process == process.name:
                self.end(run)


async def pipeline(world: "OperatorWorld") -> None:
    """Change manifests and run ``kquota apply`` repeatedly, like a pipeline."""
    commands: Any = world.command_line
    if not commands.is_absent:
        _ = await asyncio.gather(_edit(commands), actors.operator_of_commands(commands))


async def _edit(commands: Any) -> None:
    """Change the manifests repeatedly."""
    chance = commands.scenario.chance("manifests")
    while commands.entities and await commands.rest(chance):
        for _ in range(chance.choice((1, 1, 2, 4))):
            commands._change_document(chance)
        commands.pushed()


async def break_glass(world: "OperatorWorld") -> None:
    """Set and end overrides against the brokers, and roll outcomes back, repeatedly."""
    commands: Any = world.command_line
    if not commands.is_absent:
        await actors.night_shift(commands)
