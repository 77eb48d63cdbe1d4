"""One audit line for each change that was sent or held, with the broker's own message."""

from reconciler.quota.ownership import IntentEnded, RecordDropped
from reconciler.quota.results.report import RunOrigin
from reconciler.reconcile.run_records import settled_pairs
from reconciler.render.terminal import outcome_text
from tests.fakes.cluster import LOST
from tests.reconcile.scenarios import ALICE, ANYONE, BOB, RATE, World, documents


def test_rejected_held_and_applied_changes_each_write_one_entry():
    world = World()
    world.cluster.faults.rejected[ALICE] = (42, "INVALID_REQUEST", "no\n")
    world.apply(
        documents({ALICE: {RATE: 10.0}, ANYONE: {RATE: 5.0}, BOB: {RATE: 6.0}}),
        origin=RunOrigin(author="ci", commit="abc", tool_version="1"),
    )
    lines = {line.entity[0][1]: line for line in world.audit.entries}
    assert (lines["alice"].outcome, lines["alice"].note) == (
        "REJECTED",
        "INVALID_REQUEST: no\n",
    )
    assert (lines[None].outcome, lines[None].note) == ("HELD", "waits for user=alice")
    assert (lines["bob"].outcome, lines["bob"].visibility, lines["bob"].observed_value) == (
        "APPLIED",
        "visible",
        6,
    )
    assert {(line.author, line.commit) for line in lines.values()} == {("ci", "abc")}
    assert lines["bob"].document.startswith("team/")
    assert lines["bob"].time.endswith("Z")


def test_a_change_that_waits_for_its_own_earlier_write_shows_this_reason():
    world = World()
    world.cluster.faults.unknown[BOB] = LOST
    world.apply(documents({BOB: {RATE: 6.0}}))
    lost = world.audit.entries[-1]
    assert (lost.outcome, bool(lost.note)) == ("UNKNOWN", True)
    world.cluster.faults.unknown.clear()
    outcome = world.apply(documents({BOB: {RATE: 7.0}}))
    assert [pair.status_text for pair in outcome.pairs] == ["HELD"]
    last = world.audit.entries[-1]
    assert last.note == "waits for an earlier write of its own that may still land (up to 65 s)"
    assert "user=bob" not in outcome_text(outcome).partition("waits for")[2]


def test_an_intent_that_ended_is_not_called_applied():
    settled = [RecordDropped(entity=ALICE, key=RATE), IntentEnded(entity=BOB, key=RATE)]
    assert [outcome for _, outcome in settled_pairs(settled)] == ["APPLIED", "NOT LANDED"]
