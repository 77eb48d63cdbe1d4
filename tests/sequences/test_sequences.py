"""Random sequences of whole commands end in the state that the model predicts; the comparison sees planted faults."""

import asyncio
from collections.abc import Iterator

import pytest

from tests.sequences.commands import COMMANDS, TEMPORARY, Command, check, disagreement
from tests.sequences.drivers import MemoryDriver


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    """One event loop for all sequences."""
    with asyncio.Runner() as running:
        yield running


@pytest.mark.parametrize("seeds", [range(300), range(300, 10_000)], ids=["first", "ten_thousand"])
def test_a_sequence_of_commands_ends_in_the_predicted_state(runner, seeds):
    check(lambda: MemoryDriver(runner), seeds)


def commands(*words: tuple[object, ...]) -> list[Command]:
    """Commands without options from their names and arguments."""
    return [Command(str(name), tuple(arguments)) for name, *arguments in words]


FOUND = {
    "a suspended document declares what a deleted one owns": commands(
        ("declare", "one", "alice", 2048.0, "Delete"),
        ("apply",),
        ("rename", "one", "two"),
        ("suspend", "two", True),
        ("apply",),
    ),
    "a document of another entity gets the name of a deleted one": commands(
        ("declare", "one", "alice", 2048.0, "Retain"),
        ("apply",),
        ("delete", "one"),
        ("apply",),
        ("declare", "one", "bob", 2048.0, "unset"),
        ("apply",),
    ),
    "a limit leaves the scope under CreateOnly": [
        *commands(("declare", "one", "bob", 2048.0, "Delete"), ("apply",)),
        *commands(("set_policy", "CreateOnly")),
        Command("set_scope", options=(("is_narrow", True),)),
        *commands(("apply",)),
        Command("set_scope", options=(("is_narrow", False),)),
        *commands(("set_policy", "Upsert"), ("apply",)),
    ],
}
"""What random sequences found, each once."""


@pytest.mark.parametrize("case", FOUND.values(), ids=FOUND)
def test_what_random_sequences_found_stays_corrected(runner, case):
    assert disagreement(MemoryDriver(runner), case) == ""


# ---- overrides and rollbacks -----------------------------------------------

TEMPORARY_CASES = {
    "A3: an override to the applied value is written where another writer changed it": commands(
        ("declare", "one", "alice", 4096.0, "unset"),
        ("apply",),
        ("write", "alice", 8192.0),
        ("override", "alice", 4096.0),
    ),
    "A8: a limit that was taken over belongs to nobody after a rollback": commands(
        ("write", "alice", 4096.0),
        ("declare", "one", "alice", 8192.0, "Delete"),
        ("apply",),
        ("roll_back",),
        ("delete", "one"),
        ("apply",),
        ("apply",),
    ),
    "a created limit is rolled back three times, and is gone with its document": commands(
        ("declare", "one", "alice", 4096.0, "unset"),
        ("apply",),
        *[("roll_back",)] * 3,
        ("delete", "one"),
        ("apply",),
    ),
    "the rollback of a rollback restores the record after its document was deleted": commands(
        ("declare", "one", "alice", 4096.0, "unset"),
        ("apply",),
        ("roll_back",),
        ("delete", "one"),
        ("apply",),
        ("roll_back",),
        ("end", "alice"),
    ),
    "what was below an override is below it again after the rollback of its end": commands(
        ("override", "bob", 8192.0),
        ("declare", "one", "bob", 4096.0, "unset"),
        ("end", "bob"),
        ("roll_back",),
        ("delete", "one"),
        ("end", "bob"),
    ),
    "A9: an override asks the policy": commands(
        ("declare", "one", "alice", 4096.0, "unset"),
        ("apply",),
        ("set_policy", "CreateOnly"),
        ("override", "alice", 8192.0),
    ),
    "A9: an override asks the scope": [
        *commands(("write", "bob", 4096.0)),
        Command("set_scope", options=(("is_narrow", True),)),
        *commands(("override", "bob", 8192.0)),
    ],
}


@pytest.mark.parametrize("case", TEMPORARY_CASES.values(), ids=TEMPORARY_CASES)
def test_a_temporary_limit_has_a_base(runner, case):
    assert disagreement(MemoryDriver(runner), case) == ""


@pytest.mark.parametrize("seeds", [range(300), range(300, 10_000)], ids=["first", "ten_thousand"])
def test_a_sequence_with_temporary_limits_ends_in_the_predicted_state(runner, seeds):
    check(lambda: MemoryDriver(runner), seeds, {**COMMANDS, **TEMPORARY})
