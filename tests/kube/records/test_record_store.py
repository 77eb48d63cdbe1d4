"""The first write of records: each request of it may be the last one, and another process continues; nothing is lost later."""

import asyncio
import itertools
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.errors import InventoryError, KubernetesUnavailable, StalePlan
from reconciler.kube.api.resource_paths import CONFIG_MAPS
from reconciler.kube.records import record_store
from reconciler.kube.records.inventory import KubeInventory
from reconciler.kube.records.stored_records import PARTS, part_names
from reconciler.kube.watch.resource_cache import ResourceCache
from reconciler.quota.ownership import Intent, IntentStarted, Owner, Recorded
from tests.fakes.kube_api import FakeKubeApi
from tests.reconcile.scenarios import ALICE, BOB, RATE

ID: Final = "lkc-1"
NAMES: Final = part_names(ID)
OWNER: Final = Owner(document="team/alice", since=5.0)
INTENTS: Final = [
    IntentStarted(entity=subject, key=RATE, intent=Intent(value=1024.0, owner=OWNER))
    for subject in (ALICE, BOB)
]
REQUESTS: Final = 2 * PARTS
"""Of the first write: each part is created and then written."""


def inventory(api: FakeKubeApi, *salts: str) -> KubeInventory:
    """The records of a new process, whose own salts are these."""
    salt = itertools.cycle(salts or ("other",))
    return KubeInventory(
        api, ResourceCache(), name="prod", namespace="ops", new_salt=lambda: next(salt)
    )


async def written(records: KubeInventory, *changes: object) -> None:
    _ = await records.refresh(ID)
    await records.write(ID, changes)  # type: ignore[arg-type]


class Breakdown:
    """An API that is gone from one request on; the request is refused, or executed without an answer."""

    def __init__(self, api: FakeKubeApi, at: int, *, executes: bool) -> None:
        self._requests, self._at, self._executes = 0, at, executes
        api.before, api.after = self._begin, self._end

    def _begin(self, verb: str, *_: str) -> None:
        self._requests += verb != "list"
        if self._requests > self._at + self._executes:
            raise KubernetesUnavailable("gone")

    def _end(self, *_: str) -> None:
        if self._requests > self._at:
            raise KubernetesUnavailable("the answer was lost")


def parts(api: FakeKubeApi) -> list[str]:
    return [name for plural, _, name in api.objects if plural == CONFIG_MAPS.plural]


def after_breakdown(step: int, *, executes: bool) -> FakeKubeApi:
    api = FakeKubeApi()
    _ = Breakdown(api, step, executes=executes)
    with pytest.raises(KubernetesUnavailable):
        asyncio.run(written(inventory(api, "first"), *INTENTS))
    api.before = api.after = None
    return api


@pytest.mark.parametrize("executes", [False, True])
@pytest.mark.parametrize("step", range(REQUESTS))
def test_a_first_write_may_end_at_any_request_and_the_next_process_completes_it(
    step: int, executes: bool
) -> None:
    api = after_breakdown(step, executes=executes)
    earlier = asyncio.run(record_store.read(api, "ops", ID))
    is_written = executes and step == REQUESTS - 1
    assert earlier.owned.is_known == is_written
    assert earlier.owned.intents.keys() <= {(ALICE, RATE), (BOB, RATE)}
    assert earlier.salt == ("first" if parts(api) else "")
    asyncio.run(written(inventory(api), *INTENTS))
    stored = asyncio.run(record_store.read(api, "ops", ID))
    assert stored.owned.is_known
    assert stored.owned.intents.keys() == {(ALICE, RATE), (BOB, RATE)}
    assert stored.salt == (earlier.salt or "other")
    assert parts(api) == list(NAMES)


@pytest.mark.parametrize("step", range(REQUESTS))
def test_after_the_completed_write_no_missing_part_is_a_creation_that_goes_on(step: int) -> None:
    api = after_breakdown(step, executes=False)
    asyncio.run(written(inventory(api), INTENTS[0]))
    for name in NAMES:
        objects = {key: obj for key, obj in api.objects.items() if key[2] == name}
        remainder = FakeKubeApi()
        remainder.objects = objects
        with pytest.raises(InventoryError, match="is missing"):
            _ = asyncio.run(record_store.read(remainder, "ops", ID))


@given(st.sets(st.sampled_from(NAMES), min_size=1, max_size=PARTS - 1))
def test_nothing_is_written_over_records_with_a_missing_part(lost: set[str]) -> None:
    api = FakeKubeApi()
    asyncio.run(written(inventory(api), *INTENTS))
    for name in lost:
        del api.objects[CONFIG_MAPS.plural, "ops", name]
    api.calls.clear()
    with pytest.raises(InventoryError, match="is missing"):
        asyncio.run(written(inventory(api), INTENTS[0]))
    assert {verb for verb, *_ in api.calls} == {"list"}


def test_two_processes_that_create_the_parts_agree_on_one_salt() -> None:
    api = FakeKubeApi()

    async def race() -> None:
        first, second = inventory(api, "first"), inventory(api, "second")
        _ = await asyncio.gather(
            written(first, INTENTS[0]), written(second, INTENTS[1]), return_exceptions=True
        )

    asyncio.run(race())
    assert {obj["data"]["salt"] for obj in api.objects.values()} == {"first"}
    asyncio.run(written(inventory(api), *INTENTS))
    stored = asyncio.run(record_store.read(api, "ops", ID))
    assert stored.owned.intents.keys() == {(ALICE, RATE), (BOB, RATE)}


def test_a_part_that_was_deleted_meanwhile_is_not_created_again() -> None:
    api = FakeKubeApi()
    records = inventory(api)
    asyncio.run(written(records, *INTENTS))
    objects = {key: obj for key, obj in api.objects.items() if key[2] == NAMES[0]}
    api.objects = objects
    change = Recorded(entity=ALICE, key=RATE, value=1.0, owner=OWNER)
    with pytest.raises(StalePlan):
        asyncio.run(records.write(ID, [change]))
    assert api.objects == objects
