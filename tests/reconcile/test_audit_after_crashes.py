"""A killed run leaves no gap in the audit log, and its stored outcome allows a rollback."""

import asyncio
import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from reconciler.codecs.outcome import outcome_document, read_undo
from reconciler.errors import InventoryError
from reconciler.inventory.audit_log import StreamAuditLog
from reconciler.quota.entity import parts
from reconciler.quota.ownership import SENDING_SECONDS, SETTLING_SECONDS
from reconciler.quota.results.report import RunOrigin
from reconciler.reconcile import apply, prepare, rollback_orders
from reconciler.render.json_values import dump
from tests.fakes.audit_entry import entries_in
from tests.reconcile.scenarios import ALICE, ALICE_SHOP, ANYONE, BOB, RATE, SHARE, World, documents

KILLED = RunOrigin(author="killed", commit="abc")
DESIRED = documents({ALICE: {RATE: 10.0, SHARE: 5.0}, ANYONE: {RATE: 5.0}, ALICE_SHOP: {RATE: 7.0}})
LIVE = {ALICE: {RATE: 3.0}, BOB: {RATE: 9.0}}


class KilledError(BaseException):
    """The process ends here."""


def killed(world: World, at: int) -> list[str]:
    """A run that ends at its step ``at``, before or after any request, record or line; returns the stored outcomes."""
    texts: list[str] = []
    steps = iter(range(1, 1_000))

    def step() -> None:
        if next(steps) == at:
            raise KilledError

    write, append = world.inventory.write, world.audit.append

    async def stepped_write(cluster_id, changes):
        step()
        await write(cluster_id, changes)
        step()

    def stepped_append(entries):
        step()
        append(entries)
        step()

    async def run() -> None:
        options = world.options(origin=KILLED)
        prepared = await prepare(world.ports, options, DESIRED)
        await apply(
            world.ports,
            options,
            prepared,
            before_sending=lambda outcome: texts.append(dump(outcome_document(outcome))),
        )

    world.inventory.write, world.audit.append = stepped_write, stepped_append
    world.cluster.faults.before = lambda _: step()
    with contextlib.suppress(KilledError):
        asyncio.run(run())
    world.inventory.write, world.audit.append = write, append
    world.cluster.faults.before = lambda _: None
    return texts


def outcomes(world: World, pair) -> list[str]:
    name = (world.cluster.cluster_id, parts(pair[0]), str(pair[1]))
    return [entry.outcome for entry in world.audit.entries if entry.pair == name]


def changed(world: World, before) -> list:
    return [
        (subject, key)
        for subject in world.cluster.truth.limits.keys() | before.limits.keys()
        for key in (RATE, SHARE)
        if world.cluster.truth.value(subject, key) != before.value(subject, key)
    ]


@given(st.integers(1, 24), st.sampled_from([0.0, 66.0]))
def test_every_change_of_a_killed_run_has_an_intent_and_after_the_next_run_one_outcome(at, wait):
    world = World(LIVE)
    before = world.cluster.truth
    _ = killed(world, at)
    for pair in (reached := changed(world, before)):
        assert outcomes(world, pair)[:1] == ["INTENDED"]
    world.cluster.clock.advance(wait)
    world.apply(DESIRED)
    for pair in reached:
        assert outcomes(world, pair) == ["INTENDED", "APPLIED"]
    assert world.audit.open_intents(world.cluster.cluster_id, reached) == {}
    for entry in world.audit.entries:
        if entry.outcome == "APPLIED" and entry.settled_at is not UNSET:
            run = entry.author, entry.commit, entry.time
            assert run == ("killed", "abc", entry.intended_at)


@given(st.integers(1, 24))
def test_the_outcome_of_a_killed_run_restores_every_value(at):
    world = World(LIVE)
    before = world.cluster.truth
    texts = killed(world, at)
    if not texts:
        assert world.cluster.truth == before
        return
    world.cluster.clock.advance(SENDING_SECONDS + SETTLING_SECONDS)
    undo = read_undo(texts[0], location="outcome")
    now = world.cluster.clock.now()
    orders = rollback_orders(undo.changes, now=now, principal="me", reason="undo")
    world.apply(DESIRED, overrides=orders)
    assert world.cluster.truth == before


def test_nothing_is_sent_if_the_intents_cannot_be_logged():
    world = World(LIVE)

    def full(_):
        raise InventoryError("the disk is full")

    world.audit.append = full
    with pytest.raises(InventoryError, match="full"):
        world.apply(DESIRED)
    assert world.cluster.sent == []
    assert world.owned().intents == {}


def test_in_a_stream_an_outcome_takes_its_value_from_before_from_the_intent(tmp_path):
    path = tmp_path / "log"
    world = World(LIVE)
    with path.open("w") as stream:
        log = StreamAuditLog(stream)
        world.audit.append, world.audit.open_intents = log.append, log.open_intents
        for at in range(1, 24):
            if killed(world, at) and world.cluster.sent:
                break
        world.cluster.clock.advance(SENDING_SECONDS + SETTLING_SECONDS)
        world.apply(DESIRED)
    raw = [json.loads(line) for line in path.read_text().splitlines()]
    assert any("before" not in entry for entry in raw)
    settled = [
        entry
        for entry in entries_in(path)
        if entry.settled_at is not UNSET and (entry.entity, entry.key) == (parts(ALICE), str(RATE))
    ]
    assert [entry.after for entry in settled[-1:]] == [10]
