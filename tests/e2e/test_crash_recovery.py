"""kill -9 before and after intent, send, verify and record: the next run converges and owns the applied values."""

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from reconciler.base.clock import SystemClock
from reconciler.client import QuotaClient
from reconciler.inventory.file import FileInventory, RecordsFile
from tests.e2e.crash_run import ENTITIES, MOMENTS, desired
from tests.e2e.runs import config, settled
from tests.servers.processes import HANG_SECONDS

pytestmark = pytest.mark.integration


def run(bootstrap: str, inventory: Path, moment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "tests.e2e.crash_run", bootstrap, str(inventory), moment],
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
        cwd=Path(__file__).parents[2],
    )


@pytest.mark.parametrize("moment", MOMENTS)
def test_after_a_kill_the_next_run_converges_and_owns_the_applied_values(
    empty_kafka, tmp_path: Path, moment: str
) -> None:
    cluster = empty_kafka("4.3.1")
    inventory = tmp_path / "inventory.json"
    killed = run(cluster.bootstrap(), inventory, moment)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    second = run(cluster.bootstrap(), inventory, "never")
    assert second.returncode == 0, second.stdout + second.stderr
    third = run(cluster.bootstrap(), inventory, "never")
    assert third.stdout.startswith("0 changes complete"), third.stdout + third.stderr

    async def look() -> None:
        async with QuotaClient(config(cluster.bootstrap())) as client:
            assert dict(await settled(client)) == dict(desired().limits)
        with FileInventory(RecordsFile(inventory), clock=SystemClock()) as stored_inventory:
            owned = await stored_inventory.load(cluster.cluster_id)
        assert owned.pair_count == 2 * ENTITIES
        assert not owned.intents

    asyncio.run(look())
