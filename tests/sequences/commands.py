"""Random sequences of whole commands, run by a driver and compared with the model after each; failures are shrunk."""

import random
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from tests.sequences import model
from tests.sequences.model import POLICIES, WIDER, Pair, State

NAMES = ("one", "two", "three")
VALUES = (2048.0, 4096.0, 8192.0)
DELETIONS = ("unset", "Delete", "Retain")
LENGTH = 20


class Seen(NamedTuple):
    """What can be observed of a limit: its live value, and the record's value, document and orphan mark."""

    live: float | None
    record: tuple[float, str, bool] | None


class Driver(Protocol):
    """Runs commands on a cluster."""

    def run(self, command: "Command", state: State) -> None:
        """Run a command; refusals are part of its result.

        Args:
            state: The state that the model predicts for after it; its documents and rules are the project's.
        """
        ...

    def limits(self) -> Mapping[str, Seen]:
        """The limits as they are."""
        ...


class Command(NamedTuple):
    """A command: a function of the model, and its arguments."""

    name: str
    arguments: tuple[object, ...] = ()
    options: tuple[tuple[str, object], ...] = ()

    def __str__(self) -> str:
        words = [*map(repr, self.arguments), *(f"{key}={value!r}" for key, value in self.options)]
        return f"{self.name}({', '.join(words)})"

    def predict(self, state: State) -> State:
        """Return the state after it."""
        predicted: State = getattr(model, self.name)(state, *self.arguments, **dict(self.options))
        return predicted


Draw = Callable[[random.Random], Command]


def _command(name: str, *choices: Sequence[object], **options: Sequence[object]) -> Draw:
    def draw(dice: random.Random) -> Command:
        arguments = tuple(dice.choice(values) for values in choices)
        named = tuple((key, dice.choice(values)) for key, values in options.items())
        return Command(name, arguments, named)

    return draw


SUBJECTS = tuple(WIDER)
COMMANDS: Mapping[Draw, int] = {
    _command("declare", NAMES, SUBJECTS, VALUES, DELETIONS): 8,
    _command("suspend", NAMES, (True, True, False)): 2,
    _command("rename", NAMES, NAMES): 1,
    _command("delete", NAMES): 2,
    _command("set_policy", tuple(POLICIES) * 2 + ("Sync",)): 2,
    _command("set_scope", is_narrow=(True, False)): 1,
    _command("write", SUBJECTS, (None, *VALUES)): 4,
    _command("apply", corrects=(False, False, True)): 8,
    _command("correct"): 2,
    _command("save_plan"): 1,
    _command("apply_saved"): 2,
}
"""Commands, and how often each is drawn."""
TEMPORARY: Mapping[Draw, int] = {
    _command("override", SUBJECTS, (None, *VALUES)): 4,
    _command("end", SUBJECTS): 3,
    _command("roll_back"): 3,
}


def sequence(seed: int, commands: Mapping[Draw, int] = COMMANDS) -> list[Command]:
    """Return the sequence of a seed."""
    dice = random.Random(seed)
    return [draw(dice) for draw in dice.choices(list(commands), list(commands.values()), k=LENGTH)]


def expected(pair: Pair) -> Seen:
    """What the model says can be observed of a limit; under a temporary limit only its value."""
    record = pair.record
    if record is None or pair.temporary is not None:
        return Seen(pair.live, None)
    return Seen(pair.live, (record.applied, record.document, record.is_orphan))


def disagreement(driver: Driver, commands: Sequence[Command]) -> str:
    """Run a sequence; return its commands and the first difference as lines, or "" if the model predicts everything."""
    state = State()
    for number, command in enumerate(commands, start=1):
        state = command.predict(state)
        driver.run(command, state)
        limits = driver.limits()
        for subject, pair in state.pairs.items():
            real = limits[subject]
            if pair.temporary is not None:
                real = real._replace(record=None)
            if real != expected(pair):
                lines = [str(earlier) for earlier in commands[:number]]
                return "\n".join([*lines, f"{subject}: is {real}, predicted {expected(pair)}"])
    return ""


def check(
    driver: Callable[[], Driver], seeds: Sequence[int], commands: Mapping[Draw, int] = COMMANDS
) -> None:
    """Run the sequences of some seeds.

    Raises:
        AssertionError: One ends in another state than the model predicts; the message has the shrunk sequence.
    """
    for seed in seeds:
        drawn = sequence(seed, commands)
        if disagreement(driver(), drawn):
            raise AssertionError(f"seed {seed}:\n{shrunk(driver, drawn)}")


def shrunk(driver: Callable[[], Driver], commands: list[Command]) -> str:
    """Return the disagreement of a shortest sequence, from which no command can be left out."""
    failing, place = commands, 0
    while place < len(failing):
        shorter = failing[:place] + failing[place + 1 :]
        if disagreement(driver(), shorter):
            failing, place = shorter, 0
        else:
            place += 1
    return disagreement(driver(), failing)
