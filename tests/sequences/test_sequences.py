"""Random sequences of whole commands end in the state that the model predicts; the comparison sees planted faults."""

import asyncio
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from reconciler.quota.ownership import Pair
from reconciler.quota.planner.desired_state import DesiredState
from reconciler.quota.results.report import Reconciliation
from reconciler.reconcile import ReconcileOptions
from tests.cli.brokers import ONE_BROKER, SandboxThread
from tests.sequences.commands import COMMANDS, TEMPORARY, Command, check, disagreement
from tests.sequences.drivers import KEY, CommandLineDriver, MemoryDriver
from tests.sequences.model import State


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    """One event loop for all sequences."""
    with asyncio.Runner() as running:
        yield running


@pytest.mark.parametrize("seeds", [range(300), range(300, 10_000)], ids=["first", "ten_thousand"])
def test_a_sequence_of_commands_ends_in_the_predicted_state(runner, seeds):
    check(lambda: MemoryDriver(runner), seeds)


def test_a_sequence_of_command_lines_ends_in_the_predicted_state(tmp_path, monkeypatch):
    with SandboxThread() as sandbox:
        port = int(sandbox.bootstrap.rpartition(":")[2])
        cluster_id = ONE_BROKER.cluster_id
        check(CommandLineDriver.factory(tmp_path, monkeypatch, port, cluster_id), range(20))


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


# ---- planted faults ---------------------------------------------------------------------------


class CorrectsEverything(MemoryDriver):
    """A correction writes every declared limit, also where the declaration changed since."""

    def corrected_pairs(self, observed: Reconciliation) -> frozenset[Pair]:
        return frozenset((subject, KEY) for subject in self.desired.limits)


class IgnoresScope(MemoryDriver):
    """Sync removes outside the scope."""

    def options_of(self, state: State) -> ReconcileOptions:
        options = super().options_of(state)
        return replace(options, rules=replace(options.rules, scope=()))


class SyncsUnconfirmed(MemoryDriver):
    """Sync needs no confirmation."""

    def options_of(self, state: State) -> ReconcileOptions:
        options = super().options_of(state)
        return replace(options, rules=replace(options.rules, sync_confirmed=True))


class AppliesStalePlans(MemoryDriver):
    """A saved plan is applied whatever changed since."""

    async def apply_saved(self) -> None:
        if self.saved is not None:
            await self.apply()


class ForgetsSuspension(MemoryDriver):
    """A suspended document counts as one that was deleted."""

    def desired_of(self, state: State) -> DesiredState:
        documents = {name: item for name, item in state.documents.items() if not item.is_suspended}
        return super().desired_of(replace(state, documents=documents))


FAULTS = [CorrectsEverything, IgnoresScope, SyncsUnconfirmed, AppliesStalePlans, ForgetsSuspension]


@pytest.mark.parametrize("fault", FAULTS)
def test_the_comparison_sees_a_planted_fault(runner, fault):
    with pytest.raises(AssertionError, match="predicted"):
        check(lambda: fault(runner), range(300))


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
