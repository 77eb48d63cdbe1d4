"""Tests of the disk: kills between steps of a write, power loss."""

import asyncio
import random
from pathlib import Path

import pytest

from tests.simulation.memory_files import MemoryDisk, ProcessFiles
from tests.simulation.processes import ProcessKilled, SimulatedProcess

FILE, LOG = Path("/file"), Path("/log")


class Machine:
    def __init__(self) -> None:
        self.disk = MemoryDisk(random.Random(1))

    def process(self, steps: int | None = None) -> SimulatedProcess:
        process = SimulatedProcess("p", asyncio.new_event_loop(), lambda _: None)
        process._loop.close()
        process.steps_left = steps
        return process

    def files(self, steps: int | None = None) -> ProcessFiles:
        return ProcessFiles(self.disk, self.process(steps))


@pytest.mark.parametrize("steps", range(1, 7))
def test_a_killed_replacement_leaves_the_old_file_or_the_new_one(steps):
    machine = Machine()
    machine.files().replace(FILE, b"old")
    with pytest.raises(ProcessKilled):
        machine.files(steps).replace(FILE, b"new")
    assert machine.disk.cached[FILE] in {b"old", b"new"}
    machine.disk.lose_power()
    assert machine.disk.cached[FILE] in {b"old", b"new"}
    machine.files().remove_leftovers(FILE)
    assert list(machine.disk.cached) == [FILE]


@pytest.mark.parametrize("steps", range(1, 4))
def test_a_killed_append_leaves_the_lines_before_it(steps):
    machine = Machine()
    machine.files().append(LOG, b"first\n")
    with pytest.raises(ProcessKilled):
        machine.files(steps).append(LOG, b"second\n")
    machine.disk.lose_power()
    assert b"first\nsecond\n".startswith(machine.disk.cached[LOG])
    assert machine.disk.cached[LOG].startswith(b"first\n")


def test_synced_content_survives_a_power_loss():
    machine = Machine()
    machine.files().replace(FILE, b"new")
    machine.files().append(LOG, b"line\n")
    machine.disk.lose_power()
    assert machine.disk.cached == {FILE: b"new", LOG: b"line\n"}
