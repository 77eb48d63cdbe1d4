"""Records name their project from the first write on; those of another project are refused unless they are taken over."""

import asyncio

import pytest

from reconciler.errors import PlanRefused
from reconciler.inventory.memory import MemoryInventory
from reconciler.inventory.project_records import ProjectInventory
from reconciler.quota.keys import Key
from reconciler.quota.ownership import Intent, IntentStarted
from tests.inventory.samples import ALICE, OWNER

INTENT = IntentStarted(
    entity=ALICE, key=Key.PRODUCER_BYTE_RATE, intent=Intent(value=1.0, owner=OWNER)
)


def opened(stored: MemoryInventory, project: str, *, takes_over: bool = False) -> ProjectInventory:
    return ProjectInventory(stored, project, location="f", takes_over=takes_over)


def test_an_intent_without_a_result_keeps_other_projects_away():
    """The first apply may be killed: what it sent is settled by its own project."""

    async def story():
        stored = MemoryInventory()
        first, second = opened(stored, "a"), opened(stored, "b")
        for project in (first, second):
            assert not (await project.load("lkc")).project
            await project.write("lkc", ())
        assert not stored.written
        await first.write("lkc", [INTENT])
        assert (await first.load("lkc")).project == "a"
        with pytest.raises(PlanRefused, match="in f are those of project 'a', not of 'b'"):
            await second.load("lkc")
        await first.write("lkc", [INTENT])
        assert [len(changes) for changes in stored.written] == [2, 1]

    asyncio.run(story())


@pytest.mark.parametrize("changes", [(), (INTENT,)])
def test_a_take_over_names_the_project_with_or_without_a_change(changes):
    async def story():
        stored = MemoryInventory()
        first = opened(stored, "a")
        await first.load("lkc")
        await first.write("lkc", [INTENT])
        taker = opened(stored, "b", takes_over=True)
        await taker.load("lkc")
        await taker.write("lkc", changes)
        assert (await opened(stored, "b").load("lkc")).project == "b"
        with pytest.raises(PlanRefused):
            await first.load("lkc")

    asyncio.run(story())
