"""A run that kills itself with SIGKILL at a moment: ``python -m tests.e2e.crash_run BOOTSTRAP INVENTORY MOMENT``.

Moments: never, before-intent, after-intent, after-send, after-verify, after-record.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from reconciler.base.clock import SystemClock
from reconciler.client import QuotaClient
from reconciler.inventory.file import FileInventory, RecordsFile
from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from reconciler.quota.ownership import IntentStarted, OwnershipRecords, RecordChange
from reconciler.quota.planner.desired_state import DesiredState
from reconciler.reconcile import ReconcilePorts, apply, prepare
from tests.e2e.runs import EVERYTHING, config, desired_state

MOMENTS = ("before-intent", "after-intent", "after-send", "after-verify", "after-record")
ENTITIES = 20


def desired() -> DesiredState:
    """Twenty users, two keys each."""
    return desired_state(
        {
            entity(user=f"killed-{number}"): {
                Key.PRODUCER_BYTE_RATE: 10_000.0 + number,
                Key.CONSUMER_BYTE_RATE: 20_000.0 + number,
            }
            for number in range(ENTITIES)
        }
    )


class Fatal:
    """Raised to end the process at the chosen moment."""

    def __init__(self, moment: str) -> None:
        self._moment = moment

    def reach(self, moment: str) -> None:
        if moment == self._moment:
            os.kill(os.getpid(), signal.SIGKILL)


class Watched:
    """An inventory and a store that report when a moment is reached; they delegate to the real ones."""

    def __init__(self, inventory: FileInventory, store: QuotaClient, fatal: Fatal) -> None:
        self._inventory, self._store, self._fatal = inventory, store, fatal
        self.overrides = getattr(inventory, "overrides", None)
        self.observe, self.cluster, self.describe = store.observe, store.cluster, store.describe

    async def load(self, cluster_id: str) -> OwnershipRecords:
        return await self._inventory.load(cluster_id)

    async def write(self, cluster_id: str, changes: Sequence[RecordChange]) -> None:
        kind = (
            "intent" if any(isinstance(change, IntentStarted) for change in changes) else "record"
        )
        self._fatal.reach("before-intent" if kind == "intent" else "after-verify")
        await self._inventory.write(cluster_id, changes)
        self._fatal.reach(f"after-{kind}")

    async def alter(self, alterations, **options):
        answer = await self._store.alter(alterations, **options)
        if not options.get("validate_only"):
            self._fatal.reach("after-send")
        return answer

    async def wait_visible(self, expected, **options):
        return await self._store.wait_visible(expected, **options)


async def main(bootstrap: str, path: str, moment: str) -> int:
    async with QuotaClient(config(bootstrap)) as client:
        with FileInventory(
            RecordsFile(Path(path)), clock=SystemClock(), command="a run that may be killed"
        ) as inventory:
            watched = Watched(inventory, client, Fatal(moment))
            ports = ReconcilePorts(store=watched, inventory=watched, clock=SystemClock())
            outcome = await apply(ports, EVERYTHING, await prepare(ports, EVERYTHING, desired()))
    word = "complete" if outcome.complete else "incomplete"
    _ = sys.stdout.write(f"{len(outcome.pairs)} changes {word}\n")
    return 0 if outcome.complete else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main(*sys.argv[1:])))
